/* Digests of files (stamps.h). */
#include "stamps.h"
#include "core/sha256.h"
#include "files.h"
#include "paths.h"
#include "session.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct digests {
    lki_sha256 stamp, digest;
    bool       bytes; /* the digest is of all bytes */
    bool       with_digest, failed;
} digests;

static void add_text(lki_sha256 *s, const char *text) { lki_sha256_add(s, text, strlen(text) + 1); }

static void add_bytes(digests *d, const char *path)
{
    enum { PIECE = 1 << 16 };
    static char piece[PIECE];
    FILE       *file = cli_open_to_read(path);
    size_t      got;
    while (file && (got = fread(piece, 1, PIECE, file)) > 0)
        lki_sha256_add(&d->digest, piece, got);
    d->failed = d->failed || !file || ferror(file);
    if (file) fclose(file);
}

static void add_file(digests *d, const char *path, const struct stat *s)
{
    char text[96];
    snprintf(text, sizeof text, "%" PRId64 " bytes", (int64_t)s->st_size);
    add_text(&d->digest, text);
    if (d->with_digest && d->bytes) add_bytes(d, path);
    snprintf(text, sizeof text, "%" PRId64 " bytes of %" PRId64 ".%09ld", (int64_t)s->st_size, (int64_t)s->st_mtim.tv_sec,
             (long)s->st_mtim.tv_nsec);
    add_text(&d->stamp, text);
}

static int no_dots(const struct dirent *e) { return e->d_name[0] != '.'; }
static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* Folders in the order of their names, `depth` deep. */
static void add_path(digests *d, const char *path, int depth)
{
    struct stat     s;
    struct dirent **entry = NULL;
    if (stat(path, &s) != 0) d->failed = true;
    else if (S_ISREG(s.st_mode)) add_file(d, path, &s);
    if (d->failed || !S_ISDIR(s.st_mode) || depth < 0) return;
    const int count = scandir(path, &entry, no_dots, by_bytes);
    d->failed = count < 0;
    for (int i = 0; i < count; i++) {
        char inside[CLI_MOST_PATH];
        add_text(&d->digest, entry[i]->d_name);
        add_text(&d->stamp, entry[i]->d_name);
        if (!d->failed) add_path(d, cli_path_in(path, entry[i]->d_name, inside), depth - 1);
        free(entry[i]);
    }
    free(entry);
}

static void end(lki_sha256 *s, char text[65])
{
    uint8_t digest[32];
    lki_sha256_end(s, digest);
    for (int i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

bool cli_stamps_of(const cli_source *s, bool with_digest, cli_stamps *out)
{
    enum { DEPTH = 3 }; /* train/, a class, its pictures */
    const char *one_based[CLI_MOST_NAMES + 1];
    digests     d = {.with_digest = with_digest};
    if (!s->text || !s->kind || cli_is_named(s->text)) return false;
    const bool one = cli_is_file(s->text) || cli_is_folder(s->text);
    const int  count = one ? 1 : cli_split(s->text, one_based);
    if (one) one_based[1] = s->text;
    d.bytes = strcmp(s->kind, "pictures") != 0;
    lki_sha256_begin(&d.stamp);
    lki_sha256_begin(&d.digest);
    for (int i = 1; i <= count && !d.failed; i++)
        add_path(&d, one_based[i], DEPTH);
    end(&d.stamp, out->stamp);
    end(&d.digest, out->digest);
    return !d.failed;
}
