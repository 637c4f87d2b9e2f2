/* The checks of target.h. Requests for memory are counted by replacing the library's functions (the linker's --wrap). */
#include "core/error.h"
#include "fuzz/target.h"
#include <stdarg.h>

/* ---- memory ------------------------------------------------------------------------------------------------------------------ */

static struct {
    uint64_t most; /* 0: no input is being read */
    int64_t  before;
    bool     may_end;
} limit;

__attribute__((noreturn, format(printf, 1, 2))) static void found(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("FOUND: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    abort();
}

/* Whether a request must fail. */
static bool beyond(size_t bytes)
{
    const uint64_t most = __atomic_load_n(&limit.most, __ATOMIC_RELAXED);
    const int64_t  held = lki_memory_in_use() - limit.before;
    if (!most || (held >= 0 ? (uint64_t)held : 0) + bytes <= most) return false;
    if (!limit.may_end)
        found("%zu bytes asked for beside %lld: at most %llu are right for this input", bytes, (long long)held,
              (unsigned long long)most);
    lki_fail(LK_ENOMEM, "no %zu bytes for this input", bytes);
    return true;
}

#define WRAP(name, parameters, arguments)                                                                                          \
    void *__real_##name parameters;                                                                                                \
    void *__wrap_##name parameters;                                                                                                \
    void *__wrap_##name parameters { return beyond(bytes) ? NULL : __real_##name arguments; }
WRAP(lki_alloc, (size_t bytes), (bytes))
WRAP(lki_zalloc, (size_t bytes), (bytes))
WRAP(lki_realloc, (void *mem, size_t bytes), (mem, bytes))
WRAP(lki_arena_alloc, (lki_arena * a, size_t bytes), (a, bytes))

void fuzz_memory_may_end(void) { limit.may_end = true; }

/* ---- one input --------------------------------------------------------------------------------------------------------------- */

static char folder[64]; /* of this input; libFuzzer ends without asking, so none is kept longer */

static void no_log(const char *text, void *user) { (void)text, (void)user; }

static void begin(void)
{
    static bool begun;
    if (begun) return;
    begun = true;
    lk_set_log(no_log, NULL);
    lk_set_threads(1);
}

static void check_error(void)
{
    static const lk_status of_files[] = {LK_EFORMAT, LK_EUNSUPPORTED, LK_EIO,       LK_ENOTFOUND, LK_EDTYPE,
                                         LK_ESHAPE,  LK_EINVAL,       LK_EDEADLINE, LK_ENOMEM};
    const lk_status        code = lk_error_code();
    bool                   known = false;
    for (int i = 0; i < LKI_COUNT(of_files); i++)
        known |= code == of_files[i];
    if (!known) found("an error that no file should cause: %s: %s", lk_status_name(code), lk_error());
    if (code == LK_ENOMEM && !limit.may_end) found("%s", lk_error());
    if (strlen(lk_error()) < 4) found("an error that does not say what is wrong: \"%s\"", lk_error());
    if (getenv("LOCKSTEP_FUZZ_TELL")) fprintf(stderr, "%s: %s\n", lk_status_name(code), lk_error());
}

static int64_t read_once(fuzz_reader *reader, uint64_t base, uint64_t ratio, const uint8_t *data, size_t size)
{
    const int64_t before = limit.before = lki_memory_in_use();
    __atomic_store_n(&limit.most, base + ratio * size, __ATOMIC_RELAXED);
    LK_POOL
        reader(data, size);
    __atomic_store_n(&limit.most, 0, __ATOMIC_RELAXED);
    if (lk_failed()) check_error();
    lk_clear_error();
    if (folder[0]) folder_remove(folder);
    folder[0] = 0;
    return lki_memory_in_use() - before;
}

/* What the library makes once for the process it keeps; what it keeps every time is lost. */
void fuzz_one(fuzz_reader *reader, uint64_t base, uint64_t ratio, const uint8_t *data, size_t size)
{
    begin();
    int64_t kept = read_once(reader, base, ratio, data, size);
    for (int again = 0; kept > 0 && again < 3; again++)
        kept = read_once(reader, base, ratio, data, size);
    if (kept > 0) found("%lld bytes are not given back", (long long)kept);
}

/* ---- inputs as files --------------------------------------------------------------------------------------------------------- */

const char *fuzz_file(const char *name, const uint8_t *data, size_t size)
{
    if (!folder[0]) snprintf(folder, sizeof folder, "%s", folder_new());
    const char *path = folder_file(folder, name);
    FILE       *f = fopen(path, "wb");
    if (!f || (size && fwrite(data, 1, size, f) != size) || fclose(f) != 0) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(1);
    }
    return path;
}

/* ---- inputs in parts --------------------------------------------------------------------------------------------------------- */

uint64_t fuzz_number(const uint8_t **data, size_t *size, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes && *size; i++, ++*data, --*size)
        x = x << 8 | **data;
    return x;
}

const uint8_t *fuzz_part(const uint8_t **data, size_t *size, size_t *part_size)
{
    const uint64_t wanted = fuzz_number(data, size, 2);
    const uint8_t *part = *data;
    *part_size = wanted < *size ? (size_t)wanted : *size;
    *data += *part_size;
    *size -= *part_size;
    return part;
}
