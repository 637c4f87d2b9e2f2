/* Calls that run as one launch (kernel/group.h), and the same calls one by one on the same card: a set of arrays, jobs that read
 * and write them, both ways of running all of them, and a comparison of the final arrays. The same bits; NaN counts as NaN. */
#ifndef LK_TESTS_GPU_MEMBERS_H
#define LK_TESTS_GPU_MEMBERS_H

#include "kernel/group.h"
#include "slots.h"

enum { ARRAYS = 400, CALLS = 64, ROOM = 1 << 20, OPERANDS = 6 };

static const lk_shape SCALAR = {0, {0}};

/* ---- memory: two copies of one layout ---- */

typedef struct array {
    lk_dtype type;
    lk_shape shape;
    size_t   at;
} array;

typedef struct job {
    lki_slot  slot;
    lk_dtype  type;
    int       nsrc, ndst, src[OPERANDS], dst[OPERANDS];
    lki_attr  attr;
    int64_t   bound[SLOT_LANES + 1];
    int       lanes;
    bool      checks, writes;
    lki_view  views[2 * OPERANDS];
    lki_lanes by;
    lki_args  args;
} job;

typedef struct world {
    array    arrays[ARRAYS];
    int      count, jobs;
    size_t   used;
    uint8_t *start; /* what all arrays hold before */
    job      job[CALLS];
} world;

typedef struct card {
    lki_device         *d;
    const lki_gpu_line *l;
    const lki_grouping *g;
} card;

static inline card card_of(void)
{
    card c = {.d = slot_gpu()};
    c.l = lki_gpu_line_of(c.d);
    assert_non_null(c.l->backend->groups);
    c.g = c.l->backend->groups();
    return c;
}

static inline world *world_new(void)
{
    world *w = calloc(1, sizeof *w);
    w->start = malloc(ROOM);
    memset(w->start, 0xa5, ROOM);
    return w;
}

static inline void world_free(world *w)
{
    free(w->start);
    free(w);
}

/* A new array; `data` is what it holds, or NULL. Now and then one that is not aligned to more than its elements. */
static inline int world_add(world *w, lk_dtype t, lk_shape s, void *data)
{
    const size_t each = lk_dtype_bytes(t), bytes = (size_t)lki_shape_size(&s) * each;
    assert_true(w->count < ARRAYS);
    w->used = (w->used + 31) / 16 * 16 + (slot_below(4) ? 0 : each);
    assert_true(w->used + bytes < ROOM);
    w->arrays[w->count] = (array){t, s, w->used};
    if (data) memcpy(w->start + w->used, data, bytes);
    free(data);
    w->used += bytes;
    return w->count++;
}

static inline int world_random(world *w, lk_dtype t, lk_shape s) { return world_add(w, t, s, slot_numbers(t, &s, true)); }

/* One that is there, if chance will have it, or a new one. */
static inline int world_find(world *w, lk_dtype t, lk_shape s)
{
    const int from = (int)slot_below(w->count);
    for (int i = 0; i < w->count && slot_below(8); i++) {
        const array *a = &w->arrays[(from + i) % w->count];
        if (a->type == t && lki_shape_equal(&a->shape, &s)) return (from + i) % w->count;
    }
    return world_random(w, t, s);
}

static inline job *world_job(world *w, lki_slot slot, lk_dtype type)
{
    job *j = &w->job[w->jobs];
    assert_true(w->jobs < CALLS);
    *j = (job){.slot = slot, .type = type};
    return j;
}

static inline void reads(job *j, int which) { j->src[j->nsrc++] = which; }
static inline void makes(job *j, int which) { j->dst[j->ndst++] = which; }

/* A result: mostly new, or written over one that no operand of this call reads. */
static inline void makes_new(world *w, job *j, lk_dtype t, lk_shape s)
{
    int at = -1;
    for (int i = 0; i < w->count && !slot_below(3) && at < 0; i++) {
        const int k = (int)slot_below(w->count);
        if (w->arrays[k].type == t && lki_shape_equal(&w->arrays[k].shape, &s)) at = k;
    }
    for (int i = 0; i < j->nsrc; i++)
        if (j->src[i] == at) at = -1;
    for (int i = 0; i < j->ndst; i++)
        if (j->dst[i] == at) at = -1;
    makes(j, at >= 0 ? at : world_add(w, t, s, NULL));
}

/* Its arguments, with addresses from `base` on. */
static const lki_args *place(const world *w, job *j, char *base, const lki_launch *gpu)
{
    for (int i = 0; i < j->nsrc + j->ndst; i++) {
        const array *a = &w->arrays[i < j->nsrc ? j->src[i] : j->dst[i - j->nsrc]];
        j->views[i] = (lki_view){base ? base + a->at : NULL, &a->shape, a->type};
    }
    j->by = (lki_lanes){j->lanes, j->bound};
    j->args = (lki_args){.src = j->views,
                         .dst = j->views + j->nsrc,
                         .nsrc = j->nsrc,
                         .ndst = j->ndst,
                         .attr = &j->attr,
                         .lanes = j->lanes ? &j->by : NULL,
                         .hi = lki_shape_size(j->views[j->nsrc].shape),
                         .gpu = gpu};
    return &j->args;
}

static inline lki_group group_of(const world *w, job *j) { return card_of().g->of(j->slot, j->type, place(w, j, NULL, NULL)); }

/* ---- running ---- */

static inline void run_alone(const card *c, const job *j, lki_args a)
{
    lki_scratch_fn *needs = c->l->kernels->scratch[j->slot][j->type];
    const size_t    bytes = needs ? needs(&a) : 0;
    a.scratch = bytes ? c->d->ops->alloc(c->d, bytes) : NULL;
    assert_non_null(c->l->kernels->fn[j->slot][j->type]);
    c->l->kernels->fn[j->slot][j->type](&a);
    assert_int_equal(lki_gpu_check(c->d, "launch", c->l->backend->failure(c->l->card)), LK_OK);
    if (bytes) c->d->ops->release(c->d, a.scratch, bytes);
}

static inline void run_grouped(const card *c, lki_group kind, world *w)
{
    lki_member members[CALLS];
    size_t     bytes[CALLS];
    for (int i = 0; i < w->jobs; i++) {
        job            *j = &w->job[i];
        lki_scratch_fn *needs = c->l->kernels->scratch[j->slot][j->type];
        bytes[i] = needs ? needs(&j->args) : 0;
        j->args.scratch = bytes[i] ? c->d->ops->alloc(c->d, bytes[i]) : NULL;
        members[i] = (lki_member){j->slot, j->type, &j->args};
    }
    for (int i = 0; i < w->jobs; i += c->g->most[kind])
        c->g->run[kind]((int)lki_min(c->g->most[kind], w->jobs - i), members + i);
    assert_int_equal(lki_gpu_check(c->d, "launch", c->l->backend->failure(c->l->card)), LK_OK);
    for (int i = 0; i < w->jobs; i++)
        if (bytes[i]) c->d->ops->release(c->d, w->job[i].args.scratch, bytes[i]);
}

/* All jobs, by group or one by one; the memory they leave, to be freed. stop: the word before, and after. */
static inline uint8_t *outcome(world *w, lki_group kind, bool grouped, int *stop)
{
    const card c = card_of();
    char      *base = c.d->ops->alloc(c.d, ROOM);
    int       *stop_word = c.d->ops->alloc(c.d, sizeof *stop_word);
    uint8_t   *out = malloc(ROOM);
    lki_launch gpu[CALLS];
    c.d->ops->write(c.d, base, w->start, ROOM);
    c.d->ops->write(c.d, stop_word, stop, sizeof *stop);
    for (int i = 0; i < w->jobs; i++) {
        job *j = &w->job[i];
        gpu[i] = (lki_launch){
            .stream = c.l->stream, .stop = j->checks || j->writes ? stop_word : NULL, .fault = j->checks ? CALLS + 1 - i : 0};
        place(w, j, base, &gpu[i]);
        if (!grouped) run_alone(&c, j, j->args);
    }
    if (grouped) run_grouped(&c, kind, w);
    assert_int_equal(c.d->ops->read(c.d, out, base, ROOM), LK_OK);
    assert_int_equal(c.d->ops->read(c.d, stop, stop_word, sizeof *stop), LK_OK);
    c.d->ops->release(c.d, base, ROOM);
    c.d->ops->release(c.d, stop_word, sizeof *stop_word);
    return out;
}

static inline void compare(const world *w, uint8_t *alone, uint8_t *grouped)
{
    for (int i = 0; i < w->count; i++) {
        const array *a = &w->arrays[i];
        const size_t each = lk_dtype_bytes(a->type);
        for (int64_t k = 0; k < lki_shape_size(&a->shape); k++) {
            uint8_t *x = alone + a->at + (size_t)k * each, *y = grouped + a->at + (size_t)k * each;
            if (memcmp(x, y, each) && !(isnan(lki_element_get(a->type, x, 0)) && isnan(lki_element_get(a->type, y, 0)))) {
                const char *maker = "nobody";
                for (int m = 0; m < w->jobs; m++)
                    for (int d = 0; d < w->job[m].ndst; d++)
                        if (w->job[m].dst[d] == i) maker = lki_slot_name(w->job[m].slot);
                fail_msg("array %d (%s), made by %s, element %lld: alone %.17g, grouped %.17g", i, lk_dtype_name(a->type), maker,
                         (long long)k, lki_element_get(a->type, x, 0), lki_element_get(a->type, y, 0));
            }
            memset(x, 0, each);
            memset(y, 0, each);
        }
    }
    if (memcmp(alone, grouped, ROOM)) fail_msg("something outside of all arrays was written");
}

static inline void check(world *w, lki_group kind, int stop)
{
    int      stop_alone = stop, stop_grouped = stop;
    uint8_t *alone = outcome(w, kind, false, &stop_alone), *grouped = outcome(w, kind, true, &stop_grouped);
    compare(w, alone, grouped);
    assert_int_equal(stop_alone, stop_grouped);
    free(alone);
    free(grouped);
}

/* An iteration. */
static inline int counter(world *w)
{
    int64_t *t = slot_room(LK_I64, &SCALAR);
    *t = slot_below(300);
    return world_add(w, LK_I64, SCALAR, t);
}

#endif
