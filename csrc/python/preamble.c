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
