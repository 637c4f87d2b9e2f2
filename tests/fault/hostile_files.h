/* The files of hostile.c: one function makes each. */
#ifndef LK_TESTS_HOSTILE_FILES_H
#define LK_TESTS_HOSTILE_FILES_H

#include "check.h"
#include "format/bundle.h"
#include "format/crc32.h"
#include "format/crc32c.h"
#include "format/deflate.h"
#include "unit/h5_files.h"
#include <stdio.h>
#include <string.h>

typedef struct file {
    uint8_t data[8192];
    size_t  size;
} file;

static void put(file *f, const void *data, size_t size)
{
    assert_true(size <= sizeof f->data - f->size);
    if (size) memcpy(f->data + f->size, data, size);
    f->size += size;
}

static void put_text(file *f, const char *text) { put(f, text, strlen(text)); }

static void put_le(file *f, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        put(f, &(uint8_t){i < 8 ? (uint8_t)(x >> 8 * i) : 0}, 1);
}

static void put_be(file *f, uint64_t x, int bytes)
{
    for (int i = bytes; i-- > 0;)
        put(f, &(uint8_t){(uint8_t)(x >> 8 * i)}, 1);
}

static file gzipped(const file *f)
{
    file      out = {.size = 0};
    lki_bytes packed;
    assert_int_equal(lki_deflate(LKI_FRAME_NONE, f->data, f->size, &packed), LK_OK);
    put(&out, "\x1f\x8b\x08\0\0\0\0\0\0\3", 10);
    put(&out, packed.data, packed.size);
    put_le(&out, lki_crc32(0, f->data, f->size), 4);
    put_le(&out, f->size, 4);
    lki_bytes_free(&packed);
    return out;
}

/* ---- safetensors ---- */

static file safetensors_of(uint64_t length, const char *header, size_t data)
{
    file f = {.size = 0};
    put_le(&f, length ? length : strlen(header), 8);
    put_text(&f, header);
    for (size_t i = 0; i < data; i++)
        put(&f, &(uint8_t){(uint8_t)i}, 1);
    return f;
}

#define TENSOR(name, dtype, shape, begin, end)                                                                                     \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static file safetensors_wraps(void)
{
    return safetensors_of(0, "{" TENSOR("a", "F32", "[4294967296,4294967296]", "0", "0") "}", 0);
}
static file safetensors_wraps_in_bytes(void)
{
    return safetensors_of(0, "{" TENSOR("a", "F64", "[2305843009213693952]", "0", "0") "}", 0);
}
static file safetensors_outside(void) { return safetensors_of(0, "{" TENSOR("a", "U8", "[100]", "0", "100") "}", 8); }
static file safetensors_far_outside(void)
{
    return safetensors_of(0, "{" TENSOR("a", "U8", "[8]", "9223372036854775800", "9223372036854775808") "}", 8);
}
static file safetensors_backwards(void) { return safetensors_of(0, "{" TENSOR("a", "U8", "[0]", "8", "4") "}", 8); }
static file safetensors_overlap(void)
{
    return safetensors_of(0, "{" TENSOR("a", "U8", "[6]", "0", "6") "," TENSOR("b", "U8", "[4]", "4", "8") "}", 8);
}
static file safetensors_hole(void)
{
    return safetensors_of(0, "{" TENSOR("a", "U8", "[2]", "0", "2") "," TENSOR("b", "U8", "[4]", "4", "8") "}", 8);
}
static file safetensors_behind(void) { return safetensors_of(0, "{" TENSOR("a", "U8", "[4]", "0", "4") "}", 8); }
static file safetensors_beyond(void) { return safetensors_of(1 << 20, "{}", 0); }
static file safetensors_far_beyond(void) { return safetensors_of(UINT64_MAX, "{}", 0); }
static file safetensors_short(void)
{
    file f = {.size = 0};
    put(&f, "\2\0\0", 3);
    return f;
}
static file safetensors_twice(void)
{
    return safetensors_of(0, "{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("a", "U8", "[4]", "4", "8") "}", 8);
}
static file safetensors_twice_in_metadata(void) { return safetensors_of(0, "{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0); }
static file safetensors_deep(void)
{
    char text[2100] = "{\"a\":";
    for (size_t i = strlen(text); i < 2000; i++)
        text[i] = '[';
    return safetensors_of(0, text, 0);
}
static file safetensors_many_axes(void) { return safetensors_of(0, "{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1,1]", "0", "1") "}", 1); }
static file safetensors_negative(void) { return safetensors_of(0, "{" TENSOR("a", "U8", "[-1]", "0", "0") "}", 0); }
static file safetensors_other_type(void) { return safetensors_of(0, "{" TENSOR("a", "F8_E4M3", "[4]", "0", "4") "}", 4); }

/* ---- IDX, npy ---- */

static file idx(int axes, uint32_t size)
{
    file f = {.size = 0};
    put(&f, (uint8_t[]){0, 0, 8, (uint8_t)axes}, 4);
    for (int i = 0; i < axes; i++)
        put_be(&f, size, 4);
    return f;
}

static file idx_wraps(void) { return idx(3, 0xffffffff); }
static file idx_wraps_to_zero(void) { return idx(4, 0x10000); } /* 2^64 */
static file idx_beyond(void) { return idx(1, 1000); }
static file idx_many_axes(void) { return idx(255, 1); }

static file idx_bomb(void)
{
    const file f = idx(2, 0x10000); /* 4 GiB */
    return gzipped(&f);
}

static file npy_of(int version, uint64_t length, const char *header)
{
    file f = {.size = 0};
    put(&f, "\x93NUMPY", 6);
    put(&f, (uint8_t[]){(uint8_t)version, 0}, 2);
    put_le(&f, length ? length : strlen(header), version == 1 ? 2 : 4);
    put_text(&f, header);
    return f;
}

static file npy_wraps(void)
{
    return npy_of(1, 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }");
}
static file npy_wraps_in_bytes(void)
{
    return npy_of(1, 0, "{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,), }");
}
static file npy_long_number(void)
{
    return npy_of(1, 0, "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999,), }");
}
static file npy_beyond(void) { return npy_of(1, 65535, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }"); }
static file npy_far_beyond(void) { return npy_of(2, 0xfffffff0, "{}"); }
static file npy_twice(void) { return npy_of(1, 0, "{'descr': '<f4', 'shape': (1,), 'shape': (2,), 'fortran_order': False}"); }
static file npy_objects(void)
{
    return npy_of(1, 0, "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }");
} /* pickled: code that runs when it is read */

/* ---- zip, npz, .keras ---- */

typedef struct member {
    const char *name;
    size_t      name_size;
    uint64_t    offset, packed, size;
    int         method;
} member;

static void put_directory(file *f, int count, const member *m)
{
    const size_t start = f->size;
    for (int i = 0; i < count; i++) {
        put_le(f, 0x02014b50, 4);
        put(f, "\x14\0\x14\0\0\0", 6);
        put_le(f, (uint64_t)m[i].method, 2);
        put_le(f, 0, 4);
        put_le(f, 0, 4);
        put_le(f, m[i].packed, 4);
        put_le(f, m[i].size, 4);
        put_le(f, m[i].name_size, 2);
        put_le(f, 0, 12);
        put_le(f, m[i].offset, 4);
        put(f, m[i].name, m[i].name_size);
    }
    const size_t size = f->size - start;
    put_le(f, 0x06054b50, 4);
    put_le(f, 0, 4);
    put_le(f, (uint64_t)count, 2);
    put_le(f, (uint64_t)count, 2);
    put_le(f, size, 4);
    put_le(f, start, 4);
    put_le(f, 0, 2);
}

static size_t put_local(file *f, const char *name, int method, const void *packed, size_t size)
{
    const size_t at = f->size;
    put_le(f, 0x04034b50, 4);
    put(f, "\x14\0\0\0", 4);
    put_le(f, (uint64_t)method, 2);
    put_le(f, 0, 16);
    put_le(f, strlen(name), 2);
    put_le(f, 0, 2);
    put_text(f, name);
    put(f, packed, size);
    return at;
}

/* One member, with what the directory says of it. */
static file zip_of(const char *name, uint64_t offset, uint64_t packed, uint64_t size, int method)
{
    file f = {.size = 0};
    put_local(&f, name, method, "0123456789", 10);
    put_directory(&f, 1, &(member){name, strlen(name), offset, packed, size, method});
    return f;
}

static file zip_outside(void) { return zip_of("a.npy", 0xfffffff0, 10, 10, 0); }
static file zip_beyond(void) { return zip_of("a.npy", 0, 0x7fffffff, 0x7fffffff, 0); }
static file zip_bomb(void) { return zip_of("a.npy", 0, 10, 0xfffffffe, 8); }
static file zip_escape(void) { return zip_of("../../../etc/passwd.npy", 0, 10, 10, 0); } /* nothing is ever unpacked to a file */
static file keras_escape(void) { return zip_of("../config.json", 0, 10, 10, 0); }
static file keras_bomb(void) { return zip_of("config.json", 0, 10, 0x40000000, 8); }

static file zip_many_members(void)
{
    file f = zip_of("a.npy", 0, 10, 10, 0);
    f.data[f.size - 12] = f.data[f.size - 11] = 0xff;
    return f;
}

static file zip_directory_outside(void)
{
    file f = zip_of("a.npy", 0, 10, 10, 0);
    memset(f.data + f.size - 6, 0xf0, 4);
    return f;
}

static file zip_twice(void)
{
    file         f = {.size = 0};
    const size_t one = put_local(&f, "a.npy", 0, "1", 1), other = put_local(&f, "a.npy", 0, "2", 1);
    put_directory(&f, 2, (member[]){{"a.npy", 5, one, 1, 1, 0}, {"a.npy", 5, other, 1, 1, 0}});
    return f;
}

static file zip_two_names_in_one(void) /* to one program it is config.json, to another it is not */
{
    file f = {.size = 0};
    put_local(&f, "config.json", 0, "{}", 2);
    put_directory(&f, 1, &(member){"config.json\0.png", 16, 0, 2, 2, 0});
    return f;
}

static file zip_overlap(void) /* every member is the same packed bytes: each name unpacks to as much again */
{
    enum { MEMBERS = 40 };
    static char name[MEMBERS][16];
    member      m[MEMBERS];
    file        f = {.size = 0}, zeros = {.size = 4000};
    lki_bytes   packed;
    assert_int_equal(lki_deflate(LKI_FRAME_NONE, zeros.data, zeros.size, &packed), LK_OK);
    put_local(&f, "a.npy", 8, packed.data, packed.size);
    for (int i = 0; i < 20; i++)
        put(&f, packed.data, packed.size);
    for (int i = 0; i < MEMBERS; i++) {
        snprintf(name[i], sizeof name[i], "%02d.npy", i);
        m[i] = (member){name[i], 6, 0, 20 * packed.size, zeros.size, 8};
    }
    put_directory(&f, MEMBERS, m);
    lki_bytes_free(&packed);
    return f;
}

/* ---- TFRecord, checkpoints ---- */

static void put_record(file *f, uint64_t length, const void *data, size_t size)
{
    file head = {.size = 0};
    put_le(&head, length, 8);
    put(f, head.data, 8);
    put_le(f, lki_crc32c_mask(lki_crc32c(0, head.data, 8)), 4);
    put(f, data, size);
    put_le(f, lki_crc32c_mask(lki_crc32c(0, data, size)), 4);
}

static file tfrecord_of(uint64_t length)
{
    file f = {.size = 0};
    put_record(&f, length, "abc", 3);
    return f;
}

static file tfrecord_wraps(void) { return tfrecord_of(UINT64_MAX - 3); }
static file tfrecord_beyond(void) { return tfrecord_of((uint64_t)1 << 40); }

static file tfrecord_bomb(void)
{
    const file f = tfrecord_of((uint64_t)1 << 32);
    return gzipped(&f);
}

/* An index with one array, of these axes, at this place. */
static file bundle_of(uint64_t dim, int axes, uint64_t offset, uint64_t size)
{
    lki_sink header = {0}, entry = {0}, shape = {0}, axis = {0}, out = {0};
    file     f = {.size = 0};
    lki_sink_number(&header, 1, 1);
    lki_sink_number(&entry, 1, 1);
    lki_sink_number(&axis, 1, dim);
    for (int i = 0; i < axes; i++)
        lki_sink_message(&shape, 2, &axis);
    lki_sink_message(&entry, 2, &shape);
    lki_sink_number(&entry, 4, offset);
    lki_sink_number(&entry, 5, size);
    const lki_table_entry entries[] = {{"", 0, header.data, header.size}, {"v", 1, entry.data, entry.size}};
    lki_table_write(2, entries, 4096, &out);
    assert_false(out.failed);
    put(&f, out.data, out.size);
    lki_sink *const all[] = {&header, &entry, &shape, &axis, &out};
    for (int i = 0; i < LKI_COUNT(all); i++)
        lki_sink_free(all[i]);
    return f;
}

static file bundle_wraps(void) { return bundle_of((uint64_t)1 << 32, 2, 0, 0); }
static file bundle_wraps_in_bytes(void) { return bundle_of((uint64_t)1 << 62, 1, 0, 0); }
static file bundle_negative(void) { return bundle_of(UINT64_MAX, 1, 0, 4); }
static file bundle_outside(void) { return bundle_of(1, 1, UINT64_MAX - 3, 4); }
static file bundle_beyond(void) { return bundle_of((uint64_t)1 << 40, 1, 0, (uint64_t)1 << 42); }
static file bundle_many_axes(void) { return bundle_of(1, 9, 0, 4); }

static file bundle_index_outside(void)
{
    file f = bundle_of(1, 1, 0, 4);
    memset(f.data + f.size - 48, 0x7f, 8); /* handles of the footer: small numbers, far from these blocks */
    return f;
}

/* ---- HDF5, by h5py ---- */

static file h5_of(h5_sample sample)
{
    file      f = {.size = 0};
    lki_bytes b;
    assert_int_equal(lki_unpack("sample", LKI_DEFLATE, sample.data, sample.packed, sample.size, &b), LK_OK);
    put(&f, b.data, b.size < sizeof f.data ? b.size : sizeof f.data);
    lki_bytes_free(&b);
    return f;
}

static file h5_escape(void) { return h5_of(H5_SAMPLE(external)); }
static file h5_escape_by_soft_link(void) { return h5_of(H5_SAMPLE(soft_external)); }
static file h5_data_elsewhere(void) { return h5_of(H5_SAMPLE(elsewhere)); }
static file h5_virtual(void) { return h5_of(H5_SAMPLE(virtual)); }
static file h5_wraps(void) { return h5_of(H5_SAMPLE(claims_overflow)); }
static file h5_bomb(void) { return h5_of(H5_SAMPLE(claims)); }

static file h5_beyond(void)
{
    file f = h5_of(H5_SAMPLE(claims));
    f.size /= 2;
    return f;
}

static file h5_outside(void) /* the address of the root group's header, in the superblock */
{
    file f = h5_of(H5_SAMPLE(claims));
    memset(f.data + 64, 0x7f, 8);
    return f;
}

/* ---- pictures ---- */

static void put_chunk(file *f, const char *type, const void *data, size_t size)
{
    file chunk = {.size = 0};
    put(&chunk, type, 4);
    put(&chunk, data, size);
    put_be(f, size, 4);
    put(f, chunk.data, chunk.size);
    put_be(f, lki_crc32(0, chunk.data, chunk.size), 4);
}

static file png_of(uint32_t width, uint32_t height)
{
    file f = {.size = 0}, head = {.size = 0};
    put_be(&head, width, 4);
    put_be(&head, height, 4);
    put(&head, "\x08\0\0\0\0", 5);
    put(&f, "\x89PNG\r\n\x1a\n", 8);
    put_chunk(&f, "IHDR", head.data, head.size);
    put_chunk(&f, "IDAT", "\x78\x9c\x63\x60\0\0\0\2\0\1", 10);
    put_chunk(&f, "IEND", "", 0);
    return f;
}

static file png_wraps(void) { return png_of(0x7fffffff, 0x7fffffff); }
static file png_bomb(void) { return png_of(9000, 9000); }

static file png_beyond(void)
{
    file f = png_of(1, 1);
    memset(f.data + 8 + 12 + 13, 0xff, 4); /* the length of IDAT */
    return f;
}

/* A baseline header of 65500 x 65500 pixels, or fewer, and nothing after it. */
static file jpeg_of(uint32_t size)
{
    file f = {.size = 0};
    put(&f, "\xff\xd8\xff\xc0\0\x0b\x08", 7);
    put_be(&f, size, 2);
    put_be(&f, size, 2);
    put(&f, "\1\1\x11\0\xff\xda\0\x08\1\1\0\0\x3f\0\0\xff\xd9", 17);
    return f;
}

static file jpeg_wraps(void) { return jpeg_of(65500); }
static file jpeg_bomb(void) { return jpeg_of(9000); }

/* ---- texts ---- */

static file text_of(const char *text)
{
    file f = {.size = 0};
    put_text(&f, text);
    return f;
}

static file deep_json(void)
{
    file f = {.size = 0};
    for (int i = 0; i < 4000; i++)
        put_text(&f, "[");
    return f;
}

static file json_twice(void) { return text_of("{\"class_name\": \"Sequential\", \"config\": {}, \"config\": {\"layers\": []}}"); }

static file json_wraps(void)
{
    return text_of("{\"class_name\": \"Sequential\", \"config\": {\"layers\": [{\"class_name\": \"InputLayer\", \"config\": "
                   "{\"batch_shape\": [null, "
                   "4611686018427387904]}}, {\"class_name\": \"Dense\", \"config\": {\"units\": 4611686018427387904}}]}}");
}

static file csv_open_quote(void) { return text_of("a,b\n1,\"2\n3,4\n5,6\n"); }
static file csv_twice(void) { return text_of("label,label\n1,2\n"); }
static file csv_large_number(void) { return text_of("a,b\n1e999,2\n"); }

#endif
