/* GroupNormalization: the channels of a row in groups; each group gets mean 0 and variance 1 over its cells and channels; then
 * gamma and beta per channel. */
#include "layer/axes.h"

typedef struct group_normalization {
    lk_layer                    layer;
    lk_group_normalization_args set;         /* groups is -1 or above 0 */
    int                         gamma, beta; /* indices of weights; -1: none */
} group_normalization;

static int axis_of(const lk_layer *l, const lk_shape *in)
{
    return lki_row_axis(l, in, "axis", lki_axis_or(((const group_normalization *)l)->set.axis, -1));
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const int64_t groups = ((const group_normalization *)l)->set.groups;
    if (in->rank < 1) return lki_layer_refuse(l, in, "a row needs at least one axis, its channels");
    const int axis = axis_of(l, in);
    if (axis < 0) return LK_ESHAPE;
    const int64_t channels = in->dim[axis - 1];
    if (channels < 0) return lki_layer_refuse(l, in, "the channels need a fixed number");
    if (channels < 1 || channels > INT32_MAX || (groups > 0 && channels % groups))
        return lki_layer_refuse(l, in, "%lld channels do not divide into %lld groups", (long long)channels, (long long)groups);
    if (l->count && channels != l->weight[0].variable->shape.dim[0])
        return lki_layer_refuse(l, in, "there should be %lld channels, as when its weights were made",
                                (long long)l->weight[0].variable->shape.dim[0]);
    *out = *in;
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    group_normalization               *n = (group_normalization *)l;
    const lk_group_normalization_args *a = &n->set;
    const int                          axis = axis_of(l, in);
    if (axis < 0) return LK_ESHAPE;
    const lk_shape channels = LK_SHAPE(in->dim[axis - 1]);
    n->gamma = n->beta = -1;
    if (a->scale != LK_OFF) {
        n->gamma = l->count;
        LKI_TRY(lki_layer_weight(l, LKI_WEIGHT(a, gamma, lki_first_ones), channels));
    }
    if (a->center == LK_OFF) return LK_OK;
    n->beta = l->count;
    return lki_layer_weight(l, LKI_WEIGHT(a, beta, lki_first_zeros), channels);
}

/* With its channels last. */
static lk_tensor *normalized(const group_normalization *n, lk_tensor *x)
{
    const lk_layer *l = &n->layer;
    if (lki_bad(x)) return x;
    return lk_nn_group_norm(x, n->gamma < 0 ? NULL : lki_layer_read(l, n->gamma), n->beta < 0 ? NULL : lki_layer_read(l, n->beta),
                            .groups = (int)(n->set.groups < 0 ? x->shape.dim[x->shape.rank - 1] : n->set.groups),
                            .epsilon = n->set.epsilon);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    if (lki_bad(x)) return x;
    const lk_shape row = lki_row_of(x);
    const int      axis = axis_of(l, &row), last = x->shape.rank - 1;
    if (axis < 0) return &lki_poison;
    return lki_axis_move(normalized((const group_normalization *)l, lki_axis_move(x, axis, last)), last, axis);
}

static void *make(const void *args) { return lk_group_normalization_kw(*(const lk_group_normalization_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_group_normalization_args),
    LKI_FIELD(INTEGER, lk_group_normalization_args, groups, .standard = 32),
    LKI_FIELD(AXIS, lk_group_normalization_args, axis, .standard = -1),
    LKI_GAMMA_AND_BETA_FIELDS(lk_group_normalization_args),
};

const lki_layer_kind lki_group_normalization_kind = {
    .name = "group_normalization",
    LKI_LAYER_OF(group_normalization, lk_group_normalization_args, "GroupNormalization", FIELDS),
    .output = output,
    .build = build,
    .mask = lki_mask_passes,
    .call = call};

lk_layer *lk_group_normalization_kw(lk_group_normalization_args a)
{
    a.groups = lki_integer_or(a.groups, 32);
    if (a.groups < -1 || a.groups == 0 || a.groups > INT32_MAX)
        return lki_fail(LK_EINVAL, "lk_group_normalization: groups is %lld; it must be at least 1, or -1 for one per channel",
                        (long long)a.groups),
               NULL;
    if (!(lki_number(a.epsilon) >= 0))
        return lki_fail(LK_EINVAL, "lk_group_normalization: epsilon is %g; it must be at least 0", lki_number(a.epsilon)), NULL;
    return lki_layer_new("lk_group_normalization", &lki_group_normalization_kind, &a);
}
