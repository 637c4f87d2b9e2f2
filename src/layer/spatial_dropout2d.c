/* SpatialDropout2D: while training, a fraction of the channels of each row is 0 and the others are scaled up. Which ones: see
 * dropout.c. */
#include "layer/layer.h"
#include "op/gradient.h"

typedef struct spatial_dropout2d {
    lk_layer              layer;
    lk_dropout_layer_args set;
} spatial_dropout2d;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank != 3) return lki_layer_refuse(l, in, "a row should be [height, width, channels]");
    *out = *in;
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_dropout_layer_args *a = &((const spatial_dropout2d *)l)->set;
    if (!pass->training || a->rate <= 0 || lki_bad(x)) return x;
    lk_tensor *draw = lk_random_uniform(LK_SHAPE(1, 1, x->shape.dim[3]), .stream = lki_layer_stream(l),
                                        .iteration = pass->iteration, .rows_of = x);
    lk_tensor *kept = lk_greater_equal(draw, lki_like(draw, a->rate));
    return lk_where(kept, lk_mul(x, lki_like(x, 1 / (1 - a->rate))), lki_like(x, 0));
}

static void *make(const void *args) { return lk_spatial_dropout2d_kw(*(const lk_dropout_layer_args *)args); }

/* Keras' class is the only one without `trainable`. */
static const lki_field FIELDS[] = {
    LKI_FIELD(NAME, lk_dropout_layer_args, name),
    LKI_FIELD_AS("", SHAPE, lk_dropout_layer_args, input_shape),
    LKI_FIELD_AS("", SWITCH, lk_dropout_layer_args, trainable, .standard = 1),
    LKI_FIELD(REAL, lk_dropout_layer_args, rate, .required = true),
    LKI_FIELD(NUMBER, lk_dropout_layer_args, seed, .none = true),
    LKI_CHANNELS_LAST,
};

const lki_layer_kind lki_spatial_dropout2d_kind = {
    .name = "spatial_dropout2d",
    LKI_LAYER_OF(spatial_dropout2d, lk_dropout_layer_args, "SpatialDropout2D", FIELDS),
    .draws = true,
    .output = output,
    .mask = lki_mask_passes, .call = call};

lk_layer *lk_spatial_dropout2d_kw(lk_dropout_layer_args a)
{
    if (!(a.rate >= 0 && a.rate < 1))
        return lki_fail(LK_EINVAL, "lk_spatial_dropout2d: the rate is %g; it must be at least 0 and below 1", a.rate), NULL;
    return lki_layer_new("lk_spatial_dropout2d", &lki_spatial_dropout2d_kind, &a);
}
