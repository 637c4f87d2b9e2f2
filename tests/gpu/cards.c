/* Several cards: a mirrored strategy over 2, 3, 4 and 8 of them ends with the bits of one, and so do logical GPUs of several cards;
 * CPU and GPU together end close to one device. */
#include "small.h"

static void everywhere(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy();
    NEED(lk_num_replicas_in_sync(s) == lki_gpu_devices());
    if (arg) NEED(lki_gpu_devices() == *(const int *)arg);
    small_fit(s, LK_OFF, out);
}

static void everywhere_in_a_loop(const void *arg, outcome *out)
{
    (void)arg;
    small_loop(lk_mirrored_strategy(), false, out);
}

static void everywhere_op_by_op(const void *arg, outcome *out)
{
    (void)arg;
    small_loop(lk_mirrored_strategy(), true, out);
}

TEST(fit_on_several_cards_is_the_same)
{
    static const int counts[] = {2, 3, 4, 8};
    outcome          one, many;
    CHILD(everywhere, &(int){1}, &one, .cards = 1);
    for (int i = 0; i < LKI_COUNT(counts); i++) {
        char what[64];
        snprintf(what, sizeof what, "fit on 1 and %d cards", counts[i]);
        if (CHILD(everywhere, &counts[i], &many, .cards = counts[i])) same_outcome(&one, &many, what);
    }
    if (CHILD(everywhere, &(int){4}, &many, .cards = 2, .logical = 2))
        same_outcome(&one, &many, "fit on 2 cards of 2 logical GPUs");
}

TEST(a_loop_on_several_cards_is_the_same)
{
    outcome one, many;
    CHILD(everywhere_in_a_loop, NULL, &one, .cards = 1);
    if (CHILD(everywhere_in_a_loop, NULL, &many, .cards = 2)) same_outcome(&one, &many, "a loop on 2 cards");
    if (CHILD(everywhere_in_a_loop, NULL, &many, .cards = 4)) same_outcome(&one, &many, "a loop on 4 cards");
    if (CHILD(everywhere_op_by_op, NULL, &many, .cards = 2)) same_outcome(&one, &many, "a loop, op by op, on 2 cards");
    if (CHILD(everywhere_op_by_op, NULL, &many, .cards = 3)) same_outcome(&one, &many, "a loop, op by op, on 3 cards");
}

/* ---- some of them, in any order ---- */

static void backwards(const void *arg, outcome *out)
{
    (void)arg;
    lk_strategy *s = lk_mirrored_strategy(.devices = LK_DEVICES("GPU:2", "GPU:0"));
    NEED(lk_num_replicas_in_sync(s) == 2);
    small_fit(s, LK_OFF, out);
    NEED(lki_gpu_memory_of(lki_device_gpu_at(1)).used == 0); /* it was not used */
}

static void second_card(const void *arg, outcome *out)
{
    (void)arg;
    small_fit(lk_one_device_strategy("GPU:1"), LK_OFF, out);
    NEED(lki_gpu_memory_of(lki_device_gpu_at(0)).used == 0);
}

TEST(cards_in_any_order)
{
    outcome one, other;
    CHILD(everywhere, NULL, &one, .cards = 1);
    if (CHILD(backwards, NULL, &other, .cards = 3)) same_outcome(&one, &other, "GPU:2 and GPU:0");
    if (CHILD(second_card, NULL, &other, .cards = 2)) same_outcome(&one, &other, "GPU:1 alone");
}

/* ---- with the CPU ---- */

static void mixed(const void *arg, outcome *out)
{
    const bool   first = *(const int *)arg;
    lk_strategy *s = first ? lk_mirrored_strategy(.devices = LK_DEVICES("GPU:0", "CPU:0"))
                           : lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "GPU:0"));
    NEED(lk_num_replicas_in_sync(s) == 2);
    small_loop(s, false, out);
}

TEST(cpu_and_gpu_together)
{
    outcome one, both;
    CHILD(everywhere_in_a_loop, NULL, &one, .cards = 1);
    for (int first = 0; first < 2; first++) {
        CHILD(mixed, &first, &both, .cards = 1);
        close_outcome(&one, &both, 1e-5, "one GPU, and GPU and CPU");
    }
}

static void mixed_fit(const void *arg, outcome *out)
{
    (void)arg;
    small_fit(lk_mirrored_strategy(.devices = LK_DEVICES("CPU:0", "GPU:0", "CPU:1")), LK_OFF, out);
}

TEST(fit_on_cpu_and_gpu_together)
{
    outcome one, both;
    CHILD(everywhere, NULL, &one, .cards = 1);
    CHILD(mixed_fit, NULL, &both, .cards = 1);
    close_outcome(&one, &both, 1e-4, "one GPU, and GPU and CPUs");
}

/* ---- values between cards ---- */

static lk_tuple square_of_each(lk_tuple in, void *user)
{
    (void)user;
    lk_tensor *y = lk_mul(in.item[0], in.item[0]);
    return LK_TUPLE(y, lk_all_reduce(lk_get_replica_context(), LK_SUM, y),
                    lk_all_gather(lk_get_replica_context(), lk_reshape(y, LK_SHAPE(1)), 0));
}

static lk_tensor *number_of(const lk_value_context *c, void *user)
{
    (void)user;
    return lk_fill(LK_SHAPE(), LK_F32, c->replica_id_in_sync_group + 1);
}

static void values(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_strategy *s = lk_mirrored_strategy();
    lk_tuple     y = lk_run(s, square_of_each, LK_TUPLE(lk_values_from_function(s, number_of, NULL)));
    SOUND();
    lk_tuple each = lk_local_results(s, y.item[0]), sums = lk_local_results(s, y.item[1]), all = lk_local_results(s, y.item[2]);
    NEED(each.count == 3);
    for (int r = 0; r < 3; r++) {
        NEED(lk_item(each.item[r]) == (r + 1) * (r + 1));
        NEED(lk_item(sums.item[r < sums.count ? r : 0]) == 14);
        const float *g = lk_data(all.item[r < all.count ? r : 0]);
        NEED(g && g[0] == 1 && g[1] == 4 && g[2] == 9);
    }
    NEED(fabs(lk_item(lk_reduce(s, LK_MEAN, y.item[0])) - 14.0 / 3) < 1e-6);
    NEED(((const float *)lk_data(lk_gather_values(
             s, lk_run(s, square_of_each, LK_TUPLE(lk_values_from_function(s, number_of, NULL))).item[2])))[8] == 9);
    /* a mirrored variable, assigned outside */
    lk_variable *v = NULL;
    LK_SCOPE(s)
        v = lk_variable_of(lk_fill(LK_SHAPE(4), LK_F32, 2));
    NEED(lk_assign_add(v, lk_fill(LK_SHAPE(4), LK_F32, 3)) == LK_OK);
    lk_tuple parts = lk_local_variables(s, v);
    NEED(parts.count == 3);
    for (int r = 0; r < 3; r++)
        NEED(((const float *)lk_data(parts.item[r]))[3] == 5);
    SOUND();
}

TEST(values_go_between_cards)
{
    CHILD(values, NULL, NULL, .cards = 3);
    CHILD(values, NULL, NULL, .logical = 3);
}

/* ---- a bad label, on one card of two ---- */

static void bad_label(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    int64_t y[ROWS];
    memcpy(y, lk_data(small_labels()), sizeof y);
    y[BATCH - 1] = -1; /* a row of the second card */
    lk_model  *m = small_compiled(lk_mirrored_strategy(), LK_OFF);
    lk_digest  before = lk_variables_digest(lk_model_trainable_variables(m));
    lk_tensor *bad = lk_tensor_from(LK_SHAPE(ROWS), LK_I64, y);
    lk_model_fit(m, lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(small_rows(), bad)), BATCH), .epochs = 1,
                 .verbose = LK_SILENT);
    TOLD(LK_EINVAL, "label");
    if (simulated()) NEED(lk_digest_equal(before, lk_variables_digest(lk_model_trainable_variables(m))));
    lk_model_fit(m, small_data(), .epochs = 1, .verbose = LK_SILENT);
    SOUND();
}

TEST(a_bad_label_on_one_card) { CHILD(bad_label, NULL, NULL, .cards = 2); }

TESTS(cmocka_unit_test(fit_on_several_cards_is_the_same), cmocka_unit_test(a_loop_on_several_cards_is_the_same),
      cmocka_unit_test(cards_in_any_order), cmocka_unit_test(cpu_and_gpu_together), cmocka_unit_test(fit_on_cpu_and_gpu_together),
      cmocka_unit_test(values_go_between_cards), cmocka_unit_test(a_bad_label_on_one_card))
