/* GlobalMaxPooling and GlobalAveragePooling along 1 to 3 axes: the largest or the mean of all steps or cells, channel by channel.
 * The mean of steps leaves out those that the mask leaves out. */
#include "layer/channels.h"
#include "op/gradient.h"

typedef struct global_pooling {
    lk_layer               layer;
    lk_global_pooling_args set;
} global_pooling;

typedef struct pool {
    const lki_layer_kind *kind;
    int                   axes;
    lk_tensor *(*reduce)(lk_reduce_args args);
} pool;

static const pool POOLS[] = {
    {&lki_global_max_pooling1d_kind, 1, lk_reduce_max_kw},      {&lki_global_max_pooling2d_kind, 2, lk_reduce_max_kw},
    {&lki_global_max_pooling3d_kind, 3, lk_reduce_max_kw},      {&lki_global_average_pooling1d_kind, 1, lk_reduce_mean_kw},
    {&lki_global_average_pooling2d_kind, 2, lk_reduce_mean_kw}, {&lki_global_average_pooling3d_kind, 3, lk_reduce_mean_kw},
};

static const pool *pool_of(const lk_layer *l)
{
    const pool *p = POOLS;
    while (p->kind != l->kind)
        p++;
    return p;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_global_pooling_args *a = &((const global_pooling *)l)->set;
    const int                     axes = pool_of(l)->axes;
    lk_shape                      row;
    LKI_TRY(lki_row_along(l, axes, a->data_format, in, &row));
    for (int i = 0; i < axes; i++) {
        if (row.dim[i] == 0) return lki_layer_refuse(l, in, "there is nothing to pool");
        row.dim[i] = 1;
    }
    *out = a->keepdims == LK_ON ? lki_row_back(a->data_format, &row) : (lk_shape){.rank = 1, .dim = {row.dim[axes]}};
    return LK_OK;
}

static const char *const ARGUMENTS[] = {"inputs", "mask", NULL}; /* of the mean of steps */

/* A row without any step that counts gives NaN, as in Keras. */
static lk_tensor *masked_mean(lk_tensor *x, lk_tensor *mask, lk_switch keepdims)
{
    lk_tensor *counts = lk_expand_dims(mask, 2), *kept = lk_where(counts, x, lki_like(x, 0));
    return lk_div(lk_reduce_sum(kept, .axis = LK_AXES(1), .keepdims = keepdims),
                  lk_reduce_sum(lk_cast(counts, x->dtype), .axis = LK_AXES(1), .keepdims = keepdims));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_global_pooling_args *a = &((const global_pooling *)l)->set;
    const pool                   *p = pool_of(l);
    lk_tensor                    *mask = lki_bad(x) || !p->kind->arguments ? NULL : lki_mask_given(pass, 1);
    x = lki_channels_last(a->data_format, x);
    if (lki_bad(x)) return x;
    const lk_axes all[] = {0, LK_AXES(1), LK_AXES(1, 2), LK_AXES(1, 2, 3)};
    lk_tensor    *y = mask ? masked_mean(x, mask, a->keepdims)
                           : p->reduce((lk_reduce_args){.x = x, .axis = all[p->axes], .keepdims = a->keepdims});
    return a->keepdims == LK_ON ? lki_channels_back(a->data_format, y) : y;
}

static const lki_field FIELDS[] = {LKI_LAYER_FIELDS(lk_global_pooling_args), LKI_DATA_FORMAT_FIELD(lk_global_pooling_args),
                                   LKI_FIELD(SWITCH, lk_global_pooling_args, keepdims)};

static lk_layer *global_new(const char *call_name, const lki_layer_kind *kind, lk_global_pooling_args a)
{
    return lki_data_format_fits(call_name, a.data_format) ? lki_layer_new(call_name, kind, &a) : NULL;
}

#define KIND(title, class_, ...)                                                                                                   \
    static void         *make_##title(const void *args) { return lk_##title##_kw(*(const lk_global_pooling_args *)args); }         \
    const lki_layer_kind lki_##title##_kind = {                                                                                    \
        .name = #title,                                                                                                            \
        .class = {.name = class_, .module = "keras.layers", LKI_ARGS(lk_global_pooling_args, FIELDS), .make = make_##title},       \
        .bytes = sizeof(global_pooling),                                                                                           \
        .set = offsetof(global_pooling, set),                                                                                      \
        .output = output,                                                                                                          \
        .call = call,                                                                                                              \
        __VA_ARGS__};                                                                                                              \
    lk_layer *lk_##title##_kw(lk_global_pooling_args a) { return global_new("lk_" #title, &lki_##title##_kind, a); }
KIND(global_max_pooling1d, "GlobalMaxPooling1D", .draws = false)
KIND(global_max_pooling2d, "GlobalMaxPooling2D", .draws = false)
KIND(global_max_pooling3d, "GlobalMaxPooling3D", .draws = false)
KIND(global_average_pooling1d, "GlobalAveragePooling1D", .fewest = 1, .most = 2, .arguments = ARGUMENTS)
KIND(global_average_pooling2d, "GlobalAveragePooling2D", .draws = false)
KIND(global_average_pooling3d, "GlobalAveragePooling3D", .draws = false)
