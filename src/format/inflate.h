/* Unpacking deflate, gzip and zlib data piece by piece, with zlib, which is loaded at run time. */
#ifndef LKI_FORMAT_INFLATE_H
#define LKI_FORMAT_INFLATE_H

#include "format/file.h"

typedef struct lki_inflater {
    void *stream; /* zlib's; NULL before lki_inflate_begin() and after lki_inflate_end() */
} lki_inflater;

typedef enum lki_inflating {
    LKI_INFLATE_MORE,    /* it consumed or produced bytes */
    LKI_INFLATE_DONE,    /* the packed data ended here */
    LKI_INFLATE_STUCK,   /* it can do neither: input is missing */
    LKI_INFLATE_DAMAGED, /* lki_inflate_why() has the reason */
} lki_inflating;

/* Errors name `file`. LK_EUNSUPPORTED without zlib. */
lk_status lki_inflate_begin(lki_inflater *z, const char *file, lki_packing packing);

/* Consume *in and write to *out as much as fits; both pointers advance, and the sizes shrink. */
lki_inflating lki_inflate_some(lki_inflater *z, const uint8_t **in, size_t *in_size, uint8_t **out, size_t *out_size);

/* After LKI_INFLATE_DONE: begin with the next packed data; gzip files may contain several, one after the other. */
void lki_inflate_again(lki_inflater *z);

const char *lki_inflate_why(const lki_inflater *z); /* "" if zlib gives no reason */
void        lki_inflate_end(lki_inflater *z);

#endif
