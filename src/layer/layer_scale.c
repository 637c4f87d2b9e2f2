/* Layers that keras.applications define for themselves: LayerScale (ConvNeXt), x * gamma; and CustomScaleLayer (InceptionResNetV2),
 * a + b * scale. */
#include "layer/layer.h"
#include "op/gradient.h"
#include <math.h>

/* ---- LayerScale ---- */

typedef struct layer_scale {
    lk_layer            layer;
    lk_layer_scale_args set;
} layer_scale;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const int64_t width = ((const layer_scale *)l)->set.projection_dim, last = in->rank ? in->dim[in->rank - 1] : -1;
    *out = *in;
    if (in->rank && (width == 1 || last == width)) return LK_OK;
    return lki_layer_refuse(l, in, "the last axis should be %lld, its projection_dim", (long long)width);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_layer_scale_args *a = &((const layer_scale *)l)->set;
    lk_initializer            *first = lk_init_constant(a->init_values);
    (void)in;
    if (!first) return LK_ENOMEM;
    lk_status status = lki_layer_weight(l, (lki_weight){.name = "gamma", .initializer = first}, LK_SHAPE(a->projection_dim));
    if (status == LK_OK) l->weight[0].initializer = NULL;
    lk_free(first);
    return status;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return lk_mul(x, lki_layer_read(l, 0));
}

static void *make(const void *args) { return lk_layer_scale_kw(*(const lk_layer_scale_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_layer_scale_args),
    LKI_FIELD(REAL, lk_layer_scale_args, init_values, .required = true),
    LKI_FIELD(INT, lk_layer_scale_args, projection_dim, .required = true),
};

const lki_layer_kind lki_layer_scale_kind = {
    .name = "layer_scale",
    .class = {"LayerScale", "keras.src.applications.convnext", LKI_ARGS(lk_layer_scale_args, FIELDS), make},
    .bytes = sizeof(layer_scale),
    .set = offsetof(layer_scale, set),
    .output = output,
    .build = build,
    .call = call};

lk_layer *lk_layer_scale_kw(lk_layer_scale_args a)
{
    if (a.projection_dim < 1)
        return lki_fail(LK_EINVAL, "lk_layer_scale: projection_dim is %lld; it must be at least 1", (long long)a.projection_dim),
               NULL;
    if (!isfinite(a.init_values))
        return lki_fail(LK_EINVAL, "lk_layer_scale: init_values is %g; it must be a number", a.init_values), NULL;
    return lki_layer_new("lk_layer_scale", &lki_layer_scale_kind, &a);
}

/* ---- CustomScaleLayer ---- */

typedef struct custom_scale {
    lk_layer             layer;
    lk_custom_scale_args set;
} custom_scale;

static lk_tensor *call_custom(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    return lk_add(x, lk_mul(pass->in.item[1], lki_like(x, ((const custom_scale *)l)->set.scale)));
}

static void *make_custom(const void *args) { return lk_custom_scale_kw(*(const lk_custom_scale_args *)args); }

static const lki_field CUSTOM_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_custom_scale_args),
    LKI_FIELD(REAL, lk_custom_scale_args, scale, .required = true),
};

const lki_layer_kind lki_custom_scale_kind = {.name = "custom_scale_layer",
                                              .class = {"CustomScaleLayer", "keras.src.applications.inception_resnet_v2",
                                                        LKI_ARGS(lk_custom_scale_args, CUSTOM_FIELDS), make_custom},
                                              .bytes = sizeof(custom_scale),
                                              .set = offsetof(custom_scale, set),
                                              .fewest = 2,
                                              .most = 2,
                                              .output = lki_layer_infer,
                                              .call = call_custom};

lk_layer *lk_custom_scale_kw(lk_custom_scale_args a)
{
    if (!isfinite(a.scale)) return lki_fail(LK_EINVAL, "lk_custom_scale: the scale is %g; it must be a number", a.scale), NULL;
    return lki_layer_new("lk_custom_scale", &lki_custom_scale_kind, &a);
}
