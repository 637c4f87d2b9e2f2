/* All AVX-512 products into the table. */
#include "kernel/cpu/products.h"

void lki_register_products_avx512(lki_kernels *k)
{
    lki_register_matmul_avx512(k);
    lki_register_conv_avx512(k);
    lki_register_depthwise_avx512(k);
    lki_register_pool_avx512(k);
    lki_register_live_avx512(k);
}
