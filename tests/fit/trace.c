/* Traces: what is recorded while one is on, the file, and errors. */
#include "check.h"
#include "folder.h"
#include "format/json.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static lk_model *small(void)
{
    lk_model *m = lk_sequential(lk_dense(8, .activation = LK_RELU, .input_shape = LK_SHAPE(4)), lk_dense(1));
    lk_model_compile(m, .loss = lk_mean_squared_error(), .optimizer = lk_sgd());
    return m;
}

static const lki_json *events_of(const char *path, const lki_json **root)
{
    lki_bytes text;
    assert_int_equal(lki_file_read(path, &text), LK_OK);
    assert_int_equal(lki_json_parse(path, (const char *)text.data, text.size, root), LK_OK);
    lki_bytes_free(&text);
    return lki_json_get(*root, "traceEvents");
}

static bool is(const lki_json *e, const char *key, const char *value)
{
    const lki_json *v = lki_json_get(e, key);
    return v && v->type == LKI_JSON_STRING && !strcmp(v->text, value);
}

/* How many spans of a kind there are, on a process of the picture (-1: any). */
static int spans(const lki_json *events, const char *kind, int process)
{
    int count = 0;
    for (int i = 0; i < events->count; i++) {
        const lki_json *e = &events->item[i];
        if (!is(e, "ph", "X") || !is(e, "cat", kind)) continue;
        assert_true(lki_json_get(e, "dur")->number >= 0 && lki_json_get(e, "ts")->number >= 0);
        count += process < 0 || lki_json_get(e, "pid")->integer == process;
    }
    return count;
}

TEST(a_trace_shows_compute_communication_and_input)
{
    LK_POOL
        LK_STEP {
            lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
            lk_model    *m = NULL;
            char         path[512];
            snprintf(path, sizeof path, "%s/trace.json", folder_new());
            LK_SCOPE(s)
                m = small();
            assert_int_equal(lk_trace_begin(), LK_OK);
            assert_int_equal(lk_trace_begin(), LK_ESTATE);
            assert_non_null(strstr(lk_error(), "already"));
            lk_clear_error();
            lk_model_fit(m, .x = lk_random_normal(LK_SHAPE(40, 4)), .y = lk_zeros(LK_SHAPE(40, 1), LK_F32), .batch_size = 8,
                         .verbose = LK_SILENT);
            assert_int_equal(lk_trace_end(path), LK_OK);
            assert_string_equal(lk_error(), "");
            const lki_json *root, *events = events_of(path, &root);
            assert_int_equal(spans(events, "step", 0), 5);
            assert_true(spans(events, "input", -1) >= 6);
            assert_true(spans(events, "compute", 1) > 0); /* replica 0 */
            assert_true(spans(events, "compute", 2) > 0); /* replica 1 */
            assert_true(spans(events, "communication", -1) > 0);
            assert_true(lki_json_get(root, "dropped")->number == 0);
            lki_json_free(root);

            lk_trace_begin(); /* the next one begins with nothing */
            assert_int_equal(lk_trace_end(path), LK_OK);
            events = events_of(path, &root);
            assert_int_equal(spans(events, "step", -1), 0);
            lki_json_free(root);
        }
}

TEST(what_is_refused)
{
    assert_int_equal(lk_trace_end("x.json"), LK_ESTATE);
    lk_clear_error();
    lk_trace_begin();
    assert_int_equal(lk_trace_end("/no/such/folder/x.json"), LK_EIO);
    assert_non_null(strstr(lk_error(), "/no/such/folder"));
    lk_clear_error();
    char path[512]; /* what was recorded is not lost */
    snprintf(path, sizeof path, "%s/trace.json", folder_new());
    assert_int_equal(lk_trace_end(path), LK_OK);
}

TESTS(cmocka_unit_test(a_trace_shows_compute_communication_and_input), cmocka_unit_test(what_is_refused))
