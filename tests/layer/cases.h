/* Layers against Keras, case by case: their results and the gradients of their inputs and weights, by hand and compiled. The cases
 * of NAME_cases.inc were made by sequence_cases.py.
 *
 *     #define CASES_FILE "layer/recurrent_cases.inc"
 *     #include "layer/cases.h"                          then CASES[] is defined */
#ifndef LK_TESTS_LAYER_CASES_H
#define LK_TESTS_LAYER_CASES_H

#include "layer/keras_case.h"

enum { MOST_INPUTS = 3, MOST_WEIGHTS = 8 };

static inline lk_tensor *call_with(lk_layer *l, lk_tuple in, lk_switch training)
{
    return lk_layer_call(l, in.count > 1 ? lk_nest(in) : in.item[0], training);
}

static inline lk_tuple inputs_of(const keras_case *c)
{
    lk_tensor *x[MOST_INPUTS];
    for (int i = 0; i < c->inputs; i++)
        x[i] = lk_rows(input_of(c->in[i], i), 0);
    return lk_tuple_from(c->inputs, x);
}

/* The layer, with the weights of the case. */
static inline lk_layer *layer_of(const keras_case *c)
{
    lk_layer *l = c->make();
    call_with(l, inputs_of(c), LK_OFF);
    lk_variables w = lk_layer_variables(l);
    for (int i = 0; i < w.count; i++)
        assert_int_equal(lk_assign(w.item[i], numbers(lk_variable_shape(w.item[i]), 5, i, 9, 8)), LK_OK);
    return l;
}

typedef struct case_run {
    const keras_case *c;
    lk_layer         *layer;
    lk_switch         training;
} case_run;

/* The output, then the gradients of inputs and weights. */
static inline lk_tuple output_and_gradients(lk_tuple in, void *user)
{
    const case_run *r = user;
    lk_tape        *tape = lk_tape_begin(.persistent = LK_ON);
    lk_variables    w = lk_layer_variables(r->layer);
    lk_tensor      *all[1 + MOST_INPUTS + MOST_WEIGHTS];
    for (int i = 0; i < in.count; i++)
        lk_tape_watch(tape, in.item[i]);
    lk_tensor *y = all[0] = call_with(r->layer, in, r->training);
    lk_tensor *loss = lk_reduce_sum(lk_mul(y, numbers(r->c->out[0], 3, 0, 7, 2)));
    lk_grads  *dw = lk_tape_gradient(tape, loss, w);
    lk_tuple   dx = lk_tape_gradient_of(tape, loss, in, NULL);
    lk_tape_end(tape);
    for (int i = 0; i < in.count; i++)
        all[1 + i] = dx.item[i];
    for (int i = 0; i < w.count; i++)
        all[1 + in.count + i] = lk_grads_item(dw, i);
    return lk_tuple_from(1 + in.count + w.count, all);
}

static inline bool gradients_close(const keras_case *c, lk_tuple all)
{
    const double *want = c->gradient;
    for (int i = 1; i < all.count; i++) {
        if (!close_to(all.item[i], (int)lk_size(all.item[i]), want)) return print_error("    gradient %d\n", i - 1), false;
        want += lk_size(all.item[i]);
    }
    return want == c->gradient + c->gradients;
}

static inline bool as_keras(const keras_case *c, lk_switch training, bool with_gradients)
{
    case_run r = {c, layer_of(c), training};
    lk_tuple all = output_and_gradients(inputs_of(c), &r);
    return is_shape(lk_tensor_shape(all.item[0]), c->out[0]) && close_to(all.item[0], c->values, c->y) &&
           (!with_gradients || gradients_close(c, all));
}

static inline bool compiled_alike(const keras_case *c, lk_switch training)
{
    case_run     r = {c, layer_of(c), training};
    lk_tuple     in = inputs_of(c), plain = output_and_gradients(in, &r);
    lk_function *f = lk_function_of(output_and_gradients, &r);
    lk_tuple     planned = lk_call(f, in);
    bool         same = plain.count == planned.count;
    for (int i = 0; same && i < plain.count; i++)
        same = same_bits(plain.item[i], planned.item[i]);
    return same;
}

#define EACH_CASE(good)                                                                                                            \
    do {                                                                                                                           \
        int bad_ = 0;                                                                                                              \
        for (int i_ = 0; i_ < LKI_COUNT(CASES); i_++)                                                                              \
            LK_POOL {                                                                                                              \
                const keras_case *c = &CASES[i_];                                                                                  \
                bool              good_ = (good) && !lk_failed();                                                                  \
                if (!good_) print_error("    in %s %s\n", c->name, lk_error());                                                    \
                lk_clear_error();                                                                                                  \
                bad_ += !good_;                                                                                                    \
            }                                                                                                                      \
        assert_int_equal(bad_, 0);                                                                                                 \
    } while (0)

#endif
