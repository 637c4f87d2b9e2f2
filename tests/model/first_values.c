/* First values of weights are computed when they are first read, and never if other values are assigned before. */
#include "core/memory.h"
#include "model/refused.h"
#include <lockstep.h>
#include <string.h>

static lk_layer *layers(int which)
{
    if (which == 0) return lk_dense(7, .input_shape = LK_SHAPE(5), .kernel_initializer = lk_init_he_normal(), .name = "first");
    if (which == 1)
        return lk_dense(9, .kernel_initializer = lk_init_orthogonal(), .bias_initializer = lk_init_ones(), .name = "second");
    return lk_dense(3, .kernel_initializer = lk_init_random_normal(.seed = LK_NUMBER(4)), .name = "third");
}

static lk_model *made(void) { return lk_sequential_named("m", layers(0), layers(1), layers(2)); }

static void quiet(const char *text, void *user) { (void)text, (void)user; }

static lk_digest digest_of(lk_model *m) { return lk_variables_digest(lk_model_variables(m)); }

/* The seed that counts is that of when the model was built. */
TEST(the_same_at_once_and_later)
{
    LK_POOL {
        lk_model *now = made(), *later = made(), *backwards = made();
        lk_digest first = digest_of(now);
        lk_set_random_seed(99);
        lk_variables v = lk_model_variables(backwards);
        for (int i = v.count; i-- > 0;)
            assert_non_null(lk_data(lk_read(v.item[i])));
        assert_true(lk_digest_equal(digest_of(later), first));
        assert_true(lk_digest_equal(digest_of(backwards), first));
        assert_false(lk_digest_equal(digest_of(made()), first));
        lk_set_random_seed(20240229);
        assert_true(same_bits(lk_read(v.item[0]), lk_he_normal(LK_SHAPE(5, 7), "m/first/kernel")));
    }
}

static lk_tuple reads_all(lk_tuple args, void *variables)
{
    const lk_variables *v = variables;
    lk_tensor          *item[8];
    (void)args;
    for (int i = 0; i < v->count; i++)
        item[i] = lk_add(lk_read(v->item[i]), lk_scalar(0));
    return LK_TUPLE(item[0], item[1], item[2], item[3], item[4], item[5]);
}

/* Replicas may all ask at the same time. */
TEST(the_same_under_a_strategy)
{
    lk_set_log(quiet, NULL);
    for (int round = 0; round < 20; round++)
        LK_POOL {
            lk_variables here = lk_model_variables(made()), there = {0};
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 4);
            LK_SCOPE(s)
                there = lk_model_variables(made());
            assert_int_equal(there.count, 6);
            lk_tuple seen = lk_run(s, reads_all, LK_TUPLE(), &there);
            for (int i = 0; i < 6; i++)
                for (int r = 0; r < 4; r++)
                    assert_true(same_bits(lk_local_results(s, seen.item[i]).item[r], lk_add(lk_read(here.item[i]), lk_scalar(0))));
            assert_true(lk_digest_equal(lk_variables_digest(there), lk_variables_digest(here)));
        }
    lk_set_log(NULL, NULL);
}

/* ---- what writes before anybody has read ---- */

TEST(written_before_it_is_read)
{
    LK_POOL {
        lk_variable *v = lk_model_variables(made()).item[0], *w = lk_model_variables(made()).item[0];
        lk_tensor   *first = lk_he_normal(LK_SHAPE(5, 7), "m/first/kernel"), *twos = lk_fill(LK_SHAPE(5, 7), LK_F32, 2);
        assert_int_equal(lk_assign(v, twos), LK_OK);
        assert_true(same_bits(lk_read(v), twos));
        assert_int_equal(lk_assign_add(w, twos), LK_OK);
        assert_true(same_bits(lk_read(w), lk_add(first, twos)));
        lk_variable *x = lk_model_variables(made()).item[0];
        assert_int_equal(lk_scatter_update(x, lk_cast(lk_tensor_of(LK_SHAPE(1), 4), LK_I64), lk_zeros(LK_SHAPE(1, 7), LK_F32)),
                         LK_OK);
        assert_true(same_bits(lk_slice(lk_read(x), LK_AXES(0, 0), LK_AXES(4, 7)), lk_slice(first, LK_AXES(0, 0), LK_AXES(4, 7))));
    }
}

/* ---- memory ---- */

TEST(nothing_is_made_until_somebody_looks)
{
    LK_POOL {
        const int64_t before = lki_memory_in_use();
        lk_model     *m = lk_sequential(lk_dense(1 << 16, .input_shape = LK_SHAPE(1 << 16)), lk_embedding(1 << 16, 1 << 16));
        assert_non_null(m);
        assert_true(lk_model_count_params(m) == ((int64_t)1 << 33) + (1 << 16));
        assert_non_null(lk_model_to_json(m));
        assert_true(lki_memory_in_use() - before < 1 << 16);
    }
}

static int look(void)
{
    bool good = false;
    LK_POOL {
        lk_model    *m = made();
        lk_variables v = m ? lk_model_variables(m) : (lk_variables){0};
        good = v.count == 6 && lk_data(lk_read(v.item[2])) != NULL;
    }
    return good;
}

TEST(every_allocation_may_fail) { assert_true(check_every_allocation(look) > 8); }

TEST(one_that_could_not_be_made_is_made_at_the_next_try)
{
    LK_POOL {
        lk_variable *v = lk_model_variables(made()).item[2];
        lki_memory_fail_after(1);
        assert_true(lk_poisoned(lk_read(v)));
        lki_memory_fail_after(0);
        assert_int_equal(lk_error_code(), LK_ENOMEM);
        lk_clear_error();
        assert_int_equal(lk_dim(lk_read(v), 0), 7);
        assert_non_null(lk_data(lk_read(v)));
    }
}

TESTS(cmocka_unit_test(the_same_at_once_and_later), cmocka_unit_test(the_same_under_a_strategy),
      cmocka_unit_test(written_before_it_is_read), cmocka_unit_test(nothing_is_made_until_somebody_looks),
      cmocka_unit_test(every_allocation_may_fail), cmocka_unit_test(one_that_could_not_be_made_is_made_at_the_next_try))
