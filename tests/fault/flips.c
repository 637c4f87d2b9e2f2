/* Damage that checksums detect: small files of every format that has them, cut at every length, and with every single bit inverted.
 * The damage is found, or what is read is what was written; with formats that are rows of records, a cut between two records leaves
 * those before it.
 *
 * Bundles are tested in tests/model, backups in backups.c. safetensors, HDF5 as Keras writes it, NPY and IDX have no checksum: an
 * inverted bit of a weight cannot be found. safetensors is tested here nevertheless, for crashes; tests/fuzz has the others.
 * LOCKSTEP_SOAK=1: all bits of the larger ones too. */
#include "core/memory.h"
#include "folder.h"
#include "format/crc32.h"
#include "format/deflate.h"
#include "format/events.h"
#include "format/h5.h"
#include "format/npy.h"
#include "format/png.h"
#include "format/safetensors.h"
#include "format/tfrecord.h"
#include "model/refused.h"

typedef enum verdict { FOUND, SAME, LESS, WRONG } verdict; /* LESS: records of the beginning, each as it was */

typedef struct subject {
    const char *name;
    void (*make)(lki_bytes *out);
    verdict (*read)(const lki_bytes *file);
    bool records;
    int  most;      /* attempts, unless all are wanted */
    bool unchecked; /* has no checksum: nothing but harm is looked for */
} subject;

static const char *folder;

static const char *write_file(const char *name, const lki_bytes *b)
{
    const char *path = folder_file(folder, name);
    assert_int_equal(lki_file_write(path, 1, b), LK_OK);
    return path;
}

static verdict judge(lk_status status, bool same)
{
    if (status != LK_OK && !lk_failed()) return WRONG;
    lk_clear_error();
    return status != LK_OK ? FOUND : same ? SAME : WRONG;
}

/* ---- npz: a zip of arrays ---- */

static const float   SOME[6] = {1, -2, 3.5f, 0, 7, 1e-9f};
static const int32_t OTHERS[3] = {5, 0, -1};

static void add_array(lki_zip_out *z, const char *name, lki_array a)
{
    lki_bytes b;
    assert_int_equal(lki_npy_encode(&a, &b), LK_OK);
    assert_int_equal(lki_zip_out_add(z, name, b.data, b.size), LK_OK);
    lki_bytes_free(&b);
}

static void make_npz(lki_bytes *out)
{
    lki_zip_out *z;
    assert_int_equal(lki_zip_out_new(&z), LK_OK);
    add_array(z, "a.npy", (lki_array){LK_F32, LK_SHAPE(2, 3), (void *)(uintptr_t)SOME});
    add_array(z, "b.npy", (lki_array){LK_I32, LK_SHAPE(3), (void *)(uintptr_t)OTHERS});
    assert_int_equal(lki_zip_out_finish(z, out), LK_OK);
}

static verdict read_npz(const lki_bytes *file)
{
    lki_zip   z;
    lki_array a = {0}, b = {0};
    bool      same = false;
    lk_status status = lki_zip_parse("a.npz", file->data, file->size, &z);
    if (status != LK_OK) return judge(status, false);
    status = lki_npz_read(&z, "a", &a);
    if (status == LK_OK) status = lki_npz_read(&z, "b", &b);
    if (status == LK_OK)
        same = a.dtype == LK_F32 && a.shape.rank == 2 && a.shape.dim[0] == 2 && a.shape.dim[1] == 3 &&
               !memcmp(a.data, SOME, sizeof SOME) && b.dtype == LK_I32 && b.shape.rank == 1 && b.shape.dim[0] == 3 &&
               !memcmp(b.data, OTHERS, sizeof OTHERS);
    lki_array_free(&a);
    lki_array_free(&b);
    lki_zip_close(&z);
    return judge(status, same);
}

/* ---- safetensors ---- */

static void make_safetensors(lki_bytes *out)
{
    lki_arrays     a = {0};
    const lk_shape two = LK_SHAPE(2, 3), one = LK_SHAPE(3);
    assert_int_equal(lki_arrays_copy(&a, "a", LK_F32, &two, SOME), LK_OK);
    assert_int_equal(lki_arrays_copy(&a, "b", LK_I32, &one, OTHERS), LK_OK);
    assert_int_equal(lki_safetensors_write(folder_file(folder, "a.safetensors"), &a), LK_OK);
    assert_int_equal(lki_file_read(folder_file(folder, "a.safetensors"), out), LK_OK);
    lki_arrays_free(&a);
}

static verdict read_safetensors(const lki_bytes *file)
{
    lki_arrays      a = {0};
    const lk_status status = lki_safetensors_parse("a.safetensors", file->data, file->size, &a);
    const bool      same =
        status == LK_OK && a.count == 2 && a.item[0].array.shape.rank == 2 && !memcmp(a.item[0].array.data, SOME, sizeof SOME);
    lki_arrays_free(&a);
    return judge(status, same);
}

/* ---- .keras: a zip of a config and weights ---- */

static lk_digest saved;
static char     *saved_json;

static lk_digest digest_of(lk_model *m) { return lk_variables_digest(lk_model_variables(m)); }

static void make_keras(lki_bytes *out)
{
    if (!lki_h5_helper()) return;
    LK_POOL {
        lk_model *m = lk_sequential(lk_dense(2, .input_shape = LK_SHAPE(3), .activation = LK_TANH), lk_dense(1));
        assert_int_equal(lk_model_save(m, folder_file(folder, "m.keras")), LK_OK);
        saved = digest_of(m);
        saved_json = strdup(lk_model_to_json(m));
    }
    assert_int_equal(lki_file_read(folder_file(folder, "m.keras"), out), LK_OK);
}

static verdict read_keras(const lki_bytes *file)
{
    verdict v = WRONG;
    LK_POOL {
        lk_model *m = lk_model_load(write_file("m.keras", file));
        v = judge(m ? LK_OK : LK_EFORMAT, m && lk_digest_equal(digest_of(m), saved) && !strcmp(lk_model_to_json(m), saved_json));
    }
    return v;
}

/* ---- TFRecord ---- */

static const char *const RECORDS[] = {"first", "", "the third one"};

static void make_records(lki_bytes *out)
{
    lki_bytes record[3];
    for (int i = 0; i < 3; i++)
        record[i] = (lki_bytes){(uint8_t *)(uintptr_t)RECORDS[i], strlen(RECORDS[i])};
    assert_int_equal(lki_tfrecord_write(folder_file(folder, "r"), 3, record), LK_OK);
    assert_int_equal(lki_file_read(folder_file(folder, "r"), out), LK_OK);
}

static verdict read_records(const lki_bytes *file)
{
    lki_stream *s;
    lki_bytes   record = {0};
    bool        end = false, same = true;
    int         n = 0;
    lk_status   status = lki_stream_open(write_file("r", file), LK_OFF, &s);
    if (status != LK_OK) return judge(status, false);
    for (; (status = lki_tfrecord_read(s, &record, &end)) == LK_OK && !end; n++)
        same = same && n < 3 && record.size == strlen(RECORDS[n]) && !memcmp(record.data, RECORDS[n], record.size);
    lki_bytes_free(&record);
    lki_stream_close(s);
    if (!same) return WRONG; /* also when it is found later */
    const verdict v = judge(status, true);
    return v == SAME && n < 3 ? LESS : v;
}

/* ---- events ---- */

typedef struct seen {
    char   text[512];
    size_t size;
} seen;

static seen all_events;

static lk_status note(const lki_event *e, void *user)
{
    seen *s = user;
    if (s->size < sizeof s->text - 100)
        s->size += (size_t)snprintf(s->text + s->size, 100, "%d %a %lld %.20s %a %lld %.20s\n", (int)e->kind, e->wall_time,
                                    (long long)e->step, e->tag, e->scalar, (long long)e->size, e->text ? e->text : "");
    return LK_OK;
}

static void make_events(lki_bytes *out)
{
    lki_events *e;
    assert_int_equal(lki_events_open(folder, 1000, &e), LK_OK);
    lki_events_scalar(e, 1001, 1, "loss", 0.5f);
    lki_events_text(e, 1002, 2, "note", "words");
    lki_events_histogram(e, 1003, 3, "w", SOME, 6);
    char path[256];
    snprintf(path, sizeof path, "%s", lki_events_path(e));
    assert_int_equal(lki_events_close(e), LK_OK);
    assert_int_equal(lki_file_read(path, out), LK_OK);
    assert_int_equal(lki_events_read(path, note, &all_events), LK_OK);
}

static verdict read_events(const lki_bytes *file)
{
    seen            s = {0};
    const lk_status status = lki_events_read(write_file("events", file), note, &s);
    if (s.size > all_events.size || memcmp(s.text, all_events.text, s.size)) return WRONG;
    const verdict v = judge(status, true);
    return v == SAME && s.size < all_events.size ? LESS : v;
}

/* ---- PNG ---- */

static const uint8_t PIXELS[4 * 3 * 3] = {0, 255, 3, 4, 4, 4, 9, 9, 200, 17, 0, 0, 1, 2, 3};

static void make_png(lki_bytes *out) { assert_int_equal(lki_png_encode(4, 3, 3, PIXELS, out), LK_OK); }

static verdict read_png(const lki_bytes *file)
{
    lki_image       i = {0};
    const lk_status status = lki_png_decode("a.png", file->data, file->size, 0, &i);
    const bool      same =
        status == LK_OK && i.width == 4 && i.height == 3 && i.channels == 3 && !memcmp(i.pixels, PIXELS, sizeof PIXELS);
    lki_image_free(&i);
    return judge(status, same);
}

/* ---- gzip ---- */

static const char TEXT[] = "gzip of a text, of a text, of a text that comes again and again";

static void make_gzip(lki_bytes *out)
{
    static const uint8_t head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
    lki_bytes            packed;
    const uint32_t       tail[2] = {lki_crc32(0, (const uint8_t *)TEXT, sizeof TEXT), sizeof TEXT};
    assert_int_equal(lki_deflate(LKI_FRAME_NONE, TEXT, sizeof TEXT, &packed), LK_OK);
    const lki_bytes parts[3] = {{(uint8_t *)(uintptr_t)head, sizeof head}, packed, {(uint8_t *)(uintptr_t)tail, 8}};
    const char     *path = folder_file(folder, "t.gz");
    assert_int_equal(lki_file_write(path, 3, parts), LK_OK);
    assert_int_equal(lki_file_read(path, out), LK_OK);
    lki_bytes_free(&packed);
}

static verdict read_gzip(const lki_bytes *file)
{
    lki_stream *s;
    char        text[2 * sizeof TEXT];
    size_t      got = 0;
    lk_status   status = lki_stream_open(write_file("t.gz", file), LK_ON, &s);
    if (status != LK_OK) return judge(status, false);
    status = lki_stream_read(s, text, sizeof text, &got);
    lki_stream_close(s);
    if (!file->size && status == LK_OK && !got) return LESS; /* no member at all is taken for nothing packed */
    return judge(status, got == sizeof TEXT && !memcmp(text, TEXT, got));
}

/* In one piece, as in PNG and zip. */
static verdict read_packed(const lki_bytes *file)
{
    lki_bytes       out;
    const lk_status status = lki_unpack("t.gz", LKI_GZIP, file->data, file->size, LKI_SIZE_UNKNOWN, &out);
    const verdict   v = judge(status, status == LK_OK && out.size == sizeof TEXT && !memcmp(out.data, TEXT, out.size));
    lki_bytes_free(&out);
    return v;
}

/* ---- the file of a cache ---- */

static lk_dataset *cached(void)
{
    return lk_dataset_cache(lk_dataset_batch(lk_dataset_range(7, .dtype = LK_I64), 3), .file = folder_file(folder, "cache"));
}

/* A number for what it gives: a mean over elements would hide an exchange. */
static int64_t sum_of(lk_dataset *d)
{
    int64_t sum = 0;
    if (d)
        LK_FOR_EACH(x, d) {
            const int64_t n = lk_tensor_shape(x.item[0]).dim[0];
            for (int64_t i = 0; i < n; i++)
                sum = sum * 31 + 1 + ((const int64_t *)lk_data(x.item[0]))[i];
            sum = sum * 7 + n;
        }
    return sum;
}

static int64_t cached_sum;

static void make_cache(lki_bytes *out)
{
    LK_POOL
        cached_sum = sum_of(cached());
    assert_int_equal(lki_file_read(folder_file(folder, "cache"), out), LK_OK);
}

static verdict read_cache(const lki_bytes *file)
{
    verdict v = WRONG;
    write_file("cache", file);
    LK_POOL {
        const int64_t sum = sum_of(cached());
        v = judge(lk_failed() ? lk_error_code() : LK_OK, sum == cached_sum);
    }
    return v;
}

/* ---- where an iterator stands ---- */

static lk_iterator *iterator_new(void)
{
    return lk_iterator_of(lk_dataset_batch(
        lk_dataset_shuffle(lk_dataset_concatenate(lk_dataset_range(7, .dtype = LK_I64), lk_dataset_range(5, .dtype = LK_I64)), 4),
        2));
}

static int64_t rest_of(lk_iterator *it)
{
    int64_t  sum = 0;
    lk_tuple e;
    while (lk_next(it, &e))
        for (int64_t i = 0; i < lk_tensor_shape(e.item[0]).dim[0]; i++)
            sum = sum * 31 + 1 + ((const int64_t *)lk_data(e.item[0]))[i];
    return sum;
}

static int64_t rest;

static void make_iterator(lki_bytes *out)
{
    LK_POOL {
        void        *bytes;
        size_t       size;
        lk_tuple     e;
        lk_iterator *it = iterator_new();
        assert_true(lk_next(it, &e) && lk_next(it, &e));
        assert_int_equal(lk_iterator_save(it, &bytes, &size), LK_OK);
        *out = (lki_bytes){lki_alloc(size), size};
        memcpy(out->data, bytes, size);
        lk_free_bytes(bytes);
        rest = rest_of(it);
    }
}

static verdict read_iterator(const lki_bytes *file)
{
    verdict v = WRONG;
    LK_POOL {
        lk_iterator    *it = iterator_new();
        const lk_status status = lk_iterator_restore(it, file->data, file->size);
        v = judge(status, status != LK_OK || rest_of(it) == rest);
    }
    return v;
}

/* ---- all of them ---- */

static const subject subjects[] = {
    {"npz", make_npz, read_npz, false, 20000, false},        {"safetensors", make_safetensors, read_safetensors, false, 5000, true},
    {".keras", make_keras, read_keras, false, 500, false},   {"TFRecord", make_records, read_records, true, 2000, false},
    {"events", make_events, read_events, true, 2000, false}, {"PNG", make_png, read_png, false, 20000, false},
    {"gzip, read", make_gzip, read_gzip, true, 2000, false}, {"gzip, unpacked", make_gzip, read_packed, false, 20000, false},
    {"cache", make_cache, read_cache, false, 2000, false},   {"iterator", make_iterator, read_iterator, false, 5000, false},
};

typedef struct counts {
    int cut, turned, found;
} counts;

static void look(const subject *s, const lki_bytes *damaged, bool cut, size_t where, counts *c)
{
    const int64_t before = lki_memory_in_use();
    const verdict v = s->read(damaged);
    const bool    unseen = v == WRONG || (v == LESS && !(s->records && cut));
    if (unseen && !(s->unchecked && !cut))
        fail_msg("%s: %s %zu of %zu bytes: not found, and something else was read", s->name,
                 cut ? "cut after" : "bit turned:", where, damaged->size);
    assert_int_equal(lki_memory_in_use(), before);
    cut ? c->cut++ : c->turned++;
    c->found += v == FOUND;
}

/* All attempts are numbered, cuts first; `step` of them are left out between two. */
static counts damage(const subject *s, const lki_bytes *whole, size_t step)
{
    counts c = {0};
    for (size_t n = step / 2; n < whole->size * 9; n += step) {
        const size_t    bit = n - whole->size;
        const bool      cut = n < whole->size;
        const size_t    size = cut ? n : whole->size;
        uint8_t        *copy = malloc(size + !size); /* exactly as long, for sanitizers */
        const lki_bytes damaged = {copy, size};
        memcpy(copy, whole->data, size);
        if (!cut) copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        look(s, &damaged, cut, cut ? size : bit, &c);
        free(copy);
    }
    return c;
}

TEST(cut_anywhere_and_every_bit_turned)
{
    for (int i = 0; i < LKI_COUNT(subjects); i++) {
        const subject *s = &subjects[i];
        lki_bytes      whole = {0};
        s->make(&whole);
        if (!whole.size) continue; /* no helper for HDF5 */
        if (s->read(&whole) != SAME) fail_msg("%s: what was written is not read", s->name);
        size_t most = (size_t)s->most, step = 1;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
        most = most / 10 + 100;
#endif
        if (!getenv("LOCKSTEP_SOAK") && whole.size * 9 > most) step = whole.size * 9 / most | 1;
        const counts c = damage(s, &whole, step);
        print_message("%s, %zu bytes: cut %d times, %d bits turned; found %d, the others %s\n", s->name, whole.size, c.cut,
                      c.turned, c.found, s->unchecked ? "not, or harmless" : "harmless");
        assert_true(c.found > (c.cut + c.turned) / 2 || s->make == make_cache); /* which is collected again */
        lki_bytes_free(&whole);
    }
}

static void silence(const char *text, void *user) { (void)text, (void)user; }

static int begin(void **state)
{
    (void)state;
    static char path[64];
    lk_set_log(silence, NULL);
    const char *made = folder_new();
    if (made) snprintf(path, sizeof path, "%s", made);
    folder = path;
    return made ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    free(saved_json);
    folder_remove(folder);
    return 0;
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(cut_anywhere_and_every_bit_turned)};
    return cmocka_run_group_tests(tests, begin, end);
}
