/* TFRecord files: pieces of bytes of any length, one after the other, each with checksums. */
#ifndef LKI_FORMAT_TFRECORD_H
#define LKI_FORMAT_TFRECORD_H

#include "format/stream.h"

/* The next record, in place of what is in `out`; *end: there is none. Both checksums are verified. */
lk_status lki_tfrecord_read(lki_stream *s, lki_bytes *out, bool *end);

/* A file of these records; it appears as a whole or not at all. */
lk_status lki_tfrecord_write(const char *path, int count, const lki_bytes *records);

#endif
