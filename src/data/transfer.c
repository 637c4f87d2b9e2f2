/* Transfers (transfer.h), by the binary interface libcurl has kept since 2006: options are numbers, their values one argument. */
#include "data/transfer.h"
#include "core/number.h"
#include "core/thread.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- libcurl ---- */

enum { LONG = 0, OBJECT = 10000, FUNCTION = 20000, OFFSET = 30000 }; /* what an option's value is */
enum {
    WRITE_DATA = OBJECT + 1,
    URL = OBJECT + 2,
    RANGE = OBJECT + 7,
    ERROR_BUFFER = OBJECT + 10,
    WRITE_FUNCTION = FUNCTION + 11,
    USER_AGENT = OBJECT + 18,
    NO_PROGRESS = LONG + 43,
    FAIL_ON_ERROR = LONG + 45,
    FOLLOW_LOCATION = LONG + 52,
    PROGRESS_DATA = OBJECT + 57,
    MOST_REDIRECTS = LONG + 68,
    NO_SIGNAL = LONG + 99,
    MOST_SIZE = OFFSET + 117,
    CONNECT_TIMEOUT_MS = LONG + 156,
    PROTOCOLS = LONG + 181,
    REDIRECT_PROTOCOLS = LONG + 182,
    PROGRESS_FUNCTION = FUNCTION + 219,
};
enum { HTTP = 1 << 0, HTTPS = 1 << 1, LOCAL_FILE = 1 << 10 };
enum { RESPONSE_CODE = 0x200000 + 2, GLOBAL_ALL = 3, ERROR_SIZE = 256 };

/* Results of a transfer that this file handles separately. */
enum {
    OK = 0,
    HTTP_2_ERROR = 16,
    PARTIAL_FILE = 18,
    HTTP_ERROR = 22,
    TIMED_OUT = 28,
    RANGE_ERROR = 33,
    BAD_RESUME = 36,
    ABORTED_BY_CALLBACK = 42,
    GOT_NOTHING = 52,
    RECEIVE_ERROR = 56,
    SIZE_EXCEEDED = 63,
    HTTP_2_STREAM = 92,
};

typedef struct curl {
    int (*global_init)(long flags);
    void *(*init)(void);
    int (*set)(void *handle, int option, ...);
    int (*perform)(void *handle);
    int (*info)(void *handle, int what, ...);
    const char *(*text)(int result);
    void (*cleanup)(void *handle);
} curl;

static curl           lib;
static bool           found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* It stays open: threads it may have started run its code. */
static void open_library(void)
{
    static const char *const names[] = {"curl_global_init",  "curl_easy_init",     "curl_easy_setopt", "curl_easy_perform",
                                        "curl_easy_getinfo", "curl_easy_strerror", "curl_easy_cleanup"};
    void                    *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL), *fn[LKI_COUNT(names)];
    _Static_assert(sizeof lib == sizeof fn, "one pointer per name");
    found = library != NULL;
    for (int i = 0; i < LKI_COUNT(names) && found; i++)
        found = (fn[i] = dlsym(library, names[i])) != NULL;
    if (!found) return;
    memcpy(&lib, fn, sizeof lib); /* ISO C has no cast from object to function pointers */
    found = lib.global_init(GLOBAL_ALL) == OK;
}

bool lki_transfer_possible(void)
{
    pthread_once(&once, open_library);
    return found;
}

/* ---- what libcurl calls ---- */

typedef struct running {
    lki_download *t;
    void         *handle;
    bool          begun; /* a byte came */
    bool          silent, too_large;
    int           failure;   /* errno of a write */
    int64_t       last_byte; /* when the last one came, or when it began */
    char          error[ERROR_SIZE];
} running;

static long response_code(const running *r)
{
    long code = 0;
    lib.info(r->handle, RESPONSE_CODE, &code);
    return code;
}

/* At the first byte: checks whether it continues the existing bytes, or is the first of the file. */
static bool place_first_byte(running *r)
{
    lki_download *t = r->t;
    r->begun = true;
    t->resumed = t->from > 0 && response_code(r) == 206;
    t->size = t->resumed ? t->from : 0;
    if (ftruncate(t->descriptor, t->size) == 0 && lseek(t->descriptor, t->size, SEEK_SET) == t->size) return true;
    r->failure = errno;
    return false;
}

static size_t take_bytes(char *data, size_t size, size_t count, void *user)
{
    running      *r = user;
    lki_download *t = r->t;
    size_t        left = size * count;
    r->last_byte = lki_nanoseconds();
    if (!r->begun && !place_first_byte(r)) return 0;
    r->too_large = left > (uint64_t)(t->most - t->size);
    if (r->too_large) return 0;
    while (left) {
        const ssize_t n = write(t->descriptor, data, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return r->failure = errno, 0;
        data += n;
        left -= (size_t)n;
        t->size += n;
    }
    return size * count;
}

/* Called about once a second, also while nothing arrives. */
static int look_at_clock(void *user, int64_t all, int64_t have, int64_t up_all, int64_t up_have)
{
    running *r = user;
    (void)all, (void)have, (void)up_all, (void)up_have;
    r->silent = (double)(lki_nanoseconds() - r->last_byte) * 1e-9 > r->t->timeout;
    return r->silent;
}

/* ---- one transfer ---- */

static bool set_options(running *r, const char *range)
{
    const lki_download *t = r->t;
    int                 bad = 0;
#define SET(option, value) bad |= lib.set(r->handle, option, value)
    SET(URL, t->url);
    SET(PROTOCOLS, (long)(HTTP | HTTPS | LOCAL_FILE));
    SET(REDIRECT_PROTOCOLS, (long)(HTTP | HTTPS));
    SET(FOLLOW_LOCATION, 1L);
    SET(MOST_REDIRECTS, 10L);
    SET(FAIL_ON_ERROR, 1L);
    SET(NO_SIGNAL, 1L);
    SET(USER_AGENT, "lockstep");
    SET(ERROR_BUFFER, r->error);
    SET(CONNECT_TIMEOUT_MS, (long)(t->timeout * 1000) + 1);
    SET(MOST_SIZE, t->most);
    SET(WRITE_FUNCTION, take_bytes);
    SET(WRITE_DATA, r);
    SET(NO_PROGRESS, 0L);
    SET(PROGRESS_FUNCTION, look_at_clock);
    SET(PROGRESS_DATA, r);
    if (t->from) SET(RANGE, range);
#undef SET
    return bad == 0;
}

static bool was_cut(const running *r, int result)
{
    static const int codes[] = {HTTP_2_ERROR, PARTIAL_FILE, TIMED_OUT, GOT_NOTHING, RECEIVE_ERROR, HTTP_2_STREAM};
    for (int i = 0; i < LKI_COUNT(codes); i++)
        if (result == codes[i]) return r->begun;
    return r->silent && r->begun;
}

static bool range_was_refused(const running *r, int result)
{
    if (!r->t->from) return false;
    return result == RANGE_ERROR || result == BAD_RESUME || (result == HTTP_ERROR && response_code(r) == 416);
}

static void explain(running *r, int result)
{
    lki_download *t = r->t;
    const size_t  room = sizeof t->why;
    if (r->silent) lki_format(t->why, room, "no byte for %g seconds", t->timeout);
    else if (r->too_large || result == SIZE_EXCEEDED) snprintf(t->why, room, "larger than %lld bytes", (long long)t->most);
    else if (result == HTTP_ERROR) snprintf(t->why, room, "HTTP status %ld", response_code(r));
    else snprintf(t->why, room, "%s", r->error[0] ? r->error : lib.text(result));
}

static void judge(running *r, int result)
{
    lki_download *t = r->t;
    if (result == OK) {
        if (!r->begun && !t->from) place_first_byte(r); /* an empty file */
        t->ending = LKI_TRANSFER_DONE;
        return;
    }
    explain(r, result);
    if (r->too_large && ftruncate(t->descriptor, 0) == 0) t->size = 0;
    t->ending = range_was_refused(r, result) ? LKI_TRANSFER_NO_RANGE : was_cut(r, result) ? LKI_TRANSFER_CUT : LKI_TRANSFER_FAILED;
}

lk_status lki_transfer_run(const char *call, lki_download *t)
{
    char    range[32];
    running r = {.t = t, .last_byte = lki_nanoseconds()};
    t->size = lseek(t->descriptor, 0, SEEK_END);
    t->resumed = t->from > 0;
    t->why[0] = 0;
    r.handle = lki_transfer_possible() ? lib.init() : NULL;
    if (!r.handle) return lki_fail(LK_EUNSUPPORTED, "%s: libcurl.so.4 is missing, or would not start", call);
    snprintf(range, sizeof range, "%lld-", (long long)t->from);
    const bool good = set_options(&r, range);
    if (good) judge(&r, lib.perform(r.handle));
    lib.cleanup(r.handle);
    if (!good)
        return lki_fail(LK_EUNSUPPORTED, "%s: this libcurl lacks an option, or memory; version 7.32 or later is needed", call);
    if (r.failure) return lki_fail(LK_EIO, "%s: cannot write the file: %s", call, strerror(r.failure));
    return LK_OK;
}
