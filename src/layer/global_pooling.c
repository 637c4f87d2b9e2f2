/* GlobalMaxPooling and GlobalAveragePooling, 1D and 2D: the largest or the mean of all steps or cells, channel by channel. */
#include "layer/layer.h"

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
    {&lki_global_max_pooling1d_kind, 1, lk_reduce_max_kw},
    {&lki_global_max_pooling2d_kind, 2, lk_reduce_max_kw},
    {&lki_global_average_pooling1d_kind, 1, lk_reduce_mean_kw},
    {&lki_global_average_pooling2d_kind, 2, lk_reduce_mean_kw},
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
    const int axes = pool_of(l)->axes;
    if (in->rank != axes + 1)
        return lki_layer_refuse(l, in, "a row should be %s", axes == 1 ? "[steps, channels]" : "[height, width, channels]");
    for (int i = 0; i < axes; i++)
        if (in->dim[i] == 0) return lki_layer_refuse(l, in, "there is nothing to pool");
    *out = (lk_shape){.rank = 1, .dim = {in->dim[axes]}};
    if (((const global_pooling *)l)->set.keepdims != LK_ON) return LK_OK;
    *out = (lk_shape){.rank = in->rank, .dim = {1, 1, 1}};
    out->dim[axes] = in->dim[axes];
    return LK_OK;
}

/* The mean of the steps that count. Of none it is 0 / 0, as in Keras. */
static lk_tensor *mean_of_counted(lk_tensor *x, lk_tensor *mask, lk_switch keepdims)
{
    lk_tensor *counts = lk_cast(lki_mask_spread(mask, x->shape.rank), x->dtype);
    lk_tensor *sum = lk_reduce_sum(lk_mul(x, counts), .axis = LK_AXES(1), .keepdims = keepdims);
    return lk_div(sum, lk_reduce_sum(counts, .axis = LK_AXES(1), .keepdims = keepdims));
}

static const char *const ARGUMENTS[] = {"inputs", "mask", NULL}; /* of the mean of steps */

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const pool *p = pool_of(l);
    lk_tensor  *mask = p->kind->arguments ? lki_mask_given(pass, 1) : NULL;
    if (mask && !lki_bad(x)) return mean_of_counted(x, mask, ((const global_pooling *)l)->set.keepdims);
    return p->reduce((lk_reduce_args){
        .x = x, .axis = p->axes == 1 ? LK_AXES(1) : LK_AXES(1, 2), .keepdims = ((const global_pooling *)l)->set.keepdims});
}

static const lki_field FIELDS[] = {LKI_LAYER_FIELDS(lk_global_pooling_args), LKI_CHANNELS_LAST,
                                   LKI_FIELD(SWITCH, lk_global_pooling_args, keepdims)};

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
    lk_layer *lk_##title##_kw(lk_global_pooling_args a) { return lki_layer_new("lk_" #title, &lki_##title##_kind, &a); }
KIND(global_max_pooling1d, "GlobalMaxPooling1D", .draws = false)
KIND(global_max_pooling2d, "GlobalMaxPooling2D", .draws = false)
KIND(global_average_pooling1d, "GlobalAveragePooling1D", .fewest = 1, .most = 2, .arguments = ARGUMENTS)
KIND(global_average_pooling2d, "GlobalAveragePooling2D", .draws = false)
