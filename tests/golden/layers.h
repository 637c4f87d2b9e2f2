/* Models of train/: from spec.json's "model", a list of layers, to ops.
 *
 * A model is a chain, or a graph if a layer says with "from" whose outputs it reads. Keras stores the weights of a chain in the
 * order of the list and those of a graph in the order of depth; there each layer finds its own by their paths, which begin with its
 * name. A layer of a graph that its output does not depend on is not part of it, neither here nor in Keras. */
#ifndef LK_TESTS_GOLDEN_LAYERS_H
#define LK_TESTS_GOLDEN_LAYERS_H

#include "golden.h"
#include "ops.h"

typedef struct member { /* a layer */
    json_t     *json;
    const char *name;           /* NULL: it has none, which chains allow */
    int         inputs, *input; /* whose outputs it takes; -1: the rows of the data */
    bool        used;           /* the model's output depends on it */
    lk_tensor  *output;         /* of the call that is made */
} member;

typedef struct net {
    test_case    *c;
    bool          graph;
    int           count;
    member       *member;
    const member *at; /* the layer that is run */
    int           weights;
    lk_variable **weight;  /* in Keras' order */
    bool         *taken;   /* by the layers so far */
    lk_tensor    *penalty; /* of the regularisers, so far */
    json_t       *parts;   /* not NULL: how many rows of these each of several replicas had */
} net;

/* ---- the list ---------------------------------------------------------------------------------------------------------------- */

static const char *kind_of(const member *m)
{
    const char *kind = json_string_value(json_object_get(m->json, "layer"));
    return kind ? kind : "(none)";
}

static const char *title_of(const member *m) { return m->name ? m->name : kind_of(m); }

/* The last layer of this name before layer i. */
static int find_member(const net *n, int i, const char *name)
{
    while (--i >= 0 && (!name || !n->member[i].name || strcmp(n->member[i].name, name) != 0)) {}
    return i;
}

/* Without names in "from" a layer takes the output of the one before it. */
static void read_inputs(net *n, int i)
{
    member *m = &n->member[i];
    json_t *from = json_object_get(m->json, "from"), *name;
    size_t  k;
    m->inputs = (int)lki_max(1, (int64_t)json_array_size(from));
    m->input = calloc((size_t)m->inputs, sizeof *m->input);
    m->input[0] = i - 1;
    if (from && !json_is_array(from)) GIVE_UP(n->c, "layer %s has no inputs: \"from\" should be a list of names", title_of(m));
    json_array_foreach(from, k, name)
    {
        const char *text = json_string_value(name);
        m->input[k] = find_member(n, i, text);
        if (m->input[k] < 0)
            GIVE_UP(n->c, "layer %s takes the output of %s, which is no layer before it", title_of(m), text ? text : "(no name)");
    }
}

/* What the output depends on; all of that has a name of its own. */
static void find_used(net *n)
{
    n->member[n->count - 1].used = true;
    for (int i = n->count - 1; i >= 0; i--) {
        const member *m = &n->member[i];
        if (!m->used) continue;
        if (!m->name) GIVE_UP(n->c, "layer %d, %s, has no name", i, kind_of(m));
        for (int k = i + 1; k < n->count; k++)
            if (n->member[k].used && strcmp(n->member[k].name, m->name) == 0) GIVE_UP(n->c, "two layers are named %s", m->name);
        for (int k = 0; k < m->inputs; k++)
            if (m->input[k] >= 0) n->member[m->input[k]].used = true;
    }
}

static void read_net(net *n, json_t *layers)
{
    json_t *layer;
    size_t  i;
    n->count = (int)json_array_size(layers);
    n->member = calloc((size_t)n->count + 1, sizeof *n->member);
    json_array_foreach(layers, i, layer)
    {
        n->member[i] = (member){.json = layer, .name = json_string_value(json_object_get(layer, "name"))};
        n->graph = n->graph || json_object_get(layer, "from");
        if (!n->c->why[0]) read_inputs(n, (int)i);
    }
    for (int k = 0; k < n->count; k++)
        n->member[k].used = !n->graph;
    if (!n->count) miss(n->c, "the model has no layers");
    else if (n->graph && !n->c->why[0]) find_used(n);
}

static void free_net(net *n)
{
    for (int i = 0; i < n->count; i++)
        free(n->member[i].input);
    free(n->member);
    free(n->weight);
    free(n->taken);
}

/* ---- weights ----------------------------------------------------------------------------------------------------------------- */

static bool is_own(const net *n, const lk_variable *v)
{
    const char  *path = lk_variable_name(v);
    const size_t length = n->graph ? strlen(n->at->name) : 0;
    return !n->graph || (strncmp(path, n->at->name, length) == 0 && path[length] == '/');
}

static lk_variable *next_weight(net *n)
{
    for (int i = 0; i < n->weights; i++)
        if (!n->taken[i] && is_own(n, n->weight[i])) return n->taken[i] = true, n->weight[i];
    miss(n->c, "layer %s needs more weights than there are", title_of(n->at));
    return NULL;
}

/* After a call. */
static void check_taken(const net *n)
{
    for (int i = 0; i < n->weights; i++)
        if (!n->taken[i]) miss(n->c, "no layer takes weight %s", lk_variable_name(n->weight[i]));
}

static lk_tensor *kernel_of(net *n)
{
    lk_tensor *w = lk_read(next_weight(n));
    attribute(n->c, "l2");
    if (!json_object_get(n->at->json, "l2")) return w;
    lk_tensor *cost = lk_nn_l2(w, has(n->c, "l2") ? real(n->c, "l2") : 0.01); /* that is what null is to Keras */
    n->penalty = n->penalty ? lk_add(n->penalty, cost) : cost;
    return w;
}

static lk_tensor *bias_of(net *n) { return on_off(n->c, "use_bias") == LK_OFF ? NULL : lk_read(next_weight(n)); }

static lk_tensor *layer_dense(net *n, lk_tensor *x)
{
    lk_tensor *kernel = kernel_of(n), *bias = bias_of(n);
    return lk_nn_dense(x, kernel, bias, activation(n->c, "activation"));
}

static lk_conv_args layer_conv(net *n, lk_tensor *x)
{
    return (lk_conv_args){.x = x,
                          .kernel = kernel_of(n),
                          .strides = axes(n->c, "strides"),
                          .padding = padding(n->c),
                          .activation = activation(n->c, "activation")};
}

static lk_tensor *layer_conv2d(net *n, lk_tensor *x)
{
    lk_conv_args a = layer_conv(n, x);
    a.bias = bias_of(n);
    return lk_nn_conv2d_kw(a);
}

static lk_tensor *layer_depthwise(net *n, lk_tensor *x)
{
    lk_conv_args a = layer_conv(n, x);
    a.bias = bias_of(n);
    a.activation = LK_LINEAR; /* Keras' layer was not given one */
    return lk_nn_depthwise_conv2d_kw(a);
}

static lk_tensor *layer_separable(net *n, lk_tensor *x)
{
    lk_conv_args a = layer_conv(n, x);
    a.pointwise = lk_read(next_weight(n));
    a.bias = bias_of(n);
    return lk_nn_separable_conv2d_kw(a);
}

static lk_tensor *rows_between(lk_tensor *x, int64_t first, int64_t count)
{
    int64_t begin[LK_MAX_RANK] = {first}, size[LK_MAX_RANK] = {count};
    for (int i = 1; i < lk_rank(x); i++)
        size[i] = lk_dim(x, i);
    return lk_slice(x, lk_axes_from(lk_rank(x), begin), lk_axes_from(lk_rank(x), size));
}

/* Rows of each replica by themselves; y and the mean of the moving mean and variance that each has then. */
static lk_tuple norm_parts(const net *n, lk_norm_args a)
{
    lk_tensor **y = calloc(json_array_size(n->parts), sizeof *y), *x = a.x, *moved[2] = {0};
    json_t     *size;
    size_t      k;
    int         count = 0;
    int64_t     row = 0;
    json_array_foreach(n->parts, k, size)
    {
        const int64_t own = json_integer_value(size);
        if (!own) continue;
        a.x = rows_between(x, row, own);
        const lk_tuple part = lk_nn_batch_norm_kw(a);
        for (int i = 0; i < 2; i++)
            moved[i] = moved[i] ? lk_add(moved[i], part.item[i + 1]) : part.item[i + 1];
        y[count++] = part.item[0];
        row += own;
    }
    const lk_tuple joined = lk_tuple_from(count, y);
    lk_tensor     *number_of = lk_scalar(count);
    free(y);
    return LK_TUPLE(lk_concat(joined, 0), lk_div(moved[0], number_of), lk_div(moved[1], number_of));
}

/* In Keras each replica normalises its own rows by themselves. */
static lk_tensor *layer_batch_norm(net *n, lk_tensor *x)
{
    lk_variable       *gamma = next_weight(n), *beta = next_weight(n), *mean = next_weight(n), *variance = next_weight(n);
    const lk_norm_args a = {.x = x,
                            .gamma = lk_read(gamma),
                            .beta = lk_read(beta),
                            .moving_mean = lk_read(mean),
                            .moving_variance = lk_read(variance),
                            .momentum = number(n->c, "momentum"),
                            .epsilon = number(n->c, "epsilon"),
                            .training = LK_ON,
                            .synchronized = LK_OFF};
    const lk_tuple     y = n->parts ? norm_parts(n, a) : lk_nn_batch_norm_kw(a);
    lk_assign(mean, y.item[1]);
    lk_assign(variance, y.item[2]);
    return y.item[0];
}

static lk_tensor *layer_layer_norm(net *n, lk_tensor *x)
{
    lk_variable *gamma = next_weight(n), *beta = next_weight(n);
    return lk_nn_layer_norm(x, .gamma = lk_read(gamma), .beta = lk_read(beta));
}

static lk_tensor *layer_embedding(net *n, lk_tensor *x)
{
    if (lki_is_float(lk_tensor_dtype(x))) x = lk_cast(x, LK_I32);
    return lk_nn_embedding(x, lk_read(next_weight(n)));
}

static lk_rnn_args layer_rnn(net *n, lk_tensor *x)
{
    lk_tensor *kernel = kernel_of(n), *recurrent = lk_read(next_weight(n)), *bias = bias_of(n);
    return (lk_rnn_args){.x = x, .kernel = kernel, .recurrent = recurrent, .bias = bias};
}

static lk_tensor *layer_lstm(net *n, lk_tensor *x) { return lk_nn_lstm_kw(layer_rnn(n, x)); }
static lk_tensor *layer_gru(net *n, lk_tensor *x) { return lk_nn_gru_kw(layer_rnn(n, x)); }
static lk_tensor *layer_relu(net *n, lk_tensor *x) { return (void)n, lk_relu(x); }
static lk_tensor *layer_flatten(net *n, lk_tensor *x) { return (void)n, lk_flatten_rows(x); }
static lk_tensor *layer_max_pool(net *n, lk_tensor *x) { return (void)n, lk_nn_max_pool2d(x); }
static lk_tensor *layer_avg_pool(net *n, lk_tensor *x) { return (void)n, lk_nn_avg_pool2d(x); }
static lk_tensor *layer_global_avg(net *n, lk_tensor *x) { return (void)n, lk_nn_global_avg_pool(x); }

/* Of different ranks, rows get axes of size 1 in front. */
static lk_tensor *merge_add(lk_tuple in)
{
    lk_tensor *sum = NULL;
    int        rank = 0;
    for (int i = 0; i < in.count; i++)
        rank = (int)lki_max(rank, lk_rank(in.item[i]));
    for (int i = 0; i < in.count; i++) {
        lk_tensor *x = in.item[i];
        for (int more = rank - lk_rank(x); more > 0; more--)
            x = lk_expand_dims(x, 1);
        sum = sum ? lk_add(sum, x) : x;
    }
    return sum;
}

static lk_tensor *merge_concat(lk_tuple in) { return lk_concat(in, -1); }

static const struct {
    const char *name;
    lk_tensor *(*fn)(net *n, lk_tensor *x);
} LAYERS[] = {{"dense", layer_dense},
              {"conv2d", layer_conv2d},
              {"depthwise_conv2d", layer_depthwise},
              {"separable_conv2d", layer_separable},
              {"batch_norm", layer_batch_norm},
              {"layer_norm", layer_layer_norm},
              {"embedding", layer_embedding},
              {"lstm", layer_lstm},
              {"gru", layer_gru},
              {"relu", layer_relu},
              {"flatten", layer_flatten},
              {"max_pool2d", layer_max_pool},
              {"avg_pool2d", layer_avg_pool},
              {"global_avg_pool2d", layer_global_avg}};

static const struct {
    const char *name;
    lk_tensor *(*fn)(lk_tuple in); /* of several inputs */
} MERGES[] = {{"add", merge_add}, {"concat", merge_concat}};

/* ---- a call ------------------------------------------------------------------------------------------------------------------ */

static lk_tuple inputs_of(const net *n, const member *m, lk_tensor *rows)
{
    lk_tensor **in = calloc((size_t)m->inputs, sizeof *in);
    for (int k = 0; k < m->inputs; k++)
        in[k] = m->input[k] < 0 ? rows : n->member[m->input[k]].output;
    const lk_tuple t = lk_tuple_from(m->inputs, in);
    free(in);
    return t;
}

static lk_tensor *apply_layer(net *n, lk_tuple in)
{
    const char *kind = kind_of(n->at);
    for (int i = 0; i < LKI_COUNT(LAYERS); i++)
        if (strcmp(LAYERS[i].name, kind) == 0 && in.count == 1) return LAYERS[i].fn(n, in.item[0]);
    for (int i = 0; i < LKI_COUNT(MERGES); i++)
        if (strcmp(MERGES[i].name, kind) == 0 && in.count > 1) return MERGES[i].fn(in);
    miss(n->c, "layer %s: %s of %d input%s is not known here", title_of(n->at), kind, in.count, in.count == 1 ? "" : "s");
    return NULL;
}

/* What layers may have besides use_bias and l2; a kind that has no such option ignores it, as the script does. */
static lk_tensor *run_layer(net *n, const member *m, lk_tensor *rows)
{
    static const char *const KEYS[] = {"layer",   "name",    "from",     "units",   "filters", "kernel",
                                       "strides", "padding", "momentum", "epsilon", "rows",    "activation"};
    const scope              outer = scope_begin(n->c, m->json);
    n->at = m;
    for (int i = 0; i < LKI_COUNT(KEYS); i++)
        attribute(n->c, KEYS[i]);
    lk_tensor *y = apply_layer(n, inputs_of(n, m, rows));
    scope_end(n->c, outer, title_of(m));
    sound(n->c, title_of(m));
    return y;
}

/* The output; NULL where there is none, with a reason. */
static lk_tensor *run_net(net *n, lk_tensor *rows)
{
    lk_tensor *y = NULL;
    n->penalty = NULL;
    memset(n->taken, 0, (size_t)n->weights * sizeof *n->taken);
    for (int i = 0; i < n->count && !n->c->why[0]; i++)
        if (n->member[i].used) y = n->member[i].output = run_layer(n, &n->member[i], rows);
    if (!n->c->why[0]) check_taken(n);
    return n->c->why[0] ? NULL : y;
}

#endif
