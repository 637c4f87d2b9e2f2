/* Reference matrix product, and the table entries of all reference products (matmul, conv, pool, live). The loops are in
 * matmul.inc. */
#include "kernel/matrix.h"
#include "kernel/ref/products.h"
#include <math.h>

#define T float
#define FMA fmaf
#define NAME(x) f32_##x
#include "kernel/ref/matmul.inc"
#undef T
#undef FMA
#undef NAME

#define T double
#define FMA fma
#define NAME(x) f64_##x
#include "kernel/ref/matmul.inc"

void lki_register_products_ref(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_matmul, LK_F32, f32_matmul, NULL, "ref");
    lki_kernel_set(k, LKI_K_matmul, LK_F64, f64_matmul, NULL, "ref");
    lki_register_conv_ref(k);
    lki_register_pool_ref(k);
    lki_register_live_ref(k);
}
