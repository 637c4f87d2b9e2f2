/* Files that belong to the library and are installed beside it: helper programs, backends. */
#ifndef LKI_CORE_BESIDE_H
#define LKI_CORE_BESIDE_H

#include "core/base.h"

enum { LKI_LONGEST_PATH = 4096 };

/* Look for libexec/lockstep/`name` in the folders above the file this code was loaded from: build/tests/unit/h5 finds
 * build/libexec/..., and /usr/lib/ARCHITECTURE/liblockstep.so finds /usr/libexec/... `mode` is that of access(). Only files that
 * belong to the library's owner, to root or to the user of this process are accepted. */
bool lki_find_beside(const char *name, int mode, char path[LKI_LONGEST_PATH]);

#endif
