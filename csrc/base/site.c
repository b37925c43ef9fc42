#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

/* Registered pieces of source: an open hash table, written under the lock, read without it.  Entries
 * never move or go away, so a reader sees either nothing or a whole entry. */

typedef struct code_entry {
  uintptr_t code;
  char *file, *func;
  int internal, n;
  int32_t *pairs; /* offset, line */
  struct code_entry *next;
} code_entry;

enum { BUCKETS = 4096 };
static code_entry *_Atomic table[BUCKETS];
static ag_lock lock = AG_LOCK_INIT;
static AG_TLS ag_site current;
static AG_TLS code_entry *last; /* the entry of this thread's latest call: most calls repeat it */

static unsigned hash(uintptr_t c) { return (unsigned)((c >> 4) * 2654435761u >> 8) % BUCKETS; }

static code_entry *find(uintptr_t code) {
  code_entry *e = last;
  if (AG_LIKELY(e && e->code == code)) return e;
  for (e = atomic_load_explicit(&table[hash(code)], memory_order_acquire); e; e = e->next)
    if (e->code == code) return last = e;
  return NULL;
}

static char *copy(const char *s) {
  size_t n = strlen(s) + 1;
  char *r = malloc(n);
  if (r) memcpy(r, s, n);
  return r;
}

int ag_site_register(uintptr_t code, const char *file, const char *func, int internal, int n, const int32_t *offset_line) {
  code_entry *e = malloc(sizeof *e);
  if (e) {
    e->code = code;
    e->file = copy(file);
    e->func = copy(func);
    e->internal = internal;
    e->n = n;
    e->pairs = malloc(sizeof(int32_t) * 2 * (size_t)(n > 0 ? n : 1));
  }
  if (!e || !e->file || !e->func || !e->pairs) return ag__fail(AG_ERR_MEMORY, "out of memory for a source position");
  if (n > 0) memcpy(e->pairs, offset_line, sizeof(int32_t) * 2 * (size_t)n);
  /* A code id seen again (its object died and another took the address) shadows the older entry. */
  ag__lock(&lock);
  e->next = atomic_load_explicit(&table[hash(code)], memory_order_relaxed);
  atomic_store_explicit(&table[hash(code)], e, memory_order_release);
  ag__unlock(&lock);
  last = e;
  return AG_OK;
}

int ag_site_known(uintptr_t code) {
  code_entry *e = find(code);
  return e ? 1 + (e->internal != 0) : 0;
}

void ag_site_set(uintptr_t code, int lasti) {
  current.code = code;
  current.lasti = lasti;
}

ag_site ag__site_now(void) { return current; }

ag_site ag__site_swap(ag_site s) {
  ag_site old = current;
  current = s;
  return old;
}

bool ag__site_resolve(uintptr_t code, int32_t lasti, ag_site *out) {
  code_entry *e = find(code);
  if (AG_UNLIKELY(!e)) return false;
  if (e->internal) {
    *out = current;
  } else {
    out->code = code;
    out->lasti = lasti;
  }
  return true;
}

bool ag__site_line(ag_site s, const char **file, const char **func, int *line) {
  code_entry *e = s.code ? find(s.code) : NULL;
  if (!e) return false;
  int l = e->n ? e->pairs[1] : 0;
  for (int k = 0; k < e->n && e->pairs[2 * k] <= s.lasti; k++) l = e->pairs[2 * k + 1];
  *file = e->file;
  *func = e->func;
  *line = l;
  return true;
}

char *ag__site_text(ag_site s, char *buf, size_t size) {
  const char *file, *func;
  int line;
  buf[0] = 0;
  if (ag__site_line(s, &file, &func, &line)) {
    const char *slash = strrchr(file, '/');
    snprintf(buf, size, "%s:%d in %s", slash ? slash + 1 : file, line, func);
  }
  return buf;
}
