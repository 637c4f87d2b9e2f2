/* Constructors of lists with NULL, too few or too many items: an error and nothing else. */
#include "check.h"
#include "fit/hooks.h"
#include <lockstep.h>

static void is_refused(const char *call)
{
    if (!lk_failed() || !*lk_error()) fail_msg("%s takes NULL without an error", call);
    lk_clear_error();
}

#define REFUSED(call)                                                                                                              \
    do {                                                                                                                           \
        call;                                                                                                                      \
        is_refused(#call);                                                                                                         \
    } while (0)

TEST(lists_from_null_are_errors)
{
    LK_POOL {
        static const int counts[] = {3, -1, 1};
        for (int i = 0; i < LKI_COUNT(counts); i++) {
            const int n = counts[i];
            REFUSED((void)lk_shape_of(n, NULL));
            REFUSED((void)lk_axes_of(n, NULL));
            REFUSED((void)lk_tuple_of(n, NULL));
            REFUSED((void)lk_tuple_from(n, NULL));
            REFUSED((void)lk_variables_of(n, NULL));
            REFUSED((void)lk_variables_from(n, NULL));
            REFUSED((void)lk_names_of(n, NULL));
            REFUSED((void)lk_layers_of(n, NULL));
            REFUSED((void)lk_nodes_of(n, NULL));
            REFUSED((void)lk_metrics_of(n, NULL));
            REFUSED((void)lk_losses_of(n, NULL));
            REFUSED((void)lk_callbacks_of(n, NULL));
            REFUSED((void)lk_numbers_of(n, NULL));
            REFUSED(assert_null(lk_sequential_of("a", n, NULL)));
            REFUSED(assert_null(lk_dataset_zip_of(n, NULL)));
            REFUSED(assert_null(lk_checkpoint_from(n, NULL)));
            REFUSED(assert_null(lk_apply_to(lk_dense(1), n, NULL)));
            REFUSED(assert_null(lk_dataset_parse_example(lk_dataset_range(3), 0, n, NULL)));
            REFUSED(assert_true(lk_poisoned(lk_tensor_of_values(LK_SHAPE(3), n, NULL))));
        }
    }
}

TEST(what_is_made_of_null_is_empty_or_invalid)
{
    LK_POOL {
        assert_int_equal(lk_shape_of(3, NULL).rank, -1);
        assert_int_equal(lk_layers_of(3, NULL).count, 0);
        assert_int_equal(lk_variables_of(3, NULL).count, 0);
        assert_int_equal(lk_numbers_of(3, NULL).count, 0);
        lk_clear_error();
        assert_int_equal(lk_shape_of(0, NULL).rank, 0); /* nothing is read */
        assert_int_equal(lk_tuple_of(0, NULL).count, 0);
        assert_int_equal(lk_names_of(0, NULL).count, 0);
        assert_false(lk_failed());
    }
}

/* A shape of nine sizes, made by hand: LK_SHAPE() refuses to. */
TEST(initialisers_refuse_a_shape_of_nine_sizes)
{
    lk_tensor *(*const draw[])(lk_shape, const char *) = {lk_glorot_uniform, lk_glorot_normal, lk_he_uniform, lk_he_normal};
    const lk_shape nine = {.rank = 9};
    LK_POOL {
        for (int i = 0; i < LKI_COUNT(draw); i++)
            LK_STEP
                REFUSED(assert_true(lk_poisoned(draw[i](nine, "s"))));
    }
}

TEST(errors_name_the_call_that_was_made)
{
    LK_POOL {
        const lk_shape nine = {.rank = 9};
        lk_zeros(nine, LK_F32);
        refused(LK_ESHAPE, "lk_zeros: ");
        lk_ones(nine, LK_F32);
        refused(LK_ESHAPE, "lk_ones: ");
        lk_fill(nine, LK_F32, 2);
        refused(LK_ESHAPE, "lk_fill: ");
    }
}

TEST(an_item_past_the_end_of_a_tuple_is_printed_with_a_reason)
{
    LK_POOL {
        const lk_tuple t = LK_TUPLE(lk_scalar(1));
        lk_print(t.item[1]);
        assert_ptr_equal(strstr(said, "poisoned: lk_print: the tensor is poisoned: "), said);
        assert_non_null(strstr(said, "past the end of its tuple"));
        refused(LK_EINVAL, "past the end of its tuple");
    }
}

TESTS(HOOK_TEST(lists_from_null_are_errors), HOOK_TEST(what_is_made_of_null_is_empty_or_invalid),
      HOOK_TEST(initialisers_refuse_a_shape_of_nine_sizes), HOOK_TEST(errors_name_the_call_that_was_made),
      HOOK_TEST(an_item_past_the_end_of_a_tuple_is_printed_with_a_reason))
