/* Flatten: every row as one axis. */
#include "model/layer.h"

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    (void)l;
    *out = LK_SHAPE(lki_shape_size(in));
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)l, (void)pass;
    return lk_flatten_rows(x);
}

static const lki_layer_kind FLATTEN = {.name = "flatten", .output = output, .call = call};

lk_layer *lk_flatten_kw(lk_flatten_args a)
{
    return lki_layer_new("lk_flatten", sizeof(lk_layer), &FLATTEN,
                         (lki_layer_common){.name = a.name, .input_shape = a.input_shape});
}
