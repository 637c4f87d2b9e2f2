/* The parts lki_register_products_ref() calls. */
#ifndef LKI_KERNEL_REF_PRODUCTS_H
#define LKI_KERNEL_REF_PRODUCTS_H

#include "kernel/register.h"

void lki_register_conv_ref(lki_kernels *k);
void lki_register_pool_ref(lki_kernels *k);
void lki_register_live_ref(lki_kernels *k);

#endif
