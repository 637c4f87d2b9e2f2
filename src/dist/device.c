/* Device names, and which devices a strategy gets.
 *
 *     GPU:0   /gpu:0   /device:GPU:0   cpu:1   /job:localhost/replica:0/task:0/device:CPU:1
 *
 * A name consists of parts separated by '/', each "key:value", the last one "TYPE:index" or "device:TYPE:index"; missing parts are
 * job localhost, replica 0, task 0, type CPU, index 0. Names are kept, compared, printed and returned in the full form. */
#include "dist/device.h"
#include "core/error.h"
#include "core/list.h"
#include "core/memory.h"
#include "core/names.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- lists of names ---- */

typedef struct names_object {
    lki_object  object;
    int         count;
    const char *item[];
} names_object;

static void names_destroy(void *object)
{
    names_object *n = object;
    for (int i = 0; i < n->count; i++)
        lki_release((char *)n->item[i]);
}

lk_names lki_names_new(int count, const char *const *items, lki_life life)
{
    names_object *n = lki_object_new(sizeof *n + (size_t)count * sizeof n->item[0], LKI_KIND_OTHER, life, names_destroy);
    if (!n) return (lk_names){-1, NULL};
    while (n->count < count && (n->item[n->count] = lki_strdup(items[n->count] ? items[n->count] : "")))
        n->count++;
    if (n->count == count) return (lk_names){count, n->item};
    if (life == LKI_LIVES_BY_REFERENCE) lki_drop(n);
    return (lk_names){-1, NULL};
}

void lki_names_drop(lk_names names)
{
    if (names.item) lki_drop((char *)names.item - offsetof(names_object, item));
}

lk_names lk_names_of(int count, const char *const *one_based)
{
    if (!lki_list_given("lk_names_of", count, one_based)) return (lk_names){-1, NULL};
    return lki_names_new(count, one_based ? one_based + 1 : NULL, LKI_LIVES_IN_POOL);
}

/* ---- one name ---- */

static bool number_of(const char *text, int *out)
{
    char *end;
    long  value = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || value > 1 << 20) return false;
    *out = (int)value;
    return true;
}

static bool type_of(const char *text, lki_device_name *d)
{
    const char *type = lki_device_type(text);
    if (type) snprintf(d->type, sizeof d->type, "%s", type);
    return type != NULL;
}

/* "job:worker", "task:1", "device:GPU:0", "GPU:0", "gpu" */
static bool part_of(char *part, lki_device_name *d)
{
    char *colon = strchr(part, ':');
    if (!strncasecmp(part, "device:", 7)) return part_of(part + 7, d);
    if (colon) *colon++ = 0;
    if (!strcasecmp(part, "job")) return colon && *colon && strlen(colon) < sizeof d->job && strcpy(d->job, colon);
    if (!strcasecmp(part, "replica")) return colon && number_of(colon, &d->replica);
    if (!strcasecmp(part, "task")) return colon && (d->has_task = number_of(colon, &d->task));
    return type_of(part, d) && (!colon || number_of(colon, &d->index));
}

bool lki_device_name_parse(const char *text, lki_device_name *d)
{
    char copy[128], *at = copy, *part;
    *d = (lki_device_name){.job = "localhost", .type = "CPU"};
    if (!text || !*text || strlen(text) >= sizeof copy) return false;
    strcpy(copy, text);
    while ((part = strsep(&at, "/")))
        if (*part && !part_of(part, d)) return false;
    snprintf(d->full, sizeof d->full, "/job:%s/replica:%d/task:%d/device:%s:%d", d->job, d->replica, d->task, d->type, d->index);
    return true;
}

/* ---- the devices of a strategy ---- */

static const char *listed(char *text, size_t size)
{
    text[0] = 0;
    for (int i = 0; i < lki_device_count(NULL); i++)
        lki_names_add(text, size, lki_device_at(NULL, i)->name);
    return text;
}

static lk_status check_name(const char *call, const lk_names *names, int i, lki_device_name *d)
{
    if (!lki_device_name_parse(names->item[i], d))
        return lki_fail(LK_EINVAL, "%s: \"%s\" is not a device; write \"CPU:0\", \"GPU:1\", \"/device:CPU:0\" or the full form",
                        call, names->item[i] ? names->item[i] : "");
    if (strcmp(d->job, "localhost") && !d->has_task)
        return lki_fail(LK_EINVAL, "%s: the remote device %s has no task number; write /job:%s/task:0/...", call, names->item[i],
                        d->job);
    return LK_OK;
}

static lk_status check_jobs(const char *call, int count, const lki_device_name *d)
{
    bool local = false, remote = false, many = false;
    for (int i = 0; i < count; i++) {
        local = local || !strcmp(d[i].job, "localhost");
        remote = remote || strcmp(d[i].job, "localhost");
        many = many || strcmp(d[i].job, d[0].job) || d[i].task != d[0].task;
    }
    if (local && remote) return lki_fail(LK_EINVAL, "%s: local and remote devices cannot be mixed", call);
    if (many)
        return lki_fail(LK_EINVAL, "%s: the devices belong to more than one worker; that needs the multi-worker strategy", call);
    return LK_OK;
}

/* Logical CPU devices are made when they are named, without gaps, unless the user fixed their number. */
static void make_named(int count, const lki_device_name *d)
{
    int have = lki_cpu_devices();
    for (bool again = !lki_cpu_devices_fixed(); again;) {
        again = false;
        for (int i = 0; i < count; i++)
            if (d[i].index == have && !strcmp(d[i].type, "CPU") && have < LKI_MOST_CPU_DEVICES) {
                have++;
                again = true;
            }
    }
    bool complete = true;
    for (int i = 0; i < count; i++)
        complete = complete && (strcmp(d[i].type, "CPU") || d[i].index < have);
    if (complete) lki_cpu_devices_raise(have);
}

/* Only this process's devices exist here. */
static lk_status find_device(const char *call, const lki_device_name *d, lki_device **out)
{
    char text[512];
    bool here = !strcmp(d->job, "localhost") && !d->replica && !d->task;
    *out = here ? lki_device_at(d->type, d->index) : NULL;
    if (*out) return LK_OK;
    return lki_fail(LK_EINVAL, "%s: there is no device %s; there are %s (%s)", call, d->full, listed(text, sizeof text),
                    lki_device_why(d->type));
}

lk_status lki_device_find(const char *call, const char *text, lki_device_name *out)
{
    lki_device *device;
    LKI_TRY(check_name(call, &(lk_names){1, &text}, 0, out));
    return find_device(call, out, &device);
}

static lk_status check_devices(const char *call, int count, lki_device_name *d, lki_device **out)
{
    LKI_TRY(check_jobs(call, count, d));
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(d[i].full, d[j].full))
                return lki_fail(LK_EINVAL, "%s: duplicates are not allowed: %s is device %d and %d", call, d[i].full, j, i);
    make_named(count, d);
    for (int i = 0; i < count; i++)
        LKI_TRY(find_device(call, &d[i], &out[i]));
    return LK_OK;
}

const char *lk_gpu_note(void)
{
    static _Thread_local char text[800];
    lki_devices_note(text, sizeof text);
    return text;
}

const char *lk_gpu_words(const char *device)
{
    static _Thread_local char text[192];
    lki_device_name           d;
    lki_device               *found = device && lki_device_name_parse(device, &d) ? lki_device_at(d.type, d.index) : NULL;
    text[0] = 0;
    if (found && found->ops->words) found->ops->words(found, text, sizeof text);
    return text;
}

int lki_devices_default(void) { return lki_device_count(lki_device_best_type()); }

lk_status lki_devices_resolve(const char *call, lk_names asked, lk_names *canonical, lki_device ***devices)
{
    int              count = asked.count > 0 ? asked.count : lki_devices_default();
    lki_device_name *d LKI_RELEASED = lki_zalloc_array(count, sizeof *d);
    const char     **full LKI_RELEASED = lki_zalloc_array(count, sizeof *full);
    lki_device     **out = lki_zalloc_array(count, sizeof *out);
    lk_status        status = d && full && out ? LK_OK : LK_ENOMEM;
    for (int i = 0; i < count && status == LK_OK; i++) {
        char name[24] = "";
        if (asked.count <= 0) snprintf(name, sizeof name, "%s:%d", lki_device_best_type(), i);
        const char *one = name;
        lk_names    own = {1, &one};
        status = asked.count > 0 ? check_name(call, &asked, i, &d[i]) : check_name(call, &own, 0, &d[i]);
        full[i] = d[i].full;
    }
    if (status == LK_OK) status = check_devices(call, count, d, out);
    if (status == LK_OK) {
        *canonical = lki_names_new(count, full, LKI_LIVES_BY_REFERENCE);
        status = canonical->item ? LK_OK : LK_ENOMEM;
    }
    if (status == LK_OK) *devices = out;
    else lki_release(out);
    return status;
}

lk_names lk_list_devices(void)
{
    enum { MOST = 2048 };
    const char  *every[MOST];
    int          count = 0;
    lk_names     names = {0};
    lki_device **devices LKI_RELEASED = NULL;
    for (int i = 0; i < lki_device_count(NULL) && count < MOST; i++)
        every[count++] = lki_device_at(NULL, i)->name;
    if (lki_devices_resolve("lk_list_devices", (lk_names){count, every}, &names, &devices) != LK_OK) return (lk_names){0};
    lk_names copy = lki_names_new(names.count, names.item, LKI_LIVES_IN_POOL);
    lki_names_drop(names);
    return copy;
}
