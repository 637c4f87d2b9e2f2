/* Map: functions that run over many rows give the bits of row after row; others are called for each row; threads keep the order. */
#include "data/data.h"
#include "pipes.h"
#include <pthread.h>

/* ---- functions that can be run over many rows ---- */

static lk_tuple scale(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_div(lk_cast(e.item[0], LK_F32), lk_scalar(255)), e.item[1]);
}

static lk_tuple wave(lk_tuple e, void *user)
{
    (void)user;
    lk_tensor *x = lk_cast(e.item[0], LK_F32);
    return LK_TUPLE(lk_tanh(lk_add(lk_mul(lk_sin(x), lk_tensor_of(LK_SHAPE(3), 0.3, -1.7, 11)), lk_exp(lk_neg(lk_abs(x))))),
                    lk_sqrt(lk_cast(e.item[1], LK_F64)));
}

static lk_tuple reshaped(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_reshape(lk_clip(e.item[0], 1, 20), LK_SHAPE(3, 1)), lk_one_hot(e.item[1], 5));
}

static lk_tuple picked(lk_tuple e, void *user)
{
    (void)user;
    lk_tensor *big = lk_greater(e.item[0], lk_scalar(15));
    return LK_TUPLE(lk_where(big, e.item[0], lk_neg(e.item[0])), lk_add(e.item[1], e.item[1]), big);
}

static lk_tuple halves(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_mul(lk_cast(e.item[0], LK_F16), lk_scalar(0.1)), lk_mod(e.item[1], lk_fill(LK_SHAPE(), LK_I64, 3)));
}

/* ---- and functions that cannot ---- */

static lk_tuple sums(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_reduce_sum(e.item[0]), e.item[1]);
}

static lk_tuple looks(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_fill(LK_SHAPE(2), LK_F32, lk_item(e.item[1]) * 2));
}

static lk_tuple constant(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(e.item[0], lk_tensor_of(LK_SHAPE(2), 4, 5));
}

static lk_tuple wider(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(lk_cast(e.item[1], LK_F32), lk_tensor_of(LK_SHAPE(3), 1, 2, 3)));
}

static lk_tuple ranks(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(e.item[0], lk_cast(e.item[1], LK_F32)));
}

static lk_variable *factor;

static lk_tuple reads(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_mul(e.item[0], lk_read(factor)));
}

static const struct {
    lk_fn fn;
    bool  many;
} functions[] = {{scale, true},  {wave, true},      {reshaped, true}, {picked, true}, {halves, true}, {sums, false},
                 {looks, false}, {constant, false}, {wider, false},   {ranks, false}, {reads, false}};

/* One element at a time, by hand. */
static trail *by_hand(lk_dataset *d, lk_fn fn)
{
    trail *t = calloc(1, sizeof *t);
    LK_FOR_EACH(e, d)
        trail_element(t, fn(e, NULL));
    good();
    return t;
}

static void compare(lk_dataset *rows, lk_fn fn)
{
    trail *want = by_hand(rows, fn), *got = walk(lk_dataset_map(rows, fn));
    assert_true(same_trail(want, got));
    free(got);
    got = walk(lk_dataset_unbatch(lk_dataset_batch(lk_dataset_map(rows, fn), 4)));
    assert_true(same_trail(want, got));
    free(got);
    for (int parallel = 2; parallel < 5; parallel++) {
        got = walk(lk_dataset_map(rows, fn, .parallel = parallel));
        assert_true(same_trail(want, got));
        free(got);
    }
    free(want);
}

static int generated(int64_t index, lk_tuple *element, void *user)
{
    (void)user;
    *element = LK_TUPLE(lk_tensor_of(LK_SHAPE(3), (double)index, 5.25, (double)-index), lk_fill(LK_SHAPE(), LK_I64, (double)index));
    return index < 11;
}

TEST(same_values_in_every_way)
{
    LK_POOL {
        factor = lk_variable_of(lk_scalar(2.5));
        for (int i = 0; i < LKI_COUNT(functions); i++) {
            compare(rows_of(13), functions[i].fn);
            compare(lk_dataset_shard(rows_of(29), 3, 1), functions[i].fn);
            compare(lk_dataset_from_generator(generated, NULL), functions[i].fn);
            compare(lk_dataset_concatenate(rows_of(3), lk_dataset_unbatch(lk_dataset_batch(rows_of(8), 3))), functions[i].fn);
            compare(lk_dataset_zip(lk_dataset_map(rows_of(6), sums), lk_dataset_range(6)), sums);
        }
    }
}

TEST(which_run_over_many)
{
    LK_POOL {
        factor = lk_variable_of(lk_scalar(2.5));
        lk_tensor *example[] = {lk_tensor_of(LK_SHAPE(3), 1, 2, 3), lk_fill(LK_SHAPE(), LK_I64, 2)};
        for (int i = 0; i < LKI_COUNT(functions); i++) {
            lki_vector *v = lki_vector_of(functions[i].fn, NULL, 2, example);
            assert_int_equal(v != NULL, functions[i].many);
            assert_false(lk_failed());
            lki_vector_drop(v);
        }
    }
}

/* Many rows cost one call of the function, and nothing before they are needed. */
static lk_tuple counted(lk_tuple e, void *user)
{
    ++*(int *)user;
    return LK_TUPLE(lk_add(e.item[0], lk_scalar(1)));
}

TEST(rows_are_computed_together)
{
    LK_POOL {
        int calls = 0;
        GIVES(lk_dataset_batch(lk_dataset_map(lk_dataset_from_tensor_slices(LK_TUPLE(lk_range(6, LK_F32))), counted, &calls), 3), 1,
              2, 3, 4, 5, 6);
        assert_int_equal(calls, 1);
        calls = 0;
        SIZES(lk_dataset_map(lk_dataset_batch(lk_dataset_range(5), 2), counted, &calls), 2, 2, 1);
        assert_int_equal(calls, 3); /* batches know what their rows are, so the function sees each */
    }
}

static lk_tuple keeps_rows(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_mul(e.item[0], lk_scalar(2)));
}

TEST(batches_stay_batches)
{
    LK_POOL
        LK_FOR_EACH(e, lk_dataset_map(lk_dataset_batch(lk_dataset_range(5), 4), keeps_rows)) {
            assert_int_equal(e.item[0]->rows.kind, LKI_ROWS);
            assert_int_equal(e.item[0]->rows.global, 4);
        }
    good();
}

/* Mapped rows of several datasets, mixed by a shuffle. */
TEST(mixtures)
{
    LK_POOL {
        lk_dataset *a = lk_dataset_map(lk_dataset_range(10), counted, &(int){0}),
                   *b = lk_dataset_map(lk_dataset_map(lk_dataset_range(10), counted, &(int){0}), counted, &(int){0});
        lk_dataset *c = lk_dataset_range(10),
                   *all = lk_dataset_batch(lk_dataset_shuffle(lk_dataset_concatenate(lk_dataset_concatenate(a, b), c), 30), 7);
        double sum = 0;
        LK_FOR_EACH(e, all)
            sum += lk_item(lk_reduce_sum(e.item[0]));
        good();
        assert_true(sum == 45 + 10 + 45 + 20 + 45);
    }
}

/* ---- mistakes ---- */

static lk_tuple third_fails(lk_tuple e, void *user)
{
    (void)user;
    return lk_item(e.item[0]) == 3 ? LK_TUPLE(lk_reshape(e.item[0], LK_SHAPE(2))) : e;
}

static lk_tuple returns_nothing(lk_tuple e, void *user)
{
    (void)e, (void)user;
    return LK_TUPLE();
}

static void reads_three_then_fails(lk_dataset *d)
{
    lk_tuple     e;
    lk_iterator *it = lk_iterator_of(d);
    for (int i = 0; i < 3; i++)
        assert_true(lk_next(it, &e));
    assert_false(lk_next(it, &e));
    failed_with(LK_ESHAPE, "reshape");
    lk_free(it);
}

TEST(mistakes)
{
    LK_POOL {
        lk_tuple e;
        for (int parallel = 0; parallel < 4; parallel++) {
            reads_three_then_fails(lk_dataset_map(lk_dataset_range(50), third_fails, .parallel = parallel));
            reads_three_then_fails(lk_dataset_prefetch(lk_dataset_map(lk_dataset_range(50), third_fails, .parallel = parallel), 2));
        }
        lk_iterator *it = lk_iterator_of(lk_dataset_map(lk_dataset_range(5), returns_nothing));
        assert_false(lk_next(it, &e));
        failed_with(LK_EINVAL, "what the function returned: an element of 0 tensors");
        REFUSED(lk_dataset_map(lk_dataset_range(5), NULL), LK_EINVAL, "the function is missing");
        REFUSED(lk_dataset_map(lk_dataset_range(5), scale, .parallel = -1), LK_EINVAL, ".parallel = -1");
        REFUSED(lk_dataset_map(NULL, scale), LK_EINVAL, "the dataset is NULL");
    }
}

/* ---- threads ---- */

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t  all;
    int             here, wanted;
} meeting;

/* Returns only when this many are in here at the same time. */
static lk_tuple meet(lk_tuple e, void *user)
{
    meeting     *m = user;
    const double x = lk_item(e.item[0]); /* asks for a value, so it runs row by row */
    if (lk_failed()) return e;           /* while it is traced */
    pthread_mutex_lock(&m->lock);
    if (++m->here >= m->wanted) pthread_cond_broadcast(&m->all);
    while (m->here < m->wanted)
        pthread_cond_wait(&m->all, &m->lock);
    pthread_mutex_unlock(&m->lock);
    return LK_TUPLE(lk_scalar(x * 10));
}

TEST(elements_are_computed_at_the_same_time)
{
    LK_POOL {
        meeting m = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 3};
        GIVES(lk_dataset_map(lk_dataset_range(6), meet, &m, .parallel = 3), 0, 10, 20, 30, 40, 50);
    }
}

/* An iterator let go in the middle: threads end, nothing is lost. */
TEST(left_early)
{
    const int64_t before = lki_memory_in_use();
    LK_POOL
        for (int i = 0; i < 20; i++)
            LK_FOR_EACH(e, lk_dataset_prefetch(lk_dataset_map(lk_dataset_prefetch(rows_of(50), 3), looks, .parallel = 3), 2)) {
                if (e.count && i % 5 == 0) break;
                if (lk_size(e.item[0])) break;
            }
    good();
    assert_int_equal(lki_memory_in_use(), before);
}

TESTS(cmocka_unit_test(same_values_in_every_way), cmocka_unit_test(which_run_over_many),
      cmocka_unit_test(rows_are_computed_together), cmocka_unit_test(batches_stay_batches), cmocka_unit_test(mixtures),
      cmocka_unit_test(mistakes), cmocka_unit_test(elements_are_computed_at_the_same_time), cmocka_unit_test(left_early))
