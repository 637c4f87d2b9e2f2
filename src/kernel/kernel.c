/* The table of kernels: names of the slots, and which variant fills them on this machine.
 *
 * Invariants
 * 1. After the reference has registered, every slot works for every type in kernels.inc; faster variants only replace entries.
 * 2. All variants give the same bits, so the choice only affects speed. */
#include "kernel/kernel.h"

#include "kernel/register.h"
#include <pthread.h>
#include <string.h>

const char *lki_slot_name(lki_slot slot)
{
#define LKI_SLOT(name, types, order, text) #name,
    static const char *const names[] = {
        "none",
#include "kernel/kernels.inc"
    };
#undef LKI_SLOT
    return (unsigned)slot < LKI_SLOT_COUNT ? names[slot] : "unknown";
}

bool lki_slot_may_fault(lki_slot slot, lk_dtype dtype)
{
    static const lki_slot slots[] = {LKI_K_sparse_xent, LKI_K_sparse_xent_grad, LKI_K_gather,   LKI_K_gather_grad,
                                     LKI_K_row_gather,  LKI_K_row_gather_grad,  LKI_K_floordiv, LKI_K_mod,
                                     LKI_K_scatter};
    for (int i = 0; i < LKI_COUNT(slots); i++)
        if (slot == slots[i]) return (slot != LKI_K_floordiv && slot != LKI_K_mod) || lki_is_int(dtype);
    return false;
}

void lki_kernels_ref(lki_kernels *k)
{
    lki_register_elementwise_ref(k);
    lki_register_cast_ref(k);
    lki_register_reduce_ref(k);
    lki_register_rows_ref(k);
    lki_register_batch_ref(k);
    lki_register_layer_norm_ref(k);
    lki_register_move_ref(k);
    lki_register_gather_ref(k);
    lki_register_random_ref(k);
    lki_register_products_ref(k);
    lki_register_update_ref(k);
    lki_register_replica_ref(k);
}

#if defined(__x86_64__)

void lki_kernels_avx2(lki_kernels *k)
{
    lki_register_elementwise_avx2(k);
    lki_register_reduce_avx2(k);
    lki_register_rows_avx2(k);
    lki_register_batch_avx2(k);
    lki_register_layer_norm_avx2(k);
    lki_register_truth_avx2(k);
    lki_register_cast_avx2(k);
    lki_register_move_avx2(k);
    lki_register_gather_avx2(k);
    lki_register_random_avx2(k);
    lki_register_products_avx2(k);
    lki_register_update_avx2(k);
}

void lki_kernels_avx512(lki_kernels *k)
{
    lki_register_elementwise_avx512(k);
    lki_register_reduce_avx512(k);
    lki_register_rows_avx512(k);
    lki_register_batch_avx512(k);
    lki_register_layer_norm_avx512(k);
    lki_register_truth_avx512(k);
    lki_register_cast_avx512(k);
    lki_register_move_avx512(k);
    lki_register_gather_avx512(k);
    lki_register_random_avx512(k);
    lki_register_products_avx512(k);
    lki_register_update_avx512(k);
}

#else

void lki_kernels_avx2(lki_kernels *k) { (void)k; }
void lki_kernels_avx512(lki_kernels *k) { (void)k; }

#endif

void lki_cpu_kernels(lki_kernels *k, lki_isa isa)
{
    memset(k, 0, sizeof *k);
    lki_kernels_ref(k); /* every slot works from here on */
    if (isa >= LKI_ISA_AVX2) lki_kernels_avx2(k);
    if (isa >= LKI_ISA_AVX512) lki_kernels_avx512(k);
}

static lki_kernels here;

static void make_here(void) { lki_cpu_kernels(&here, lki_cpu_isa()); }

const lki_kernels *lki_kernels_here(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_here);
    return &here;
}
