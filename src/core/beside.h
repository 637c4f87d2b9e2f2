/* Files that belong to the library and lie beside it: helper programs, backends. */
#ifndef LKI_CORE_BESIDE_H
#define LKI_CORE_BESIDE_H

#include "core/base.h"

enum { LKI_LONGEST_PATH = 4096 };

/* Look for libexec/lockstep/`name` in the folders above the file this code was loaded from: build/tests/unit/h5 finds
 * build/libexec/..., and /usr/lib/ARCHITECTURE/liblockstep.so finds /usr/libexec/... `mode` is that of access(). Only what belongs
 * to who owns the library, to root or to who runs it counts. */
bool lki_find_beside(const char *name, int mode, char path[LKI_LONGEST_PATH]);

#endif
