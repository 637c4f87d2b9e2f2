/* Layers that return their input: Identity; and ActivityRegularization, which adds a penalty for it to the loss. */
#include "layer/layer.h"

/* ---- Identity ---- */

typedef struct identity {
    lk_layer            layer;
    lk_plain_layer_args set;
} identity;

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)l, (void)pass;
    return x;
}

static void *make_identity(const void *args) { return lk_identity_layer_kw(*(const lk_plain_layer_args *)args); }

static const lki_field IDENTITY_FIELDS[] = {LKI_LAYER_FIELDS(lk_plain_layer_args)};

const lki_layer_kind lki_identity_kind = {
    .name = "identity",
    .class = {"Identity", "keras.layers", LKI_ARGS(lk_plain_layer_args, IDENTITY_FIELDS), make_identity},
    .bytes = sizeof(identity),
    .set = offsetof(identity, set),
    .takes_ids = true,
    .mask = lki_mask_passes,
    .call = call};

lk_layer *lk_identity_layer_kw(lk_plain_layer_args a) { return lki_layer_new("lk_identity_layer", &lki_identity_kind, &a); }

/* ---- ActivityRegularization ---- */

typedef struct activity {
    lk_layer                        layer;
    lk_activity_regularization_args set;
    lk_regularizer                 *penalty; /* a reference */
} activity;

static void destroy(lk_layer *l) { lki_drop(((activity *)l)->penalty); }

static void *make_activity(const void *args)
{
    return lk_activity_regularization_kw(*(const lk_activity_regularization_args *)args);
}

static const lki_field ACTIVITY_FIELDS[] = {LKI_LAYER_FIELDS(lk_activity_regularization_args),
                                            LKI_FIELD(REAL, lk_activity_regularization_args, l1),
                                            LKI_FIELD(REAL, lk_activity_regularization_args, l2)};

const lki_layer_kind lki_activity_regularization_kind = {
    .name = "activity_regularization",
    .class = {"ActivityRegularization", "keras.layers", LKI_ARGS(lk_activity_regularization_args, ACTIVITY_FIELDS), make_activity},
    .bytes = sizeof(activity),
    .set = offsetof(activity, set),
    .mask = lki_mask_passes,
    .call = call,
    .destroy = destroy};

lk_layer *lk_activity_regularization_kw(lk_activity_regularization_args a)
{
    lk_regularizer *penalty = lk_l1_l2(a.l1, a.l2);
    activity       *l = penalty ? lki_layer_new("lk_activity_regularization", &lki_activity_regularization_kind, &a) : NULL;
    if (l) l->layer.activity = l->penalty = lki_retain(penalty);
    lk_free(penalty);
    return l ? &l->layer : NULL;
}
