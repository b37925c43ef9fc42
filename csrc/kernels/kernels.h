/* kernels.h: the contract of the pure functions over memory (floor 2).
 *
 * One table of function pointers per instruction set; each k_<isa>.c is compiled with its own flags and
 * exports one symbol, its table.  Nothing here knows tensors, allocates, fails or keeps state.
 *
 * Elementwise kernels take contiguous operands of n elements and may run in place (out equal to an
 * operand, not partly overlapping).  Strides and broadcasting are the caller's work (ops/exec.c packs
 * blocks), so that eager calls, fused replay and any thread partition run the very same loop: every
 * element's bits depend on its operands alone, never on n or on its place in the block. */
#ifndef AG_KERNELS_H
#define AG_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { AG_K_NDTYPE = 6 }; /* bool, uint8, int32, int64, float32, float64: as AG_BOOL.. */

/* out[i] = f(a[i], b[i], c[i]; p); operands beyond the op's arity are ignored.  A bool is one byte 0 or 1. */
typedef void ag_k_ew(int64_t n, void *out, const void *a, const void *b, const void *c, const double *p);
/* Derivative of an elementwise op in operand k, fused: dx[i] = D(g[i], x0[i], x1[i], x2[i], y[i]; p). */
typedef void ag_k_ewd(int64_t n, void *dx, const void *g, const void *x0, const void *x1, const void *x2,
                      const void *y, const double *p);

typedef struct ag_k_elementwise {
  ag_k_ew *fwd[AG_K_NDTYPE]; /* by operand dtype (where: the dtype of the two branches); NULL: not defined */
  ag_k_ewd *bwd[3][AG_K_NDTYPE];
} ag_k_elementwise;

/* ---- reductions: rows (outer) x n x inner, laid out contiguously; the middle axis is reduced ----
 * out has outer*inner elements.  Sums run in fixed pairwise blocks over n, so that the result depends on n
 * (and inner == 1 or not) alone. */
typedef void ag_k_reduce(int64_t outer, int64_t n, int64_t inner, void *out, const void *x);
/* max/min with position: values and int64 indices of the first extremum (NaN wins); values may be NULL. */
typedef void ag_k_argreduce(int64_t outer, int64_t n, int64_t inner, void *values, int64_t *indices, const void *x);

enum { AG_R_SUM, AG_R_PROD, AG_R_MAX, AG_R_MIN, AG_R_ANY, AG_R_ALL, AG_R_COUNT };

/* ---- softmax along the middle axis; log != 0 gives log_softmax ---- */
typedef void ag_k_softmax(int64_t outer, int64_t n, int64_t inner, void *out, const void *x, int log);
/* dx from g and y (the forward's result): softmax y*(g-sum(g*y)), log_softmax g-exp(y)*sum(g). */
typedef void ag_k_softmax_bwd(int64_t outer, int64_t n, int64_t inner, void *dx, const void *g, const void *y, int log);
/* ---- normalisation: rows of n; w, b of n may be NULL (w, then b) ---- */
typedef void ag_k_layer_norm(int64_t rows, int64_t n, const void *x, const void *w, const void *b, double eps, void *y, void *mean,
                             void *rstd);
/* With h = g w, xhat = (x - mean) rstd: dx = rstd (h - mean(h) - xhat mean(h xhat)), dw = sum over rows of g xhat, db = sum of g;
 * each may be NULL.  sums: room for 2 n. */
typedef void ag_k_layer_norm_bwd(int64_t rows, int64_t n, const void *g, const void *x, const void *mean, const void *rstd,
                                 const void *w, void *dx, void *dw, void *db, void *sums);
/* outer x c x inner: out = x a[c] + b[c] (b may be NULL); out[c] = sum of u v */
typedef void ag_k_scale_shift(int64_t outer, int64_t c, int64_t inner, void *out, const void *x, const void *a, const void *b);
typedef void ag_k_channel_dot(int64_t outer, int64_t c, int64_t inner, void *out, const void *u, const void *v);
/* out[o,k,i] = sum or product of x[o,0..k,i]. */
typedef void ag_k_cumulate(int64_t outer, int64_t n, int64_t inner, void *out, const void *x, int prod);

/* ---- moving elements of size bytes (1, 4 or 8) ---- */
/* out[i] = element at linear position start+i of the strided operand (strides in elements); contiguous out. */
typedef void ag_k_pack(int ndim, const int64_t *shape, const int64_t *strides, int64_t start, int64_t n, void *out,
                       const void *x, int size);
/* the reverse: scatter n contiguous elements to positions start.. of the strided destination */
typedef void ag_k_unpack(int ndim, const int64_t *shape, const int64_t *strides, int64_t start, int64_t n, void *out,
                         const void *x, int size);
typedef void ag_k_cast(int64_t n, void *out, const void *x);
/* memcpy past the caches, for results that they could not hold; other threads see it, and what was so copied before, when
 * a call with last != 0 returns */
typedef void ag_k_stream(void *out, const void *x, size_t bytes, int last);

/* ---- matrix product, no BLAS: C = alpha * op(A) op(B) + beta * C, row-major, ld in elements ----
 * Each element is one sum in ascending k, by FMA where the instruction set has it, whatever the sizes. */
typedef void ag_k_gemm(int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha, const void *a, int64_t lda,
                       const void *b, int64_t ldb, double beta, void *c, int64_t ldc);

/* ---- convolution: unfolding for a matrix product, n-dimensional (1..3 spatial dims) ---- */
typedef struct ag_k_convgeom {
  int32_t nd;                     /* spatial dims, 1..3 */
  int64_t c;                      /* channels of x handled here */
  int64_t in[3], out[3], k[3];    /* sizes: input, output, kernel */
  int64_t stride[3], pad[3], dil[3];
} ag_k_convgeom;
/* col[c*prod(k)][prod(out)] from x[c][in...]; outside x there are zeros. */
typedef void ag_k_unfold(const ag_k_convgeom *g, void *col, const void *x);
/* x += fold of col (x is not cleared). */
typedef void ag_k_fold(const ag_k_convgeom *g, void *x, const void *col);
/* Convolution without columns (conv_direct.inc).  x lies in planes, made by conv_planes: for each channel slots[0] x
 * slots[1] x slots[2] planes of size[0..2]; place q of slot u of dim d is x at q*stride + u*dil % stride - pad.  In them tap p
 * of the results of a line begins at off[p], and the next line is pitch further on. */
typedef struct ag_k_planes {
  int64_t channels, in[3], slots[3], size[3], stride[3], dil[3], pad[3]; /* pad may be negative */
} ag_k_planes;
typedef void ag_k_conv_planes(const ag_k_planes *c, void *planes, const void *x);
/* out[i][line][col] = bias[i] + sum_p a[i][p] x[off[p] + line*pitch + col], at out + i*ldo + line*line_stride + col*step,
 * for samples that lie xstep and ostep apart.  a: blocks of conv_mr rows as [p][row], the last block filled up with zeros;
 * for m <= 2 rows as they are.  bias may be NULL.  panel: NULL, or room for k * 3 vectors of columns laid side by side
 * (m > 2 only; dense[(v-1)*k + p] = p * v vectors for v 1..3).  AG_K_SLACK elements behind the last of x and panel are touched. */
typedef struct ag_k_rows {
  int64_t m, k, lines, width, pitch, line, step, ldo, samples, xstep, ostep;
  const int64_t *off, *dense;
} ag_k_rows;
enum { AG_K_SLACK = 8 * 16 };
typedef void ag_k_conv_rows(const ag_k_rows *c, void *out, const void *a, const void *x, const void *bias, void *panel);
/* out[p*ldo + o] = (add: +) sum over lines and columns of x[off[p] + line*pitch + col] g[line*width + col][o]: g has ldg
 * elements between positions, and as out room for whole vectors of channels. */
typedef struct ag_k_taps {
  int64_t m, channels, lines, width, pitch, ldg, ldo;
  const int64_t *off;
} ag_k_taps;
typedef void ag_k_conv_taps(const ag_k_taps *c, void *out, const void *x, const void *g, int add);
/* One channel: out[p] += the same sum, g[line*width + col]. */
typedef void ag_k_conv_dots(const ag_k_taps *c, void *out, const void *x, const void *g);
/* Max pooling of c planes: values and the flat position in the plane of each maximum. */
typedef void ag_k_maxpool(const ag_k_convgeom *g, void *out, int64_t *idx, const void *x);

/* ---- sampling the planes of one sample at the points of a grid, 2 or 3 spatial dims ----
 * A point has nd coordinates, of the last dim first, in [-1, 1] from edge to edge of x.  order[j]: derivatives taken in
 * coordinate j.  Each sum over taps runs in one order; dx adds up the points in theirs. */
enum { AG_GRID_LINEAR, AG_GRID_NEAREST, AG_GRID_CUBIC };
enum { AG_GRID_ZEROS, AG_GRID_BORDER, AG_GRID_MIRROR };
typedef struct ag_k_gridgeom {
  int32_t nd, mode, padding, align, order[3];
  int64_t c, in[3], points; /* channels, sizes of x (their product below 2^31), points of the grid */
} ag_k_gridgeom;
/* out[c][points] from x[c][in..], grid[points][nd] */
typedef void ag_k_grid(const ag_k_gridgeom *g, void *out, const void *x, const void *grid);
/* dx[c][in..] += (not cleared), dgrid[points][nd] =; either may be NULL.  x is read for dgrid alone. */
typedef void ag_k_grid_bwd(const ag_k_gridgeom *g, void *dx, void *dgrid, const void *gy, const void *x, const void *grid);

/* ---- connectionist temporal classification: one sequence (ctc.inc) ----
 * States: blank, first label, blank, .., blank.  work: for the loss 4 (n + 4) elements, for the gradient (times + 5)
 * (n + 4). */
typedef struct ag_k_ctcseq {
  int64_t times, stride, classes, n; /* steps, elements from one to the next in lp, classes, states */
  const int32_t *label;              /* class of each state */
} ag_k_ctcseq;
/* -log of the probability of the labels; inf where they do not fit. */
typedef double ag_k_ctc_loss(const ag_k_ctcseq *q, const void *lp, void *work);
/* dlp (strided as lp) = g (e^lp - share of the ways through each class); all NaN when there is no way, or untouched with
 * zero_infinity. */
typedef void ag_k_ctc_grad(const ag_k_ctcseq *q, void *dlp, const void *lp, double g, int zero_infinity, void *work);

/* ---- state updates of optimizers, n contiguous elements ----
 * sgd: g' = maximize?-g:g; g' += wd*p; if buf: buf = first? g' : mom*buf + (1-damp)*g'; g' = nesterov? g'+mom*buf : buf;
 *      p -= lr*g'.  h: {lr, momentum, dampening, weight_decay}; flags bit0 nesterov, bit1 maximize, bit2 first. */
typedef void ag_k_sgd(int64_t n, void *p, const void *g, void *buf, const double *h, int flags);
/* adam: h = {lr, beta1, beta2, eps, weight_decay, step}; step counts from 1 and is this call's; flags bit0 decoupled
 *       weight decay (AdamW), bit1 maximize.  As PyTorch: m=b1*m+(1-b1)*g; v=b2*v+(1-b2)*g*g;
 *       p -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps). */
typedef void ag_k_adam(int64_t n, void *p, const void *g, void *m, void *v, const double *h, int flags);

/* ---- random: element i of a stream depends on (seed, counter, i) alone (Philox 4x32-10) ---- */
typedef void ag_k_random(int64_t n, void *out, uint64_t seed, uint64_t counter, int64_t first, double a, double b);
/* The words themselves: word i of the stream is word i % 4 of block i / 4. */
typedef void ag_k_words(int64_t n, uint32_t *out, uint64_t seed, uint64_t counter, int64_t first);

typedef struct ag_kernels {
  const char *isa;
  const ag_k_elementwise *ew; /* indexed by row number of ag_ops.inc */
  ag_k_reduce *reduce[6][AG_K_NDTYPE]; /* [AG_R_..][dtype]; sum of bool/uint8/int32 writes int64, any/all write bool */
  ag_k_argreduce *argmax[AG_K_NDTYPE], *argmin[AG_K_NDTYPE];
  ag_k_softmax *softmax[AG_K_NDTYPE];
  ag_k_softmax_bwd *softmax_bwd[AG_K_NDTYPE];
  ag_k_cumulate *cumulate[AG_K_NDTYPE];
  ag_k_layer_norm *layer_norm[AG_K_NDTYPE];
  ag_k_layer_norm_bwd *layer_norm_bwd[AG_K_NDTYPE];
  ag_k_scale_shift *scale_shift[AG_K_NDTYPE];
  ag_k_channel_dot *channel_dot[AG_K_NDTYPE];
  ag_k_cast *cast[AG_K_NDTYPE][AG_K_NDTYPE]; /* [from][to], C's conversions; to bool: x != 0 */
  ag_k_pack *pack;
  ag_k_unpack *unpack;
  ag_k_stream *stream;
  ag_k_gemm *gemm[AG_K_NDTYPE]; /* float32, float64; int32, int64 without alpha, beta 0 or 1 */
  ag_k_unfold *unfold[AG_K_NDTYPE];
  ag_k_fold *fold[AG_K_NDTYPE];
  ag_k_maxpool *maxpool[AG_K_NDTYPE];
  int conv_mr, conv_lanes; /* rows of a block of conv_rows; bytes of a vector */
  ag_k_conv_planes *conv_planes[AG_K_NDTYPE];
  ag_k_conv_rows *conv_rows[AG_K_NDTYPE];
  ag_k_conv_taps *conv_taps[AG_K_NDTYPE];
  ag_k_conv_dots *conv_dots[AG_K_NDTYPE];
  ag_k_grid *grid[AG_K_NDTYPE];
  ag_k_grid_bwd *grid_bwd[AG_K_NDTYPE];
  ag_k_ctc_loss *ctc_loss[AG_K_NDTYPE];
  ag_k_ctc_grad *ctc_grad[AG_K_NDTYPE];
  ag_k_sgd *sgd[AG_K_NDTYPE];
  ag_k_adam *adam[AG_K_NDTYPE];
  ag_k_random *uniform[AG_K_NDTYPE]; /* a + (b-a)*u, u in [0,1) */
  ag_k_random *normal[AG_K_NDTYPE];  /* a + b*z, Box-Muller */
  ag_k_words *words;
} ag_kernels;

/* a = k pi/2 + r + lo for any finite a >= 1, |r| <= pi/4, lo what r's rounding lost: returns k mod 4 (as a number of 0 to
 * 4).  NaN for other arguments.  For float32 r alone is exact enough. */
int ag__trig_far_f32(float a, double *r);
int ag__trig_far_f64(double a, double *r, double *lo);

/* The table in use: chosen once, after asking CPU and OS; AUTOGRAD_C_DISABLE_CPU=avx512,avx2 leaves sets out. */
extern const ag_kernels *ag__k;
/* Tables compiled in, widest first, NULL-terminated; usable tells what this machine can run. */
const ag_kernels *const *ag__kernels_all(void);
int ag__kernels_usable(const ag_kernels *k);
void ag__kernels_init(void);

#endif
