/* Section 4 of the specification: mirrored variables, and ordinary ones used by replicas. */
#include "dist/replicas.h"

/* ---- making them ---- */

TEST(names_types_and_components)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        lk_variable *v = MADE(s, lk_ones(LK_SHAPE(2, 3), LK_F64), "layer/kernel", .aggregation = MEAN);
        assert_string_equal(lk_variable_name(v), "layer/kernel");
        assert_string_equal(lk_variable_component_name(v, 0), "layer/kernel");
        assert_string_equal(lk_variable_component_name(v, 1), "layer/kernel/replica_1");
        assert_string_equal(lk_variable_component_name(v, 2), "layer/kernel/replica_2");
        REFUSED(LK_EINVAL, lk_variable_component_name(v, 3), "lk_variable_component_name", "3");
        REFUSED(LK_EINVAL, lk_variable_component_name(v, -1), "lk_variable_component_name", "-1");
        assert_int_equal(lk_variable_dtype(v), LK_F64);
        assert_int_equal(lk_variable_shape(v).dim[1], 3);
        assert_true(lk_variable_trainable(v));
        assert_int_equal(lk_variable_synchronization(v), LK_SYNC_ON_WRITE);
        assert_int_equal(lk_variable_aggregation(v), MEAN);
        assert_int_equal(lk_local_variables(s, v).count, 3);

        lk_variable *r = ON_READ(s, SUM, lk_scalar(1), "r");
        assert_int_equal(lk_variable_synchronization(r), LK_SYNC_ON_READ);
        assert_string_equal(lk_variable_component_name(r, 2), "r/replica_2");
        assert_false(lk_variable_trainable(r));
        assert_false(lk_variable_trainable(MADE(s, lk_scalar(1), .trainable = LK_OFF)));
        assert_string_equal(lk_variable_name(MADE(s, lk_scalar(1))), "Variable");
        lk_variable *w = MADE(s, lk_scalar(1), .synchronization = LK_SYNC_ON_WRITE);
        assert_int_equal(lk_variable_synchronization(w), LK_SYNC_ON_WRITE);

        lk_variable *outside = lk_variable_of(lk_scalar(1), .name = "outside");
        assert_string_equal(lk_variable_component_name(outside, 0), "outside");
        REFUSED(LK_EINVAL, lk_variable_component_name(outside, 1), "component 1");
        assert_int_equal(lk_local_variables(s, outside).count, 1);
        SOUND();
    }
}

TEST(refused_when_made)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_tensor   *ints = lk_ones(LK_SHAPE(2), LK_I64);
        REFUSED(LK_EINVAL, MADE(s, lk_scalar(1), "v", .synchronization = LK_SYNC_NONE), "\"v\"", "LK_SYNC_NONE", "LK_SYNC_ON_WRITE",
                "LK_SYNC_ON_READ");
        REFUSED(LK_EINVAL, MADE(s, ints, "v", .aggregation = MEAN), "\"v\"", "LK_AGGREGATION_MEAN", "i64", "float");
        REFUSED(LK_EINVAL, ON_READ(s, SUM, lk_scalar(1), "v", .trainable = LK_ON), "\"v\"", "trainable");
        REFUSED(LK_EINVAL, ON_READ(s, MEAN, ints, "v"), "\"v\"", "LK_AGGREGATION_MEAN", "i64");
        REFUSED(LK_EINVAL, MADE(s, lk_scalar(1), "v", .synchronization = (lk_synchronization)9), "\"v\"", "9", "no such choice");
        REFUSED(LK_EINVAL, MADE(s, lk_scalar(1), "v", .aggregation = (lk_aggregation)-1), "\"v\"", "-1", "no such choice");
        REFUSED(LK_EINVAL, MADE(s, NULL), "initial value");
        lk_tensor *per_replica = SPREAD(s, lk_scalar(1), lk_scalar(2));
        REFUSED(LK_EINVAL, MADE(s, per_replica), "per-replica value");
    }
}

/* Replica 0's initialiser counts: random ones are bit-equal everywhere, whatever the number of replicas. */
TEST(copies_are_equal_to_the_bit)
{
    LK_POOL {
        lk_digest first = {0};
        EACH_COUNT(n)
        {
            lk_strategy *s = mirrored(n);
            lk_variable *v = MADE(s, lk_glorot_uniform(LK_SHAPE(5, 7), "dense/kernel"), "kernel");
            lk_tuple     each = lk_local_variables(s, v);
            assert_int_equal(each.count, n);
            for (int r = 1; r < n; r++)
                assert_memory_equal(lk_data(each.item[0]), lk_data(each.item[r]), 35 * sizeof(float));
            lk_digest digest = lk_variables_digest(LK_VARIABLES(v));
            if (n == 1) first = digest;
            assert_true(lk_digest_equal(digest, first));
            SOUND();
        }
    }
}

TEST(printing)
{
    LK_POOL {
        lk_strategy *one = mirrored(1), *two = mirrored(2), *three = mirrored(3);
        PRINTS(lk_print_variable(MADE(two, VECTOR(1, 2.5))), "MirroredVariable:{\n  0: [1, 2.5]\n  1: [1, 2.5]\n}\n");
        PRINTS(lk_print_variable(MADE(one, lk_scalar(7))), "MirroredVariable:{\n  0: 7\n}\n");
        PRINTS(lk_print_variable(ON_READ(three, SUM, lk_scalar(0))), "SyncOnReadVariable:{\n  0: 0\n  1: 0\n  2: 0\n}\n");
        PRINTS(lk_print_variable(lk_variable_of(VECTOR(3, 4))), "[3, 4]\n");
        REFUSED(LK_EINVAL, lk_print_variable(NULL), "lk_print_variable", "NULL");
    }
}

/* ---- made inside run ---- */

static lk_variable *lazy[8];

REPLICA_FN(make_lazily)
{
    const char **name = user;
    lazy[my_id()] = lk_variable_of(mine(10), .name = name[my_id()]);
    return LK_TUPLE(lazy[my_id()] ? lk_read(lazy[my_id()]) : lk_scalar(-1));
}

TEST(made_inside_run)
{
    LK_POOL {
        static const char *same[] = {"w", "w", "w"}, *numbered[] = {"w", "w_1", "w_2"}, *other[] = {"w", "w", "b"},
                          *longer[] = {"w", "w", "w_x"};
        lk_strategy *s = mirrored(3);
        PER_REPLICA(s, lk_run(s, make_lazily, .user = same).item[0], 10, 10, 10); /* replica 0's value */
        assert_ptr_equal(lazy[0], lazy[1]);
        assert_ptr_equal(lazy[0], lazy[2]);
        assert_true(lk_extended_variable_created_in_scope(s, lazy[0]));
        PRINTS(lk_print_variable(lazy[0]), "MirroredVariable:{\n  0: 10\n  1: 10\n  2: 10\n}\n");
        lk_run(s, make_lazily, .user = numbered); /* suffixes do not count */
        assert_ptr_equal(lazy[0], lazy[2]);
        assert_string_equal(lk_variable_name(lazy[0]), "w");
        SOUND();
        REFUSED(LK_EINVAL, lk_run(s, make_lazily, .user = other), "lk_variable_of", "mismatching name on device CPU:2", "\"w\"",
                "\"b\"", "same order");
        REFUSED(LK_EINVAL, lk_run(s, make_lazily, .user = longer), "mismatching name", "\"w_x\"");
        lk_strategy *one = mirrored(1);
        VALUES(lk_run(one, make_lazily, .user = same).item[0], 10);
        assert_true(lk_extended_variable_created_in_scope(one, lazy[0]));
        SOUND();
    }
}

REPLICA_FN(make_other_shapes)
{
    lk_variable_of(lk_zeros(LK_SHAPE(2 + my_id()), LK_F32), .name = "w");
    return LK_TUPLE();
}

REPLICA_FN(make_on_one_only)
{
    if (my_id() == 1) lk_variable_of(lk_scalar(1), .name = "w");
    return LK_TUPLE();
}

REPLICA_FN(make_on_read)
{
    lk_variable *v = lk_variable_of(lk_scalar(0), .name = "total", .synchronization = LK_SYNC_ON_READ, .aggregation = SUM);
    lk_assign_add(v, mine(1));
    lazy[my_id()] = v;
    return LK_TUPLE(lk_read(v));
}

TEST(made_inside_run_differently)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        REFUSED(LK_EINVAL, lk_run(s, make_other_shapes), "\"w\"", "replica 1", "another shape");
        REFUSED(LK_ESTATE, lk_run(s, make_on_one_only), "replica 0 returned", "replica 1 waits in lk_variable_of");
        PER_REPLICA(s, lk_run(s, make_on_read).item[0], 1, 2);
        VALUES(lk_read(lazy[0]), 3);
        SOUND();
    }
}

/* ---- reading ---- */

typedef struct both {
    lk_variable *mirrored, *on_read;
} both;

REPLICA_FN(read_both)
{
    both *b = user;
    lk_assign(b->on_read, mine(5));
    return LK_TUPLE(lk_read(b->mirrored), lk_read(b->on_read));
}

static lk_tensor *read_in_update(lk_variable *component, lk_tuple in, void *user)
{
    (void)in;
    EXPECT(lk_item(lk_read(user)) == lk_item(lk_read(component))); /* the variable means the component that is updated */
    return lk_read(component);
}

static lk_tensor *write_in_update(lk_variable *component, lk_tuple in, void *user)
{
    (void)component;
    lk_assign(user, in.item[0]);
    return lk_read(user);
}

TEST(reading_in_every_context)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        both         b = {MADE(s, lk_scalar(3)), ON_READ(s, SUM, lk_scalar(0))};
        lk_tuple     out = lk_run(s, read_both, .user = &b);
        PER_REPLICA(s, out.item[0], 3, 3);
        PER_REPLICA(s, out.item[1], 5, 6);
        VALUES(lk_read(b.on_read), 11);
        LK_SCOPE(s) {
            VALUES(lk_read(b.mirrored), 3);
            VALUES(lk_read(b.on_read), 11);
            VALUES(lk_extended_read_var(s, b.on_read), 11);
        }
        out = lk_extended_update(s, b.on_read, read_in_update, LK_TUPLE(), b.on_read, LK_OFF);
        VALUES(out.item[0], 5);
        VALUES(out.item[1], 6);
        out = lk_extended_update(s, b.mirrored, read_in_update, LK_TUPLE(), b.mirrored, LK_OFF);
        VALUES(out.item[1], 3);
        lk_extended_update(s, b.on_read, write_in_update, LK_TUPLE(SPREAD(s, lk_scalar(1), lk_scalar(2))), b.on_read, LK_OFF);
        COMPONENTS(s, b.on_read, 1, 2);
        SOUND();
    }
}

TEST(a_read_value_stays)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *v = MADE(s, lk_scalar(3)), *r = ON_READ(s, FIRST, lk_scalar(3));
        lk_tensor   *before = lk_read(v), *first = lk_read(r);
        lk_assign(v, lk_scalar(4));
        lk_assign(r, lk_scalar(4));
        VALUES(before, 3);
        VALUES(first, 3);
        VALUES(lk_read(v), 4);
        SOUND();
    }
}

/* ---- assigning outside replicas ---- */

typedef lk_status      assigner(lk_variable *v, lk_tensor *x);
static assigner *const ASSIGN[] = {lk_assign, lk_assign_add, lk_assign_sub};

static lk_tensor *give_back(lk_variable *v, lk_tuple in, void *user)
{
    (void)v, (void)user;
    return in.item[0];
}

static void check_assigned_outside(lk_strategy *s, aggregation how)
{
    static const double after[] = {5, 15, 5};
    for (int i = 0; i < 3; i++) {
        lk_variable *v = MADE(s, lk_scalar(10), .aggregation = how);
        assert_int_equal(ASSIGN[i](v, lk_scalar(5)), LK_OK);
        VALUES(lk_read(v), after[i]);
        lk_assign(v, lk_scalar(10));
        LK_SCOPE(s) {
            assert_int_equal(ASSIGN[i](v, lk_scalar(5)), LK_OK);
        }
        lk_tuple each = lk_local_variables(s, v);
        for (int r = 0; r < each.count; r++)
            VALUES(each.item[r], after[i]);
        SOUND();
    }
}

TEST(assigned_outside_replicas)
{
    LK_POOL {
        EACH_COUNT(n) for (int i = 0; i < 4; i++) check_assigned_outside(mirrored(n), ALL[i]);
        lk_strategy *s = mirrored(2);
        lk_variable *v = MADE(s, lk_scalar(10), "v");
        lk_tensor   *different = SPREAD(s, lk_scalar(1), lk_scalar(2));
        for (int i = 0; i < 3; i++)
            REFUSED(LK_EINVAL, ASSIGN[i](v, different), "lk_assign", "\"v\"", "per-replica value", "lk_reduce");
        lk_tensor *mirrored_value = lk_extended_update(s, v, give_back, LK_TUPLE(lk_scalar(7)), NULL, LK_ON).item[0];
        PRINTS(lk_print(mirrored_value), "Mirrored:{\n  0: 7\n  1: 7\n}\n");
        assert_int_equal(lk_assign(v, mirrored_value), LK_OK); /* one value, known to be the same everywhere */
        COMPONENTS(s, v, 7, 7);
        lk_variable *rows = MADE(s, VECTOR(1, 2, 3), "rows");
        REFUSED(LK_EINVAL, lk_scatter_add(rows, VECTOR_OF(LK_I64, 1), SPREAD(s, VECTOR(1), VECTOR(2))), "per-replica value");
        REFUSED(LK_ESHAPE, lk_assign(rows, VECTOR(1, 2)), "assign", "[3]", "[2]");
        VALUES(lk_read(rows), 1, 2, 3);
        SOUND();
    }
}

/* ---- assigning from replicas ---- */

typedef struct assignment {
    lk_variable *v;
    assigner    *assign;
} assignment;

REPLICA_FN(assign_own)
{
    assignment *a = user;
    a->assign(a->v, lk_cast(mine(1), lk_variable_dtype(a->v)));
    return LK_TUPLE(lk_read(a->v));
}

REPLICA_FN(assign_argument)
{
    assignment *a = user;
    a->assign(a->v, in.item[0]);
    return LK_TUPLE(lk_read(a->v));
}

/* What replicas 1, 2, ... n bring, under each aggregation. */
static double brought(aggregation how, int n) { return how == SUM ? n * (n + 1) / 2.0 : how == MEAN ? (n + 1) / 2.0 : 1; }

static void check_assigned(lk_strategy *s, int n, aggregation how, lk_dtype dtype)
{
    for (int i = 0; i < 3; i++) {
        assignment a = {MADE(s, lk_fill(LK_SHAPE(), dtype, 10), "v", .aggregation = how), ASSIGN[i]};
        if (how == NONE && n > 1) {
            REFUSED(LK_EINVAL, lk_run(s, assign_own, .user = &a), "\"v\"", "assign", "different values", "LK_AGGREGATION_NONE",
                    "LK_AGGREGATION_SUM", "LK_SYNC_ON_READ");
            VALUES(lk_read(a.v), 10); /* untouched */
            continue;
        }
        double   x = brought(how, n), after = i == 0 ? x : i == 1 ? 10 + x : 10 - x;
        lk_tuple seen = lk_run(s, assign_own, .user = &a), each = lk_local_variables(s, a.v);
        for (int r = 0; r < n; r++) {
            VALUES(each.item[r], after);
            VALUES(lk_local_results(s, seen.item[0]).item[r], after); /* all see it at once */
        }
        SOUND();
    }
}

TEST(assigned_from_replicas)
{
    static const lk_dtype types[] = {LK_F32, LK_F64, LK_F16, LK_BF16};
    LK_POOL {
        EACH_COUNT(n)
        for (int t = 0; t < 4; t++)
            for (int i = 0; i < 4; i++)
                check_assigned(mirrored(n), n, ALL[i], types[t]);
        check_assigned(mirrored(3), 3, SUM, LK_I64);
        check_assigned(mirrored(3), 3, FIRST, LK_I32);
    }
}

static void check_assigned_constant(lk_strategy *s, aggregation how, lk_dtype dtype)
{
    static const double after[] = {5, 15, 5};
    for (int i = 0; i < 3; i++) {
        assignment a = {MADE(s, lk_fill(LK_SHAPE(), dtype, 10), "v", .aggregation = how), ASSIGN[i]};
        if (how == SUM)
            REFUSED(LK_EINVAL, lk_run(s, assign_argument, LK_TUPLE(lk_scalar(5)), &a), "\"v\"", "LK_AGGREGATION_SUM",
                    "cannot be summed", "3 replicas");
        else lk_run(s, assign_argument, LK_TUPLE(lk_scalar(5)), &a);
        VALUES(lk_read(a.v), how == SUM ? 10 : after[i]);
        SOUND();
    }
}

/* A tensor that is the same object on all replicas; a plain number takes the variable's type. */
TEST(a_constant_assigned_from_replicas)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        for (int i = 0; i < 4; i++) {
            check_assigned_constant(s, ALL[i], LK_F32);
            check_assigned_constant(s, ALL[i], LK_F64);
            check_assigned_constant(s, ALL[i], LK_BF16);
        }
        check_assigned_constant(s, SUM, LK_I64);
        check_assigned_constant(s, NONE, LK_I64);
    }
}

REPLICA_FN(assign_equal)
{
    assignment *a = user;
    a->assign(a->v, lk_fill(LK_SHAPE(), LK_F32, 5)); /* each its own tensor */
    return LK_TUPLE();
}

TEST(equal_values_without_aggregation)
{
    LK_POOL {
        lk_strategy *s = mirrored(4);
        assignment   a = {MADE(s, lk_scalar(10)), lk_assign_add};
        lk_run(s, assign_equal, .user = &a);
        COMPONENTS(s, a.v, 15, 15, 15, 15); /* once */
        SOUND();
    }
}

REPLICA_FN(assign_many_times)
{
    lk_variable **v = user;
    for (int i = 0; i < 50; i++) {
        lk_assign_add(v[0], mine(1));
        lk_assign_sub(v[1], mine(1));
    }
    return LK_TUPLE();
}

REPLICA_FN(assign_in_other_order)
{
    lk_variable **v = user;
    lk_assign_add(v[my_id()], mine(1));
    return LK_TUPLE();
}

REPLICA_FN(assign_in_other_ways)
{
    lk_variable **v = user;
    if (my_id()) lk_assign_add(v[0], mine(1));
    else lk_assign(v[0], mine(1));
    return LK_TUPLE();
}

TEST(assignments_are_meetings)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *v[] = {MADE(s, lk_scalar(0), "a", .aggregation = SUM), MADE(s, lk_scalar(0), "b", .aggregation = MEAN)};
        lk_run(s, assign_many_times, .user = v);
        COMPONENTS(s, v[0], 150, 150);
        COMPONENTS(s, v[1], -75, -75);
        SOUND();
        REFUSED(LK_ESTATE, lk_run(s, assign_in_other_order, .user = v), "replica 0", "assignment of a", "replica 1",
                "assignment of b");
        REFUSED(LK_ESTATE, lk_run(s, assign_in_other_ways, .user = v), "replica 0", "assign of \"a\"", "replica 1",
                "assign_add of \"a\"");
        COMPONENTS(s, v[0], 150, 150);
    }
}

/* ---- scatter updates ---- */

typedef struct scattering {
    lk_variable *v;
    scatterer   *scatter;
    double       first;
    bool         same;
} scattering;

REPLICA_FN(scatter_rows)
{
    scattering *k = user;
    k->scatter(k->v, VECTOR_OF(LK_I64, k->same ? 1 : my_id()), VECTOR(k->same ? k->first : k->first + my_id()));
    return LK_TUPLE();
}

static lk_tensor *scattered(lk_strategy *s, aggregation how, int which, double first, bool same)
{
    scattering k = {MADE(s, VECTOR(1, 2, 3), "v", .aggregation = how), SCATTER[which], first, same};
    lk_run(s, scatter_rows, .user = &k);
    return lk_read(k.v);
}

TEST(scattered_from_replicas)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        for (int i = 0; i < 4; i++) { /* the same from both: 10 at row 1 */
            aggregation how = ALL[i];
            VALUES(scattered(s, how, 0, 10, true), 1, how == SUM ? 22 : 12, 3);
            VALUES(scattered(s, how, 1, 10, true), 1, how == SUM ? -18 : -8, 3);
            VALUES(scattered(s, how, 2, 10, true), 1, how == SUM ? 200 : how == MEAN ? 50 : 20, 3);
            VALUES(scattered(s, how, 3, 10, true), 1, how == SUM ? 0.02 : how == MEAN ? 0.08 : 0.2, 3);
        }
        VALUES(scattered(s, SUM, 0, 10, false), 11, 13, 3); /* each its own row */
        VALUES(scattered(s, MEAN, 0, 10, false), 6, 7.5, 3);
        VALUES(scattered(s, FIRST, 0, 10, false), 11, 2, 3);
        VALUES(scattered(s, FIRST, 4, -1, false), -1, 2, 3);
        VALUES(scattered(s, FIRST, 5, 9, false), 9, 2, 3);
        VALUES(scattered(s, FIRST, 6, 9, false), 9, 2, 3);
        VALUES(scattered(s, NONE, 4, -1, true), 1, -1, 3);
        VALUES(scattered(s, NONE, 5, 9, true), 1, 9, 3);
        VALUES(scattered(s, NONE, 6, 9, true), 1, 9, 3);
        SOUND();
        for (int which = 0; which < 7; which++)
            REFUSED(LK_EINVAL, scattered(s, NONE, which, 10, false), "scatter", "\"v\"", "different values", "LK_AGGREGATION_NONE");
        for (int which = 4; which < 7; which++) {
            REFUSED(LK_EUNSUPPORTED, scattered(s, SUM, which, 10, true), "scatter", "\"v\"", "LK_AGGREGATION_SUM", "not supported",
                    "_ONLY_FIRST_REPLICA");
            REFUSED(LK_EUNSUPPORTED, scattered(s, MEAN, which, 10, true), "scatter", "\"v\"", "LK_AGGREGATION_MEAN",
                    "not supported");
        }
    }
}

TEST(scattered_outside_replicas)
{
    static const double after[] = {12, -8, 20, 0.2, 2, 10, 10};
    LK_POOL {
        lk_strategy *s = mirrored(2);
        for (int i = 0; i < 4; i++)
            for (int which = 0; which < 7; which++) {
                lk_variable *v = MADE(s, VECTOR(1, 2, 3), "v", .aggregation = ALL[i]);
                lk_status    status = SCATTER[which](v, VECTOR_OF(LK_I32, 1), VECTOR(10));
                assert_int_equal(status, LK_OK);
                VALUES(lk_read(v), 1, after[which], 3);
            }
        SOUND();
    }
}

/* ---- storage ---- */

REPLICA_FN(look_at_storage)
{
    lk_assign(user, mine(5));
    const float *x = lk_variable_data(user);
    if (EXPECT(x != NULL)) EXPECT(*x == 5 + my_id());
    return LK_TUPLE();
}

static lk_tensor *storage_in_update(lk_variable *v, lk_tuple in, void *user)
{
    (void)in;
    const float *x = lk_variable_data(v), *y = lk_variable_data(user);
    EXPECT(x && y && x == y);
    return x ? lk_scalar(*x) : NULL;
}

TEST(storage)
{
    LK_POOL {
        lk_strategy *s = mirrored(2);
        lk_variable *v = MADE(s, lk_scalar(3), "v"), *r = ON_READ(s, SUM, lk_scalar(0), "r"),
                    *outside = lk_variable_of(lk_scalar(8));
        REFUSED(LK_EINVAL, lk_variable_data(v), "lk_variable_data", "\"v\"", "lk_run", "lk_read");
        REFUSED(LK_EINVAL, lk_variable_data(r), "lk_variable_data", "\"r\"");
        LK_SCOPE(s) {
            REFUSED(LK_EINVAL, lk_variable_data(v), "lk_variable_data", "\"v\"");
        }
        assert_true(*(const float *)lk_variable_data(outside) == 8);
        lk_run(s, look_at_storage, .user = r);
        SOUND();
        lk_tuple out = lk_extended_update(s, r, storage_in_update, LK_TUPLE(), r, LK_OFF);
        VALUES(out.item[0], 5);
        VALUES(out.item[1], 6);
        lk_extended_update(s, v, storage_in_update, LK_TUPLE(), v, LK_OFF);
        REFUSED(LK_EINVAL, lk_variable_data(NULL), "lk_variable_data", "NULL");
        SOUND();
    }
}

/* ---- made outside any scope ---- */

REPLICA_FN(update_outside)
{
    lk_variable **v = user;
    lk_assign_add(v[0], mine(1));
    lk_assign(v[1], mine(1));
    lk_scatter_add(v[2], VECTOR_OF(LK_I64, 0), VECTOR(my_id() + 1));
    lk_assign_sub(v[3], lk_cast(mine(1), LK_F16));
    return LK_TUPLE(lk_read(v[0]), lk_read(v[1]));
}

TEST(an_outside_variable)
{
    LK_POOL {
        EACH_COUNT(n)
        {
            lk_strategy *s = mirrored(n);
            double       total = n * (n + 1) / 2.0;
            lk_variable *v[] = {lk_variable_of(lk_scalar(1), "a"), lk_variable_of(lk_scalar(1), "b"),
                                lk_variable_of(VECTOR(0, 0), "c"), lk_variable_of(lk_fill(LK_SHAPE(), LK_F16, 100), "d")};
            lk_tuple     out = lk_run(s, update_outside, .user = v);
            VALUES(lk_read(v[0]), 1 + total); /* two replicas: 4 */
            VALUES(lk_read(v[1]), n);         /* in replica order: the last one's stays */
            VALUES(lk_read(v[2]), total, 0);
            VALUES(lk_read(v[3]), 100 - total);
            for (int r = 0; r < n; r++)
                VALUES(lk_local_results(s, out.item[0]).item[r], 1 + total);
            LK_SCOPE(s) {
                VALUES(lk_read(v[0]), 1 + total);
                lk_assign(v[0], lk_scalar(2));
            }
            VALUES(lk_read(v[0]), 2);
            PRINTS(lk_print_variable(v[0]), "2\n");
            SOUND();
        }
    }
}

TESTS(cmocka_unit_test(names_types_and_components), cmocka_unit_test(refused_when_made),
      cmocka_unit_test(copies_are_equal_to_the_bit), cmocka_unit_test(printing), cmocka_unit_test(made_inside_run),
      cmocka_unit_test(made_inside_run_differently), cmocka_unit_test(reading_in_every_context),
      cmocka_unit_test(a_read_value_stays), cmocka_unit_test(assigned_outside_replicas), cmocka_unit_test(assigned_from_replicas),
      cmocka_unit_test(a_constant_assigned_from_replicas), cmocka_unit_test(equal_values_without_aggregation),
      cmocka_unit_test(assignments_are_meetings), cmocka_unit_test(scattered_from_replicas),
      cmocka_unit_test(scattered_outside_replicas), cmocka_unit_test(storage), cmocka_unit_test(an_outside_variable))
