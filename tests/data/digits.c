/* Drawn digits: the same bits everywhere, drawn where they are needed, in any pipeline. */
#include "core/crew.h"
#include "core/sha256.h"
#include "data/gather.h"
#include "saved.h"
#include <pthread.h>
#include <time.h>

enum { PIXELS = 28 * 28 };

static const char *digest_of(lk_dataset *d)
{
    static char hex[65];
    lki_sha256  h;
    uint8_t     digest[32];
    lki_sha256_begin(&h);
    LK_FOR_EACH(e, d) {
        lki_sha256_add(&h, lk_data(e.item[0]), PIXELS);
        lki_sha256_add(&h, lk_data(e.item[1]), 8);
    }
    good();
    lki_sha256_end(&h, digest);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return hex;
}

/* A change of these is a change of bits: of every network trained on them. */
TEST(the_same_on_every_machine)
{
    LK_POOL {
        assert_string_equal(digest_of(lk_digits(.rows = 500)), "d1feb89945137222181294e5d5b002d8042a6fb244bd7d41013233eef1534a3b");
        assert_string_equal(digest_of(lk_digits(.rows = 500, .split = LK_TEST)),
                            "9c1c989b3645de82cd396059a555d1e9fdcd3789be88107cef79bfc41369b741");
        assert_string_equal(digest_of(lk_digits(.rows = 500, .seed = LK_NUMBER(7))),
                            "656c5ee666be22022989d273ea0f701346de1640bc40df5677a5ad1bae650216");
    }
}

TEST(what_they_are)
{
    LK_POOL {
        lk_dataset *train = lk_digits(), *test = lk_digits(.split = LK_TEST), *scaled = lk_digits(.scaled = LK_ON, .rows = 3);
        assert_int_equal(lk_dataset_cardinality(train), 60000);
        assert_int_equal(lk_dataset_cardinality(test), 10000);
        assert_int_equal(lk_dataset_cardinality(scaled), 3);
        lk_element_spec s = lk_dataset_element_spec(train), t = lk_dataset_element_spec(scaled);
        assert_true(s.count == 2 && s.dtype[0] == LK_U8 && s.shape[0].rank == 3 && s.dtype[1] == LK_I64 && s.shape[1].rank == 0);
        assert_true(t.count == 2 && t.dtype[0] == LK_F32 && t.shape[0].rank == 3 && t.shape[0].dim[2] == 1 && t.dtype[1] == LK_I64);
        lk_iterator *bytes = lk_iterator_of(train);
        lk_tuple     row;
        LK_FOR_EACH(e, scaled) {
            float want[PIXELS];
            assert_true(lk_next(bytes, &row));
            for (int i = 0; i < PIXELS; i++)
                want[i] = (float)((const uint8_t *)lk_data(row.item[0]))[i] / 255;
            assert_memory_equal(lk_data(e.item[0]), want, sizeof want);
            assert_true(lk_item(e.item[1]) == lk_item(row.item[1]));
        }
        good();
    }
}

/* All digits, about equally often; ink in the middle, little at the edge; no picture twice, not in the test either. */
TEST(what_they_look_like)
{
    enum { ROWS = 2000 };
    static uint8_t seen[2 * ROWS][PIXELS];
    int            digit[10] = {0}, count = 0;
    double         middle = 0, edge = 0;
    for (int split = 0; split < 2; split++)
        LK_FOR_EACH(e, lk_digits(.rows = ROWS, .split = (lk_split_of)split)) {
            const uint8_t *p = lk_data(e.item[0]);
            memcpy(seen[count++], p, PIXELS);
            digit[(int)lk_item(e.item[1])]++;
            for (int i = 0; i < 28; i++) {
                edge += p[i] + p[27 * 28 + i];
                middle += p[13 * 28 + i] + p[14 * 28 + i];
            }
        }
    good();
    for (int i = 0; i < 10; i++)
        assert_in_range(digit[i], 320, 480);
    assert_true(middle > 4 * edge);
    for (int i = 0; i < count; i++) /* equal pictures have equal beginnings of noise; most differ there already */
        for (int k = 0; k < i; k++)
            assert_true(memcmp(seen[i], seen[k], PIXELS) != 0);
}

/* Sixteen greys, all of them used, in the first half of a picture and in the second. */
TEST(greys)
{
    int seen[2][16] = {{0}};
    LK_POOL {
        LK_FOR_EACH(e, lk_digits(.rows = 50))
            for (int i = 0; i < PIXELS; i++) {
                const int pixel = ((const uint8_t *)lk_data(e.item[0]))[i];
                assert_int_equal(pixel % 17, 0);
                seen[i / (PIXELS / 2)][pixel / 17]++;
            }
        good();
    }
    for (int i = 0; i < 16; i++)
        assert_true(seen[0][i] > 0 && seen[1][i] > 0);
}

/* Row n is the same in every order and together with any other rows. */
TEST(in_any_pipeline)
{
    enum { ROWS = 50 };
    static uint8_t plain[2 * ROWS][PIXELS];
    int            n = 0;
    LK_POOL {
        lk_dataset *both = lk_dataset_concatenate(lk_digits(.rows = ROWS), lk_digits(.rows = ROWS, .split = LK_TEST));
        LK_FOR_EACH(e, both)
            memcpy(plain[n++], lk_data(e.item[0]), PIXELS);
        lk_dataset *numbered = lk_dataset_enumerate(both, 0);
        lk_dataset *pipe[] = {lk_dataset_batch(lk_dataset_shuffle(numbered, 100), 7),
                              lk_dataset_batch(lk_dataset_prefetch(lk_dataset_shuffle(numbered, 10), 3), 64),
                              lk_dataset_batch(lk_dataset_shuffle(lk_dataset_cache(numbered), 100), 9),
                              lk_dataset_batch(lk_dataset_unbatch(lk_dataset_batch(numbered, 6)), 5),
                              lk_dataset_padded_batch(numbered, 5)};
        for (int k = 0; k < LKI_COUNT(pipe); k++)
            for (int iteration = 0; iteration < 2; iteration++) {
                int rows = 0;
                LK_FOR_EACH(e, pipe[k])
                    for (int64_t i = 0; i < lk_dim(e.item[0], 0); i++, rows++)
                        assert_memory_equal((const uint8_t *)lk_data(e.item[1]) + i * PIXELS,
                                            plain[((const int64_t *)lk_data(e.item[0]))[i]], PIXELS);
                good();
                assert_int_equal(rows, 2 * ROWS);
            }
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A shuffle over everything holds numbers; what was drawn once is kept. */
TEST(drawn_where_they_are_needed)
{
    LK_POOL {
        lk_dataset  *d = lk_dataset_batch(lk_dataset_shuffle(lk_digits(), 60000), 64);
        lk_iterator *it = lk_iterator_of(d);
        lk_tuple     e;
        double       time[4] = {seconds()};
        assert_true(lk_next(it, &e));
        time[1] = seconds();
        while (lk_next(it, &e)) {}
        time[2] = seconds();
        LK_FOR_EACH(again, d) {}
        time[3] = seconds();
        good();
        assert_true(2 * (time[1] - time[0]) < time[2] - time[1]); /* mostly for pages of memory */
        assert_true(time[3] - time[2] < time[2] - time[1]);
    }
}

/* So large that no row is kept: this only takes more time. Rows in order, and then in random order. */
TEST(more_than_are_kept)
{
    enum { ROWS = 300 };
    LK_POOL {
        lk_dataset *kept = lk_digits(.rows = ROWS), *drawn = lk_dataset_take(lk_digits(.rows = 10000000), ROWS);
        for (int buffer = 1; buffer <= ROWS; buffer += ROWS - 1) {
            lk_iterator *few = lk_iterator_of(lk_dataset_repeat(lk_dataset_shuffle(kept, buffer), 2)),
                        *many = lk_iterator_of(lk_dataset_repeat(lk_dataset_shuffle(drawn, buffer), 2));
            lk_tuple a, b;
            int      n = 0;
            for (; lk_next(few, &a) && lk_next(many, &b); n++) {
                assert_memory_equal(lk_data(a.item[0]), lk_data(b.item[0]), PIXELS);
                assert_true(lk_item(a.item[1]) == lk_item(b.item[1]));
            }
            good();
            assert_int_equal(n, 2 * ROWS);
        }
    }
}

/* A team draws the rows of a batch, and gathers what was drawn: its size does not show. */
TEST(made_by_any_team)
{
    static float first[100 * PIXELS], again[100 * PIXELS];
    LK_POOL {
        lk_dataset *d = NULL;
        for (int pass = 0; pass < 8; pass++) {
            const int team = 1 + pass / 2;
            int64_t   at = 0;
            if (pass % 2 == 0) d = lk_dataset_batch(lk_digits(.rows = 100, .scaled = LK_ON), 64);
            lki_gather_together(team);
            LK_FOR_EACH(e, d) {
                memcpy((pass ? again : first) + at, lk_data(e.item[0]), (size_t)lk_size(e.item[0]) * sizeof(float));
                at += lk_size(e.item[0]);
            }
            lki_gather_together(1);
            good();
            assert_int_equal(at, 100 * PIXELS);
            if (pass) assert_memory_equal(first, again, sizeof first);
        }
    }
}

/* Rows that are kept on a card are made by a run of the team, in which no other run can begin. */
static void draw_in_a_run(void *dataset, int thread)
{
    (void)thread;
    lki_gather_together(2);
    LK_POOL
        LK_FOR_EACH(e, dataset)
            assert_int_equal(lk_size(e.item[1]), 50);
    lki_gather_together(1);
}

TEST(drawn_in_a_run_of_the_team)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_batch(lk_digits(.rows = 100), 50);
        assert_int_equal(lki_team_run(2, draw_in_a_run, d), LK_OK);
        good();
    }
}

/* Threads that want the same rows at the same time. */
static void *sum_of_batches(void *dataset)
{
    uintptr_t sum = 0;
    LK_POOL
        LK_FOR_EACH(e, lk_dataset_batch(dataset, 16))
            for (int64_t i = 0; i < lk_size(e.item[0]); i++)
                sum = sum * 31 + ((const uint8_t *)lk_data(e.item[0]))[i] + (uintptr_t)((const int64_t *)lk_data(e.item[1]))[0];
    return (void *)sum;
}

TEST(several_threads)
{
    LK_POOL {
        lk_dataset *d = lk_digits(.rows = 300);
        pthread_t   thread[4];
        void       *sum[4];
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, sum_of_batches, d), 0);
        for (int i = 0; i < 4; i++)
            pthread_join(thread[i], &sum[i]);
        for (int i = 0; i < 4; i++)
            assert_ptr_equal(sum[i], sum_of_batches(lk_digits(.rows = 300)));
    }
}

static lk_dataset *in_order(void) { return lk_digits(.rows = 7); }
static lk_dataset *shuffled(void) { return lk_dataset_batch(lk_dataset_shuffle(lk_digits(.rows = 20, .scaled = LK_ON), 8), 3); }
static lk_dataset *cached(void) { return lk_dataset_shuffle(lk_dataset_cache(lk_digits(.rows = 6)), 3); }
static lk_dataset *all_shuffled(void) { return lk_dataset_shuffle(lk_digits(), 60000); }

TEST(saved)
{
    goes_on_anywhere(in_order, 8);
    goes_on_anywhere(shuffled, 8);
    goes_on_anywhere(cached, 7);
    assert_true(goes_on_after(all_shuffled, 2) < 60000 * 8); /* by reference */
    LK_POOL {
        void        *bytes;
        size_t       size;
        lk_iterator *it = lk_iterator_of(lk_digits(.rows = 7)), *other = lk_iterator_of(lk_digits(.rows = 7, .seed = LK_NUMBER(2)));
        assert_int_equal(lk_iterator_save(it, &bytes, &size), LK_OK);
        assert_int_equal(lk_iterator_restore(other, bytes, size), LK_EINVAL);
        failed_with(LK_EINVAL, "saved from another pipeline");
        lk_free_bytes(bytes);
    }
}

TEST(mistakes)
{
    REFUSED(lk_digits(.split = (lk_split_of)3), LK_EINVAL, "lk_digits: .split = 3");
    REFUSED(lk_digits(.seed = LK_NUMBER(1.5)), LK_EINVAL, ".seed = 1.5; it must be an integer");
    REFUSED(lk_digits(.seed = LK_NUMBER(-1)), LK_EINVAL, ".seed = -1");
    REFUSED(lk_digits(.rows = -2), LK_EINVAL, ".rows = -2; it must be 1 or more");
}

static int reads_it_all(void)
{
    int rows = 0;
    LK_POOL {
        lk_dataset *d = lk_digits(.rows = 5, .scaled = LK_ON);
        if (d)
            LK_FOR_EACH(e, lk_dataset_batch(d, 2))
                rows += (int)lk_dim(e.item[0], 0);
    }
    return rows == 5 && !lk_failed();
}

TEST(every_allocation)
{
    assert_true(reads_it_all());
    assert_true(check_every_allocation(reads_it_all) > 5);
}

TESTS(cmocka_unit_test(the_same_on_every_machine), cmocka_unit_test(what_they_are), cmocka_unit_test(what_they_look_like),
      cmocka_unit_test(greys), cmocka_unit_test(in_any_pipeline), cmocka_unit_test(drawn_where_they_are_needed),
      cmocka_unit_test(more_than_are_kept), cmocka_unit_test(made_by_any_team), cmocka_unit_test(drawn_in_a_run_of_the_team),
      cmocka_unit_test(several_threads), cmocka_unit_test(saved), cmocka_unit_test(mistakes), cmocka_unit_test(every_allocation))
