/* Declarations for cffi beside ag_api.h: what only the Python module has (see preamble.c). */

/* Called once at import: lets other Python threads run during long work. */
void agpy_init(void);
/* A tensor over memory of a Python object, which is kept alive (owner is its id()) until the tensor's
 * storage goes. */
ag_tensor *agpy_from_object(int ndim, const int64_t *shape, const int64_t *strides, int dtype, uintptr_t data, uintptr_t owner);
/* class TensorBase and functions of the core, put into a dict (its id()); pointer_type: id() of cffi's type ag_tensor *.
 * Once, at import; -1 on failure. */
int agpy_types(uintptr_t dict, uintptr_t pointer_type);
/* What these need from Python, in a dict: Tensor, Size, dtypes (a tuple by code), OPS, and functions for what is rare:
 * fail, wrong_kind, describe, binary, inplace, matmul, pow, not_a_tensor.  Kept for good; they
 * may come in several calls.  -1 when a name means nothing here. */
int agpy_bind(uintptr_t dict);
/* From now on the C versions of Tensor's everyday attributes and methods stand before the Python ones, which are taken out of
 * the class and kept for what is rare (see quick.inc).  -1 and an exception when one is missing. */
int agpy_quick(void);
/* Whether nodes keep the caller's source position. */
void agpy_track(int on);
/* Backward from one root without a gradient of its own. */
int agpy_backward(ag_tensor *root, int retain_graph, int create_graph);
/* The single element; a failure gives NaN or INT64_MIN and is told from such values by asking again
 * through ag_tensor_item. */
double agpy_item(ag_tensor *t);
int64_t agpy_item_int(ag_tensor *t);
/* ag_plan_run of a plan without inputs and with one output; NULL on failure (see ag_last_status). */
ag_tensor *agpy_run1(ag_plan *p);
