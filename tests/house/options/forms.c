/* Options in the forms in which people write them: each form does what it says, zero included (lockstep/base.h). A row has the
 * natural form, one that says the same by marks in a struct (as older programs wrote it), and one that leaves the option out and
 * must differ.
 *
 * options.sh compiles this with every C compiler there is, with warnings as errors and without any. Public headers only. */
#include <lockstep.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int forms, wrong;

static void report(int line, const char *form, const char *what)
{
    wrong++;
    printf("forms.c:%d: %s: %s%s%s\n", line, form, what, lk_failed() ? ": " : "", lk_failed() ? lk_error() : "");
    lk_clear_error();
}

/* ---- layers: by their config ---- */

static const char *config_of(lk_layer *l)
{
    lk_model *m = lk_sequential(l);
    return m ? lk_model_to_json(m) : NULL;
}

static void layer(int line, const char *form, lk_layer *natural, lk_layer *marked, lk_layer *without)
{
    const char *a = config_of(natural), *b = config_of(marked), *c = config_of(without);
    forms++;
    if (!a || !b || !c) report(line, form, "cannot be made");
    else if (strcmp(a, b)) report(line, form, a);
    else if (!strcmp(a, c)) report(line, form, "is the default");
}
#define LAYER(natural, marked, without) layer(__LINE__, #natural, natural, marked, without)

/* ---- tensors: by their values ---- */

static bool same(lk_tensor *a, lk_tensor *b)
{
    return lk_size(a) == lk_size(b) && lk_rank(a) == lk_rank(b) &&
           !memcmp(lk_data(a), lk_data(b), (size_t)lk_size(a) * lk_dtype_bytes(lk_tensor_dtype(a)));
}

static void tensor(int line, const char *form, lk_tensor *natural, lk_tensor *marked, lk_tensor *without)
{
    forms++;
    if (lk_poisoned(natural) || lk_poisoned(marked) || lk_poisoned(without)) report(line, form, "cannot be computed");
    else if (!same(natural, marked)) report(line, form, "gives something else");
    else if (same(natural, without)) report(line, form, "is the default");
}
#define TENSOR(natural, marked, without) tensor(__LINE__, #natural, natural, marked, without)

/* ---- optimisers: by what three steps make of a variable ---- */

static lk_tensor *trained(lk_optimizer *o)
{
    lk_variable *v = lk_variable_of(lk_tensor_of(LK_SHAPE(4), 1, -2, 3, 0.5));
    for (int i = 0; o && i < 3; i++) {
        lk_tape   *tape = lk_tape_begin();
        lk_tensor *loss = lk_reduce_sum(lk_mul(lk_square(lk_read(v)), lk_scalar(i + 1)));
        lk_optimizer_apply(o, lk_tape_gradient(tape, loss, LK_VARIABLES(v)));
    }
    return o ? lk_read(v) : NULL;
}
#define OPTIMIZER(natural, marked, without) tensor(__LINE__, #natural, trained(natural), trained(marked), trained(without))

/* ---- what must be reported ---- */

static void refused(int line, const char *form, const void *made, const char *because)
{
    forms++;
    if (made || !lk_failed()) report(line, form, "is taken without a word");
    else if (!strstr(lk_error(), because)) report(line, form, "another reason");
    lk_clear_error();
}
#define REFUSED(natural, because) refused(__LINE__, #natural, natural, because)

static void number(int line, const char *form, double is, double should)
{
    forms++;
    if (is != should) report(line, form, "gives something else");
}
#define NUMBER(form, should) number(__LINE__, #form, form, should)

static void layers(void)
{
    const int    zero = 0, two = 2;
    const double none = 0;
    /* switches */
    LAYER(lk_dense(8, .use_bias = false), lk_dense(8, .use_bias = LK_OFF), lk_dense(8));
    LAYER(lk_dense(8, .use_bias = 0), lk_dense(8, .use_bias = LK_OFF), lk_dense(8));
    LAYER(lk_dense(8, .use_bias = zero), lk_dense(8, .use_bias = LK_OFF), lk_dense(8));
    LAYER(lk_dense(8, .use_bias = zero != 0), lk_dense(8, .use_bias = LK_OFF), lk_dense(8));
    LAYER(lk_dense(8, .activation = LK_RELU, .trainable = 0), lk_dense(8, .activation = LK_RELU, .trainable = LK_OFF),
          lk_dense(8, .activation = LK_RELU));
    LAYER(lk_dense(8, .trainable = false, .name = "a, .b = 1"), lk_dense(8, .trainable = LK_OFF, .name = "a, .b = 1"),
          lk_dense(8, .name = "a, .b = 1"));
    LAYER(lk_conv2d(4, 3, .use_bias = false), lk_conv2d(4, 3, .use_bias = LK_OFF), lk_conv2d(4, 3));
    LAYER(lk_batch_normalization(.center = 0), lk_batch_normalization(.center = LK_OFF), lk_batch_normalization());
    LAYER(lk_batch_normalization(.scale = false), lk_batch_normalization(.scale = LK_OFF), lk_batch_normalization());
    LAYER(lk_lstm(4, .unit_forget_bias = false), lk_lstm(4, .unit_forget_bias = LK_OFF), lk_lstm(4));
    LAYER(lk_gru(4, .reset_after = 0), lk_gru(4, .reset_after = LK_OFF), lk_gru(4));
    LAYER(lk_lstm(4, .return_sequences = true), lk_lstm(4, .return_sequences = LK_ON), lk_lstm(4));
    LAYER(lk_lstm(4, .return_sequences = two), lk_lstm(4, .return_sequences = LK_ON), lk_lstm(4));
    LAYER(lk_simple_rnn(4, .go_backwards = 1), lk_simple_rnn(4, .go_backwards = LK_ON), lk_simple_rnn(4));
    LAYER(lk_multi_head_attention(2, 4, .use_bias = false), lk_multi_head_attention(2, 4, .use_bias = LK_OFF),
          lk_multi_head_attention(2, 4));
    LAYER(lk_global_average_pooling2d(.keepdims = true), lk_global_average_pooling2d(.keepdims = LK_ON),
          lk_global_average_pooling2d());
    /* numbers */
    LAYER(lk_batch_normalization(.momentum = 0.5), lk_batch_normalization(.momentum = LK_NUMBER(0.5)), lk_batch_normalization());
    LAYER(lk_batch_normalization(.momentum = 0), lk_batch_normalization(.momentum = LK_NUMBER(0)), lk_batch_normalization());
    LAYER(lk_batch_normalization(.momentum = 1), lk_batch_normalization(.momentum = LK_NUMBER(1)), lk_batch_normalization());
    LAYER(lk_batch_normalization(0), lk_batch_normalization(.momentum = LK_NUMBER(0)), lk_batch_normalization());
    LAYER(lk_batch_normalization(.momentum = none), lk_batch_normalization(.momentum = LK_NUMBER(0)), lk_batch_normalization());
    LAYER(lk_batch_normalization(.epsilon = 1e-5), lk_batch_normalization(.epsilon = LK_NUMBER(1e-5)), lk_batch_normalization());
    LAYER(lk_batch_normalization(.epsilon = 1e-5, .center = false),
          lk_batch_normalization(.epsilon = LK_NUMBER(1e-5), .center = LK_OFF), lk_batch_normalization());
    LAYER(lk_layer_normalization(.epsilon = 0), lk_layer_normalization(.epsilon = LK_NUMBER(0)), lk_layer_normalization());
    LAYER(lk_leaky_relu_layer(0.1), lk_leaky_relu_layer(LK_NUMBER(0.1)), lk_leaky_relu_layer());
    LAYER(lk_leaky_relu_layer(0.1, .name = "a"), lk_leaky_relu_layer(LK_NUMBER(0.1), .name = "a"),
          lk_leaky_relu_layer(.name = "a"));
    LAYER(lk_leaky_relu_layer(0), lk_leaky_relu_layer(LK_NUMBER(0)), lk_leaky_relu_layer());
    LAYER(lk_relu_layer(.max_value = 6), lk_relu_layer(.max_value = LK_NUMBER(6)), lk_relu_layer());
    LAYER(lk_relu_layer(.max_value = 0), lk_relu_layer(.max_value = LK_NUMBER(0)), lk_relu_layer());
    LAYER(lk_dropout(0.5, .seed = 0), lk_dropout(0.5, .seed = LK_NUMBER(0)), lk_dropout(0.5));
    LAYER(lk_dropout(0.5, 7), lk_dropout(0.5, .seed = LK_NUMBER(7)), lk_dropout(0.5));
    LAYER(lk_dense(8, .kernel_initializer = lk_init_random_normal(.stddev = 0)),
          lk_dense(8, .kernel_initializer = lk_init_random_normal(.stddev = LK_NUMBER(0))),
          lk_dense(8, .kernel_initializer = lk_init_random_normal()));
    LAYER(lk_dense(8, .kernel_initializer = lk_init_random_uniform(.minval = 0, .maxval = 1)),
          lk_dense(8, .kernel_initializer = lk_init_random_uniform(.minval = LK_NUMBER(0), .maxval = LK_NUMBER(1))),
          lk_dense(8, .kernel_initializer = lk_init_random_uniform()));
    LAYER(lk_dense(8, .kernel_constraint = lk_max_norm(3)), lk_dense(8, .kernel_constraint = lk_max_norm(LK_NUMBER(3))),
          lk_dense(8, .kernel_constraint = lk_max_norm()));
    LAYER(lk_dense(8, .kernel_constraint = lk_min_max_norm(.rate = 0.5)),
          lk_dense(8, .kernel_constraint = lk_min_max_norm(.rate = LK_NUMBER(0.5))),
          lk_dense(8, .kernel_constraint = lk_min_max_norm()));
    LAYER(lk_group_normalization(4), lk_group_normalization(.groups = LK_INTEGER(4)), lk_group_normalization());
    LAYER(lk_depthwise_conv2d(3, .depth_multiplier = 2), lk_depthwise_conv2d(3, .depth_multiplier = LK_INTEGER(2)),
          lk_depthwise_conv2d(3));
    LAYER(lk_multi_head_attention(2, 4, .value_dim = 3), lk_multi_head_attention(2, 4, .value_dim = LK_INTEGER(3)),
          lk_multi_head_attention(2, 4));
    /* axes and sizes */
    LAYER(lk_conv2d(4, 3, .strides = 2), lk_conv2d(4, 3, .strides = LK_AXES(2)), lk_conv2d(4, 3));
    LAYER(lk_conv2d(4, .kernel_shape = LK_AXES(3, 5), .dilation = two),
          lk_conv2d(4, .kernel_shape = LK_AXES(3, 5), .dilation = LK_AXES(2)), lk_conv2d(4, .kernel_shape = LK_AXES(3, 5)));
    LAYER(lk_max_pooling2d(3), lk_max_pooling2d(LK_AXES(3, 3)), lk_max_pooling2d());
    LAYER(lk_max_pooling2d(.pool_size = 2, .strides = 1), lk_max_pooling2d(.pool_size = LK_AXES(2), .strides = LK_AXES(1)),
          lk_max_pooling2d());
    LAYER(lk_zero_padding2d(0), lk_zero_padding2d(LK_AXES(0)), lk_zero_padding2d());
    LAYER(lk_zero_padding2d(.border = 3), lk_zero_padding2d(.border = LK_AXES(3)), lk_zero_padding2d());
    LAYER(lk_zero_padding2d(LK_AXES(5000, 0, 5000, 70000)), lk_zero_padding2d(.border = LK_AXES(5000, 0, 5000, 70000)),
          lk_zero_padding2d());
    LAYER(lk_cropping2d(LK_AXES(1, 2)), lk_cropping2d(.border = LK_AXES(1, 1, 2, 2)), lk_cropping2d());
    LAYER(lk_up_sampling2d(3), lk_up_sampling2d(LK_AXES(3, 3)), lk_up_sampling2d());
    LAYER(lk_softmax_layer(.axis = 1), lk_softmax_layer(.axis = LK_AXIS(1)), lk_softmax_layer());
    LAYER(lk_concatenate(.axis = 1), lk_concatenate(.axis = LK_AXIS(1)), lk_concatenate());
    LAYER(lk_layer_normalization(.axis = 1), lk_layer_normalization(.axis = LK_AXES(1)), lk_layer_normalization());
    LAYER(lk_dense(8, .use_bias = (lk_switch) false), lk_dense(8, .use_bias = LK_OFF), lk_dense(8));
    LAYER(lk_batch_normalization(.momentum = zero ? (lk_number){0.5} : 0), lk_batch_normalization(.momentum = LK_NUMBER(0)),
          lk_batch_normalization());
    LAYER(lk_dense(8, .input_shape.rank = 1, .input_shape.dim[0] = 4), lk_dense(8, .input_shape = LK_SHAPE(4)), lk_dense(8));
    LAYER(lk_dense(8, .input_shape = two ? LK_SHAPE(4) : LK_SHAPE(5)), lk_dense(8, .input_shape = LK_SHAPE(4)), lk_dense(8));
    /* left out explicitly */
    LAYER(lk_dropout(0.5, .seed = LK_DEFAULT, .trainable = false), lk_dropout(0.5, .trainable = LK_OFF), lk_dropout(0.5));
    LAYER(lk_dense(8, .use_bias = LK_DEFAULT, .trainable = false), lk_dense(8, .trainable = LK_OFF), lk_dense(8));
    LAYER(lk_batch_normalization(.momentum = (lk_number){0}, .scale = 0), lk_batch_normalization(.scale = LK_OFF),
          lk_batch_normalization());
}

#define QUIET .use_bias = false /* options in a macro of the program's own */
#define QUIET_AND_SMALL .use_bias = false, .strides = 2

static void more_layers(void)
{
    LAYER(lk_dense(8, QUIET), lk_dense(8, .use_bias = LK_OFF), lk_dense(8));
    LAYER(lk_conv2d(4, 3, QUIET_AND_SMALL), lk_conv2d(4, 3, .use_bias = LK_OFF, .strides = LK_AXES(2)), lk_conv2d(4, 3));
    LAYER(lk_time_distributed(lk_dense(4, .use_bias = false)), lk_time_distributed(lk_dense(4, .use_bias = LK_OFF)),
          lk_time_distributed(lk_dense(4)));
    LAYER(lk_bidirectional(lk_lstm(4, .use_bias = 0, .return_sequences = 1)),
          lk_bidirectional(lk_lstm(4, .use_bias = LK_OFF, .return_sequences = LK_ON)), lk_bidirectional(lk_lstm(4)));
    REFUSED(lk_softmax_layer(.axis = 0), "axis 0");
    REFUSED(config_of(lk_dense(1, .input_shape = LK_SHAPE((int64_t)1 << 40, (int64_t)1 << 40))), "2^48");
    REFUSED(lk_concatenate(.axis = 0), "axis 0");
    REFUSED(lk_max_pooling2d(.pool_size = 0), "pool_size");
    REFUSED(lk_group_normalization(.groups = 0), "groups is 0");
    REFUSED(lk_depthwise_conv2d(3, .depth_multiplier = 0), "depth_multiplier is 0");
    REFUSED(lk_adam(.gradient_accumulation_steps = 0), "gradient_accumulation_steps is 0");
    REFUSED(lk_dense(0), "units is 0");
}

static void optimizers(void)
{
    OPTIMIZER(lk_sgd(.learning_rate = 0.1), lk_sgd(LK_NUMBER(0.1)), lk_sgd());
    OPTIMIZER(lk_sgd(0.1), lk_sgd(.learning_rate = LK_NUMBER(0.1)), lk_sgd());
    OPTIMIZER(lk_sgd(.learning_rate = 0), lk_sgd(.learning_rate = LK_NUMBER(0)), lk_sgd());
    OPTIMIZER(lk_sgd(0), lk_sgd(.learning_rate = LK_NUMBER(0)), lk_sgd());
    OPTIMIZER(lk_sgd(.learning_rate = 0.1, .momentum = 0.5, .nesterov = true),
              lk_sgd(LK_NUMBER(0.1), .momentum = 0.5, .nesterov = LK_ON), lk_sgd(0.1, .momentum = 0.5));
    OPTIMIZER(lk_adam(.beta_1 = 0.5), lk_adam(.beta_1 = LK_NUMBER(0.5)), lk_adam());
    OPTIMIZER(lk_adam(.beta_1 = 0), lk_adam(.beta_1 = LK_NUMBER(0)), lk_adam());
    OPTIMIZER(lk_adam(.beta_2 = 0, .epsilon = 1e-3), lk_adam(.beta_2 = LK_NUMBER(0), .epsilon = LK_NUMBER(1e-3)), lk_adam());
    OPTIMIZER(lk_adam(.learning_rate = 0.01, .epsilon = 0.1), lk_adam(.learning_rate = LK_NUMBER(0.01), .epsilon = LK_NUMBER(0.1)),
              lk_adam(.learning_rate = 0.01));
    OPTIMIZER(lk_adamw(.learning_rate = 0.1, .weight_decay = 0), lk_adam(.learning_rate = 0.1), lk_adamw(.learning_rate = 0.1));
    OPTIMIZER(lk_rmsprop(.rho = 0.5), lk_rmsprop(.rho = LK_NUMBER(0.5)), lk_rmsprop());
    OPTIMIZER(lk_adagrad(.initial_accumulator_value = 0), lk_adagrad(.initial_accumulator_value = LK_NUMBER(0)), lk_adagrad());
    OPTIMIZER(lk_ftrl(.learning_rate_power = 0), lk_ftrl(.learning_rate_power = LK_NUMBER(0)), lk_ftrl());
    OPTIMIZER(lk_sgd(.schedule = lk_polynomial_decay(0.05, 2, .end_learning_rate = 0)),
              lk_sgd(.schedule = lk_polynomial_decay(0.05, 2, .end_learning_rate = LK_NUMBER(0))),
              lk_sgd(.schedule = lk_polynomial_decay(0.05, 2)));
    OPTIMIZER(lk_sgd(.schedule = lk_exponential_decay(0.05, 2, .decay_rate = 0.1, .staircase = true)),
              lk_sgd(.schedule = lk_exponential_decay(0.05, 2, .decay_rate = 0.1, .staircase = LK_ON)),
              lk_sgd(.schedule = lk_exponential_decay(0.05, 2, .decay_rate = 0.1)));
}

static lk_tensor *loss_of(lk_loss *l)
{
    lk_tensor *labels = lk_tensor_of(LK_SHAPE(2, 1), 0, 1), *predictions = lk_tensor_of(LK_SHAPE(2, 1), 10, 0.25);
    return lk_loss_call(l, labels, predictions);
}

static lk_tensor *classes(lk_loss *l)
{
    const int64_t label[] = {0, 2};
    return lk_loss_call(l, lk_tensor_from(LK_SHAPE(2), LK_I64, label), lk_tensor_of(LK_SHAPE(2, 3), 0.2, 0.3, 0.5, 0.1, 0.1, 0.8));
}

static lk_tensor *counted(lk_metric *m)
{
    lk_metric_update(m, lk_tensor_of(LK_SHAPE(4), 1, 1, 1, 1), lk_tensor_of(LK_SHAPE(4), 0.1, 0.2, 0.7, 0.6));
    return lk_scalar(lk_metric_result(m));
}

static lk_tensor *ids(lk_dataset *d)
{
    lk_tensor *sum = lk_scalar(0);
    LK_FOR_EACH(e, d)
        sum = lk_keep(lk_add(lk_mul(sum, lk_scalar(10)), lk_cast(e.item[0], LK_F32)));
    return sum;
}

static void ops(void)
{
    lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 3), 1, 2, 3, 4, 5, 60), *row = lk_tensor_of(LK_SHAPE(1, 3, 1), 1, 2, 3);
    const int  first = 0;
    TENSOR(lk_reduce_sum(x, .axis = 1), lk_reduce_sum(x, .axis = LK_AXES(1)), lk_reduce_sum(x));
    TENSOR(lk_reduce_sum(x, .axis = 0), lk_reduce_sum(x, .axis = LK_AXES(0)), lk_reduce_sum(x));
    TENSOR(lk_reduce_sum(x, .axis = -1), lk_reduce_sum(x, .axis = LK_AXES(-1)), lk_reduce_sum(x));
    TENSOR(lk_reduce_sum(x, .axis = first), lk_reduce_sum(x, .axis = LK_AXES(0)), lk_reduce_sum(x));
    TENSOR(lk_reduce_mean(x, 0), lk_reduce_mean(x, LK_AXES(0)), lk_reduce_mean(x));
    TENSOR(lk_reduce_max(x, 0, .keepdims = true), lk_reduce_max(x, LK_AXES(0), .keepdims = LK_ON), lk_reduce_max(x));
    TENSOR(lk_reduce_max(x, .keepdims = 1), lk_reduce_max(x, .keepdims = LK_ON), lk_reduce_max(x));
    TENSOR(lk_reduce_sum(x, .axis = LK_AXES(0, 1), .keepdims = true), lk_reduce_sum(x, .keepdims = LK_ON), lk_reduce_sum(x));
    TENSOR(lk_softmax(x, .axis = 0), lk_softmax(x, .axis = LK_AXIS(0)), lk_softmax(x));
    TENSOR(lk_softmax(x, 0), lk_softmax(x, LK_AXIS(0)), lk_softmax(x));
    REFUSED(lk_poisoned(lk_softmax(x, .axis = LK_AXES(1, 0))) ? NULL : x, "outside rank"); /* a list is not an axis */
    TENSOR(lk_log_softmax(x, .axis = 0), lk_log_softmax(x, .axis = LK_AXIS(0)), lk_log_softmax(x));
    TENSOR(lk_argmax(x, .axis = 1), lk_argmax(x, .axis = LK_AXIS(1)), lk_argmax(x));
    TENSOR(lk_argmax(lk_neg(x), 1), lk_argmax(lk_neg(x), LK_AXIS(1)), lk_argmax(lk_neg(x)));
    TENSOR(lk_cumsum(x, .axis = 1, .exclusive = true), lk_cumsum(x, .axis = LK_AXIS(1), .exclusive = LK_ON), lk_cumsum(x));
    TENSOR(lk_matmul(x, x, .transpose_b = true), lk_matmul(x, x, .transpose_b = LK_ON), lk_matmul(x, x, .transpose_a = LK_ON));
    TENSOR(lk_one_hot(lk_range(2, LK_I64), 2, .on = 0, .off = 1), lk_one_hot(lk_range(2, LK_I64), 2, .on = LK_NUMBER(0), .off = 1),
           lk_one_hot(lk_range(2, LK_I64), 2));
    TENSOR(lk_random_uniform(LK_SHAPE(3), .low = -1, .high = 0), lk_random_uniform(LK_SHAPE(3), .low = -1, .high = LK_NUMBER(0)),
           lk_random_uniform(LK_SHAPE(3), .low = -1));
    TENSOR(lk_squeeze(row, 0), lk_squeeze(row, LK_AXES(0)), lk_squeeze(row, LK_AXES()));
    TENSOR(lk_reverse(x, 0), lk_reverse(x, LK_AXES(0)), lk_reverse(x, 1));
    TENSOR(lk_transpose(x, (lk_axes){0}), lk_transpose(x, LK_AXES(1, 0)), x);
    TENSOR(lk_slice(lk_range(9, LK_F32), 0, 2), lk_slice(lk_range(9, LK_F32), LK_AXES(0), LK_AXES(2)),
           lk_slice(lk_range(9, LK_F32), 1, 2));
    TENSOR(lk_nn_max_pool2d(lk_reshape(lk_range(16, LK_F32), LK_SHAPE(1, 4, 4, 1)), 2, .strides = 1),
           lk_nn_max_pool2d(lk_reshape(lk_range(16, LK_F32), LK_SHAPE(1, 4, 4, 1)), LK_AXES(2), .strides = LK_AXES(1)),
           lk_nn_max_pool2d(lk_reshape(lk_range(16, LK_F32), LK_SHAPE(1, 4, 4, 1)), 2));
    TENSOR(loss_of(lk_huber(.delta = 2)), loss_of(lk_huber(.delta = LK_NUMBER(2))), loss_of(lk_huber()));
    TENSOR(loss_of(lk_binary_crossentropy(.from_logits = true)), loss_of(lk_binary_crossentropy(.from_logits = LK_ON)),
           loss_of(lk_binary_crossentropy()));
    TENSOR(classes(lk_sparse_categorical_crossentropy(.ignore_class = 0)),
           classes(lk_sparse_categorical_crossentropy(.ignore_class = LK_NUMBER(0))),
           classes(lk_sparse_categorical_crossentropy()));
    TENSOR(counted(lk_binary_accuracy(.threshold = 0.15)), counted(lk_binary_accuracy(.threshold = LK_NUMBER(0.15))),
           counted(lk_binary_accuracy()));
    TENSOR(counted(lk_binary_accuracy(.threshold = 0)), counted(lk_binary_accuracy(.threshold = LK_NUMBER(0))),
           counted(lk_binary_accuracy()));
    TENSOR(ids(lk_dataset_range(2, .stop = 10)), ids(lk_dataset_range(2, .stop = LK_NUMBER(10))), ids(lk_dataset_range(2)));
    TENSOR(ids(lk_dataset_range(2, .stop = 0, .step = -1)), ids(lk_dataset_range(2, .stop = LK_NUMBER(0), .step = LK_NUMBER(-1))),
           ids(lk_dataset_range(2)));
    TENSOR(ids(lk_dataset_shuffle(lk_dataset_range(6), 6, .seed = 0)),
           ids(lk_dataset_shuffle(lk_dataset_range(6), 6, .seed = LK_NUMBER(0))), ids(lk_dataset_range(6)));
    TENSOR(lk_compute_average_loss(lk_tensor_of(LK_SHAPE(2), 1, 2), .global_batch_size = 0), lk_scalar(0),
           lk_compute_average_loss(lk_tensor_of(LK_SHAPE(2), 1, 2)));
}

static void fits(void)
{
    lk_tensor *x = lk_tensor_of(LK_SHAPE(8, 4), 1), *y = lk_tensor_of(LK_SHAPE(8, 1), 1);
    lk_model  *m = lk_sequential(lk_dense(1, .input_shape = LK_SHAPE(4)));
    lk_model_compile(m, .optimizer = lk_sgd(.learning_rate = 0.01), .loss = lk_mean_squared_error());
    lk_digest   before = lk_model_digest(m);
    lk_history *h = lk_model_fit(m, .x = x, .y = y, .epochs = 0, .verbose = 0);
    lk_digest   after = lk_model_digest(m);
    NUMBER(h != NULL && !lk_failed() && lk_digest_equal(before, after), 1); /* no epoch at all */
    NUMBER(lk_model_fit(m, .x = x, .y = y, .epochs = 1, .verbose = 0, .batch_size = 0) == NULL &&
               strstr(lk_error(), "batch_size is 0"),
           1);
    lk_clear_error();
    lk_tape   *tape = lk_tape_begin(.persistent = true);
    lk_tensor *sum = lk_reduce_sum(lk_model_call(m, x, .training = false));
    lk_tape_gradient(tape, sum, lk_model_weights(m));
    NUMBER(lk_tape_gradient(tape, sum, lk_model_weights(m)) != NULL && !lk_failed(), 1);
}

int main(void)
{
    LK_POOL {
        layers();
        more_layers();
        optimizers();
        ops();
        fits();
        /* A plain number where a shape should be is reported. */
#ifdef PLAIN_SHAPES /* gcc and clang warn of it */
        REFUSED(lk_dense(8, .input_shape = 4), "LK_SHAPE(");
        REFUSED(lk_reshape_layer(12), "LK_SHAPE(");
        REFUSED(lk_input(4), "LK_SHAPE(");
        const int n = 4;
        REFUSED(lk_dense(8, .input_shape = n), "LK_SHAPE(");
        REFUSED(lk_dense(8, .input_shape = {4}), "LK_SHAPE(");
        REFUSED(lk_reshape_layer({2, 6}), "LK_SHAPE(");
        REFUSED(lk_reshape_layer(n), "LK_SHAPE(");
#endif
    }
    printf("%d forms, %d wrong\n", forms, wrong);
    return wrong != 0;
}
