/* Section 7 of the specification: the replica context, merge_call, all_reduce and all_gather, with their gradients. */
#include "dist/replicas.h"

/* ---- the context object ---- */

static lk_replica_context *kept[4];

REPLICA_FN(keep_context)
{
    kept[my_id()] = lk_get_replica_context();
    return LK_TUPLE();
}

MERGE_FN(give_back) { return in; }

/* Every call that takes a context refuses one that is not this thread's, for the reason given. */
static void check_elsewhere(lk_replica_context *c, const char *why)
{
    EXPECT(lk_replica_id_in_sync_group(c) == -1);
    EXPECT_TOLD(LK_ESTATE, "lk_replica_id_in_sync_group", why);
    EXPECT(lk_context_num_replicas(c) == -1);
    EXPECT_TOLD(LK_ESTATE, "lk_context_num_replicas", why);
    EXPECT(lk_context_strategy(c) == NULL);
    EXPECT_TOLD(LK_ESTATE, "lk_context_strategy", why);
    EXPECT(!*lk_context_device(c));
    EXPECT_TOLD(LK_ESTATE, "lk_context_device", why);
    EXPECT(lk_poisoned(lk_all_reduce(c, LK_SUM, lk_scalar(1))));
    EXPECT_TOLD(LK_ESTATE, "lk_all_reduce", why);
    EXPECT(lk_all_reduce_all(c, LK_SUM, LK_TUPLE(lk_scalar(1)), (lk_communication_options){0}).count == 0);
    EXPECT_TOLD(LK_ESTATE, "lk_all_reduce", why);
    EXPECT(lk_poisoned(lk_all_gather(c, VECTOR(1), 0)));
    EXPECT_TOLD(LK_ESTATE, "lk_all_gather", why);
    EXPECT(lk_merge_call(c, give_back, LK_TUPLE(), NULL).count == 0);
    EXPECT_TOLD(LK_ESTATE, "lk_merge_call", why);
}

REPLICA_FN(use_anothers)
{
    check_elsewhere(kept[1 - my_id()], my_id() ? "replica 0, but this is replica 1" : "replica 1, but this is replica 0");
    return LK_TUPLE();
}

REPLICA_FN(use_another_strategys)
{
    check_elsewhere(kept[0], "another strategy");
    return LK_TUPLE();
}

MERGE_FN(use_in_merge)
{
    check_elsewhere(kept[0], "outside lk_run()");
    return LK_TUPLE();
}

REPLICA_FN(merge_with_context) { return lk_merge_call(lk_get_replica_context(), use_in_merge, LK_TUPLE(), NULL); }

TEST(a_context_used_elsewhere)
{
    LK_POOL {
        lk_strategy *a = mirrored(2), *b = mirrored(2);
        lk_run(a, keep_context);
        check_elsewhere(kept[0], "outside lk_run()");
        LK_SCOPE(a) {
            check_elsewhere(kept[1], "outside lk_run()");
        }
        lk_run(a, use_anothers);
        lk_run(b, use_another_strategys);
        lk_run(a, merge_with_context);
        SOUND();
        LK_SCOPE(a) { /* where there is none */
            REFUSED(LK_EINVAL, lk_replica_id_in_sync_group(lk_get_replica_context()), "lk_replica_id_in_sync_group", "NULL",
                    "cross-replica context", "lk_run");
            REFUSED(LK_EINVAL, lk_all_reduce(NULL, LK_SUM, lk_scalar(1)), "lk_all_reduce", "NULL");
        }
    }
}

TEST(outside_any_strategy)
{
    LK_POOL {
        lk_replica_context *c = lk_get_replica_context();
        lk_tensor          *x = VECTOR(1, 2);
        assert_ptr_equal(lk_all_reduce(c, LK_SUM, x), x);
        assert_ptr_equal(lk_all_reduce(c, LK_MEAN, x), x);
        VALUES(lk_all_gather(c, x, 0), 1, 2);
        REFUSED(LK_EINVAL, lk_all_gather(c, lk_scalar(1), 0), "lk_all_gather", "scalar");
        assert_ptr_equal(lk_merge_call(c, give_back, LK_TUPLE(x), NULL).item[0], x);
        SOUND();
    }
}

/* ---- merge_call ---- */

typedef struct merging {
    int          calls, who; /* atomic */
    lk_variable *v;
} merging;

MERGE_FN(sum_of_all)
{
    merging *m = user;
    if (m) __atomic_fetch_add(&m->calls, 1, __ATOMIC_RELAXED);
    lk_tuple each = lk_local_results(s, in.item[0]);
    EXPECT(each.count == lk_num_replicas_in_sync(s));
    lk_tensor *sum = each.item[0];
    for (int r = 1; r < each.count; r++)
        sum = lk_add(sum, each.item[r]);
    return LK_TUPLE(sum);
}

REPLICA_FN(merge_example)
{
    lk_tensor *v = mine(3);
    return LK_TUPLE(lk_add(lk_merge_call(lk_get_replica_context(), sum_of_all, LK_TUPLE(v), user).item[0], v));
}

TEST(the_merge_example)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        merging      m = {0};
        PER_REPLICA(s, lk_run(s, merge_example, .user = &m).item[0], 10, 11);
        assert_int_equal(m.calls, 1); /* once for all */
        PER_REPLICA(mirrored(3), lk_run(mirrored(3), merge_example).item[0], 15, 16, 17);
        VALUES(lk_run(mirrored(1), merge_example).item[0], 6);
        SOUND();
    }
}

static lk_tuple first_fn(lk_strategy *s, lk_tuple in, void *user)
{
    (void)s;
    __atomic_store_n((int *)user, 1, __ATOMIC_RELAXED);
    return in;
}

static lk_tuple other_fn(lk_strategy *s, lk_tuple in, void *user)
{
    (void)s;
    __atomic_store_n((int *)user, 2, __ATOMIC_RELAXED);
    return in;
}

REPLICA_FN(merge_others)
{
    int *who = user;
    return lk_merge_call(lk_get_replica_context(), my_id() ? other_fn : first_fn, LK_TUPLE(mine(1)), my_id() ? NULL : who);
}

TEST(the_function_of_replica_0_runs)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        int          who = 0;
        PER_REPLICA(s, lk_run(s, merge_others, .user = &who).item[0], 1, 2, 3); /* what comes back per replica is unwrapped again */
        assert_int_equal(who, 1);
        SOUND();
    }
}

MERGE_FN(look_at_arguments)
{
    EXPECT(in.count == 4);
    EXPECT(lk_item(lk_local_results(s, in.item[0]).item[1]) == 2);
    EXPECT(in.item[1] == user); /* the same object */
    EXPECT(in.item[2] == NULL);
    lk_tuple nest = lk_nested(in.item[3]);
    EXPECT(nest.count == 2 && nest.item[0] == user);
    EXPECT(lk_item(lk_local_results(s, nest.item[1]).item[1]) == 6);
    return LK_TUPLE(lk_nest(LK_TUPLE(in.item[0], lk_nest(LK_TUPLE(in.item[1], nest.item[1])))), NULL);
}

REPLICA_FN(merge_nests)
{
    lk_tuple out = lk_merge_call(lk_get_replica_context(), look_at_arguments,
                                 LK_TUPLE(mine(1), user, NULL, lk_nest(LK_TUPLE(user, mine(5)))), user);
    lk_tuple outer = lk_nested(out.item[0]), inner = lk_nested(outer.item[1]);
    EXPECT(out.count == 2 && out.item[1] == NULL);
    EXPECT(lk_item(outer.item[0]) == 1 + my_id());
    EXPECT(inner.item[0] == user && lk_item(inner.item[1]) == 5 + my_id());
    return LK_TUPLE();
}

TEST(arguments_and_results_of_merge)
{
    LK_POOL {
        lk_run(mirrored(2), merge_nests, .user = lk_scalar(9));
        SOUND();
    }
}

MERGE_FN(cross_work)
{
    lk_variable *v = user;
    lk_assign_add(v, lk_reduce(s, LK_SUM, in.item[0])); /* cross-replica context: to every component */
    lk_variable *made_here = lk_variable_of(lk_scalar(2), .name = "made_here");
    EXPECT(lk_extended_variable_created_in_scope(s, made_here));
    return LK_TUPLE(lk_add(lk_read(v), lk_read(made_here)));
}

REPLICA_FN(merge_cross_work) { return lk_merge_call(lk_get_replica_context(), cross_work, LK_TUPLE(mine(1)), user); }

TEST(cross_replica_work_in_merge)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *v = MADE(s, lk_scalar(10));
        VALUES(lk_run(s, merge_cross_work, .user = v).item[0], 15); /* the same object on both */
        COMPONENTS(s, v, 13, 13);
        SOUND();
    }
}

MERGE_FN(fail_in_merge) { return LK_TUPLE(lk_add(VECTOR(1, 2), VECTOR(1, 2, 3))); }

REPLICA_FN(merge_badly)
{
    switch (*(int *)user) {
    case 0: return lk_merge_call(lk_get_replica_context(), fail_in_merge, LK_TUPLE(), NULL);
    case 1: return lk_merge_call(lk_get_replica_context(), give_back, my_id() ? LK_TUPLE(mine(0)) : LK_TUPLE(), NULL);
    case 2: return lk_merge_call(lk_get_replica_context(), give_back, LK_TUPLE(my_id() ? mine(0) : NULL), NULL);
    case 3: return lk_merge_call(lk_get_replica_context(), NULL, LK_TUPLE(), NULL);
    default: return lk_merge_call(lk_get_replica_context(), give_back, LK_TUPLE(lk_add(VECTOR(1, 2), VECTOR(1, 2, 3))), NULL);
    }
}

static lk_tensor *foreign_value;

MERGE_FN(give_foreign) { return LK_TUPLE(foreign_value); }

REPLICA_FN(merge_foreign) { return lk_merge_call(lk_get_replica_context(), give_foreign, LK_TUPLE(), NULL); }

TEST(merges_that_fail)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        REFUSED(LK_ESHAPE, lk_run(s, merge_badly, .user = &(int){0}), "add of [2] f32, [3] f32");
        REFUSED(LK_EINVAL, lk_run(s, merge_badly, .user = &(int){1}), "lk_merge_call", "replica 0 brings 0 arguments",
                "replica 1 1");
        REFUSED(LK_EINVAL, lk_run(s, merge_badly, .user = &(int){2}), "lk_merge_call", "replica 0", "none", "same structure");
        REFUSED(LK_EINVAL, lk_run(s, merge_badly, .user = &(int){3}), "lk_merge_call", "function");
        REFUSED(LK_ESHAPE, lk_run(s, merge_badly, .user = &(int){4}), "add of [2] f32, [3] f32", "replica");
        foreign_value = SPREAD(mirrored(2), lk_scalar(1), lk_scalar(2));
        REFUSED(LK_EINVAL, lk_run(s, merge_foreign), "lk_merge_call", "result 0", "2 replicas", "has 3");
        PER_REPLICA(s, lk_run(s, merge_example).item[0], 15, 16, 17);
        SOUND();
    }
}

/* ---- all_reduce ---- */

typedef struct reducing {
    lk_reduce_op op;
    lk_dtype     dtype;
} reducing;

REPLICA_FN(reduce_own)
{
    reducing *k = user;
    return LK_TUPLE(lk_all_reduce(lk_get_replica_context(), k->op, lk_cast(lk_add(lk_range(3, LK_F32), mine(1)), k->dtype)));
}

TEST(all_reduce_of_every_type)
{
    static const lk_dtype types[] = {LK_F32, LK_F64, LK_F16, LK_BF16, LK_I32, LK_I64};
    LK_POOL {
        EACH_COUNT(n)
        for (int t = 0; t < LKI_COUNT(types); t++) {
            lk_strategy *s = mirrored(n);
            double       total = n * (n + 1) / 2.0;
            lk_tensor   *sum = lk_run(s, reduce_own, .user = &(reducing){LK_SUM, types[t]}).item[0];
            lk_tensor   *mean = lk_run(s, reduce_own, .user = &(reducing){LK_MEAN, types[t]}).item[0];
            assert_int_equal(lk_local_results(s, sum).count, n); /* one each, as everything a replica computes */
            for (int r = 0; r < n; r++) {
                VALUES(lk_local_results(s, sum).item[r], total, total + n, total + 2 * n);
                VALUES(lk_local_results(s, mean).item[r], total / n, total / n + 1, total / n + 2);
                assert_int_equal(lk_tensor_dtype(lk_local_results(s, sum).item[r]), types[t]);
            }
            SOUND();
        }
    }
}

REPLICA_FN(reduce_nests)
{
    lk_tensor *nest = lk_nest(LK_TUPLE(mine(1), lk_nest(LK_TUPLE(VECTOR(my_id(), 1), mine(2))), lk_cast(mine(0), LK_I64)));
    lk_tuple   outer = lk_nested(lk_all_reduce(lk_get_replica_context(), LK_SUM, nest)), inner = lk_nested(outer.item[1]);
    return LK_TUPLE(outer.item[0], inner.item[0], inner.item[1], outer.item[2]);
}

TEST(all_reduce_of_nests)
{
    LK_POOL {
        EACH_COUNT(n)
        {
            lk_strategy *s = mirrored(n);
            double       ids = n * (n - 1) / 2.0;
            lk_tuple     out = lk_run(s, reduce_nests);
            for (int r = 0; r < n; r++) {
                VALUES(lk_local_results(s, out.item[0]).item[r], ids + n);
                VALUES(lk_local_results(s, out.item[1]).item[r], ids, n);
                VALUES(lk_local_results(s, out.item[2]).item[r], ids + 2 * n);
                VALUES(lk_local_results(s, out.item[3]).item[r], ids);
            }
            SOUND();
        }
    }
}

REPLICA_FN(reduce_many)
{
    lk_tensor *item[12];
    for (int i = 0; i < 12; i++)
        item[i] = mine(i);
    lk_tuple out = lk_all_reduce_all(lk_get_replica_context(), LK_MEAN, lk_tuple_from(12, item),
                                     (lk_communication_options){.bytes_per_pack = 16});
    EXPECT(out.count == 12);
    EXPECT(lk_all_reduce_all(lk_get_replica_context(), LK_SUM, LK_TUPLE(), (lk_communication_options){0}).count == 0);
    return out;
}

TEST(all_reduce_of_many)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        lk_tuple     out = lk_run(s, reduce_many);
        for (int i = 0; i < 12; i++)
            PER_REPLICA(s, out.item[i], i + 1, i + 1, i + 1);
        SOUND();
    }
}

REPLICA_FN(reduce_empty) { return LK_TUPLE(lk_all_reduce(lk_get_replica_context(), LK_MEAN, lk_zeros(LK_SHAPE(0, 3), LK_F32))); }

TEST(all_reduce_of_nothing)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tensor   *t = lk_local_results(s, lk_run(s, reduce_empty).item[0]).item[1];
        assert_int_equal(lk_size(t), 0);
        assert_int_equal(lk_dim(t, 1), 3);
        SOUND();
    }
}

typedef enum mistake { SHAPES, TYPES, OPS, NUMBERS, BAD_OP, NO_VALUE, WRAPPED, STRUCTURE, BAD_OPTIONS } mistake;

static lk_tensor *wrapped;

REPLICA_FN(reduce_wrongly)
{
    lk_replica_context      *c = lk_get_replica_context();
    bool                     first = my_id() == 0;
    lk_tensor               *x = VECTOR(1, 2);
    lk_communication_options none = {0};
    switch (*(mistake *)user) {
    case SHAPES: return LK_TUPLE(lk_all_reduce(c, LK_SUM, first ? x : VECTOR(1, 2, 3)));
    case TYPES: return LK_TUPLE(lk_all_reduce(c, LK_SUM, first ? x : lk_cast(x, LK_F64)));
    case OPS: return LK_TUPLE(lk_all_reduce(c, first ? LK_SUM : LK_MEAN, x));
    case NUMBERS: return LK_TUPLE(lk_all_reduce_all(c, LK_SUM, first ? LK_TUPLE(x) : LK_TUPLE(x, x), none).item[0]);
    case BAD_OP: return LK_TUPLE(lk_all_reduce(c, (lk_reduce_op)3, x));
    case NO_VALUE: return LK_TUPLE(lk_all_reduce(c, LK_SUM, NULL));
    case WRAPPED: return LK_TUPLE(lk_all_reduce(c, LK_SUM, wrapped));
    case STRUCTURE:
        return LK_TUPLE(lk_all_reduce(
            c, LK_SUM, first ? lk_nest(LK_TUPLE(x, lk_nest(LK_TUPLE(x)))) : lk_nest(LK_TUPLE(lk_nest(LK_TUPLE(x)), x))));
    default: return LK_TUPLE(lk_all_reduce_all(c, LK_SUM, LK_TUPLE(x), (lk_communication_options){.bytes_per_pack = -5}).item[0]);
    }
}

#define REDUCED(which) lk_run(s, reduce_wrongly, .user = &(mistake){which}).item[0]

TEST(all_reduce_refused)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        wrapped = SPREAD(s, lk_scalar(1), lk_scalar(2));
        BEGIN
        BAD(LK_ESHAPE, REDUCED(SHAPES), "lk_all_reduce", "[2] f32 on replica 0", "[3] f32 on replica 1");
        BAD(LK_ESHAPE, REDUCED(TYPES), "lk_all_reduce", "f32 on replica 0", "f64 on replica 1");
        BAD(LK_ESTATE, REDUCED(OPS), "lk_all_reduce", "replica 0", "LK_SUM", "replica 1", "LK_MEAN");
        BAD(LK_ESTATE, REDUCED(NUMBERS), "lk_all_reduce", "replica 0 reduces 1 values", "replica 1 2");
        BAD(LK_EINVAL, REDUCED(BAD_OP), "lk_all_reduce", "no reduction 3", "LK_SUM or LK_MEAN");
        BAD(LK_EINVAL, REDUCED(NO_VALUE), "lk_all_reduce", "NULL");
        BAD(LK_EINVAL, REDUCED(WRAPPED), "lk_all_reduce", "per-replica value");
        BAD(LK_EINVAL, REDUCED(STRUCTURE), "lk_all_reduce", "replica 1", "structure");
        BAD(LK_EINVAL, REDUCED(BAD_OPTIONS), "lk_all_reduce", "bytes_per_pack", "-5");
        END
    }
}

/* ---- all_gather ---- */

REPLICA_FN(gather_examples)
{
    lk_replica_context *c = lk_get_replica_context();
    lk_tensor          *rows = my_id() ? lk_tensor_of(LK_SHAPE(2, 2), 2, 3, 4, 5) : lk_tensor_of(LK_SHAPE(1, 2), 0, 1);
    lk_tensor          *square = lk_tensor_of(LK_SHAPE(2, 2), 1, 2, 3, 4);
    return LK_TUPLE(lk_all_gather(c, VECTOR(1, 2, 3), 0), lk_all_gather(c, rows, 0), lk_all_gather(c, square, -1),
                    lk_all_gather(c, lk_range(2 * my_id(), LK_I64), 0));
}

TEST(all_gather_joins_in_replica_order)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tuple     out = lk_run(s, gather_examples);
        for (int r = 0; r < 2; r++) {
            VALUES(lk_local_results(s, out.item[0]).item[r], 1, 2, 3, 1, 2, 3);
            VALUES(lk_local_results(s, out.item[1]).item[r], 0, 1, 2, 3, 4, 5);
            assert_int_equal(lk_dim(lk_local_results(s, out.item[1]).item[r], 0), 3);
            VALUES(lk_local_results(s, out.item[2]).item[r], 1, 2, 1, 2, 3, 4, 3, 4);
            VALUES(lk_local_results(s, out.item[3]).item[r], 0, 1); /* none from replica 0 */
        }
        VALUES(lk_run(mirrored(1), gather_examples).item[0], 1, 2, 3);
        SOUND();
    }
}

typedef enum gather_mistake { SCALARS, RANKS, SIZES, AXES, FAR, ROWS_OF_A_GRADIENT } gather_mistake;

REPLICA_FN(gather_wrongly)
{
    lk_replica_context *c = lk_get_replica_context();
    bool                first = my_id() == 0;
    lk_tensor          *x = lk_ones(LK_SHAPE(2, 2), LK_F32);
    switch (*(gather_mistake *)user) {
    case SCALARS: return LK_TUPLE(lk_all_gather(c, mine(0), 0));
    case RANKS: return LK_TUPLE(lk_all_gather(c, first ? x : VECTOR(1, 2), 0));
    case SIZES: return LK_TUPLE(lk_all_gather(c, first ? x : lk_ones(LK_SHAPE(2, 3), LK_F32), 0));
    case AXES: return LK_TUPLE(lk_all_gather(c, x, first ? 0 : 1));
    case FAR: return LK_TUPLE(lk_all_gather(c, x, 2));
    default: break;
    }
    lk_variable *table = lk_variable_of(lk_ones(LK_SHAPE(4, 2), LK_F32), .name = "table");
    lk_tape     *tape = lk_tape_begin();
    lk_tensor   *loss = lk_reduce_sum(lk_nn_embedding(VECTOR_OF(LK_I64, 1, 3), lk_read(table)));
    return LK_TUPLE(lk_all_gather(c, lk_grads_item(lk_tape_gradient(tape, loss, LK_VARIABLES(table)), 0), 0));
}

#define GATHERED(which) lk_run(s, gather_wrongly, .user = &(gather_mistake){which}).item[0]

TEST(all_gather_refused)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        BEGIN
        BAD(LK_EINVAL, GATHERED(SCALARS), "lk_all_gather", "replica 0", "scalar", "lk_reshape");
        BAD(LK_EINVAL, GATHERED(RANKS), "lk_all_gather", "replica 0 has rank 2", "replica 1 rank 1");
        BAD(LK_EINVAL, GATHERED(SIZES), "lk_all_gather", "replica 0 has [2, 2]", "replica 1 [2, 3]", "axis 0");
        BAD(LK_ESTATE, GATHERED(AXES), "lk_all_gather", "replica 0 joins along axis 0", "replica 1 along 1");
        BAD(LK_EINVAL, GATHERED(FAR), "lk_all_gather", "axis 2", "rank 2");
        BAD(LK_EUNSUPPORTED, GATHERED(ROWS_OF_A_GRADIENT), "lk_all_gather", "replica 0", "made of rows");
        END
    }
}

/* ---- gradients ---- */

typedef lk_tensor *collective(lk_tensor *x);

static lk_tensor *sum_all(lk_tensor *x) { return lk_all_reduce(lk_get_replica_context(), LK_SUM, x); }
static lk_tensor *mean_all(lk_tensor *x) { return lk_all_reduce(lk_get_replica_context(), LK_MEAN, x); }
static lk_tensor *gather_all(lk_tensor *x) { return lk_all_gather(lk_get_replica_context(), x, 0); }
static lk_tensor *sum_of_squares(lk_tensor *x) { return sum_all(lk_square(x)); }
static lk_tensor *twice_reduced(lk_tensor *x) { return sum_all(lk_mul(sum_all(x), x)); }

/* z_r = (r + 1) * sum of (1, 2, 3, ... over y's elements) * y */
REPLICA_FN(gradient_of)
{
    lk_tensor *x = lk_identity(in.item[0]);
    lk_tape   *tape = lk_tape_begin();
    lk_tape_watch(tape, x);
    lk_tensor *y = (*(collective **)user)(x);
    lk_tensor *weight = lk_reshape(lk_add(lk_range(lk_size(y), LK_F32), lk_scalar(1)), lk_tensor_shape(y));
    lk_tensor *z = lk_reduce_sum(lk_mul(lk_mul(weight, y), mine(1)));
    return LK_TUPLE(y, lk_tape_gradient_of(tape, z, LK_TUPLE(x), NULL).item[0]);
}

static lk_tuple with_gradient(lk_strategy *s, collective *f, lk_tensor *x)
{
    return lk_run(s, gradient_of, LK_TUPLE(x), .user = &f);
}

TEST(gradients_of_collectives)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tensor   *x = SPREAD(s, lk_fill(LK_SHAPE(), LK_F32, 2), lk_fill(LK_SHAPE(), LK_F32, 3));
        lk_tuple     out = with_gradient(s, sum_all, x);
        PER_REPLICA(s, out.item[0], 5, 5);
        PER_REPLICA(s, out.item[1], 3, 3);
        out = with_gradient(s, mean_all, x);
        PER_REPLICA(s, out.item[0], 2.5, 2.5);
        PER_REPLICA(s, out.item[1], 1.5, 1.5);
        out = with_gradient(s, sum_of_squares, x);
        PER_REPLICA(s, out.item[0], 13, 13);
        PER_REPLICA(s, out.item[1], 12, 18);
        out = with_gradient(s, twice_reduced, x); /* y = (sum x)^2: d(3 y)/dx = 6 sum x */
        PER_REPLICA(s, out.item[0], 25, 25);
        PER_REPLICA(s, out.item[1], 30, 30);
        out = with_gradient(s, gather_all, SPREAD(s, VECTOR(1, 2, 3), VECTOR(4, 5)));
        VALUES(lk_local_results(s, out.item[0]).item[0], 1, 2, 3, 4, 5);
        VALUES(lk_local_results(s, out.item[1]).item[0], 3, 6, 9);
        VALUES(lk_local_results(s, out.item[1]).item[1], 12, 15);
        lk_strategy *one = mirrored(1);
        VALUES(with_gradient(one, sum_all, lk_fill(LK_SHAPE(), LK_F32, 2)).item[1], 1);
        VALUES(with_gradient(one, gather_all, VECTOR(4, 5)).item[1], 1, 2);
        SOUND();
    }
}

/* Variables take part too: what all replicas together made of w. */
REPLICA_FN(gradient_of_variable)
{
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = sum_all(lk_mul(lk_read(user), mine(1)));
    return LK_TUPLE(y, lk_grads_item(lk_tape_gradient(tape, y, LK_VARIABLES(user)), 0));
}

TEST(gradients_of_a_variable)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        lk_tuple     out = lk_run(s, gradient_of_variable, .user = MADE(s, lk_scalar(2)));
        PER_REPLICA(s, out.item[0], 12, 12, 12);
        PER_REPLICA(s, out.item[1], 3, 6, 9); /* (r + 1) * sum of the incoming ones: local gradients */
        SOUND();
    }
}

TEST(reductions_by_name)
{
    assert_int_equal(lk_reduce_op_named("SUM"), LK_SUM);
    assert_int_equal(lk_reduce_op_named("sum"), LK_SUM);
    assert_int_equal(lk_reduce_op_named("Mean"), LK_MEAN);
    REFUSED(LK_EINVAL, lk_reduce_op_named("MAX"), "\"MAX\"", "\"sum\" or \"mean\"");
    REFUSED(LK_EINVAL, lk_reduce_op_named(""), "\"\"");
    REFUSED(LK_EINVAL, lk_reduce_op_named(NULL), "not a reduction");
    assert_int_equal(lk_reduce_op_named("nothing"), 0);
    lk_clear_error();
}

TESTS(cmocka_unit_test(a_context_used_elsewhere), cmocka_unit_test(outside_any_strategy), cmocka_unit_test(the_merge_example),
      cmocka_unit_test(the_function_of_replica_0_runs), cmocka_unit_test(arguments_and_results_of_merge),
      cmocka_unit_test(cross_replica_work_in_merge), cmocka_unit_test(merges_that_fail), cmocka_unit_test(all_reduce_of_every_type),
      cmocka_unit_test(all_reduce_of_nests), cmocka_unit_test(all_reduce_of_many), cmocka_unit_test(all_reduce_of_nothing),
      cmocka_unit_test(all_reduce_refused), cmocka_unit_test(all_gather_joins_in_replica_order),
      cmocka_unit_test(all_gather_refused), cmocka_unit_test(gradients_of_collectives), cmocka_unit_test(gradients_of_a_variable),
      cmocka_unit_test(reductions_by_name))
