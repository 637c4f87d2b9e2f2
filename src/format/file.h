/* What the readers of formats share: a whole file in memory, an array that was in it, and compressed bytes.
 *
 * Invariants
 *  1. A reader trusts no number of a file: every length, offset and product is checked against the size of the data before it is
 *     used.
 *  2. Every error is LK_EFORMAT (LK_EIO for errors of the system) and says: file, what is wrong, where, what would be right.
 *  3. On failure the results are empty and nothing is held. */
#ifndef LKI_FORMAT_FILE_H
#define LKI_FORMAT_FILE_H

#include "core/error.h"
#include "core/open.h"
#include <lockstep/tensor.h>

typedef struct lki_bytes {
    uint8_t *data; /* from lki_alloc */
    size_t   size;
} lki_bytes;

int lki_fsync(int descriptor); /* repeated if a signal interrupts it */

lk_status lki_file_read(const char *path, lki_bytes *out);
lk_status lki_file_write(const char *path, int parts,
                         const lki_bytes *part); /* one after the other; an incomplete file is removed */
void      lki_bytes_free(lki_bytes *b);

/* Bytes in pieces, so that large data need not be in memory as a whole. */
typedef struct lki_feed lki_feed;
struct lki_feed {
    uint64_t size; /* of all pieces */
    lk_status (*next)(lki_feed *f, const uint8_t **piece,
                      size_t *size); /* the next piece, valid until the following call; size 0: the end */
};

/* `size` bytes of an open file from `offset` on: LK_EIO if it has become shorter. */
lk_status lki_file_read_at(const char *path, int descriptor, uint64_t offset, void *to, size_t size);

/* Feeds of bytes in memory, and of a part of an open file. */
typedef struct lki_bytes_feed {
    lki_feed       feed;
    const uint8_t *data; /* what is left */
} lki_bytes_feed;

typedef struct lki_file_feed {
    lki_feed    feed;
    const char *path;
    int         descriptor;
    uint64_t    offset, left;
    uint8_t    *piece; /* from lki_alloc; lki_file_feed_end() releases it */
} lki_file_feed;

lki_bytes_feed lki_feed_of_bytes(const void *data, size_t size);
lk_status      lki_file_feed_begin(lki_file_feed *f, const char *path, int descriptor, uint64_t offset, uint64_t size);
void           lki_file_feed_end(lki_file_feed *f);

/* Elements row by row, little endian like the machine. */
typedef struct lki_array {
    lk_dtype dtype;
    lk_shape shape;
    void    *data; /* from lki_alloc */
} lki_array;

/* How an element of a file is converted to a type of lockstep: small integers are widened, truth values become 0 or 1. */
typedef enum lki_widening { LKI_AS_IS, LKI_SIGNED, LKI_UNSIGNED, LKI_TRUTH } lki_widening;

/* Store element `index` of an array from x, which has the file's `bytes` bytes; false: an unsigned number too large for i64. */
bool lki_array_put(lki_array *a, int64_t index, uint64_t x, lki_widening how, int bytes);

/* An array without its elements; an error naming `file` for ranks, sizes and products of sizes that are too large. */
lk_status lki_array_begin(const char *file, lk_dtype dtype, int rank, const uint64_t *dim, lki_array *out);
lk_status lki_array_alloc(lki_array *a); /* room for them */
void      lki_array_free(lki_array *a);

/* Unpack deflate (as in zip), gzip or zlib (as in PNG) data with zlib, which is loaded at run time. `size` is the exact unpacked
 * size; LKI_SIZE_UNKNOWN: any size, up to the most that deflate can make of that many bytes. */
typedef enum lki_packing { LKI_DEFLATE, LKI_GZIP, LKI_ZLIB } lki_packing;
#define LKI_SIZE_UNKNOWN SIZE_MAX
lk_status lki_unpack(const char *file, lki_packing packing, const uint8_t *packed, size_t packed_size, size_t size, lki_bytes *out);

/* Numbers as files store them. */
static inline uint64_t lki_get_le(const uint8_t *p, int bytes)
{
    uint64_t x = 0;
    for (int i = bytes; i-- > 0;)
        x = x << 8 | p[i];
    return x;
}

static inline uint64_t lki_get_be(const uint8_t *p, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++)
        x = x << 8 | p[i];
    return x;
}

#endif
