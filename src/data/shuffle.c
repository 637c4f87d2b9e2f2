/* Shuffle: a buffer of rows. A row is drawn from it at random and returned; the next row of the input replaces it.
 *
 * Invariants
 *  1. The order is a pure function of the seed, the shuffle's place in its pipeline, the iteration, the turn (which repetition) and
 *     the input. It does not depend on threads, timing, how many elements are requested at a time, or later operations.
 *  2. Draw number d is word pair d mod 2 of Philox block d / 2. */
#include "core/memory.h"
#include "core/random.h"
#include "data/data.h"
#include "data/save.h"
#include <math.h>

typedef struct shuffle_node {
    lk_dataset base;
    int64_t    buffer;
    bool       seeded, reshuffles;
    uint64_t   seed;
} shuffle_node;

typedef struct shuffle_state {
    lki_elements buffer; /* at = 0 */
    uint64_t     key, counter, draws;
    lki_philox   block; /* of draw draws - 1 */
    lki_elements fresh; /* the replacements for a block of draws */
} shuffle_state;

static uint64_t mulhi(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)a * b >> 64);
}

/* 0 <= result < n; the odds differ by less than n / 2^64. */
static int64_t draw(shuffle_state *st, int64_t n)
{
    const int pair = 2 * (int)(st->draws & 1);
    if (!pair) st->block = lki_philox_block(st->key, st->draws / 2, st->counter);
    st->draws++;
    return (int64_t)mulhi((uint64_t)st->block.word[pair + 1] << 32 | st->block.word[pair], (uint64_t)n);
}

static void prepare_draws(lki_cursor *c)
{
    const shuffle_node *n = (const shuffle_node *)c->dataset;
    shuffle_state      *st = c->state;
    st->key = lki_stream_key(n->seeded ? n->seed : c->pipeline->seed, "lk_dataset_shuffle");
    st->counter = n->reshuffles ? lki_mix(lki_mix(c->place, c->iteration), c->turn) : c->place;
}

static lk_status begin(lki_cursor *c)
{
    prepare_draws(c);
    return lki_cursor_begin_inputs(c, c->turn);
}

static void stop(lki_cursor *c)
{
    shuffle_state *st = c->state;
    lki_elements_clear(&st->buffer);
    lki_elements_clear(&st->fresh);
}

/* Read up to `want` elements of the input to the end of a queue. */
static lk_status read_more(lki_cursor *c, int64_t want, lki_elements *q)
{
    enum { PIECE = 1 << 16 }; /* a buffer larger than the data takes no more memory than the data */
    for (int64_t got; want > 0 && !c->input[0]->ended; want -= got) {
        int64_t piece = lki_min(want, PIECE);
        LKI_TRY(lki_elements_reserve(q, piece));
        LKI_TRY(lki_cursor_next(c->input[0], piece, q->item + q->at + q->count, &got));
        q->count += got;
        if (got < piece) break;
    }
    return LK_OK;
}

/* Which place is drawn next does not depend on earlier draws, so a few draws are made ahead: places, which may be anywhere in a
 * large buffer, are prefetched while the first ones are emptied. An emptied place gets a fresh element, or the last one. */
enum { DRAWS_AHEAD = 64 };

static int64_t draw_some(shuffle_state *st, int64_t want, int64_t *place)
{
    const int64_t most = lki_min(want, lki_min(DRAWS_AHEAD, st->buffer.count + st->fresh.count));
    for (int64_t i = 0; i < most; i++) {
        place[i] = draw(st, st->buffer.count - lki_max(0, i - st->fresh.count));
        __builtin_prefetch(&st->buffer.item[place[i]], 1);
    }
    return most;
}

static lki_element take_out(shuffle_state *st, int64_t place)
{
    lki_elements *b = &st->buffer;
    lki_element   e = b->item[place];
    if (st->fresh.count) {
        b->item[place] = st->fresh.item[st->fresh.at++];
        st->fresh.count--;
    } else b->item[place] = b->item[--b->count];
    return e;
}

static lk_status next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const shuffle_node *n = (const shuffle_node *)c->dataset;
    shuffle_state      *st = c->state;
    if (c->pipeline->looking) return lki_cursor_next(c->input[0], want, out, got);
    LKI_TRY(read_more(c, n->buffer - st->buffer.count, &st->buffer));
    LKI_TRY(read_more(c, want, &st->fresh));
    while (*got < want && st->buffer.count) {
        int64_t       place[DRAWS_AHEAD];
        const int64_t drawn = draw_some(st, want - *got, place);
        for (int64_t i = 0; i < drawn; i++)
            out[(*got)++] = take_out(st, place[i]);
    }
    return LK_OK;
}

/* Between calls `fresh` is empty: each fresh element has replaced one that was returned. */
static void save(lki_cursor *c, lki_saver *s)
{
    const shuffle_state *st = c->state;
    lki_save_number(s, st->draws);
    lki_save_elements(s, &st->buffer);
}

static lk_status restore(lki_cursor *c, lki_loader *l)
{
    const shuffle_node *n = (const shuffle_node *)c->dataset;
    shuffle_state      *st = c->state;
    prepare_draws(c);
    LKI_TRY(lki_load_number(l, &st->draws));
    LKI_TRY(lki_load_elements(l, n->buffer, &st->buffer));
    if (st->draws & 1) st->block = lki_philox_block(st->key, st->draws / 2, st->counter);
    return LK_OK;
}

static const lki_dataset_ops ops = {.name = "lk_dataset_shuffle",
                                    .state_bytes = sizeof(shuffle_state),
                                    .counts = true,
                                    .still = lki_cursor_same,
                                    .begin = begin,
                                    .next = next,
                                    .stop = stop,
                                    .save = save,
                                    .restore = restore};

lk_dataset *lk_dataset_shuffle_kw(lk_shuffle_args a)
{
    if (!lki_dataset_usable(ops.name, a.dataset)) return NULL;
    if (a.buffer_size < 1)
        return lki_fail(LK_EINVAL, "%s: a buffer of %lld rows; it must be 1 or more, and the number of all rows for a full shuffle",
                        ops.name, (long long)a.buffer_size),
               NULL;
    if (lki_number_given(a.seed) &&
        (lki_number(a.seed) < 0 || lki_number(a.seed) > 0x1p53 || lki_number(a.seed) != floor(lki_number(a.seed))))
        return lki_fail(LK_EINVAL, "%s: .seed = %g; it must be an integer from 0 to 2^53", ops.name, lki_number(a.seed)), NULL;
    shuffle_node *n = lki_dataset_new(&ops, sizeof *n, 1, &a.dataset);
    if (!n) return NULL;
    n->buffer = a.buffer_size;
    n->seeded = lki_number_given(a.seed);
    n->seed = lki_number_given(a.seed) ? (uint64_t)lki_number(a.seed) : 0;
    n->reshuffles = a.reshuffle_each_iteration != LK_OFF;
    n->base.print = lki_mix(lki_mix((uint64_t)n->buffer, n->seeded ? n->seed + 1 : 0), n->reshuffles);
    return &n->base;
}
