/* Datasets over replicas: what is delivered, from functions, with options, saved with one number of replicas and restored with
 * another; errors. */
#include "dist/strategy.h"
#include "pipes.h"

static void silence(const char *text, void *user) { (void)text, (void)user; }

static lk_strategy *strategy(int replicas)
{
    lk_set_log(silence, NULL);
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = replicas);
    lk_set_log(NULL, NULL);
    assert_non_null(s);
    return s;
}

static const lk_tensor *part(const lk_tensor *t, int r) { return t->replicas ? t->replicas->item[r] : t; }

/* ---- one replica, or none ---- */

TEST(one_replica_gets_plain_tensors)
{
    LK_POOL {
        lk_set_log(silence, NULL);
        lk_strategy *one = lk_mirrored_strategy(.cpu_devices = 1, .lanes = 4);
        lk_set_log(NULL, NULL);
        lk_strategy *device = lk_one_device_strategy("CPU:0");
        GIVES(lk_distribute_dataset(one, lk_dataset_range(3)), 0, 1, 2); /* not batched: passes */
        GIVES(lk_distribute_dataset(device, lk_dataset_range(3)), 0, 1, 2);
        LK_FOR_EACH(e, lk_distribute_dataset(one, lk_dataset_batch(lk_dataset_range(5), 3))) {
            assert_null(e.item[0]->replicas);
            assert_int_equal(e.item[0]->rows.lanes, 4); /* the strategy's, as with more replicas */
            assert_int_equal(e.item[0]->rows.global, 3);
        }
        SIZES(lk_distribute_dataset(one, lk_dataset_batch(lk_dataset_range(5), 3), .split = LK_SPLIT_STREAM), 3, 2);
        SIZES(lk_distribute_dataset(device, lk_dataset_batch(lk_dataset_range(10), 2)), 2, 2, 2, 2, 2);
        lk_dataset *d = lk_dataset_range(3);
        assert_ptr_equal(lk_distribute_dataset(lk_default_strategy(), d), d);
    }
}

/* ---- several ---- */

TEST(structure_and_empty_parts)
{
    LK_POOL {
        lk_strategy *s = strategy(4);
        int          steps = 0;
        LK_FOR_EACH(e, lk_distribute_dataset(s, lk_dataset_batch(rows_of(9), 8))) {
            assert_int_equal(e.count, 2);
            for (int r = 0; r < 4; r++) {
                const int64_t rows = steps ? r == 0 : 2;
                assert_int_equal(lk_dim(part(e.item[0], r), 0), rows);
                assert_int_equal(lk_dim(part(e.item[0], r), 1), 3);
                assert_int_equal(lk_tensor_dtype(part(e.item[1], r)), LK_I64);
                assert_int_equal(lk_dim(part(e.item[1], r), 0), rows);
            }
            steps++;
        }
        assert_int_equal(steps, 2);
        lk_dataset *d = lk_distribute_dataset(s, lk_dataset_batch(rows_of(9), 8));
        assert_int_equal(lk_dataset_cardinality(d), 2);
        assert_int_equal(lk_dataset_element_spec(d).count, 2);
        assert_int_equal(lk_dataset_element_spec(d).shape[0].dim[0], -1);
        assert_int_equal(lk_dataset_element_spec(lk_distribute_dataset(s, lk_dataset_batch(rows_of(9), 8, .drop_remainder = LK_ON)))
                             .shape[0]
                             .dim[0],
                         2);
        NOTHING(lk_distribute_dataset(s, lk_dataset_batch(rows_of(0), 8)));
        trail *t = walk_some(lk_distribute_dataset(s, lk_dataset_repeat(lk_dataset_batch(rows_of(9), 8))), 50);
        assert_int_equal(t->elements, 50);
        free(t);
        good();
    }
}

static lk_tuple add_rows(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_reduce_sum(in.item[0]));
}

TEST(elements_go_into_run)
{
    LK_POOL {
        lk_strategy *s = strategy(2);
        double       total = 0;
        LK_FOR_EACH(e, lk_distribute_dataset(s, lk_dataset_batch(lk_dataset_range(14), 8)))
            total += lk_item(lk_reduce(s, LK_SUM, lk_run(s, add_rows, e).item[0]));
        good();
        assert_true(total == 91);
        lk_iterator *it = lk_iterator_of(lk_distribute_dataset(s, lk_dataset_batch(lk_dataset_range(8), 8)));
        lk_tuple     out = lk_experimental_run(s, add_rows, it, NULL);
        assert_true(lk_item(lk_reduce(s, LK_SUM, out.item[0])) == 28);
        out = lk_experimental_run(s, add_rows, it, NULL);
        assert_int_equal(out.count, 0);
        good();
    }
}

/* ---- from a function ---- */

/* The API reference: the constant [[1.]], for ever, batched with the size per replica, sharded by pipeline. */
static lk_dataset *ones(const lk_input_context *context, void *user)
{
    (void)user;
    int         batch = lk_per_replica_batch_size(context, 8);
    lk_dataset *d = lk_dataset_batch(lk_dataset_repeat(lk_dataset_from_tensors(LK_TUPLE(lk_tensor_of(LK_SHAPE(1, 1), 1)))), batch);
    return lk_dataset_shard(d, context->num_input_pipelines, context->input_pipeline_id);
}

static lk_dataset *by_pipeline(const lk_input_context *c, void *user)
{
    int *calls = user;
    assert_int_equal(c->num_input_pipelines, 3);
    assert_int_equal(c->num_replicas_in_sync, 3);
    assert_int_equal(c->input_pipeline_id, (*calls)++);
    return lk_dataset_batch(
        lk_dataset_range(100 * c->input_pipeline_id, .stop = LK_NUMBER(100 * c->input_pipeline_id + 2 + c->input_pipeline_id)), 2);
}

static lk_dataset *fails(const lk_input_context *c, void *user)
{
    (void)user;
    return lk_per_replica_batch_size(c, 7) < 0 ? NULL : lk_dataset_range(1);
}

TEST(from_a_function)
{
    LK_POOL {
        lk_strategy *two = strategy(2), *three = strategy(3);
        lk_iterator *it = lk_iterator_of(lk_distribute_datasets_from_function(two, ones));
        lk_tuple     e;
        for (int i = 0; i < 5; i++) {
            assert_true(lk_next(it, &e));
            for (int r = 0; r < 2; r++) {
                lk_shape s = lk_tensor_shape(part(e.item[0], r));
                assert_true(s.rank == 3 && s.dim[0] == 4 && s.dim[1] == 1 && s.dim[2] == 1);
                assert_true(((const float *)lk_data(part(e.item[0], r)))[3] == 1);
                assert_true(part(e.item[0], r)->rows.own && part(e.item[0], r)->rows.total == 8);
            }
        }
        int         calls = 0, steps = 0;
        lk_dataset *each = lk_distribute_datasets_from_function(three, by_pipeline, &calls, .replication = LK_PER_REPLICA_INPUT,
                                                                .place_on_device = LK_ON, .prefetch = LK_NUMBER(0));
        assert_int_equal(calls, 3);
        assert_int_equal(lk_dataset_cardinality(each), 2);
        LK_FOR_EACH(x, each) { /* 0 1 | 100 101, 102 | 200 201, 202 203 */
            const int64_t want[2][3] = {{2, 2, 2}, {0, 1, 2}};
            for (int r = 0; r < 3; r++)
                assert_int_equal(lk_dim(part(x.item[0], r), 0), want[steps][r]);
            assert_true(((const float *)lk_data(part(x.item[0], 2)))[0] == 200 + 2 * steps);
            steps++;
        }
        assert_int_equal(steps, 2);
        LK_FOR_EACH(x, lk_distribute_datasets_from_function(strategy(1), ones)) {
            assert_null(x.item[0]->replicas);
            assert_int_equal(lk_dim(x.item[0], 0), 8);
            break;
        }
        good();
        REFUSED(lk_distribute_datasets_from_function(two, fails), LK_EINVAL, "7 rows cannot be shared evenly by 2 replicas");
        REFUSED(lk_distribute_datasets_from_function(two, NULL), LK_EINVAL, "the function is missing");
        REFUSED(lk_distribute_datasets_from_function(two, ones, .place_on_device = LK_ON), LK_EINVAL, ".place_on_device needs");
        REFUSED(lk_distribute_datasets_from_function(two, ones, .place_on_device = LK_ON, .replication = LK_PER_REPLICA_INPUT),
                LK_EINVAL, ".place_on_device needs");
        REFUSED(lk_distribute_datasets_from_function(lk_one_device_strategy("CPU:0"), ones, .replication = LK_PER_REPLICA_INPUT),
                LK_EUNSUPPORTED, "only a mirrored strategy");
        assert_int_equal(lk_per_replica_batch_size(&(lk_input_context){2, 0, 3}, 6), -1);
        failed_with(LK_EINVAL, "3 replicas cannot be shared evenly by 2 input pipelines");
    }
}

static lk_dataset *scalars(const lk_input_context *c, void *user)
{
    (void)c, (void)user;
    return lk_dataset_range(3);
}

/* ---- mistakes ---- */

static lk_tuple iterates(lk_tuple in, void *user)
{
    lk_tuple e;
    lk_next(user, &e);
    return in;
}

static lk_tuple opens(lk_tuple in, void *user)
{
    LK_FOR_EACH(e, (lk_dataset *)user)
        lk_print(e.item[0]);
    return in;
}

static lk_tuple distributes(lk_tuple in, void *user)
{
    lk_distribute_dataset(((lk_strategy **)user)[0], ((lk_dataset **)user)[1]);
    return in;
}

static void next_fails(lk_dataset *d, lk_status code, const char *words)
{
    lk_tuple     e;
    lk_iterator *it = lk_iterator_of(d);
    assert_false(lk_next(it, &e));
    failed_with(code, words);
}

TEST(mistakes)
{
    LK_POOL {
        lk_strategy *s = strategy(2);
        lk_dataset  *batched = lk_dataset_batch(rows_of(8), 4), *d = lk_distribute_dataset(s, batched);
        REFUSED(lk_distribute_dataset(s, rows_of(8)), LK_EINVAL, "call lk_dataset_batch first");
        REFUSED(lk_distribute_dataset(s, lk_dataset_unbatch(batched)), LK_EINVAL, "call lk_dataset_batch first");
        REFUSED(lk_distribute_dataset(s, NULL), LK_EINVAL, "the dataset is NULL");
        REFUSED(lk_distribute_dataset(NULL, batched), LK_EINVAL, "the strategy is NULL");
        next_fails(lk_distribute_dataset(s, lk_dataset_from_tensors(LK_TUPLE(lk_scalar(1)))), LK_EINVAL,
                   "call lk_dataset_batch first");
        next_fails(lk_distribute_dataset(s, lk_dataset_from_tensors(LK_TUPLE(lk_range(4, LK_F32), lk_range(6, LK_F32)))), LK_EINVAL,
                   "has 6 rows, tensor 0 has 4");
        next_fails(lk_distribute_datasets_from_function(s, scalars), LK_EINVAL, "call lk_dataset_batch first");

        REFUSED(lk_dataset_batch(d, 2), LK_EINVAL, "can only be iterated");
        REFUSED(lk_dataset_enumerate(d, 0), LK_EINVAL, "can only be iterated");
        REFUSED(lk_dataset_take(d, 1), LK_EINVAL, "can only be iterated");
        REFUSED(lk_distribute_dataset(s, d), LK_EINVAL, "can only be iterated");

        REFUSED(lk_distribute_dataset(s, batched, .replication = LK_PER_REPLICA_INPUT), LK_EUNSUPPORTED,
                "lk_distribute_datasets_from_function()");
        REFUSED(lk_distribute_dataset(s, batched, .place_on_device = LK_ON), LK_EINVAL, ".place_on_device needs");
        REFUSED(lk_distribute_dataset(s, batched, .prefetch = LK_NUMBER(-1)), LK_EINVAL, ".prefetch = -1");
        REFUSED(lk_distribute_dataset(s, batched, .split = (lk_split_rule)9), LK_EINVAL, ".split = 9");
        REFUSED(lk_distribute_dataset(s, batched, .auto_shard = (lk_auto_shard)9), LK_EINVAL, ".auto_shard = 9");
        REFUSED(lk_distribute_dataset(s, batched, .workers = 2, .worker = 2), LK_EINVAL, ".worker = 2 of 2");
        REFUSED(lk_distribute_dataset(s, batched, .workers = -2), LK_EINVAL, ".workers = -2");
        REFUSED(lk_distribute_dataset(s, batched, .workers = 5, .auto_shard = LK_SHARD_DATA), LK_EINVAL, ".lanes = 10");
        REFUSED(lk_distribute_dataset(s, batched, .workers = 2, .auto_shard = LK_SHARD_FILE), LK_EINVAL,
                "does not come from files");
        REFUSED(lk_distribute_dataset(s, batched, .workers = 2, .auto_shard = LK_SHARD_HINT), LK_EINVAL, "LK_SHARD_HINTED");
        lk_dataset *files = lk_dataset_batch(lk_tfrecord_dataset(LK_FILES("a", "b")), 4);
        REFUSED(lk_distribute_dataset(s, files, .workers = 3, .auto_shard = LK_SHARD_FILE), LK_EINVAL, "2 files for 3 workers");
        REFUSED(lk_distribute_dataset(s, files, .workers = 3), LK_EINVAL, "LK_SHARD_OFF");
        assert_non_null(lk_distribute_dataset(s, files)); /* nothing is opened before it is iterated */

        lk_run(s, iterates, LK_TUPLE(lk_scalar(1)), lk_iterator_of(d));
        failed_with(LK_EINVAL, "inside lk_run()");
        lk_run(s, opens, LK_TUPLE(lk_scalar(1)), d);
        failed_with(LK_EINVAL, "inside lk_run()");
        void *both[] = {s, batched};
        lk_run(s, distributes, LK_TUPLE(lk_scalar(1)), both);
        failed_with(LK_ESTATE, "lk_distribute_dataset");
        lk_strategy *other = strategy(3);
        LK_SCOPE(other)
            assert_null(lk_distribute_dataset(s, batched));
        failed_with(LK_ESTATE, "lk_distribute_dataset");
        REFUSED(lk_make_array_dataset(NULL, LK_TUPLE(lk_ones(LK_SHAPE(10), LK_F32))), LK_EINVAL, "the strategy is NULL");
        GIVES(lk_make_array_dataset(s, LK_TUPLE(lk_ones(LK_SHAPE(3), LK_F32))), 1, 1, 1);
    }
}

TEST(a_warning_where_workers_read_everything)
{
    LK_POOL {
        lk_strategy *s = strategy(2);
        log_text[0] = 0;
        lk_set_log(keep_log, NULL);
        for (int i = 0; i < 2; i++)
            assert_non_null(lk_distribute_dataset(s, lk_dataset_batch(rows_of(8), 4), .workers = 2));
        lk_set_log(NULL, NULL);
        const char *first = strstr(log_text, "LK_SHARD_DATA");
        assert_non_null(first);
        assert_null(strstr(first + 1, "LK_SHARD_DATA says")); /* once */
    }
}

/* ---- saved with N, restored with M ---- */

static lk_dataset *training(void) { return lk_dataset_repeat(lk_dataset_batch(lk_dataset_shuffle(rows_of(23), 10), 4), 2); }

/* All rows in the order of the replicas, whatever their number. */
static void rows_in_order(lk_iterator *it, trail *t)
{
    lk_tuple e;
    while (lk_next(it, &e))
        for (int r = 0; r < (e.item[0]->replicas ? e.item[0]->replicas->count : 1); r++)
            for (int64_t i = 0; i < lk_dim(part(e.item[1], r), 0); i++)
                trail_add(t, (double)((const int64_t *)lk_data(part(e.item[1], r)))[i]);
    good();
}

TEST(saved_with_one_number_restored_with_another)
{
    static const int counts[] = {0, 1, 2, 3, 8};
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++)
            for (int skip = 0; skip < 12; skip += 5)
                LK_POOL {
                    void        *bytes;
                    size_t       size;
                    lk_tuple     e;
                    trail       *want = calloc(1, sizeof *want), *got = calloc(1, sizeof *got);
                    lk_iterator *x =
                        lk_iterator_of(counts[a] ? lk_distribute_dataset(strategy(counts[a]), training()) : training());
                    lk_iterator *y = lk_iterator_of(
                        counts[b] ? lk_distribute_dataset(strategy(counts[b]), training(), .prefetch = LK_NUMBER(3 * (b % 2)))
                                  : training());
                    for (int i = 0; i < skip; i++)
                        assert_true(lk_next(x, &e));
                    assert_int_equal(lk_iterator_save(x, &bytes, &size), LK_OK);
                    rows_in_order(x, want);
                    assert_int_equal(lk_iterator_restore(y, bytes, size), LK_OK);
                    rows_in_order(y, got);
                    assert_true(want->count == 46 - 4 * skip + (skip > 5) && same_trail(want, got));
                    lk_free_bytes(bytes);
                    free(want);
                    free(got);
                }
}

static lk_dataset *own_batches(const lk_input_context *c, void *user)
{
    (void)c, (void)user;
    return lk_dataset_batch(lk_dataset_shuffle(rows_of(23), 10), 3);
}

/* Every place of the forms that have a state of their own. */
TEST(saved_at_every_place)
{
    for (int form = 0; form < 6; form++)
        for (int skip = 0; skip < 9; skip++)
            LK_POOL {
                void        *bytes;
                size_t       size;
                lk_tuple     e;
                lk_iterator *it[2];
                trail       *t[2] = {calloc(1, sizeof **t), calloc(1, sizeof **t)};
                lk_strategy *s = strategy(2);
                for (int i = 0; i < 2; i++) {
                    lk_dataset *d =
                        form == 0   ? lk_distribute_dataset(s, training(), .split = LK_SPLIT_STREAM)
                        : form == 1 ? lk_distribute_datasets_from_function(s, own_batches)
                        : form == 2 ? lk_distribute_dataset(s, training(), .split = LK_SPLIT_STREAM, .auto_shard = LK_SHARD_OFF,
                                                            .workers = 2, .worker = 1)
                        : form == 3 ? lk_distribute_dataset(s, training(), .split = LK_SPLIT_EVEN, .auto_shard = LK_SHARD_OFF,
                                                            .workers = 2, .worker = 1)
                        : form == 4 ? lk_distribute_dataset(s, training(), .auto_shard = LK_SHARD_OFF, .workers = 2, .worker = 1)
                                    : lk_distribute_dataset(s, lk_dataset_batch(lk_dataset_shuffle(rows_of(9), 4), 2),
                                                            .split = LK_SPLIT_STREAM, .auto_shard = LK_SHARD_OFF, .workers = 3,
                                                            .worker = 2);
                    it[i] = lk_iterator_of(d);
                }
                for (int i = 0; i < skip; i++)
                    if (!lk_next(it[0], &e)) break;
                good();
                assert_int_equal(lk_iterator_save(it[0], &bytes, &size), LK_OK);
                assert_int_equal(lk_iterator_restore(it[1], bytes, size), LK_OK);
                for (int i = 0; i < 2; i++)
                    trail_rest(t[i], it[i], -1);
                good();
                assert_true(same_trail(t[0], t[1]));
                lk_free_bytes(bytes);
                free(t[0]);
                free(t[1]);
            }
}

TESTS(cmocka_unit_test(one_replica_gets_plain_tensors), cmocka_unit_test(structure_and_empty_parts),
      cmocka_unit_test(elements_go_into_run), cmocka_unit_test(from_a_function), cmocka_unit_test(mistakes),
      cmocka_unit_test(a_warning_where_workers_read_everything), cmocka_unit_test(saved_with_one_number_restored_with_another),
      cmocka_unit_test(saved_at_every_place))
