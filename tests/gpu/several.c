/* Compiled steps over several cards: each card captures the same graph on the rows of its lanes, and sums are exchanged between the
 * parts. They must be compiled, must end with the bits of one card, and must read variables as other steps left them. */
#include "core/thread.h"
#include "small.h"

/* ---- what was said ---- */

static char   said[1 << 16];
static size_t said_bytes;

static void listen(const char *text, void *user)
{
    (void)user;
    const size_t n = strlen(text);
    if (said_bytes + n + 2 >= sizeof said) return;
    memcpy(said + said_bytes, text, n + 1);
    said_bytes += n;
}

static int times_said(const char *words)
{
    int count = 0;
    for (const char *at = said; (at = strstr(at, words)); at++)
        count++;
    return count;
}

/* ---- compiled, and the same ---- */

typedef struct wish {
    bool compiled; /* else op by op */
    bool fit;
} wish;

static const wish compiled = {true, false};

static void everywhere(const void *arg, outcome *out)
{
    const wish  *w = arg;
    lk_strategy *s = lk_mirrored_strategy();
    lk_set_log(listen, NULL);
    if (w->fit) small_fit(s, LK_OFF, out);
    else small_loop(s, false, out);
    NEED((times_said("op by op") == 0) == w->compiled);
}

/* The number of lanes is the same for all, so the bits are. */
TEST(steps_on_several_cards_are_compiled_and_the_same)
{
    static const setting settings[] = {{2, 1, 0}, {3, 1, 0}, {4, 1, 0}, {6, 1, 0}, {8, 1, 0},
                                       {2, 2, 0}, {4, 2, 0}, {3, 2, 0}, {1, 4, 0}};
    static const wish    wishes[] = {{true, false}, {true, true}};
    setenv("LOCKSTEP_VERBOSE", "lanes,trace", 1);
    for (int w = 0; w < LKI_COUNT(wishes); w++) {
        outcome one, many;
        CHILD(everywhere, &wishes[w], &one, .cards = 1);
        for (int i = 0; i < LKI_COUNT(settings); i++) {
            char what[64];
            snprintf(what, sizeof what, "%s on %d cards of %d GPUs", wishes[w].fit ? "fit" : "a loop", settings[i].cards,
                     settings[i].logical);
            if (child_run(settings[i], everywhere, &wishes[w], &many, __LINE__)) same_outcome(&one, &many, what);
        }
    }
}

/* A convolution followed by a pool: compiled steps compute its bias differently from ops one by one. */
static void pooled(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy(.lanes = *(const int *)arg);
    lk_model    *m = NULL;
    LK_SCOPE(s) {
        m = lk_sequential(lk_conv2d(8, 3, .activation = LK_RELU, .input_shape = LK_SHAPE(6, 6, 1)), lk_max_pooling2d(),
                          lk_flatten(), lk_dense(16, .activation = LK_RELU), lk_dense(CLASSES));
        lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_adam(),
                         .metrics = LK_METRICS(lk_accuracy()));
    }
    lk_history *h = lk_model_fit(m, small_data(), .epochs = 2, .verbose = LK_SILENT);
    SOUND();
    small_history(h, out);
    out->digest = small_state(m);
}

TEST(any_number_of_cards_has_the_bits_of_one)
{
    static const int lanes[] = {8, 32};
    for (int l = 0; l < LKI_COUNT(lanes); l++) {
        outcome one, many;
        CHILD(pooled, &lanes[l], &one, .cards = 1);
        for (int cards = 3 + l; cards <= 7; cards += 1 + l) { /* 3 to 7, and 4 and 6 of more lanes */
            char what[64];
            snprintf(what, sizeof what, "%d lanes on %d cards", lanes[l], cards);
            if (CHILD(pooled, &lanes[l], &many, .cards = cards)) same_outcome(&one, &many, what);
        }
    }
}

/* ---- large gradients, which are summed piece by piece ---- */

static void wide_fit(lk_strategy *s, outcome *out)
{
    lk_model *m = NULL;
    LK_SCOPE(s) {
        m = lk_sequential(lk_flatten(.input_shape = LK_SHAPE(6, 6, 1)), lk_dense(6000, .activation = LK_RELU), lk_dense(CLASSES));
        lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON),
                         .optimizer = lk_sgd(.learning_rate = 0.01));
    }
    lk_history *h = lk_model_fit(m, small_data_in_order(), .epochs = 1, .verbose = LK_SILENT);
    SOUND();
    small_history(h, out);
    out->digest = small_state(m);
}

static void wide(const void *arg, outcome *out)
{
    lk_set_log(listen, NULL);
    wide_fit(lk_mirrored_strategy(), out);
    if (arg) NEED(times_said(arg) > 0 && times_said("in 3 parts") > 0); /* gradients go in two exchanges */
}

TEST(large_gradients_are_the_same)
{
    outcome one, many;
    setenv("LOCKSTEP_VERBOSE", "lanes,trace,plan", 1);
    CHILD(wide, NULL, &one, .cards = 1);
    if (CHILD(wide, "the training step: 8 members", &many, .cards = 8)) same_outcome(&one, &many, "large gradients on 8 cards");
    if (CHILD(wide, "the training step: 5 members", &many, .cards = 5)) same_outcome(&one, &many, "large gradients on 5 cards");
}

/* ---- gradients that go while others are made ---- */

typedef struct packing {
    int64_t bytes;
    bool    fit, wide;
} packing;

static void packed(const void *arg, outcome *out)
{
    const packing *p = arg;
    lk_strategy   *s = lk_mirrored_strategy(.communication = {.bytes_per_pack = p->bytes});
    lk_set_log(listen, NULL);
    if (p->wide) wide_fit(s, out);
    else if (p->fit) small_fit(s, LK_OFF, out);
    else small_loop(s, false, out);
    NEED(times_said("op by op") == 0);
    if (lk_num_replicas_in_sync(s) > 1) NEED((times_said("beside the next part") > 0) == (p->bytes > 0));
}

TEST(gradients_go_in_packs)
{
    static const packing packings[] = {{1, true, false}, {200, false, false}, {50000, false, true}};
    static const int     counts[] = {2, 3, 5};
    setenv("LOCKSTEP_VERBOSE", "lanes,trace,plan", 1);
    for (int p = 0; p < LKI_COUNT(packings); p++) {
        packing as_one = packings[p];
        outcome one, many;
        as_one.bytes = 0;
        CHILD(packed, &as_one, &one, .cards = 1);
        for (int i = 0; i < LKI_COUNT(counts); i++) {
            char what[96];
            snprintf(what, sizeof what, "packs of %d bytes on %d cards", (int)packings[p].bytes, counts[i]);
            if (CHILD(packed, &packings[p], &many, .cards = counts[i])) same_outcome(&one, &many, what);
        }
    }
}

/* ---- a metric that the step itself reads ---- */

typedef struct watcher {
    loop         loop;
    lk_variable *seen; /* what the metric has counted so far */
} watcher;

static lk_tuple watched_step(lk_tuple batch, void *user)
{
    watcher   *w = user;
    loop      *l = &w->loop;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_model_call(l->model, batch.item[0], .training = LK_ON);
    lk_tensor *more = lk_add(lk_scalar(1), lk_mul(lk_cast(lk_read(w->seen), LK_F32), lk_scalar(0.125)));
    lk_tensor *loss = lk_mul(lk_compute_average_loss(lk_loss_call(l->loss, batch.item[1], y), .global_batch_size = BATCH), more);
    lk_optimizer_apply(l->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(l->model)));
    lk_metric_update(l->accuracy, batch.item[1], y);
    return LK_TUPLE(loss);
}

static lk_tuple watched_all(lk_tuple batch, void *user)
{
    watcher *w = user;
    lk_tuple losses = lk_run(w->loop.strategy, watched_step, batch, w);
    lk_assign(w->seen, lk_reduce_sum(lk_read(lk_metric_variables(w->loop.accuracy).item[0])));
    return LK_TUPLE(lk_reduce(w->loop.strategy, LK_SUM, losses.item[0]));
}

static void watched(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy();
    watcher      w = {loop_on(s), NULL};
    (void)arg;
    lk_set_log(listen, NULL);
    LK_SCOPE(s)
        w.seen = lk_variable_of(lk_cast(lk_scalar(0), LK_F64));
    lk_function *step = lk_function_of(watched_all, &w);
    for (int epoch = 0; epoch < 2; epoch++)
        LK_FOR_EACH(batch, lk_distribute_dataset(s, small_data()))
            child_put(out, lk_item(lk_call(step, batch).item[0]));
    child_put(out, lk_item(lk_read(w.seen)));
    SOUND();
    NEED(times_said("op by op") == 0);
    out->digest = lk_model_digest(w.loop.model);
}

TEST(every_card_has_all_lanes_of_a_metric)
{
    static const int counts[] = {2, 3, 4, 5};
    outcome          one, many;
    setenv("LOCKSTEP_VERBOSE", "lanes,trace", 1);
    CHILD(watched, NULL, &one, .cards = 1);
    for (int i = 0; i < LKI_COUNT(counts); i++) {
        char what[64];
        snprintf(what, sizeof what, "a metric that is read, on %d cards", counts[i]);
        if (CHILD(watched, NULL, &many, .cards = counts[i])) same_outcome(&one, &many, what);
    }
}

/* ---- an error of the last step ---- */

static void last_step(const void *arg, outcome *out)
{
    lk_model *m = small_compiled(lk_mirrored_strategy(), LK_OFF);
    int64_t   y[ROWS];
    (void)out;
    memcpy(y, lk_data(small_labels()), sizeof y);
    y[arg ? BATCH + 1 : ROWS - 1] = CLASSES + 4; /* a row of the last card; or one of the second step */
    lk_tensor  *bad = lk_tensor_from(LK_SHAPE(ROWS), LK_I64, y);
    lk_dataset *wrong = lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(small_rows(), bad)), BATCH);
    lk_model_fit(m, wrong, .epochs = 1, .verbose = LK_SILENT);
    TOLD(LK_EINVAL, arg ? "epoch 1, step 2: " : "epoch 1, step 3: ");
}

TEST(an_error_is_told_with_its_step)
{
    CHILD(last_step, NULL, NULL, .cards = 1);
    CHILD(last_step, NULL, NULL, .cards = 2);
    CHILD(last_step, NULL, NULL, .cards = 3);
    CHILD(last_step, "", NULL, .cards = 1);
    CHILD(last_step, "", NULL, .cards = 3);
}

/* ---- faults of other cards ---- */

static lk_tensor *predicted_by(lk_strategy *s, int bad)
{
    lk_model *m = NULL;
    int64_t   ids[48];
    for (int i = 0; i < 48; i++)
        ids[i] = i == bad ? 99 : i % 10;
    LK_SCOPE(s)
        m = lk_sequential(lk_embedding(10, 4, .input_shape = LK_SHAPE(2)), lk_flatten(), lk_dense(3));
    return lk_model_predict(m, .x = lk_tensor_from(LK_SHAPE(24, 2), LK_I64, ids), .batch_size = 24, .verbose = LK_SILENT);
}

/* Nothing is summed, so nothing is exchanged; and cards are as they were afterwards. */
static void bad_id(const void *arg, outcome *out)
{
    (void)arg;
    LK_POOL {
        predicted_by(lk_mirrored_strategy(), 47); /* in the rows of the last card */
        TOLD(LK_EINVAL, "gather");
    }
    small_fit(lk_mirrored_strategy(), LK_OFF, out);
}

TEST(a_bad_id_of_another_card_is_told)
{
    outcome one, many;
    CHILD(bad_id, NULL, &one, .cards = 1);
    if (CHILD(bad_id, NULL, &many, .cards = 2)) same_outcome(&one, &many, "after a bad id, 2 cards");
    if (CHILD(bad_id, NULL, &many, .cards = 3)) same_outcome(&one, &many, "after a bad id, 3 cards");
}

/* Cards that were linked once work separately: each gets its own error. */
static void apart(const void *arg, outcome *out)
{
    outcome      trained = {0};
    lk_strategy *together = lk_mirrored_strategy(), *second = lk_one_device_strategy("GPU:1");
    lk_tensor   *good = NULL;
    int64_t      y[ROWS];
    (void)arg, (void)out;
    small_fit(together, LK_OFF, &trained);
    LK_SCOPE(second)
        good = lk_add(lk_scalar(1), lk_scalar(2));
    memcpy(y, lk_data(small_labels()), sizeof y);
    y[1] = CLASSES + 4;
    loop         l = loop_on(lk_one_device_strategy("GPU:0"));
    lk_function *step = lk_function_of(loop_all, &l);
    lk_dataset  *wrong = lk_dataset_from_tensor_slices(LK_TUPLE(small_rows(), lk_tensor_from(LK_SHAPE(ROWS), LK_I64, y)));
    LK_FOR_EACH(batch, lk_distribute_dataset(l.strategy, lk_dataset_batch(wrong, BATCH))) {
        lk_tensor *loss = lk_call(step, batch).item[0];
        NEED(lk_item(good) == 3);
        SOUND();
        lk_item(loss);
        TOLD(LK_EINVAL, "label");
        break;
    }
}

TEST(cards_that_work_apart_are_told_their_own) { CHILD(apart, NULL, NULL, .cards = 2); }

/* ---- rows that come out ---- */

static void predicted(const void *arg, outcome *out)
{
    lk_model  *m = small_compiled(lk_mirrored_strategy(), LK_OFF);
    lk_tensor *y = lk_model_predict(m, small_data_in_order(), .verbose = LK_SILENT);
    (void)arg;
    SOUND();
    const float *values = lk_data(y);
    NEED(values && lk_tensor_shape(y).dim[0] == ROWS);
    for (int i = 0; i < ROWS * CLASSES; i++)
        child_put(out, values[i]);
    lk_logs logs = lk_model_evaluate(m, small_data_in_order(), .verbose = LK_SILENT);
    SOUND();
    for (int i = 0; i < logs.count; i++)
        child_put(out, logs.value[i]);
}

TEST(predictions_of_several_cards)
{
    outcome one, many;
    CHILD(predicted, NULL, &one, .cards = 1);
    if (CHILD(predicted, NULL, &many, .cards = 2)) same_outcome(&one, &many, "predictions on 2 cards");
    if (CHILD(predicted, NULL, &many, .cards = 3)) same_outcome(&one, &many, "predictions on 3 cards");
    if (CHILD(predicted, NULL, &many, .cards = 8)) same_outcome(&one, &many, "predictions on 8 cards");
}

/* ---- variables that others change between steps ---- */

static void changed_between(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy();
    loop         l = loop_on(s);
    lk_function *step = lk_function_of(loop_all, &l);
    lk_dataset  *data = lk_distribute_dataset(s, small_data());
    int          n = 0;
    (void)arg;
    LK_FOR_EACH(batch, data) {
        const lk_variables v = lk_model_trainable_variables(l.model);
        lk_tensor         *before = lk_read(v.item[0]); /* held while the step writes the variable */
        const float        was = ((const float *)lk_data(before))[0];
        child_put(out, lk_item(lk_call(step, batch).item[0]));
        SOUND();
        NEED(((const float *)lk_data(before))[0] == was);
        NEED(((const float *)lk_data(lk_read(v.item[0])))[0] != was || n > 0);
        lk_assign_add(v.item[n % v.count], lk_mul(lk_read(v.item[n % v.count]), lk_scalar(0.5)));
        SOUND();
        n++;
    }
    NEED(n == 3);
    out->digest = lk_model_digest(l.model);
}

TEST(variables_changed_between_steps)
{
    outcome one, many;
    CHILD(changed_between, NULL, &one, .cards = 1);
    if (CHILD(changed_between, NULL, &many, .cards = 2)) same_outcome(&one, &many, "changed between steps, 2 cards");
    if (CHILD(changed_between, NULL, &many, .cards = 3)) same_outcome(&one, &many, "changed between steps, 3 cards");
    if (CHILD(changed_between, NULL, &many, .cards = 4)) same_outcome(&one, &many, "changed between steps, 4 cards");
}

/* An optimiser made outside the scope: its variables are on the CPU. */
static void made_outside(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy();
    loop         l = loop_on(s);
    (void)arg;
    l.optimizer = lk_sgd(.learning_rate = 0.05, .momentum = 0.9);
    lk_function *step = lk_function_of(loop_all, &l);
    LK_FOR_EACH(batch, lk_distribute_dataset(s, small_data()))
        child_put(out, lk_item(lk_call(step, batch).item[0]));
    SOUND();
    out->digest = lk_model_digest(l.model);
}

TEST(variables_of_the_cpu)
{
    outcome one, many;
    CHILD(made_outside, NULL, &one, .cards = 1);
    if (CHILD(made_outside, NULL, &many, .cards = 4)) same_outcome(&one, &many, "an optimiser of the CPU, 4 cards");
}

/* ---- checkpoints ---- */

static void save(const void *path, outcome *out)
{
    lk_model *m = small_compiled(lk_mirrored_strategy(), LK_OFF);
    lk_model_fit(m, small_data(), .epochs = 1, .verbose = LK_SILENT);
    NEED(lk_checkpoint_write(lk_checkpoint_of({"model", m}, {"optimizer", lk_model_optimizer(m)}), path));
    SOUND();
    out->digest = small_state(m);
}

static void restore(const void *path, outcome *out)
{
    lk_model *m = small_compiled(lk_mirrored_strategy(), LK_OFF);
    lk_model_fit(m, small_data(), .epochs = 1, .verbose = LK_SILENT); /* plans hold twins by now */
    NEED(lk_checkpoint_read(lk_checkpoint_of({"model", m}, {"optimizer", lk_model_optimizer(m)}), path));
    SOUND();
    out->digest = small_state(m);
    lk_model_fit(m, small_data_in_order(), .epochs = 1, .verbose = LK_SILENT);
    SOUND();
    const lk_digest after = small_state(m);
    for (int i = 0; i < 32; i++)
        child_put(out, after.byte[i]);
}

TEST(checkpoints_go_between_numbers_of_cards)
{
    outcome saved, one, four;
    char    path[64];
    snprintf(path, sizeof path, "/tmp/lockstep_several_%d", (int)getpid());
    CHILD(save, path, &saved, .cards = 4);
    CHILD(restore, path, &one, .cards = 1);
    CHILD(restore, path, &four, .cards = 4);
    same_outcome(&one, &four, "restored on 1 and on 4 cards");
    assert_true(lk_digest_equal(saved.digest, one.digest));
    char command[128];
    snprintf(command, sizeof command, "%s.index", path);
    unlink(command);
    snprintf(command, sizeof command, "%s.data-00000-of-00001", path);
    unlink(command);
}

/* ---- links that fail ---- */

static void broken_peer(const void *arg, outcome *out)
{
    (void)arg;
    setenv("LOCKSTEP_SIM_PEER", "broken", 1);
    lk_set_log(listen, NULL);
    small_loop(lk_mirrored_strategy(), false, out);
    NEED(times_said("did not arrive") >= 1);
    NEED(times_said("copies through the host") == 1);
}

TEST(copies_that_carry_nothing_are_noticed)
{
    outcome one, many;
    CHILD(everywhere, &compiled, &one, .cards = 1);
    if (simulated() && CHILD(broken_peer, NULL, &many, .cards = 4)) same_outcome(&one, &many, "copies through the host");
}

static double seconds_now(void) { return (double)lki_nanoseconds() * 1e-9; }

static void failing_link(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    setenv("LOCKSTEP_SIM_LINK", "fail:5", 1);
    const double began = seconds_now();
    lk_strategy *s = lk_mirrored_strategy();
    loop         l = loop_on(s);
    lk_function *step = lk_function_of(loop_all, &l);
    int          n = 0;
    LK_FOR_EACH(batch, lk_distribute_dataset(s, small_data())) {
        lk_call(step, batch);
        if (lk_failed()) break;
        n++;
    }
    NEED(n < 3);
    NEED(seconds_now() - began < 5);
    TOLD(LK_EDEVICE, "GPU:0", "LOCKSTEP_SIM_LINK");
    /* every later call gets the same error */
    LK_FOR_EACH(batch, lk_distribute_dataset(s, small_data())) {
        lk_call(step, batch);
        break;
    }
    TOLD(LK_EDEVICE, "LOCKSTEP_SIM_LINK");
}

static void hanging_card(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    setenv("LOCKSTEP_SIM_LINK", "hang:4", 1);
    const double began = seconds_now();
    lk_strategy *s = lk_mirrored_strategy(.communication = {.timeout_seconds = 0.5});
    lk_model    *m = small_compiled(s, LK_OFF);
    lk_model_fit(m, small_data(), .epochs = 2, .verbose = LK_SILENT);
    TOLD(LK_EDEADLINE, "deadline of 0.5 seconds", "still at work: GPU:3");
    NEED(seconds_now() - began < 5);
}

TEST(a_link_that_fails_releases_all)
{
    if (!simulated()) skip();
    CHILD(failing_link, NULL, NULL, .cards = 4);
    CHILD(hanging_card, NULL, NULL, .cards = 4);
}

/* ---- sums by the links ---- */

static void free_order(const void *arg, outcome *out)
{
    setenv("LOCKSTEP_SIM_NCCL", arg ? "on" : "off", 1);
    lk_set_log(listen, NULL);
    small_loop(lk_mirrored_strategy(.order = LK_FREE, .lanes = 16), false, out);
    NEED(times_said("op by op") == 0);
}

TEST(sums_in_any_order_are_close)
{
    outcome tree, links;
    setenv("LOCKSTEP_VERBOSE", "lanes,trace", 1);
    CHILD(free_order, NULL, &tree, .cards = 4);
    if (simulated() && CHILD(free_order, "", &links, .cards = 4))
        close_outcome(&tree, &links, 1e-4, "sums by links and up the tree");
    if (simulated() && CHILD(free_order, "", &links, .cards = 3)) /* several subtrees of a card are not a single sum for links */
        same_outcome(&tree, &links, "sums that links cannot take");
}

/* ---- replicas that do not do the same ---- */

static lk_tuple unequal(lk_tuple batch, void *user)
{
    loop *l = user;
    if (lk_replica_id_in_sync_group(lk_get_replica_context()) == 1) return LK_TUPLE(lk_scalar(0));
    return loop_step(batch, l);
}

static lk_tuple unequal_all(lk_tuple batch, void *user)
{
    loop *l = user;
    return LK_TUPLE(lk_reduce(l->strategy, LK_SUM, lk_run(l->strategy, unequal, batch, l).item[0]));
}

static void early(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy();
    loop         l = loop_on(s);
    lk_function *step = lk_function_of(unequal_all, &l);
    const double began = seconds_now();
    (void)arg, (void)out;
    LK_FOR_EACH(batch, lk_distribute_dataset(s, small_data())) {
        lk_call(step, batch);
        NEED(lk_failed());
        break;
    }
    lk_clear_error();
    NEED(seconds_now() - began < 5);
    /* and the cards continue working */
    step = lk_function_of(loop_all, &l);
    LK_FOR_EACH(batch, lk_distribute_dataset(s, small_data()))
        lk_call(step, batch);
    SOUND();
}

TEST(a_replica_that_returns_early) { CHILD(early, NULL, NULL, .cards = 2); }

/* ---- a bad label on one card stops all, and is reported once ---- */

static void bad_label(const void *arg, outcome *out)
{
    lk_strategy *s = lk_mirrored_strategy();
    loop         l = loop_on(s);
    lk_function *step = lk_function_of(loop_all, &l);
    int64_t      y[ROWS];
    (void)arg;
    memcpy(y, lk_data(small_labels()), sizeof y);
    y[BATCH - 1] = CLASSES + 4;
    lk_tensor  *bad = lk_tensor_from(LK_SHAPE(ROWS), LK_I64, y);
    lk_dataset *wrong = lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(small_rows(), bad)), BATCH);
    LK_FOR_EACH(batch, lk_distribute_dataset(s, small_data())) {
        lk_call(step, batch);
        lk_call(step, batch); /* captured by now */
        break;
    }
    SOUND();
    const lk_digest before = lk_model_digest(l.model);
    LK_FOR_EACH(batch, lk_distribute_dataset(s, wrong)) {
        lk_item(lk_call(step, batch).item[0]);
        break;
    }
    TOLD(LK_EINVAL, "label");
    NEED(lk_digest_equal(before, lk_model_digest(l.model)));
    LK_FOR_EACH(batch, lk_distribute_dataset(s, small_data()))
        child_put(out, lk_item(lk_call(step, batch).item[0]));
    SOUND();
    NEED(!lk_digest_equal(before, lk_model_digest(l.model)));
    out->digest = lk_model_digest(l.model);
}

TEST(a_bad_label_stops_all_cards)
{
    outcome one, many;
    CHILD(bad_label, NULL, &one, .cards = 1);
    if (CHILD(bad_label, NULL, &many, .cards = 3)) same_outcome(&one, &many, "after a bad label, 3 cards");
    if (CHILD(bad_label, NULL, &many, .cards = 4)) same_outcome(&one, &many, "after a bad label, 4 cards");
}

TESTS(cmocka_unit_test(steps_on_several_cards_are_compiled_and_the_same), cmocka_unit_test(any_number_of_cards_has_the_bits_of_one),
      cmocka_unit_test(large_gradients_are_the_same), cmocka_unit_test(gradients_go_in_packs),
      cmocka_unit_test(every_card_has_all_lanes_of_a_metric), cmocka_unit_test(an_error_is_told_with_its_step),
      cmocka_unit_test(a_bad_id_of_another_card_is_told), cmocka_unit_test(cards_that_work_apart_are_told_their_own),
      cmocka_unit_test(predictions_of_several_cards), cmocka_unit_test(variables_changed_between_steps),
      cmocka_unit_test(variables_of_the_cpu), cmocka_unit_test(checkpoints_go_between_numbers_of_cards),
      cmocka_unit_test(copies_that_carry_nothing_are_noticed), cmocka_unit_test(a_link_that_fails_releases_all),
      cmocka_unit_test(sums_in_any_order_are_close), cmocka_unit_test(a_replica_that_returns_early),
      cmocka_unit_test(a_bad_label_stops_all_cards))
