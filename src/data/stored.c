/* Datasets in files of their own (save, load), lists of files, and the only element of a dataset. */
#include "core/memory.h"
#include "data/cachefile.h"
#include "data/data.h"
#include "data/save.h"
#include <glob.h>
#include <stdlib.h>
#include <string.h>

/* ---- saving ---- */

lk_status lk_dataset_save(lk_dataset *d, const char *path)
{
    lki_cache_writer *w = NULL;
    lk_tuple          t;
    if (!lki_dataset_usable("lk_dataset_save", d)) return LK_EINVAL;
    if (!path) return lki_fail(LK_EINVAL, "lk_dataset_save: the path is NULL");
    LKI_TRY(lki_cache_writer_open(path, &w));
    lk_iterator *it = lk_iterator_of(d);
    lk_status    status = it ? LK_OK : lk_failed() ? lk_error_code() : LK_ENOMEM;
    while (status == LK_OK && lk_next(it, &t)) {
        lki_element e = {0}, plain = {0};
        status = lki_element_of_tuple("lk_dataset_save", t, &e);
        if (status == LK_OK) status = lki_element_plain(&e, &plain);
        if (status == LK_OK) status = lki_cache_write(w, plain.set);
        if (plain.set) lki_elements_drop(1, &plain);
        if (e.set) lki_elements_drop(1, &e);
    }
    if (status == LK_OK && lk_failed()) status = lk_error_code();
    if (it) lk_free(it);
    if (status == LK_OK) status = lki_cache_publish(w);
    lki_cache_writer_close(w);
    return status;
}

/* ---- loading ---- */

typedef struct load_node {
    lk_dataset base;
    char      *path;
    int64_t    elements;
} load_node;

typedef struct load_state {
    lki_cache_reader *reader;
    lki_rowset       *block;
    int64_t           row, done;
} load_state;

static void load_destroy(lk_dataset *d) { lki_release(((load_node *)d)->path); }

static void load_stop(lki_cursor *c)
{
    load_state *st = c->state;
    lki_cache_reader_close(st->reader);
    lki_rowset_drop(st->block, 1);
}

static lk_status open_file(const char *path, lki_cache_reader **out)
{
    LKI_TRY(lki_cache_reader_open(path, out));
    return *out ? LK_OK : lki_fail(LK_ENOTFOUND, "lk_dataset_load: %s is not there, or is not a file of lk_dataset_save()", path);
}

static lk_status load_begin(lki_cursor *c)
{
    return open_file(((const load_node *)c->dataset)->path, &((load_state *)c->state)->reader);
}

static int64_t rows_of(const lki_rowset *set) { return set->rows < 0 ? 1 : set->rows; }

static lk_status load_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    load_state *st = c->state;
    while (*got < want) {
        if (st->block && st->row == rows_of(st->block)) {
            lki_rowset_drop(st->block, 1);
            st->block = NULL;
        }
        if (!st->block) {
            LKI_TRY(lki_cache_read(st->reader, &st->block));
            st->row = 0;
        }
        if (!st->block) break;
        out[(*got)++] = (lki_element){lki_rowset_retain(st->block, 1), st->block->rows < 0 ? LKI_ALONE : st->row};
        st->row++;
        st->done++;
    }
    return LK_OK;
}

static void load_save(lki_cursor *c, lki_saver *s) { lki_save_number(s, (uint64_t)((const load_state *)c->state)->done); }

static lk_status load_restore(lki_cursor *c, lki_loader *l)
{
    load_state *st = c->state;
    uint64_t    done;
    int64_t     left;
    LKI_TRY(load_begin(c));
    LKI_TRY(lki_load_at_most(l, (uint64_t)((const load_node *)c->dataset)->elements, &done));
    st->done = (int64_t)done;
    LKI_TRY(lki_cache_seek(st->reader, st->done, &left));
    if (left) LKI_TRY(lki_cache_read(st->reader, &st->block));
    st->row = left;
    return LK_OK;
}

static int64_t load_cardinality(const lk_dataset *d) { return ((const load_node *)d)->elements; }

static const lki_dataset_ops load_ops = {.name = "lk_dataset_load",
                                         .state_bytes = sizeof(load_state),
                                         .begin = load_begin,
                                         .next = load_next,
                                         .stop = load_stop,
                                         .save = load_save,
                                         .restore = load_restore,
                                         .cardinality = load_cardinality,
                                         .destroy = load_destroy};

lk_dataset *lk_dataset_load(const char *path)
{
    LKI_SCOPE_ERRORS;
    lki_cache_reader *r = NULL;
    if (!path) return lki_fail(LK_EINVAL, "%s: the path is NULL", load_ops.name), NULL;
    if (open_file(path, &r) != LK_OK) return NULL;
    load_node *n = lki_dataset_new(&load_ops, sizeof *n, 0, NULL);
    if (n) n->elements = lki_cache_elements(r);
    lki_cache_reader_close(r);
    if (!n || !(n->path = lki_strdup(path))) return n ? lk_free(n) : (void)0, NULL;
    n->base.batching = LKI_MAYBE_BATCHED;
    n->base.print = lki_mix((uint64_t)n->elements, 0);
    return &n->base;
}

/* ---- lists of files ---- */

typedef struct list_node {
    lk_dataset base;
    char     **name;
    int64_t    count;
} list_node;

static void list_destroy(lk_dataset *d)
{
    list_node *n = (list_node *)d;
    for (int64_t i = 0; n->name && i < n->count; i++)
        lki_release(n->name[i]);
    lki_release(n->name);
}

static lk_status list_again(lki_cursor *c, int64_t number, lki_element *out)
{
    const list_node *n = (const list_node *)c->dataset;
    if (number < 0 || number >= n->count)
        return lki_fail(LK_EFORMAT, "%s: there is no file %lld", c->dataset->ops->name, (long long)number);
    const lk_shape shape = {1, {(int64_t)strlen(n->name[number])}};
    lki_block      step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    lk_tensor     *t = step.owner ? lki_tensor_new(LK_U8, &shape) : &lki_poison;
    if (lki_bad(t)) return LK_ENOMEM;
    memcpy(t->data, n->name[number], (size_t)shape.dim[0]);
    *out = lki_element_alone(lki_rowset_plain(LKI_ALONE, 1, &t));
    if (!out->set) return LK_ENOMEM;
    out->set->home = c->dataset;
    out->set->first = number;
    return LK_OK;
}

static lk_status list_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    lki_source_state *st = c->state;
    for (; *got < want && st->next < ((const list_node *)c->dataset)->count; ++*got, st->next++)
        LKI_TRY(list_again(c, st->next, &out[*got]));
    return LK_OK;
}

static int64_t list_cardinality(const lk_dataset *d) { return ((const list_node *)d)->count; }

static lk_status list_spec(lk_dataset *d, lk_element_spec *out)
{
    (void)d;
    *out = (lk_element_spec){.count = 1, .dtype = {LK_U8}, .shape = {{1, {-1}}}};
    return LK_OK;
}

static const lki_dataset_ops list_ops = {.name = "lk_dataset_list_files",
                                         .state_bytes = sizeof(lki_source_state),
                                         .next = list_next,
                                         .save = lki_source_save,
                                         .restore = lki_source_restore,
                                         .again = list_again,
                                         .cardinality = list_cardinality,
                                         .spec = list_spec,
                                         .destroy = list_destroy};

static lk_status keep_names(list_node *n, const glob_t *found)
{
    n->name = lki_zalloc_array((int64_t)found->gl_pathc + 1, sizeof *n->name);
    if (!n->name) return LK_ENOMEM;
    for (; n->count < (int64_t)found->gl_pathc; n->count++) {
        const char *name = found->gl_pathv[n->count];
        if (!(n->name[n->count] = lki_strdup(name))) return LK_ENOMEM;
        for (; *name; name++)
            n->base.print = lki_mix(n->base.print, (unsigned char)*name);
    }
    return LK_OK;
}

/* All matches of all patterns, in byte order; glob() sorts those of each call by the locale. */
static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static lk_status find_files(list_node *n, lk_names patterns)
{
    glob_t    found = {0};
    lk_status status = LK_OK;
    for (int i = 0; i < patterns.count && status == LK_OK; i++) {
        const int result = glob(patterns.item[i], GLOB_NOSORT | (i ? GLOB_APPEND : 0), NULL, &found);
        if (result == GLOB_NOSPACE) status = LK_ENOMEM;
        else if (result && result != GLOB_NOMATCH)
            status = lki_fail(LK_EIO, "%s: %s cannot be searched", n->base.ops->name, patterns.item[i]);
    }
    if (status == LK_OK && !found.gl_pathc)
        status = lki_fail(LK_ENOTFOUND, "%s: no file matches %s%s", n->base.ops->name, patterns.item[0],
                          patterns.count > 1 ? " or the other patterns" : "");
    if (status == LK_OK) {
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
        status = keep_names(n, &found);
    }
    globfree(&found);
    return status;
}

lk_dataset *lk_dataset_list_files_kw(lk_list_files_args a)
{
    LKI_SCOPE_ERRORS;
    if (a.patterns.count < 1) return lki_fail(LK_EINVAL, "%s: the patterns are missing", list_ops.name), NULL;
    list_node *n = lki_dataset_new(&list_ops, sizeof *n, 0, NULL);
    if (!n) return NULL;
    if (find_files(n, a.patterns) != LK_OK) return lk_free(n), NULL;
    if (a.shuffle == LK_OFF) return &n->base;
    return lk_dataset_shuffle(&n->base, n->count, .seed = a.seed);
}

/* ---- the only element ---- */

lk_tuple lk_dataset_get_single_element(lk_dataset *d)
{
    LKI_SCOPE_ERRORS;
    const char  *call = "lk_dataset_get_single_element";
    lki_pipeline p = {.seed = lk_random_seed(), .lanes = lk_lanes()};
    lki_cursor  *c = NULL;
    lki_element  e[2];
    lk_tensor   *item[LKI_MOST_COLUMNS];
    lk_tuple     out = {0};
    int64_t      got = 0;
    if (!lki_dataset_usable(call, d) || lki_pipeline_open(&p, d, &c) != LK_OK) return out;
    lk_status status = lki_cursor_begin(c, 0);
    if (status == LK_OK) status = lki_cursor_next(c, 2, e, &got);
    if (status == LK_OK && got != 1)
        status =
            lki_fail(LK_EINVAL, "%s: the dataset has %s; it must have one", call, got ? "more than one element" : "no element");
    if (status == LK_OK && lki_element_tensors(&e[0], item) == LK_OK) out = lki_tuple_new(e[0].set->count, item);
    lki_elements_drop(got, e);
    lki_pipeline_close(&p, c);
    return out;
}
