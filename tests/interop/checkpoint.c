/* checkpoint write|read FOLDER: the lockstep half of an exchange of checkpoints with TensorFlow; checkpoint.py runs it.
 *
 *     write   for every case, objects with their own values are saved as FOLDER/CASE/ours-1, under two replicas, and every variable
 *             as FOLDER/CASE/ours.N.npy, N counting weights, then the optimiser's variables, then the rest. Also written as
 *             `again`, and once more over that: the data then has another name
 *     read    FOLDER/CASE/theirs-1 is restored into new objects, once built before and once after; every value must be theirs.N.npy
 *
 * FOLDER/manager is one folder that the managers of both use in turn: here three saves, there one, here one. */
#include "core/dtype.h"
#include "core/memory.h"
#include "core/shape.h"
#include "format/npy.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- cases ---- */

typedef struct objects {
    lk_model      *model;
    lk_optimizer  *optimizer;
    lk_metric     *mean, *accuracy;
    lk_variable   *variable[16];
    int            count;
    lk_checkpoint *checkpoint;
    lk_shape       row;     /* of the model */
    bool           by_call; /* that is what builds it */
} objects;

static void tutorial(objects *o)
{
    lk_regularizer *l2 = lk_l2(1e-5);
    o->row = LK_SHAPE(28, 28, 1);
    o->model = lk_sequential(lk_conv2d(32, 3, .activation = LK_RELU, .kernel_regularizer = l2), lk_max_pooling2d(),
                             lk_conv2d(64, 3, .activation = LK_RELU, .kernel_regularizer = l2), lk_max_pooling2d(), lk_flatten(),
                             lk_dense(64, .activation = LK_RELU, .kernel_regularizer = l2), lk_dense(10, .kernel_regularizer = l2));
    o->optimizer = lk_adam(.learning_rate = 0.002);
}

static void normalised(objects *o)
{
    o->row = LK_SHAPE(8, 8, 2);
    o->model = lk_sequential(lk_conv2d(4, 3), lk_batch_normalization(.synchronized = LK_OFF), lk_max_pooling2d(), lk_flatten(),
                             lk_dropout(0.5), lk_dense(3, .activation = LK_RELU), lk_batch_normalization(.scale = LK_OFF),
                             lk_dense(2, .use_bias = LK_OFF));
    o->optimizer = lk_sgd(.learning_rate = 0.1, .momentum = 0.9, .nesterov = LK_ON);
}

static void small(objects *o, lk_optimizer *optimizer)
{
    o->row = LK_SHAPE(4);
    o->model = lk_sequential(lk_dense(3), lk_dense(2));
    o->optimizer = optimizer;
}

static void sgd(objects *o) { small(o, lk_sgd()); }
static void adam_all(objects *o) { small(o, lk_adam(.amsgrad = LK_ON, .use_ema = LK_ON, .gradient_accumulation_steps = 2)); }
static void adam_schedule(objects *o)
{
    small(o, lk_adam(.schedule = lk_exponential_decay(.initial_learning_rate = 0.1, .decay_steps = 10, .decay_rate = 0.9)));
}
static void adamw(objects *o) { small(o, lk_adamw()); }
static void adamax(objects *o) { small(o, lk_adamax()); }
static void nadam(objects *o) { small(o, lk_nadam()); }
static void lion(objects *o) { small(o, lk_lion()); }
static void lamb(objects *o) { small(o, lk_lamb()); }
static void rmsprop(objects *o) { small(o, lk_rmsprop(.momentum = 0.1, .centered = LK_ON)); }
static void rmsprop_plain(objects *o) { small(o, lk_rmsprop()); }
static void adagrad(objects *o) { small(o, lk_adagrad()); }
static void adadelta(objects *o) { small(o, lk_adadelta()); }
static void ftrl(objects *o) { small(o, lk_ftrl()); }

static lk_node *two_ways(lk_node *x)
{
    lk_node *h = lk_apply(lk_dense(2), lk_apply(lk_dense(3), x));
    return lk_apply(lk_add_layer(), lk_apply(lk_dense(2), x), h);
}

static void functional(objects *o)
{
    lk_node *x = lk_input(LK_SHAPE(4));
    o->row = LK_SHAPE(4);
    o->model = lk_functional(LK_NODES(x), LK_NODES(two_ways(x)));
    o->optimizer = lk_sgd(.momentum = 0.9);
}

static void attention(objects *o)
{
    lk_node *x = lk_input(LK_SHAPE(5, 4));
    o->row = LK_SHAPE(5, 4);
    o->model = lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_multi_head_attention(2, 3), x, x)));
    o->optimizer = lk_adam();
}

static void recurrent(objects *o)
{
    o->row = LK_SHAPE(5, 2);
    o->model = lk_sequential(lk_lstm(3, .return_sequences = LK_ON), lk_gru(3, .return_sequences = LK_ON),
                             lk_bidirectional(lk_simple_rnn(2, .return_sequences = LK_ON)), lk_time_distributed(lk_dense(3)),
                             lk_bidirectional(lk_lstm(2)));
    o->optimizer = lk_adam();
}

static void kinds(objects *o)
{
    o->row = LK_SHAPE(6, 6, 2);
    o->model = lk_sequential(lk_normalization(), lk_depthwise_conv2d(2), lk_separable_conv2d(3, 2), lk_conv2d_transpose(2, 2),
                             lk_group_normalization(1), lk_layer_normalization(), lk_flatten(), lk_dense(2));
    o->optimizer = lk_adam();
}

static void words(objects *o)
{
    o->row = LK_SHAPE(5);
    o->model = lk_sequential(lk_embedding(7, 3), lk_conv1d(2, 2), lk_global_average_pooling1d(), lk_dense(1));
    o->optimizer = lk_adam();
}

static void nested(objects *o)
{
    lk_node  *x = lk_input(LK_SHAPE(4)), *y = lk_input(LK_SHAPE(2));
    lk_model *row = lk_sequential(lk_dense(3), lk_dense(2)),
             *graph = lk_functional(LK_NODES(y), LK_NODES(lk_apply(lk_dense(3), y)));
    o->row = LK_SHAPE(4);
    o->model = lk_functional(LK_NODES(x),
                             LK_NODES(lk_apply(lk_dense(2), lk_apply(lk_model_layer(graph), lk_apply(lk_model_layer(row), x)))));
    o->optimizer = lk_adam();
}

static void nested_row(objects *o)
{
    o->row = LK_SHAPE(4);
    o->model = lk_sequential(lk_model_layer(lk_sequential(lk_dense(3), lk_dense(2))), lk_dense(2));
    o->optimizer = lk_adam();
}

static void compiled_with(objects *o, lk_optimizer *optimizer)
{
    o->optimizer = optimizer;
    lk_model_compile(o->model, .optimizer = optimizer, .loss = lk_mean_squared_error());
    o->checkpoint = lk_checkpoint_of({"model", o->model});
}

static void compiled(objects *o)
{
    small(o, NULL);
    compiled_with(o, lk_adam());
}

static void compiled_functional(objects *o)
{
    functional(o);
    compiled_with(o, lk_sgd(.momentum = 0.9));
}

static void compiled_both(objects *o)
{
    small(o, NULL);
    compiled_with(o, lk_adam());
    o->checkpoint = lk_checkpoint_of({"optimizer", o->optimizer}, {"model", o->model});
}

static lk_tuple own_call(lk_model *m, lk_tuple in, int training, void *user)
{
    lk_layer **l = lk_model_layers(m).item;
    (void)training, (void)user;
    return LK_TUPLE(lk_layer_call(l[1], lk_layer_call(l[0], in.item[0])));
}

static void own(objects *o)
{
    o->row = LK_SHAPE(4);
    o->by_call = true;
    o->model = lk_model_of(own_call, .layers = LK_LAYERS(lk_dense(3, .name = "first"), lk_dense(2, .name = "second")));
    o->optimizer = lk_sgd(.momentum = 0.9);
}

/* Every type, shapes from none to empty, names that need escaping, a checkpoint in a checkpoint, a variable under two names. */
static void values(objects *o)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        o->variable[o->count++] = lk_variable_of(lk_zeros(LK_SHAPE(2, 3), (lk_dtype)t), .name = lk_dtype_name((lk_dtype)t));
    o->variable[o->count++] = lk_variable_of(lk_zeros(LK_SHAPE(), LK_F32), .name = "scalar");
    o->variable[o->count++] = lk_variable_of(lk_zeros(LK_SHAPE(2, 0), LK_F32), .name = "empty");
    lk_variable  **v = o->variable;
    lk_checkpoint *inner = lk_checkpoint_of({"shared", v[0]}, {"i64", v[LK_I64]}, {"a/b.c", v[LK_U8]});
    o->checkpoint = lk_checkpoint_of({"inner", inner}, {"f32", v[0]}, {"f64", v[LK_F64]}, {"f16", v[LK_F16]}, {"bf16", v[LK_BF16]},
                                     {"i32", v[LK_I32]}, {"truth", v[LK_BOOL]}, {"scalar", v[LK_DTYPE_COUNT]},
                                     {".empty", v[LK_DTYPE_COUNT + 1]});
}

static void metrics(objects *o)
{
    o->mean = lk_mean(.name = "test_loss");
    o->accuracy = lk_sparse_categorical_accuracy();
    o->checkpoint = lk_checkpoint_of({"mean", o->mean}, {"accuracy", o->accuracy});
}

static const struct {
    const char *name;
    void (*make)(objects *o);
} CASES[] = {{"tutorial", tutorial},
             {"normalised", normalised},
             {"sgd", sgd},
             {"adam_all", adam_all},
             {"adam_schedule", adam_schedule},
             {"adamw", adamw},
             {"adamax", adamax},
             {"nadam", nadam},
             {"lion", lion},
             {"lamb", lamb},
             {"rmsprop", rmsprop},
             {"rmsprop_plain", rmsprop_plain},
             {"adagrad", adagrad},
             {"adadelta", adadelta},
             {"ftrl", ftrl},
             {"functional", functional},
             {"attention", attention},
             {"recurrent", recurrent},
             {"kinds", kinds},
             {"words", words},
             {"nested", nested},
             {"nested_row", nested_row},
             {"compiled", compiled},
             {"compiled_functional", compiled_functional},
             {"compiled_both", compiled_both},
             {"own", own},
             {"values", values},
             {"metrics", metrics}};

static objects make(int which)
{
    objects o = {0};
    CASES[which].make(&o);
    if (o.model && !o.checkpoint) o.checkpoint = lk_checkpoint_of({"optimizer", o.optimizer}, {"model", o.model});
    return o;
}

static void build(objects *o)
{
    if (!o->model) return;
    if (o->by_call) lk_model_call(o->model, lk_zeros(LK_SHAPE(1, o->row.dim[0]), LK_F32));
    else lk_model_build(o->model, o->row);
    lk_optimizer_build(o->optimizer, lk_model_trainable_variables(o->model));
}

/* ---- values ---- */

/* All variables of a case, in the order of the files. */
static lk_variables all_of(objects *o)
{
    static lk_variable *item[256];
    lk_variables        part[4] = {{0}};
    int                 n = 0;
    if (o->model) part[0] = lk_model_weights(o->model), part[1] = lk_optimizer_variables(o->optimizer);
    if (o->mean) part[0] = lk_metric_variables(o->mean), part[1] = lk_metric_variables(o->accuracy);
    part[2] = (lk_variables){o->count, o->variable};
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < part[p].count; i++)
            item[n++] = part[p].item[i];
    return (lk_variables){n, item};
}

/* What its file holds: the value; of a metric's state the sum over its lanes, as Keras has it. */
static lk_tensor *shown(const objects *o, lk_variable *v)
{
    return o->mean ? lk_cast(lk_reduce_sum(lk_read(v)), LK_F32) : lk_read(v);
}

static void set_values(objects *o, int which)
{
    const lk_variables all = all_of(o);
    for (int i = 0; i < all.count && !o->mean; i++) {
        const lk_shape shape = lk_variable_shape(all.item[i]);
        const int64_t  n = lki_shape_size(&shape);
        const lk_dtype dtype = lk_variable_dtype(all.item[i]);
        uint8_t       *data = calloc((size_t)n + 1, 8);
        for (int64_t k = 0; k < n; k++) {
            const double x = (double)((which * 31 + i * 17 + k * 7) % 113) / 8;
            lki_element_set(dtype, data, k, dtype == LK_BOOL ? k % 2 : lki_is_float(dtype) ? x : x * 8);
        }
        lk_assign(all.item[i], lk_tensor_from(shape, dtype, data));
        free(data);
    }
    if (!o->mean) return;
    lk_metric_update(o->mean, lk_rows(lk_tensor_of(LK_SHAPE(5), 1, 2, 3, 4, 0.5), 0));
    lk_metric_update(o->accuracy, lk_tensor_from(LK_SHAPE(3), LK_I64, (int64_t[]){1, 0, 1}),
                     lk_tensor_of(LK_SHAPE(3, 2), 0, 1, 0, 1, 0, 1));
}

static const char *file_of(const char *folder, int which, const char *whose, int n)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s/%s.%03d.npy", folder, CASES[which].name, whose, n);
    return path;
}

static const char *prefix_of(const char *folder, int which, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", folder, CASES[which].name, name);
    return path;
}

/* ---- the two directions ---- */

static void write_case(const char *folder, int which)
{
    objects o;
    LK_SCOPE(lk_mirrored_strategy(.cpu_devices = 2)) {
        o = make(which);
        build(&o);
        set_values(&o, which);
    }
    lk_checkpoint_save(o.checkpoint, prefix_of(folder, which, "ours"));
    for (int i = 0; i < 2; i++)
        lk_checkpoint_write(o.checkpoint, prefix_of(folder, which, "again"));
    const lk_variables all = all_of(&o);
    for (int i = 0; i < all.count && !lk_failed(); i++) {
        const lk_tensor *t = shown(&o, all.item[i]);
        lki_array        a = {lk_tensor_dtype(t), lk_tensor_shape(t), (void *)lk_data(t)};
        if (lk_data(t)) lki_npy_write(file_of(folder, which, "ours", i), &a);
    }
}

static bool same(const objects *o, lk_variable *v, const char *file)
{
    lki_array        a;
    const lk_tensor *t = shown(o, v);
    if (lki_npy_read(file, &a) != LK_OK || !lk_data(t)) return false;
    const lk_shape shape = lk_tensor_shape(t);
    bool           equal = lki_shape_equal(&a.shape, &shape) && a.dtype == lk_tensor_dtype(t) &&
                 memcmp(a.data, lk_data(t), (size_t)lki_shape_size(&shape) * lk_dtype_bytes(a.dtype)) == 0;
    lki_array_free(&a);
    if (!equal) printf("FAILED %s: \"%s\" is not the same\n", file, lk_variable_name(v));
    return equal;
}

static bool read_case(const char *folder, int which, bool build_first)
{
    objects o = make(which);
    bool    good = true;
    if (build_first) build(&o);
    lk_restore_status *s = lk_checkpoint_restore(o.checkpoint, prefix_of(folder, which, "theirs-1"));
    if (!build_first) build(&o);
    good = s && lk_restore_assert_consumed(s) == LK_OK;
    const lk_variables all = all_of(&o);
    for (int i = 0; i < all.count && good; i++)
        good = same(&o, all.item[i], file_of(folder, which, "theirs", i));
    return good && !lk_failed();
}

static bool run_case(bool writes, const char *folder, int which)
{
    bool good = true;
    lk_clear_error();
    LK_POOL {
        if (writes) write_case(folder, which);
        else good = read_case(folder, which, true) && read_case(folder, which, false);
    }
    good = good && !lk_failed();
    if (!good) printf("FAILED %s: %s\n", CASES[which].name, lk_error());
    return good;
}

/* ---- managers ---- */

static bool ends_in(lk_names names, int i, const char *end)
{
    const char *name = i < names.count ? names.item[i] : "";
    return strlen(name) > strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

static bool take_turns(bool writes, const char *folder)
{
    char path[512];
    bool good = true;
    snprintf(path, sizeof path, "%s/manager", folder);
    LK_POOL {
        lk_variable           *v = lk_variable_of(lk_scalar(7));
        lk_checkpoint_manager *m = lk_checkpoint_manager_of(lk_checkpoint_of({"v", v}), path, .max_to_keep = 2);
        for (int i = 0; i < 3 && writes; i++)
            good = good && lk_checkpoint_manager_save(m);
        if (!writes) {
            lk_names all = lk_checkpoint_manager_checkpoints(m);
            good = all.count == 2 && ends_in(all, 0, "/ckpt-3") && ends_in(all, 1, "/ckpt-4") &&
                   lk_checkpoint_manager_restore_or_initialize(m) && lk_item(lk_read(v)) == 8 && lk_checkpoint_manager_save(m);
            all = lk_checkpoint_manager_checkpoints(m);
            good = good && ends_in(all, 0, "/ckpt-4") && ends_in(all, 1, "/ckpt-5");
        }
    }
    good = good && !lk_failed();
    if (!good) printf("FAILED manager: %s\n", lk_error());
    return good;
}

int main(int argc, char **argv)
{
    const bool writes = argc == 3 && strcmp(argv[1], "write") == 0;
    int        passed = 0, count = (int)(sizeof CASES / sizeof CASES[0]);
    if (argc == 3 && (writes || strcmp(argv[1], "read") == 0)) {
        for (int i = 0; i < count; i++)
            passed += run_case(writes, argv[2], i);
        passed += take_turns(writes, argv[2]);
        count++;
    } else if (argc == 1) printf("not run: it is half of an exchange with TensorFlow; make interop does both\n"), count = 0;
    else return fprintf(stderr, "usage: checkpoint write|read FOLDER\n"), 2;
    printf("%d passed, %d failed\n", passed, count - passed);
    return passed != count;
}
