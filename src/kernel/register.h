/* Filling the table: one registration function per family and variant. A family sets the slots it has and leaves the others
 * unchanged. So the order of the calls in kernel.c is the order of preference: the last one wins. */
#ifndef LKI_KERNEL_REGISTER_H
#define LKI_KERNEL_REGISTER_H

#include "kernel/kernel.h"

/* Reference: plain loops, every slot, every type. */
void lki_register_elementwise_ref(lki_kernels *k);
void lki_register_cast_ref(lki_kernels *k);
void lki_register_reduce_ref(lki_kernels *k);
void lki_register_rows_ref(lki_kernels *k);
void lki_register_batch_ref(lki_kernels *k);
void lki_register_layer_norm_ref(lki_kernels *k);
void lki_register_move_ref(lki_kernels *k);
void lki_register_gather_ref(lki_kernels *k);
void lki_register_random_ref(lki_kernels *k);
void lki_register_products_ref(lki_kernels *k);
void lki_register_update_ref(lki_kernels *k);
void lki_register_replica_ref(lki_kernels *k);

/* Parts of the reference that faster kernels use too: cast between any two types, for those they do not have; the scratch of
 * gather_grad and how it is filled. */
void   lki_cast_ref(const lki_args *a);
size_t lki_gather_grad_scratch(const lki_args *a);
void   lki_sort_positions(const lki_args *a, int64_t entries, int64_t ids, int64_t *begin, int64_t *order);

/* f32 with 8 or 16 values at a time. Only compiled for x86-64. */
void lki_register_elementwise_avx2(lki_kernels *k);
void lki_register_reduce_avx2(lki_kernels *k);
void lki_register_rows_avx2(lki_kernels *k);
void lki_register_batch_avx2(lki_kernels *k);
void lki_register_layer_norm_avx2(lki_kernels *k);
void lki_register_truth_avx2(lki_kernels *k);
void lki_register_cast_avx2(lki_kernels *k);
void lki_register_move_avx2(lki_kernels *k);
void lki_register_gather_avx2(lki_kernels *k);
void lki_register_random_avx2(lki_kernels *k);
void lki_register_products_avx2(lki_kernels *k);
void lki_register_update_avx2(lki_kernels *k);

void lki_register_elementwise_avx512(lki_kernels *k);
void lki_register_reduce_avx512(lki_kernels *k);
void lki_register_rows_avx512(lki_kernels *k);
void lki_register_batch_avx512(lki_kernels *k);
void lki_register_layer_norm_avx512(lki_kernels *k);
void lki_register_truth_avx512(lki_kernels *k);
void lki_register_cast_avx512(lki_kernels *k);
void lki_register_move_avx512(lki_kernels *k);
void lki_register_gather_avx512(lki_kernels *k);
void lki_register_random_avx512(lki_kernels *k);
void lki_register_products_avx512(lki_kernels *k);
void lki_register_update_avx512(lki_kernels *k);

#endif
