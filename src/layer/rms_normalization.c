/* RMSNormalization: x / sqrt(mean(x * x) + epsilon) * scale, the mean over some axes of a row. The scale has their sizes and
 * broadcasts from the right, as in Keras. */
#include "layer/axes.h"
#include "op/gradient.h"

typedef struct rms_normalization {
    lk_layer                  layer;
    lk_rms_normalization_args set; /* axis is never empty */
} rms_normalization;

static lk_status axes_of(const lk_layer *l, const lk_shape *in, lki_axes *out)
{
    lki_axes given = lki_axes_of(((const rms_normalization *)l)->set.axis);
    lki_axes_sort(&given);
    return lki_row_axes(l, in, "axis", &given, out);
}

static lk_shape scale_shape(const lk_shape *in, const lki_axes *axes)
{
    lk_shape s = {.rank = axes->count};
    for (int i = 0; i < axes->count; i++)
        s.dim[i] = in->dim[axes->value[i] - 1];
    return s;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    lki_axes axes;
    char     text[LKI_SHAPE_TEXT];
    LKI_TRY(axes_of(l, in, &axes));
    const lk_shape scale = scale_shape(in, &axes);
    for (int i = 0; i < scale.rank; i++) {
        const int64_t size = in->dim[in->rank - scale.rank + i];
        if (scale.dim[i] < 0) return lki_layer_refuse(l, in, "the axes that are normalised need fixed sizes");
        if (scale.dim[i] != 1 && size >= 0 && size != scale.dim[i])
            return lki_layer_refuse(l, in, "its scale, %s, has the sizes of the axes and does not broadcast to the last ones",
                                    lki_shape_text(&scale, text));
    }
    if (l->count && !lki_shape_equal(&scale, &l->weight[0].variable->shape))
        return lki_layer_refuse(l, in, "the axes that are normalised should be %s, as when its scale was made",
                                lki_shape_text(&l->weight[0].variable->shape, text));
    *out = *in;
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    lki_axes axes;
    LKI_TRY(axes_of(l, in, &axes));
    return lki_layer_weight(l, (lki_weight){.name = "scale", .standard = lki_first_ones}, scale_shape(in, &axes));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const rms_normalization *n = (const rms_normalization *)l;
    lki_axes                 axes;
    (void)pass;
    if (lki_bad(x)) return x;
    const lk_shape row = lki_row_of(x);
    if (axes_of(l, &row, &axes) != LK_OK) return &lki_poison;
    lk_tensor *square = lk_reduce_mean(lk_square(x), .axis = lki_axes_list(&axes), .keepdims = LK_ON);
    lk_tensor *inverse = lk_rsqrt(lk_add(square, lki_like(x, lki_number_or(n->set.epsilon, 1e-6))));
    return lk_mul(lk_mul(x, inverse), lki_layer_read(l, 0));
}

static void *make(const void *args) { return lk_rms_normalization_kw(*(const lk_rms_normalization_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_rms_normalization_args),
    LKI_FIELD(AXES, lk_rms_normalization_args, axis, .alone = true), /* the constructor sets -1 */
    LKI_FIELD(NUMBER, lk_rms_normalization_args, epsilon, .standard = 1e-6),
};

const lki_layer_kind lki_rms_normalization_kind = {
    .name = "rms_normalization",
    LKI_LAYER_OF(rms_normalization, lk_rms_normalization_args, "RMSNormalization", FIELDS),
    .output = output,
    .build = build,
    .call = call};

lk_layer *lk_rms_normalization_kw(lk_rms_normalization_args a)
{
    const int axes = lki_axes_of(a.axis).count;
    if (axes < 0) return NULL; /* LK_AXES reported it */
    if (!axes) a.axis = -1;
    if (!(lki_number(a.epsilon) >= 0))
        return lki_fail(LK_EINVAL, "lk_rms_normalization: epsilon is %g; it must be at least 0", lki_number(a.epsilon)), NULL;
    return lki_layer_new("lk_rms_normalization", &lki_rms_normalization_kind, &a);
}
