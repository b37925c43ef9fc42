/* fn_grid.c: sampling at the points of a grid.
 *
 * grid_sample takes the orders of derivative in each coordinate as parameters, so its derivative in the grid is
 * grid_sample again, one order up, and two rows are closed under differentiation. */
#include "ops/fn_util.h"

/* ints of both rows: mode, padding, align_corners, wanted (backward: bit 0 dx, bit 1 dgrid), order of each coordinate */
enum { MODE, PADDING, ALIGN, WANTED, ORDER };

/* The failure fmt with the sizes of both operands as text. */
static int sizes(const ag_array *x, const ag_array *grid, const char *fmt) {
  char a[160], b[160];
  return ag__fail(AG_ERR_RUNTIME, fmt, ag__shape_text(x->ndim, ag__shape(x), a, sizeof a),
                  ag__shape_text(grid->ndim, ag__shape(grid), b, sizeof b));
}

static int check(ag_infer *c, const ag_array *x, const ag_array *grid) {
  const ag_params *p = c->p;
  int nd = x->ndim - 2, st = ag__need(c, 2, ORDER + (nd > 0 && nd < 4 ? nd : 0), 0);
  if (!st) st = ag__need_float(c, x->dtype);
  if (st) return st;
  const int64_t *xs = ag__shape(x), *gs = ag__shape(grid);
  if ((nd != 2 && nd != 3) || grid->ndim != x->ndim)
    return sizes(x, grid, "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes %s "
                 "and grid with sizes %s");
  if (grid->dtype != x->dtype)
    return ag__fail(AG_ERR_RUNTIME, "grid_sampler(): expected input and grid to have same dtype, but input has %s and grid has %s",
                    ag_dtype_name(x->dtype), ag_dtype_name(grid->dtype));
  if (xs[0] != gs[0])
    return sizes(x, grid, "grid_sampler(): expected grid and input to have same batch size, but got input with sizes %s and grid with "
                 "sizes %s");
  if (gs[nd + 1] != nd)
    return ag__fail(AG_ERR_RUNTIME, "grid_sampler(): expected grid to have size %d in last dimension, but got %lld", nd,
                    (long long)gs[nd + 1]);
  double plane = 1;
  for (int k = 2; k < x->ndim; k++) {
    plane *= (double)xs[k];
    if (xs[k] <= 0)
      return ag__fail(AG_ERR_RUNTIME, "grid_sampler(): expected input to have non-empty spatial dimensions, but dimension %d is empty", k);
  }
  if (plane >= 2147483648.0)
    return ag__fail(AG_ERR_RUNTIME, "grid_sampler(): planes of 2^31 elements or more are not supported");
  if (p->i[MODE] < 0 || p->i[MODE] > 2 || p->i[PADDING] < 0 || p->i[PADDING] > 2)
    return ag__fail(AG_ERR_VALUE, "grid_sampler(): unknown interpolation mode %lld or padding mode %lld", (long long)p->i[MODE],
                    (long long)p->i[PADDING]);
  if (p->i[MODE] == AG_GRID_CUBIC && nd == 3)
    return ag__fail(AG_ERR_RUNTIME, "grid_sampler(): bicubic interpolation only supports 4D input");
  for (int j = 0; j < nd; j++)
    if (p->i[ORDER + j] < 0 || p->i[ORDER + j] > 64) return ag__fail(AG_ERR_VALUE, "%s(): order of derivative out of range", c->row->name);
  return AG_OK;
}

/* (N, C, points..) */
static int result_shape(const ag_array *x, const ag_array *grid, int64_t *shape) {
  shape[0] = ag__shape(x)[0];
  shape[1] = ag__shape(x)[1];
  for (int k = 2; k < x->ndim; k++) shape[k] = ag__shape(grid)[k - 1];
  return x->ndim;
}

int ag__infer_grid_sample(ag_infer *c) {
  int64_t shape[AG_MAX_NDIM];
  int st = ag__need(c, 2, ORDER, 0);
  if (!st) st = check(c, c->in[0], c->in[1]);
  if (!st) ag__set_out(c, 0, c->in[0]->dtype, result_shape(c->in[0], c->in[1], shape), shape);
  return st;
}

int ag__infer_grid_sample_backward(ag_infer *c) {
  int64_t shape[AG_MAX_NDIM];
  int st = ag__need(c, 3, ORDER, 0);
  if (!st) st = check(c, c->in[1], c->in[2]);
  if (st) return st;
  const ag_array *g = c->in[0], *x = c->in[1], *grid = c->in[2];
  int nd = result_shape(x, grid, shape);
  if (g->dtype != x->dtype || !ag__same_shape(g->ndim, ag__shape(g), nd, shape))
    return ag__fail(AG_ERR_RUNTIME, "grid_sample_backward(): the gradient has not the type and shape of the result");
  shape[0] = 0;
  bool dx = c->p->i[WANTED] & 1, dgrid = c->p->i[WANTED] & 2;
  ag__set_out(c, 0, x->dtype, dx ? x->ndim : 1, dx ? ag__shape(x) : shape);
  ag__set_out(c, 1, x->dtype, dgrid ? grid->ndim : 1, dgrid ? ag__shape(grid) : shape);
  return AG_OK;
}

static void geometry(ag_k_gridgeom *g, const ag_raw *x, const ag_raw *grid, const ag_params *p) {
  memset(g, 0, sizeof *g);
  g->nd = x->ndim - 2;
  g->mode = (int32_t)p->i[MODE];
  g->padding = (int32_t)p->i[PADDING];
  g->align = p->i[ALIGN] != 0;
  g->c = x->shape[1];
  g->points = 1;
  for (int k = 0; k < g->nd; k++) {
    g->order[k] = (int32_t)p->i[ORDER + k];
    g->in[k] = x->shape[2 + k];
    g->points *= grid->shape[1 + k];
  }
}

int ag__exec_grid_sample(const ag_exec *e) {
  const ag_raw *x = &e->in[0], *grid = &e->in[1];
  if (e->out[0].numel == 0) return AG_OK;
  ag_k_gridgeom g;
  geometry(&g, x, grid, e->p);
  size_t size = (size_t)ag__dtype_size(x->dtype);
  int64_t n = x->shape[0], step = x->numel / n, points = g.points * g.nd, out = g.points * g.c;
  ag_temp tx, tg = {NULL, 0};
  const char *xd = ag__contig(x, &tx), *gd = xd ? ag__contig(grid, &tg) : NULL;
  if (gd) {
    void *token = ag__long_begin(e->out[0].numel * 8, AG_LONG_MATH);
    for (int64_t k = 0; k < n; k++)
      ag__k->grid[x->dtype](&g, e->out[0].data + (size_t)(k * out) * size, xd + (size_t)(k * step) * size, gd + (size_t)(k * points) * size);
    ag__blocking_end(token);
  }
  ag__temp_free(&tg);
  ag__temp_free(&tx);
  return gd ? AG_OK : AG_ERR_MEMORY;
}

int ag__exec_grid_sample_backward(const ag_exec *e) {
  const ag_raw *g = &e->in[0], *x = &e->in[1], *grid = &e->in[2];
  ag_k_gridgeom geom;
  geometry(&geom, x, grid, e->p);
  size_t size = (size_t)ag__dtype_size(x->dtype);
  memset(e->out[0].data, 0, (size_t)e->out[0].numel * size);
  memset(e->out[1].data, 0, (size_t)e->out[1].numel * size);
  if (g->numel == 0) return AG_OK;
  int64_t n = x->shape[0], step = x->numel / n, points = geom.points * geom.nd, out = geom.points * geom.c;
  ag_temp t[3] = {{NULL, 0}};
  const char *d[3] = {NULL};
  int st = AG_OK;
  for (int k = 0; k < 3 && !st; k++)
    if (!(d[k] = ag__contig(&e->in[k], &t[k]))) st = AG_ERR_MEMORY;
  if (!st) {
    void *token = ag__long_begin(g->numel * 16, AG_LONG_MATH);
    bool dx = e->p->i[WANTED] & 1, dgrid = e->p->i[WANTED] & 2;
    for (int64_t k = 0; k < n; k++)
      ag__k->grid_bwd[x->dtype](&geom, dx ? e->out[0].data + (size_t)(k * step) * size : NULL,
                                dgrid ? e->out[1].data + (size_t)(k * points) * size : NULL, d[0] + (size_t)(k * out) * size,
                                d[1] + (size_t)(k * step) * size, d[2] + (size_t)(k * points) * size);
    ag__blocking_end(token);
  }
  for (int k = 0; k < 3; k++) ag__temp_free(&t[k]);
  return st;
}

/* ---- derivatives ---- */

/* The node's parameters with other wanted bits, and one order more in coordinate up (-1: none). */
static ag_params params(const ag_vjp *c, int wanted, int up) {
  ag_params p = c->p;
  p.i[WANTED] = wanted;
  if (up >= 0) p.i[ORDER + up]++;
  return p;
}

static ag_tensor *sample(ag_vjp *c, ag_tensor *x, ag_tensor *grid, int up) {
  ag_params p = params(c, 0, up);
  return ag__b(c, AG_OP_grid_sample, 2, (ag_tensor *[]){x, grid}, &p);
}

/* Results 0 (dx) and 1 (dgrid), of which wanted says what is computed. */
static void backward(ag_vjp *c, ag_tensor *g, ag_tensor *x, ag_tensor *grid, int wanted, int up, ag_tensor *out[2]) {
  out[0] = out[1] = NULL;
  if (c->status || !g || !x || !grid) return;
  ag_params p = params(c, wanted, up);
  ag_tensor *in[3] = {g, x, grid};
  c->status = ag__apply(AG_OP_grid_sample_backward, 3, in, &p, out);
  if (c->status) return;
  for (int k = 0; k < 2; k++) { /* borrowed from c like every builder's result */
    if (c->n_temps < AG_VJP_TEMPS) {
      c->temps[c->n_temps++] = out[k];
    } else {
      ag_tensor_release(out[k]);
      out[k] = NULL;
      c->status = ag__fail(AG_ERR_RUNTIME, "%s: derivative rule too long", c->row->name);
    }
  }
}

int ag__vjp_grid_sample(ag_vjp *c) {
  ag_tensor *out[2];
  if (!c->g[0]) return c->status;
  backward(c, c->g[0], ag__vx(c, 0), ag__vx(c, 1), (c->need[0] ? 1 : 0) | (c->need[1] ? 2 : 0), -1, out);
  for (int k = 0; k < 2 && !c->status; k++)
    if (c->need[k]) ag__give(c, k, out[k]);
  return c->status;
}

static ag_tensor *plus(ag_vjp *c, ag_tensor *a, ag_tensor *b) { return a ? ag__b2(c, AG_OP_add, a, b) : b; }

/* With S(grid) the sampling: dx = S' g and dgrid_j = <g, S_j x>, S_j its derivative in coordinate j.  For the gradients u
 * and v of these: in g: S u + sum v_j S_j x; in x: sum S_j' (v_j g); in the grid: as dgrid, of u, and of the v_j at S_j. */
int ag__vjp_grid_sample_backward(ag_vjp *c) {
  int wanted = (int)c->p.i[WANTED];
  ag_tensor *u = wanted & 1 ? c->g[0] : NULL, *v = wanted & 2 ? c->g[1] : NULL;
  if (!u && !v) return c->status;
  ag_tensor *g = ag__vx(c, 0), *x = ag__vx(c, 1), *grid = ag__vx(c, 2), *dg = NULL, *dx = NULL, *dgrid = NULL, *out[2];
  if (c->status) return c->status;
  if (u) {
    if (c->need[0]) dg = sample(c, u, grid, -1);
    if (c->need[2]) {
      backward(c, g, u, grid, 2, -1, out);
      dgrid = out[1];
    }
  }
  for (int j = 0; v && j < x->arr->ndim - 2 && !c->status; j++) {
    ag_tensor *vj = ag__bi(c, AG_OP_unsqueeze, ag__bi(c, AG_OP_select, v, 2, INT64_C(-1), (int64_t)j), 1, INT64_C(1));
    if (c->need[0]) dg = plus(c, dg, ag__b2(c, AG_OP_mul, vj, sample(c, x, grid, j)));
    if (c->need[1] || c->need[2]) {
      backward(c, ag__b2(c, AG_OP_mul, g, vj), x, grid, (c->need[1] ? 1 : 0) | (c->need[2] ? 2 : 0), j, out);
      if (c->need[1]) dx = plus(c, dx, out[0]);
      if (c->need[2]) dgrid = plus(c, dgrid, out[1]);
    }
  }
  if (dg && !c->status) ag__give(c, 0, dg);
  if (dx && !c->status) ag__give(c, 1, dx);
  if (dgrid && !c->status) ag__give(c, 2, dgrid);
  return c->status;
}
