/* Rows that stay on a card (resident.h). */
#include "data/resident.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/memory.h"
#include "data/bytes.h"
#include "device/pick.h"
#include <string.h>

enum { BLOCK_ROWS = 1024, MOST_SHARE = 4 /* a quarter */ };

typedef struct lki_residence { /* of one set in one memory */
    struct lki_residence *next;
    const void           *memory;
    bool                  refused;
    lki_buffer          **own;     /* of rows that are made: one for each column, references; NULL: twins of the set's tensors */
    uint8_t              *made;    /* atomic, per block: it is made */
    int64_t               missing; /* blocks that are not made; atomic, changed in the set's turn */
    int                   columns;
    void                 *first[]; /* of each column: where row 0 is */
} lki_residence;

void lki_residence_free(lki_residence *r)
{
    while (r) {
        lki_residence *next = r->next;
        for (int i = 0; r->own && i < r->columns; i++)
            lki_buffer_drop(r->own[i]);
        lki_release(r->own);
        lki_release(r->made);
        lki_release(r);
        r = next;
    }
}

lki_device *lki_card_of_strategy(const lk_strategy *s)
{
    for (int i = 0; s && i < s->replicas; i++)
        if (!s->device[i]->ops->gather || !lki_same_memory(s->device[i], s->device[0])) return NULL;
    return s && s->replicas > 0 ? s->device[0] : NULL;
}

/* ---- a set's copy ---- */

static size_t row_bytes(const lki_rowset *s, int column)
{
    const lki_column c = lki_element_column(&(lki_element){(lki_rowset *)s, 0}, column);
    return lki_bytes_of(lki_shape_size(&c.shape), lk_dtype_bytes(c.dtype));
}

static size_t bytes_of(const lki_rowset *s)
{
    size_t bytes = 0;
    for (int i = 0; i < s->count; i++)
        bytes += row_bytes(s, i) * (size_t)s->rows;
    return bytes;
}

static bool has_room(const lki_rowset *s, lki_device *d)
{
    return s->rows <= INT32_MAX && bytes_of(s) <= d->ops->room(d) / MOST_SHARE;
}

static bool copy_tensors(const lki_rowset *s, lki_device *d, lki_residence *r)
{
    for (int i = 0; i < s->count; i++)
        if (!(r->first[i] = lki_data_on(s->item[i], d))) return false;
    return true;
}

static bool make_rooms(const lki_rowset *s, lki_device *d, lki_residence *r)
{
    r->missing = lki_ceil_div(s->rows, BLOCK_ROWS);
    r->own = lki_zalloc_array(s->count, sizeof(lki_buffer *));
    r->made = lki_zalloc((size_t)r->missing + 1);
    for (int i = 0; r->own && r->made && i < s->count; i++) {
        r->own[i] = lki_buffer_new(d, row_bytes(s, i) * (size_t)s->rows);
        if (!r->own[i]) return false;
        r->first[i] = r->own[i]->data;
    }
    return r->own && r->made;
}

/* In the set's turn. NULL without memory for the answer itself. */
static lki_residence *residence_new(lki_rowset *s, lki_device *d)
{
    lki_error_record before;
    lki_residence   *r = lki_zalloc(lki_bytes_add(sizeof *r, lki_bytes_of(s->count, sizeof r->first[0])));
    if (!r) return NULL;
    r->memory = d->memory;
    r->columns = s->count;
    lki_error_take(&before);
    r->refused = !has_room(s, d) || !(s->kind == LKI_SET_PLAIN ? copy_tensors(s, d, r) : make_rooms(s, d, r));
    lk_clear_error(); /* then the host makes batches */
    if (before.code != LK_OK) lki_error_put(&before);
    lki_tell(LKI_TOPIC_PLAN, "%s: %lld rows of %zu bytes %s", d->name, (long long)s->rows,
             s->rows ? bytes_of(s) / (size_t)s->rows : 0, r->refused ? "stay with the host" : "are kept on the card");
    r->next = s->residence;
    __atomic_store_n(&s->residence, r, __ATOMIC_RELEASE);
    return r;
}

static lki_residence *find(const lki_rowset *s, const lki_device *d)
{
    lki_residence *r = __atomic_load_n(&s->residence, __ATOMIC_ACQUIRE);
    while (r && r->memory != d->memory)
        r = r->next;
    return r;
}

/* NULL: it has none. */
static lki_residence *residence_of(lki_rowset *s, lki_device *d)
{
    if (!s->stays || s->rows < 1) return NULL;
    lki_residence *r = find(s, d);
    if (!r) {
        lki_turn_take(&s->turn);
        r = find(s, d);
        if (!r) r = residence_new(s, d);
        lki_turn_give(&s->turn);
    }
    return r && !r->refused ? r : NULL;
}

/* ---- rows that are made ---- */

typedef struct making {
    const lki_rowset *set;
    lki_device       *device;
    lki_residence    *residence;
    const uint8_t    *wanted;       /* of each block */
    int64_t           blocks, next; /* atomic: the next to look at */
    bool              failed;       /* atomic */
} making;

static lk_status make_block(const making *m, int64_t block)
{
    const lki_rowset *s = m->set;
    const int64_t     from = block * BLOCK_ROWS, n = lki_min(BLOCK_ROWS, s->rows - from);
    lki_element       e[BLOCK_ROWS];
    lk_tensor        *item[LKI_MOST_COLUMNS];
    for (int64_t i = 0; i < n; i++)
        e[i] = (lki_element){(lki_rowset *)s, from + i};
    for (int i = 0; i < s->count; i++) {
        lk_shape shape = {s->column[i].shape.rank + 1, {n}};
        memcpy(shape.dim + 1, s->column[i].shape.dim, (size_t)s->column[i].shape.rank * sizeof shape.dim[0]);
        if (lki_bad(item[i] = lki_tensor_on(lki_device_cpu(), s->column[i].dtype, &shape))) return LK_ENOMEM;
    }
    LKI_TRY(s->home->ops->make(s->home, n, e, item));
    for (int i = 0; i < s->count; i++) {
        const size_t bytes = row_bytes(s, i);
        if (bytes)
            LKI_TRY(m->device->ops->write(m->device, (char *)m->residence->first[i] + (size_t)from * bytes, item[i]->data,
                                          (size_t)n * bytes));
    }
    return LK_OK;
}

static void make_some(void *arg, int thread)
{
    making *m = arg;
    (void)thread;
    for (int64_t b; (b = __atomic_fetch_add(&m->next, 1, __ATOMIC_RELAXED)) < m->blocks;) {
        if (!m->wanted[b] || m->residence->made[b] || __atomic_load_n(&m->failed, __ATOMIC_RELAXED)) continue;
        lki_block step = lki_step_enter();
        if (!step.owner || make_block(m, b) != LK_OK) __atomic_store_n(&m->failed, true, __ATOMIC_RELAXED);
        else {
            __atomic_store_n(&m->residence->made[b], 1, __ATOMIC_RELEASE);
            __atomic_fetch_sub(&m->residence->missing, 1, __ATOMIC_RELEASE);
        }
        lki_step_leave(&step);
    }
}

/* By all threads, or by this one if there is no team. After an error the host's path gathers instead, and reports it. */
static bool make_blocks(making *m, int64_t count)
{
    lki_error_record before;
    lki_error_take(&before);
    const int threads = (int)lki_min(lk_threads(), count);
    if (threads < 2 || lki_team_run(threads, make_some, m) != LK_OK) make_some(m, 0);
    lk_clear_error();
    if (before.code != LK_OK) lki_error_put(&before);
    return !m->failed;
}

static int64_t mark_missing(const lki_residence *r, const lki_rowset *base, int64_t n, const lki_element *e, uint8_t *wanted)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const lki_rowset *s = e[i].set;
        const int64_t     block = e[i].row / BLOCK_ROWS;
        while (s->kind == LKI_SET_MAPPED)
            s = s->of;
        if (s != base || __atomic_load_n(&r->made[block], __ATOMIC_ACQUIRE) || wanted[block]) continue;
        wanted[block] = 1;
        count++;
    }
    return count;
}

/* True if these rows, as far as they are rows of `base`, are on the card. Makes missing ones. */
static bool are_made(lki_rowset *base, lki_device *d, lki_residence *r, int64_t n, const lki_element *e)
{
    if (!r->made || !__atomic_load_n(&r->missing, __ATOMIC_ACQUIRE)) return true;
    const int64_t blocks = lki_ceil_div(base->rows, BLOCK_ROWS);
    uint8_t      *wanted = lki_zalloc((size_t)blocks);
    if (!wanted) return lk_clear_error(), false;
    bool made = true;
    if (mark_missing(r, base, n, e, wanted)) {
        lki_turn_take(&base->turn);
        making        m = {base, d, r, wanted, blocks, 0, false};
        const int64_t count = mark_missing(r, base, n, e, (memset(wanted, 0, (size_t)blocks), wanted));
        made = !count || make_blocks(&m, count);
        lki_turn_give(&base->turn);
    }
    lki_release(wanted);
    return made;
}

/* ---- how a batch is made ---- */

typedef struct column {
    int                 source; /* column of the sets below all maps */
    const lki_byte_map *through;
    lki_column          what;
} column;

typedef struct recipe {
    lki_device        *device;
    int64_t            n;
    const lki_element *e;
    int                columns, tables;
    column             column[LKI_MOST_COLUMNS];
    lki_rowset        *top[LKI_PICK_TABLES], *base[LKI_PICK_TABLES]; /* sets of the elements, and what they are maps of */
    lki_residence     *from[LKI_PICK_TABLES];
    int32_t            begin[LKI_PICK_TABLES + 1];
} recipe;

/* Follows maps that only pass on and turn bytes into floats. */
static bool follow_maps(recipe *r, lki_rowset *s, lki_rowset **base)
{
    r->columns = s->count;
    for (int i = 0; i < s->count; i++)
        r->column[i] = (column){i, NULL, lki_element_column(&(lki_element){s, 0}, i)};
    for (; s->kind == LKI_SET_MAPPED; s = s->of) {
        if (!lki_vector_is_direct(s->vector)) return false;
        for (int i = 0; i < r->columns; i++) {
            const lki_byte_map *bytes;
            r->column[i].source = lki_vector_source(s->vector, r->column[i].source, &bytes);
            if (bytes && r->column[i].through) return false;
            if (bytes) r->column[i].through = bytes;
        }
    }
    *base = s;
    return s->kind == LKI_SET_PLAIN || s->kind == LKI_SET_MADE;
}

/* True if t is made like s, from a set that is made alike. */
static bool made_alike(const lki_rowset *s, const lki_rowset *t, lki_rowset **base)
{
    for (; s->kind == LKI_SET_MAPPED && t->kind == LKI_SET_MAPPED; s = s->of, t = t->of)
        if (s->vector != t->vector) return false;
    *base = (lki_rowset *)t;
    return s->kind != LKI_SET_MAPPED && s->kind == t->kind && t->rows > 0 &&
           lki_elements_alike(&(lki_element){(lki_rowset *)s, 0}, &(lki_element){(lki_rowset *)t, 0});
}

static bool add_table(recipe *r, lki_rowset *s)
{
    const int t = r->tables;
    if (t == LKI_PICK_TABLES) return false;
    if (!(t ? made_alike(r->top[0], s, &r->base[t]) : follow_maps(r, s, &r->base[0]))) return false;
    r->top[t] = s;
    r->from[t] = residence_of(r->base[t], r->device);
    if (!r->from[t] || !are_made(r->base[t], r->device, r->from[t], r->n, r->e)) return false;
    const int64_t end = r->begin[t] + r->base[t]->rows;
    if (end > INT32_MAX) return false;
    r->begin[t + 1] = (int32_t)end;
    r->tables++;
    return true;
}

/* The number of each row; false: some are not rows of sets that stay on the card. */
static bool number_rows(recipe *r, int32_t *number)
{
    int t = -1;
    for (int64_t i = 0; i < r->n; i++) {
        lki_rowset *s = r->e[i].set;
        if (r->e[i].row < 0) return false;
        if (t < 0 || s != r->top[t])
            for (t = 0; t < r->tables && r->top[t] != s;)
                t++;
        if (t == r->tables && !add_table(r, s)) return false;
        number[i] = r->begin[t] + (int32_t)r->e[i].row;
    }
    return true;
}

/* ---- making it ---- */

static bool fill_column(const recipe *r, const column *c, lk_tensor *to, lki_pick_column *out)
{
    static const lki_pick_form forms[] = {
        [LKI_BYTES_LOOKUP] = LKI_PICK_LOOKUP, [LKI_BYTES_PRODUCT] = LKI_PICK_PRODUCT, [LKI_BYTES_QUOTIENT] = LKI_PICK_QUOTIENT};
    const lki_byte_map *f = c->through;
    for (int t = 0; t < r->tables; t++)
        out->from[t] = r->from[t]->first[c->source];
    out->to = to->data;
    out->bytes = (int64_t)row_bytes(r->base[0], c->source);
    out->form = !f ? LKI_PICK_COPY : f->plain ? forms[f->form] : LKI_PICK_LOOKUP;
    if (!f) return true;
    out->scale = f->scale;
    out->divisor = f->divisor;
    out->shift = f->shift;
    if (out->form == LKI_PICK_LOOKUP) out->table = f->values ? lki_buffer_at(f->values, r->device) : NULL;
    return out->form != LKI_PICK_LOOKUP || out->table;
}

/* A few columns at a time. If there are many row numbers, `numbers` has them on the card. */
static lk_status gather_columns(const recipe *r, const int32_t *number, const lki_buffer *numbers, lk_tensor *const *item)
{
    for (int i = 0; i < r->columns;) {
        lki_pick rows = {
            .rows = r->n, .number = numbers ? NULL : number, .numbers = numbers ? numbers->data : NULL, .tables = r->tables};
        memcpy(rows.begin, r->begin, sizeof rows.begin);
        for (; i < r->columns && rows.columns < LKI_PICK_COLUMNS; i++)
            if (!fill_column(r, &r->column[i], item[i], &rows.column[rows.columns++])) return lk_error_code();
        LKI_TRY(r->device->ops->gather(r->device, &rows));
    }
    return LK_OK;
}

static lk_status send_numbers(const recipe *r, const int32_t *number, lki_buffer **out)
{
    *out = NULL;
    if (r->n <= LKI_PICK_BY_VALUE) return LK_OK;
    *out = lki_buffer_new(r->device, (size_t)r->n * sizeof *number);
    return *out ? lki_buffer_write(*out, 0, number, (size_t)r->n * sizeof *number) : LK_ENOMEM;
}

static lk_status make_tensors(const recipe *r, const int32_t *number, lki_rowset **out)
{
    lk_tensor  *item[LKI_MOST_COLUMNS];
    lki_buffer *numbers;
    for (int i = 0; i < r->columns; i++) {
        const lk_shape *row = &r->column[i].what.shape;
        lk_shape        shape = {row->rank + 1, {r->n}};
        if (row->rank >= LK_MAX_RANK) return LK_ESHAPE;
        memcpy(shape.dim + 1, row->dim, (size_t)row->rank * sizeof shape.dim[0]);
        if (!lki_shape_valid(&shape)) return LK_ESHAPE;
        if (lki_bad(item[i] = lki_tensor_on(r->device, r->column[i].what.dtype, &shape))) return LK_ENOMEM;
    }
    lk_status status = send_numbers(r, number, &numbers);
    if (status == LK_OK) status = gather_columns(r, number, numbers, item);
    lki_buffer_drop(numbers); /* the next user of this memory uses it after the launch */
    if (status == LK_OK && !(*out = lki_rowset_plain(r->n, r->columns, item))) status = LK_ENOMEM;
    return status;
}

static lk_status stack_rows(lki_device *d, int64_t n, const lki_element *e, lki_rowset **out)
{
    int32_t   few[LKI_PICK_BY_VALUE], *number = n <= LKI_PICK_BY_VALUE ? few : lki_alloc_array(n, sizeof *number);
    recipe    r = {.device = d, .n = n, .e = e};
    lk_status status = number && number_rows(&r, number) ? make_tensors(&r, number, out) : LK_EUNSUPPORTED;
    if (number != few) lki_release(number);
    return status;
}

static lk_status stack_there(lki_device *d, int64_t n, const lki_element *e, lki_rowset **out);

/* Part by part. */
static lk_status stack_joined(lki_device *d, int64_t n, const lki_element *e, lki_rowset **out)
{
    const int    parts = e[0].set->parts;
    lk_tensor   *item[LKI_MOST_COLUMNS];
    lki_rowset  *part[LKI_MOST_COLUMNS];
    lki_element *scratch = lki_alloc_array(n, sizeof *scratch);
    int          made = 0, count = 0;
    lk_status    status = scratch ? LK_OK : LK_ENOMEM;
    for (int64_t i = 0; i < n && status == LK_OK; i++)
        if (e[i].set->kind != LKI_SET_JOINED || e[i].set->parts != parts || e[i].set->count != e[0].set->count)
            status = LK_EUNSUPPORTED;
    while (made < parts && status == LK_OK) {
        for (int64_t i = 0; i < n; i++) {
            const lki_element p = e[i].set->part[made];
            scratch[i] = e[i].row >= 0 ? (lki_element){p.set, e[i].row} : p;
        }
        status = stack_there(d, n, scratch, &part[made]);
        for (int i = 0; status == LK_OK && i < part[made]->count; i++)
            item[count++] = part[made]->item[i];
        if (status == LK_OK) made++;
    }
    if (status == LK_OK && !(*out = lki_rowset_plain(n, count, item))) status = LK_ENOMEM;
    while (made-- > 0)
        lki_rowset_drop(part[made], 1);
    lki_release(scratch);
    return status;
}

/* Any result but LK_OK: the host may succeed, or will report the error. */
static lk_status stack_there(lki_device *d, int64_t n, const lki_element *e, lki_rowset **out)
{
    return e[0].set->kind == LKI_SET_JOINED ? stack_joined(d, n, e, out) : stack_rows(d, n, e, out);
}

static bool stack_on_card(lki_device *d, int64_t n, const lki_element *e, lki_rowset **out)
{
    const bool failed = lk_failed();
    lki_block  step = lki_step_enter();
    *out = NULL;
    if (step.owner && stack_there(d, n, e, out) != LK_OK) *out = NULL;
    lki_step_leave(&step);
    if (!*out && !failed) lk_clear_error();
    return *out != NULL;
}

lk_status lki_stack_for(const lki_cursor *c, int64_t n, const lki_element *e, lki_rowset **out)
{
    if (c->device && n > 0 && stack_on_card(c->device, n, e, out)) return LK_OK;
    return lki_stack(c->dataset->ops->name, n, e, out);
}
