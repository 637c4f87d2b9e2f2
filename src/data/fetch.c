/* Files from the network: mirrors are tried in order, partial downloads are continued, the digest is checked, then the file is
 * renamed.
 *
 *     PATH.part, locked:   EMPTY --bytes--> SOME --the last byte--> WHOLE --digest right, sync, rename--> PATH
 *                            ^               | cut: the same mirror again, then the next, with Range
 *                            |_______________|_____ the server has no Range; the digest is wrong
 *
 * Invariants
 *  1. PATH has the requested digest, or does not exist, whatever happens; without a digest it is complete.
 *  2. One process at a time writes PATH.part; others wait for its lock, and use its result.
 *  3. Bytes of an earlier attempt are continued only if a digest will show whether they fit. */
#include "data/fetch.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/option.h"
#include "core/sha256.h"
#include "data/transfer.h"
#include "format/durable.h"
#include "format/stream.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_CONTINUED = 4, REASON = 256, REASONS = 640, HEX = LKI_DIGEST_TEXT };
#define DEFAULT_TIMEOUT 30.0
#define DEFAULT_MOST ((int64_t)64 << 30)

typedef struct fetch {
    const lki_fetching  *how;
    const lk_fetch_args *a;
    char                *part; /* PATH.part */
    int                  descriptor;
    int64_t              have; /* bytes in it */
    bool                 published;
    char                 reasons[REASONS]; /* of the mirrors that failed */
} fetch;

/* ---- digests ---- */

static lk_status hash_stream(lki_stream *s, char hex[HEX])
{
    enum { PIECE = 64 << 10 };
    lki_sha256 h;
    uint8_t    digest[32];
    size_t     got = 1;
    uint8_t   *piece LKI_RELEASED = lki_alloc(PIECE);
    lk_status  status = piece ? LK_OK : LK_ENOMEM;
    lki_sha256_begin(&h);
    while (status == LK_OK && got) {
        status = lki_stream_read(s, piece, PIECE, &got);
        if (status == LK_OK) lki_sha256_add(&h, piece, got);
    }
    lki_sha256_end(&h, digest);
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return status;
}

lk_status lki_file_digest(const char *path, bool unpacked, char hex[HEX])
{
    lki_stream *s;
    LKI_TRY(lki_stream_open(path, unpacked ? LK_DEFAULT : LK_OFF, &s));
    const lk_status status = hash_stream(s, hex);
    lki_stream_close(s);
    return status;
}

/* True if the file exists and has the right digest. If not, `why` gives the reason. */
static lk_status judge(const fetch *f, const char *path, bool *right, char why[REASON])
{
    char             hex[HEX];
    lki_error_record e;
    *right = access(path, F_OK) == 0;
    if (!*right || !f->a->sha256) return snprintf(why, REASON, "it is not there"), LK_OK;
    *right = false;
    const lk_status status = lki_file_digest(path, f->how->unpacked, hex);
    if (status == LK_ENOMEM) return status;
    if (status == LK_OK) {
        *right = strcasecmp(hex, f->a->sha256) == 0;
        snprintf(why, REASON, "its SHA-256 is %s; it should be %s", hex, f->a->sha256);
    } else {
        lki_error_take(&e);
        snprintf(why, REASON, "%.*s", REASON - 1, e.text);
    }
    return LK_OK;
}

/* ---- the file beside ---- */

static lk_status part_failed(const fetch *f, const char *what)
{
    return lki_fail(LK_EIO, "%s: %s: cannot %s it: %s", f->how->call, f->part, what, strerror(errno));
}

static int lock(int descriptor)
{
    int result;
    do
        result = flock(descriptor, LOCK_EX);
    while (result != 0 && errno == EINTR);
    return result;
}

/* While this process waited for the lock, another may have renamed the file to PATH, or removed it: then a new one is made. */
static lk_status open_part(fetch *f)
{
    for (bool mine = false; !mine;) {
        struct stat here, there;
        const int   descriptor = lki_open(f->part, O_RDWR | O_CREAT | O_NONBLOCK | O_NOFOLLOW);
        if (descriptor < 0) return part_failed(f, "write");
        const bool looked = fstat(descriptor, &here) == 0;
        if (!looked || !S_ISREG(here.st_mode) || lock(descriptor) != 0 || fstat(descriptor, &here) != 0) {
            if (looked && !S_ISREG(here.st_mode)) lki_fail(LK_EIO, "%s: %s: not a regular file", f->how->call, f->part);
            else part_failed(f, "lock");
            close(descriptor);
            return LK_EIO;
        }
        mine = stat(f->part, &there) == 0 && here.st_ino == there.st_ino && here.st_dev == there.st_dev;
        if (!mine) close(descriptor);
        f->descriptor = descriptor;
        f->have = here.st_size;
    }
    return LK_OK;
}

static lk_status forget_bytes(fetch *f)
{
    f->have = 0;
    return ftruncate(f->descriptor, 0) == 0 ? LK_OK : part_failed(f, "cut");
}

static lk_status publish(fetch *f)
{
    if (fsync(f->descriptor) != 0) return part_failed(f, "write");
    if (rename(f->part, f->a->path) != 0) return part_failed(f, "rename");
    f->published = true;
    return lki_folder_sync(f->a->path);
}

/* ---- mirrors ---- */

static bool is_local(const char *url) { return strncasecmp(url, "file:", 5) == 0; }

static void note_reason(fetch *f, const char *url, const char *why)
{
    const size_t used = strlen(f->reasons);
    snprintf(f->reasons + used, REASONS - used, "%s%s: %.*s", used ? "; " : "", url, REASON - 1, why);
}

static lk_status transfer(fetch *f, const char *url, lki_download *t)
{
    const lk_fetch_args *a = f->a;
    *t = (lki_download){.url = url,
                        .descriptor = f->descriptor,
                        .from = a->sha256 && !is_local(url) ? f->have : 0,
                        .most = lki_integer_or(a->most_bytes, DEFAULT_MOST),
                        .timeout = lki_number_or(a->timeout, DEFAULT_TIMEOUT)};
    LKI_TRY(lki_transfer_run(f->how->call, t));
    f->have = t->size;
    return LK_OK;
}

/* *done: the part is complete and right. LK_OK also if it is not, and another mirror may succeed. */
static lk_status try_mirror(fetch *f, const char *url, bool *done)
{
    lki_download t;
    char         why[REASON];
    for (int continued = 0;;) {
        LKI_TRY(transfer(f, url, &t));
        if (t.ending == LKI_TRANSFER_NO_RANGE) {
            LKI_TRY(forget_bytes(f));
            continue;
        }
        if (t.ending == LKI_TRANSFER_CUT && f->a->sha256 && continued++ < MOST_CONTINUED) continue;
        if (t.ending != LKI_TRANSFER_DONE) return note_reason(f, url, t.why), LK_OK;
        LKI_TRY(judge(f, f->part, done, why));
        if (*done) return LK_OK;
        LKI_TRY(forget_bytes(f));
        if (!t.resumed) return note_reason(f, url, why), LK_OK;
    } /* otherwise the bytes of an earlier attempt were of another file: start from the beginning */
}

static lk_status try_mirrors(fetch *f)
{
    char why[REASON];
    bool done = false;
    if (f->have && f->a->sha256) LKI_TRY(judge(f, f->part, &done, why)); /* it may be complete but not renamed */
    for (int i = 0; i < f->a->urls.count && !done; i++) {
        lki_info("%s: fetching %s", f->how->call, f->a->urls.item[i]);
        LKI_TRY(try_mirror(f, f->a->urls.item[i], &done));
    }
    if (done) return LK_OK;
    return lki_fail(LK_EIO, "%s: could not fetch %s; without the network, put it at %s by hand%s", f->how->call, f->reasons,
                    f->a->path, f->how->advice);
}

/* ---- fetching ---- */

static lk_status fetch_locked(fetch *f)
{
    char why[REASON];
    bool right;
    LKI_TRY(open_part(f));
    LKI_TRY(judge(f, f->a->path, &right, why));
    if (right) return LK_OK; /* another process was faster */
    LKI_TRY(try_mirrors(f));
    return publish(f);
}

static bool is_offline(void)
{
    const char *value = getenv("LOCKSTEP_OFFLINE");
    return value && *value && strcmp(value, "0") != 0;
}

static lk_status fetch_missing(fetch *f)
{
    char why[REASON];
    bool right;
    LKI_TRY(judge(f, f->a->path, &right, why));
    if (right) return LK_OK;
    if (access(f->a->path, F_OK) == 0) lki_warn("%s: %s exists but is wrong: %s", f->how->call, f->a->path, why);
    if (is_offline())
        return lki_fail(LK_ENOTFOUND, "%s: LOCKSTEP_OFFLINE is set, so %s is not fetched; put it at %s by hand%s", f->how->call,
                        f->a->urls.item[0], f->a->path, f->how->advice);
    if (!lki_transfer_possible())
        return lki_fail(LK_EUNSUPPORTED,
                        "%s: %s is not here, and fetching it needs libcurl.so.4, which was not found (Debian: apt-get install "
                        "libcurl4); or put it at %s by hand%s",
                        f->how->call, f->a->urls.item[0], f->a->path, f->how->advice);
    LKI_TRY(lki_folder_make(f->a->path));
    f->part = lki_path_join(f->a->path, strlen(f->a->path), ".part");
    if (!f->part) return LK_ENOMEM;
    const lk_status status = fetch_locked(f);
    if (f->descriptor >= 0 && !f->published && (!f->have || !f->a->sha256)) unlink(f->part); /* nothing to continue from */
    if (f->descriptor >= 0) close(f->descriptor);
    lki_release(f->part);
    return status;
}

static bool is_digest(const char *text) { return strlen(text) == HEX - 1 && strspn(text, "0123456789abcdefABCDEF") == HEX - 1; }

static lk_status check(const lki_fetching *how, const lk_fetch_args *a)
{
    const char *call = how->call;
    if (a->urls.count < 0) return lki_fail(LK_ENOMEM, "%s: no memory for the list of mirrors", call);
    if (a->urls.count == 0 || !a->urls.item) return lki_fail(LK_EINVAL, "%s: no .urls, so there is nowhere to fetch from", call);
    for (int i = 0; i < a->urls.count; i++) {
        const char *url = a->urls.item[i];
        if (!url || (strncasecmp(url, "http://", 7) && strncasecmp(url, "https://", 8) && strncasecmp(url, "file://", 7)))
            return lki_fail(LK_EINVAL, "%s: URL %d is \"%s\"; it must begin with https://, http:// or file://", call, i,
                            url ? url : "");
    }
    if (!a->path || !*a->path) return lki_fail(LK_EINVAL, "%s: no .path, so there is nowhere to put it", call);
    if (a->sha256 && !is_digest(a->sha256))
        return lki_fail(LK_EINVAL, "%s: .sha256 = \"%s\"; it must be 64 hexadecimal digits", call, a->sha256);
    const double  timeout = lki_number_or(a->timeout, DEFAULT_TIMEOUT);
    const int64_t most = lki_integer_or(a->most_bytes, DEFAULT_MOST);
    if (!(timeout > 0 && timeout <= 1e6) || most < 1)
        return lki_fail(LK_EINVAL, "%s: .timeout = %g, .most_bytes = %lld; they must be above 0", call, timeout, (long long)most);
    return LK_OK;
}

lk_status lki_fetch(const lki_fetching *how, const lk_fetch_args *a)
{
    LKI_SCOPE_ERRORS;
    fetch f = {.how = how, .a = a, .descriptor = -1};
    LKI_TRY(check(how, a));
    return fetch_missing(&f);
}

lk_status lk_fetch_kw(lk_fetch_args a) { return lki_fetch(&(lki_fetching){.call = "lk_fetch", .advice = ""}, &a); }
