/* Custom layers, and layers called by hand: in models, alone, inside run; errors in functions, and how they are reported. */
#include "layer/split.h"

/* x . weight * strength, as wide as asked for. */
typedef struct scaled {
    int64_t width;
    double  strength;
    int     built;
} scaled;

static lk_status build_scaled(lk_layer *l, int inputs, const lk_shape *in, void *user)
{
    scaled *s = user;
    assert_int_equal(inputs, 1);
    s->built++;
    lk_status status = lk_layer_add_weight(l, "weight", LK_SHAPE(in[0].dim[0], s->width), .regularizer = lk_l2(0.5));
    if (status != LK_OK) return status;
    return lk_layer_add_weight(l, "count", LK_SHAPE(), .initializer = lk_init_zeros(), .trainable = LK_OFF);
}

static lk_status output_scaled(const lk_layer *l, int inputs, const lk_shape *in, lk_shape *out, void *user)
{
    (void)l, (void)inputs, (void)in;
    *out = LK_SHAPE(((scaled *)user)->width);
    return LK_OK;
}

static lk_tensor *call_scaled(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user)
{
    (void)pass;
    return lk_mul(lk_matmul(in.item[0], lk_layer_weight(l, "weight")), lk_scalar(((scaled *)user)->strength));
}

static lk_layer *scaled_layer(scaled *s) { return lk_layer_of(call_scaled, build_scaled, output_scaled, s, .kind = "scaled"); }

TEST(in_a_model)
{
    LK_POOL {
        scaled     s = {3, 2, 0}, t = {1, 1, 0};
        lk_model  *m = lk_sequential_named("m", scaled_layer(&s), scaled_layer(&t), scaled_layer(&t));
        lk_tensor *y = lk_model_call(m, input_of(LK_SHAPE(4, 2), 0));
        assert_true(is_shape(lk_tensor_shape(y), LK_SHAPE(4, 1)));
        lk_variables w = lk_model_weights(m);
        assert_int_equal(w.count, 6);
        assert_int_equal(s.built, 1);
        assert_string_equal(lk_variable_name(w.item[0]), "scaled/weight");
        assert_string_equal(lk_variable_name(w.item[5]), "scaled_2/count"); /* by position, as all layers */
        assert_true(is_shape(lk_variable_shape(w.item[0]), LK_SHAPE(2, 3)));
        assert_int_equal(lk_model_trainable_variables(m).count, 3);
        assert_int_equal(lk_model_losses(m).count, 3); /* one per regularised weight */
        FINE();
    }
}

TEST(alone)
{
    LK_POOL {
        scaled    s = {1, 3, 0};
        lk_layer *l = scaled_layer(&s);
        assert_string_equal(lk_layer_name(l), "scaled");
        lk_tape   *tape = lk_tape_begin();
        lk_tensor *x = lk_tensor_of(LK_SHAPE(2, 1), 1, 2), *y = lk_layer_call(l, x);
        assert_int_equal(lk_layer_variables(l).count, 2);
        assert_string_equal(l->path, "scaled");
        CLOSE(lk_grads_item(lk_tape_gradient(tape, y, lk_layer_variables(l)), 0), 9); /* 3 (1 + 2) */
        REFUSED(LK_EINVAL, !lk_sequential(l), "\"scaled\", is in a model already");   /* it has its name and its weights */
        FINE();
    }
}

/* Keras' layers too, by hand; integers stay what they are. */
static lk_tensor *look_up(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user)
{
    (void)l, (void)pass, (void)user;
    if (lk_tensor_dtype(in.item[0]) != LK_I32) return NULL;
    return lk_gather(lk_tensor_of(LK_SHAPE(3), 5, 6, 7), in.item[0], 0);
}

static lk_tensor *add_inputs(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user)
{
    (void)l, (void)pass, (void)user;
    return lk_add_n(in);
}

TEST(inputs_of_all_kinds)
{
    LK_POOL {
        static const int32_t id[] = {2, 0};
        CLOSE(lk_layer_call(lk_layer_of(look_up), lk_tensor_from(LK_SHAPE(2), LK_I32, id)), 7, 5);
        lk_tensor *a = lk_tensor_of(LK_SHAPE(2), 1, 2), *b = lk_cast(lk_tensor_of(LK_SHAPE(2), 3, 4), LK_F64); /* f32 for a layer */
        CLOSE(lk_layer_call(lk_layer_of(add_inputs, .inputs = 2), lk_nest(LK_TUPLE(a, b))), 4, 6);
        CLOSE(lk_layer_call(lk_layer_of(add_inputs, .inputs = -1), lk_nest(LK_TUPLE(a, b, a))), 5, 8);
        CLOSE(lk_layer_call(lk_layer_of(add_inputs, .inputs = -1), a), 1, 2);
        REFUSED_TENSOR(LK_EINVAL, lk_layer_call(lk_layer_of(add_inputs, .inputs = 2), a), "1 input", "it takes 2");
        REFUSED_TENSOR(LK_EINVAL, lk_layer_call(lk_layer_of(add_inputs), lk_nest(LK_TUPLE(a, b))), "2 inputs", "it takes 1");
        CLOSE(lk_layer_call(lk_dense(1, .kernel_initializer = lk_init_ones()), lk_tensor_of(LK_SHAPE(1, 2), 3, 4)), 7);
        FINE();
    }
}

/* ---- the arguments of call ---- */

static lk_tensor *noisy(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user)
{
    lk_layer_pass *seen = user;
    (void)l;
    *seen = *pass;
    if (!pass->training) return in.item[0];
    return lk_add(in.item[0],
                  lk_random_uniform(LK_SHAPE(2), .rows_of = in.item[0], .stream = pass->stream, .iteration = pass->iteration));
}

TEST(what_the_call_is_told)
{
    LK_POOL {
        lk_layer_pass seen = {0};
        lk_tensor    *x = lk_zeros(LK_SHAPE(3, 2), LK_F32);
        lk_layer     *l = lk_layer_of(noisy, .user = &seen, .draws = LK_ON, .name = "noise");
        lk_model     *m = lk_sequential_named("m", l);
        lk_tensor    *one = lk_model_call(m, x, .training = LK_ON), *two = lk_model_call(m, x, .training = LK_ON);
        assert_true(seen.training && near(seen.iteration, 1) && !same_bits(one, two));
        assert_string_equal(seen.stream, "m/noise");
        lk_model_call(m, x);
        assert_true(!seen.training && !seen.iteration);

        lk_layer *alone = lk_layer_of(noisy, .user = &seen, .draws = LK_ON, .name = "alone"); /* counts by itself */
        one = lk_layer_call(alone, x, LK_ON);
        two = lk_layer_call(alone, x, LK_ON);
        assert_true(near(seen.iteration, 1) && !same_bits(one, two));
        assert_true(same_bits(lk_layer_call(alone, x), x));
        lk_layer *still = lk_layer_of(noisy, .user = &seen);
        lk_layer_call(still, x, LK_ON);
        assert_true(seen.training && !seen.iteration);
        assert_string_equal(seen.stream, "own_layer");
        FINE();
    }
}

/* ---- inside the function of a model ---- */

typedef struct parts {
    lk_layer *first, *drop, *second;
    int       training;
} parts;

static lk_tuple residual(lk_model *m, lk_tuple in, int training, void *user)
{
    parts *p = user;
    (void)m;
    __atomic_store_n(&p->training, training, __ATOMIC_RELAXED);
    lk_tensor *h = lk_layer_call(p->drop, lk_layer_call(p->first, in.item[0]));
    return LK_TUPLE(lk_add(in.item[0], lk_layer_call(p->second, h)));
}

static lk_model *residual_model(void)
{
    static parts p;
    p = (parts){lk_dense(4, .activation = LK_TANH, .kernel_regularizer = lk_l2(0.1)), lk_dropout(0.25), lk_dense(2), 0};
    return lk_model_of(residual, LK_LAYERS(p.first, p.drop, p.second), &p);
}

TEST(in_the_function_of_a_model)
{
    LK_POOL {
        parts      p = {lk_dense(4, .activity_regularizer = lk_l1(1), .kernel_initializer = lk_init_ones()), lk_dropout(0.5),
                        lk_dense(2), 0};
        lk_model  *m = lk_model_of(residual, LK_LAYERS(p.first, p.drop, p.second), &p, .name = "m");
        lk_tensor *x = lk_ones(LK_SHAPE(5, 2), LK_F32), *y = lk_model_call(m, x, .training = LK_ON);
        assert_true(is_shape(lk_tensor_shape(y), LK_SHAPE(5, 2)) && p.training);
        assert_int_equal(lk_model_weights(m).count, 4);
        assert_string_equal(p.second->path, "m/dense_1");
        assert_true(near(lk_model_losses(m).item[0], 8)); /* 4 times 2, over the rows */
        assert_false(same_bits(y, lk_model_call(m, x, .training = LK_ON)));
        assert_true(same_bits(lk_model_call(m, x), lk_model_call(m, x)));
        assert_null(lki_pass_current());
        FINE();
    }
}

TEST(same_bits_on_any_split)
{
    LK_POOL {
        same_on_any_split(residual_model, input_of(LK_SHAPE(13, 2), 0));
    }
}

/* A custom model makes its weights under its strategy, wherever it is called first. */
TEST(under_the_strategy_of_the_model)
{
    LK_POOL {
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
        lk_model    *m = NULL;
        LK_SCOPE(s)
            m = residual_model();
        lk_model_call(m, lk_ones(LK_SHAPE(2, 2), LK_F32));
        assert_int_equal(lk_model_weights(m).count, 4);
        assert_true(lk_extended_variable_created_in_scope(s, lk_model_weights(m).item[0]));
        FINE();
    }
}

/* ---- while a function is traced ---- */

static lk_tuple traced(lk_tuple in, void *user)
{
    lk_layer **l = user;
    lk_tensor *y = lk_layer_call(l[1], lk_layer_call(l[0], in.item[0]), LK_ON);
    return LK_TUPLE(y);
}

TEST(first_called_while_traced)
{
    LK_POOL {
        scaled       s = {2, 3, 0}, t = {2, 3, 0};
        lk_layer    *a[] = {scaled_layer(&s), lk_dropout(0.5)}, *b[] = {scaled_layer(&t), lk_dropout(0.5)};
        lk_tuple     in = LK_TUPLE(input_of(LK_SHAPE(4, 3), 0));
        lk_function *f = lk_function_of(traced, a);
        for (int i = 0; i < 3; i++) /* dropped by how often it was called, not traced */
            assert_true(same_bits(lk_call(f, in).item[0], traced(in, b).item[0]));
        assert_int_equal(s.built, 1);
        FINE();
    }
}

/* ---- inside run ---- */

static lk_tuple call_in_run(lk_tuple in, void *user) { return LK_TUPLE(lk_layer_call(user, in.item[0], LK_ON)); }

TEST(replicas_meet_for_the_first_call)
{
    lk_set_log(no_log, NULL);
    LK_POOL {
        scaled       s = {2, 1, 0}, t = {2, 1, 0};
        lk_layer    *l = scaled_layer(&s), *one = scaled_layer(&t);
        lk_tensor   *x = input_of(LK_SHAPE(8, 3), 0);
        lk_strategy *two = lk_mirrored_strategy(.cpu_devices = 2, .lanes = 8);
        lk_tensor   *y = lk_gather_values(two, lk_run(two, call_in_run, LK_TUPLE(spread_rows(two, x, 8)), l).item[0]);
        assert_true(same_bits(y, lk_layer_call(one, x)) && s.built == 1);
        assert_true(lk_extended_variable_created_in_scope(two, lk_layer_variables(l).item[0]));
        lk_layer *drop = lk_dropout(0.5), *drop_alone = lk_dropout(0.5);
        for (int i = 0; i < 2; i++) { /* and count together */
            y = lk_gather_values(two, lk_run(two, call_in_run, LK_TUPLE(spread_rows(two, x, 8)), drop).item[0]);
            assert_true(same_bits(y, lk_layer_call(drop_alone, lk_rows(x, 8), LK_ON)));
        }
        FINE();
    }
}

static lk_tensor *rows_of_each(const lk_value_context *c, void *user)
{
    (void)user;
    return lk_zeros(LK_SHAPE(2, 3 + c->replica_id_in_sync_group), LK_F32);
}

TEST(replicas_must_build_the_same)
{
    lk_set_log(no_log, NULL);
    LK_POOL {
        scaled       s = {2, 1, 0};
        lk_layer    *l = scaled_layer(&s);
        lk_strategy *two = lk_mirrored_strategy(.cpu_devices = 2);
        lk_tuple     out = lk_run(two, call_in_run, LK_TUPLE(lk_values_from_function(two, rows_of_each, NULL)), l);
        REFUSED(LK_ESTATE, lk_failed(), "lk_layer_call", "rows of [3]", "rows of [4]");
        (void)out;
        assert_int_equal(lk_layer_variables(l).count, 0);
    }
}

/* ---- what functions may do wrong ---- */

typedef enum wrong { NOTHING_SAID, NULL_TENSOR, POISON, OTHER_SHAPE, OTHER_ROWS, A_SCALAR, A_NEST } wrong;

static lk_tensor *wrong_call(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user)
{
    (void)l, (void)pass;
    switch (*(const wrong *)user) {
    case POISON: return lk_add(in.item[0], lk_zeros(LK_SHAPE(7), LK_F32));
    case OTHER_SHAPE: return lk_zeros(LK_SHAPE(lk_dim(in.item[0], 0), 5), LK_F32);
    case OTHER_ROWS: return lk_zeros(LK_SHAPE(9, 2), LK_F32);
    case A_SCALAR: return lk_scalar(1);
    case A_NEST: return lk_nest(in);
    default: return NULL;
    }
}

static lk_status fails_silently(lk_layer *l, int inputs, const lk_shape *in, void *user)
{
    (void)l, (void)inputs, (void)in, (void)user;
    return LK_EUNSUPPORTED;
}

static lk_status wrong_output(const lk_layer *l, int inputs, const lk_shape *in, lk_shape *out, void *user)
{
    (void)l, (void)inputs, (void)in;
    if (user) return LK_EUNSUPPORTED;
    *out = (lk_shape){.rank = 1, .dim = {-5}};
    return LK_OK;
}

static lk_tensor *call_wrong(wrong w)
{
    return lk_layer_call(lk_layer_of(wrong_call, .user = &w, .kind = "odd"), lk_zeros(LK_SHAPE(3, 2), LK_F32));
}

TEST(mistakes_of_functions)
{
    LK_POOL {
        lk_tensor *x = lk_zeros(LK_SHAPE(3, 2), LK_F32);
        wrong      none = NULL_TENSOR;
        REFUSED_TENSOR(LK_EINVAL, call_wrong(NULL_TENSOR), "layer \"odd\"", "call function returned NULL");
        REFUSED_TENSOR(LK_ESHAPE, call_wrong(POISON), "add", "[3, 2]", "[7]");
        REFUSED_TENSOR(LK_ESHAPE, call_wrong(OTHER_SHAPE), "layer \"odd\"", "returned [3, 5] for 3 rows",
                       "without an output function", "[2] each");
        REFUSED_TENSOR(LK_ESHAPE, call_wrong(OTHER_ROWS), "returned [9, 2] for 3 rows");
        REFUSED_TENSOR(LK_ESHAPE, call_wrong(A_SCALAR), "returned [] for 3 rows");
        REFUSED_TENSOR(LK_EINVAL, call_wrong(A_NEST), "call function returned", "tuple");
        REFUSED_TENSOR(LK_EUNSUPPORTED, lk_layer_call(lk_layer_of(wrong_call, fails_silently, .user = &none, .name = "mine"), x),
                       "layer \"mine\"", "build function failed");
        REFUSED_TENSOR(LK_EUNSUPPORTED, lk_layer_call(lk_layer_of(wrong_call, .output = wrong_output, .user = &none), x),
                       "layer \"own_layer\"", "output function failed");
        REFUSED_TENSOR(LK_ESHAPE, lk_layer_call(lk_layer_of(wrong_call, .output = wrong_output), x), "output function says [-5]",
                       "not the shape of a row");
        FINE();
    }
}

/* After a build that failed it has no weights and no name, and may be tried again. */
static lk_status fails_at_first(lk_layer *l, int inputs, const lk_shape *in, void *user)
{
    int *tries = user;
    (void)inputs;
    lk_status status = lk_layer_add_weight(l, "w", LK_SHAPE(in[0].dim[0]), .initializer = lk_init_ones());
    return status == LK_OK && (*tries)++ == 0 ? LK_EPEER : status;
}

static lk_tensor *times_w(lk_layer *l, lk_tuple in, const lk_layer_pass *pass, void *user)
{
    (void)pass, (void)user;
    return lk_mul(in.item[0], lk_layer_weight(l, "w"));
}

TEST(a_second_try)
{
    LK_POOL {
        int        tries = 0;
        lk_layer  *l = lk_layer_of(times_w, fails_at_first, .user = &tries);
        lk_tensor *x = lk_tensor_of(LK_SHAPE(1, 2), 3, 4);
        REFUSED_TENSOR(LK_EPEER, lk_layer_call(l, x), "build function failed");
        assert_int_equal(lk_layer_variables(l).count, 0);
        assert_null(l->path);
        CLOSE(lk_layer_call(l, x), 3, 4);
        assert_int_equal(lk_layer_variables(l).count, 1);
        FINE();
    }
}

static lk_status wrong_weights(lk_layer *l, int inputs, const lk_shape *in, void *user)
{
    (void)inputs, (void)in, (void)user;
    if (lk_layer_add_weight(l, "w", LK_SHAPE(2)) != LK_OK) return LK_ENOMEM;
    REFUSED(LK_EINVAL, lk_layer_add_weight(l, "w", LK_SHAPE(2)) != LK_OK, "has a weight \"w\" already");
    REFUSED(LK_EINVAL, lk_layer_add_weight(l, NULL, LK_SHAPE(2)) != LK_OK, "needs a name");
    REFUSED(LK_EINVAL, lk_layer_add_weight(l, "a/b", LK_SHAPE(2)) != LK_OK, "without a slash, not \"a/b\"");
    REFUSED(LK_ESHAPE, lk_layer_add_weight(l, "v", (lk_shape){1, {-1}}) != LK_OK, "weight \"v\" of [-1]", "fixed sizes");
    REFUSED(LK_EINVAL, lk_layer_add_weight(l, "v", LK_SHAPE(2), (lk_initializer *)lk_l1(1)) != LK_OK,
            "the initialiser of \"v\" is not one");
    REFUSED(LK_EINVAL, lk_layer_add_weight(l, "v", LK_SHAPE(2), .constraint = (lk_constraint *)lk_l1(1)) != LK_OK,
            "the constraint of \"v\" is not one");
    for (int i = 1; i < LKI_MOST_WEIGHTS; i++) {
        char name[8] = {'w', (char)('a' + i)};
        if (lk_layer_add_weight(l, name, LK_SHAPE(1)) != LK_OK) return LK_ENOMEM;
    }
    REFUSED(LK_EUNSUPPORTED, lk_layer_add_weight(l, "more", LK_SHAPE(1)) != LK_OK, "more than 16 weights");
    return LK_OK;
}

TEST(mistakes_with_weights)
{
    LK_POOL {
        lk_layer *l = lk_layer_of(times_w, wrong_weights, .name = "mine");
        REFUSED(LK_ESTATE, lk_layer_add_weight(l, "w", LK_SHAPE(1)) != LK_OK, "layer \"mine\" is not being built",
                "build function");
        REFUSED(LK_EINVAL, lk_layer_add_weight(lk_dense(2), "w", LK_SHAPE(1)) != LK_OK, "layer \"dense\" is not of lk_layer_of()");
        REFUSED(LK_EINVAL, lk_layer_add_weight(NULL, "w", LK_SHAPE(1)) != LK_OK, "lk_layer_add_weight", "the layer is NULL");
        lk_layer_call(l, lk_zeros(LK_SHAPE(1, 2), LK_F32));
        FINE();
        assert_string_equal(lk_variable_name(lk_layer_variables(l).item[15]), "mine/wp");
        REFUSED_TENSOR(LK_EINVAL, lk_layer_weight(l, "weight"), "layer \"mine\" has no weight \"weight\"", "it has w, wb");
        REFUSED_TENSOR(LK_EINVAL, lk_layer_weight(lk_dense(2), "kernel"), "has no weight \"kernel\"", "it has none");
        REFUSED_TENSOR(LK_EINVAL, lk_layer_weight(NULL, "kernel"), "lk_layer_weight", "the layer is NULL");
    }
}

TEST(mistakes_of_the_caller)
{
    LK_POOL {
        lk_tensor *x = lk_zeros(LK_SHAPE(3, 2), LK_F32);
        REFUSED(LK_EINVAL, !lk_layer_of(NULL), "lk_layer_of", "call is NULL");
        REFUSED(LK_EINVAL, !lk_layer_of(add_inputs, .kind = "a/b"), "kind \"a/b\"");
        REFUSED(LK_EINVAL, !lk_layer_of(add_inputs, .inputs = 65), "65 inputs", "1 to 64");
        REFUSED_TENSOR(LK_EINVAL, lk_layer_call(NULL, x), "lk_layer_call", "the layer is NULL");
        REFUSED_TENSOR(LK_EINVAL, lk_layer_call((lk_layer *)lk_l1(1), x), "not a layer");
        REFUSED_TENSOR(LK_EINVAL, lk_layer_call(lk_dense(2), NULL), "lk_layer_call", "x", "NULL");
        REFUSED_TENSOR(LK_ESHAPE, lk_layer_call(lk_dense(2), lk_scalar(1)), "x is a scalar");
        REFUSED_TENSOR(LK_ESHAPE, lk_layer_call(lk_conv2d(2, 2), x), "layer \"conv2d\"", "[height, width, channels]");
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
        REFUSED_TENSOR(LK_EINVAL, lk_layer_call(lk_dense(2), spread_rows(s, lk_zeros(LK_SHAPE(8, 2), LK_F32), 8)), "x is",
                       "per-replica");
    }
}

/* ---- memory ---- */

static int make_and_call(void)
{
    int ok = 0;
    LK_POOL {
        scaled    s = {2, 1, 0};
        lk_layer *l = scaled_layer(&s);
        ok = l && !lk_poisoned(lk_layer_call(l, lk_ones(LK_SHAPE(2, 3), LK_F32)));
    }
    return ok;
}

TEST(every_allocation_may_fail)
{
    make_and_call(); /* what is made once in a process */
    assert_true(check_every_allocation(make_and_call) > 10);
}

TESTS(cmocka_unit_test(in_a_model), cmocka_unit_test(alone), cmocka_unit_test(inputs_of_all_kinds),
      cmocka_unit_test(what_the_call_is_told), cmocka_unit_test(in_the_function_of_a_model),
      cmocka_unit_test(same_bits_on_any_split), cmocka_unit_test(under_the_strategy_of_the_model),
      cmocka_unit_test(first_called_while_traced), cmocka_unit_test(replicas_meet_for_the_first_call),
      cmocka_unit_test(replicas_must_build_the_same), cmocka_unit_test(mistakes_of_functions), cmocka_unit_test(a_second_try),
      cmocka_unit_test(mistakes_with_weights), cmocka_unit_test(mistakes_of_the_caller),
      cmocka_unit_test(every_allocation_may_fail))
