/* Opening files: the one place of the library that does.
 *
 * Invariants
 * 1. No descriptor is 0, 1 or 2, even where the process has closed those: what a program prints would go into the file otherwise.
 * 2. What is opened to be read is a regular file. A pipe without a writer is refused and not waited for.
 * 3. Descriptors are closed on exec. A call that a signal interrupts is made again. */
#ifndef LKI_CORE_OPEN_H
#define LKI_CORE_OPEN_H

#include "core/error.h"
#include <stdio.h>

/* As open() and openat() with O_CLOEXEC; what is made has mode 0666. -1 and errno. */
int lki_open(const char *path, int flags);
int lki_openat(int folder, const char *path, int flags);

/* The same open file under a number above 2; closes `descriptor` where it has to be another. -1 and errno: it is closed too. */
int lki_above_standard(int descriptor);

/* A regular file, to be read. LK_ENOTFOUND where there is none, else LK_EIO; *out is -1 or NULL then. `size` may be NULL. */
lk_status lki_open_regular(const char *path, int *out, uint64_t *size);
lk_status lki_fopen_regular(const char *path, FILE **out);

#endif
