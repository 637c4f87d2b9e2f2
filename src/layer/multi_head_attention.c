/* MultiHeadAttention on (query, value) or (query, value, key): every step of the query attends to the steps of the value, in
 * several heads. Rows are [steps, width] each; results are as wide as the query.
 *
 * Four projections, each a kernel and mostly a bias, in Keras' order: query, key, value, output. */
#include "layer/initializer.h"
#include "layer/layer.h"
#include "layer/regularizer.h"

enum { QUERY, KEY, VALUE, OUTPUT, PROJECTIONS };

typedef struct attention {
    lk_layer                           layer;
    lk_multi_head_attention_layer_args set; /* value_dim is filled in */
} attention;

static const lk_multi_head_attention_layer_args *args_of(const lk_layer *l) { return &((const attention *)l)->set; }

static int kernel_at(const lk_layer *l, int projection) { return args_of(l)->use_bias == LK_OFF ? projection : 2 * projection; }

/* ---- shapes ---- */

static const char *const INPUTS[] = {[QUERY] = "query", [KEY] = "key", [VALUE] = "value"};

/* The inputs are query, value, key; without a key the value is used. */
static const lk_shape *input_of(const lk_shape *in, int projection)
{
    return projection == QUERY ? &in[0] : projection == KEY && in[2].rank >= 0 ? &in[2] : &in[1];
}

static lk_status input_fits(const lk_layer *l, const lk_shape *row, int i)
{
    if (row->rank != 2) return lki_layer_refuse(l, row, "the %s should be [steps, width]", INPUTS[i]);
    if (row->dim[1] < 0) return lki_layer_refuse(l, row, "the width of the %s needs a fixed size", INPUTS[i]);
    const int64_t made_for = l->count ? l->weight[kernel_at(l, i)].variable->shape.dim[0] : row->dim[1];
    if (row->dim[1] == made_for) return LK_OK;
    return lki_layer_refuse(l, row, "the %s should be %lld wide, as when its kernel was made", INPUTS[i], (long long)made_for);
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    LKI_TRY(input_fits(l, input_of(in, QUERY), QUERY));
    LKI_TRY(input_fits(l, input_of(in, VALUE), VALUE));
    LKI_TRY(input_fits(l, input_of(in, KEY), KEY));
    const int64_t keys = input_of(in, KEY)->dim[0], values = input_of(in, VALUE)->dim[0];
    if (keys >= 0 && values >= 0 && keys != values)
        return lki_layer_refuse(l, input_of(in, KEY), "the key has %lld steps and the value %lld; there should be as many",
                                (long long)keys, (long long)values);
    *out = in[0];
    return LK_OK;
}

/* ---- weights ---- */

static const struct {
    const char *kernel, *bias, *kernel_place, *bias_place;
} NAMES[PROJECTIONS] = {
    [QUERY] = {"query/kernel", "query/bias", "query_dense/vars/0", "query_dense/vars/1"},
    [KEY] = {"key/kernel", "key/bias", "key_dense/vars/0", "key_dense/vars/1"},
    [VALUE] = {"value/kernel", "value/bias", "value_dense/vars/0", "value_dense/vars/1"},
    [OUTPUT] = {"attention_output/kernel", "attention_output/bias", "output_dense/vars/0", "output_dense/vars/1"},
};

/* Initialisers that depend on the number of inputs and outputs count them in the kernel of three axes seen as a matrix. */
static bool by_fans(const lk_initializer *i) { return !i || (i->class && lki_field_find(i->class, "input_axes")); }

static lk_status add_projection(lk_layer *l, int i, lk_shape kernel, lk_shape flat, lk_shape bias)
{
    const lk_multi_head_attention_layer_args *a = args_of(l);
    lki_weight w = LKI_WEIGHT(a, kernel, lki_first_glorot_uniform), b = LKI_WEIGHT(a, bias, lki_first_zeros);
    w.name = NAMES[i].kernel, w.place = NAMES[i].kernel_place;
    b.name = NAMES[i].bias, b.place = NAMES[i].bias_place;
    if (by_fans(a->kernel_initializer)) w.drawn_as = flat;
    LKI_TRY(lki_layer_weight(l, w, kernel));
    return a->use_bias == LK_OFF ? LK_OK : lki_layer_weight(l, b, bias);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_multi_head_attention_layer_args *a = args_of(l);
    const int64_t                             heads = a->num_heads, out = in[0].dim[1];
    for (int i = QUERY; i <= VALUE; i++) {
        const int64_t width = input_of(in, i)->dim[1], d = i == VALUE ? a->value_dim : a->key_dim;
        LKI_TRY(add_projection(l, i, LK_SHAPE(width, heads, d), LK_SHAPE(width, lki_size_mul(heads, d)), LK_SHAPE(heads, d)));
    }
    return add_projection(l, OUTPUT, LK_SHAPE(heads, a->value_dim, out), LK_SHAPE(lki_size_mul(heads, a->value_dim), out),
                          LK_SHAPE(out));
}

/* ---- calling ---- */

/* As in Keras, an activity regulariser is applied to the result of every projection; the last one is the layer's own result. */
static lk_status regularize(const lk_layer *l, const lki_pass *pass, lk_tensor *const x[], lk_tensor *const kernel[],
                            lk_tensor *const bias[])
{
    for (int i = QUERY; i <= VALUE; i++) {
        const int64_t in = kernel[i]->shape.dim[0], out = lki_size_mul(kernel[i]->shape.dim[1], kernel[i]->shape.dim[2]);
        lk_tensor    *y = lk_nn_dense(x[i], lk_reshape(kernel[i], LK_SHAPE(in, out)),
                                   bias[i] ? lk_reshape(bias[i], LK_SHAPE(out)) : NULL, LK_LINEAR);
        if (lki_bad(y)) return lki_poisoned_status("lk_multi_head_attention");
        LKI_TRY(pass->add(pass->to, lki_regularizer_rows(l->activity, y)));
    }
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *query, const lki_pass *pass)
{
    const lk_multi_head_attention_layer_args *a = args_of(l);
    lk_tensor *value = pass->in.item[1], *key = pass->in.count > 2 ? pass->in.item[2] : value, *kernel[PROJECTIONS],
              *bias[PROJECTIONS];
    if (lki_bad(query) || lki_bad(value) || lki_bad(key)) return &lki_poison;
    for (int i = 0; i < PROJECTIONS; i++) {
        kernel[i] = lki_layer_read(l, kernel_at(l, i));
        bias[i] = a->use_bias == LK_OFF ? NULL : lki_layer_read(l, kernel_at(l, i) + 1);
    }
    lk_tensor *const x[] = {[QUERY] = query, [KEY] = key, [VALUE] = value};
    if (l->activity && pass->add && regularize(l, pass, x, kernel, bias) != LK_OK) return &lki_poison;
    return lk_nn_multi_head_attention(query, value, key, .query_kernel = kernel[QUERY], .key_kernel = kernel[KEY],
                                      .value_kernel = kernel[VALUE], .output_kernel = kernel[OUTPUT], .query_bias = bias[QUERY],
                                      .key_bias = bias[KEY], .value_bias = bias[VALUE], .output_bias = bias[OUTPUT],
                                      .use_causal_mask = a->use_causal_mask, .dropout = pass->training ? a->dropout : 0,
                                      .stream = lki_layer_stream(l), .iteration = pass->iteration);
}

/* ---- making one ---- */

static void *make(const void *args) { return lk_multi_head_attention_kw(*(const lk_multi_head_attention_layer_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_multi_head_attention_layer_args),
    LKI_FIELD(INT, lk_multi_head_attention_layer_args, num_heads, .required = true),
    LKI_FIELD(INT, lk_multi_head_attention_layer_args, key_dim, .required = true),
    LKI_FIELD(INTEGER, lk_multi_head_attention_layer_args, value_dim),
    LKI_FIELD(REAL, lk_multi_head_attention_layer_args, dropout),
    LKI_KERNEL_AND_BIAS_FIELDS(lk_multi_head_attention_layer_args),
    LKI_FIXED("use_gate", "false"),
    LKI_FIXED("output_shape", "null"),
    {.name = "attention_axes", .type = LKI_FIELD_FIXED, .literal = "null", .none = true}, /* once built, the only value: [1] */
    LKI_FIXED("sliding_window", "null"),
    LKI_FIELD(NUMBER, lk_multi_head_attention_layer_args, seed, .none = true),
    LKI_FIELD(SWITCH, lk_multi_head_attention_layer_args, use_causal_mask, .in_call = true),
};

const lki_layer_kind lki_multi_head_attention_kind = {
    .name = "multi_head_attention",
    LKI_LAYER_OF(attention, lk_multi_head_attention_layer_args, "MultiHeadAttention", FIELDS),
    .fewest = 2,
    .most = 3,
    .draws = true,
    .output = output,
    .build = build,
    .call = call};

lk_layer *lk_multi_head_attention_kw(lk_multi_head_attention_layer_args a)
{
    a.value_dim = lki_integer_or(a.value_dim, a.key_dim);
    if (a.num_heads < 1 || a.key_dim < 1 || a.value_dim < 1)
        return lki_fail(LK_EINVAL,
                        "lk_multi_head_attention: num_heads is %lld, key_dim %lld and value_dim %lld; they must be at least 1",
                        (long long)a.num_heads, (long long)a.key_dim, (long long)a.value_dim),
               NULL;
    if (!(a.dropout >= 0 && a.dropout < 1))
        return lki_fail(LK_EINVAL, "lk_multi_head_attention: dropout is %g; it must be at least 0 and below 1", a.dropout), NULL;
    lk_layer *l = lki_layer_new("lk_multi_head_attention", &lki_multi_head_attention_kind, &a);
    if (l) l->draws = a.dropout > 0;
    return l;
}
