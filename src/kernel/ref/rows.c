/* Reference softmax and cross-entropy, and their table entries. The loops are in rows.inc. */
#include "kernel/fold.h"
#include "kernel/index.h"
#include "kernel/ref/math.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#define T float
#define EXP lki_exp_f32
#define LOG lki_log_f32
#define FOLD(x) lki_fold_f32##x
#define NAME(x) f32_##x
#include "kernel/ref/rows.inc"
#undef T
#undef EXP
#undef LOG
#undef FOLD
#undef NAME

#define T double
#define EXP exp
#define LOG log
#define FOLD(x) lki_fold_f64##x
#define NAME(x) f64_##x
#include "kernel/ref/rows.inc"

void lki_register_rows_ref(lki_kernels *k)
{
    LKI_SET_F(k, softmax);
    LKI_SET_F(k, softmax_grad);
    LKI_SET_F(k, log_softmax);
    LKI_SET_F(k, sparse_xent);
    LKI_SET_F(k, sparse_xent_grad);
}
