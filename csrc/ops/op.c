#include "ops/op.h"

#include <ctype.h>

/* Elementwise rows whose derivative is NOGRAD everywhere (or flagged so) have no rule. */
#define TYPES(t) AG_TYPES_##t

ag_row ag__rows[AG_OP_COUNT] = {
#define ROW(nm, Grad, knd, typ, nin, nout, fl, l, h, kern, d0, d1, d2)                                              \
  [AG_OP_##nm] = {.name = #nm, .grad_name = Grad, .kernel_text = kern, .grad_text = {d0, d1, d2}, .op = AG_OP_##nm, \
                  .kind = AG_KIND_##knd, .types = typ, .n_in = nin, .n_out = nout, .flags = fl, .lo = l, .hi = h,    \
                  .infer = ag__infer_elementwise, .exec = ag__exec_elementwise},
#define EW1(nm, Grad, types, flags, lo, hi, kernel, D0) \
  ROW(nm, #Grad, EW1, TYPES(types), 1, 1, flags, lo, hi, #kernel, #D0, NULL, NULL)
#define EW2(nm, Grad, types, flags, lo, hi, kernel, D0, D1) \
  ROW(nm, #Grad, EW2, TYPES(types), 2, 1, flags, lo, hi, #kernel, #D0, #D1, NULL)
#define EW3(nm, Grad, types, flags, lo, hi, kernel, D0, D1, D2) \
  ROW(nm, #Grad, EW3, TYPES(types), 3, 1, flags, lo, hi, #kernel, #D0, #D1, #D2)
#define CMP1(nm, types, flags, lo, hi, cond) \
  ROW(nm, "", CMP1, TYPES(types), 1, 1, (flags) | OF_NODIFF, lo, hi, #cond, NULL, NULL, NULL)
#define CMP2(nm, types, flags, lo, hi, cond) \
  ROW(nm, "", CMP2, TYPES(types), 2, 1, (flags) | OF_NODIFF, lo, hi, #cond, NULL, NULL, NULL)
#define SEL3(nm, Grad, types, flags, lo, hi, kernel, D1, D2) \
  ROW(nm, #Grad, SEL3, TYPES(types), 3, 1, flags, lo, hi, #kernel, NULL, #D1, #D2)
#define FN(nm, Grad, nin, nout, fl) \
  [AG_OP_##nm] = {.name = #nm, .grad_name = #Grad, .op = AG_OP_##nm, .kind = AG_KIND_FN, .n_in = nin, .n_out = nout, \
                  .flags = fl, .lo = -2, .hi = 2, .infer = ag__infer_##nm},
#include "ops/ag_ops.inc"
};

/* Rules and executions are filled in at load: a row says by its flags which it has. */
static void functions(void) {
#define VJP(nm, flags) \
  if (!((flags) & OF_NODIFF)) ag__rows[AG_OP_##nm].vjp = (((flags) & OF_NODIFF) ? NULL : ag__vjp_##nm);
#define EW1(nm, Grad, types, flags, lo, hi, kernel, D0) VJP(nm, flags)
#define EW2(nm, Grad, types, flags, lo, hi, kernel, D0, D1) VJP(nm, flags)
#define EW3(nm, Grad, types, flags, lo, hi, kernel, D0, D1, D2) VJP(nm, flags)
#define SEL3(nm, Grad, types, flags, lo, hi, kernel, D1, D2) VJP(nm, flags)
#define FN(nm, Grad, nin, nout, flags) \
  VJP(nm, flags)                       \
  if (!((flags) & OF_VIEW)) ag__rows[AG_OP_##nm].exec = (((flags) & OF_VIEW) ? NULL : ag__exec_##nm);
#include "ops/ag_ops.inc"
}

/* What a derivative mentions: bits 0..2 for x0..x2, bit 3 for y. */
static uint8_t mentions(const char *d) {
  uint8_t m = 0;
  for (const char *s = d; *s;) {
    if (!isalpha((unsigned char)*s)) {
      s += isdigit((unsigned char)*s) ? strspn(s, "0123456789.eE") : 1;
      continue;
    }
    size_t n = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
    if (n == 1 && s[0] == 'y') m |= 8;
    if (n == 2 && s[0] == 'x' && s[1] >= '0' && s[1] <= '2') m = (uint8_t)(m | 1u << (s[1] - '0'));
    s += n;
  }
  return m;
}

/* What an element of an expression costs, in additions that wait for memory: one for all plain arithmetic, two for
 * each function that is a polynomial, ten for powers. */
static uint8_t cost_of(const char *text) {
  static const char plain[] = " ADD SUB MUL DIV NEG ABS MAX MIN SIGN SQRT RSQRT RECIP FLOOR CEIL ROUND TRUNC EQ NE LT LE GT GE AND OR NOT "
                              "SEL BOOLVAL BITAND BITOR BITXOR BITNOT C P NOGRAD ";
  int cost = 1;
  for (const char *s = text; s && *s;) {
    size_t n = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_') n++;
    char word[24];
    if (n > 0 && n < sizeof word - 2 && isupper((unsigned char)*s)) {
      word[0] = word[n + 1] = ' ';
      memcpy(word + 1, s, n);
      word[n + 2] = 0;
      if (!strstr(plain, word)) cost += strncmp(s, "POW", 3) == 0 ? 10 : 2;
    }
    s += n ? n : 1;
  }
  return (uint8_t)(cost > 100 ? 100 : cost);
}

static void init(void) {
  functions();
  for (int op = 0; op < AG_OP_COUNT; op++) {
    ag_row *r = &ag__rows[op];
    r->cost[0] = cost_of(r->kernel_text);
    for (int k = 0; k < 3; k++)
      if (r->grad_text[k]) {
        r->cost[1 + k] = cost_of(r->grad_text[k]);
        r->needs[k] = mentions(r->grad_text[k]);
        r->pass_through[k] = strcmp(r->grad_text[k], "g") == 0;
      }
  }
  ag__kernels_init();
}

void ag__ops_init(void) {
  static ag_lock lock = AG_LOCK_INIT;
  static atomic_bool done;
  if (AG_LIKELY(atomic_load_explicit(&done, memory_order_acquire))) return;
  ag__lock(&lock);
  if (!atomic_load_explicit(&done, memory_order_relaxed)) init();
  atomic_store_explicit(&done, true, memory_order_release);
  ag__unlock(&lock);
}

#if defined(__GNUC__)
/* At load, so that no call has to ask. */
__attribute__((constructor)) static void at_load(void) { ag__ops_init(); }
#endif

/* ---- shape and type rule of elementwise rows ---- */

static const char *const types_text[] = {"floating point", "numeric", "any", "integer or bool"};

int ag__infer_elementwise(ag_infer *c) {
  const ag_row *row = c->row;
  ag_geom *o = &c->out[0];
  ag_array *const *in = c->in;
  int first = row->kind == AG_KIND_SEL3 ? 1 : 0;
  int dtype = in[first]->dtype;
  c->n_out = 1;
  if (row->kind == AG_KIND_SEL3 && in[0]->dtype != AG_BOOL)
    return ag__fail(AG_ERR_RUNTIME, "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
                    ag_dtype_name(in[0]->dtype));
  bool ok = row->types == AG_TYPES_ANY || (row->types == AG_TYPES_NUM && dtype != AG_BOOL) ||
            (row->types == AG_TYPES_INT && dtype < AG_FLOAT32) || ag__is_float(dtype);
  if (row->types == AG_TYPES_INT && dtype >= AG_FLOAT32) ok = false;
  if (AG_UNLIKELY(!ok && row->op == AG_OP_bitwise_not))
    return ag__fail(AG_ERR_TYPE, "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
  if (AG_UNLIKELY(!ok && dtype == AG_BOOL && (row->op == AG_OP_sub || row->op == AG_OP_neg)))
    return row->op == AG_OP_neg
               ? ag__fail(AG_ERR_RUNTIME, "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
                          "mask, use the `~` or `logical_not()` operator instead.")
               : ag__fail(AG_ERR_RUNTIME, "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                          "`logical_xor()` operator instead.");
  if (AG_UNLIKELY(!ok))
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"%s\" is not implemented for '%s': it takes %s operands", row->name,
                    ag_dtype_name(dtype), types_text[row->types]);
  o->dtype = row->kind == AG_KIND_CMP1 || row->kind == AG_KIND_CMP2 ? AG_BOOL : dtype;
  o->ndim = in[0]->ndim;
  memcpy(o->shape, ag__shape(in[0]), sizeof(int64_t) * (size_t)o->ndim);
  for (int k = 1; k < c->n_in; k++) {
    if (ag__same_shape(o->ndim, o->shape, in[k]->ndim, ag__shape(in[k]))) continue;
    int64_t s[AG_MAX_NDIM];
    int n, st = ag__broadcast(o->ndim, o->shape, in[k]->ndim, ag__shape(in[k]), &n, s);
    if (st) return st;
    o->ndim = n;
    memcpy(o->shape, s, sizeof(int64_t) * (size_t)n);
  }
  return AG_OK;
}

/* ---- questions about rows ---- */

int ag_op_count(void) { return AG_OP_COUNT; }
const char *ag_op_name(int op) { return op >= 0 && op < AG_OP_COUNT ? ag__rows[op].name : NULL; }
int ag_op_find(const char *name) {
  for (int op = 0; op < AG_OP_COUNT; op++)
    if (strcmp(ag__rows[op].name, name) == 0) return op;
  return -1;
}

int ag_op_describe(int op, ag_op_info *out) {
  static const char *const kinds[] = {"unary", "binary", "ternary", "unary condition", "comparison", "select", "function"};
  if (op < 0 || op >= AG_OP_COUNT) return ag__fail(AG_ERR_INDEX, "no op has the number %d", op);
  const ag_row *r = &ag__rows[op];
  memset(out, 0, sizeof *out);
  out->name = r->name;
  out->grad_name = r->grad_name;
  out->kind = r->flags & OF_VIEW ? "view" : kinds[r->kind];
  out->kernel_text = r->kernel_text;
  for (int k = 0; k < 3; k++) out->grad_text[k] = r->grad_text[k];
  out->n_in = r->n_in;
  out->n_out = r->n_out;
  out->n_params = r->flags & OF_PARAM1 ? 1 : r->flags & OF_PARAM2 ? 2 : 0;
  out->differentiable = !(r->flags & OF_NODIFF);
  out->in_place = r->flags & OF_INPLACE_ONLY ? 2 : !(r->flags & (OF_VIEW | OF_NO_INPLACE));
  out->random = (r->flags & OF_RANDOM) != 0;
  out->mutates = (r->flags & OF_INPLACE_ONLY) != 0;
  out->tensors_only = (r->flags & OF_TENSOR0 ? 1 : 0) | (r->flags & OF_TENSOR1 ? 2 : 0);
  out->lo = r->lo;
  out->hi = r->hi;
  return AG_OK;
}
