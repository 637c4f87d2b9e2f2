/* Models as Keras' JSON: written and read, and errors. */
#include "check.h"
#include "core/memory.h"
#include "format/json.h"
#include "model/model.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

/* ---- there and back ---- */

static bool same_outputs(lk_model *a, lk_model *b, lk_tensor *x)
{
    bool equal = true;
    LK_STEP {
        lk_tensor *ya = lk_model_call(a, x), *yb = lk_model_call(b, x);
        lk_tuple   all_a = a->outputs > 1 ? lk_nested(ya) : (lk_tuple){1, &ya},
                 all_b = a->outputs > 1 ? lk_nested(yb) : (lk_tuple){1, &yb};
        for (int i = 0; i < all_a.count && !lk_failed(); i++)
            equal = equal && lk_size(all_a.item[i]) == lk_size(all_b.item[i]) &&
                    !memcmp(lk_data(all_a.item[i]), lk_data(all_b.item[i]), (size_t)lk_size(all_a.item[i]) * sizeof(float));
    }
    return equal && !lk_failed();
}

static void copy_weights(lk_model *from, lk_model *to)
{
    lk_tensor   *value[64];
    lk_variables v = lk_model_weights(from);
    for (int i = 0; i < v.count; i++)
        value[i] = lk_read(v.item[i]);
    assert_int_equal(lk_model_set_weights(to, (lk_tuple){v.count, value}), LK_OK);
}

/* The same model from its JSON: its JSON, its layers in their order and, with the same weights, what it puts out. */
static void comes_back(lk_model *m, lk_tensor *x)
{
    const char *once = lk_model_to_json(m);
    if (!once) fail_msg("%s", lk_error());
    lk_model *again = lk_model_from_json(once);
    if (!again) fail_msg("%s", lk_error());
    assert_string_equal(lk_model_to_json(again), once);
    assert_int_equal(lk_model_layers(again).count, lk_model_layers(m).count);
    for (int i = 0; i < lk_model_layers(m).count; i++)
        assert_string_equal(lk_layer_name(lk_model_layers(again).item[i]), lk_layer_name(lk_model_layers(m).item[i]));
    copy_weights(m, again);
    if (!same_outputs(m, again, x)) fail_msg("another output; %s", lk_error());
}

static lk_tensor *rows(int64_t width) { return lk_random_normal(LK_SHAPE(4, width), .stream = "x"); }
static lk_tensor *images(void) { return lk_random_normal(LK_SHAPE(2, 8, 8, 3), .stream = "images"); }

TEST(layers_in_a_row)
{
    LK_POOL {
        comes_back(lk_sequential_named("mine", lk_conv2d(4, 3, .activation = LK_RELU, .input_shape = LK_SHAPE(8, 8, 3)),
                                       lk_batch_normalization(), lk_max_pooling2d(), lk_dropout(0.5), lk_flatten(),
                                       lk_dense(3, .kernel_regularizer = lk_l2(0.01), .trainable = LK_OFF)),
                   images());
    }
}

static int warnings;

static void count_policies(const char *text, void *user)
{
    (void)user;
    warnings += strstr(text, "dtype policy \"mixed_float16\"") != NULL;
}

/* One warning for a model; the name of the policy goes back to files. */
TEST(other_policies_compute_in_float32)
{
    LK_POOL {
        lk_model   *m = lk_sequential(lk_dense(3, .input_shape = LK_SHAPE(4)), lk_batch_normalization(), lk_dense(2));
        const char *text = lk_model_to_json(m);
        char       *mixed = lki_alloc(4 * strlen(text)), *to = mixed;
        const char *plain = "{\"name\": \"float32\"}";
        for (const char *at = text; *at;)
            if (!strncmp(at, plain, strlen(plain))) {
                to += sprintf(to, "{\"name\": \"mixed_float16\"}");
                at += strlen(plain);
            } else *to++ = *at++;
        *to = 0;
        warnings = 0;
        lk_set_log(count_policies, NULL);
        lk_model *read = lk_model_from_json(mixed);
        lk_set_log(NULL, NULL);
        if (!read) fail_msg("%s", lk_error());
        assert_int_equal(warnings, 1);
        copy_weights(m, read);
        assert_true(same_outputs(m, read, rows(4)));
        const char *again = lk_model_to_json(read), *dense = strstr(again, "\"class_name\": \"Dense\"");
        assert_non_null(strstr(dense, "\"mixed_float16\""));
        lki_release(mixed);
    }
}

TEST(rows_of_any_length)
{
    LK_POOL {
        lk_model *m = lk_sequential(lk_embedding(10, 4, .input_shape = LK_SHAPE(-1)), lk_lstm(3), lk_dense(1));
        comes_back(m, lk_tensor_from(LK_SHAPE(2, 3), LK_I32, (int32_t[]){1, 2, 3, 4, 5, 6}));
        assert_non_null(strstr(lk_model_to_json(m), "\"batch_shape\": [null, null], \"dtype\": \"int32\""));
    }
}

TEST(a_model_that_is_not_built)
{
    LK_POOL {
        lk_model   *m = lk_sequential(lk_dense(3), lk_dense(2));
        const char *text = lk_model_to_json(m);
        assert_null(strstr(text, "InputLayer"));
        lk_model *again = lk_model_from_json(text);
        assert_non_null(again);
        assert_int_equal(lk_model_weights(again).count, 0);
        assert_int_equal(lk_model_build(again, LK_SHAPE(4)), LK_OK);
        assert_int_equal(lk_model_weights(again).count, 4);
    }
}

/* Two inputs, two outputs, a layer that is used twice. */
static lk_model *branches(void)
{
    lk_node  *a = lk_input(LK_SHAPE(4), .name = "first"), *b = lk_input(LK_SHAPE(4), .name = "second");
    lk_layer *shared = lk_dense(4, .name = "shared", .activation = LK_TANH);
    lk_node  *p = lk_apply(shared, a), *q = lk_apply(shared, b), *sum = lk_apply(lk_add_layer(), p, q, a);
    lk_node  *one = lk_apply(lk_dense(2, .name = "one"), sum), *two = lk_apply(lk_dense(1, .name = "two"), lk_apply(shared, sum));
    return lk_functional(LK_NODES(a, b), LK_NODES(one, two), .name = "branches");
}

TEST(a_graph_with_a_shared_layer)
{
    LK_POOL {
        lk_model *m = branches();
        comes_back(m, lk_nest(LK_TUPLE(rows(4), rows(4))));
        const char *text = lk_model_to_json(m);
        assert_non_null(strstr(text,
                               "\"input_layers\": [[\"first\", 0, 0], [\"second\", 0, 0]], \"output_layers\": [[\"one\", 0, 0], "
                               "[\"two\", 0, 0]]"));
        assert_non_null(strstr(text, "\"keras_history\": [\"shared\", 2, 0]"));
    }
}

TEST(one_input_and_one_output_are_not_lists)
{
    LK_POOL {
        lk_node    *x = lk_input(LK_SHAPE(3));
        const char *text = lk_model_to_json(lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_dense(2), x))));
        assert_non_null(strstr(text, "\"input_layers\": [\"input_layer\", 0, 0], \"output_layers\": [\"dense\", 0, 0]"));
    }
}

TEST(models_in_models)
{
    LK_POOL {
        lk_node  *i = lk_input(LK_SHAPE(4)), *x = lk_input(LK_SHAPE(4));
        lk_model *block =
            lk_functional(LK_NODES(i), LK_NODES(lk_apply(lk_add_layer(), lk_apply(lk_dense(4), i), i)), .name = "block");
        lk_layer *inner = lk_model_layer(block), *tower = lk_model_layer(lk_sequential_named("tower", lk_dense(3), lk_dense(2)));
        lk_node  *y = lk_apply(tower, lk_apply(inner, lk_apply(inner, x)));
        comes_back(lk_functional(LK_NODES(x), LK_NODES(y)), rows(4));
    }
}

static lk_layer *block_layer(const char *name)
{
    lk_node *i = lk_input(LK_SHAPE(4));
    return lk_model_layer(lk_functional(LK_NODES(i), LK_NODES(lk_apply(lk_dense(4), i)), .name = name));
}

/* As an end of a model, a functional model counts from 1: its node of its own comes first. As an input of a layer it does not. */
TEST(functional_models_at_the_end_of_models)
{
    LK_POOL {
        lk_node  *x = lk_input(LK_SHAPE(4)), *i = lk_input(LK_SHAPE(4), .name = "rows");
        lk_layer *thrice = block_layer("thrice"), *row = lk_model_layer(lk_sequential_named("row", lk_dense(3)));
        lk_model *around = lk_functional(LK_NODES(i), LK_NODES(lk_apply(block_layer("inner"), i)), .name = "around");
        lk_node  *deep = lk_apply(thrice, lk_apply(thrice, lk_apply(thrice, x))), *other = lk_apply(lk_model_layer(around), x);
        lk_model *m = lk_functional(LK_NODES(x), LK_NODES(deep, other, lk_apply(row, x)));
        comes_back(m, rows(4));
        const char *text = lk_model_to_json(m);
        assert_non_null(strstr(text, "\"output_layers\": [[\"thrice\", 3, 0], [\"around\", 1, 0], [\"row\", 0, 0]]"));
        assert_non_null(strstr(text, "\"input_layers\": [\"rows\", 0, 0], \"output_layers\": [\"inner\", 1, 0]"));
        assert_non_null(strstr(text, "\"keras_history\": [\"thrice\", 0, 0]"));
        assert_null(strstr(text, "\"keras_history\": [\"thrice\", 2, 0]"));
    }
}

TEST(attention_is_called_with_its_tensors_and_its_mask)
{
    LK_POOL {
        lk_node    *q = lk_input(LK_SHAPE(3, 4)), *v = lk_input(LK_SHAPE(5, 4));
        lk_layer   *self = lk_multi_head_attention(2, 3, .use_causal_mask = LK_ON), *cross = lk_multi_head_attention(2, 3);
        lk_model   *m = lk_functional(LK_NODES(q, v), LK_NODES(lk_apply(cross, lk_apply(self, q, q), v, v)));
        const char *text = lk_model_to_json(m);
        assert_non_null(strstr(text, "\"kwargs\": {\"use_causal_mask\": true}"));
        comes_back(m, lk_nest(LK_TUPLE(lk_random_normal(LK_SHAPE(2, 3, 4), .stream = "q"),
                                       lk_random_normal(LK_SHAPE(2, 5, 4), .stream = "v"))));
    }
}

/* Under a strategy its variables are the strategy's, as those of any model made there. */
TEST(inside_a_scope)
{
    LK_POOL {
        lk_model *m = NULL;
        LK_SCOPE(lk_mirrored_strategy(.cpu_devices = 2)) {
            m = lk_model_from_json(lk_model_to_json(branches()));
        }
        assert_non_null(m);
        assert_non_null(m->strategy);
        assert_non_null(lk_model_weights(m).item[0]->spread);
    }
}

TEST(what_a_model_is_compiled_with_is_in_its_json_but_not_made_from_it)
{
    LK_POOL {
        lk_model *m = branches();
        lk_model_compile(m, .optimizer = lk_adam(.learning_rate = 0.25),
                         .losses = LK_LOSSES(lk_mean_squared_error(), lk_huber(.delta = LK_NUMBER(0.5))),
                         .loss_weights = LK_NUMBERS(1, 0.5),
                         .metrics = LK_METRICS(lk_mean_absolute_error_metric(), lk_accuracy(.output = 1)));
        const char *text = lk_model_to_json(m);
        assert_non_null(
            strstr(text, "\"compile_config\": {\"optimizer\": {\"module\": \"keras.optimizers\", \"class_name\": \"Adam\""));
        assert_non_null(strstr(text, "\"loss\": [{\"module\": \"keras.losses\", \"class_name\": \"MeanSquaredError\""));
        assert_non_null(strstr(text, "\"loss_weights\": [1.0, 0.5], \"metrics\": [[{"));
        assert_non_null(strstr(text, "}], [\"accuracy\"]], \"weighted_metrics\": null"));
        lk_model *again = lk_model_from_json(text);
        assert_non_null(again);
        assert_null(lk_model_optimizer(again));
    }
}

/* ---- what Keras has not ---- */

static lk_tensor *own(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user)
{
    (void)l, (void)pass, (void)user;
    return in.item[0];
}

static lk_tuple own_model(lk_model *m, lk_tuple in, int training, void *user)
{
    (void)m, (void)training, (void)user;
    return in;
}

static lk_tensor *own_values(lk_tensor *labels, lk_tensor *predictions, void *user)
{
    (void)user;
    return lk_sub(labels, predictions);
}

static lk_tensor *own_first(lk_shape shape, const char *stream, void *user)
{
    (void)stream, (void)user;
    return lk_zeros(shape, LK_F32);
}

/* ---- operations ---- */

#define META(name, shape)                                                                                                          \
    "{\"class_name\": \"__keras_tensor__\", \"config\": {\"shape\": " shape                                                        \
    ", \"dtype\": \"float32\", \"keras_history\": [\"" name "\", 0, 0]}}"
#define ENTRY(name, shape)                                                                                                         \
    "{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": " shape ", \"name\": \"" name    \
    "\"}, \"name\": \"" name "\", \"inbound_nodes\": []}"
#define TWO(module, class_name, config, args)                                                                                      \
    "{\"module\": \"keras\", \"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": [" ENTRY(                   \
        "a", "[null, 2, 3]") ", " ENTRY("b", "[null, 3]") ", {\"module\": \"" module "\", \"class_name\": \"" class_name           \
                                                          "\", \"config\": {\"name\": \"y\"" config                                \
                                                          "}, \"registered_name\": null, \"name\": \"y\", \"inbound_nodes\": "     \
                                                          "[{\"args\": [" args                                                     \
                                                          "], \"kwargs\": {}}]}], \"input_layers\": [[\"a\", 0, 0], [\"b\", 0, "   \
                                                          "0]], \"output_layers\": [[\"y\", 0, 0]]}}"
#define A_AND_B META("a", "[null, 2, 3]") ", " META("b", "[null, 3]")

static void gives(const char *json, const float *want)
{
    LK_POOL {
        lk_model *m = lk_model_from_json(json);
        if (!m) fail_msg("%s", lk_error());
        lk_tensor *a = lk_reshape(lk_range(12, LK_F32), LK_SHAPE(2, 2, 3)),
                  *b = lk_tensor_of(LK_SHAPE(2, 3), 10, 20, 30, 40, 50, 60);
        lk_tensor *y = lk_model_predict(m, .x = lk_nest(LK_TUPLE(a, b)), .verbose = LK_SILENT);
        if (lk_failed()) fail_msg("%s", lk_error());
        assert_memory_equal(lk_data(y), want, 12 * sizeof(float));
        const char *again = lk_model_to_json(m);
        assert_string_equal(lk_model_to_json(lk_model_from_json(again)), again);
    }
}

/* Of tensors of different ranks the layers take rows together, and the operations, which a + b is, what numpy would: the two rows
 * of b meet the two steps of a. Numbers of Keras 3.15.1. */
TEST(operations_broadcast_as_numpy_does)
{
    static const float LAYER[] = {10, 21, 32, 13, 24, 35, 46, 57, 68, 49, 60, 71},
                       ADD[] = {10, 21, 32, 43, 54, 65, 16, 27, 38, 49, 60, 71},
                       SUBTRACT[] = {-10, -19, -28, -37, -46, -55, -4, -13, -22, -31, -40, -49};
    gives(TWO("keras.layers", "Add", "", "[" A_AND_B "]"), LAYER);
    gives(TWO("keras.src.ops.numpy", "Add", "", A_AND_B), ADD);
    gives(TWO("keras.src.ops.numpy", "Subtract", "", A_AND_B), SUBTRACT);
    LK_POOL {
        lk_model   *m = lk_model_from_json(TWO("keras.src.ops.numpy", "Add", "", A_AND_B));
        const char *text = lk_model_to_json(m);
        assert_non_null(
            strstr(text, "{\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Add\", \"config\": {\"name\": \"y\"}"));
        assert_non_null(strstr(text, "\"args\": [{\"class_name\": \"__keras_tensor__\""));
        lk_tensor *three = lk_ones(LK_SHAPE(3, 2, 3), LK_F32), *b = lk_ones(LK_SHAPE(3, 3), LK_F32);
        assert_true(lk_poisoned(lk_model_predict(m, .x = lk_nest(LK_TUPLE(three, b)), .verbose = LK_SILENT)));
        assert_int_equal(lk_error_code(), LK_ESHAPE); /* [3, 2, 3] and [3, 3], which numpy refuses too */
        lk_clear_error();
    }
}

TEST(operations_of_rows_that_meet_need_one_replica)
{
    LK_POOL {
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
        lk_model    *m = NULL;
        LK_SCOPE(s) {
            m = lk_model_from_json(TWO("keras.src.ops.numpy", "Add", "", A_AND_B));
        }
        lk_tensor *a = lk_ones(LK_SHAPE(2, 2, 3), LK_F32), *b = lk_ones(LK_SHAPE(2, 3), LK_F32);
        assert_true(lk_poisoned(lk_model_predict(m, .x = lk_nest(LK_TUPLE(a, b)), .verbose = LK_SILENT)));
        if (!strstr(lk_error(), "one replica")) fail_msg("%s", lk_error());
        lk_clear_error();
    }
}

static void not_written(lk_model *m, const char *words)
{
    if (lk_model_to_json(m)) fail_msg("should be refused");
    if (!strstr(lk_error(), words)) fail_msg("\"%s\" is not in: %s", words, lk_error());
    assert_int_equal(lk_error_code(), LK_EUNSUPPORTED);
    lk_clear_error();
}

TEST(code_of_ones_own_is_not_written)
{
    LK_POOL {
        not_written(lk_sequential(lk_layer_of(own, .name = "mine")),
                    "lk_model_to_json: layer \"mine\": the layer is a custom function, which a Keras file cannot store");
        not_written(lk_model_of(own_model), "lk_model_to_json: model \"own_model\" is a custom model");
        not_written(lk_sequential(lk_dense(2, .kernel_initializer = lk_initializer_of(own_first, NULL))),
                    "layer \"dense\": the initialiser is a custom function");
        lk_model *m = lk_sequential(lk_dense(2));
        lk_model_compile(m, .loss = lk_loss_of(own_values));
        not_written(m, "what the model is compiled with: the loss is a custom function");
        not_written(lk_sequential(lk_dense(2, .activation = LK_GELU_TANH)), "layer \"dense\": activation \"gelu_tanh\"");
    }
}

/* ---- what is refused ---- */

static void refused(const char *text, lk_status code, const char *words)
{
    LK_POOL {
        if (lk_model_from_json(text)) fail_msg("should be refused: %s", text);
        if (!strstr(lk_error(), words)) fail_msg("\"%s\" is not in: %s", words, lk_error());
        if (lk_error_code() != code)
            fail_msg("%s instead of %s: %s", lk_status_name(lk_error_code()), lk_status_name(code), lk_error());
        lk_clear_error();
    }
}

#define LAYER(class, config, ...)                                                                                                  \
    "{\"module\": \"keras.layers\", \"class_name\": \"" class "\", \"config\": {" config "}" __VA_ARGS__ "}"
#define MODEL(class, config) "{\"module\": \"keras\", \"class_name\": \"" class "\", \"config\": {\"name\": \"m\", " config "}}"
#define ROW(...) MODEL("Sequential", "\"layers\": [" __VA_ARGS__ "]")
#define INPUT(shape) LAYER("InputLayer", "\"batch_shape\": " shape ", \"dtype\": \"float32\", \"name\": \"in\"")

TEST(mistakes_in_rows_of_layers)
{
    refused("", LK_EFORMAT, "lk_model_from_json: ");
    refused("[]", LK_EFORMAT, "there is an array; it should be an object");
    refused("{}", LK_EFORMAT, "\"class_name\" is missing; it should be a string");
    refused(MODEL("Sequential", "\"x\": 1"), LK_EFORMAT, "\"layers\" is missing; it should be a list");
    refused(MODEL("Sequential", "\"layers\": {}"), LK_EFORMAT, "\"layers\" is an object; it should be a list");
    refused(ROW(), LK_EUNSUPPORTED, "the model has no layers");
    refused(ROW(INPUT("[null, 4]")), LK_EUNSUPPORTED, "the model has no layers");
    refused(MODEL("Mine", "\"layers\": []"), LK_EUNSUPPORTED,
            "there is no class of models \"Mine\"; known are Sequential and Functional");
    refused("{\"module\": \"mine\", \"class_name\": \"Sequential\", \"config\": {}}", LK_EUNSUPPORTED,
            "class \"Sequential\" of mine is a custom class");
    refused(ROW(LAYER("Conv4D", "\"name\": \"x\"")), LK_EUNSUPPORTED,
            "lk_model_from_json: layer \"x\": there is no class \"Conv4D\"; did you mean Conv1D, Conv2D, Conv3D?");
    refused(ROW(LAYER("BatchNormalization", "\"name\": \"batch_3\", \"renorm\": true")), LK_EUNSUPPORTED,
            "lk_model_from_json: layer \"batch_3\" (BatchNormalization): option \"renorm\" is true; only false is supported");
    refused(ROW(LAYER("Dense", "\"name\": \"d\", \"units\": \"2\"")), LK_EFORMAT,
            "layer \"d\" (Dense): option \"units\" is \"2\"; it should be an integer");
    refused(ROW(INPUT("[null, 4]") "," LAYER("Conv2D", "\"name\": \"c\", \"filters\": 2, \"kernel_size\": 3")), LK_ESHAPE,
            "lk_model_from_json: layer \"c\": rows of [4]: a row should be [height, width, channels]");
    refused(ROW(INPUT("4") "," LAYER("Dense", "\"units\": 2")), LK_EFORMAT, "layer \"in\" (InputLayer): \"batch_shape\" is 4");
    refused(ROW(INPUT("[null, -3]") "," LAYER("Dense", "\"units\": 2")), LK_EFORMAT, "it should be a list of sizes");
    refused(ROW(INPUT("[1,1,1,1,1,1,1,1,1]") "," LAYER("Dense", "\"units\": 2")), LK_EFORMAT, "at most 8 of them");
    refused(ROW(LAYER("InputLayer", "\"batch_shape\": [null, 2], \"sparse\": true") "," LAYER("Dense", "\"units\": 2")),
            LK_EUNSUPPORTED, "option \"sparse\" is on; it is not supported");
    refused(ROW(LAYER("InputLayer", "\"batch_shape\": [null, 2], \"dtype\": \"string\"") "," LAYER("Dense", "\"units\": 2")),
            LK_EUNSUPPORTED, "option \"dtype\" is \"string\"");
    refused(ROW(LAYER("Dense", "\"units\": 2, \"name\": \"a\"") "," LAYER("Dense", "\"units\": 2, \"name\": \"a\"")),
            LK_EUNSUPPORTED, "are both named \"a\"");
}

#define TENSOR(of)                                                                                                                 \
    "{\"class_name\": \"__keras_tensor__\", \"config\": {\"shape\": [null, 2], \"dtype\": \"float32\", \"keras_history\": " of "}" \
    "}"
#define USE(...) "{\"args\": [" __VA_ARGS__ "], \"kwargs\": {}}"
#define IN(name)                                                                                                                   \
    LAYER("InputLayer", "\"batch_shape\": [null, 2], \"name\": \"" name "\"", ", \"name\": \"" name "\", \"inbound_nodes\": []")
#define DENSE(name, ...)                                                                                                           \
    LAYER("Dense", "\"units\": 2, \"name\": \"" name "\"", ", \"name\": \"" name "\", \"inbound_nodes\": [" __VA_ARGS__ "]")
#define ENDS(in, out) "\"input_layers\": " in ", \"output_layers\": " out
#define GRAPH(layers, ends) MODEL("Functional", "\"layers\": [" layers "], " ends)
#define X "[\"x\", 0, 0]"
#define A "[\"a\", 0, 0]"
#define B "[\"b\", 0, 0]"

TEST(mistakes_in_graphs)
{
    const char *good = GRAPH(IN("x") "," DENSE("a", USE(TENSOR(X))), ENDS(X, A));
    LK_POOL {
        assert_non_null(lk_model_from_json(good));
    }
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR(B))) "," DENSE("b", USE(TENSOR(A))), ENDS(X, A)), LK_EFORMAT,
            "lk_model_from_json: layer \"a\" (Dense): it is part of a cycle: it needs its own output");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR(A))), ENDS(X, A)), LK_EFORMAT, "it is part of a cycle");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR("[\"nobody\", 0, 0]"))), ENDS(X, A)), LK_EFORMAT,
            "layer \"a\" (Dense): there is no layer \"nobody\", which it names");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR("[\"x\", 1, 0]"))), ENDS(X, A)), LK_EFORMAT,
            "it names node 1 of layer \"x\", which has 1");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR("[\"x\", -1, 0]"))), ENDS(X, A)), LK_EFORMAT,
            "it names node -1 of layer \"x\"");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR("[\"x\", 0, 1]"))), ENDS(X, A)), LK_EFORMAT,
            "it names output 1 of layer \"x\"");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR("[\"x\"]"))), ENDS(X, A)), LK_EFORMAT,
            "should be [\"name of a layer\", node, tensor]");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR("7"))), ENDS(X, A)), LK_EFORMAT,
            "7 should be [\"name of a layer\", node, tensor]");
    refused(GRAPH(IN("x") "," DENSE("a", USE("3.5")), ENDS(X, A)), LK_EUNSUPPORTED,
            "it is called with 3.5; only outputs of layers are supported");
    refused(GRAPH(IN("x") "," DENSE("a", USE()), ENDS(X, A)), LK_EFORMAT, "an inbound node has no inputs");
    refused(GRAPH(IN("x") "," DENSE("a", "7"), ENDS(X, A)), LK_EFORMAT, "an inbound node is a number; it should be {\"args\"");
    refused(GRAPH(IN("x") "," DENSE("a"), ENDS(X, A)), LK_EFORMAT, "it is not connected to anything: it has no inbound nodes");
    refused(GRAPH(IN("x") "," LAYER("Dense", "\"units\": 2, \"name\": \"a\""), ENDS(X, A)), LK_EFORMAT,
            "\"inbound_nodes\" is missing");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR(X))) "," DENSE("a", USE(TENSOR(X))), ENDS(X, A)), LK_EFORMAT,
            "two layers are named \"a\"");
    refused(GRAPH(IN("x") "," LAYER("Dense", "\"units\": 2", ", \"inbound_nodes\": []"), ENDS(X, A)), LK_EFORMAT,
            "layer 1 has no name");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR(X) "," TENSOR(X))), ENDS(X, A)), LK_EUNSUPPORTED,
            "layer \"a\": 2 inputs; it takes");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR(X))) "," DENSE("b", USE(TENSOR(X))), ENDS(X, A)), LK_EFORMAT,
            "layer \"b\" is not on a path from the inputs to the outputs");
    refused(GRAPH(DENSE("a", USE(TENSOR(X))) "," IN("x"), ENDS(X, A)), LK_EFORMAT, "layer 0 is \"a\"; in Keras' order it is \"x\"");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR(X))), "\"input_layers\": [],"
                                                          " \"output_layers\": " A),
            LK_EFORMAT, "\"input_layers\" is empty");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR(X))), "\"input_layers\": {\"x\": 7}, \"output_layers\": " A), LK_EFORMAT,
            "7 should be [\"name of a layer\", node, tensor], or a list or an object of these");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR(X))), "\"input_layers\": " X ", \"output_layers\": 7"), LK_EFORMAT,
            "\"output_layers\" is a number; it should be a list");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR(X))), ENDS(A, A)), LK_EUNSUPPORTED, "inputs are made by lk_input()");
    refused(GRAPH(IN("x") "," DENSE("a", USE(TENSOR(X))), ENDS("[" X "," X "]", A)), LK_EUNSUPPORTED,
            "inputs 0 and 1 are the same one");
    refused(GRAPH(IN("x") "," LAYER(
                      "Dense", "\"units\": 2, \"name\": \"a\"",
                      ", \"name\": \"a\", \"inbound_nodes\": [{\"args\": [" TENSOR(X) "], \"kwargs\": {\"mask\": " TENSOR(X) "}}]"),
                  ENDS(X, A)),
            LK_EUNSUPPORTED, "layer \"a\" (Dense): argument \"mask\" of its call is {");
    refused(GRAPH(IN("x") "," DENSE("a", USE("{\"tensor\": 99, \"dtype\": \"float32\"}")), ENDS(X, A)), LK_EFORMAT,
            "it is called with an object that has a key \"tensor\"");
}

#define ATTENTION(...)                                                                                                             \
    LAYER("MultiHeadAttention", "\"num_heads\": 1, \"key_dim\": 2, \"name\": \"a\"",                                               \
          ", \"name\": \"a\", \"inbound_nodes\": [" __VA_ARGS__ "]")
#define STEPS                                                                                                                      \
    "{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": [null, 3, 2], \"name\": "        \
    "\"x\"}, \"name\": \"x\", \"inbound_nodes\": []}"
#define CALL(args, kwargs) "{\"args\": [" args "], \"kwargs\": {" kwargs "}}"

#define INNER(...)                                                                                                                 \
    "{\"module\": \"keras\", \"class_name\": \"Functional\", \"config\": {\"name\": \"a\", \"layers\": [" IN("x") "," DENSE(       \
        "b", USE(TENSOR(X))) "], " ENDS(X, B) "}, \"name\": \"a\", \"inbound_nodes\": [" __VA_ARGS__ "]}"

TEST(nodes_of_functional_models)
{
    LK_POOL {
        assert_non_null(lk_model_from_json(GRAPH(IN("x") "," INNER(USE(TENSOR(X))), ENDS(X, "[\"a\", 1, 0]"))));
        assert_non_null(lk_model_from_json(GRAPH(IN("x") "," INNER(USE(TENSOR(X)) "," USE(TENSOR(A))), ENDS(X, "[\"a\", 2, 0]"))));
    }
    refused(GRAPH(IN("x") "," INNER(USE(TENSOR(X))), ENDS(X, A)), LK_EFORMAT,
            "it names node 0 of layer \"a\", which has 1, the first being 1");
    refused(GRAPH(IN("x") "," INNER(USE(TENSOR(X))), ENDS(X, "[\"a\", 2, 0]")), LK_EFORMAT,
            "it names node 2 of layer \"a\", which has 1, the first being 1");
}

/* ---- code that is registered ---- */

static lk_tensor *scaled(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user)
{
    (void)pass, (void)user;
    return lk_mul(in.item[0], lk_layer_weight(l, "scale"));
}

static lk_status build_scale(lk_layer *l, int inputs, const lk_shape *in, void *user)
{
    (void)inputs, (void)in, (void)user;
    return lk_layer_add_weight(.layer = l, .name = "scale", .shape = LK_SHAPE(2), .initializer = lk_init_constant(.value = 3));
}

static lk_layer *make_scale(const char *config, void *user)
{
    if (user) *(const char **)user = strstr(config, "\"by\": 7") ? "by 7" : config;
    return lk_layer_of(scaled, .build = build_scale);
}

static lk_layer *make_nothing(const char *config, void *user)
{
    (void)config, (void)user;
    return NULL;
}

#define CODE(class_name, registered)                                                                                               \
    "{\"module\": \"my.code\", \"class_name\": \"" class_name                                                                      \
    "\", \"config\": {\"name\": \"s\", \"by\": 7}, \"registered_name\": \"" registered "\"}"
#define LAMBDA                                                                                                                     \
    "{\"module\": \"keras.layers\", \"class_name\": \"Lambda\", \"config\": {\"name\": \"half\", \"function\": {\"class_name\": "  \
    "\"__lambda__\", \"config\": {\"value\": \"4wEA\"}}, \"arguments\": {}}, \"registered_name\": null}"

TEST(code_that_is_registered)
{
    const char *said = NULL;
    refused(ROW("{\"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": [null, 2], \"name\": \"x\"}}, " CODE("Scale",
                                                                                                                     "My>Scale")),
            LK_EUNSUPPORTED, "lk_register_layer(\"My>Scale\", ...) says what computes it in C");
    refused(
        ROW("{\"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": [null, 2], \"name\": \"x\"}}, " LAMBDA),
        LK_EUNSUPPORTED,
        "layer \"half\" (Lambda): it is Python code, a custom class, not one of Keras; lk_register_layer(\"Lambda:half\", ...)");
    assert_int_equal(lk_register_layer("My>Scale", make_scale, &said), LK_OK);
    assert_int_equal(lk_register_layer("Lambda", make_scale, &said), LK_OK);
    LK_POOL {
        lk_model *m = lk_model_from_json(
            ROW("{\"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": [null, 2], \"name\": \"x\"}}, " CODE(
                "Scale", "My>Scale") ", " LAMBDA));
        if (!m) fail_msg("%s", lk_error());
        lk_tensor *y = lk_model_predict(m, .x = lk_tensor_of(LK_SHAPE(1, 2), 1, 2), .verbose = LK_SILENT);
        assert_memory_equal(lk_data(y), ((float[]){9, 18}), 8);
        assert_string_equal(lk_layer_name(lk_model_layers(m).item[0]), "s");
        const char *text = lk_model_to_json(m);
        if (!strstr(text, CODE("Scale", "My>Scale"))) fail_msg("%s", text);
        assert_non_null(strstr(text, LAMBDA));
        comes_back(m, rows(2));
    }
    assert_int_equal(lk_register_layer("Lambda:half", make_nothing, NULL), LK_OK);
    refused(ROW(LAMBDA), LK_EUNSUPPORTED, "the function that is registered for it returned NULL");
    lk_register_layer("Lambda:half", NULL, NULL);
    lk_register_layer("Lambda", NULL, NULL);
    lk_register_layer("My>Scale", NULL, NULL);
    assert_int_equal(lk_register_layer("", make_scale, NULL), LK_EINVAL);
    lk_clear_error();
    refused(ROW(LAMBDA), LK_EUNSUPPORTED, "it is Python code");
}

/* What is not one tensor or a list of several comes back as it was: objects count in the order of their keys, and losses go by
 * these. */
TEST(inputs_and_outputs_in_objects)
{
    static const char *const ENDS_OF[] = {"\"input_layers\": [[\"x\", 0, 0]], \"output_layers\": [[\"a\", 0, 0]]",
                                          "\"input_layers\": {\"x\": [\"x\", 0, 0]}, \"output_layers\": {\"deep\": {\"b\": [\"a\", "
                                          "0, 0]}, \"list\": [[\"x\", 0, 0]]}"};
    static char              text[2000];
    for (int i = 0; i < LKI_COUNT(ENDS_OF); i++)
        LK_POOL {
            snprintf(text, sizeof text, "%s%s}}",
                     "{\"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": [" IN("x") "," DENSE(
                         "a", USE(TENSOR(X))) "], ",
                     ENDS_OF[i]);
            lk_model *m = lk_model_from_json(text);
            if (!m) fail_msg("%s", lk_error());
            if (!strstr(lk_model_to_json(m), ENDS_OF[i])) fail_msg("%s is not in %s", ENDS_OF[i], lk_model_to_json(m));
            assert_string_equal(lki_model_output_name(m, 0), i ? "deep/b" : "a");
            if (i) assert_string_equal(lki_model_output_name(m, 1), "list/x");
            comes_back(m, rows(2));
        }
}

/* The second call names its tensors, and one leaves one out. */
TEST(calls_are_written_as_they_came)
{
    LK_POOL {
        lk_model *m =
            lk_model_from_json(GRAPH(STEPS "," LAYER("MultiHeadAttention", "\"num_heads\": 1, \"key_dim\": 2, \"name\": \"a\"",
                                                     ", \"name\": \"a\", \"inbound_nodes\": [{\"args\": [" TENSOR(X) ", " TENSOR(
                                                         X) "], \"kwargs\": {\"training\": false, "
                                                            "\"mask\": null}}, {\"args\": [], \"kwargs\": {\"value\": " TENSOR(
                                                                A) ", \"query\": " TENSOR(A) ", \"key\": null}}]"),
                                     ENDS(X, "[\"a\", 1, 0]")));
        if (!m) fail_msg("%s", lk_error());
        const char *text = lk_model_to_json(m), *at = strstr(text, "\"inbound_nodes\": [{\"args\": [{");
        assert_non_null(at);
        assert_non_null(strstr(at, "\"kwargs\": {\"training\": false, \"mask\": null}}, {\"args\": [], \"kwargs\": {\"value\": {"));
        assert_non_null(strstr(at, "\"key\": null}}]"));
        comes_back(m, lk_random_normal(LK_SHAPE(4, 3, 2), .stream = "x"));
    }
}

TEST(calls_that_differ)
{
    refused(GRAPH(STEPS
                  "," ATTENTION(CALL(TENSOR(X) "," TENSOR(X), "\"use_causal_mask\": true") "," CALL(TENSOR(A) "," TENSOR(A), "")),
                  ENDS(X, "[\"a\", 1, 0]")),
            LK_EUNSUPPORTED, "argument \"use_causal_mask\" of its calls is true and null; it must be the same for all");
}

/* ---- hostile ones ---- */

static char *deep(int levels)
{
    static char text[1 << 16];
    size_t      used = 0;
    for (int i = 0; i < levels; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "{\"class_name\": \"Sequential\", \"config\": {\"layers\": [");
    return text;
}

TEST(hostile_texts)
{
    refused(deep(500), LK_EFORMAT, "lk_model_from_json");
    refused(ROW(INPUT("[null, 4]") "," LAYER("Dense", "\"units\": 4611686018427387904")), LK_EUNSUPPORTED,
            "units is 4611686018427387904; it must be at most 2147483647");
    refused(ROW(INPUT("[null, 4611686018427387904]") "," LAYER("Dense", "\"units\": 2")), LK_ESHAPE, "lk_model_from_json: ");
    refused(ROW(INPUT("[null, 2147483648, 2147483648, 4]") "," LAYER("Flatten", "\"name\": \"f\"")), LK_ESHAPE,
            "layer \"f\": rows of [2147483648, 2147483648, 4]: that is too large: at most 2^48 elements are possible");
    refused(ROW(INPUT("[null, 4, 4, 1]") "," LAYER("RandomCrop", "\"height\": 4611686018427387920, \"width\": 2")), LK_EUNSUPPORTED,
            "height is 4611686018427387920; it must be at most 2147483647");
    refused(ROW(INPUT("[null, 1000000000]") "," LAYER("Dense", "\"units\": 1000000000")), LK_ESHAPE,
            "its kernel, [1000000000, 1000000000], is too large");
    refused(ROW(INPUT("[null, 10000000]") "," LAYER("Dense", "\"units\": 10000000")), LK_ENOMEM, "");
    refused(ROW(LAYER("Dense", "\"units\": 1e400")), LK_EFORMAT, "");
    refused(ROW(LAYER("Dense", "\"units\": 2, \"units\": 3")), LK_EFORMAT, "");
    refused(ROW(LAYER("Dense", "\"units\": 2, \"name\": \"a/b\"")), LK_EUNSUPPORTED, "the name \"a/b\" has a slash in it");
    refused(ROW(LAYER("Dense", "\"units\": 2, \"name\": \"\"")), LK_EUNSUPPORTED, "the name is empty");
    refused(ROW(LAYER("Dense", "\"units\": 2, \"name\": \"a\\u001b[2J\"")), LK_EFORMAT,
            "the name \"a\\u001b[2J\" has a control character in it");
    refused(ROW(LAYER("Dense", "\"units\": 2, \"name\": \"a\\u007f\"")), LK_EFORMAT, "has a control character in it");
    refused(ROW(LAYER("Dense", "\"units\": 2, \"name\": \"a\\u009bm\"")), LK_EFORMAT, "has a control character in it");
    refused(ROW(LAYER("InputLayer", "\"batch_shape\": [null, 2], \"name\": \"a\\n\"") "," LAYER("Dense", "\"units\": 2")),
            LK_EFORMAT, "the name \"a\\n\" has a control character in it");
    refused(GRAPH(IN("x") "," DENSE("a\\t", USE(TENSOR(X))), ENDS(X, A)), LK_EFORMAT, "the name \"a\\t\" has a control");
    refused("{\"class_name\": \"Sequential\", \"config\": {\"name\": \"m\\r\", \"layers\": []}}", LK_EFORMAT,
            "lk_model_from_json: the name \"m\\r\" has a control character in it");
}

/* Far more layers or uses of one than there may be. */
TEST(too_many)
{
    enum { MANY = 30000 };
    static char text[MANY * 8 + 1000];
    size_t      used = (size_t)snprintf(text, sizeof text, "{\"class_name\": \"Sequential\", \"config\": {\"layers\": [");
    for (int i = 0; i < MANY; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i ? ", {}" : "{}");
    snprintf(text + used, sizeof text - used, "]}}");
    refused(text, LK_EUNSUPPORTED, "\"layers\" has 30000 entries; there may be 10000");
    used =
        (size_t)snprintf(text, sizeof text,
                         "{\"class_name\": \"Functional\", \"config\": {\"layers\": [{\"class_name\": \"ReLU\", \"name\": \"a\", "
                         "\"config\": {}, \"inbound_nodes\": [");
    for (int i = 0; i < MANY; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i ? ", {}" : "{}");
    snprintf(text + used, sizeof text - used, "]}]}}");
    refused(text, LK_EUNSUPPORTED, "layer \"a\" (ReLU): \"inbound_nodes\" has 30000 entries; there may be 20000");
}

/* A long chain, named backwards: neither deep in the stack nor slow. */
TEST(a_long_chain)
{
    enum { LAYERS = 600 };
    static char text[LAYERS * 500];
    size_t      used =
        (size_t)snprintf(text, sizeof text, "{\"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": [" IN("x"));
    for (int i = 0; i < LAYERS; i++) {
        char before[32];
        snprintf(before, sizeof before, i ? "[\"l%d\", 0, 0]" : X, i - 1);
        used += (size_t)snprintf(
            text + used, sizeof text - used,
            ", {\"class_name\": \"ReLU\", \"config\": {\"name\": \"l%d\"}, \"name\": \"l%d\", \"inbound_nodes\": "
            "[{\"args\": [{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": %s}}], \"kwargs\": {}}]}",
            i, i, before);
    }
    snprintf(text + used, sizeof text - used, "], \"input_layers\": " X ", \"output_layers\": [\"l%d\", 0, 0]}}", LAYERS - 1);
    LK_POOL {
        lk_model *m = lk_model_from_json(text);
        if (!m) fail_msg("%s", lk_error());
        assert_int_equal(lk_model_layers(m).count, LAYERS + 1);
    }
}

TEST(arguments_are_checked)
{
    assert_null(lk_model_from_json(NULL));
    assert_string_equal(lk_error(), "lk_model_from_json: the text is NULL");
    lk_clear_error();
    assert_null(lk_model_to_json(NULL));
    assert_string_equal(lk_error(), "lk_model_to_json: the model is NULL");
    lk_clear_error();
    assert_null(lk_model_from_json_file("/nowhere/model.json"));
    assert_int_equal(lk_error_code(), LK_ENOTFOUND);
    assert_non_null(strstr(lk_error(), "/nowhere/model.json"));
    lk_clear_error();
}

/* ---- memory ---- */

static char described[1 << 16];

static int read_it(void)
{
    int good = 0;
    LK_POOL {
        good = lk_model_from_json(described) != NULL;
    }
    return good;
}

static lk_model *written;

static int write_it(void)
{
    int good = 0;
    LK_POOL {
        good = lk_model_to_json(written) != NULL;
    }
    return good;
}

TEST(every_allocation_may_fail)
{
    LK_POOL {
        lk_node  *x = lk_input(LK_SHAPE(3));
        lk_layer *shared = lk_dense(3);
        written = lk_functional(LK_NODES(x),
                                LK_NODES(lk_apply(lk_add_layer(), lk_apply(shared, x), lk_apply(shared, lk_apply(shared, x)))));
        snprintf(described, sizeof described, "%s", lk_model_to_json(written));
        assert_true(check_every_allocation(write_it) > 5);
        assert_true(check_every_allocation(read_it) > 30);
    }
}

TESTS(cmocka_unit_test(layers_in_a_row), cmocka_unit_test(other_policies_compute_in_float32), cmocka_unit_test(rows_of_any_length),
      cmocka_unit_test(a_model_that_is_not_built), cmocka_unit_test(a_graph_with_a_shared_layer),
      cmocka_unit_test(one_input_and_one_output_are_not_lists), cmocka_unit_test(models_in_models),
      cmocka_unit_test(functional_models_at_the_end_of_models), cmocka_unit_test(attention_is_called_with_its_tensors_and_its_mask),
      cmocka_unit_test(inside_a_scope), cmocka_unit_test(what_a_model_is_compiled_with_is_in_its_json_but_not_made_from_it),
      cmocka_unit_test(operations_broadcast_as_numpy_does), cmocka_unit_test(operations_of_rows_that_meet_need_one_replica),
      cmocka_unit_test(code_of_ones_own_is_not_written), cmocka_unit_test(mistakes_in_rows_of_layers),
      cmocka_unit_test(mistakes_in_graphs), cmocka_unit_test(nodes_of_functional_models), cmocka_unit_test(calls_that_differ),
      cmocka_unit_test(code_that_is_registered), cmocka_unit_test(inputs_and_outputs_in_objects),
      cmocka_unit_test(calls_are_written_as_they_came), cmocka_unit_test(hostile_texts), cmocka_unit_test(too_many),
      cmocka_unit_test(a_long_chain), cmocka_unit_test(arguments_are_checked), cmocka_unit_test(every_allocation_may_fail))
