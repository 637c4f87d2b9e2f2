/* All AVX2 products into the table. */
#include "kernel/cpu/products.h"

void lki_register_products_avx2(lki_kernels *k)
{
    lki_register_matmul_avx2(k);
    lki_register_conv_avx2(k);
    lki_register_depthwise_avx2(k);
    lki_register_pool_avx2(k);
    lki_register_live_avx2(k);
}
