/* Shuffle: every row once, orders that depend only on seed, place, iteration and turn, and rows that move as references. */
#include "pipes.h"

static int order(lk_dataset *d, int *out)
{
    int n = 0;
    LK_FOR_EACH(e, d)
        for (int64_t i = 0; i < lk_size(e.item[0]); i++)
            out[n++] = (int)lki_element_get(lk_tensor_dtype(e.item[0]), lk_data(e.item[0]), i);
    good();
    return n;
}

static int is_permutation(const int *x, int n)
{
    char seen[1000] = {0};
    for (int i = 0; i < n; i++) {
        if (x[i] < 0 || x[i] >= n || seen[x[i]]) return 0;
        seen[x[i]] = 1;
    }
    return 1;
}

static int equal(const int *a, const int *b, int n) { return memcmp(a, b, (size_t)n * sizeof *a) == 0; }

TEST(every_row_once)
{
    static const int buffers[] = {1, 2, 7, 99, 100, 101, 100000};
    LK_POOL
        for (int i = 0; i < LKI_COUNT(buffers); i++) {
            int x[100];
            assert_int_equal(order(lk_dataset_shuffle(lk_dataset_range(100), buffers[i]), x), 100);
            assert_true(is_permutation(x, 100));
            for (int k = 0; k < 100; k++)
                assert_true(x[k] <= k + buffers[i]); /* a row cannot leave before it is in the buffer */
            if (buffers[i] == 1)
                for (int k = 0; k < 100; k++)
                    assert_true(x[k] == k);
        }
}

TEST(a_new_order_each_time)
{
    LK_POOL {
        int         a[50], b[50], c[50], d[50];
        lk_dataset *s = lk_dataset_shuffle(lk_dataset_range(50), 50);
        order(s, a);
        order(s, b);
        assert_false(equal(a, b, 50));
        lk_dataset *again = lk_dataset_shuffle(lk_dataset_range(50), 50); /* another node of the same kind: the same orders */
        order(again, c);
        order(again, d);
        assert_true(equal(a, c, 50) && equal(b, d, 50));

        lk_dataset *fixed = lk_dataset_shuffle(lk_dataset_range(50), 50, .reshuffle_each_iteration = LK_OFF);
        order(fixed, a);
        order(fixed, b);
        assert_true(equal(a, b, 50) && is_permutation(a, 50));

        int twice[100];
        order(lk_dataset_repeat(lk_dataset_shuffle(lk_dataset_range(50), 50), 2), twice);
        assert_true(is_permutation(twice, 50) && is_permutation(twice + 50, 50));
        assert_false(equal(twice, twice + 50, 50));
    }
}

TEST(the_seed_decides)
{
    LK_POOL {
        int      a[50], b[50], c[50];
        uint64_t seed = lk_random_seed();
        order(lk_dataset_shuffle(lk_dataset_range(50), 50), a);
        lk_set_random_seed(seed + 1);
        order(lk_dataset_shuffle(lk_dataset_range(50), 50), b);
        order(lk_dataset_shuffle(lk_dataset_range(50), 50, .seed = LK_NUMBER(3)), c);
        lk_set_random_seed(seed);
        assert_false(equal(a, b, 50));
        order(lk_dataset_shuffle(lk_dataset_range(50), 50, .seed = LK_NUMBER(3)), b);
        assert_true(equal(b, c, 50) && !equal(a, c, 50));
        order(lk_dataset_shuffle(lk_dataset_range(50), 50, .seed = LK_NUMBER(0)), b);
        assert_false(equal(b, c, 50));
        REFUSED(lk_dataset_shuffle(lk_dataset_range(50), 0), LK_EINVAL, "a buffer of 0 rows");
        REFUSED(lk_dataset_shuffle(lk_dataset_range(50), 5, .seed = LK_NUMBER(0.5)), LK_EINVAL, "integer");
    }
}

/* Later operations, and how many elements are requested at a time, do not change the order of a shuffle; another shuffle has
 * another order. */
TEST(the_place_decides)
{
    LK_POOL {
        int a[60], b[60], c[60];
        order(lk_dataset_shuffle(lk_dataset_range(60), 20), a);
        order(lk_dataset_prefetch(lk_dataset_batch(lk_dataset_shuffle(lk_dataset_range(60), 20), 7), 3), b);
        assert_true(equal(a, b, 60));
        order(lk_dataset_batch(lk_dataset_shuffle(lk_dataset_range(60), 20), 1000), b);
        assert_true(equal(a, b, 60));
        lk_dataset *pair =
            lk_dataset_zip(lk_dataset_shuffle(lk_dataset_range(60), 20), lk_dataset_shuffle(lk_dataset_range(60), 20));
        int n = 0;
        LK_FOR_EACH(e, pair) {
            b[n] = (int)lk_item(e.item[0]);
            c[n++] = (int)lk_item(e.item[1]);
        }
        assert_true(equal(a, b, 60) && !equal(b, c, 60) && is_permutation(c, 60));
        order(lk_dataset_shuffle(lk_dataset_shuffle(lk_dataset_range(60), 60), 1), b);
        order(lk_dataset_shuffle(lk_dataset_range(60), 60), c);
        assert_true(equal(b, c, 60));
    }
}

/* Every row comes first equally often: chi-squared with 19 degrees of freedom is above 43.8 once in a thousand times. */
TEST(orders_are_uniform)
{
    LK_POOL {
        enum { ROWS = 20, TRIES = 4000 };
        int         first[ROWS] = {0};
        double      chi = 0;
        lk_dataset *d = lk_dataset_shuffle(lk_dataset_range(ROWS), ROWS);
        for (int i = 0; i < TRIES; i++)
            LK_FOR_EACH(e, d) {
                first[(int)lk_item(e.item[0])]++;
                break;
            }
        for (int i = 0; i < ROWS; i++)
            chi += (first[i] - (double)TRIES / ROWS) * (first[i] - (double)TRIES / ROWS) / ((double)TRIES / ROWS);
        assert_true(chi < 43.8);
    }
}

static lk_dataset *shuffled(lk_tuple e, void *user)
{
    (void)e, (void)user;
    return lk_dataset_shuffle(lk_dataset_range(10), 10);
}

TEST(inside_interleave)
{
    LK_POOL {
        int         a[20], b[20];
        lk_dataset *d = lk_dataset_interleave(lk_dataset_range(2), shuffled, .cycle_length = 1);
        order(d, a);
        order(d, b);
        assert_true(is_permutation(a, 10) && is_permutation(a + 10, 10));
        assert_false(equal(a, a + 10, 10) || equal(a, b, 10));
        order(lk_dataset_interleave(lk_dataset_range(2), shuffled, .cycle_length = 1), b);
        assert_true(equal(a, b, 20));
    }
}

TESTS(cmocka_unit_test(every_row_once), cmocka_unit_test(a_new_order_each_time), cmocka_unit_test(the_seed_decides),
      cmocka_unit_test(the_place_decides), cmocka_unit_test(orders_are_uniform), cmocka_unit_test(inside_interleave))
