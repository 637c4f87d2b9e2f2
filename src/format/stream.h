/* A file read from front to back, plain or packed by gzip. Nothing of it is in memory but a small piece.
 *
 * Positions count unpacked bytes. Going back in a packed file means unpacking it from the front again. */
#ifndef LKI_FORMAT_STREAM_H
#define LKI_FORMAT_STREAM_H

#include "format/file.h"

typedef struct lki_stream lki_stream;

/* `gzip`: LK_DEFAULT goes by the file's first bytes. */
lk_status lki_stream_open(const char *path, lk_switch gzip, lki_stream **out);
void      lki_stream_close(lki_stream *s); /* NULL is ignored */

/* Up to `want` bytes; fewer only where the file ends. */
lk_status lki_stream_read(lki_stream *s, void *dst, size_t want, size_t *got);

/* `size` bytes more after those in `out`. Memory is taken as bytes arrive, so a size that lies costs no more than the file has.
 * *got < size: it ended. */
lk_status lki_stream_append(lki_stream *s, lki_bytes *out, size_t size, size_t *got);

/* A line without its end ("\n" or "\r\n"), in place of what is in `out`; *end: there was none. The last line needs no end.
 * LK_EFORMAT beyond 256 MiB, which a small packed file may unpack to. */
lk_status lki_stream_line(lki_stream *s, lki_bytes *out, bool *end);

uint64_t    lki_stream_position(const lki_stream *s);
lk_status   lki_stream_seek(lki_stream *s, uint64_t position); /* LK_EFORMAT when it lies after the end */
bool        lki_stream_packed(const lki_stream *s);
const char *lki_stream_path(const lki_stream *s);

#endif
