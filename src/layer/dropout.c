/* Dropout: while training, a fraction of the elements is 0 and the others are scaled up. Which ones depends on the seed, the
 * layer's place, the model's training call and the global row, so every division of a batch over replicas drops the same ones. */
#include "layer/layer.h"

typedef struct dropout {
    lk_layer              layer;
    lk_dropout_layer_args set;
} dropout;

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_dropout_layer_args *a = &((const dropout *)l)->set;
    if (!pass->training || a->rate <= 0) return x;
    return lk_nn_dropout(x, a->rate, .stream = lki_layer_stream(l), .iteration = pass->iteration);
}

static void *make(const void *args) { return lk_dropout_kw(*(const lk_dropout_layer_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_dropout_layer_args),
    LKI_FIELD(REAL, lk_dropout_layer_args, rate, .required = true),
    LKI_FIELD(NUMBER, lk_dropout_layer_args, seed, .none = true),
    LKI_FIXED("noise_shape", "null"),
};

const lki_layer_kind lki_dropout_kind = {
    .name = "dropout", LKI_LAYER_OF(dropout, lk_dropout_layer_args, "Dropout", FIELDS), .draws = true, .mask = lki_mask_passes, .call = call};

lk_layer *lk_dropout_kw(lk_dropout_layer_args a)
{
    if (!(a.rate >= 0 && a.rate < 1))
        return lki_fail(LK_EINVAL, "lk_dropout: the rate is %g; it must be at least 0 and below 1", a.rate), NULL;
    return lki_layer_new("lk_dropout", &lki_dropout_kind, &a);
}
