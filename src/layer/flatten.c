/* Flatten: a row as one axis, its channels last. */
#include "layer/channels.h"

typedef struct flatten {
    lk_layer        layer;
    lk_flatten_args set;
} flatten;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    (void)l;
    int64_t size = 1;
    for (int i = 0; i < in->rank; i++)
        size = lki_size_mul_known(size, in->dim[i]);
    *out = (lk_shape){.rank = 1, .dim = {size}};
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return lk_flatten_rows(lki_channels_last(((const flatten *)l)->set.data_format, x));
}

static void *make(const void *args) { return lk_flatten_kw(*(const lk_flatten_args *)args); }

static const lki_field FIELDS[] = {LKI_LAYER_FIELDS(lk_flatten_args), LKI_DATA_FORMAT_FIELD(lk_flatten_args)};

const lki_layer_kind lki_flatten_kind = {
    .name = "flatten", LKI_LAYER_OF(flatten, lk_flatten_args, "Flatten", FIELDS), .output = output, .call = call};

lk_layer *lk_flatten_kw(lk_flatten_args a)
{
    return lki_data_format_fits("lk_flatten", a.data_format) ? lki_layer_new("lk_flatten", &lki_flatten_kind, &a) : NULL;
}
