/* LayerNormalization: each row gets mean 0 and variance 1 over its last axes, then gamma and beta of their shape. */
#include "layer/layer.h"

typedef struct layer_normalization {
    lk_layer                    layer;
    lk_layer_normalization_args set;         /* axis is never empty */
    int                         gamma, beta; /* indices of weights; -1: none */
} layer_normalization;

/* How many of a row's last axes are normalised. -1 and an error if `axis` names others. */
static int normalized_axes(const lk_layer *l, const lk_shape *in)
{
    const lki_axes axis = lki_axes_of(((const layer_normalization *)l)->set.axis);
    unsigned       seen = 0;
    for (int i = 0; i < axis.count; i++) {
        int at = lki_axis_normal(axis.value[i], in->rank + 1);
        if (at < 1) {
            lki_layer_refuse(l, in, "axis %lld; it should be 1 to %d, or count from the end; 0 is the batch",
                             (long long)axis.value[i], in->rank);
            return -1;
        }
        seen |= 1u << at;
    }
    int count = 0;
    while (seen >> (in->rank - count) & 1)
        count++;
    if (seen >> (in->rank - count + 1) << (in->rank - count + 1) == seen) return count;
    lki_layer_refuse(l, in, "the axes should be neighbours, up to the last");
    return -1;
}

static lk_shape normalized_shape(const lk_shape *in, int axes)
{
    lk_shape s = {.rank = axes};
    for (int i = 0; i < axes; i++)
        s.dim[i] = in->dim[in->rank - axes + i];
    return s;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const layer_normalization *n = (const layer_normalization *)l;
    char                       text[LKI_SHAPE_TEXT];
    if (in->rank < 1) return lki_layer_refuse(l, in, "a row needs at least one axis");
    int axes = normalized_axes(l, in);
    if (axes < 0) return LK_ESHAPE;
    lk_shape   shape = normalized_shape(in, axes);
    const bool weights = n->set.center != LK_OFF || n->set.scale != LK_OFF;
    for (int i = 0; weights && i < axes; i++)
        if (shape.dim[i] < 0) return lki_layer_refuse(l, in, "the axes that are normalised need fixed sizes");
    if (l->count && !lki_shape_equal(&shape, &l->weight[0].variable->shape))
        return lki_layer_refuse(l, in, "the last axes should be %s, as when its weights were made",
                                lki_shape_text(&l->weight[0].variable->shape, text));
    *out = *in;
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    layer_normalization               *n = (layer_normalization *)l;
    const lk_layer_normalization_args *a = &n->set;
    lk_shape                           shape = normalized_shape(in, normalized_axes(l, in));
    n->gamma = n->beta = -1;
    if (a->scale != LK_OFF) {
        n->gamma = l->count;
        LKI_TRY(lki_layer_weight(l, LKI_WEIGHT(a, gamma, lki_first_ones), shape));
    }
    if (a->center == LK_OFF) return LK_OK;
    n->beta = l->count;
    return lki_layer_weight(l, LKI_WEIGHT(a, beta, lki_first_zeros), shape);
}

/* A weight as one axis, or NULL. */
static lk_tensor *flat(const lk_layer *l, int i) { return i < 0 ? NULL : lk_reshape(lki_layer_read(l, i), LK_SHAPE(-1)); }

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const layer_normalization *n = (const layer_normalization *)l;
    (void)pass;
    if (lki_bad(x)) return x;
    const lk_shape whole = x->shape;
    lk_shape       row = {.rank = whole.rank - 1}, wide = whole;
    for (int i = 0; i < row.rank; i++)
        row.dim[i] = whole.dim[i + 1];
    int axes = normalized_axes(l, &row);
    if (axes < 0) return &lki_poison;
    wide.rank = whole.rank - axes + 1; /* the last axes combined into one */
    wide.dim[wide.rank - 1] = lki_shape_size_from(&whole, whole.rank - axes);
    lk_tensor *y =
        lk_nn_layer_norm(axes == 1 ? x : lk_reshape(x, wide), flat(l, n->gamma), flat(l, n->beta), .epsilon = n->set.epsilon);
    return axes == 1 ? y : lk_reshape(y, whole);
}

static void *make(const void *args) { return lk_layer_normalization_kw(*(const lk_layer_normalization_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_layer_normalization_args),
    LKI_FIELD(AXES, lk_layer_normalization_args, axis, .standard = -1), /* the constructor sets -1 */
    LKI_GAMMA_AND_BETA_FIELDS(lk_layer_normalization_args),
    LKI_FIXED("rms_scaling", "false"),
};

const lki_layer_kind lki_layer_normalization_kind = {
    .name = "layer_normalization",
    LKI_LAYER_OF(layer_normalization, lk_layer_normalization_args, "LayerNormalization", FIELDS),
    .output = output,
    .build = build,
    .mask = lki_mask_passes, .call = call};

lk_layer *lk_layer_normalization_kw(lk_layer_normalization_args a)
{
    const int axes = lki_axes_of(a.axis).count;
    if (axes < 0) return NULL; /* LK_AXES reported it */
    if (!axes) a.axis = -1;
    if (!(lki_number(a.epsilon) >= 0))
        return lki_fail(LK_EINVAL, "lk_layer_normalization: epsilon is %g; it must be at least 0", lki_number(a.epsilon)), NULL;
    return lki_layer_new("lk_layer_normalization", &lki_layer_normalization_kind, &a);
}
