/* Checkpoint managers: which checkpoints of a folder are kept.
 *
 *     save --> files complete --> read back --> listed as the latest --> too old: removed, or kept for its age --> listed again
 *
 * Invariants
 *  1. The state file always names a checkpoint that is complete on the disk.
 *  2. Nothing is removed before the new one was written, synced, read back (every checksum) and listed.
 *  3. A checkpoint that is kept for its age is removed from the list, so that the list does not grow for ever; `preserved` is the
 *     time when that happened last. */
#include "model/manager.h"
#include "core/log.h"
#include "core/memory.h"
#include "format/bundle.h"
#include "format/checkpoint_state.h"
#include "model/snapshot.h"
#include "model/trackable.h"
#include <dirent.h>
#include <lockstep/checkpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct lk_checkpoint_manager {
    lki_object           object;
    lk_checkpoint       *checkpoint; /* a reference, and so is the counter */
    lk_variable         *counter;
    char                *prefix; /* "folder/ckpt" */
    char                *file;   /* the state file */
    size_t               folder; /* the length of "folder/" in prefix and file */
    lki_checkpoint_state state;  /* paths with their folder */
    char                *restored;
    const char         **names; /* the last list that was returned */
    int                  most;
    double               seconds; /* one of every n hours is kept */
    int64_t              interval, last_step;
    bool                 stepped; /* last_step is set */
    lk_status (*init_fn)(void *user);
    void *user;
};

static double system_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double (*lki_manager_clock)(void) = system_clock;

/* ---- the list --------------------------------------------------------------------------------------------------------------- */

static void forget(lki_checkpoint_state *s, int i)
{
    lki_release(s->item[i].path);
    memmove(&s->item[i], &s->item[i + 1], (size_t)(s->count - i - 1) * sizeof *s->item);
    s->count--;
}

/* Takes over the path. */
static lk_status append(lki_checkpoint_state *s, char *path, double when)
{
    if (path && lki_grow((void **)&s->item, &s->room, s->count + 1, sizeof *s->item)) {
        s->item[s->count++] = (lki_state_item){path, when};
        return LK_OK;
    }
    lki_release(path);
    return LK_ENOMEM;
}

static lk_status set_text(char **to, const char *text)
{
    char *copy = lki_strdup(text);
    if (!copy) return LK_ENOMEM;
    lki_release(*to);
    *to = copy;
    return LK_OK;
}

/* Append to the list, as the latest; on failure nothing changes. If a checkpoint is written again, it is in the list twice until
 * that is recorded. */
static lk_status enlist(lk_checkpoint_manager *m, const char *path)
{
    lki_checkpoint_state *s = &m->state;
    LKI_TRY(append(s, lki_strdup(path), lki_manager_clock()));
    const lk_status status = set_text(&s->latest, path);
    if (status != LK_OK) forget(s, s->count - 1);
    return status;
}

/* The earlier index of the last entry; -1: it is new. */
static int earlier(const lki_checkpoint_state *s)
{
    int i = s->count - 2;
    while (i >= 0 && strcmp(s->item[i].path, s->item[s->count - 1].path) != 0)
        i--;
    return i;
}

/* The path for the file: without the folder. Paths outside the folder do not change. */
static char *in_file(const lk_checkpoint_manager *m, char *path)
{
    return strncmp(path, m->prefix, m->folder) == 0 ? path + m->folder : path;
}

static lk_status record(lk_checkpoint_manager *m)
{
    const lki_checkpoint_state *s = &m->state;
    const int                   twice = earlier(s);
    lki_checkpoint_state        out = {in_file(m, s->latest), 0, s->count, NULL, true, s->preserved, false};
    out.item = lki_alloc_array(s->count + 1, sizeof *out.item);
    if (!out.item) return LK_ENOMEM;
    for (int i = 0; i < s->count; i++)
        if (i != twice) out.item[out.count++] = (lki_state_item){in_file(m, s->item[i].path), s->item[i].time};
    const lk_status status = lki_checkpoint_state_put(m->file, &out);
    lki_release(out.item);
    return status;
}

/* ---- the contents of a folder ------------------------------------------------------------------------------------------------ */

static char *with_folder(const lk_checkpoint_manager *m, const char *path)
{
    return *path == '/' ? lki_strdup(path) : lki_path_join(m->prefix, m->folder, path);
}

/* Take over those of the state file that may be removed later: not checkpoints from before the last one that was kept for its
 * age. */
static lk_status take_over(lk_checkpoint_manager *m, const lki_checkpoint_state *found)
{
    const double now = lki_manager_clock();
    m->state.preserved = found->preserved < now ? found->preserved : now;
    if (!(m->state.latest = with_folder(m, found->latest))) return LK_ENOMEM;
    for (int i = 0; i < found->count; i++) {
        const double when = !found->timed ? m->state.preserved : found->item[i].time < now ? found->item[i].time : now;
        if (when > m->state.preserved) LKI_TRY(append(&m->state, with_folder(m, found->item[i].path), when));
    }
    return LK_OK;
}

static int by_time(const void *a, const void *b)
{
    const double x = ((const lki_state_item *)a)->time, y = ((const lki_state_item *)b)->time;
    return (x > y) - (x < y);
}

/* If the state file cannot be read: list the checkpoints in the folder, by age. */
static lk_status look_around(lk_checkpoint_manager *m)
{
    const char  *name = m->prefix + m->folder;
    char        *folder LKI_RELEASED = lki_path_join(m->prefix, m->folder, "");
    DIR         *d = folder ? opendir(folder) : NULL;
    lk_status    status = folder ? LK_OK : LK_ENOMEM;
    const size_t n = strlen(name);
    for (const struct dirent *e; d && status == LK_OK && (e = readdir(d));) {
        const size_t length = strlen(e->d_name), digits = length > n ? strspn(e->d_name + n + 1, "0123456789") : 0;
        struct stat  state;
        if (strncmp(e->d_name, name, n) != 0 || e->d_name[n] != '-' || !digits || strcmp(e->d_name + n + 1 + digits, ".index") != 0)
            continue;
        if (fstatat(dirfd(d), e->d_name, &state, 0) != 0) continue;
        char *path = lki_path_join(m->prefix, m->folder, e->d_name);
        if (path) path[m->folder + n + 1 + digits] = 0;
        status = append(&m->state, path, (double)state.st_mtim.tv_sec + (double)state.st_mtim.tv_nsec * 1e-9);
    }
    if (d) closedir(d);
    if (status != LK_OK || !m->state.count) return status;
    qsort(m->state.item, (size_t)m->state.count, sizeof *m->state.item, by_time);
    return set_text(&m->state.latest, m->state.item[m->state.count - 1].path);
}

static lk_status read_state(lk_checkpoint_manager *m)
{
    lki_bytes            bytes LKI_FREED_BY(lki_bytes_free) = {0};
    lki_checkpoint_state found LKI_FREED_BY(lki_checkpoint_state_free) = {0};
    LKI_TRY(lki_file_read(m->file, &bytes));
    const lk_status status = lki_checkpoint_state_scan(m->file, (const char *)bytes.data, bytes.size, &found);
    if (found.changed) lki_warn("%s has a wrong checksum: it was modified or is damaged", m->file);
    return status == LK_OK ? take_over(m, &found) : status;
}

/* Run something whose error may be handled: the error is moved to *error, and the thread's earlier error is restored. */
static void set_error_aside(lki_error_record *before) { lki_error_take(before); }
static void bring_error_back(const lki_error_record *before, lki_error_record *mine)
{
    lki_error_take(mine);
    lki_error_put(before);
}

static lk_status find_all(lk_checkpoint_manager *m)
{
    lki_error_record before, mine;
    if (access(m->file, F_OK) != 0) {
        m->state.preserved = lki_manager_clock() - 1; /* the first save of a new manager must be later */
        return LK_OK;
    }
    set_error_aside(&before);
    const lk_status status = read_state(m);
    bring_error_back(&before, &mine);
    if (status == LK_OK) return LK_OK;
    if (status == LK_ENOMEM) return lki_fail(LK_ENOMEM, "%s", mine.text);
    lki_warn("%s; what is in the folder is used", mine.text);
    return look_around(m);
}

/* ---- making one -------------------------------------------------------------------------------------------------------------- */

static void destroy(void *object)
{
    lk_checkpoint_manager *m = object;
    lki_checkpoint_state_free(&m->state);
    lki_drop(m->checkpoint);
    lki_drop(m->counter);
    lki_release(m->prefix);
    lki_release(m->file);
    lki_release(m->restored);
    lki_release(m->names);
}

static lk_status args_fit(const lk_checkpoint_manager_args *a)
{
    static const char call[] = "lk_checkpoint_manager_of";
    LKI_TRY(lki_checkpoint_allowed(call, a->checkpoint));
    if (!a->directory || !*a->directory)
        return lki_fail(LK_EINVAL, "%s: directory is %s; it should name a folder", call, a->directory ? "\"\"" : "NULL");
    if (a->max_to_keep < 0)
        return lki_fail(LK_EINVAL, "%s: max_to_keep %d; it should be a number of checkpoints, or 0 for all", call, a->max_to_keep);
    if (!(a->keep_checkpoint_every_n_hours >= 0))
        return lki_fail(LK_EINVAL, "%s: keep_checkpoint_every_n_hours %g; it should be a time, or 0 for none", call,
                        a->keep_checkpoint_every_n_hours);
    if (a->checkpoint_name && (!*a->checkpoint_name || strchr(a->checkpoint_name, '/')))
        return lki_fail(LK_EINVAL, "%s: checkpoint_name \"%s\"; it should be a name like \"ckpt\"", call, a->checkpoint_name);
    if (a->checkpoint_interval < 0 || (a->checkpoint_interval > 0) != (a->step_counter != NULL))
        return lki_fail(LK_EINVAL, "%s: checkpoint_interval %lld %s step_counter; both are given, or none", call,
                        (long long)a->checkpoint_interval, a->step_counter ? "with a" : "without a");
    if (a->step_counter && (!lki_is_kind(a->step_counter, LKI_KIND_VARIABLE) || lki_shape_size(&a->step_counter->shape) != 1))
        return lki_fail(LK_EINVAL, "%s: step_counter should be a variable with one element", call);
    return LK_OK;
}

static lk_status fill(lk_checkpoint_manager *m, const lk_checkpoint_manager_args *a)
{
    const size_t n = strlen(a->directory);
    char        *folder LKI_RELEASED = lki_path_join(a->directory, n, a->directory[n - 1] == '/' ? "" : "/");
    if (!folder) return LK_ENOMEM;
    m->folder = strlen(folder);
    m->prefix = lki_path_join(folder, m->folder, a->checkpoint_name ? a->checkpoint_name : "ckpt");
    m->file = lki_path_join(folder, m->folder, LKI_CHECKPOINT_STATE_NAME);
    m->checkpoint = lki_retain(a->checkpoint);
    m->counter = a->step_counter ? lki_retain(a->step_counter) : NULL;
    m->most = a->max_to_keep;
    m->seconds = a->keep_checkpoint_every_n_hours * 3600;
    m->interval = a->checkpoint_interval;
    m->init_fn = a->init_fn;
    m->user = a->user;
    if (m->prefix && m->file) {
        lki_bundle_clean(folder, m->prefix + m->folder);
        lki_durable_clean(folder, LKI_CHECKPOINT_STATE_NAME);
    }
    return m->prefix && m->file ? find_all(m) : LK_ENOMEM;
}

lk_checkpoint_manager *lk_checkpoint_manager_kw(lk_checkpoint_manager_args args)
{
    LKI_SCOPE_ERRORS;
    if (args_fit(&args) != LK_OK) return NULL;
    lk_checkpoint_manager *m = lki_object_new(sizeof *m, LKI_KIND_CHECKPOINT_MANAGER, LKI_LIVES_IN_POOL, destroy);
    if (!m || fill(m, &args) == LK_OK) return m;
    lk_free(m);
    return NULL;
}

static bool is_manager(const char *call, const lk_checkpoint_manager *m)
{
    if (lki_is_kind(m, LKI_KIND_CHECKPOINT_MANAGER)) return true;
    return lki_fail(LK_EINVAL, "%s: %s", call, m ? "not a checkpoint manager" : "the manager is NULL"), false;
}

/* ---- saving ------------------------------------------------------------------------------------------------------------------ */

static lk_status step_of(const lk_checkpoint_manager *m, int64_t *step)
{
    const lki_outside before = lki_step_outside();
    lk_status         status = LK_OK;
    LK_STEP {
        lk_tensor *t = lk_cast(lk_read(m->counter), LK_I64);
        if (lki_bad(t) || !lk_data(t)) status = lki_poisoned_status("lk_checkpoint_manager_save");
        else *step = *(const int64_t *)lk_data(t);
    }
    lki_step_back(&before);
    return status;
}

static bool too_many(const lk_checkpoint_manager *m) { return m->most && m->state.count > m->most; }

/* Returns true if any was removed from the list. Files that cannot be removed stay, with a warning. */
static bool sweep(lk_checkpoint_manager *m)
{
    lki_checkpoint_state *s = &m->state;
    const int             before = s->count;
    for (; too_many(m); forget(s, 0)) {
        if (m->seconds > 0 && s->item[0].time - m->seconds >= s->preserved) {
            s->preserved = s->item[0].time;
            continue;
        }
        lki_error_record others, mine;
        set_error_aside(&others);
        const lk_status status = lki_bundle_remove(s->item[0].path);
        bring_error_back(&others, &mine);
        if (status != LK_OK) lki_warn("an old checkpoint stays: %s", mine.text);
    }
    return s->count != before;
}

/* Called when the files of `path` are complete. If it cannot be listed, it is not counted, and the list does not change. */
static lk_status publish(void *arg, const char *path)
{
    lk_checkpoint_manager *m = arg;
    char                  *latest = m->state.latest ? lki_strdup(m->state.latest) : NULL;
    if (m->state.latest && !latest) return LK_ENOMEM;
    const int before = m->state.count;
    lk_status status = m->most && before >= m->most ? lki_checkpoint_verify(path) : LK_OK;
    if (status == LK_OK) status = enlist(m, path);
    if (status == LK_OK && (status = record(m)) != LK_OK) {
        forget(&m->state, m->state.count - 1);
        lki_release(m->state.latest);
        m->state.latest = latest;
        return status;
    }
    lki_release(latest);
    if (status == LK_OK && earlier(&m->state) >= 0) forget(&m->state, earlier(&m->state));
    return status == LK_OK && sweep(m) ? record(m) : status;
}

static const char *save(const char *call, lk_checkpoint_manager *m, int64_t number)
{
    LKI_SCOPE_ERRORS;
    int64_t step = 0;
    if (!is_manager(call, m) || lki_checkpoint_allowed(call, m->checkpoint) != LK_OK) return NULL;
    if (m->interval && step_of(m, &step) != LK_OK) return NULL;
    if (m->interval && m->stepped && step - m->last_step < m->interval) return NULL;
    const char *path = lki_checkpoint_save(call, m->checkpoint, m->prefix, number, publish, m);
    if (path) m->last_step = step, m->stepped = true;
    return path;
}

const char *lk_checkpoint_manager_save(lk_checkpoint_manager *m) { return save("lk_checkpoint_manager_save", m, -1); }

const char *lk_checkpoint_manager_save_as(lk_checkpoint_manager *m, int64_t number)
{
    static const char call[] = "lk_checkpoint_manager_save_as";
    if (number >= 0) return save(call, m, number);
    return lki_fail(LK_EINVAL, "%s: number %lld; it should not be negative", call, (long long)number), NULL;
}

/* ---- restoring --------------------------------------------------------------------------------------------------------------- */

/* True if the checkpoint is damaged: then an older one may work. Otherwise it is complete and does not fit. */
static bool is_damaged(const char *path, lki_error_record *why)
{
    lki_error_record before;
    set_error_aside(&before);
    const lk_status status = lki_checkpoint_verify(path);
    bring_error_back(&before, why);
    return status == LK_EFORMAT || status == LK_EIO || status == LK_ENOTFOUND;
}

static const char *restore_one(lk_checkpoint_manager *m, const char *path)
{
    lk_restore_status *s = lk_checkpoint_restore(m->checkpoint, path);
    if (!s) return NULL;
    lk_free(s);
    if (m->interval && step_of(m, &m->last_step) == LK_OK) m->stepped = true;
    return set_text(&m->restored, path) == LK_OK && set_text(&m->state.latest, path) == LK_OK ? m->restored : NULL;
}

/* The next older one to try; NULL: there is none. `from` counts down. */
static const char *older(const lk_checkpoint_manager *m, const char *latest, int *from)
{
    while (*from > 0) {
        const char *path = m->state.item[--*from].path;
        if (strcmp(path, latest) != 0) return path;
    }
    return NULL;
}

static const char *restore_newest(lk_checkpoint_manager *m)
{
    lki_error_record first, why;
    const char      *latest = m->state.latest, *path = latest;
    int              from = m->state.count;
    if (!is_damaged(path, &first)) return restore_one(m, path);
    for (why = first; (path = older(m, latest, &from));) {
        lki_warn("%s; the checkpoint before it, %s, is tried", why.text, path);
        if (!is_damaged(path, &why)) return restore_one(m, path);
    }
    return lki_fail(first.code, "%s; %s", first.text,
                    m->state.count > 1 ? "and those before it are damaged too" : "there is none before it"),
           NULL;
}

const char *lk_checkpoint_manager_restore_or_initialize(lk_checkpoint_manager *m)
{
    LKI_SCOPE_ERRORS;
    static const char call[] = "lk_checkpoint_manager_restore_or_initialize";
    if (!is_manager(call, m) || lki_checkpoint_allowed(call, m->checkpoint) != LK_OK) return NULL;
    if (m->state.latest) return restore_newest(m);
    if (m->init_fn && m->init_fn(m->user) != LK_OK && !lk_failed()) lki_fail(LK_EINVAL, "%s: init_fn failed", call);
    return NULL;
}

/* ---- asking ------------------------------------------------------------------------------------------------------------------ */

const char *lk_checkpoint_manager_latest_checkpoint(lk_checkpoint_manager *m)
{
    return is_manager("lk_checkpoint_manager_latest_checkpoint", m) ? m->state.latest : NULL;
}

lk_names lk_checkpoint_manager_checkpoints(lk_checkpoint_manager *m)
{
    if (!is_manager("lk_checkpoint_manager_checkpoints", m)) return (lk_names){0};
    const char **names = lki_alloc_array(m->state.count + 1, sizeof *names);
    if (!names) return (lk_names){0};
    for (int i = 0; i < m->state.count; i++)
        names[i] = m->state.item[i].path;
    lki_release(m->names);
    m->names = names;
    return (lk_names){m->state.count, names};
}
