/* Operations of keras.ops in functional models: Keras' results, the same bits on any number of replicas, there and back, and what
 * is refused. The cases are written by tests/interop/operations.py --cases; `make interop` compares gradients with Keras itself. */
#include "check.h"
#include "layer/operation.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct operation_case {
    const char     *name;
    const lk_shape *in;
    int             inputs;
    const char     *output, *layers;
    const double   *want;
    int             count;
} operation_case;

#define SHAPE(...) SHAPE_(__VA_ARGS__)
#define SHAPE_(rank_, ...)                                                                                                         \
    {                                                                                                                              \
        .rank = rank_, .dim = { __VA_ARGS__ }                                                                                      \
    }
#define INPUTS(...) (const lk_shape[]){__VA_ARGS__}, (int)LKI_N(lk_shape, __VA_ARGS__)
#define CASE(name, in, output, layers, ...)                                                                                        \
    {#name, in, output, layers, (const double[]){__VA_ARGS__}, (int)LKI_N(double, __VA_ARGS__)},
static const operation_case CASES[] = {
#include "operation_cases.inc"
};
#undef CASE

enum { ROWS = 2, MOST_TEXT = 1 << 16 };

/* ---- a model from the short form of a case ---- */

/* @name,node,result:sizes:dtype; -- returns what comes after it. */
static const char *write_tensor(char *to, const char *from)
{
    char name[64], sizes[64] = "", dtype[16] = "float32";
    int  node, result, used = 0;
    assert_int_equal(sscanf(from, "@%63[^,],%d,%d:%n", name, &node, &result, &used), 3);
    from += used;
    const size_t n = strcspn(from, ":;");
    snprintf(sizes, sizeof sizes, "%s%.*s", n ? ", " : "", (int)n, from);
    from += n;
    if (*from == ':') snprintf(dtype, sizeof dtype, "%.*s", (int)strcspn(from + 1, ";"), from + 1);
    sprintf(
        to,
        "{\"class_name\": \"__keras_tensor__\", \"config\": {\"shape\": [null%s], \"dtype\": \"%s\", \"keras_history\": [\"%s\", "
        "%d, %d]}}",
        sizes, dtype, name, node, result);
    return strchr(from, ';') + 1;
}

static void write_input(char *to, int i, const lk_shape *row)
{
    to += sprintf(to, "{\"class_name\": \"InputLayer\", \"config\": {\"batch_shape\": [null");
    for (int k = 0; k < row->rank; k++)
        to += sprintf(to, ", %d", (int)row->dim[k]);
    sprintf(to, "], \"name\": \"x%d\"}, \"inbound_nodes\": []", i);
}

/* $module.Class^config~nodes, with single quotes; input i is #i. */
static void write_layers(char *to, const char *from, const lk_shape *in)
{
    bool first = true;
    for (*to = 0; *from; to += strlen(to)) {
        if (*from == '#') {
            to += sprintf(to, "%s", first ? "" : "}, ");
            write_input(to, from[1] - '0', &in[from[1] - '0']);
            first = false;
            from += 2;
            continue;
        }
        if (*from == '@') {
            from = write_tensor(to, from);
            continue;
        }
        if (*from == '$') {
            int  used = 0;
            char module[32], class_name[64];
            assert_int_equal(sscanf(from, "$%31[^.].%63[^^]%n", module, class_name, &used), 2);
            sprintf(to, "%s{\"module\": \"keras.src.ops.%s\", \"class_name\": \"%s\", \"config\": ", first ? "" : "}, ", module,
                    class_name);
            first = false;
            from += used + 1;
            continue;
        }
        if (*from == '~') strcpy(to, ", \"inbound_nodes\": ");
        else to[0] = *from == '\'' ? '"' : *from, to[1] = 0;
        from++;
    }
    strcpy(to, "}");
}

static void write_end(char *to, const char *end)
{
    char name[64];
    int  node, result;
    assert_int_equal(sscanf(end, "%63[^,],%d,%d", name, &node, &result), 3);
    sprintf(to + strlen(to), "[\"%s\", %d, %d]", name, node, result);
}

static const char *text_of(const operation_case *c)
{
    static char text[MOST_TEXT];
    strcpy(text, "{\"module\": \"keras\", \"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": [");
    write_layers(text + strlen(text), c->layers, c->in);
    strcat(text, "], \"input_layers\": [");
    for (int i = 0; i < c->inputs; i++)
        sprintf(text + strlen(text), "%s[\"x%d\", 0, 0]", i ? ", " : "", i);
    strcat(text, "], \"output_layers\": ");
    write_end(text, c->output);
    strcat(text, "}}");
    return text;
}

static lk_model *model_of(const operation_case *c)
{
    lk_model *m = lk_model_from_json(text_of(c));
    if (!m) fail_msg("%s: %s\n%s", c->name, lk_error(), text_of(c));
    return m;
}

static lk_tensor *input_of(const operation_case *c, int i, int64_t rows)
{
    lk_shape s = {.rank = c->in[i].rank + 1, .dim = {rows}};
    memcpy(s.dim + 1, c->in[i].dim, (size_t)c->in[i].rank * sizeof *s.dim);
    int64_t size = 1;
    for (int k = 0; k < s.rank; k++)
        size *= s.dim[k];
    float *value = malloc((size_t)size * sizeof *value);
    for (int64_t k = 0; k < size; k++)
        value[k] = (float)((double)((k * 37 + i * 11) % 101 - 50) / 40);
    lk_tensor *x = lk_tensor_from(s, LK_F32, value);
    free(value);
    return x;
}

static lk_tensor *inputs_of(const operation_case *c, int64_t rows)
{
    lk_tensor *x[8];
    for (int i = 0; i < c->inputs; i++)
        x[i] = input_of(c, i, rows);
    return c->inputs == 1 ? x[0] : lk_nest(lk_tuple_from(c->inputs, x));
}

/* ---- tests ---- */

static bool is_near(double got, double want)
{
    if (isnan(want) || isinf(want)) return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= 2e-6 * fmax(1, fabs(want)) + 1e-12;
}

TEST(operations_compute_what_keras_does)
{
    int wrong = 0;
    for (int i = 0; i < LKI_COUNT(CASES); i++) {
        const operation_case *c = &CASES[i];
        LK_POOL {
            lk_tensor *y = lk_cast(lk_model_predict(model_of(c), .x = inputs_of(c, ROWS), .verbose = LK_SILENT), LK_F64);
            if (lk_poisoned(y)) fail_msg("%s: %s", c->name, lk_error());
            const double *got = lk_data(y);
            if (lk_size(y) != c->count) print_error("%s: %d values, not %d\n", c->name, (int)lk_size(y), c->count), wrong++;
            for (int k = 0; k < c->count && lk_size(y) == c->count; k++)
                if (!is_near(got[k], c->want[k])) {
                    print_error("%s: value %d is %.9g, not %.9g\n", c->name, k, got[k], c->want[k]);
                    wrong++;
                    break;
                }
        }
    }
    assert_int_equal(wrong, 0);
}

TEST(operations_are_written_as_they_came)
{
    for (int i = 0; i < LKI_COUNT(CASES); i++)
        LK_POOL {
            const char *once = lk_model_to_json(model_of(&CASES[i]));
            if (!once) fail_msg("%s: %s", CASES[i].name, lk_error());
            lk_model *again = lk_model_from_json(once);
            if (!again) fail_msg("%s: %s", CASES[i].name, lk_error());
            assert_string_equal(lk_model_to_json(again), once);
        }
}

static void say_nothing(const char *text, void *user) { (void)text, (void)user; }

enum { MOST_BYTES = 1 << 14 };

/* The bits of the results for 9 rows, so that replicas have different numbers of them; returns how many bytes. */
static size_t predicted(const operation_case *c, int replicas, char bits[MOST_BYTES])
{
    size_t size = 0;
    LK_POOL {
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = replicas, .lanes = 8);
        LK_SCOPE(s) {
            lk_tensor *y = lk_model_predict(model_of(c), .x = inputs_of(c, 9), .batch_size = 9, .verbose = LK_SILENT);
            if (lk_poisoned(y)) fail_msg("%s on %d replicas: %s", c->name, replicas, lk_error());
            size = (size_t)lk_size(y) * lk_dtype_bytes(lk_tensor_dtype(y));
            assert_true(size <= MOST_BYTES);
            memcpy(bits, lk_data(y), size);
        }
    }
    return size;
}

TEST(operations_have_the_same_bits_on_replicas)
{
    lk_set_log(say_nothing, NULL);
    for (int i = 0; i < LKI_COUNT(CASES); i++) {
        static char  one[MOST_BYTES], other[MOST_BYTES];
        const size_t size = predicted(&CASES[i], 1, one);
        for (int n = 2; n <= 3; n++)
            if (predicted(&CASES[i], n, other) != size || memcmp(one, other, size))
                fail_msg("%s: other bits on %d replicas", CASES[i].name, n);
    }
    lk_set_log(NULL, NULL);
}

/* ---- what is refused ---- */

static void refused(const char *layers, const char *words)
{
    static char text[MOST_TEXT];
    LK_POOL {
        strcpy(text, "{\"module\": \"keras\", \"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": [");
        write_layers(text + strlen(text), layers, (const lk_shape[]){{.rank = 2, .dim = {3, 4}}});
        strcat(text, "], \"input_layers\": [\"x0\", 0, 0], \"output_layers\": [\"y\", 0, 0]}}");
        if (lk_model_from_json(text)) fail_msg("should be refused: %s", layers);
        if (!strstr(lk_error(), words)) fail_msg("\"%s\" is not in: %s", words, lk_error());
        lk_clear_error();
    }
}

#define X "[@x0,0,0:3,4;"
#define OP(class, config, args)                                                                                                    \
    "#0$numpy." class "^{'name':'y'" config "}~[{'args':" X                                                                        \
    args "],'kwargs':{}}]"
TEST(what_would_mix_rows_is_refused)
{
    refused(OP("Sum", ",'axis':null", ""),
            "layer \"y\" (Sum): layer \"y\": rows of [3, 4]: Sum: axis is null, which includes the rows");
    refused(OP("Mean", ",'axis':0", ""), "Mean: axis 0 is the rows, which are kept apart; use 1 to 2");
    refused(OP("Sum", ",'axis':-3", ""), "axis -3 is the rows");
    refused(OP("Flip", ",'axis':[0]", ""), "axis 0 is the rows");
    refused(OP("Transpose", ",'axes':null", ""), "it moves axis 0, the rows");
    refused(OP("Reshape", ",'newshape':[-1,6]", ""), "do not keep their number");
    refused(OP("GetItem", "", ",0"), "it takes one of the rows");
    refused(OP("GetItem", "", ",{'class_name':'__slice__','config':{'start':1,'stop':null,'step':null}}"),
            "it takes some of the rows");
    refused(OP("Matmul", "", ",@x0,0,0:3,4;"), "Matmul");
    refused(OP("Dot", "", ",@x0,0,0:3,4;"), "x2 should be a constant");
    refused("#0$numpy.Concatenate^{'name':'y','axis':0}~[{'args':[[@x0,0,0:3,4;,@x0,0,0:3,4;]],'kwargs':{}}]",
            "axis 0 is the rows");
    refused("#0$nn.Softmax^{'name':'y','axis':0}~[{'args':" X "],'kwargs':{}}]", "axis 0 is the rows");
    refused("#0$numpy.Einsum^{'name':'y','subscripts':'abc,dbc->ad'}~[{'args':" X ",@x0,0,0:3,4;],'kwargs':{}}]", "rows");
    refused("#0$core.Unstack^{'name':'y','num':null,'axis':0}~[{'args':" X "],'kwargs':{}}]", "axis 0 is the rows");
}

/* ---- memory ---- */

static const operation_case *made;

static int make_it(void)
{
    int good = 0;
    LK_POOL {
        good = lk_model_from_json(text_of(made)) != NULL;
    }
    return good;
}

TEST(every_allocation_may_fail)
{
    static const char *const NAMES[] = {"einsum_three", "split", "take_table", "get_back", "operators"};
    for (int i = 0; i < LKI_COUNT(CASES); i++)
        for (int k = 0; k < LKI_COUNT(NAMES); k++) {
            made = &CASES[i];
            if (!strcmp(made->name, NAMES[k])) assert_true(check_every_allocation(make_it) > 30);
        }
}

TESTS(cmocka_unit_test(operations_compute_what_keras_does), cmocka_unit_test(operations_are_written_as_they_came),
      cmocka_unit_test(operations_have_the_same_bits_on_replicas), cmocka_unit_test(what_would_mix_rows_is_refused),
      cmocka_unit_test(every_allocation_may_fail))
