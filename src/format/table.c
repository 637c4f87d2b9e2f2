/* Sorted tables (table.h).
 *
 *   file      data blocks, a meta-index block (empty in checkpoints), an index block, the footer
 *   block     entries; restart offsets, 4 bytes each; their number, 4 bytes
 *   trailer   after every block: its type, 1 byte (0 plain, 1 snappy); masked CRC-32C of block and type, 4 bytes
 *   entry     varint: bytes shared with the key before; varint: bytes of its own; varint: bytes of the value; those bytes
 *             At a restart, every 16 entries (index block: every entry), nothing is shared.
 *   handle    varint: offset of a block; varint: its size without the trailer
 *   index     one entry per data block: a key not before its last one, and its handle
 *
 *   footer, the last 48 bytes
 *   offset  size  meaning
 *        0  <=20  handle of the meta-index block
 *           <=20  handle of the index block, directly after it; zeros
 *       40     8  57 fb 80 8b 24 75 47 db
 *
 * Numbers of more than one byte are little endian. Data blocks follow each other and keys ascend over the whole file; anything else
 * is refused, so reading takes time and memory in proportion to the file. */
#include "format/table.h"
#include "format/crc32c.h"
#include <string.h>

enum { FOOTER = 48, TRAILER = 5, MAGIC_AT = 40, RESTART_EVERY = 16, KEYS_PER_BYTE = 64 };

static const uint64_t magic = 0xdb4775248b80fb57;

/* ---- reading ---------------------------------------------------------------------------------------------------------------- */

typedef struct reading {
    const char    *file;
    const uint8_t *bytes;
    size_t         size;
    lki_table     *out;
    int            room;
    size_t         key_bytes; /* copied so far */
    uint64_t       data_end;  /* of the data blocks so far */
} reading;

typedef lk_status entry_fn(reading *r, const char *key, size_t key_size, const uint8_t *value, size_t size);

static bool read_handle(lki_wire *w, uint64_t *offset, uint64_t *size)
{
    return lki_wire_varint(w, offset) && lki_wire_varint(w, size);
}

/* The block of a handle, its checksum verified. */
static lk_status find_block(const reading *r, const char *what, uint64_t offset, uint64_t size, lki_wire *out)
{
    const size_t end = r->size - FOOTER;
    if (offset > end || size > end - offset || TRAILER > end - offset - size)
        return lki_fail(LK_EFORMAT, "%s: %s of %llu bytes at offset %llu: does not fit into the %zu bytes before the footer",
                        r->file, what, (unsigned long long)size, (unsigned long long)offset, end);
    const uint8_t *p = r->bytes + offset, *trailer = p + size;
    const uint32_t crc = lki_crc32c(0, p, (size_t)size + 1), stored = lki_crc32c_unmask((uint32_t)lki_get_le(trailer + 1, 4));
    if (crc != stored)
        return lki_fail(LK_EFORMAT, "%s: %s at offset %llu: its CRC-32C is %08x: should be %08x", r->file, what,
                        (unsigned long long)offset, (unsigned)crc, (unsigned)stored);
    if (*trailer != 0)
        return lki_fail(LK_EUNSUPPORTED,
                        "%s: %s at offset %llu has compression type %d (1 is snappy): only plain blocks, which TensorFlow "
                        "writes in checkpoints, can be read",
                        r->file, what, (unsigned long long)offset, *trailer);
    *out = lki_wire_of(p, (size_t)size);
    return LK_OK;
}

static lk_status bad_entry(const reading *r, const uint8_t *at, const char *problem)
{
    return lki_fail(LK_EFORMAT, "%s: at offset %zu: %s", r->file, (size_t)(at - r->bytes), problem);
}

/* The end of a block's entries. */
static lk_status cut_restarts(const reading *r, lki_wire *block)
{
    const size_t size = lki_wire_left(block);
    if (size < 4) return bad_entry(r, block->p, "a block without room for its number of restarts");
    const uint64_t restarts = lki_get_le(block->end - 4, 4);
    if (restarts > (size - 4) / 4) return bad_entry(r, block->end - 4, "more restarts than the block has room for");
    block->end -= 4 + 4 * restarts;
    return LK_OK;
}

/* Call fn for each entry of a block; `key` is a buffer for the current key. */
static lk_status read_block(reading *r, lki_wire block, lki_sink *key, entry_fn *fn)
{
    LKI_TRY(cut_restarts(r, &block));
    key->size = 0;
    while (block.p < block.end) {
        const uint8_t *at = block.p;
        uint64_t       shared, own, size;
        if (!lki_wire_varint(&block, &shared) || !lki_wire_varint(&block, &own) || !lki_wire_varint(&block, &size))
            return bad_entry(r, at, "the sizes of an entry are cut off");
        if (shared > key->size) return bad_entry(r, at, "an entry shares more than the key before it has");
        if (own > lki_wire_left(&block) || size > lki_wire_left(&block) - own)
            return bad_entry(r, at, "an entry is longer than its block");
        key->size = (size_t)shared;
        lki_sink_bytes(key, block.p, (size_t)own);
        if (key->failed) return LK_ENOMEM;
        LKI_TRY(fn(r, (const char *)key->data, key->size, block.p + own, (size_t)size));
        block.p += own + size;
    }
    return LK_OK;
}

static lk_status keep_entry(reading *r, const char *key, size_t key_size, const uint8_t *value, size_t size)
{
    lki_table *t = r->out;
    r->key_bytes += key_size + 1;
    if (r->key_bytes / KEYS_PER_BYTE > r->size)
        return lki_fail(LK_EFORMAT, "%s: keys of more than %d times the size of the file", r->file, KEYS_PER_BYTE);
    if (!lki_grow((void **)&t->entry, &r->room, t->count + 1, sizeof *t->entry)) return LK_ENOMEM;
    char *copy = lki_arena_alloc(&t->keys, key_size + 1);
    if (!copy) return LK_ENOMEM;
    if (key_size) memcpy(copy, key, key_size);
    t->entry[t->count] = (lki_table_entry){copy, key_size, value, size};
    if (t->count && lki_table_compare(&t->entry[t->count - 1], &t->entry[t->count]) >= 0)
        return lki_fail(LK_EFORMAT, "%s: key %d, \"%.100s\", does not come after the one before it", r->file, t->count, copy);
    t->count++;
    return LK_OK;
}

static lk_status read_data_block(reading *r, const char *key, size_t key_size, const uint8_t *value, size_t size)
{
    lki_wire handle = lki_wire_of(value, size), block;
    lki_sink inner LKI_FREED_BY(lki_sink_free) = {0};
    uint64_t offset, bytes;
    (void)key, (void)key_size;
    if (!read_handle(&handle, &offset, &bytes)) return bad_entry(r, value, "the handle of a block is cut off");
    LKI_TRY(find_block(r, "data block", offset, bytes, &block));
    if (offset < r->data_end) return bad_entry(r, value, "a data block begins before the end of the one before it");
    r->data_end = offset + bytes + TRAILER;
    return read_block(r, block, &inner, keep_entry);
}

static lk_status parse(reading *r)
{
    if (r->size < FOOTER)
        return lki_fail(LK_EFORMAT, "%s: %zu bytes: too short for the footer of %d bytes", r->file, r->size, FOOTER);
    const uint8_t *footer = r->bytes + r->size - FOOTER;
    if (lki_get_le(footer + MAGIC_AT, 8) != magic)
        return lki_fail(LK_EFORMAT, "%s: its last 8 bytes are not those of a table: not the index of a checkpoint, or cut off",
                        r->file);
    lki_wire handles = lki_wire_of(footer, MAGIC_AT), index;
    uint64_t offset, size;
    if (!read_handle(&handles, &offset, &size) || !read_handle(&handles, &offset, &size))
        return lki_fail(LK_EFORMAT, "%s: the handles in its footer are cut off", r->file);
    LKI_TRY(find_block(r, "index block", offset, size, &index));
    lki_sink key LKI_FREED_BY(lki_sink_free) = {0};
    return read_block(r, index, &key, read_data_block);
}

lk_status lki_table_parse(const char *file, const void *bytes, size_t size, lki_table *out)
{
    reading r = {.file = file, .bytes = bytes, .size = size, .out = out};
    *out = (lki_table){0};
    const lk_status status = parse(&r);
    if (status != LK_OK) lki_table_free(out);
    return status;
}

void lki_table_free(lki_table *t)
{
    lki_arena_clear(&t->keys);
    lki_release(t->entry);
    *t = (lki_table){0};
}

int lki_table_compare(const lki_table_entry *a, const lki_table_entry *b)
{
    const size_t n = a->key_size < b->key_size ? a->key_size : b->key_size;
    const int    order = n ? memcmp(a->key, b->key, n) : 0;
    return order ? order : (a->key_size > b->key_size) - (a->key_size < b->key_size);
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

typedef struct building {
    lki_sink               body, restarts; /* restarts: 4 bytes each */
    int                    entries, restart_every;
    const lki_table_entry *last;
} building;

static void block_add(building *b, const lki_table_entry *e, const void *value, size_t size)
{
    const bool restart = b->entries++ % b->restart_every == 0;
    size_t     shared = 0;
    if (restart) lki_sink_fixed(&b->restarts, b->body.size, 4);
    while (!restart && shared < e->key_size && shared < b->last->key_size && e->key[shared] == b->last->key[shared])
        shared++;
    lki_sink_varint(&b->body, shared);
    lki_sink_varint(&b->body, e->key_size - shared);
    lki_sink_varint(&b->body, size);
    lki_sink_bytes(&b->body, e->key + shared, e->key_size - shared);
    lki_sink_bytes(&b->body, value, size);
    b->last = e;
}

/* Append the block with its trailer to the file and begin another one. Its handle is written to `handle`. */
static void block_end(building *b, lki_sink *out, lki_sink *handle)
{
    const size_t begin = out->size;
    if (!b->entries) lki_sink_fixed(&b->restarts, 0, 4);
    lki_sink_bytes(&b->body, b->restarts.data, b->restarts.size);
    lki_sink_fixed(&b->body, b->restarts.size / 4, 4);
    lki_sink_varint(handle, begin);
    lki_sink_varint(handle, b->body.size);
    lki_sink_fixed(&b->body, 0, 1);
    lki_sink_bytes(out, b->body.data, b->body.size);
    lki_sink_fixed(out, lki_crc32c_mask(lki_crc32c(0, b->body.data, b->body.size)), 4);
    out->failed = out->failed || b->body.failed || b->restarts.failed || handle->failed;
    b->body.size = b->restarts.size = 0;
    b->entries = 0;
}

void lki_table_write(int count, const lki_table_entry *entry, size_t block_size, lki_sink *out)
{
    building data = {.restart_every = RESTART_EVERY}, index = {.restart_every = 1}, meta = {.restart_every = 1};
    lki_sink handle LKI_FREED_BY(lki_sink_free) = {0}, footer LKI_FREED_BY(lki_sink_free) = {0};
    for (int i = 0; i < count; i++) {
        block_add(&data, &entry[i], entry[i].value, entry[i].size);
        if (i + 1 < count && data.body.size < block_size) continue;
        handle.size = 0;
        block_end(&data, out, &handle);
        block_add(&index, &entry[i], handle.data, handle.size);
    }
    block_end(&meta, out, &footer);
    block_end(&index, out, &footer);
    while (footer.size < MAGIC_AT && !footer.failed)
        lki_sink_fixed(&footer, 0, 1);
    lki_sink_fixed(&footer, magic, 8);
    lki_sink_bytes(out, footer.data, footer.size);
    out->failed = out->failed || footer.failed;
    building *const all[] = {&data, &index, &meta};
    for (int i = 0; i < LKI_COUNT(all); i++) {
        lki_sink_free(&all[i]->body);
        lki_sink_free(&all[i]->restarts);
    }
}
