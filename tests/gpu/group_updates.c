/* Updates of many variables run as one launch against the same updates one by one. */
#include "kernel/update.h"
#include "members.h"

typedef struct form {
    lki_slot slot;
    int      states, flags;
    bool     squares;
    int      t, scalars; /* which src is the iteration; numbers behind it */
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

TESTS(cmocka_unit_test(test_updates), cmocka_unit_test(test_update_tables))
