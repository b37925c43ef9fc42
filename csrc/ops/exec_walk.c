/* exec_walk.c: elementwise kernels, which want contiguous operands, over operands of any strides.
 *
 * The dims are first put in the order of the result's memory, and joined where all operands allow.  Then two of them are
 * picked, I and J, and each plane of the two is done in tiles that stay in the first-level cache.  Along J an operand
 * is direct (stride 1: the kernel reads where it lies), a splat (stride 0: one value, in a buffer) or packed (a tile of it
 * is copied to a buffer: turned operands, whose stride along I is 1, by square blocks).  Planes too small for that are
 * taken as one long line, in blocks of packed elements.  Threads take slices along one dim.  None of this changes bits:
 * a kernel's element depends on its operands alone. */
#include "ops/exec.h"
#include "ops/par.h"

enum {
  N_OPS = 6,         /* gradient, three operands, result of the forward, and what is written */
  ROOM = 8192,       /* bytes of an operand in a tile */
  LONG_ROW = 64,     /* elements from which a call of the kernel for each row pays */
  SMALL_PLANE = 256, /* elements */
};

typedef struct operand {
  char *data;
  int size;
  bool absent, everywhere, filled; /* everywhere: a single value, which is in the buffer once filled */
  int64_t st[AG_MAX_NDIM]; /* in elements, by dim of the walk */
  int64_t si, sj;
  char *buf; /* ROOM bytes */
} operand;

typedef struct walk {
  ag_k_ew *ew;
  ag_k_ewd *ewd;
  const double *p;
  int n, nd;                 /* operands without the result, which is op[n]; dims */
  int64_t shape[AG_MAX_NDIM];
  operand op[N_OPS];
  int64_t room;              /* elements of a tile */
} walk;

static void call(const walk *w, int64_t m, const char *const at[N_OPS], char *out) {
  if (w->ew) w->ew(m, out, at[0], at[1], at[2], w->p);
  else w->ewd(m, out, at[0], at[1], at[2], at[3], at[4], w->p);
}

static char *place(const operand *o, char *base, int64_t i, int64_t j) { return base + (i * o->si + j * o->sj) * o->size; }

static void pack(const operand *o, const char *from, int64_t ni, int64_t nj) {
  const int64_t shape[2] = {ni, nj}, strides[2] = {o->si, o->sj};
  ag__k->pack(2, shape, strides, 0, ni * nj, o->buf, from, o->size);
}
static void unpack(const operand *o, char *to, int64_t ni, int64_t nj) {
  const int64_t shape[2] = {ni, nj}, strides[2] = {o->si, o->sj};
  ag__k->unpack(2, shape, strides, 0, ni * nj, to, o->buf, o->size);
}

/* One plane by calls for each row (or piece of it). */
static void long_rows(walk *w, char *const base[N_OPS], int64_t ni, int64_t nj) {
  operand *const out = &w->op[w->n];
  bool turns = false, packs = out->sj != 1;
  for (int k = 0; k <= w->n; k++) {
    const operand *o = &w->op[k];
    if (o->absent || o->sj == 1) continue;
    turns |= o->si == 1 && o->sj != 0;
    packs |= o->si != 0;
  }
  const int64_t tj_max = turns && nj >= 2 * LONG_ROW ? LONG_ROW : nj < w->room ? nj : w->room, ti_max = packs ? w->room / tj_max : ni;
  const char *at[N_OPS] = {0};
  int64_t step[N_OPS] = {0}; /* bytes from row to row, of at */
  for (int64_t j0 = 0; j0 < nj; j0 += tj_max) {
    const int64_t tj = nj - j0 < tj_max ? nj - j0 : tj_max;
    for (int64_t i0 = 0; i0 < ni; i0 += ti_max) {
      const int64_t ti = ni - i0 < ti_max ? ni - i0 : ti_max;
      for (int k = 0; k < w->n; k++) {
        operand *o = &w->op[k];
        if (o->absent) continue;
        char *from = place(o, base[k], i0, j0);
        if (o->sj == 1) {
          at[k] = from;
          step[k] = o->si * o->size;
          continue;
        }
        at[k] = o->buf;
        step[k] = o->si ? tj * o->size : 0; /* rows all alike are packed once, a single value once for all planes */
        if (o->si) pack(o, from, ti, tj);
        else if (o->sj ? i0 == 0 : i0 == 0 && j0 == 0 && !o->filled) pack(o, from, 1, tj);
      }
      char *to = out->sj == 1 ? place(out, base[w->n], i0, j0) : out->buf;
      const int64_t to_step = (out->sj == 1 ? out->si : tj) * out->size;
      for (int64_t r = 0; r < ti; r++, to += to_step) {
        call(w, tj, at, to);
        for (int k = 0; k < w->n; k++)
          if (step[k]) at[k] += step[k];
      }
      if (out->sj != 1) unpack(out, place(out, base[w->n], i0, j0), ti, tj);
    }
  }
  for (int k = 0; k < w->n; k++) w->op[k].filled = w->op[k].everywhere;
}

/* One plane of short rows: several of them in a call. */
static void short_rows(walk *w, char *const base[N_OPS], int64_t ni, int64_t nj) {
  const int64_t ti_max = w->room / nj;
  operand *const out = &w->op[w->n];
  const char *at[N_OPS] = {0};
  for (int64_t i0 = 0; i0 < ni; i0 += ti_max) {
    const int64_t ti = ni - i0 < ti_max ? ni - i0 : ti_max;
    for (int k = 0; k < w->n; k++) {
      operand *o = &w->op[k];
      if (o->absent) continue;
      char *from = place(o, base[k], i0, 0);
      at[k] = o->buf;
      if (o->sj == 1 && o->si == nj) at[k] = from;
      else if (o->si || (i0 == 0 && !o->filled)) pack(o, from, ti, nj); /* rows all alike are packed once */
    }
    const bool direct = out->sj == 1 && out->si == nj;
    char *to = place(out, base[w->n], i0, 0);
    call(w, ti * nj, at, direct ? to : out->buf);
    if (!direct) unpack(out, to, ti, nj);
  }
}

/* Everything as one line. */
static void line(walk *w, int64_t total) {
  operand *const out = &w->op[w->n];
  const char *at[N_OPS] = {0};
  bool straight[N_OPS];
  for (int k = 0; k <= w->n; k++) {
    int64_t want = 1;
    straight[k] = true;
    for (int d = w->nd - 1; d >= 0; d--) {
      straight[k] &= w->op[k].absent || w->op[k].st[d] == want;
      want *= w->shape[d];
    }
  }
  for (int64_t start = 0; start < total; start += w->room) {
    const int64_t m = total - start < w->room ? total - start : w->room;
    for (int k = 0; k < w->n; k++) {
      const operand *o = &w->op[k];
      if (o->absent) continue;
      at[k] = straight[k] ? o->data + start * o->size : o->buf;
      if (!straight[k]) ag__k->pack(w->nd, w->shape, o->st, start, m, o->buf, o->data, o->size);
    }
    call(w, m, at, straight[w->n] ? out->data + start * out->size : out->buf);
    if (!straight[w->n]) ag__k->unpack(w->nd, w->shape, out->st, start, m, out->data, out->buf, out->size);
  }
}

/* Dims of size 1 go, the others in falling order of the result's strides, neighbours joined. */
static void arrange(walk *w) {
  const operand *out = &w->op[w->n];
  int order[AG_MAX_NDIM], m = 0;
  for (int d = 0; d < w->nd; d++) {
    if (w->shape[d] == 1) continue;
    int at = m++;
    while (at > 0 && out->st[order[at - 1]] < out->st[d]) {
      order[at] = order[at - 1];
      at--;
    }
    order[at] = d;
  }
  walk old = *w;
  int nd = 0;
  for (int q = 0; q < m; q++) {
    const int d = order[q];
    bool join = nd > 0;
    for (int k = 0; k <= w->n && join; k++) join = w->op[k].absent || w->op[k].st[nd - 1] == old.op[k].st[d] * old.shape[d];
    const int to = join ? nd - 1 : nd++;
    w->shape[to] = join ? w->shape[to] * old.shape[d] : old.shape[d];
    for (int k = 0; k <= w->n; k++) w->op[k].st[to] = old.op[k].st[d];
  }
  if (!nd) {
    w->shape[0] = 1;
    for (int k = 0; k <= w->n; k++) w->op[k].st[0] = k == w->n;
    nd = 1;
  }
  w->nd = nd;
}

/* Bytes that have to be copied if J is dim d. */
static int turned(const walk *w, int d) {
  int cost = 0;
  for (int k = 0; k <= w->n; k++)
    if (!w->op[k].absent && w->op[k].st[d] != 1 && (w->op[k].st[d] != 0 || k == w->n)) cost += w->op[k].size;
  return cost;
}

static void planes(walk *w) {
  int J = w->nd - 1, I = -1;
  for (int d = w->nd - 2; d >= 0; d--)
    if (w->shape[d] >= LONG_ROW && turned(w, d) < turned(w, J)) J = d;
  for (int k = w->n; k >= 0 && I < 0; k--) /* the result first */
    if (!w->op[k].absent && w->op[k].st[J] != 1 && w->op[k].st[J] != 0)
      for (int d = 0; d < w->nd; d++)
        if (d != J && w->op[k].st[d] == 1) I = d;
  if (I < 0) I = J == w->nd - 1 ? w->nd - 2 : w->nd - 1;
  int64_t total = 1;
  for (int d = 0; d < w->nd; d++) total *= w->shape[d];
  const int64_t nj = w->shape[J], ni = I < 0 ? 1 : w->shape[I];
  if (ni * nj < SMALL_PLANE && ni * nj < total) {
    line(w, total);
    return;
  }
  char *base[N_OPS] = {0};
  for (int k = 0; k <= w->n; k++) {
    operand *o = &w->op[k];
    base[k] = o->data;
    o->everywhere = !o->absent;
    for (int d = 0; d < w->nd; d++) o->everywhere &= o->st[d] == 0;
    o->si = I < 0 ? 0 : o->st[I];
    o->sj = o->st[J];
  }
  int64_t at[AG_MAX_NDIM] = {0};
  for (int64_t left = total / (ni * nj); left > 0; left--) {
    if (nj >= LONG_ROW || nj > w->room) long_rows(w, base, ni, nj);
    else short_rows(w, base, ni, nj);
    for (int d = w->nd - 1; d >= 0; d--) { /* the next plane */
      if (d == I || d == J) continue;
      const bool carry = ++at[d] == w->shape[d];
      for (int k = 0; k <= w->n; k++)
        if (base[k]) base[k] += (carry ? -(w->shape[d] - 1) : 1) * w->op[k].st[d] * w->op[k].size;
      if (!carry) break;
      at[d] = 0;
    }
  }
}

/* A slice of the walk along its dim `cut`. */
typedef struct slice {
  const walk *whole;
  int cut;
} slice;

static int part(void *ctx, int slot, int64_t from, int64_t to) {
  const slice *s = ctx;
  _Alignas(64) char room[N_OPS][ROOM];
  walk w = *s->whole;
  (void)slot;
  w.shape[s->cut] = to - from;
  for (int k = 0; k <= w.n; k++) {
    w.op[k].buf = room[k];
    if (!w.op[k].absent) w.op[k].data += from * w.op[k].st[s->cut] * w.op[k].size;
  }
  planes(&w);
  return AG_OK;
}

void ag__exec_walk(ag_k_ew *ew, ag_k_ewd *ewd, int n_in, const ag_raw *const *in, const ag_raw *out, const double *p, int64_t grain) {
  walk w;
  w.ew = ew;
  w.ewd = ewd;
  w.p = p;
  w.n = n_in;
  w.nd = out->ndim;
  int widest = 1;
  memcpy(w.shape, out->shape, sizeof *w.shape * (size_t)out->ndim);
  for (int k = 0; k <= n_in; k++) {
    const ag_raw *r = k < n_in ? in[k] : out;
    operand *o = &w.op[k];
    o->absent = !r || !r->data;
    o->data = o->absent ? NULL : r->data;
    o->size = o->absent ? 0 : ag__dtype_size(r->dtype);
    o->filled = o->everywhere = false;
    o->buf = NULL;
    if (o->size > widest) widest = o->size;
    const int shift = o->absent ? out->ndim : out->ndim - r->ndim;
    for (int d = 0; d < out->ndim; d++)
      o->st[d] = d < shift || (r->shape[d - shift] == 1 && out->shape[d] != 1) ? 0 : r->strides[d - shift];
  }
  w.room = ROOM / widest;
  arrange(&w);
  slice s = {&w, 0};
  if (!ag__worth(out->numel, grain) || !(out->contiguous || ag__apart(out->ndim, out->shape, out->strides))) {
    part(&s, 0, 0, w.shape[0]);
    return;
  }
  if (w.shape[0] < 64) /* too few pieces, perhaps */
    for (int d = 1; d < w.nd; d++)
      if (w.shape[d] > w.shape[s.cut]) s.cut = d;
  const int64_t each = grain * w.shape[s.cut] / out->numel;
  ag__parallel(w.shape[s.cut], each > 1 ? each : 1, part, &s);
}
