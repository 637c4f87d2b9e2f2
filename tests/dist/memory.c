/* Every allocation fails in turn while strategies are made and used: reported as LK_ENOMEM, no thread hangs, nothing is leaked, and
 * the next run is right. Runs, with and without errors, keep no memory. */
#include "dist/replicas.h"

typedef struct objects {
    lk_strategy  *strategy;
    lk_variable  *w, *sum, *on_read;
    lk_optimizer *optimizer;
} objects;

static objects objects_new(lk_strategy *s)
{
    objects o = {.strategy = s};
    LK_SCOPE(s) {
        o.w = lk_variable_of(lk_ones(LK_SHAPE(3, 2), LK_F32), .name = "w");
        o.sum = lk_variable_of(lk_scalar(0), .name = "sum", .aggregation = SUM);
        o.on_read = lk_variable_of(lk_scalar(0), .name = "on_read", .synchronization = LK_SYNC_ON_READ, .aggregation = MEAN);
        o.optimizer = lk_sgd(.learning_rate = 1, .momentum = 0.5);
    }
    return o;
}

static bool complete(const objects *o) { return o->strategy && o->w && o->sum && o->on_read && o->optimizer; }

MERGE_FN(merged) { return LK_TUPLE(lk_reduce(s, LK_SUM, in.item[0]), lk_nest(LK_TUPLE(in.item[0], NULL))); }

REPLICA_FN(everything)
{
    objects            *o = user;
    lk_replica_context *c = lk_get_replica_context();
    lk_tape            *tape = lk_tape_begin();
    lk_tensor          *y = lk_matmul(in.item[0], lk_read(o->w)),
              *loss = lk_compute_average_loss(lk_reduce_mean(lk_square(y), .axis = LK_AXES(1)));
    if (tape) lk_optimizer_apply(o->optimizer, lk_tape_gradient(tape, loss, LK_VARIABLES(o->w)));
    lk_assign_add(o->sum, loss);
    lk_assign_add(o->on_read, loss);
    lk_tensor   *all = lk_all_gather(c, y, 0), *mean = lk_all_reduce(c, LK_MEAN, lk_nest(LK_TUPLE(loss, y)));
    lk_tuple     out = lk_merge_call(c, merged, LK_TUPLE(loss), NULL);
    lk_variable *made_here = lk_variable_of(lk_scalar(2), .name = "made_here");
    lk_tensor   *last = made_here ? lk_read(made_here) : NULL;
    return LK_TUPLE(loss, all, mean, out.item[0], out.item[1], lk_read_aggregated(o->on_read), last);
}

static lk_tensor *rows_on(const lk_value_context *c, void *user)
{
    (void)user;
    return lk_fill(LK_SHAPE(2, 3), LK_F32, 1 + c->replica_id_in_sync_group);
}

static void use(objects *o)
{
    lk_strategy *s = o->strategy;
    lk_tuple     out = lk_run(s, everything, LK_TUPLE(lk_values_from_function(s, rows_on, NULL)), o);
    lk_reduce(s, LK_SUM, out.item[0]);
    lk_reduce(s, LK_MEAN, out.item[1], LK_AXIS(0));
    lk_gather_values(s, out.item[1]);
    lk_local_results(s, out.item[4]);
    lk_read(o->on_read);
    lk_assign(o->on_read, lk_scalar(1));
    lk_cross_batch_reduce(s, lk_hierarchical_copy_all_reduce(.num_packs = LK_NUMBER(2)), LK_SUM, LK_TUPLE(out.item[0], out.item[1]),
                          (lk_destination[]){LK_TO(.device = "CPU:0"), LK_TO(.variable = o->w)});
}

static int count;

static int whole_life(void)
{
    int good = 0;
    LK_POOL {
        objects o = objects_new(lk_mirrored_strategy(.cpu_devices = count));
        if (complete(&o))
            LK_STEP {
                use(&o);
                good = !lk_failed();
            }
    }
    return good;
}

TEST(every_allocation_of_a_strategy)
{
    lk_set_log(quiet, NULL);
    for (count = 1; count <= 3; count++) {
        whole_life(); /* threads that stay */
        SOUND();
        int needed = check_every_allocation(whole_life);
        print_message("%d replicas: %d allocations\n", count, needed);
        assert_true(needed > 50);
    }
}

static objects kept;

static int one_use(void)
{
    int good = 0;
    LK_POOL {
        LK_STEP {
            use(&kept);
            good = !lk_failed();
        }
    }
    return good;
}

/* The same objects, over and over; whenever a run failed the next one works. */
TEST(objects_stay_usable)
{
    LK_POOL {
        lk_set_log(quiet, NULL);
        kept = objects_new(lk_mirrored_strategy(.cpu_devices = 3));
        one_use();
        SOUND();
        for (int n = 1;; n++) {
            lki_memory_fail_after(n);
            int good = one_use();
            lki_memory_fail_after(0);
            if (good) break;
            assert_int_equal(lk_error_code(), LK_ENOMEM);
            lk_clear_error();
            if (n % 7 == 0) {
                assert_true(one_use());
                lk_tuple each = lk_local_variables(kept.strategy, kept.w);
                for (int r = 1; r < each.count; r++)
                    assert_memory_equal(lk_data(each.item[0]), lk_data(each.item[r]), 24);
            }
            SOUND();
        }
    }
}

/* ---- nothing piles up ---- */

typedef enum trouble { NO_TROUBLE, SHAPES, LEAVES, FAILS, STRUCTURES, POISON, TROUBLES } trouble;

REPLICA_FN(troubled)
{
    lk_replica_context *c = lk_get_replica_context();
    lk_tensor          *x = VECTOR(1, 2), *y = lk_all_reduce(c, LK_SUM, lk_nest(LK_TUPLE(x, mine(1))));
    lk_merge_call(c, merged, LK_TUPLE(mine(1)), NULL);
    if (my_id() == 1) switch (*(trouble *)user) {
        case SHAPES: return LK_TUPLE(lk_all_reduce(c, LK_SUM, VECTOR(1, 2, 3)));
        case LEAVES: return LK_TUPLE();
        case FAILS: return LK_TUPLE(lk_matmul(x, x));
        case STRUCTURES: return LK_TUPLE(lk_nest(LK_TUPLE(lk_all_reduce(c, LK_SUM, x))));
        default: break;
        }
    lk_tensor *z = lk_all_reduce(c, LK_SUM, x);
    return LK_TUPLE(*(trouble *)user == POISON ? lk_tuple_from(0, NULL).item[0] : z, y);
}

TEST(nothing_piles_up)
{
    LK_POOL {
        lk_strategy *s = mirrored(3);
        for (trouble t = NO_TROUBLE; t < TROUBLES; t++) {
            int64_t before = 0;
            for (int i = 0; i < 20; i++) {
                LK_STEP {
                    lk_run(s, troubled, .user = &t);
                    assert_true(lk_failed() == (t != NO_TROUBLE));
                    lk_clear_error();
                }
                if (i == 4) before = lki_memory_in_use();
            }
            int64_t left = lki_memory_in_use() - before;
            if (left) fail_msg("trouble %d leaves %lld bytes behind", (int)t, (long long)left);
        }
        SOUND();
    }
}

TESTS(cmocka_unit_test(every_allocation_of_a_strategy), cmocka_unit_test(objects_stay_usable), cmocka_unit_test(nothing_piles_up))
