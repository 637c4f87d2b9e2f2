/* Runs that are stopped and resumed, compared bit by bit with an uninterrupted one. */
#ifndef LK_TESTS_FIT_RESUMED_H
#define LK_TESTS_FIT_RESUMED_H

#include "check.h"
#include "folder.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

/* What a run ends with: weights and all of the optimiser, and every value of the history. */
typedef struct outcome {
    lk_digest digest;
    int64_t   steps; /* of this part */
    char      history[1 << 14];
} outcome;

static inline lk_digest state_digest(lk_model *m)
{
    const lk_variables w = lk_model_variables(m), o = lk_optimizer_variables(lk_model_optimizer(m));
    lk_variable       *all[w.count + o.count + 1];
    for (int i = 0; i < w.count + o.count; i++)
        all[i] = i < w.count ? w.item[i] : o.item[i - w.count];
    return lk_variables_digest(lk_variables_from(w.count + o.count, all));
}

/* "0 loss 3ff... accuracy 3fe...", a line per epoch; what was not measured is left out. */
static inline void history_text(const lk_history *h, char *text, size_t room)
{
    const lk_names names = lk_history_names(h);
    size_t         at = 0;
    text[0] = 0;
    for (int i = 0; i < lk_history_epochs(h); i++) {
        at += (size_t)snprintf(text + at, room - at, "%d", lk_history_epoch(h, i));
        for (int n = 0; n < names.count; n++) {
            const double value = lk_history_value(h, names.item[n], i);
            uint64_t     bits;
            memcpy(&bits, &value, sizeof bits);
            if (value == value) at += (size_t)snprintf(text + at, room - at, " %s %llx", names.item[n], (unsigned long long)bits);
        }
        at += (size_t)snprintf(text + at, room - at, "\n");
        assert_true(at < room);
    }
}

/* How a part of a run is made: on this many replicas (0: under no strategy), stopped after this many steps (0: to the end), saving
 * in `folder` (NULL: not at all). */
typedef struct part {
    int         replicas;
    int64_t     stop;
    const char *folder;
    const char *file; /* for those that write one */
} part;

typedef void feature_fn(const part *p, outcome *out);

/* Fit, with a callback more for the folder; put what came out. */
static inline void fit_part(const part *p, lk_fit_args a, outcome *out)
{
    lk_callback *item[8] = {NULL};
    int          count = 0;
    for (int i = 0; i < a.callbacks.count; i++)
        item[++count] = a.callbacks.item[i];
    item[++count] = lk_backup_and_restore(p->folder);
    a.callbacks = lk_callbacks_of(count, item);
    a.verbose = LK_SILENT;
    a.stop_after_steps = p->stop;
    const lk_history *h = lk_model_fit_kw(a);
    assert_string_equal(lk_error(), "");
    history_text(h, out->history, sizeof out->history);
    out->steps = lk_history_times(h).steps;
    out->digest = state_digest(a.model);
}

static inline void run_part(feature_fn *feature, part p, outcome *out)
{
    lk_clear_error();
    LK_POOL
        LK_STEP {
            feature(&p, out);
        }
}

#endif
