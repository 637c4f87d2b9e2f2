/* Members of several "processes", each a thread with a runtime, a strategy and a model of its own, train one model together: every
 * member has the bits of one alone, for any number of members, by any carrier, and whatever the number of threads of each.
 *
 * What cannot be cut for members runs op by op, on all rows. An index out of range is an error on all members, which go on after
 * it. A member that leaves is an error on the others. */
#include "check.h"
#include "comm/loop_carrier.h"
#include "core/runtime.h"
#include "dist/strategy.h"
#include "step/models.h"
#include <unistd.h>

typedef enum kind { BASIC, CUSTOM, NORMALISED, WORDS, KINDS } kind;

typedef struct job {
    kind        of;
    int         members, first, threads, lanes, epochs;
    bool        bad_id;
    int64_t     pack, limit; /* .limit: bytes that member 1 has for a second fit, in batches of another size */
    double      seconds;
    const void *meeting;
    lk_digest   digest, before;
    lk_status   code; /* of the last fit */
    char        text[512], told[16384];
    bool        failed;
    pthread_t   thread;
} job;

/* How plans run; not the tasks of each. */
static void listen(const char *text, void *user)
{
    job *j = user;
    if (strstr(text, "plan: phase")) return;
    strncat(j->told, text, sizeof j->told - strlen(j->told) - 1);
}

/* ---- what is trained ---- */

static lk_model *model_of(kind k)
{
    switch (k) {
    case BASIC:
        return lk_sequential(lk_conv2d(32, 3, .activation = LK_RELU, .input_shape = LK_SHAPE(28, 28, 1)), lk_max_pooling2d(),
                             lk_flatten(), lk_dense(64, .activation = LK_RELU), lk_dense(10));
    case CUSTOM:
        return lk_sequential(
            lk_conv2d(32, 3, .activation = LK_RELU, .kernel_regularizer = lk_l2(1e-5), .input_shape = LK_SHAPE(28, 28, 1)),
            lk_max_pooling2d(), lk_conv2d(64, 3, .activation = LK_RELU, .kernel_regularizer = lk_l2(1e-5)), lk_max_pooling2d(),
            lk_flatten(), lk_dense(64, .activation = LK_RELU), lk_dense(10));
    case NORMALISED:
        return lk_sequential(lk_conv2d(8, 3, .input_shape = LK_SHAPE(28, 28, 1)), lk_batch_normalization(),
                             lk_activation_layer(LK_RELU), lk_max_pooling2d(.pool_size = 4), lk_flatten(), lk_dropout(0.3),
                             lk_dense(24), lk_batch_normalization(), lk_dense(10));
    case WORDS:
        return lk_sequential(lk_embedding(50, 12, .input_shape = LK_SHAPE(9)), lk_layer_normalization(), lk_flatten(),
                             lk_dense(10));
    case KINDS: break;
    }
    return NULL;
}

/* 100 rows in batches of 32: the last one is short. */
static lk_dataset *data_of(const job *j, int batch)
{
    enum { ROWS = 100 };
    lk_tensor *x =
        j->of == WORDS
            ? lk_cast(lk_mul(lk_random_uniform(LK_SHAPE(ROWS, 9), .stream = "x"), lk_scalar(j->bad_id ? 50.3 : 49.9)), LK_I32)
            : lk_random_uniform(LK_SHAPE(ROWS, 28, 28, 1), .stream = "x");
    lk_tensor *y = lk_mul(lk_random_uniform(LK_SHAPE(ROWS), .stream = "y"), lk_scalar(9.99));
    return lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x, lk_cast(y, LK_I32))), batch);
}

static void compile(lk_model *m)
{
    lk_model_compile(m, .optimizer = lk_adam(.clipnorm = 1), .loss = lk_sparse_categorical_crossentropy(.from_logits = true),
                     .metrics = LK_METRICS(lk_accuracy()));
}

static void train_with_limit(const job *j, lk_model *m)
{
    lk_runtime *r = lk_runtime_of(.memory_limit = j->first == 1 ? j->limit : 1 << 30);
    lk_dataset *data = data_of(j, 20);
    LK_WITH_RUNTIME(r) lk_model_fit(m, data, .epochs = 1, .verbose = LK_SILENT);
}

static void train(job *j)
{
    lk_strategy *s =
        lk_mirrored_strategy(.cpu_devices = 1, .communication = {.bytes_per_pack = j->pack, .timeout_seconds = j->seconds});
    lk_model *m = NULL;
    if (j->members > 1) { /* as a strategy of several processes does */
        s->context[0].ops.sending.members = j->members;
        s->context[0].ops.sending.first = j->first;
        s->context[0].ops.sending.meeting = j->meeting;
    }
    LK_SCOPE(s) {
        m = model_of(j->of);
        compile(m);
    }
    j->before = lk_model_digest(m);
    lk_model_fit(m, data_of(j, 32), .epochs = j->epochs, .verbose = LK_SILENT);
    if (j->limit) train_with_limit(j, m);
    j->code = lk_error_code();
    snprintf(j->text, sizeof j->text, "%s", lk_error());
    if (j->bad_id) {
        lk_clear_error();
        j->bad_id = false;
        lk_model_fit(m, data_of(j, 32), .epochs = j->epochs, .verbose = LK_SILENT);
    }
    j->digest = lk_model_digest(m);
}

static void *run(void *arg)
{
    job *j = arg;
    LK_POOL {
        lk_runtime *r = lk_runtime_of(.seed = 5, .threads = j->threads, .lanes = j->lanes, .log = listen, .user = j);
        LK_WITH_RUNTIME(r) train(j);
    }
    j->failed = lk_failed();
    lk_clear_error();
    return NULL;
}

/* ---- alone, and together ---- */

static job alone(job is)
{
    is.members = 1;
    pthread_create(&is.thread, NULL, run, &is);
    pthread_join(is.thread, NULL);
    return is;
}

static void together(int members, job is, job *all)
{
    is.members = members;
    is.meeting = all;
    for (int i = 0; i < members; i++) {
        all[i] = is;
        all[i].first = i;
        all[i].threads = is.threads ? is.threads : 1 + i % 3;
        pthread_create(&all[i].thread, NULL, run, &all[i]);
    }
    for (int i = 0; i < members; i++)
        pthread_join(all[i].thread, NULL);
}

/* Both signatures, of a whole batch and the short one, are cut for members. */
static void were_cut(const job *j)
{
    char words[40];
    snprintf(words, sizeof words, "%d members, 1 of them here", j->members);
    const char *first = strstr(j->told, words);
    if (!first || !strstr(first + 1, words) || strstr(j->told, "op by op")) fail_msg("member %d: %s", j->first, j->told);
}

static void same_bits(job is, const int *counts, int n)
{
    static job all[MOST];
    const job  one = alone(is);
    assert_int_equal(one.code, LK_OK);
    for (int i = 0; i < n; i++) {
        together(counts[i], is, all);
        for (int k = 0; k < counts[i]; k++) {
            if (all[k].code != LK_OK || all[k].failed) fail_msg("member %d of %d: %s", k, counts[i], all[k].text);
            were_cut(&all[k]);
            assert_true(lk_digest_equal(all[k].digest, one.digest));
        }
    }
}

static const int COUNTS[] = {2, 3, 5, 8};

static void each_kind(const int *counts, int n)
{
    for (kind k = BASIC; k < KINDS; k++)
        same_bits((job){.of = k, .lanes = 8, .threads = 1, .epochs = 2, .seconds = 60}, counts, n);
}

TEST(any_number_of_members_has_the_bits_of_one) { each_kind(COUNTS, LKI_COUNT(COUNTS)); }

TEST(members_may_have_different_numbers_of_threads)
{
    same_bits((job){.of = NORMALISED, .lanes = 16, .epochs = 2, .seconds = 60}, COUNTS, 2);
    same_bits((job){.of = CUSTOM, .lanes = 8, .epochs = 1, .seconds = 60}, COUNTS, 2);
}

TEST(packs_are_sent_while_gradients_are_made)
{
    same_bits((job){.of = CUSTOM, .lanes = 8, .threads = 1, .epochs = 1, .pack = 20000, .seconds = 60}, COUNTS, 3);
}

TEST(another_carrier_changes_nothing)
{
    lki_carrier_first(&loop);
    each_kind(COUNTS + 1, 1);
    lki_carrier_first(NULL);
}

/* Some rows have one, in the lanes of some members. */
TEST(an_index_out_of_range_is_an_error_on_all_members_and_they_go_on)
{
    static job all[MOST];
    const job  is = {.of = WORDS, .lanes = 8, .threads = 1, .epochs = 1, .bad_id = true, .seconds = 60}, one = alone(is);
    assert_int_equal(one.code, LK_EINVAL);
    for (int members = 2; members <= 5; members++) {
        together(members, is, all);
        for (int k = 0; k < members; k++) {
            assert_int_equal(all[k].code, LK_EINVAL);
            assert_string_equal(all[k].text, one.text);
            assert_false(all[k].failed);
            assert_true(lk_digest_equal(all[k].digest, one.digest));
        }
    }
}

/* Member 1 stops after an epoch. */
TEST(a_member_that_leaves_is_an_error_on_the_others)
{
    static job all[3];
    const job  is = {.of = WORDS, .lanes = 8, .threads = 1, .members = 3, .seconds = 60, .meeting = all};
    for (int i = 0; i < 3; i++) {
        all[i] = is;
        all[i].first = i;
        all[i].epochs = i == 1 ? 1 : 3;
        pthread_create(&all[i].thread, NULL, run, &all[i]);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(all[i].thread, NULL);
    assert_int_equal(all[1].code, LK_OK);
    for (int i = 0; i < 3; i += 2) {
        assert_int_equal(all[i].code, LK_EPEER);
        assert_non_null(strstr(all[i].text, "member 1"));
    }
}

/* Member 1 ends at once if the limit is too small for what comes before the plan. */
TEST(a_member_without_memory_for_its_plan_says_so_to_the_others)
{
    static job all[2];
    bool       said = false;
    job        is = {.of = WORDS, .lanes = 8, .threads = 1, .epochs = 1, .seconds = 60};
    for (is.limit = 4000; is.limit < 8000000; is.limit += is.limit / 6) {
        together(2, is, all);
        assert_true((all[0].code == LK_OK) == (all[1].code == LK_OK));
        assert_true(all[1].code == LK_OK || all[1].code == LK_ENOMEM);
        if (all[0].code != LK_OK) assert_non_null(strstr(all[0].text, "member 1"));
        said = said || all[0].code == LK_ENOMEM;
    }
    assert_true(said);
    assert_int_equal(all[1].code, LK_OK);
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_number_of_members_has_the_bits_of_one),
                                       cmocka_unit_test(members_may_have_different_numbers_of_threads),
                                       cmocka_unit_test(packs_are_sent_while_gradients_are_made),
                                       cmocka_unit_test(another_carrier_changes_nothing),
                                       cmocka_unit_test(an_index_out_of_range_is_an_error_on_all_members_and_they_go_on),
                                       cmocka_unit_test(a_member_that_leaves_is_an_error_on_the_others),
                                       cmocka_unit_test(a_member_without_memory_for_its_plan_says_so_to_the_others)};
    lk_set_verbose("lanes,plan");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
