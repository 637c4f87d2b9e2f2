/* Random numbers as a function of position: element i of dst is number e = first * (elements per entry) + i of its draw, whatever
 * range, replica or core computes it.
 *
 *     Philox block   key = attr key;  counter = (e / 4, iteration * 2^16 + call);  four words, four elements
 *     uniform        word e % 4 to u in [0, 1), 24 bits;  low + u * (high - low) in double, rounded once, kept below high
 *     normal         words 0, 1 and words 2, 3 to two pairs;  mean + deviation * z in double, rounded once */
#ifndef LKI_KERNEL_DRAW_H
#define LKI_KERNEL_DRAW_H

#include "core/random.h"
#include "kernel/kernel.h"

#include <math.h>

typedef struct lki_draw {
    uint64_t key, counter_high;
    int64_t  offset; /* of dst's element 0 */
    double   low, high;
} lki_draw;

static inline lki_draw lki_draw_of(const lki_args *a)
{
    const lk_shape *shape = a->dst[0].shape;
    int64_t         iteration = *(const int64_t *)a->src[0].data;
    return (lki_draw){.key = a->attr->random.key,
                      .counter_high = (uint64_t)iteration * 0x10000u + a->attr->random.call,
                      .offset = a->first * lki_shape_size_from(shape, shape->rank ? 1 : 0),
                      .low = a->attr->random.low,
                      .high = a->attr->random.high};
}

/* u mapped to the interval. Rounding may reach `high`, which is not part of it. */
static inline float lki_uniform_f32(const lki_draw *d, float u)
{
    double x = d->low + (double)u * (d->high - d->low);
    return (float)x < d->high || !(d->low < d->high) ? (float)x : nextafterf((float)d->high, (float)d->low);
}

static inline double lki_uniform_f64(const lki_draw *d, float u)
{
    double x = d->low + (double)u * (d->high - d->low);
    return x < d->high || !(d->low < d->high) ? x : nextafter(d->high, d->low);
}

#endif
