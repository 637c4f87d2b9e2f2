/* Inspecting TFRecord and event files and pictures (inspect.h). */
#include "core/number.h"
#include "files/inspect.h"
#include "format/events.h"
#include "format/image.h"
#include "format/tfrecord.h"
#include <stdio.h>
#include <string.h>

/* ---- tf.train.Example ----
 *
 *   example   1  features    features  1  entry, repeated: 1 name, 2 feature    feature  1 bytes_list, 2 float_list, 3 int64_list
 *   any list  1  value, repeated; numbers mostly packed into one */

enum { NAME = 1, FEATURE = 2, FEATURES = 1, ENTRY = 1, VALUE = 1, BYTES_LIST = 1, FLOAT_LIST = 2, INT64_LIST = 3, MOST_NAME = 256 };

typedef struct values {
    int64_t count, bytes;
} values;

static bool count_values(uint32_t list, lki_wire w, values *out)
{
    lki_wire_field f;
    while (lki_wire_next(&w, &f)) {
        if (f.number != VALUE) continue;
        out->bytes += (int64_t)lki_wire_left(&f.bytes);
        if (list == BYTES_LIST || !f.is_bytes) out->count++;
        else if (list == FLOAT_LIST) out->count += (int64_t)lki_wire_left(&f.bytes) / 4;
        else
            for (uint64_t x; lki_wire_left(&f.bytes) && lki_wire_varint(&f.bytes, &x);)
                out->count++;
    }
    return !w.bad;
}

static bool tell_feature(lki_wire entry, lki_report *r)
{
    static const char *const TYPES[] = {NULL, "bytes", "float", "int64"};
    lki_wire_field           f, g;
    lki_wire                 feature = {0};
    char                     name[MOST_NAME] = "", note[64] = "";
    const char              *type = "empty";
    while (lki_wire_next(&entry, &f)) {
        if (f.number == NAME && f.is_bytes)
            snprintf(name, sizeof name, "%.*s", (int)lki_wire_left(&f.bytes), (const char *)f.bytes.p);
        if (f.number == FEATURE && f.is_bytes) feature = f.bytes;
    }
    while (feature.p && lki_wire_next(&feature, &g)) {
        values v = {0};
        if (g.number < BYTES_LIST || g.number > INT64_LIST || !g.is_bytes || !count_values(g.number, g.bytes, &v)) continue;
        type = TYPES[g.number];
        snprintf(note, sizeof note, g.number == BYTES_LIST ? "%lld value%s, %lld bytes" : "%lld value%s", (long long)v.count,
                 v.count == 1 ? "" : "s", (long long)v.bytes);
    }
    if (entry.bad || feature.bad || !*name) return false;
    lki_report_line_add(r, name, type, *note ? note : NULL);
    return true;
}

/* The features of one record; false: it is not an Example. */
static bool tell_example(const lki_bytes *record, lki_report *r)
{
    lki_wire       w = lki_wire_of(record->data, record->size);
    lki_wire_field f, g;
    bool           good = record->size > 0;
    while (good && lki_wire_next(&w, &f)) {
        good = f.number == FEATURES && f.is_bytes;
        while (good && lki_wire_next(&f.bytes, &g))
            good = g.number == ENTRY && g.is_bytes && tell_feature(g.bytes, r);
        good = good && !f.bytes.bad;
    }
    return good && !w.bad;
}

/* ---- TFRecord ---- */

typedef struct sizes {
    int64_t records, bytes, least, most;
} sizes;

static void count_record(sizes *s, size_t size)
{
    const int64_t n = (int64_t)size;
    s->least = !s->records || n < s->least ? n : s->least;
    s->most = n > s->most ? n : s->most;
    s->bytes += n;
    s->records++;
}

static lk_status read_records(lki_stream *s, sizes *out, lki_bytes *first)
{
    lki_bytes record LKI_FREED_BY(lki_bytes_free) = {0};
    for (bool end = false;;) {
        LKI_TRY(lki_tfrecord_read(s, &record, &end));
        if (end) return LK_OK;
        count_record(out, record.size);
        if (out->records > 1) continue;
        *first = record;
        record = (lki_bytes){0};
    }
}

lk_status lki_inspect_tfrecord(const char *path, lki_report *r)
{
    lki_stream *s;
    sizes       n = {0};
    lki_bytes   first LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(lki_stream_open(path, LK_DEFAULT, &s));
    const lk_status status = read_records(s, &n, &first);
    lki_report_kind(r, lki_stream_packed(s) ? "TFRecord, compressed by gzip" : "TFRecord");
    lki_stream_close(s);
    LKI_TRY(status);
    lki_report_whole(r, "records", n.records);
    lki_report_whole(r, "record_bytes", n.bytes);
    lki_report_whole(r, "smallest_record", n.least);
    lki_report_whole(r, "largest_record", n.most);
    lki_report_table(r, "features");
    if (!tell_example(&first, r)) lki_release(r->table[--r->tables].line);
    return LK_OK;
}

/* ---- event files ---- */

typedef struct tag {
    char          *name;
    lki_event_kind kind;
    int64_t        count, first, last;
    double         value;
} tag;

typedef struct tags {
    int     count, room;
    tag    *item;
    int64_t events;
    double  began, ended;
    char    version[64];
} tags;

static tag *find_tag(tags *t, const lki_event *e)
{
    for (int i = t->count; i-- > 0;) /* the last one is the likeliest */
        if (t->item[i].kind == e->kind && strcmp(t->item[i].name, e->tag) == 0) return &t->item[i];
    char *name = lki_strdup(e->tag);
    if (!name || !lki_grow((void **)&t->item, &t->room, t->count + 1, sizeof *t->item)) return lki_release(name), NULL;
    t->item[t->count] = (tag){.name = name, .kind = e->kind, .first = e->step};
    return &t->item[t->count++];
}

static lk_status note_event(const lki_event *e, void *user)
{
    tags *t = user;
    if (!t->events++) t->began = e->wall_time;
    t->ended = e->wall_time;
    if (!*e->tag) {
        if (e->text) snprintf(t->version, sizeof t->version, "%s", e->text);
        return LK_OK;
    }
    tag *g = find_tag(t, e);
    if (!g) return LK_ENOMEM;
    g->count++;
    g->last = e->step;
    g->value = e->scalar;
    return LK_OK;
}

static void tell_tag(const tag *g, lki_report *r)
{
    static const char *const KINDS[] = {[LKI_EVENT_OTHER] = "other",
                                        [LKI_EVENT_SCALAR] = "scalar",
                                        [LKI_EVENT_HISTOGRAM] = "histogram",
                                        [LKI_EVENT_IMAGE] = "image",
                                        [LKI_EVENT_TEXT] = "text"};
    char                     note[128];
    int used = snprintf(note, sizeof note, "%lld value%s, steps %lld to %lld", (long long)g->count, g->count == 1 ? "" : "s",
                        (long long)g->first, (long long)g->last);
    if (g->kind == LKI_EVENT_SCALAR) lki_format(note + used, sizeof note - (size_t)used, ", last %.9g", g->value);
    lki_report_line_add(r, g->name, KINDS[g->kind], note);
}

lk_status lki_inspect_events(const char *path, lki_report *r)
{
    tags            t = {0};
    const lk_status status = lki_events_read(path, note_event, &t);
    lki_report_kind(r, "TensorBoard events");
    if (status == LK_OK) {
        if (*t.version) lki_report_text(r, "version", t.version);
        lki_report_whole(r, "events", t.events);
        lki_report_real(r, "seconds", t.ended - t.began);
        lki_report_table(r, "tags");
    }
    for (int i = 0; i < t.count; i++) {
        if (status == LK_OK) tell_tag(&t.item[i], r);
        lki_release(t.item[i].name);
    }
    lki_release(t.item);
    return status;
}

/* ---- pictures ---- */

lk_status lki_inspect_picture(const char *path, lki_report *r)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    lki_image i LKI_FREED_BY(lki_image_free) = {0};
    LKI_TRY(lki_file_read(path, &bytes));
    lki_report_kind(r, bytes.size && bytes.data[0] == 0xff ? "JPEG picture" : "PNG picture");
    LKI_TRY(lki_image_decode(path, bytes.data, bytes.size, 0, &i));
    lki_report_whole(r, "width", i.width);
    lki_report_whole(r, "height", i.height);
    lki_report_whole(r, "channels", i.channels);
    return LK_OK;
}
