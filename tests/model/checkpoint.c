/* Checkpoints: what is written, what is restored, at once and later, and the errors if something does not fit. */
#include "format/npy.h"
#include "model/checkpoints.h"

/* ---- saving ---- */

TEST(names_and_numbers)
{
    LK_POOL {
        const trained t = made(1);
        assert_null(lk_latest_checkpoint(IN("deep/er")));
        assert_string_equal(lk_checkpoint_save(t.checkpoint, IN("deep/er/ckpt")), IN("deep/er/ckpt-1"));
        assert_string_equal(lk_latest_checkpoint(IN("deep/er")), IN("deep/er/ckpt-1"));
        assert_string_equal(lk_checkpoint_save(t.checkpoint, IN("deep/er/ckpt")), IN("deep/er/ckpt-2"));
        assert_string_equal(lk_latest_checkpoint(IN("deep/er/")), IN("deep/er/ckpt-2"));
        assert_true(file_exists(IN("deep/er/ckpt-1.index")) && file_exists(IN("deep/er/ckpt-1.data-00000-of-00001")));
        assert_string_equal(lk_checkpoint_write(t.checkpoint, IN("written")), IN("written"));
        assert_true(file_exists(IN("written.index")) && !file_exists(IN("checkpoint")));
        assert_string_equal(lk_checkpoint_save(t.checkpoint, IN("deep/er/ckpt")), IN("deep/er/ckpt-3"));
        assert_false(lk_failed());
    }
}

/* Saving takes nothing from the training: two runs, one of which saves, give the same bits. */
TEST(saving_disturbs_nothing)
{
    LK_POOL {
        const trained a = made(2), b = made(2);
        lk_tape      *tape = lk_tape_begin();
        lk_checkpoint_save(a.checkpoint, IN("quiet"));
        lk_tape_end(tape);
        train(&a, 2);
        train(&b, 2);
        assert_true(same_objects(&a, &b));
    }
}

/* ---- restoring ---- */

TEST(there_and_back)
{
    LK_POOL {
        const trained a = made(3), b = made(1), fresh = untrained();
        lk_checkpoint_save(a.checkpoint, IN("back"));
        lk_checkpoint_save(a.checkpoint, IN("back"));
        assert_false(same_objects(&a, &b));
        lk_restore_status *s = lk_checkpoint_restore(b.checkpoint, IN("back-2"));
        assert_int_equal(lk_restore_assert_consumed(s), LK_OK);
        assert_true(same_objects(&a, &b));
        assert_int_equal(lk_optimizer_iterations(b.optimizer), 3);
        assert_string_equal(lk_checkpoint_save(b.checkpoint, IN("back")), IN("back-3")); /* the number continues */
        train(&a, 2);
        train(&b, 2);
        assert_true(same_objects(&a, &b));
        lk_checkpoint_read(fresh.checkpoint, IN("back-3")); /* without the number */
        assert_string_equal(lk_checkpoint_save(fresh.checkpoint, IN("other")), IN("other-1"));
        assert_false(lk_failed());
    }
}

TEST(nothing_to_restore)
{
    LK_POOL {
        const trained      a = made(2), b = made(2);
        lk_restore_status *s = lk_checkpoint_restore(a.checkpoint, lk_latest_checkpoint(IN("no/such/folder")));
        assert_non_null(s);
        assert_true(same_objects(&a, &b));
        assert_int_equal(lk_restore_expect_partial(s), LK_OK);
        assert_false(lk_failed());
        REFUSED(LK_EINVAL, lk_restore_assert_consumed(s) == LK_EINVAL, "nothing was restored");
        REFUSED(LK_EINVAL, lk_restore_assert_existing_objects_matched(s) == LK_EINVAL, "nothing was restored");
        REFUSED(LK_EINVAL, lk_restore_assert_nontrivial_match(s) == LK_EINVAL, "nothing was restored");
    }
}

/* A model and an optimiser of the same variables, and one variable under two names, are stored once. */
TEST(variables_are_stored_once)
{
    LK_POOL {
        const trained  t = made(1);
        lk_variable   *v = lk_variable_of(lk_tensor_of(LK_SHAPE(1000), 1));
        lk_checkpoint *c = lk_checkpoint_of({"a", v}, {"b", v}, {"c", lk_checkpoint_of({"d", v})});
        lk_checkpoint_write(c, IN("once"));
        assert_int_equal(file_size(IN("once.data-00000-of-00001")) / 4000, 1);
        lk_checkpoint_write(t.checkpoint, IN("model"));
        const long both = file_size(IN("model.data-00000-of-00001"));
        lk_checkpoint_write(lk_checkpoint_of({"optimizer", t.optimizer}), IN("optimizer"));
        assert_true(both - file_size(IN("optimizer.data-00000-of-00001")) < 2000); /* the graph, and no values */
        assert_false(lk_failed());
    }
}

TEST(only_a_part)
{
    LK_POOL {
        const trained a = made(3), b = made(1);
        lk_checkpoint_save(a.checkpoint, IN("part"));
        lk_checkpoint     *c = lk_checkpoint_of({"model", b.model});
        lk_restore_status *s = lk_checkpoint_restore(c, IN("part-1"));
        assert_true(same_variables(lk_model_variables(a.model), lk_model_variables(b.model)));
        assert_int_equal(lk_restore_assert_existing_objects_matched(s), LK_OK);
        REFUSED(LK_EINVAL, lk_restore_assert_consumed(s) == LK_EINVAL, "part-1", "10 values", "optimizer/_iterations", "not used");
        warnings = 0;
        lk_free(s);
        assert_int_equal(warnings, 1);
        assert_non_null(strstr(last_warning, "optimizer/_iterations"));
        s = lk_checkpoint_restore(c, IN("part-1"));
        lk_restore_expect_partial(s);
        lk_free(s);
        assert_int_equal(warnings, 1);
        s = lk_checkpoint_restore(lk_checkpoint_of({"model", b.model}, {"more", lk_variable_of(lk_scalar(1))}), IN("part-1"));
        REFUSED(LK_EINVAL, lk_restore_assert_existing_objects_matched(s) == LK_EINVAL, "no value for 1 variables", "more");
        lk_restore_expect_partial(s);
        assert_false(lk_failed());
    }
}

TEST(nothing_in_common)
{
    LK_POOL {
        lk_variable *a = lk_variable_of(lk_scalar(1)), *b = lk_variable_of(lk_scalar(2));
        lk_checkpoint_save(lk_checkpoint_of({"a", a}), IN("common"));
        lk_restore_status *s = lk_checkpoint_restore(lk_checkpoint_of({"a", b}), IN("common-1"));
        assert_int_equal(lk_restore_assert_nontrivial_match(s), LK_OK);
        s = lk_checkpoint_restore(lk_checkpoint_of({"b", b}), IN("common-1")); /* takes over the number of saves, no more */
        REFUSED(LK_EINVAL, lk_restore_assert_nontrivial_match(s) == LK_EINVAL, "common-1", "only the number of saves");
        lk_restore_expect_partial(s);
    }
}

/* ---- later ---- */

TEST(restored_when_built)
{
    LK_POOL {
        const trained a = made(3), b = untrained();
        lk_checkpoint_save(a.checkpoint, IN("later"));
        lk_restore_status *s = lk_checkpoint_restore(b.checkpoint, IN("later-1"));
        assert_int_equal(lk_restore_assert_existing_objects_matched(s), LK_OK);
        REFUSED(LK_EINVAL, lk_restore_assert_consumed(s) == LK_EINVAL, "not built yet");
        assert_int_equal(lk_optimizer_iterations(b.optimizer), 3); /* what there was is there at once */
        assert_true(same_bits(lk_model_call(a.model, rows_of(2)), lk_model_call(b.model, rows_of(2)))); /* before the first use */
        build(&b);
        assert_int_equal(lk_restore_assert_consumed(s), LK_OK);
        assert_true(same_objects(&a, &b));
        warnings = 0;
        lk_free(s);
        assert_int_equal(warnings, 0);
        assert_false(lk_failed());
    }
}

/* As in the tutorial: the optimiser's variables follow at the first step. */
TEST(training_goes_on_after_a_restore)
{
    LK_POOL {
        const trained a = made(2), b = untrained();
        lk_checkpoint_save(a.checkpoint, IN("on"));
        lk_checkpoint_restore(b.checkpoint, IN("on-1"));
        train(&a, 3);
        train(&b, 3);
        assert_true(same_objects(&a, &b));
        assert_false(lk_failed());
    }
}

/* The note stays with the model, whatever becomes of checkpoint, status and files. */
TEST(only_the_model_is_left)
{
    LK_POOL {
        const trained a = made(3);
        lk_model     *m = small_model();
        lk_checkpoint_save(a.checkpoint, IN("gone"));
        LK_POOL
            lk_restore_expect_partial(lk_checkpoint_restore(lk_checkpoint_of({"model", m}), IN("gone-1")));
        remove(IN("gone-1.index"));
        remove(IN("gone-1.data-00000-of-00001"));
        lk_model_build(m, LK_SHAPE(4));
        assert_true(same_variables(lk_model_variables(a.model), lk_model_variables(m)));
        assert_false(lk_failed());
    }
}

/* A variable that was restored and changed is not set back when the optimiser, which knows it too, is built. */
TEST(set_only_once)
{
    LK_POOL {
        const trained a = made(2), b = untrained();
        lk_checkpoint_save(a.checkpoint, IN("set"));
        lk_checkpoint_restore(b.checkpoint, IN("set-1"));
        lk_model_build(b.model, LK_SHAPE(4));
        lk_variable *bias = lk_model_weights(b.model).item[3];
        lk_assign(bias, lk_tensor_of(LK_SHAPE(2), 7));
        build(&b);
        assert_true(lk_item(lk_reduce_max(lk_read(bias))) == 7);
        assert_true(same_variables(lk_optimizer_variables(a.optimizer), lk_optimizer_variables(b.optimizer)));
    }
}

TEST(the_last_restore_counts)
{
    LK_POOL {
        const trained a = made(1), b = made(5), c = untrained();
        lk_checkpoint_write(a.checkpoint, IN("first"));
        lk_checkpoint_write(b.checkpoint, IN("second"));
        lk_checkpoint_read(c.checkpoint, IN("first"));
        lk_checkpoint_read(c.checkpoint, IN("second"));
        build(&c);
        assert_true(same_objects(&b, &c));
    }
}

TEST(nobody_waits_for_a_model_that_goes)
{
    LK_POOL {
        const trained a = made(1);
        lk_checkpoint_write(a.checkpoint, IN("waits"));
        const int64_t before = lki_memory_in_use();
        LK_POOL
            lk_restore_expect_partial(lk_checkpoint_read(untrained().checkpoint, IN("waits")));
        assert_int_equal(lki_memory_in_use(), before);
    }
}

/* ---- in all contexts ---- */

static lk_tuple call_model(lk_tuple in, void *user) { return LK_TUPLE(lk_model_call(user, in.item[0])); }

static lk_tuple one_step(lk_tuple in, void *user)
{
    const trained *t = user;
    lk_tape       *tape = lk_tape_begin();
    lk_tensor     *loss = lk_reduce_sum(lk_square(lk_model_call(t->model, in.item[0], .training = LK_ON)));
    lk_optimizer_apply(t->optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(t->model)));
    return LK_TUPLE(loss);
}

TEST(built_while_a_function_is_traced)
{
    LK_POOL {
        const trained a = made(3);
        trained       b = untrained();
        lk_checkpoint_save(a.checkpoint, IN("traced"));
        lk_restore_status *s = lk_checkpoint_restore(b.checkpoint, IN("traced-1"));
        lk_function       *f = lk_function_of(one_step, .user = &b);
        lk_call(f, LK_TUPLE(rows_of(5)));
        train(&a, 1);
        assert_int_equal(lk_restore_assert_consumed(s), LK_OK);
        assert_true(same_objects(&a, &b));
        lk_call(f, LK_TUPLE(rows_of(5)));
        train(&a, 1);
        assert_true(same_objects(&a, &b));
        assert_false(lk_failed());
    }
}

TEST(built_inside_run)
{
    LK_POOL {
        const trained a = made(3);
        lk_checkpoint_save(a.checkpoint, IN("run"));
        for (int n = 1; n <= 3; n++) {
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = n);
            trained      b;
            LK_SCOPE(s)
                b = untrained();
            lk_restore_status *status = lk_checkpoint_restore(b.checkpoint, IN("run-1")); /* outside the scope: no matter */
            lk_run(s, call_model, LK_TUPLE(rows_of(6)), b.model);
            assert_true(same_variables(lk_model_variables(a.model), lk_model_variables(b.model)));
            LK_SCOPE(s)
                build(&b);
            assert_int_equal(lk_restore_assert_consumed(status), LK_OK);
            assert_true(same_objects(&a, &b));
            assert_false(lk_failed());
        }
    }
}

/* The optimiser's slots are made, and restored, by the first step of the replicas, eager or compiled. */
TEST(trained_inside_run_after_a_restore)
{
    LK_POOL {
        const trained a = made(3);
        lk_strategy  *s = lk_mirrored_strategy(.cpu_devices = 2);
        trained       t[3];
        lk_checkpoint_save(a.checkpoint, IN("inside"));
        for (int i = 0; i < 3; i++) {
            LK_SCOPE(s)
                t[i] = untrained();
            if (i == 0)
                LK_SCOPE(s)
                    build(&t[i]);
            lk_restore_status *status = lk_checkpoint_restore(t[i].checkpoint, IN("inside-1"));
            for (int k = 0; k < 2; k++)
                lk_run(s, one_step, LK_TUPLE(rows_of(6)), &t[i]);
            assert_int_equal(lk_restore_assert_consumed(status), LK_OK);
            assert_false(lk_failed());
        }
        assert_int_equal(lk_optimizer_iterations(t[1].optimizer), 5);
        assert_true(same_objects(&t[0], &t[1]));
        assert_true(same_objects(&t[0], &t[2]));
    }
}

/* Components 5 and 6 save 11; two replicas get 5.5 each, one or none 11. A mean is each one's. */
static lk_tuple add_own(lk_tuple in, void *user)
{
    lk_variable **v = user;
    const double  id = lk_replica_id_in_sync_group(lk_get_replica_context());
    (void)in;
    lk_assign(v[0], lk_fill(LK_SHAPE(), LK_F32, 5 + id));
    lk_assign(v[1], lk_fill(LK_SHAPE(), LK_F32, 5 + id));
    return LK_TUPLE();
}

static void on_read(lk_strategy *s, lk_variable *v[2])
{
    static const lk_aggregation how[] = {LK_AGGREGATION_SUM, LK_AGGREGATION_MEAN};
    for (int i = 0; i < 2; i++)
        if (!s) v[i] = lk_variable_of(lk_scalar(0));
        else
            LK_SCOPE(s)
                v[i] = lk_variable_of(lk_scalar(0), .synchronization = LK_SYNC_ON_READ, .aggregation = how[i]);
}

TEST(sync_on_read_variables)
{
    LK_POOL {
        lk_variable *v[2], *w[2];
        lk_strategy *two = lk_mirrored_strategy(.cpu_devices = 2);
        on_read(two, v);
        lk_run(two, add_own, LK_TUPLE(), v);
        lk_checkpoint_write(lk_checkpoint_of({"sum", v[0]}, {"mean", v[1]}), IN("onread"));
        assert_false(lk_failed());
        for (int n = 0; n <= 4; n++) {
            lk_strategy *s = n ? lk_mirrored_strategy(.cpu_devices = n) : NULL;
            on_read(s, w);
            lk_checkpoint_read(lk_checkpoint_of({"sum", w[0]}, {"mean", w[1]}), IN("onread"));
            assert_true(lk_item(lk_read(w[0])) == 11 && lk_item(lk_read(w[1])) == 5.5);
            if (s) assert_true(lk_item(lk_local_variables(s, w[0]).item[n - 1]) == 11.0f / (float)n);
            if (s) assert_true(lk_item(lk_local_variables(s, w[1]).item[n - 1]) == 5.5);
        }
        assert_false(lk_failed());
    }
}

/* Without an aggregation there is no one value: nothing to save, and nothing a saved one could be put into. */
TEST(sync_on_read_without_aggregation)
{
    LK_POOL {
        lk_variable *plain = lk_variable_of(lk_scalar(3)), *first = lk_variable_of(lk_scalar(4)), *none = NULL;
        LK_SCOPE(lk_mirrored_strategy(.cpu_devices = 2))
            none = lk_variable_of(lk_scalar(0), .name = "own", .synchronization = LK_SYNC_ON_READ);
        REFUSED(LK_EINVAL, !lk_checkpoint_write(lk_checkpoint_of({"v", none}), IN("none")), "\"own\"", ".aggregation");
        assert_false(file_exists(IN("none.index")) || folder_leftovers(IN("")));
        lk_checkpoint_write(lk_checkpoint_of({"a", plain}, {"v", plain}), IN("none"));
        REFUSED(LK_EINVAL, !lk_checkpoint_read(lk_checkpoint_of({"a", first}, {"v", none}), IN("none")), "\"own\"", ".aggregation");
        assert_true(lk_item(lk_read(first)) == 4);
    }
}

static lk_tuple save_inside(lk_tuple in, void *user)
{
    if (!lk_checkpoint_save(user, "/nowhere/ckpt")) return LK_TUPLE();
    return in;
}

static lk_tuple restore_inside(lk_tuple in, void *user)
{
    lk_checkpoint_restore(user, "/nowhere/ckpt-1");
    return in;
}

TEST(not_inside_run_or_a_traced_function)
{
    LK_POOL {
        const trained t = made(1);
        lk_strategy  *one = lk_mirrored_strategy(.cpu_devices = 1), *two = lk_mirrored_strategy(.cpu_devices = 2);
        lk_run(one, save_inside, LK_TUPLE(), t.checkpoint);
        REFUSED(LK_EUNSUPPORTED, lk_failed(), "lk_checkpoint_save", "lk_run()");
        lk_run(two, save_inside, LK_TUPLE(), t.checkpoint);
        REFUSED(LK_EUNSUPPORTED, lk_failed(), "lk_checkpoint_save", "lk_run()");
        lk_call(lk_function_of(save_inside, .user = t.checkpoint), LK_TUPLE(lk_scalar(1)));
        REFUSED(LK_EUNSUPPORTED, lk_failed(), "lk_checkpoint_save", "traced");
        lk_call(lk_function_of(restore_inside, .user = t.checkpoint), LK_TUPLE(lk_scalar(1)));
        REFUSED(LK_EUNSUPPORTED, lk_failed(), "lk_checkpoint_restore", "traced");
    }
}

/* ---- what does not fit ---- */

TEST(shapes_and_types)
{
    LK_POOL {
        lk_variable *a = lk_variable_of(lk_tensor_of(LK_SHAPE(2), 1, 2)),
                    *b = lk_variable_of(lk_tensor_of(LK_SHAPE(3), 3), .name = "second"),
                    *c = lk_variable_of(lk_zeros(LK_SHAPE(3), LK_F64), .name = "third");
        lk_checkpoint_write(lk_checkpoint_of({"a", a}, {"b", b}), IN("fit"));
        lk_assign(a, lk_tensor_of(LK_SHAPE(2), 5));
        lk_variable *wide = lk_variable_of(lk_zeros(LK_SHAPE(4), LK_F32), .name = "wide");
        REFUSED(LK_ESHAPE, !lk_checkpoint_read(lk_checkpoint_of({"a", a}, {"b", wide}), IN("fit")), "fit",
                "\"b/.ATTRIBUTES/VARIABLE_VALUE\"", "[3]", "\"wide\"", "[4]");
        REFUSED(LK_EDTYPE, !lk_checkpoint_read(lk_checkpoint_of({"a", a}, {"b", c}), IN("fit")), "\"b/.ATTRIBUTES/VARIABLE_VALUE\"",
                "float32", "\"third\"", "f64");
        assert_true(lk_item(lk_reduce_sum(lk_read(a))) == 10); /* nothing was assigned */
    }
}

TEST(a_model_that_does_not_fit_when_it_is_built)
{
    LK_POOL {
        const trained a = made(1);
        lk_model     *m = lk_sequential(lk_dense(3, .activation = LK_TANH), lk_dense(7));
        lk_checkpoint_write(a.checkpoint, IN("misfit"));
        lk_restore_status *s = lk_checkpoint_read(lk_checkpoint_of({"model", m}), IN("misfit"));
        REFUSED(LK_ESHAPE, lk_model_build(m, LK_SHAPE(4)) == LK_ESHAPE, "misfit", "[3, 2]", "\"dense_1/kernel\"", "[3, 7]");
        assert_int_equal(lk_model_variables(m).count, 0);
        REFUSED(LK_ESHAPE, lk_poisoned(lk_model_call(m, rows_of(1))), "[3, 7]"); /* still */
        lk_restore_expect_partial(s);
    }
}

TEST(mistakes)
{
    LK_POOL {
        const trained t = made(1);
        lk_variable  *v = lk_variable_of(lk_scalar(1));
        REFUSED(LK_EINVAL, !lk_checkpoint_of({"a", v}, {"a", t.model}), "lk_checkpoint_of", "two objects", "\"a\"");
        REFUSED(LK_EINVAL, !lk_checkpoint_of({"a", NULL}), "\"a\" is NULL");
        REFUSED(LK_EINVAL, !lk_checkpoint_of({"", v}), "no name");
        REFUSED(LK_EINVAL, !lk_checkpoint_of({NULL, v}), "no name");
        REFUSED(LK_EINVAL, !lk_checkpoint_of({"save_counter", v}), "save_counter");
        REFUSED(LK_EINVAL, !lk_checkpoint_of({"x", lk_scalar(1)}), "\"x\" must be a model");
        REFUSED(LK_EINVAL, !lk_checkpoint_save(NULL, IN("x")), "lk_checkpoint_save", "NULL");
        REFUSED(LK_EINVAL, !lk_checkpoint_save((lk_checkpoint *)v, IN("x")), "not a checkpoint");
        REFUSED(LK_EINVAL, !lk_checkpoint_save(t.checkpoint, NULL), "prefix is NULL");
        REFUSED(LK_EINVAL, !lk_checkpoint_write(t.checkpoint, ""), "prefix is empty");
        REFUSED(LK_EINVAL, !lk_checkpoint_save(t.checkpoint, IN("checkpoint")), "checkpoint\"", "state file");
        REFUSED(LK_EINVAL, !lk_checkpoint_write(t.checkpoint, "checkpoint"), "state file");
        REFUSED(LK_ENOTFOUND, !lk_checkpoint_restore(t.checkpoint, IN("missing-1")), "lk_checkpoint_restore", "missing-1.index");
        REFUSED(LK_EINVAL, lk_restore_assert_consumed(NULL) == LK_EINVAL, "the restore failed");
        REFUSED(LK_EINVAL, lk_restore_expect_partial((lk_restore_status *)v) == LK_EINVAL, "not the status");
        REFUSED(LK_EINVAL, !lk_latest_checkpoint(NULL), "NULL");
        lk_checkpoint *empty = lk_checkpoint_of();
        assert_non_null(lk_checkpoint_save(empty, IN("empty")));
        assert_int_equal(lk_restore_assert_consumed(lk_checkpoint_restore(empty, IN("empty-1"))), LK_OK);
        assert_false(lk_failed());
    }
}

/* ---- what only lockstep keeps ---- */

TEST(metrics)
{
    LK_POOL {
        lk_metric *a = lk_mean(), *b = lk_mean(), *c;
        lk_metric_update(a, rows_of(7));
        lk_checkpoint_write(lk_checkpoint_of({"m", a}), IN("metrics"));
        lk_metric_update(b, rows_of(3));
        assert_int_equal(lk_restore_assert_consumed(lk_checkpoint_read(lk_checkpoint_of({"m", b}), IN("metrics"))), LK_OK);
        assert_true(same_variables(lk_metric_variables(a), lk_metric_variables(b))); /* lane by lane */
        lk_set_lanes(4);
        c = lk_mean();
        lk_metric_update(c, rows_of(3));
        assert_int_equal(lk_restore_assert_consumed(lk_checkpoint_read(lk_checkpoint_of({"m", c}), IN("metrics"))), LK_OK);
        assert_true(lk_metric_result(c) == (double)(float)lk_metric_result(a)); /* their sum */
        lk_set_lanes(8);
        assert_false(lk_failed());
    }
}

/* Dropout's random numbers continue where they stopped. */
TEST(dropout_goes_on)
{
    LK_POOL {
        lk_model *a = lk_sequential(lk_dense(8), lk_dropout(0.5)), *b = lk_sequential(lk_dense(8), lk_dropout(0.5));
        for (int i = 0; i < 3; i++)
            lk_model_call(a, rows_of(2), .training = LK_ON);
        lk_checkpoint_write(lk_checkpoint_of({"model", a}), IN("dropout"));
        lk_checkpoint_read(lk_checkpoint_of({"model", b}), IN("dropout"));
        assert_true(same_bits(lk_model_call(a, rows_of(2), .training = LK_ON), lk_model_call(b, rows_of(2), .training = LK_ON)));
        assert_false(lk_failed());
    }
}

/* An optimiser's lists are found by what they are for: a schedule instead of the rate shifts only numbers. */
TEST(a_schedule_instead_of_a_rate)
{
    LK_POOL {
        const trained a = made(3),
                      b = {.model = small_model(),
                           .optimizer = lk_adam(.schedule = lk_piecewise_constant_decay(1, (double[]){10}, (double[]){0.1, 0.01}))};
        lk_checkpoint_write(a.checkpoint, IN("rate"));
        build(&b);
        lk_restore_status *s = lk_checkpoint_read(lk_checkpoint_of({"optimizer", b.optimizer}, {"model", b.model}), IN("rate"));
        assert_int_equal(lk_restore_assert_existing_objects_matched(s), LK_OK);
        lk_variables ours = lk_optimizer_variables(b.optimizer), theirs = lk_optimizer_variables(a.optimizer);
        assert_int_equal(ours.count, theirs.count - 1);
        for (int i = 1; i < ours.count; i++)
            assert_true(same_bits(lk_read(ours.item[i]), lk_read(theirs.item[i + 1])));
        lk_restore_expect_partial(s);
    }
}

/* ---- TensorFlow's ---- */

static lk_model *tutorial_model(void)
{
    return lk_sequential(lk_conv2d(32, 3, .activation = LK_RELU), lk_max_pooling2d(), lk_conv2d(64, 3, .activation = LK_RELU),
                         lk_max_pooling2d(), lk_flatten(), lk_dense(64, .activation = LK_RELU), lk_dense(10));
}

static bool is_value(lk_variable *v, const lki_zip *values, int n)
{
    lki_array a;
    char      name[16];
    snprintf(name, sizeof name, "v%03d", n);
    if (lki_npz_read(values, name, &a) != LK_OK) return false;
    const bool same = same_bits(lk_read(v), lk_tensor_from(a.shape, a.dtype, a.data));
    lki_array_free(&a);
    return same;
}

/* Sorted by key: the graph, iterations, rate, 8 weights, then the slots 10 .. 17, 2 .. 9, and the counter. */
static bool is_golden(lk_model *m, lk_optimizer *o, const lki_zip *values)
{
    const lk_variables w = lk_model_weights(m), s = lk_optimizer_variables(o);
    bool               good = w.count == 8 && s.count == 18 && is_value(s.item[0], values, 1) && is_value(s.item[1], values, 2);
    for (int i = 0; i < 8; i++)
        good = good && is_value(w.item[i], values, 3 + i) && is_value(s.item[10 + i], values, 11 + i) &&
               is_value(s.item[2 + i], values, 19 + i);
    return good;
}

TEST(what_tensorflow_saved)
{
    const char *golden = folder_or_skip("LOCKSTEP_GOLDEN");
    char        path[512], values[512];
    lki_zip     zip;
    snprintf(path, sizeof path, "%s/files/checkpoint", golden);
    snprintf(values, sizeof values, "%s/files/checkpoint_values.npz", golden);
    assert_int_equal(lki_zip_open(values, &zip), LK_OK);
    LK_POOL {
        for (int later = 0; later < 2; later++) {
            lk_model      *m = tutorial_model();
            lk_optimizer  *o = lk_adam();
            lk_checkpoint *c = lk_checkpoint_of({"optimizer", o}, {"model", m});
            if (!later) lk_model_build(m, LK_SHAPE(28, 28, 1)), lk_optimizer_build(o, lk_model_trainable_variables(m));
            lk_restore_status *s = lk_checkpoint_restore(c, lk_latest_checkpoint(path));
            if (later) lk_model_build(m, LK_SHAPE(28, 28, 1)), lk_optimizer_build(o, lk_model_trainable_variables(m));
            assert_int_equal(lk_restore_assert_consumed(s), LK_OK);
            assert_true(is_golden(m, o, &zip));
            assert_int_equal(lk_optimizer_iterations(o), 5);
            assert_string_equal(lk_checkpoint_save(c, IN("golden")), IN("golden-2"));
        }
        assert_false(lk_failed());
    }
    lki_zip_close(&zip);
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers),
        cmocka_unit_test(saving_disturbs_nothing),
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(nothing_to_restore),
        cmocka_unit_test(variables_are_stored_once),
        cmocka_unit_test(only_a_part),
        cmocka_unit_test(nothing_in_common),
        cmocka_unit_test(restored_when_built),
        cmocka_unit_test(training_goes_on_after_a_restore),
        cmocka_unit_test(only_the_model_is_left),
        cmocka_unit_test(set_only_once),
        cmocka_unit_test(the_last_restore_counts),
        cmocka_unit_test(nobody_waits_for_a_model_that_goes),
        cmocka_unit_test(built_while_a_function_is_traced),
        cmocka_unit_test(built_inside_run),
        cmocka_unit_test(trained_inside_run_after_a_restore),
        cmocka_unit_test(sync_on_read_variables),
        cmocka_unit_test(sync_on_read_without_aggregation),
        cmocka_unit_test(not_inside_run_or_a_traced_function),
        cmocka_unit_test(shapes_and_types),
        cmocka_unit_test(a_model_that_does_not_fit_when_it_is_built),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(metrics),
        cmocka_unit_test(dropout_goes_on),
        cmocka_unit_test(a_schedule_instead_of_a_rate),
        cmocka_unit_test(what_tensorflow_saved),
    };
    return cmocka_run_group_tests(tests, folder_begin, folder_end);
}
