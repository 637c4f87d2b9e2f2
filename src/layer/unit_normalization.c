/* UnitNormalization: x / sqrt(sum(x * x)), the sum over some axes of a row; zeros stay. */
#include "layer/axes.h"
#include "op/gradient.h"

typedef struct unit_normalization {
    lk_layer                   layer;
    lk_unit_normalization_args set; /* axis is never empty */
} unit_normalization;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lki_axes given = lki_axes_of(((const unit_normalization *)l)->set.axis);
    lki_axes       axes;
    *out = *in;
    return lki_row_axes(l, in, "axis", &given, &axes);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_axes axis = ((const unit_normalization *)l)->set.axis;
    (void)pass;
    if (lki_bad(x)) return x;
    lk_tensor *inverse = lk_rsqrt(lk_reduce_sum(lk_square(x), .axis = axis, .keepdims = LK_ON));
    return lk_mul(x, lk_minimum(inverse, lki_like(x, 1e12)));
}

static void *make(const void *args) { return lk_unit_normalization_kw(*(const lk_unit_normalization_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_unit_normalization_args),
    LKI_FIELD(AXES, lk_unit_normalization_args, axis, .alone = true), /* the constructor sets -1 */
};

const lki_layer_kind lki_unit_normalization_kind = {
    .name = "unit_normalization",
    LKI_LAYER_OF(unit_normalization, lk_unit_normalization_args, "UnitNormalization", FIELDS),
    .output = output,
    .mask = lki_mask_passes,
    .call = call};

lk_layer *lk_unit_normalization_kw(lk_unit_normalization_args a)
{
    const int axes = lki_axes_of(a.axis).count;
    if (axes < 0) return NULL; /* LK_AXES reported it */
    if (!axes) a.axis = -1;
    return lki_layer_new("lk_unit_normalization", &lki_unit_normalization_kind, &a);
}
