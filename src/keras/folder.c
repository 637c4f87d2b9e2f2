/* Folders of checkpoints (file.h): with a state file, as TensorFlow and lk_checkpoint_save() write it, or only numbered, like
 * backups. */
#include "core/memory.h"
#include "core/names.h"
#include "format/checkpoint_state.h"
#include "format/durable.h"
#include "keras/file.h"
#include <dirent.h>
#include <lockstep/checkpoint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *lki_path_in(const char *folder, const char *name)
{
    return lki_text_new("%s%s%s", folder, *folder && folder[strlen(folder) - 1] == '/' ? "" : "/", name);
}

void lki_checkpoints_free(lki_checkpoints *c)
{
    for (int i = 0; i < c->count; i++)
        lki_release(c->name[i]);
    lki_release(c->name);
    lki_release(c->folder);
    lki_release(c->latest);
    *c = (lki_checkpoints){0};
}

/* The number after the last dash; -1: none. */
static long long number_of(const char *name)
{
    const char *dash = strrchr(name, '-');
    return dash && dash[1] >= '0' && dash[1] <= '9' ? strtoll(dash + 1, NULL, 10) : -1;
}

static int by_number(const void *a, const void *b)
{
    const char     *x = *(char *const *)a, *y = *(char *const *)b;
    const long long m = number_of(x), n = number_of(y);
    return m != n ? (m < n ? -1 : 1) : strcmp(x, y);
}

static lk_status list(lki_checkpoints *c)
{
    DIR      *d = opendir(c->folder);
    lk_status status = LK_OK;
    for (const struct dirent *e; d && status == LK_OK && (e = readdir(d));) {
        const size_t n = strlen(e->d_name);
        if (n <= 6 || strcmp(e->d_name + n - 6, ".index") != 0) continue;
        char *name = lki_path_join(e->d_name, n - 6, "");
        if (name && lki_grow((void **)&c->name, &c->room, c->count + 1, sizeof *c->name)) c->name[c->count++] = name;
        else lki_release(name), status = LK_ENOMEM;
    }
    if (d) closedir(d);
    if (c->count) qsort(c->name, (size_t)c->count, sizeof *c->name, by_number);
    return status;
}

/* The one that its state file names; else the one with the highest number. */
static lk_status find_latest(lki_checkpoints *c)
{
    char *state LKI_RELEASED = lki_path_in(c->folder, LKI_CHECKPOINT_STATE_NAME);
    if (!state) return LK_ENOMEM;
    LK_POOL {
        const char *latest = access(state, F_OK) == 0 ? lk_latest_checkpoint(c->folder) : NULL;
        c->latest = latest ? lki_strdup(latest) : lki_path_in(c->folder, c->name[c->count - 1]);
    }
    return c->latest ? LK_OK : LK_ENOMEM;
}

lk_status lki_checkpoints_list(const char *folder, lki_checkpoints *out)
{
    *out = (lki_checkpoints){.folder = lki_strdup(folder)};
    lk_status status = out->folder ? list(out) : LK_ENOMEM;
    if (status == LK_OK && !out->count) { /* a run's folder, from `lockstep train --save` */
        lki_release(out->folder);
        out->folder = lki_path_in(folder, "backup");
        status = out->folder ? list(out) : LK_ENOMEM;
    }
    if (status == LK_OK && !out->count) status = lki_fail(LK_ENOTFOUND, "%s: a folder without a checkpoint in it", folder);
    if (status == LK_OK) status = find_latest(out);
    if (status != LK_OK) lki_checkpoints_free(out);
    return status;
}
