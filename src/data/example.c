/* tf.train.Example: one feature of a serialised record.
 *
 *   Example   1: Features
 *   Features  1: entries of a map, each 1: name, 2: Feature; of equal names the last counts
 *   Feature   1: byte strings   2: floats   3: int64s      a message each, whose field 1 repeats; numbers may be packed */
#include "core/memory.h"
#include "data/data.h"
#include "format/wire.h"
#include <string.h>

enum { FEATURES = 1, ENTRY = 1, NAME = 1, FEATURE = 2, VALUE = 1 };
enum { BYTES_LIST = 1, FLOAT_LIST = 2, INT64_LIST = 3 };

static lk_tensor *malformed(const char *name)
{
    return lki_refuse(LK_EFORMAT, "lk_example_feature: looking for \"%s\": the record is not a tf.train.Example, or damaged", name);
}

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

/* The last kind of list in the feature counts; 0: there is none. */
static uint32_t find_list(lki_wire feature, lki_wire *list, bool *bad)
{
    lki_wire_field f;
    uint32_t       kind = 0;
    while (lki_wire_next(&feature, &f))
        if (f.is_bytes && f.number >= BYTES_LIST && f.number <= INT64_LIST) {
            kind = f.number;
            *list = f.bytes;
        }
    *bad = *bad || feature.bad;
    return kind;
}

/* ---- lists ---- */

static lk_tensor *bytes_of(lki_wire list, const char *name)
{
    lki_wire_field f;
    lki_wire       value = {0};
    int            count = 0;
    while (lki_wire_next(&list, &f))
        if (f.number == VALUE && f.is_bytes) {
            value = f.bytes;
            count++;
        }
    if (list.bad) return malformed(name);
    if (count != 1)
        return lki_refuse(LK_EUNSUPPORTED, "lk_example_feature: \"%s\" has %d byte strings; a feature of one can be read", name,
                          count);
    static const uint8_t nothing;
    return lk_tensor_from((lk_shape){1, {(int64_t)lki_wire_left(&value)}}, LK_U8, lki_wire_left(&value) ? value.p : &nothing);
}

/* Calls `give` for each number of a list, packed or not; false when it is malformed. */
typedef void give_number(void *to, int64_t i, uint64_t value);

static bool each_number(lki_wire list, uint32_t kind, give_number *give, void *to, int64_t *count)
{
    lki_wire_field f;
    *count = 0;
    while (lki_wire_next(&list, &f)) {
        if (f.number != VALUE) continue;
        if (!f.is_bytes) give(to, (*count)++, f.value);
        while (f.is_bytes && lki_wire_left(&f.bytes)) {
            uint64_t x;
            if (kind == INT64_LIST && !lki_wire_varint(&f.bytes, &x)) return false;
            if (kind == FLOAT_LIST) {
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

static lk_tensor *numbers_of(lki_wire list, uint32_t kind, const char *name)
{
    lk_shape shape = {1, {0}};
    if (!each_number(list, kind, give_none, NULL, &shape.dim[0])) return malformed(name);
    lk_tensor *t = lki_tensor_new(kind == INT64_LIST ? LK_I64 : LK_F32, &shape);
    if (!lki_bad(t)) each_number(list, kind, kind == INT64_LIST ? give_int64 : give_float, t->data, &shape.dim[0]);
    return t;
}

lk_tensor *lk_example_feature(lk_tensor *record, const char *name)
{
    lki_wire feature = {0}, list = {0};
    bool     bad = false;
    if (!name) return lki_refuse(LK_EINVAL, "lk_example_feature: the name is NULL");
    if (!lki_usable("lk_example_feature", "the record", record)) return &lki_poison;
    const void *data = lk_data(record);
    if (!data) return &lki_poison;
    if (record->dtype != LK_U8)
        return lki_refuse(LK_EDTYPE, "lk_example_feature: a record is bytes, u8, not %s", lk_dtype_name(record->dtype));
    const bool found = find_feature(lki_wire_of(data, (size_t)lki_shape_size(&record->shape)), name, &feature, &bad);
    if (bad) return malformed(name);
    if (!found) return lki_refuse(LK_ENOTFOUND, "lk_example_feature: the record has no feature \"%s\"", name);
    const uint32_t kind = find_list(feature, &list, &bad);
    if (bad) return malformed(name);
    if (!kind) return lki_refuse(LK_ENOTFOUND, "lk_example_feature: the feature \"%s\" of the record is empty", name);
    return kind == BYTES_LIST ? bytes_of(list, name) : numbers_of(list, kind, name);
}
