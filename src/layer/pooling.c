/* MaxPooling and AveragePooling along 1 to 3 axes: the largest or the mean of each window, channel by channel. Means are of the
 * cells inside the row, whatever the padding. */
#include "layer/window.h"

typedef struct pooling {
    lk_layer        layer;
    lk_pooling_args set; /* pool_size and strides have a value per axis */
} pooling;

typedef struct pool {
    const lki_layer_kind *kind;
    const char           *call;
    int                   axes;
    lk_tensor *(*fn)(lk_pool_args args);
} pool;

#define POOL(title, axes, fn)                                                                                                      \
    {                                                                                                                              \
        &lki_##title##_kind, "lk_" #title, axes, lk_nn_##fn##_kw                                                                   \
    }
enum { MAX_1D, MAX_2D, MAX_3D, AVERAGE_1D, AVERAGE_2D, AVERAGE_3D };
static const pool POOLS[] = {
    [MAX_1D] = POOL(max_pooling1d, 1, max_pool1d),         [MAX_2D] = POOL(max_pooling2d, 2, max_pool2d),
    [MAX_3D] = POOL(max_pooling3d, 3, max_pool3d),         [AVERAGE_1D] = POOL(average_pooling1d, 1, avg_pool1d),
    [AVERAGE_2D] = POOL(average_pooling2d, 2, avg_pool2d), [AVERAGE_3D] = POOL(average_pooling3d, 3, avg_pool3d),
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
    const lk_pooling_args *a = &((const pooling *)l)->set;
    const pool            *p = pool_of(l);
    lki_slide              s;
    lk_shape               row;
    LKI_TRY(lki_row_along(l, p->axes, a->data_format, in, &row));
    if (!lki_pool_slide(p->call, &s, p->axes, a->pool_size, a->strides)) return LK_EINVAL;
    return lki_layer_window(l, &s, in, &row, a->padding, row.dim[p->axes], a->data_format, out);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_pooling_args *a = &((const pooling *)l)->set;
    (void)pass;
    return lki_channels_back(
        a->data_format,
        pool_of(l)->fn((lk_pool_args){
            .x = lki_channels_last(a->data_format, x), .size = a->pool_size, .strides = a->strides, .padding = a->padding}));
}

#define FIELDS(width_)                                                                                                             \
    {                                                                                                                              \
        LKI_LAYER_FIELDS(lk_pooling_args), LKI_FIELD(AXES, lk_pooling_args, pool_size, .width = width_, .standard = 2),            \
            LKI_PADDING_FIELD(lk_pooling_args),                                                                                    \
            LKI_FIELD(AXES, lk_pooling_args, strides, .width = width_), /* standard: pool_size; set by the constructor */          \
            LKI_DATA_FORMAT_FIELD(lk_pooling_args)                                                                                 \
    }
static const lki_field FIELDS_1D[] = FIELDS(1), FIELDS_2D[] = FIELDS(2), FIELDS_3D[] = FIELDS(3);

/* A value for each axis; a single one is used for all of them. */
static bool values_fit(const char *call_name, const char *name, int axes, lk_axes *option)
{
    lki_axes given = {.count = axes};
    if (!lki_per_axis(call_name, name, axes, *option, NULL, 1, given.value)) return false;
    *option = lki_axes_list(&given);
    return true;
}

static lk_layer *pooling_new(const pool *p, lk_pooling_args a)
{
    if (!lki_axes_of(a.pool_size).count) a.pool_size = 2;
    if (!lki_axes_of(a.strides).count) a.strides = a.pool_size;
    if (!values_fit(p->call, "pool_size", p->axes, &a.pool_size) || !values_fit(p->call, "strides", p->axes, &a.strides) ||
        !lki_padding_fits(p->call, a.padding, false) || !lki_data_format_fits(p->call, a.data_format))
        return NULL;
    return lki_layer_new(p->call, p->kind, &a);
}

#define KIND(title, which, class_, fields)                                                                                         \
    static void         *make_##title(const void *args) { return lk_##title##_kw(*(const lk_pooling_args *)args); }                \
    const lki_layer_kind lki_##title##_kind = {                                                                                    \
        .name = #title,                                                                                                            \
        .class = {.name = class_, .module = "keras.layers", LKI_ARGS(lk_pooling_args, fields), .make = make_##title},              \
        .bytes = sizeof(pooling),                                                                                                  \
        .set = offsetof(pooling, set),                                                                                             \
        .output = output,                                                                                                          \
        .call = call};                                                                                                             \
    lk_layer *lk_##title##_kw(lk_pooling_args a) { return pooling_new(&POOLS[which], a); }
KIND(max_pooling1d, MAX_1D, "MaxPooling1D", FIELDS_1D)
KIND(max_pooling2d, MAX_2D, "MaxPooling2D", FIELDS_2D)
KIND(max_pooling3d, MAX_3D, "MaxPooling3D", FIELDS_3D)
KIND(average_pooling1d, AVERAGE_1D, "AveragePooling1D", FIELDS_1D)
KIND(average_pooling2d, AVERAGE_2D, "AveragePooling2D", FIELDS_2D)
KIND(average_pooling3d, AVERAGE_3D, "AveragePooling3D", FIELDS_3D)
