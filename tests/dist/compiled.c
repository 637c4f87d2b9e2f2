/* run inside a compiled function: what replicas do, traced once and replayed, gives the bits of doing it directly; errors are
 * reported there too. */
#include "dist/replicas.h"

typedef struct program {
    lk_strategy  *strategy;
    lk_fn         body;
    lk_variable  *w, *sum, *mean, *first, *on_read, *outside, *rows;
    lk_optimizer *optimizer;
} program;

static program program_new(lk_strategy *s, lk_fn body)
{
    program p = {.strategy = s, .body = body};
    LK_SCOPE(s) {
        p.w = lk_variable_of(lk_glorot_uniform(LK_SHAPE(3, 2), "w"), .name = "w");
        p.sum = lk_variable_of(lk_scalar(1), .name = "sum", .aggregation = SUM);
        p.mean = lk_variable_of(lk_scalar(1), .name = "mean", .aggregation = MEAN);
        p.first = lk_variable_of(lk_scalar(1), .name = "first", .aggregation = FIRST);
        p.on_read = lk_variable_of(lk_scalar(1), .name = "on_read", .synchronization = LK_SYNC_ON_READ, .aggregation = SUM);
        p.rows = lk_variable_of(VECTOR(1, 2, 3), .name = "rows", .aggregation = SUM);
        p.optimizer = lk_adam(.learning_rate = 0.1, .clipnorm = 1);
    }
    p.outside = lk_variable_of(lk_scalar(1), .name = "outside");
    return p;
}

/* ---- what replicas do ---- */

REPLICA_FN(train)
{
    program   *p = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_matmul(in.item[0], lk_read(p->w));
    lk_tensor *loss = lk_compute_average_loss(lk_reduce_mean(lk_square(y), .axis = LK_AXES(1)));
    loss = lk_add(loss, lk_scale_regularization_loss(lk_nn_l2(lk_read(p->w), 0.01)));
    lk_optimizer_apply(p->optimizer, lk_tape_gradient(tape, loss, LK_VARIABLES(p->w)));
    lk_assign_add(p->on_read, lk_reduce_sum(y));
    return LK_TUPLE(loss, y);
}

REPLICA_FN(collect)
{
    lk_replica_context *c = lk_get_replica_context();
    lk_tensor          *x = in.item[0];
    lk_tuple nest = lk_nested(lk_all_reduce(c, LK_SUM, lk_nest(LK_TUPLE(lk_reduce_sum(x), lk_nest(LK_TUPLE(lk_reduce_max(x)))))));
    return LK_TUPLE(lk_all_reduce(c, LK_MEAN, lk_reduce_sum(x, .axis = LK_AXES(0))), lk_all_gather(c, x, 0), nest.item[0],
                    lk_nested(nest.item[1]).item[0]);
}

REPLICA_FN(assign_all)
{
    program   *p = user;
    lk_tensor *x = lk_reduce_sum(in.item[0]);
    lk_assign_add(p->sum, x);
    lk_assign(p->mean, x);
    lk_assign_sub(p->first, x);
    lk_assign_add(p->outside, x);
    lk_assign_add(p->on_read, x);
    lk_scatter_add(p->rows, VECTOR_OF(LK_I64, 1), lk_reshape(x, LK_SHAPE(1)));
    return LK_TUPLE(lk_read(p->sum), lk_read(p->on_read), lk_read_aggregated(p->on_read), lk_read(p->outside));
}

MERGE_FN(combine)
{
    program   *p = user;
    lk_tensor *total = lk_reduce(s, LK_SUM, in.item[0]);
    lk_assign(p->mean, total);
    return LK_TUPLE(total, in.item[0]);
}

REPLICA_FN(merge)
{
    lk_tuple out = lk_merge_call(lk_get_replica_context(), combine, LK_TUPLE(lk_reduce_sum(in.item[0])), user);
    return LK_TUPLE(lk_add(out.item[0], out.item[1]), out.item[1]);
}

REPLICA_FN(differentiate)
{
    lk_replica_context *c = lk_get_replica_context();
    lk_tape            *tape = lk_tape_begin();
    lk_tensor          *x = lk_identity(in.item[0]);
    lk_tape_watch(tape, x);
    lk_tensor *z =
        lk_reduce_sum(lk_mul(lk_all_reduce(c, LK_SUM, lk_reduce_sum(lk_square(x))), lk_reduce_sum(lk_all_gather(c, x, 0))));
    return LK_TUPLE(z, lk_tape_gradient_of(tape, z, LK_TUPLE(x), NULL).item[0]);
}

static const lk_fn BODIES[] = {train, collect, assign_all, merge, differentiate};

/* ---- the same bits ---- */

static lk_tuple distributed(lk_tuple in, void *user)
{
    program *p = user;
    return lk_run(p->strategy, p->body, in, p);
}

static void same_tensors(lk_tensor *a, lk_tensor *b)
{
    assert_int_equal(lk_size(a), lk_size(b));
    assert_int_equal(lk_tensor_dtype(a), lk_tensor_dtype(b));
    if (lk_size(a)) assert_memory_equal(lk_data(a), lk_data(b), (size_t)lk_size(a) * lk_dtype_bytes(lk_tensor_dtype(a)));
}

static void same_results(lk_strategy *s, lk_tuple a, lk_tuple b)
{
    assert_int_equal(a.count, b.count);
    for (int i = 0; i < a.count; i++) {
        assert_true(!a.item[i] == !b.item[i]);
        if (!a.item[i]) continue;
        lk_tuple x = lk_local_results(s, a.item[i]), y = lk_local_results(s, b.item[i]);
        assert_int_equal(x.count, y.count);
        for (int r = 0; r < x.count; r++)
            same_tensors(x.item[r], y.item[r]);
    }
    SOUND();
}

static lk_digest state_of(const program *p)
{
    return lk_variables_digest(LK_VARIABLES(p->w, p->sum, p->mean, p->first, p->on_read, p->outside, p->rows));
}

/* Rows of a replica: 0.25, 0.5, ...; `uneven`: replica r has r + 1 rows. */
static lk_tensor *rows_on(const lk_value_context *c, void *user)
{
    const int  r = c->replica_id_in_sync_group, turn = *(int *)user;
    lk_tensor *t = lk_zeros(LK_SHAPE(turn % 2 ? r + 1 : 4, 3), LK_F32);
    for (int i = 0; i < lk_size(t); i++)
        ((float *)lk_data(t))[i] = 0.25f * (float)((i * 7 + r * 5 + turn * 3) % 11) - 1;
    return t;
}

static void check_body(int n, lk_fn body)
{
    lk_strategy *s = mirrored(n);
    program      eager = program_new(s, body), compiled = program_new(s, body);
    lk_function *f = lk_function_of(distributed, &compiled);
    for (int turn = 0; turn < 6; turn++)
        LK_STEP {
            lk_tensor *x = lk_values_from_function(s, rows_on, &turn);
            lk_tuple   a = distributed(LK_TUPLE(x), &eager), b = lk_call(f, LK_TUPLE(x));
            SOUND();
            same_results(s, a, b);
            assert_true(lk_digest_equal(state_of(&eager), state_of(&compiled)));
        }
    assert_int_equal(lk_function_inspect(f).traces, 2); /* one per shape */
}

TEST(compiled_gives_the_same_bits)
{
    LK_POOL {
        EACH_COUNT(n)
        for (int i = 0; i < LKI_COUNT(BODIES); i++)
            check_body(n, BODIES[i]);
    }
}

/* ---- around run ---- */

static lk_tuple reduce_after(lk_tuple in, void *user)
{
    program   *p = user;
    lk_tuple   out = lk_run(p->strategy, train, in, p);
    lk_tensor *loss = lk_reduce(p->strategy, LK_SUM, out.item[0]);
    lk_tensor *mean = lk_reduce(p->strategy, LK_MEAN, out.item[1], LK_AXIS(0));
    return LK_TUPLE(loss, mean, lk_gather_values(p->strategy, out.item[1]), lk_local_results(p->strategy, out.item[1]).item[1]);
}

TEST(values_are_combined_inside)
{
    LK_POOL {
        for (int n = 2; n <= 4; n++) {
            lk_strategy *s = mirrored(n);
            program      eager = program_new(s, train), compiled = program_new(s, train);
            lk_function *f = lk_function_of(reduce_after, &compiled);
            for (int turn = 0; turn < 4; turn++)
                LK_STEP {
                    lk_tensor *x = lk_values_from_function(s, rows_on, &turn);
                    lk_tuple   a = reduce_after(LK_TUPLE(x), &eager), b = lk_call(f, LK_TUPLE(x));
                    SOUND();
                    for (int i = 0; i < 4; i++)
                        same_tensors(a.item[i], b.item[i]);
                }
            assert_true(lk_digest_equal(state_of(&eager), state_of(&compiled)));
        }
    }
}

/* The function may be compiled on each replica instead: it is run there as it is written. */
REPLICA_FN(call_inside) { return lk_call(user, in); }

TEST(a_function_called_by_replicas)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        program      p = program_new(s, collect);
        lk_function *f = lk_function_of(collect, &p);
        int          turn = 0;
        lk_tuple     a = lk_run(s, collect, LK_TUPLE(lk_values_from_function(s, rows_on, &turn)), &p);
        lk_tuple     b = lk_run(s, call_inside, LK_TUPLE(lk_values_from_function(s, rows_on, &turn)), f);
        if (lk_failed()) { /* or refused, saying so */
            assert_int_equal(lk_error_code(), LK_ESTATE);
            lk_clear_error();
        } else same_results(s, a, b);
    }
}

/* ---- mistakes ---- */

REPLICA_FN(one_leaves)
{
    program *p = user;
    if (my_id() == 1) return LK_TUPLE();
    lk_assign_add(p->sum, lk_reduce_sum(in.item[0]));
    return LK_TUPLE();
}

REPLICA_FN(one_fails)
{
    program *p = user;
    lk_assign_add(p->sum, lk_reduce_sum(in.item[0]));
    if (my_id() == 1) lk_matmul(in.item[0], in.item[0]);
    return LK_TUPLE();
}

REPLICA_FN(look_at_value)
{
    lk_item(lk_reduce_sum(in.item[0]));
    return LK_TUPLE();
}

TEST(mistakes_while_traced)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        program      p = program_new(s, one_leaves);
        int          turn = 0;
        lk_digest    before = state_of(&p);
        lk_tensor   *x = lk_values_from_function(s, rows_on, &turn);
        REFUSED(LK_ESTATE, lk_call(lk_function_of(distributed, &p), LK_TUPLE(x)), "replica 1 returned",
                "replica 0 waits in assignment of sum");
        p.body = one_fails;
        REFUSED(LK_ESHAPE, lk_call(lk_function_of(distributed, &p), LK_TUPLE(x)), "replica 1 of 3 on CPU:1", "matmul");
        p.body = look_at_value;
        REFUSED(LK_ESTATE, lk_call(lk_function_of(distributed, &p), LK_TUPLE(x)), "traced", "no value yet");
        assert_true(lk_digest_equal(state_of(&p), before)); /* nothing was written */
        p.body = assign_all;
        lk_call(lk_function_of(distributed, &p), LK_TUPLE(x));
        SOUND();
    }
}

TESTS(cmocka_unit_test(compiled_gives_the_same_bits), cmocka_unit_test(values_are_combined_inside),
      cmocka_unit_test(a_function_called_by_replicas), cmocka_unit_test(mistakes_while_traced))
