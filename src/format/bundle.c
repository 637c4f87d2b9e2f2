/* Reading TensorFlow's checkpoint files (bundle.h); bundle_out.c writes them.
 *
 *   PREFIX.index                  a sorted table (table.c): key "" to a header, every other key to an entry
 *   PREFIX.data-00000-of-00001    the elements of all arrays, one after the other; shard 0 of 1
 *
 *   header (protocol buffer)              entry (protocol buffer)
 *   field  meaning                        field  meaning
 *       1  number of shards                   1  type: 1 float32, 2 float64, 3 int32, 4 uint8, 7 text, 9 int64, 10 bool,
 *       2  0: little endian                                14 bfloat16, 19 float16, ...
 *       3  version: 1 producer,               2  shape: 2 axis, repeated: 1 size; 3 unknown rank
 *          2 least consumer                   3  shard
 *                                             4  offset in the shard's file
 *                                             5  size in bytes
 *                                             6  masked CRC-32C of these bytes, fixed 32 bits
 *                                             7  slices, repeated: the array is stored in pieces under other keys
 *
 *   numbers  row by row, little endian
 *   text     varint length of each string; masked CRC-32C of these lengths as 4-byte numbers; the strings. The entry's checksum is
 *            taken over the lengths as 4-byte numbers, the 4 bytes of the first checksum, and the strings. */
#include "format/bundle.h"
#include "core/names.h"
#include "core/shape.h"
#include "format/crc32c.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT = LKI_BUNDLE_TEXT, LARGEST_SHARD_COUNT = 100000, VERSION = LKI_BUNDLE_VERSION };

static const struct {
    int         number;
    lk_dtype    dtype;
    const char *name;
} TYPES[] = {
    {1, LK_F32, "float32"},
    {2, LK_F64, "float64"},
    {19, LK_F16, "float16"},
    {14, LK_BF16, "bfloat16"},
    {3, LK_I32, "int32"},
    {9, LK_I64, "int64"},
    {4, LK_U8, "uint8"},
    {10, LK_BOOL, "bool"},
    {5, LK_DTYPE_COUNT, "int16"},
    {6, LK_DTYPE_COUNT, "int8"},
    {TEXT, LK_DTYPE_COUNT, "string"},
    {8, LK_DTYPE_COUNT, "complex64"},
    {17, LK_DTYPE_COUNT, "uint16"},
    {18, LK_DTYPE_COUNT, "complex128"},
    {22, LK_DTYPE_COUNT, "uint32"},
    {23, LK_DTYPE_COUNT, "uint64"},
};

static lk_dtype dtype_of(int type)
{
    for (int i = 0; i < LKI_COUNT(TYPES); i++)
        if (TYPES[i].number == type) return TYPES[i].dtype;
    return LK_DTYPE_COUNT;
}

const char *lki_bundle_type_name(int type, char *text)
{
    for (int i = 0; i < LKI_COUNT(TYPES); i++)
        if (TYPES[i].number == type) return TYPES[i].name;
    snprintf(text, 24, "type %d", type);
    return text;
}

int lki_bundle_type_of(lk_dtype dtype)
{
    int i = 0;
    while (TYPES[i].dtype != dtype)
        i++;
    return TYPES[i].number;
}

char *lki_bundle_path(const char *prefix, int shard, int shards)
{
    return shards ? lki_text_new("%s.data-%05d-of-%05d", prefix, shard, shards) : lki_text_new("%s.index", prefix);
}

/* ---- the index -------------------------------------------------------------------------------------------------------------- */

static lk_status malformed(const lki_bundle *b, const char *key, const char *problem)
{
    return lki_fail(LK_EFORMAT, "%s: entry \"%.200s\": %s", b->path, key, problem);
}

static lk_status parse_version(const lki_bundle *b, lki_wire message)
{
    lki_wire_field f;
    uint64_t       least = 0;
    while (lki_wire_next(&message, &f))
        if (f.number == 2) least = f.value;
    if (message.bad) return malformed(b, "", "the version in the header is malformed");
    if (least > VERSION)
        return lki_fail(LK_EUNSUPPORTED, "%s: needs a reader of version %llu: this one has version %d", b->path,
                        (unsigned long long)least, VERSION);
    return LK_OK;
}

static lk_status parse_header(lki_bundle *b, lki_wire message)
{
    lki_wire_field f;
    uint64_t       shards = 0;
    while (lki_wire_next(&message, &f)) {
        if (f.number == 1) shards = f.value;
        if (f.number == 2 && f.value != 0)
            return lki_fail(LK_EUNSUPPORTED, "%s: big endian: only little endian can be read", b->path);
        if (f.number == 3) LKI_TRY(parse_version(b, f.bytes));
    }
    if (message.bad) return malformed(b, "", "the header is malformed");
    if (shards < 1 || shards > LARGEST_SHARD_COUNT)
        return lki_fail(LK_EFORMAT, "%s: %llu data files: there must be 1 to %d", b->path, (unsigned long long)shards,
                        LARGEST_SHARD_COUNT);
    b->shards = (int)shards;
    return LK_OK;
}

static lk_status parse_axis(const lki_bundle *b, lki_bundle_entry *e, lki_wire message)
{
    lki_wire_field f;
    uint64_t       size = 0;
    while (lki_wire_next(&message, &f))
        if (f.number == 1) size = f.value;
    if (message.bad) return malformed(b, e->key, "its shape is malformed");
    if (e->rank == LK_MAX_RANK) return malformed(b, e->key, "more than 8 axes");
    if (size > INT64_MAX) return malformed(b, e->key, "an axis of negative or unknown size");
    e->dim[e->rank++] = size;
    return LK_OK;
}

static lk_status parse_shape(const lki_bundle *b, lki_bundle_entry *e, lki_wire message)
{
    lki_wire_field f;
    while (lki_wire_next(&message, &f)) {
        if (f.number == 2) LKI_TRY(parse_axis(b, e, f.bytes));
        if (f.number == 3 && f.value) return malformed(b, e->key, "its rank is unknown");
    }
    return message.bad ? malformed(b, e->key, "its shape is malformed") : LK_OK;
}

static lk_status parse_entry(const lki_bundle *b, lki_bundle_entry *e, lki_wire message)
{
    lki_wire_field f;
    while (lki_wire_next(&message, &f)) {
        if ((f.number == 1 || f.number == 3) && f.value > INT32_MAX)
            return malformed(b, e->key, "its type or shard is out of range");
        switch (f.number) {
        case 1: e->type = (int)f.value; break;
        case 2: LKI_TRY(parse_shape(b, e, f.bytes)); break;
        case 3: e->shard = (int)f.value; break;
        case 4: e->offset = f.value; break;
        case 5: e->size = f.value; break;
        case 6: e->crc = (uint32_t)f.value; break;
        case 7: e->sliced = true; break;
        default: break;
        }
    }
    if (message.bad) return malformed(b, e->key, "malformed");
    if (e->shard >= b->shards) return malformed(b, e->key, "in a data file beyond the last one");
    return LK_OK;
}

static lk_status parse_index(lki_bundle *b)
{
    LKI_TRY(lki_table_parse(b->path, b->index.data, b->index.size, &b->table));
    const lki_table *t = &b->table;
    if (!t->count || t->entry[0].key_size) return lki_fail(LK_EFORMAT, "%s: a table without the header of a checkpoint", b->path);
    LKI_TRY(parse_header(b, lki_wire_of(t->entry[0].value, t->entry[0].size)));
    b->entry = lki_zalloc_array(t->count, sizeof *b->entry);
    if (!b->entry) return LK_ENOMEM;
    for (int i = 1; i < t->count; i++) {
        lki_bundle_entry *e = &b->entry[b->count];
        e->key = t->entry[i].key;
        if (strlen(e->key) != t->entry[i].key_size) continue; /* a slice; the entry of the whole array says that it is sliced */
        LKI_TRY(parse_entry(b, e, lki_wire_of(t->entry[i].value, t->entry[i].size)));
        b->count++;
    }
    return LK_OK;
}

/* ---- the data files --------------------------------------------------------------------------------------------------------- */

static const lki_bundle_shard *find_shard(const lki_bundle *b, int number)
{
    for (int i = b->opened; i-- > 0;)
        if (b->shard[i].number == number) return &b->shard[i];
    return NULL;
}

static lk_status open_shard(lki_bundle *b, const char *prefix, int number)
{
    if (!lki_grow((void **)&b->shard, &b->room, b->opened + 1, sizeof *b->shard)) return LK_ENOMEM;
    lki_bundle_shard *s = &b->shard[b->opened];
    *s = (lki_bundle_shard){lki_bundle_path(prefix, number, b->shards), number, -1, 0};
    if (!s->path) return LK_ENOMEM;
    b->opened++;
    return lki_open_regular(s->path, &s->descriptor, &s->size);
}

static lk_status open_shards(lki_bundle *b, const char *prefix)
{
    for (int i = 0; i < b->count; i++)
        if (!find_shard(b, b->entry[i].shard)) LKI_TRY(open_shard(b, prefix, b->entry[i].shard));
    return LK_OK;
}

lk_status lki_bundle_open_index(const char *prefix, lki_bundle *out)
{
    *out = (lki_bundle){.path = lki_bundle_path(prefix, 0, 0)};
    if (!out->path) return LK_ENOMEM;
    lk_status status = lki_file_read(out->path, &out->index);
    if (status == LK_OK) status = parse_index(out);
    if (status != LK_OK) lki_bundle_close(out);
    return status;
}

/* True if two queries of a path found the same file. */
static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* `*changed`: the index was replaced meanwhile, so the data may belong to another index, or be gone. */
static lk_status open_once(const char *prefix, lki_bundle *out, bool *changed)
{
    struct stat before = {0}, after = {0};
    char       *index LKI_RELEASED = lki_bundle_path(prefix, 0, 0);
    const bool  there = index && stat(index, &before) == 0;
    lk_status   status = index ? lki_bundle_open_index(prefix, out) : LK_ENOMEM;
    if (status == LK_OK && (status = open_shards(out, prefix)) != LK_OK) lki_bundle_close(out);
    *changed = there && stat(index, &after) == 0 && !is_same_file(&before, &after);
    return status;
}

/* Tries again if a new checkpoint replaced the old one between opening the index and the data. */
lk_status lki_bundle_open(const char *prefix, lki_bundle *out)
{
    enum { TRIES = 100 };
    lki_error_record others, mine;
    bool             changed = false;
    lk_status        status = LK_OK;
    *out = (lki_bundle){0};
    lki_error_take(&others);
    for (int i = 0; i < TRIES; i++) {
        if (status == LK_OK && i) lki_bundle_close(out);
        status = open_once(prefix, out, &changed);
        lki_error_take(&mine);
        if (!changed) break;
    }
    lki_error_put(status == LK_OK || others.code != LK_OK ? &others : &mine);
    return status;
}

void lki_bundle_close(lki_bundle *b)
{
    for (int i = 0; i < b->opened; i++) {
        if (b->shard[i].descriptor >= 0) close(b->shard[i].descriptor);
        lki_release(b->shard[i].path);
    }
    lki_release(b->shard);
    lki_release(b->entry);
    lki_table_free(&b->table);
    lki_bytes_free(&b->index);
    lki_release(b->path);
    *b = (lki_bundle){0};
}

int lki_bundle_find(const lki_bundle *b, const char *key)
{
    int low = 0, high = b->count;
    while (low < high) {
        const int middle = low + (high - low) / 2, order = strcmp(b->entry[middle].key, key);
        if (order == 0) return middle;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return -1;
}

/* ---- reading arrays --------------------------------------------------------------------------------------------------------- */

static lk_status misfit(const lki_bundle_entry *e, const lki_bundle_shard *s, const char *format, uint64_t a, uint64_t b)
{
    char problem[160];
    snprintf(problem, sizeof problem, format, (unsigned long long)a, (unsigned long long)b);
    return lki_fail(LK_EFORMAT, "%s: \"%.200s\": %s", s->path, e->key, problem);
}

/* The bytes of an entry; `data` has room for them. */
static lk_status read_bytes(const lki_bundle_entry *e, const lki_bundle_shard *s, uint8_t *data)
{
    for (uint64_t done = 0; done < e->size;) {
        const ssize_t n = pread(s->descriptor, data + done, (size_t)(e->size - done), (off_t)(e->offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return lki_fail(LK_EIO, "%s: %s", s->path, strerror(errno));
        if (n == 0) return misfit(e, s, "ends after %llu of its %llu bytes", done, e->size);
        done += (uint64_t)n;
    }
    return LK_OK;
}

static lk_status check_crc(const lki_bundle_entry *e, const lki_bundle_shard *s, uint32_t crc)
{
    const uint32_t stored = lki_crc32c_unmask(e->crc);
    if (crc == stored) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: \"%.200s\": its CRC-32C is %08x: should be %08x: the file is damaged", s->path, e->key,
                    (unsigned)crc, (unsigned)stored);
}

static lk_status check_place(const lki_bundle *b, const lki_bundle_entry *e, const lki_bundle_shard **out)
{
    const lki_bundle_shard *s = *out = find_shard(b, e->shard);
    if (e->sliced) return lki_fail(LK_EUNSUPPORTED, "%s: \"%.200s\" is stored in slices, which cannot be read", b->path, e->key);
    if (e->offset > s->size || e->size > s->size - e->offset)
        return lki_fail(LK_EFORMAT, "%s: \"%.200s\": %llu bytes at offset %llu do not fit into the %llu bytes of the file", s->path,
                        e->key, (unsigned long long)e->size, (unsigned long long)e->offset, (unsigned long long)s->size);
    return LK_OK;
}

lk_status lki_bundle_describe(const lki_bundle *b, int entry, lki_array *out)
{
    const lki_bundle_entry *e = &b->entry[entry];
    const lk_dtype          dtype = dtype_of(e->type);
    char                    text[24], file[256];
    *out = (lki_array){0};
    if (dtype == LK_DTYPE_COUNT)
        return lki_fail(LK_EDTYPE, "%s: \"%.200s\" is %s, which lockstep has no type for", b->path, e->key,
                        lki_bundle_type_name(e->type, text));
    snprintf(file, sizeof file, "%.120s: \"%.120s\"", b->path, e->key);
    return lki_array_begin(file, dtype, e->rank, e->dim, out);
}

bool lki_bundle_is(const lki_bundle *b, int entry, lk_dtype dtype, const lk_shape *shape)
{
    const lki_bundle_entry *e = &b->entry[entry];
    bool                    same = dtype_of(e->type) == dtype && e->rank == shape->rank;
    for (int i = 0; i < e->rank && same; i++)
        same = e->dim[i] == (uint64_t)shape->dim[i];
    return same;
}

static lk_status read_array(const lki_bundle *b, int entry, lki_array *out)
{
    const lki_bundle_entry *e = &b->entry[entry];
    const lki_bundle_shard *s;
    LKI_TRY(lki_bundle_describe(b, entry, out));
    LKI_TRY(check_place(b, e, &s));
    const uint64_t wanted = lki_bytes_of(lki_shape_size(&out->shape), lk_dtype_bytes(out->dtype));
    if (wanted != e->size) return misfit(e, s, "has %llu bytes: its shape and type need %llu", e->size, wanted);
    LKI_TRY(lki_array_alloc(out));
    LKI_TRY(read_bytes(e, s, out->data));
    LKI_TRY(check_crc(e, s, lki_crc32c(0, out->data, (size_t)e->size)));
    for (uint64_t i = 0; out->dtype == LK_BOOL && i < e->size; i++)
        ((uint8_t *)out->data)[i] = ((uint8_t *)out->data)[i] != 0;
    return LK_OK;
}

lk_status lki_bundle_read(const lki_bundle *b, int entry, lki_array *out)
{
    const lk_status status = read_array(b, entry, out);
    if (status != LK_OK) lki_array_free(out);
    return status;
}

uint32_t lki_bundle_length_crc(uint32_t crc, uint64_t length)
{
    uint8_t   byte[8];
    const int bytes = length > UINT32_MAX ? 8 : 4;
    for (int i = 0; i < bytes; i++)
        byte[i] = (uint8_t)(length >> 8 * i);
    return lki_crc32c(crc, byte, (size_t)bytes);
}

static lk_status cut_text(const lki_bundle_entry *e, const lki_bundle_shard *s, lki_bytes *out)
{
    lki_wire w = lki_wire_of(out->data, out->size);
    uint64_t length;
    if (!lki_wire_varint(&w, &length) || lki_wire_left(&w) < 4 || lki_wire_left(&w) - 4 != length)
        return misfit(e, s, "its %llu bytes are not a length, a checksum and %llu characters", e->size, w.bad ? 0 : length);
    const uint32_t crc = lki_bundle_length_crc(0, length), stored = lki_crc32c_unmask((uint32_t)lki_get_le(w.p, 4));
    if (crc != stored) return misfit(e, s, "the CRC-32C of its length is %llx: should be %llx", crc, stored);
    LKI_TRY(check_crc(e, s, lki_crc32c(lki_crc32c(crc, w.p, 4), w.p + 4, (size_t)length)));
    memmove(out->data, w.p + 4, (size_t)length);
    out->size = (size_t)length;
    return LK_OK;
}

lk_status lki_bundle_read_text(const lki_bundle *b, int entry, lki_bytes *out)
{
    const lki_bundle_entry *e = &b->entry[entry];
    const lki_bundle_shard *s;
    *out = (lki_bytes){0};
    if (e->type != TEXT || e->rank) return lki_fail(LK_EFORMAT, "%s: \"%.200s\" is not one text", b->path, e->key);
    LKI_TRY(check_place(b, e, &s));
    *out = (lki_bytes){lki_alloc((size_t)e->size), (size_t)e->size};
    if (!out->data) return *out = (lki_bytes){0}, LK_ENOMEM;
    lk_status status = read_bytes(e, s, out->data);
    if (status == LK_OK) status = cut_text(e, s, out);
    if (status != LK_OK) lki_bytes_free(out);
    return status;
}

/* ---- checking ---------------------------------------------------------------------------------------------------------------- */

enum { PIECE = 1 << 20 };

/* Adds the bytes of an entry from `from` on to the checksum, a piece at a time. */
static lk_status sum_bytes(const lki_bundle_entry *e, const lki_bundle_shard *s, uint64_t from, uint32_t *crc)
{
    const uint64_t left = e->size - from;
    uint8_t       *piece LKI_RELEASED = lki_alloc(left < PIECE ? (size_t)left : PIECE);
    if (!piece) return LK_ENOMEM;
    for (uint64_t n, done = from; done < e->size; done += n) {
        n = e->size - done < PIECE ? e->size - done : PIECE;
        LKI_TRY(read_bytes(&(lki_bundle_entry){.key = e->key, .offset = e->offset + done, .size = n}, s, piece));
        *crc = lki_crc32c(*crc, piece, (size_t)n);
    }
    return LK_OK;
}

/* The lengths of `count` texts at the front of an entry, with their checksum after them; *end is where the texts begin. */
static lk_status sum_lengths(const lki_bundle_entry *e, const lki_bundle_shard *s, uint64_t count, uint64_t *end, uint32_t *crc)
{
    const uint64_t         most = e->size < 4 || count > (e->size - 4) / 10 ? e->size : count * 10 + 4;
    const lki_bundle_entry head = {.key = e->key, .offset = e->offset, .size = most};
    uint8_t               *bytes LKI_RELEASED = lki_alloc((size_t)most);
    if (!bytes) return LK_ENOMEM;
    LKI_TRY(read_bytes(&head, s, bytes));
    lki_wire w = lki_wire_of(bytes, (size_t)most);
    uint64_t total = 0, length = 0;
    *crc = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!lki_wire_varint(&w, &length) || length > e->size - total)
            return misfit(e, s, "its length %llu of %llu is wrong", i, count);
        total += length;
        *crc = lki_bundle_length_crc(*crc, length);
    }
    if (lki_wire_left(&w) < 4 || (uint64_t)(w.p - bytes) + 4 + total != e->size)
        return misfit(e, s, "its %llu bytes are not lengths, a checksum and %llu characters", e->size, total);
    const uint32_t stored = lki_crc32c_unmask((uint32_t)lki_get_le(w.p, 4));
    if (*crc != stored) return misfit(e, s, "the CRC-32C of its lengths is %llx: should be %llx", *crc, stored);
    *crc = lki_crc32c(*crc, w.p, 4);
    *end = (uint64_t)(w.p - bytes) + 4;
    return LK_OK;
}

/* The number of elements; false if it overflows. */
static bool count_of(const lki_bundle_entry *e, uint64_t *count)
{
    *count = 1;
    for (int i = 0; i < e->rank; i++)
        if (!lki_count_try_mul(*count, e->dim[i], count)) return false;
    return true;
}

lk_status lki_bundle_check(const lki_bundle *b, int entry)
{
    const lki_bundle_entry *e = &b->entry[entry];
    const lki_bundle_shard *s;
    const lk_dtype          dtype = dtype_of(e->type);
    uint64_t                count, wanted, from = 0;
    uint32_t                crc = 0;
    LKI_TRY(check_place(b, e, &s));
    if (!count_of(e, &count)) return misfit(e, s, "its %llu axes have too many elements", (uint64_t)e->rank, 0);
    if (e->type == TEXT) LKI_TRY(sum_lengths(e, s, count, &from, &crc));
    if (dtype != LK_DTYPE_COUNT && (!lki_count_try_mul(count, lk_dtype_bytes(dtype), &wanted) || wanted != e->size))
        return misfit(e, s, "has %llu bytes: its shape and type need %llu", e->size, count * lk_dtype_bytes(dtype));
    LKI_TRY(sum_bytes(e, s, from, &crc));
    return check_crc(e, s, crc);
}
