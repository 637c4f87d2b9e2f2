/* Updates of many variables run as one launch against the same updates one by one. */
#include "kernel/update.h"
#include "members.h"

typedef struct form {
    lki_slot slot;
    int      states, flags;
    bool     squares;
    int      t, scalars; /* which src is the iteration; numbers after it */
    double   p[5];
} form;

static const form forms[] = {
    {LKI_K_update_sgd, 1, 0, false, 2, 0, {0}},
    {LKI_K_update_sgd, 2, 0, false, 2, 0, {0.9}},
    {LKI_K_update_sgd, 2, LKI_SGD_NESTEROV, false, 2, 0, {0.9}},
    {LKI_K_update_adam, 3, 0, true, 2, 0, {0.9, 0.999, 1e-7}},
    {LKI_K_update_adam, 4, LKI_ADAM_AMSGRAD, true, 2, 0, {0.9, 0.99, 1e-3}},
    {LKI_K_update_rmsprop, 2, 0, true, 2, 0, {0.9, 0.5, 1e-2}},
    {LKI_K_update_rmsprop, 4, LKI_RMSPROP_CENTERED | LKI_RMSPROP_MOMENTUM, true, 2, 0, {0.9, 0.5, 1e-2}},
    {LKI_K_update_adagrad, 2, 0, true, 2, 0, {1e-7}},
    {LKI_K_update_adadelta, 3, 0, true, 2, 0, {0.95, 1e-7}},
    {LKI_K_update_adamax, 3, 0, true, 2, 0, {0.9, 0.999, 1e-7}},
    {LKI_K_update_nadam, 3, 0, false, 2, 1, {0.9, 0.999, 1e-7}},
    {LKI_K_update_ftrl, 3, 0, true, 2, 0, {-0.5, 0.01, 0.02, 0.03, 0.5}},
    {LKI_K_update_lion, 2, 0, false, 2, 0, {0.9, 0.99}},
    {LKI_K_update_decay, 1, 0, false, 2, 0, {0}},
    {LKI_K_update_moments, 2, 0, true, 2, 0, {0.9, 0.999}},
    {LKI_K_update_lamb, 1, 0, false, 2, 2, {0}},
    {LKI_K_update_ema, 1, 0, false, 1, 0, {0.99}},
    {LKI_K_update_overwrite, 1, 0, false, 1, 0, {3}},
    {LKI_K_update_accumulate, 1, 0, false, 2, 0, {0}},
};

static int sized(world *w, lk_dtype t, lk_shape s)
{
    void *p = slot_numbers(t, &s, false);
    for (int64_t i = 0; i < lki_shape_size(&s); i++)
        lki_element_set(t, p, i, fabs(lki_element_get(t, p, i)));
    return world_add(w, t, s, p);
}

/* A variable of n elements; rate and iteration are those of the whole group. */
static void add_update(world *w, const form *f, lk_dtype t, int64_t n, int rate, int iteration, bool squares)
{
    const lk_shape s = {1, {n}};
    job           *j = world_job(w, f->slot, t);
    reads(j, world_random(w, t, s));
    if (f->t == 2) reads(j, rate);
    reads(j, iteration);
    for (int i = 0; i < f->scalars; i++)
        reads(j, sized(w, t, SCALAR));
    if (f->squares && squares) reads(j, sized(w, t, s));
    for (int i = 0; i < f->states; i++)
        makes(j, i ? sized(w, t, s) : world_random(w, t, s));
    j->attr.update.flags = f->flags;
    memcpy(j->attr.update.p, f->p, sizeof f->p);
    j->attr.update.p[LKI_UPDATE_DECAY] = w->jobs % 3 ? 0 : 0.004;
    j->writes = true;
    assert_int_equal(group_of(w, j), LKI_GROUP_UPDATES);
    w->jobs++;
}

static int rate_of(world *w, lk_dtype t)
{
    void *p = slot_room(t, &SCALAR);
    lki_element_set(t, p, 0, 0.01);
    return world_add(w, t, SCALAR, p);
}

TEST(test_updates)
{
    static const int64_t sizes[] = {1027, 0, 10, 64, 1, 288, 0, 640, 5000, 3, 2048};
    for (int f = 0; f < LKI_COUNT(forms); f++)
        for (int t = LK_F32; t <= LK_F64; t++)
            for (int stop = 0; stop < 2; stop++) {
                world    *w = world_new();
                const int rate = rate_of(w, t == LK_F64 && f % 2 ? LK_F64 : LK_F32), iteration = counter(w);
                for (int i = 0; i < (stop ? 3 : LKI_COUNT(sizes)); i++)
                    add_update(w, &forms[f], (lk_dtype)t, sizes[i], rate, iteration, i % 4 == 3);
                check(w, LKI_GROUP_UPDATES, stop);
                world_free(w);
            }
}

/* As many as there may be, and more; some of another rate, or other hyper-parameters; nothing but empty ones. */
TEST(test_update_tables)
{
    const card c = card_of();
    for (int kind = 0; kind < 3; kind++) {
        world    *w = world_new();
        const int rate = rate_of(w, LK_F32), other = rate_of(w, LK_F32), iteration = counter(w);
        for (int i = 0; i < c.g->most[LKI_GROUP_UPDATES] + 3; i++) {
            add_update(w, &forms[3], LK_F32, kind == 2 ? 0 : 1 + slot_below(600), kind == 1 && i % 7 == 5 ? other : rate, iteration,
                       false);
            if (kind == 1 && i == 20) w->job[i].attr.update.p[0] = 0.5;
            if (kind == 1 && i == 22) w->job[i].attr.update.every = 2;
        }
        check(w, LKI_GROUP_UPDATES, 0);
        world_free(w);
    }
}

static int copy_of(world *w, int which)
{
    const array *a = &w->arrays[which];
    const size_t bytes = (size_t)lki_shape_size(&a->shape) * lk_dtype_bytes(a->type);
    void        *data = malloc(bytes);
    memcpy(data, w->start + a->at, bytes);
    return world_add(w, a->type, a->shape, data);
}

/* Exactly, except the sign of a NaN: a card, and a compiler for simulated ones, takes it from either operand. */
static void assert_same_numbers(const void *a, const void *b, int count, lk_dtype type)
{
    for (int i = 0; i < count; i++) {
        const size_t at = (size_t)i * lk_dtype_bytes(type);
        if (isnan(lki_element_get(type, a, i)) && isnan(lki_element_get(type, b, i))) continue;
        assert_memory_equal((const char *)a + at, (const char *)b + at, lk_dtype_bytes(type));
    }
}

/* The gradient of an L2 term, made by ops of its own and by the update. */
TEST(an_update_adds_the_variable)
{
    for (int f = 0; f < LKI_COUNT(forms); f++)
        for (int t = LK_F32; t <= LK_F64; t++) {
            const form *how = &forms[f];
            if (how->t != 2 || how->scalars || how->slot == LKI_K_update_decay || how->slot == LKI_K_update_moments ||
                how->slot == LKI_K_update_accumulate)
                continue;
            world         *w = world_new();
            const lk_shape s = {1, {1027}};
            const int      rate = rate_of(w, LK_F32), iteration = counter(w), factor = sized(w, (lk_dtype)t, SCALAR);
            int            stop = 0;
            job           *j = world_job(w, how->slot, (lk_dtype)t);
            const int      g = world_random(w, (lk_dtype)t, s);
            add_update(w, how, (lk_dtype)t, 1027, rate, iteration, false);
            w->job[2] = w->job[0];
            w->jobs = 0;
            j = world_job(w, LKI_K_mul, (lk_dtype)t);
            reads(j, w->job[2].dst[0]), reads(j, factor), makes(j, world_add(w, (lk_dtype)t, s, NULL));
            w->jobs = 1;
            j = world_job(w, LKI_K_add, (lk_dtype)t);
            reads(j, g), reads(j, w->job[0].dst[0]), makes(j, world_add(w, (lk_dtype)t, s, NULL));
            w->job[2].src[0] = j->dst[0];
            w->jobs = 3;
            w->job[w->jobs++] = w->job[2];
            j = &w->job[3];
            j->src[0] = g;
            reads(j, factor);
            j->attr.update.flags |= LKI_UPDATE_PLUS;
            for (int i = 0; i < j->ndst; i++)
                j->dst[i] = copy_of(w, j->dst[i]);
            uint8_t *out = outcome(w, LKI_GROUP_UPDATES, false, &stop);
            for (int i = 0; i < j->ndst; i++) {
                const array *a = &w->arrays[w->job[2].dst[i]], *b = &w->arrays[j->dst[i]];
                assert_same_numbers(out + a->at, out + b->at, 1027, a->type);
                assert_memory_not_equal(out + a->at, w->start + a->at, (size_t)1027 * lk_dtype_bytes(a->type));
            }
            free(out);
            world_free(w);
        }
}

/* Both jobs, the second of which takes what the first leaves in parts. The memory they leave, to be freed. */
static uint8_t *outcome_in_parts(world *w, lki_row_parts *left)
{
    const card   c = card_of();
    char        *base = c.d->ops->alloc(c.d, ROOM);
    uint8_t     *out = malloc(ROOM);
    lki_launch   gives = {.stream = c.l->stream, .leaves = left}, takes = {.stream = c.l->stream, .takes = left};
    lki_args     sum = *place(w, &w->job[0], base, &gives), update = *place(w, &w->job[1], base, &takes);
    const size_t bytes = c.l->kernels->scratch[w->job[0].slot][LK_F32](&sum);
    sum.scratch = c.d->ops->alloc(c.d, bytes);
    c.d->ops->write(c.d, base, w->start, ROOM);
    c.l->kernels->fn[w->job[0].slot][LK_F32](&sum);
    c.l->kernels->fn[w->job[1].slot][LK_F32](&update);
    assert_int_equal(c.d->ops->read(c.d, out, base, ROOM), LK_OK);
    c.d->ops->release(c.d, sum.scratch, bytes);
    c.d->ops->release(c.d, base, ROOM);
    return out;
}

static int ordinary(world *w, lk_shape s) { return world_add(w, LK_F32, s, slot_numbers(LK_F32, &s, false)); }

/* Weight gradients that stay in parts: 2, 16, 64 and 256 of them, of results in fours and not; and where lanes differ, or are too
 * many, none do. */
TEST(an_update_adds_up_parts)
{
    static const struct {
        int images, lanes, parts, C, O;
    } cases[] = {{2, 2, 2, 1, 8},     {16, 8, 16, 1, 8}, {64, 4, 64, 1, 8},   {64, 8, 64, 1, 7}, {256, 8, 256, 1, 8},
                 {256, 8, 256, 1, 5}, {8, 8, 8, 16, 32}, {32, 8, 32, 32, 64}, {12, 8, 0, 1, 8},  {512, 8, 0, 1, 8}};
    for (int i = 0; i < LKI_COUNT(cases); i++) {
        const int      C = cases[i].C, O = cases[i].O;
        const lk_shape x = {4, {cases[i].images, 6, 6, C}}, d = {4, {cases[i].images, 4, 4, O}}, weights = {4, {3, 3, C, O}};
        const size_t   size = (size_t)(9 * C * O) * sizeof(float);
        world         *w = world_new();
        lki_row_parts  left = {0};
        int            stop = 0;
        job           *j = world_job(w, LKI_K_conv2d_grad_w, LK_F32);
        slot_case      lanes = {0};
        slot_lanes(&lanes, cases[i].lanes, cases[i].images);
        for (int k = 0; k <= cases[i].lanes && cases[i].parts; k++)
            lanes.bound[k] = (int64_t)k * cases[i].images / cases[i].lanes;
        reads(j, ordinary(w, x)), reads(j, ordinary(w, d)), makes(j, world_add(w, LK_F32, weights, NULL));
        j->attr.window = (lki_window){{3, 3}, {1, 1}, {1, 1}, {0, 0}};
        j->lanes = cases[i].lanes;
        memcpy(j->bound, lanes.bound, sizeof j->bound);
        w->jobs++;
        j = world_job(w, LKI_K_update_adam, LK_F32);
        reads(j, w->job[0].dst[0]), reads(j, rate_of(w, LK_F32)), reads(j, counter(w));
        for (int s = 0; s < 3; s++)
            makes(j, s ? sized(w, LK_F32, weights) : ordinary(w, weights));
        memcpy(j->attr.update.p, forms[3].p, sizeof forms[3].p);
        w->jobs++;
        uint8_t *whole = outcome(w, LKI_GROUP_UPDATES, false, &stop), *in_parts = outcome_in_parts(w, &left);
        assert_int_equal(left.data ? left.count : 0, cases[i].parts);
        for (int s = 0; s < 3; s++) {
            const array *a = &w->arrays[j->dst[s]];
            assert_memory_equal(whole + a->at, in_parts + a->at, size);
            assert_memory_not_equal(whole + a->at, w->start + a->at, size);
        }
        free(whole);
        free(in_parts);
        world_free(w);
    }
}

TESTS(cmocka_unit_test(an_update_adds_up_parts), cmocka_unit_test(an_update_adds_the_variable), cmocka_unit_test(test_updates),
      cmocka_unit_test(test_update_tables))
