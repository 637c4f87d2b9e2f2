/* The internals of lk_fetch(), also for compressed files, and with advice of the caller in error messages. */
#ifndef LKI_DATA_FETCH_H
#define LKI_DATA_FETCH_H

#include "core/error.h"
#include <lockstep/dataset.h>

typedef struct lki_fetching {
    const char *call;     /* the call that error messages name */
    bool        unpacked; /* the digest is of the uncompressed contents, not of the gzip file */
    const char *advice;   /* after "put it at PATH by hand"; "" for none */
} lki_fetching;

/* SHA-256 of a file, or with `unpacked` of the uncompressed contents of a gzip file. */
enum { LKI_DIGEST_TEXT = 65 };
lk_status lki_file_digest(const char *path, bool unpacked, char hex[LKI_DIGEST_TEXT]);

lk_status lki_fetch(const lki_fetching *f, const lk_fetch_args *a);

#endif
