#include "freeze/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The program as text: one instruction a line, elementwise groups indented under a head line. */

typedef struct text {
  char *buf;
  size_t n, cap;
  bool failed;
} text;

__attribute__((format(printf, 2, 3))) static void put(text *t, const char *fmt, ...) {
  for (int round = 0; round < 2 && !t->failed; round++) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->buf + t->n, t->cap - t->n, fmt, ap);
    va_end(ap);
    if (n < 0) return;
    if ((size_t)n < t->cap - t->n) {
      t->n += (size_t)n;
      return;
    }
    size_t more = t->cap * 2 + (size_t)n + 256;
    char *b = realloc(t->buf, more);
    if (!b) t->failed = true;
    else {
      t->buf = b;
      t->cap = more;
    }
  }
}

static void put_type(text *t, const ag_geo *q) {
  char b[256];
  put(t, "%s%s", ag_dtype_name(q->dtype), ag__shape_text(q->ndim, ag__geo_shape(q), b, sizeof b));
}

static void put_constant(text *t, const ag_pst *s) {
  double v = 0;
  ag__k->cast[s->dtype][AG_FLOAT64](1, &v, s->st->data);
  put(t, "%.9g", v);
}

/* %7 an internal value, @3 a bound one, in0 an input, grad2 the gradient of leaf 2; .v the version where one
 * storage has several; a view says shape, strides and offset. */
static void put_value(text *t, const ag_program *g, const ag_val *v, bool written) {
  const ag_pst *s = &g->st[v->st];
  char b[256], c[256];
  if (s->kind == AG_P_CONST && v->geo->uniform) {
    put_constant(t, s);
    return;
  }
  switch (s->kind) {
    case AG_P_INPUT: put(t, "in%d", s->index); break;
    case AG_P_GRAD: put(t, "grad%d", s->index); break;
    case AG_P_BOUND: put(t, "@%d", v->st); break;
    case AG_P_CONST: put(t, "const%d", v->st); break;
    default: put(t, "%%%d", v->st); break;
  }
  if (s->writes > 1 || (v->ver && s->kind != AG_P_INTERNAL)) put(t, ".%u", v->ver);
  if (written || (v->geo == s->geo && v->offset == 0)) return;
  if (v->geo->contiguous)
    put(t, ":%s", ag__shape_text(v->geo->ndim, ag__geo_shape(v->geo), b, sizeof b));
  else
    put(t, ":%s/%s", ag__shape_text(v->geo->ndim, ag__geo_shape(v->geo), b, sizeof b),
        ag__shape_text(v->geo->ndim, ag__geo_strides(v->geo), c, sizeof c));
  if (v->offset) put(t, "+%lld", (long long)v->offset);
}

static void put_params(text *t, const ag_params *p) {
  if (p->ni) {
    put(t, " ints=(");
    for (int k = 0; k < p->ni; k++) put(t, k ? ", %lld" : "%lld", (long long)p->i[k]);
    put(t, ")");
  }
  if (p->nf) {
    put(t, " floats=(");
    for (int k = 0; k < p->nf; k++) put(t, k ? ", %.9g" : "%.9g", p->f[k]);
    put(t, ")");
  }
}

static void put_ins(text *t, const ag_program *g, const ag_ins *i, const char *indent) {
  char site[300];
  size_t start = t->n;
  put(t, "%s", indent);
  for (int k = 0; k < i->n_out; k++) {
    put_value(t, g, &i->out[k], !i->inplace);
    put(t, ": ");
    put_type(t, i->out[k].geo);
    put(t, k + 1 < i->n_out ? ", " : " = ");
  }
  put(t, "%s%s(", ag__ins_row(i)->name, i->inplace ? "_" : "");
  for (uint32_t k = 0; k < i->n_in; k++) {
    if (k) put(t, ", ");
    put_value(t, g, &i->in[k], false);
  }
  put(t, ")");
  put_params(t, i->p);
  ag__site_text(i->site, site, sizeof site);
  if (site[0]) {
    while (t->n < start + 64 && !t->failed) put(t, " ");
    put(t, "  # %s", site);
  }
  put(t, "\n");
}

static void put_source(text *t, const ag_program *g, const ag_src *s) {
  switch (s->kind) {
    case AG_SRC_INPUT: put(t, "in%d", s->index); break;
    case AG_SRC_GRAD: put(t, "grad%d", s->index); break;
    case AG_SRC_BOUND: put(t, "the same tensor"); break;
    case AG_SRC_FRESH: put_value(t, g, &g->fresh[s->index].v, false); break;
    default: put(t, "None"); break;
  }
}

char *ag__program_text(const ag_program *g) {
  text t = {malloc(1024), 0, 1024, false};
  if (!t.buf) return ag__fail_null(AG_ERR_MEMORY, "out of memory for the text of a plan");
  t.buf[0] = 0;
  for (int32_t k = 0; k < g->n_inputs; k++) {
    put(&t, "in%d: ", k);
    put_type(&t, g->inputs[k].v.geo);
    put(&t, "\n");
  }
  for (int64_t k = 0; k < g->n_st; k++)
    if (g->st[k].kind == AG_P_BOUND) {
      put(&t, "@%lld: ", (long long)k);
      put_type(&t, g->st[k].geo);
      put(&t, "\n");
    }
  for (int64_t u = 0; u < g->n_units; u++) {
    const ag_unit *q = &g->units[u];
    if (q->n > 1) put(&t, "fused over %lld elements:\n", (long long)q->numel);
    for (int32_t k = 0; k < q->n; k++) put_ins(&t, g, &g->ins[g->members[q->first + k]], q->n > 1 ? "  " : "");
  }
  if (!g->units)
    for (int64_t k = 0; k < g->n_ins; k++)
      if (!g->ins[k].dead) put_ins(&t, g, &g->ins[k], "");
  for (int64_t k = 0; k < g->n_leaves; k++) {
    const ag_leaf *l = &g->leaves[k];
    if (!l->change) continue;
    if (l->input >= 0) put(&t, "in%d", l->input);
    else if (l->t) {
      int32_t id = -1;
      for (int64_t j = 0; j < g->n_st && id < 0; j++)
        if (g->st[j].st == l->t->arr->st) id = (int32_t)j;
      put(&t, "@%d", id);
    }
    put(&t, ".grad = ");
    put_source(&t, g, &l->exit);
    put(&t, "\n");
  }
  put(&t, "return");
  for (int32_t k = 0; k < g->n_outputs; k++) {
    put(&t, k ? ", " : " ");
    put_source(&t, g, &g->outputs[k]);
  }
  put(&t, "\n");
  if (t.failed) {
    free(t.buf);
    return ag__fail_null(AG_ERR_MEMORY, "out of memory for the text of a plan");
  }
  return t.buf;
}
