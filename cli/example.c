/* The contents of a record of tf.train.Example, in the form of --features.
 *
 *     Example  { 1: Features }
 *     Features { 1: entry ... }             entry { 1: name, 2: Feature }
 *     Feature  { 1: byte strings | 2: floats | 3: int64s }, each a list { 1: value ... }, numbers mostly packed
 *
 * The record is untrusted: every length is checked against what is left. */
#include "sources.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct bytes {
    const uint8_t *at, *end;
} bytes;

static bool varint(bytes *b, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && b->at < b->end; shift += 7) {
        const uint8_t byte = *b->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

typedef struct field {
    uint64_t number;
    int      wire; /* 0: varint, 1: 8 bytes, 2: length and bytes, 5: 4 bytes */
    bytes    body; /* of wire 2 */
} field;

static bool skip(bytes *b, uint64_t size)
{
    if (size > (uint64_t)(b->end - b->at)) return false;
    b->at += size;
    return true;
}

static bool next_field(bytes *b, field *out)
{
    uint64_t tag, size;
    if (b->at >= b->end || !varint(b, &tag)) return false;
    *out = (field){.number = tag >> 3, .wire = (int)(tag & 7)};
    switch (out->wire) {
    case 0: return varint(b, &size);
    case 1: return skip(b, 8);
    case 5: return skip(b, 4);
    case 2:
        if (!varint(b, &size)) return false;
        out->body.at = b->at;
        if (!skip(b, size)) return false;
        out->body.end = b->at;
        return true;
    default: return false;
    }
}

enum { BYTES = 1, FLOATS = 2 }; /* kinds of lists; the third is of int64s */

/* The number of values in a list, and its first byte string. */
static int64_t count_values(bytes list, uint64_t kind, bytes *first)
{
    int64_t count = 0;
    for (field f; next_field(&list, &f);) {
        if (f.number != 1) continue;
        if (f.wire != 2) count++;
        else if (kind == BYTES) {
            if (!count++) *first = f.body;
        } else if (kind == FLOATS) count += (f.body.end - f.body.at) / 4;
        else
            for (uint64_t value; f.body.at < f.body.end && varint(&f.body, &value);)
                count++;
    }
    return count;
}

static bool is_picture_file(bytes b)
{
    static const uint8_t png[] = {0x89, 'P', 'N', 'G'}, jpeg[] = {0xff, 0xd8, 0xff};
    const size_t         size = b.at ? (size_t)(b.end - b.at) : 0;
    return (size >= sizeof png && !memcmp(b.at, png, sizeof png)) || (size >= sizeof jpeg && !memcmp(b.at, jpeg, sizeof jpeg));
}

static size_t put_feature(bytes name, bytes feature, char *text, size_t room)
{
    field f;
    bytes first = {0};
    if (!next_field(&feature, &f) || f.wire != 2)
        return (size_t)snprintf(text, room, "%.*s (empty)", (int)(name.end - name.at), name.at);
    const int64_t count = count_values(f.body, f.number, &first);
    const char   *type = f.number == BYTES ? (is_picture_file(first) ? "picture" : "u8") : f.number == FLOATS ? "f32" : "i64";
    const int64_t size = f.number == BYTES ? first.end - first.at : count;
    int           used = snprintf(text, room, "%.*s:%s", (int)(name.end - name.at), (const char *)name.at, type);
    if (used < 0 || (size_t)used >= room) return room;
    if (is_picture_file(first)) used += snprintf(text + used, room - (size_t)used, ":HxWxC");
    else if (size != 1 || f.number == BYTES) used += snprintf(text + used, room - (size_t)used, ":%" PRId64, size);
    return (size_t)used;
}

bool cli_example_features(const uint8_t *record, int64_t size, char *text, size_t room)
{
    bytes  example = {record, record + size};
    field  features, entry, part;
    size_t used = 0;
    text[0] = 0;
    if (!next_field(&example, &features) || features.number != 1 || features.wire != 2) return false;
    while (next_field(&features.body, &entry) && used + 2 < room) {
        bytes name = {0}, feature = {0};
        if (entry.number != 1 || entry.wire != 2) return false;
        while (next_field(&entry.body, &part))
            *(part.number == 1 ? &name : &feature) = part.body;
        if (!name.at || !feature.at) return false;
        if (used) used += (size_t)snprintf(text + used, room - used, ",");
        used += put_feature(name, feature, text + used, room - used);
    }
    return used > 0 && used < room;
}
