/* Dense: activation(x . kernel + bias) along the last axis. */
#include "layer/layer.h"

enum { KERNEL, BIAS };

typedef struct dense {
    lk_layer      layer;
    lk_dense_args set;
} dense;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank < 1) return lki_layer_refuse(l, in, "a row needs at least one axis");
    int64_t width = in->dim[in->rank - 1];
    if (width < 0) return lki_layer_refuse(l, in, "the last axis needs a fixed size");
    if (l->count && width != l->weight[KERNEL].variable->shape.dim[0])
        return lki_layer_refuse(l, in, "the last axis should be %lld, as when its kernel was made",
                                (long long)l->weight[KERNEL].variable->shape.dim[0]);
    *out = *in;
    out->dim[out->rank - 1] = ((const dense *)l)->set.units;
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_dense_args *a = &((const dense *)l)->set;
    LKI_TRY(lki_layer_weight(l, LKI_WEIGHT(a, kernel, lki_first_glorot_uniform), LK_SHAPE(in->dim[in->rank - 1], a->units)));
    if (a->use_bias == LK_OFF) return LK_OK;
    return lki_layer_weight(l, LKI_WEIGHT(a, bias, lki_first_zeros), LK_SHAPE(a->units));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return lk_nn_dense(x, lki_layer_read(l, KERNEL), l->count > BIAS ? lki_layer_read(l, BIAS) : NULL,
                       ((const dense *)l)->set.activation);
}

static void *make(const void *args) { return lk_dense_kw(*(const lk_dense_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_dense_args),
    LKI_FIELD(INT, lk_dense_args, units, .required = true),
    LKI_ACTIVATION_FIELD(lk_dense_args, activation, LK_LINEAR),
    LKI_KERNEL_AND_BIAS_FIELDS(lk_dense_args),
    LKI_FIXED("quantization_config", "null"),
};

const lki_layer_kind lki_dense_kind = {.name = "dense",
                                       LKI_LAYER_OF(dense, lk_dense_args, "Dense", FIELDS),
                                       .mask = lki_mask_passes,
                                       .output = output,
                                       .build = build,
                                       .call = call};

lk_layer *lk_dense_kw(lk_dense_args a)
{
    if (a.units < 1) return lki_fail(LK_EINVAL, "lk_dense: units is %lld; it must be at least 1", (long long)a.units), NULL;
    if (!lki_activation_fits("lk_dense", a.activation)) return NULL;
    return lki_layer_new("lk_dense", &lki_dense_kind, &a);
}
