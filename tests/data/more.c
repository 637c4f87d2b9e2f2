/* Windows, groups, choices and the other operations that TensorFlow has too: their elements are those of TensorFlow 2.21, unless
 * they are drawn at random. */
#include "folder.h"
#include "pipes.h"
#include <math.h>

/* Tensors of any shape, flattened. */
#define ELEMENTS(d, n) elements_are(d, n)

static void elements_are(lk_dataset *d, int count)
{
    int at = 0;
    assert_non_null(d);
    LK_FOR_EACH(e, d)
        at += e.count > 0;
    good();
    assert_int_equal(at, count);
}

static lk_dataset *range(int64_t n) { return lk_dataset_range(n, .dtype = LK_I64); }

/* ---- windows ---- */

TEST(windows)
{
    LK_POOL {
        GIVES(lk_dataset_window(range(7), 3), 0, 1, 2, 3, 4, 5, 6);
        SIZES(lk_dataset_window(range(7), 3), 3, 3, 1);
        SIZES(lk_dataset_window(range(7), 3, .drop_remainder = LK_ON), 3, 3);
        GIVES(lk_dataset_window(range(10), 3, 2, 2), 0, 2, 4, 2, 4, 6, 4, 6, 8, 6, 8, 8);
        GIVES(lk_dataset_window(range(10), 3, 2, 2, LK_ON), 0, 2, 4, 2, 4, 6, 4, 6, 8);
        GIVES(lk_dataset_window(range(9), 2, .shift = 4), 0, 1, 4, 5, 8);
        GIVES(lk_dataset_window(range(6), 4, .shift = 1), 0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 4, 5, 5);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_window(range(10), 3, 2, 2)), 5);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_window(range(10), 3, 2, 2, LK_ON)), 3);
        assert_int_equal(lk_dataset_cardinality(lk_dataset_window(range(2), 3, .drop_remainder = LK_ON)), 0);
        GIVES(lk_dataset_batch(lk_dataset_window(range(6), 2), 2), 0, 1, 2, 3, 4, 5);
        SIZES(lk_dataset_rebatch(lk_dataset_batch(range(10), 4), 3, LK_OFF), 3, 3, 3, 1);
        SIZES(lk_dataset_rebatch(lk_dataset_batch(range(10), 4), 3, LK_ON), 3, 3, 3);
        assert_null(lk_dataset_window(range(3), 0));
        failed_with(LK_EINVAL, "size 0");
    }
}

/* ---- groups ---- */

static int64_t     by_three(lk_tuple e, void *user) { return (void)user, (int64_t)lk_item(e.item[0]) % 3; }
static int64_t     even_last(lk_tuple e, void *user) { return (void)user, -((int64_t)lk_item(e.item[0]) % 2); }
static lk_dataset *in_pairs(int64_t key, lk_dataset *window, void *user)
{
    return (void)key, (void)user, lk_dataset_batch(window, 2);
}
static int64_t     one_more(int64_t key, void *user) { return (void)user, key + 1; }
static lk_dataset *nothing(int64_t key, lk_dataset *window, void *user) { return (void)key, (void)window, (void)user, NULL; }

static int lengths(int64_t index, lk_tuple *element, void *user)
{
    static const int64_t n[] = {1, 4, 2, 6, 3, 1, 5, 2};
    (void)user;
    if (index < 8) *element = LK_TUPLE(lk_add(lk_range(n[index], LK_F32), lk_scalar(1)));
    return index < 8;
}

static int64_t length_of(lk_tuple e, void *user) { return (void)user, lk_dim(e.item[0], 0); }

static lk_dataset *bucketed(lk_switch drops)
{
    static const int64_t boundaries[] = {3, 5}, sizes[] = {2, 2, 1}, others[] = {2, 2, 2};
    return lk_dataset_bucket_by_sequence_length(lk_dataset_from_generator(lengths, NULL), length_of, 2, boundaries,
                                                drops == LK_ON ? others : sizes, .drop_remainder = drops);
}

TEST(groups)
{
    LK_POOL {
        GIVES(lk_dataset_group_by_window(range(10), by_three, in_pairs, 2), 0, 3, 1, 4, 2, 5, 6, 9, 7, 8);
        GIVES(lk_dataset_group_by_window(range(11), even_last, in_pairs, 4), 0, 2, 4, 6, 1, 3, 5, 7, 9, 8, 10);
        GIVES(lk_dataset_group_by_window(range(8), by_three, in_pairs, .window_size_fn = one_more), 0, 3, 1, 4, 6, 7, 2, 5);
        GIVES(bucketed(LK_OFF), 1, 0, 1, 2, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 1, 2, 3, 0, 1, 2, 3, 4, 5, 1, 0, 1, 2);
        GIVES(bucketed(LK_ON), 1, 0, 1, 2, 1, 2, 3, 4, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 0, 1, 0, 1, 2);
        NOTHING(lk_dataset_group_by_window(range(0), by_three, in_pairs, 2));
        assert_null(lk_dataset_group_by_window(range(4), by_three, in_pairs));
        failed_with(LK_EINVAL, "window_size");
        lk_tuple e;
        assert_int_equal(lk_next(lk_iterator_of(lk_dataset_group_by_window(range(4), by_three, nothing, 1)), &e), 0);
        failed_with(LK_EINVAL, "what the function returned");
    }
}

/* ---- choices ---- */

static lk_dataset *choices(void)
{
    return lk_dataset_from_tensor_slices(
        LK_TUPLE(lk_tensor_from(LK_SHAPE(11), LK_I64, (int64_t[]){0, 1, 2, 0, 1, 1, 2, 0, 0, 0, 0})));
}

static lk_dataset *chosen(lk_switch stops)
{
    return lk_dataset_choose_from(choices(), stops,
                                  LK_DATASETS(range(3), lk_dataset_range(10, .stop = 12, .dtype = LK_I64),
                                              lk_dataset_range(20, .stop = 25, .dtype = LK_I64)));
}

static lk_dataset *sampled(const double *weights, lk_switch stops, lk_switch anew)
{
    lk_dataset *list[] = {range(300), lk_dataset_range(1000, .stop = 1300, .dtype = LK_I64)};
    return lk_dataset_sample_from(2, list, weights, 7, stops, anew);
}

static double share_of_second(lk_dataset *d, int first)
{
    double       count = 0;
    lk_tuple     e;
    lk_iterator *it = lk_iterator_of(d);
    for (int i = 0; i < first && lk_next(it, &e); i++)
        count += lk_item(e.item[0]) >= 1000;
    return count / first;
}

TEST(a_choice_between_datasets)
{
    static const double weights[] = {1, 3}, none[] = {0, 0}, one[] = {1, 0};
    LK_POOL {
        GIVES(chosen(LK_ON), 0, 10, 20, 1, 11);
        GIVES(chosen(LK_OFF), 0, 10, 20, 1, 11, 21, 2);
        ELEMENTS(sampled(NULL, LK_OFF, LK_OFF), 600);
        assert_true(fabs(share_of_second(sampled(NULL, LK_OFF, LK_OFF), 300) - 0.5) < 0.1);
        assert_true(fabs(share_of_second(sampled(weights, LK_OFF, LK_OFF), 300) - 0.75) < 0.1);
        ELEMENTS(sampled(one, LK_ON, LK_OFF), 300);
        lk_dataset *same = sampled(NULL, LK_ON, LK_OFF), *other = sampled(NULL, LK_ON, LK_ON);
        trail      *a = walk(same), *b = walk(same), *c = walk(other), *d = walk(other);
        assert_true(same_trail(a, b) && !same_trail(c, d));
        assert_true(a->elements > 300 && a->elements < 600);
        free(a), free(b), free(c), free(d);
        assert_null(sampled(none, LK_OFF, LK_OFF));
        failed_with(LK_EINVAL, "all weights are 0");
        lk_tuple e;
        assert_int_equal(lk_next(lk_iterator_of(lk_dataset_choose_from(range(3), LK_ON, LK_DATASETS(range(1)))), &e), 1);
    }
}

TEST(random_numbers)
{
    LK_POOL {
        lk_dataset *d = lk_dataset_take(lk_dataset_random(.seed = 3), 2000);
        trail      *a = walk(d), *b = walk(d), *c = walk(lk_dataset_take(lk_dataset_random(.seed = 4), 2000));
        double      mean = 0;
        for (int i = 1; i < a->count; i += 2) {
            assert_true(a->value[i] >= 0 && a->value[i] < 0x1p32 && a->value[i] == floor(a->value[i]));
            mean += a->value[i] / 2000;
        }
        assert_true(fabs(mean / 0x1p31 - 1) < 0.05);
        assert_true(same_trail(a, b) && !same_trail(a, c));
        free(a), free(b), free(c);
    }
}

static int64_t low_or_high(lk_tuple e, void *user) { return (void)user, (int64_t)lk_item(e.item[0]) % 10 == 0; }

/* One of ten is of class 1, and half should be. */
TEST(resampling)
{
    static const double target[] = {0.5, 0.5}, initial[] = {0.9, 0.1};
    LK_POOL {
        for (int known = 0; known < 2; known++) {
            double count[2] = {0};
            LK_FOR_EACH(e, lk_dataset_rejection_resample(range(5000), low_or_high, 2, target, known ? initial : NULL, 5)) {
                assert_int_equal(e.count, 2);
                const int class = (int)lk_item(e.item[0]);
                assert_int_equal(class, (int)lk_item(e.item[1]) % 10 == 0);
                count[class]++;
            }
            good();
            assert_true(count[1] > 450 && fabs(count[0] / count[1] - 1) < 0.15);
        }
        assert_null(lk_dataset_rejection_resample(range(3), low_or_high, 2, (double[]){0.9, 0.9}));
        lk_clear_error();
    }
}

/* ---- the rest ---- */

static int         below_four(lk_tuple e, void *user) { return (void)user, lk_item(e.item[0]) < 4; }
static lk_dataset *up_to(lk_tuple e, void *user) { return (void)user, range((int64_t)lk_item(e.item[0])); }

static lk_tuple running(lk_tuple state, lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(state.item[0], e.item[0]), lk_add(lk_mul(state.item[0], lk_cast(lk_scalar(10), LK_I64)), e.item[0]));
}

static lk_tuple forgets(lk_tuple state, lk_tuple e, void *user) { return (void)user, (void)e, state; }
static lk_tuple grows(lk_tuple state, lk_tuple e, void *user)
{
    (void)user, (void)state;
    return LK_TUPLE(lk_ones(LK_SHAPE(2), LK_I64), e.item[0]);
}

static lk_tuple one(void) { return LK_TUPLE(lk_ones(LK_SHAPE(), LK_I64)); }

TEST(others)
{
    lk_tuple e;
    LK_POOL {
        GIVES(lk_dataset_flat_map(lk_dataset_range(1, .stop = 4, .dtype = LK_I64), up_to, NULL), 0, 0, 1, 0, 1, 2);
        GIVES(lk_dataset_take_while(range(10), below_four, NULL), 0, 1, 2, 3);
        GIVES(lk_dataset_scan(range(6), one(), running, NULL), 10, 11, 22, 43, 74, 115);
        lk_tensor *x = lk_tensor_from(LK_SHAPE(7), LK_I32, (int32_t[]){1, 37, 2, 37, 2, 1, 3});
        GIVES(lk_dataset_unique(lk_dataset_from_tensor_slices(LK_TUPLE(x))), 1, 37, 2, 3);
        const lk_shape odd = {1, {2, 77, 99}}; /* sizes after the last axis mean nothing */
        lk_dataset    *same =
            lk_dataset_concatenate(lk_dataset_from_tensors(LK_TUPLE(lk_tensor_from(odd, LK_I32, (int32_t[]){1, 2}))),
                                   lk_dataset_from_tensors(LK_TUPLE(lk_tensor_from(LK_SHAPE(2), LK_I32, (int32_t[]){1, 2}))));
        GIVES(lk_dataset_unique(same), 1, 2);
        ELEMENTS(lk_dataset_unique(lk_dataset_concatenate(range(1000), range(1500))), 1500);
        assert_int_equal((int)lk_item(lk_dataset_get_single_element(lk_dataset_skip(range(5), 4)).item[0]), 4);
        assert_int_equal(lk_dataset_get_single_element(range(2)).count, 0);
        failed_with(LK_EINVAL, "more than one");
        assert_int_equal(lk_dataset_get_single_element(range(0)).count, 0);
        failed_with(LK_EINVAL, "no element");
        assert_int_equal(lk_next(lk_iterator_of(lk_dataset_scan(range(2), one(), forgets, NULL)), &e), 0);
        failed_with(LK_EINVAL, "at least one more");
        assert_int_equal(lk_next(lk_iterator_of(lk_dataset_scan(range(2), one(), grows, NULL)), &e), 0);
        failed_with(LK_ESHAPE, "new state");
    }
}

TEST(saved_and_loaded)
{
    char folder[64];
    snprintf(folder, sizeof folder, "%s", folder_new());
    LK_POOL {
        char path[96];
        snprintf(path, sizeof path, "%s/rows", folder);
        assert_int_equal(lk_dataset_save(lk_dataset_from_generator(lengths, NULL), path), LK_OK);
        lk_dataset *d = lk_dataset_load(path);
        assert_int_equal(lk_dataset_cardinality(d), 8);
        trail *a = walk(d), *b = walk(lk_dataset_from_generator(lengths, NULL));
        assert_true(same_trail(a, b));
        free(a), free(b);
        snprintf(path, sizeof path, "%s/other", folder);
        assert_null(lk_dataset_load(path));
        failed_with(LK_ENOTFOUND, "is not there");
    }
    folder_remove(folder);
}

static void touch(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

TEST(lists_of_files)
{
    char folder[64], pattern[2][96];
    snprintf(folder, sizeof folder, "%s", folder_new());
    touch(folder, "b.txt"), touch(folder, "a.txt"), touch(folder, "c.csv");
    snprintf(pattern[0], sizeof pattern[0], "%s/*.txt", folder);
    snprintf(pattern[1], sizeof pattern[1], "%s/?.csv", folder);
    LK_POOL {
        int  at = 0;
        char last = 0;
        LK_FOR_EACH(e, lk_dataset_list_files(LK_FILES(pattern[1], pattern[0]), LK_OFF)) {
            const char   *name = lk_data(e.item[0]);
            const int64_t size = lk_dim(e.item[0], 0);
            assert_memory_equal(name, folder, strlen(folder));
            assert_true(name[size - 5] > last);
            last = name[size - 5];
            at++;
        }
        good();
        assert_int_equal(at, 3);
        ELEMENTS(lk_dataset_list_files(LK_FILES(pattern[0]), .seed = 3), 2);
        snprintf(pattern[0], sizeof pattern[0], "%s/*.npz", folder);
        assert_null(lk_dataset_list_files(LK_FILES(pattern[0])));
        failed_with(LK_ENOTFOUND, "no file matches");
    }
    folder_remove(folder);
}

TESTS(cmocka_unit_test(windows), cmocka_unit_test(groups), cmocka_unit_test(a_choice_between_datasets),
      cmocka_unit_test(random_numbers), cmocka_unit_test(resampling), cmocka_unit_test(others), cmocka_unit_test(saved_and_loaded),
      cmocka_unit_test(lists_of_files))
