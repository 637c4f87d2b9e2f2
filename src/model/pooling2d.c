/* MaxPooling2D: the largest of each window, channel by channel. */
#include "model/layer.h"
#include "op/product.h"

typedef struct pooling2d {
    lk_layer   layer;
    lk_axes    size, strides;
    lk_padding padding;
} pooling2d;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const pooling2d *p = (const pooling2d *)l;
    lki_window       w;
    if (in->rank != 3) return lki_layer_refuse(l, in, "a row should be [height, width, channels]");
    if (!lki_pool_window("lk_max_pooling2d", &w, &p->size, &p->strides)) return LK_EINVAL;
    lk_shape image = LK_SHAPE(1, in->dim[0], in->dim[1], in->dim[2]), y = lki_window_output(&w, &image, p->padding, in->dim[2]);
    if (y.dim[1] < 1 || y.dim[2] < 1)
        return lki_layer_refuse(l, in, "a window of %lld x %lld does not fit; use LK_SAME or a smaller one", (long long)w.size[0],
                                (long long)w.size[1]);
    *out = LK_SHAPE(y.dim[1], y.dim[2], y.dim[3]);
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const pooling2d *p = (const pooling2d *)l;
    (void)pass;
    return lk_nn_max_pool2d(x, p->size, p->strides, p->padding);
}

static const lki_layer_kind MAX_POOLING2D = {.name = "max_pooling2d", .output = output, .call = call};

lk_layer *lk_max_pooling2d_kw(lk_pooling2d_args a)
{
    lki_window w;
    if (!lki_pool_window("lk_max_pooling2d", &w, &a.pool_size, &a.strides) ||
        !lki_padding_fits("lk_max_pooling2d", a.padding, false))
        return NULL;
    pooling2d *p = lki_layer_new("lk_max_pooling2d", sizeof *p, &MAX_POOLING2D,
                                 (lki_layer_common){.name = a.name, .input_shape = a.input_shape});
    if (!p) return NULL;
    p->size = a.pool_size;
    p->strides = a.strides;
    p->padding = a.padding;
    return &p->layer;
}
