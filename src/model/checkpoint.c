/* Checkpoints: making one, saving it, finding the latest (snapshot.c writes the contents, restore.c restores).
 *
 *     counter + 1 --> PREFIX-n.data, .index written beside, synced --> renamed --> `checkpoint` replaced --> saved
 *          \_________________________ any error: counter - 1, what was written removed ______/
 *
 * Invariants
 *  1. A folder's state file names a checkpoint that is complete on the disk; a crash at any moment leaves the previous one.
 *  2. Nothing in the files depends on the number of replicas: a mirrored variable is one value, a sync-on-read one its aggregate.
 *  3. Keys and graph are those that TensorFlow and Keras would write for the same objects (trackable.h). Data that they have no
 *     place for is stored under keys that the graph does not name. */
#include "core/list.h"
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
#include <unistd.h>

/* ---- making one ------------------------------------------------------------------------------------------------------------- */

static void destroy(void *object)
{
    lk_checkpoint *c = object;
    for (int i = 0; i < c->count; i++) {
        lki_drop(c->item[i].object);
        lki_release((char *)c->item[i].name);
    }
    lki_release(c->item);
    lki_drop(c->counter);
    lki_release(c->path);
}

static bool object_fits(const lk_trackable *given, int i)
{
    const char *name = given[i].name;
    if (!name || !*name) return lki_fail(LK_EINVAL, "lk_checkpoint_of: object %d has no name", i), false;
    if (!given[i].object) {
        if (!lk_failed()) lki_fail(LK_EINVAL, "lk_checkpoint_of: the object \"%s\" is NULL", name);
        return false;
    }
    if (strcmp(name, "save_counter") == 0)
        return lki_fail(LK_EINVAL, "lk_checkpoint_of: \"save_counter\" is the checkpoint's own; give object %d another name", i),
               false;
    if (lki_tracked_kind_of(given[i].object) < 0)
        return lki_fail(LK_EINVAL, "lk_checkpoint_of: \"%s\" must be a model, an optimiser, a metric, a variable or a checkpoint",
                        name),
               false;
    for (int k = 0; k < i; k++)
        if (strcmp(given[k].name, name) == 0)
            return lki_fail(LK_EINVAL, "lk_checkpoint_of: two objects are named \"%s\"", name), false;
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const lk_trackable *)a)->name, ((const lk_trackable *)b)->name);
}

static lk_variable *counter_new(void)
{
    const lki_outside before = lki_step_outside();
    lk_variable      *v = lki_variable_new("save_counter", &(lk_shape){0}, LK_I64, 0, false);
    lki_step_back(&before);
    if (!v) return NULL;
    lki_retain(v);
    lk_free(v); /* only the checkpoint holds it */
    return v;
}

lk_checkpoint *lk_checkpoint_from(int count, const lk_trackable *one_based)
{
    LKI_SCOPE_ERRORS;
    if (!lki_list_given("lk_checkpoint", count, one_based)) return NULL;
    const lk_trackable *given = one_based ? one_based + 1 : NULL;
    for (int i = 0; i < count; i++)
        if (!object_fits(given, i)) return NULL;
    lk_checkpoint *c = lki_object_new(sizeof *c, LKI_KIND_CHECKPOINT, LKI_LIVES_IN_POOL, destroy);
    if (!c) return NULL;
    c->item = lki_zalloc_array(count, sizeof *c->item);
    bool good = c->item && (c->counter = counter_new());
    for (; good && c->count < count; c->count++) {
        const lk_trackable *g = &given[c->count];
        c->item[c->count] = (lk_trackable){lki_strdup(g->name), lki_retain(g->object)};
        good = c->item[c->count].name != NULL;
    }
    if (good) {
        qsort(c->item, (size_t)count, sizeof *c->item, by_name);
        return c;
    }
    lk_free(c);
    return NULL;
}

/* ---- saving ----------------------------------------------------------------------------------------------------------------- */

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static lk_status prefix_fits(const char *call, const char *prefix)
{
    if (!prefix || !*prefix)
        return lki_fail(LK_EINVAL, "%s: the prefix is %s; it should be like \"folder/ckpt\"", call, prefix ? "empty" : "NULL");
    if (strcmp(name_in(prefix), LKI_CHECKPOINT_STATE_NAME) == 0)
        return lki_fail(
            LK_EINVAL, "%s: prefix \"%s\" is the name of the state file, which says what checkpoint is the latest; use another one",
            call, prefix);
    return LK_OK;
}

static lk_status count(lk_checkpoint *c, int64_t by, int64_t *now)
{
    const int64_t *counter = lki_variable_values(c->counter);
    if (!counter) return LK_ENOMEM;
    if (*counter < 0 || *counter == INT64_MAX)
        return lki_fail(LK_ESTATE,
                        "lk_checkpoint_save: %lld saves were counted, which is impossible: a bad checkpoint was restored",
                        (long long)*counter);
    *now = *counter + by;
    return lki_variable_fill(c->counter, now);
}

/* Make it the checkpoint's path. */
static const char *keep_path(lk_checkpoint *c, char *path)
{
    lki_release(c->path);
    return c->path = path;
}

static char *numbered(const char *prefix, int64_t n)
{
    const size_t size = strlen(prefix) + 32;
    char        *path = lki_alloc(size);
    if (path) snprintf(path, size, "%s-%lld", prefix, (long long)n);
    return path;
}

static bool exists(const char *prefix, const char *suffix)
{
    char *path LKI_RELEASED = lki_path_join(prefix, strlen(prefix), suffix);
    return path && access(path, F_OK) == 0;
}

/* True if the state file beside a checkpoint names it, or might: it was replaced, but the rename may not be durable yet. */
static bool may_be_named(const char *path)
{
    char *file LKI_RELEASED = lki_path_join(path, (size_t)(name_in(path) - path), LKI_CHECKPOINT_STATE_NAME);
    LKI_SCOPE_ERRORS;
    lki_bytes            bytes LKI_FREED_BY(lki_bytes_free) = {0};
    lki_checkpoint_state state LKI_FREED_BY(lki_checkpoint_state_free) = {0};
    bool                 read = file && lki_file_read(file, &bytes) == LK_OK &&
                lki_checkpoint_state_scan(file, (const char *)bytes.data, bytes.size, &state) == LK_OK;
    bool named = !read && (!file || access(file, F_OK) == 0);
    for (int i = -1; read && i < state.count; i++)
        named = named || strcmp(name_in(i < 0 ? state.latest : state.item[i].path), name_in(path)) == 0;
    lk_clear_error();
    return named;
}

/* If a checkpoint cannot be published it is removed, unless it has replaced another one of the same name, which no longer
 * exists. */
static lk_status write_and_publish(lk_checkpoint *c, const char *path, lki_publish_fn *publish, void *arg)
{
    const bool replaces = exists(path, ".index");
    LKI_TRY(lki_checkpoint_stream(c, path));
    const lk_status status = publish(arg, path);
    if (status != LK_OK && !replaces && !may_be_named(path)) lki_bundle_remove(path);
    return status;
}

const char *lki_checkpoint_save(const char *call, lk_checkpoint *c, const char *prefix, int64_t number, lki_publish_fn *publish,
                                void *arg)
{
    int64_t n = 0;
    if (lki_checkpoint_allowed(call, c) != LK_OK || prefix_fits(call, prefix) != LK_OK || count(c, 1, &n) != LK_OK) return NULL;
    const bool counted = c->counted;
    char      *path = numbered(prefix, number < 0 ? n : number);
    c->counted = true;
    if (path && write_and_publish(c, path, publish, arg) == LK_OK) return keep_path(c, path);
    lki_release(path);
    c->counted = counted;
    count(c, -1, &n);
    return NULL;
}

static lk_status name_as_latest(void *arg, const char *path)
{
    (void)arg;
    return lki_checkpoint_state_write(path);
}

const char *lk_checkpoint_save(lk_checkpoint *c, const char *prefix)
{
    LKI_SCOPE_ERRORS;
    return lki_checkpoint_save("lk_checkpoint_save", c, prefix, -1, name_as_latest, NULL);
}

const char *lk_checkpoint_write(lk_checkpoint *c, const char *prefix)
{
    LKI_SCOPE_ERRORS;
    if (lki_checkpoint_allowed("lk_checkpoint_write", c) != LK_OK || prefix_fits("lk_checkpoint_write", prefix) != LK_OK)
        return NULL;
    char *path = lki_strdup(prefix);
    if (path && lki_checkpoint_stream(c, path) == LK_OK) return keep_path(c, path);
    lki_release(path);
    return NULL;
}

/* ---- the latest ------------------------------------------------------------------------------------------------------------- */

/* In several files: true if any of them exists. */
static bool has_shard(const char *prefix)
{
    const char  *name = name_in(prefix);
    const size_t folder = (size_t)(name - prefix), n = strlen(name);
    char        *path LKI_RELEASED = lki_path_join(folder ? prefix : ".", folder ? folder : 1, "");
    DIR         *d = path ? opendir(path) : NULL;
    bool         found = false;
    for (const struct dirent *e; d && !found && (e = readdir(d));)
        found = strncmp(e->d_name, name, n) == 0 && strncmp(e->d_name + n, ".data-", 6) == 0 && !strstr(e->d_name + n, ".tmp");
    if (d) closedir(d);
    return found;
}

/* The path in the state file; NULL and an error. */
static char *read_state(const char *file, size_t folder)
{
    lki_bytes            bytes LKI_FREED_BY(lki_bytes_free) = {0};
    lki_checkpoint_state state;
    if (lki_file_read(file, &bytes) != LK_OK) return NULL;
    lki_checkpoint_state_scan(file, (const char *)bytes.data, bytes.size, &state);
    if (state.changed) lki_warn("%s has a wrong checksum: it was modified or is damaged", file);
    char *named = state.latest;
    state.latest = NULL;
    lki_checkpoint_state_free(&state);
    if (!named || *named == '/') return named;
    char *path = lki_path_join(file, folder, named);
    lki_release(named);
    return path;
}

/* A state file that cannot be read is treated as missing, with a warning. */
static char *state_or_warning(const char *file, size_t folder)
{
    lki_error_record before, mine;
    lki_error_take(&before);
    char *path = read_state(file, folder);
    lki_error_take(&mine);
    lki_error_put(mine.code == LK_ENOMEM && before.code == LK_OK ? &mine : &before);
    if (!path && mine.code != LK_ENOMEM) lki_warn("%s; it is ignored", mine.text);
    return path;
}

typedef struct pooled_text {
    lki_object object;
    char       text[];
} pooled_text;

static const char *in_pool(const char *text)
{
    const size_t n = strlen(text) + 1;
    pooled_text *p = lki_object_new(sizeof *p + n, LKI_KIND_OTHER, LKI_LIVES_IN_POOL, NULL);
    return p ? memcpy(p->text, text, n) : NULL;
}

const char *lk_latest_checkpoint(const char *folder)
{
    LKI_SCOPE_ERRORS;
    if (!folder) return lki_fail(LK_EINVAL, "lk_latest_checkpoint: the folder is NULL"), NULL;
    if (!*folder) folder = ".";
    const size_t n = strlen(folder);
    const bool   closed = folder[n - 1] == '/';
    char        *file LKI_RELEASED = lki_path_join(folder, n, closed ? LKI_CHECKPOINT_STATE_NAME : "/" LKI_CHECKPOINT_STATE_NAME);
    char        *path LKI_RELEASED = file && access(file, F_OK) == 0 ? state_or_warning(file, n + !closed) : NULL;
    const char  *out = NULL;
    if (path && exists(path, ".index") && (exists(path, ".data-00000-of-00001") || has_shard(path))) out = in_pool(path);
    else if (path) lki_warn("%s names the checkpoint %s, whose files are not there; it is ignored", file, path);
    return out;
}
