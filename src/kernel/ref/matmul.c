/* Reference matrix product, and the table entries of all reference products (matmul, conv, pool, live). The loops are in
 * matmul.inc. */
#include "kernel/matrix.h"
#include "kernel/ref/products.h"
#include <math.h>

#define LOOPS "kernel/ref/matmul.inc"
#include "kernel/ref/both.inc"

void lki_register_products_ref(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_matmul, LK_F32, f32_matmul, NULL, "ref");
    lki_kernel_set(k, LKI_K_matmul, LK_F64, f64_matmul, NULL, "ref");
    lki_register_conv_ref(k);
    lki_register_pool_ref(k);
    lki_register_live_ref(k);
}
