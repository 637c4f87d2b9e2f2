/* Layers of the models in train/: from an entry of spec.json's "model" to ops, with the weights in Keras' order. */
#ifndef LK_TESTS_GOLDEN_LAYERS_H
#define LK_TESTS_GOLDEN_LAYERS_H

#include "golden.h"
#include "ops.h"

enum { MAX_WEIGHTS = 64 };

typedef struct net {
    test_case   *c;
    int          weights, used; /* used: how many the layers so far have taken */
    lk_variable *weight[MAX_WEIGHTS];
    lk_tensor   *penalty; /* of the regularisers, so far */
} net;

/* ---- layers ------------------------------------------------------------------------------------------------------------------ */

static lk_variable *next_weight(net *n)
{
    if (n->used < n->weights) return n->weight[n->used++];
    miss(n->c, "the model needs more than the %d weights there are", n->weights);
    return n->weight[0];
}

static lk_tensor *kernel_of(net *n)
{
    lk_tensor *w = lk_read(next_weight(n));
    if (!has(n->c, "l2")) return w;
    lk_tensor *cost = lk_nn_l2(w, real(n->c, "l2"));
    n->penalty = n->penalty ? lk_add(n->penalty, cost) : cost;
    return w;
}

static lk_tensor *bias_of(net *n) { return on_off(n->c, "use_bias") == LK_OFF ? NULL : lk_read(next_weight(n)); }

static lk_tensor *layer_dense(net *n, lk_tensor *x)
{
    lk_tensor *kernel = kernel_of(n), *bias = bias_of(n);
    attribute(n->c, "units");
    return lk_nn_dense(x, kernel, bias, activation(n->c, "activation"));
}

static lk_conv_args layer_conv(net *n, lk_tensor *x)
{
    lk_conv_args a = {.x = x,
                      .kernel = kernel_of(n),
                      .strides = axes(n->c, "strides"),
                      .padding = padding(n->c),
                      .activation = activation(n->c, "activation")};
    attribute(n->c, "filters");
    attribute(n->c, "kernel");
    return a;
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
    return lk_nn_depthwise_conv2d_kw(a);
}

static lk_tensor *layer_separable(net *n, lk_tensor *x)
{
    lk_conv_args a = layer_conv(n, x);
    a.pointwise = lk_read(next_weight(n));
    a.bias = bias_of(n);
    return lk_nn_separable_conv2d_kw(a);
}

static lk_tensor *layer_batch_norm(net *n, lk_tensor *x)
{
    lk_variable   *gamma = next_weight(n), *beta = next_weight(n), *mean = next_weight(n), *variance = next_weight(n);
    const lk_tuple y = lk_nn_batch_norm_kw((lk_norm_args){.x = x,
                                                          .gamma = lk_read(gamma),
                                                          .beta = lk_read(beta),
                                                          .moving_mean = lk_read(mean),
                                                          .moving_variance = lk_read(variance),
                                                          .momentum = number(n->c, "momentum"),
                                                          .epsilon = number(n->c, "epsilon"),
                                                          .training = LK_ON});
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
    attribute(n->c, "rows");
    attribute(n->c, "units");
    return lk_nn_embedding(x, lk_read(next_weight(n)));
}

static lk_rnn_args layer_rnn(net *n, lk_tensor *x)
{
    lk_tensor *kernel = kernel_of(n), *recurrent = lk_read(next_weight(n)), *bias = bias_of(n);
    attribute(n->c, "units");
    return (lk_rnn_args){.x = x, .kernel = kernel, .recurrent = recurrent, .bias = bias};
}

static lk_tensor *layer_lstm(net *n, lk_tensor *x) { return lk_nn_lstm_kw(layer_rnn(n, x)); }
static lk_tensor *layer_gru(net *n, lk_tensor *x) { return lk_nn_gru_kw(layer_rnn(n, x)); }
static lk_tensor *layer_relu(net *n, lk_tensor *x) { return (void)n, lk_relu(x); }
static lk_tensor *layer_flatten(net *n, lk_tensor *x) { return (void)n, lk_flatten_rows(x); }
static lk_tensor *layer_max_pool(net *n, lk_tensor *x) { return (void)n, lk_nn_max_pool2d(x); }
static lk_tensor *layer_avg_pool(net *n, lk_tensor *x) { return (void)n, lk_nn_avg_pool2d(x); }
static lk_tensor *layer_global_avg(net *n, lk_tensor *x) { return (void)n, lk_nn_global_avg_pool(x); }

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

static lk_tensor *run_layer(net *n, json_t *layer, lk_tensor *x)
{
    const scope outer = scope_begin(n->c, layer);
    const char *name = json_string_value(attribute(n->c, "layer"));
    int         i = 0;
    attribute(n->c, "name");
    while (name && i < LKI_COUNT(LAYERS) && strcmp(LAYERS[i].name, name) != 0)
        i++;
    if (!name || i == LKI_COUNT(LAYERS)) miss(n->c, "layer %s is not known here", name ? name : "(none)");
    else x = LAYERS[i].fn(n, x);
    scope_end(n->c, outer, name ? name : "layer");
    return x;
}

#endif
