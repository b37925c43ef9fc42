/* autograd_c.h: the header a C or C++ program includes.
 *
 * It sets visibility and extern "C", brings in ag_api.h (every public declaration, plain enough
 * for cffi to read), and makes from the op table one inline function per elementwise op:
 * ag_add(a, b), ag_tanh(x), ... each returning a new tensor or NULL (see ag_last_error). */
#ifndef AUTOGRAD_C_H
#define AUTOGRAD_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define AG_API
#else
#define AG_API __attribute__((visibility("default")))
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif
#include "ag_api.h"
#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
