/* zlib (inflate.h), by the binary interface it has had since version 1.2. It is opened by name at first use, so that building needs
 * no compression library, and neither does a program that reads plain files. */
#include "format/inflate.h"
#include "core/memory.h"
#include <dlfcn.h>
#include <limits.h>
#include <string.h>

typedef struct zlib_stream {
    const unsigned char *next_in;
    unsigned             avail_in;
    unsigned long        total_in;
    unsigned char       *next_out;
    unsigned             avail_out;
    unsigned long        total_out;
    const char          *msg;
    void                *state;
    void *(*zalloc)(void *, unsigned, unsigned);
    void (*zfree)(void *, void *);
    void         *opaque;
    int           data_type;
    unsigned long adler, reserved;
} zlib_stream;

enum { Z_DONE = 1, Z_FINE = 0, Z_NO_PROGRESS = -5, Z_PLAIN_FLUSH = 0 };

typedef struct zlib {
    int (*init)(zlib_stream *, int window_bits, const char *version, int stream_size);
    int (*inflate)(zlib_stream *, int flush);
    int (*reset)(zlib_stream *);
    int (*end)(zlib_stream *);
} zlib;

typedef struct unpacker {
    zlib        z;
    zlib_stream s;
} unpacker;

static void *symbol(void *library, const char *name) { return library ? dlsym(library, name) : NULL; }

static bool zlib_open(zlib *z)
{
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL); /* stays open: opening a library again returns the same handle */
    void *fn[4] = {symbol(library, "inflateInit2_"), symbol(library, "inflate"), symbol(library, "inflateReset"),
                   symbol(library, "inflateEnd")};
    _Static_assert(sizeof *z == sizeof fn, "four function pointers");
    memcpy(z, fn, sizeof fn); /* ISO C has no cast from object to function pointers */
    return fn[0] && fn[1] && fn[2] && fn[3];
}

lk_status lki_inflate_begin(lki_inflater *z, const char *file, lki_packing packing)
{
    static const int window_bits[] = {[LKI_DEFLATE] = -15, [LKI_GZIP] = 15 + 16, [LKI_ZLIB] = 15};
    *z = (lki_inflater){0};
    unpacker *u = lki_zalloc(sizeof *u);
    if (!u) return LK_ENOMEM;
    lk_status status = LK_OK;
    if (!zlib_open(&u->z))
        status =
            lki_fail(LK_EUNSUPPORTED, "%s: compressed, and libz.so.1 (zlib) was not found: install it, or unpack the file", file);
    else if (u->z.init(&u->s, window_bits[packing], "1.2.11", sizeof u->s) != Z_FINE)
        status = lki_fail(LK_ENOMEM, "%s: zlib would not start", file);
    if (status == LK_OK) z->stream = u;
    else lki_release(u);
    return status;
}

lki_inflating lki_inflate_some(lki_inflater *z, const uint8_t **in, size_t *in_size, uint8_t **out, size_t *out_size)
{
    unpacker      *u = z->stream;
    const unsigned given = *in_size < UINT_MAX ? (unsigned)*in_size : UINT_MAX;
    const unsigned space = *out_size < UINT_MAX ? (unsigned)*out_size : UINT_MAX;
    u->s.next_in = *in;
    u->s.avail_in = given;
    u->s.next_out = *out;
    u->s.avail_out = space;
    const int      result = u->z.inflate(&u->s, Z_PLAIN_FLUSH);
    const unsigned took = given - u->s.avail_in, gave = space - u->s.avail_out;
    *in += took;
    *in_size -= took;
    *out += gave;
    *out_size -= gave;
    if (result == Z_DONE) return LKI_INFLATE_DONE;
    if (result == Z_NO_PROGRESS || (result == Z_FINE && !took && !gave)) return LKI_INFLATE_STUCK;
    return result == Z_FINE ? LKI_INFLATE_MORE : LKI_INFLATE_DAMAGED;
}

void lki_inflate_again(lki_inflater *z)
{
    unpacker *u = z->stream;
    u->z.reset(&u->s);
}

const char *lki_inflate_why(const lki_inflater *z)
{
    const unpacker *u = z->stream;
    return u->s.msg ? u->s.msg : "";
}

void lki_inflate_end(lki_inflater *z)
{
    unpacker *u = z->stream;
    if (u) u->z.end(&u->s);
    lki_release(u);
    z->stream = NULL;
}
