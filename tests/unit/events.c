/* Event files: what is written is read again, and equals what TensorFlow writes; stored files of TensorFlow are read. */
#include "format/events.h"
#include "check.h"
#include "folder.h"
#include "format/json.h"
#include "format/png.h"
#include "format/tfrecord.h"
#include "format/wire.h"
#include <math.h>

enum { MOST = 32 };

typedef struct seen {
    int       count;
    lki_event event[MOST];
    char      tag[MOST][32], text[MOST][64];
    lk_status answer; /* for the third one */
} seen;

static lk_status note(const lki_event *event, void *user)
{
    seen *s = user;
    assert_true(s->count < MOST);
    const int i = s->count++;
    s->event[i] = *event;
    snprintf(s->tag[i], sizeof s->tag[i], "%s", event->tag);
    snprintf(s->text[i], sizeof s->text[i], "%s", event->text ? event->text : "(none)");
    return s->count == 3 ? s->answer : LK_OK;
}

static const char *one_of_each(const char *folder)
{
    static char          path[512];
    static const float   values[] = {1, 2, 3, 4, NAN, INFINITY};
    static const uint8_t pixels[12] = {1, 2, 3, 4};
    lki_events          *e;
    assert_int_equal(lki_events_open(folder, 1700000000.75, &e), LK_OK);
    snprintf(path, sizeof path, "%s", lki_events_path(e));
    assert_int_equal(lki_events_scalar(e, 1.5, 0, "loss", 0.25f), LK_OK);
    assert_int_equal(lki_events_histogram(e, 2.5, 1, "weights", values, 6), LK_OK);
    assert_int_equal(lki_events_image(e, 3.5, 2, "picture", 2, 2, 3, pixels), LK_OK);
    assert_int_equal(lki_events_text(e, 4.5, -3, "note", "plain \xc3\xa9"), LK_OK);
    assert_int_equal(lki_events_close(e), LK_OK);
    return path;
}

TEST(there_and_back)
{
    const char *folder = folder_new(), *path = one_of_each(folder_file(folder, "run/train"));
    seen        s = {0};
    assert_non_null(strstr(path, "/run/train/events.out.tfevents.1700000000."));
    assert_int_equal(lki_events_read(path, note, &s), LK_OK);
    static const struct {
        lki_event_kind kind;
        double         wall_time;
        int64_t        step;
        const char    *tag, *text;
    } wanted[] = {
        {LKI_EVENT_OTHER, 1700000000.75, 0, "", "brain.Event:2"}, {LKI_EVENT_SCALAR, 1.5, 0, "loss", "(none)"},
        {LKI_EVENT_HISTOGRAM, 2.5, 1, "weights", "(none)"},       {LKI_EVENT_IMAGE, 3.5, 2, "picture", "(none)"},
        {LKI_EVENT_TEXT, 4.5, -3, "note", "plain \xc3\xa9"},
    };
    assert_int_equal(s.count, LKI_COUNT(wanted));
    for (int i = 0; i < s.count; i++) {
        assert_int_equal(s.event[i].kind, wanted[i].kind);
        assert_true(s.event[i].wall_time == wanted[i].wall_time);
        assert_int_equal(s.event[i].step, wanted[i].step);
        assert_string_equal(s.tag[i], wanted[i].tag);
        assert_string_equal(s.text[i], wanted[i].text);
    }
    assert_true(s.event[1].scalar == 0.25);
    assert_int_equal(s.event[2].size, 30);
    assert_in_range(s.event[3].size, 60, 100);
    folder_remove(folder);
}

/* TensorBoard reads while training runs: after a flush everything is there, before it perhaps not, and records are complete. */
TEST(readable_while_it_grows)
{
    const char *folder = folder_new();
    lki_events *e;
    seen        s = {0};
    assert_int_equal(lki_events_open(folder, 1, &e), LK_OK);
    assert_int_equal(lki_events_read(lki_events_path(e), note, &s), LK_OK);
    assert_int_equal(s.count, 1);
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(lki_events_scalar(e, i, i, "loss", (float)i), LK_OK);
        assert_int_equal(lki_events_flush(e), LK_OK);
        s.count = 0;
        assert_int_equal(lki_events_read(lki_events_path(e), note, &s), LK_OK);
        assert_int_equal(s.count, i + 1);
        assert_true(s.event[i].scalar == i && s.event[i].step == i);
    }
    for (int i = 0; i < 5000; i++) /* more than waits in memory */
        assert_int_equal(lki_events_scalar(e, i, i, "many", 1), LK_OK);
    assert_true(file_size(lki_events_path(e)) > 64 << 10);
    assert_int_equal(lki_events_close(e), LK_OK);
    assert_int_equal(lki_events_close(NULL), LK_OK);
    folder_remove(folder);
}

TEST(two_files_have_two_names)
{
    const char *folder = folder_new();
    lki_events *a, *b;
    assert_int_equal(lki_events_open(folder, 7, &a), LK_OK);
    assert_int_equal(lki_events_open(folder, 7, &b), LK_OK);
    assert_string_not_equal(lki_events_path(a), lki_events_path(b));
    lki_events_close(a);
    lki_events_close(b);
    folder_remove(folder);
}

/* ---- as TensorFlow writes ---------------------------------------------------------------------------------------------------- */

/* Records of tf.summary.scalar("loss", ..., step=1) and tf.summary.text("note", "plain text", step=4). */
static const uint8_t SCALAR[] = "\x09\x00\x00\x18\x40\xfc\x54\xd9\x41\x10\x01\x2a\x21\x0a\x1f\x0a\x04"
                                "loss"
                                "\x42\x0a\x08\x01\x12\x00\x22\x04\x86\x3b\x88\x3e\x4a\x0b\x0a\x09\x0a\x07"
                                "scalars";
static const uint8_t TEXT[] = "\x09\x00\x00\x78\x40\xfc\x54\xd9\x41\x10\x04\x2a\x24\x0a\x22\x0a\x04"
                              "note"
                              "\x42\x10\x08\x07\x12\x00\x42\x0a"
                              "plain text"
                              "\x4a\x08\x0a\x06\x0a\x04"
                              "text";

static void check_record(lki_stream *s, const uint8_t *want, size_t size)
{
    lki_bytes record = {0};
    bool      end;
    assert_int_equal(lki_tfrecord_read(s, &record, &end), LK_OK);
    assert_false(end);
    if (want) {
        assert_int_equal(record.size, size);
        assert_memory_equal(record.data, want, size);
    }
    lki_bytes_free(&record);
}

TEST(the_bytes_of_tensorflow)
{
    const char *folder = folder_new();
    lki_events *e;
    lki_stream *s;
    char        path[512];
    float       loss;
    memcpy(&loss, "\x86\x3b\x88\x3e", 4);
    assert_int_equal(lki_events_open(folder, 1, &e), LK_OK);
    assert_int_equal(lki_events_scalar(e, 1700000000.375, 1, "loss", loss), LK_OK);
    assert_int_equal(lki_events_text(e, 1700000001.875, 4, "note", "plain text"), LK_OK);
    snprintf(path, sizeof path, "%s", lki_events_path(e));
    assert_int_equal(lki_events_close(e), LK_OK);
    assert_int_equal(lki_stream_open(path, LK_OFF, &s), LK_OK);
    check_record(s, NULL, 0);
    check_record(s, SCALAR, sizeof SCALAR - 1);
    check_record(s, TEXT, sizeof TEXT - 1);
    lki_stream_close(s);
    folder_remove(folder);
}

/* The buckets of a histogram in the file's last record: the first tensor content of 30 * 3 doubles. */
static void read_buckets(const char *path, double out[30][3])
{
    lki_bytes b;
    assert_int_equal(lki_file_read(path, &b), LK_OK);
    bool found = false;
    for (size_t i = 0; i + 723 <= b.size && !found; i++) {
        found = memcmp(b.data + i, "\x22\xd0\x05", 3) == 0; /* field 4, 720 bytes */
        if (found) memcpy(out, b.data + i + 3, 720);
    }
    assert_true(found);
    lki_bytes_free(&b);
}

static void histogram(const float *value, int64_t count, double out[30][3])
{
    const char *folder = folder_new();
    lki_events *e;
    assert_int_equal(lki_events_open(folder, 1, &e), LK_OK);
    assert_int_equal(lki_events_histogram(e, 1, 1, "h", value, count), LK_OK);
    assert_int_equal(lki_events_flush(e), LK_OK);
    read_buckets(lki_events_path(e), out);
    lki_events_close(e);
    folder_remove(folder);
}

TEST(histograms)
{
    float  value[64];
    double b[30][3];
    for (int i = 0; i < 60; i++)
        value[i] = (float)i / 2;
    value[60] = 30; /* the largest belongs to the last bucket */
    value[61] = NAN;
    value[62] = -INFINITY;
    histogram(value, 63, b);
    for (int i = 0; i < 30; i++) {
        assert_true(b[i][0] == i && b[i][1] == i + 1);
        assert_true(b[i][2] == (i == 29 ? 3 : 2));
    }
    for (int i = 0; i < 4; i++)
        value[i] = 2.5f;
    histogram(value, 4, b); /* one value */
    for (int i = 0; i < 30; i++)
        assert_true(b[i][0] == 2.5 && b[i][1] == 2.5 && b[i][2] == (i == 29 ? 4 : 0));
    histogram(value, 0, b); /* none */
    for (int i = 0; i < 90; i++)
        assert_true(b[i / 3][i % 3] == 0);
    value[0] = NAN;
    histogram(value, 1, b);
    assert_true(b[29][2] == 0);
    value[0] = -3e38f;
    value[1] = 3e38f;
    histogram(value, 2, b);
    assert_true(b[0][2] == 1 && b[29][2] == 1 && b[29][1] == (double)3e38f);
}

/* ---- stored files ------------------------------------------------------------------------------------------------------------ */

static const lki_json *stored_table(const char *folder)
{
    char            path[512];
    lki_bytes       b;
    const lki_json *v;
    snprintf(path, sizeof path, "%s/files/events.json", folder);
    assert_int_equal(lki_file_read(path, &b), LK_OK);
    assert_int_equal(lki_json_parse(path, (const char *)b.data, b.size, &v), LK_OK);
    lki_bytes_free(&b);
    return v;
}

TEST(stored_file)
{
    static const char *const plugins[] = {"", "scalars", "histograms", "images", "text"};
    const char              *folder = folder_or_skip("LOCKSTEP_GOLDEN");
    char                     path[512];
    static seen              s;
    const lki_json          *table = stored_table(folder);
    snprintf(path, sizeof path, "%s/files/events/events.out.tfevents.1700000000.golden.0.0.v2", folder);
    assert_int_equal(lki_events_read(path, note, &s), LK_OK);
    assert_int_equal(s.count, table->count);
    for (int i = 0; i < s.count; i++) {
        const lki_json *want = &table->item[i], *tag = lki_json_get(want, "tag"), *plugin = lki_json_get(want, "plugin");
        assert_true(s.event[i].wall_time == lki_json_get(want, "wall_time")->number);
        assert_int_equal(s.event[i].step, lki_json_get(want, "step")->integer);
        assert_string_equal(s.tag[i], tag ? tag->text : "");
        assert_string_equal(plugins[s.event[i].kind], plugin ? plugin->text : "");
        if (!plugin) assert_string_equal(s.text[i], lki_json_get(want, "file_version")->text);
        if (s.event[i].kind == LKI_EVENT_SCALAR) assert_true(s.event[i].scalar == lki_json_get(want, "value")->number);
        if (s.event[i].kind == LKI_EVENT_HISTOGRAM) assert_int_equal(s.event[i].size, lki_json_get(want, "value")->count);
        if (s.event[i].kind == LKI_EVENT_IMAGE) assert_int_equal(s.event[i].size, lki_json_get(want, "bytes")->item[2].integer);
        if (s.event[i].kind == LKI_EVENT_TEXT) assert_string_equal(s.text[i], lki_json_get(want, "text")->item[0].text);
    }
    lki_json_free(table);
}

/* The picture in it, unpacked, has the pixels of the table. */
TEST(stored_picture)
{
    const char     *folder = folder_or_skip("LOCKSTEP_GOLDEN");
    char            path[512];
    lki_bytes       b;
    lki_image       image;
    const lki_json *table = stored_table(folder), *pixels = NULL;
    for (int i = 0; i < table->count; i++)
        if (lki_json_get(&table->item[i], "pixels")) pixels = lki_json_get(&table->item[i], "pixels");
    snprintf(path, sizeof path, "%s/files/events/events.out.tfevents.1700000000.golden.0.0.v2", folder);
    assert_int_equal(lki_file_read(path, &b), LK_OK);
    size_t at = 0;
    while (memcmp(b.data + at, "\x89PNG", 4) != 0)
        at++;
    assert_int_equal(lki_png_decode("picture", b.data + at, b.size - at, 0, &image), LK_OK);
    assert_true(image.height == pixels->count && image.width == pixels->item[0].count && image.channels == 3);
    for (int y = 0; y < image.height; y++)
        for (int x = 0; x < image.width; x++)
            for (int c = 0; c < 3; c++)
                assert_int_equal(image.pixels[(y * image.width + x) * 3 + c], pixels->item[y].item[x].item[c].integer);
    lki_image_free(&image);
    lki_bytes_free(&b);
    lki_json_free(table);
}

/* ---- other writers, and files that lie --------------------------------------------------------------------------------------- */

static lk_status read_bytes(const void *data, size_t size, seen *s)
{
    const char *folder = folder_new(), *path = folder_file(folder, "events");
    lki_bytes   part = {(uint8_t *)(uintptr_t)data, size};
    assert_int_equal(lki_file_write(path, 1, &part), LK_OK);
    const lk_status status = lki_events_read(path, note, s);
    folder_remove(folder);
    return status;
}

static lk_status read_record(const void *data, size_t size, seen *s)
{
    const char *folder = folder_new(), *path = folder_file(folder, "events");
    lki_bytes   record = {(uint8_t *)(uintptr_t)data, size};
    assert_int_equal(lki_tfrecord_write(path, 1, &record), LK_OK);
    const lk_status status = lki_events_read(path, note, s);
    folder_remove(folder);
    return status;
}

/* A scalar as TensorFlow 1 and PyTorch write it; a tensor whose value is not in its content; one that no plugin shows. */
TEST(other_forms)
{
    static const struct {
        const char    *record;
        size_t         size;
        lki_event_kind kind;
        double         scalar;
    } cases[] = {
        {"\x2a\x0a\x0a\x08\x0a\x01s\x15\x00\x00\xc0\x3f", 12, LKI_EVENT_SCALAR, 1.5},
        {"\x2a\x18\x0a\x16\x42\x07\x08\x01\x2a\x03\x00\x00\x00\x4a\x0b\x0a\x09\x0a\x07scalars", 26, LKI_EVENT_OTHER, 0},
        {"\x2a\x19\x0a\x17\x42\x08\x08\x01\x2a\x04\x00\x00\xc0\x3f\x4a\x0b\x0a\x09\x0a\x07scalars", 27, LKI_EVENT_SCALAR, 1.5},
        {"\x2a\x1d\x0a\x1b\x42\x0c\x08\x02\x32\x08\x00\x00\x00\x00\x00\x00\xf8\x3f\x4a\x0b\x0a\x09\x0a\x07scalars", 31,
         LKI_EVENT_SCALAR, 1.5},
        {"\x2a\x0a\x0a\x08\x4a\x06\x0a\x04\x0a\x02pr", 12, LKI_EVENT_OTHER, 0},
    };
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        seen s = {0};
        assert_int_equal(read_record(cases[i].record, cases[i].size, &s), LK_OK);
        assert_int_equal(s.count, 1);
        assert_int_equal(s.event[0].kind, cases[i].kind);
        assert_true(s.event[0].scalar == cases[i].scalar);
    }
    seen s = {0};
    assert_int_equal(read_record("", 0, &s), LK_OK); /* an event without anything */
    assert_int_equal(s.count, 1);
    assert_int_equal(s.event[0].kind, LKI_EVENT_OTHER);
}

TEST(files_that_lie)
{
    seen s = {0};
    assert_int_equal(read_record("\x2a\x05\x0a", 3, &s), LK_EFORMAT);
    assert_non_null(strstr(lk_error(), "the record at byte 0 is not an event: not an event file, or damaged"));
    lk_clear_error();
    assert_int_equal(read_record("\x2a\x03\x0a\x01\x0a", 5, &s), LK_EFORMAT); /* inside the value */
    lk_clear_error();
    assert_int_equal(read_bytes("not records at all", 18, &s), LK_EFORMAT);
    assert_non_null(strstr(lk_error(), "not a TFRecord file"));
    lk_clear_error();
    assert_int_equal(lki_events_read("/nonexistent/events", note, &s), LK_ENOTFOUND);
    lk_clear_error();
}

TEST(cut_off_anywhere)
{
    const char   *folder = folder_new(), *path = one_of_each(folder);
    const int64_t before = lki_memory_in_use();
    lki_bytes     b;
    int           wholes = 0;
    assert_int_equal(lki_file_read(path, &b), LK_OK);
    for (size_t n = 0; n < b.size; n += 1 + n / 200) {
        seen s = {0};
        wholes += read_bytes(b.data, n, &s) == LK_OK;
        lk_clear_error();
    }
    assert_in_range(wholes, 1, 4); /* only between records */
    lki_bytes_free(&b);
    assert_int_equal(lki_memory_in_use(), before);
    folder_remove(folder);
}

/* With a right checksum around it, so that the wrong byte reaches the reader. */
TEST(any_byte_changed)
{
    uint8_t data[sizeof TEXT];
    for (size_t i = 0; i + 1 < sizeof SCALAR; i++)
        for (int bit = 0; bit < 8; bit += 3) {
            seen s = {0};
            memcpy(data, TEXT, sizeof data);
            data[i % (sizeof TEXT - 1)] ^= (uint8_t)(1 << bit);
            read_record(data, sizeof TEXT - 1, &s);
            lk_clear_error();
        }
}

/* ---- failures ---------------------------------------------------------------------------------------------------------------- */

TEST(the_reader_of_events_may_stop)
{
    const char *folder = folder_new(), *path = one_of_each(folder);
    seen        s = {.answer = LK_ESTATE};
    assert_int_equal(lki_events_read(path, note, &s), LK_ESTATE);
    assert_int_equal(s.count, 3);
    folder_remove(folder);
}

TEST(folders_that_cannot_be)
{
    lki_events *e;
    assert_int_equal(lki_events_open("/dev/null/run", 1, &e), LK_EIO);
    assert_null(e);
    assert_non_null(strstr(lk_error(), "/dev/null"));
    lk_clear_error();
}

TEST(a_full_disk)
{
    if (access("/dev/full", W_OK) != 0) skip();
    const char *folder = folder_new();
    lki_events *e;
    assert_int_equal(lki_events_open(folder, 1, &e), LK_OK);
    assert_int_equal(lki_events_scalar(e, 1, 1, "loss", 1), LK_OK);
    const int held = open(lki_events_path(e), O_RDWR | O_CLOEXEC), full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(held >= 0 && full >= 0);
    struct stat file, other;
    int         own = -1;
    fstat(held, &file);
    for (int d = 0; d < held && own < 0; d++) /* the writer's own descriptor */
        if (fstat(d, &other) == 0 && other.st_ino == file.st_ino && other.st_dev == file.st_dev) own = d;
    assert_true(own >= 0);
    const int kept = dup(own);
    dup2(full, own);
    assert_int_equal(lki_events_flush(e), LK_EIO);
    assert_non_null(strstr(lk_error(), "No space left"));
    lk_clear_error();
    dup2(kept, own); /* room again: what was not written is still there */
    assert_int_equal(lki_events_flush(e), LK_OK);
    seen s = {0};
    assert_int_equal(lki_events_read(lki_events_path(e), note, &s), LK_OK);
    assert_int_equal(s.count, 2);
    close(kept);
    close(full);
    close(held);
    lki_events_close(e);
    folder_remove(folder);
}

static const char *attempt_folder;
static int         attempt(void)
{
    static const float   values[] = {1, 2};
    static const uint8_t pixels[4] = {0};
    lki_events          *e;
    char                 path[512];
    if (lki_events_open(attempt_folder, 1, &e) != LK_OK) return 0;
    snprintf(path, sizeof path, "%s", lki_events_path(e));
    int good = lki_events_scalar(e, 1, 1, "a", 1) == LK_OK;
    good &= lki_events_histogram(e, 1, 1, "b", values, 2) == LK_OK;
    good &= lki_events_image(e, 1, 1, "c", 2, 2, 1, pixels) == LK_OK;
    good &= lki_events_text(e, 1, 1, "d", "text") == LK_OK;
    good &= lki_events_close(e) == LK_OK;
    seen            s = {0};
    const lk_status status = lki_events_read(path, note, &s);
    assert_true(status == LK_OK || status == LK_ENOMEM); /* whatever failed, no half record was written */
    return good && status == LK_OK;
}

TEST(without_memory)
{
    attempt_folder = folder_new();
    assert_true(check_every_allocation(attempt) > 20);
    folder_remove(attempt_folder);
}

TESTS(cmocka_unit_test(there_and_back), cmocka_unit_test(readable_while_it_grows), cmocka_unit_test(two_files_have_two_names),
      cmocka_unit_test(the_bytes_of_tensorflow), cmocka_unit_test(histograms), cmocka_unit_test(stored_file),
      cmocka_unit_test(stored_picture), cmocka_unit_test(other_forms), cmocka_unit_test(files_that_lie),
      cmocka_unit_test(cut_off_anywhere), cmocka_unit_test(any_byte_changed), cmocka_unit_test(the_reader_of_events_may_stop),
      cmocka_unit_test(folders_that_cannot_be), cmocka_unit_test(a_full_disk), cmocka_unit_test(without_memory))
