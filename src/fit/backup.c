/* BackupAndRestore: a run that ended, for whatever reason, resumes where it stopped (resume.h).
 *
 *     DIR/backup-7.index, .data-...    checkpoint of "model" and "optimizer", and the place of training under LKI_RESUME_KEY
 *     DIR/backup-6...                  the one before
 *
 *     training thread    step  step [copy] step  step  step  step  step [look] step ...
 *     writer                          \__ write, sync, rename, read back, remove the oldest __/
 *
 * Invariants
 * 1. One save at a time: the copy is not touched until its writer has ended. A save that falls due meanwhile is made afterwards.
 * 2. Each backup has a number of its own. The previous backup is removed only after the new one was read back and found complete.
 *    So the newest readable backup is complete, whenever the process ends. Unfinished files are removed when the next run begins.
 *    The run locks the folder (flock) when it first uses or writes a backup there, and keeps the lock to its end: two runs never
 *    share a folder.
 * 3. A failed save is a warning and never ends training; the same warning is given once. Saving by seconds waits at least DEAR
 *    times as long as the last copy took, however large the model is.
 * 4. Weights whose loss is not finite are not saved: the backup before them is worth more. */
#include "core/log.h"
#include "core/memory.h"
#include "data/data.h"
#include "fit/backup_files.h"
#include "fit/resume.h"
#include "model/snapshot.h"
#include <math.h>
#include <string.h>

enum { DEAR = 100 };

typedef struct backup {
    lk_callback base;
    char       *folder; /* NULL: does nothing */
    lki_every   every;
    double      seconds; /* 0: by steps or epochs */
    bool        stay;    /* keep the files when fit has finished */

    lk_checkpoint *checkpoint; /* a reference, while a fit runs */
    lki_snapshot  *snapshot;
    bool           due;
    double         last, took;    /* when the last copy was made, or training began; how long the copy took */
    lki_fit_place  at;            /* place of training in the last copy */
    bool           over;          /* whether training had finished there */
    bool           kept;          /* that copy is on the disk, or is being written */
    int64_t        number;        /* the last number in use */
    int            lock;          /* on the folder, from this run's first use of it; -1: none */
    int64_t        newest, older; /* the backups that can be read; 0: none. They belong to the writer while it runs */

    bool             running; /* the writer must be joined */
    lki_thread       writer;
    bool             done;  /* atomic: it has ended */
    lki_error_record error; /* of the writer; code LK_OK: none */
    char             told[LKI_ERROR_TEXT];
} backup;

/* ---- the writer -------------------------------------------------------------------------------------------------------------- */

static lk_status write_and_look(const backup *b, const char *prefix)
{
    LKI_TRY(lki_snapshot_write(b->snapshot, prefix));
    return lki_checkpoint_verify(prefix);
}

static void *write_one(void *arg)
{
    backup         *b = arg;
    char           *prefix = lki_backup_prefix(b->folder, b->number);
    const lk_status status = prefix ? write_and_look(b, prefix) : lki_fail(LK_ENOMEM, "there is no memory for a path");
    lki_error_take(&b->error);
    if (status == LK_OK) {
        b->older = b->newest;
        b->newest = b->number;
        lki_backup_prune(b->folder, b->newest, b->older);
    } else lki_backup_remove(b->folder, b->number);
    lki_release(prefix);
    __atomic_store_n(&b->done, true, __ATOMIC_RELEASE);
    return NULL;
}

/* ---- saving ------------------------------------------------------------------------------------------------------------------ */

/* The warning is given on this thread and leaves no error in it. */
static void warn_once(backup *b, const lki_error_record *why)
{
    if (strcmp(b->told, why->text) == 0) return;
    memcpy(b->told, why->text, sizeof b->told);
    lki_warn("%s: a backup could not be saved: %s; training continues, and the next backup is tried", b->folder, why->text);
}

/* Wait for the writer and take over its result. */
static void join(backup *b)
{
    if (!b->running) return;
    lki_thread_join(&b->writer);
    b->running = false;
    if (!lki_thread_is_here(&b->writer)) { /* the parent has the writer; its result is not known here */
        b->kept = false;
        return;
    }
    if (b->error.code == LK_OK) {
        b->told[0] = 0;
        return;
    }
    b->kept = false;
    b->number--; /* none of its files is left */
    warn_once(b, &b->error);
}

static bool writing(backup *b)
{
    if (b->running && __atomic_load_n(&b->done, __ATOMIC_ACQUIRE)) join(b);
    return b->running;
}

static lk_status copy(backup *b, lki_fit_run *r)
{
    lki_sink state LKI_FREED_BY(lki_sink_free) = {0};
    LKI_TRY(lki_resume_save(r, &state));
    LKI_TRY(lki_snapshot_take(b->checkpoint, &b->snapshot));
    return lki_snapshot_put(b->snapshot, LKI_RESUME_KEY, state.data, state.size);
}

/* Lock the folder for this run. Fails if another run has it, or has written backups there since this run began. */
static lk_status own_folder(backup *b)
{
    lki_backup_list list = {0};
    if (b->lock >= 0) return LK_OK;
    LKI_TRY(lki_backup_lock(b->folder, true, &b->lock));
    lk_status status = lki_backup_list_of(b->folder, &list);
    if (status == LK_OK && list.count)
        status = lki_fail(LK_ESTATE, "%s: another training has kept backups there since this one began", b->folder);
    lki_release(list.number);
    if (status == LK_OK) return LK_OK;
    lki_backup_unlock(&b->lock);
    return status;
}

static lk_status start(backup *b, lki_fit_run *r)
{
    lk_status status = own_folder(b);
    LKI_TRY(status);
    LK_POOL
        status = copy(b, r);
    LKI_TRY(status);
    b->done = false;
    b->number++;
    status = lki_thread_start("lk_backup_and_restore", write_one, b, &b->writer);
    if (status != LK_OK) b->number--;
    LKI_TRY(status);
    b->running = b->kept = true;
    b->at = r->place;
    b->over = r->over;
    return LK_OK;
}

/* Requires that no writer is running. */
static void save(backup *b, lki_fit_run *r)
{
    const double     begin = lki_seconds();
    lki_error_record before, why;
    lki_error_take(&before);
    const lk_status status = start(b, r);
    lki_error_take(&why);
    if (before.code != LK_OK) lki_error_put(&before);
    if (why.code == LK_OK && status != LK_OK) why = (lki_error_record){.code = status, .text = "there is no memory for it"};
    b->due = false;
    b->last = lki_seconds();
    b->took = b->last - begin;
    if (status == LK_OK) return;
    b->kept = false;
    warn_once(b, &why);
}

static bool is_kept(const backup *b, const lki_fit_run *r)
{
    const lki_fit_place *p = &r->place;
    return b->kept && b->at.epoch == p->epoch && b->at.batch == p->batch && b->at.within == p->within && b->over == r->over;
}

/* Save now: wait for the running writer first. If the save fails, try once more, because the place where training ends is worth
 * it. */
static void save_at_last(backup *b, lki_fit_run *r)
{
    join(b);
    if (is_kept(b, r)) return;
    save(b, r);
    join(b);
}

static bool spoilt(const lki_fit_run *r)
{
    const lk_logs logs = r->now.event.logs;
    return logs.count && !isfinite(lk_logs_get(&logs, "loss"));
}

static bool falls_due(backup *b, const lki_fit_run *r, lki_rest why)
{
    const bool by_epochs = !b->every.steps && !(b->seconds > 0);
    if (why == LKI_REST_EPOCH) return by_epochs;
    const bool steps = lki_every_due(&b->every, r->now.event.batch - 1);
    return steps || (b->seconds > 0 && lki_seconds() - b->last >= fmax(b->seconds, DEAR * b->took));
}

/* Training has finished, so there is nothing to resume: remove the backups. */
static void finish(backup *b, lki_fit_run *r)
{
    if (b->stay && !spoilt(r)) save_at_last(b, r);
    join(b);
    if (b->stay || b->lock < 0) return; /* or this run has no files there */
    lki_backup_prune(b->folder, 0, 0);
    lki_backup_remove_folder(b->folder);
    b->newest = b->older = 0;
    b->kept = false;
}

static void at_rest(lk_callback *base, lki_fit_run *r, lki_rest why)
{
    backup *b = (backup *)base;
    if (!b->folder) return;
    if (why == LKI_REST_END) finish(b, r);
    else if (why == LKI_REST_STOP && !spoilt(r)) save_at_last(b, r);
    else if (why != LKI_REST_STOP) {
        b->due = falls_due(b, r, why) || b->due;
        if (b->due && !writing(b) && !spoilt(r)) save(b, r);
    }
}

/* ---- resuming ------------------------------------------------------------------------------------------------------------- */

/* Compare what the bits depend on. Lanes must be the same, because they are part of the data; any other difference is a warning. */
static lk_status check_provenance(const lki_fit_run *r)
{
    const char          *prefix = r->resume.from;
    const lki_provenance here = lki_provenance_under(r->engine->strategy);
    lki_provenance       then;
    if (lki_checkpoint_provenance(prefix, &then) != LK_OK) return LK_OK;
    if (then.lanes != here.lanes)
        return lki_fail(LK_EINVAL,
                        "%s was saved with %d lanes, here are %d; make the strategy with .lanes = %d, or remove it to start again",
                        prefix, then.lanes, here.lanes, then.lanes);
    const bool known = then.device[0];
    if (known && (strcmp(then.device, here.device) != 0 || strcmp(then.precision, here.precision) != 0))
        lki_warn(
            "%s was saved on a %s with precision %s; this training continues on a %s with precision %s: bits differ from here on",
            prefix, then.device, then.precision, here.device, here.precision);
    if (then.kernels != here.kernels)
        lki_warn("%s was saved with kernels of version %d; here they are of version %d: bits may differ from here on", prefix,
                 then.kernels, here.kernels);
    return LK_OK;
}

/* Check that a checkpoint is complete and is a backup, and read its place into *out. */
static lk_status look_at(const char *prefix, lki_resume *out)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(lki_checkpoint_verify(prefix));
    const lk_status status = lki_checkpoint_extra(prefix, LKI_RESUME_KEY, &bytes);
    if (status == LK_ENOTFOUND && !lk_failed())
        return lki_fail(LK_EFORMAT, "%s: a checkpoint without a record of where training was", prefix);
    return status == LK_OK ? lki_resume_open(prefix, &bytes, out) : status;
}

static lk_status restore_values(const backup *b, const char *prefix)
{
    lk_status status = LK_OK;
    LK_POOL
        status = lk_checkpoint_read(b->checkpoint, prefix) ? LK_OK : lk_error_code();
    return status;
}

/* The newest complete backup. A damaged one is a warning, or an error if there is no complete one. */
static lk_status find_whole(backup *b, const lki_backup_list *list, lki_resume *out)
{
    for (int i = 0; i < list->count; i++) {
        lki_error_record why;
        char            *prefix = lki_backup_prefix(b->folder, list->number[i]);
        const lk_status  status = prefix ? look_at(prefix, out) : LK_ENOMEM;
        lki_release(prefix);
        if (status == LK_OK) b->newest = list->number[i];
        if (status == LK_OK || status == LK_ENOMEM) return status;
        if (i + 1 == list->count) break;
        lki_error_take(&why);
        lki_warn("%s; the backup before it is used", why.text);
    }
    if (!list->count) return LK_OK;
    lki_error_record why;
    lki_error_take(&why);
    return lki_fail(why.code, "lk_backup_and_restore: %s; there is no other one: remove it to start again", why.text);
}

static lk_status find(backup *b, lki_resume *out)
{
    lki_backup_list list = {0};
    lk_status       status = lki_backup_list_of(b->folder, &list);
    b->number = list.count ? list.number[0] : 0;
    b->newest = b->older = 0;
    if (status == LK_OK && !out->bytes.data) status = find_whole(b, &list, out); /* else another run's backup was first */
    lki_release(list.number);
    return status;
}

static lk_status make_checkpoint(backup *b, lk_model *m)
{
    lk_optimizer *o = lk_model_optimizer(m);
    lki_drop(b->checkpoint);
    LK_POOL
        b->checkpoint = lki_retain(lk_checkpoint_from(o ? 2 : 1, (lk_trackable[]){{0}, {"model", m}, {"optimizer", o}}));
    return b->checkpoint ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
}

/* Make the weights and slots that the first step would make: a backup at the end of an epoch or of training may have no such step
 * after it. A custom model, or one with several inputs, makes its weights when it is called. */
static lk_status build_model(lki_fit_run *r)
{
    lk_model             *m = r->engine->model;
    const lk_element_spec spec = lk_dataset_element_spec(r->train.dataset);
    lk_shape              row = {.rank = spec.count ? spec.shape[0].rank - 1 : -1};
    bool                  known = row.rank >= 0 && !lki_model_built(m) && m->form != LKI_OWN_MODEL && m->inputs == 1;
    for (int i = 0; i < row.rank; i++) {
        row.dim[i] = spec.shape[0].dim[i + 1];
        known = known && row.dim[i] >= 0;
    }
    return known ? lk_model_build(m, row) : lk_failed() ? lk_error_code() : LK_OK;
}

static lk_status build_slots(lki_fit_run *r)
{
    lk_model    *m = r->engine->model;
    lk_strategy *s = r->engine->strategy;
    lk_status    status = LK_OK;
    if (!lki_model_built(m)) return LK_OK;
    LK_STEP {
        const lk_variables v = lk_model_trainable_variables(m);
        if (s->kind == LKI_STRATEGY_DEFAULT) status = lk_optimizer_build(lk_model_optimizer(m), v);
        else
            LK_SCOPE(s)
                status = lk_optimizer_build(lk_model_optimizer(m), v);
    }
    return status;
}

static lk_status restore(lk_callback *base, lki_fit_run *r)
{
    backup *b = (backup *)base;
    if (!b->folder) return LK_OK;
    LKI_TRY(make_checkpoint(b, r->engine->model));
    lki_every_begin(&b->every);
    b->due = b->kept = false;
    b->told[0] = 0;
    b->last = lki_seconds();
    b->took = 0;
    LKI_TRY(lki_backup_lock(b->folder, false, &b->lock));
    LKI_TRY(find(b, &r->resume));
    if (!b->newest) return LK_OK;
    LKI_TRY(check_provenance(r));
    LKI_TRY(build_model(r));
    LKI_TRY(build_slots(r));
    LKI_TRY(restore_values(b, r->resume.from));
    b->every.last = r->resume.place.batch - 1;
    b->at = r->resume.place;
    b->over = r->resume.over;
    b->kept = true;
    return LK_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------------------------- */

static void let_go(backup *b)
{
    join(b);
    lki_snapshot_free(b->snapshot);
    lki_drop(b->checkpoint);
    b->snapshot = NULL;
    b->checkpoint = NULL;
    lki_backup_unlock(&b->lock);
}

static lk_status train_end(lk_callback *base, const lki_happening *h)
{
    (void)h;
    let_go((backup *)base);
    return LK_OK;
}

static void destroy(lk_callback *base)
{
    let_go((backup *)base);
    lki_release(((backup *)base)->folder);
}

static const lki_callback_kind BACKUP = {
    .name = "BackupAndRestore",
    .bytes = sizeof(backup),
    .on = {[LKI_HOOK_train_end] = train_end},
    .destroy = destroy,
    .restore = restore,
    .rest = at_rest,
};

lk_callback *lk_backup_and_restore_kw(lk_backup_args args)
{
    static const char call[] = "lk_backup_and_restore";
    if (args.save_freq < 0)
        return lki_fail(LK_EINVAL, "%s: save_freq %lld; it should be a number of steps, or 0 for every epoch", call,
                        (long long)args.save_freq),
               NULL;
    if (!(args.save_seconds >= 0))
        return lki_fail(LK_EINVAL, "%s: save_seconds %g; it should be a number of seconds, or 0 for every epoch", call,
                        args.save_seconds),
               NULL;
    if (args.backup_dir && !*args.backup_dir)
        return lki_fail(LK_EINVAL, "%s: backup_dir is \"\"; it should name a folder, or be NULL for no backup", call), NULL;
    backup *b = lki_callback_new(&BACKUP);
    if (!b) return NULL;
    b->lock = -1;
    b->every.steps = args.save_freq;
    b->seconds = args.save_seconds;
    b->stay = args.delete_checkpoint == LK_OFF;
    if (!args.backup_dir || (b->folder = lki_strdup(args.backup_dir))) return &b->base;
    lk_free(b);
    return NULL;
}
