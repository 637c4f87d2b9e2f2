/* Writing TensorFlow's checkpoint files (bundle.h; bundle.c has the format and reads it).
 *
 * Several processes may write one PREFIX. So names and removals follow these rules:
 *
 * - A name is taken by making an empty file that is locked, which then is replaced by the data, locked too; the lock is held until
 *   the index exists.
 * - A file is removed only while it is locked, after reading the current index. A writer releases its lock only after its index is
 *   published, so its data is seen in the index; until then the writer holds the lock. */
#include "core/shape.h"
#include "format/bundle.h"
#include "format/crc32c.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK_SIZE = 256 << 10, PIECE = 1 << 20, MOST_SHARDS = 1000 }; /* a piece stays in the cache between checksum and write */

/* ---- values ----------------------------------------------------------------------------------------------------------------- */

lk_status lki_bundle_begin(const char *prefix, lki_bundle_writer *w)
{
    *w = (lki_bundle_writer){.data = LKI_DURABLE_NONE, .index = LKI_DURABLE_NONE, .prefix = lki_strdup(prefix)};
    char     *path LKI_RELEASED = lki_bundle_path(prefix, 0, 1);
    lk_status status = w->prefix && path ? lki_folder_make(prefix) : LK_ENOMEM;
    if (status == LK_OK) status = lki_durable_begin(path, &w->data);
    if (status != LK_OK) lki_bundle_end(w);
    return status;
}

static lk_status keep_entry(lki_bundle_writer *w, const char *key, const lki_sink *value)
{
    const size_t n = strlen(key);
    if (value->failed || !lki_grow((void **)&w->entry, &w->room, w->count + 1, sizeof *w->entry)) return LK_ENOMEM;
    char *room = lki_arena_alloc(&w->memory, n + 1 + value->size);
    if (!room) return LK_ENOMEM;
    memcpy(room, key, n + 1);
    if (value->size) memcpy(room + n + 1, value->data, value->size);
    w->entry[w->count++] = (lki_table_entry){room, n, (uint8_t *)room + n + 1, value->size};
    return LK_OK;
}

static void put_shape(lki_sink *entry, const lk_shape *shape)
{
    lki_sink axes LKI_FREED_BY(lki_sink_free) = {0};
    for (int i = 0; i < shape->rank; i++) {
        lki_sink axis LKI_FREED_BY(lki_sink_free) = {0};
        lki_sink_number(&axis, 1, (uint64_t)shape->dim[i]);
        lki_sink_message(&axes, 2, &axis);
    }
    lki_sink_message(entry, 2, &axes);
}

/* Add an entry for what was written since `offset`. */
static lk_status note(lki_bundle_writer *w, const char *key, int type, const lk_shape *shape, uint64_t offset, uint32_t crc)
{
    lki_sink entry LKI_FREED_BY(lki_sink_free) = {0};
    lki_sink_number(&entry, 1, (uint64_t)type);
    put_shape(&entry, shape);
    lki_sink_number(&entry, 4, offset);
    lki_sink_number(&entry, 5, w->data.size - offset);
    lki_sink_fixed32(&entry, 6, lki_crc32c_mask(crc));
    return keep_entry(w, key, &entry);
}

lk_status lki_bundle_add(lki_bundle_writer *w, const char *key, lk_dtype dtype, const lk_shape *shape, const void *data)
{
    const uint64_t offset = w->data.size;
    const size_t   size = lki_bytes_of(lki_shape_size(shape), lk_dtype_bytes(dtype));
    uint32_t       crc = 0;
    for (size_t done = 0, n; done < size; done += n) {
        const uint8_t *piece = (const uint8_t *)data + done;
        n = size - done < PIECE ? size - done : PIECE;
        crc = lki_crc32c(crc, piece, n);
        LKI_TRY(lki_durable_write(&w->data, piece, n));
    }
    return note(w, key, lki_bundle_type_of(dtype), shape, offset, crc);
}

lk_status lki_bundle_add_text(lki_bundle_writer *w, const char *key, const void *text, size_t size)
{
    const uint64_t offset = w->data.size;
    const uint32_t crc = lki_bundle_length_crc(0, size);
    lki_sink       head LKI_FREED_BY(lki_sink_free) = {0};
    lki_sink_varint(&head, size);
    lki_sink_fixed(&head, lki_crc32c_mask(crc), 4);
    LKI_TRY(head.failed ? LK_ENOMEM : lki_durable_write(&w->data, head.data, head.size));
    LKI_TRY(lki_durable_write(&w->data, text, size));
    return note(w, key, LKI_BUNDLE_TEXT, &(lk_shape){0}, offset,
                lki_crc32c(lki_crc32c(crc, head.data + head.size - 4, 4), text, size));
}

/* An entry whose value is in the writer's memory from now on. */
static lk_status set_value(lki_bundle_writer *w, lki_table_entry *e, const lki_sink *value)
{
    uint8_t *room = value->failed ? NULL : lki_arena_alloc(&w->memory, value->size);
    if (!room) return LK_ENOMEM;
    memcpy(room, value->data, value->size);
    *e = (lki_table_entry){e->key, e->key_size, room, value->size};
    return LK_OK;
}

/* The first entry, whose key is empty. */
static lk_status fill_header(lki_bundle_writer *w)
{
    lki_sink header LKI_FREED_BY(lki_sink_free) = {0}, version LKI_FREED_BY(lki_sink_free) = {0};
    lki_sink_number(&header, 1, (uint64_t)w->shard + 1);
    lki_sink_number(&version, 1, LKI_BUNDLE_VERSION);
    lki_sink_message(&header, 3, &version);
    return set_value(w, &w->entry[0], &header);
}

/* Entries were written for shard 0, which is the default and not stored. */
static lk_status name_shard(lki_bundle_writer *w)
{
    for (int i = 1; i < w->count; i++) {
        lki_sink value LKI_FREED_BY(lki_sink_free) = {0};
        lki_sink_bytes(&value, w->entry[i].value, w->entry[i].size);
        lki_sink_number(&value, 3, (uint64_t)w->shard);
        LKI_TRY(set_value(w, &w->entry[i], &value));
    }
    return LK_OK;
}

static int by_key(const void *a, const void *b) { return lki_table_compare(a, b); }

/* Sort keys; an error if two are equal. */
static lk_status check_keys(lki_bundle_writer *w)
{
    LKI_TRY(keep_entry(w, "", &(lki_sink){0})); /* reserves the header */
    qsort(w->entry, (size_t)w->count, sizeof *w->entry, by_key);
    for (int i = 1; i < w->count; i++)
        if (lki_table_compare(&w->entry[i - 1], &w->entry[i]) == 0)
            return lki_fail(LK_EINVAL, "%s: two values for the key \"%s\"", w->prefix, w->entry[i].key);
    return LK_OK;
}

static lk_status write_index(lki_bundle_writer *w)
{
    if (w->shard) LKI_TRY(name_shard(w));
    LKI_TRY(fill_header(w));
    char    *path LKI_RELEASED = lki_bundle_path(w->prefix, 0, 0);
    lki_sink bytes LKI_FREED_BY(lki_sink_free) = {0};
    LKI_TRY(path ? lki_durable_begin(path, &w->index) : LK_ENOMEM);
    lki_table_write(w->count, w->entry, BLOCK_SIZE, &bytes);
    return bytes.failed ? LK_ENOMEM : lki_durable_write(&w->index, bytes.data, bytes.size);
}

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* True if a file name is `name`.data-<5 digits>-of-<5 digits>. */
static bool is_data_of(const char *candidate, const char *name, size_t length, int *shard, int *shards)
{
    int end = 0;
    return strncmp(candidate, name, length) == 0 && sscanf(candidate + length, ".data-%5d-of-%5d%n", shard, shards, &end) == 2 &&
           end == 20 && !candidate[length + 20];
}

/* True if the current index of `prefix` refers to that data file, or cannot be read. */
static bool is_needed(const char *prefix, int shard, int shards)
{
    lki_error_record before, mine;
    lki_bundle       b;
    lki_error_take(&before);
    const lk_status status = lki_bundle_open_index(prefix, &b);
    lki_error_take(&mine);
    lki_error_put(&before);
    if (status != LK_OK) return status != LK_ENOTFOUND;
    bool needed = false;
    for (int i = 0; i < b.count && !needed; i++)
        needed = b.shards == shards && b.entry[i].shard == shard;
    lki_bundle_close(&b);
    return needed;
}

typedef struct leftover {
    const char *prefix;
    int         shard, shards;
} leftover;

static bool is_leftover(const void *arg)
{
    const leftover *l = arg;
    return !is_needed(l->prefix, l->shard, l->shards);
}

/* ---- the commit ------------------------------------------------------------------------------------------------------------- */

/* Rename the data to the first name that is free, or taken by a leftover. */
static lk_status place_data(lki_bundle_writer *w)
{
    for (w->shard = 0; w->shard < MOST_SHARDS; w->shard++) {
        const leftover l = {w->prefix, w->shard, w->shard + 1};
        char          *path LKI_RELEASED = lki_bundle_path(w->prefix, w->shard, w->shard + 1);
        bool           taken = false;
        if (!path) return LK_ENOMEM;
        lki_remove_unheld(path, is_leftover, &l);
        const lk_status status = lki_durable_publish_new(&w->data, path, &taken);
        if (status != LK_OK || !taken) return w->placed = status == LK_OK, status;
    }
    return lki_fail(LK_EIO, "%s: cannot write it: %d data files of that name are in use", w->prefix, MOST_SHARDS);
}

/* Other data files of the prefix: those of the previous checkpoint, and of crashes. */
static void remove_others(const char *prefix)
{
    const char  *name = name_in(prefix);
    const size_t folder = lki_folder_length(prefix), length = strlen(name);
    char        *path LKI_RELEASED = lki_path_join(folder ? prefix : ".", folder ? folder : 1, "");
    DIR         *d = path ? opendir(path) : NULL;
    leftover     l = {.prefix = prefix};
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (!is_data_of(e->d_name, name, length, &l.shard, &l.shards)) continue;
        char *file LKI_RELEASED = lki_bundle_path(prefix, l.shard, l.shards);
        if (file) lki_remove_unheld(file, is_leftover, &l);
    }
    if (d) closedir(d);
}

lk_status lki_bundle_commit(lki_bundle_writer *w)
{
    LKI_TRY(check_keys(w));
    LKI_TRY(lki_durable_sync(&w->data));
    LKI_TRY(place_data(w));
    LKI_TRY(lki_folder_sync(w->prefix));
    LKI_TRY(write_index(w));
    LKI_TRY(lki_durable_sync(&w->index));
    LKI_TRY(lki_durable_publish(&w->index));
    w->done = true;
    LKI_TRY(lki_folder_sync(w->prefix));
    remove_others(w->prefix);
    return LK_OK;
}

void lki_bundle_end(lki_bundle_writer *w)
{
    if (w->placed && !w->done) unlink(w->data.path);
    lki_durable_abandon(&w->data);
    lki_durable_abandon(&w->index);
    lki_arena_clear(&w->memory);
    lki_release(w->entry);
    lki_release(w->prefix);
    *w = (lki_bundle_writer){.data = LKI_DURABLE_NONE, .index = LKI_DURABLE_NONE};
}

/* ---- removing --------------------------------------------------------------------------------------------------------------- */

lk_status lki_bundle_remove(const char *prefix)
{
    char *index LKI_RELEASED = lki_bundle_path(prefix, 0, 0);
    if (!index) return LK_ENOMEM;
    if (unlink(index) != 0 && errno != ENOENT) return lki_fail(LK_EIO, "%s: cannot remove it: %s", index, strerror(errno));
    remove_others(prefix);
    return LK_OK;
}

/* "NAME.data-00000-of-00001": the length of NAME; 0 for other files. */
static size_t prefix_of_data(const char *file)
{
    const char *found = NULL;
    int         shard, shards;
    for (const char *p = file; (p = strstr(p, ".data-")); p++)
        found = p;
    return found && is_data_of(file, file, (size_t)(found - file), &shard, &shards) ? (size_t)(found - file) : 0;
}

void lki_bundle_clean(const char *folder, const char *begin)
{
    char *inside LKI_RELEASED = lki_path_join(folder, strlen(folder), "/");
    DIR  *d = inside ? opendir(inside) : NULL;
    lki_durable_clean(folder, begin);
    for (const struct dirent *e; d && (e = readdir(d));) {
        const size_t length = strncmp(e->d_name, begin, strlen(begin)) == 0 ? prefix_of_data(e->d_name) : 0;
        char        *path LKI_RELEASED = length ? lki_path_join(inside, strlen(inside), e->d_name) : NULL;
        if (path) {
            path[strlen(inside) + length] = 0;
            remove_others(path);
        }
    }
    if (d) closedir(d);
}
