/* TensorBoard's event files (events.h). Every record is one Event message, written as TensorFlow writes it:
 *
 *   Event    1 wall_time (f64)   2 step   3 file_version   5 summary   10 source_metadata { 1 writer }
 *   summary  1 value: { 1 tag   2 simple_value (f32, TensorFlow 1)   8 tensor   9 metadata { 1 plugin_data { 1 plugin_name } } }
 *   tensor   1 type (1 f32, 2 f64, 7 string)   2 shape { 2 axis { 1 size } }   4 content   5 f32 values   6 f64 values   8 strings
 *
 *   plugin       tensor
 *   scalars      f32 []
 *   histograms   f64 [buckets, 3]: lower edge, upper edge, count
 *   images       string [2 + n]: width, height, PNG files
 *   text         string [] or [n]
 *
 * Records are collected in memory, and only complete records are appended to the file. So a program that reads the growing file
 * sees a part of a record only if the system stopped writing in the middle of one. Records that cannot be written are kept, up to
 * MOST_WAITING bytes. The next attempt continues at the byte where the system stopped, so a disk that was full for a while does not
 * damage the file. */
#include "format/events.h"
#include "core/memory.h"
#include "format/crc32c.h"
#include "format/durable.h"
#include "format/png.h"
#include "format/tfrecord.h"
#include "format/wire.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SOURCE = 10 };
enum { VALUE = 1, TAG = 1, SIMPLE_VALUE = 2, TENSOR = 8, METADATA = 9 };
enum { TYPE = 1, SHAPE = 2, CONTENT = 4, FLOATS = 5, DOUBLES = 6, STRINGS = 8 };
enum { TYPE_F32 = 1, TYPE_F64 = 2, TYPE_STRING = 7 };
enum { BUCKETS = 30, ENOUGH = 64 << 10, MOST_WAITING = 16 << 20 };

struct lki_events {
    char    *path;
    int      descriptor;
    lki_sink waiting; /* records not written yet */
};

/* ---- records ----------------------------------------------------------------------------------------------------------------- */

static void put_record(lki_sink *s, const lki_sink *record)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)record->size >> 8 * i);
    lki_sink_bytes(s, length, sizeof length);
    lki_sink_fixed(s, lki_crc32c_mask(lki_crc32c(0, length, sizeof length)), 4);
    lki_sink_bytes(s, record->data, record->size);
    lki_sink_fixed(s, lki_crc32c_mask(lki_crc32c(0, record->data, record->size)), 4);
}

/* Writes the waiting records. Returns 0 or errno. Bytes that could not be written stay in e->waiting. */
static int write_waiting(lki_events *e)
{
    size_t done = 0;
    int    cause = 0;
    while (done < e->waiting.size && !cause) {
        const ssize_t n = write(e->descriptor, e->waiting.data + done, e->waiting.size - done);
        if (n >= 0) done += (size_t)n;
        else if (errno != EINTR) cause = errno;
    }
    e->waiting.size -= done;
    if (e->waiting.size) memmove(e->waiting.data, e->waiting.data + done, e->waiting.size);
    return cause;
}

static lk_status append(lki_events *e, lki_sink *event)
{
    const size_t before = e->waiting.size;
    const bool   whole = !event->failed;
    if (before > MOST_WAITING) { /* writing has failed for a long time */
        lki_sink_free(event);
        return lki_events_flush(e);
    }
    if (whole) put_record(&e->waiting, event);
    lki_sink_free(event);
    if (!whole || e->waiting.failed) {
        e->waiting.size = before; /* remove what was stored of this record */
        e->waiting.failed = false;
        return LK_ENOMEM;
    }
    if (e->waiting.size >= ENOUGH) write_waiting(e); /* lki_events_flush() reports an error that lasts */
    return LK_OK;
}

static void put_f64(lki_sink *s, uint32_t field, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    lki_sink_varint(s, field << 3 | 1);
    lki_sink_fixed(s, bits, 8);
}

static lk_status append_version(lki_events *e, double wall_time)
{
    lki_sink event = {0}, source LKI_FREED_BY(lki_sink_free) = {0};
    put_f64(&event, WALL_TIME, wall_time);
    lki_sink_text(&event, FILE_VERSION, "brain.Event:2");
    lki_sink_text(&source, 1, "lockstep");
    lki_sink_message(&event, SOURCE, &source);
    return append(e, &event);
}

/* ---- the file ---------------------------------------------------------------------------------------------------------------- */

static char *path_of(const char *folder, double wall_time)
{
    static int count; /* the number of event files of this process */
    char       host[128] = "localhost", name[256];
    if (gethostname(host, sizeof host) != 0) strcpy(host, "localhost");
    host[sizeof host - 1] = 0;
    snprintf(name, sizeof name, "/events.out.tfevents.%lld.%s.%ld.%d", (long long)wall_time, host, (long)getpid(),
             __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED));
    const size_t length = strlen(folder);
    return lki_path_join(length ? folder : ".", length ? length : 1, name);
}

static lk_status open_file(lki_events *e, const char *folder, double wall_time)
{
    e->path = path_of(folder, wall_time);
    if (!e->path) return LK_ENOMEM;
    LKI_TRY(lki_folder_make(e->path));
    e->descriptor = lki_open(e->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
    if (e->descriptor < 0) return lki_fail(LK_EIO, "%s: cannot write it: %s", e->path, strerror(errno));
    LKI_TRY(append_version(e, wall_time));
    return lki_events_flush(e);
}

static void discard(lki_events *e)
{
    if (e->descriptor >= 0) close(e->descriptor);
    lki_sink_free(&e->waiting);
    lki_release(e->path);
    lki_release(e);
}

lk_status lki_events_open(const char *folder, double wall_time, lki_events **out)
{
    lki_events *e = lki_zalloc(sizeof *e);
    *out = NULL;
    if (!e) return LK_ENOMEM;
    e->descriptor = -1;
    const lk_status status = open_file(e, folder, wall_time);
    if (status == LK_OK) *out = e;
    else discard(e);
    return status;
}

lk_status lki_events_flush(lki_events *e)
{
    const int cause = write_waiting(e);
    return cause ? lki_fail(LK_EIO, "%s: cannot write it: %s", e->path, strerror(cause)) : LK_OK;
}

lk_status lki_events_close(lki_events *e)
{
    if (!e) return LK_OK;
    lk_status status = lki_events_flush(e);
    if (close(e->descriptor) != 0 && status == LK_OK)
        status = lki_fail(LK_EIO, "%s: cannot write it: %s", e->path, strerror(errno));
    e->descriptor = -1;
    discard(e);
    return status;
}

const char *lki_events_path(const lki_events *e) { return e->path; }

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static void put_header(lki_sink *tensor, int type, int rank, const int64_t *dim)
{
    lki_sink shape LKI_FREED_BY(lki_sink_free) = {0};
    for (int i = 0; i < rank; i++) {
        lki_sink axis LKI_FREED_BY(lki_sink_free) = {0};
        lki_sink_number(&axis, 1, (uint64_t)dim[i]);
        lki_sink_message(&shape, 2, &axis);
    }
    lki_sink_number(tensor, TYPE, (uint64_t)type);
    lki_sink_message(tensor, SHAPE, &shape);
}

static void put_value(lki_sink *summary, const char *tag, const char *plugin, const lki_sink *tensor)
{
    lki_sink value LKI_FREED_BY(lki_sink_free) = {0};
    lki_sink metadata LKI_FREED_BY(lki_sink_free) = {0};
    lki_sink data LKI_FREED_BY(lki_sink_free) = {0};
    lki_sink_text(&data, 1, plugin);
    lki_sink_message(&metadata, 1, &data);
    lki_sink_text(&value, TAG, tag);
    lki_sink_message(&value, TENSOR, tensor);
    lki_sink_message(&value, METADATA, &metadata);
    lki_sink_message(summary, VALUE, &value);
}

/* Frees the tensor. */
static lk_status append_value(lki_events *e, double wall_time, int64_t step, const char *tag, const char *plugin, lki_sink *tensor)
{
    lki_sink event = {0}, summary LKI_FREED_BY(lki_sink_free) = {0};
    put_value(&summary, tag, plugin, tensor);
    put_f64(&event, WALL_TIME, wall_time);
    lki_sink_number(&event, STEP, (uint64_t)step);
    lki_sink_message(&event, SUMMARY, &summary);
    lki_sink_free(tensor);
    return append(e, &event);
}

lk_status lki_events_scalar(lki_events *e, double wall_time, int64_t step, const char *tag, float value)
{
    lki_sink tensor = {0};
    put_header(&tensor, TYPE_F32, 0, NULL);
    lki_sink_field(&tensor, CONTENT, &value, sizeof value);
    return append_value(e, wall_time, step, tag, "scalars", &tensor);
}

lk_status lki_events_image(lki_events *e, double wall_time, int64_t step, const char *tag, int64_t width, int64_t height,
                           int channels, const uint8_t *pixels)
{
    lki_sink  tensor = {0};
    lki_bytes png LKI_FREED_BY(lki_bytes_free) = {0};
    char      size[2][24];
    LKI_TRY(lki_png_encode(width, height, channels, pixels, &png));
    snprintf(size[0], sizeof size[0], "%lld", (long long)width);
    snprintf(size[1], sizeof size[1], "%lld", (long long)height);
    put_header(&tensor, TYPE_STRING, 1, (int64_t[]){3});
    for (int i = 0; i < 2; i++)
        lki_sink_text(&tensor, STRINGS, size[i]);
    lki_sink_field(&tensor, STRINGS, png.data, png.size);
    return append_value(e, wall_time, step, tag, "images", &tensor);
}

lk_status lki_events_text(lki_events *e, double wall_time, int64_t step, const char *tag, const char *utf8)
{
    lki_sink tensor = {0};
    put_header(&tensor, TYPE_STRING, 0, NULL);
    lki_sink_field(&tensor, STRINGS, utf8, strlen(utf8));
    return append_value(e, wall_time, step, tag, "text", &tensor);
}

/* ---- histograms -------------------------------------------------------------------------------------------------------------- */

typedef struct bucket {
    double lower, upper, count;
} bucket;

typedef struct range {
    double  least, most;
    int64_t count; /* of finite values */
} range;

static range range_of(const float *value, int64_t count)
{
    range r = {INFINITY, -INFINITY, 0};
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(value[i])) continue;
        r.least = fmin(r.least, value[i]);
        r.most = fmax(r.most, value[i]);
        r.count++;
    }
    return r;
}

/* Fills the buckets as TensorFlow does; only finite values count. If they are all equal, all edges are that value and the last
 * bucket counts all of them. If there are none, all numbers are zero. */
static void fill_buckets(bucket out[BUCKETS], const float *value, int64_t count)
{
    const range  r = range_of(value, count);
    const double width = (r.most - r.least) / BUCKETS;
    memset(out, 0, BUCKETS * sizeof *out);
    for (int b = 0; b < BUCKETS && r.count; b++) {
        out[b].lower = r.least + width * b;
        out[b].upper = b + 1 < BUCKETS ? r.least + width * (b + 1) : r.most;
    }
    for (int64_t i = 0; i < count; i++)
        if (isfinite(value[i])) out[width > 0 ? (int)fmin(floor((value[i] - r.least) / width), BUCKETS - 1) : BUCKETS - 1].count++;
}

lk_status lki_events_histogram(lki_events *e, double wall_time, int64_t step, const char *tag, const float *value, int64_t count)
{
    bucket   buckets[BUCKETS];
    lki_sink tensor = {0};
    fill_buckets(buckets, value, count);
    put_header(&tensor, TYPE_F64, 2, (int64_t[]){BUCKETS, 3});
    lki_sink_field(&tensor, CONTENT, buckets, sizeof buckets);
    return append_value(e, wall_time, step, tag, "histograms", &tensor);
}

/* ---- reading ----------------------------------------------------------------------------------------------------------------- */

typedef struct tensor {
    uint64_t type;
    lki_wire content, floats, doubles;
    lki_wire string[3]; /* the first strings */
    int      strings;   /* the number of all strings */
} tensor;

typedef struct reader {
    lki_event    event;
    lki_event_fn fn;
    void        *user;
    lki_sink     tag, text; /* the memory of event.tag and event.text, each with a 0 at the end */
} reader;

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float float_of(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float          x;
    memcpy(&x, &low, sizeof x);
    return x;
}

/* Sets *out to the bytes of a field. If the field has another number or has no bytes, *out is left unchanged and false returned. */
static bool inner(const lki_wire_field *f, uint32_t number, lki_wire *out)
{
    if (f->number != number || !f->is_bytes) return false;
    *out = f->bytes;
    return true;
}

static bool read_tensor(lki_wire w, tensor *t)
{
    lki_wire_field f;
    lki_wire       string;
    *t = (tensor){0};
    while (lki_wire_next(&w, &f)) {
        if (f.number == TYPE) t->type = f.value;
        inner(&f, CONTENT, &t->content);
        inner(&f, FLOATS, &t->floats);
        inner(&f, DOUBLES, &t->doubles);
        if (!inner(&f, STRINGS, &string)) continue;
        if (t->strings < LKI_COUNT(t->string)) t->string[t->strings] = string;
        t->strings++;
    }
    return !w.bad;
}

/* Reads the name of the TensorBoard plugin that shows the value. */
static bool read_plugin(lki_wire w, lki_wire *name)
{
    lki_wire_field f, g;
    lki_wire       data;
    while (lki_wire_next(&w, &f)) {
        if (!inner(&f, 1, &data)) continue;
        while (lki_wire_next(&data, &g))
            inner(&g, 1, name);
        if (data.bad) return false;
    }
    return !w.bad;
}

static bool set_scalar(reader *r, const tensor *t)
{
    const lki_wire *f32 = lki_wire_left(&t->content) ? &t->content : &t->floats;
    const lki_wire *f64 = lki_wire_left(&t->content) ? &t->content : &t->doubles;
    if (t->type == TYPE_F32 && lki_wire_left(f32) == 4) r->event.scalar = (double)float_of(lki_get_le(f32->p, 4));
    else if (t->type == TYPE_F64 && lki_wire_left(f64) == 8) r->event.scalar = double_of(lki_get_le(f64->p, 8));
    else return false;
    return true;
}

static bool set_histogram(reader *r, const tensor *t)
{
    const size_t size = lki_wire_left(&t->content);
    if (t->type != TYPE_F64 || size % sizeof(bucket)) return false;
    r->event.size = (int64_t)(size / sizeof(bucket));
    return true;
}

static bool set_image(reader *r, const tensor *t)
{
    if (t->type != TYPE_STRING || t->strings < 3) return false;
    r->event.size = (int64_t)lki_wire_left(&t->string[2]);
    return true;
}

static const char *copy_text(lki_sink *to, lki_wire w)
{
    to->size = 0;
    lki_sink_bytes(to, w.p, lki_wire_left(&w));
    lki_sink_bytes(to, "", 1);
    return to->failed ? "" : (const char *)to->data;
}

static bool set_text(reader *r, const tensor *t)
{
    if (t->type != TYPE_STRING || t->strings < 1) return false;
    r->event.text = copy_text(&r->text, t->string[0]);
    return true;
}

static void set_tensor(reader *r, lki_wire plugin, const tensor *t)
{
    static const struct {
        const char    *plugin;
        lki_event_kind kind;
        bool (*set)(reader *, const tensor *);
    } kinds[] = {{"scalars", LKI_EVENT_SCALAR, set_scalar},
                 {"histograms", LKI_EVENT_HISTOGRAM, set_histogram},
                 {"images", LKI_EVENT_IMAGE, set_image},
                 {"text", LKI_EVENT_TEXT, set_text}};
    for (int i = 0; i < LKI_COUNT(kinds); i++) {
        const size_t length = strlen(kinds[i].plugin);
        if (lki_wire_left(&plugin) != length || memcmp(plugin.p, kinds[i].plugin, length) != 0) continue;
        if (kinds[i].set(r, t)) r->event.kind = kinds[i].kind;
    }
}

static bool read_value(reader *r, lki_wire w)
{
    lki_wire_field f;
    lki_wire       tag = {0}, plugin = {0}, part;
    tensor         t = {0};
    r->event = (lki_event){.wall_time = r->event.wall_time, .step = r->event.step};
    while (lki_wire_next(&w, &f)) {
        inner(&f, TAG, &tag);
        if (inner(&f, TENSOR, &part) && !read_tensor(part, &t)) return false;
        if (inner(&f, METADATA, &part) && !read_plugin(part, &plugin)) return false;
        if (f.number != SIMPLE_VALUE || f.is_bytes) continue;
        r->event.kind = LKI_EVENT_SCALAR;
        r->event.scalar = (double)float_of(f.value);
    }
    r->event.tag = copy_text(&r->tag, tag);
    set_tensor(r, plugin, &t);
    return !w.bad;
}

static lk_status tell(reader *r)
{
    if (r->tag.failed || r->text.failed) return LK_ENOMEM;
    return r->fn(&r->event, r->user);
}

static lk_status malformed(const char *path, uint64_t at)
{
    return lki_fail(LK_EFORMAT, "%s: the record at byte %llu is not an event: not an event file, or damaged", path,
                    (unsigned long long)at);
}

static lk_status read_values(reader *r, lki_wire summary, const char *path, uint64_t at)
{
    lki_wire_field f;
    lki_wire       value;
    while (lki_wire_next(&summary, &f)) {
        if (!inner(&f, VALUE, &value)) continue;
        if (!read_value(r, value)) return malformed(path, at);
        LKI_TRY(tell(r));
    }
    return summary.bad ? malformed(path, at) : LK_OK;
}

static lk_status read_event(reader *r, const lki_bytes *record, const char *path, uint64_t at)
{
    lki_wire       w = lki_wire_of(record->data, record->size), summary = {0}, version = {0};
    lki_wire_field f;
    bool           values = false;
    r->event = (lki_event){.tag = ""};
    while (lki_wire_next(&w, &f)) {
        if (f.number == WALL_TIME) r->event.wall_time = double_of(f.value);
        if (f.number == STEP) r->event.step = (int64_t)f.value;
        inner(&f, FILE_VERSION, &version);
        values |= inner(&f, SUMMARY, &summary);
    }
    if (w.bad) return malformed(path, at);
    if (values) return read_values(r, summary, path, at);
    if (version.p) r->event.text = copy_text(&r->text, version);
    return tell(r);
}

static lk_status read_records(lki_stream *s, reader *r)
{
    lki_bytes record LKI_FREED_BY(lki_bytes_free) = {0};
    for (bool end = false;;) {
        const uint64_t at = lki_stream_position(s);
        LKI_TRY(lki_tfrecord_read(s, &record, &end));
        if (end) return LK_OK;
        LKI_TRY(read_event(r, &record, lki_stream_path(s), at));
    }
}

lk_status lki_events_read(const char *path, lki_event_fn fn, void *user)
{
    lki_stream *s;
    reader      r = {.fn = fn, .user = user};
    LKI_TRY(lki_stream_open(path, LK_OFF, &s));
    const lk_status status = read_records(s, &r);
    lki_stream_close(s);
    lki_sink_free(&r.tag);
    lki_sink_free(&r.text);
    return status;
}
