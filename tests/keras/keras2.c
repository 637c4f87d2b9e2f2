/* Models as Keras 2 wrote them: nodes as lists, shapes of inputs at any layer, functions of TensorFlow, options that Keras 3 has
 * not. Texts are those of tf_keras 2.21, shortened. */
#include "check.h"
#include "model/model.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

#define MODEL(class_name, config)                                                                                                  \
    "{\"class_name\": \"" class_name "\", \"config\": {\"name\": \"m\", " config "}, \"keras_version\": \"2.21.0\"}"
#define INPUT(name, shape)                                                                                                         \
    "{\"class_name\": \"InputLayer\", \"config\": {\"batch_input_shape\": " shape ", \"dtype\": \"float32\", \"sparse\": false, "  \
    "\"ragged\": false, \"name\": \"" name "\"}, \"name\": \"" name "\", \"inbound_nodes\": []}"
#define LAYER(class_name, name, config, nodes)                                                                                     \
    "{\"class_name\": \"" class_name "\", \"config\": {\"name\": \"" name "\", \"trainable\": true, \"dtype\": \"float32\"" config \
    "}, \"name\": \"" name "\", \"inbound_nodes\": " nodes "}"
#define TF(function, name, nodes)                                                                                                  \
    "{\"module\": \"tf_keras.src.layers.core.tf_op_layer\", \"class_name\": \"TFOpLambda\", \"config\": {\"name\": \"" name        \
    "\", \"trainable\": true, \"dtype\": \"float32\", \"function\": \"" function "\"}, \"registered_name\": \"TFOpLambda\", "      \
    "\"name\": \"" name "\", \"inbound_nodes\": " nodes "}"
#define ENDS(in, out) "], \"input_layers\": " in ", \"output_layers\": " out

static lk_model *read(const char *text)
{
    lk_model *m = lk_model_from_json(text);
    if (!m) fail_msg("%s", lk_error());
    const char *now = lk_model_to_json(m);
    lk_model   *again = now ? lk_model_from_json(now) : NULL;
    if (!again) fail_msg("%s", lk_error());
    assert_string_equal(lk_model_to_json(again), now);
    return m;
}

static void refused(const char *text, const char *words)
{
    if (lk_model_from_json(text)) fail_msg("should be refused: %s", text);
    if (!strstr(lk_error(), words)) fail_msg("\"%s\" is not in: %s", words, lk_error());
    assert_int_equal(lk_error_code(), LK_EUNSUPPORTED);
    lk_clear_error();
}

static void near(lk_tensor *y, int count, const float *want)
{
    if (lk_poisoned(y)) fail_msg("%s", lk_error());
    assert_int_equal(lk_size(y), count);
    for (int i = 0; i < count; i++)
        if (((const float *)lk_data(y))[i] != want[i])
            fail_msg("value %d is %g, not %g", i, ((const float *)lk_data(y))[i], want[i]);
}

/* The first layer has the shape of the rows; options without an effect are dropped, and others named. */
TEST(layers_in_a_row)
{
    static const char *const TEXT = MODEL(
        "Sequential",
        "\"layers\": [{\"class_name\": \"Conv2D\", \"config\": {\"name\": \"c\", \"batch_input_shape\": [null, 6, 6, 2], "
        "\"filters\": 3, \"kernel_size\": [3, 3], \"groups\": 1}}, {\"class_name\": \"DepthwiseConv2D\", \"config\": {\"name\": "
        "\"d\", \"kernel_size\": [3, 3], \"groups\": 1}}, {\"class_name\": \"LeakyReLU\", \"config\": {\"name\": \"l\", \"alpha\": "
        "0.1}}, {\"class_name\": \"Flatten\", \"config\": {\"name\": \"f\"}}]");
    LK_POOL {
        lk_model *m = read(TEXT);
        assert_int_equal(lk_model_layers(m).count, 4);
        assert_int_equal(lk_model_count_params(m), 3 * 3 * 2 * 3 + 3 + 3 * 3 * 3 + 3);
        assert_non_null(strstr(lk_model_to_json(m), "\"negative_slope\": 0.1"));
        refused(MODEL("Sequential",
                      "\"layers\": [{\"class_name\": \"LSTM\", \"config\": {\"name\": \"l\", \"batch_input_shape\": [null, "
                      "3, 2], \"units\": 2, \"time_major\": true}}]"),
                "layer \"l\" (LSTM): option \"time_major\", which is true, is not known");
    }
}

/* Node 1 of a model inside is its first call; a shared layer is called with two of them. */
TEST(nodes_are_lists)
{
    static const char *const TEXT =
        MODEL("Functional",
              "\"layers\": [" INPUT("b", "[null, 2]") ", " INPUT(
                  "a", "[null, 2]") ", "
                                    "{\"class_name\": \"Sequential\", \"config\": {\"name\": \"t\", \"layers\": [" INPUT(
                                        "i", "[null, 2]") ", {\"class_name\": \"ReLU\", \"config\": {\"name\": \"r\"}}]}, "
                                                          "\"name\": \"t\", \"inbound_nodes\": [[[\"a\", 0, 0, {}]], "
                                                          "[[\"b\", 0, 0, {}]]]}, " LAYER(
                                                              "Subtract", "s", "", "[[[\"t\", 1, 0, {}], [\"t\", 2, 0, {}]]]")
                                                              ENDS("[[\"a\", 0, 0], [\"b\", 0, 0]]",
                                                                   "{\"y\": [\"s\", 0, 0], \"x\": [\"t\", 2, 0]}"));
    LK_POOL {
        lk_model *m = read(TEXT);
        lk_tuple  y = lk_nested(
             lk_model_predict(m, .x = lk_nest(LK_TUPLE(lk_tensor_of(LK_SHAPE(1, 2), 5, -1), lk_tensor_of(LK_SHAPE(1, 2), 2, 3))),
                              .verbose = LK_SILENT));
        assert_string_equal(lki_model_output_name(m, 0), "x");
        near(y.item[0], 2, (float[]){2, 3});
        near(y.item[1], 2, (float[]){3, -3});
    }
}

/* The state of the encoder comes after the sequences, in one list. */
TEST(a_state_in_the_list_of_inputs)
{
    static const char *const TEXT =
        MODEL("Functional", "\"layers\": [" INPUT("a", "[null, 3, 2]") ", " INPUT("b", "[null, 4, 2]") ", " LAYER(
                                "GRU", "e", ", \"units\": 3, \"return_state\": true, \"time_major\": false, \"implementation\": 2",
                                "[[[\"a\", 0, 0, {}]]]") ", " LAYER("GRU", "d", ", \"units\": 3, \"implementation\": 2",
                                                                    "[[[\"b\", 0, 0, {}], [\"e\", 0, 1, {}]]]")
                                ENDS("[[\"a\", 0, 0], [\"b\", 0, 0]]", "[[\"d\", 0, 0]]"));
    LK_POOL {
        lk_model  *m = read(TEXT);
        lk_tensor *a = lk_random_normal(LK_SHAPE(2, 3, 2), .stream = "a"), *b = lk_random_normal(LK_SHAPE(2, 4, 2), .stream = "b");
        lk_tensor *y = lk_model_call(m, lk_nest(LK_TUPLE(a, b))),
                  *z = lk_model_call(m, lk_nest(LK_TUPLE(lk_zeros(LK_SHAPE(2, 3, 2), LK_F32), b)));
        assert_string_equal(lk_error(), "");
        assert_memory_not_equal(lk_data(y), lk_data(z), (size_t)lk_size(y) * 4);
    }
}

#define GET_ITEM                                                                                                                   \
    "{\"class_name\": \"SlicingOpLambda\", \"config\": {\"name\": \"g\", \"function\": \"__operators__.getitem\"}, \"name\": "     \
    "\"g\", \"inbound_nodes\": [[\"s\", 0, 0, {\"slice_spec\": [{\"start\": null, \"stop\": null, \"step\": null}, "               \
    "{\"start\": 1, \"stop\": null, \"step\": null}]}]]}"

TEST(functions_of_tensorflow)
{
    /* clang-format off */
    static const char *const TEXT = MODEL(
        "Functional",
        "\"layers\": [" INPUT("a", "[null, 3, 2]")
        ", " TF("math.multiply", "m", "[[\"a\", 0, 0, {\"y\": 2.0, \"name\": null}]]")
        ", " TF("math.subtract", "s", "[[\"_CONSTANT_VALUE\", -1, 1.0, {\"y\": [\"m\", 0, 0], \"name\": null}]]")
        ", " GET_ITEM
        ", " TF("math.reduce_sum", "r", "[[\"g\", 0, 0, {\"axis\": -1, \"keepdims\": true}]]")
        ", " TF("concat", "c", "[[[\"g\", 0, 0, {\"axis\": -1}], [\"r\", 0, 0, {\"axis\": -1}]]]")
        ", " TF("reshape", "f", "[[\"c\", 0, 0, {\"shape\": [-1, 6]}]]")
        ENDS("[[\"a\", 0, 0]]", "[[\"f\", 0, 0]]"));
    /* clang-format on */
    LK_POOL {
        lk_model   *m = read(TEXT);
        const char *text = lk_model_to_json(m);
        assert_non_null(
            strstr(text, "\"module\": \"keras.src.ops.numpy\", \"class_name\": \"Sum\", \"config\": {\"name\": \"r\", \"axis\": "
                         "-1, \"keepdims\": true}"));
        assert_null(strstr(text, "TFOpLambda"));
        near(lk_model_predict(m, .x = lk_reshape(lk_range(6, LK_F32), LK_SHAPE(1, 3, 2)), .verbose = LK_SILENT), 6,
             (float[]){-3, -5, -8, -7, -9, -16});
        refused(MODEL("Functional", "\"layers\": [" INPUT("a", "[null, 3, 2]") ", " TF("image.resize", "q", "[[\"a\", 0, 0, {}]]")
                                        ENDS("[[\"a\", 0, 0]]", "[[\"q\", 0, 0]]")),
                "layer \"q\" (TFOpLambda): TensorFlow's function \"image.resize\" is not supported");
    }
}

static const char *described =
    MODEL("Functional", "\"layers\": [" INPUT("a", "[null, 3, 2]") ", " TF("math.multiply", "m", "[[\"a\", 0, 0, {\"y\": 2.0}]]")
                            ENDS("[[\"a\", 0, 0]]", "{\"y\": [\"m\", 0, 0]}"));

static int read_it(void)
{
    int good = 0;
    LK_POOL {
        good = lk_model_from_json(described) != NULL;
    }
    return good;
}

TEST(every_allocation_may_fail) { assert_true(check_every_allocation(read_it) > 30); }

TESTS(cmocka_unit_test(layers_in_a_row), cmocka_unit_test(nodes_are_lists), cmocka_unit_test(a_state_in_the_list_of_inputs),
      cmocka_unit_test(functions_of_tensorflow), cmocka_unit_test(every_allocation_may_fail))
