/* test_deep.c: a chain of a million nodes and a node of a hundred thousand inputs, built, differentiated and freed.
 * Run with a stack of 256 kB (ulimit -s 256): nothing in the core recurses over the graph. */
#include "autograd_c.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int failures;

#define CHECK(cond)                                                                     \
  do {                                                                                  \
    if (!(cond)) {                                                                      \
      failures++;                                                                       \
      printf("%s:%d: %s [%s]\n", __FILE__, __LINE__, #cond, ag_last_error());           \
    }                                                                                   \
  } while (0)

static ag_counters alive(void) {
  ag_counters c;
  ag_counters_get(&c);
  return c;
}

static ag_tensor *leaf(double v) {
  ag_tensor *t = ag_scalar(v, AG_FLOAT64);
  CHECK(t && ag_tensor_set_requires_grad(t, 1) == AG_OK);
  return t;
}

/* n nodes on x, with saved values and without. */
static ag_tensor *chain(ag_tensor *x, int n) {
  ag_tensor *y = x;
  ag_tensor_retain(y);
  for (int k = 0; k < n && y; k++) {
    ag_tensor *z = k & 1 ? ag_sin(y) : ag_neg(y);
    ag_tensor_release(y);
    y = z;
  }
  CHECK(y);
  return y;
}

static void deep(int n) {
  ag_tensor *x = leaf(0.5), *y = chain(x, n);
  CHECK(alive().nodes >= n);
  CHECK(ag_backward(1, &y, NULL, 0, 0, 0, NULL) == AG_OK);
  double g = 0;
  CHECK(ag_tensor_grad(x) && ag_tensor_item(ag_tensor_grad(x), &g) == AG_OK);
  CHECK(g > 0 && g < 1);
  ag_tensor_release(y);
  y = chain(x, n); /* freed as it stands */
  ag_tensor_release(x);
  ag_tensor_release(y);
}

/* The gradient's graph is as deep as the graph. */
static void twice(int n) {
  ag_tensor *x = leaf(0.3), *y = chain(x, n), *g = NULL, *h = NULL;
  CHECK(ag_grad(1, &y, NULL, 1, &x, 1, 1, 0, &g) == AG_OK);
  CHECK(ag_grad(1, &g, NULL, 1, &x, 0, 0, 0, &h) == AG_OK);
  double v = NAN;
  CHECK(h && ag_tensor_item(h, &v) == AG_OK && v == v);
  ag_tensor_release(h);
  ag_tensor_release(g);
  ag_tensor_release(y);
  ag_tensor_release(x);
}

static void wide(int n) {
  ag_tensor **x = malloc(sizeof *x * (size_t)n), **g = calloc((size_t)n, sizeof *g);
  if (!x || !g) {
    failures++;
  } else {
    const int64_t one = 1, dim = 0;
    for (int k = 0; k < n; k++) {
      x[k] = ag_full(1, &one, AG_FLOAT64, k);
      CHECK(x[k] && ag_tensor_set_requires_grad(x[k], 1) == AG_OK);
    }
    ag_tensor *row = ag_calln(AG_OP_cat, n, x, 1, &dim, 0, NULL, 0, 0), *sq = ag_mul(row, row), *y = ag_sum(sq);
    CHECK(ag_grad(1, &y, NULL, n, x, 0, 0, 0, g) == AG_OK);
    for (int k = 0; k < n; k++) {
      double v = 0;
      CHECK(g[k] && ag_tensor_item(g[k], &v) == AG_OK && v == 2.0 * k);
      ag_tensor_release(g[k]);
      ag_tensor_release(x[k]);
    }
    ag_tensor_release(y);
    ag_tensor_release(sq);
    ag_tensor_release(row);
  }
  free(g);
  free(x);
}

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1000000;
  deep(n);
  twice(n / 20);
  wide(n / 10);
  ag_counters c = alive();
  CHECK(c.tensors == 0 && c.nodes == 0 && c.storages == 0 && c.bytes == 0);
  printf("%d nodes deep, %d inputs wide; %d failed\n", n, n / 10, failures);
  return failures != 0;
}
