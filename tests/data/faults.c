/* Every allocation fails in turn, in every operation, on every thread: reported as LK_ENOMEM, nothing is leaked. */
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

static lk_dataset *inner(lk_tuple e, void *user)
{
    (void)e, (void)user;
    return lk_dataset_shuffle(lk_dataset_range(3), 3);
}

static void silence(const char *text, void *user) { (void)text, (void)user; }

static lk_dataset *own(const lk_input_context *c, void *user)
{
    (void)c, (void)user;
    return lk_dataset_batch(lk_dataset_range(3), 1);
}

static lk_strategy *two;

#define PIPELINES(X)                                                                                                               \
    X(lk_dataset_batch(lk_dataset_shuffle(rows_of(5), 3), 2))                                                                      \
    X(lk_dataset_batch(lk_dataset_map(rows_of(5), half), 2))                                                                       \
    X(lk_dataset_map(lk_dataset_batch(rows_of(5), 2), half))                                                                       \
    X(lk_dataset_filter(lk_dataset_map(rows_of(5), looks), is_odd, NULL) ? lk_dataset_map(rows_of(5), looks) : NULL)               \
    X(lk_dataset_filter(lk_dataset_map(rows_of(5), half), is_odd, NULL))                                                           \
    X(lk_dataset_padded_batch(rows_of(5), 2))                                                                                      \
    X(lk_dataset_unbatch(lk_dataset_batch(rows_of(5), 2)))                                                                         \
    X(lk_dataset_repeat(lk_dataset_take(lk_dataset_skip(lk_dataset_shard(rows_of(9), 2, 1), 1), 2), 2))                            \
    X(lk_dataset_batch(lk_dataset_zip(rows_of(3), lk_dataset_range(3)), 2))                                                        \
    X(lk_dataset_batch(                                                                                                            \
        lk_dataset_shuffle(lk_dataset_concatenate(lk_dataset_map(lk_dataset_range(3), NULL_SAFE), lk_dataset_range(3)), 4), 3))    \
    X(lk_dataset_enumerate(rows_of(3), 1))                                                                                         \
    X(lk_dataset_interleave(lk_dataset_range(3), inner, .cycle_length = 2))                                                        \
    X(lk_dataset_repeat(lk_dataset_cache(lk_dataset_map(rows_of(3), half)), 2))                                                    \
    X(lk_dataset_repeat(lk_dataset_cache(lk_dataset_map(rows_of(3), half), .file = temporary("fault")), 2))                        \
    X(lk_dataset_prefetch(lk_dataset_batch(lk_dataset_map(rows_of(5), half), 2), 2))                                               \
    X(lk_dataset_map(rows_of(5), looks, .parallel = 2))                                                                            \
    X(lk_dataset_batch(lk_dataset_map(rows_of(5), half, .parallel = 2), 2))                                                        \
    X(lk_text_line_dataset(LK_FILES(temporary("lines"))))                                                                          \
    X(lk_distribute_dataset(two, lk_dataset_batch(rows_of(5), 2)))                                                                 \
    X(lk_distribute_dataset(two, lk_dataset_batch(rows_of(5), 2), .split = LK_SPLIT_STREAM, .prefetch = LK_NUMBER(0)))             \
    X(lk_distribute_dataset(two, lk_dataset_batch(rows_of(5), 2), .split = LK_SPLIT_EVEN, .auto_shard = LK_SHARD_OFF,              \
                            .workers = 2))                                                                                         \
    X(lk_distribute_datasets_from_function(two, own))

static lk_tuple same(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(e.item[0], lk_scalar(0)));
}
#define NULL_SAFE same

static int which;

static lk_dataset *make(void)
{
    int k = 0;
#define X(pipeline)                                                                                                                \
    if (k++ == which) return pipeline;
    PIPELINES(X)
#undef X
    return NULL;
}

static int reads_it_all(void)
{
    int elements = 0, whole = 0;
    remove(temporary("fault"));
    LK_POOL {
        lk_dataset *d = make();
        whole = d != NULL;
        if (d)
            LK_FOR_EACH(e, d)
                elements += e.count;
    }
    return whole && elements && !lk_failed();
}

/* Saved in the middle, restored, read to the end. */
static int saves_and_restores(void)
{
    int good_so_far = 0;
    remove(temporary("fault"));
    LK_POOL {
        lk_dataset  *d = make();
        lk_iterator *it = d ? lk_iterator_of(d) : NULL, *other = it ? lk_iterator_of(d) : NULL;
        void        *bytes = NULL;
        size_t       size = 0;
        lk_tuple     e;
        if (other && lk_next(it, &e) && lk_iterator_save(it, &bytes, &size) == LK_OK &&
            lk_iterator_restore(other, bytes, size) == LK_OK)
            for (good_so_far = 1; lk_next(other, &e);) {}
        lk_free_bytes(bytes);
    }
    return good_so_far && !lk_failed();
}

TEST(every_allocation)
{
    write_file(temporary("lines"), "one\ntwo\n", 8);
    lk_set_log(silence, NULL);
    LK_POOL {
        two = lk_mirrored_strategy(.cpu_devices = 2);
        for (which = 0;; which++) {
            bool some = false;
            LK_POOL
                some = make() != NULL;
            if (!some) break;
            good();
            LK_POOL {
                assert_true(reads_it_all()); /* what is made once for the process is made now */
                assert_true(saves_and_restores());
            }
            assert_true(check_every_allocation(reads_it_all) > 3);
            assert_true(check_every_allocation(saves_and_restores) > 3);
        }
        assert_true(which > 15);
    }
    lk_set_log(NULL, NULL);
    remove(temporary("fault"));
}

static lk_tuple add_up(lk_tuple state, lk_tuple element, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(state.item[0], lk_reduce_sum(element.item[0])));
}

static int reduces(void)
{
    int right = 0;
    LK_POOL {
        lk_dataset *d = lk_dataset_batch(lk_dataset_range(5), 2);
        lk_tuple    out = d ? lk_dataset_reduce(d, LK_TUPLE(lk_scalar(0)), add_up) : (lk_tuple){0};
        right = out.count == 1 && !lk_failed() && lk_item(out.item[0]) == 10;
    }
    return right;
}

TEST(reduce)
{
    assert_true(reduces());
    assert_true(check_every_allocation(reduces) > 3);
}

TESTS(cmocka_unit_test(every_allocation), cmocka_unit_test(reduce))
