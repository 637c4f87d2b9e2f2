/* The result of fit (history.h). */
#include "fit/history.h"
#include "core/error.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "dist/device.h"
#include <math.h>
#include <string.h>

static void destroy(void *object)
{
    lk_history *h = object;
    for (int i = 0; i < h->names; i++)
        lki_release(h->name[i]);
    for (int i = 0; i < h->epochs; i++)
        lki_release(h->value[i]);
    lki_release(h->name);
    lki_release(h->epoch);
    lki_release(h->value);
    lki_release(h->values);
}

lk_history *lki_history_new(void) { return lki_object_new(sizeof(lk_history), LKI_KIND_HISTORY, LKI_LIVES_IN_POOL, destroy); }

static int find(const lk_history *h, const char *name)
{
    for (int i = 0; i < h->names; i++)
        if (!strcmp(h->name[i], name)) return i;
    return -1;
}

static lk_status name_all(lk_history *h, const lk_logs *logs)
{
    for (int i = 0; i < logs->count; i++) {
        if (find(h, logs->name[i]) >= 0) continue;
        if (!lki_grow((void **)&h->name, &h->name_room, h->names + 1, sizeof *h->name)) return LK_ENOMEM;
        if (!(h->name[h->names] = lki_strdup(logs->name[i]))) return LK_ENOMEM;
        h->names++;
    }
    return LK_OK;
}

lk_status lki_history_add(lk_history *h, int epoch, const lk_logs *logs)
{
    LKI_TRY(name_all(h, logs));
    double *row = lki_alloc_array(h->names + 1, sizeof *row);
    if (!row || !lki_grow((void **)&h->epoch, &h->epoch_room, h->epochs + 1, sizeof *h->epoch) ||
        !lki_grow((void **)&h->value, &h->value_room, h->epochs + 1, sizeof *h->value) ||
        !lki_grow((void **)&h->values, &h->values_room, h->epochs + 1, sizeof *h->values)) {
        lki_release(row);
        return LK_ENOMEM;
    }
    for (int i = 0; i < h->names; i++)
        row[i] = lk_logs_get(logs, h->name[i]);
    h->epoch[h->epochs] = epoch;
    h->value[h->epochs] = row;
    h->values[h->epochs++] = h->names;
    return LK_OK;
}

/* ---- reading it ---- */

static bool is_history(const char *call, const lk_history *h)
{
    if (lki_is_kind(h, LKI_KIND_HISTORY)) return true;
    if (h || !lk_failed()) lki_fail(LK_EINVAL, "%s: %s", call, h ? "not a history" : "the history is NULL");
    return false;
}

static bool has_epoch(const char *call, const lk_history *h, int i)
{
    if (!is_history(call, h)) return false;
    if (i >= 0 && i < h->epochs) return true;
    return lki_fail(LK_EINVAL, "%s: epoch %d of %d", call, i, h->epochs), false;
}

int lk_history_epochs(const lk_history *h) { return is_history("lk_history_epochs", h) ? h->epochs : 0; }
int lk_history_epoch(const lk_history *h, int i) { return has_epoch("lk_history_epoch", h, i) ? h->epoch[i] : -1; }

lk_names lk_history_names(const lk_history *h)
{
    if (!is_history("lk_history_names", h)) return (lk_names){0};
    return (lk_names){h->names, (const char *const *)h->name};
}

double lk_history_value(const lk_history *h, const char *name, int i)
{
    if (!has_epoch("lk_history_value", h, i)) return NAN;
    int n = name ? find(h, name) : -1;
    if (n < 0)
        return lki_fail(LK_ENOTFOUND, "lk_history_value: there is no \"%s\" in this history", name ? name : "NULL"), (double)NAN;
    return n < h->values[i] ? h->value[i][n] : NAN;
}

lk_status lk_history_print(const lk_history *h)
{
    LKI_NEAREST;
    if (!is_history("lk_history_print", h)) return LK_EINVAL;
    for (int n = 0; n < h->names; n++) {
        lki_output("%s:", h->name[n]);
        for (int i = 0; i < h->epochs; i++)
            if (n < h->values[i]) lki_output(" %.4f", h->value[i][n]);
        lki_output("\n");
    }
    return LK_OK;
}

lk_fit_times lk_history_times(const lk_history *h) { return is_history("lk_history_times", h) ? h->times : (lk_fit_times){0}; }
