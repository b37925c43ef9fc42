#include "freeze/program.h"

/* Walks backward: an instruction stays when a storage it writes is still wanted.  What lives outside is wanted at
 * the end; a write that covers a whole storage ends the want for what was there before. */
int ag__pass_dce(ag_program *g) {
  size_t room = (size_t)g->n_st + 1;
  bool *want = ag__alloc(room);
  if (!want) return AG_ERR_MEMORY;
  for (int64_t k = 0; k < g->n_st; k++) want[k] = ag__st_observed(&g->st[k]);
  for (int64_t k = g->n_ins - 1; k >= 0; k--) {
    ag_ins *i = &g->ins[k];
    if (i->dead) {
      g->removed_dead++;
      continue;
    }
    bool live = false;
    for (int j = 0; j < i->n_written; j++) live |= want[i->out[j].st];
    if (!live) {
      i->dead = true;
      g->removed_dead++;
      continue;
    }
    uint32_t first = ag__ins_first_read(i);
    for (int j = 0; j < i->n_out; j++)
      if ((!i->inplace || first > 0) && ag__val_whole(g, &i->out[j])) want[i->out[j].st] = false;
    for (uint32_t j = first; j < i->n_in; j++) want[i->in[j].st] = true;
  }
  ag__free(want, room);
  return AG_OK;
}
