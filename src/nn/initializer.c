/* First values of weights: Keras' initialisers on counter-based random numbers, a pure function of the seed, the stream's name and the
 * shape. */
#include "nn/initializer.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "core/shape.h"
#include "op/op.h"
#include <math.h>

/* ---- drawn one by one ---- */

/* A normal number outside is drawn again from the next call. */
lk_tensor *lki_truncated_normal(lk_shape shape, const char *stream, double mean, double deviation)
{
    LKI_NEAREST;
    lk_tensor *t = lk_random_normal(shape, .stream = stream);
    for (int call = 1; call <= 8; call++) {
        lk_tensor *again = lk_random_normal(shape, .stream = stream, .call = call);
        t = lk_where(lk_less_equal(lk_abs(t), lk_scalar(2)), t, again);
    }
    t = lk_mul(lk_clip(t, -2, 2), lk_scalar(deviation));
    return mean != 0 ? lk_add(t, lk_scalar(mean)) : t;
}

static bool is_shape(const lk_shape *s)
{
    char text[LKI_SHAPE_TEXT];
    if (lki_shape_valid(s)) return true;
    lki_fail(LK_ESHAPE, "first values: %s is no shape or has more elements than can be counted", lki_shape_text(s, text));
    return false;
}

/* How many inputs reach one output and how many outputs one input reaches. */
static void fans(const lk_shape *s, double *in, double *out)
{
    double field = 1;
    for (int i = 0; i < s->rank - 2; i++)
        field *= (double)s->dim[i];
    *in = s->rank > 0 ? field * (double)s->dim[s->rank > 1 ? s->rank - 2 : 0] : 1;
    *out = s->rank > 0 ? field * (double)s->dim[s->rank - 1] : 1;
}

static lk_tensor *draw_truncated(lk_shape shape, const char *stream, double variance)
{
    return lki_truncated_normal(shape, stream, 0, sqrt(variance) / 0.87962566103423978);
}

static lk_tensor *draw_normal(lk_shape shape, const char *stream, double variance)
{
    return lk_random_normal(shape, .stream = stream, .high = LK_NUMBER(sqrt(variance)));
}

static lk_tensor *draw_uniform(lk_shape shape, const char *stream, double variance)
{
    double limit = sqrt(3 * variance);
    return lk_random_uniform(shape, .stream = stream, .low = -limit, .high = LK_NUMBER(limit));
}

lk_tensor *lki_variance_scaling(lk_shape shape, const char *stream, double scale, lk_fan_mode mode, lk_distribution distribution)
{
    LKI_NEAREST;
    static lk_tensor *(*const draw[])(lk_shape, const char *, double) = {
        [LK_TRUNCATED_NORMAL] = draw_truncated, [LK_UNTRUNCATED_NORMAL] = draw_normal, [LK_UNIFORM] = draw_uniform};
    double in, out;
    if (!is_shape(&shape)) return &lki_poison;
    fans(&shape, &in, &out);
    double fan = mode == LK_FAN_IN ? in : mode == LK_FAN_OUT ? out : (in + out) / 2;
    return draw[distribution](shape, stream, scale / fmax(1, fan));
}

#define SCALED(name, scale, mode, distribution)                                                                                    \
    lk_tensor *lk_##name(lk_shape shape, const char *stream)                                                                       \
    {                                                                                                                              \
        return lki_variance_scaling(shape, stream, scale, mode, distribution);                                                     \
    }
SCALED(glorot_uniform, 1, LK_FAN_AVG, LK_UNIFORM)
SCALED(glorot_normal, 1, LK_FAN_AVG, LK_TRUNCATED_NORMAL)
SCALED(he_uniform, 2, LK_FAN_IN, LK_UNIFORM)
SCALED(he_normal, 2, LK_FAN_IN, LK_TRUNCATED_NORMAL)

/* ---- orthogonal ---- */

/* In four sums, elements i, i + 4, ...; then (0 + 1) + (2 + 3). */
static double dot(int64_t n, const double *a, const double *b)
{
    double  s[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] += a[i + k] * b[i + k];
    for (int k = 0; i < n; i++, k++)
        s[k] += a[i] * b[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static void add_scaled(int64_t n, double *y, double c, const double *x)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += c * x[i];
}

/* Gram and Schmidt, modified, twice: perpendicular to the last bits. It is the Q of the decomposition into Q and R that has a positive
 * diagonal in R, which Keras makes of any other by the signs of that diagonal. */
static void orthonormalize(int64_t count, int64_t length, double *v)
{
    for (int64_t i = 0; i < count; i++) {
        double *x = v + i * length;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t j = 0; j < i; j++)
                add_scaled(length, x, -dot(length, x, v + j * length), v + j * length);
        double norm = sqrt(dot(length, x, x));
        for (int64_t k = 0; norm > 0 && k < length; k++)
            x[k] /= norm;
    }
}

/* Normal numbers, one vector after the other, as doubles; NULL and an error. */
static double *drawn_vectors(int64_t count, int64_t length, const char *stream)
{
    lk_tensor   *t = lk_random_normal(LK_SHAPE(count, length), .stream = stream);
    const float *drawn = lki_bad(t) ? NULL : lk_data(t);
    double      *v = drawn ? lki_alloc_array(lki_max(1, lki_size_mul(count, length)), sizeof *v) : NULL;
    for (int64_t i = 0; v && i < count * length; i++)
        v[i] = drawn[i];
    if (!lki_bad(t)) lk_free(t);
    return v;
}

lk_tensor *lki_orthogonal(lk_shape shape, const char *stream, double gain)
{
    LKI_NEAREST;
    if (!is_shape(&shape)) return &lki_poison;
    int64_t columns = shape.rank ? shape.dim[shape.rank - 1] : 0, rows = 1;
    for (int i = 0; i < shape.rank - 1; i++)
        rows = lki_size_mul(rows, shape.dim[i]);
    int64_t    count = lki_min(rows, columns), length = lki_max(rows, columns);
    double    *v = drawn_vectors(count, length, stream);
    lk_tensor *t = v ? lki_tensor_new(LK_F32, &shape) : &lki_poison;
    if (!lki_bad(t)) {
        float *out = t->data;
        orthonormalize(count, length, v);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++)
                out[i * columns + j] = (float)(gain * (rows < columns ? v[i * length + j] : v[j * length + i]));
    }
    lki_release(v);
    return t;
}
