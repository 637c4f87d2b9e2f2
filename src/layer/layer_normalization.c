/* LayerNormalization: each row gets mean 0 and variance 1 over some of its axes, then gamma and beta of their shape. With
 * rms_scaling it is only divided by its deviation, and has no beta.
 *
 * Weights have the sizes of the axes in the order of their numbers as given, so -1 comes before 1, as in Keras. */
#include "layer/axes.h"
#include "op/gradient.h"

typedef struct layer_normalization {
    lk_layer                    layer;
    lk_layer_normalization_args set;         /* axis is never empty */
    int                         gamma, beta; /* indices of weights; -1: none */
} layer_normalization;

static bool has_gamma(const layer_normalization *n) { return n->set.scale != LK_OFF || n->set.rms_scaling == LK_ON; }
static bool has_beta(const layer_normalization *n) { return n->set.center != LK_OFF && n->set.rms_scaling != LK_ON; }

/* The axes of a batch in the order of the weights' axes. */
static lk_status normalized_axes(const lk_layer *l, const lk_shape *in, lki_axes *out)
{
    lki_axes given = lki_axes_of(((const layer_normalization *)l)->set.axis);
    lki_axes_sort(&given);
    return lki_row_axes(l, in, "axis", &given, out);
}

static lk_shape normalized_shape(const lk_shape *in, const lki_axes *axes)
{
    lk_shape s = {.rank = axes->count};
    for (int i = 0; i < axes->count; i++)
        s.dim[i] = in->dim[axes->value[i] - 1];
    return s;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const layer_normalization *n = (const layer_normalization *)l;
    char                       text[LKI_SHAPE_TEXT];
    lki_axes                   axes;
    if (in->rank < 1) return lki_layer_refuse(l, in, "a row needs at least one axis");
    LKI_TRY(normalized_axes(l, in, &axes));
    lk_shape shape = normalized_shape(in, &axes);
    for (int i = 0; (has_gamma(n) || has_beta(n)) && i < shape.rank; i++)
        if (shape.dim[i] < 0) return lki_layer_refuse(l, in, "the axes that are normalised need fixed sizes");
    if (l->count && !lki_shape_equal(&shape, &l->weight[0].variable->shape))
        return lki_layer_refuse(l, in, "the axes that are normalised should be %s, as when its weights were made",
                                lki_shape_text(&l->weight[0].variable->shape, text));
    *out = *in;
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    layer_normalization               *n = (layer_normalization *)l;
    const lk_layer_normalization_args *a = &n->set;
    lki_axes                           axes;
    LKI_TRY(normalized_axes(l, in, &axes));
    const lk_shape shape = normalized_shape(in, &axes);
    n->gamma = n->beta = -1;
    if (has_gamma(n)) {
        n->gamma = l->count;
        LKI_TRY(lki_layer_weight(l, LKI_WEIGHT(a, gamma, lki_first_ones), shape));
    }
    if (!has_beta(n)) return LK_OK;
    n->beta = l->count;
    return lki_layer_weight(l, LKI_WEIGHT(a, beta, lki_first_zeros), shape);
}

/* A weight in this shape, or NULL. */
static lk_tensor *as(const lk_layer *l, int i, lk_shape shape) { return i < 0 ? NULL : lk_reshape(lki_layer_read(l, i), shape); }

/* Over neighbouring axes up to the last, which are combined into one. */
static lk_tensor *over_last(const layer_normalization *n, lk_tensor *x, int axes)
{
    const lk_layer *l = &n->layer;
    const lk_shape  whole = x->shape;
    lk_shape        wide = whole;
    wide.rank = whole.rank - axes + 1;
    wide.dim[wide.rank - 1] = lki_shape_size_from(&whole, whole.rank - axes);
    lk_tensor *y = lk_nn_layer_norm(axes == 1 ? x : lk_reshape(x, wide), as(l, n->gamma, LK_SHAPE(-1)),
                                    as(l, n->beta, LK_SHAPE(-1)), .epsilon = n->set.epsilon);
    return axes == 1 ? y : lk_reshape(y, whole);
}

static lk_tensor *over_any(const layer_normalization *n, lk_tensor *x, const lki_axes *axes)
{
    const lk_shape each = lki_axes_broadcast(&x->shape, axes);
    const lk_axes  list = lki_axes_list(axes);
    lk_tensor     *centered = lk_sub(x, lk_reduce_mean(x, .axis = list, .keepdims = LK_ON));
    lk_tensor     *variance = lk_reduce_mean(lk_square(centered), .axis = list, .keepdims = LK_ON);
    lk_tensor     *scale = lk_rsqrt(lk_add(variance, lki_like(x, lki_number_or(n->set.epsilon, 0.001))));
    lk_tensor     *y = lk_mul(n->set.rms_scaling == LK_ON ? x : centered, scale);
    if (n->gamma >= 0) y = lk_mul(y, as(&n->layer, n->gamma, each));
    return n->beta < 0 ? y : lk_add(y, as(&n->layer, n->beta, each));
}

static bool are_last(const lki_axes *axes, int rank)
{
    for (int i = 0; i < axes->count; i++)
        if (axes->value[i] != rank - axes->count + i) return false;
    return true;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const layer_normalization *n = (const layer_normalization *)l;
    lki_axes                   axes;
    (void)pass;
    if (lki_bad(x)) return x;
    const lk_shape row = lki_row_of(x);
    if (normalized_axes(l, &row, &axes) != LK_OK) return &lki_poison;
    return n->set.rms_scaling != LK_ON && are_last(&axes, x->shape.rank) ? over_last(n, x, axes.count) : over_any(n, x, &axes);
}

static void *make(const void *args) { return lk_layer_normalization_kw(*(const lk_layer_normalization_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_layer_normalization_args),
    LKI_FIELD(AXES, lk_layer_normalization_args, axis, .standard = -1), /* the constructor sets -1 */
    LKI_GAMMA_AND_BETA_FIELDS(lk_layer_normalization_args),
    LKI_FIELD(SWITCH, lk_layer_normalization_args, rms_scaling),
};

const lki_layer_kind lki_layer_normalization_kind = {
    .name = "layer_normalization",
    LKI_LAYER_OF(layer_normalization, lk_layer_normalization_args, "LayerNormalization", FIELDS),
    .output = output,
    .build = build,
    .mask = lki_mask_passes,
    .call = call};

lk_layer *lk_layer_normalization_kw(lk_layer_normalization_args a)
{
    const int axes = lki_axes_of(a.axis).count;
    if (axes < 0) return NULL; /* LK_AXES reported it */
    if (!axes) a.axis = -1;
    if (!(lki_number(a.epsilon) >= 0))
        return lki_fail(LK_EINVAL, "lk_layer_normalization: epsilon is %g; it must be at least 0", lki_number(a.epsilon)), NULL;
    return lki_layer_new("lk_layer_normalization", &lki_layer_normalization_kind, &a);
}
