/* EinsumDense: activation(einsum(equation, x, kernel) + bias). The equation and the shape of a result row give the shapes of kernel
 * and bias. */
#include "layer/initializer.h"
#include "layer/layer.h"
#include "nn/einsum.h"
#include <string.h>

typedef struct einsum_dense {
    lk_layer             layer;
    lk_einsum_dense_args set;
} einsum_dense;

/* What the equation means for rows of some shape. */
typedef struct meaning {
    lki_einsum e;
    lk_shape   x, y, kernel, bias; /* x and y with the batch, which is -1; bias of rank 0: none */
    lk_shape   fans;               /* the kernel as [in, out], for initialisers that depend on these numbers */
} meaning;

/* The shape of the result, from the option and what the ellipsis stands for. */
static bool find_result(const lk_einsum_dense_args *a, meaning *m)
{
    const int       letters = (int)strlen(m->e.y) - m->e.elided, before = m->e.left ? m->e.elided : 0;
    const lk_shape *given = &a->output_shape;
    const int       first = before ? 0 : 1; /* the batch is a letter, or part of the ellipsis */
    if (given->rank != letters - first) return false;
    m->y.rank = (int)strlen(m->e.y);
    for (int i = 0; i < m->y.rank; i++) {
        const int  in_x = lki_label_at(m->e.x, m->e.y[i]);
        const bool elided = m->e.y[i] >= '0' && m->e.y[i] <= '9';
        m->y.dim[i] = elided || i == 0 ? m->x.dim[in_x] : given->dim[i - before - first];
        if (m->y.dim[i] < 0 && in_x >= 0) m->y.dim[i] = m->x.dim[in_x];
    }
    return true;
}

static lk_status find_kernel(const lk_layer *l, const lk_shape *in, meaning *m)
{
    int64_t fan[2] = {1, 1};
    for (const char *c = m->e.x; *c; c++) {
        const int     at = lki_label_at(m->e.y, *c);
        const int64_t size = m->x.dim[c - m->e.x];
        if (at > 0 && size >= 0 && m->y.dim[at] != size)
            return lki_layer_refuse(l, in, "axis '%c' is %lld, and %lld in output_shape", *c, (long long)size,
                                    (long long)m->y.dim[at]);
    }
    m->kernel.rank = (int)strlen(m->e.w);
    for (int i = 0; i < m->kernel.rank; i++) {
        const int in_y = lki_label_at(m->e.y, m->e.w[i]);
        m->kernel.dim[i] = in_y >= 0 ? m->y.dim[in_y] : m->x.dim[lki_label_at(m->e.x, m->e.w[i])];
        if (m->kernel.dim[i] < 0) return lki_layer_refuse(l, in, "axis '%c' of the kernel needs a fixed size", m->e.w[i]);
        fan[in_y >= 0] = lki_size_mul(fan[in_y >= 0], m->kernel.dim[i]);
    }
    m->fans = LK_SHAPE(fan[0], fan[1]);
    return LK_OK;
}

/* The sizes of the result's axes from the first of bias_axes on, 1 for those that are not among them. */
static lk_status find_bias(const lk_layer *l, const lk_shape *in, const char *axes, meaning *m)
{
    int first = m->y.rank;
    for (const char *c = axes; c && *c; c++) {
        const int at = lki_label_at(m->e.y, *c);
        if (at < 0 || at == 0) return lki_layer_refuse(l, in, "bias_axes has '%c', which is not an axis of a result row", *c);
        if (at < first) first = at;
    }
    for (int i = first; i < m->y.rank; i++) {
        const bool has = strchr(axes, m->e.y[i]) != NULL;
        if (has && m->y.dim[i] < 0) return lki_layer_refuse(l, in, "axis '%c' of the bias needs a fixed size", m->e.y[i]);
        m->bias.dim[m->bias.rank++] = has ? m->y.dim[i] : 1;
    }
    return LK_OK;
}

static lk_status meaning_of(const lk_layer *l, const lk_shape *in, meaning *m)
{
    const lk_einsum_dense_args *a = &((const einsum_dense *)l)->set;
    *m = (meaning){.x = {.rank = in->rank + 1, .dim = {-1}}};
    for (int i = 0; i < in->rank; i++)
        m->x.dim[i + 1] = in->dim[i];
    const char *why = lki_einsum_of(&m->e, a->equation, in->rank + 1);
    char        text[LKI_SHAPE_TEXT];
    if (why) return lki_layer_refuse(l, in, "equation \"%s\": %s", a->equation, why);
    if (!find_result(a, m))
        return lki_layer_refuse(l, in, "output_shape %s does not have a size for each axis of the result in \"%s\"",
                                lki_shape_text(&a->output_shape, text), a->equation);
    LKI_TRY(find_kernel(l, in, m));
    return find_bias(l, in, a->bias_axes, m);
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    meaning m;
    char    text[2][LKI_SHAPE_TEXT];
    LKI_TRY(meaning_of(l, in, &m));
    if (l->count && !lki_shape_equal(&m.kernel, &l->weight[0].variable->shape))
        return lki_layer_refuse(l, in, "the kernel would be %s; it was made as %s", lki_shape_text(&m.kernel, text[0]),
                                lki_shape_text(&l->weight[0].variable->shape, text[1]));
    *out = (lk_shape){.rank = m.y.rank - 1};
    for (int i = 0; i < out->rank; i++)
        out->dim[i] = m.y.dim[i + 1];
    return LK_OK;
}

/* Initialisers whose numbers depend on how many inputs and outputs there are. */
static bool by_fans(const lk_initializer *i) { return !i || (i->class && (lki_field_find(i->class, "input_axes") != NULL)); }

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_einsum_dense_args *a = &((const einsum_dense *)l)->set;
    meaning                     m;
    LKI_TRY(meaning_of(l, in, &m));
    lki_weight kernel = LKI_WEIGHT(a, kernel, lki_first_glorot_uniform);
    if (by_fans(a->kernel_initializer)) kernel.drawn_as = m.fans;
    LKI_TRY(lki_layer_weight(l, kernel, m.kernel));
    return m.bias.rank ? lki_layer_weight(l, LKI_WEIGHT(a, bias, lki_first_zeros), m.bias) : LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_einsum_dense_args *a = &((const einsum_dense *)l)->set;
    lki_einsum                  e;
    (void)pass;
    if (lki_bad(x) || lki_einsum_of(&e, a->equation, x->shape.rank)) return &lki_poison;
    lk_tensor *y = lki_einsum_product(&e, x, lki_layer_read(l, 0));
    return lk_activate(l->count > 1 ? lk_add(y, lki_layer_read(l, 1)) : y, a->activation);
}

static void *make(const void *args) { return lk_einsum_dense_kw(*(const lk_einsum_dense_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_einsum_dense_args),
    LKI_FIELD(SHAPE, lk_einsum_dense_args, output_shape, .none = true, .required = true),
    LKI_FIELD(NAME, lk_einsum_dense_args, equation, .required = true),
    LKI_ACTIVATION_FIELD(lk_einsum_dense_args, activation, LK_LINEAR),
    LKI_FIELD(NAME, lk_einsum_dense_args, bias_axes),
    LKI_INITIALIZER_FIELD(lk_einsum_dense_args, kernel_initializer, "GlorotUniform"),
    LKI_INITIALIZER_FIELD(lk_einsum_dense_args, bias_initializer, "Zeros"),
    LKI_REGULARIZER_FIELD(lk_einsum_dense_args, kernel_regularizer),
    LKI_REGULARIZER_FIELD(lk_einsum_dense_args, bias_regularizer),
    LKI_REGULARIZER_FIELD(lk_einsum_dense_args, activity_regularizer),
    LKI_CONSTRAINT_FIELD(lk_einsum_dense_args, kernel_constraint),
    LKI_CONSTRAINT_FIELD(lk_einsum_dense_args, bias_constraint),
    LKI_FIXED("quantization_config", "null"),
};

const lki_layer_kind lki_einsum_dense_kind = {.name = "einsum_dense",
                                              LKI_LAYER_OF(einsum_dense, lk_einsum_dense_args, "EinsumDense", FIELDS),
                                              .output = output,
                                              .build = build,
                                              .call = call};

lk_layer *lk_einsum_dense_kw(lk_einsum_dense_args a)
{
    if (!a.equation) return lki_fail(LK_EINVAL, "lk_einsum_dense: the equation is missing"), NULL;
    if (!lki_activation_fits("lk_einsum_dense", a.activation)) return NULL;
    return lki_layer_new("lk_einsum_dense", &lki_einsum_dense_kind, &a);
}
