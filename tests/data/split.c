/* How batches are divided over replicas: the table of the specification, results of TensorFlow, and every row once per epoch for
 * all numbers. */
#include "data/split.h"
#include "dist/strategy.h"
#include "json.h"
#include "lane/lanes.h"
#include "pipes.h"

static void silence(const char *text, void *user) { (void)text, (void)user; }

static lk_strategy *strategy_of(int replicas, int lanes)
{
    lk_set_log(silence, NULL);
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = replicas, .lanes = lanes);
    lk_set_log(NULL, NULL);
    assert_non_null(s);
    return s;
}

static lk_strategy *strategy(int replicas) { return strategy_of(replicas, 0); }

static const lk_tensor *part(const lk_tensor *t, int r) { return t->replicas ? t->replicas->item[r] : t; }

static lk_dataset *batches(int64_t rows, int64_t global, int repeats, lk_switch drop)
{
    lk_dataset *d = lk_dataset_batch(lk_dataset_range(rows, .dtype = LK_I64), global, .drop_remainder = drop);
    return repeats > 1 ? lk_dataset_repeat(d, repeats) : d;
}

/* ---- the table of section 9.2 ---- */

static const struct {
    int         rows, global, repeats, replicas;
    const char *even, *stream, *fill; /* rows per replica and step */
} table[] = {
    {14, 8, 1, 2, "4+4 3+3", "4+4 4+2", "4+4 4+2"},
    {10, 7, 1, 3, "3+3+1 1+1+1", "3+2+2 3+0+0", "3+2+2 3+0+0"},
    {8, 4, 1, 3, "2+2+0 2+2+0", "2+1+1 2+1+1", "2+1+1 2+1+1"},
    {3, 2, 1, 4, "1+1+0+0 1+0+0+0", "1+1+0+0 1+0+0+0", "1+1+0+0 1+0+0+0"},
    {6, 4, 1, 2, "2+2 1+1", "2+2 2+0", "2+2 2+0"},
    {6, 4, 2, 2, "2+2 1+1 2+2 1+1", "2+2 2+2 2+2", "2+2 2+0 2+2 2+0"},
    {9, 4, 1, 2, "2+2 2+2 1+0", "2+2 2+2 1+0", "2+2 2+2 1+0"},
};

static void sizes_are(lk_dataset *d, int replicas, const char *want)
{
    char text[256] = "";
    LK_FOR_EACH(e, d)
        for (int r = 0; r < replicas; r++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld",
                     r       ? "+"
                     : *text ? " "
                             : "",
                     (long long)lk_dim(part(e.item[0], r), 0));
    good();
    assert_string_equal(text, want);
}

TEST(the_table)
{
    LK_POOL
        for (int i = 0; i < LKI_COUNT(table); i++) {
            lk_dataset  *d = batches(table[i].rows, table[i].global, table[i].repeats, LK_OFF);
            lk_strategy *s = strategy(table[i].replicas);
            sizes_are(lk_distribute_dataset(s, d, .split = LK_SPLIT_EVEN), table[i].replicas, table[i].even);
            sizes_are(lk_distribute_dataset(s, d, .split = LK_SPLIT_STREAM), table[i].replicas, table[i].stream);
            sizes_are(lk_distribute_dataset(s, d, .split = LK_SPLIT_FILL), table[i].replicas, table[i].fill);
        }
}

/* By lanes: 3 replicas at G = 64 get 16 + 24 + 24; where N divides G and V it is the split of the API reference. */
TEST(lanes)
{
    LK_POOL {
        sizes_are(lk_distribute_dataset(strategy(3), batches(70, 64, 1, LK_OFF)), 3, "16+24+24 6+0+0");
        sizes_are(lk_distribute_dataset(strategy(2), batches(14, 8, 1, LK_OFF)), 2, "4+4 4+2");
        sizes_are(lk_distribute_dataset(strategy(8), batches(16, 8, 1, LK_OFF)), 8, "1+1+1+1+1+1+1+1 1+1+1+1+1+1+1+1");
        sizes_are(lk_distribute_dataset(strategy(4), batches(3, 100, 1, LK_OFF)), 4, "3+0+0+0");
    }
}

/* ---- what TensorFlow did ---- */

static int same_steps(lk_dataset *d, int replicas, const char *want)
{
    int step = 0;
    LK_FOR_EACH(e, d) {
        const char *parts = json_at(want, step++);
        if (!parts || json_size(parts) != replicas) return 0;
        for (int r = 0; r < replicas; r++) {
            const char      *rows = json_at(parts, r);
            const lk_tensor *t = part(e.item[0], r);
            if (lk_dim(t, 0) != json_size(rows)) return 0;
            for (int i = 0; i < lk_dim(t, 0); i++)
                if (((const int64_t *)lk_data(t))[i] != atol(json_at(rows, i))) return 0;
        }
    }
    good();
    return step == json_size(want);
}

static int same_sizes(lk_dataset *d, int replicas, const char *want)
{
    int step = 0;
    LK_FOR_EACH(e, d) {
        const char *sizes = json_at(want, step++);
        for (int r = 0; r < replicas; r++)
            if (!sizes || lk_dim(part(e.item[0], r), 0) != atol(json_at(sizes, r))) return 0;
    }
    good();
    return step == json_size(want);
}

TEST(golden_splits)
{
    char       *text = golden_text("strategy/strategy.json");
    const char *cases = json_get(text, "split");
    const int   count = json_size(cases);
    assert_true(count > 100);
    for (int i = 0; i < count; i++)
        LK_POOL {
            const char   *c = json_at(cases, i);
            const int     n = (int)json_number(c, "replicas");
            lk_dataset   *d = batches(json_number(c, "rows"), json_number(c, "global_batch"), (int)json_number(c, "repeats"),
                                    json_true_at(c, "drop_remainder") ? LK_ON : LK_OFF);
            lk_strategy  *s = strategy(n);
            lk_split_rule rule = json_get(c, "rule")[1] == 'E' ? LK_SPLIT_EVEN : LK_SPLIT_STREAM;
            if (!same_steps(lk_distribute_dataset(s, d, .split = rule), n, json_get(c, "result"))) {
                print_error("split %d: %.120s\n", i, c);
                fail();
            }
            assert_true(same_sizes(lk_distribute_dataset(s, d, .split = LK_SPLIT_FILL), n, json_get(c, "fill_sizes")));
        }
    free(text);
}

typedef struct per_replica {
    int64_t   rows, batch;
    lk_switch drop;
} per_replica;

static lk_dataset *make_batches(const lk_input_context *context, void *user)
{
    const per_replica *p = user;
    assert_int_equal(context->num_input_pipelines, 1);
    assert_int_equal(context->input_pipeline_id, 0);
    return lk_dataset_batch(lk_dataset_range(p->rows, .dtype = LK_I64), p->batch, .drop_remainder = p->drop);
}

TEST(golden_splits_from_function)
{
    char       *text = golden_text("strategy/strategy.json");
    const char *cases = json_get(text, "split_from_function");
    const int   count = json_size(cases);
    assert_true(count > 20);
    for (int i = 0; i < count; i++)
        LK_POOL {
            const char *c = json_at(cases, i);
            per_replica p = {json_number(c, "rows"), json_number(c, "per_replica_batch"),
                             json_true_at(c, "drop_remainder") ? LK_ON : LK_OFF};
            const int   n = (int)json_number(c, "replicas");
            if (!same_steps(lk_distribute_datasets_from_function(strategy(n), make_batches, &p), n, json_get(c, "result"))) {
                print_error("split_from_function %d: %.120s\n", i, c);
                fail();
            }
        }
    free(text);
}

/* ---- every row once ---- */

static uint32_t random_state = 7;

static int64_t any(int64_t low, int64_t high)
{
    random_state = random_state * 1664525 + 1013904223;
    return low + (int64_t)(random_state >> 8) % (high - low + 1);
}

/* Adds what one worker sees in an epoch; returns how many steps it has. */
static int count_rows(lk_dataset *d, int replicas, int *seen, int64_t rows)
{
    int steps = 0;
    assert_non_null(d);
    LK_FOR_EACH(e, d) {
        steps++;
        for (int r = 0; r < replicas; r++) {
            const lk_tensor *t = part(e.item[0], r);
            for (int64_t i = 0; i < lk_dim(t, 0); i++) {
                const int64_t row = ((const int64_t *)lk_data(t))[i];
                assert_true(row >= 0 && row < rows);
                seen[row]++;
            }
        }
    }
    good();
    return steps;
}

TEST(every_row_once)
{
    for (int i = 0; i < 400; i++)
        LK_POOL {
            const int64_t       rows = any(0, 60), global = any(1, 25);
            const int           workers = (int)any(1, 3), replicas = (int)any(1, 3);
            const lk_split_rule rule = (lk_split_rule)any(0, 3);
            lk_strategy        *s = strategy_of(replicas, 16);
            int                 seen[64] = {0}, steps[3];
            for (int w = 0; w < workers; w++)
                steps[w] = count_rows(lk_distribute_dataset(s, batches(rows, global, 1, LK_OFF), .split = rule,
                                                            .auto_shard = LK_SHARD_DATA, .workers = workers, .worker = w),
                                      replicas, seen, rows);
            for (int64_t r = 0; r < rows; r++)
                assert_int_equal(seen[r], 1);
            for (int w = 1; w < workers; w++)
                assert_int_equal(steps[w], steps[0]); /* all workers make the same number of steps */
            assert_int_equal(steps[0], (rows + global - 1) / global);
        }
}

/* Rows keep their order over replicas and steps. */
TEST(order_is_kept)
{
    for (int i = 0; i < 100; i++)
        LK_POOL {
            const int64_t rows = any(1, 60), global = any(1, 25);
            const int     replicas = (int)any(1, 8);
            int64_t       next = 0;
            LK_FOR_EACH(
                e, lk_distribute_dataset(strategy(replicas), batches(rows, global, 1, LK_OFF), .split = (lk_split_rule)any(0, 3)))
                for (int r = 0; r < replicas; r++)
                    for (int64_t k = 0; k < lk_dim(part(e.item[0], r), 0); k++)
                        assert_int_equal(((const int64_t *)lk_data(part(e.item[0], r)))[k], next++);
            good();
            assert_int_equal(next, rows);
        }
}

/* ---- what rows mean ---- */

TEST(rows_by_lanes)
{
    for (int i = 0; i < 100; i++)
        LK_POOL {
            const int64_t rows = any(1, 40), global = any(1, 30);
            const int     n = (int)any(2, 8);
            lk_strategy  *s = strategy(n);
            LK_FOR_EACH(e, lk_distribute_dataset(s, batches(rows, global, 1, LK_OFF))) {
                const lki_replicas *p = e.item[0]->replicas;
                assert_ptr_equal(p->strategy, s);
                assert_true(p->count == n && !p->mirrored && p->whole);
                const int64_t total = lk_dim(p->whole, 0);
                for (int r = 0; r < n; r++) {
                    const lki_rows *x = &p->item[r]->rows;
                    const int64_t   begin = lki_lane_begin(global, s->lanes, lki_lane_owner_begin(s->lanes, r, n));
                    assert_true(x->kind == LKI_ROWS && !x->own && x->lanes == s->lanes && x->per_row == 1 && x->global == global &&
                                x->total == total);
                    assert_int_equal(x->first, begin < total ? begin : total);
                    assert_int_equal(x->rows, lk_dim(p->item[r], 0));
                    assert_ptr_equal(lk_data(p->item[r]), (const int64_t *)lk_data(p->whole) + x->first);
                }
            }
            good();
        }
}

TEST(rows_of_their_own)
{
    LK_POOL {
        lk_strategy *s = strategy(3);
        LK_FOR_EACH(e, lk_distribute_dataset(s, batches(10, 7, 1, LK_OFF), .split = LK_SPLIT_EVEN)) {
            for (int r = 0; r < 3; r++) {
                const lki_rows *x = &part(e.item[0], r)->rows;
                assert_true(x->kind == LKI_ROWS && x->own && x->first == 0 && x->global == x->rows &&
                            x->rows == lk_dim(part(e.item[0], r), 0));
            }
            assert_int_equal(part(e.item[0], 0)->rows.total, lk_dim(e.item[0]->replicas->whole, 0));
        }
        /* An even split that happens to be the one by lanes is one by lanes. */
        LK_FOR_EACH(e, lk_distribute_dataset(strategy(2), batches(16, 8, 1, LK_OFF), .split = LK_SPLIT_EVEN)) {
            assert_false(part(e.item[0], 1)->rows.own);
            assert_int_equal(part(e.item[0], 1)->rows.first, 4);
        }
        good();
    }
}

/* ---- several workers ---- */

/* The example of section 9.4: G 7, W 2, R 2. */
TEST(sizes_rotate_over_workers)
{
    lki_split s = {LK_SPLIT_STREAM, 2, 2, 0, 8, 7, false};
    lki_cut   cut[2];
    int64_t   size[2][4];
    for (s.worker = 0; s.worker < 2; s.worker++)
        for (int step = 0; step < 2; step++) {
            lki_split_rows(&s, lki_split_step_rows(&s, step), step, cut);
            size[s.worker][2 * step] = cut[0].rows;
            size[s.worker][2 * step + 1] = cut[1].rows;
        }
    const int64_t want[2][4] = {{2, 2, 2, 1}, {2, 1, 2, 2}};
    assert_memory_equal(size, want, sizeof want);
}

TEST(workers_share_lanes_by_replica_number)
{
    LK_POOL {
        lk_strategy *s = strategy(2);
        for (int w = 0; w < 2; w++) {
            lk_iterator *it = lk_iterator_of(
                lk_distribute_dataset(s, batches(8, 8, 1, LK_OFF), .auto_shard = LK_SHARD_DATA, .workers = 2, .worker = w));
            lk_tuple e;
            assert_true(lk_next(it, &e));
            for (int r = 0; r < 2; r++) {
                assert_int_equal(((const int64_t *)lk_data(part(e.item[0], r)))[0], 4 * w + 2 * r);
                assert_int_equal(part(e.item[0], r)->rows.first, 4 * w + 2 * r);
                assert_int_equal(part(e.item[0], r)->rows.total, 8);
            }
            assert_null(e.item[0]->replicas->whole);
            it = lk_iterator_of(lk_distribute_dataset(s, batches(8, 8, 1, LK_OFF), .split = LK_SPLIT_EVEN,
                                                      .auto_shard = LK_SHARD_DATA, .workers = 2, .worker = w));
            assert_true(lk_next(it, &e));
            for (int r = 0; r < 2; r++) /* sub-batches whose number mod 2 is w */
                assert_int_equal(((const int64_t *)lk_data(part(e.item[0], r)))[0], 2 * (2 * r + w));
        }
        good();
    }
}

/* Every worker reads all of it, and uses as many rows per step as its replicas need. */
TEST(workers_on_their_own)
{
    LK_POOL {
        lk_strategy *s = strategy(2);
        sizes_are(lk_distribute_dataset(s, batches(14, 7, 1, LK_OFF), .split = LK_SPLIT_STREAM, .auto_shard = LK_SHARD_OFF,
                                        .workers = 2, .worker = 0),
                  2, "2+2 2+1 2+2 2+1");
        sizes_are(lk_distribute_dataset(s, batches(14, 7, 1, LK_OFF), .split = LK_SPLIT_STREAM, .auto_shard = LK_SHARD_OFF,
                                        .workers = 2, .worker = 1),
                  2, "2+1 2+2 2+1 2+2");
        sizes_are(lk_distribute_dataset(s, batches(9, 8, 1, LK_OFF), .auto_shard = LK_SHARD_OFF, .workers = 2, .worker = 1), 2,
                  "2+2 2+2 1+0");
        sizes_are(lk_distribute_dataset(s, batches(10, 8, 1, LK_OFF), .split = LK_SPLIT_FILL, .auto_shard = LK_SHARD_OFF,
                                        .workers = 2, .worker = 1),
                  2, "2+2 2+2 2+0");
        sizes_are(lk_distribute_dataset(s, batches(13, 8, 1, LK_OFF), .split = LK_SPLIT_EVEN, .auto_shard = LK_SHARD_OFF,
                                        .workers = 2, .worker = 1),
                  2, "2+2 2+2 2+2 1+0");
        sizes_are(lk_distribute_dataset(strategy(1), batches(6, 2, 1, LK_OFF), .split = LK_SPLIT_STREAM, .auto_shard = LK_SHARD_OFF,
                                        .workers = 3, .worker = 2),
                  1, "0 1 1 0 1 1 0 1 1");
        lk_dataset *hinted =
            lk_dataset_batch(lk_dataset_shard(lk_dataset_range(12, .dtype = LK_I64), LK_SHARD_HINTED, LK_SHARD_HINTED), 4);
        int seen[12] = {0};
        for (int w = 0; w < 2; w++)
            count_rows(lk_distribute_dataset(s, hinted, .auto_shard = LK_SHARD_HINT, .workers = 2, .worker = w), 2, seen, 12);
        for (int i = 0; i < 12; i++)
            assert_int_equal(seen[i], 1);
    }
}

TESTS(cmocka_unit_test(the_table), cmocka_unit_test(lanes), cmocka_unit_test(golden_splits),
      cmocka_unit_test(golden_splits_from_function), cmocka_unit_test(every_row_once), cmocka_unit_test(order_is_kept),
      cmocka_unit_test(rows_by_lanes), cmocka_unit_test(rows_of_their_own), cmocka_unit_test(sizes_rotate_over_workers),
      cmocka_unit_test(workers_share_lanes_by_replica_number), cmocka_unit_test(workers_on_their_own))
