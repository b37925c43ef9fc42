/* capi.c: floor 10.  The functions of ag_api.h that are not defined where they belong below. */
#include "engine/engine.h"
#include "ops/exec.h"

#include <math.h>
#include <stdio.h>

/* ---- library ---- */

#ifndef AG_VERSION_STRING
#define AG_VERSION_STRING "0.0.0"
#endif

const char *ag_version(void) { return AG_VERSION_STRING; }
const char *ag_cpu_isa(void) { return ag__k->isa; }

const char *ag_build_info(void) {
  static char text[256];
  if (!text[0])
    snprintf(text, sizeof text, "autograd_c %s, %s, BLAS: %s, threads: %s, kernels: %s", AG_VERSION_STRING,
#if defined(__clang__)
             "clang " __clang_version__,
#else
             "gcc " __VERSION__,
#endif
#ifdef AG_HAVE_BLAS
             "OpenBLAS",
#else
             "none (built-in product)",
#endif
#ifdef AG_NO_THREADS
             "none",
#else
             "pthreads",
#endif
             ag__k->isa);
  return text;
}

/* ---- making tensors ---- */

static int check_shape(int ndim, const int64_t *shape, int dtype) {
  if (ndim < 0 || ndim > AG_MAX_NDIM)
    return ag__fail(AG_ERR_RUNTIME, "tensors have at most %d dimensions, but got %d", AG_MAX_NDIM, ndim);
  if (dtype < 0 || dtype >= AG_NDTYPE) return ag__fail(AG_ERR_TYPE, "no element type has the number %d", dtype);
  for (int k = 0; k < ndim; k++)
    if (shape[k] < 0) {
      char b[256];
      return ag__fail(AG_ERR_RUNTIME, "Trying to create tensor with negative dimension %lld: %s", (long long)shape[k],
                      ag__shape_text(ndim, shape, b, sizeof b));
    }
  return AG_OK;
}

ag_tensor *ag_empty(int ndim, const int64_t *shape, int dtype) {
  if (check_shape(ndim, shape, dtype)) return NULL;
  /* Inside a trace memory must come from an op, so that each replay has its own. */
  if (ag__recording()) return ag_full(ndim, shape, dtype, 0);
  return ag__tensor_wrap(ag__array_new(dtype, ndim, shape));
}

ag_tensor *ag_full(int ndim, const int64_t *shape, int dtype, double value) {
  if (check_shape(ndim, shape, dtype)) return NULL;
  ag_params p;
  p.ni = 1 + ndim;
  p.nf = 1;
  p.i[0] = dtype;
  if (ndim) memcpy(p.i + 1, shape, sizeof(int64_t) * (size_t)ndim);
  p.f[0] = value;
  return ag__apply1(AG_OP_full, 0, NULL, &p);
}

static ag_tensor *constant(ag_tensor *t) {
  if (t && ag__recording() && ag__thread.recorder->constant(ag__thread.recorder, t->arr)) {
    ag_tensor_release(t);
    return NULL;
  }
  return t;
}

ag_tensor *ag_full_int(int ndim, const int64_t *shape, int dtype, int64_t value) {
  if ((double)value == nearbyint((double)value) && (int64_t)(double)value == value && value > -(1LL << 53) && value < (1LL << 53))
    return ag_full(ndim, shape, dtype, (double)value);
  if (check_shape(ndim, shape, dtype)) return NULL;
  ag_tensor *t = ag__tensor_wrap(ag__array_new(dtype, ndim, shape));
  if (!t) return NULL;
  for (int64_t k = 0; k < t->arr->numel; k++) {
    if (dtype == AG_INT64) ((int64_t *)(void *)ag__data(t->arr))[k] = value;
    else ag__k->cast[AG_INT64][dtype](1, ag__data(t->arr) + k * ag__dtype_size(dtype), &value);
  }
  return constant(t);
}

ag_tensor *ag_scalar(double value, int dtype) {
  if (ag__recording()) return ag_full(0, NULL, dtype, value);
  ag_tensor *t = ag__tensor_wrap(ag__array_new(dtype, 0, NULL));
  if (!t) return NULL;
  void *d = ag__data(t->arr);
  if (dtype == AG_FLOAT32) *(float *)d = (float)value;
  else if (dtype == AG_FLOAT64) *(double *)d = value;
  else ag__k->cast[AG_FLOAT64][dtype](1, d, &value);
  return t;
}

static ag_tensor *scalar_int(int64_t value, int dtype) {
  if (ag__recording()) return ag_full_int(0, NULL, dtype, value);
  ag_tensor *t = ag__tensor_wrap(ag__array_new(dtype, 0, NULL));
  if (!t) return NULL;
  void *d = ag__data(t->arr);
  if (dtype == AG_FLOAT32) *(float *)d = (float)value;
  else if (dtype == AG_FLOAT64) *(double *)d = (double)value;
  else if (dtype == AG_INT64) *(int64_t *)d = value;
  else ag__k->cast[AG_INT64][dtype](1, d, &value);
  return t;
}

ag_tensor *ag_from_data(int ndim, const int64_t *shape, int dtype, const void *data) {
  if (check_shape(ndim, shape, dtype)) return NULL;
  ag_tensor *t = ag__tensor_wrap(ag__array_new(dtype, ndim, shape));
  if (!t) return NULL;
  if (t->arr->numel) memcpy(ag__data(t->arr), data, (size_t)t->arr->numel * (size_t)ag__dtype_size(dtype));
  return constant(t);
}

ag_tensor *ag_from_memory(int ndim, const int64_t *shape, const int64_t *strides, int dtype, void *data,
                          void (*free_fn)(void *), void *ctx) {
  if (check_shape(ndim, shape, dtype)) return NULL;
  int64_t own[AG_MAX_NDIM], lo = 0, hi = 0, numel = ag__numel(ndim, shape);
  if (!strides) {
    ag__strides_contiguous(ndim, shape, own);
    strides = own;
  }
  if (numel < 0) return ag__fail_null(AG_ERR_MEMORY, "the number of elements does not fit 64 bits");
  for (int k = 0; k < ndim && numel; k++) {
    int64_t d = (shape[k] - 1) * strides[k];
    if (d > 0) hi += d;
    else lo += d;
  }
  int size = ag__dtype_size(dtype);
  /* The storage begins at the lowest element, so that negative strides keep offsets positive. */
  size_t bytes = numel ? (size_t)(hi - lo + 1) * (size_t)size : 0;
  ag_storage *st = ag__storage_foreign((char *)data + lo * size, bytes, free_fn, ctx);
  if (!st) return NULL;
  ag_tensor *t = ag__tensor_wrap(ag__array_view(st, dtype, ndim, shape, strides, -lo));
  if (!t) st->free_fn = NULL; /* the caller keeps its memory on failure */
  ag_storage_release(st);
  return constant(t);
}

ag_tensor *ag_arange(double start, double step, int64_t n, int dtype) {
  if (check_shape(1, &n, dtype)) return NULL;
  ag_tensor *t = ag__tensor_wrap(ag__array_new(dtype, 1, &n));
  if (!t) return NULL;
  char *d = ag__data(t->arr);
  for (int64_t k = 0; k < n; k++) {
    double v = start + (double)k * step;
    if (dtype == AG_FLOAT32) ((float *)(void *)d)[k] = (float)v;
    else if (dtype == AG_FLOAT64) ((double *)(void *)d)[k] = v;
    else if (dtype == AG_INT64) ((int64_t *)(void *)d)[k] = (int64_t)start + k * (int64_t)step;
    else ag__k->cast[AG_FLOAT64][dtype](1, d + k * ag__dtype_size(dtype), &v);
  }
  return constant(t);
}

/* ---- asking ---- */

int ag_tensor_ndim(const ag_tensor *t) { return t->arr->ndim; }
int ag_tensor_dtype(const ag_tensor *t) { return t->arr->dtype; }
int64_t ag_tensor_numel(const ag_tensor *t) { return t->arr->numel; }
const int64_t *ag_tensor_shape(const ag_tensor *t) { return ag__shape(t->arr); }
const int64_t *ag_tensor_strides(const ag_tensor *t) { return ag__strides(t->arr); }
int64_t ag_tensor_offset(const ag_tensor *t) { return t->arr->offset; }
int ag_tensor_contiguous(const ag_tensor *t) { return t->arr->contiguous; }
int64_t ag_tensor_version(const ag_tensor *t) { return t->arr->st->version; }
const void *ag_tensor_ptr(const ag_tensor *t) { return ag__data(t->arr); }

void ag_tensor_info(const ag_tensor *t, ag_info *o) {
  const ag_array *a = t->arr;
  o->dtype = a->dtype;
  o->ndim = a->ndim;
  o->contiguous = a->contiguous;
  o->requires_grad = ag__requires_grad(t);
  o->is_leaf = t->fn == NULL;
  o->retains_grad = t->retains_grad;
  o->is_view = t->base != NULL;
  o->output_nr = (int32_t)t->out_nr;
  o->numel = a->numel;
  o->offset = a->offset;
  o->version = a->st->version;
  memcpy(o->shape, ag__shape(a), sizeof(int64_t) * a->ndim);
  memcpy(o->strides, ag__strides(a), sizeof(int64_t) * a->ndim);
}

void *ag_tensor_data(ag_tensor *t) { return ag__check_read(t->arr, "the memory of") ? NULL : ag__data(t->arr); }

void ag_tensor_bump(ag_tensor *t) {
  t->arr->st->version++;
  t->arr->st->written = ag__site_now();
}

ag_storage *ag_tensor_storage(ag_tensor *t) {
  ag__storage_retain(t->arr->st);
  return t->arr->st;
}

static int one_element(ag_tensor *t) {
  if (t->arr->numel == 1) return ag__check_read(t->arr, "the value of");
  return ag__fail(AG_ERR_RUNTIME, "a Tensor with %lld elements cannot be converted to Scalar", (long long)t->arr->numel);
}

int ag_tensor_item(ag_tensor *t, double *out) {
  int st = one_element(t);
  if (!st) ag__k->cast[t->arr->dtype][AG_FLOAT64](1, out, ag__data(t->arr));
  return st;
}

int ag_tensor_item_int(ag_tensor *t, int64_t *out) {
  int st = one_element(t);
  if (!st) ag__k->cast[t->arr->dtype][AG_INT64](1, out, ag__data(t->arr));
  return st;
}

int ag_tensor_read(ag_tensor *t, void *out) {
  int st = ag__check_read(t->arr, "the values of");
  if (st) return st;
  ag_raw r = ag__raw(t->arr);
  int size = ag__dtype_size(r.dtype);
  if (r.numel == 0) return AG_OK;
  if (r.contiguous) memcpy(out, r.data, (size_t)r.numel * (size_t)size);
  else ag__k->pack(r.ndim, r.shape, r.strides, 0, r.numel, out, r.data, size);
  return AG_OK;
}

int ag_tensor_write(ag_tensor *t, const void *in) {
  if (ag__recording()) {
    /* As an op, so that each replay writes too. */
    ag_tensor *src = ag_from_data(t->arr->ndim, ag__shape(t->arr), t->arr->dtype, in);
    int st = src ? ag__apply_inplace(AG_OP_copy, 2, (ag_tensor *[]){t, src}, NULL) : ag_last_status();
    ag_tensor_release(src);
    return st;
  }
  ag_raw r = ag__raw(t->arr);
  ag__store(&r, in);
  ag_tensor_bump(t);
  return AG_OK;
}

/* ---- the graph ---- */

int ag_grad_enabled(void) { return ag__grad_on(); }
int ag_grad_set_enabled(int on) {
  int was = ag__grad_on();
  ag__thread.no_grad = !on;
  return was;
}

int ag_tensor_requires_grad(const ag_tensor *t) { return ag__requires_grad(t); }
int ag_tensor_is_leaf(const ag_tensor *t) { return t->fn == NULL; }

int ag_tensor_set_requires_grad(ag_tensor *t, int on) {
  if (t->fn)
    return on ? AG_OK
              : ag__fail(AG_ERR_RUNTIME,
                         "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
                         "in a subgraph that doesn't require differentiation use var_no_grad = var.detach().");
  if (on && !ag__is_float(t->arr->dtype))
    return ag__fail(AG_ERR_RUNTIME, "Only Tensors of floating point and complex dtype can require gradients");
  t->leaf_grad = on != 0;
  return AG_OK;
}

ag_tensor *ag_tensor_grad(ag_tensor *t) {
  if (ag__recording()) ag__thread.recorder->grad_read(ag__thread.recorder, t);
  return t->grad;
}

int ag_tensor_set_grad(ag_tensor *t, ag_tensor *g) {
  if (g) {
    char a[200], b[200];
    if (g == t) return ag__fail(AG_ERR_RUNTIME, "can't assign Variable as its own grad");
    if (g->arr->dtype != t->arr->dtype)
      return ag__fail(AG_ERR_RUNTIME,
                      "attempting to assign a gradient with dtype '%s' to a tensor with dtype '%s'. Please ensure that the "
                      "gradient and the tensor have the same dtype",
                      ag_dtype_name(g->arr->dtype), ag_dtype_name(t->arr->dtype));
    if (!ag__same_shape(g->arr->ndim, ag__shape(g->arr), t->arr->ndim, ag__shape(t->arr)))
      return ag__fail(AG_ERR_RUNTIME,
                      "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please ensure that the gradient "
                      "and the tensor are the same size",
                      ag__shape_text(g->arr->ndim, ag__shape(g->arr), a, sizeof a),
                      ag__shape_text(t->arr->ndim, ag__shape(t->arr), b, sizeof b));
  }
  return ag__set_grad(t, g);
}

ag_node *ag_tensor_grad_fn(ag_tensor *t) {
  ag_node *n;
  if (ag__tensor_fn(t, &n) || !n) return NULL;
  return ag__node_retain(n);
}

ag_node *ag_tensor_acc_node(ag_tensor *t) {
  if (t->fn || !t->leaf_grad) return NULL;
  ag_node *n = ag__tensor_acc(t);
  return n ? ag__node_retain(n) : NULL;
}

ag_tensor *ag_tensor_detach(ag_tensor *t) {
  /* The new tensor stands for t's memory: a trace must know that t still has it at replay. */
  if (ag__recording() && ag__thread.recorder->touch(ag__thread.recorder, t)) return NULL;
  return ag__tensor_of(t->arr);
}

int ag_tensor_detach_(ag_tensor *t) {
  if (t->base)
    return ag__fail(AG_ERR_RUNTIME, "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel "
                                    "(DDP) for training, and gradient_as_bucket_view is set as True, gradients are views of DDP "
                                    "buckets, and hence detach_() cannot be called on these gradients.");
  ag__tensor_set_fn(t, NULL, 0);
  t->leaf_grad = false;
  t->retains_grad = false;
  return AG_OK;
}

int ag_tensor_set_data(ag_tensor *t, ag_tensor *src) {
  if (ag__recording())
    return ag__fail(AG_ERR_TRACED, "the memory of a tensor was replaced (x.data = ...) while a graph was being frozen: write into "
                                   "it instead, x.copy_(...)");
  if (t->leaf_grad && !ag__is_float(src->arr->dtype))
    return ag__fail(AG_ERR_RUNTIME, "data set to a tensor that requires gradients must be floating point or complex dtype");
  bool same = t->arr->dtype == src->arr->dtype &&
              ag__same_shape(t->arr->ndim, ag__shape(t->arr), src->arr->ndim, ag__shape(src->arr));
  ag_array *old = t->arr;
  t->arr = ag__array_retain(src->arr);
  t->view_version = t->arr->st->version;
  if (!same && t->acc) {
    /* Gradients that arrive from now on have the new shape: a new place for them. */
    ag_node *acc = t->acc;
    t->acc = NULL;
    if (acc->var == t) acc->var = NULL;
    ag_node_release(acc);
  }
  ag__array_release(old);
  return AG_OK;
}

ag_tensor *ag_tensor_base(ag_tensor *t) { return t->base; }

static int check_tensors(const char *what, int n, ag_tensor *const *t) {
  for (int k = 0; k < n; k++)
    if (!t[k]) return ag__fail(AG_ERR_TYPE, "%s: tensor %d is missing", what, k);
  return AG_OK;
}

int ag_backward(int n, ag_tensor *const *roots, ag_tensor *const *seeds, int retain_graph, int create_graph, int n_inputs,
                ag_tensor *const *inputs) {
  int st = check_tensors("backward", n, roots);
  if (!st) st = check_tensors("backward", n_inputs, inputs);
  if (st) return st;
  ag_run r = {.n_roots = n, .roots = roots, .seeds = seeds, .n_inputs = n_inputs, .inputs = n_inputs ? inputs : NULL,
              .retain_graph = retain_graph || create_graph, .create_graph = create_graph != 0, .accumulate = true};
  return ag__engine_run(&r);
}

int ag_grad(int n, ag_tensor *const *roots, ag_tensor *const *seeds, int n_inputs, ag_tensor *const *inputs, int retain_graph,
            int create_graph, int allow_unused, ag_tensor **grads) {
  int st = check_tensors("grad", n, roots);
  if (!st) st = check_tensors("grad", n_inputs, inputs);
  if (!st && n_inputs < 1) st = ag__fail(AG_ERR_RUNTIME, "grad requires non-empty inputs.");
  if (st) return st;
  for (int k = 0; k < n_inputs; k++) grads[k] = NULL;
  ag_run r = {.n_roots = n, .roots = roots, .seeds = seeds, .n_inputs = n_inputs, .inputs = inputs, .grads = grads,
              .retain_graph = retain_graph || create_graph, .create_graph = create_graph != 0};
  st = ag__engine_run(&r);
  for (int k = 0; k < n_inputs && !st && !allow_unused; k++)
    if (!grads[k])
      st = ag__fail(AG_ERR_RUNTIME, "One of the differentiated Tensors appears to not have been used in the graph. Set "
                                    "allow_unused=True if this is the desired behavior.");
  if (st)
    for (int k = 0; k < n_inputs; k++) {
      ag_tensor_release(grads[k]);
      grads[k] = NULL;
    }
  return st;
}

/* ---- looking at nodes ---- */

const char *ag_node_name(const ag_node *n) {
  if (n->op == AG_OP_ACCUMULATE) return "torch::autograd::AccumulateGrad";
  const ag_row *r = &ag__rows[n->op];
  if (r->flags & OF_DIMNAME && n->ni > 1) {
    if (n->op == AG_OP_sum) return "SumBackward1";
    if (n->op == AG_OP_mean) return "MeanBackward1";
  }
  return r->grad_name;
}
int ag_node_op(const ag_node *n) { return n->op; }
int64_t ag_node_seq(const ag_node *n) { return (int64_t)n->seq; }
int ag_node_n_inputs(const ag_node *n) { return (int)n->n_in; }

ag_node *ag_node_next(ag_node *n, int k, int *output_nr) {
  if (k < 0 || (uint32_t)k >= n->n_in) return ag__fail_null(AG_ERR_INDEX, "%s has no input %d", ag_node_name(n), k);
  if (output_nr) *output_nr = n->in[k].node ? (int)n->in[k].nr : 0;
  return n->in[k].node ? ag__node_retain(n->in[k].node) : NULL;
}

ag_tensor *ag_node_variable(ag_node *n) { return n->op == AG_OP_ACCUMULATE ? ag__node_var(n) : NULL; }
int ag_node_n_saved(const ag_node *n) { return (int)n->n_saved; }

const char *ag_node_saved_name(const ag_node *n, int k) {
  static const char *const in[] = {"self", "other", "third"}, *const out[] = {"result", "result1", "result2"};
  if (k < 0 || (uint32_t)k >= n->n_saved) return NULL;
  int w = n->saved[k].which;
  if (w < 0) return out[-1 - w < 3 ? -1 - w : 2];
  return in[w < 3 ? w : 2];
}

ag_tensor *ag_node_saved(ag_node *n, int k) {
  if (k < 0 || (uint32_t)k >= n->n_saved) return ag__fail_null(AG_ERR_INDEX, "%s saved %u values", ag_node_name(n), n->n_saved);
  return ag__saved_tensor(n, (uint32_t)k);
}

const ag_params *ag_node_params(const ag_node *n) {
  ag_params *p = &ag__scratch()->params;
  ag__node_params(n, p);
  return p;
}

const char *ag_node_site(ag_node *n) {
  ag_scratch *s = ag__scratch();
  return ag__site_text(n->site, s->site, sizeof s->site);
}
int ag_node_line(ag_node *n, const char **file, const char **func, int *line) {
  return ag__site_line(n->site, file, func, line) ? AG_OK : ag__fail(AG_ERR_VALUE, "the source line is not known");
}

/* ---- calls ---- */

static int check_op(int op) {
  if (AG_UNLIKELY(op < 0 || op >= AG_OP_COUNT)) return ag__fail(AG_ERR_INDEX, "no op has the number %d", op);
  return AG_OK;
}

int ag_apply(int op, int n_in, ag_tensor *const *in, const ag_params *p, ag_tensor **outs) {
  int st = check_op(op);
  if (!st && p && (p->ni < 0 || p->ni > AG_PARAM_INTS || p->nf < 0 || p->nf > AG_PARAM_FLOATS))
    st = ag__fail(AG_ERR_VALUE, "%s: bad parameters", ag__rows[op].name);
  return st ? st : ag__apply(op, n_in, in, p, outs);
}
int ag_apply_inplace(int op, int n_in, ag_tensor *const *in, const ag_params *p) {
  int st = check_op(op);
  return st ? st : ag__apply_inplace(op, n_in, in, p);
}

/* Takes the caller's position; *old is what to put back. */
static int enter(uintptr_t code, int lasti, ag_site *old) {
  if (!code) {
    *old = ag__site_now();
    return AG_OK;
  }
  ag_site s;
  if (AG_UNLIKELY(!ag__site_resolve(code, lasti, &s))) return ag__fail(AG_ERR_TYPE, "unknown site");
  *old = ag__site_swap(s);
  return AG_OK;
}

ag_tensor *ag_call1(int op, ag_tensor *a, uintptr_t code, int lasti) {
  ag_site old;
  if (AG_UNLIKELY(check_op(op) || enter(code, lasti, &old))) return NULL;
  ag_tensor *r = ag__apply1(op, 1, &a, NULL);
  ag__site_swap(old);
  return r;
}

ag_tensor *ag_call2(int op, ag_tensor *a, ag_tensor *b, uintptr_t code, int lasti) {
  ag_site old;
  if (AG_UNLIKELY(check_op(op) || enter(code, lasti, &old))) return NULL;
  ag_tensor *r = ag__apply1(op, 2, (ag_tensor *[]){a, b}, NULL);
  ag__site_swap(old);
  return r;
}

static ag_tensor *with_number(int op, ag_tensor *a, ag_tensor *b, int rev) {
  if (!b) return NULL;
  ag_tensor *r = ag__apply1(op, 2, rev ? (ag_tensor *[]){b, a} : (ag_tensor *[]){a, b}, NULL);
  ag_tensor_release(b);
  return r;
}

ag_tensor *ag_call2s(int op, ag_tensor *a, double b, int rev, uintptr_t code, int lasti) {
  ag_site old;
  if (AG_UNLIKELY(check_op(op) || enter(code, lasti, &old))) return NULL;
  int dtype = a->arr->dtype;
  ag_tensor *r = with_number(op, a, ag_scalar(b, ag__is_float(dtype) ? dtype : ag__default_float()), rev);
  ag__site_swap(old);
  return r;
}

ag_tensor *ag_call2i(int op, ag_tensor *a, int64_t b, int rev, uintptr_t code, int lasti) {
  ag_site old;
  if (AG_UNLIKELY(check_op(op) || enter(code, lasti, &old))) return NULL;
  int dtype = a->arr->dtype;
  ag_tensor *r = with_number(op, a, scalar_int(b, dtype == AG_BOOL ? AG_INT64 : dtype), rev);
  ag__site_swap(old);
  return r;
}

static int params(ag_params *p, int op, int n_int, const int64_t *ints, int n_float, const double *floats) {
  if (n_int < 0 || n_int > AG_PARAM_INTS || n_float < 0 || n_float > AG_PARAM_FLOATS)
    return ag__fail(AG_ERR_VALUE, "%s: too many dimensions or parameters", ag__rows[op].name);
  p->ni = n_int;
  p->nf = n_float;
  if (n_int) memcpy(p->i, ints, sizeof(int64_t) * (size_t)n_int);
  if (n_float) memcpy(p->f, floats, sizeof(double) * (size_t)n_float);
  return AG_OK;
}

ag_tensor *ag_calln(int op, int n_in, ag_tensor *const *in, int n_int, const int64_t *ints, int n_float, const double *floats,
                    uintptr_t code, int lasti) {
  ag_site old;
  ag_params p;
  if (AG_UNLIKELY(check_op(op) || params(&p, op, n_int, ints, n_float, floats) || enter(code, lasti, &old))) return NULL;
  ag_tensor *r = ag__apply1(op, n_in, in, &p);
  ag__site_swap(old);
  return r;
}

int ag_calln_multi(int op, int n_in, ag_tensor *const *in, int n_int, const int64_t *ints, int n_float, const double *floats,
                   uintptr_t code, int lasti, ag_tensor **outs) {
  ag_site old;
  ag_params p;
  int st = check_op(op);
  if (!st) st = params(&p, op, n_int, ints, n_float, floats);
  if (!st) st = enter(code, lasti, &old);
  if (AG_UNLIKELY(st)) return st;
  st = ag__apply(op, n_in, in, &p, outs);
  ag__site_swap(old);
  return st;
}

int ag_call_inplace(int op, int n_in, ag_tensor *const *in, int n_int, const int64_t *ints, int n_float, const double *floats,
                    uintptr_t code, int lasti) {
  ag_site old;
  ag_params p;
  int st = check_op(op);
  if (!st) st = params(&p, op, n_int, ints, n_float, floats);
  if (!st) st = enter(code, lasti, &old);
  if (AG_UNLIKELY(st)) return st;
  st = ag__apply_inplace(op, n_in, in, &p);
  ag__site_swap(old);
  return st;
}

int ag_call_inplace_s(int op, ag_tensor *a, double b, uintptr_t code, int lasti) {
  ag_site old;
  int st = check_op(op);
  if (!st) st = enter(code, lasti, &old);
  if (AG_UNLIKELY(st)) return st;
  int dtype = a->arr->dtype;
  bool whole = b == nearbyint(b) && fabs(b) < 9e15;
  ag_tensor *s = ag__is_float(dtype) || !whole ? ag_scalar(b, ag__is_float(dtype) ? dtype : ag__default_float())
                                               : scalar_int((int64_t)b, dtype);
  st = s ? ag__apply_inplace(op, 2, (ag_tensor *[]){a, s}, NULL) : ag_last_status();
  ag_tensor_release(s);
  ag__site_swap(old);
  return st;
}

/* ---- random ---- */

static ag_tensor *default_generator;
static ag_lock generator_lock = AG_LOCK_INIT;

ag_tensor *ag_default_generator(void) {
  ag__lock(&generator_lock);
  if (!default_generator) {
    int64_t two = 2, seed[2] = {67280421310721, 0};
    ag_recorder *r = ag__thread.recorder;
    ag__thread.recorder = NULL; /* not part of any trace: bound by reference */
    default_generator = ag_from_data(1, &two, AG_INT64, seed);
    ag__thread.recorder = r;
  }
  ag__unlock(&generator_lock);
  return default_generator;
}

int ag_manual_seed(uint64_t seed) {
  ag_tensor *g = ag_default_generator();
  int64_t v[2] = {(int64_t)seed, 0};
  return g ? ag_tensor_write(g, v) : ag_last_status();
}
