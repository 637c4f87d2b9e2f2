/* gzip files made with zlib, which is available if reading is. */
#ifndef LK_TESTS_DATA_PACKED_H
#define LK_TESTS_DATA_PACKED_H

#include "pipes.h"
#include <dlfcn.h>

/* False: zlib is not here. */
static inline int write_packed(const char *path, const void *bytes, size_t size)
{
    void *z = dlopen("libz.so.1", RTLD_NOW);
    void *(*open)(const char *, const char *);
    int (*write)(void *, const void *, unsigned), (*close)(void *);
    if (!z) return 0;
    *(void **)&open = dlsym(z, "gzopen");
    *(void **)&write = dlsym(z, "gzwrite");
    *(void **)&close = dlsym(z, "gzclose");
    void *out = open(path, "wb");
    assert_non_null(out);
    assert_int_equal(write(out, bytes, (unsigned)size), size);
    assert_int_equal(close(out), 0);
    return 1;
}

#endif
