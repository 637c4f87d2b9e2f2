/* BatchNormalization: each channel with mean 0 and variance 1 over the batch while training, by moving statistics otherwise.
 *
 * Synchronised, the statistics are those of the whole batch and the moving ones mirrored: every replica assigns the same value.
 * Otherwise each replica has its own of both; read outside of replicas they are their mean. A replica without rows leaves its own as
 * they are. */
#include "model/layer.h"
#include <math.h>

typedef struct batch_normalization {
    lk_layer  layer;
    lk_number momentum, epsilon;
    bool      center, scale, synchronized;
    int       gamma, beta, mean, variance; /* weights; -1: not there */
} batch_normalization;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank < 1) return lki_layer_refuse(l, in, "a row needs at least one axis, its channels");
    int64_t channels = in->dim[in->rank - 1];
    if (l->count && channels != l->weight[0].variable->shape.dim[0])
        return lki_layer_refuse(l, in, "there should be %lld channels, what its statistics were made for",
                                (long long)l->weight[0].variable->shape.dim[0]);
    *out = *in;
    return LK_OK;
}

static lk_status add(batch_normalization *b, int *index, lki_weight w, const lk_shape *in)
{
    *index = b->layer.count;
    return lki_layer_weight(&b->layer, w, LK_SHAPE(in->dim[in->rank - 1]));
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    batch_normalization *b = (batch_normalization *)l;
    lki_weight           moving = {.trainable = LK_OFF,
                                   .synchronization = b->synchronized ? LK_SYNC_ON_WRITE : LK_SYNC_ON_READ,
                                   .aggregation = b->synchronized ? LK_AGGREGATION_ONLY_FIRST_REPLICA : LK_AGGREGATION_MEAN};
    b->gamma = b->beta = -1;
    if (b->scale) LKI_TRY(add(b, &b->gamma, (lki_weight){.name = "gamma", .initializer = lki_initial_ones}, in));
    if (b->center) LKI_TRY(add(b, &b->beta, (lki_weight){.name = "beta", .initializer = lki_initial_zeros}, in));
    moving.name = "moving_mean";
    moving.initializer = lki_initial_zeros;
    LKI_TRY(add(b, &b->mean, moving, in));
    moving.name = "moving_variance";
    moving.initializer = lki_initial_ones;
    return add(b, &b->variance, moving, in);
}

/* What comes out of the function is the very tensor that went in where no row was seen. */
static lk_status move(const lk_layer *l, int i, const lk_tensor *before, lk_tensor *after)
{
    return after == before ? LK_OK : lk_assign(l->weight[i].variable, after);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const batch_normalization *b = (const batch_normalization *)l;
    lk_tensor                 *mean = lki_layer_read(l, b->mean), *variance = lki_layer_read(l, b->variance);
    lk_tuple                   out =
        lk_nn_batch_norm(x, b->gamma < 0 ? NULL : lki_layer_read(l, b->gamma), b->beta < 0 ? NULL : lki_layer_read(l, b->beta),
                         .epsilon = b->epsilon, .moving_mean = mean, .moving_variance = variance, .momentum = b->momentum,
                         .training = pass->training ? LK_ON : LK_OFF, .synchronized = b->synchronized ? LK_ON : LK_OFF);
    if (!pass->training || lki_bad(out.item[0])) return out.item[0];
    if (move(l, b->mean, mean, out.item[1]) != LK_OK || move(l, b->variance, variance, out.item[2]) != LK_OK) return &lki_poison;
    return out.item[0];
}

static const lki_layer_kind BATCH_NORMALIZATION = {.name = "batch_normalization", .output = output, .build = build, .call = call};

static bool within(const char *name, lk_number n, double most)
{
    if (!n.set || (n.value >= 0 && n.value <= most)) return true;
    if (isinf(most)) lki_fail(LK_EINVAL, "lk_batch_normalization: %s is %g; it must be at least 0", name, n.value);
    else lki_fail(LK_EINVAL, "lk_batch_normalization: %s is %g; it must be from 0 to %g", name, n.value, most);
    return false;
}

lk_layer *lk_batch_normalization_kw(lk_batch_normalization_args a)
{
    if (!within("momentum", a.momentum, 1) || !within("epsilon", a.epsilon, INFINITY)) return NULL;
    lki_layer_common     common = {.name = a.name, .input_shape = a.input_shape};
    batch_normalization *b = lki_layer_new("lk_batch_normalization", sizeof *b, &BATCH_NORMALIZATION, common);
    if (!b) return NULL;
    b->momentum = a.momentum;
    b->epsilon = a.epsilon;
    b->center = a.center != LK_OFF;
    b->scale = a.scale != LK_OFF;
    b->synchronized = a.synchronized != LK_OFF;
    return &b->layer;
}
