/* TFRecord files and the records in them: as tf.train.Example, and as TensorBoard's events. With an odd first byte the file is read
 * as it is; otherwise its checksums are corrected first, so that the code after them is tested. */
#include "format/tfrecord.h"
#include "format/crc32c.h"
#include "format/events.h"
#include "fuzz/target.h"

static void seal(uint8_t *data, size_t size)
{
    for (size_t at = 0; size - at >= 12;) {
        const uint64_t length = lki_get_le(data + at, 8);
        const uint32_t head = lki_crc32c_mask(lki_crc32c(0, data + at, 8));
        memcpy(data + at + 8, &head, 4);
        if (length > size - at - 12 || size - at - 12 - length < 4) return;
        const uint32_t body = lki_crc32c_mask(lki_crc32c(0, data + at + 12, (size_t)length));
        memcpy(data + at + 12 + length, &body, 4);
        at += 16 + (size_t)length;
    }
}

static lk_status see(const lki_event *event, void *user)
{
    (void)event, (void)user;
    return LK_OK;
}

static void read_all(lk_dataset *d)
{
    int count = 0;
    if (d)
        LK_FOR_EACH(e, d)
            if (++count == 64) break;
}

TARGET(8 * MIB, 3 * 1032 + 64)
{
    const bool sealed = !(fuzz_number(&data, &size, 1) & 1);
    uint8_t   *copy = malloc(size + 1);
    if (!copy) return;
    if (size) memcpy(copy, data, size);
    if (sealed) seal(copy, size);
    const char *path = fuzz_file("a.tfrecord", copy, size);
    free(copy);
    read_all(lk_tfrecord_dataset(LK_FILES(path)));
    lk_clear_error();
    lk_dataset *records = lk_tfrecord_dataset(LK_FILES(path));
    if (records)
        read_all(lk_dataset_parse_example(records, 1,
                                          LK_FEATURES(LK_FEATURE("image", LK_U8, LK_SHAPE(2, 2)),
                                                      LK_FEATURE("label", LK_I64, .missing = LK_NUMBER(-1)),
                                                      LK_FEATURE("x", LK_F32, LK_SHAPE(2)))));
    lk_clear_error();
    lki_events_read(path, see, NULL);
}
