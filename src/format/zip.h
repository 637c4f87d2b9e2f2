/* Zip archives. Reading: stored and deflated members, with or without the 64-bit extension; npz and .keras files are such. Writing: stored members, as
 * numpy and Keras write them. */
#ifndef LKI_FORMAT_ZIP_H
#define LKI_FORMAT_ZIP_H

#include "format/file.h"

typedef struct lki_zip_member {
    char    *name;
    uint64_t offset; /* of the local header */
    uint64_t packed, size;
    uint32_t crc;
    int      method; /* 0 stored, 8 deflated */
    int      flags;
} lki_zip_member;

typedef struct lki_zip {
    char           *path;
    lki_bytes       bytes;
    int             count;
    lki_zip_member *member;
} lki_zip;

lk_status lki_zip_open(const char *path, lki_zip *out);
lk_status lki_zip_parse(const char *name, const void *bytes, size_t size, lki_zip *out); /* copies the bytes */
void      lki_zip_close(lki_zip *z);

/* -1 when there is none. */
int lki_zip_find(const lki_zip *z, const char *name);

/* A copy of the member's contents, its checksum verified. */
lk_status lki_zip_read(const lki_zip *z, int member, lki_bytes *out);

/* ---- writing: members one after the other, then the directory; the archive grows in memory ---- */

typedef struct lki_zip_out lki_zip_out;
lk_status                  lki_zip_out_new(lki_zip_out **out);
lk_status                  lki_zip_out_add(lki_zip_out *z, const char *name, const void *data,
                                           size_t size);                           /* data aligned to 64 bytes, as numpy likes it */
lk_status                  lki_zip_out_finish(lki_zip_out *z, lki_bytes *archive); /* frees z, also on failure */
void                       lki_zip_out_free(lki_zip_out *z);                       /* NULL is ignored */

#endif
