/* One transfer from a URL (http, https, file) to a file that is open, by libcurl, which is loaded at run time.
 *
 *     lki_download t = {.url = url, .descriptor = part, .from = bytes_there, .most = limit, .timeout = 30};
 *     LKI_TRY(lki_transfer_run("lk_fetch", &t));
 *     if (t.ending == LKI_TRANSFER_DONE) ...the file has t.size bytes... */
#ifndef LKI_DATA_TRANSFER_H
#define LKI_DATA_TRANSFER_H

#include "core/error.h"

typedef enum lki_ending {
    LKI_TRANSFER_DONE,
    LKI_TRANSFER_CUT,      /* some bytes came, then no more: the transfer can be resumed */
    LKI_TRANSFER_NO_RANGE, /* the server cannot resume there: start again */
    LKI_TRANSFER_FAILED,
} lki_ending;

typedef struct lki_download {
    const char *url;
    int         descriptor; /* of the file; bytes after it are cut off */
    int64_t     from;       /* bytes that exist already; 0: request the whole file */
    int64_t     most;       /* most bytes of the complete file */
    double      timeout;    /* seconds without a byte */

    lki_ending ending;
    int64_t    size;     /* of the file now */
    bool       resumed;  /* includes bytes that existed before */
    char       why[256]; /* unless DONE: in words */
} lki_download;

/* True if libcurl is available. */
bool lki_transfer_possible(void);

/* LK_OK, and the result in t->ending; LK_EUNSUPPORTED if libcurl is missing or too old, and LK_EIO if the file cannot be written,
 * which no other server would change. */
lk_status lki_transfer_run(const char *call, lki_download *t);

#endif
