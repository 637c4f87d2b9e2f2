/* Opening files; all files of the library are opened here.
 *
 * Invariants
 *  1. A descriptor is never 0, 1 or 2, even if the process has closed those: otherwise the program's output would be written to the
 *     file.
 *  2. A file that is opened for reading is a regular file. A pipe without a writer is an error; the call does not wait for it.
 *  3. Descriptors are closed on exec. A call that a signal interrupts is repeated. */
#ifndef LKI_CORE_OPEN_H
#define LKI_CORE_OPEN_H

#include "core/error.h"
#include <stdio.h>

/* As open() and openat() with O_CLOEXEC; new files have mode 0666. -1 and errno. */
int lki_open(const char *path, int flags);
int lki_openat(int folder, const char *path, int flags);

/* The same open file with a descriptor above 2. Closes `descriptor` if the new one is different. -1 and errno: then `descriptor` is
 * closed too. */
int lki_above_standard(int descriptor);

/* Open a regular file for reading. LK_ENOTFOUND if it does not exist, else LK_EIO; then *out is -1 or NULL. `size` may be NULL. */
lk_status lki_open_regular(const char *path, int *out, uint64_t *size);
lk_status lki_fopen_regular(const char *path, FILE **out);

#endif
