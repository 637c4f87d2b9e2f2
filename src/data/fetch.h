/* Fetching from the inside: what lk_fetch() does, for files that come packed, and with an advice of the caller's. */
#ifndef LKI_DATA_FETCH_H
#define LKI_DATA_FETCH_H

#include "core/error.h"
#include <lockstep/dataset.h>

typedef struct lki_fetching {
    const char *call;     /* the call that error messages name */
    bool        unpacked; /* the digest is of what gzip packed, not of the packed file */
    const char *advice;   /* after "put it at PATH by hand"; "" for none */
} lki_fetching;

/* SHA-256 of a file, or with `unpacked` of what gzip packed into it. */
enum { LKI_DIGEST_TEXT = 65 };
lk_status lki_file_digest(const char *path, bool unpacked, char hex[LKI_DIGEST_TEXT]);

lk_status lki_fetch(const lki_fetching *f, const lk_fetch_args *a);

#endif
