/* tf.train.Example: one feature of a serialised record.
 *
 *   Example   1: Features
 *   Features  1: entries of a map, each 1: name, 2: Feature; of equal names the last counts
 *   Feature   1: byte strings   2: floats   3: int64s      a message each, whose field 1 repeats; numbers may be packed */
#include "data/example.h"
#include "data/data.h"
#include <string.h>

enum { FEATURES = 1, ENTRY = 1, NAME = 1, FEATURE = 2, VALUE = 1 };

/* ---- finding ---- */

static bool entry_is(lki_wire entry, const char *name, lki_wire *feature, bool *bad)
{
    lki_wire_field f;
    bool           named = false, has = false;
    while (lki_wire_next(&entry, &f)) {
        if (f.number == NAME && f.is_bytes)
            named = lki_wire_left(&f.bytes) == strlen(name) && memcmp(f.bytes.p, name, strlen(name)) == 0;
        if (f.number == FEATURE && f.is_bytes) {
            *feature = f.bytes;
            has = true;
        }
    }
    *bad = *bad || entry.bad;
    if (named && !has) *feature = (lki_wire){0}; /* a feature without values */
    return named;
}

static bool find_feature(lki_wire record, const char *name, lki_wire *feature, bool *bad)
{
    lki_wire_field f, entry;
    lki_wire       candidate;
    bool           found = false;
    while (lki_wire_next(&record, &f)) {
        if (f.number != FEATURES || !f.is_bytes) continue;
        while (lki_wire_next(&f.bytes, &entry))
            if (entry.number == ENTRY && entry.is_bytes && entry_is(entry.bytes, name, &candidate, bad)) {
                *feature = candidate;
                found = true;
            }
        *bad = *bad || f.bytes.bad;
    }
    *bad = *bad || record.bad;
    return found;
}

/* The last kind of list in the feature is the one that is used. */
static void find_list(lki_wire feature, lki_example_list *out, bool *bad)
{
    lki_wire_field f;
    while (lki_wire_next(&feature, &f))
        if (f.is_bytes && f.number >= LKI_LIST_BYTES && f.number <= LKI_LIST_INT64S) {
            out->kind = (lki_list_kind)f.number;
            out->values = f.bytes;
        }
    *bad = *bad || feature.bad;
}

/* ---- values ---- */

static bool count_bytes(lki_example_list *l)
{
    lki_wire       list = l->values;
    lki_wire_field f;
    while (lki_wire_next(&list, &f))
        if (f.number == VALUE && f.is_bytes) {
            l->bytes = f.bytes;
            l->count++;
        }
    return !list.bad;
}

/* Calls `give` for each number of a list, packed or not; false if it is malformed. */
typedef void give_number(void *to, int64_t i, uint64_t value);

static bool each_number(const lki_example_list *l, give_number *give, void *to, int64_t *count)
{
    lki_wire       list = l->values;
    lki_wire_field f;
    *count = 0;
    while (lki_wire_next(&list, &f)) {
        if (f.number != VALUE) continue;
        if (!f.is_bytes) give(to, (*count)++, f.value);
        while (f.is_bytes && lki_wire_left(&f.bytes)) {
            uint64_t x;
            if (l->kind == LKI_LIST_INT64S && !lki_wire_varint(&f.bytes, &x)) return false;
            if (l->kind == LKI_LIST_FLOATS) {
                if (lki_wire_left(&f.bytes) < 4) return false;
                uint32_t bits;
                memcpy(&bits, f.bytes.p, 4); /* this machine is little endian */
                x = bits;
                f.bytes.p += 4;
            }
            give(to, (*count)++, x);
        }
    }
    return !list.bad;
}

static void give_none(void *to, int64_t i, uint64_t value) { (void)to, (void)i, (void)value; }
static void give_int64(void *to, int64_t i, uint64_t value) { ((int64_t *)to)[i] = (int64_t)value; }

static void give_float(void *to, int64_t i, uint64_t value)
{
    const uint32_t bits = (uint32_t)value;
    memcpy((float *)to + i, &bits, sizeof bits);
}

bool lki_example_find(lki_wire record, const char *name, lki_example_list *out)
{
    lki_wire feature = {0};
    bool     bad = false;
    *out = (lki_example_list){0};
    out->named = find_feature(record, name, &feature, &bad);
    if (out->named) find_list(feature, out, &bad);
    if (bad) return false;
    if (out->kind == LKI_LIST_BYTES) return count_bytes(out);
    return out->kind == LKI_LIST_NONE || each_number(out, give_none, NULL, &out->count);
}

void lki_example_numbers(const lki_example_list *l, void *dst)
{
    int64_t count;
    each_number(l, l->kind == LKI_LIST_INT64S ? give_int64 : give_float, dst, &count);
}

/* ---- one feature as a tensor ---- */

static lk_tensor *bytes_of(const lki_example_list *l, const char *name)
{
    static const uint8_t nothing;
    const size_t         size = lki_wire_left(&l->bytes);
    if (l->count != 1)
        return lki_refuse(LK_EUNSUPPORTED, "lk_example_feature: \"%s\" has %lld byte strings; a feature of one can be read", name,
                          (long long)l->count);
    return lk_tensor_from((lk_shape){1, {(int64_t)size}}, LK_U8, size ? l->bytes.p : &nothing);
}

static lk_tensor *numbers_of(const lki_example_list *l)
{
    lk_shape   shape = {1, {l->count}};
    lk_tensor *t = lki_tensor_new(l->kind == LKI_LIST_INT64S ? LK_I64 : LK_F32, &shape);
    if (!lki_bad(t)) lki_example_numbers(l, t->data);
    return t;
}

lk_tensor *lk_example_feature(lk_tensor *record, const char *name)
{
    lki_example_list l;
    if (!name) return lki_refuse(LK_EINVAL, "lk_example_feature: the name is NULL");
    if (!lki_usable("lk_example_feature", "the record", record)) return &lki_poison;
    const void *data = lk_data(record);
    if (!data) return &lki_poison;
    if (record->dtype != LK_U8)
        return lki_refuse(LK_EDTYPE, "lk_example_feature: a record is bytes, u8, not %s", lk_dtype_name(record->dtype));
    if (!lki_example_find(lki_wire_of(data, (size_t)lki_shape_size(&record->shape)), name, &l))
        return lki_refuse(LK_EFORMAT, "lk_example_feature: looking for \"%s\": the record is not a tf.train.Example, or damaged",
                          name);
    if (!l.named) return lki_refuse(LK_ENOTFOUND, "lk_example_feature: the record has no feature \"%s\"", name);
    if (!l.kind) return lki_refuse(LK_ENOTFOUND, "lk_example_feature: the feature \"%s\" of the record is empty", name);
    return l.kind == LKI_LIST_BYTES ? bytes_of(&l, name) : numbers_of(&l);
}
