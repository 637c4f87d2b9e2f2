/* Pictures in files: one, and a folder of folders as a dataset.
 *
 * Invariants
 *  1. Names are read when the dataset is made, in the order of their bytes; pictures when their pixels are needed: a shuffle holds
 *     numbers, batch() decodes the pictures of a batch, on several threads.
 *  2. The content of a row depends on its number and the files only. If several are damaged, the first one is reported. */
#include "core/lock.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/random.h"
#include "core/rounding.h"
#include "core/thread.h"
#include "data/data.h"
#include "dist/device.h"
#include "format/durable.h"
#include "format/image.h"
#include "format/png.h"
#include "op/op.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MOST_PARALLEL = 256, MOST_SIDE = 1 << 14, DEFAULT_SEED = 1 };

/* ---- lists of names ---- */

typedef struct list {
    char **item;
    int    count, room;
} list;

static void list_free(list *l)
{
    for (int i = 0; i < l->count; i++)
        lki_release(l->item[i]);
    lki_release(l->item);
    *l = (list){0};
}

static lk_status list_add(list *l, const char *name)
{
    if (!lki_grow((void **)&l->item, &l->room, l->count + 1, sizeof *l->item)) return LK_ENOMEM;
    l->item[l->count] = lki_strdup(name);
    if (!l->item[l->count]) return LK_ENOMEM;
    l->count++;
    return LK_OK;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The contents of a folder, sorted; names that begin with a dot are ignored. */
static lk_status list_folder(const char *call, const char *folder, list *out)
{
    DIR *d = opendir(folder);
    if (!d) return lki_fail(errno == ENOENT ? LK_ENOTFOUND : LK_EIO, "%s: %s: %s", call, folder, strerror(errno));
    lk_status status = LK_OK;
    for (const struct dirent *e; status == LK_OK && (errno = 0, e = readdir(d));)
        if (e->d_name[0] != '.') status = list_add(out, e->d_name);
    if (status == LK_OK && errno) status = lki_fail(LK_EIO, "%s: %s: %s", call, folder, strerror(errno));
    closedir(d);
    if (status == LK_OK && out->count) qsort(out->item, (size_t)out->count, sizeof *out->item, by_bytes);
    return status;
}

static char *path_of(const char *folder, const char *name) { return lki_text_new("%s/%s", folder, name); }

static bool is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool is_picture(const char *name)
{
    static const char *const ends[] = {".png", ".jpg", ".jpeg"};
    const size_t             n = strlen(name);
    for (int i = 0; i < LKI_COUNT(ends); i++) {
        const size_t k = strlen(ends[i]);
        if (n > k && strcasecmp(name + n - k, ends[i]) == 0) return true;
    }
    return false;
}

/* ---- the pictures of a folder ---- */

typedef struct picture {
    char   *path;
    int64_t label;
} picture;

typedef struct gallery {
    picture *item;
    int      count, room;
    list     classes;
    int      others;     /* files that are not pictures */
    char     other[256]; /* the first of them */
} gallery;

static void gallery_free(gallery *g)
{
    for (int i = 0; i < g->count; i++)
        lki_release(g->item[i].path);
    lki_release(g->item);
    list_free(&g->classes);
}

static void note_other(gallery *g, const char *path)
{
    if (!g->others++) snprintf(g->other, sizeof g->other, "%s", path);
}

/* Takes over the path. */
static lk_status add_picture(gallery *g, char *path, int64_t label)
{
    if (!lki_grow((void **)&g->item, &g->room, g->count + 1, sizeof *g->item)) return lki_release(path), LK_ENOMEM;
    g->item[g->count++] = (picture){path, label};
    return LK_OK;
}

static lk_status add_class(const char *call, gallery *g, const char *folder, const char *name)
{
    list          files LKI_FREED_BY(list_free) = {0};
    const int64_t label = g->classes.count;
    lk_status     status = list_add(&g->classes, name);
    if (status == LK_OK) status = list_folder(call, folder, &files);
    for (int i = 0; i < files.count && status == LK_OK; i++) {
        char *path = path_of(folder, files.item[i]);
        if (!path) status = LK_ENOMEM;
        else if (is_picture(files.item[i]) && !is_folder(path)) status = add_picture(g, path, label);
        else {
            note_other(g, path);
            lki_release(path);
        }
    }
    return status;
}

static lk_status list_gallery(const char *call, const char *folder, gallery *g)
{
    list entries LKI_FREED_BY(list_free) = {0};
    LKI_TRY(list_folder(call, folder, &entries));
    for (int i = 0; i < entries.count; i++) {
        char *path LKI_RELEASED = path_of(folder, entries.item[i]);
        if (!path) return LK_ENOMEM;
        if (is_folder(path)) LKI_TRY(add_class(call, g, path, entries.item[i]));
        else note_other(g, path);
    }
    if (!g->count)
        return lki_fail(LK_ENOTFOUND,
                        "%s: no pictures in %s; they should be in a folder per class, %s/<class>/<name>.png, .jpg or .jpeg", call,
                        folder, folder);
    if (g->others)
        lki_warn("%s: %d files in %s are not .png, .jpg or .jpeg and are skipped; the first is %s", call, g->others, folder,
                 g->other);
    return LK_OK;
}

/* ---- a fraction of them ---- */

typedef struct ticket {
    uint64_t number;
    int      index;
} ticket;

static int by_number(const void *a, const void *b)
{
    const ticket *x = a, *y = b;
    return x->number != y->number ? (x->number < y->number ? -1 : 1) : x->index - y->index;
}

/* Every picture draws a number; those with the smallest numbers go to LK_TEST. The order does not change. */
static lk_status keep_share(gallery *g, double share, uint64_t seed, lk_split_of split)
{
    const int held_out = (int)(share * g->count);
    ticket   *drawn LKI_RELEASED = lki_alloc_array(g->count, sizeof *drawn);
    bool     *tested LKI_RELEASED = lki_zalloc_array(g->count, sizeof *tested);
    int       kept = 0;
    for (int i = 0; drawn && i < g->count; i++)
        drawn[i] = (ticket){lki_mix(seed, (uint64_t)i), i};
    if (drawn) qsort(drawn, (size_t)g->count, sizeof *drawn, by_number);
    for (int i = 0; drawn && tested && i < held_out; i++)
        tested[drawn[i].index] = true;
    for (int i = 0; drawn && tested && i < g->count; i++)
        if (tested[i] == (split == LK_TEST)) g->item[kept++] = g->item[i];
        else lki_release(g->item[i].path);
    const bool good = drawn && tested;
    if (good) g->count = kept;
    return good ? LK_OK : LK_ENOMEM;
}

/* ---- decoding ---- */

static lk_status decode_file(const char *path, int channels, lki_image *out)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    LKI_TRY(lki_file_read(path, &bytes));
    return lki_image_decode(path, bytes.data, bytes.size, channels, out);
}

typedef struct folder_node {
    lki_rows_node rows;
    lki_column    column[2];
    gallery       gallery;
    int           channels, parallel;
} folder_node;

static lk_status decode_row(const folder_node *n, int64_t row, float *pixels, int64_t *label)
{
    const picture  *p = &n->gallery.item[row];
    const lk_shape *s = &n->column[0].shape;
    lki_image       image LKI_FREED_BY(lki_image_free) = {0};
    LKI_TRY(decode_file(p->path, n->channels, &image));
    lki_image_resize(&image, s->dim[0], s->dim[1], pixels);
    *label = p->label;
    return LK_OK;
}

/* Free threads take rows one by one, in order; so the rows before a broken one have been processed, too. */
typedef struct work {
    const folder_node *node;
    const lki_element *e;
    int64_t            count, next; /* next: atomic */
    float             *pixels;
    int64_t           *label;
    lki_mutex          lock;   /* of what follows */
    int64_t            failed; /* the first row that is broken; count: none */
    lki_error_record   error;
} work;

static void note_failure(work *w, int64_t i)
{
    lki_error_record e;
    lki_error_take(&e);
    lki_mutex_take(&w->lock);
    if (i < w->failed) {
        w->failed = i;
        w->error = e;
    }
    lki_mutex_give(&w->lock);
    __atomic_store_n(&w->next, w->count, __ATOMIC_RELAXED);
}

static void *decode_some(void *arg)
{
    work         *w = arg;
    const int64_t size = lki_shape_size(&w->node->column[0].shape);
    for (int64_t i; (i = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED)) < w->count;)
        if (decode_row(w->node, w->e[i].row, w->pixels + i * size, w->label + i) != LK_OK) note_failure(w, i);
    return NULL;
}

/* This thread and others, which end with the batch: starting one takes little time compared with decoding a picture. */
static lk_status make(const lk_dataset *d, int64_t n, const lki_element *e, lk_tensor *const *out)
{
    lki_thread thread[MOST_PARALLEL];
    int        threads = 0;
    work       w = {.node = (const folder_node *)d, .e = e, .count = n, .failed = n, .pixels = out[0]->data, .label = out[1]->data};
    lki_mutex_init(&w.lock);
    const int64_t    want = lki_min(n, w.node->parallel) - 1;
    lki_error_record before;
    lki_error_take(&before);
    while (threads < want && lki_thread_start(d->ops->name, decode_some, &w, &thread[threads]) == LK_OK)
        threads++;
    lk_clear_error(); /* with fewer threads it takes longer */
    decode_some(&w);
    for (int i = 0; i < threads; i++)
        lki_thread_join(&thread[i]);
    lki_mutex_destroy(&w.lock);
    lki_error_put(before.code != LK_OK ? &before : &w.error);
    return w.failed < n ? w.error.code : LK_OK;
}

/* ---- the source ---- */

static void folder_destroy(lk_dataset *d)
{
    gallery_free(&((folder_node *)d)->gallery);
    lki_rows_destroy(d);
}

/* Files may have changed by the time an iteration begins: none is read early. */
static const lki_dataset_ops ops = {LKI_ROWS_OPS("lk_image_folder"), .make = make, .destroy = folder_destroy};

static lk_status check(const lk_image_folder_args *a)
{
    const char  *call = ops.name;
    const double seed = lki_number(a->seed), share = a->validation_split;
    if (!a->folder || !*a->folder) return lki_fail(LK_EINVAL, "%s: no .folder", call);
    if (a->height < 1 || a->width < 1 || a->height > MOST_SIDE || a->width > MOST_SIDE)
        return lki_fail(LK_EINVAL, "%s: .height = %lld, .width = %lld; pictures are resized to it, 1 to %d", call,
                        (long long)a->height, (long long)a->width, MOST_SIDE);
    const int64_t channels = lki_integer_or(a->channels, 3);
    if (channels != 1 && channels != 3)
        return lki_fail(LK_EINVAL, "%s: .channels = %lld; it must be 1 (grey) or 3 (colour)", call, (long long)channels);
    if (a->parallel < 0 || a->parallel > MOST_PARALLEL)
        return lki_fail(LK_EINVAL, "%s: .parallel = %d; it must be 1 to %d", call, a->parallel, MOST_PARALLEL);
    if ((unsigned)a->split > LK_TEST)
        return lki_fail(LK_EINVAL, "%s: .split = %d; it must be LK_TRAIN or LK_TEST", call, (int)a->split);
    if (!(share >= 0 && share < 1) || (share == 0 && a->split == LK_TEST))
        return lki_fail(LK_EINVAL, "%s: .validation_split = %g; LK_TEST gets that share of the pictures, above 0 and below 1", call,
                        share);
    if (!(seed >= 0 && seed <= 0x1p53 && seed == floor(seed)))
        return lki_fail(LK_EINVAL, "%s: .seed = %g; it must be an integer from 0 to 2^53", call, seed);
    return LK_OK;
}

static lk_status fill_gallery(const lk_image_folder_args *a, gallery *g)
{
    LKI_TRY(list_gallery(ops.name, a->folder, g));
    const int all = g->count;
    if (a->validation_split == 0) return LK_OK;
    LKI_TRY(keep_share(g, a->validation_split, (uint64_t)lki_number_or(a->seed, DEFAULT_SEED), a->split));
    if (g->count && g->count < all) return LK_OK;
    return lki_fail(LK_EINVAL, "%s: .validation_split = %g of the %d pictures in %s leaves one of the two parts empty", ops.name,
                    a->validation_split, all, a->folder);
}

static lk_status folder_fill(folder_node *n, const lk_image_folder_args *a)
{
    n->channels = (int)lki_integer_or(a->channels, 3);
    n->parallel = a->parallel ? a->parallel : (int)lki_min(lki_cores(), MOST_PARALLEL);
    n->column[0] = (lki_column){LK_F32, LK_SHAPE(a->height, a->width, n->channels), false};
    n->column[1] = (lki_column){LK_I64, {0}, false};
    LKI_TRY(fill_gallery(a, &n->gallery));
    const list *names = &n->gallery.classes;
    n->rows.base.classes = lki_names_new(names->count, (const char *const *)names->item, LKI_LIVES_BY_REFERENCE);
    n->rows.set = lki_rowset_made(&n->rows.base, n->gallery.count, LKI_COUNT(n->column), n->column);
    const uint64_t parts[] = {(uint64_t)a->height, (uint64_t)a->width, (uint64_t)n->channels, (uint64_t)a->split};
    n->rows.base.print = (uint64_t)n->gallery.count;
    for (int i = 0; i < LKI_COUNT(parts); i++)
        n->rows.base.print = lki_mix(n->rows.base.print, parts[i]);
    return n->rows.set && n->rows.base.classes.count >= 0 ? LK_OK : LK_ENOMEM;
}

lk_dataset *lk_image_folder_kw(lk_image_folder_args a)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    if (check(&a) != LK_OK) return NULL;
    folder_node *n = lki_dataset_new(&ops, sizeof *n, 0, NULL);
    if (!n || folder_fill(n, &a) == LK_OK) return n ? &n->rows.base : NULL;
    lk_free(n);
    return NULL;
}

/* ---- one picture ---- */

lk_tensor *lk_image_read(const char *path, int channels)
{
    LKI_SCOPE_ERRORS;
    lki_image image LKI_FREED_BY(lki_image_free) = {0};
    if (!path || !*path) return lki_refuse(LK_EINVAL, "lk_image_read: the name of the file is missing");
    if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
        return lki_refuse(LK_EINVAL, "lk_image_read: %d channels; it must be 1, 3 or 4, or 0 for those of the file", channels);
    if (decode_file(path, channels, &image) != LK_OK) return &lki_poison;
    return lk_tensor_from(LK_SHAPE(image.height, image.width, image.channels), LK_U8, image.pixels);
}

/* Rounded to the nearest, within 0 to 255; NaN is black. */
static uint8_t byte_of(float x) { return (uint8_t)(x >= 255 ? 255 : x > 0 ? x + 0.5f : 0); }

static lk_status encode(const lk_tensor *t, const void *data, lki_bytes *out)
{
    const lk_shape *s = &t->shape;
    const int       channels = s->rank == 3 ? (int)s->dim[2] : 1;
    if (t->dtype == LK_U8) return lki_png_encode(s->dim[1], s->dim[0], channels, data, out);
    const int64_t size = lki_shape_size(s);
    uint8_t      *bytes LKI_RELEASED = lki_alloc((size_t)size);
    if (!bytes) return LK_ENOMEM;
    for (int64_t i = 0; i < size; i++)
        bytes[i] = byte_of(((const float *)data)[i]);
    return lki_png_encode(s->dim[1], s->dim[0], channels, bytes, out);
}

static bool can_be_picture(const lk_tensor *t)
{
    const lk_shape *s = &t->shape;
    const int64_t   channels = s->rank == 3 ? s->dim[2] : 1;
    return (t->dtype == LK_U8 || t->dtype == LK_F32) && (s->rank == 2 || s->rank == 3) && s->dim[0] > 0 && s->dim[1] > 0 &&
           (channels == 1 || channels == 3 || channels == 4);
}

lk_status lk_image_write(const char *path, lk_tensor *pixels)
{
    LKI_NEAREST;
    LKI_SCOPE_ERRORS;
    const char *call = "lk_image_write";
    char        text[LKI_SHAPE_TEXT];
    lki_bytes   png LKI_FREED_BY(lki_bytes_free) = {0};
    lk_tensor  *t = lki_plain(pixels);
    if (!path || !*path) return lki_fail(LK_EINVAL, "%s: the name of the file is missing", call);
    if (!t) return lki_fail(LK_EINVAL, "%s: the picture is NULL", call);
    if (lki_bad(t)) return lki_poisoned_status(call);
    if (lki_stands_for(t)) return lki_fail(LK_EINVAL, "%s: the picture is %s", call, lki_why_not_plain(t));
    const void *data = lk_data(t);
    if (!data) return lk_error_code();
    if (!can_be_picture(t))
        return lki_fail(LK_ESHAPE, "%s: %s %s; a picture is u8 or f32, [height, width] or [height, width, 1, 3 or 4]", call,
                        lk_dtype_name(t->dtype), lki_shape_text(&t->shape, text));
    LKI_TRY(encode(t, data, &png));
    return lki_durable_file(path, png.data, png.size);
}
