/* Calling callbacks directly: a model of one weight, artificial events, and what was printed and logged. */
#ifndef LK_TESTS_FIT_HOOKS_H
#define LK_TESTS_FIT_HOOKS_H

#include "check.h"
#include "fit/callback.h"
#include "format/h5.h"
#include "model/model.h"
#include <lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what is said ---- */

static char said[1 << 16], logged[1 << 14];

static inline void keep_text(const char *text, void *to)
{
    char *all = to;
    strncat(all, text, (all == said ? sizeof said : sizeof logged) - strlen(all) - 1);
}

static inline void listen(void)
{
    said[0] = logged[0] = 0;
    lk_set_output(keep_text, said);
    lk_set_log(keep_text, logged);
}

static inline void heard(const char *text)
{
    assert_string_equal(said, text);
    said[0] = 0;
}

static inline int listen_first(void **state)
{
    (void)state;
    lk_clear_error();
    listen();
    return 0;
}
#define HOOK_TEST(name) cmocka_unit_test_setup(name, listen_first)

static inline void refused(lk_status code, const char *words)
{
    assert_true(lk_failed());
    if (!strstr(lk_error(), words)) fail_msg("\"%s\" does not say \"%s\"", lk_error(), words);
    assert_int_equal(lk_error_code(), code);
    lk_clear_error();
}

/* ---- a model ---- */

/* y = w x, w = 1 to begin with; rows 1..7, targets 0. */
static inline lk_model *small_model(lk_optimizer *o)
{
    lk_model *m = lk_sequential(lk_dense(1, .use_bias = LK_OFF, .input_shape = LK_SHAPE(1), .kernel_initializer = lk_init_ones()));
    lk_model_compile(m, .optimizer = o ? o : lk_sgd(.learning_rate = 0.001), .loss = lk_mean_squared_error());
    return m;
}

static inline lk_tensor *rows_x(void) { return lk_tensor_of(LK_SHAPE(7, 1), 1, 2, 3, 4, 5, 6, 7); }
static inline lk_tensor *rows_y(void) { return lk_zeros(LK_SHAPE(7, 1), LK_F32); }
static inline double     weight_of(lk_model *m) { return lk_item(lk_read(lk_model_weights(m).item[0])); }
static inline void       set_weight(lk_model *m, double w) { lk_model_set_weights(m, LK_TUPLE(lk_tensor_of(LK_SHAPE(1, 1), w))); }
static inline bool       was_stopped(lk_model *m) { return m->stop; }

/* ---- events ---- */

typedef struct stage {
    lki_happening h;
    lki_logs      logs;
} stage;

/* Start again; zeroed before the first time. */
static inline void stage_set(stage *s, lk_model *m)
{
    lki_logs_free(&s->logs);
    *s = (stage){.h = {.event = {.model = m, .epochs = 10, .batches = LK_UNKNOWN}, .verbose = 1}};
    if (m) m->stop = 0;
}

static inline lk_status tell(lk_callback *c, lki_hook hook, const stage *s)
{
    return c->kind->on[hook] ? c->kind->on[hook](c, &s->h) : LK_OK;
}
#define TELL(c, hook, s) tell(c, LKI_HOOK_##hook, s)

/* The end of an epoch with these logs: {"loss", 1}, ... */
typedef struct entry {
    const char *name;
    double      value;
} entry;

static inline lk_status end_epoch_with(lk_callback *c, stage *s, int epoch, int count, const entry *e)
{
    lki_logs_clear(&s->logs);
    for (int i = 0; i < count; i++)
        lki_logs_set(&s->logs, e[i].name, e[i].value);
    s->h.event.epoch = epoch;
    s->h.event.logs = s->logs.logs;
    s->h.more = &s->logs;
    s->h.stopped = s->h.event.model && was_stopped(s->h.event.model);
    const lk_status status = TELL(c, epoch_end, s);
    s->h.more = NULL;
    return status;
}
#define END_EPOCH(c, s, epoch, ...)                                                                                                \
    end_epoch_with(c, s, epoch, (int)(sizeof((entry[]){__VA_ARGS__}) / sizeof(entry)), (entry[]){__VA_ARGS__})

/* The end of a step. */
static inline lk_status end_batch(lk_callback *c, stage *s, int epoch, int64_t batch, double loss)
{
    static const char *const name[] = {"loss"};
    static double            value[1];
    value[0] = loss;
    s->h.event.epoch = epoch;
    s->h.event.batch = batch;
    s->h.event.logs = (lk_logs){1, name, value};
    return TELL(c, train_batch_end, s);
}

static inline void stage_free(stage *s) { lki_logs_free(&s->logs); }

/* ---- what several programs need ---- */

static inline void read_text(const char *path, char *text, size_t bytes)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    text[fread(text, 1, bytes - 1, f)] = 0;
    fclose(f);
}

static inline lk_callback *fresh(lk_callback *c, stage *s, lk_model *m)
{
    assert_non_null(c);
    stage_set(s, m);
    assert_int_equal(TELL(c, train_begin, s), LK_OK);
    return c;
}

#define NEEDS_HELPER()                                                                                                             \
    if (!lki_h5_helper()) {                                                                                                        \
        print_message("lockstep-h5 was not built: install libhdf5-dev and rebuild\n");                                             \
        skip();                                                                                                                    \
    }

/* Half the rate at each epoch; counts its calls. */
static inline double halved(int epoch, double rate, void *user)
{
    ++*(int *)user;
    return epoch == 3 ? NAN : epoch ? rate / 2 : 0.5;
}

#endif
