/* The value that a callback monitors, and whether it improved.
 *
 * Invariants
 * 1. NaN is never better than the best value, and never becomes the best value.
 * 2. A missing value is a warning, given once, that lists the values there are. */
#include "core/log.h"
#include "core/memory.h"
#include "core/option.h"
#include "fit/callback.h"
#include <math.h>
#include <string.h>

/* Words in the names of metrics whose larger values are better, as Keras' metrics declare. */
static const char *const MORE_IS_BETTER[] = {"accuracy", "acc",         "auc",         "precision", "recall", "f1",    "fbeta",
                                             "true",     "sensitivity", "specificity", "iou",       "r2",     "cosine"};

static bool is_word(const char *text, size_t length)
{
    for (int i = 0; i < LKI_COUNT(MORE_IS_BETTER); i++)
        if (strlen(MORE_IS_BETTER[i]) == length && memcmp(MORE_IS_BETTER[i], text, length) == 0) return true;
    return false;
}

/* "val_dense_1_accuracy" contains the word accuracy; a name that ends in "loss" is always a loss. */
static int sign_of(const char *name)
{
    const size_t size = strlen(name);
    if (size >= 4 && strcmp(name + size - 4, "loss") == 0) return -1;
    for (const char *word = name; *word; word += strspn(word, "_")) {
        const size_t length = strcspn(word, "_");
        if (is_word(word, length)) return 1;
        word += length;
    }
    return -1;
}

lk_status lki_monitor_begin(const char *call, lki_monitor *m, const char *name, lk_monitor_mode mode, double min_delta)
{
    if (mode < LK_MODE_AUTO || mode > LK_MODE_MAX)
        return lki_fail(LK_EINVAL, "%s: mode %d; it should be LK_MODE_AUTO, LK_MODE_MIN or LK_MODE_MAX", call, (int)mode);
    if (!isfinite(min_delta)) return lki_fail(LK_EINVAL, "%s: min_delta %g; it should be a finite number", call, min_delta);
    m->name = lki_strdup(name ? name : "val_loss");
    if (!m->name) return LK_ENOMEM;
    m->sign = mode == LK_MODE_AUTO ? sign_of(m->name) : mode == LK_MODE_MAX ? 1 : -1;
    m->min_delta = fabs(min_delta);
    lki_monitor_reset(m, (lk_number){0});
    return LK_OK;
}

void lki_monitor_end(lki_monitor *m) { lki_release(m->name); }

void lki_monitor_reset(lki_monitor *m, lk_number best) { m->best = lki_number_or(best, m->sign > 0 ? -INFINITY : INFINITY); }

bool lki_monitor_value(lki_monitor *m, const char *what, const lk_logs *logs, double *value)
{
    for (int i = 0; i < logs->count; i++)
        if (strcmp(logs->name[i], m->name) == 0) {
            *value = logs->value[i];
            return true;
        }
    char text[512];
    if (!m->warned)
        lki_warn("%s conditioned on metric `%s` which is not available. Available metrics are: %s", what, m->name,
                 lki_logs_text(logs, text, sizeof text));
    m->warned = true;
    return false;
}

bool lki_monitor_better(const lki_monitor *m, double value, double than)
{
    if (isnan(than)) return !isnan(value);
    return m->sign > 0 ? value - m->min_delta > than : value + m->min_delta < than;
}

void lki_monitor_save(const lki_monitor *m, lki_sink *s)
{
    lki_state_put_real(s, m->best);
    lki_state_put(s, m->warned);
}

void lki_monitor_load(lki_monitor *m, lki_wire *w)
{
    m->best = lki_state_get_real(w);
    m->warned = lki_state_get(w) != 0;
}
