/* Layers that rearrange the cells of a row: Reshape, Permute. */
#include "layer/layer.h"

#define KIND(title, T, A, class_, fields)                                                                                          \
    const lki_layer_kind lki_##title##_kind = {                                                                                    \
        .name = #title,                                                                                                            \
        .class = {.name = class_, .module = "keras.layers", LKI_ARGS(A, fields), .make = make_##title},                            \
        .bytes = sizeof(T),                                                                                                        \
        .set = offsetof(T, set),                                                                                                   \
        .output = output_##title,                                                                                                  \
        .call = call_##title}

/* ---- Reshape ---- */

typedef struct reshape {
    lk_layer              layer;
    lk_reshape_layer_args set;
} reshape;

/* The product of the sizes except -1; *open is set to the last axis with -1. */
static int64_t known_size(const lk_shape *s, int *open)
{
    int64_t size = 1;
    *open = -1;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 0) *open = i;
        else size = lki_size_mul(size, s->dim[i]);
    return size;
}

static lk_status output_reshape(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_shape *target = &((const reshape *)l)->set.target_shape;
    char            text[LKI_SHAPE_TEXT];
    int             unknown, open;
    int64_t         have = known_size(in, &unknown), want = known_size(target, &open);
    *out = *target;
    if (unknown >= 0) return LK_OK; /* decided at the call */
    if (open < 0 ? have == want : want > 0 && have % want == 0) {
        if (open >= 0) out->dim[open] = have / want;
        return LK_OK;
    }
    return lki_layer_refuse(l, in, "%lld elements do not make %s", (long long)have, lki_shape_text(target, text));
}

static lk_tensor *call_reshape(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    lk_shape row = {0}, shape;
    (void)pass;
    if (lki_bad(x)) return x;
    row.rank = x->shape.rank - 1;
    for (int i = 0; i < row.rank; i++)
        row.dim[i] = x->shape.dim[i + 1];
    if (output_reshape(l, &row, &shape) != LK_OK) return &lki_poison;
    lk_shape whole = {.rank = shape.rank + 1, .dim = {x->shape.dim[0]}};
    for (int i = 0; i < shape.rank; i++)
        whole.dim[i + 1] = shape.dim[i];
    return lk_reshape(x, whole);
}

static void *make_reshape(const void *args) { return lk_reshape_layer_kw(*(const lk_reshape_layer_args *)args); }

static const lki_field RESHAPE_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_reshape_layer_args),
    LKI_FIELD(SHAPE, lk_reshape_layer_args, target_shape, .required = true),
};
KIND(reshape, reshape, lk_reshape_layer_args, "Reshape", RESHAPE_FIELDS);

lk_layer *lk_reshape_layer_kw(lk_reshape_layer_args a)
{
    char text[LKI_SHAPE_TEXT];
    int  open = 0, bad = a.target_shape.rank < 0 || a.target_shape.rank >= LK_MAX_RANK;
    for (int i = 0; !bad && i < a.target_shape.rank; i++) {
        open += a.target_shape.dim[i] == -1;
        bad = a.target_shape.dim[i] < -1;
    }
    if (bad || open > 1)
        return lki_fail(LK_ESHAPE, "lk_reshape_layer: target_shape %s: sizes must be 0 or more, at most %d of them; one may be -1",
                        lki_shape_text(&a.target_shape, text), LK_MAX_RANK - 1),
               NULL;
    return lki_layer_new("lk_reshape_layer", &lki_reshape_kind, &a);
}

/* ---- Permute ---- */

typedef struct permute {
    lk_layer        layer;
    lk_permute_args set;
} permute;

static lk_status output_permute(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lki_axes dims = lki_axes_of(((const permute *)l)->set.dims);
    if (in->rank != dims.count) return lki_layer_refuse(l, in, "dims names %d axes; a row should have as many", dims.count);
    out->rank = in->rank;
    for (int i = 0; i < in->rank; i++)
        out->dim[i] = in->dim[dims.value[i] - 1];
    return LK_OK;
}

static lk_tensor *call_permute(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lki_axes dims = lki_axes_of(((const permute *)l)->set.dims);
    lki_axes       all = {.count = dims.count + 1}; /* the batch stays the first axis */
    (void)pass;
    for (int i = 0; i < dims.count; i++)
        all.value[i + 1] = dims.value[i];
    return lk_transpose(x, lki_axes_list(&all));
}

static void *make_permute(const void *args) { return lk_permute_kw(*(const lk_permute_args *)args); }

static const lki_field PERMUTE_FIELDS[] = {LKI_LAYER_FIELDS(lk_permute_args),
                                           LKI_FIELD(AXES, lk_permute_args, dims, .required = true)};
KIND(permute, permute, lk_permute_args, "Permute", PERMUTE_FIELDS);

lk_layer *lk_permute_kw(lk_permute_args a)
{
    const lki_axes dims = lki_axes_of(a.dims);
    unsigned       seen = 0;
    for (int i = 0; i < dims.count; i++)
        if (dims.value[i] >= 1 && dims.value[i] <= dims.count) seen |= 1u << dims.value[i];
    if (dims.count < 1 || dims.count >= LK_MAX_RANK || seen != (2u << dims.count) - 2)
        return lki_fail(LK_EINVAL, "lk_permute: dims must name each of the axes 1, 2, ... of a row once, like LK_AXES(2, 1)"), NULL;
    return lki_layer_new("lk_permute", &lki_permute_kind, &a);
}
