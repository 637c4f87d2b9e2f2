/* Dropout: while training, a share of the elements is 0 and the others are scaled up. Which ones follows from the seed, the layer's
 * place, the model's training call and the global row, so every split of a batch over replicas drops the same ones. */
#include "model/layer.h"

typedef struct dropout {
    lk_layer layer;
    double   rate;
} dropout;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    (void)l;
    *out = *in;
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const dropout *d = (const dropout *)l;
    return pass->training && d->rate > 0 ? lk_nn_dropout(x, d->rate, .stream = l->path, .iteration = pass->iteration) : x;
}

static const lki_layer_kind DROPOUT = {.name = "dropout", .output = output, .call = call, .draws = true};

lk_layer *lk_dropout_kw(lk_dropout_layer_args a)
{
    if (!(a.rate >= 0 && a.rate < 1))
        return lki_fail(LK_EINVAL, "lk_dropout: the rate is %g; it must be at least 0 and below 1", a.rate), NULL;
    dropout *d = lki_layer_new("lk_dropout", sizeof *d, &DROPOUT, (lki_layer_common){.name = a.name, .input_shape = a.input_shape});
    if (!d) return NULL;
    d->rate = a.rate;
    return &d->layer;
}
