/* Sizes of images changed by interpolation (resize.h).
 *
 * Every new cell is a weighted sum of cells. Its centre is at a half, as in TensorFlow: new cell i lies at (i + 0.5) * cells /
 * count - 0.5.
 *
 *     nearest             the cell whose area it lies in
 *     bilinear            first + (second - first) * share, of the two cells it is between
 *     bicubic, lanczos    a product with the matrix of all weights. Weights of cells outside of the image are 0, and those of one
 *                         result add up to 1. As in TensorFlow, bicubic places are rounded to 1 / 1024 of a cell.
 *     area                such a product; the weight of a cell is the part of the new cell that it covers
 *     antialias           such a product; where cells become fewer, weights reach as much farther. Bicubic places are exact */
#include "layer/resize.h"
#include "core/memory.h"
#include "core/rounding.h"
#include <math.h>

const char *const lki_interpolation_words[LK_INTERPOLATION_COUNT] = {
    [LK_NEAREST] = "nearest",   [LK_BILINEAR] = "bilinear", [LK_BICUBIC] = "bicubic",
    [LK_LANCZOS3] = "lanczos3", [LK_LANCZOS5] = "lanczos5", [LK_AREA] = "area"};

bool lki_interpolation_fits(const char *call, lk_interpolation interpolation)
{
    if ((unsigned)interpolation < LK_INTERPOLATION_COUNT) return true;
    lki_fail(LK_EINVAL, "%s: there is no interpolation %d", call, (int)interpolation);
    return false;
}

/* ---- one or two cells ---- */

/* The two cells that each new one is between, and its distance from the first. */
static void between(int64_t cells, int64_t count, int64_t *first, int64_t *second, float *share)
{
    LKI_NEAREST;
    const float scale = (float)cells / (float)count;
    for (int64_t i = 0; i < count; i++) {
        const float at = ((float)i + 0.5f) * scale - 0.5f, low = floorf(at);
        first[i] = lki_max((int64_t)low, 0);
        second[i] = lki_min((int64_t)ceilf(at), cells - 1);
        share[i] = at - low;
    }
}

static lk_tensor *bilinear(lk_tensor *x, int axis, int64_t count)
{
    int64_t *ids LKI_RELEASED = lki_alloc_array(lki_max(1, count), 2 * sizeof *ids);
    float   *share LKI_RELEASED = ids ? lki_alloc_array(lki_max(1, count), sizeof *share) : NULL;
    if (!share) return &lki_poison;
    lk_shape along = {.rank = x->shape.rank - axis, .dim = {count, 1, 1, 1, 1, 1, 1, 1}};
    between(x->shape.dim[axis], count, ids, ids + count, share);
    lk_tensor *first = lk_gather(x, lk_tensor_from(LK_SHAPE(count), LK_I64, ids), axis);
    lk_tensor *second = lk_gather(x, lk_tensor_from(LK_SHAPE(count), LK_I64, ids + count), axis);
    return lk_add(first, lk_mul(lk_sub(second, first), lk_tensor_from(along, LK_F32, share)));
}

static lk_tensor *nearest(lk_tensor *x, int axis, int64_t count)
{
    LKI_NEAREST;
    const int64_t cells = x->shape.dim[axis];
    const float   scale = (float)cells / (float)count;
    int64_t      *ids LKI_RELEASED = lki_alloc_array(lki_max(1, count), sizeof *ids);
    if (!ids) return &lki_poison;
    for (int64_t i = 0; i < count; i++)
        ids[i] = lki_min((int64_t)floorf(((float)i + 0.5f) * scale), cells - 1);
    return lk_gather(x, lk_tensor_from(LK_SHAPE(count), LK_I64, ids), axis);
}

/* ---- weights ---- */

/* The same on every machine, which the C library's is not. For x from 0 to 5. */
static double sine_of_pi_times(double x)
{
    const double whole = nearbyint(x), rest = (x - whole) * 3.14159265358979323846, square = rest * rest;
    double       sum = 1;
    for (int k = 20; k >= 2; k -= 2)
        sum = 1 - square / (k * (k + 1.0)) * sum;
    return (int64_t)whole % 2 ? -rest * sum : rest * sum;
}

/* At a distance x of 0 or more, in cells. */
static double lanczos(double x, double radius)
{
    const double pi = 3.14159265358979323846;
    if (x > radius) return 0;
    return x <= 1e-3 ? 1 : radius * sine_of_pi_times(x) * sine_of_pi_times(x / radius) / (pi * pi * x * x);
}

/* Keys' cubic, a = -0.5. */
static double cubic(double x)
{
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

static double weight_at(lk_interpolation interpolation, double x)
{
    if (interpolation == LK_BILINEAR) return fmax(0, 1 - x);
    return interpolation == LK_BICUBIC ? cubic(x) : interpolation == LK_LANCZOS3 ? lanczos(x, 3) : lanczos(x, 5);
}

/* The weights of all cells for one place, `wide` times as wide as the interpolation's; 0 for those farther away. */
static void weigh(float *row, int64_t cells, double at, double wide, lk_interpolation interpolation)
{
    static const int RADIUS[] = {[LK_BILINEAR] = 1, [LK_BICUBIC] = 2, [LK_LANCZOS3] = 3, [LK_LANCZOS5] = 5};
    const double     reach = RADIUS[interpolation] * wide;
    const int64_t    from = lki_max(0, (int64_t)floor(at - reach)), to = lki_min(cells, (int64_t)ceil(at + reach) + 1);
    double           sum = 0;
    for (int64_t i = from; i < to; i++)
        sum += weight_at(interpolation, fabs((double)i - at) / wide);
    for (int64_t i = from; i < to; i++)
        row[i] = (float)(weight_at(interpolation, fabs((double)i - at) / wide) / sum);
}

/* The parts of the new cell from `low` to `high` that the cells cover. */
static void cover(float *row, int64_t cells, float low, float high)
{
    for (int64_t i = (int64_t)floorf(low); i < (int64_t)ceilf(high); i++)
        row[lki_min(i, cells - 1)] += (fminf((float)(i + 1), high) - fmaxf((float)i, low)) / (high - low);
}

/* [count, cells] */
static lk_tensor *weights_of(int64_t cells, int64_t count, lk_interpolation interpolation, bool antialias)
{
    LKI_NEAREST;
    const float  scale = (float)cells / (float)count;
    const double wide = antialias ? fmax(1, (double)scale) : 1;
    float       *weight LKI_RELEASED = lki_zalloc(lki_bytes_of(lki_size_mul(cells, count), sizeof *weight));
    if (!weight) return &lki_poison;
    for (int64_t i = 0; i < count; i++) {
        double at = ((double)i + 0.5) * scale - 0.5;
        if (interpolation == LK_BICUBIC && !antialias) at = floor(at) + nearbyint((at - floor(at)) * 1024) / 1024;
        if (interpolation == LK_AREA) cover(weight + i * cells, cells, (float)i * scale, (float)(i + 1) * scale);
        else weigh(weight + i * cells, cells, at, wide, interpolation);
    }
    return lk_tensor_from(LK_SHAPE(count, cells), LK_F32, weight);
}

/* Along an axis in the middle: a product of the weights with [..., cells, all that follows]. */
static lk_tensor *weighted(lk_tensor *x, int axis, int64_t count, lk_interpolation interpolation, bool antialias)
{
    lk_shape      y = x->shape;
    const int64_t cells = y.dim[axis], before = lki_size_product(y.dim, axis), after = lki_shape_size_from(&y, axis + 1);
    y.dim[axis] = count;
    lk_tensor *flat = lk_reshape(x, LK_SHAPE(before, cells, after));
    return lk_reshape(lk_matmul(weights_of(cells, count, interpolation, antialias), flat), y);
}

lk_tensor *lki_resize(lk_tensor *x, int axis, int64_t count, lk_interpolation interpolation, bool antialias)
{
    if (lki_bad(x) || x->shape.dim[axis] == count) return x;
    if (x->shape.dim[axis] < 1 || count < 1)
        return lki_refuse(LK_ESHAPE, "%lld cells cannot become %lld", (long long)x->shape.dim[axis], (long long)count);
    if (interpolation < LK_BILINEAR) return nearest(x, axis, count);
    if (interpolation == LK_BILINEAR && !antialias) return bilinear(x, axis, count);
    return weighted(x, axis, count, interpolation, antialias);
}

/* ---- the middle of a picture ---- */

lk_tensor *lki_middle(lk_tensor *x, int64_t height, int64_t width)
{
    const int64_t *dim = x->shape.dim;
    return lk_slice(x, LK_AXES(0, (dim[1] - height) / 2, (dim[2] - width) / 2, 0), LK_AXES(-1, height, width, -1));
}

lk_tensor *lki_middle_resized(lk_tensor *x, int64_t height, int64_t width)
{
    const int64_t *dim = x->shape.dim;
    const int64_t  h = lki_max(1, lki_min(dim[1], (int64_t)((double)lki_size_mul(dim[2], height) / (double)width)));
    const int64_t  w = lki_max(1, lki_min(dim[2], (int64_t)((double)lki_size_mul(dim[1], width) / (double)height)));
    lk_tensor     *middle = lki_resize(lki_middle(x, h, w), 1, height, LK_BILINEAR, false);
    return lki_resize(middle, 2, width, LK_BILINEAR, false);
}
