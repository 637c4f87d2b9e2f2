/* First values of weights: Keras' initialisers on counter-based random numbers, a pure function of the seed, the stream's name and
 * the shape. They are computed in place, element by element or a block at a time. If a value is read from a file, none of this is
 * done; if it is computed, that takes no additional memory. */
#include "nn/initializer.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/rounding.h"
#include "core/shape.h"
#include "core/thread.h"
#include "op/op.h"
#include <math.h>
#include <string.h>

/* ---- drawn one by one ---- */

/* Numbers of the stream from its first on, by the kernel that also draws for ops. */
static void draw(lki_slot slot, const lki_filling *f, double low, double high, float *out)
{
    int64_t        iteration = 0;
    const lk_shape scalar = {0}, flat = {1, {lki_shape_size(&f->shape)}};
    const lki_attr attr = {.random = {.key = f->key, .low = low, .high = high}};
    const lki_view src = {&iteration, &scalar, LK_I64}, dst = {out, &flat, LK_F32};
    const lki_args args = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1, .attr = &attr, .hi = flat.dim[0]};
    const unsigned before = lki_fp_enter();
    lki_kernels_here()->fn[slot][LK_F32](&args);
    lki_fp_leave(before);
}

/* Number i of the stream's draw `call`, normal. */
static float normal_at(uint64_t key, int64_t i, uint64_t call)
{
    const lki_philox p = lki_philox_block(key, (uint64_t)i / 4, call);
    float            z[2];
    lki_normal_pair(p.word[i & 2], p.word[(i & 2) + 1], z);
    return z[i & 1] + 0.0f; /* as in the kernel, which adds its mean of 0: this turns -0 into 0 */
}

/* A number outside the limits is drawn again, from the next call, at most eight times. */
static float drawn_again(uint64_t key, int64_t i, float z)
{
    for (uint64_t call = 1; call <= 8 && !(fabsf(z) <= 2); call++)
        z = normal_at(key, i, call);
    return fminf(fmaxf(z, -2), 2);
}

static lk_status make_truncated(const lki_filling *f, void *elements)
{
    float      *out = elements;
    const float mean = (float)f->a, deviation = (float)f->b;
    draw(LKI_K_random_normal, f, 0, 1, out);
    const unsigned before = lki_fp_enter();
    for (int64_t i = 0, size = lki_shape_size(&f->shape); i < size; i++) {
        const float z = fabsf(out[i]) <= 2 ? out[i] : drawn_again(f->key, i, out[i]);
        out[i] = f->a != 0 ? z * deviation + mean : z * deviation;
    }
    lki_fp_leave(before);
    return LK_OK;
}

static lk_status make_normal(const lki_filling *f, void *elements)
{
    draw(LKI_K_random_normal, f, f->a, f->b, elements);
    return LK_OK;
}

static lk_status make_uniform(const lki_filling *f, void *elements)
{
    draw(LKI_K_random_uniform, f, f->a, f->b, elements);
    return LK_OK;
}

/* ---- fixed ---- */

static lk_status make_constant(const lki_filling *f, void *elements)
{
    lki_repeat(f->dtype, elements, lki_shape_size(&f->shape), f->a);
    return LK_OK;
}

static lk_status make_identity(const lki_filling *f, void *elements)
{
    float        *out = elements;
    const int64_t rows = f->shape.dim[0], columns = f->shape.dim[1];
    if (lki_shape_size(&f->shape) > 0) memset(out, 0, lki_bytes_of(lki_shape_size(&f->shape), sizeof *out));
    for (int64_t i = 0; i < lki_min(rows, columns); i++)
        out[i * columns + i] = (float)f->a;
    return LK_OK;
}

/* ---- orthogonal ---- */

static lk_status make_orthogonal(const lki_filling *f, void *elements)
{
    int64_t columns = f->shape.rank ? f->shape.dim[f->shape.rank - 1] : 0, rows = 1;
    for (int i = 0; i < f->shape.rank - 1; i++)
        rows = lki_size_mul(rows, f->shape.dim[i]);
    draw(LKI_K_random_normal, f, 0, 1, elements);
    return lki_orthogonal(rows, columns, f->a, elements);
}

/* ---- fillings ---- */

lk_status lki_filling_make(const lki_filling *f, void *elements)
{
    static lk_status (*const make[])(const lki_filling *, void *) = {
        [LKI_FILL_CONSTANT] = make_constant, [LKI_FILL_IDENTITY] = make_identity,   [LKI_FILL_UNIFORM] = make_uniform,
        [LKI_FILL_NORMAL] = make_normal,     [LKI_FILL_TRUNCATED] = make_truncated, [LKI_FILL_ORTHOGONAL] = make_orthogonal};
    LKI_NEAREST;
    return make[f->kind](f, elements);
}

static lk_status make_later(const lki_later *later, void *elements)
{
    return lki_filling_make((const lki_filling *)later, elements);
}

lki_filling lki_filling_of(lki_filling_kind kind, lk_shape shape, const char *stream, double a, double b)
{
    return (lki_filling){.later = {make_later, sizeof(lki_filling)},
                         .kind = kind,
                         .dtype = LK_F32,
                         .shape = shape,
                         .key = lki_stream_key(lk_random_seed(), stream),
                         .a = a,
                         .b = b};
}

lk_tensor *lki_filling_tensor(const lki_filling *f)
{
    lk_tensor *t = lki_tensor_new(f->dtype, &f->shape);
    if (!lki_bad(t) && lki_filling_make(f, t->data) == LK_OK) return t;
    if (!lki_bad(t)) lk_free(t);
    return &lki_poison;
}

/* The number of inputs of one output, and of outputs that one input contributes to. */
static void fans(const lk_shape *s, double *in, double *out)
{
    double field = 1;
    for (int i = 0; i < s->rank - 2; i++)
        field *= (double)s->dim[i];
    *in = s->rank > 0 ? field * (double)s->dim[s->rank > 1 ? s->rank - 2 : 0] : 1;
    *out = s->rank > 0 ? field * (double)s->dim[s->rank - 1] : 1;
}

lki_filling lki_variance_scaling(lk_shape shape, const char *stream, double scale, lk_fan_mode mode, lk_distribution distribution)
{
    LKI_NEAREST;
    double in, out;
    fans(&shape, &in, &out);
    const double fan = mode == LK_FAN_IN    ? in
                       : mode == LK_FAN_OUT ? out
                                            : (in + out) / 2,
                 variance = scale / fmax(1, fan), limit = sqrt(3 * variance);
    if (distribution == LK_UNIFORM) return lki_filling_of(LKI_FILL_UNIFORM, shape, stream, -limit, limit);
    if (distribution == LK_UNTRUNCATED_NORMAL) return lki_filling_of(LKI_FILL_NORMAL, shape, stream, 0, sqrt(variance));
    return lki_filling_of(LKI_FILL_TRUNCATED, shape, stream, 0, sqrt(variance) / 0.87962566103423978);
}

/* ---- as functions ---- */

static lk_tensor *scaled(const char *call, lk_shape shape, const char *stream, double scale, lk_fan_mode mode, lk_distribution d)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_shape_valid(&shape))
        return lki_refuse(LK_ESHAPE, "%s: %s is not the shape of a weight", call, lki_shape_text(&shape, text));
    const lki_filling f = lki_variance_scaling(shape, stream ? stream : "", scale, mode, d);
    return lki_filling_tensor(&f);
}

#define SCALED(name, scale, mode, distribution)                                                                                    \
    lk_tensor *lk_##name(lk_shape shape, const char *stream)                                                                       \
    {                                                                                                                              \
        return scaled("lk_" #name, shape, stream, scale, mode, distribution);                                                      \
    }
SCALED(glorot_uniform, 1, LK_FAN_AVG, LK_UNIFORM)
SCALED(glorot_normal, 1, LK_FAN_AVG, LK_TRUNCATED_NORMAL)
SCALED(he_uniform, 2, LK_FAN_IN, LK_UNIFORM)
SCALED(he_normal, 2, LK_FAN_IN, LK_TRUNCATED_NORMAL)
