/* TFRecord files (tfrecord.h). Numbers are little endian, checksums are masked CRC-32C.
 *
 *   offset  size  meaning
 *        0     8  length n
 *        8     4  checksum of the length
 *       12     n  the record
 *     12+n     4  checksum of the record */
#include "format/tfrecord.h"
#include "format/crc32c.h"
#include "format/durable.h"

enum { HEADER = 12, FOOTER = 4 };

static lk_status cut_off(const lki_stream *s, uint64_t at)
{
    return lki_fail(LK_EFORMAT, "%s: the record at byte %llu is cut off", lki_stream_path(s), (unsigned long long)at);
}

static bool matches(const void *data, size_t size, const uint8_t *stored)
{
    return lki_crc32c_mask(lki_crc32c(0, data, size)) == (uint32_t)lki_get_le(stored, 4);
}

lk_status lki_tfrecord_read(lki_stream *s, lki_bytes *out, bool *end)
{
    const uint64_t at = lki_stream_position(s);
    uint8_t        header[HEADER], footer[FOOTER];
    size_t         got;
    out->size = 0;
    LKI_TRY(lki_stream_read(s, header, HEADER, &got));
    *end = got == 0;
    if (*end) return LK_OK;
    if (got < HEADER) return cut_off(s, at);
    if (!matches(header, 8, header + 8))
        return lki_fail(LK_EFORMAT, "%s: at byte %llu the checksum of a record's length is wrong: damaged, or not a TFRecord file",
                        lki_stream_path(s), (unsigned long long)at);
    const uint64_t size = lki_get_le(header, 8);
    if (size > SIZE_MAX / 4) return cut_off(s, at);
    LKI_TRY(lki_stream_append(s, out, (size_t)size, &got));
    if (got < size) return cut_off(s, at);
    LKI_TRY(lki_stream_read(s, footer, FOOTER, &got));
    if (got < FOOTER) return cut_off(s, at);
    if (!matches(out->data, out->size, footer))
        return lki_fail(LK_EFORMAT, "%s: the checksum of the record of %llu bytes at byte %llu is wrong: the file is damaged",
                        lki_stream_path(s), (unsigned long long)size, (unsigned long long)at);
    return LK_OK;
}

static void put_le(uint8_t *to, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(x >> (8 * i));
}

static lk_status write_record(lki_durable *d, const lki_bytes *record)
{
    uint8_t header[HEADER], footer[FOOTER];
    put_le(header, record->size, 8);
    put_le(header + 8, lki_crc32c_mask(lki_crc32c(0, header, 8)), 4);
    put_le(footer, lki_crc32c_mask(lki_crc32c(0, record->data, record->size)), 4);
    LKI_TRY(lki_durable_write(d, header, HEADER));
    LKI_TRY(lki_durable_write(d, record->data, record->size));
    return lki_durable_write(d, footer, FOOTER);
}

lk_status lki_tfrecord_write(const char *path, int count, const lki_bytes *records)
{
    lki_durable d;
    LKI_TRY(lki_durable_begin(path, &d));
    lk_status status = LK_OK;
    for (int i = 0; i < count && status == LK_OK; i++)
        status = write_record(&d, &records[i]);
    if (status == LK_OK) status = lki_durable_sync(&d);
    if (status == LK_OK) status = lki_durable_publish(&d);
    lki_durable_abandon(&d);
    return status;
}
