/* The helper program for HDF5 files, as seen from the library: started for one request, fed and read without blocking for ever, and
 * gone when the call returns. */
#ifndef LKI_FORMAT_H5_HELPER_H
#define LKI_FORMAT_H5_HELPER_H

#include "format/file.h"

typedef struct lki_h5_talk lki_h5_talk;

/* Starts it. The head and then the bytes of the feed are sent, as fast as the helper reads them; meanwhile its answer of at most
 * `limit` bytes is received. `name` is the file, `doing` the operation ("reading"), for messages: both, and the feed, must exist
 * until the talk is closed. LK_EUNSUPPORTED if there is no helper. */
lk_status lki_h5_ask(const char *name, const char *doing, const lki_bytes *head, lki_feed *feed, size_t limit, lki_h5_talk **out);

/* The next bytes of the answer; *got is less than `size` only at its end. The feed's errors, LK_EDEADLINE if it takes too long,
 * LK_EFORMAT if it is longer than the limit. */
lk_status lki_h5_hear(lki_h5_talk *t, void *to, size_t size, size_t *got);

/* Discards the rest of the answer and waits for the helper: LK_EFORMAT if a signal ended it, LK_EIO if it reports failure. An
 * answer may still be incomplete: its reader decides. */
lk_status lki_h5_end(lki_h5_talk *t);

void lki_h5_close(lki_h5_talk *t); /* the helper is gone, whatever it was doing; NULL is ignored */

/* For tests: milliseconds the helper may take, and seconds of processor time it may take for one item; 0: the default, which
 * depends on the size of the file: 120,000 and 10 for a small one. */
void lki_h5_set_deadline(int milliseconds);
void lki_h5_set_patience(int seconds);
int  lki_h5_patience(void);

#endif
