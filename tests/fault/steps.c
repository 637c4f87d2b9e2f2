/* Every allocation fails in turn in tapes, functions and optimisers: reported as LK_ENOMEM, nothing is leaked, objects stay usable,
 * and what was assigned before a failure is either the old value or the new one. */
#include "check.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void silence(const char *text, void *user)
{
    (void)text;
    (void)user;
}

static int good_so_far(const lk_tensor *t) { return !lk_poisoned(t) && !lk_failed(); }

/* ---- tapes ---- */

static int tapes(void)
{
    int good = 0;
    LK_POOL {
        lk_variable *w = lk_variable_of(lk_fill(LK_SHAPE(3, 2), LK_F32, 0.5));
        lk_tensor   *x = lk_rows(lk_ones(LK_SHAPE(4, 3), LK_F32), 0);
        lk_tape     *outer = lk_tape_begin(.persistent = LK_ON);
        lk_tape_watch(outer, x);
        lk_tape   *inner = lk_tape_begin();
        lk_tensor *y = lk_reduce_sum(lk_tanh(lk_matmul(x, lk_read(w))));
        lk_grads  *g = lk_tape_gradient(inner, y, LK_VARIABLES(w));
        lk_tensor *penalty = g ? lk_add(lk_reduce_sum(lk_square(lk_grads_item(g, 0))), lk_nn_l2(lk_read(w), 0.1)) : NULL;
        lk_grads  *h = penalty ? lk_tape_gradient(outer, penalty, LK_VARIABLES(w)) : NULL;
        lk_tuple   d = penalty ? lk_tape_gradient_of(outer, penalty, LK_TUPLE(x), NULL) : (lk_tuple){0};
        good = g && h && good_so_far(lk_grads_item(h, 0)) && d.count == 1 && good_so_far(d.item[0]);
        if (outer) lk_tape_end(outer);
    }
    return good && !lk_failed();
}

static lk_tuple squares(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_square(in.item[0]));
}

static int checker(void)
{
    int good = 0;
    LK_POOL
        good = lk_check_gradient(squares, LK_TUPLE(lk_fill(LK_SHAPE(2), LK_F64, 3)), NULL, 0, 0, NULL) == LK_OK;
    return good && !lk_failed();
}

TEST(tapes_and_the_checker)
{
    assert_true(tapes());
    assert_true(checker());
    assert_true(check_every_allocation(tapes) > 50);
    check_every_allocation(checker);
}

/* ---- functions ---- */

typedef struct net {
    lk_variable  *w, *b;
    lk_optimizer *optimizer;
    lk_function  *inner;
} net;

static lk_tuple layer(lk_tuple in, void *user)
{
    net *n = user;
    return LK_TUPLE(lk_nn_dense(in.item[0], lk_read(n->w), lk_read(n->b), LK_RELU));
}

static lk_tuple train(lk_tuple in, void *user)
{
    net       *n = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_call(n->inner, LK_TUPLE(in.item[0])).item[0];
    lk_tensor *zero = lk_zeros(LK_SHAPE(4), LK_F32), *one = lk_ones(LK_SHAPE(4), LK_F32);
    y = lk_nn_batch_norm(y, .moving_mean = zero, .moving_variance = one, .training = LK_ON).item[0];
    lk_tensor *loss = lk_compute_average_loss(lk_nn_sparse_categorical_crossentropy(in.item[1], y, .from_logits = LK_ON));
    lk_optimizer_apply(n->optimizer, tape ? lk_tape_gradient(tape, loss, LK_VARIABLES(n->w, n->b)) : NULL);
    return LK_TUPLE(loss, y);
}

typedef lk_optimizer *make_fn(void);

static lk_optimizer *sgd(void) { return lk_sgd(.momentum = 0.9, .nesterov = LK_ON); }
static lk_optimizer *adam(void) { return lk_adam(.amsgrad = LK_ON, .global_clipnorm = 1); }
static lk_optimizer *adamw(void) { return lk_adamw(.clipnorm = 1, .use_ema = LK_ON, .ema_overwrite_frequency = 2); }
static lk_optimizer *adamax(void) { return lk_adamax(.clipvalue = 0.5); }
static lk_optimizer *nadam(void) { return lk_nadam(.gradient_accumulation_steps = 2); }
static lk_optimizer *lion(void) { return lk_lion(.weight_decay = 0.01); }
static lk_optimizer *lamb(void) { return lk_lamb(.weight_decay = 0.01); }
static lk_optimizer *rmsprop(void) { return lk_rmsprop(.centered = LK_ON, .momentum = 0.5); }
static lk_optimizer *adagrad(void)
{
    return lk_adagrad(.schedule = lk_cosine_decay(.initial_learning_rate = 0.1, .decay_steps = 10));
}
static lk_optimizer *adadelta(void) { return lk_adadelta(); }
static lk_optimizer *ftrl(void) { return lk_ftrl(.l1_regularization_strength = 0.1); }

static lk_optimizer *adafactor(void) { return lk_adafactor(.gradient_accumulation_steps = 2, .weight_decay = 0.01); }
static lk_optimizer *muon(void) { return lk_muon(.exclude_layers = "b", .loss_scale_factor = 2); }
static lk_optimizer *schedule_free(void) { return lk_schedule_free_adamw(.warmup_steps = 2); }
static lk_optimizer *loss_scale(void) { return lk_loss_scale_optimizer(lk_lion(), .initial_scale = 1); }
static lk_optimizer *multi(void) { return lk_multi_optimizer(lk_sgd(), 1, (const char *[]){"w"}, (lk_optimizer *[]){lk_adam()}); }
static lk_optimizer *spared(void)
{
    lk_optimizer *o = lk_adamw(.global_clipnorm = 1);
    if (o) lk_optimizer_exclude_from_weight_decay(o, (lk_variables){0}, "b");
    return o;
}

static make_fn *const makers[] = {sgd,      adam, adamw,     adamax, nadam,         lion,       lamb,  rmsprop, adagrad,
                                  adadelta, ftrl, adafactor, muon,   schedule_free, loss_scale, multi, spared};
static make_fn       *make;

static net net_new(void)
{
    net n = {.w = lk_variable_of(lk_glorot_uniform(LK_SHAPE(3, 4), "w"), .name = "w"),
             .b = lk_variable_of(lk_zeros(LK_SHAPE(4), LK_F32), .name = "b")};
    n.optimizer = make();
    return n;
}

static lk_tuple batch(void)
{
    return LK_TUPLE(lk_rows(lk_random_uniform(LK_SHAPE(6, 3)), 0),
                    lk_rows(lk_tensor_from(LK_SHAPE(6), LK_I32, (int32_t[]){0, 1, 2, 3, 0, 1}), 0));
}

static int life(bool compiled)
{
    int good = 0;
    LK_POOL {
        net n = net_new();
        n.inner = lk_function_of(layer, &n);
        lk_function *f = lk_function_of(train, &n);
        if (n.w && n.b && n.optimizer && n.inner && f) {
            lk_tuple in = batch();
            good = 1;
            for (int i = 0; i < 2 && good; i++)
                good = good_so_far((compiled ? lk_call(f, in) : train(in, &n)).item[0]);
        }
    }
    return good && !lk_failed();
}

static int life_at_once(void) { return life(false); }
static int life_compiled(void) { return life(true); }

TEST(optimizers_at_once)
{
    for (int i = 0; i < LKI_COUNT(makers); i++) {
        make = makers[i];
        assert_true(life_at_once());
        check_every_allocation(life_at_once);
    }
}

TEST(optimizers_compiled)
{
    lk_set_threads(2);
    for (int i = 0; i < LKI_COUNT(makers); i++) {
        make = makers[i];
        assert_true(life_compiled());
        check_every_allocation(life_compiled);
    }
    lk_set_threads(0);
}

/* ---- the same objects again ---- */

/* A function whose trace, plan or replay failed works at the next call, and has one plan. */
TEST(a_function_survives)
{
    make = adam;
    for (int n = 1, done = 0; !done; n++)
        LK_POOL {
            net          m = net_new();
            lk_tuple     in = batch();
            lk_function *f = lk_function_of(layer, &m);
            lk_call(f, LK_TUPLE(lk_ones(LK_SHAPE(2, 3), LK_F32))); /* one plan it has */
            lki_memory_fail_after(n);
            lk_tuple out = lk_call(f, in);
            lki_memory_fail_after(0);
            done = !lk_failed();
            assert_int_equal(lk_failed() != 0, lk_poisoned(out.item[0]));
            if (lk_failed()) assert_int_equal(lk_error_code(), LK_ENOMEM);
            lk_clear_error();
            lk_tensor *y = lk_call(f, in).item[0], *z = layer(in, &m).item[0];
            assert_true(good_so_far(y));
            assert_memory_equal(lk_data(y), lk_data(z), sizeof(float) * 24);
            assert_int_equal(lk_function_inspect(f).plans, 2);
        }
}

/* An optimiser whose first apply failed has all of its state or none; the next apply works. */
TEST(an_optimizer_survives)
{
    for (int i = 0; i < LKI_COUNT(makers); i++) {
        make = makers[i];
        for (int n = 1, done = 0; !done; n++)
            LK_POOL {
                net       m = net_new();
                lk_tuple  g = LK_TUPLE(lk_ones(LK_SHAPE(3, 4), LK_F32), lk_ones(LK_SHAPE(4), LK_F32));
                lk_status status;
                lki_memory_fail_after(n);
                status = lk_optimizer_apply_gradients(m.optimizer, g, (lk_variables){2, (lk_variable *[]){m.w, m.b}});
                lki_memory_fail_after(0);
                done = status == LK_OK && !lk_failed();
                if (!done) assert_int_equal(status, LK_ENOMEM);
                lk_clear_error();
                for (int k = 0; k < 2; k++)
                    assert_int_equal(lk_optimizer_apply_gradients(m.optimizer, g, LK_VARIABLES(m.w, m.b)), LK_OK);
                lk_tensor *w = lk_read(m.w);
                for (int k = 0; k < 12; k++)
                    assert_true(isfinite(((const float *)lk_data(w))[k]));
            }
    }
    assert_false(lk_failed());
}

/* Without memory for those who still hold the old value, an assignment is refused and changes nothing. */
TEST(a_variable_survives)
{
    for (int n = 1, done = 0; !done; n++)
        LK_POOL {
            lk_variable *v = lk_variable_of(lk_ones(LK_SHAPE(4), LK_F32));
            lk_tensor   *held = lk_read(v), *two = lk_fill(LK_SHAPE(4), LK_F32, 2);
            lki_memory_fail_after(n);
            lk_status status = lk_assign(v, two);
            lki_memory_fail_after(0);
            done = status == LK_OK;
            lk_clear_error();
            assert_true(lk_item(lk_reduce_sum(held)) == 4);
            assert_true(lk_item(lk_reduce_sum(lk_read(v))) == (done ? 8 : 4));
        }
}

static int quiet(void **state)
{
    (void)state;
    lk_set_log(silence, NULL); /* missing gradients are reported */
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tapes_and_the_checker), cmocka_unit_test(optimizers_at_once),    cmocka_unit_test(optimizers_compiled),
        cmocka_unit_test(a_function_survives),   cmocka_unit_test(an_optimizer_survives), cmocka_unit_test(a_variable_survives),
    };
    return cmocka_run_group_tests(tests, quiet, NULL);
}
