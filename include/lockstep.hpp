/* lockstep from C++20: the same names in a namespace, with named arguments, lists in braces, and RAII guards.
 *
 *     #include <lockstep.hpp>
 *
 *     auto strategy = lk::mirrored_strategy({.cpu_devices = 2});
 *     lk_model *model;
 *     {
 *         lk::scope here(strategy);
 *         model = lk::sequential({lk::dense(64, {.activation = LK_RELU, .input_shape = lk::shape(784)}), lk::dense(10)});
 *     }
 *     lk::compile(model, {.optimizer = lk::adam(), .loss = lk::sparse_categorical_crossentropy({.from_logits = true})});
 *     lk::check();                                                        throws lk::error with the first cause
 *
 * Objects are the pointers of the C interface, without wrappers. Plain functions (lk_add, lk_read, lk_optimizer_apply) are called
 * directly. If a macro with keyword arguments has no counterpart in this namespace, call its function, whose name ends in _kw:
 * lk_tfrecord_dataset_kw({.files = lk::names({"a"})}). What is written is what happens, zero included ({.use_bias = false},
 * {.momentum = 0}, {.axis = 0}, {.axis = {1, 2}}). C++ requires the members of a struct of arguments in the order of their
 * declaration.
 *
 * With -Wextra, g++ reports each option that a call leaves out, at the call (-Wmissing-field-initializers; clang++ does not). So
 * with g++ this header turns that warning off for the rest of a file that includes it. If you define LOCKSTEP_KEEP_WARNINGS before
 * you include it, your settings of warnings stay as they are. */
#ifndef LOCKSTEP_HPP
#define LOCKSTEP_HPP

#include "lockstep.h"
#include <initializer_list>
#include <stdexcept>
#include <vector>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif

static_assert(__cplusplus >= 202002L, "lockstep.hpp needs C++20; lockstep.h is enough for older ones");

namespace lk
{

/* ---- errors ---- */

struct error : std::runtime_error {
    lk_status code;
    error(lk_status c, const char *text) : std::runtime_error(text), code(c) {}
};

/* Throw the error of this thread, if there is one, and clear it. */
inline void check()
{
    if (!lk_failed()) return;
    error e(lk_error_code(), lk_error());
    lk_clear_error();
    throw e;
}

/* ---- lists ---- */

inline lk_shape shape(std::initializer_list<int64_t> sizes)
{
    std::vector<int64_t> one_based{0};
    one_based.insert(one_based.end(), sizes);
    return lk_shape_of(static_cast<int>(sizes.size()), one_based.data());
}
template <class... Sizes> lk_shape shape(Sizes... sizes) { return shape({static_cast<int64_t>(sizes)...}); }

inline lk_axes axes(std::initializer_list<int64_t> values) { return lk_axes(values); }

inline lk_number number(double value) { return value; }
inline lk_axis   axis(int value) { return value; }

namespace detail
{
template <class T> std::vector<T> one_based(std::initializer_list<T> items)
{
    std::vector<T> list{T{}};
    list.insert(list.end(), items);
    return list;
}
} // namespace detail

inline lk_tuple tuple(std::initializer_list<lk_tensor *> items)
{
    return lk_tuple_of(static_cast<int>(items.size()), detail::one_based(items).data());
}
inline lk_nodes nodes(std::initializer_list<lk_node *> items)
{
    return lk_nodes_of(static_cast<int>(items.size()), detail::one_based(items).data());
}
inline lk_layers layers(std::initializer_list<lk_layer *> items)
{
    return lk_layers_of(static_cast<int>(items.size()), detail::one_based(items).data());
}
inline lk_metrics metrics(std::initializer_list<lk_metric *> items)
{
    return lk_metrics_of(static_cast<int>(items.size()), detail::one_based(items).data());
}
inline lk_losses losses(std::initializer_list<lk_loss *> items)
{
    return lk_losses_of(static_cast<int>(items.size()), detail::one_based(items).data());
}
inline lk_callbacks callbacks(std::initializer_list<lk_callback *> items)
{
    return lk_callbacks_of(static_cast<int>(items.size()), detail::one_based(items).data());
}
inline lk_names names(std::initializer_list<const char *> items)
{
    return lk_names_of(static_cast<int>(items.size()), detail::one_based(items).data());
}
inline lk_numbers numbers(std::initializer_list<double> items)
{
    return lk_numbers_of(static_cast<int>(items.size()), detail::one_based(items).data());
}

inline lk_tensor *tensor(lk_shape s, std::initializer_list<double> values)
{
    return lk_tensor_of_values(s, static_cast<int>(values.size()), detail::one_based(values).data());
}

/* ---- guards ---- */

/* Objects made during its lifetime are freed with it. */
class pool
{
    lki_block block_ = lki_pool_enter();

  public:
    pool() = default;
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    ~pool() { lki_pool_leave(&block_); }
};

/* Tensors made during its lifetime are freed with it. */
class step
{
    lki_block block_ = lki_step_enter();

  public:
    step() = default;
    step(const step &) = delete;
    step &operator=(const step &) = delete;
    ~step() { lki_step_leave(&block_); }
};

/* Variables made during its lifetime belong to the strategy. */
class scope
{
    lki_block block_;

  public:
    explicit scope(lk_strategy *s) : block_(lki_scope_enter(s)) {}
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    ~scope() { lki_scope_leave(&block_); }
};

/* for (lk_tuple batch : lk::each(dataset)) ... */
class each
{
    lki_block block_;

  public:
    explicit each(lk_dataset *d) : block_(lki_each_enter(d)) {}
    each(const each &) = delete;
    each &operator=(const each &) = delete;
    ~each() { lki_each_leave(&block_); }
    struct end_mark {
    };
    class turn
    {
        lki_block *block_;
        lk_tuple   element_{};
        bool       there_;

      public:
        explicit turn(lki_block *b) : block_(b), there_(lki_each_next(b, &element_) != 0) {}
        lk_tuple operator*() const { return element_; }
        turn    &operator++()
        {
            there_ = lki_each_next(block_, &element_) != 0;
            return *this;
        }
        bool operator!=(end_mark) const { return there_; }
    };
    turn     begin() { return turn(&block_); }
    end_mark end() const { return {}; }
};

/* ---- functions with named arguments: lk::name(required..., {.option = value}) ---- */

#define LKPP_PLAIN(R, name, args)                                                                                                  \
    inline R *name(args named = {}) { return lk_##name##_kw(named); }
#define LKPP_ONE(R, name, args, T, first)                                                                                          \
    inline R *name(T first, args named = {})                                                                                       \
    {                                                                                                                              \
        named.first = first;                                                                                                       \
        return lk_##name##_kw(named);                                                                                              \
    }
#define LKPP_TWO(R, name, args, T, first, U, second)                                                                               \
    inline R *name(T first, U second, args named = {})                                                                             \
    {                                                                                                                              \
        named.first = first;                                                                                                       \
        named.second = second;                                                                                                     \
        return lk_##name##_kw(named);                                                                                              \
    }

LKPP_ONE(lk_layer, dense, lk_dense_args, int64_t, units)
LKPP_TWO(lk_layer, conv1d, lk_conv_layer_args, int64_t, filters, int64_t, kernel_size)
LKPP_TWO(lk_layer, conv2d, lk_conv_layer_args, int64_t, filters, int64_t, kernel_size)
LKPP_TWO(lk_layer, conv3d, lk_conv_layer_args, int64_t, filters, int64_t, kernel_size)
LKPP_TWO(lk_layer, conv1d_transpose, lk_conv_layer_args, int64_t, filters, int64_t, kernel_size)
LKPP_TWO(lk_layer, conv2d_transpose, lk_conv_layer_args, int64_t, filters, int64_t, kernel_size)
LKPP_TWO(lk_layer, conv3d_transpose, lk_conv_layer_args, int64_t, filters, int64_t, kernel_size)
LKPP_ONE(lk_layer, depthwise_conv1d, lk_depthwise_args, int64_t, kernel_size)
LKPP_ONE(lk_layer, depthwise_conv2d, lk_depthwise_args, int64_t, kernel_size)
LKPP_TWO(lk_layer, separable_conv1d, lk_separable_args, int64_t, filters, int64_t, kernel_size)
LKPP_TWO(lk_layer, separable_conv2d, lk_separable_args, int64_t, filters, int64_t, kernel_size)
LKPP_PLAIN(lk_layer, max_pooling1d, lk_pooling_args)
LKPP_PLAIN(lk_layer, max_pooling2d, lk_pooling_args)
LKPP_PLAIN(lk_layer, max_pooling3d, lk_pooling_args)
LKPP_PLAIN(lk_layer, average_pooling1d, lk_pooling_args)
LKPP_PLAIN(lk_layer, average_pooling2d, lk_pooling_args)
LKPP_PLAIN(lk_layer, average_pooling3d, lk_pooling_args)
LKPP_PLAIN(lk_layer, global_max_pooling1d, lk_global_pooling_args)
LKPP_PLAIN(lk_layer, global_max_pooling2d, lk_global_pooling_args)
LKPP_PLAIN(lk_layer, global_max_pooling3d, lk_global_pooling_args)
LKPP_PLAIN(lk_layer, global_average_pooling1d, lk_global_pooling_args)
LKPP_PLAIN(lk_layer, global_average_pooling2d, lk_global_pooling_args)
LKPP_PLAIN(lk_layer, global_average_pooling3d, lk_global_pooling_args)
LKPP_ONE(lk_layer, adaptive_max_pooling1d, lk_adaptive_pooling_args, lk_axes, output_size)
LKPP_ONE(lk_layer, adaptive_max_pooling2d, lk_adaptive_pooling_args, lk_axes, output_size)
LKPP_ONE(lk_layer, adaptive_max_pooling3d, lk_adaptive_pooling_args, lk_axes, output_size)
LKPP_ONE(lk_layer, adaptive_average_pooling1d, lk_adaptive_pooling_args, lk_axes, output_size)
LKPP_ONE(lk_layer, adaptive_average_pooling2d, lk_adaptive_pooling_args, lk_axes, output_size)
LKPP_ONE(lk_layer, adaptive_average_pooling3d, lk_adaptive_pooling_args, lk_axes, output_size)
LKPP_PLAIN(lk_layer, batch_normalization, lk_batch_normalization_args)
LKPP_PLAIN(lk_layer, layer_normalization, lk_layer_normalization_args)
LKPP_PLAIN(lk_layer, group_normalization, lk_group_normalization_args)
LKPP_PLAIN(lk_layer, normalization, lk_normalization_args)
LKPP_ONE(lk_layer, dropout, lk_dropout_layer_args, double, rate)
LKPP_ONE(lk_layer, spatial_dropout2d, lk_dropout_layer_args, double, rate)
LKPP_PLAIN(lk_layer, flatten, lk_flatten_args)
LKPP_ONE(lk_layer, reshape_layer, lk_reshape_layer_args, lk_shape, target_shape)
LKPP_ONE(lk_layer, permute, lk_permute_args, lk_axes, dims)
LKPP_PLAIN(lk_layer, zero_padding1d, lk_border_args)
LKPP_PLAIN(lk_layer, zero_padding2d, lk_border_args)
LKPP_PLAIN(lk_layer, zero_padding3d, lk_border_args)
LKPP_PLAIN(lk_layer, cropping1d, lk_border_args)
LKPP_PLAIN(lk_layer, cropping2d, lk_border_args)
LKPP_PLAIN(lk_layer, cropping3d, lk_border_args)
LKPP_PLAIN(lk_layer, up_sampling1d, lk_up_sampling1d_args)
LKPP_PLAIN(lk_layer, up_sampling2d, lk_up_sampling_args)
LKPP_PLAIN(lk_layer, up_sampling3d, lk_up_sampling_args)
LKPP_ONE(lk_layer, activation_layer, lk_activation_layer_args, lk_activation, activation)
LKPP_PLAIN(lk_layer, relu_layer, lk_relu_layer_args)
LKPP_PLAIN(lk_layer, leaky_relu_layer, lk_leaky_relu_layer_args)
LKPP_PLAIN(lk_layer, softmax_layer, lk_softmax_layer_args)
LKPP_PLAIN(lk_layer, add_layer, lk_plain_layer_args)
LKPP_PLAIN(lk_layer, subtract_layer, lk_plain_layer_args)
LKPP_PLAIN(lk_layer, multiply_layer, lk_plain_layer_args)
LKPP_PLAIN(lk_layer, average_layer, lk_plain_layer_args)
LKPP_PLAIN(lk_layer, maximum_layer, lk_plain_layer_args)
LKPP_PLAIN(lk_layer, minimum_layer, lk_plain_layer_args)
LKPP_PLAIN(lk_layer, concatenate, lk_concatenate_args)
LKPP_ONE(lk_layer, dot_layer, lk_dot_layer_args, lk_axes, axes)
LKPP_TWO(lk_layer, embedding, lk_embedding_args, int64_t, input_dim, int64_t, output_dim)
LKPP_ONE(lk_layer, lstm, lk_recurrent_args, int64_t, units)
LKPP_ONE(lk_layer, gru, lk_recurrent_args, int64_t, units)
LKPP_ONE(lk_layer, simple_rnn, lk_recurrent_args, int64_t, units)
LKPP_ONE(lk_layer, bidirectional, lk_bidirectional_args, lk_layer *, layer)
LKPP_ONE(lk_layer, time_distributed, lk_time_distributed_args, lk_layer *, layer)
LKPP_TWO(lk_layer, multi_head_attention, lk_multi_head_attention_layer_args, int64_t, num_heads, int64_t, key_dim)
LKPP_ONE(lk_layer, rescaling, lk_rescaling_args, double, scale)
LKPP_PLAIN(lk_layer, random_flip, lk_random_flip_args)
LKPP_ONE(lk_layer, random_rotation, lk_random_rotation_args, double, factor)
LKPP_TWO(lk_layer, random_crop, lk_random_crop_args, int64_t, height, int64_t, width)
LKPP_TWO(lk_layer, resizing, lk_resizing_args, int64_t, height, int64_t, width)
LKPP_TWO(lk_layer, center_crop, lk_center_crop_args, int64_t, height, int64_t, width)
LKPP_ONE(lk_layer, random_zoom, lk_random_move_args, double, height_factor)
LKPP_TWO(lk_layer, random_translation, lk_random_move_args, double, height_factor, double, width_factor)
LKPP_ONE(lk_layer, random_brightness, lk_random_color_args, double, factor)
LKPP_ONE(lk_layer, random_contrast, lk_random_color_args, double, factor)
LKPP_ONE(lk_layer, layer_of, lk_own_layer_args, lk_layer_call_fn, call)

LKPP_TWO(lk_tensor, matmul, lk_matmul_args, lk_tensor *, a, lk_tensor *, b)
#define LKPP_REDUCE(name) LKPP_ONE(lk_tensor, name, lk_reduce_args, lk_tensor *, x)
LK_REDUCE_LIST(LKPP_REDUCE)
#undef LKPP_REDUCE
LKPP_ONE(lk_tensor, softmax, lk_axis_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, log_softmax, lk_axis_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, cumsum, lk_axis_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, argmax, lk_axis_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, argmin, lk_axis_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, strided_slice, lk_strided_slice_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, pad, lk_pad_args, lk_tensor *, x)
LKPP_TWO(lk_tensor, one_hot, lk_one_hot_args, lk_tensor *, ids, int64_t, depth)
LKPP_ONE(lk_tensor, random_uniform, lk_random_args, lk_shape, shape)
LKPP_ONE(lk_tensor, random_normal, lk_random_args, lk_shape, shape)
LKPP_ONE(lk_tensor, compute_average_loss, lk_average_args, lk_tensor *, per_example_loss)
LKPP_TWO(lk_tensor, nn_conv1d, lk_conv_args, lk_tensor *, x, lk_tensor *, kernel)
LKPP_TWO(lk_tensor, nn_conv2d, lk_conv_args, lk_tensor *, x, lk_tensor *, kernel)
LKPP_TWO(lk_tensor, nn_conv3d, lk_conv_args, lk_tensor *, x, lk_tensor *, kernel)
LKPP_TWO(lk_tensor, nn_depthwise_conv1d, lk_conv_args, lk_tensor *, x, lk_tensor *, kernel)
LKPP_TWO(lk_tensor, nn_depthwise_conv2d, lk_conv_args, lk_tensor *, x, lk_tensor *, kernel)
LKPP_TWO(lk_tensor, nn_separable_conv1d, lk_conv_args, lk_tensor *, x, lk_tensor *, kernel)
LKPP_TWO(lk_tensor, nn_separable_conv2d, lk_conv_args, lk_tensor *, x, lk_tensor *, kernel)
LKPP_TWO(lk_tensor, nn_conv1d_transpose, lk_conv_args, lk_tensor *, x, lk_tensor *, kernel)
LKPP_TWO(lk_tensor, nn_conv2d_transpose, lk_conv_args, lk_tensor *, x, lk_tensor *, kernel)
LKPP_TWO(lk_tensor, nn_conv3d_transpose, lk_conv_args, lk_tensor *, x, lk_tensor *, kernel)
LKPP_ONE(lk_tensor, nn_max_pool1d, lk_pool_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, nn_max_pool2d, lk_pool_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, nn_max_pool3d, lk_pool_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, nn_avg_pool1d, lk_pool_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, nn_avg_pool2d, lk_pool_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, nn_avg_pool3d, lk_pool_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, nn_layer_norm, lk_norm_args, lk_tensor *, x)
LKPP_ONE(lk_tensor, nn_group_norm, lk_norm_args, lk_tensor *, x)
LKPP_TWO(lk_tensor, nn_dropout, lk_dropout_args, lk_tensor *, x, double, rate)
#define LKPP_NN_LOSS(name) LKPP_TWO(lk_tensor, nn_##name, lk_loss_args, lk_tensor *, labels, lk_tensor *, predictions)
LK_LOSS_LIST(LKPP_NN_LOSS)
#undef LKPP_NN_LOSS
LKPP_PLAIN(lk_tape, tape_begin, lk_tape_args)

LKPP_PLAIN(lk_optimizer, sgd, lk_sgd_args)
LKPP_PLAIN(lk_optimizer, adam, lk_adam_args)
LKPP_PLAIN(lk_optimizer, adamw, lk_adam_args)
LKPP_PLAIN(lk_optimizer, adamax, lk_adam_args)
LKPP_PLAIN(lk_optimizer, nadam, lk_adam_args)
LKPP_PLAIN(lk_optimizer, lion, lk_adam_args)
LKPP_PLAIN(lk_optimizer, lamb, lk_adam_args)
LKPP_PLAIN(lk_optimizer, rmsprop, lk_rmsprop_args)
LKPP_PLAIN(lk_optimizer, adagrad, lk_adagrad_args)
LKPP_PLAIN(lk_optimizer, adadelta, lk_adadelta_args)
LKPP_PLAIN(lk_optimizer, ftrl, lk_ftrl_args)
LKPP_PLAIN(lk_optimizer, adafactor, lk_adafactor_args)
LKPP_PLAIN(lk_optimizer, schedule_free_adamw, lk_schedule_free_adamw_args)
LKPP_PLAIN(lk_optimizer, muon, lk_muon_args)
LKPP_ONE(lk_optimizer, loss_scale_optimizer, lk_loss_scale_optimizer_args, lk_optimizer *, inner_optimizer)
LKPP_ONE(lk_optimizer, multi_optimizer, lk_multi_optimizer_args, lk_optimizer *, optimizer)

#define LKPP_LOSS(name) LKPP_PLAIN(lk_loss, name, lk_loss_object_args)
LK_LOSS_LIST(LKPP_LOSS)
#undef LKPP_LOSS
#define LKPP_METRIC(name, class_name) LKPP_PLAIN(lk_metric, name, lk_metric_args)
LK_METRIC_LIST(LKPP_METRIC)
#undef LKPP_METRIC

#define LKPP_INITIALIZER(name, class_name) LKPP_PLAIN(lk_initializer, init_##name, lk_initializer_args)
LK_INITIALIZER_LIST(LKPP_INITIALIZER)
#undef LKPP_INITIALIZER
LKPP_PLAIN(lk_constraint, max_norm, lk_constraint_args)
LKPP_PLAIN(lk_constraint, min_max_norm, lk_constraint_args)
LKPP_PLAIN(lk_constraint, unit_norm, lk_constraint_args)
LKPP_TWO(lk_schedule, exponential_decay, lk_decay_args, double, initial_learning_rate, double, decay_steps)
LKPP_TWO(lk_schedule, inverse_time_decay, lk_decay_args, double, initial_learning_rate, double, decay_steps)
LKPP_TWO(lk_schedule, polynomial_decay, lk_decay_args, double, initial_learning_rate, double, decay_steps)
LKPP_TWO(lk_schedule, cosine_decay, lk_decay_args, double, initial_learning_rate, double, decay_steps)
LKPP_TWO(lk_schedule, cosine_decay_restarts, lk_decay_args, double, initial_learning_rate, double, decay_steps)
LKPP_ONE(lk_loss, loss_of, lk_own_loss_args, lk_loss_fn, fn)
LKPP_ONE(lk_metric, metric_of, lk_own_metric_args, lk_metric_values_fn, values)
LKPP_ONE(lk_model, model_of, lk_own_model_args, lk_model_fn, fn)
LKPP_TWO(lk_op, op_of, lk_op_args, const char *, name, lk_op_compute_fn, compute)
LKPP_TWO(lk_tensor, layer_call, lk_layer_call_args, lk_layer *, layer, lk_tensor *, x)

LKPP_PLAIN(lk_callback, early_stopping, lk_early_stopping_args)
LKPP_ONE(lk_callback, model_checkpoint, lk_model_checkpoint_args, const char *, filepath)
LKPP_ONE(lk_callback, backup_and_restore, lk_backup_args, const char *, backup_dir)
LKPP_ONE(lk_callback, learning_rate_scheduler, lk_rate_scheduler_args, lk_rate_fn, schedule)
LKPP_PLAIN(lk_callback, reduce_lr_on_plateau, lk_reduce_lr_args)
LKPP_ONE(lk_callback, csv_logger, lk_csv_logger_args, const char *, filename)
LKPP_PLAIN(lk_callback, tensorboard, lk_tensorboard_args)
LKPP_PLAIN(lk_callback, swap_ema_weights, lk_swap_ema_args)
LKPP_PLAIN(lk_callback, callback_of, lk_own_callback_args)

LKPP_PLAIN(lk_strategy, mirrored_strategy, lk_strategy_args)
LKPP_PLAIN(lk_dataset, mnist, lk_mnist_args)
LKPP_PLAIN(lk_dataset, fashion_mnist, lk_mnist_args)
LKPP_PLAIN(lk_dataset, digits, lk_digits_args)
LKPP_ONE(lk_dataset, csv_dataset, lk_csv_args, lk_names, files)
LKPP_ONE(lk_dataset, npz_dataset, lk_npz_args, const char *, path)
LKPP_ONE(lk_dataset, image_folder, lk_image_folder_args, const char *, folder)
LKPP_ONE(lk_dataset, dataset_range, lk_range_args, int64_t, start)
LKPP_ONE(lk_node, input, lk_input_args, lk_shape, shape)
#undef LKPP_PLAIN
#undef LKPP_ONE
#undef LKPP_TWO

/* ---- models ---- */

inline lk_model *sequential(std::initializer_list<lk_layer *> list, const char *name = nullptr)
{
    return lk_sequential_of(name, static_cast<int>(list.size()), detail::one_based(list).data());
}

template <class... Nodes> lk_node *apply(lk_layer *l, Nodes *...in)
{
    lk_node *const one_based[] = {nullptr, in...};
    return lk_apply_to(l, static_cast<int>(sizeof...(in)), one_based);
}

inline lk_model *functional(std::initializer_list<lk_node *> inputs, std::initializer_list<lk_node *> outputs,
                            const char *name = nullptr)
{
    lk_functional_args a{};
    a.inputs = nodes(inputs);
    a.outputs = nodes(outputs);
    a.name = name;
    return lk_functional_kw(a);
}

inline lk_status layer_add_weight(lk_layer *l, const char *name, lk_shape shape, lk_weight_args a = {})
{
    a.layer = l;
    a.name = name;
    a.shape = shape;
    return lk_layer_add_weight_kw(a);
}

inline lk_tensor *loss_call(lk_loss *loss, lk_tensor *labels, lk_tensor *predictions, lk_loss_call_args a = {})
{
    a.loss = loss;
    a.labels = labels;
    a.predictions = predictions;
    return lk_loss_call_kw(a);
}

inline lk_tensor *op_call(lk_op *op, std::initializer_list<lk_tensor *> in) { return lk_op_apply(op, tuple(in)); }

inline lk_status compile(lk_model *model, lk_compile_args a)
{
    a.model = model;
    return lk_model_compile_kw(a);
}

inline lk_history *fit(lk_model *model, lk_dataset *data, lk_fit_args a = {})
{
    a.model = model;
    a.data = data;
    return lk_model_fit_kw(a);
}

inline lk_history *fit(lk_model *model, lk_tensor *x, lk_tensor *y, lk_fit_args a = {})
{
    a.model = model;
    a.x = x;
    a.y = y;
    return lk_model_fit_kw(a);
}

inline lk_logs evaluate(lk_model *model, lk_dataset *data, lk_evaluate_args a = {})
{
    a.model = model;
    a.data = data;
    return lk_model_evaluate_kw(a);
}

inline lk_tensor *predict(lk_model *model, lk_tensor *x, lk_predict_args a = {})
{
    a.model = model;
    a.x = x;
    return lk_model_predict_kw(a);
}

inline lk_tensor *call(lk_model *model, lk_tensor *x, lk_switch training = LK_OFF)
{
    lk_model_call_args a{};
    a.model = model;
    a.x = x;
    a.training = training;
    return lk_model_call_kw(a);
}

/* ---- custom loops ---- */

inline lk_variable *variable(lk_tensor *initial, lk_variable_args a = {})
{
    a.initial = initial;
    return lk_variable_kw(a);
}

inline lk_function *function(lk_fn fn, lk_function_args a = {})
{
    a.fn = fn;
    return lk_function_kw(a, "function");
}

inline lk_status metric_update(lk_metric *metric, lk_tensor *values, lk_tensor *predictions = nullptr,
                               lk_tensor *sample_weight = nullptr)
{
    lk_metric_update_args a{};
    a.metric = metric;
    a.a = values;
    a.b = predictions;
    a.sample_weight = sample_weight;
    return lk_metric_update_kw(a);
}

inline lk_tensor *reduce(lk_strategy *s, lk_reduce_op op, lk_tensor *value, lk_reduce_values_args a = {})
{
    a.strategy = s;
    a.op = op;
    a.value = value;
    return lk_reduce_kw(a);
}

/* ---- datasets ---- */

inline lk_dataset *map(lk_dataset *d, lk_fn fn, void *user = nullptr, int parallel = 0)
{
    lk_map_args a{};
    a.dataset = d;
    a.fn = fn;
    a.user = user;
    a.parallel = parallel;
    return lk_dataset_map_kw(a);
}

inline lk_dataset *shuffle(lk_dataset *d, int64_t buffer_size, lk_shuffle_args a = {})
{
    a.dataset = d;
    a.buffer_size = buffer_size;
    return lk_dataset_shuffle_kw(a);
}

inline lk_dataset *batch(lk_dataset *d, int64_t size, lk_batch_args a = {})
{
    a.dataset = d;
    a.size = size;
    return lk_dataset_batch_kw(a);
}

inline lk_dataset *distribute(lk_strategy *s, lk_dataset *d, lk_distribute_args a = {})
{
    a.strategy = s;
    a.dataset = d;
    return lk_distribute_dataset_kw(a);
}

inline lk_tuple run(lk_strategy *s, lk_fn fn, lk_tuple args = {}, void *user = nullptr)
{
    lk_run_args a{};
    a.strategy = s;
    a.fn = fn;
    a.args = args;
    a.user = user;
    return lk_run_kw(a);
}

} // namespace lk

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#ifndef LOCKSTEP_KEEP_WARNINGS /* calls leave out options on purpose, and the warning appears where the call is */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
#endif

#endif
