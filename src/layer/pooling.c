/* MaxPooling and AveragePooling, 1D and 2D: the largest or the mean of each window, channel by channel. Means are of the cells
 * inside the row, whatever the padding. */
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

enum { MAX_1D, MAX_2D, AVERAGE_1D, AVERAGE_2D };
static const pool POOLS[] = {
    [MAX_1D] = {&lki_max_pooling1d_kind, "lk_max_pooling1d", 1, lk_nn_max_pool1d_kw},
    [MAX_2D] = {&lki_max_pooling2d_kind, "lk_max_pooling2d", 2, lk_nn_max_pool2d_kw},
    [AVERAGE_1D] = {&lki_average_pooling1d_kind, "lk_average_pooling1d", 1, lk_nn_avg_pool1d_kw},
    [AVERAGE_2D] = {&lki_average_pooling2d_kind, "lk_average_pooling2d", 2, lk_nn_avg_pool2d_kw},
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
    lki_window             w;
    if (in->rank != p->axes + 1)
        return lki_layer_refuse(l, in, "a row should be %s", p->axes == 1 ? "[steps, channels]" : "[height, width, channels]");
    if (!lki_window_along(p->call, p->axes, &w, a->pool_size, a->strides, (lk_axes){0})) return LK_EINVAL;
    return lki_layer_window(l, &w, in, a->padding, in->dim[p->axes], out);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_pooling_args *a = &((const pooling *)l)->set;
    (void)pass;
    return pool_of(l)->fn((lk_pool_args){.x = x, .size = a->pool_size, .strides = a->strides, .padding = a->padding});
}

#define FIELDS(width_)                                                                                                             \
    {                                                                                                                              \
        LKI_LAYER_FIELDS(lk_pooling_args), LKI_FIELD(AXES, lk_pooling_args, pool_size, .width = width_, .standard = 2),            \
            LKI_PADDING_FIELD(lk_pooling_args),                                                                                    \
            LKI_FIELD(AXES, lk_pooling_args, strides, .width = width_), /* standard: pool_size; set by the constructor */          \
            LKI_CHANNELS_LAST                                                                                                      \
    }
static const lki_field FIELDS_1D[] = FIELDS(1), FIELDS_2D[] = FIELDS(2);

/* `axes` values; a single one is used for all of them. */
static bool values_fit(const char *call_name, const char *name, int axes, lk_axes *option)
{
    lki_axes given = lki_axes_of(*option);
    if (given.count == 1 && axes == 2) given = (lki_axes){2, {given.value[0], given.value[0]}};
    bool good = given.count == axes;
    for (int i = 0; good && i < axes; i++)
        good = given.value[i] >= 1 && given.value[i] <= INT32_MAX;
    *option = lki_axes_list(&given);
    if (good) return true;
    return lki_fail(LK_EINVAL, "%s: %s must be %s of 1 or more, at most %d", call_name, name,
                    axes == 1 ? "one value" : "one or two values", INT32_MAX),
           false;
}

static lk_layer *pooling_new(const pool *p, lk_pooling_args a)
{
    if (!a.pool_size) a.pool_size = 2;
    if (!a.strides) a.strides = a.pool_size;
    if (!values_fit(p->call, "pool_size", p->axes, &a.pool_size) || !values_fit(p->call, "strides", p->axes, &a.strides) ||
        !lki_padding_fits(p->call, a.padding, false))
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
KIND(average_pooling1d, AVERAGE_1D, "AveragePooling1D", FIELDS_1D)
KIND(average_pooling2d, AVERAGE_2D, "AveragePooling2D", FIELDS_2D)
