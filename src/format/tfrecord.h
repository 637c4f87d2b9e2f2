/* TFRecord files: records of any length, one after the other, each with checksums. */
#ifndef LKI_FORMAT_TFRECORD_H
#define LKI_FORMAT_TFRECORD_H

#include "format/stream.h"

/* The next record replaces the contents of `out`; *end: there is none. Both checksums are verified. */
lk_status lki_tfrecord_read(lki_stream *s, lki_bytes *out, bool *end);

/* A file of these records, written completely or not at all. */
lk_status lki_tfrecord_write(const char *path, int count, const lki_bytes *records);

#endif
