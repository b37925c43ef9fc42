#include "freeze/program.h"

#include <stdio.h>

/* Re-reads a program and checks that it still says what a program may say.  Linear in its length. */

static int bad(const ag_program *g, const char *after, int64_t k, const char *what, const ag_val *v) {
  char site[300];
  ag__site_text(g->ins[k].site, site, sizeof site);
  return ag__fail(AG_ERR_RUNTIME, "internal: after pass %s, instruction %lld (%s%s%s): %s (storage %d version %u)", after,
                  (long long)k, ag__ins_row(&g->ins[k])->name, site[0] ? ", " : "", site, what, v ? v->st : -1,
                  v ? v->ver : 0);
}

static bool inside(const ag_program *g, const ag_val *v) {
  if (v->geo->numel == 0) return true;
  int64_t lo = v->offset, hi = v->offset;
  for (int k = 0; k < v->geo->ndim; k++) {
    int64_t d = (ag__geo_shape(v->geo)[k] - 1) * ag__geo_strides(v->geo)[k];
    if (d > 0) hi += d;
    else lo += d;
  }
  return lo >= 0 && (hi + 1) * ag__dtype_size(v->geo->dtype) <= g->st[v->st].nbytes;
}

/* Elementwise: results have the broadcast shape and the type that the row gives. */
static const char *check_elementwise(const ag_ins *i) {
  const ag_row *row = ag__ins_row(i);
  const ag_geo *o = i->out[0].geo;
  int first = row->kind == AG_KIND_SEL3 ? 1 : 0;
  bool cond = row->kind == AG_KIND_CMP1 || row->kind == AG_KIND_CMP2;
  if (o->dtype != (cond ? AG_BOOL : i->in[first].geo->dtype)) return "result has the wrong type";
  for (uint32_t k = 0; k < i->n_in; k++) {
    const ag_geo *q = i->in[k].geo;
    if ((int)k >= first && q->dtype != i->in[first].geo->dtype) return "operands differ in type";
    if (q->ndim > o->ndim) return "operand has more dims than the result";
    for (int d = 1; d <= q->ndim; d++) {
      int64_t s = ag__geo_shape(q)[q->ndim - d];
      if (s != 1 && s != ag__geo_shape(o)[o->ndim - d]) return "operand does not broadcast to the result";
    }
  }
  return NULL;
}

int ag__program_verify(const ag_program *g, const char *after) {
  size_t room = sizeof(uint32_t) * (size_t)(g->n_st + 1);
  uint32_t *now = ag__alloc(room);
  if (!now) return AG_ERR_MEMORY;
  memset(now, 0, room);
  int st = AG_OK;
  /* After fusion: in the order in which instructions will run. */
  int64_t unit = 0, member = 0;
  for (int64_t q = 0; !st; q++) {
    int64_t k = q;
    if (g->units) {
      while (unit < g->n_units && member == g->units[unit].n) {
        unit++;
        member = 0;
      }
      if (unit == g->n_units) break;
      k = g->members[g->units[unit].first + member++];
    } else if (q == g->n_ins) {
      break;
    }
    const ag_ins *i = &g->ins[k];
    if (i->dead) continue;
    for (uint32_t j = 0; j < i->n_in && !st; j++) {
      const ag_val *v = &i->in[j];
      if (v->st < 0 || v->st >= g->n_st || !v->geo) st = bad(g, after, k, "operand without storage", v);
      else if (!inside(g, v)) st = bad(g, after, k, "operand reaches beyond its storage", v);
      else if (j < ag__ins_first_read(i)) continue;
      else if (v->ver != now[v->st]) st = bad(g, after, k, "operand is not the current version", v);
      else if (v->ver == 0 && g->st[v->st].kind == AG_P_INTERNAL) st = bad(g, after, k, "operand was never written", v);
    }
    for (int j = 0; j < i->n_written && !st; j++) {
      const ag_val *v = &i->out[j];
      if (g->st[v->st].kind == AG_P_CONST) st = bad(g, after, k, "a constant is written to", v);
      else if (v->ver <= now[v->st]) st = bad(g, after, k, "a version is written twice", v);
      else if (!inside(g, v)) st = bad(g, after, k, "result reaches beyond its storage", v);
      else if (!i->inplace && !ag__val_whole(g, v)) st = bad(g, after, k, "result does not fill its storage", v);
      else now[v->st] = v->ver;
    }
    if (!st && ag__row_elementwise(ag__ins_row(i))) {
      const char *what = check_elementwise(i);
      if (what) st = bad(g, after, k, what, &i->out[0]);
    }
  }
  for (int64_t k = 0; k < g->n_fresh && !st; k++) {
    const ag_val *v = &g->fresh[k].v;
    if (g->st[v->st].kind == AG_P_INTERNAL && now[v->st] == 0)
      st = ag__fail(AG_ERR_RUNTIME, "internal: after pass %s, result %lld is never written", after, (long long)k);
  }
  ag__free(now, room);
  return st;
}
