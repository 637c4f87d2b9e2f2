/* Files of backups (backup_files.h). */
#include "fit/backup_files.h"
#include "core/memory.h"
#include "core/names.h"
#include "format/durable.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static const char NAME[] = "backup-", INDEX[] = ".index";

char *lki_backup_prefix(const char *folder, int64_t number) { return lki_text_new("%s/%s%lld", folder, NAME, (long long)number); }

/* The number in "backup-12.index", and the text after it in *behind; 0: not a file of a backup. */
static int64_t number_of(const char *name, const char **behind)
{
    char *end;
    if (strncmp(name, NAME, sizeof NAME - 1) != 0 || name[sizeof NAME - 1] < '1' || name[sizeof NAME - 1] > '9') return 0;
    errno = 0;
    const long long number = strtoll(name + sizeof NAME - 1, &end, 10);
    *behind = end;
    return errno || number >= INT64_MAX / 2 ? 0 : number;
}

static const char *behind_digits(const char *text, int least)
{
    int n = 0;
    while (text[n] >= '0' && text[n] <= '9')
        n++;
    return n >= least ? text + n : "?";
}

static const char *behind_word(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0 ? text + strlen(word) : "?";
}

/* The kind of a file by the end of its name: ".index" or ".data-00000-of-00001", followed by ".<process>.<number>.tmp" while the
 * file is being written. Any other file is foreign. */
typedef enum ending { FOREIGN, WHOLE, BEGUN } ending;

static ending ending_of(const char *text)
{
    const char *rest = behind_word(text, INDEX);
    if (*rest == '?') rest = behind_digits(behind_word(behind_digits(behind_word(text, ".data-"), 5), "-of-"), 5);
    if (!*rest) return WHOLE;
    rest = behind_word(behind_digits(behind_word(behind_digits(behind_word(rest, "."), 1), "."), 1), ".tmp");
    return *rest ? FOREIGN : BEGUN;
}

/* The lock of a killed process may outlive it for a moment: a child that it was starting holds the descriptor until its exec. So
 * retry for two seconds. */
static bool is_taken(int folder)
{
    enum { TRIES = 200, PAUSE = 10 * 1000 * 1000 }; /* two seconds */
    bool taken = true;
    for (int i = 0; taken && i < TRIES; i++) {
        if (i) nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
        taken = flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    }
    return taken;
}

lk_status lki_backup_lock(const char *folder, bool make, int *lock)
{
    char *inside LKI_RELEASED = make ? lki_backup_prefix(folder, 1) : NULL;
    LKI_TRY(!make ? LK_OK : inside ? lki_folder_make(inside) : LK_ENOMEM);
    *lock = lki_open(folder, O_RDONLY | O_DIRECTORY);
    if (*lock < 0 && errno == ENOENT && !make) return LK_OK;
    if (*lock < 0) return lki_fail(LK_EIO, "lk_backup_and_restore: %s: %s", folder, strerror(errno));
    if (!is_taken(*lock)) return LK_OK;
    lki_backup_unlock(lock);
    return lki_fail(LK_ESTATE, "lk_backup_and_restore: another training keeps its backups in %s; give this one another folder",
                    folder);
}

void lki_backup_unlock(int *lock)
{
    if (*lock >= 0) close(*lock);
    *lock = -1;
}

/* Remove an unfinished file, unless its writer is alive: a writer holds a lock on the file it writes. */
static void remove_begun(int folder, const char *name)
{
    const int file = lki_openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) unlinkat(folder, name, 0);
    close(file);
}

typedef bool wanted_fn(const void *what, int64_t number);

/* Remove the files of all backups that are not `wanted`, and all unfinished files. */
static void sweep(const char *folder, wanted_fn *wanted, const void *what)
{
    DIR        *d = opendir(folder);
    const char *behind;
    for (const struct dirent *e; d && (e = readdir(d));) {
        const int64_t number = number_of(e->d_name, &behind);
        if (!number) continue;
        const ending end = ending_of(behind);
        if (end == BEGUN) remove_begun(dirfd(d), e->d_name);
        else if (end == WHOLE && !wanted(what, number)) unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d) closedir(d);
}

static bool is_one_of(const void *what, int64_t number)
{
    return number == ((const int64_t *)what)[0] || number == ((const int64_t *)what)[1];
}
static bool is_another(const void *what, int64_t number) { return number != *(const int64_t *)what; }

/* The index first: without it there is no checkpoint, so that no crash leaves an index without its data. */
void lki_backup_remove(const char *folder, int64_t number)
{
    char *index LKI_RELEASED = lki_text_new("%s/%s%lld%s", folder, NAME, (long long)number, INDEX);
    if (!index) return;
    unlink(index);
    sweep(folder, is_another, &number);
}

static lk_status list_all(const char *folder, lki_backup_list *out)
{
    const char *behind;
    DIR        *d = opendir(folder);
    lk_status   status = d || errno == ENOENT ? LK_OK : lki_fail(LK_EIO, "lk_backup_and_restore: %s: %s", folder, strerror(errno));
    for (const struct dirent *e; d && status == LK_OK && (e = readdir(d));) {
        const int64_t number = number_of(e->d_name, &behind);
        if (!number || strcmp(behind, INDEX) != 0) continue;
        if (!lki_grow((void **)&out->number, &out->room, out->count + 1, sizeof *out->number)) status = LK_ENOMEM;
        else out->number[out->count++] = number;
    }
    if (d) closedir(d);
    return status;
}

static int newest_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

static bool is_listed(const void *what, int64_t number)
{
    const lki_backup_list *list = what;
    for (int i = 0; i < list->count; i++)
        if (list->number[i] == number) return true;
    return false;
}

lk_status lki_backup_list_of(const char *folder, lki_backup_list *out)
{
    LKI_TRY(list_all(folder, out));
    if (out->count) qsort(out->number, (size_t)out->count, sizeof *out->number, newest_first);
    sweep(folder, is_listed, out);
    return LK_OK;
}

void lki_backup_prune(const char *folder, int64_t keep, int64_t and_keep)
{
    lki_backup_list list = {0};
    const int64_t   kept[2] = {keep, and_keep};
    LKI_SCOPE_ERRORS;
    if (list_all(folder, &list) == LK_OK)
        for (int i = 0; i < list.count; i++)
            if (!is_one_of(kept, list.number[i])) lki_backup_remove(folder, list.number[i]);
    lk_clear_error(); /* this error is dropped */
    lki_release(list.number);
    sweep(folder, is_one_of, kept);
}

void lki_backup_remove_folder(const char *folder) { rmdir(folder); }
