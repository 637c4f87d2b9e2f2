/* The two models of the documents as engine programs, shared by tests and benches:
 *   basic    conv 32 - pool - dense 64 - dense 10                    347,146 parameters
 *   custom   conv 32 - pool - conv 64 - pool - dense 64 - dense 10   121,930 parameters, all kernels with L2 1e-5 */
#ifndef LK_TESTS_MODELS_H
#define LK_TESTS_MODELS_H

#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct model {
    lk_variable  *weight[8]; /* kernel, bias, kernel, bias, ... */
    int           count, convolutions;
    double        l2;
    int64_t       global_batch;
    lk_optimizer *optimizer;
} model;

static inline void model_layer(model *m, lk_shape kernel, const char *name)
{
    char bias[32];
    snprintf(bias, sizeof bias, "%s/bias", name);
    m->weight[m->count++] = lk_variable_of(lk_glorot_uniform(kernel, name), .name = name);
    m->weight[m->count++] = lk_variable_of(lk_zeros(LK_SHAPE(kernel.dim[kernel.rank - 1]), LK_F32), .name = bias);
}

static inline model model_new(int convolutions, int64_t global_batch)
{
    model m = {
        .convolutions = convolutions, .l2 = convolutions == 2 ? 1e-5 : 0, .global_batch = global_batch, .optimizer = lk_adam()};
    model_layer(&m, LK_SHAPE(3, 3, 1, 32), "conv1");
    if (convolutions == 2) model_layer(&m, LK_SHAPE(3, 3, 32, 64), "conv2");
    model_layer(&m, LK_SHAPE(convolutions == 2 ? 1600 : 5408, 64), "dense1");
    model_layer(&m, LK_SHAPE(64, 10), "dense2");
    return m;
}

static inline lk_variables model_variables(const model *m) { return lk_variables_from(m->count, m->weight); }

/* Forward, loss, gradients, Adam. in: images, labels; out: the loss and how many rows were classified correctly. */
static inline lk_tuple model_step(lk_tuple in, void *user)
{
    model     *m = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *w[8], *x = in.item[0], *labels = in.item[1];
    int        i = 0;
    for (int k = 0; k < m->count; k++)
        w[k] = lk_read(m->weight[k]);
    for (; i < 2 * m->convolutions; i += 2)
        x = lk_nn_max_pool2d(lk_nn_conv2d(x, w[i], w[i + 1], .activation = LK_RELU));
    x = lk_nn_dense(lk_flatten_rows(x), w[i], w[i + 1], LK_RELU);
    x = lk_nn_dense(x, w[i + 2], w[i + 3], LK_LINEAR);
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(labels, x, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = m->global_batch);
    for (int k = 0; k < m->count && m->l2 > 0; k += 2) /* a replica's share; all of it where there is one */
        loss = lk_add(loss, lk_scale_regularization_loss(lk_nn_l2(w[k], m->l2)));
    lk_optimizer_apply(m->optimizer, lk_tape_gradient(tape, loss, model_variables(m)));
    lk_tensor *hit = lk_cast(lk_equal(lk_argmax(x, .axis = LK_AXIS(1)), lk_cast(labels, LK_I64)), LK_F32);
    return LK_TUPLE(loss, lk_reduce_sum(hit));
}

/* A batch of pseudo-random images with labels that can be learnt: the brightest of ten bands. */
static inline lk_tuple model_batch(const model *m, int64_t rows, int number)
{
    lk_tensor *noise = lk_random_uniform(LK_SHAPE(rows, 28, 28, 1), .stream = "images", .call = number);
    int32_t   *label = malloc((size_t)(rows + 1) * sizeof *label);
    for (int64_t i = 0; i < rows; i++)
        label[i] = (int32_t)((i * 7 + number * 3) % 10);
    lk_tensor *labels = lk_tensor_from(LK_SHAPE(rows), LK_I32, label);
    lk_tensor *band = lk_one_hot(labels, 14); /* brighter rows of pixels 2k and 2k + 1 */
    lk_tensor *light = lk_reshape(lk_tile(lk_expand_dims(band, -1), LK_AXES(1, 1, 2)), LK_SHAPE(rows, 28, 1, 1));
    free(label);
    return LK_TUPLE(lk_rows(lk_mul(noise, lk_add(light, lk_scalar(0.5))), m->global_batch), lk_rows(labels, m->global_batch));
}

#endif
