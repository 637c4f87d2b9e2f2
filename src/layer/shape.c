/* Layers that rearrange the cells of a row: Reshape, Permute, ZeroPadding2D, Cropping2D, UpSampling2D. */
#include "core/memory.h"
#include "layer/layer.h"
#include <math.h>

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

/* ---- ZeroPadding2D, Cropping2D ---- */

typedef struct border {
    lk_layer       layer;
    lk_border_args set; /* border is top, bottom, left, right */
} border;

static lki_axes sides_of(const lk_layer *l) { return lki_axes_of(((const border *)l)->set.border); }

/* Sizes grow by `sign` times the border; -1 stays. */
static lk_status output_border(const lk_layer *l, const lk_shape *in, lk_shape *out, int sign)
{
    const lki_axes sides = sides_of(l);
    const int64_t *side = sides.value;
    if (in->rank != 3) return lki_layer_refuse(l, in, "a row should be [height, width, channels]");
    *out = *in;
    for (int i = 0; i < 2; i++) {
        if (in->dim[i] < 0) continue;
        out->dim[i] = lki_size_add(in->dim[i], sign * lki_size_add(side[2 * i], side[2 * i + 1]));
        if (out->dim[i] < 1)
            return lki_layer_refuse(l, in, "nothing is left of a %s of %lld without %lld and %lld", i ? "width" : "height",
                                    (long long)in->dim[i], (long long)side[2 * i], (long long)side[2 * i + 1]);
    }
    return LK_OK;
}

static lk_status output_zero_padding2d(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    return output_border(l, in, out, 1);
}

static lk_status output_cropping2d(const lk_layer *l, const lk_shape *in, lk_shape *out) { return output_border(l, in, out, -1); }

static lk_tensor *call_zero_padding2d(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lki_axes sides = sides_of(l);
    const int64_t *side = sides.value;
    (void)pass;
    return lk_pad(x, .before = LK_AXES(0, side[0], side[2], 0), .after = LK_AXES(0, side[1], side[3], 0));
}

static lk_tensor *call_cropping2d(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lki_axes sides = sides_of(l);
    const int64_t *side = sides.value;
    (void)pass;
    if (lki_bad(x)) return x;
    const int64_t *n = x->shape.dim;
    return lk_slice(x, LK_AXES(0, side[0], side[2], 0), LK_AXES(n[0], n[1] - side[0] - side[1], n[2] - side[2] - side[3], n[3]));
}

static void *make_zero_padding2d(const void *args) { return lk_zero_padding2d_kw(*(const lk_border_args *)args); }
static void *make_cropping2d(const void *args) { return lk_cropping2d_kw(*(const lk_border_args *)args); }

static const lki_field PADDING_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_border_args), LKI_FIELD_AS("padding", PAIRS, lk_border_args, border, .standard = 1), LKI_CHANNELS_LAST};
static const lki_field CROPPING_FIELDS[] = {LKI_LAYER_FIELDS(lk_border_args),
                                            LKI_FIELD_AS("cropping", PAIRS, lk_border_args, border), LKI_CHANNELS_LAST};
KIND(zero_padding2d, border, lk_border_args, "ZeroPadding2D", PADDING_FIELDS);
KIND(cropping2d, border, lk_border_args, "Cropping2D", CROPPING_FIELDS);

/* One value for all sides, one each for height and width, or four. */
static lk_layer *border_new(const char *call, const lki_layer_kind *kind, lk_border_args a, int64_t standard)
{
    const lki_axes given = lki_axes_of(a.border);
    const int64_t *v = given.value;
    const int      count = given.count;
    bool           good = count == 0 || count == 1 || count == 2 || count == 4;
    for (int i = 0; good && i < count; i++)
        good = v[i] >= 0 && v[i] <= INT32_MAX;
    if (!good)
        return lki_fail(LK_EINVAL, "%s: the border must be one, two or four values of 0 or more, at most %d", call, INT32_MAX),
               NULL;
    a.border = count == 0   ? LK_AXES(standard, standard, standard, standard)
               : count == 1 ? LK_AXES(v[0], v[0], v[0], v[0])
               : count == 2 ? LK_AXES(v[0], v[0], v[1], v[1])
                            : a.border;
    return lki_layer_new(call, kind, &a);
}

lk_layer *lk_zero_padding2d_kw(lk_border_args a) { return border_new("lk_zero_padding2d", &lki_zero_padding2d_kind, a, 1); }
lk_layer *lk_cropping2d_kw(lk_border_args a) { return border_new("lk_cropping2d", &lki_cropping2d_kind, a, 0); }

/* ---- UpSampling2D ---- */

typedef struct up_sampling2d {
    lk_layer              layer;
    lk_up_sampling2d_args set; /* size is height and width */
} up_sampling2d;

static lk_status output_up_sampling2d(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lki_axes size = lki_axes_of(((const up_sampling2d *)l)->set.size);
    if (in->rank != 3) return lki_layer_refuse(l, in, "a row should be [height, width, channels]");
    *out = *in;
    for (int i = 0; i < 2; i++)
        out->dim[i] = lki_size_mul_known(in->dim[i], size.value[i]);
    return LK_OK;
}

static lk_tensor *repeated(lk_tensor *x, const int64_t *size)
{
    const int64_t *n = x->shape.dim;
    lk_tensor     *apart = lk_reshape(x, LK_SHAPE(n[0], n[1], 1, n[2], 1, n[3]));
    lk_tensor     *wide = lk_broadcast_to(apart, LK_SHAPE(n[0], n[1], size[0], n[2], size[1], n[3]));
    return lk_reshape(wide, LK_SHAPE(n[0], lki_size_mul(n[1], size[0]), lki_size_mul(n[2], size[1]), n[3]));
}

/* Along one axis: the two cells that each new one is between, and its distance from the first. Centres are at halves, as in
 * TensorFlow. */
static void between(int64_t cells, int64_t count, int64_t *first, int64_t *second, float *share)
{
    const float scale = (float)cells / (float)count;
    for (int64_t i = 0; i < count; i++) {
        const float at = ((float)i + 0.5f) * scale - 0.5f, low = floorf(at);
        first[i] = lki_max((int64_t)low, 0);
        second[i] = lki_min((int64_t)ceilf(at), cells - 1);
        share[i] = at - low;
    }
}

/* first + (second - first) * share */
static lk_tensor *interpolated(lk_tensor *x, int axis, int64_t times)
{
    const int64_t count = lki_size_mul(x->shape.dim[axis], times);
    int64_t      *ids LKI_RELEASED = lki_alloc_array(lki_max(1, count), 2 * sizeof *ids);
    float        *share LKI_RELEASED = ids ? lki_alloc_array(lki_max(1, count), sizeof *share) : NULL;
    lk_tensor    *y = &lki_poison;
    if (share) {
        between(x->shape.dim[axis], count, ids, ids + count, share);
        lk_tensor *first = lk_gather(x, lk_tensor_from(LK_SHAPE(count), LK_I64, ids), axis);
        lk_tensor *second = lk_gather(x, lk_tensor_from(LK_SHAPE(count), LK_I64, ids + count), axis);
        lk_tensor *part = lk_tensor_from(axis == 1 ? LK_SHAPE(count, 1, 1) : LK_SHAPE(count, 1), LK_F32, share);
        y = lk_add(first, lk_mul(lk_sub(second, first), part));
    }
    return y;
}

static lk_tensor *call_up_sampling2d(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_up_sampling2d_args *a = &((const up_sampling2d *)l)->set;
    const lki_axes               size = lki_axes_of(a->size);
    (void)pass;
    if (lki_bad(x)) return x;
    if (a->interpolation != LK_BILINEAR) return repeated(x, size.value);
    lk_tensor *wide = interpolated(x, 2, size.value[1]);
    return lki_bad(wide) ? wide : interpolated(wide, 1, size.value[0]);
}

static void *make_up_sampling2d(const void *args) { return lk_up_sampling2d_kw(*(const lk_up_sampling2d_args *)args); }

static const char *const INTERPOLATIONS[] = {[LK_NEAREST] = "nearest", [LK_BILINEAR] = "bilinear"};
static const lki_field   UP_SAMPLING_FIELDS[] = {
      LKI_LAYER_FIELDS(lk_up_sampling2d_args),
      LKI_FIELD(AXES, lk_up_sampling2d_args, size, .width = 2, .standard = 2),
      LKI_CHANNELS_LAST,
      LKI_FIELD(WORD, lk_up_sampling2d_args, interpolation, .words = INTERPOLATIONS, .word_count = LKI_COUNT(INTERPOLATIONS),
                .standard = LK_NEAREST),
};
KIND(up_sampling2d, up_sampling2d, lk_up_sampling2d_args, "UpSampling2D", UP_SAMPLING_FIELDS);

lk_layer *lk_up_sampling2d_kw(lk_up_sampling2d_args a)
{
    const lki_axes size = lki_axes_of(a.size);
    bool           good = size.count >= 0 && size.count <= 2;
    for (int i = 0; good && i < size.count; i++)
        good = size.value[i] >= 1 && size.value[i] <= 65536;
    if (!good) return lki_fail(LK_EINVAL, "lk_up_sampling2d: the size must be one or two values from 1 to 65536"), NULL;
    if ((unsigned)a.interpolation > LK_BILINEAR)
        return lki_fail(LK_EINVAL, "lk_up_sampling2d: there is no interpolation %d", (int)a.interpolation), NULL;
    const int64_t first = size.count ? size.value[0] : 2;
    if (size.count < 2) a.size = LK_AXES(first, first);
    return lki_layer_new("lk_up_sampling2d", &lki_up_sampling2d_kind, &a);
}
