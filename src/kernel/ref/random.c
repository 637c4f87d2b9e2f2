/* Random numbers as a function of place: element i of dst is number e = first * (elements per entry) + i of its draw, whatever range,
 * replica or core computes it.
 *
 *   Philox block   key = attr key;  counter = (e / 4, iteration * 2^16 + call);  four words, four elements
 *   uniform        word e % 4 to u in [0, 1), 24 bits;  low + u * (high - low) in double, rounded once, kept below high
 *   normal         words 0, 1 and words 2, 3 to two pairs;  mean + deviation * z in double, rounded once */
#include "core/random.h"
#include "kernel/ref/types.h"
#include "kernel/register.h"

#include <math.h>

typedef struct draw {
    uint64_t key, counter_high;
    int64_t  offset; /* of dst's element 0 */
    double   low, high;
} draw;

static draw draw_of(const lki_args *a)
{
    const lk_shape *shape = a->dst[0].shape;
    int64_t         iteration = *(const int64_t *)a->src[0].data;
    return (draw){.key = a->attr->random.key,
                  .counter_high = (uint64_t)iteration * 0x10000u + a->attr->random.call,
                  .offset = a->first * lki_shape_size_from(shape, shape->rank ? 1 : 0),
                  .low = a->attr->random.low,
                  .high = a->attr->random.high};
}

/* Four u in [0, 1) or four normals: number 4 * block and the next three. */
static void four_uniform(const draw *d, int64_t block, float out[4])
{
    lki_philox p = lki_philox_block(d->key, (uint64_t)block, d->counter_high);
    for (int i = 0; i < 4; i++) out[i] = lki_uniform_of(p.word[i]);
}

static void four_normal(const draw *d, int64_t block, float out[4])
{
    lki_philox p = lki_philox_block(d->key, (uint64_t)block, d->counter_high);
    lki_normal_pair(p.word[0], p.word[1], out);
    lki_normal_pair(p.word[2], p.word[3], out + 2);
}

#define DRAW(slot, T, four, expression)                                                                                         \
    static void T##_##slot(const lki_args *a)                                                                                   \
    {                                                                                                                           \
        T *dst = (T *)a->dst[0].data;                                                                                           \
        if (a->lo >= a->hi) return;                                                                                             \
        draw d = draw_of(a);                                                                                                    \
        for (int64_t i = a->lo; i < a->hi;) {                                                                                   \
            float   z[4];                                                                                                       \
            int64_t block = (d.offset + i) / 4;                                                                                 \
            four(&d, block, z);                                                                                                 \
            for (int64_t w = (d.offset + i) % 4; w < 4 && i < a->hi; w++, i++) dst[i] = expression;                             \
        }                                                                                                                       \
    }

/* Rounding may reach `high`, which is not part of the interval. */
static float below_f32(const draw *d, double x)
{
    return (float)x < d->high || !(d->low < d->high) ? (float)x : nextafterf((float)d->high, (float)d->low);
}

static double below_f64(const draw *d, double x) { return x < d->high || !(d->low < d->high) ? x : nextafter(d->high, d->low); }

DRAW(random_uniform, f32, four_uniform, below_f32(&d, d.low + (double)z[w] * (d.high - d.low)))
DRAW(random_uniform, f64, four_uniform, below_f64(&d, d.low + (double)z[w] * (d.high - d.low)))
DRAW(random_normal, f32, four_normal, (f32)(d.low + d.high * (double)z[w]))
DRAW(random_normal, f64, four_normal, d.low + d.high * (double)z[w])

void lki_register_random_ref(lki_kernels *k)
{
    LKI_SET_F(k, random_uniform);
    LKI_SET_F(k, random_normal);
}
