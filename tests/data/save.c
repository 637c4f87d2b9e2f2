/* Saved iterators: every operation, saved at every place, resumes with the same elements in a new pipeline; damaged bytes are
 * reported. */
#include "format/crc32c.h"
#include "format/file.h"
#include "pipes.h"

static lk_tuple half(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_mul(e.item[0], lk_scalar(0.5)), e.item[1]);
}

static lk_tuple looks(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_fill(LK_SHAPE(2), LK_F32, lk_item(e.item[1]) * 2));
}

static int is_odd(lk_tuple e, void *user)
{
    (void)user;
    return (int)lk_item(e.item[1]) % 2;
}

static int uneven(int64_t index, lk_tuple *element, void *user)
{
    (void)user;
    *element = LK_TUPLE(lk_fill(LK_SHAPE(index % 3), LK_U8, (double)index), lk_scalar((double)index));
    return index < 11;
}

static lk_dataset *shuffled_rows(lk_tuple e, void *user)
{
    (void)user;
    return lk_dataset_skip(lk_dataset_shuffle(rows_of(6), 4), (int64_t)lk_item(e.item[1]) % 3);
}

static lk_dataset *shuffled(int n, int buffer) { return lk_dataset_shuffle(rows_of(n), buffer); }

static lk_dataset *twice(lk_dataset *d) { return lk_dataset_concatenate(d, d); }

static int is_small(lk_tuple e, void *user)
{
    (void)user;
    return lk_item(e.item[1]) < 9;
}

static lk_tuple third(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_cast(lk_mod(e.item[0], lk_scalar(3)), LK_I64));
}

static lk_dataset *chosen(void)
{
    return lk_dataset_choose_from(lk_dataset_map(lk_dataset_range(9), third), LK_OFF,
                                  LK_DATASETS(shuffled(4, 4), rows_of(2), rows_of(3)));
}

static lk_dataset *sampled(void)
{
    static const double weights[] = {1, 2};
    lk_dataset         *list[] = {shuffled(7, 4), rows_of(9)};
    return lk_dataset_sample_from(2, list, weights, .rerandomize_each_iteration = LK_ON);
}

static int64_t by_four(lk_tuple e, void *user)
{
    (void)user;
    return (int64_t)lk_item(e.item[1]) % 4;
}

static int64_t size_of(lk_tuple e, void *user)
{
    (void)user;
    return lk_dim(e.item[0], 0);
}

static lk_dataset *bucketed(void)
{
    static const int64_t bounds[] = {2}, sizes[] = {2, 3};
    return lk_dataset_bucket_by_sequence_length(lk_dataset_from_generator(uneven, NULL), size_of, 1, bounds, sizes);
}

static lk_dataset *in_shuffled_pairs(int64_t key, lk_dataset *window, void *user)
{
    (void)key, (void)user;
    return lk_dataset_batch(lk_dataset_shuffle(window, 3), 2);
}

static lk_tuple adds_up(lk_tuple state, lk_tuple e, void *user)
{
    (void)user;
    lk_tensor *sum = lk_add(state.item[0], e.item[0]);
    return LK_TUPLE(sum, sum, e.item[1]);
}

static const double shares[] = {0.125, 0.375, 0.25, 0.25};

static lk_dataset *stored(void)
{
    const char *path = temporary("stored");
    if (access(path, F_OK)) lk_dataset_save(rows_of(9), path);
    return lk_dataset_load(path);
}

/* One pipeline each; every operation is in one of them, most with a shuffle above and below. */
#define PIPELINES(X)                                                                                                               \
    X(lk_dataset_from_tensors(LK_TUPLE(lk_scalar(3))))                                                                             \
    X(rows_of(9))                                                                                                                  \
    X(lk_dataset_range(3, .stop = LK_NUMBER(30), .step = LK_NUMBER(4)))                                                            \
    X(lk_dataset_from_generator(uneven, NULL))                                                                                     \
    X(lk_dataset_shuffle(lk_dataset_from_generator(uneven, NULL), 4))                                                              \
    X(shuffled(9, 4))                                                                                                              \
    X(shuffled(9, 100))                                                                                                            \
    X(lk_dataset_shuffle(shuffled(9, 3), 3))                                                                                       \
    X(lk_dataset_shuffle(lk_dataset_range(12), 5))                                                                                 \
    X(lk_dataset_batch(shuffled(11, 4), 3))                                                                                        \
    X(lk_dataset_batch(shuffled(11, 4), 3, .drop_remainder = LK_ON))                                                               \
    X(lk_dataset_shuffle(lk_dataset_batch(rows_of(11), 2), 3))                                                                     \
    X(lk_dataset_padded_batch(lk_dataset_from_generator(uneven, NULL), 3))                                                         \
    X(lk_dataset_unbatch(lk_dataset_batch(shuffled(11, 5), 3)))                                                                    \
    X(lk_dataset_shuffle(lk_dataset_unbatch(lk_dataset_batch(rows_of(11), 3)), 4))                                                 \
    X(lk_dataset_take(shuffled(11, 5), 6))                                                                                         \
    X(lk_dataset_skip(shuffled(11, 5), 4))                                                                                         \
    X(lk_dataset_shuffle(lk_dataset_shard(rows_of(17), 3, 1), 3))                                                                  \
    X(lk_dataset_repeat(shuffled(4, 4), 3))                                                                                        \
    X(lk_dataset_take(lk_dataset_repeat(shuffled(4, 2)), 13))                                                                      \
    X(lk_dataset_repeat(lk_dataset_batch(shuffled(5, 5), 2), 2))                                                                   \
    X(lk_dataset_concatenate(shuffled(4, 4), rows_of(3)))                                                                          \
    X(lk_dataset_shuffle(lk_dataset_zip(rows_of(8), lk_dataset_range(8)), 3))                                                      \
    X(lk_dataset_shuffle(lk_dataset_zip(rows_of(8), rows_of(8)), 3))                                                               \
    X(lk_dataset_zip(shuffled(8, 3), shuffled(7, 4)))                                                                              \
    X(lk_dataset_shuffle(lk_dataset_enumerate(rows_of(8), 5), 4))                                                                  \
    X(lk_dataset_map(shuffled(9, 4), half))                                                                                        \
    X(lk_dataset_shuffle(lk_dataset_map(rows_of(9), half), 4))                                                                     \
    X(lk_dataset_shuffle(lk_dataset_map(lk_dataset_map(rows_of(9), half), half), 4))                                               \
    X(lk_dataset_shuffle(lk_dataset_map(rows_of(9), looks), 4))                                                                    \
    X(lk_dataset_map(shuffled(9, 4), looks, .parallel = 3))                                                                        \
    X(lk_dataset_map(shuffled(90, 40), half, .parallel = 2))                                                                       \
    X(lk_dataset_shuffle(lk_dataset_map(rows_of(40), half, .parallel = 2), 7))                                                     \
    X(lk_dataset_filter(shuffled(15, 5), is_odd, NULL))                                                                            \
    X(lk_dataset_shuffle(lk_dataset_filter(rows_of(15), is_odd, NULL), 4))                                                         \
    X(lk_dataset_prefetch(shuffled(9, 4), 3))                                                                                      \
    X(lk_dataset_batch(lk_dataset_prefetch(lk_dataset_map(lk_dataset_prefetch(shuffled(19, 4), 2), half), 3), 2))                  \
    X(lk_dataset_interleave(shuffled(5, 5), shuffled_rows, .cycle_length = 3, .block_length = 2))                                  \
    X(lk_dataset_shuffle(lk_dataset_interleave(rows_of(4), shuffled_rows), 4))                                                     \
    X(lk_dataset_cache(shuffled(9, 4)))                                                                                            \
    X(lk_dataset_shuffle(lk_dataset_cache(lk_dataset_map(rows_of(9), half)), 4))                                                   \
    X(lk_dataset_repeat(lk_dataset_shuffle(lk_dataset_cache(lk_dataset_batch(shuffled(9, 4), 2)), 3), 2))                          \
    X(lk_dataset_repeat(lk_dataset_cache(lk_dataset_map(shuffled(5, 5), looks)), 3))                                               \
    X(lk_dataset_prefetch(lk_dataset_cache(lk_dataset_batch(shuffled(9, 4), 2)), 3))                                               \
    X(lk_dataset_shuffle(lk_dataset_repeat(lk_dataset_cache(lk_dataset_batch(shuffled(9, 4), 2)), 2), 3))                          \
    X(lk_dataset_repeat(lk_dataset_take(lk_dataset_cache(shuffled(7, 4)), 3), 3))                                                  \
    X(lk_dataset_shuffle(lk_dataset_repeat(lk_dataset_take(lk_dataset_cache(lk_dataset_batch(shuffled(7, 4), 2)), 2), 3), 3))      \
    X(twice(lk_dataset_prefetch(rows_of(5), 3)))                                                                                   \
    X(twice(lk_dataset_cache(shuffled(7, 4))))                                                                                     \
    X(twice(lk_dataset_prefetch(lk_dataset_cache(lk_dataset_batch(shuffled(9, 9), 2)), 2)))                                        \
    X(lk_dataset_shuffle(twice(lk_dataset_cache(lk_dataset_batch(shuffled(9, 9), 2))), 4))                                         \
    X(lk_dataset_shuffle(lk_dataset_map(twice(lk_dataset_map(rows_of(5), half)), half), 4))                                        \
    X(lk_dataset_batch(lk_dataset_shuffle(lk_dataset_cache(lk_dataset_map(rows_of(12), half), .file = temporary("saved")), 5), 3)) \
    X(lk_dataset_window(shuffled(11, 4), 3, 2, 2))                                                                                 \
    X(lk_dataset_shuffle(lk_dataset_window(rows_of(11), 2, .shift = 5), 2))                                                        \
    X(lk_dataset_flat_map(shuffled(4, 4), shuffled_rows, NULL))                                                                    \
    X(lk_dataset_rebatch(lk_dataset_batch(shuffled(11, 5), 4), 3, LK_OFF))                                                         \
    X(lk_dataset_take_while(shuffled(15, 3), is_small, NULL))                                                                      \
    X(lk_dataset_unique(lk_dataset_concatenate(shuffled(9, 4), rows_of(12))))                                                      \
    X(chosen())                                                                                                                    \
    X(sampled())                                                                                                                   \
    X(lk_dataset_shuffle(lk_dataset_take(lk_dataset_random(), 9), 4))                                                              \
    X(lk_dataset_group_by_window(shuffled(15, 4), by_four, in_shuffled_pairs, 3))                                                  \
    X(lk_dataset_shuffle(lk_dataset_group_by_window(rows_of(15), by_four, in_shuffled_pairs, 3), 3))                               \
    X(bucketed())                                                                                                                  \
    X(lk_dataset_scan(shuffled(9, 4), LK_TUPLE(lk_zeros(LK_SHAPE(3), LK_F32)), adds_up, NULL))                                     \
    X(lk_dataset_shuffle(lk_dataset_rejection_resample(shuffled(25, 9), by_four, 4, shares), 3))                                   \
    X(lk_dataset_repeat(lk_dataset_rejection_resample(rows_of(25), by_four, 4, shares, shares), 2))                                \
    X(lk_dataset_shuffle(stored(), 4))

/* The k-th of the list. */
static lk_dataset *make(int wanted, const char **text)
{
    int k = 0;
#define X(pipeline)                                                                                                                \
    if (k++ == wanted) return *text = #pipeline, pipeline;
    PIPELINES(X)
#undef X
    return NULL;
}

static void forget_files(void) { remove(temporary("saved")); }

/* What an iterator gives from its second iteration's element `skip` on. */
static trail *rest_after(lk_dataset *d, int iterations, int skip, void **bytes, size_t *size)
{
    trail   *t = calloc(1, sizeof *t);
    lk_tuple e;
    for (int i = 0; i < iterations; i++)
        free(walk(d));
    lk_iterator *it = lk_iterator_of(d);
    for (int i = 0; i < skip; i++)
        if (!lk_next(it, &e)) break;
    assert_int_equal(lk_iterator_save(it, bytes, size), LK_OK);
    trail_rest(t, it, -1);
    lk_free(it);
    good();
    return t;
}

static void check_place(int k, int iterations, int skip)
{
    const char *text = "";
    void       *bytes = NULL;
    size_t      size = 0;
    trail      *want = NULL, *got = calloc(1, sizeof *got);
    forget_files();
    LK_POOL
        want = rest_after(make(k, &text), iterations, skip, &bytes, &size);
    forget_files();
    LK_POOL { /* another process: the pipeline is made again, its caches are empty */
        lk_iterator *it = lk_iterator_of(make(k, &text));
        if (lk_iterator_restore(it, bytes, size) != LK_OK) print_error("%s: %s\n", text, lk_error());
        good();
        trail_rest(got, it, -1);
        good();
        if (!same_trail(want, got)) print_error("%s, iteration %d, element %d: not the same\n", text, iterations, skip);
        assert_true(same_trail(want, got));
    }
    LK_POOL { /* the same one, in the middle of something else */
        lk_dataset  *d = make(k, &text);
        lk_iterator *it = lk_iterator_of(d);
        lk_tuple     e;
        for (int i = 0; i < 3; i++)
            if (!lk_next(it, &e)) break;
        assert_int_equal(lk_iterator_restore(it, bytes, size), LK_OK);
        memset(got, 0, sizeof *got);
        trail_rest(got, it, -1);
        good();
        if (!same_trail(want, got))
            print_error("%s, iteration %d, element %d: not the same in the middle\n", text, iterations, skip);
        assert_true(same_trail(want, got));
    }
    free(want);
    free(got);
    lk_free_bytes(bytes);
}

TEST(every_place_of_every_operation)
{
    const char *text;
    for (int k = 0;; k++) {
        int elements = 0;
        LK_POOL {
            lk_dataset *d = make(k, &text);
            if (d) {
                trail *t = walk(d);
                elements = t->elements + 1;
                free(t);
            }
        }
        if (!elements) break;
        for (int skip = 0; skip <= elements; skip += elements > 40 ? 7 : 1) {
            check_place(k, 0, skip);
            check_place(k, 2, skip);
        }
    }
    forget_files();
}

/* Saved when as much was read ahead as possible: a new pipeline continues with the same elements. */
static void goes_on(lk_dataset *(*anew)(void), int iterations, int skip)
{
    void  *bytes = NULL;
    size_t size = 0;
    trail *want = calloc(1, sizeof *want), *got = calloc(1, sizeof *got);
    LK_POOL {
        lk_dataset *d = anew();
        lk_tuple    e;
        for (int i = 0; i < iterations; i++)
            free(walk(d));
        lk_iterator *it = lk_iterator_of(d);
        for (int i = 0; i < skip; i++)
            assert_true(lk_next(it, &e));
        usleep(20000);
        assert_int_equal(lk_iterator_save(it, &bytes, &size), LK_OK);
        trail_rest(want, it, -1);
        good();
    }
    LK_POOL {
        lk_iterator *it = lk_iterator_of(anew());
        lk_iterator_restore(it, bytes, size);
        good();
        trail_rest(got, it, -1);
        good();
    }
    assert_true(same_trail(want, got));
    free(want);
    free(got);
    lk_free_bytes(bytes);
}

static lk_strategy *replicas;

static lk_dataset *cached_batches(void) { return lk_dataset_cache(lk_dataset_batch(lk_dataset_range(40), 4)); }
static lk_dataset *over_replicas(void) { return lk_distribute_dataset(replicas, cached_batches()); }
static lk_dataset *fetched(void) { return lk_dataset_prefetch(cached_batches(), 3); }

/* What was read ahead of a cache that collects is collected again. */
TEST(read_ahead_of_a_cache)
{
    LK_POOL
        for (int n = 1; n <= 2; n++) {
            replicas = lk_mirrored_strategy(.cpu_devices = n);
            for (int skip = 0; skip <= 10; skip += skip == 3 ? 5 : 1) {
                goes_on(over_replicas, 0, skip);
                goes_on(over_replicas, 1, skip);
            }
        }
    for (int skip = 0; skip <= 10; skip++)
        goes_on(fetched, 0, skip);
}

static lk_dataset *fetched_rows(void) { return lk_dataset_prefetch(rows_of(30), 4); }
static lk_dataset *same_twice(void) { return twice(fetched_rows()); }
static lk_dataset *two(void) { return lk_dataset_concatenate(fetched_rows(), fetched_rows()); }
static lk_dataset *cache_twice(void) { return twice(lk_dataset_cache(shuffled(20, 20))); }
static lk_dataset *fetched_cache_twice(void)
{
    return twice(lk_dataset_prefetch(lk_dataset_cache(lk_dataset_batch(shuffled(20, 20), 2)), 3));
}

/* A dataset that is in a pipeline twice, whatever was saved before. */
TEST(one_dataset_twice)
{
    for (int skip = 3; skip < 60; skip += 16) {
        goes_on(two, 0, 35);
        goes_on(same_twice, 0, skip);
    }
    for (int skip = 1; skip < 40; skip += 12)
        for (int iterations = 0; iterations < 3; iterations++)
            goes_on(cache_twice, iterations, skip);
    for (int skip = 1; skip < 20; skip += 5)
        for (int iterations = 0; iterations < 3; iterations++)
            goes_on(fetched_cache_twice, iterations, skip);
}

static lk_dataset *cache_elsewhere(void) /* collected alone, then used after another shuffle */
{
    lk_dataset *c = lk_dataset_cache(shuffled(20, 20));
    free(walk(c));
    return lk_dataset_concatenate(shuffled(5, 5), c);
}

static lk_dataset *cache_behind(void) { return lk_dataset_concatenate(shuffled(5, 5), lk_dataset_cache(shuffled(20, 20))); }

/* What another pipeline collected comes in the same order. */
TEST(a_cache_filled_elsewhere)
{
    for (int skip = 0; skip < 26; skip += 4) {
        void  *bytes = NULL;
        size_t size = 0;
        trail *want = NULL, *got = calloc(1, sizeof *got);
        LK_POOL {
            want = rest_after(cache_elsewhere(), 0, skip, &bytes, &size);
            lk_iterator *it = lk_iterator_of(cache_behind());
            assert_int_equal(lk_iterator_restore(it, bytes, size), LK_OK);
            trail_rest(got, it, -1);
            good();
        }
        assert_true(same_trail(want, got));
        free(want);
        free(got);
        lk_free_bytes(bytes);
    }
}

/* The iterations that follow a restored one are those that would have followed. */
TEST(iterations_go_on)
{
    void  *bytes = NULL;
    size_t size = 0;
    trail *want = NULL, *got = NULL;
    LK_POOL {
        lk_dataset *d = shuffled(20, 20);
        free(walk(d));
        lk_iterator *it = lk_iterator_of(d);
        assert_int_equal(lk_iterator_save(it, &bytes, &size), LK_OK);
        want = walk(d);
    }
    LK_POOL {
        lk_dataset  *d = shuffled(20, 20);
        lk_iterator *it = lk_iterator_of(d);
        assert_int_equal(lk_iterator_restore(it, bytes, size), LK_OK);
        got = walk(d);
    }
    assert_true(same_trail(want, got));
    free(want);
    free(got);
    lk_free_bytes(bytes);
}

/* The seed is the saved one's. */
TEST(the_seed_is_saved)
{
    const uint64_t seed = lk_random_seed();
    void          *bytes = NULL;
    size_t         size = 0;
    trail         *want = NULL, *got = calloc(1, sizeof *got);
    LK_POOL {
        lk_set_random_seed(99);
        want = rest_after(shuffled(20, 5), 0, 7, &bytes, &size);
        lk_set_random_seed(seed);
        lk_iterator *it = lk_iterator_of(shuffled(20, 5));
        assert_int_equal(lk_iterator_restore(it, bytes, size), LK_OK);
        trail_rest(got, it, -1);
    }
    assert_true(same_trail(want, got));
    free(want);
    free(got);
    lk_free_bytes(bytes);
}

/* Rows in memory are saved as references: a thousand rows of 12 bytes, or of 12 kilobytes, take the same room. */
TEST(rows_are_saved_as_references)
{
    LK_POOL {
        lk_dataset  *wide = lk_dataset_from_tensor_slices(LK_TUPLE(lk_zeros(LK_SHAPE(1000, 3000), LK_F32)));
        lk_iterator *it =
            lk_iterator_of(lk_dataset_batch(lk_dataset_shuffle(lk_dataset_map(lk_dataset_zip(wide, wide), half), 1000), 10));
        lk_tuple e;
        void    *bytes;
        size_t   size;
        assert_true(lk_next(it, &e));
        assert_int_equal(lk_iterator_save(it, &bytes, &size), LK_OK);
        assert_true(size < 990 * 16);
        lk_free_bytes(bytes);
    }
}

/* ---- what must be refused ---- */

static void set_checksum(uint8_t *bytes, size_t size)
{
    const uint32_t crc = lki_crc32c_mask(lki_crc32c(0, bytes + 12, size - 12));
    for (int i = 0; i < 4; i++)
        bytes[8 + i] = (uint8_t)(crc >> (8 * i));
}

static void must_fail(lk_iterator *it, const void *bytes, size_t size, lk_status code, const char *words)
{
    lk_tuple e;
    assert_int_equal(lk_iterator_restore(it, bytes, size), code);
    failed_with(code, words);
    assert_false(lk_next(it, &e)); /* it is of no use until it is restored */
    failed_with(code, words);
}

TEST(wrong_bytes)
{
    LK_POOL {
        lk_iterator *it = lk_iterator_of(lk_dataset_batch(shuffled(9, 4), 2)),
                    *other = lk_iterator_of(lk_dataset_batch(shuffled(9, 4), 3));
        void  *bytes;
        size_t size;
        assert_int_equal(lk_iterator_save(it, &bytes, &size), LK_OK);
        must_fail(other, bytes, size, LK_EINVAL, "another pipeline");
        must_fail(it, bytes, size - 1, LK_EFORMAT, "the checksum is wrong");
        must_fail(it, bytes, 7, LK_EFORMAT, "LKITER02");
        must_fail(it, NULL, 0, LK_EFORMAT, "LKITER02");
        must_fail(it, "LKITER01--------------", 22, LK_EFORMAT, "LKITER02");
        assert_int_equal(lk_iterator_restore(it, bytes, size), LK_OK);
        lk_tuple e;
        assert_true(lk_next(it, &e));
        lk_free_bytes(bytes);
        assert_int_equal(lk_iterator_save(NULL, &bytes, &size), LK_EINVAL);
        failed_with(LK_EINVAL, "the iterator is NULL");
        assert_int_equal(lk_iterator_restore(NULL, "", 0), LK_EINVAL);
        failed_with(LK_EINVAL, "the iterator is NULL");
    }
}

/* Bytes that are wrong and have the right checksum: an error or an iteration, never a crash or a leak. */
TEST(hostile_bytes)
{
    const char   *text;
    uint32_t      random = 1;
    const int64_t before = lki_memory_in_use();
    for (int k = 0;; k++) {
        bool some = false;
        LK_POOL {
            lk_dataset *d = make(k, &text);
            some = d != NULL;
            if (some) {
                void        *bytes;
                size_t       size;
                lk_iterator *it = lk_iterator_of(d);
                lk_tuple     e;
                for (int i = 0; i < 3; i++)
                    if (!lk_next(it, &e)) break;
                assert_int_equal(lk_iterator_save(it, &bytes, &size), LK_OK);
                uint8_t *changed = malloc(size);
                for (int i = 0; i < 300; i++) {
                    memcpy(changed, bytes, size);
                    for (int n = 0; n < 1 + i % 3; n++) {
                        random = random * 1664525 + 1013904223;
                        changed[20 + (random >> 8) % (size - 20)] = (uint8_t)(i % 2 ? 255 : random >> 24);
                    }
                    size_t cut = i % 5 ? size : 20 + (random >> 8) % (size - 20);
                    set_checksum(changed, cut);
                    if (lk_iterator_restore(it, changed, cut) == LK_OK)
                        for (int n = 0; n < 50 && lk_next(it, &e); n++) {}
                    lk_clear_error();
                }
                free(changed);
                lk_free_bytes(bytes);
            }
        }
        if (!some) break;
        forget_files();
    }
    assert_int_equal(lki_memory_in_use(), before);
}

/* A batch that was begun over a shuffle that was not: what the shuffle then read was kept for ever. */
TEST(begun_over_what_was_not)
{
    static const uint8_t lies[] = {1, 1, 0, 7, 0, 0, 0, 0, 0, 0x98, 0, 1, 0, 0};
    const int64_t        before = lki_memory_in_use();
    LK_POOL {
        lk_dataset  *parts = lk_dataset_concatenate(lk_dataset_range(7), lk_dataset_range(5));
        lk_iterator *it = lk_iterator_of(lk_dataset_batch(lk_dataset_shuffle(parts, 4), 3));
        lk_tuple     e;
        void        *bytes;
        size_t       size;
        assert_int_equal(lk_iterator_save(it, &bytes, &size), LK_OK);
        uint8_t changed[20 + sizeof lies];
        memcpy(changed, bytes, 20);
        memcpy(changed + 20, lies, sizeof lies);
        set_checksum(changed, sizeof changed);
        assert_int_equal(lk_iterator_restore(it, changed, sizeof changed), LK_OK);
        assert_false(lk_next(it, &e));
        failed_with(LK_EFORMAT, "lk_dataset_shuffle: read before it was begun");
        lk_free_bytes(bytes);
    }
    assert_int_equal(lki_memory_in_use(), before);
}

TESTS(cmocka_unit_test(every_place_of_every_operation), cmocka_unit_test(read_ahead_of_a_cache),
      cmocka_unit_test(one_dataset_twice), cmocka_unit_test(a_cache_filled_elsewhere), cmocka_unit_test(iterations_go_on),
      cmocka_unit_test(the_seed_is_saved), cmocka_unit_test(rows_are_saved_as_references), cmocka_unit_test(wrong_bytes),
      cmocka_unit_test(hostile_bytes), cmocka_unit_test(begun_over_what_was_not))
