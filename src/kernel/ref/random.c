/* Random numbers, four at a time; draw.h defines them. */
#include "kernel/draw.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

/* Four u in [0, 1) or four normals: number 4 * block and the next three. */
static void four_uniform(const lki_draw *d, int64_t block, float out[4])
{
    lki_philox p = lki_philox_block(d->key, (uint64_t)block, d->counter_high);
    for (int i = 0; i < 4; i++)
        out[i] = lki_uniform_of(p.word[i]);
}

static void four_normal(const lki_draw *d, int64_t block, float out[4])
{
    lki_philox p = lki_philox_block(d->key, (uint64_t)block, d->counter_high);
    lki_normal_pair(p.word[0], p.word[1], out);
    lki_normal_pair(p.word[2], p.word[3], out + 2);
}

#define DRAW(slot, T, four, expression)                                                                                            \
    static void T##_##slot(const lki_args *a)                                                                                      \
    {                                                                                                                              \
        T *dst = (T *)a->dst[0].data;                                                                                              \
        if (a->lo >= a->hi) return;                                                                                                \
        lki_draw d = lki_draw_of(a);                                                                                               \
        for (int64_t i = a->lo; i < a->hi;) {                                                                                      \
            float   z[4];                                                                                                          \
            int64_t block = (d.offset + i) / 4;                                                                                    \
            four(&d, block, z);                                                                                                    \
            for (int64_t w = (d.offset + i) % 4; w < 4 && i < a->hi; w++, i++)                                                     \
                dst[i] = expression;                                                                                               \
        }                                                                                                                          \
    }

DRAW(random_uniform, f32, four_uniform, lki_uniform_f32(&d, z[w]))
DRAW(random_uniform, f64, four_uniform, lki_uniform_f64(&d, z[w]))
DRAW(random_normal, f32, four_normal, (f32)(d.low + d.high * (double)z[w]))
DRAW(random_normal, f64, four_normal, d.low + d.high * (double)z[w])

void lki_register_random_ref(lki_kernels *k)
{
    LKI_SET_F(k, random_uniform);
    LKI_SET_F(k, random_normal);
}
