/* MaxPooling2D: the largest of each window, channel by channel. */
#include "layer/window.h"

typedef struct pooling {
    lk_layer        layer;
    lk_pooling_args set;
} pooling;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_pooling_args *a = &((const pooling *)l)->set;
    lki_window             w;
    if (in->rank != 3) return lki_layer_refuse(l, in, "a row should be [height, width, channels]");
    if (!lki_pool_window("lk_max_pooling2d", &w, &a->pool_size, &a->strides)) return LK_EINVAL;
    return lki_layer_window(l, &w, in, a->padding, in->dim[2], out);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_pooling_args *a = &((const pooling *)l)->set;
    (void)pass;
    return lk_nn_max_pool2d(x, a->pool_size, a->strides, a->padding);
}

static void *make(const void *args) { return lk_max_pooling2d_kw(*(const lk_pooling_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_pooling_args),
    LKI_FIELD(AXES, lk_pooling_args, pool_size, .width = 2, .standard = 2),
    LKI_PADDING_FIELD(lk_pooling_args),
    LKI_FIELD(AXES, lk_pooling_args, strides, .width = 2), /* standard: pool_size; lki_layer_new() gets both */
    LKI_CHANNELS_LAST,
};

const lki_layer_kind lki_max_pooling2d_kind = {
    .name = "max_pooling2d", LKI_LAYER_OF(pooling, lk_pooling_args, "MaxPooling2D", FIELDS), .output = output, .call = call};

lk_layer *lk_max_pooling2d_kw(lk_pooling_args a)
{
    lki_window w;
    if (!lki_pool_window("lk_max_pooling2d", &w, &a.pool_size, &a.strides) ||
        !lki_padding_fits("lk_max_pooling2d", a.padding, false))
        return NULL;
    if (!a.pool_size.count) a.pool_size = LK_AXES(2);
    if (!a.strides.count) a.strides = a.pool_size;
    return lki_layer_new("lk_max_pooling2d", &lki_max_pooling2d_kind, &a);
}
