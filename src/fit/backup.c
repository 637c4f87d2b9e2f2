/* BackupAndRestore: a run that ended can go on where it was, with its weights, its optimiser and the epoch.
 *
 *     DIR/backup-3.index, .data-...    checkpoint of "model" and "optimizer"
 *     DIR/backup.json                  {"checkpoint": "backup-3", "epoch": 2, "batch": 100}: go on with step 100 of epoch 2, both from 0
 *
 * The state file is replaced when its checkpoint is complete, and the checkpoint before is removed after that: whenever a run ends, the state
 * file names a whole checkpoint that belongs to it. A run that ends in the middle of an epoch because it was stopped is saved there; one that
 * fails, or whose loss is no number any more, keeps what was saved before. When fit has come to its end, the files, and the folder when nothing else is in it, are removed. */
#include "core/memory.h"
#include "fit/callback.h"
#include "format/durable.h"
#include "format/json.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NAME = 64 };
static const char STATE[] = "backup.json";

typedef struct place { /* in the training */
    int     epoch;
    int64_t batch; /* steps of it that are done */
} place;

typedef struct backup {
    lk_callback base;
    char       *folder; /* NULL: does nothing */
    lki_every   every;  /* without steps: every epoch */
    bool        stay;   /* the files, when fit has come to its end */
    place       now, saved;
    int64_t     number; /* of the last checkpoint; 0: there is none */
} backup;

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

static char *file_in(const backup *b, const char *name)
{
    char *folder = lki_path_join(b->folder, strlen(b->folder), "/"),
         *path = folder ? lki_path_join(folder, strlen(folder), name) : NULL;
    lki_release(folder);
    return path;
}

static char *checkpoint_path(const backup *b, int64_t number, const char *end)
{
    char name[MOST_NAME];
    snprintf(name, sizeof name, "backup-%lld%s", (long long)number, end);
    return file_in(b, name);
}

static void remove_file(char *path)
{
    if (path) unlink(path);
    lki_release(path);
}

static void remove_checkpoint(const backup *b, int64_t number)
{
    if (!number) return;
    remove_file(checkpoint_path(b, number, ".index"));
    remove_file(checkpoint_path(b, number, ".data-00000-of-00001"));
}

static lk_status write_state(backup *b, place at, int64_t number)
{
    lki_json_out o = {0};
    char         name[MOST_NAME], *path = file_in(b, STATE);
    snprintf(name, sizeof name, "backup-%lld", (long long)number);
    lki_json_open(&o, '{');
    lki_json_key(&o, "checkpoint");
    lki_json_text(&o, name);
    lki_json_key(&o, "epoch");
    lki_json_int(&o, at.epoch);
    lki_json_key(&o, "batch");
    lki_json_int(&o, at.batch);
    lki_json_close(&o, '}');
    const lk_status status = path && !o.failed ? lki_durable_file(path, o.text, o.size) : LK_ENOMEM;
    if (status == LK_OK) b->saved = at;
    lki_json_out_free(&o);
    lki_release(path);
    return status;
}

/* *number 0: there is no state file. */
static lk_status parse_state(const char *path, const lki_bytes *bytes, place *at, int64_t *number)
{
    const lki_json *root;
    LKI_TRY(lki_json_parse(path, (const char *)bytes->data, bytes->size, &root));
    const lki_json *checkpoint = lki_json_get(root, "checkpoint"), *epoch = lki_json_get(root, "epoch"),
                   *batch = lki_json_get(root, "batch");
    long long  n = 0;
    const bool fits = checkpoint && checkpoint->type == LKI_JSON_STRING && sscanf(checkpoint->text, "backup-%lld", &n) == 1 &&
                      n > 0 && epoch && epoch->whole && epoch->integer >= 0 && epoch->integer < INT32_MAX && batch &&
                      batch->whole && batch->integer >= 0;
    if (fits) {
        *at = (place){(int)epoch->integer, batch->integer};
        *number = n;
    }
    lki_json_free(root);
    if (fits) return LK_OK;
    return lki_fail(
        LK_EFORMAT,
        "%s: not the state of a backup: it should have \"checkpoint\", \"epoch\" and \"batch\"; remove it to begin anew", path);
}

static lk_status read_state(const backup *b, place *at, int64_t *number)
{
    lki_bytes bytes = {0};
    char     *path = file_in(b, STATE);
    lk_status status = path ? LK_OK : LK_ENOMEM;
    *number = 0;
    if (path && access(path, F_OK) == 0) {
        status = lki_file_read(path, &bytes);
        if (status == LK_OK) status = parse_state(path, &bytes, at, number);
    }
    lki_bytes_free(&bytes);
    lki_release(path);
    return status;
}

/* ---- saving and restoring ---------------------------------------------------------------------------------------------------- */

static lk_checkpoint *checkpoint_of(lk_model *m)
{
    lk_optimizer *o = lk_model_optimizer(m);
    return lk_checkpoint_from(o ? 2 : 1, (lk_trackable[]){{0}, {"model", m}, {"optimizer", o}});
}

static lk_status write_checkpoint(lk_model *m, const char *path)
{
    lk_status status = LK_OK;
    LK_POOL {
        lk_checkpoint *c = checkpoint_of(m);
        status = c && lk_checkpoint_write(c, path) ? LK_OK : lk_error_code();
    }
    return status;
}

static lk_status save(backup *b, lk_model *m)
{
    const int64_t before = b->number;
    char         *path = checkpoint_path(b, before + 1, "");
    lk_status     status = path ? write_checkpoint(m, path) : LK_ENOMEM;
    lki_release(path);
    LKI_TRY(status);
    LKI_TRY(write_state(b, b->now, before + 1));
    b->number = before + 1;
    remove_checkpoint(b, before);
    return LK_OK;
}

static lk_status restore(const backup *b, lk_model *m)
{
    char     *path = checkpoint_path(b, b->number, "");
    lk_status status = LK_OK;
    if (!path) return LK_ENOMEM;
    LK_POOL {
        lk_checkpoint *c = checkpoint_of(m);
        status = c && lk_checkpoint_read(c, path) ? LK_OK : lk_error_code();
    }
    lki_release(path);
    return status;
}

/* Weights that led to a loss that is no finite number are not worth what was saved before them. */
static bool spoilt(const lki_happening *h)
{
    const lk_logs logs = lki_logs_of(h);
    return logs.count && !isfinite(lk_logs_get(&logs, "loss"));
}

static bool is_saved(const backup *b) { return b->number && b->saved.epoch == b->now.epoch && b->saved.batch == b->now.batch; }

/* ---- hooks ------------------------------------------------------------------------------------------------------------------- */

static lk_status begin(lk_callback *base, const lki_happening *h)
{
    backup *b = (backup *)base;
    if (!b->folder) return LK_OK;
    lki_every_begin(&b->every);
    b->now = (place){h->initial_epoch, 0};
    LKI_TRY(read_state(b, &b->saved, &b->number));
    if (!b->number) return LK_OK;
    LKI_TRY(restore(b, h->event.model));
    b->now = b->saved;
    b->every.last = b->now.batch - 1;
    *h->epoch = b->now.epoch;
    *h->skip = b->now.batch;
    return LK_OK;
}

static lk_status batch_end(lk_callback *base, const lki_happening *h)
{
    backup *b = (backup *)base;
    if (!b->folder) return LK_OK;
    b->now = (place){h->event.epoch, h->event.batch + 1};
    return lki_every_due(&b->every, h->event.batch) ? save(b, h->event.model) : LK_OK;
}

/* An epoch that was stopped on its way is not over. What was saved after its last step is where the next one begins. */
static lk_status epoch_end(lk_callback *base, const lki_happening *h)
{
    backup *b = (backup *)base;
    if (!b->folder || (h->stopped && (b->now.batch != h->event.batches || spoilt(h)))) return LK_OK;
    const bool saved = is_saved(b);
    b->now = (place){h->event.epoch + 1, 0};
    if (saved) return write_state(b, b->now, b->number);
    return b->every.steps ? LK_OK : save(b, h->event.model);
}

static lk_status end(lk_callback *base, const lki_happening *h)
{
    backup *b = (backup *)base;
    if (!b->folder || h->failed || (h->stopped && spoilt(h))) return LK_OK;
    if (h->stopped) return is_saved(b) ? LK_OK : save(b, h->event.model);
    if (b->stay) return LK_OK;
    remove_file(file_in(b, STATE));
    remove_checkpoint(b, b->number);
    rmdir(b->folder); /* stays when there is something else in it */
    b->number = 0;
    return LK_OK;
}

static void destroy(lk_callback *base) { lki_release(((backup *)base)->folder); }

static const lki_callback_kind BACKUP = {
    .name = "BackupAndRestore",
    .bytes = sizeof(backup),
    .on = {[LKI_HOOK_train_begin] = begin,
           [LKI_HOOK_train_batch_end] = batch_end,
           [LKI_HOOK_epoch_end] = epoch_end,
           [LKI_HOOK_train_end] = end},
    .destroy = destroy,
};

lk_callback *lk_backup_and_restore_kw(lk_backup_args args)
{
    if (args.save_freq < 0) {
        lki_fail(LK_EINVAL, "lk_backup_and_restore: save_freq %lld; it should be a number of steps, or 0 for every epoch",
                 (long long)args.save_freq);
        return NULL;
    }
    if (args.backup_dir && !*args.backup_dir) {
        lki_fail(LK_EINVAL, "lk_backup_and_restore: backup_dir is \"\"; it should name a folder, or be NULL for no backup");
        return NULL;
    }
    backup *b = lki_callback_new(&BACKUP);
    if (!b) return NULL;
    b->every.steps = args.save_freq;
    b->stay = args.delete_checkpoint == LK_OFF;
    if (!args.backup_dir || (b->folder = lki_strdup(args.backup_dir))) return &b->base;
    lk_free(b);
    return NULL;
}
