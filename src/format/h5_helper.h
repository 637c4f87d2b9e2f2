/* The helper program for HDF5 files, as seen from the library: started for one request, fed and read without ever blocking for good,
 * and gone when the call returns. */
#ifndef LKI_FORMAT_H5_HELPER_H
#define LKI_FORMAT_H5_HELPER_H

#include "format/file.h"

/* Sends the parts, one behind the other, and gives what the helper answers, at most `limit` bytes. `name` is the file, `doing` what is done
 * to it ("reading"), for messages. LK_EUNSUPPORTED when there is no helper, LK_EDEADLINE when it takes too long, LK_EFORMAT when it was
 * ended by a signal. The answer may be cut off all the same: whoever reads it decides. */
lk_status lki_h5_exchange(const char *name, const char *doing, int parts, const lki_bytes *part, size_t limit, lki_bytes *answer);

/* For tests: milliseconds the helper may take, and seconds of the processor it may take for one item; 0: as many as usual, by the size of the
 * file: 120,000 and 10 for a small one. */
void lki_h5_set_deadline(int milliseconds);
void lki_h5_set_patience(int seconds);
int  lki_h5_patience(void);

#endif
