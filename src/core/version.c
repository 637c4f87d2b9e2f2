/* The version, from the numbers of the public header, so that it is stored in one place. */
#include "core/base.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *lk_version(void) { return TEXT(LK_VERSION_MAJOR) "." TEXT(LK_VERSION_MINOR) "." TEXT(LK_VERSION_PATCH); }
