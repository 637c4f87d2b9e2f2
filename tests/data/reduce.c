/* A whole dataset through one function. */
#include "pipes.h"
#include <lockstep/step.h>

static void silence(const char *text, void *user) { (void)text, (void)user; }

static lk_tuple add_up(lk_tuple state, lk_tuple element, void *user)
{
    if (user) ++*(int *)user;
    return LK_TUPLE(lk_add(state.item[0], lk_reduce_sum(element.item[0])), lk_add(state.item[1], lk_scalar(1)));
}

static lk_tuple grows(lk_tuple state, lk_tuple element, void *user)
{
    (void)user;
    return LK_TUPLE(state.item[0], element.item[0]);
}

TEST(sums)
{
    LK_POOL {
        int      calls = 0;
        lk_tuple out =
            lk_dataset_reduce(lk_dataset_batch(lk_dataset_range(40), 4), LK_TUPLE(lk_scalar(0), lk_scalar(0)), add_up, &calls);
        good();
        assert_true(lk_item(out.item[0]) == 780 && lk_item(out.item[1]) == 10);
        assert_true(calls <= 2); /* traced, not run: once for plain numbers, once for what they became */
        out = lk_dataset_reduce(lk_dataset_range(0), LK_TUPLE(lk_scalar(7)), grows);
        assert_true(out.count == 1 && lk_item(out.item[0]) == 7);
        out = lk_dataset_reduce(lk_dataset_range(3), LK_TUPLE(lk_scalar(7)), grows);
        assert_int_equal(out.count, 0);
        failed_with(LK_EINVAL, "returned 2 tensors; the state has 1");
        lk_dataset_reduce(NULL, LK_TUPLE(lk_scalar(7)), grows);
        failed_with(LK_EINVAL, "the dataset is NULL");
        lk_dataset_reduce(lk_dataset_range(3), LK_TUPLE(), grows);
        failed_with(LK_EINVAL, ".initial is empty");
        lk_dataset_reduce(lk_dataset_range(3), LK_TUPLE(lk_scalar(7)));
        failed_with(LK_EINVAL, "the function is missing");
        counting breaks = {.end = 9, .fail = 4};
        lk_dataset_reduce(lk_dataset_from_generator(count_up, &breaks), LK_TUPLE(lk_scalar(0), lk_scalar(0)), add_up);
        failed_with(LK_ESHAPE, "reshape");
    }
}

/* Memory does not grow with the number of elements. */
TEST(many_elements)
{
    LK_POOL {
        lk_dataset_reduce(lk_dataset_range(10), LK_TUPLE(lk_scalar(0), lk_scalar(0)), add_up);
        const int64_t before = lki_memory_in_use();
        lk_tuple      out = lk_dataset_reduce(lk_dataset_range(1000), LK_TUPLE(lk_scalar(0), lk_scalar(0)), add_up);
        assert_true(lk_item(out.item[1]) == 1000);
        assert_true(lki_memory_in_use() - before < 4096);
    }
    good();
}

static lk_strategy *two;

static lk_tuple replica_sum(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_reduce_sum(in.item[0]));
}

static lk_tuple add_distributed(lk_tuple state, lk_tuple element, void *user)
{
    lk_tuple parts = lk_run(two, replica_sum, element, user);
    return LK_TUPLE(lk_add(state.item[0], lk_reduce(two, LK_SUM, parts.item[0])), lk_add(state.item[1], lk_scalar(1)));
}

TEST(over_replicas)
{
    LK_POOL {
        lk_set_log(silence, NULL);
        two = lk_mirrored_strategy(.cpu_devices = 2);
        lk_set_log(NULL, NULL);
        lk_dataset *d = lk_distribute_dataset(two, lk_dataset_batch(lk_dataset_range(42), 8));
        lk_tuple    out = lk_dataset_reduce(d, LK_TUPLE(lk_scalar(0), lk_scalar(0)), add_distributed);
        good();
        assert_true(lk_item(out.item[0]) == 861 && lk_item(out.item[1]) == 6);
    }
}

TESTS(cmocka_unit_test(sums), cmocka_unit_test(many_elements), cmocka_unit_test(over_replicas))
