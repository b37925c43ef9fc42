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

#include <stdbool.h>

#include "calls.inc"
#include "quick.inc"
#include "tensor_base.inc"
