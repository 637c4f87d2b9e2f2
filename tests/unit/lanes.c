/* Lanes against a model that counts row by row: where they begin, which replica owns them, which subtrees of the sum are inside. */
#include "lane/lanes.h"
#include "check.h"

enum { MOST_ROWS = 70 };

/* The lane of a row, from the definition: lane s holds ceil(s*G/V) <= row < ceil((s+1)*G/V). */
static int lane_of(int64_t row, int64_t global, int lanes)
{
    for (int s = 0; s < lanes; s++)
        if (row * lanes >= (int64_t)s * global && row * lanes < (int64_t)(s + 1) * global) return s;
    return -1;
}

TEST(every_row_has_one_lane)
{
    for (int lanes = 1; lanes <= 64; lanes *= 2)
        for (int64_t global = 0; global <= MOST_ROWS; global++) { /* fewer rows than lanes included */
            assert_int_equal(lki_lane_begin(global, lanes, 0), 0);
            assert_int_equal(lki_lane_begin(global, lanes, lanes), global);
            for (int s = 0; s < lanes; s++) {
                assert_true(lki_lane_begin(global, lanes, s) <= lki_lane_begin(global, lanes, s + 1));
                for (int64_t row = lki_lane_begin(global, lanes, s); row < lki_lane_begin(global, lanes, s + 1); row++)
                    assert_int_equal(lane_of(row, global, lanes), s);
            }
        }
}

TEST(lanes_differ_by_one_row_at_most)
{
    for (int lanes = 1; lanes <= 1024; lanes *= 4)
        for (int64_t global = 0; global < 5000; global += 37)
            for (int s = 0; s < lanes; s++) {
                int64_t rows = lki_lane_begin(global, lanes, s + 1) - lki_lane_begin(global, lanes, s);
                assert_true(rows == global / lanes || rows == global / lanes + 1);
            }
}

TEST(large_batches_do_not_overflow)
{
    int64_t global = (int64_t)1 << 50;
    assert_int_equal(lki_lane_begin(global, LKI_MAX_LANES, LKI_MAX_LANES / 2), global / 2);
    assert_int_equal(lki_lane_begin(global, LKI_MAX_LANES, LKI_MAX_LANES), global);
    assert_int_equal(lki_lane_owner_begin(LKI_MAX_LANES, 1 << 20, 1 << 20), LKI_MAX_LANES);
}

/* ---- owners ---- */

TEST(workers_own_neighbouring_lanes)
{
    for (int lanes = 1; lanes <= 64; lanes *= 2)
        for (int workers = 1; workers <= 2 * lanes; workers++) {
            int owned = 0;
            assert_int_equal(lki_lane_owner_begin(lanes, 0, workers), 0);
            assert_int_equal(lki_lane_owner_begin(lanes, workers, workers), lanes);
            for (int r = 0; r < workers; r++) {
                int count = lki_lane_owner_begin(lanes, r + 1, workers) - lki_lane_owner_begin(lanes, r, workers);
                assert_int_equal(lki_lane_owner_begin(lanes, r, workers), owned);
                assert_true(count == lanes / workers ||
                            count == lanes / workers + 1); /* none, when there are more workers than lanes */
                owned += count;
            }
            assert_int_equal(owned, lanes);
        }
}

TEST(the_split_of_the_documents)
{
    const int64_t begin[] = {0, 16, 40, 64}; /* three replicas at 64 rows: 16 + 24 + 24 */
    for (int r = 0; r <= 3; r++)
        assert_int_equal(lki_lane_begin(64, 8, lki_lane_owner_begin(8, r, 3)), begin[r]);
    const int64_t halves[] = {0, 4, 8}; /* 8 rows on two: 4 + 4 */
    for (int r = 0; r <= 2; r++)
        assert_int_equal(lki_lane_begin(8, 8, lki_lane_owner_begin(8, r, 2)), halves[r]);
    int64_t bound[9]; /* a tail of 6: 4 + 2 */
    lki_lane_bounds(8, 8, 0, 6, 1, bound);
    assert_int_equal(bound[4], 4);
    assert_int_equal(bound[8], 6);
}

/* ---- bounds ---- */

/* A short batch fills lanes from the front; a replica holds rows from `first` on. */
static void check_bounds(int64_t global, int lanes, int64_t first, int64_t rows, int64_t per_row)
{
    int64_t bound[LKI_MAX_LANES + 1], count[LKI_MAX_LANES] = {0};
    lki_lane_bounds(global, lanes, first, rows, per_row, bound);
    for (int64_t i = 0; i < rows; i++) {
        int lane = lane_of(first + i, global, lanes);
        count[lane < 0 ? lanes - 1 : lane] += per_row; /* beyond the declared batch: the last lane's */
    }
    assert_int_equal(bound[0], 0);
    for (int s = 0; s < lanes; s++)
        assert_int_equal(bound[s + 1] - bound[s], count[s]);
}

TEST(bounds_of_whole_short_and_partial_batches)
{
    for (int lanes = 1; lanes <= 16; lanes *= 2)
        for (int64_t global = 0; global <= 40; global += 3)
            for (int64_t first = 0; first <= global; first += 2)
                for (int64_t rows = 0; first + rows <= global; rows += 5)
                    for (int64_t per_row = 1; per_row <= 3; per_row++)
                        check_bounds(global, lanes, first, rows, per_row);
}

TEST(rows_beyond_the_declared_batch_go_to_the_last_lane)
{
    for (int lanes = 1; lanes <= 16; lanes *= 2)
        for (int64_t rows = 8; rows < 20; rows++)
            check_bounds(8, lanes, 0, rows, 2);
}

/* ---- subtrees ---- */

static void check_subtrees(int lo, int hi, int lanes)
{
    lki_subtree tree[64];
    int         count = lki_lane_subtrees(lo, hi, tree), at = lo, most = 0;
    while (1 << most < lanes)
        most++;
    assert_true(count <= 2 * most + 1);
    for (int i = 0; i < count; i++) {
        assert_int_equal(tree[i].lane, at); /* from left to right, without gaps */
        assert_true(tree[i].width > 0 && (tree[i].width & (tree[i].width - 1)) == 0);
        assert_int_equal(tree[i].lane % tree[i].width, 0); /* aligned */
        bool wider = tree[i].lane % (2 * tree[i].width) == 0 && tree[i].lane + 2 * tree[i].width <= hi;
        assert_false(wider); /* the largest that fits */
        at += tree[i].width;
    }
    assert_int_equal(at, lo < hi ? hi : lo);
}

TEST(subtrees_are_aligned_largest_and_cover)
{
    for (int lanes = 1; lanes <= 64; lanes *= 2)
        for (int lo = 0; lo <= lanes; lo++)
            for (int hi = lo; hi <= lanes; hi++)
                check_subtrees(lo, hi, lanes);
    check_subtrees(1, LKI_MAX_LANES - 1, LKI_MAX_LANES);
    check_subtrees(0, LKI_MAX_LANES, LKI_MAX_LANES);
}

TEST(workers_that_divide_the_lanes_hand_over_one_root)
{
    lki_subtree tree[64];
    for (int lanes = 1; lanes <= 64; lanes *= 2)
        for (int workers = 1; workers <= lanes; workers *= 2)
            for (int r = 0; r < workers; r++)
                assert_int_equal(
                    lki_lane_subtrees(lki_lane_owner_begin(lanes, r, workers), lki_lane_owner_begin(lanes, r + 1, workers), tree),
                    1);
}

/* Joining the roots of all workers, siblings first, gives back the one tree, for any number of workers. */
TEST(the_roots_of_all_workers_make_the_one_tree)
{
    for (int lanes = 1; lanes <= 64; lanes *= 2)
        for (int workers = 1; workers <= lanes; workers++) {
            lki_subtree open[256];
            int         count = 0;
            for (int r = 0; r < workers; r++) {
                lki_subtree mine[64];
                int         n =
                    lki_lane_subtrees(lki_lane_owner_begin(lanes, r, workers), lki_lane_owner_begin(lanes, r + 1, workers), mine);
                for (int i = 0; i < n; i++) {
                    open[count++] = mine[i];
                    while (count > 1 && open[count - 2].width == open[count - 1].width &&
                           open[count - 2].lane % (2 * open[count - 2].width) == 0)
                        open[--count - 1].width *= 2;
                }
            }
            assert_int_equal(count, 1);
            assert_int_equal(open[0].lane, 0);
            assert_int_equal(open[0].width, lanes);
        }
}

TESTS(cmocka_unit_test(every_row_has_one_lane), cmocka_unit_test(lanes_differ_by_one_row_at_most),
      cmocka_unit_test(large_batches_do_not_overflow), cmocka_unit_test(workers_own_neighbouring_lanes),
      cmocka_unit_test(the_split_of_the_documents), cmocka_unit_test(bounds_of_whole_short_and_partial_batches),
      cmocka_unit_test(rows_beyond_the_declared_batch_go_to_the_last_lane),
      cmocka_unit_test(subtrees_are_aligned_largest_and_cover), cmocka_unit_test(workers_that_divide_the_lanes_hand_over_one_root),
      cmocka_unit_test(the_roots_of_all_workers_make_the_one_tree))
