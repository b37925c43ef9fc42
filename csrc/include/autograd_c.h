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

/* Row numbers of the op table: AG_OP_add, AG_OP_tanh, ... */
enum ag_op {
#define EW1(name, ...) AG_OP_##name,
#define EW2 EW1
#define EW3 EW1
#define CMP1 EW1
#define CMP2 EW1
#define SEL3 EW1
#define FN EW1
#include "ag_ops.inc"
  AG_OP_COUNT,
  AG_OP_ACCUMULATE = -1 /* the node at a leaf; not a row */
};

/* One function per elementwise row; rows with numbers P(0).. are called through ag_calln. */
#define EW1(name, ...) \
  static inline ag_tensor *ag_##name(ag_tensor *a) { return ag_call1(AG_OP_##name, a, 0, 0); }
#define CMP1 EW1
#define EW2(name, ...) \
  static inline ag_tensor *ag_##name(ag_tensor *a, ag_tensor *b) { return ag_call2(AG_OP_##name, a, b, 0, 0); }
#define CMP2 EW2
#define EW3(name, ...)                                                                    \
  static inline ag_tensor *ag_##name(ag_tensor *a, ag_tensor *b, ag_tensor *c) {          \
    ag_tensor *const in[3] = {a, b, c};                                                   \
    return ag_calln(AG_OP_##name, 3, in, 0, (const int64_t *)0, 0, (const double *)0, 0, 0); \
  }
#define SEL3 EW3
#include "ag_ops.inc"

/* The everyday ones among the named functions. */
static inline ag_tensor *ag_mm(ag_tensor *a, ag_tensor *b) { return ag_call2(AG_OP_mm, a, b, 0, 0); }
static inline ag_tensor *ag_sum(ag_tensor *a) { return ag_call1(AG_OP_sum, a, 0, 0); }   /* over all dims */
static inline ag_tensor *ag_mean(ag_tensor *a) { return ag_call1(AG_OP_mean, a, 0, 0); }
static inline ag_tensor *ag_t(ag_tensor *a) { return ag_call1(AG_OP_t, a, 0, 0); }
static inline ag_tensor *ag_clone(ag_tensor *a) { return ag_call1(AG_OP_clone, a, 0, 0); }

#ifdef __cplusplus
}
#endif
#endif
