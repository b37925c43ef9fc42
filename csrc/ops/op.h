/* op.h: floor 4.  The op table expanded: number, names, flags and functions of each row. */
#ifndef AG_OP_H
#define AG_OP_H

#include "kernels/kernels.h"
#include "tensor/tensor.h"

enum { AG_MAX_OUT = 3 };

/* Row flags. */
enum {
  OF_NODIFF = 1 << 0,       /* no derivative: results never ask for gradients */
  OF_VIEW = 1 << 1,         /* result shares the operand's memory */
  OF_INPLACE_ONLY = 1 << 2, /* writes in[0]; has no other form */
  OF_RANDOM = 1 << 3,       /* in[1] is a generator, advanced by the call */
  OF_DATA_SHAPE = 1 << 4,   /* result's shape depends on data: refused in traces */
  OF_PARAM1 = 1 << 5,       /* elementwise with one number P(0) */
  OF_PARAM2 = 1 << 6,       /* ... with two */
  OF_DIMNAME = 1 << 7,      /* node name ends in 1 when dims were given */
  OF_X0 = 1 << 8, OF_X1 = 1 << 9, OF_X2 = 1 << 10, OF_XREST = 1 << 11,     /* inputs a node saves */
  OF_Y0 = 1 << 12, OF_Y1 = 1 << 13, OF_Y2 = 1 << 14,                       /* outputs a node saves */
  OF_BILIN01 = 1 << 15, OF_BILIN12 = 1 << 16, /* each of two inputs, when the other needs a gradient */
  OF_NO_INPLACE = 1 << 17,
  OF_TIED = 1 << 18, /* the gradient is a function of the operands with derivative zero in them: see tie in vjp.c */
  OF_DIVIDES = 1 << 19,     /* elementwise: of integers, a zero in operand 1 is an error */
  OF_TENSOR0 = 1 << 20, OF_TENSOR1 = 1 << 21 /* Python's function takes no number there, as PyTorch's; operators take all */
};

enum ag_kind { AG_KIND_EW1, AG_KIND_EW2, AG_KIND_EW3, AG_KIND_CMP1, AG_KIND_CMP2, AG_KIND_SEL3, AG_KIND_FN };
enum ag_types { AG_TYPES_FLT, AG_TYPES_NUM, AG_TYPES_ANY, AG_TYPES_INT };

/* Raw operand of an execution: memory and geometry, nothing owned. */
typedef struct ag_raw {
  char *data;
  const int64_t *shape, *strides; /* elements */
  int64_t numel;
  uint8_t dtype, ndim;
  bool contiguous;
} ag_raw;

typedef struct ag_row ag_row;

typedef struct ag_exec {
  const ag_row *row;
  int n_in, n_out;
  const ag_raw *in;
  const ag_raw *out;
  const ag_params *p;
} ag_exec;

/* What infer fills in: type and shape of each output; for views strides and offset too. */
typedef struct ag_geom {
  int dtype, ndim;
  int64_t shape[AG_MAX_NDIM], strides[AG_MAX_NDIM], offset;
} ag_geom;

typedef struct ag_infer {
  const ag_row *row;
  int n_in;
  ag_array *const *in;
  ag_params *p; /* infer may normalise (wrap dims, fill in -1) */
  int n_out;
  ag_geom out[AG_MAX_OUT];
} ag_infer;

struct ag_vjp;

struct ag_row {
  const char *name, *grad_name, *kernel_text, *grad_text[3];
  int16_t op;
  uint8_t kind, types;
  int8_t n_in, n_out;
  uint32_t flags;
  double lo, hi;
  uint8_t needs[3];      /* elementwise: what D_k mentions: bits 0..2 x0..x2, bit 3 y */
  bool pass_through[3];  /* D_k is g itself */
  uint8_t cost[4];       /* elementwise: of one element of kernel and D_k, in additions */
  int (*infer)(ag_infer *c);
  int (*exec)(const ag_exec *x);
  int (*vjp)(struct ag_vjp *c);
};

extern ag_row ag__rows[AG_OP_COUNT];
void ag__ops_init(void); /* idempotent, thread-safe */
/* Which operands a call writes when it runs in place: bit k for in[k] (optimizers, generators: more than in[0]). */
uint32_t ag__row_writes(const ag_row *row, int n_in);
static inline bool ag__row_elementwise(const ag_row *r) { return r->kind != AG_KIND_FN; }

/* Operands of this dtype can make an elementwise row fail: it runs through exec alone, never in a fused loop. */
static inline bool ag__row_checks(const ag_row *r, int dtype) { return r->flags & OF_DIVIDES && dtype < AG_FLOAT32; }

/* The functions the FN rows demand. */
#define FN(name, Grad, n_in, n_out, flags) int ag__infer_##name(ag_infer *c);
#include "ops/ag_ops.inc"
#define FN(name, Grad, n_in, n_out, flags) int ag__exec_##name(const ag_exec *x);
#include "ops/ag_ops.inc"
#define FN(name, Grad, n_in, n_out, flags) int ag__vjp_##name(struct ag_vjp *c);
#include "ops/ag_ops.inc"
#define EW1(name, Grad, types, flags, lo, hi, kernel, D0) int ag__vjp_##name(struct ag_vjp *c);
#define EW2(name, Grad, types, flags, lo, hi, kernel, D0, D1) EW1(name, Grad, types, flags, lo, hi, kernel, D0)
#define EW3(name, Grad, types, flags, lo, hi, kernel, D0, D1, D2) EW1(name, Grad, types, flags, lo, hi, kernel, D0)
#define SEL3(name, Grad, types, flags, lo, hi, kernel, D1, D2) EW1(name, Grad, types, flags, lo, hi, kernel, D1)
#include "ops/ag_ops.inc"
int ag__infer_elementwise(ag_infer *c);
int ag__exec_elementwise(const ag_exec *x);

/* Raw operand over an array. */
static inline ag_raw ag__raw(const ag_array *a) {
  return (ag_raw){ag__data(a), ag__shape(a), ag__strides(a), a->numel, a->dtype, a->ndim, a->contiguous};
}

#endif
