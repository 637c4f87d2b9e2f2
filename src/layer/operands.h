/* What the functions of operations compute from: arguments of the call and options, by their names in Keras.
 *
 * A function that meets a missing or wrong argument gets poison or -1, and the error names the operation and the argument. */
#ifndef LKI_LAYER_OPERANDS_H
#define LKI_LAYER_OPERANDS_H

#include "layer/operation.h"
#include "op/gradient.h"

struct lki_operands {
    const lk_layer           *layer;
    const lki_operation_line *line;
    const lki_json           *config;
    const lki_call_form      *form;
    lk_tuple                  in;
    lk_tensor *(*constant)(const lk_layer *l, const lki_json *v); /* the tensor of an array in the call */
};

/* The value of an argument or option; NULL: it is null or was not given. */
const lki_json *lki_arg(const lki_operands *c, const char *name);

/* ---- tensors ---- */

lk_tensor *lki_arg_tensor(const lki_operands *c, const char *name);  /* numbers become scalars, lists of numbers tensors */
lk_tensor *lki_arg_float(const lki_operands *c, const char *name);   /* the same, as floats */
lk_tensor *lki_arg_ids(const lki_operands *c, const char *name);     /* as i32 or i64 */
lk_tensor *lki_arg_truth(const lki_operands *c, const char *name);   /* as bool: what is not 0 */
lk_tuple   lki_arg_tensors(const lki_operands *c, const char *name); /* a list, of one type; empty and an error */

/* Two operands of one type, as Keras combines them: a plain number takes the type of the other one. False and an error. `floats`:
 * integers become floats. */
bool lki_arg_pair(const lki_operands *c, const char *a, const char *b, bool floats, lk_tensor *pair[2]);

lk_tensor *lki_to_float(lk_tensor *x);
lk_tensor *lki_to_truth(lk_tensor *x);
lk_dtype   lki_common_dtype(lk_dtype a, lk_dtype b);

/* ---- values ---- */

double      lki_arg_number(const lki_operands *c, const char *name, double standard);
int64_t     lki_arg_whole(const lki_operands *c, const char *name, int64_t standard);
bool        lki_arg_switch(const lki_operands *c, const char *name, bool standard);
const char *lki_arg_word(const lki_operands *c, const char *name, const char *standard);
int         lki_arg_dtype(const lki_operands *c, const char *name, lk_dtype standard); /* -1 and an error */

/* Whole numbers: one, or a list; null among them is -1. False and an error; empty if it was not given. */
bool lki_arg_list(const lki_operands *c, const char *name, lki_axes *out);

/* ---- axes of x, rows being axis 0; what would touch the rows is an error ---- */

int  lki_arg_axis(const lki_operands *c, const char *name, const lk_tensor *x, int standard);  /* 1 or more; -1 and an error */
bool lki_arg_axes(const lki_operands *c, const char *name, const lk_tensor *x, lki_axes *out); /* null is all axes */
int  lki_operand_axis(const lki_operands *c, const lk_tensor *x, int64_t axis);

/* ---- errors ---- */

/* "Softmax: <what is wrong>"; poison. */
lk_tensor *lki_arg_refuse(const lki_operands *c, const char *format, ...) LKI_PRINTF(2, 3);

/* ---- the functions ---- */

#define LKI_OPERATION(module, class, arguments, options, fn) lki_operation_fn lki_operation_##fn;
#define LKI_OPERATION_OF_TWO(module, class, fn) lki_operation_fn lki_operation_##fn;
#include "layer/operations.inc"
#undef LKI_OPERATION
#undef LKI_OPERATION_OF_TWO
#define OPERATION(name) lk_tensor *lki_operation_##name(const lki_operands *c)

#endif
