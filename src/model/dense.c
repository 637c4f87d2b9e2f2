/* Dense: activation(x . kernel + bias) along the last axis. */
#include "model/layer.h"

enum { KERNEL, BIAS };

typedef struct dense {
    lk_layer      layer;
    int64_t       units;
    lk_activation activation;
    bool          biased;
} dense;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank < 1) return lki_layer_refuse(l, in, "a row needs at least one axis");
    int64_t width = in->dim[in->rank - 1];
    if (l->count && width != l->weight[KERNEL].variable->shape.dim[0])
        return lki_layer_refuse(l, in, "the last axis should be %lld, what its kernel was made for",
                                (long long)l->weight[KERNEL].variable->shape.dim[0]);
    *out = *in;
    out->dim[out->rank - 1] = ((const dense *)l)->units;
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const dense *d = (const dense *)l;
    LKI_TRY(lki_layer_weight(l, (lki_weight){.name = "kernel", .initializer = lk_glorot_uniform},
                             LK_SHAPE(in->dim[in->rank - 1], d->units)));
    return d->biased ? lki_layer_weight(l, (lki_weight){.name = "bias", .initializer = lki_initial_zeros}, LK_SHAPE(d->units))
                     : LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const dense *d = (const dense *)l;
    (void)pass;
    return lk_nn_dense(x, lki_layer_read(l, KERNEL), d->biased ? lki_layer_read(l, BIAS) : NULL, d->activation);
}

static const lki_layer_kind DENSE = {.name = "dense", .output = output, .build = build, .call = call};

lk_layer *lk_dense_kw(lk_dense_args a)
{
    if (a.units < 1) return lki_fail(LK_EINVAL, "lk_dense: units is %lld; it must be at least 1", (long long)a.units), NULL;
    if (!lki_activation_fits("lk_dense", a.activation)) return NULL;
    lki_layer_common common = {a.name, a.input_shape, a.activity_regularizer, a.kernel_regularizer, a.bias_regularizer};
    dense           *d = lki_layer_new("lk_dense", sizeof *d, &DENSE, common);
    if (!d) return NULL;
    d->units = a.units;
    d->activation = a.activation;
    d->biased = a.use_bias != LK_OFF;
    return &d->layer;
}
