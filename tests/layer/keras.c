/* Layers against Keras: what they put out, the gradients of their inputs, and what a file says about them. Numbers and configs were
 * made by keras_cases.py. */
#define CASES_FILE "layer/keras_cases.inc"
#include "layer/fields.h"
#include "layer/keras_case.h"

static lk_model *model_of(const keras_case *c)
{
    lk_shape row[4];
    for (int i = 0; i < c->inputs; i++)
        row[i] = row_of(c->in[i]);
    lk_model *m = c->inputs > 1 ? merging(c->make(), c->inputs, row) : lk_sequential(c->make());
    if (m && c->inputs == 1) lk_model_build(m, row[0]);
    return m;
}

static void set_weights(lk_model *m)
{
    lk_tensor   *value[4];
    lk_variables w = lk_model_weights(m);
    for (int i = 0; i < w.count; i++)
        value[i] = numbers(lk_variable_shape(w.item[i]), 5, i, 9, 8);
    if (w.count) assert_int_equal(lk_model_set_weights(m, lk_tuple_from(w.count, value)), LK_OK);
}

/* The gradients of all inputs, one after the other. */
static bool gradients_close(const keras_case *c, lk_tuple dx)
{
    const double *want = c->gradient;
    bool          good = true;
    for (int i = 0; i < c->inputs && good; i++) {
        good = close_to(dx.item[i], (int)lk_size(dx.item[i]), want);
        want += lk_size(dx.item[i]);
    }
    return good && want == c->gradient + c->gradients;
}

static bool as_keras(const keras_case *c)
{
    lk_tensor *x[4];
    lk_model  *m = model_of(c);
    if (!m) return false;
    set_weights(m);
    lk_tape *tape = lk_tape_begin();
    for (int i = 0; i < c->inputs; i++) {
        x[i] = input_of(c->in[i], i);
        lk_tape_watch(tape, x[i]);
    }
    lk_tuple   in = lk_tuple_from(c->inputs, x);
    lk_tensor *y = lk_model_call(m, c->inputs > 1 ? lk_nest(in) : x[0]);
    lk_tuple   dx = lk_tape_gradient_of(tape, y, in, numbers(c->out[0], 3, 0, 7, 2));
    return is_shape(lk_tensor_shape(y), c->out[0]) && close_to(y, c->values, c->y) && gradients_close(c, dx);
}

TEST(values_and_gradients)
{
    int bad = 0;
    for (int i = 0; i < LKI_COUNT(CASES); i++)
        LK_POOL {
            bool good = as_keras(&CASES[i]) && !lk_failed();
            if (!good) print_error("    in %s %s\n", CASES[i].name, lk_error());
            lk_clear_error();
            bad += !good;
        }
    assert_int_equal(bad, 0);
}

/* ---- compiled: the same bits ---- */

static lk_tuple call_model(lk_tuple in, void *model)
{
    return LK_TUPLE(lk_model_call(model, in.count > 1 ? lk_nest(in) : in.item[0]));
}

TEST(compiled_to_the_same_bits)
{
    for (int i = 0; i < LKI_COUNT(CASES); i++)
        LK_POOL {
            const keras_case *c = &CASES[i];
            lk_tensor        *x[4];
            lk_model         *m = model_of(c);
            set_weights(m);
            for (int k = 0; k < c->inputs; k++)
                x[k] = lk_rows(input_of(c->in[k], k), 0);
            lk_tuple     in = lk_tuple_from(c->inputs, x);
            lk_function *f = lk_function_of(call_model, m);
            if (!same_bits(call_model(in, m).item[0], lk_call(f, in).item[0])) fail_msg("%s: %s", c->name, lk_error());
        }
}

/* ---- configs ---- */

typedef struct config {
    const char *class, *name, *says;
    lk_layer *(*make)(void);
} config;

#define CONFIG(class, name, says, ...)                                                                                             \
    static lk_layer *default_##name(void) { return __VA_ARGS__; }
#include "layer/keras_configs.inc"
#undef CONFIG

#define CONFIG(class, name, says, ...) {#class, #name, says, default_##name},
static const config CONFIGS[] = {
#include "layer/keras_configs.inc"
};
#undef CONFIG

TEST(names_keys_and_defaults)
{
    int bad = 0;
    for (int i = 0; i < LKI_COUNT(CONFIGS); i++)
        LK_POOL {
            const config *c = &CONFIGS[i];
            lk_layer     *l = c->make();
            assert_non_null(l);
            bool good = !strcmp(l->kind->class.name, c->class) && !strcmp(lk_layer_name(l), c->name) &&
                        says(&l->kind->class, (const char *)l + l->kind->set, c->says);
            if (!good) print_error("    in %s\n", c->class);
            bad += !good;
        }
    assert_int_equal(bad, 0);
}

/* A class makes the layer its arguments came from. */
TEST(made_again_by_their_class)
{
    for (int i = 0; i < LKI_COUNT(CONFIGS); i++)
        LK_POOL {
            lk_layer *l = CONFIGS[i].make(), *again = l->kind->class.make((const char *)l + l->kind->set);
            if (!again || !says(&again->kind->class, (const char *)again + again->kind->set, CONFIGS[i].says))
                fail_msg("%s: %s", CONFIGS[i].class, lk_error());
        }
}

TESTS(cmocka_unit_test(values_and_gradients), cmocka_unit_test(compiled_to_the_same_bits),
      cmocka_unit_test(names_keys_and_defaults), cmocka_unit_test(made_again_by_their_class))
