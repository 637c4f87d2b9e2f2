/* Embedding: ids become rows of a table, [..., output_dim]. */
#include "layer/layer.h"
#include "op/gradient.h"

typedef struct embedding {
    lk_layer          layer;
    lk_embedding_args set;
} embedding;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    if (in->rank + 2 > LK_MAX_RANK) return lki_layer_refuse(l, in, "ids of at most %d axes", LK_MAX_RANK - 2);
    *out = *in;
    out->dim[out->rank++] = ((const embedding *)l)->set.output_dim;
    return LK_OK;
}

static lki_filling first_embeddings(lk_shape shape, const char *stream)
{
    return lki_filling_of(LKI_FILL_UNIFORM, shape, stream, -0.05, 0.05);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_embedding_args *a = &((const embedding *)l)->set;
    (void)in;
    return lki_layer_weight(l, LKI_WEIGHT(a, embeddings, first_embeddings), LK_SHAPE(a->input_dim, a->output_dim));
}

/* Ids that were read as floats are converted back to integers. */
static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    if (!lki_bad(x) && x->dtype != LK_I32 && x->dtype != LK_I64) x = lk_cast(x, LK_I32);
    return lk_nn_embedding(x, lki_layer_read(l, 0));
}

static lk_tensor *mask(const lk_layer *l, lk_tuple in, lk_tensor *y, int i)
{
    lk_tensor *ids = in.item[0];
    (void)y, (void)i;
    if (((const embedding *)l)->set.mask_zero != LK_ON || lki_bad(ids)) return NULL;
    return lk_not_equal(ids, lki_like(ids, 0));
}

static void *make(const void *args) { return lk_embedding_kw(*(const lk_embedding_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_embedding_args),
    LKI_FIELD(INT, lk_embedding_args, input_dim, .required = true),
    LKI_FIELD(INT, lk_embedding_args, output_dim, .required = true),
    LKI_INITIALIZER_FIELD(lk_embedding_args, embeddings_initializer, "RandomUniform"),
    LKI_REGULARIZER_FIELD(lk_embedding_args, embeddings_regularizer),
    LKI_REGULARIZER_FIELD(lk_embedding_args, activity_regularizer),
    LKI_CONSTRAINT_FIELD(lk_embedding_args, embeddings_constraint),
    LKI_FIELD(SWITCH, lk_embedding_args, mask_zero),
    LKI_FIXED("quantization_config", "null"),
};

const lki_layer_kind lki_embedding_kind = {.name = "embedding",
                                           LKI_LAYER_OF(embedding, lk_embedding_args, "Embedding", FIELDS),
                                           .takes_ids = true,
                                           .output = output,
                                           .mask = mask,
                                           .build = build,
                                           .call = call};

lk_layer *lk_embedding_kw(lk_embedding_args a)
{
    if (a.input_dim < 1 || a.output_dim < 1)
        return lki_fail(LK_EINVAL, "lk_embedding: input_dim is %lld and output_dim %lld; they must be at least 1",
                        (long long)a.input_dim, (long long)a.output_dim),
               NULL;
    return lki_layer_new("lk_embedding", &lki_embedding_kind, &a);
}
