/* The helper program for HDF5 files, as seen from the library: started for one request, fed and read without ever blocking for
 * good, and gone when the call returns. */
#ifndef LKI_FORMAT_H5_HELPER_H
#define LKI_FORMAT_H5_HELPER_H

#include "format/file.h"

typedef struct lki_h5_talk lki_h5_talk;

/* Starts it. It is sent the head and then what the feed gives, as it takes them, while its answer of at most `limit` bytes is
 * heard. `name` is the file, `doing` what is done to it ("reading"), for messages: both, and the feed, stay until the talk is
 * closed. LK_EUNSUPPORTED when there is no helper. */
lk_status lki_h5_ask(const char *name, const char *doing, const lki_bytes *head, lki_feed *feed, size_t limit, lki_h5_talk **out);

/* The next bytes of the answer; *got is less than `size` only where it ends. The feed's errors, LK_EDEADLINE when it takes too
 * long, LK_EFORMAT when it is longer than the limit. */
lk_status lki_h5_hear(lki_h5_talk *t, void *to, size_t size, size_t *got);

/* Passes over what is left of the answer and waits for the helper: LK_EFORMAT when it was ended by a signal, LK_EIO when it says
 * that it failed. An answer may still be cut off: its reader decides. */
lk_status lki_h5_end(lki_h5_talk *t);

void lki_h5_close(lki_h5_talk *t); /* the helper is gone, whatever it was doing; NULL is ignored */

/* For tests: milliseconds the helper may take, and seconds of the processor it may take for one item; 0: as many as usual, by the
 * size of the file: 120,000 and 10 for a small one. */
void lki_h5_set_deadline(int milliseconds);
void lki_h5_set_patience(int seconds);
int  lki_h5_patience(void);

#endif
