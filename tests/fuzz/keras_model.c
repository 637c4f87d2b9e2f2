/* Models of all kinds of layers as the library writes them, changed in a few places as a hand or a broken program would: numbers to sizes
 * that no layer can have, options swapped, removed, of another type; then used (model_use.h).
 *
 * An input is the seed of one such text. LOCKSTEP_FUZZ_TELL prints it. A large run:
 *
 *     LOCKSTEP_FUZZ_RUNS=50000 build/release/tests/fuzz/keras_model tests/fuzz/corpus/keras_model */
#include "fuzz/model_use.h"

/* ---- models with every kind of layer in them --------------------------------------------------------------------------------- */

static lk_model *convolutions(void)
{
    return lk_sequential(lk_conv2d(3, 2, .padding = LK_SAME, .input_shape = LK_SHAPE(6, 6, 2), .kernel_regularizer = lk_l2(0.01)),
                         lk_max_pooling2d(), lk_batch_normalization(), lk_depthwise_conv2d(2, .depth_multiplier = 2),
                         lk_separable_conv2d(2, 1), lk_group_normalization(2), lk_relu_layer(), lk_average_pooling2d(),
                         lk_flatten(), lk_dense(2, .kernel_constraint = lk_max_norm()));
}

static lk_model *pictures(void)
{
    return lk_sequential(lk_rescaling(0.5, .input_shape = LK_SHAPE(5, 4, 1)), lk_random_flip(), lk_random_rotation(0.1),
                         lk_random_crop(4, 3), lk_zero_padding2d(), lk_cropping2d(LK_AXES(1, 0)), lk_up_sampling2d(),
                         lk_conv2d_transpose(2, 2, .strides = LK_AXES(2)), lk_spatial_dropout2d(0.5), lk_leaky_relu_layer(),
                         lk_global_average_pooling2d(), lk_dense(1, LK_SIGMOID));
}

static lk_model *other_pictures(void)
{
    return lk_sequential(lk_up_sampling2d(.interpolation = LK_BILINEAR, .input_shape = LK_SHAPE(3, 3, 2)), lk_random_crop(7, 7),
                         lk_permute(LK_AXES(2, 1, 3)), lk_layer_normalization(), lk_activation_layer(LK_TANH),
                         lk_global_max_pooling2d(), lk_reshape_layer(LK_SHAPE(1, -1)), lk_softmax_layer());
}

static lk_model *sequences(void)
{
    return lk_sequential(lk_embedding(7, 4, .input_shape = LK_SHAPE(6)), lk_conv1d(3, 2, .padding = LK_CAUSAL), lk_max_pooling1d(),
                         lk_bidirectional(lk_lstm(2, .return_sequences = LK_ON)), lk_time_distributed(lk_dense(3)),
                         lk_average_pooling1d(.padding = LK_SAME), lk_gru(2, .return_sequences = LK_ON, .dropout = 0.25),
                         lk_simple_rnn(2), lk_dropout(0.5), lk_dense(1));
}

static lk_model *attention(void)
{
    lk_node *x = lk_input(LK_SHAPE(3, 4)), *y = lk_apply(lk_multi_head_attention(2, 2, .dropout = 0.1), x, x);
    lk_node *pooled = lk_apply(lk_global_average_pooling1d(), lk_apply(lk_add_layer(), x, y));
    lk_node *most = lk_apply(lk_global_max_pooling1d(), y);
    return lk_functional(LK_NODES(x), LK_NODES(lk_apply(lk_dot_layer(LK_AXES(1), .normalize = LK_ON), pooled, most)));
}

static lk_model *merges(void)
{
    lk_tensor *mean = lk_fill(LK_SHAPE(3), LK_F32, 0.5), *variance = lk_fill(LK_SHAPE(3), LK_F32, 2);
    lk_node   *a = lk_input(LK_SHAPE(3)), *b = lk_input(LK_SHAPE(3), .name = "other");
    lk_node   *n = lk_apply(lk_normalization(.mean = mean, .variance = variance), a);
    lk_node   *c = lk_apply(lk_subtract_layer(), n, b), *d = lk_apply(lk_multiply_layer(), a, c);
    lk_node   *e = lk_apply(lk_average_layer(), c, d, a), *f = lk_apply(lk_maximum_layer(), e, b);
    lk_node   *g = lk_apply(lk_concatenate(), lk_apply(lk_minimum_layer(), f, a), e);
    lk_layer  *inner = lk_model_layer(lk_sequential(lk_dense(2, LK_RELU, .input_shape = LK_SHAPE(6)), lk_dense(2)));
    return lk_functional(LK_NODES(a, b), LK_NODES(lk_apply(inner, g), lk_apply(lk_dense(1), g)));
}

static lk_model *(*const MAKERS[])(void) = {convolutions, pictures, other_pictures, sequences, attention, merges};
enum { MODELS = sizeof MAKERS / sizeof *MAKERS };

/* ---- their texts ------------------------------------------------------------------------------------------------------------- */

enum { MOST_VALUES = 4096 };

typedef struct span {
    const char *from, *to;
} span;

typedef struct document {
    char *text;
    span  value[MOST_VALUES]; /* of numbers, words, lists, objects; members with their keys too */
    int   values;
    span  member[MOST_VALUES]; /* "key": value */
    int   members;
} document;

static document models[MODELS];

static const char *after_text(const char *p)
{
    for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1]) p++;
    return p + (*p == '"');
}

static const char *skip(const char *p) { return p + strspn(p, " \n\r\t,:"); }

/* Note every value and member from p on; the text is one the library wrote. */
static const char *note_value(document *d, const char *p)
{
    const char *from = p = skip(p);
    if (*p == '{' || *p == '[') {
        const char close = *p == '{' ? '}' : ']';
        for (p = skip(p + 1); *p && *p != close; p = skip(p)) {
            const char *key = p;
            if (close == '}') p = after_text(p);
            p = note_value(d, p);
            if (close == '}' && d->members < MOST_VALUES) d->member[d->members++] = (span){key, p};
        }
        p++;
    } else p = *p == '"' ? after_text(p) : p + strcspn(p, " \n\r\t,:]}");
    if (d->values < MOST_VALUES) d->value[d->values++] = (span){from, p};
    return p;
}

static void kinds_are_there(void)
{
    for (const lki_layer_kind *const *k = lki_layer_kinds; *k; k++) {
        char said[80];
        bool there = false;
        snprintf(said, sizeof said, "\"%s\"", (*k)->class.name);
        for (int i = 0; i < MODELS; i++)
            there = there || strstr(models[i].text, said);
        if (there) continue;
        fprintf(stderr, "FOUND: no model of keras_model.c has a %s in it\n", said);
        abort();
    }
}

static void make_models(void)
{
    for (int i = 0; i < MODELS; i++)
        LK_POOL {
            lk_model   *m = MAKERS[i]();
            const char *text = m ? lk_model_to_json(m) : NULL;
            if (!text) {
                fprintf(stderr, "FOUND: model %d cannot be made: %s\n", i, lk_error());
                abort();
            }
            models[i].text = strdup(text);
            note_value(&models[i], models[i].text);
        }
    kinds_are_there();
}

/* ---- changes ----------------------------------------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static int below(int n) { return n > 0 ? (int)((draw() >> 11) % (uint64_t)n) : 0; }

static const char *const NUMBERS[] = {"0",
                                      "-1",
                                      "1",
                                      "2",
                                      "3",
                                      "5",
                                      "16",
                                      "100",
                                      "65536",
                                      "65537",
                                      "1000000",
                                      "16777217",
                                      "2147483647",
                                      "2147483648",
                                      "4294967296",
                                      "1099511627776",
                                      "-2",
                                      "-2147483649",
                                      "0.5",
                                      "-0.5",
                                      "1e-300",
                                      "1e308",
                                      "NaN",
                                      "Infinity",
                                      "4611686018427387904",
                                      "4611686018427387920",
                                      "9223372036854775807",
                                      "-9223372036854775808"};
static const char *const OTHERS[] = {"null",
                                     "true",
                                     "false",
                                     "\"\"",
                                     "\"relu\"",
                                     "\"same\"",
                                     "\"causal\"",
                                     "\"x\"",
                                     "[]",
                                     "{}",
                                     "[1, 2]",
                                     "[0]",
                                     "[2147483647, 2147483647]",
                                     "[4611686018427387904]",
                                     "[null, 3]",
                                     "[[1, 2], [3, 4]]",
                                     "[1, 1, 1, 1, 1, 1, 1, 1, 1]"};

typedef struct change {
    span at;
    char with[512];
} change;

static bool is_number(span s) { return (*s.from >= '0' && *s.from <= '9') || *s.from == '-'; }

static void put(change *c, span from)
{
    const size_t size = (size_t)(from.to - from.from);
    snprintf(c->with, sizeof c->with, "%.*s", (int)(size < sizeof c->with ? size : 0), from.from);
}

/* Mostly a number: those are the sizes. */
static span value_of(const document *d)
{
    span s = d->value[below(d->values)];
    for (int i = 0; i < 100 && !is_number(s); i++)
        s = d->value[below(d->values)];
    return s;
}

static void another_number(const document *d, change *c)
{
    c->at = value_of(d);
    snprintf(c->with, sizeof c->with, "%s", NUMBERS[below(LKI_COUNT(NUMBERS))]);
}

static void another_thing(const document *d, change *c)
{
    c->at = d->value[below(d->values)];
    snprintf(c->with, sizeof c->with, "%s", OTHERS[below(LKI_COUNT(OTHERS))]);
}

static void value_from_elsewhere(const document *d, change *c)
{
    const document *other = below(2) ? d : &models[below(MODELS)];
    c->at = d->value[below(d->values)];
    put(c, other->value[below(other->values)]);
}

static void member_from_elsewhere(const document *d, change *c)
{
    const document *other = below(2) ? d : &models[below(MODELS)];
    c->at = d->member[below(d->members)];
    put(c, other->member[below(other->members)]);
}

/* With the comma after it, or before it. */
static void member_removed(const document *d, change *c)
{
    c->at = d->member[below(d->members)];
    if (*c->at.to == ',') c->at.to = skip(c->at.to);
    else if (c->at.from > d->text + 1 && c->at.from[-2] == ',') c->at.from -= 2;
    c->with[0] = 0;
}

/* Sizes are what layers compute with; the rest is mostly refused by the reader. */
static void (*const CHANGES[])(const document *, change *) = {
    another_number, another_number, another_number, another_number,       another_number,        another_number,
    another_number, another_number, another_thing,  value_from_elsewhere, member_from_elsewhere, member_removed};

static int by_place(const void *a, const void *b)
{
    const change *x = a, *y = b;
    return (x->at.from > y->at.from) - (x->at.from < y->at.from);
}

/* The text with one to three changes, of which one that lies in another is left out. */
static char *changed(const document *d)
{
    enum { MOST = 3 };
    change    c[MOST];
    const int count = below(2) ? 1 : 1 + below(MOST);
    for (int i = 0; i < count; i++)
        CHANGES[below(LKI_COUNT(CHANGES))](d, &c[i]);
    qsort(c, (size_t)count, sizeof *c, by_place);
    char       *text = malloc(strlen(d->text) + MOST * sizeof c->with + 1), *to = text;
    const char *from = d->text;
    for (int i = 0; text && i < count; i++) {
        if (c[i].at.from < from) continue;
        to += sprintf(to, "%.*s%s", (int)(c[i].at.from - from), from, c[i].with);
        from = c[i].at.to;
    }
    if (text) strcpy(to, from);
    return text;
}

static void tell_counts(void) { printf("%d read, %d of them asked, %d trained\n", used.read, used.asked, used.trained); }

TARGET(64 * MIB, 0)
{
    static bool made;
    random_state = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        random_state = (random_state ^ data[i]) * 0x100000001b3u;
    random_state |= 1;
    fuzz_memory_may_end();
    if (!made) {
        make_models();
        atexit(tell_counts);
    }
    made = true;
    draw();
    char *text = size ? changed(&models[below(MODELS)]) : NULL;
    if (text && getenv("LOCKSTEP_FUZZ_TELL")) fprintf(stderr, "%s\n", text);
    if (text) use_model(text);
    free(text);
}
