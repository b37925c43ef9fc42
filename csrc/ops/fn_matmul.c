/* fn_matmul.c: matrix products.  Operands that a product can read in place (rows or columns contiguous, any
 * distance between them) are not copied. */
#include "ops/fn_util.h"
#include "ops/move.h"

/* ---- operands ---- */

typedef struct matrix {
  const char *data;
  int64_t ld, batch; /* distances in elements: of lines, of the matrices of a batch */
  int turned;        /* columns are the lines */
  ag_temp t;
} matrix;

/* Lines of `len` elements, `lines` of them: can a product read them in place? */
static bool lines_fit(int64_t lines, int64_t line_stride, int64_t len, int64_t stride, int64_t *ld) {
  int64_t least = len > 1 ? len : 1;
  if (len > 1 && stride != 1) return false;
  if (lines <= 1) *ld = least;
  else if (line_stride >= least) *ld = line_stride;
  else return false;
  return true;
}

/* Matrices are the last two dims of r (one dim: a column); nb of them.  copy: not in place in any case. */
static bool matrix_of(const ag_raw *r, int64_t rows, int64_t cols, int64_t rs, int64_t cs, int64_t nb, int64_t bs, bool copy,
                      matrix *m) {
  m->t = (ag_temp){0, 0};
  m->data = r->data;
  m->batch = bs;
  m->turned = 0;
  if (!copy && lines_fit(rows, rs, cols, cs, &m->ld)) return true;
  m->turned = 1;
  if (!copy && lines_fit(cols, cs, rows, rs, &m->ld)) return true;
  /* One copy serves a batch that repeats a single matrix. */
  int64_t shape[3] = {bs == 0 ? 1 : nb, rows, cols}, strides[3] = {bs, rs, cs}, n = ag__numel(3, shape);
  int size = ag__dtype_size(r->dtype);
  char *data = ag__temp(&m->t, (size_t)n * (size_t)size);
  if (!data) return false;
  if (n) ag__par_pack(3, shape, strides, n, data, r->data, size);
  m->data = data;
  m->turned = 0;
  m->ld = cols > 1 ? cols : 1;
  m->batch = bs == 0 ? 0 : rows * cols;
  return true;
}

/* ---- bytes: plain loops over operands of any layout; sums wrap around ---- */

#define INT_GEMM(name, T, U)                                                                                        \
  static void name(const matrix *a, const matrix *b, int64_t m, int64_t n, int64_t k, const char *pa, const char *pb, \
                   char *pc) {                                                                                      \
    const T *x = (const T *)(const void *)pa, *y = (const T *)(const void *)pb;                                     \
    T *c = (T *)(void *)pc;                                                                                         \
    int64_t ai = a->turned ? 1 : a->ld, ap = a->turned ? a->ld : 1, bp = b->turned ? 1 : b->ld,                     \
            bj = b->turned ? b->ld : 1;                                                                             \
    for (int64_t i = 0; i < m; i++)                                                                                 \
      for (int64_t p = 0; p < k; p++) {                                                                             \
        U v = (U)x[i * ai + p * ap];                                                                                \
        for (int64_t j = 0; j < n; j++) c[i * n + j] = (T)((U)c[i * n + j] + v * (U)y[p * bp + j * bj]);            \
      }                                                                                                             \
  }
INT_GEMM(gemm_u8, uint8_t, uint32_t)

/* ---- products: c (contiguous) = a b, or += when add ---- */

typedef struct products {
  int dtype;
  bool add;
  const matrix *a, *b;
  int64_t m, n, k;
  char *c;
} products;

static int some_products(void *ctx, int slot, int64_t from, int64_t to) {
  const products *p = ctx;
  const matrix *a = p->a, *b = p->b;
  int64_t m = p->m, n = p->n, k = p->k;
  int size = ag__dtype_size(p->dtype);
  (void)slot;
  for (int64_t i = from; i < to; i++) {
    const char *pa = a->data + i * a->batch * size, *pb = b->data + i * b->batch * size;
    char *pc = p->c + i * m * n * size;
    if (ag__is_float(p->dtype)) ag__gemm(p->dtype, a->turned, b->turned, m, n, k, 1, pa, a->ld, pb, b->ld, p->add ? 1 : 0, pc, n);
    else if (ag__k->gemm[p->dtype]) ag__k->gemm[p->dtype](a->turned, b->turned, m, n, k, 1, pa, a->ld, pb, b->ld, 1, pc, n);
    else gemm_u8(a, b, m, n, k, pa, pb, pc);
  }
  return AG_OK;
}

static void product(int dtype, const matrix *a, const matrix *b, int64_t nb, int64_t m, int64_t n, int64_t k, bool add,
                    char *c) {
  int size = ag__dtype_size(dtype);
  bool floats = ag__is_float(dtype);
  if (m * n == 0) return;
  if (!add && (!floats || k == 0)) memset(c, 0, (size_t)(nb * m * n) * (size_t)size);
  if (k == 0) return;
  /* One right-hand side for a batch whose rows follow one another: one tall product. */
  if (floats && nb > 1 && b->batch == 0 && !a->turned && a->batch == m * a->ld) {
    m *= nb;
    nb = 1;
  }
  double each = (double)m * (double)n * (double)k;
  void *token = ag__long_begin(nb * each < 1e18 ? (int64_t)(nb * each) : INT64_MAX, AG_LONG_MATH / 2);
  products p = {dtype, add, a, b, m, n, k, c};
  /* A few large ones are cut each by itself. */
  int64_t grain = each < AG_GRAIN_FLOPS ? (int64_t)(AG_GRAIN_FLOPS / each) : 1;
  if (nb < 4 && grain == 1) some_products(&p, 0, 0, nb);
  else ag__parallel(nb, grain, some_products, &p);
  ag__blocking_end(token);
}

/* a: m x k, b: k x n, both of two dims. */
static int product2(const ag_raw *a, const ag_raw *b, bool add, const ag_raw *out) {
  matrix x, y = {.t = {0, 0}};
  int64_t m = a->shape[0], k = a->shape[1], n = b->shape[1];
  int st = AG_ERR_MEMORY;
  if (matrix_of(a, m, k, a->strides[0], a->strides[1], 1, 0, a->data == out->data, &x) &&
      matrix_of(b, k, n, b->strides[0], b->strides[1], 1, 0, b->data == out->data, &y)) {
    product(out->dtype, &x, &y, 1, m, n, k, add, out->data);
    st = AG_OK;
  }
  ag__temp_free(&y.t);
  ag__temp_free(&x.t);
  return st;
}

/* ---- shapes ---- */

static const char *c_type(int dtype) {
  static const char *const name[AG_NDTYPE] = {"bool", "unsigned char", "int", "long int", "float", "double"};
  return name[dtype];
}

static int no_bool(const ag_infer *c, int dtype) {
  if (dtype == AG_BOOL) return ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", c->row->name);
  return AG_OK;
}

static int check_mm(const ag_infer *c, const ag_array *a, const ag_array *b) {
  const int64_t *s = ag__shape(a), *t = ag__shape(b);
  if (s[1] != t[0])
    return ag__fail(AG_ERR_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%lldx%lld and %lldx%lld)", (long long)s[0],
                    (long long)s[1], (long long)t[0], (long long)t[1]);
  if (a->dtype != b->dtype)
    return ag__fail(AG_ERR_RUNTIME, "expected m1 and m2 to have the same dtype, but got: %s != %s", c_type(a->dtype),
                    c_type(b->dtype));
  return no_bool(c, a->dtype);
}

static int same_scalar(const ag_array *a, const ag_array *b) {
  if (a->dtype == b->dtype) return AG_OK;
  return ag__fail(AG_ERR_RUNTIME, "expected scalar type %s but found %s", ag__scalar_name(a->dtype),
                  ag__scalar_name(b->dtype));
}

/* ---- gradients: g b' and a' g ---- */

static ag_tensor *turn(ag_vjp *c, ag_tensor *t) { return ag__b1(c, AG_OP_t, t); }

/* An operand that is a parameter's transpose gets its gradient as a transpose too, so that the parameter's own comes
 * out row-major and need not be copied. */
static bool is_turned(const ag_vjp *c, int i) {
  int op = c->node->in[i].node->op;
  return op == AG_OP_t || op == AG_OP_transpose;
}

static int vjp_mm_at(ag_vjp *c, int ia, int ib) {
  ag_tensor *g = c->g[0];
  if (c->need[ia]) {
    ag_tensor *b = ag__vx(c, ib);
    ag__give(c, ia, is_turned(c, ia) ? turn(c, ag__b2(c, AG_OP_mm, b, turn(c, g))) : ag__b2(c, AG_OP_mm, g, turn(c, b)));
  }
  if (c->need[ib]) {
    ag_tensor *a = ag__vx(c, ia);
    ag__give(c, ib, is_turned(c, ib) ? turn(c, ag__b2(c, AG_OP_mm, turn(c, g), a)) : ag__b2(c, AG_OP_mm, turn(c, a), g));
  }
  return c->status;
}

/* ---- mm ---- */

int ag__infer_mm(ag_infer *c) {
  ag_array *a = c->in[0], *b = c->in[1];
  if (a->ndim != 2) return ag__fail(AG_ERR_RUNTIME, "self must be a matrix");
  if (b->ndim != 2) return ag__fail(AG_ERR_RUNTIME, "mat2 must be a matrix");
  int st = check_mm(c, a, b);
  if (st) return st;
  ag__set_out(c, 0, a->dtype, 2, (int64_t[]){ag__shape(a)[0], ag__shape(b)[1]});
  return AG_OK;
}

int ag__exec_mm(const ag_exec *x) { return product2(&x->in[0], &x->in[1], false, &x->out[0]); }
int ag__vjp_mm(ag_vjp *c) { return vjp_mm_at(c, 0, 1); }

/* ---- addmm: bias + a b ---- */

int ag__infer_addmm(ag_infer *c) {
  ag_array *bias = c->in[0], *a = c->in[1], *b = c->in[2];
  if (a->ndim != 2) return ag__fail(AG_ERR_RUNTIME, "mat1 must be a matrix, got %d-D tensor", a->ndim);
  if (b->ndim != 2) return ag__fail(AG_ERR_RUNTIME, "mat2 must be a matrix, got %d-D tensor", b->ndim);
  int st = check_mm(c, a, b);
  if (st) return st;
  if (bias->dtype != a->dtype)
    return ag__fail(AG_ERR_RUNTIME, "self and mat2 must have the same dtype, but got %s and %s", ag__scalar_name(bias->dtype),
                    ag__scalar_name(b->dtype));
  int64_t shape[2] = {ag__shape(a)[0], ag__shape(b)[1]};
  char s[200], t[200];
  if (bias->ndim > 2)
    return ag__fail(AG_ERR_RUNTIME,
                    "expand(%s{%s}, size=%s): the number of sizes provided (2) must be greater or equal to the number of "
                    "dimensions in the tensor (%d)",
                    ag__dtype_torch_name(bias->dtype), ag__shape_text(bias->ndim, ag__shape(bias), s, sizeof s),
                    ag__shape_text(2, shape, t, sizeof t), bias->ndim);
  for (int k = 0; k < bias->ndim; k++) {
    int64_t have = ag__shape(bias)[k], want = shape[2 - bias->ndim + k];
    if (have != want && have != 1)
      return ag__fail(AG_ERR_RUNTIME,
                      "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton "
                      "dimension %d.  Target sizes: %s.  Tensor sizes: %s",
                      (long long)want, (long long)have, 2 - bias->ndim + k, ag__shape_text(2, shape, s, sizeof s),
                      ag__shape_text(bias->ndim, ag__shape(bias), t, sizeof t));
  }
  ag__set_out(c, 0, a->dtype, 2, shape);
  return AG_OK;
}

/* In place, out holds the bias already; an operand that is also the result is copied by product2. */
int ag__exec_addmm(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  int st = ag__move_cast(&x->in[0], 2, out->shape, out->dtype, out->data);
  return st ? st : product2(&x->in[1], &x->in[2], true, out);
}

int ag__vjp_addmm(ag_vjp *c) {
  if (c->need[0]) ag__give(c, 0, c->g[0]);
  return vjp_mm_at(c, 1, 2);
}

/* ---- mv, dot ---- */

int ag__infer_mv(ag_infer *c) {
  ag_array *a = c->in[0], *v = c->in[1];
  const int64_t *s = ag__shape(a);
  if (a->ndim != 2 || v->ndim != 1)
    return ag__fail(AG_ERR_RUNTIME, "vector + matrix @ vector expected, got 1, %d, %d", a->ndim, v->ndim);
  if (s[1] != ag__shape(v)[0])
    return ag__fail(AG_ERR_RUNTIME, "size mismatch, got input (%lld), mat (%lldx%lld), vec (%lld)", (long long)s[0],
                    (long long)s[0], (long long)s[1], (long long)ag__shape(v)[0]);
  int st = same_scalar(a, v);
  if (!st) st = no_bool(c, a->dtype);
  if (st) return st;
  ag__set_out(c, 0, a->dtype, 1, s);
  return AG_OK;
}

/* A vector of n elements as a matrix of one column (or of one row). */
static ag_raw column(const ag_raw *v, int64_t dims[4]) {
  ag_raw r = *v;
  dims[0] = v->shape[0];
  dims[1] = 1;
  dims[2] = v->strides[0];
  dims[3] = 1;
  r.ndim = 2;
  r.shape = dims;
  r.strides = dims + 2;
  return r;
}
static ag_raw row(const ag_raw *v, int64_t dims[4]) {
  ag_raw r = *v;
  dims[0] = 1;
  dims[1] = v->shape[0];
  dims[2] = 1;
  dims[3] = v->strides[0];
  r.ndim = 2;
  r.shape = dims;
  r.strides = dims + 2;
  return r;
}

int ag__exec_mv(const ag_exec *x) {
  int64_t dims[4];
  ag_raw v = column(&x->in[1], dims);
  return product2(&x->in[0], &v, false, &x->out[0]);
}

int ag__vjp_mv(ag_vjp *c) {
  ag_tensor *g = c->g[0];
  if (c->need[0])
    ag__give(c, 0, ag__b2(c, AG_OP_mul, ag__bi(c, AG_OP_unsqueeze, g, 1, INT64_C(1)),
                          ag__bi(c, AG_OP_unsqueeze, ag__vx(c, 1), 1, INT64_C(0))));
  if (c->need[1]) ag__give(c, 1, ag__b2(c, AG_OP_mv, turn(c, ag__vx(c, 0)), g));
  return c->status;
}

int ag__infer_dot(ag_infer *c) {
  ag_array *a = c->in[0], *b = c->in[1];
  if (a->ndim != 1 || b->ndim != 1)
    return ag__fail(AG_ERR_RUNTIME, "1D tensors expected, but got %dD and %dD tensors", a->ndim, b->ndim);
  if (a->dtype != b->dtype)
    return ag__fail(AG_ERR_RUNTIME, "dot : expected both vectors to have same dtype, but found %s and %s",
                    ag__scalar_name(a->dtype), ag__scalar_name(b->dtype));
  if (a->numel != b->numel)
    return ag__fail(AG_ERR_RUNTIME,
                    "inconsistent tensor size, expected tensor [%lld] and src [%lld] to have the same number of elements, but "
                    "got %lld and %lld elements respectively",
                    (long long)a->numel, (long long)b->numel, (long long)a->numel, (long long)b->numel);
  int st = no_bool(c, a->dtype);
  if (st) return st;
  ag__set_out(c, 0, a->dtype, 0, NULL);
  return AG_OK;
}

int ag__exec_dot(const ag_exec *x) {
  int64_t da[4], db[4];
  ag_raw a = row(&x->in[0], da), b = column(&x->in[1], db);
  return product2(&a, &b, false, &x->out[0]);
}

int ag__vjp_dot(ag_vjp *c) {
  if (c->need[0]) ag__give(c, 0, ag__b2(c, AG_OP_mul, c->g[0], ag__vx(c, 1)));
  if (c->need[1]) ag__give(c, 1, ag__b2(c, AG_OP_mul, c->g[0], ag__vx(c, 0)));
  return c->status;
}

/* ---- bmm ---- */

int ag__infer_bmm(ag_infer *c) {
  ag_array *a = c->in[0], *b = c->in[1];
  if (a->ndim != 3) return ag__fail(AG_ERR_RUNTIME, "batch1 must be a 3D tensor");
  if (b->ndim != 3) return ag__fail(AG_ERR_RUNTIME, "batch2 must be a 3D tensor");
  const int64_t *s = ag__shape(a), *t = ag__shape(b);
  if (s[0] != t[0] || s[2] != t[1])
    return ag__fail(AG_ERR_RUNTIME,
                    "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: [%lld, %lld].",
                    (long long)s[0], (long long)s[2], (long long)t[0], (long long)t[1]);
  int st = same_scalar(a, b);
  if (!st) st = no_bool(c, a->dtype);
  if (st) return st;
  ag__set_out(c, 0, a->dtype, 3, (int64_t[]){s[0], s[1], t[2]});
  return AG_OK;
}

int ag__exec_bmm(const ag_exec *x) {
  const ag_raw *a = &x->in[0], *b = &x->in[1], *out = &x->out[0];
  int64_t nb = a->shape[0], m = a->shape[1], k = a->shape[2], n = b->shape[2];
  const int64_t *sa = a->strides, *sb = b->strides;
  matrix u, v = {.t = {0, 0}};
  int st = AG_ERR_MEMORY;
  if (matrix_of(a, m, k, sa[1], sa[2], nb, sa[0], a->data == out->data, &u) &&
      matrix_of(b, k, n, sb[1], sb[2], nb, sb[0], b->data == out->data, &v)) {
    product(out->dtype, &u, &v, nb, m, n, k, false, out->data);
    st = AG_OK;
  }
  ag__temp_free(&v.t);
  ag__temp_free(&u.t);
  return st;
}

static ag_tensor *turn3(ag_vjp *c, ag_tensor *t) { return ag__bi(c, AG_OP_transpose, t, 2, INT64_C(1), INT64_C(2)); }

int ag__vjp_bmm(ag_vjp *c) {
  ag_tensor *g = c->g[0];
  if (c->need[0]) ag__give(c, 0, ag__b2(c, AG_OP_bmm, g, turn3(c, ag__vx(c, 1))));
  if (c->need[1]) ag__give(c, 1, ag__b2(c, AG_OP_bmm, turn3(c, ag__vx(c, 0)), g));
  return c->status;
}
