/* BatchNormalization: each channel gets mean 0 and variance 1, over the batch while training, by moving statistics otherwise.
 *
 * Synchronised, the statistics are those of the whole batch and the moving ones are mirrored: every replica assigns the same value.
 * Otherwise each replica has separate ones; read outside of replicas they are their mean. A replica without rows does not change
 * its own. */
#include "layer/axes.h"
#include <math.h>

typedef struct batch_normalization {
    lk_layer                    layer;
    lk_batch_normalization_args set;
    int                         gamma, beta, mean, variance; /* indices of weights; -1: none */
} batch_normalization;

static const char *const ARGUMENTS[] = {"inputs", "mask", NULL};

static int axis_of(const lk_layer *l, const lk_shape *in)
{
    return lki_row_axis(l, in, "axis", lki_axis_or(((const batch_normalization *)l)->set.axis, -1));
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank < 1) return lki_layer_refuse(l, in, "a row needs at least one axis, its channels");
    const int axis = axis_of(l, in);
    if (axis < 0) return LK_ESHAPE;
    const int64_t channels = in->dim[axis - 1];
    if (channels < 0) return lki_layer_refuse(l, in, "the channels need a fixed number");
    if (l->count && channels != l->weight[0].variable->shape.dim[0])
        return lki_layer_refuse(l, in, "there should be %lld channels, as when its statistics were made",
                                (long long)l->weight[0].variable->shape.dim[0]);
    *out = *in;
    return LK_OK;
}

static lk_status add(batch_normalization *b, int *index, lki_weight w, int64_t channels)
{
    *index = b->layer.count;
    return lki_layer_weight(&b->layer, w, LK_SHAPE(channels));
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    batch_normalization               *b = (batch_normalization *)l;
    const lk_batch_normalization_args *a = &b->set;
    const bool                         together = a->synchronized != LK_OFF;
    lki_weight                         moving = {.trainable = LK_OFF,
                                                 .synchronization = together ? LK_SYNC_ON_WRITE : LK_SYNC_ON_READ,
                                                 .aggregation = together ? LK_AGGREGATION_ONLY_FIRST_REPLICA : LK_AGGREGATION_MEAN};
    lki_weight                         mean = moving, variance = moving;
    mean.name = "moving_mean", mean.initializer = a->moving_mean_initializer, mean.standard = lki_first_zeros;
    variance.name = "moving_variance", variance.initializer = a->moving_variance_initializer, variance.standard = lki_first_ones;
    const int     axis = axis_of(l, in);
    const int64_t n = axis < 0 ? 0 : in->dim[axis - 1];
    if (axis < 0) return LK_ESHAPE;
    b->gamma = b->beta = -1;
    if (a->scale != LK_OFF) LKI_TRY(add(b, &b->gamma, LKI_WEIGHT(a, gamma, lki_first_ones), n));
    if (a->center != LK_OFF) LKI_TRY(add(b, &b->beta, LKI_WEIGHT(a, beta, lki_first_zeros), n));
    LKI_TRY(add(b, &b->mean, mean, n));
    return add(b, &b->variance, variance, n);
}

/* If no row was seen, the function returns the same tensor as it was given. */
static lk_status move(const lk_layer *l, int i, const lk_tensor *before, lk_tensor *after)
{
    return after == before ? LK_OK : lk_assign(l->weight[i].variable, after);
}

/* With its channels last. A layer that is not trainable works as in inference. */
static lk_tensor *normalized(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const batch_normalization *b = (const batch_normalization *)l;
    const bool                 training = pass->training && l->trainable;
    lk_tensor                 *mean = lki_layer_read(l, b->mean), *variance = lki_layer_read(l, b->variance);
    lk_tuple                   out =
        lk_nn_batch_norm(x, b->gamma < 0 ? NULL : lki_layer_read(l, b->gamma), b->beta < 0 ? NULL : lki_layer_read(l, b->beta),
                         .epsilon = b->set.epsilon, .moving_mean = mean, .moving_variance = variance, .momentum = b->set.momentum,
                         .mask = training ? lki_mask_given(pass, 1) : NULL, .training = training ? LK_ON : LK_OFF,
                         .synchronized = b->set.synchronized == LK_OFF ? LK_OFF : LK_ON);
    if (!training || lki_bad(out.item[0])) return out.item[0];
    if (move(l, b->mean, mean, out.item[1]) != LK_OK || move(l, b->variance, variance, out.item[2]) != LK_OK) return &lki_poison;
    return out.item[0];
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    if (lki_bad(x)) return x;
    const lk_shape row = lki_row_of(x);
    const int      axis = axis_of(l, &row), last = x->shape.rank - 1;
    if (axis < 0) return &lki_poison;
    if (axis == last) return normalized(l, x, pass);
    if (pass->training && lki_mask_given(pass, 1))
        return lki_refuse(LK_EUNSUPPORTED, "layer \"%s\": with a mask the channels must be the last axis, not %d",
                          lki_layer_title(l), axis);
    return lki_axis_move(normalized(l, lki_axis_move(x, axis, last), pass), last, axis);
}

static void *make(const void *args) { return lk_batch_normalization_kw(*(const lk_batch_normalization_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_batch_normalization_args),
    LKI_FIELD(AXIS, lk_batch_normalization_args, axis, .standard = -1),
    LKI_FIELD(NUMBER, lk_batch_normalization_args, momentum, .standard = 0.99),
    LKI_GAMMA_AND_BETA_FIELDS(lk_batch_normalization_args),
    LKI_INITIALIZER_FIELD(lk_batch_normalization_args, moving_mean_initializer, "Zeros"),
    LKI_INITIALIZER_FIELD(lk_batch_normalization_args, moving_variance_initializer, "Ones"),
    LKI_FIELD(SWITCH, lk_batch_normalization_args, synchronized,
              .none = true), /* false in a file means the default, which is on here */
    LKI_FIXED("renorm", "false"),
    LKI_FIXED("renorm_clipping", "null"),
    LKI_FIXED("renorm_momentum", "0.99"),
};

const lki_layer_kind lki_batch_normalization_kind = {
    .name = "batch_normalization",
    LKI_LAYER_OF(batch_normalization, lk_batch_normalization_args, "BatchNormalization", FIELDS),
    .fewest = 1,
    .most = 2,
    .mixes_rows = true,
    .arguments = ARGUMENTS,
    .output = output,
    .build = build,
    .mask = lki_mask_passes,
    .call = call};

static bool within(const char *name, double x, double most)
{
    if (x >= 0 && x <= most) return true;
    if (isinf(most)) lki_fail(LK_EINVAL, "lk_batch_normalization: %s is %g; it must be at least 0", name, x);
    else lki_fail(LK_EINVAL, "lk_batch_normalization: %s is %g; it must be from 0 to %g", name, x, most);
    return false;
}

lk_layer *lk_batch_normalization_kw(lk_batch_normalization_args a)
{
    if (!within("momentum", lki_number(a.momentum), 1) || !within("epsilon", lki_number(a.epsilon), INFINITY)) return NULL;
    return lki_layer_new("lk_batch_normalization", &lki_batch_normalization_kind, &a);
}
