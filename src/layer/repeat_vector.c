/* RepeatVector: rows of [width] become [n, width]. */
#include "layer/layer.h"

typedef struct repeat_vector {
    lk_layer              layer;
    lk_repeat_vector_args set;
} repeat_vector;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank != 1) return lki_layer_refuse(l, in, "a row should be [width]");
    *out = LK_SHAPE(((const repeat_vector *)l)->set.n, in->dim[0]);
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return lki_bad(x) ? x : lk_tile(lk_expand_dims(x, 1), LK_AXES(1, ((const repeat_vector *)l)->set.n, 1));
}

static void *make(const void *args) { return lk_repeat_vector_kw(*(const lk_repeat_vector_args *)args); }

static const lki_field FIELDS[] = {LKI_LAYER_FIELDS(lk_repeat_vector_args),
                                   LKI_FIELD(INT, lk_repeat_vector_args, n, .required = true)};

const lki_layer_kind lki_repeat_vector_kind = {.name = "repeat_vector",
                                               LKI_LAYER_OF(repeat_vector, lk_repeat_vector_args, "RepeatVector", FIELDS),
                                               .output = output,
                                               .call = call};

lk_layer *lk_repeat_vector_kw(lk_repeat_vector_args a)
{
    if (a.n < 1) return lki_fail(LK_EINVAL, "lk_repeat_vector: n is %lld; it must be at least 1", (long long)a.n), NULL;
    return lki_layer_new("lk_repeat_vector", &lki_repeat_vector_kind, &a);
}
