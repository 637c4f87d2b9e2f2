/* Models of Keras 2 (tf_keras, TensorFlow up to 2.15) as Keras 3 writes them (keras2.h).
 *
 *     Keras 2                                                          Keras 3
 *     "batch_input_shape" of any layer                                 of an InputLayer only
 *     [["a", 0, 0, {}], ["b", 0, 0, {}]]                               {"args": [[tensor, tensor]], "kwargs": {}}
 *     ["a", 0, 0, {"y": ["b", 0, 0]}] of TFOpLambda "math.add"         {"args": [tensor], "kwargs": {"x2": tensor}} of Add
 *     node 1 of a model inside is its first call                       node 0 is
 *
 * A constant in place of a tensor is ["_CONSTANT_VALUE", -1, 2.0]. */
#include "keras/keras2.h"
#include "core/memory.h"
#include "keras/model_read.h"
#include "layer/operation.h"
#include <stdio.h>
#include <string.h>

/* ---- what is dropped ---- */

/* Options that Keras 3 does not have; the values that change nothing, or NULL: any. */
static const struct {
    const char *class, *option, *value;
} DROPPED[] = {
    {NULL, "batch_input_shape", NULL},
    {NULL, "dynamic", "false"},
    {NULL, "time_major", "false"},
    {NULL, "implementation", NULL},
    {NULL, "is_legacy_optimizer", NULL},
    {NULL, "jit_compile", NULL},
    {NULL, "decay", "0.0"},
    {NULL, "fn", NULL},
    {"MultiHeadAttention", "query_shape", NULL},
    {"MultiHeadAttention", "key_shape", NULL},
    {"MultiHeadAttention", "value_shape", NULL},
    {"MultiHeadAttention", "softmax_robust_masking", "false"},
    {"DepthwiseConv2D", "groups", "1"},
    {"DepthwiseConv1D", "groups", "1"},
    {"SeparableConv2D", "groups", "1"},
    {"SeparableConv1D", "groups", "1"},
    {"Conv2DTranspose", "groups", "1"},
    {"SeparableConv2D", "kernel_initializer", NULL},
    {"SeparableConv2D", "kernel_regularizer", NULL},
    {"SeparableConv2D", "kernel_constraint", NULL},
    {"SeparableConv1D", "kernel_initializer", NULL},
    {"SeparableConv1D", "kernel_regularizer", NULL},
    {"SeparableConv1D", "kernel_constraint", NULL},
    {"RandomFlip", "rng_type", NULL},
    {"RandomRotation", "rng_type", NULL},
    {"RandomCrop", "rng_type", NULL},
    {"RandomZoom", "rng_type", NULL},
    {"RandomTranslation", "rng_type", NULL},
    {"RandomContrast", "rng_type", NULL},
    {"RandomBrightness", "rng_type", NULL},
    {"Dropout", "rng_type", NULL},
    {"Embedding", "input_length", NULL},
    {"Embedding", "sparse", "false"},
    {"BatchNormalization", "fused", NULL},
    {"BatchNormalization", "renorm", "false"},
    {"BatchNormalization", "virtual_batch_size", "null"},
    {"BatchNormalization", "synchronized", "false"},
};

static const struct {
    const char *class, *option, *now;
} RENAMED[] = {{"LeakyReLU", "alpha", "negative_slope"}};

static bool is_dropped(const char *class_name, const lki_json *v)
{
    char text[80];
    for (int i = 0; i < LKI_COUNT(DROPPED); i++) {
        if (strcmp(DROPPED[i].option, v->key) || (DROPPED[i].class && strcmp(DROPPED[i].class, class_name))) continue;
        if (!DROPPED[i].value || !strcmp(DROPPED[i].value, lki_json_show(v, text, sizeof text))) return true;
    }
    return false;
}

static const char *key_now(const char *class_name, const char *key)
{
    for (int i = 0; i < LKI_COUNT(RENAMED); i++)
        if (!strcmp(RENAMED[i].option, key) && !strcmp(RENAMED[i].class, class_name)) return RENAMED[i].now;
    return key;
}

/* ---- pieces ---- */

typedef struct converting {
    lki_json_out   *out;
    const lki_json *layers; /* of the functional model that is being written; NULL: none */
    const char     *file;
    lk_status       status;
} converting;

static void key_text(lki_json_out *o, const char *key, const char *text)
{
    lki_json_key(o, key);
    lki_json_text(o, text);
}

static bool is_object(const lki_json *v) { return lki_text_in(v, "class_name") && lki_json_get(v, "config"); }
static bool is_functional(const char *class_name) { return !strcmp(class_name, "Functional") || !strcmp(class_name, "Model"); }

static void write_value(converting *c, const lki_json *v);
static void write_model(converting *c, const lki_json *v, bool open);

static void write_config(converting *c, const char *class_name, const lki_json *config)
{
    lki_json_open(c->out, '{');
    for (int i = 0; i < config->count; i++) {
        if (is_dropped(class_name, &config->item[i])) continue;
        lki_json_key(c->out, key_now(class_name, config->item[i].key));
        write_value(c, &config->item[i]);
    }
    lki_json_close(c->out, '}');
}

/* Modules of tf_keras are those of Keras 3; very old files have none. */
static void write_module(lki_json_out *o, const lki_json *v)
{
    const char *module = lki_text_in(v, "module");
    if (!module) return;
    key_text(o, "module", !strncmp(module, "tf_keras", 8) ? "keras.layers" : module);
}

static void write_input(lki_json_out *o, const lki_json *config)
{
    lki_json_open(o, '{');
    for (int i = 0; i < config->count; i++) {
        lki_json_key(o, strcmp(config->item[i].key, "batch_input_shape") ? config->item[i].key : "batch_shape");
        lki_json_copy(o, &config->item[i]);
    }
    lki_json_close(o, '}');
}

/* A wrapper of a function, "sparse_categorical_accuracy", is the class of that name. */
static const char *class_of_function(const char *class_name, const char *fn)
{
    const bool       metric = !strcmp(class_name, "MeanMetricWrapper"), loss = !strcmp(class_name, "LossFunctionWrapper");
    const lki_class *c =
        fn && (metric || loss) ? lki_class_named(lki_family_of(metric ? LKI_KIND_METRIC : LKI_KIND_LOSS), fn) : NULL;
    return c ? c->name : class_name;
}

/* An object with its config, open for more keys. */
static void write_object(converting *c, const lki_json *v)
{
    const char *class_name = lki_text_in(v, "class_name"), *custom = strchr(class_name, '>');
    const bool  built_in = custom && !strncmp(class_name, "Custom>", 7); /* optimisers of .h5 files */
    if (built_in) class_name = custom + 1;
    class_name = class_of_function(class_name, lki_text_in(lki_json_get(v, "config"), "fn"));
    lki_json_open(c->out, '{');
    write_module(c->out, v);
    key_text(c->out, "class_name", class_name);
    lki_json_key(c->out, "config");
    if (!strcmp(class_name, "InputLayer")) write_input(c->out, lki_json_get(v, "config"));
    else write_config(c, class_name, lki_json_get(v, "config"));
    const lki_json *name = lki_json_get(v, "registered_name"), *build = lki_json_get(v, "build_config");
    lki_json_key(c->out, "registered_name");
    if (name && name->type == LKI_JSON_STRING && strchr(name->text, '>') && !built_in) lki_json_copy(c->out, name);
    else lki_json_null(c->out);
    if (!build) return;
    lki_json_key(c->out, "build_config");
    lki_json_copy(c->out, build);
}

/* The metric "accuracy", which Keras 2 stores as the function it stood for; in .h5 files that may be another one. */
static bool is_accuracy(const lki_json *v)
{
    const char *class_name = lki_text_in(v, "class_name"), *name = lki_text_in(lki_json_get(v, "config"), "name");
    return class_name && name && !strcmp(class_name, "MeanMetricWrapper") && (!strcmp(name, "accuracy") || !strcmp(name, "acc"));
}

static void write_value(converting *c, const lki_json *v)
{
    const bool list = v->type == LKI_JSON_ARRAY;
    if (is_accuracy(v)) {
        lki_json_text(c->out, lki_text_in(lki_json_get(v, "config"), "name"));
        return;
    }
    if (is_object(v) && lki_json_get(v, "config")->type == LKI_JSON_OBJECT) {
        if (lki_is_model_class(lki_text_in(v, "class_name"))) write_model(c, v, true);
        else write_object(c, v);
        lki_json_close(c->out, '}');
        return;
    }
    if (!list && v->type != LKI_JSON_OBJECT) {
        lki_json_copy(c->out, v);
        return;
    }
    lki_json_open(c->out, list ? '[' : '{');
    for (int i = 0; i < v->count; i++) {
        if (!list) lki_json_key(c->out, v->item[i].key);
        write_value(c, &v->item[i]);
    }
    lki_json_close(c->out, list ? ']' : '}');
}

/* ---- calls ---- */

/* ["a", 0, 0] or ["a", 0, 0, {...}] */
static bool is_tensor(const lki_json *v)
{
    return v->type == LKI_JSON_ARRAY && v->count >= 3 && v->item[0].type == LKI_JSON_STRING && v->item[1].whole;
}

static bool is_constant(const lki_json *v) { return is_tensor(v) && !strcmp(v->item[0].text, "_CONSTANT_VALUE"); }

/* A model inside has a node of its own first. */
static int64_t nodes_before(const converting *c, const char *name)
{
    for (int i = 0; c->layers && i < c->layers->count; i++) {
        const char *its = lki_text_in(&c->layers->item[i], "name"), *class_name = lki_text_in(&c->layers->item[i], "class_name");
        if (its && class_name && !strcmp(its, name)) return lki_is_model_class(class_name);
    }
    return 0;
}

/* `shape`: with the batch; NULL: unknown. */
static void write_tensor(converting *c, const lki_json *v, const lki_json *shape)
{
    const int64_t before = nodes_before(c, v->item[0].text), node = v->item[1].integer;
    lki_json_open(c->out, '{');
    key_text(c->out, "class_name", "__keras_tensor__");
    lki_json_key(c->out, "config");
    lki_json_open(c->out, '{');
    if (shape) {
        lki_json_key(c->out, "shape");
        lki_json_copy(c->out, shape);
    }
    key_text(c->out, "dtype", "float32");
    lki_json_key(c->out, "keras_history");
    lki_json_open(c->out, '[');
    lki_json_text(c->out, v->item[0].text);
    lki_json_int(c->out, node >= before ? node - before : node);
    lki_json_copy(c->out, &v->item[2]);
    lki_json_close(c->out, ']');
    lki_json_close(c->out, '}');
    lki_json_close(c->out, '}');
}

/* Tensors, constants, and lists and objects of them. */
static void write_argument(converting *c, const lki_json *v, const lki_json *shape)
{
    const bool list = v->type == LKI_JSON_ARRAY;
    if (is_constant(v)) write_value(c, &v->item[2]);
    else if (is_tensor(v)) write_tensor(c, v, shape);
    else if (!list && v->type != LKI_JSON_OBJECT) lki_json_copy(c->out, v);
    else if (list && v->count == 1 && is_tensor(v->item)) write_tensor(c, v->item, shape);
    else {
        lki_json_open(c->out, list ? '[' : '{');
        for (int i = 0; i < v->count; i++) {
            const lki_json *one = shape && shape->type == LKI_JSON_ARRAY && i < shape->count ? &shape->item[i] : NULL;
            if (!list) lki_json_key(c->out, v->item[i].key);
            write_argument(c, &v->item[i], one && one->type == LKI_JSON_ARRAY ? one : NULL);
        }
        lki_json_close(c->out, list ? ']' : '}');
    }
}

/* The named arguments: they are beside the first tensor. */
static const lki_json *kwargs_in(const lki_json *v)
{
    const lki_json *found = NULL;
    if (is_tensor(v)) return v->count > 3 && v->item[3].type == LKI_JSON_OBJECT ? &v->item[3] : NULL;
    for (int i = 0; (v->type == LKI_JSON_ARRAY || v->type == LKI_JSON_OBJECT) && i < v->count && !found; i++)
        found = kwargs_in(&v->item[i]);
    return found;
}

static void write_call(converting *c, const lki_json *inbound)
{
    const lki_json *kwargs = kwargs_in(inbound);
    lki_json_open(c->out, '{');
    lki_json_key(c->out, "args");
    lki_json_open(c->out, '[');
    write_argument(c, inbound, NULL);
    lki_json_close(c->out, ']');
    lki_json_key(c->out, "kwargs");
    lki_json_open(c->out, '{');
    for (int i = 0; kwargs && i < kwargs->count; i++) {
        lki_json_key(c->out, kwargs->item[i].key);
        write_argument(c, &kwargs->item[i], NULL);
    }
    lki_json_close(c->out, '}');
    lki_json_close(c->out, '}');
}

/* ---- operations ---- */

/* A function of TensorFlow: Keras' operation, its first argument, and other names of its arguments. */
static const struct tf_function {
    const char *name, *module, *class, *first, *names;
} FUNCTIONS[] = {
#define TF_UNARY(name, module, class)                                                                                              \
    {                                                                                                                              \
        name, module, class, "x", ""                                                                                               \
    }
#define TF_BINARY(name, class)                                                                                                     \
    {                                                                                                                              \
        name, "numpy", class, "x1", "y x2"                                                                                         \
    }
#define TF_REDUCE(name, class)                                                                                                     \
    {                                                                                                                              \
        name, "numpy", class, "x", "axis axis keepdims keepdims"                                                                   \
    }
    TF_BINARY("__operators__.add", "Add"),
    TF_BINARY("math.add", "Add"),
    TF_BINARY("add", "Add"),
    TF_BINARY("math.subtract", "Subtract"),
    TF_BINARY("math.multiply", "Multiply"),
    TF_BINARY("math.truediv", "TrueDivide"),
    TF_BINARY("math.divide", "TrueDivide"),
    TF_BINARY("math.floordiv", "FloorDivide"),
    TF_BINARY("math.floormod", "Mod"),
    TF_BINARY("math.pow", "Power"),
    TF_BINARY("math.maximum", "Maximum"),
    TF_BINARY("math.minimum", "Minimum"),
    TF_BINARY("math.greater", "Greater"),
    TF_BINARY("math.greater_equal", "GreaterEqual"),
    TF_BINARY("math.less", "Less"),
    TF_BINARY("math.less_equal", "LessEqual"),
    TF_BINARY("math.equal", "Equal"),
    TF_BINARY("math.not_equal", "NotEqual"),
    TF_BINARY("__operators__.eq", "Equal"),
    TF_BINARY("__operators__.ne", "NotEqual"),
    TF_BINARY("math.logical_and", "LogicalAnd"),
    TF_BINARY("math.logical_or", "LogicalOr"),
    TF_BINARY("math.divide_no_nan", "DivideNoNan"),
    TF_BINARY("math.atan2", "Arctan2"),
    TF_UNARY("math.negative", "numpy", "Negative"),
    TF_UNARY("math.abs", "numpy", "Absolute"),
    TF_UNARY("abs", "numpy", "Absolute"),
    TF_UNARY("math.exp", "numpy", "Exp"),
    TF_UNARY("math.log", "numpy", "Log"),
    TF_UNARY("math.log1p", "numpy", "Log1p"),
    TF_UNARY("math.expm1", "numpy", "Expm1"),
    TF_UNARY("math.sqrt", "numpy", "Sqrt"),
    TF_UNARY("math.rsqrt", "math", "Rsqrt"),
    TF_UNARY("math.square", "numpy", "Square"),
    TF_UNARY("math.reciprocal", "numpy", "Reciprocal"),
    TF_UNARY("math.sin", "numpy", "Sin"),
    TF_UNARY("math.cos", "numpy", "Cos"),
    TF_UNARY("math.tan", "numpy", "Tan"),
    TF_UNARY("math.tanh", "numpy", "Tanh"),
    TF_UNARY("math.sigmoid", "nn", "Sigmoid"),
    TF_UNARY("math.softplus", "nn", "Softplus"),
    TF_UNARY("math.sign", "numpy", "Sign"),
    TF_UNARY("math.floor", "numpy", "Floor"),
    TF_UNARY("math.ceil", "numpy", "Ceil"),
    TF_UNARY("math.round", "numpy", "Round"),
    TF_UNARY("math.erf", "math", "Erf"),
    TF_UNARY("math.logical_not", "numpy", "LogicalNot"),
    TF_UNARY("math.is_nan", "numpy", "Isnan"),
    TF_UNARY("math.is_finite", "numpy", "Isfinite"),
    TF_UNARY("identity", "numpy", "Copy"),
    TF_UNARY("zeros_like", "numpy", "ZerosLike"),
    TF_UNARY("ones_like", "numpy", "OnesLike"),
    TF_UNARY("nn.relu", "nn", "Relu"),
    TF_UNARY("nn.relu6", "nn", "Relu6"),
    TF_UNARY("nn.tanh", "numpy", "Tanh"),
    TF_UNARY("nn.sigmoid", "nn", "Sigmoid"),
    TF_UNARY("nn.silu", "nn", "Silu"),
    TF_UNARY("nn.swish", "nn", "Silu"),
    TF_UNARY("nn.selu", "nn", "Selu"),
    TF_UNARY("nn.softplus", "nn", "Softplus"),
    TF_UNARY("nn.softsign", "nn", "Softsign"),
    TF_REDUCE("math.reduce_sum", "Sum"),
    TF_REDUCE("math.reduce_mean", "Mean"),
    TF_REDUCE("math.reduce_max", "Max"),
    TF_REDUCE("math.reduce_min", "Min"),
    TF_REDUCE("math.reduce_prod", "Prod"),
    TF_REDUCE("math.reduce_std", "Std"),
    TF_REDUCE("math.reduce_variance", "Var"),
    TF_REDUCE("math.reduce_any", "Any"),
    TF_REDUCE("math.reduce_all", "All"),
    {"math.reduce_logsumexp", "math", "Logsumexp", "x", "axis axis keepdims keepdims"},
    {"math.argmax", "numpy", "Argmax", "x", "axis axis"},
    {"math.argmin", "numpy", "Argmin", "x", "axis axis"},
    {"math.cumsum", "numpy", "Cumsum", "x", "axis axis"},
    {"math.l2_normalize", "nn", "Normalize", "x", "axis axis"},
    {"nn.softmax", "nn", "Softmax", "x", "axis axis"},
    {"nn.log_softmax", "nn", "LogSoftmax", "x", "axis axis"},
    {"nn.elu", "nn", "Elu", "x", ""},
    {"nn.gelu", "nn", "Gelu", "x", "approximate approximate"},
    {"nn.leaky_relu", "nn", "LeakyRelu", "x", "alpha negative_slope"},
    {"concat", "numpy", "Concatenate", "xs", "axis axis"},
    {"stack", "numpy", "Stack", "x", "axis axis"},
    {"unstack", "core", "Unstack", "x", "axis axis num num"},
    {"reshape", "numpy", "Reshape", "x", "shape newshape"},
    {"transpose", "numpy", "Transpose", "x", "perm axes"},
    {"expand_dims", "numpy", "ExpandDims", "x", "axis axis"},
    {"squeeze", "numpy", "Squeeze", "x", "axis axis"},
    {"split", "numpy", "Split", "x", "num_or_size_splits indices_or_sections axis axis"},
    {"tile", "numpy", "Tile", "x", "multiples repeats"},
    {"repeat", "numpy", "Repeat", "x", "repeats repeats axis axis"},
    {"reverse", "numpy", "Flip", "x", "axis axis"},
    {"roll", "numpy", "Roll", "x", "shift shift axis axis"},
    {"pad", "numpy", "Pad", "x", "paddings pad_width constant_values constant_values"},
    {"compat.v1.pad", "numpy", "Pad", "x", "paddings pad_width constant_values constant_values"},
    {"where", "numpy", "Where", "condition", "x x1 y x2"},
    {"clip_by_value", "numpy", "Clip", "x", "clip_value_min x_min clip_value_max x_max"},
    {"cast", "core", "Cast", "x", "dtype dtype"},
    {"stop_gradient", "core", "StopGradient", "variable", ""},
    {"gather", "numpy", "Take", "x", "indices indices axis axis"},
    {"compat.v1.gather", "numpy", "Take", "x", "indices indices axis axis"},
    {"one_hot", "nn", "OneHot", "x", "depth num_classes axis axis"},
    {"linalg.matmul", "numpy", "Matmul", "x1", "b x2"},
    {"matmul", "numpy", "Matmul", "x1", "b x2"},
    {"__operators__.getitem", "numpy", "GetItem", "x", "slice_spec key"},
};

/* Defaults of TensorFlow that differ from the operation's. */
static const struct {
    const char *name, *option, *value;
} DEFAULTS[] = {{"math.argmax", "axis", "0"}, {"math.argmin", "axis", "0"},
                {"math.cumsum", "axis", "0"}, {"nn.gelu", "approximate", "false"},
                {"gather", "axis", "0"},      {"compat.v1.gather", "axis", "0"},
                {"nn.softmax", "axis", "-1"}, {"nn.log_softmax", "axis", "-1"},
                {"split", "axis", "0"},       {"unstack", "axis", "0"},
                {"stack", "axis", "0"}};

static const struct tf_function *function_of(const lki_json *layer)
{
    const char *name = lki_text_in(lki_json_get(layer, "config"), "function");
    for (int i = 0; name && i < LKI_COUNT(FUNCTIONS); i++)
        if (!strcmp(FUNCTIONS[i].name, name)) return &FUNCTIONS[i];
    return NULL;
}

/* Keras' name of an argument; NULL: the same. Words are pairs. */
static const char *renamed(const struct tf_function *f, const char *key, char *text, size_t bytes)
{
    for (const char *p = f->names; *p;) {
        const size_t n = strcspn(p, " "), m = strcspn(p + n + 1, " ");
        if (strlen(key) == n && !strncmp(p, key, n)) return snprintf(text, bytes, "%.*s", (int)m, p + n + 1), text;
        p += n + 1 + m;
        p += *p == ' ';
    }
    return NULL;
}

static bool is_word(const char *words, const char *name)
{
    const size_t n = strlen(name);
    for (const char *w = words; (w = strstr(w, name)); w += n)
        if ((w == words || w[-1] == ' ') && (!w[n] || w[n] == ' ')) return true;
    return false;
}

/* The items of a key: slices, where Keras 3 marks them. */
static void write_key(converting *c, const lki_json *v)
{
    const bool list = v->type == LKI_JSON_ARRAY;
    if (v->type == LKI_JSON_OBJECT && lki_json_get(v, "start")) {
        lki_json_open(c->out, '{');
        key_text(c->out, "class_name", "__slice__");
        lki_json_key(c->out, "config");
        lki_json_copy(c->out, v);
        lki_json_close(c->out, '}');
    } else if (v->type == LKI_JSON_OBJECT && !v->count)
        lki_json_literal(c->out, "{\"class_name\": \"__ellipsis__\", \"config\": {}}");
    else if (!list) lki_json_copy(c->out, v);
    else {
        lki_json_open(c->out, '[');
        for (int i = 0; i < v->count; i++)
            write_key(c, &v->item[i]);
        lki_json_close(c->out, ']');
    }
}

static const char *module_of(const struct tf_function *f, char text[48])
{
    snprintf(text, 48, "keras.src.ops.%s", f->module);
    return text;
}

/* Its options, if `options`, or the arguments of its call. */
static void write_named(converting *c, const struct tf_function *f, const lki_json *kwargs, bool options)
{
    char                      text[40], module[48];
    const lki_operation_line *line = lki_operation_line_of(module_of(f, module), f->class);
    for (int i = 0; kwargs && i < kwargs->count; i++) {
        const lki_json *v = &kwargs->item[i];
        const char     *name = renamed(f, v->key, text, sizeof text);
        if (!name) name = v->key;
        if (!line || !strcmp(v->key, "name") || is_word(line->options, name) != options) continue;
        if (v->type == LKI_JSON_NULL && !options) continue;
        lki_json_key(c->out, name);
        if (!strcmp(name, "key")) write_key(c, v);
        else if (options) lki_json_copy(c->out, v);
        else write_argument(c, v, NULL);
    }
    for (int i = 0; i < LKI_COUNT(DEFAULTS) && options; i++) {
        if (strcmp(DEFAULTS[i].name, f->name) || lki_json_get(kwargs, DEFAULTS[i].option)) continue;
        lki_json_key(c->out, renamed(f, DEFAULTS[i].option, text, sizeof text));
        lki_json_literal(c->out, DEFAULTS[i].value);
    }
}

static void write_operation(converting *c, const lki_json *v, const struct tf_function *f)
{
    const lki_json *inbound = lki_json_get(v, "inbound_nodes"), *first = inbound && inbound->count ? inbound->item : NULL;
    const lki_json *shape = lki_json_get(lki_json_get(v, "build_config"), "input_shape");
    char            module[48];
    lki_json_open(c->out, '{');
    key_text(c->out, "module", module_of(f, module));
    key_text(c->out, "class_name", f->class);
    lki_json_key(c->out, "config");
    lki_json_open(c->out, '{');
    key_text(c->out, "name", lki_text_in(v, "name"));
    if (first) write_named(c, f, kwargs_in(first), true);
    lki_json_close(c->out, '}');
    key_text(c->out, "registered_name", f->class);
    key_text(c->out, "name", lki_text_in(v, "name"));
    lki_json_key(c->out, "inbound_nodes");
    lki_json_open(c->out, '[');
    for (int i = 0; inbound && i < inbound->count; i++) {
        lki_json_open(c->out, '{');
        lki_json_key(c->out, "args");
        lki_json_open(c->out, '[');
        write_argument(c, &inbound->item[i], shape);
        lki_json_close(c->out, ']');
        lki_json_key(c->out, "kwargs");
        lki_json_open(c->out, '{');
        write_named(c, f, kwargs_in(&inbound->item[i]), false);
        lki_json_close(c->out, '}');
        lki_json_close(c->out, '}');
    }
    lki_json_close(c->out, ']');
    lki_json_close(c->out, '}');
}

/* ---- layers and models ---- */

static bool is_tf_operation(const char *class_name)
{
    return !strcmp(class_name, "TFOpLambda") || !strcmp(class_name, "SlicingOpLambda");
}

static void refuse(converting *c, const lki_json *v)
{
    const char       *function = lki_text_in(lki_json_get(v, "config"), "function"), *name = lki_text_in(v, "name");
    const lki_reading r = lki_place_of(c->file, name ? name : "?", lki_text_in(v, "class_name"));
    if (c->status == LK_OK)
        c->status = lki_read_fail(&r, LK_EUNSUPPORTED, "TensorFlow's function \"%s\" is not supported", function ? function : "?");
}

static void write_layer(converting *c, const lki_json *v)
{
    const char               *class_name = lki_text_in(v, "class_name");
    const lki_json           *inbound = lki_json_get(v, "inbound_nodes"), *name = lki_json_get(v, "name");
    const struct tf_function *f = class_name && is_tf_operation(class_name) ? function_of(v) : NULL;
    if (!class_name || !lki_json_get(v, "config")) {
        lki_json_copy(c->out, v);
        return;
    }
    if (f && lki_text_in(v, "name")) {
        write_operation(c, v, f);
        return;
    }
    if (is_tf_operation(class_name)) refuse(c, v);
    if (lki_is_model_class(class_name)) write_model(c, v, true);
    else write_object(c, v);
    if (name) {
        lki_json_key(c->out, "name");
        lki_json_copy(c->out, name);
    }
    if (inbound && inbound->type == LKI_JSON_ARRAY) {
        lki_json_key(c->out, "inbound_nodes");
        lki_json_open(c->out, '[');
        for (int i = 0; i < inbound->count; i++)
            write_call(c, &inbound->item[i]);
        lki_json_close(c->out, ']');
    }
    lki_json_close(c->out, '}');
}

/* A row of layers begins with its input if the first layer has its shape. */
static void write_layers(converting *c, const lki_json *layers, bool row)
{
    const lki_json *first = layers->count ? lki_json_get(layers->item, "config") : NULL,
                   *shape = lki_json_get(first, "batch_input_shape");
    const char *class_name = layers->count ? lki_text_in(layers->item, "class_name") : NULL;
    lki_json_open(c->out, '[');
    if (row && shape && class_name && strcmp(class_name, "InputLayer")) {
        lki_json_open(c->out, '{');
        key_text(c->out, "class_name", "InputLayer");
        lki_json_key(c->out, "config");
        lki_json_open(c->out, '{');
        lki_json_key(c->out, "batch_shape");
        lki_json_copy(c->out, shape);
        key_text(c->out, "dtype", !strcmp(class_name, "Embedding") ? "int32" : "float32");
        key_text(c->out, "name", "input_layer");
        lki_json_close(c->out, '}');
        lki_json_close(c->out, '}');
    }
    for (int i = 0; i < layers->count; i++)
        write_layer(c, &layers->item[i]);
    lki_json_close(c->out, ']');
}

/* Names of inputs and outputs: rows of layers inside have no node of their own in Keras 3. */
static void write_ends(converting *c, const lki_json *v)
{
    const bool list = v->type == LKI_JSON_ARRAY;
    if (is_tensor(v)) {
        int64_t before = 0;
        for (int i = 0; i < c->layers->count; i++) {
            const char *name = lki_text_in(&c->layers->item[i], "name"),
                       *class_name = lki_text_in(&c->layers->item[i], "class_name");
            before += name && class_name && !strcmp(name, v->item[0].text) && !strcmp(class_name, "Sequential");
        }
        lki_json_open(c->out, '[');
        lki_json_copy(c->out, &v->item[0]);
        lki_json_int(c->out, v->item[1].integer - (v->item[1].integer >= before ? before : 0));
        lki_json_copy(c->out, &v->item[2]);
        lki_json_close(c->out, ']');
    } else if (list || v->type == LKI_JSON_OBJECT) {
        lki_json_open(c->out, list ? '[' : '{');
        for (int i = 0; i < v->count; i++) {
            if (!list) lki_json_key(c->out, v->item[i].key);
            write_ends(c, &v->item[i]);
        }
        lki_json_close(c->out, list ? ']' : '}');
    } else lki_json_copy(c->out, v);
}

static void write_model_config(converting *c, const lki_json *config, bool functional)
{
    const lki_json *layers = lki_json_get(config, "layers"), *outer = c->layers;
    const bool      known = layers && layers->type == LKI_JSON_ARRAY;
    if (functional && known) c->layers = layers;
    lki_json_open(c->out, '{');
    for (int i = 0; i < config->count; i++) {
        const lki_json *v = &config->item[i];
        const bool      ends = functional && known && (!strcmp(v->key, "input_layers") || !strcmp(v->key, "output_layers"));
        lki_json_key(c->out, v->key);
        if (v == layers && known) write_layers(c, layers, !functional);
        else if (ends) write_ends(c, v);
        else lki_json_copy(c->out, v);
    }
    lki_json_close(c->out, '}');
    c->layers = outer;
}

static void write_model(converting *c, const lki_json *v, bool open)
{
    const bool functional = is_functional(lki_text_in(v, "class_name"));
    lki_json_open(c->out, '{');
    key_text(c->out, "module", functional ? "keras.src.models.functional" : "keras");
    key_text(c->out, "class_name", functional ? "Functional" : "Sequential");
    for (int i = 0; i < v->count; i++) {
        const char *key = v->item[i].key;
        if (!strcmp(key, "module") || !strcmp(key, "class_name") || !strcmp(key, "registered_name") ||
            !strcmp(key, "inbound_nodes") || !strcmp(key, "name") || !strcmp(key, "keras_version") || !strcmp(key, "backend") ||
            !strcmp(key, "compile_config"))
            continue;
        lki_json_key(c->out, key);
        if (!strcmp(key, "config") && v->item[i].type == LKI_JSON_OBJECT) write_model_config(c, &v->item[i], functional);
        else lki_json_copy(c->out, &v->item[i]);
    }
    if (!open) lki_json_close(c->out, '}');
}

/* ---- which files ---- */

/* Nodes that are lists, layers that know the shape of their input, and TensorFlow's functions are of Keras 2 only. */
static bool layer_is_old(const lki_json *v)
{
    const lki_json *inbound = lki_json_get(v, "inbound_nodes"), *config = lki_json_get(v, "config");
    const char     *module = lki_text_in(v, "module"), *class_name = lki_text_in(v, "class_name");
    const bool      lists = inbound && inbound->type == LKI_JSON_ARRAY && inbound->count && inbound->item->type == LKI_JSON_ARRAY;
    if (class_name && lki_is_model_class(class_name) && lki_is_keras2(v)) return true;
    return lists || lki_json_get(config, "batch_input_shape") || (module && !strncmp(module, "tf_keras", 8));
}

bool lki_is_keras2(const lki_json *v)
{
    const lki_json *layers = lki_json_get(lki_json_get(v, "config"), "layers");
    const char     *module = lki_text_in(v, "module"), *version = lki_text_in(v, "keras_version");
    bool            old = (module && !strncmp(module, "tf_keras", 8)) || (version && (*version == '2' || *version == '1'));
    for (int i = 0; layers && layers->type == LKI_JSON_ARRAY && i < layers->count && !old; i++)
        old = layer_is_old(&layers->item[i]);
    return old;
}

lk_status lki_keras2_convert(const char *file, const lki_json *v, const lki_json **out)
{
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    converting   c = {.out = &o, .file = file};
    write_model(&c, v, false);
    LKI_TRY(c.status);
    return o.failed ? LK_ENOMEM : lki_json_parse(file, o.text, o.size, out);
}

lk_status lki_keras2_convert_compiled(const char *file, const lki_json *v, const lki_json **out)
{
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    converting   c = {.out = &o, .file = file};
    write_value(&c, v);
    return o.failed ? LK_ENOMEM : lki_json_parse(file, o.text, o.size, out);
}

bool lki_is_keras2_compiled(const lki_json *v)
{
    const lki_json *optimizer = lki_json_get(v, "optimizer_config");
    if (!optimizer) optimizer = lki_json_get(v, "optimizer");
    const char *class_name = lki_text_in(optimizer, "class_name");
    return lki_json_get(lki_json_get(optimizer, "config"), "is_legacy_optimizer") ||
           (class_name && !strncmp(class_name, "Custom>", 7));
}
