/* Put before cffi's generated functions. */
#include "autograd_c.h"
#include "preamble.h"

/* cffi would release the interpreter lock and save errno around every call, which costs more than a
 * small op.  Calls here are short; the core itself calls the hooks below around long work. */
#undef Py_BEGIN_ALLOW_THREADS
#undef Py_END_ALLOW_THREADS
#define Py_BEGIN_ALLOW_THREADS {
#define Py_END_ALLOW_THREADS }
#undef _cffi_restore_errno
#undef _cffi_save_errno
#define _cffi_restore_errno() ((void)0)
#define _cffi_save_errno() ((void)0)

static void *agpy_begin(void) { return (void *)PyEval_SaveThread(); }
static void agpy_end(void *token) { PyEval_RestoreThread((PyThreadState *)token); }

void agpy_init(void) { ag_blocking_hooks(agpy_begin, agpy_end); }

/* May run in any thread, with or without the interpreter lock. */
static void agpy_decref(void *object)
{
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject *)object);
  PyGILState_Release(state);
}

ag_tensor *agpy_from_object(int ndim, const int64_t *shape, const int64_t *strides, int dtype, uintptr_t data, uintptr_t owner)
{
  ag_tensor *t = ag_from_memory(ndim, shape, strides, dtype, (void *)data, agpy_decref, (void *)owner);
  if (t) Py_INCREF((PyObject *)owner);
  return t;
}

ag_tensor *agpy_call1(int op, ag_tensor *a) { return ag_call1(op, a, 0, 0); }

ag_tensor *agpy_call2(int op, ag_tensor *a, ag_tensor *b) { return ag_call2(op, a, b, 0, 0); }

ag_tensor *agpy_call1i(int op, ag_tensor *a, int n, int64_t i0, int64_t i1, int64_t i2, int64_t i3, uintptr_t code, int lasti)
{
  int64_t ints[4] = {i0, i1, i2, i3};
  return ag_calln(op, 1, &a, n, ints, 0, NULL, code, lasti);
}

int agpy_inplace2(int op, ag_tensor *a, ag_tensor *b, uintptr_t code, int lasti)
{
  ag_tensor *in[2] = {a, b};
  return ag_call_inplace(op, 2, in, 0, NULL, 0, NULL, code, lasti);
}

int agpy_backward(ag_tensor *root, int retain_graph, int create_graph)
{
  return ag_backward(1, &root, NULL, retain_graph, create_graph, 0, NULL);
}

double agpy_item(ag_tensor *t)
{
  double v;
  return ag_tensor_item(t, &v) < 0 ? Py_NAN : v;
}

int64_t agpy_item_int(ag_tensor *t)
{
  int64_t v;
  return ag_tensor_item_int(t, &v) < 0 ? INT64_MIN : v;
}

ag_tensor *agpy_run1(ag_plan *p)
{
  ag_tensor *out;
  return ag_plan_run(p, 0, NULL, &out) ? NULL : out;
}

/* Written and read under the interpreter lock (see _ffi.enter); in builds without one, threads that run different
 * code at the same time may mix up lines, nothing else. */
static uintptr_t here;

void agpy_here(uintptr_t code) { here = code; }
ag_tensor *agpy_at1(int op, ag_tensor *a, int lasti) { return ag_call1(op, a, here, lasti); }
ag_tensor *agpy_at2(int op, ag_tensor *a, ag_tensor *b, int lasti) { return ag_call2(op, a, b, here, lasti); }
ag_tensor *agpy_at2s(int op, ag_tensor *a, double b, int rev, int lasti) { return ag_call2s(op, a, b, rev, here, lasti); }
ag_tensor *agpy_at2i(int op, ag_tensor *a, int64_t b, int rev, int lasti) { return ag_call2i(op, a, b, rev, here, lasti); }

#include <stdbool.h>

#include "quick.inc"
