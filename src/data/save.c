/* Saved iterators (save.h).
 *
 *   offset  size  meaning
 *        0     8  "LKITER02"
 *        8     4  masked CRC-32C of all that follows
 *       12     8  print of the pipeline: names and parameters of its operations
 *       20     n  varints: the seed, then the cursors, inputs first
 *
 *   a cursor:  flags (1 begun, 2 ended), iteration and place where counted, and if begun: turn, what its operation adds, elements
 *              that come first: they may be what the operation can give again only then
 *
 * Prefetches and the like are left out: what they read ahead becomes the elements that come first in the cursor below. So a
 * pipeline may be saved with one number of replicas, and read-ahead, and restored with another. */
#include "data/save.h"
#include "core/memory.h"
#include "format/crc32c.h"
#include "format/file.h"
#include <string.h>

enum { HEADER = 20, MOST_NESTED = 16 };
static const char MAGIC[8] = {'L', 'K', 'I', 'T', 'E', 'R', '0', '2'};

typedef enum element_kind { HOME = 1, MAPPED, JOINED, VALUE } element_kind;
enum { BEGUN = 1, ENDED = 2 };

/* ---- writing ---- */

void lki_save_number(lki_saver *s, uint64_t x) { lki_sink_varint(&s->sink, x); }

/* The tensor may be on a card. */
static lk_status save_tensor(lki_sink *sink, const lk_tensor *t)
{
    const size_t bytes = lki_bytes_of(lki_shape_size(&t->shape), lk_dtype_bytes(t->dtype));
    const void  *data = lki_host_data(t);
    if (bytes && !data) return lk_error_code();
    lki_sink_varint(sink, (uint64_t)t->dtype);
    lki_sink_varint(sink, (uint64_t)t->shape.rank);
    for (int i = 0; i < t->shape.rank; i++)
        lki_sink_varint(sink, (uint64_t)t->shape.dim[i]);
    lki_sink_varint(sink, t->rows.kind == LKI_ROWS ? (uint64_t)t->rows.global + 1 : 0);
    lki_sink_bytes(sink, data, bytes);
    return LK_OK;
}

void lki_save_value(lki_sink *sink, const lki_element *e, lk_status *status)
{
    lk_tensor **item LKI_RELEASED = lki_alloc_array(e->set->count, sizeof *item);
    lki_block   step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    if (*status == LK_OK) *status = item && step.owner ? lki_element_tensors(e, item) : LK_ENOMEM;
    lki_sink_varint(sink, (uint64_t)e->set->count);
    lki_sink_varint(sink, (uint64_t)e->set->tag);
    for (int i = 0; i < e->set->count && *status == LK_OK; i++)
        *status = save_tensor(sink, item[i]);
}

static bool gives_again(const lki_cursor *c, const lki_element *e)
{
    return c->begun && c->dataset == e->set->home && (!c->dataset->ops->has || c->dataset->ops->has(c, e));
}

/* The position of the first cursor that can return an element again, and that is restored before it has to; -1: there is none. A
 * node that is in the pipeline twice has two cursors. */
static int position_of(const lki_saver *s, const lki_element *e)
{
    for (int i = 0; e->set->home && i < s->known; i++)
        if (gives_again(s->pipeline->cursor[i], e)) return i;
    return -1;
}

static void save_joined(lki_saver *s, const lki_element *e)
{
    lki_save_number(s, JOINED);
    lki_save_number(s, (uint64_t)e->set->parts);
    for (int i = 0; i < e->set->parts; i++) {
        lki_element part = e->set->part[i];
        if (e->row >= 0) part.row = e->row;
        lki_save_element(s, &part);
    }
}

void lki_save_element(lki_saver *s, const lki_element *e)
{
    const lki_rowset *set = e->set;
    int               position = position_of(s, e);
    if (set->kind == LKI_SET_JOINED) {
        save_joined(s, e);
    } else if (set->kind == LKI_SET_MAPPED && position >= 0) {
        lki_save_number(s, MAPPED);
        lki_save_number(s, (uint64_t)position);
        lki_save_element(s, &(lki_element){set->of, e->row});
    } else if (set->kind != LKI_SET_MAPPED && position >= 0) {
        lki_save_number(s, HOME);
        lki_save_number(s, (uint64_t)position);
        lki_save_number(s, (uint64_t)(set->first + (e->row > 0 ? e->row : 0)));
    } else {
        lki_save_number(s, VALUE);
        lki_save_value(&s->sink, e, &s->status);
    }
}

void lki_save_elements(lki_saver *s, const lki_elements *q)
{
    lki_save_number(s, (uint64_t)q->count);
    for (int64_t i = 0; i < q->count; i++)
        lki_save_element(s, &q->item[q->at + i]);
}

static void add_pending(lki_saver *s, const lki_elements *pending, lki_elements *ahead)
{
    for (int64_t i = 0; i < pending->count && s->status == LK_OK; i++)
        s->status = lki_elements_push(ahead, lki_element_retain(pending->item[pending->at + i]));
}

static void save_opaque(lki_saver *s, lki_cursor *c, lki_elements *ahead)
{
    const lki_dataset_ops *ops = c->dataset->ops;
    for (int i = 0; i < c->inputs; i++)
        lki_save_cursor(s, c->input[i]);
    lki_save_number(s, (c->begun ? BEGUN : 0) | (c->ended ? ENDED : 0));
    if (ops->counts) {
        lki_save_number(s, c->iteration);
        lki_save_number(s, c->place);
    }
    if (c->position >= 0) s->known = c->position + 1;
    if (!c->begun) return;
    lki_save_number(s, c->turn);
    if (ops->save) ops->save(c, s);
    add_pending(s, &c->pending, ahead);
    lki_save_elements(s, ahead);
}

void lki_save_cursor(lki_saver *s, lki_cursor *c)
{
    lki_elements ahead = {0};
    for (; c->dataset->ops->transparent; c = c->input[0])
        if (c->begun && c->dataset->ops->hold && s->status == LK_OK) s->status = c->dataset->ops->hold(c, &ahead);
    if (s->status == LK_OK) save_opaque(s, c, &ahead);
    lki_elements_clear(&ahead);
}

/* ---- reading ---- */

static lk_status damaged(const char *what)
{
    return lki_fail(LK_EFORMAT, "lk_iterator_restore: %s: the bytes are damaged, or not those of lk_iterator_save()", what);
}

lk_status lki_load_number(lki_loader *l, uint64_t *x)
{
    return lki_wire_varint(&l->wire, x) ? LK_OK : damaged("they end too soon");
}

lk_status lki_load_at_most(lki_loader *l, uint64_t most, uint64_t *x)
{
    LKI_TRY(lki_load_number(l, x));
    return *x <= most ? LK_OK : damaged("a number is out of range");
}

typedef struct shape_record {
    uint64_t dtype, rank, global;
    lk_shape shape;
} shape_record;

static bool load_shape(lki_wire *w, shape_record *r)
{
    uint64_t dim;
    if (!lki_wire_varint(w, &r->dtype) || !lki_wire_varint(w, &r->rank)) return false;
    if (r->dtype >= LK_DTYPE_COUNT || r->rank > LK_MAX_RANK) return false;
    r->shape = (lk_shape){(int)r->rank, {0}};
    for (int i = 0; i < (int)r->rank; i++) {
        if (!lki_wire_varint(w, &dim) || dim > INT64_MAX) return false;
        r->shape.dim[i] = (int64_t)dim;
    }
    return lki_wire_varint(w, &r->global) && r->global <= (uint64_t)LKI_MOST_ROWS + 1 && lki_shape_valid(&r->shape);
}

static lk_tensor *load_tensor(lki_wire *w)
{
    shape_record r;
    if (!load_shape(w, &r)) return NULL;
    const lk_dtype dtype = (lk_dtype)r.dtype;
    const size_t   bytes = lki_bytes_of(lki_shape_size(&r.shape), lk_dtype_bytes(dtype));
    if (bytes > lki_wire_left(w) || (r.global && r.rank < 1)) return NULL;
    lk_tensor *t = lki_tensor_new(dtype, &r.shape);
    if (lki_bad(t)) return t;
    if (bytes) memcpy(t->data, w->p, bytes);
    w->p += bytes;
    const int64_t rows = r.rank ? r.shape.dim[0] : 0;
    if (r.global)
        t->rows = (lki_rows){.kind = LKI_ROWS,
                             .lanes = lk_lanes(),
                             .per_row = 1,
                             .global = lki_max((int64_t)r.global - 1, rows),
                             .rows = rows,
                             .total = rows};
    return t;
}

static lk_status fail_value(const char *file)
{
    return file ? lki_fail(LK_EFORMAT, "%s: an element is damaged", file) : damaged("an element is not one");
}

/* A tensor takes at least three bytes, so a wrong count requests no more memory than the remaining bytes allow. */
lk_status lki_load_value(lki_wire *w, const char *file, lki_element *out)
{
    uint64_t count, tag;
    if (!lki_wire_varint(w, &count) || !lki_wire_varint(w, &tag) || count < 1 || count > lki_wire_left(w) / 3)
        return fail_value(file);
    lk_tensor **item LKI_RELEASED = lki_alloc_array(count, sizeof *item);
    lki_block   step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    lk_status   status = item && step.owner ? LK_OK : LK_ENOMEM;
    for (uint64_t i = 0; i < count && status == LK_OK; i++) {
        item[i] = load_tensor(w);
        if (lki_bad(item[i])) status = item[i] ? LK_ENOMEM : fail_value(file);
    }
    lki_rowset *set = status == LK_OK ? lki_rowset_plain(LKI_ALONE, (int)count, item) : NULL;
    if (set) set->tag = (int64_t)tag;
    *out = lki_element_alone(set);
    return status == LK_OK && !set ? LK_ENOMEM : status;
}

static lk_status load_element(lki_loader *l, int depth, lki_element *out);

static lk_status cursor_at(lki_loader *l, lki_cursor **out)
{
    uint64_t position;
    LKI_TRY(lki_load_number(l, &position));
    if (position >= (uint64_t)l->pipeline->count) return damaged("a position is outside the pipeline");
    *out = l->pipeline->cursor[position];
    return (*out)->begun ? LK_OK : damaged("an element comes from a part that was not read yet");
}

static lk_status load_home(lki_loader *l, lki_element *out)
{
    lki_cursor *c;
    uint64_t    number;
    LKI_TRY(cursor_at(l, &c));
    LKI_TRY(lki_load_at_most(l, INT64_MAX, &number));
    return c->dataset->ops->again ? c->dataset->ops->again(c, (int64_t)number, out) : damaged("an element has an unknown source");
}

static lk_status load_mapped(lki_loader *l, int depth, lki_element *out)
{
    lki_cursor *c;
    lki_element from;
    LKI_TRY(cursor_at(l, &c));
    if (!c->dataset->ops->remake) return damaged("an element has an unknown map");
    LKI_TRY(load_element(l, depth, &from));
    lk_status status = c->dataset->ops->remake(c, &from, out);
    lki_elements_drop(1, &from);
    return status;
}

static lk_status load_joined(lki_loader *l, int depth, lki_element *out)
{
    lki_element part[LKI_MOST_COLUMNS];
    uint64_t    parts;
    int         count = 0, columns = 0;
    lk_status   status = LK_OK;
    LKI_TRY(lki_load_at_most(l, LKI_MOST_COLUMNS, &parts));
    for (; count < (int)parts && status == LK_OK; count += status == LK_OK) {
        status = load_element(l, depth, &part[count]);
        if (status == LK_OK) columns += part[count].set->count;
    }
    if (status == LK_OK && (columns < 1 || columns > LKI_MOST_COLUMNS)) status = damaged("an element has too many tensors");
    lki_rowset *set = status == LK_OK ? lki_rowset_joined(LKI_ALONE, count, part) : NULL;
    lki_elements_drop(count, part);
    *out = lki_element_alone(set);
    return status == LK_OK && !set ? LK_ENOMEM : status;
}

static lk_status load_element(lki_loader *l, int depth, lki_element *out)
{
    uint64_t kind;
    *out = (lki_element){0};
    LKI_TRY(lki_load_number(l, &kind));
    if (depth > MOST_NESTED) return damaged("elements are nested too deep");
    switch (kind) {
    case HOME: return load_home(l, out);
    case MAPPED: return load_mapped(l, depth + 1, out);
    case JOINED: return load_joined(l, depth + 1, out);
    case VALUE: return lki_load_value(&l->wire, NULL, out);
    default: return damaged("an element has an unknown kind");
    }
}

lk_status lki_load_element(lki_loader *l, lki_element *out) { return load_element(l, 0, out); }

/* An element takes at least two bytes, so a wrong count requests at most eight times as much memory as there are bytes left. */
lk_status lki_load_elements(lki_loader *l, int64_t most, lki_elements *out)
{
    uint64_t n;
    LKI_TRY(lki_load_at_most(l, (uint64_t)most, &n));
    if (n > lki_wire_left(&l->wire) / 2) return damaged("they end too soon");
    LKI_TRY(lki_elements_reserve(out, (int64_t)n));
    for (uint64_t i = 0; i < n; i++) {
        lki_element e;
        LKI_TRY(lki_load_element(l, &e));
        out->item[out->at + out->count++] = e;
    }
    return LK_OK;
}

static lk_status load_opaque(lki_loader *l, lki_cursor *c)
{
    const lki_dataset_ops *ops = c->dataset->ops;
    uint64_t               flags;
    for (int i = 0; i < c->inputs; i++)
        LKI_TRY(lki_load_cursor(l, c->input[i]));
    LKI_TRY(lki_load_at_most(l, BEGUN | ENDED, &flags));
    if (ops->counts) {
        LKI_TRY(lki_load_number(l, &c->iteration));
        LKI_TRY(lki_load_number(l, &c->place));
    }
    if (!(flags & BEGUN)) return LK_OK;
    LKI_TRY(lki_load_number(l, &c->turn));
    c->begun = true;
    c->ended = flags & ENDED;
    if (ops->restore) LKI_TRY(ops->restore(c, l));
    return lki_load_elements(l, INT64_MAX / 64, &c->pending);
}

lk_status lki_load_cursor(lki_loader *l, lki_cursor *c)
{
    if (!c->dataset->ops->transparent) return load_opaque(l, c);
    LKI_TRY(lki_load_cursor(l, c->input[0]));
    c->begun = c->input[0]->begun;
    c->turn = c->input[0]->turn;
    return LK_OK;
}

/* ---- the frame ---- */

static uint64_t print_of(const lk_dataset *d)
{
    if (d->ops->transparent) return print_of(d->input[0]);
    uint64_t print = lki_mix(d->print, (uint64_t)d->inputs);
    for (const char *c = d->ops->name; *c; c++)
        print = lki_mix(print, (unsigned char)*c);
    for (int i = 0; i < d->inputs; i++)
        print = lki_mix(print, print_of(d->input[i]));
    return print;
}

static void put_le(uint8_t *to, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (uint8_t)(x >> (8 * i));
}

lk_status lki_save_pipeline(lki_pipeline *p, lki_cursor *root, lki_bytes *out)
{
    lki_saver s = {.pipeline = p};
    lki_sink_bytes(&s.sink, MAGIC, sizeof MAGIC);
    lki_sink_fixed(&s.sink, 0, 4);
    lki_sink_fixed(&s.sink, print_of(root->dataset), 8);
    lki_save_number(&s, p->seed);
    lki_save_cursor(&s, root);
    if (s.status == LK_OK && s.sink.failed) s.status = LK_ENOMEM;
    if (s.status != LK_OK) return lki_sink_free(&s.sink), s.status;
    put_le(s.sink.data + 8, lki_crc32c_mask(lki_crc32c(0, s.sink.data + 12, s.sink.size - 12)), 4);
    *out = (lki_bytes){s.sink.data, s.sink.size};
    return LK_OK;
}

static lk_status check_frame(const lk_dataset *root, const uint8_t *bytes, size_t size)
{
    if (size < HEADER || memcmp(bytes, MAGIC, sizeof MAGIC) != 0) return damaged("they do not begin with LKITER02");
    if (lki_crc32c_mask(lki_crc32c(0, bytes + 12, size - 12)) != lki_get_le(bytes + 8, 4)) return damaged("the checksum is wrong");
    if (lki_get_le(bytes + 12, 8) == print_of(root)) return LK_OK;
    return lki_fail(LK_EINVAL,
                    "lk_iterator_restore: saved from another pipeline; operations and their parameters must be the same");
}

/* Later iterations continue counting from it. */
static void go_on_counting(const lki_pipeline *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->cursor[i]->dataset->ops->counts)
            __atomic_store_n(&p->cursor[i]->dataset->iterations, p->cursor[i]->iteration + 1, __ATOMIC_RELAXED);
}

lk_status lki_load_pipeline(lki_pipeline *p, lki_cursor *root, const void *bytes, size_t size)
{
    LKI_TRY(check_frame(root->dataset, bytes, size));
    lki_loader l = {.wire = lki_wire_of((const uint8_t *)bytes + HEADER, size - HEADER), .pipeline = p};
    lki_cursor_stop(root);
    LKI_TRY(lki_load_number(&l, &p->seed));
    LKI_TRY(lki_load_cursor(&l, root));
    if (lki_wire_left(&l.wire)) return damaged("bytes are left over");
    go_on_counting(p);
    return LK_OK;
}
