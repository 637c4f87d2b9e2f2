/* Rescaling: x * scale + offset, with numbers, or with lists that broadcast to the last axes of a row. */
#include "layer/layer.h"
#include "op/gradient.h"
#include <math.h>

/* Numbers and lists alike as tensors, as in a file. */
typedef struct arguments {
    lk_rescaling_args ask;
    lk_tensor        *scale, *offset;
} arguments;

typedef struct rescaling {
    lk_layer   layer;
    arguments  set;
    lk_tensor *scale, *offset; /* references: the same as f32 */
} rescaling;

static void destroy(lk_layer *l)
{
    lki_drop(((rescaling *)l)->scale);
    lki_drop(((rescaling *)l)->offset);
}

/* Numbers that broadcast to a row of this shape. */
static bool fits(const lk_tensor *t, const lk_shape *row)
{
    bool good = t->shape.rank <= row->rank;
    for (int i = 1; i <= t->shape.rank && good; i++) {
        const int64_t size = t->shape.dim[t->shape.rank - i], axis = row->dim[row->rank - i];
        good = size == 1 || axis < 0 || axis == size;
    }
    return good;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const arguments *a = &((const rescaling *)l)->set;
    char             text[2][LKI_SHAPE_TEXT];
    *out = *in;
    if (fits(a->scale, in) && fits(a->offset, in)) return LK_OK;
    return lki_layer_refuse(l, in, "scale %s and offset %s should broadcast to a row", lki_shape_text(&a->scale->shape, text[0]),
                            lki_shape_text(&a->offset->shape, text[1]));
}

static double number(const lk_tensor *t) { return *(const double *)t->data; }

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const rescaling *r = (const rescaling *)l;
    const lk_tensor *scale = r->set.scale, *offset = r->set.offset;
    (void)pass;
    if (lki_bad(x)) return x;
    lk_tensor *y = lk_mul(x, scale->shape.rank ? r->scale : lki_like(x, number(scale)));
    if (offset->shape.rank) return lk_add(y, r->offset);
    return number(offset) != 0 ? lk_add(y, lki_like(x, number(offset))) : y;
}

static void *rescaling_new(const lk_rescaling_args *ask, lk_tensor *scale, lk_tensor *offset);

static void *make(const void *args)
{
    const arguments *a = args;
    return rescaling_new(&a->ask, a->scale, a->offset);
}

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_rescaling_args), /* the arguments begin with these */
    LKI_FIELD(ARRAY, arguments, scale, .required = true, .dtype = LK_F64),
    LKI_FIELD(ARRAY, arguments, offset, .dtype = LK_F64),
};

const lki_layer_kind lki_rescaling_kind = {.name = "rescaling",
                                           .class = {"Rescaling", "keras.layers", LKI_ARGS(arguments, FIELDS), make},
                                           .bytes = sizeof(rescaling),
                                           .set = offsetof(rescaling, set),
                                           .output = output,
                                           .mask = lki_mask_passes,
                                           .call = call,
                                           .destroy = destroy};

/* ---- making one ---- */

/* As f64; NULL and an error if they are not finite numbers. */
static lk_tensor *numbers_of(const char *name, lk_tensor *given)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_is_kind(given, LKI_KIND_TENSOR)) return lki_fail(LK_EINVAL, "lk_rescaling: %s is not a tensor", name), NULL;
    lk_tensor *t = lk_cast(given, LK_F64);
    if (lki_bad(t) || !lk_data(t)) return NULL;
    if (t->shape.rank >= LK_MAX_RANK)
        return lki_fail(LK_ESHAPE, "lk_rescaling: %s is %s, which has more axes than a row", name, lki_shape_text(&t->shape, text)),
               NULL;
    for (int64_t i = 0; i < lki_shape_size(&t->shape); i++)
        if (!isfinite(((const double *)t->data)[i]))
            return lki_fail(LK_EINVAL, "lk_rescaling: %s has %g; it must be a number", name, ((const double *)t->data)[i]), NULL;
    return t;
}

static void *rescaling_new(const lk_rescaling_args *ask, lk_tensor *scale, lk_tensor *offset)
{
    lk_tensor *zero = offset ? NULL : lk_fill((lk_shape){0}, LK_F64, 0);
    arguments  all = {*ask, numbers_of("scale", scale), numbers_of("offset", offset ? offset : zero)};
    if (!all.scale || !all.offset) return NULL;
    lk_tensor *as_scale = lk_cast(all.scale, LK_F32), *as_offset = lk_cast(all.offset, LK_F32);
    rescaling *r = lki_bad(as_scale) || lki_bad(as_offset) ? NULL : lki_layer_new("lk_rescaling", &lki_rescaling_kind, &all);
    if (!r) return NULL;
    r->scale = lki_retain(as_scale);
    r->offset = lki_retain(as_offset);
    return &r->layer;
}

lk_layer *lk_rescaling_kw(lk_rescaling_args a)
{
    if (!a.scales && (a.scale == 0 || !isfinite(a.scale)))
        return lki_fail(LK_EINVAL, "lk_rescaling: the scale is %g; it must be given, a number other than 0", a.scale), NULL;
    if (a.scales && a.scale != 0) return lki_fail(LK_EINVAL, "lk_rescaling: both scale and scales are given"), NULL;
    if (a.offsets && a.offset != 0) return lki_fail(LK_EINVAL, "lk_rescaling: both offset and offsets are given"), NULL;
    if (!isfinite(a.offset)) return lki_fail(LK_EINVAL, "lk_rescaling: the offset is %g; it must be a number", a.offset), NULL;
    return rescaling_new(&a, a.scales ? a.scales : lk_fill((lk_shape){0}, LK_F64, a.scale),
                         a.offsets ? a.offsets : lk_fill((lk_shape){0}, LK_F64, a.offset));
}
