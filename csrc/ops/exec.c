#include "ops/exec.h"
#include "ops/par.h"

/* Elements per block of the strided and broadcast path: three operands and a result stay in L1. */
enum { BLOCK = 512 };
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

/* An operand as the block loop sees it. */
typedef struct operand {
  const char *data;
  int size;
  enum { FULL, SCALAR, STRIDED } how;
  int64_t strides[AG_MAX_NDIM];
} operand;

static void set_operand(operand *o, const ag_raw *r, const ag_raw *out) {
  o->data = r->data;
  o->size = ag__dtype_size(r->dtype);
  if (r->contiguous && r->numel == out->numel) {
    o->how = FULL;
  } else if (r->numel == 1) {
    o->how = SCALAR;
  } else {
    o->how = STRIDED;
    int shift = out->ndim - r->ndim;
    for (int k = 0; k < out->ndim; k++)
      o->strides[k] = k < shift || (r->shape[k - shift] == 1 && out->shape[k] != 1) ? 0 : r->strides[k - shift];
  }
}

static void fill_scalar(void *buf, const char *x, int size, int64_t n) {
  if (size == 4) {
    uint32_t v, *b = buf;
    memcpy(&v, x, 4);
    for (int64_t i = 0; i < n; i++) b[i] = v;
  } else if (size == 8) {
    uint64_t v, *b = buf;
    memcpy(&v, x, 8);
    for (int64_t i = 0; i < n; i++) b[i] = v;
  } else {
    memset(buf, *x, (size_t)n);
  }
}

/* One loop for both forms of kernel: n_ops operands, the first handed over as `g` when ewd. */
typedef struct job {
  ag_k_ew *ew;
  ag_k_ewd *ewd;
  int n_ops;
  const ag_raw *out;
  const double *p;
  operand op[5]; /* data NULL: absent */
} job;

static int whole(void *ctx, int slot, int64_t from, int64_t to) {
  const job *b = ctx;
  const char *at[5] = {0};
  (void)slot;
  for (int k = 0; k < b->n_ops; k++) at[k] = b->op[k].data ? b->op[k].data + from * b->op[k].size : NULL;
  char *o = b->out->data + from * ag__dtype_size(b->out->dtype);
  if (b->ew) b->ew(to - from, o, at[0], at[1], at[2], b->p);
  else b->ewd(to - from, o, at[0], at[1], at[2], at[3], at[4], b->p);
  return AG_OK;
}

static int by_blocks(void *ctx, int slot, int64_t from, int64_t to) {
  const job *b = ctx;
  const ag_raw *out = b->out;
  _Alignas(64) char buf[5][BLOCK * 8];
  _Alignas(64) char obuf[BLOCK * 8];
  const char *at[5] = {0};
  int osize = ag__dtype_size(out->dtype);
  int64_t first = to - from < BLOCK ? to - from : BLOCK;
  (void)slot;
  for (int k = 0; k < b->n_ops; k++)
    if (b->op[k].data && b->op[k].how == SCALAR) fill_scalar(buf[k], b->op[k].data, b->op[k].size, first);
  for (int64_t start = from; start < to; start += BLOCK) {
    int64_t m = to - start < BLOCK ? to - start : BLOCK;
    for (int k = 0; k < b->n_ops; k++) {
      const operand *op = &b->op[k];
      if (!op->data) continue;
      if (op->how == FULL) {
        at[k] = op->data + start * op->size;
      } else {
        if (op->how == STRIDED) ag__k->pack(out->ndim, out->shape, op->strides, start, m, buf[k], op->data, op->size);
        at[k] = buf[k];
      }
    }
    char *o = out->contiguous ? out->data + start * osize : obuf;
    if (b->ew) b->ew(m, o, at[0], at[1], at[2], b->p);
    else b->ewd(m, o, at[0], at[1], at[2], at[3], at[4], b->p);
    if (!out->contiguous) ag__k->unpack(out->ndim, out->shape, out->strides, start, m, out->data, obuf, osize);
  }
  return AG_OK;
}

static int blocks(ag_k_ew *ew, ag_k_ewd *ewd, int n_ops, const ag_raw *const *in, const ag_raw *out, const double *p, int cost) {
  job b;
  b.ew = ew;
  b.ewd = ewd;
  b.n_ops = n_ops;
  b.out = out;
  b.p = p;
  bool simple = out->contiguous;
  int size = ag__dtype_size(out->dtype);
  for (int k = 0; k < n_ops; k++) {
    b.op[k].data = NULL;
    if (!in[k] || !in[k]->data) continue;
    set_operand(&b.op[k], in[k], out);
    if (b.op[k].size > size) size = b.op[k].size;
    if (b.op[k].how != FULL) simple = false;
  }
  void *token = out->numel >= LONG_WORK ? ag__blocking_begin() : NULL;
  ag_task *fn = simple ? whole : by_blocks;
  int64_t grain = ag__grain(size, cost + !simple);
  if (!ag__worth(out->numel, grain) || !(out->contiguous || ag__apart(out->ndim, out->shape, out->strides))) fn(&b, 0, 0, out->numel);
  else ag__parallel_run(out->numel, grain, 0, fn, &b);
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
  return blocks(fn, NULL, n_in, ops, out, p, cost);
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
  return blocks(NULL, fn, 5, ops, out, p, cost);
}

/* Is there a zero among the integers of d?  Compilers make vector code of the inner loops. */
static int zero_divisor(const ag_raw *d) {
  ag_temp t;
  const char *data = ag__contig(d, &t);
  if (!data) return AG_ERR_MEMORY;
  int64_t n = d->numel, hits = 0;
  for (int64_t i = 0; i < n && !hits; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
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

int ag__exec(const ag_exec *x) {
  const ag_row *row = x->row;
  if (ag__row_elementwise(row)) return ag__exec_elementwise(x);
  bool direct = true;
  for (int k = 0; k < x->n_out; k++) direct &= x->out[k].contiguous;
  if (AG_LIKELY(direct)) return row->exec(x);
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
