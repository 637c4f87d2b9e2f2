/* ops/: every operation forwards and backwards, at once and as a compiled function. */
#ifndef LK_TESTS_GOLDEN_OPS_H
#define LK_TESTS_GOLDEN_OPS_H

#include "golden.h"
#include "model/loss.h"

/* One run of an operation: the case, and its inputs in the order of their names. */
typedef struct op_call {
    test_case *c;
    int        inputs, outputs, upstreams, gradients;
    lk_tensor *input[MAX_ARRAYS];
    lk_tuple   result; /* outputs, then gradients */
} op_call;

typedef lk_tuple op_fn(op_call *k);

static const char *name_at(const op_call *k, const char *list, int i)
{
    return json_string_value(json_array_get(json_object_get(k->c->json, list), (size_t)i));
}

static int place_of(const op_call *k, const char *list, const char *name)
{
    const int n = (int)json_array_size(json_object_get(k->c->json, list));
    for (int i = 0; i < n; i++)
        if (strcmp(name_at(k, list, i), name) == 0) return i;
    return -1;
}

/* The input of this name; NULL when the case has none. */
static lk_tensor *in(const op_call *k, const char *name)
{
    const int i = place_of(k, "inputs", name);
    return i < 0 ? NULL : k->input[i];
}

static void note(op_call *k, const char *key) { attribute(k->c, key); } /* an attribute that only describes */

/* ---- layers ------------------------------------------------------------------------------------------------------------------ */

static lk_activation activation(test_case *c, const char *key)
{
    static const struct {
        const char   *name;
        lk_activation value;
    } names[] = {{"linear", LK_LINEAR},
                 {"relu", LK_RELU},
                 {"relu6", LK_RELU6},
                 {"gelu", LK_GELU},
                 {"sigmoid", LK_SIGMOID},
                 {"tanh", LK_TANH},
                 {"softplus", LK_SOFTPLUS},
                 {"softsign", LK_SOFTSIGN},
                 {"elu", LK_ELU},
                 {"selu", LK_SELU},
                 {"leaky_relu", LK_LEAKY_RELU},
                 {"swish", LK_SWISH},
                 {"silu", LK_SWISH},
                 {"hard_sigmoid", LK_HARD_SIGMOID},
                 {"mish", LK_MISH},
                 {"exponential", LK_EXPONENTIAL},
                 {"softmax", LK_SOFTMAX},
                 {"log_softmax", LK_LOG_SOFTMAX}};
    const char *value = json_string_value(attribute(c, key));
    for (int i = 0; value && i < LKI_COUNT(names); i++)
        if (strcmp(value, names[i].name) == 0) return names[i].value;
    if (value) miss(c, "%s is \"%s\", which is not known here", key, value);
    return LK_LINEAR;
}

static lk_padding padding(test_case *c) { return (lk_padding)WORD(c, "padding", "valid", "same", "causal"); }

static lk_tuple op_matmul(op_call *k)
{
    return LK_TUPLE(
        lk_matmul(in(k, "a"), in(k, "b"), .transpose_a = on_off(k->c, "transpose_a"), .transpose_b = on_off(k->c, "transpose_b")));
}

static lk_tuple op_dense(op_call *k)
{
    note(k, "units");
    return LK_TUPLE(lk_nn_dense(in(k, "x"), in(k, "kernel"), in(k, "bias"), activation(k->c, "activation")));
}

static lk_conv_args conv_args(op_call *k, const char *kernel)
{
    WORD(k->c, "layout", "NHWC");
    WORD(k->c, "kernel_layout", "[kh, kw, out, in]");
    note(k, "multiplier");
    return (lk_conv_args){.x = in(k, "x"),
                          .kernel = in(k, kernel),
                          .bias = in(k, "bias"),
                          .strides = axes(k->c, "strides"),
                          .padding = padding(k->c),
                          .dilation = axes(k->c, "dilation"),
                          .activation = activation(k->c, "activation"),
                          .pointwise = in(k, "pointwise")};
}

static lk_tuple op_conv1d(op_call *k) { return LK_TUPLE(lk_nn_conv1d_kw(conv_args(k, "kernel"))); }
static lk_tuple op_conv2d(op_call *k) { return LK_TUPLE(lk_nn_conv2d_kw(conv_args(k, "kernel"))); }
static lk_tuple op_depthwise(op_call *k) { return LK_TUPLE(lk_nn_depthwise_conv2d_kw(conv_args(k, "kernel"))); }
static lk_tuple op_separable(op_call *k) { return LK_TUPLE(lk_nn_separable_conv2d_kw(conv_args(k, "depthwise"))); }
static lk_tuple op_conv2d_transpose(op_call *k) { return LK_TUPLE(lk_nn_conv2d_transpose_kw(conv_args(k, "kernel"))); }

static lk_pool_args pool_args(op_call *k)
{
    return (lk_pool_args){.x = in(k, "x"), .size = axes(k->c, "pool"), .strides = axes(k->c, "strides"), .padding = padding(k->c)};
}

static lk_tuple op_max_pool(op_call *k) { return LK_TUPLE(lk_nn_max_pool2d_kw(pool_args(k))); }
static lk_tuple op_avg_pool(op_call *k) { return LK_TUPLE(lk_nn_avg_pool2d_kw(pool_args(k))); }
static lk_tuple op_max_pool1d(op_call *k) { return LK_TUPLE(lk_nn_max_pool1d_kw(pool_args(k))); }
static lk_tuple op_avg_pool1d(op_call *k) { return LK_TUPLE(lk_nn_avg_pool1d_kw(pool_args(k))); }
static lk_tuple op_global_max_pool(op_call *k) { return LK_TUPLE(lk_nn_global_max_pool(in(k, "x"))); }
static lk_tuple op_global_avg_pool(op_call *k) { return LK_TUPLE(lk_nn_global_avg_pool(in(k, "x"))); }

static lk_norm_args norm_args(op_call *k)
{
    return (lk_norm_args){.x = in(k, "x"), .gamma = in(k, "gamma"), .beta = in(k, "beta"), .epsilon = number(k->c, "epsilon")};
}

static lk_tuple op_batch_norm(op_call *k)
{
    lk_norm_args a = norm_args(k);
    note(k, "returns");
    a.moving_mean = in(k, "moving_mean");
    a.moving_variance = in(k, "moving_variance");
    a.momentum = number(k->c, "momentum");
    a.training = on_off(k->c, "training");
    return lk_nn_batch_norm_kw(a);
}

static lk_tuple op_layer_norm(op_call *k)
{
    if (has(k->c, "axis") && whole(k->c, "axis") != -1) miss(k->c, "axis %d is not known here", whole(k->c, "axis"));
    return LK_TUPLE(lk_nn_layer_norm_kw(norm_args(k)));
}

static lk_tuple op_group_norm(op_call *k)
{
    lk_norm_args a = norm_args(k);
    a.groups = whole(k->c, "groups");
    return LK_TUPLE(lk_nn_group_norm_kw(a));
}

static lk_tuple op_embedding(op_call *k)
{
    note(k, "duplicates");
    return LK_TUPLE(lk_nn_embedding(in(k, "ids"), in(k, "table")));
}

static lk_rnn_args rnn_args(op_call *k)
{
    note(k, "units");
    return (lk_rnn_args){.x = in(k, "x"),
                         .kernel = in(k, "kernel"),
                         .recurrent = in(k, "recurrent"),
                         .bias = in(k, "bias"),
                         .mask = in(k, "mask"),
                         .return_sequences = on_off(k->c, "return_sequences"),
                         .reset_after = on_off(k->c, "reset_after")};
}

static lk_tuple op_lstm(op_call *k)
{
    WORD(k->c, "gates", "i f c o");
    return LK_TUPLE(lk_nn_lstm_kw(rnn_args(k)));
}

static lk_tuple op_gru(op_call *k)
{
    WORD(k->c, "gates", "z r h");
    return LK_TUPLE(lk_nn_gru_kw(rnn_args(k)));
}

static lk_tuple op_simple_rnn(op_call *k) { return LK_TUPLE(lk_nn_simple_rnn_kw(rnn_args(k))); }

static lk_tuple op_attention(op_call *k)
{
    note(k, "heads");
    note(k, "key_dim");
    note(k, "key");
    note(k, "mask");
    return LK_TUPLE(lk_nn_multi_head_attention(.query = in(k, "query"), .value = in(k, "value"), .key = in(k, "key"),
                                               .query_kernel = in(k, "query_kernel"), .key_kernel = in(k, "key_kernel"),
                                               .value_kernel = in(k, "value_kernel"), .output_kernel = in(k, "output_kernel"),
                                               .query_bias = in(k, "query_bias"), .key_bias = in(k, "key_bias"),
                                               .value_bias = in(k, "value_bias"), .output_bias = in(k, "output_bias"),
                                               .mask = in(k, "mask")));
}

/* ---- losses ------------------------------------------------------------------------------------------------------------------ */

/* Its lki_loss_id, by the name of Keras' class; -1: there is none. */
static int find_loss(const char *name)
{
    int i = LKI_LOSS_COUNT - 1;
    while (i >= 0 && strcmp(lki_loss_classes[i].name, name) != 0)
        i--;
    return i;
}

static lk_loss_args loss_args(test_case *c, lk_tensor *labels, lk_tensor *predictions)
{
    return (lk_loss_args){.labels = labels,
                          .predictions = predictions,
                          .from_logits = on_off(c, "from_logits"),
                          .label_smoothing = real(c, "label_smoothing"),
                          .ignore_class = number(c, "ignore_class"),
                          .delta = number(c, "delta")};
}

static lk_tuple op_loss(op_call *k)
{
    const int          loss = find_loss(json_string_value(json_object_get(k->c->json, "op")));
    const lk_reduction reduction =
        LK_REDUCTION_NONE + WORD(k->c, "reduction", "none", "sum", "sum_over_batch_size", "mean_with_sample_weight");
    lk_tensor *values = lki_losses[loss].values(loss_args(k->c, in(k, "labels"), in(k, "pred")));
    return LK_TUPLE(lk_nn_reduce_loss(values, in(k, "weights"), reduction));
}

static lk_tuple op_l1(op_call *k) { return LK_TUPLE(lk_nn_l1(in(k, "w"), real(k->c, "c"))); }
static lk_tuple op_l2(op_call *k) { return LK_TUPLE(lk_nn_l2(in(k, "w"), real(k->c, "c"))); }

/* ---- element by element ------------------------------------------------------------------------------------------------------ */

#define UNARY(name)                                                                                                                \
    static lk_tuple op_##name(op_call *k) { return LK_TUPLE(lk_##name(in(k, "x"))); }
#define BINARY(name)                                                                                                               \
    static lk_tuple op_##name(op_call *k) { return LK_TUPLE(lk_##name(in(k, "a"), in(k, "b"))); }
LK_UNARY_LIST(UNARY)
LK_BINARY_LIST(BINARY)
#undef UNARY
#undef BINARY

static lk_tuple op_elu(op_call *k) { return LK_TUPLE(lk_elu(in(k, "x"), real(k->c, "alpha"))); }
static lk_tuple op_leaky_relu(op_call *k) { return LK_TUPLE(lk_leaky_relu(in(k, "x"), real(k->c, "alpha"))); }
static lk_tuple op_gelu(op_call *k) { return LK_TUPLE(lk_gelu(in(k, "x"), on_off(k->c, "approximate"))); }
static lk_tuple op_clip(op_call *k) { return LK_TUPLE(lk_clip(in(k, "x"), real(k->c, "low"), real(k->c, "high"))); }
static lk_tuple op_where(op_call *k) { return LK_TUPLE(lk_where(in(k, "condition"), in(k, "a"), in(k, "b"))); }

static lk_tuple op_cast(op_call *k)
{
    static const lk_dtype types[] = {LK_F32, LK_F64, LK_F16, LK_BF16, LK_I32, LK_I64, LK_U8, LK_BOOL};
    return LK_TUPLE(lk_cast(
        in(k, "x"), types[WORD(k->c, "to", "float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool")]));
}

/* ---- along axes -------------------------------------------------------------------------------------------------------------- */

static lk_reduce_args reduce_args(op_call *k)
{
    note(k, "ties");
    return (lk_reduce_args){.x = in(k, "x"), .axis = axes(k->c, "axes"), .keepdims = on_off(k->c, "keepdims")};
}

#define REDUCE(name)                                                                                                               \
    static lk_tuple op_##name(op_call *k) { return LK_TUPLE(lk_##name##_kw(reduce_args(k))); }
LK_REDUCE_LIST(REDUCE)
#undef REDUCE

static lk_axis_args axis_args(op_call *k)
{
    note(k, "ties");
    return (lk_axis_args){.x = in(k, "x"),
                          .axis = has(k->c, "axis") ? LK_AXIS(whole(k->c, "axis")) : (lk_axis){0},
                          .exclusive = on_off(k->c, "exclusive"),
                          .reverse = on_off(k->c, "reverse")};
}

static lk_tuple op_softmax(op_call *k) { return LK_TUPLE(lk_softmax_kw(axis_args(k))); }
static lk_tuple op_log_softmax(op_call *k) { return LK_TUPLE(lk_log_softmax_kw(axis_args(k))); }
static lk_tuple op_cumsum(op_call *k) { return LK_TUPLE(lk_cumsum_kw(axis_args(k))); }
static lk_tuple op_argmax(op_call *k) { return LK_TUPLE(lk_argmax_kw(axis_args(k))); }
static lk_tuple op_argmin(op_call *k) { return LK_TUPLE(lk_argmin_kw(axis_args(k))); }
static lk_tuple op_top_k(op_call *k) { return lk_top_k(in(k, "x"), whole(k->c, "k")); }

/* ---- moves ------------------------------------------------------------------------------------------------------------------- */

static lk_tuple op_concat(op_call *k) { return LK_TUPLE(lk_concat(tuple_of(k->inputs, k->input), whole(k->c, "axis"))); }
static lk_tuple op_stack(op_call *k) { return LK_TUPLE(lk_stack(tuple_of(k->inputs, k->input), whole(k->c, "axis"))); }
static lk_tuple op_split(op_call *k) { return lk_split(in(k, "x"), axes(k->c, "sizes"), whole(k->c, "axis")); }
static lk_tuple op_transpose(op_call *k) { return LK_TUPLE(lk_transpose(in(k, "x"), axes(k->c, "perm"))); }
static lk_tuple op_slice(op_call *k) { return LK_TUPLE(lk_slice(in(k, "x"), axes(k->c, "begin"), axes(k->c, "size"))); }
static lk_tuple op_tile(op_call *k) { return LK_TUPLE(lk_tile(in(k, "x"), axes(k->c, "multiples"))); }
static lk_tuple op_gather(op_call *k) { return LK_TUPLE(lk_gather(in(k, "x"), in(k, "ids"), whole(k->c, "axis"))); }
static lk_tuple op_one_hot(op_call *k) { return LK_TUPLE(lk_one_hot(in(k, "ids"), whole(k->c, "depth"))); }

static lk_tuple op_reshape(op_call *k)
{
    const lki_axes sizes = lki_axes_of(axes(k->c, "shape"));
    lk_shape       shape = {.rank = sizes.count};
    memcpy(shape.dim, sizes.value, sizeof shape.dim);
    return LK_TUPLE(lk_reshape(in(k, "x"), shape));
}

/* Bit i: item i of the list is null. */
static unsigned nulls(op_call *k, const char *key)
{
    json_t  *list = attribute(k->c, key);
    unsigned mask = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        mask |= (unsigned)json_is_null(json_array_get(list, i)) << i;
    return mask;
}

static lk_tuple op_strided_slice(op_call *k)
{
    return LK_TUPLE(lk_strided_slice(in(k, "x"), .begin = axes(k->c, "begin"), .end = axes(k->c, "end"),
                                     .strides = axes(k->c, "strides"), .begin_mask = nulls(k, "begin"),
                                     .end_mask = nulls(k, "end")));
}

static lk_tuple op_pad(op_call *k)
{
    json_t     *list = attribute(k->c, "paddings");
    lk_pad_args a = {
        .x = in(k, "x"), .mode = (lk_pad_mode)WORD(k->c, "mode", "constant", "reflect", "symmetric"), .value = real(k->c, "value")};
    int64_t before[LK_MAX_RANK], after[LK_MAX_RANK];
    int     count = 0;
    for (size_t i = 0; i < json_array_size(list) && i < LK_MAX_RANK; i++, count++) {
        before[count] = json_integer_value(json_array_get(json_array_get(list, i), 0));
        after[count] = json_integer_value(json_array_get(json_array_get(list, i), 1));
    }
    a.before = lk_axes_from(count, before);
    a.after = lk_axes_from(count, after);
    return LK_TUPLE(lk_pad_kw(a));
}

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

/* Which results are moved, not computed: they must agree exactly. And which are products, whose factors may be rounded. */
enum { COMPUTED, MOVED = 1, MOVED_BACK = 2, PRODUCTS = 4 };

/* clang-format off */
static const struct {
    const char *name;
    op_fn      *fn;
    int         kind;
} OPS[] = {
    {"a loss", op_loss, 0}, {"matmul", op_matmul, PRODUCTS}, {"dense", op_dense, PRODUCTS}, {"conv1d", op_conv1d, PRODUCTS},
    {"conv2d", op_conv2d, PRODUCTS}, {"conv2d_layer", op_conv2d, PRODUCTS},
    {"depthwise_conv2d", op_depthwise, PRODUCTS}, {"separable_conv2d", op_separable, PRODUCTS},
    {"conv2d_transpose", op_conv2d_transpose, PRODUCTS},
    {"max_pool", op_max_pool, MOVED}, {"avg_pool", op_avg_pool, 0}, {"max_pool1d", op_max_pool1d, MOVED},
    {"avg_pool1d", op_avg_pool1d, 0},
    {"global_max_pool", op_global_max_pool, MOVED}, {"global_avg_pool", op_global_avg_pool, 0}, {"batch_norm", op_batch_norm, 0},
    {"layer_norm", op_layer_norm, 0}, {"group_norm", op_group_norm, 0}, {"embedding", op_embedding, MOVED},
    {"lstm", op_lstm, PRODUCTS}, {"gru", op_gru, PRODUCTS},
    {"simple_rnn", op_simple_rnn, PRODUCTS}, {"multi_head_attention", op_attention, PRODUCTS}, {"l1", op_l1, 0}, {"l2", op_l2, 0},
    {"elu", op_elu, 0}, {"leaky_relu", op_leaky_relu, 0}, {"gelu", op_gelu, 0}, {"clip", op_clip, MOVED | MOVED_BACK},
    {"where", op_where, MOVED},
    {"cast", op_cast, MOVED}, {"logsumexp", op_reduce_logsumexp, 0}, {"variance", op_reduce_variance, 0},
    {"softmax", op_softmax, 0}, {"log_softmax", op_log_softmax, 0}, {"cumsum", op_cumsum, 0}, {"argmax", op_argmax, 0},
    {"argmin", op_argmin, 0},
    {"top_k", op_top_k, MOVED | MOVED_BACK}, {"concat", op_concat, MOVED | MOVED_BACK}, {"stack", op_stack, MOVED | MOVED_BACK},
    {"split", op_split, MOVED | MOVED_BACK}, {"transpose", op_transpose, MOVED | MOVED_BACK},
    {"reshape", op_reshape, MOVED | MOVED_BACK},
    {"slice", op_slice, MOVED | MOVED_BACK}, {"strided_slice", op_strided_slice, MOVED | MOVED_BACK}, {"pad", op_pad, MOVED},
    {"gather", op_gather, MOVED},
    {"one_hot", op_one_hot, MOVED}, {"tile", op_tile, MOVED},
#define ROW(name) {#name, op_##name, 0},
    LK_UNARY_LIST(ROW) LK_BINARY_LIST(ROW) LK_REDUCE_LIST(ROW)
#undef ROW
};
/* clang-format on */

static int find_op(const char *name)
{
    if (name && find_loss(name) >= 0) return 0;
    for (int i = 1; name && i < LKI_COUNT(OPS); i++)
        if (strcmp(OPS[i].name, name) == 0) return i;
    return -1;
}

/* ---- running a case ---------------------------------------------------------------------------------------------------------- */

/* inputs and upstream gradients to outputs and gradients: run as it is, and traced. */
static lk_tuple run_op(lk_tuple in_and_dy, void *user)
{
    op_call   *k = user;
    const int  op = find_op(json_string_value(json_object_get(k->c->json, "op")));
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *result[3 * MAX_ARRAYS] = {0}, *source[MAX_ARRAYS], *target[MAX_ARRAYS], *upstream[MAX_ARRAYS];
    for (int i = 0; i < k->inputs; i++)
        k->input[i] = in_and_dy.item[i];
    for (int i = 0; i < k->gradients; i++) {
        source[i] = in(k, name_at(k, "gradients", i));
        lk_tape_watch(tape, source[i]);
    }
    golden.products = OPS[op].kind & PRODUCTS;
    const lk_tuple y = OPS[op].fn(k);
    if (y.count != k->outputs) miss(k->c, "%d outputs: should be %d", y.count, k->outputs);
    for (int i = 0; i < k->outputs; i++)
        result[i] = i < y.count ? y.item[i] : NULL;
    for (int i = 0; i < k->upstreams; i++) {
        target[i] = result[lki_max(0, place_of(k, "outputs", name_at(k, "upstream", i) + 1))];
        upstream[i] = in_and_dy.item[k->inputs + i];
    }
    lk_tuple d = {0};
    if (k->gradients && !k->c->why[0])
        d = lk_tape_gradient_of_all(tape, tuple_of(k->upstreams, target), tuple_of(k->gradients, source),
                                    tuple_of(k->upstreams, upstream));
    lk_tape_end(tape);
    for (int i = 0; i < k->gradients; i++) {
        lk_tensor *g = i < d.count ? d.item[i] : NULL;
        result[k->outputs + i] = g ? g : lk_zeros(lk_tensor_shape(source[i]), LK_F32); /* none is stored as zeros */
    }
    return tuple_of(k->outputs + k->gradients, result);
}

static void check_op(op_call *k, int op)
{
    test_case *c = k->c;
    json_t    *noise = json_object_get(c->json, "noise");
    lk_tensor *all[2 * MAX_ARRAYS];
    for (int i = 0; i < k->inputs; i++)
        all[i] = stored(c, name_at(k, "inputs", i));
    for (int i = 0; i < k->upstreams; i++)
        all[k->inputs + i] = stored(c, name_at(k, "upstream", i));
    if (!sound(c, "reading")) return;
    const lk_tuple eager = run_op(tuple_of(k->inputs + k->upstreams, all), k);
    for (int i = 0; i < k->outputs + k->gradients && !c->why[0]; i++) {
        char       name[64];
        const bool back = i >= k->outputs;
        snprintf(name, sizeof name, "%s%s", back ? "d_" : "",
                 back ? name_at(k, "gradients", i - k->outputs) : name_at(k, "outputs", i));
        compare(c, name, eager.item[i], stored(c, name), json_number_value(json_object_get(noise, name)),
                OPS[op].kind & (back ? MOVED_BACK : MOVED));
    }
    if (c->why[0]) return;
    lk_function   *f = lk_function_of(run_op, .user = k, .name = c->name);
    const lk_tuple compiled = lk_call(f, tuple_of(k->inputs + k->upstreams, all));
    if (!sound(c, "compiled")) return;
    for (int i = 0; i < k->outputs + k->gradients; i++)
        compare_bits(c, i < k->outputs ? "an output" : "a gradient", eager.item[i], compiled.item[i]);
    lk_free(f);
}

static void run_ops(void)
{
    json_t *cases = load_json(path_of("ops", "cases", ".json")), *one;
    size_t  i;
    json_array_foreach(cases, i, one)
    {
        test_case   c;
        const char *name = json_string_value(json_object_get(one, "name")), *op = json_string_value(json_object_get(one, "op"));
        if (!name || !case_begin(&c, "ops", name, one)) continue;
        op_call   k = {.c = &c,
                       .inputs = (int)json_array_size(json_object_get(one, "inputs")),
                       .outputs = (int)json_array_size(json_object_get(one, "outputs")),
                       .upstreams = (int)json_array_size(json_object_get(one, "upstream")),
                       .gradients = (int)json_array_size(json_object_get(one, "gradients"))};
        const int row = find_op(op);
        c.attributes = json_object_get(one, "attributes");
        if (row < 0) miss(&c, "operation %s is not known here", op ? op : "(none)");
        else if (k.inputs > MAX_ARRAYS || k.outputs > MAX_ARRAYS) miss(&c, "more than %d arrays", MAX_ARRAYS);
        else if (case_arrays(&c, path_of("ops", name, ".npz")))
            LK_POOL {
                check_op(&k, row);
            }
        if (row < 0) c.attributes = NULL;
        case_end(&c);
    }
    json_decref(cases);
}

#endif
