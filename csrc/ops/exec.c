#include "ops/exec.h"
#include "ops/move.h"
#include "ops/par.h"

/* Bytes of all operands from which results go past the caches, which are rarely larger; elements of a block on that way. */
enum { STREAM_FROM = 32 << 20, STREAM_BLOCK = 512 };
/* Above this many elements other threads of the host language may run meanwhile. */
enum { LONG_WORK = 1 << 16 };

void *ag__temp(ag_temp *t, size_t size) {
  t->size = size;
  return t->data = ag__alloc(size ? size : 1);
}

void ag__temp_free(ag_temp *t) {
  if (t->data) ag__free(t->data, t->size ? t->size : 1);
  t->data = NULL;
}

char *ag__contig(const ag_raw *r, ag_temp *t) {
  t->data = NULL;
  if (r->contiguous) return r->data;
  int size = ag__dtype_size(r->dtype);
  if (!ag__temp(t, (size_t)r->numel * (size_t)size)) return NULL;
  ag__par_pack(r->ndim, r->shape, r->strides, r->numel, t->data, r->data, size);
  return t->data;
}

void ag__store(const ag_raw *out, const void *data) {
  int size = ag__dtype_size(out->dtype);
  if (out->contiguous) ag__par_copy(out->data, data, out->numel * size);
  else ag__par_unpack(out->ndim, out->shape, out->strides, out->numel, out->data, data, size);
}

typedef struct job {
  ag_k_ew *ew;
  ag_k_ewd *ewd;
  const double *p;
  int n_ops, size[5], out_size;
  const char *op[5]; /* NULL: absent */
  char *out;
} job;

static int whole(void *ctx, int slot, int64_t from, int64_t to) {
  const job *b = ctx;
  const char *at[5] = {0};
  (void)slot;
  for (int k = 0; k < b->n_ops; k++) at[k] = b->op[k] ? b->op[k] + from * b->size[k] : NULL;
  char *o = b->out + from * b->out_size;
  if (b->ew) b->ew(to - from, o, at[0], at[1], at[2], b->p);
  else b->ewd(to - from, o, at[0], at[1], at[2], at[3], at[4], b->p);
  return AG_OK;
}

/* A long loop over operands that do not fit into the last cache: results go to a buffer in the first-level cache and
 * from there past the caches, which spares reading the lines that they overwrite. */
static int streamed(void *ctx, int slot, int64_t from, int64_t to) {
  const job *b = ctx;
  _Alignas(64) char buf[STREAM_BLOCK * 8];
  job part = *b;
  part.out = buf;
  for (int64_t start = from; start < to; start += STREAM_BLOCK) {
    const int64_t m = to - start < STREAM_BLOCK ? to - start : STREAM_BLOCK;
    for (int k = 0; k < b->n_ops; k++) part.op[k] = b->op[k] ? b->op[k] + start * b->size[k] : NULL;
    whole(&part, slot, 0, m);
    ag__k->stream(b->out + start * b->out_size, buf, (size_t)(m * b->out_size), start + m == to);
  }
  return AG_OK;
}

/* Both forms of kernel, operands of any strides: n_ops of them, the first handed over as `g` when ewd. */
static int any_strides(ag_k_ew *ew, ag_k_ewd *ewd, int n_ops, const ag_raw *const *in, const ag_raw *out, const double *p,
                       int cost) {
  job b;
  b.ew = ew;
  b.ewd = ewd;
  b.p = p;
  b.n_ops = n_ops;
  b.out = out->data;
  b.out_size = ag__dtype_size(out->dtype);
  bool simple = out->contiguous, in_place = false;
  int size = b.out_size;
  int64_t bytes = out->numel * size;
  for (int k = 0; k < n_ops; k++) {
    b.op[k] = in[k] ? in[k]->data : NULL;
    if (!b.op[k]) continue;
    b.size[k] = ag__dtype_size(in[k]->dtype);
    if (b.size[k] > size) size = b.size[k];
    simple &= in[k]->contiguous && in[k]->numel == out->numel;
    in_place |= b.op[k] == b.out; /* lines that are read anyway */
    bytes += in[k]->numel * b.size[k];
  }
  void *token = out->numel >= LONG_WORK ? ag__blocking_begin() : NULL;
  int64_t grain = ag__grain(size, cost + !simple);
  if (!simple) ag__exec_walk(ew, ewd, n_ops, in, out, p, grain);
  else if (bytes >= STREAM_FROM && !in_place) ag__parallel(out->numel, grain, streamed, &b);
  else ag__parallel(out->numel, grain, whole, &b);
  ag__blocking_end(token);
  return AG_OK;
}

int ag__exec_ew(ag_k_ew *fn, int n_in, const ag_raw *in, const ag_raw *out, const double *p, int cost) {
  if (out->numel == 0) return AG_OK;
  if (AG_LIKELY(out->contiguous && out->numel * cost * ag__grain_divisor < LONG_WORK)) {
    const void *a[3] = {NULL, NULL, NULL};
    bool simple = true;
    for (int k = 0; k < n_in; k++) {
      simple &= in[k].contiguous && in[k].numel == out->numel;
      a[k] = in[k].data;
    }
    if (AG_LIKELY(simple)) {
      fn(out->numel, out->data, a[0], a[1], a[2], p);
      return AG_OK;
    }
  }
  const ag_raw *ops[3] = {&in[0], n_in > 1 ? &in[1] : NULL, n_in > 2 ? &in[2] : NULL};
  return any_strides(fn, NULL, n_in, ops, out, p, cost);
}

int ag__exec_ewd(ag_k_ewd *fn, const ag_raw *g, const ag_raw x[3], const ag_raw *y, const ag_raw *out, const double *p,
                 int cost) {
  if (out->numel == 0) return AG_OK;
  const ag_raw *ops[5] = {g, &x[0], &x[1], &x[2], y};
  if (AG_LIKELY(out->contiguous && out->numel * cost * ag__grain_divisor < LONG_WORK)) {
    bool simple = true;
    for (int k = 0; k < 5; k++) simple &= !ops[k]->data || (ops[k]->contiguous && ops[k]->numel == out->numel);
    if (AG_LIKELY(simple)) {
      fn(out->numel, out->data, g->data, x[0].data, x[1].data, x[2].data, y->data, p);
      return AG_OK;
    }
  }
  return any_strides(NULL, fn, 5, ops, out, p, cost);
}

/* Is there a zero among the integers of d?  Compilers make vector code of the inner loops. */
static int zero_divisor(const ag_raw *d) {
  enum { FEW = 512 };
  ag_temp t;
  const char *data = ag__contig(d, &t);
  if (!data) return AG_ERR_MEMORY;
  int64_t n = d->numel, hits = 0;
  for (int64_t i = 0; i < n && !hits; i += FEW) {
    int64_t m = n - i < FEW ? n - i : FEW;
    int32_t any = 0;
    if (d->dtype == AG_INT32) {
      const int32_t *v = (const int32_t *)(const void *)data + i;
      for (int64_t k = 0; k < m; k++) any |= v[k] == 0;
    } else if (d->dtype == AG_INT64) {
      const int64_t *v = (const int64_t *)(const void *)data + i;
      for (int64_t k = 0; k < m; k++) any |= v[k] == 0;
    } else {
      any = memchr(data + i, 0, (size_t)m) != NULL;
    }
    hits = any;
  }
  ag__temp_free(&t);
  return hits ? ag__fail(AG_ERR_RUNTIME, "ZeroDivisionError") : AG_OK;
}

int ag__exec_elementwise(const ag_exec *x) {
  const ag_row *row = x->row;
  int dtype = x->in[row->kind == AG_KIND_SEL3 ? 1 : 0].dtype;
  ag_k_ew *fn = ag__k->ew[row->op].fwd[dtype];
  if (AG_UNLIKELY(!fn))
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"%s\" is not implemented for '%s'", row->name, ag_dtype_name(dtype));
  if (AG_UNLIKELY(ag__row_checks(row, dtype)) && x->out[0].numel) {
    int st = zero_divisor(&x->in[1]);
    if (st) return st;
  }
  return ag__exec_ew(fn, x->n_in, x->in, &x->out[0], x->p ? x->p->f : NULL, row->cost[0]);
}

/* The copy of one strided operand into another in one pass, if types are the same and memory is apart; else false. */
static bool copy_apart(const ag_raw *from, const ag_raw *to) {
  int64_t lo, hi, from_lo, from_hi, strides[AG_MAX_NDIM];
  const int size = ag__dtype_size(to->dtype), shift = to->ndim - from->ndim;
  if (from->dtype != to->dtype || shift < 0) return false;
  if (!ag__move_extent(to->ndim, to->shape, to->strides, 0, &lo, &hi)) return false;
  if (!ag__move_extent(from->ndim, from->shape, from->strides, 0, &from_lo, &from_hi)) return false;
  if (to->data + lo * size <= from->data + from_hi * size && from->data + from_lo * size <= to->data + hi * size) return false;
  for (int k = 0; k < to->ndim; k++)
    strides[k] = k < shift || (from->shape[k - shift] == 1 && to->shape[k] != 1) ? 0 : from->strides[k - shift];
  ag__move_region(to->ndim, to->shape, to->data, to->strides, from->data, strides, size);
  return true;
}

int ag__exec(const ag_exec *x) {
  const ag_row *row = x->row;
  if (ag__row_elementwise(row)) return ag__exec_elementwise(x);
  bool direct = true;
  for (int k = 0; k < x->n_out; k++) direct &= x->out[k].contiguous;
  if (AG_LIKELY(direct)) return row->exec(x);
  if (row->op == AG_OP_copy && copy_apart(&x->in[1], &x->out[0])) return AG_OK;
  /* A strided result: run on a contiguous copy, which goes back when all went well. */
  ag_raw out[AG_MAX_OUT], in0;
  ag_temp t[AG_MAX_OUT] = {{0, 0}};
  int64_t strides[AG_MAX_OUT][AG_MAX_NDIM];
  int st = AG_OK;
  ag_exec y = *x;
  for (int k = 0; k < x->n_out; k++) {
    out[k] = x->out[k];
    if (out[k].contiguous) continue;
    out[k].data = ag__temp(&t[k], (size_t)out[k].numel * (size_t)ag__dtype_size(out[k].dtype));
    if (!out[k].data) {
      st = AG_ERR_MEMORY;
      break;
    }
    ag__strides_contiguous(out[k].ndim, out[k].shape, strides[k]);
    out[k].strides = strides[k];
    out[k].contiguous = true;
  }
  ag_raw ins[64];
  if (!st && x->n_in > 0 && x->in[0].data == x->out[0].data && t[0].data) {
    in0 = out[0];
    ag__par_pack(x->in[0].ndim, x->in[0].shape, x->in[0].strides, x->in[0].numel, t[0].data, x->in[0].data,
                 ag__dtype_size(x->in[0].dtype));
    if (x->n_in > AG_COUNT(ins)) st = ag__fail(AG_ERR_NOT_IMPLEMENTED, "%s: too many operands for a strided result", row->name);
    else {
      memcpy(ins, x->in, sizeof(ag_raw) * (size_t)x->n_in);
      ins[0] = in0;
      y.in = ins;
    }
  }
  y.out = out;
  if (!st) st = row->exec(&y);
  for (int k = 0; k < x->n_out; k++)
    if (t[k].data) {
      if (!st) ag__store(&x->out[k], t[k].data);
      ag__temp_free(&t[k]);
    }
  return st;
}
