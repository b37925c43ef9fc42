/* ag_api.h: every public function of autograd_c, in C that cffi's cdef reads as it stands.
 *
 * Include autograd_c.h, not this file.
 *
 * Status.     Functions that can fail return int: 0 (AG_OK) or a negative code of ag_status.inc;
 *             makers return a new object or NULL.  The text of the calling thread's latest
 *             failure is ag_last_error(), its code ag_last_status().  Nothing here aborts,
 *             prints or exits; after a failure every operand is as it was.
 * Ownership.  "new" in a comment: the caller owns one reference and gives it back with the
 *             matching _release.  "borrowed": lives as long as the object it was asked of.
 *             Inputs are never consumed.  A NULL argument to a _release is allowed.
 * Threads.    Reference counts are atomic; different threads may use different tensors freely,
 *             and read the same tensor.  Writing one tensor from two threads needs the caller's
 *             lock.  Grad mode, the error text, the running trace and the source position are
 *             per thread.
 * Dims.       At most AG_MAX_NDIM; shapes and strides count elements, not bytes.  Strides may be
 *             zero (broadcast) or negative. */

/* ---- types ------------------------------------------------------------------------------- */

typedef struct ag_tensor ag_tensor;   /* a value with its place in the dynamic graph */
typedef struct ag_node ag_node;       /* one recorded operation of the dynamic graph */
typedef struct ag_storage ag_storage; /* the memory behind one or more tensors */
typedef struct ag_trace ag_trace;     /* a recording in progress */
typedef struct ag_plan ag_plan;       /* a frozen program, ready to replay */

/* Element types, in promotion order: mixing two gives the later one. */
enum { AG_BOOL = 0, AG_UINT8 = 1, AG_INT32 = 2, AG_INT64 = 3, AG_FLOAT32 = 4, AG_FLOAT64 = 5, AG_NDTYPE = 6 };

/* Status codes: texts and Python classes stand in base/ag_status.inc. */
enum {
  AG_OK = 0, AG_ERR_RUNTIME = -1, AG_ERR_INDEX = -2, AG_ERR_VALUE = -3, AG_ERR_TYPE = -4,
  AG_ERR_MEMORY = -5, AG_ERR_NOT_IMPLEMENTED = -6, AG_ERR_TRACED = -7, AG_ERR_RETRACE = -8,
  AG_ERR_LINALG = -9
};

enum { AG_MAX_NDIM = 12, AG_PARAM_INTS = 56, AG_PARAM_FLOATS = 8 };

/* Attributes of an op call: dims, sizes and flags in i, numbers in f; ops/op.h lists them per op. */
typedef struct ag_params {
  int32_t ni, nf;
  int64_t i[56];
  double f[8];
} ag_params;

/* ---- library ----------------------------------------------------------------------------- */

const char *ag_version(void);       /* "major.minor.patch", borrowed for ever */
const char *ag_build_info(void);    /* compiler, BLAS, instruction set in use; borrowed for ever */
const char *ag_cpu_isa(void);       /* "avx512", "avx2", "neon" or "base": the kernels in use */
const char *ag_last_error(void);    /* borrowed until this thread's next failure; "" when none */
int ag_last_status(void);           /* code of this thread's latest failure */

/* Live objects and totals of the process.  Each is exact when no other thread is inside the library. */
typedef struct ag_counters {
  int64_t tensors, nodes, storages; /* alive now */
  int64_t bytes, peak_bytes;        /* of storages: now, and the most since ag_counters_reset */
  int64_t graphs_built;             /* backward walks over a freshly recorded graph */
  int64_t nodes_built;              /* nodes ever recorded */
  int64_t allocations;              /* calls to the system's allocator */
  int64_t replays;                  /* runs of frozen plans */
} ag_counters;
void ag_counters_get(ag_counters *out);
void ag_counters_reset_peak(void);
/* Gives cached free memory back to the system. */
void ag_cache_trim(void);
/* Tests only: let the k-th allocation from now fail (k = 1 is the next); 0 switches off. */
void ag_test_fail_alloc(int64_t k);
/* Tests only: work counts divisor times its size where it is asked whether threads pay; 1 switches off.  Not while
 * another thread is inside the library. */
void ag_test_grain(int64_t divisor);

/* Called around work long enough to let other threads of the host language run (Python's
 * interpreter lock).  begin returns a token for end.  Process-wide; set once, before other calls. */
void ag_blocking_hooks(void *(*begin)(void), void (*end)(void *));

/* Threads inside an operation: large work is cut into pieces for a pool of threads, which is started when first
 * needed.  The bits of every result are the same for any number.  n counts the caller (1: no pool); process-wide, and
 * may change at any time.  Default: AUTOGRAD_C_NUM_THREADS, or the cores this process may use.  Fails with
 * AG_ERR_RUNTIME for n < 1; builds without threads know 1 only.  The pool serves one caller at a time: other threads
 * that call meanwhile work alone.  A child made by fork has a pool of its own. */
int ag_set_num_threads(int n);
int ag_get_num_threads(void);

/* ---- source positions -------------------------------------------------------------------- */
/* A position is a code id (any nonzero number naming a piece of source; Python passes the address
 * of the code object) and an offset in it.  Each id is described once; nodes keep position, not text. */

/* Describe id: file and function names (copied) and n pairs (first offset, line), ascending.
 * internal != 0 marks library code: positions in it are replaced by the thread's pushed one. */
int ag_site_register(uintptr_t code, const char *file, const char *func, int internal, int n, const int32_t *offset_line);
int ag_site_known(uintptr_t code); /* 0: not described, 1: a user's, 2: library code */
/* The thread's current position, recorded by the nodes that follow; code 0 clears. */
void ag_site_set(uintptr_t code, int lasti);
/* "file.py:12 in train_step" for a node or "" when unknown; borrowed until the next call in this thread. */
const char *ag_node_site(ag_node *n);
/* File and line of the node; 0 when known. */
int ag_node_line(ag_node *n, const char **file, const char **func, int *line);

/* ---- tensors ----------------------------------------------------------------------------- */

/* New tensors.  shape: ndim sizes.  Leaves without grad. */
ag_tensor *ag_empty(int ndim, const int64_t *shape, int dtype);
ag_tensor *ag_full(int ndim, const int64_t *shape, int dtype, double value);
ag_tensor *ag_full_int(int ndim, const int64_t *shape, int dtype, int64_t value);
ag_tensor *ag_scalar(double value, int dtype);
ag_tensor *ag_from_data(int ndim, const int64_t *shape, int dtype, const void *data); /* copies */
/* Wraps memory the caller keeps valid until free_fn(ctx) is called (free_fn may be NULL). */
ag_tensor *ag_from_memory(int ndim, const int64_t *shape, const int64_t *strides, int dtype, void *data,
                          void (*free_fn)(void *), void *ctx);
ag_tensor *ag_arange(double start, double step, int64_t n, int dtype);

void ag_tensor_retain(ag_tensor *t);
void ag_tensor_release(ag_tensor *t);

int ag_tensor_ndim(const ag_tensor *t);
int ag_tensor_dtype(const ag_tensor *t);
int64_t ag_tensor_numel(const ag_tensor *t);
const int64_t *ag_tensor_shape(const ag_tensor *t);   /* borrowed, ndim numbers */
const int64_t *ag_tensor_strides(const ag_tensor *t); /* borrowed, ndim numbers */
int64_t ag_tensor_offset(const ag_tensor *t);         /* first element, in elements of the storage */
int ag_tensor_contiguous(const ag_tensor *t);
int64_t ag_tensor_version(const ag_tensor *t);        /* writes in place so far */
/* All of the above in one call (for bindings): shape and strides need room for AG_MAX_NDIM. */
typedef struct ag_info {
  int32_t dtype, ndim, contiguous, requires_grad, is_leaf, retains_grad, is_view, output_nr;
  int64_t numel, offset, version;
  int64_t shape[12], strides[12];
} ag_info;
void ag_tensor_info(const ag_tensor *t, ag_info *out);
/* First element; the data may be read and written (then call ag_tensor_bump).  Fails with
 * AG_ERR_TRACED inside a trace. */
void *ag_tensor_data(ag_tensor *t);
/* Address only, for identity checks; never fails. */
const void *ag_tensor_ptr(const ag_tensor *t);
void ag_tensor_bump(ag_tensor *t);
ag_storage *ag_tensor_storage(ag_tensor *t); /* new */
void ag_storage_release(ag_storage *s);
/* The single element as a number. */
int ag_tensor_item(ag_tensor *t, double *out);
int ag_tensor_item_int(ag_tensor *t, int64_t *out);
/* Copies numel elements, in row-major order, as the tensor's dtype. */
int ag_tensor_read(ag_tensor *t, void *out);
int ag_tensor_write(ag_tensor *t, const void *in); /* bumps the version */

/* ---- the dynamic graph -------------------------------------------------------------------- */

int ag_tensor_requires_grad(const ag_tensor *t);
int ag_tensor_set_requires_grad(ag_tensor *t, int on);
int ag_tensor_is_leaf(const ag_tensor *t);
int ag_tensor_retain_grad(ag_tensor *t);
ag_tensor *ag_tensor_grad(ag_tensor *t);             /* borrowed or NULL */
int ag_tensor_set_grad(ag_tensor *t, ag_tensor *g);  /* g NULL clears; checks shape and dtype */
ag_node *ag_tensor_grad_fn(ag_tensor *t);            /* new, or NULL for a leaf */
ag_node *ag_tensor_acc_node(ag_tensor *t);           /* new: the AccumulateGrad node of a leaf */
ag_tensor *ag_tensor_detach(ag_tensor *t);           /* new: the same memory, no history */
int ag_tensor_detach_(ag_tensor *t);
/* t takes over the memory and shape of src (x.data = src). */
int ag_tensor_set_data(ag_tensor *t, ag_tensor *src);
ag_tensor *ag_tensor_base(ag_tensor *t);             /* borrowed: what t is a view of, or NULL */

int ag_grad_enabled(void);
int ag_grad_set_enabled(int on); /* returns the former mode */

/* Runs the graph backward from n roots with the given seeds (seeds or seeds[i] NULL: ones, roots of
 * one element only), adding into the .grad of every leaf, or of the n_inputs tensors when n_inputs > 0. */
int ag_backward(int n, ag_tensor *const *roots, ag_tensor *const *seeds, int retain_graph, int create_graph,
                int n_inputs, ag_tensor *const *inputs);
/* The functional form: grads[i] is new, or NULL where inputs[i] was not reached (an error unless allow_unused). */
int ag_grad(int n, ag_tensor *const *roots, ag_tensor *const *seeds, int n_inputs, ag_tensor *const *inputs,
            int retain_graph, int create_graph, int allow_unused, ag_tensor **grads);
/* Whether backward from the roots would reach a leaf that is none of own: 1 or 0.  Tells a caller who made the leaves
 * `own` for one derivative whether anybody else could want to differentiate that once more. */
int ag_reaches_others(int n, ag_tensor *const *roots, int n_own, ag_tensor *const *own);

void ag_node_retain(ag_node *n);
void ag_node_release(ag_node *n);
const char *ag_node_name(const ag_node *n);  /* "MulBackward0"; borrowed for ever */
int ag_node_op(const ag_node *n);            /* row number, -1 for AccumulateGrad */
int64_t ag_node_seq(const ag_node *n);
int ag_node_n_inputs(const ag_node *n);
ag_node *ag_node_next(ag_node *n, int k, int *output_nr); /* new, or NULL where no gradient flows */
ag_tensor *ag_node_variable(ag_node *n);     /* new: the leaf of an AccumulateGrad node, else NULL */
/* Saved values: names as PyTorch's without the "_saved_" prefix. */
int ag_node_n_saved(const ag_node *n);
const char *ag_node_saved_name(const ag_node *n, int k);
ag_tensor *ag_node_saved(ag_node *n, int k); /* new; fails when released or stale */
const ag_params *ag_node_params(const ag_node *n); /* borrowed */

/* ---- operations ---------------------------------------------------------------------------- */

int ag_op_count(void);
const char *ag_op_name(int op);
int ag_op_find(const char *name); /* row number or -1 */
/* What a row says of itself: kind ("unary", ...), inputs (-1: any number), outputs, flags, texts.
 * tensors_only: bit k: a binding's function refuses a plain number as input k. */
typedef struct ag_op_info {
  const char *name, *grad_name, *kind, *kernel_text, *grad_text[3];
  int32_t n_in, n_out, n_params, differentiable, in_place, random, mutates, tensors_only;
  double lo, hi; /* test domain of the inputs */
} ag_op_info;
int ag_op_describe(int op, ag_op_info *out);

/* The general call: outs receives row.n_out new tensors.  p may be NULL. */
int ag_apply(int op, int n_in, ag_tensor *const *in, const ag_params *p, ag_tensor **outs);
/* The same with the result written into in[0] (ops whose row allows it). */
int ag_apply_inplace(int op, int n_in, ag_tensor *const *in, const ag_params *p);

/* Short forms for bindings and for C: one output, NULL on failure.  code/lasti: the caller's source
 * position (0, 0: none); an unknown code fails with AG_ERR_TYPE and the text "unknown site". */
ag_tensor *ag_call1(int op, ag_tensor *a, uintptr_t code, int lasti);
ag_tensor *ag_call2(int op, ag_tensor *a, ag_tensor *b, uintptr_t code, int lasti);
/* The second operand (rev: the first) is a plain number, whose dtype gives way to a's. */
ag_tensor *ag_call2s(int op, ag_tensor *a, double b, int rev, uintptr_t code, int lasti);
ag_tensor *ag_call2i(int op, ag_tensor *a, int64_t b, int rev, uintptr_t code, int lasti);
ag_tensor *ag_calln(int op, int n_in, ag_tensor *const *in, int n_int, const int64_t *ints, int n_float,
                    const double *floats, uintptr_t code, int lasti);
int ag_call_inplace(int op, int n_in, ag_tensor *const *in, int n_int, const int64_t *ints, int n_float,
                    const double *floats, uintptr_t code, int lasti);
/* a op= number. */
int ag_call_inplace_s(int op, ag_tensor *a, double b, uintptr_t code, int lasti);
int ag_calln_multi(int op, int n_in, ag_tensor *const *in, int n_int, const int64_t *ints, int n_float,
                   const double *floats, uintptr_t code, int lasti, ag_tensor **outs);

int ag_default_dtype(void);
int ag_set_default_dtype(int dtype); /* AG_FLOAT32 or AG_FLOAT64 */
int ag_promote(int a, int b);
const char *ag_dtype_name(int dtype);
int ag_dtype_size(int dtype);

/* ---- random numbers ------------------------------------------------------------------------ */
/* A generator is an int64 tensor of two elements, seed and counter (Philox 4x32-10). */
int ag_manual_seed(uint64_t seed);
ag_tensor *ag_default_generator(void); /* borrowed */

/* ---- optimizers: one call for all parameters of a group ------------------------------------- */
/* params with .grad NULL are skipped.  state tensors are read and written in place. */
int ag_sgd_step(int n, ag_tensor *const *params, ag_tensor *const *momentum_buffers, ag_tensor *lr, double momentum,
                double dampening, double weight_decay, int nesterov, int maximize);
int ag_adam_step(int n, ag_tensor *const *params, ag_tensor *const *exp_avg, ag_tensor *const *exp_avg_sq,
                 ag_tensor *const *steps, ag_tensor *lr, double beta1, double beta2, double eps, double weight_decay,
                 int decoupled, int maximize);

/* ---- static graphs -------------------------------------------------------------------------- */
/* A trace records every operation of this thread until it ends; inputs are rebound at each replay,
 * any other tensor met is bound by reference. */
ag_trace *ag_trace_begin(int n_inputs, ag_tensor *const *inputs); /* NULL when one is running */
/* Ends the trace: outputs become the plan's results.  flags: passes to leave out (bit i = pass i). */
ag_plan *ag_trace_end(ag_trace *tr, int n_outputs, ag_tensor *const *outputs, uint64_t flags);
void ag_trace_abort(ag_trace *tr);
int ag_tracing(void);

void ag_plan_retain(ag_plan *p);
void ag_plan_release(ag_plan *p);
/* Replays: inputs as traced in dtype and shape; outs receives new tensors.  AG_ERR_RETRACE when a bound
 * tensor changed its memory, shape or gradient state since the trace; then nothing has been done. */
int ag_plan_run(ag_plan *p, int n_inputs, ag_tensor *const *inputs, ag_tensor **outs);
int ag_plan_n_inputs(const ag_plan *p);
int ag_plan_n_outputs(const ag_plan *p);
/* Facts of a plan; see freeze/plan.h. */
typedef struct ag_plan_info {
  int64_t traced, instructions, fused_groups, fused_ops, removed_dead, removed_cse, folded, in_place;
  int64_t arena_bytes, lower_bound_bytes, bound, inputs, outputs, kernels_per_run;
  int64_t flops, bytes_moved, replays;
} ag_plan_info;
void ag_plan_get_info(const ag_plan *p, ag_plan_info *out);
/* The program as text, one instruction a line with shapes and source line; new string, free with ag_free. */
char *ag_plan_text(const ag_plan *p);
void ag_free(void *text);
int ag_pass_count(void);
const char *ag_pass_name(int k);
