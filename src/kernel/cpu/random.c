/* random_uniform for f32, sixteen Philox blocks at a time. Dropout draws a number per activation, so this must not be slower than
 * the arithmetic around it. */
#include "kernel/cpu/vec.h"
#include "kernel/draw.h"
#include "kernel/register.h"

enum { BATCH = 4 * VEC }; /* numbers of sixteen blocks */

/* The rounds of lki_philox_block() on sixteen counters at once. */
static inline void philox_rounds(vint c[4], uint64_t key)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
        vint high0, high1, low0 = vint_multiply(c[0], 0xD2511F53, &high0), low1 = vint_multiply(c[2], 0xCD9E8D57, &high1);
        c[0] = vint_xor(vint_xor(high1, c[1]), vint_set((int32_t)k0));
        c[2] = vint_xor(vint_xor(high0, c[3]), vint_set((int32_t)k1));
        c[1] = low1;
        c[3] = low0;
    }
}

static inline vec uniform_of(vint words) { return vec_mul(vint_to_float(vint_right_unsigned(words, 8)), vec_set(0x1p-24f)); }

/* Numbers 4 * block, ... of a draw, in [0, 1). Element 4q + j has block + 4j + q, so that vint_turn() puts them in order. */
static void uniform_batch(const lki_draw *d, uint64_t block, float u[BATCH])
{
    uint32_t low[VEC], high[VEC];
    for (int i = 0; i < VEC; i++) {
        uint64_t counter = block + (uint64_t)(i % 4 * 4 + i / 4);
        low[i] = (uint32_t)counter;
        high[i] = (uint32_t)(counter >> 32);
    }
    vint c[4] = {vint_load(low), vint_load(high), vint_set((int32_t)(uint32_t)d->counter_high),
                 vint_set((int32_t)(uint32_t)(d->counter_high >> 32))};
    philox_rounds(c, d->key);
    vint_turn(&c[0], &c[1], &c[2], &c[3]);
    for (int j = 0; j < 4; j++)
        vec_store(u + j * VEC, uniform_of(c[j]));
}

static void f32_random_uniform(const lki_args *a)
{
    float *dst = (float *)a->dst[0].data;
    if (a->lo >= a->hi) return;
    lki_draw d = lki_draw_of(a);
    int64_t  begin = d.offset + a->lo, end = d.offset + a->hi;
    for (int64_t e = begin / 4 * 4; e < end; e += BATCH) {
        float   u[BATCH];
        int64_t from = lki_max(e, begin), to = lki_min(e + BATCH, end);
        uniform_batch(&d, (uint64_t)e / 4, u);
        if (d.low == 0 && d.high == 1) memcpy(dst + (from - d.offset), u + (from - e), (size_t)(to - from) * sizeof(float));
        else
            for (int64_t i = from; i < to; i++)
                dst[i - d.offset] = lki_uniform_f32(&d, u[i - e]);
    }
}

void ISA(lki_register_random)(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_random_uniform, LK_F32, f32_random_uniform, NULL, VARIANT);
}
