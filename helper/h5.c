/* lockstep-h5: reads and writes HDF5 files for the library, in a process of its own.
 *
 * It reads a request from standard input and writes the answer to standard output (src/format/h5_protocol.h defines both). Files
 * are only bytes: libhdf5 reads and writes them in memory, and this process opens no file. After reading the head of the request it
 * enters its sandbox (fence.c), before libhdf5 sees a byte of the file.
 *
 *   lockstep-h5             answers one request
 *   lockstep-h5 --version   says which libhdf5 it has
 *
 * Exit status: 0 when an answer was given, even one that refuses; 1 when none could be. */
#include "helper.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- bytes in and out -------------------------------------------------------------------------------------------------------- */

static struct {
    uint8_t  data[1 << 16];
    size_t   size;
    uint64_t total, limit;
} out;

static void give_up(void) { _exit(1); }

static void write_all(const uint8_t *p, size_t size)
{
    while (size) {
        const ssize_t n = write(STDOUT_FILENO, p, size);
        if (n < 0 && errno != EINTR) give_up();
        if (n > 0) {
            p += n;
            size -= (size_t)n;
        }
    }
}

static void flush(void)
{
    write_all(out.data, out.size);
    out.size = 0;
}

static void send_bytes(const void *data, size_t size)
{
    if (size > sizeof out.data - out.size) flush();
    if (size > sizeof out.data) {
        write_all(data, size);
        return;
    }
    if (size) memcpy(out.data + out.size, data, size);
    out.size += size;
}

static void send_number(uint64_t x, int bytes)
{
    uint8_t b[8];
    for (int i = 0; i < bytes; i++)
        b[i] = (uint8_t)(x >> 8 * i);
    send_bytes(b, (size_t)bytes);
}

static void send_frame(lki_h5p_frame what, uint64_t size)
{
    send_number(what, 4);
    send_number(0, 4);
    send_number(size, 8);
}

static void read_all(void *to, size_t size)
{
    uint8_t *p = to;
    while (size) {
        const ssize_t n = read(STDIN_FILENO, p, size);
        if (n == 0 || (n < 0 && errno != EINTR)) give_up();
        if (n > 0) {
            p += n;
            size -= (size_t)n;
        }
    }
}

/* ---- shared functions ----------------------------------------------------------------------------------------------------- */

void refuse(lki_h5p_frame why, const char *format, ...)
{
    char    text[900];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    send_frame(why, strlen(text));
    send_bytes(text, strlen(text));
    flush();
    _exit(0);
}

void *allocate(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) refuse(LKI_H5P_NO_MEMORY, "the helper has no %zu bytes", bytes);
    return p;
}

/* Counted before any part of the frame is sent: an answer that grows too large ends between two frames. */
void put_frame(lki_h5p_frame what, uint64_t size)
{
    if (size > out.limit || out.total + LKI_H5P_FRAME > out.limit - size)
        refuse(LKI_H5P_REFUSED, "its contents have more than %llu bytes: too much for its size", (unsigned long long)out.limit);
    out.total += LKI_H5P_FRAME + size;
    note_progress();
    send_frame(what, size);
}

void put(const void *data, size_t size) { send_bytes(data, size); }

void put_item(const item *i)
{
    put_frame(LKI_H5P_ITEM, LKI_H5P_ITEM_FIXED + 8 * (uint64_t)i->rank + i->name_size + i->size);
    send_bytes((uint8_t[]){i->kind, i->values, (uint8_t)i->rank, 0}, 4);
    send_number(i->name_size, 4);
    send_number(i->texts, 4);
    send_number(0, 4);
    send_number(i->size, 8);
    for (int a = 0; a < i->rank; a++)
        send_number(i->dim[a], 8);
    send_bytes(i->name, i->name_size);
}

static herr_t innermost(unsigned n, const H5E_error2_t *e, void *text)
{
    if (n == 0) snprintf(text, 200, "%s (%s)", e->desc ? e->desc : "?", e->func_name ? e->func_name : "?");
    return 0;
}

const char *reason(void)
{
    static char text[200];
    strcpy(text, "libhdf5 does not say why");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, text);
    return text;
}

hid_t half_type(void)
{
    const hid_t t = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(t, 15, 10, 5, 0, 10);
    H5Tset_size(t, 2);
    H5Tset_ebias(t, 15);
    return t;
}

/* ---- one request ------------------------------------------------------------------------------------------------------------- */

static uint64_t number_at(const uint8_t *p, int bytes)
{
    uint64_t x = 0;
    for (int i = bytes; i-- > 0;)
        x = x << 8 | p[i];
    return x;
}

/* Close files that the caller left open. */
static void close_others(void)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0) return;
#endif
    for (int d = 3; d < 1024; d++)
        close(d);
}

/* libhdf5 starts before the sandbox; it must neither print nor load code that a file asks for. */
static void start_library(void)
{
    unsigned no_plugins = 0;
    H5dont_atexit();
    if (H5open() < 0) give_up();
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5PLset_loading_state(no_plugins);
}

/* Processor time for one item: some files make libhdf5 loop, and small ones should not loop for long. */
static uint64_t seconds_for(uint64_t size, uint64_t patience)
{
    enum { USUAL = 10 };
    return patience ? patience : USUAL + (size >> 22);
}

/* The file, its copies within libhdf5, the values of one item, and a chunk of them in addition. */
static uint64_t memory_for(uint64_t size)
{
    const uint64_t values = out.limit < UINT64_MAX / 8 ? out.limit : UINT64_MAX / 8;
    return 4 * size + 2 * values;
}

static void answer(void)
{
    uint8_t head[LKI_H5P_REQUEST];
    read_all(head, sizeof head);
    const uint64_t mode = number_at(head + 8, 4), size = number_at(head + 16, 8);
    if (number_at(head, 8) != LKI_H5P_MAGIC || size > SIZE_MAX / 8) give_up();
    out.limit = number_at(head + 24, 8);
    start_library();
    fence(memory_for(size), seconds_for(size, number_at(head + 12, 4)));
    void *payload = allocate((size_t)size);
    read_all(payload, (size_t)size);
    if (mode == LKI_H5P_READ) read_file(payload, (size_t)size, out.limit);
    else if (mode == LKI_H5P_WRITE) write_file(payload, (size_t)size);
    else give_up();
    send_frame(LKI_H5P_DONE, 0);
    flush();
}

static int tell_version(void)
{
    unsigned major, minor, patch;
    H5get_libversion(&major, &minor, &patch);
    printf("lockstep-h5: HDF5 %u.%u.%u\n", major, minor, patch);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) return tell_version();
    if (argc != 1) return fprintf(stderr, "usage: lockstep-h5 [--version]\n"), 1;
    close_others();
    end_with_parent();
    answer();
    _exit(0); /* nothing to clean up */
}
