/* Declarations for cffi beside ag_api.h: what only the Python module has (see preamble.c). */

/* Called once at import: lets other Python threads run during long work. */
void agpy_init(void);
/* A tensor over memory of a Python object, which is kept alive (owner is its id()) until the tensor's
 * storage goes. */
ag_tensor *agpy_from_object(int ndim, const int64_t *shape, const int64_t *strides, int dtype, uintptr_t data, uintptr_t owner);
/* Short forms of hot calls: without position; one operand and n <= 4 ints; in place. */
ag_tensor *agpy_call1(int op, ag_tensor *a);
ag_tensor *agpy_call2(int op, ag_tensor *a, ag_tensor *b);
ag_tensor *agpy_call1i(int op, ag_tensor *a, int n, int64_t i0, int64_t i1, int64_t i2, int64_t i3, uintptr_t code, int lasti);
int agpy_inplace2(int op, ag_tensor *a, ag_tensor *b, uintptr_t code, int lasti);
int agpy_backward(ag_tensor *root, int retain_graph, int create_graph);
/* The single element; a failure gives NaN or INT64_MIN and is told from such values by asking again
 * through ag_tensor_item. */
double agpy_item(ag_tensor *t);
int64_t agpy_item_int(ag_tensor *t);
/* ag_plan_run of a plan without inputs and with one output; NULL on failure (see ag_last_status). */
ag_tensor *agpy_run1(ag_plan *p);
/* The hot calls, at offset lasti of the code named by agpy_here: one number less to hand over. */
void agpy_here(uintptr_t code);
ag_tensor *agpy_at1(int op, ag_tensor *a, int lasti);
ag_tensor *agpy_at2(int op, ag_tensor *a, ag_tensor *b, int lasti);
ag_tensor *agpy_at2s(int op, ag_tensor *a, double b, int rev, int lasti);
ag_tensor *agpy_at2i(int op, ag_tensor *a, int64_t b, int rev, int lasti);
/* Puts the C versions of class Tensor's everyday attributes and methods over the Python ones (see quick.inc).  Each
 * uintptr_t is the id() of an object that lives as long as the module: the class, class Size, the tuple of dtypes by code, cffi's
 * type of a handle; then a bare Tensor and any object, with which the class's slots are found.  -1: left as they were. */
int agpy_quick(uintptr_t tensor, uintptr_t size, uintptr_t dtypes, uintptr_t handle, uintptr_t probe, uintptr_t value, int basicsize);
/* Whether subscripts hand over the caller's position. */
void agpy_tracking(int on);
