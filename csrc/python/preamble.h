/* Declarations for cffi beside ag_api.h: what only the Python module has (see preamble.c). */

/* Called once at import: lets other Python threads run during long work. */
void agpy_init(void);
/* A tensor over memory of a Python object, which is kept alive (owner is its id()) until the tensor's
 * storage goes. */
ag_tensor *agpy_from_object(int ndim, const int64_t *shape, const int64_t *strides, int dtype, uintptr_t data, uintptr_t owner);
