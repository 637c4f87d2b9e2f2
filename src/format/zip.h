/* Zip archives. Reading: stored and deflated members, with or without the 64-bit extension, for example npz and .keras files.
 * Writing: stored members, as numpy and Keras write them. */
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

/* An archive that is opened from a file stays on disk: only the requested parts are read. */
typedef struct lki_zip {
    char           *path;
    uint64_t        size;       /* of the archive */
    int             descriptor; /* of the file; -1: its bytes are in memory */
    lki_bytes       window;     /* the part of it that was read last, or all of it */
    uint64_t        window_at;
    int             count;
    lki_zip_member *member;
} lki_zip;

lk_status lki_zip_open(const char *path, lki_zip *out);
lk_status lki_zip_parse(const char *name, const void *bytes, size_t size, lki_zip *out); /* copies the bytes */
void      lki_zip_close(lki_zip *z);

/* -1 when there is none. */
int lki_zip_find(const lki_zip *z, const char *name);

/* A copy of the member's contents, after its checksum is verified. */
lk_status lki_zip_read(const lki_zip *z, int member, lki_bytes *out);

/* The same piece by piece; the checksum is verified before the last piece is returned. A packed member is still unpacked as a
 * whole. */
typedef struct lki_zip_feed {
    lki_feed              feed;
    const lki_zip_member *member;
    lki_file_feed         file; /* of a member that is stored in a file */
    uint32_t              crc;
    lki_bytes             bytes; /* of others */
    uint64_t              left;  /* of them */
    char                  name[512];
} lki_zip_feed;

lk_status lki_zip_feed_begin(lki_zip_feed *f, const lki_zip *z, int member);
void      lki_zip_feed_end(lki_zip_feed *f);

/* ---- writing: members one after the other, then the directory; the archive grows in memory ---- */

typedef struct lki_zip_out lki_zip_out;
lk_status                  lki_zip_out_new(lki_zip_out **out);
/* Aligns the data to 64 bytes, as numpy expects. */
lk_status lki_zip_out_add(lki_zip_out *z, const char *name, const void *data, size_t size);
lk_status lki_zip_out_finish(lki_zip_out *z, lki_bytes *archive); /* frees z, also on failure */
void      lki_zip_out_free(lki_zip_out *z);                       /* NULL is ignored */

#endif
