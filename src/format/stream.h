/* A file read from the beginning to the end, plain or packed by gzip. Only a small piece of it is in memory.
 *
 * Positions count unpacked bytes. Going back in a packed file means unpacking it from the beginning again. */
#ifndef LKI_FORMAT_STREAM_H
#define LKI_FORMAT_STREAM_H

#include "format/file.h"

typedef struct lki_stream lki_stream;

/* `gzip`: LK_DEFAULT decides by the file's first bytes. */
lk_status lki_stream_open(const char *path, lk_switch gzip, lki_stream **out);
void      lki_stream_close(lki_stream *s); /* NULL is ignored */

/* Up to `want` bytes; fewer only at the end of the file. */
lk_status lki_stream_read(lki_stream *s, void *dst, size_t want, size_t *got);

/* Append `size` bytes to `out`. Memory is allocated as bytes arrive, so a wrong size costs no more than the file has. *got < size:
 * the file ended. */
lk_status lki_stream_append(lki_stream *s, lki_bytes *out, size_t size, size_t *got);

/* A line without its end ("\n" or "\r\n") replaces the contents of `out`; *end: there was none. The last line needs no end.
 * LK_EFORMAT for lines longer than 256 MiB, which a small packed file may unpack to. */
lk_status lki_stream_line(lki_stream *s, lki_bytes *out, bool *end);

uint64_t    lki_stream_position(const lki_stream *s);
lk_status   lki_stream_seek(lki_stream *s, uint64_t position); /* LK_EFORMAT if it is after the end */
bool        lki_stream_packed(const lki_stream *s);
const char *lki_stream_path(const lki_stream *s);

#endif
