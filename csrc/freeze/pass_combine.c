#include "freeze/program.h"

/* x + a*b and x - a*b inside a loop become one addcmul with P(0) = 1 or -1: one kernel instead of two and one
 * block less.  The kernel rounds a*b and the sum as the two ops do (times 1 is exact, and x - m is x + -m), so
 * the bits stay.  Only the second operand of the sum is taken in: of two NaN the first one's sign and payload win. */

/* Index in the unit of the product that member j may take in, or -1. */
static int32_t product_of(const ag_program *g, const ag_unit *u, int32_t j, const int32_t *maker, const int32_t *reads) {
  const ag_ins *sum = &g->ins[g->members[u->first + j]];
  if (sum->op != AG_OP_add && sum->op != AG_OP_sub) return -1;
  const ag_val *m = &sum->in[1];
  const ag_geo *o = sum->out[0].geo;
  if (!ag__is_float(o->dtype) || maker[m->st] < 0 || reads[m->st] != 1 || sum->in[0].st == m->st) return -1;
  for (int32_t k = j - 1; k >= 0; k--) {
    int32_t number = g->members[u->first + k];
    if (number != maker[m->st]) continue;
    const ag_ins *mul = &g->ins[number];
    const ag_geo *q = mul->out[0].geo;
    if (mul->op != AG_OP_mul || mul->inplace || q != m->geo || m->offset != 0) return -1;
    if (!ag__same_shape(q->ndim, ag__geo_shape(q), o->ndim, ag__geo_shape(o))) return -1;
    /* The factors must still be what they were. */
    for (int32_t t = k + 1; t < j; t++)
      for (int w = 0; w < 2; w++)
        if (g->ins[g->members[u->first + t]].out[0].st == mul->in[w].st) return -1;
    return k;
  }
  return -1;
}

static bool combine(ag_program *g, ag_unit *u, const int32_t *maker, const int32_t *reads, bool *failed) {
  bool any = false;
  for (int32_t j = 1; j < u->n; j++) {
    int32_t k = product_of(g, u, j, maker, reads);
    if (k < 0) continue;
    ag_ins *mul = &g->ins[g->members[u->first + k]], *sum = &g->ins[g->members[u->first + j]];
    ag_val *in = ag__bump(&g->mem, sizeof *in * 4);
    ag_params p = {.ni = 0, .nf = 1};
    p.f[0] = sum->op == AG_OP_add ? 1 : -1;
    sum->p = ag__program_params(g, &p);
    if (!in || !sum->p) {
      *failed = true;
      return any;
    }
    in[0] = sum->in[0];
    in[1] = mul->in[0];
    in[2] = mul->in[1];
    in[3] = sum->out[0];
    sum->op = AG_OP_addcmul;
    sum->in = in;
    sum->n_in = 3;
    sum->out = in + 3;
    mul->dead = true;
    g->combined++;
    any = true;
  }
  return any;
}

int ag__pass_combine(ag_program *g) {
  size_t room = sizeof(int32_t) * 2 * (size_t)(g->n_st + 1);
  int32_t *maker = ag__alloc(room), *reads;
  bool failed = false;
  if (!maker) return AG_ERR_MEMORY;
  reads = maker + g->n_st + 1;
  for (int64_t k = 0; k < g->n_st; k++) {
    maker[k] = -1;
    reads[k] = ag__st_observed(&g->st[k]) ? 2 : 0;
  }
  for (int64_t k = 0; k < g->n_ins; k++) {
    const ag_ins *i = &g->ins[k];
    if (i->dead) continue;
    for (uint32_t j = 0; j < i->n_in; j++) reads[i->in[j].st]++;
    if (g->st[i->out[0].st].writes == 1) maker[i->out[0].st] = (int32_t)k;
  }
  for (int64_t q = 0; q < g->n_units && !failed; q++) {
    ag_unit *u = &g->units[q];
    if (!u->ew || !combine(g, u, maker, reads, &failed)) continue;
    int32_t n = 0;
    for (int32_t k = 0; k < u->n; k++) {
      int32_t number = g->members[u->first + k];
      if (!g->ins[number].dead) g->members[u->first + n++] = number;
    }
    u->n = n;
  }
  ag__free(maker, room);
  return failed ? AG_ERR_MEMORY : AG_OK;
}
