/* Some of the elements, or all of them several times: take, skip, shard, repeat. */
#include "data/data.h"
#include "data/save.h"

typedef struct cut_node {
    lk_dataset base;
    int64_t    count; /* take, skip; shards; times to repeat, 0 for ever */
    int64_t    index; /* shard: which */
} cut_node;

typedef struct cut_state {
    int64_t  done;  /* elements of the input read so far; repeat: times it was read to its end */
    uint64_t given; /* repeat: elements since it began again */
} cut_state;

static void save(lki_cursor *c, lki_saver *s)
{
    const cut_state *st = c->state;
    lki_save_number(s, (uint64_t)st->done);
    lki_save_number(s, st->given);
}

static lk_status restore(lki_cursor *c, lki_loader *l)
{
    cut_state *st = c->state;
    uint64_t   done;
    LKI_TRY(lki_load_at_most(l, INT64_MAX / 2, &done));
    st->done = (int64_t)done;
    return lki_load_number(l, &st->given);
}

#define CUT_OPS(what)                                                                                                              \
    {                                                                                                                              \
        .name = "lk_dataset_" #what, .passes = true, .still = lki_cursor_same, .state_bytes = sizeof(cut_state),                   \
        .next = what##_next, .save = save, .restore = restore, .cardinality = what##_cardinality                                   \
    }

static lk_dataset *cut_new(const lki_dataset_ops *ops, lk_dataset *input, int64_t count, int64_t index)
{
    cut_node *n = lki_dataset_new(ops, sizeof *n, 1, &input);
    if (!n) return NULL;
    n->count = count;
    n->index = index;
    n->base.print = lki_mix((uint64_t)count, (uint64_t)index);
    return &n->base;
}

/* ---- take ---- */

static lk_status take_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    cut_state *st = c->state;
    LKI_TRY(lki_cursor_next(c->input[0], lki_min(want, ((const cut_node *)c->dataset)->count - st->done), out, got));
    st->done += *got;
    return LK_OK;
}

static int64_t take_cardinality(const lk_dataset *d)
{
    const int64_t n = lk_dataset_cardinality(d->input[0]), count = ((const cut_node *)d)->count;
    return n == LK_INFINITE ? count : n < 0 ? (count ? n : 0) : lki_min(n, count);
}

static const lki_dataset_ops take_ops = CUT_OPS(take);

lk_dataset *lk_dataset_take(lk_dataset *d, int64_t count)
{
    if (!lki_dataset_usable(take_ops.name, d)) return NULL;
    if (count < 0) return lki_fail(LK_EINVAL, "lk_dataset_take: %lld elements; it must be 0 or more", (long long)count), NULL;
    return cut_new(&take_ops, d, count, 0);
}

/* ---- skip ---- */

static lk_status read_and_drop(lki_cursor *c, int64_t count, int64_t *dropped)
{
    enum { PIECE = 256 };
    lki_element e[PIECE];
    int64_t     got;
    for (*dropped = 0; *dropped < count; *dropped += got) {
        const int64_t piece = lki_min(PIECE, count - *dropped);
        LKI_TRY(lki_cursor_next(c, piece, e, &got));
        lki_elements_drop(got, e);
        if (got < piece) return *dropped += got, LK_OK;
    }
    return LK_OK;
}

static lk_status skip_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    cut_state    *st = c->state;
    const int64_t count = ((const cut_node *)c->dataset)->count;
    int64_t       dropped = 0;
    if (st->done < count) LKI_TRY(read_and_drop(c->input[0], count, &dropped));
    st->done = count;
    return lki_cursor_next(c->input[0], want, out, got);
}

static int64_t skip_cardinality(const lk_dataset *d)
{
    const int64_t n = lk_dataset_cardinality(d->input[0]);
    return n < 0 ? n : lki_max(0, n - ((const cut_node *)d)->count);
}

static const lki_dataset_ops skip_ops = CUT_OPS(skip);

lk_dataset *lk_dataset_skip(lk_dataset *d, int64_t count)
{
    if (!lki_dataset_usable(skip_ops.name, d)) return NULL;
    if (count < 0) return lki_fail(LK_EINVAL, "lk_dataset_skip: %lld elements; it must be 0 or more", (long long)count), NULL;
    return cut_new(&skip_ops, d, count, 0);
}

/* ---- shard ---- */

typedef struct share {
    int64_t count, index;
} share;

/* A marked shard selects everything, until several workers share the data by hint. */
static share share_of(const lki_cursor *c)
{
    const cut_node *n = (const cut_node *)c->dataset;
    if (n->count != LK_SHARD_HINTED) return (share){n->count, n->index};
    return c->pipeline->hint_workers ? (share){c->pipeline->hint_workers, c->pipeline->hint_worker} : (share){1, 0};
}

static lk_status shard_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const share s = share_of(c);
    cut_state  *st = c->state;
    for (int64_t more, dropped; *got < want; *got += more) {
        if (s.count == 1) return lki_cursor_next(c->input[0], want, out, got);
        const int64_t before = (s.index - st->done % s.count + s.count) % s.count;
        LKI_TRY(read_and_drop(c->input[0], before, &dropped));
        LKI_TRY(lki_cursor_next(c->input[0], 1, out + *got, &more));
        st->done = (st->done + dropped + more) % s.count;
        if (!more) break;
    }
    return LK_OK;
}

static int64_t shard_cardinality(const lk_dataset *d)
{
    const cut_node *s = (const cut_node *)d;
    const int64_t   n = lk_dataset_cardinality(d->input[0]);
    if (n < 0 || s->count == LK_SHARD_HINTED) return n;
    return n / s->count + (n % s->count > s->index);
}

static const lki_dataset_ops shard_ops = CUT_OPS(shard);

lk_dataset *lk_dataset_shard(lk_dataset *d, int64_t count, int64_t index)
{
    if (!lki_dataset_usable(shard_ops.name, d)) return NULL;
    const bool hinted = count == LK_SHARD_HINTED && index == LK_SHARD_HINTED;
    if (!hinted && (count < 1 || index < 0 || index >= count))
        return lki_fail(LK_EINVAL, "lk_dataset_shard: part %lld of %lld; the part must be 0 to %lld", (long long)index,
                        (long long)count, (long long)lki_max(0, count - 1)),
               NULL;
    return cut_new(&shard_ops, d, count, index);
}

bool lki_has_hint(const lk_dataset *d)
{
    if (d->ops == &shard_ops && ((const cut_node *)d)->count == LK_SHARD_HINTED) return true;
    for (int i = 0; i < d->inputs; i++)
        if (lki_has_hint(d->input[i])) return true;
    return false;
}

/* ---- repeat ---- */

static lk_status begin_repetition(lki_cursor *c)
{
    const cut_state *st = c->state;
    return lki_cursor_begin_inputs(c, st->done ? lki_mix(c->turn, (uint64_t)st->done) : c->turn);
}

static lk_status repeat_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const int64_t times = ((const cut_node *)c->dataset)->count;
    cut_state    *st = c->state;
    for (int64_t more; *got < want;) {
        LKI_TRY(lki_cursor_next(c->input[0], want - *got, out + *got, &more));
        *got += more;
        st->given += (uint64_t)more;
        if (*got == want) break;
        st->done++;
        if ((times && st->done >= times) || !st->given) break; /* an empty input repeated for ever is empty */
        st->given = 0;
        LKI_TRY(begin_repetition(c));
    }
    return LK_OK;
}

static int64_t repeat_cardinality(const lk_dataset *d)
{
    const int64_t n = lk_dataset_cardinality(d->input[0]), times = ((const cut_node *)d)->count;
    int64_t       all;
    if (n <= 0) return n;
    return times == 0 || !lki_size_try_mul(n, times, &all) ? LK_INFINITE : all;
}

static const lki_dataset_ops repeat_ops = CUT_OPS(repeat);

lk_dataset *lk_dataset_repeat_kw(lk_repeat_args a)
{
    if (!lki_dataset_usable(repeat_ops.name, a.dataset)) return NULL;
    if (a.times < 0)
        return lki_fail(LK_EINVAL, "lk_dataset_repeat: %lld times; it must be 1 or more, or 0 for ever", (long long)a.times), NULL;
    return cut_new(&repeat_ops, a.dataset, a.times, 0);
}
