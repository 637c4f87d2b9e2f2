/* Fetching from the inside: what lk_fetch() does, for files that come packed, and with an advice of the caller's. */
#ifndef LKI_DATA_FETCH_H
#define LKI_DATA_FETCH_H

#include "core/error.h"
#include <lockstep/dataset.h>

typedef struct lki_fetching {
    const char *call;     /* in whose name errors are told */
    bool        unpacked; /* the digest is of what gzip packed, not of the packed file */
    const char *advice;   /* behind "put it at PATH by hand"; "" for none */
} lki_fetching;

lk_status lki_fetch(const lki_fetching *f, const lk_fetch_args *a);

#endif
