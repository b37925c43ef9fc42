#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static AG_TLS ag_scratch *mine;
static AG_TLS int status;
static ag_scratch shared;

ag_scratch *ag__scratch(void) {
  if (AG_LIKELY(mine != NULL)) return mine;
  ag__thread_enter();
  mine = calloc(1, sizeof *mine);
  ag__thread_scratch(mine);
  return mine ? mine : &shared;
}

void ag__scratch_free(void) {
  free(mine);
  mine = NULL;
}

static void set(int code, const char *fmt, va_list ap) {
  status = code;
  vsnprintf(ag__scratch()->error, sizeof shared.error, fmt, ap);
}

int ag__fail(int code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  set(code, fmt, ap);
  va_end(ap);
  return code;
}

void *ag__fail_null(int code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  set(code, fmt, ap);
  va_end(ap);
  return NULL;
}

void ag__fail_append(const char *fmt, ...) {
  char *text = ag__scratch()->error;
  size_t n = strlen(text);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text + n, sizeof shared.error - n, fmt, ap);
  va_end(ap);
}

const char *ag_last_error(void) { return mine || status ? ag__scratch()->error : ""; }
int ag_last_status(void) { return status; }

static void *(*hook_begin)(void);
static void (*hook_end)(void *);

void ag_blocking_hooks(void *(*begin)(void), void (*end)(void *)) {
  hook_begin = begin;
  hook_end = end;
}

void *ag__blocking_begin(void) { return hook_begin ? hook_begin() : NULL; }
void ag__blocking_end(void *token) {
  if (hook_end && token) hook_end(token);
}
