/* Registers all products in the table. */
#include "kernel/cpu/products.h"
#include "kernel/cpu/simd.h"

void ISA(lki_register_products)(lki_kernels *k)
{
    ISA(lki_register_matmul)(k);
    ISA(lki_register_conv)(k);
    ISA(lki_register_depthwise)(k);
    ISA(lki_register_grouped)(k);
    ISA(lki_register_pool)(k);
    ISA(lki_register_live)(k);
}
