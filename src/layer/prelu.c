/* PReLU: x where it is positive, alpha * x elsewhere; alpha is learnt, for each element of a row or shared along axes. */
#include "layer/axes.h"

typedef struct prelu {
    lk_layer      layer;
    lk_prelu_args set;
} prelu;

static lk_status alpha_shape(const lk_layer *l, const lk_shape *in, lk_shape *alpha)
{
    const lki_axes given = lki_axes_of(((const prelu *)l)->set.shared_axes);
    lki_axes       shared;
    LKI_TRY(lki_row_axes(l, in, "shared_axes:", &given, &shared));
    *alpha = *in;
    for (int i = 0; i < shared.count; i++)
        alpha->dim[shared.value[i] - 1] = 1;
    return LK_OK;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    lk_shape alpha;
    char     text[LKI_SHAPE_TEXT];
    LKI_TRY(alpha_shape(l, in, &alpha));
    for (int i = 0; i < alpha.rank; i++)
        if (alpha.dim[i] < 0) return lki_layer_refuse(l, in, "axis %d needs a fixed size, or a place in shared_axes", i + 1);
    if (l->count && !lki_shape_equal(&alpha, &l->weight[0].variable->shape))
        return lki_layer_refuse(l, in, "they should fit alpha, which was made as %s",
                                lki_shape_text(&l->weight[0].variable->shape, text));
    *out = *in;
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_prelu_args *a = &((const prelu *)l)->set;
    lk_shape             alpha;
    LKI_TRY(alpha_shape(l, in, &alpha));
    return lki_layer_weight(l, LKI_WEIGHT(a, alpha, lki_first_zeros), alpha);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    (void)pass;
    return lk_sub(lk_relu(x), lk_mul(lki_layer_read(l, 0), lk_relu(lk_neg(x))));
}

static void *make(const void *args) { return lk_prelu_kw(*(const lk_prelu_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_prelu_args),
    LKI_INITIALIZER_FIELD(lk_prelu_args, alpha_initializer, "Zeros"),
    LKI_REGULARIZER_FIELD(lk_prelu_args, alpha_regularizer),
    LKI_CONSTRAINT_FIELD(lk_prelu_args, alpha_constraint),
    LKI_FIELD(AXES, lk_prelu_args, shared_axes),
};

const lki_layer_kind lki_prelu_kind = {.name = "p_re_lu",
                                       LKI_LAYER_OF(prelu, lk_prelu_args, "PReLU", FIELDS),
                                       .output = output,
                                       .build = build,
                                       .mask = lki_mask_passes,
                                       .call = call};

lk_layer *lk_prelu_kw(lk_prelu_args a) { return lki_layer_new("lk_prelu", &lki_prelu_kind, &a); }
