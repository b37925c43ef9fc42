/* fn_whole.c: windows over whole numbers: convolution and max pooling in int64, exact (sums and products wrap around).
 * They have no derivatives; speed is that of plain loops. */
#include "ops/fn_util.h"

/* One or two spatial dims are three with leading ones of size 1. */
static ag_k_convgeom three(const ag_k_convgeom *g) {
  ag_k_convgeom q = {.nd = 3, .c = g->c};
  for (int d = 0, e = g->nd - 3; d < 3; d++, e++) {
    q.in[d] = e < 0 ? 1 : g->in[e];
    q.out[d] = e < 0 ? 1 : g->out[e];
    q.k[d] = e < 0 ? 1 : g->k[e];
    q.stride[d] = e < 0 ? 1 : g->stride[e];
    q.pad[d] = e < 0 ? 0 : g->pad[e];
    q.dil[d] = e < 0 ? 1 : g->dil[e];
  }
  return q;
}

/* Outputs lo..hi of dim d see place o*stride + at inside the input for tap k; returns at. */
static int64_t seen(const ag_k_convgeom *g, int d, int64_t k, int64_t *lo, int64_t *hi) {
  int64_t at = k * g->dil[d] - g->pad[d], s = g->stride[d];
  int64_t l = at >= 0 ? 0 : (s - 1 - at) / s, h = at >= g->in[d] ? 0 : (g->in[d] - 1 - at) / s + 1;
  *hi = h < g->out[d] ? h : g->out[d];
  *lo = l < *hi ? l : *hi;
  return at;
}

/* Steps t of the window of one channel: y[o] += w[t] x[place], or back: x[place] += w[t] y[o]. */
static void one_channel(const ag_k_convgeom *g, bool back, uint64_t *x, const uint64_t *w, uint64_t *y) {
  int64_t a0, a1, b0, b1, c0, c1, s = g->stride[2];
  for (int64_t a = 0; a < g->k[0]; a++)
    for (int64_t b = 0; b < g->k[1]; b++)
      for (int64_t c = 0; c < g->k[2]; c++, w++) {
        int64_t da = seen(g, 0, a, &a0, &a1), db = seen(g, 1, b, &b0, &b1), dc = seen(g, 2, c, &c0, &c1);
        if (!*w || c0 >= c1) continue;
        for (int64_t i = a0; i < a1; i++)
          for (int64_t j = b0; j < b1; j++) {
            uint64_t *p = x + ((i * g->stride[0] + da) * g->in[1] + j * g->stride[1] + db) * g->in[2] + c0 * s + dc;
            uint64_t *q = y + (i * g->out[1] + j) * g->out[2] + c0;
            if (back)
              for (int64_t k = 0; k < c1 - c0; k++) p[k * s] += *w * q[k];
            else
              for (int64_t k = 0; k < c1 - c0; k++) q[k] += *w * p[k * s];
          }
      }
}

typedef struct whole {
  ag_k_convgeom g;
  bool back;
  int64_t cg, og, groups, nx, ny, taps; /* channels of x and y in a group; elements of their planes; steps of a window */
  char *x, *y;
  const char *w, *bias;
} whole;

/* Channels from..to of what is written, those of all samples in a row. */
static int some_channels(void *ctx, int slot, int64_t from, int64_t to) {
  const whole *c = ctx;
  (void)slot;
  for (int64_t k = from; k < to; k++) {
    int64_t mine = c->back ? c->cg : c->og, other = c->back ? c->og : c->cg, channels = mine * c->groups;
    int64_t sample = k / channels, group = k % channels / mine, at = k % mine;
    uint64_t *x = (uint64_t *)(void *)c->x, *y = (uint64_t *)(void *)c->y;
    const uint64_t *w = (const uint64_t *)(const void *)c->w, *bias = (const uint64_t *)(const void *)c->bias;
    if (c->back) memset(x + k * c->nx, 0, (size_t)c->nx * sizeof *x);
    else
      for (int64_t i = 0; i < c->ny; i++) y[k * c->ny + i] = bias ? bias[k % channels] : 0;
    for (int64_t o = 0; o < other; o++) {
      int64_t that = (sample * c->groups + group) * other + o;
      int64_t row = c->back ? (group * c->og + o) * c->cg + at : (group * c->og + at) * c->cg + o;
      one_channel(&c->g, c->back, x + (c->back ? k : that) * c->nx, w + row * c->taps, y + (c->back ? that : k) * c->ny);
    }
  }
  return AG_OK;
}

int ag__whole_conv(const ag_exec *x, const ag_k_convgeom *g, int64_t groups, bool back) {
  const ag_raw *out = &x->out[0], *a = &x->in[0], *w = &x->in[1], *y = back ? a : out;
  ag_temp t[3] = {{NULL, 0}};
  char *d[3] = {NULL};
  int st = AG_OK;
  for (int k = 0; k < x->n_in && !st; k++)
    if (!(d[k] = ag__contig(&x->in[k], &t[k]))) st = AG_ERR_MEMORY;
  if (!st) {
    whole c = {.g = three(g), .back = back, .cg = w->shape[1], .og = w->shape[0] / groups, .groups = groups, .nx = 1, .ny = 1, .taps = 1,
               .x = back ? out->data : d[0], .y = back ? d[0] : out->data, .w = d[1], .bias = d[2]};
    for (int k = 0; k < 3; k++) {
      c.nx *= c.g.in[k];
      c.ny *= c.g.out[k];
      c.taps *= c.g.k[k];
    }
    int64_t each = (back ? c.og : c.cg) * c.taps + 1; /* the filling, too: with no channels there is only that */
    void *token = ag__long_begin(y->numel * (w->shape[0] ? w->numel / w->shape[0] : 0), AG_LONG_MATH);
    ag__parallel(out->shape[0] * out->shape[1], ag__grain_rows(c.ny, 8, each), some_channels, &c);
    ag__blocking_end(token);
  }
  for (int k = 0; k < 3; k++) ag__temp_free(&t[k]);
  return st;
}

void ag__whole_maxpool(const ag_k_convgeom *geom, void *outv, int64_t *idx, const void *xv) {
  const ag_k_convgeom g = three(geom);
  int64_t plane = g.in[0] * g.in[1] * g.in[2], *out = outv;
  const int64_t *x = xv;
  for (int64_t c = 0; c < g.c; c++, x += plane)
    for (int64_t i = 0; i < g.out[0]; i++)
      for (int64_t j = 0; j < g.out[1]; j++)
        for (int64_t k = 0; k < g.out[2]; k++) {
          int64_t best = -1;
          for (int64_t a = 0; a < g.k[0]; a++) {
            int64_t u = i * g.stride[0] - g.pad[0] + a * g.dil[0];
            for (int64_t b = 0; b < g.k[1] && u >= 0 && u < g.in[0]; b++) {
              int64_t v = j * g.stride[1] - g.pad[1] + b * g.dil[1];
              for (int64_t e = 0; e < g.k[2] && v >= 0 && v < g.in[1]; e++) {
                int64_t w = k * g.stride[2] - g.pad[2] + e * g.dil[2], at = (u * g.in[1] + v) * g.in[2] + w;
                if (w >= 0 && w < g.in[2] && (best < 0 || x[at] > x[best])) best = at;
              }
            }
          }
          *idx++ = best < 0 ? 0 : best;
          *out++ = best < 0 ? 0 : x[best];
        }
}
