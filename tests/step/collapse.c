/* Compiled distributed steps: what N replicas record runs as one device would run it, with the same bits and the same kernel calls;
 * if that is not the same computation, it runs replica by replica, and is right. */
#include "check.h"
#include "op/gradient.h"
#include "op/replica.h"
#include "step/models.h"
#include "step/replicas.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GLOBAL = 64 };

static char logged[4096];

static void keep_log(const char *text, void *user)
{
    (void)user;
    if (strstr(text, "planned one beside the other")) snprintf(logged, sizeof logged, "%s", text);
}

static void listen(void)
{
    logged[0] = 0;
    lk_set_log(keep_log, NULL);
    lk_set_verbose("lanes");
}

static void stop_listening(void)
{
    lk_set_verbose("");
    lk_set_log(NULL, NULL);
}

/* ---- a model, a metric, regularisation ---- */

typedef struct program {
    lk_strategy *strategy;
    model        m;
    lk_variable *metric; /* [lanes, 2] */
} program;

static lk_tensor *count_hits(program *p, lk_tensor *logits, lk_tensor *labels)
{
    lk_tensor *hit = lk_cast(lk_equal(lk_argmax(logits, .axis = LK_AXIS(1)), lk_cast(labels, LK_I64)), LK_F32);
    lk_tensor *pair = lk_stack(LK_TUPLE(hit, lk_add(lk_mul(hit, lk_scalar(0)), lk_scalar(1))), 1);
    lki_update(LKI_OP_lane_add, NULL, 1, &pair, 1, &p->metric);
    return hit;
}

static lk_tuple train(lk_tuple in, void *user)
{
    program   *p = user;
    model     *m = &p->m;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *w[8], *x = in.item[0], *labels = in.item[1];
    int        i = 0;
    for (int k = 0; k < m->count; k++)
        w[k] = lk_read(m->weight[k]);
    for (; i < 2 * m->convolutions; i += 2)
        x = lk_nn_max_pool2d(lk_nn_conv2d(x, w[i], w[i + 1], .activation = LK_RELU));
    x = lk_nn_dense(lk_flatten_rows(x), w[i], w[i + 1], LK_RELU);
    x = lk_nn_dropout(x, 0.25, .stream = "dropout", .iteration = lk_optimizer_iteration(m->optimizer));
    x = lk_nn_dense(x, w[i + 2], w[i + 3], LK_LINEAR);
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(labels, x, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = m->global_batch);
    for (int k = 0; k < m->count && m->l2 > 0; k += 2)
        loss = lk_add(loss, lk_scale_regularization_loss(lk_nn_l2(w[k], m->l2)));
    lk_optimizer_apply(m->optimizer, lk_tape_gradient(tape, loss, model_variables(m)));
    return LK_TUPLE(loss, count_hits(p, x, labels));
}

static lk_tuple distributed(lk_tuple batch, void *user)
{
    program *p = user;
    lk_tuple out = lk_run(p->strategy, train, batch, p);
    return LK_TUPLE(lk_reduce(p->strategy, LK_SUM, out.item[0]), out.item[1]);
}

static program program_new(int replicas, int convolutions, double l2, lk_optimizer *optimizer)
{
    program p = {.strategy = lk_mirrored_strategy(.cpu_devices = replicas)};
    LK_SCOPE(p.strategy) {
        p.m = model_new(convolutions, GLOBAL);
        p.m.l2 = l2;
        p.m.optimizer = optimizer;
        p.metric = lk_variable_of(lk_zeros(LK_SHAPE(lk_lanes(), 2), LK_F64), .name = "metric", .trainable = LK_OFF);
    }
    return p;
}

static lk_tuple batch_of(program *p, int64_t rows, int number)
{
    lk_tuple all = model_batch(&p->m, rows, number);
    return LK_TUPLE(hand_out(p->strategy, all.item[0], GLOBAL), hand_out(p->strategy, all.item[1], GLOBAL));
}

typedef struct outcome {
    lk_digest        digest;
    double           loss[8];
    int              calls, barriers, fused;
    size_t           memory;
    lk_function_info info;
} outcome;

static const int rows_of_step[] = {64, 64, 23, 5, 64, 0}; /* full, short, most replicas empty, all empty */

static lk_digest digest_of(program *p)
{
    lk_digest a = lk_variables_digest(lk_optimizer_variables(p->m.optimizer)), b = lk_variables_digest(model_variables(&p->m)),
              c = lk_variables_digest(LK_VARIABLES(p->metric));
    for (int i = 0; i < 32; i++)
        a.byte[i] ^= b.byte[i] ^ (uint8_t)(c.byte[i] << 1);
    return a;
}

static outcome run(int replicas, int convolutions, double l2, bool adam, int threads)
{
    outcome o = {0};
    lk_set_threads(threads);
    LK_POOL {
        program      p = program_new(replicas, convolutions, l2, adam ? lk_adam() : lk_sgd(.learning_rate = 0.1, .momentum = 0.9));
        lk_function *f = lk_function_of(distributed, &p);
        for (int i = 0; i < LKI_COUNT(rows_of_step); i++)
            LK_STEP {
                lk_tuple out = lk_call(f, batch_of(&p, rows_of_step[i], i));
                if (lk_poisoned(out.item[0])) print_error("%d replicas, step %d: %s\n", replicas, i, lk_error());
                o.loss[i] = lk_item(out.item[0]);
                o.info = lk_function_inspect(f);
                o.calls += o.info.calls;
                o.barriers += o.info.barriers;
                o.fused += o.info.fused;
                o.memory += o.info.memory;
            }
        o.digest = digest_of(&p);
    }
    assert_false(lk_failed());
    lk_set_threads(0);
    return o;
}

static void assert_same_outcome(const outcome *a, const outcome *b)
{
    for (int i = 0; i < LKI_COUNT(rows_of_step); i++)
        assert_memory_equal(&a->loss[i], &b->loss[i], sizeof a->loss[i]);
    assert_memory_equal(a->digest.byte, b->digest.byte, sizeof a->digest.byte);
    assert_int_equal(a->calls, b->calls);
    assert_int_equal(a->barriers, b->barriers);
    assert_int_equal(a->fused, b->fused);
    assert_int_equal(a->memory, b->memory);
}

static void like_one(int convolutions, double l2, bool adam)
{
    static const int counts[] = {2, 3, 4, 5, 8};
    outcome          one = run(1, convolutions, l2, adam, 2);
    listen();
    for (int i = 0; i < LKI_COUNT(counts); i++) {
        outcome many = run(counts[i], convolutions, l2, adam, 1 + i % 3);
        if (logged[0]) print_error("%s\n", logged);
        assert_int_equal(logged[0], 0);
        many = run(counts[i], convolutions, l2, adam, 2);
        assert_same_outcome(&one, &many);
    }
    stop_listening();
}

/* The graph has the nodes of one replica, those of where they meet, and what each writes by itself: its lanes of the metric. */
TEST(replicas_are_recorded_once)
{
    const outcome one = run(1, 2, 1e-3, true, 2), two = run(2, 2, 1e-3, true, 2), eight = run(8, 2, 1e-3, true, 2);
    assert_int_equal(two.info.ops + 6, eight.info.ops);
    assert_in_range(eight.info.ops, one.info.ops, 2 * one.info.ops);
}

TEST(replicas_are_one_device_with_adam) { like_one(1, 0, true); }

TEST(replicas_are_one_device_with_l2) { like_one(2, 1e-3, true); }

TEST(replicas_are_one_device_with_sgd) { like_one(1, 1e-3, false); }

/* ---- layers that meet, pick, repeat and reshape ---- */

typedef struct network {
    lk_strategy  *strategy;
    lk_variable  *weight[11], *mean, *variance;
    lk_optimizer *optimizer;
} network;

enum { WORDS = 12, STEPS = 4, WIDTH = 3, UNITS = 4, CLASSES = 5 };

static lk_variable *weight_of(lk_shape shape, const char *name)
{
    return lk_variable_of(lk_glorot_uniform(shape, name), .name = name);
}

static network network_new(int replicas)
{
    network n = {.strategy = lk_mirrored_strategy(.cpu_devices = replicas), .optimizer = lk_adam(.clipnorm = 0.5)};
    LK_SCOPE(n.strategy) {
        lk_variable *w[] = {weight_of(LK_SHAPE(WORDS, WIDTH), "table"),
                            weight_of(LK_SHAPE(WIDTH, 4 * UNITS), "kernel"),
                            weight_of(LK_SHAPE(UNITS, 4 * UNITS), "recurrent"),
                            lk_variable_of(lk_zeros(LK_SHAPE(4 * UNITS), LK_F32), .name = "bias"),
                            lk_variable_of(lk_ones(LK_SHAPE(UNITS), LK_F32), .name = "gamma"),
                            lk_variable_of(lk_zeros(LK_SHAPE(UNITS), LK_F32), .name = "beta"),
                            weight_of(LK_SHAPE(UNITS, 2, 2), "query"),
                            weight_of(LK_SHAPE(UNITS, 2, 2), "key"),
                            weight_of(LK_SHAPE(UNITS, 2, 2), "value"),
                            weight_of(LK_SHAPE(2, 2, UNITS), "output"),
                            weight_of(LK_SHAPE(STEPS * UNITS / 2, CLASSES), "dense")};
        memcpy(n.weight, w, sizeof w);
        n.mean = lk_variable_of(lk_zeros(LK_SHAPE(UNITS), LK_F32), .name = "mean", .trainable = LK_OFF);
        n.variance = lk_variable_of(lk_ones(LK_SHAPE(UNITS), LK_F32), .name = "variance", .trainable = LK_OFF);
    }
    return n;
}

static lk_tuple network_step(lk_tuple in, void *user)
{
    network     *n = user;
    lk_variables all = lk_variables_from(LKI_COUNT(n->weight), n->weight);
    lk_tape     *tape = lk_tape_begin();
    lk_tensor   *w[LKI_COUNT(n->weight)], *x;
    for (int i = 0; i < all.count; i++)
        w[i] = lk_read(n->weight[i]);
    x = lk_nn_embedding(in.item[0], w[0]);
    x = lk_nn_lstm(x, w[1], w[2], w[3], .return_sequences = LK_ON);
    lk_tuple norm = lk_nn_batch_norm(x, w[4], w[5], .moving_mean = lk_read(n->mean), .moving_variance = lk_read(n->variance),
                                     .training = LK_ON);
    x = norm.item[0];
    x = lk_add(
        x, lk_nn_multi_head_attention(x, x, .query_kernel = w[6], .key_kernel = w[7], .value_kernel = w[8], .output_kernel = w[9]));
    x = lk_softmax(lk_reshape(x, LK_SHAPE(2 * lk_dim(x, 0), STEPS * UNITS / 2))); /* two entries per row */
    x = lk_reduce_sum(lk_reshape(lk_matmul(x, w[10]), LK_SHAPE(lk_dim(x, 0) / 2, 2, CLASSES)), .axis = LK_AXES(1));
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(in.item[1], x, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = GLOBAL);
    lk_optimizer_apply(n->optimizer, lk_tape_gradient(tape, loss, all));
    lk_assign(n->mean, norm.item[1]);
    lk_assign(n->variance, norm.item[2]);
    return LK_TUPLE(loss);
}

static lk_tuple network_distributed(lk_tuple in, void *user)
{
    network *n = user;
    return LK_TUPLE(lk_reduce(n->strategy, LK_SUM, lk_run(n->strategy, network_step, in, n).item[0]));
}

static lk_digest train_network(int replicas, int *calls)
{
    lk_digest digest = {{0}};
    *calls = 0;
    LK_POOL {
        network      n = network_new(replicas);
        lk_function *f = lk_function_of(network_distributed, &n, .name = "network");
        for (int i = 0; i < 5; i++)
            LK_STEP {
                int        rows = i == 3 ? 23 : GLOBAL;
                lk_tensor *noise = lk_random_uniform(LK_SHAPE(rows, STEPS), .call = i, .high = LK_NUMBER(WORDS));
                lk_tensor *ids = lk_cast(noise, LK_I32),
                          *labels = lk_mod(lk_reduce_sum(ids, .axis = LK_AXES(1)), lk_fill(LK_SHAPE(), LK_I32, CLASSES));
                lk_tuple out = lk_call(f, LK_TUPLE(hand_out(n.strategy, ids, GLOBAL), hand_out(n.strategy, labels, GLOBAL)));
                if (lk_failed()) print_error("%d replicas: %s\n", replicas, lk_error());
                assert_false(lk_poisoned(out.item[0]));
                *calls += lk_function_inspect(f).calls;
            }
        lk_digest a = lk_variables_digest(lk_optimizer_variables(n.optimizer)),
                  b = lk_variables_digest(lk_variables_from(LKI_COUNT(n.weight), n.weight)),
                  c = lk_variables_digest(LK_VARIABLES(n.mean, n.variance));
        for (int i = 0; i < 32; i++)
            digest.byte[i] = (uint8_t)(a.byte[i] ^ b.byte[i] ^ (c.byte[i] << 1));
    }
    return digest;
}

TEST(replicas_are_one_device_through_many_layers)
{
    static const int counts[] = {2, 3, 4, 8};
    int              calls, once;
    lk_set_threads(2);
    lk_digest one = train_network(1, &once);
    listen();
    for (int i = 0; i < LKI_COUNT(counts); i++) {
        lk_digest many = train_network(counts[i], &calls);
        if (logged[0]) print_error("%s\n", logged);
        assert_false(logged[0]);
        assert_memory_equal(one.byte, many.byte, sizeof one.byte);
        assert_int_equal(once, calls);
    }
    stop_listening();
    lk_set_threads(0);
    assert_false(lk_failed());
}

/* ---- small programs of a batch x [rows, 3] ---- */

typedef struct small {
    lk_strategy *strategy, *other;
    lk_variable *w, *per_replica;
    lk_fn        replica;
} small;

static small small_new(int replicas)
{
    small s = {.strategy = lk_mirrored_strategy(.cpu_devices = replicas)};
    LK_SCOPE(s.strategy) {
        s.w = lk_variable_of(lk_tensor_of(LK_SHAPE(3), 0.5, -1.25, 3), .name = "w");
        s.per_replica = lk_variable_of(lk_zeros(LK_SHAPE(3), LK_F32), .name = "on_read", .synchronization = LK_SYNC_ON_READ,
                                       .aggregation = LK_AGGREGATION_SUM);
    }
    return s;
}

static lk_tensor *numbers(int64_t rows, int64_t columns)
{
    return lk_random_uniform(LK_SHAPE(rows, columns), .stream = "numbers", .low = -1);
}

static lk_tensor *total_of(lk_tensor *x) { return lk_reduce_sum(x, .axis = LK_AXES(0)); }

static lk_tuple returned(lk_tuple in, void *user)
{
    small *s = user;
    return lk_run(s->strategy, s->replica, in, s);
}

static lk_tuple summed(lk_tuple in, void *user)
{
    small   *s = user;
    lk_tuple out = lk_run(s->strategy, s->replica, in, s);
    return LK_TUPLE(lk_reduce(s->strategy, LK_SUM, out.item[0]));
}

static void assert_equal(const lk_tensor *a, const lk_tensor *b)
{
    assert_true(a && b && a->dtype == b->dtype && !a->replicas == !b->replicas && !a->nest == !b->nest);
    for (int i = 0; a->nest && i < a->nest->count; i++)
        if (a->nest->item[i] || b->nest->item[i]) assert_equal(a->nest->item[i], b->nest->item[i]);
    for (int r = 0; a->replicas && r < a->replicas->count; r++)
        assert_equal(a->replicas->item[r], b->replicas->item[r]);
    if (lki_stands_for(a)) return;
    assert_true(lki_shape_equal(&a->shape, &b->shape));
    assert_memory_equal(lk_data(a), lk_data(b), (size_t)lk_size(a) * lk_dtype_bytes(a->dtype));
}

/* Compiled and op by op give the same; `why` is what is said about it, NULL when it must run as one device. */
static void check_small(small *s, lk_fn whole, lk_fn replica, lk_tuple in, const char *why)
{
    s->replica = replica;
    lk_function *f = lk_function_of(whole, s, .name = "small");
    lk_tuple     eager = whole(in, s);
    listen();
    lk_tuple compiled = lk_call(f, in);
    stop_listening();
    if (lk_failed()) print_error("%s\n", lk_error());
    assert_false(lk_failed());
    if (why ? !strstr(logged, why) : logged[0]) print_error("said: \"%s\", not \"%s\"\n", logged, why ? why : "");
    assert_true(why ? strstr(logged, why) != NULL : !logged[0]);
    assert_int_equal(eager.count, compiled.count);
    for (int i = 0; i < eager.count; i++)
        assert_equal(eager.item[i], compiled.item[i]);
}

static void check_with(int replicas, lk_fn whole, lk_fn replica, const char *why)
{
    LK_POOL {
        small s = small_new(replicas);
        check_small(&s, whole, replica, LK_TUPLE(hand_out(s.strategy, numbers(13, 3), 16)), why);
    }
}

static int id(void)
{
    lk_replica_context *c = lk_get_replica_context();
    return c ? lk_replica_id_in_sync_group(c) : 0;
}

/* ---- what keeps replicas apart ---- */

static lk_tuple times_own_number(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(total_of(lk_mul(in.item[0], lk_scalar(1 + id()))));
}

static lk_tuple own_sum(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(total_of(in.item[0]));
}

static lk_tuple own_batch(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(total_of(lk_rows(in.item[0], 0)));
}

static lk_tuple minus_own_sum(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(total_of(lk_square(lk_sub(in.item[0], total_of(in.item[0])))));
}

static lk_tuple largest(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_mul(total_of(in.item[0]), lk_reduce_max(in.item[0])));
}

static lk_tuple first_does_more(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *x = in.item[0];
    return LK_TUPLE(total_of(id() ? x : lk_exp(x)));
}

static lk_tuple share_of_weights(lk_tuple in, void *user)
{
    small *s = user;
    return LK_TUPLE(lk_add(total_of(in.item[0]), lk_exp(lk_scale_regularization_loss(lk_read(s->w)))));
}

static lk_tuple rounded(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_cast(lk_cast(total_of(lk_mul(in.item[0], lk_scalar(10))), LK_I32), LK_F32));
}

TEST(replicas_that_are_not_one_device)
{
    static const int counts[] = {2, 4, 8};
    for (int i = 0; i < LKI_COUNT(counts); i++) {
        check_with(counts[i], summed, times_own_number, "a constant of replica 1 differs");
        check_with(counts[i], returned, own_sum, "a per-replica result is a part of a sum");
        check_with(counts[i], summed, own_batch, "rows");
        check_with(counts[i], summed, minus_own_sum, "own part of a sum");
        check_with(counts[i], summed, largest, "cannot be followed");
        check_with(counts[i], summed, first_does_more, "ops");
        check_with(counts[i], summed, share_of_weights, "share");
        check_with(counts[i], summed, rounded, "own part of a sum");
    }
}

/* A replica's own component is written by itself. */
static lk_tuple own_component(lk_tuple in, void *user)
{
    small *s = user;
    lk_assign_add(s->per_replica, total_of(in.item[0]));
    return LK_TUPLE(lk_read(s->per_replica));
}

TEST(replicas_with_variables_of_their_own)
{
    LK_POOL {
        small      s = small_new(4), t = small_new(4);
        lk_tensor *x = numbers(13, 3);
        s.replica = t.replica = own_component;
        lk_function *f = lk_function_of(returned, &t);
        listen();
        for (int i = 0; i < 3; i++)
            assert_equal(returned(LK_TUPLE(hand_out(s.strategy, x, 16)), &s).item[0],
                         lk_call(f, LK_TUPLE(hand_out(t.strategy, x, 16))).item[0]);
        stop_listening();
        assert_non_null(strstr(logged, "update variables by themselves"));
        assert_equal(lk_read(s.per_replica), lk_read(t.per_replica));
    }
    assert_false(lk_failed());
}

static lk_tuple both_strategies(lk_tuple in, void *user)
{
    small   *s = user;
    lk_tuple a = lk_run(s->strategy, own_sum, LK_TUPLE(in.item[0]), s), b = lk_run(s->other, own_sum, LK_TUPLE(in.item[1]), s);
    return LK_TUPLE(lk_reduce(s->strategy, LK_SUM, a.item[0]), lk_reduce(s->other, LK_SUM, b.item[0]));
}

TEST(strategies_of_different_size)
{
    LK_POOL {
        small s = small_new(2);
        s.other = lk_mirrored_strategy(.cpu_devices = 4);
        lk_tensor *x = numbers(13, 3);
        check_small(&s, both_strategies, own_sum, LK_TUPLE(hand_out(s.strategy, x, 16), hand_out(s.other, x, 16)),
                    "different size");
    }
}

/* One tensor per replica, none for all rows. */
TEST(inputs_without_a_whole)
{
    LK_POOL {
        small      s = small_new(4);
        lk_tensor *x = hand_out(s.strategy, numbers(13, 3), 16);
        lk_tensor *apart = lki_per_replica(s.strategy, 4, x->replicas->item, NULL, false);
        check_small(&s, summed, own_sum, LK_TUPLE(apart), "a tensor for each replica");
        check_small(&s, returned, own_sum, LK_TUPLE(apart), "");
        lk_tensor *swapped[4] = {x->replicas->item[1], x->replicas->item[0], x->replicas->item[2], x->replicas->item[3]};
        check_small(&s, returned, own_sum, LK_TUPLE(lki_per_replica(s.strategy, 4, swapped, x->replicas->whole, false)),
                    "a tensor for each replica");
    }
}

/* Every replica gets all rows: their sums are not parts of one. */
TEST(rows_that_all_replicas_have)
{
    LK_POOL {
        small s = small_new(4);
        check_small(&s, summed, own_sum, LK_TUPLE(lk_rows(numbers(13, 3), 16)), "all rows of a batch");
    }
}

/* ---- where replicas meet ---- */

static lk_tuple centred(lk_tuple in, void *user) /* statistics of all rows */
{
    (void)user;
    lk_tensor *sum = lk_all_reduce(lk_get_replica_context(), LK_SUM, total_of(in.item[0]));
    return LK_TUPLE(total_of(lk_square(lk_sub(in.item[0], lk_div(sum, lk_scalar(13))))));
}

static lk_tuple gathered(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *all = lk_all_gather(lk_get_replica_context(), in.item[0], 0);
    return LK_TUPLE(total_of(lk_add(in.item[0], lk_reduce_max(all, .axis = LK_AXES(0)))));
}

static lk_tuple add_up(lk_strategy *s, lk_tuple args, void *user)
{
    (void)user;
    return LK_TUPLE(lk_exp(lk_reduce(s, LK_SUM, args.item[0])), lk_reduce(s, LK_MEAN, args.item[1]));
}

static lk_tuple merged(lk_tuple in, void *user)
{
    small   *s = user;
    lk_tuple out = lk_merge_call(lk_get_replica_context(), add_up, LK_TUPLE(total_of(in.item[0]), lk_read(s->w)), NULL);
    return LK_TUPLE(total_of(lk_mul(in.item[0], lk_add(out.item[0], out.item[1]))));
}

static lk_tuple uniform_sum(lk_tuple in, void *user) /* the same on all: N times */
{
    small *s = user;
    (void)in;
    return LK_TUPLE(lk_square(lk_read(s->w)));
}

static lk_tensor *of_next(const lk_value_context *c, void *user)
{
    const lk_tuple *own = user;
    return own->item[(c->replica_id_in_sync_group + 1) % c->num_replicas_in_sync];
}

static lk_tuple pass_on(lk_strategy *s, lk_tuple args, void *user)
{
    (void)user;
    lk_tuple own = lk_local_results(s, args.item[0]);
    return LK_TUPLE(lk_values_from_function(s, of_next, &own));
}

/* Replicas meet without an op, replica 0 after all of its ops. The others then work on each other's values. */
static lk_tuple passed_on(lk_tuple in, void *user)
{
    small     *s = user;
    lk_tensor *factor = lk_fill(LK_SHAPE(3), LK_F32, 3), *own = lk_add(lk_read(s->w), lk_scalar(id())), *out = NULL;
    (void)in;
    if (id() == 0) out = lk_mul(factor, lk_read(s->w));
    lk_tuple next = lk_merge_call(lk_get_replica_context(), pass_on, LK_TUPLE(own), NULL);
    return LK_TUPLE(out ? out : lk_mul(next.item[0], lk_read(s->w)));
}

static lk_tuple plain(lk_tuple in, void *user)
{
    small *s = user;
    return LK_TUPLE(lk_exp(lk_mul(in.item[0], lk_read(s->w))), lk_square(lk_read(s->w)));
}

static lk_tuple twice(lk_tuple in, void *user)
{
    small     *s = user;
    lk_tuple   a = lk_run(s->strategy, own_sum, in, s);
    lk_tuple   b = lk_run(s->strategy, plain, LK_TUPLE(in.item[0]), s);
    lk_tensor *sum = lk_reduce(s->strategy, LK_SUM, a.item[0]),
              *last = lk_local_results(s->strategy, b.item[0]).item[lk_num_replicas_in_sync(s->strategy) - 1];
    return LK_TUPLE(sum, lk_gather_values(s->strategy, b.item[0]), lk_neg(last), b.item[1]);
}

static lk_tuple halves(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_cast(total_of(in.item[0]), LK_BF16));
}

static lk_tuple in_bf16(lk_tuple in, void *user)
{
    small   *s = user;
    lk_tuple out = lk_run(s->strategy, halves, in, s);
    return LK_TUPLE(lk_cast(lk_reduce(s->strategy, LK_SUM, out.item[0]), LK_F32));
}

TEST(replicas_that_meet)
{
    static const int counts[] = {2, 4, 8};
    for (int i = 0; i < LKI_COUNT(counts); i++) {
        check_with(counts[i], summed, centred, NULL);
        check_with(counts[i], summed, gathered, NULL);
        check_with(counts[i], summed, merged, NULL);
        check_with(counts[i], summed, uniform_sum, NULL);
        check_with(counts[i], returned, plain, NULL);
        check_with(counts[i], twice, NULL, NULL);
    }
    LK_POOL { /* rounded before and after the sum: op by op in another order */
        small        s = small_new(4), one = small_new(1);
        lk_tensor   *x = numbers(13, 3);
        lk_function *f = lk_function_of(in_bf16, &s), *g = lk_function_of(in_bf16, &one);
        listen();
        assert_equal(lk_call(f, LK_TUPLE(hand_out(s.strategy, x, 16))).item[0],
                     lk_call(g, LK_TUPLE(hand_out(one.strategy, x, 16))).item[0]);
        stop_listening();
        assert_false(logged[0]);
    }
    assert_false(lk_failed());
}

TEST(replicas_that_pass_values_on)
{
    for (int n = 2; n <= 8; n++)
        LK_POOL {
            small        s = small_new(n);
            lk_tuple     in = LK_TUPLE(hand_out(s.strategy, numbers(13, 3), 16));
            lk_function *f = lk_function_of(returned, &s);
            s.replica = passed_on;
            for (int step = 0; step < 3; step++) { /* memory has the values of the step before */
                lk_assign(s.w, lk_tensor_of(LK_SHAPE(3), 0.5 - step, step, 0.25));
                assert_equal(returned(in, &s).item[0], lk_call(f, in).item[0]);
            }
        }
    assert_false(lk_failed());
}

/* ---- structure ---- */

static lk_tuple nested(lk_tuple in, void *user)
{
    small     *s = user;
    lk_tuple   inner = lk_nested(in.item[0]);
    lk_tensor *x = inner.item[0], *scale = inner.item[1];
    return LK_TUPLE(lk_nest(LK_TUPLE(lk_mul(x, scale), lk_nest(LK_TUPLE(lk_mul(lk_read(s->w), scale), x)))),
                    inner.item[2] ? inner.item[2] : scale);
}

TEST(nested_values_go_in_and_come_out)
{
    LK_POOL {
        small      s = small_new(4);
        lk_tensor *x = hand_out(s.strategy, numbers(13, 3), 16), *two = lk_fill(LK_SHAPE(), LK_F32, 2);
        check_small(&s, returned, nested, LK_TUPLE(lk_nest(LK_TUPLE(x, two, NULL))), NULL);
        check_small(&s, returned, nested, LK_TUPLE(lk_nest(LK_TUPLE(x, two, x))), NULL);
        lk_tensor *same[4] = {two, lk_identity(two), lk_identity(two), two};
        check_small(&s, returned, nested, LK_TUPLE(lk_nest(LK_TUPLE(x, lki_per_replica(s.strategy, 4, same, NULL, true), NULL))),
                    NULL);
    }
}

TEST(rows_come_out_in_one_piece)
{
    LK_POOL {
        small      s = small_new(3);
        lk_tensor *x = hand_out(s.strategy, numbers(7, 3), 16); /* 4, 3 and no rows */
        s.replica = plain;
        lk_tuple            out = lk_call(lk_function_of(returned, &s), LK_TUPLE(x));
        const lki_replicas *rows = out.item[0]->replicas, *uniform = out.item[1]->replicas;
        assert_true(rows && uniform && rows->count == 3 && rows->strategy == s.strategy && rows->whole);
        int64_t first = 0;
        for (int r = 0; r < 3; r++) {
            const lk_tensor *t = rows->item[r];
            assert_int_equal(lk_dim(t, 0), lk_dim(x->replicas->item[r], 0));
            assert_ptr_equal(t->data, (float *)rows->whole->data + 3 * first);
            assert_memory_equal(&t->rows, &x->replicas->item[r]->rows, sizeof t->rows);
            first += lk_dim(t, 0);
            assert_ptr_equal(uniform->item[r], uniform->item[0]);
        }
        assert_int_equal(lk_dim(rows->whole, 0), 7);
        assert_int_equal(rows->whole->rows.rows, 7);
        assert_equal(out.item[0], lk_call(lk_function_of(returned, &s), LK_TUPLE(x)).item[0]); /* and may go in again */
        lk_tuple again = lk_call(lk_function_of(returned, &s), LK_TUPLE(out.item[0]));
        assert_true(again.item[0]->replicas->whole != NULL);
    }
    assert_false(lk_failed());
}

static lk_tuple straight_through(lk_tuple in, void *user)
{
    small     *s = user;
    lk_tensor *one = lk_local_results(s->strategy, in.item[0]).item[1];
    return LK_TUPLE(in.item[0], lk_neg(one), one);
}

TEST(functions_without_run)
{
    LK_POOL {
        small      s = small_new(2);
        lk_tensor *x = hand_out(s.strategy, numbers(13, 3), 16);
        check_small(&s, straight_through, NULL, LK_TUPLE(x), NULL);
        check_small(&s, straight_through, NULL, LK_TUPLE(lki_per_replica(s.strategy, 2, x->replicas->item, NULL, false)), NULL);
        lk_tuple out = lk_call(lk_function_of(straight_through, &s), LK_TUPLE(x));
        assert_true(out.item[0]->replicas->whole != NULL);
        assert_true(out.item[0]->replicas->item[1]->data != x->replicas->item[1]->data);
    }
    assert_false(lk_failed());
}

static lk_tensor *same_batch(small *s, lk_tensor *x, void (*change)(lki_rows *))
{
    lk_tensor *item[2], *p = hand_out(s->strategy, x, 16);
    for (int r = 0; r < 2; r++) {
        item[r] = p->replicas->item[r];
        if (change) change(&item[r]->rows);
    }
    return p;
}

static void make_own(lki_rows *r) { r->own = true; }
static void make_longer(lki_rows *r) { r->total++; }

TEST(one_trace_per_structure)
{
    LK_POOL {
        small      s = small_new(2), t = small_new(2);
        lk_tensor *x = numbers(16, 3), *p = same_batch(&s, x, NULL), *both[2] = {p->replicas->item[0], p->replicas->item[1]};
        s.replica = plain;
        lk_function *f = lk_function_of(returned, &s);
        lk_tensor   *in[] = {p,
                             same_batch(&s, x, make_own),
                             same_batch(&s, x, make_longer),
                             lki_per_replica(s.strategy, 2, both, NULL, false),
                             lki_per_replica(s.strategy, 2, both, p->replicas->whole, true),
                             lki_per_replica(t.strategy, 2, both, p->replicas->whole, false),
                             x};
        for (int round = 0; round < 2; round++)
            for (int i = 0; i < LKI_COUNT(in); i++)
                lk_call(f, LK_TUPLE(in[i]));
        assert_int_equal(lk_function_inspect(f).traces, LKI_COUNT(in));
        for (int i = 0; i < 3; i++)
            lk_call(f, LK_TUPLE(same_batch(&s, numbers(16, 3), NULL)));
        assert_int_equal(lk_function_inspect(f).traces, LKI_COUNT(in));
    }
    assert_false(lk_failed());
}

TEST(a_strategy_with_lanes_of_its_own)
{
    double sum[2][3];
    for (int n = 1; n <= 2; n++)
        LK_POOL {
            small s = {.strategy = lk_mirrored_strategy(.cpu_devices = 2 * n - 1 + (n == 2), .lanes = 16), .replica = own_sum};
            lk_function *f = lk_function_of(summed, &s);
            lk_tuple     out = lk_call(f, LK_TUPLE(hand_out_lanes(s.strategy, numbers(29, 3), 32, 16)));
            for (int i = 0; i < 3; i++)
                sum[n - 1][i] = lki_element_get(LK_F32, lk_data(out.item[0]), i);
        }
    assert_memory_equal(sum[0], sum[1], sizeof sum[0]);
    assert_false(lk_failed());
}

/* ---- functions called by replicas ---- */

static lk_tuple adds_one(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(in.item[0], lk_scalar(1)));
}

static lk_tuple calls_a_function(lk_tuple in, void *function) { return LK_TUPLE(total_of(lk_call(function, in).item[0])); }

TEST(a_function_called_by_a_replica_runs_op_by_op)
{
    LK_POOL {
        small        s = small_new(4);
        lk_function *f = lk_function_of(adds_one);
        lk_tuple     in = LK_TUPLE(hand_out(s.strategy, numbers(13, 3), 16));
        lk_tuple     out = lk_run(s.strategy, calls_a_function, in, f);
        assert_int_equal(lk_function_inspect(f).traces, 0);
        assert_false(lk_poisoned(lk_reduce(s.strategy, LK_SUM, out.item[0])));
    }
    assert_false(lk_failed());
}

/* ---- memory ---- */

static int life_of_functions(small *s, lk_tensor *x)
{
    int good = 0;
    LK_POOL {
        s->replica = merged;
        good = !lk_poisoned(lk_call(lk_function_of(summed, s), LK_TUPLE(x)).item[0]);
        s->replica = nested;
        if (good)
            good = !lk_poisoned(lk_call(lk_function_of(returned, s), LK_TUPLE(lk_nest(LK_TUPLE(x, lk_scalar(2), NULL)))).item[0]);
        s->replica = own_sum;
        if (good) good = !lk_poisoned(lk_call(lk_function_of(returned, s), LK_TUPLE(x)).item[0]);
    }
    return good;
}

TEST(every_allocation_may_fail)
{
    LK_POOL {
        small      s = small_new(3);
        lk_tensor *x = hand_out(s.strategy, numbers(13, 3), 16);
        assert_true(life_of_functions(&s, x)); /* threads, tables and settings are made once */
        int n = 1;
        for (int good = 0; !good && n < 4000; n++) {
            lk_clear_error();
            int64_t before = lki_memory_in_use();
            lki_memory_fail_after(n);
            good = life_of_functions(&s, x) && !lk_failed();
            lki_memory_fail_after(0);
            if (lki_memory_in_use() != before || (!good && lk_error_code() != LK_ENOMEM))
                print_error("allocation %d: %s\n", n, lk_error());
            assert_int_equal(lki_memory_in_use(), before);
            assert_true(good || lk_error_code() == LK_ENOMEM);
        }
        assert_true(n > 100 && n < 4000);
        lk_clear_error();
        assert_true(life_of_functions(&s, x));
    }
}

TESTS(cmocka_unit_test(replicas_are_recorded_once), cmocka_unit_test(replicas_are_one_device_with_adam),
      cmocka_unit_test(replicas_are_one_device_with_l2), cmocka_unit_test(replicas_are_one_device_with_sgd),
      cmocka_unit_test(replicas_are_one_device_through_many_layers), cmocka_unit_test(replicas_that_are_not_one_device),
      cmocka_unit_test(replicas_with_variables_of_their_own), cmocka_unit_test(strategies_of_different_size),
      cmocka_unit_test(inputs_without_a_whole), cmocka_unit_test(rows_that_all_replicas_have), cmocka_unit_test(replicas_that_meet),
      cmocka_unit_test(replicas_that_pass_values_on), cmocka_unit_test(nested_values_go_in_and_come_out),
      cmocka_unit_test(rows_come_out_in_one_piece), cmocka_unit_test(functions_without_run),
      cmocka_unit_test(one_trace_per_structure), cmocka_unit_test(a_strategy_with_lanes_of_its_own),
      cmocka_unit_test(a_function_called_by_a_replica_runs_op_by_op), cmocka_unit_test(every_allocation_may_fail))
