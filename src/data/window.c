/* Windows: each element is a stack of elements of the input, `shift` after those of the last. */
#include "core/memory.h"
#include "core/size.h"
#include "data/data.h"
#include "data/save.h"

typedef struct window_node {
    lk_dataset base;
    int64_t    size, shift, stride;
    bool       drops;
} window_node;

typedef struct window_state {
    lki_elements held; /* of the input, from the window's first on */
    int64_t      skip; /* of the input, before the next window */
} window_state;

static void window_stop(lki_cursor *c) { lki_elements_clear(&((window_state *)c->state)->held); }

static lk_status skip_some(lki_cursor *c, int64_t count)
{
    enum { PIECE = 256 };
    lki_element e[PIECE];
    for (int64_t got; count > 0 && !c->input[0]->ended; count -= got) {
        LKI_TRY(lki_cursor_next(c->input[0], lki_min(count, PIECE), e, &got));
        lki_elements_drop(got, e);
    }
    return LK_OK;
}

/* Hold as many elements as a window spans, or all that are left. */
static lk_status hold(lki_cursor *c, int64_t span)
{
    enum { PIECE = 4096 };
    lki_elements *q = &((window_state *)c->state)->held;
    for (int64_t got; q->count < span && !c->input[0]->ended; q->count += got) {
        const int64_t piece = lki_min(span - q->count, PIECE);
        LKI_TRY(lki_elements_reserve(q, piece));
        LKI_TRY(lki_cursor_next(c->input[0], piece, q->item + q->at + q->count, &got));
    }
    return LK_OK;
}

static lk_status stack_window(const window_node *n, const lki_elements *q, lki_element *out)
{
    const int64_t count = lki_min(n->size, 1 + (q->count - 1) / n->stride);
    lki_element  *part LKI_RELEASED = lki_alloc_array(count, sizeof *part);
    lki_rowset   *set = NULL;
    if (!part) return LK_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        part[i] = q->item[q->at + i * n->stride];
    LKI_TRY(lki_stack(n->base.ops->name, count, part, &set));
    set->rows = LKI_ALONE;
    *out = lki_element_alone(set);
    return LK_OK;
}

static void move_on(lki_cursor *c)
{
    const window_node *n = (const window_node *)c->dataset;
    window_state      *st = c->state;
    const int64_t      here = lki_min(n->shift, st->held.count);
    lki_elements_drop(here, st->held.item + st->held.at);
    st->held.at += here;
    st->held.count -= here;
    st->skip = n->shift - here;
}

static lk_status window_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const window_node *n = (const window_node *)c->dataset;
    window_state      *st = c->state;
    const int64_t      span = lki_size_mul(n->size - 1, n->stride) + 1;
    while (*got < want) {
        LKI_TRY(skip_some(c, st->skip));
        st->skip = 0;
        LKI_TRY(hold(c, span));
        if (!st->held.count || (n->drops && st->held.count < span)) break;
        LKI_TRY(stack_window(n, &st->held, &out[*got]));
        ++*got;
        move_on(c);
    }
    return LK_OK;
}

static void window_save(lki_cursor *c, lki_saver *s)
{
    const window_state *st = c->state;
    lki_save_number(s, (uint64_t)st->skip);
    lki_save_elements(s, &st->held);
}

static lk_status window_restore(lki_cursor *c, lki_loader *l)
{
    window_state *st = c->state;
    uint64_t      skip;
    LKI_TRY(lki_load_at_most(l, INT64_MAX, &skip));
    st->skip = (int64_t)skip;
    return lki_load_elements(l, INT64_MAX / 64, &st->held);
}

static int64_t window_cardinality(const lk_dataset *d)
{
    const window_node *n = (const window_node *)d;
    const int64_t      all = lk_dataset_cardinality(d->input[0]), span = lki_size_mul(n->size - 1, n->stride) + 1;
    if (all < 0) return all;
    if (n->drops) return all < span ? 0 : (all - span) / n->shift + 1;
    return all / n->shift + (all % n->shift != 0);
}

static const lki_dataset_ops ops = {.name = "lk_dataset_window",
                                    .state_bytes = sizeof(window_state),
                                    .next = window_next,
                                    .stop = window_stop,
                                    .save = window_save,
                                    .restore = window_restore,
                                    .cardinality = window_cardinality};

lk_dataset *lk_dataset_window_kw(lk_window_args a)
{
    LKI_SCOPE_ERRORS;
    const int64_t shift = lki_integer_or(a.shift, a.size), stride = lki_integer_or(a.stride, 1);
    if (!lki_dataset_usable(ops.name, a.dataset)) return NULL;
    if (a.size < 1 || shift < 1 || stride < 1 || a.size > INT32_MAX || shift > INT32_MAX || stride > INT32_MAX)
        return lki_fail(LK_EINVAL, "%s: size %lld, shift %lld, stride %lld; they must be at least 1", ops.name, (long long)a.size,
                        (long long)shift, (long long)stride),
               NULL;
    window_node *n = lki_dataset_new(&ops, sizeof *n, 1, &a.dataset);
    if (!n) return NULL;
    n->size = a.size;
    n->shift = shift;
    n->stride = stride;
    n->drops = a.drop_remainder == LK_ON;
    n->base.batching = LKI_NOT_BATCHED;
    n->base.global = 0;
    n->base.exact = false;
    n->base.print = lki_mix(lki_mix((uint64_t)n->size, (uint64_t)n->shift), lki_mix((uint64_t)n->stride, n->drops));
    return &n->base;
}

lk_dataset *lk_dataset_rebatch(lk_dataset *d, int64_t size, lk_switch drop_remainder)
{
    lk_dataset *rows = lk_dataset_unbatch(d);
    return rows ? lk_dataset_batch(rows, size, drop_remainder) : NULL;
}
