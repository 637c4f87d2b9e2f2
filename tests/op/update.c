/* Kernels of the optimisers: the reference and every vector version give the same bits, for every division of the range;
 * accumulation delays an update; schedules at their limits. */
#include "kernel/update.h"
#include "check.h"
#include "core/base.h"
#include "kernel/kernel.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { SIZE = 149, MOST = 5 };

typedef struct problem {
    lki_slot slot;
    int      nsrc, ndst;
    unsigned scalars; /* bit i: src i has one element */
    int      flags;
    double   p[5];
} problem;

#define ADAM_P                                                                                                                     \
    {                                                                                                                              \
        0.9, 0.999, 1e-7                                                                                                           \
    }

static const problem PROBLEMS[] = {
    {LKI_K_update_sgd, 3, 1, 6, 0, {0}},
    {LKI_K_update_sgd, 3, 2, 6, 0, {0.9}},
    {LKI_K_update_sgd, 3, 2, 6, LKI_SGD_NESTEROV, {0.9}},
    {LKI_K_update_adam, 3, 3, 6, 0, ADAM_P},
    {LKI_K_update_adam, 3, 4, 6, LKI_ADAM_AMSGRAD, ADAM_P},
    {LKI_K_update_adam, 4, 3, 6, 0, ADAM_P},
    {LKI_K_update_rmsprop, 3, 2, 6, 0, {0.9, 0, 1e-7}},
    {LKI_K_update_rmsprop, 3, 3, 6, LKI_RMSPROP_MOMENTUM, {0.9, 0.8, 1e-7}},
    {LKI_K_update_rmsprop, 3, 3, 6, LKI_RMSPROP_CENTERED, {0.9, 0, 1e-7}},
    {LKI_K_update_rmsprop, 4, 4, 6, LKI_RMSPROP_CENTERED | LKI_RMSPROP_MOMENTUM, {0.9, 0.8, 1e-7}},
    {LKI_K_update_adagrad, 3, 2, 6, 0, {1e-7}},
    {LKI_K_update_adagrad, 4, 2, 6, 0, {1e-7}},
    {LKI_K_update_adadelta, 3, 3, 6, 0, {0.95, 1e-7}},
    {LKI_K_update_adadelta, 4, 3, 6, 0, {0.95, 1e-7}},
    {LKI_K_update_adamax, 3, 3, 6, 0, ADAM_P},
    {LKI_K_update_adamax, 4, 3, 6, 0, ADAM_P},
    {LKI_K_update_nadam, 4, 3, 14, 0, ADAM_P},
    {LKI_K_update_nadam, 5, 3, 14, 0, ADAM_P},
    {LKI_K_update_ftrl, 3, 3, 6, 0, {-0.5, 0.01, 0.02, 0.03, 0.1}},
    {LKI_K_update_ftrl, 4, 3, 6, 0, {-0.7, 0, 0, 0, 0}},
    {LKI_K_update_lion, 3, 2, 6, 0, {0.9, 0.99}},
    {LKI_K_update_decay, 3, 1, 6, 0, {0}},
    {LKI_K_update_moments, 3, 2, 6, 0, {0.9, 0.999}},
    {LKI_K_update_moments, 4, 2, 6, 0, {0.9, 0.999}},
    {LKI_K_lamb_direction, 3, 1, 4, 0, ADAM_P},
    {LKI_K_update_lamb, 5, 1, 30, 0, {0}},
    {LKI_K_update_ema, 2, 1, 2, 0, {0.99}},
    {LKI_K_update_overwrite, 2, 1, 2, 0, {2}},
    {LKI_K_update_accumulate, 3, 1, 6, 0, {0}},
    {LKI_K_clip_by_norm, 2, 1, 2, 0, {0.5}},
    {LKI_K_clip_by_norm, 2, 1, 2, LKI_CLIP_GLOBAL, {0.5}},
};

/* All arrays of a call, in either type. */
typedef struct memory {
    union {
        float  f[SIZE];
        double d[SIZE];
    } src[MOST], dst[MOST];
    int64_t  t;
    lk_shape shape, scalar;
    lki_view src_view[MOST], dst_view[MOST];
    lki_attr attr;
    lki_args args;
} memory;

static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*state >> 20) / (double)(INT64_C(1) << 43) - 1;
}

/* Mostly ordinary numbers, with the corners among the first. Slots hold no negative numbers, so that roots are real. */
static double element(uint64_t *state, int i, int is_slot)
{
    static const double corners[] = {0, -0.0, FLT_MIN, FLT_MAX, -1e-30, 1e30, INFINITY, NAN};
    const double        x = i < LKI_COUNT(corners) ? corners[i] : draw(state);
    return is_slot ? fabs(x) : x;
}

static void fill(memory *m, const problem *p, lk_dtype dtype, int64_t t, int every)
{
    uint64_t state = 12345 + p->slot;
    memset(m, 0, sizeof *m);
    m->t = t;
    m->shape = LK_SHAPE(SIZE);
    m->scalar = LK_SHAPE();
    for (int k = 0; k < MOST; k++)
        for (int i = 0; i < SIZE; i++) {
            const double s = element(&state, i, k > 0), d = element(&state, (i + 3) % SIZE, k > 0);
            if (dtype == LK_F32) m->src[k].f[i] = (float)s, m->dst[k].f[i] = (float)d;
            else m->src[k].d[i] = s, m->dst[k].d[i] = d;
        }
    for (int k = 0; k < p->nsrc; k++)
        m->src_view[k] = (lki_view){&m->src[k], p->scalars >> k & 1 ? &m->scalar : &m->shape, dtype};
    for (int k = 0; k < p->ndst; k++)
        m->dst_view[k] = (lki_view){&m->dst[k], &m->shape, dtype};
    for (int k = 0; k < p->nsrc; k++) {
        if (!(p->scalars >> k & 1)) continue;
        if (dtype == LK_F32) m->src[k].f[0] = 0.37f;
        else m->src[k].d[0] = 0.37;
    }
    const int counter = p->slot == LKI_K_update_ema || p->slot == LKI_K_update_overwrite ? 1 : 2;
    if (p->slot != LKI_K_clip_by_norm) m->src_view[counter] = (lki_view){&m->t, &m->scalar, LK_I64};
    m->attr.update.flags = p->flags;
    m->attr.update.every = every;
    memcpy(m->attr.update.p, p->p, sizeof p->p);
    if (p->slot != LKI_K_clip_by_norm) m->attr.update.p[LKI_UPDATE_DECAY] = 0.01;
    m->args = (lki_args){.src = m->src_view, .dst = m->dst_view, .nsrc = p->nsrc, .ndst = p->ndst, .attr = &m->attr, .hi = SIZE};
}

static int same_number(lk_dtype dtype, const memory *a, const memory *b, int k, int i)
{
    const double x = dtype == LK_F32 ? (double)a->dst[k].f[i] : a->dst[k].d[i],
                 y = dtype == LK_F32 ? (double)b->dst[k].f[i] : b->dst[k].d[i];
    return (x == y && signbit(x) == signbit(y)) || (isnan(x) && isnan(y));
}

static void check_same(const problem *p, lk_dtype dtype, const memory *a, const memory *b, const char *variant)
{
    for (int k = 0; k < p->ndst; k++)
        for (int i = 0; i < SIZE; i++)
            if (!same_number(dtype, a, b, k, i))
                fail_msg("%s, %s, %s: dst %d, element %d differs", lki_slot_name(p->slot), lk_dtype_name(dtype), variant, k, i);
}

static void check_problem(const problem *p, lk_dtype dtype, lki_kernel *reference, lki_kernel *fn, const char *variant)
{
    static memory whole, other;
    fill(&whole, p, dtype, 4, 0);
    reference(&whole.args);
    fill(&other, p, dtype, 4, 0);
    fn(&other.args);
    check_same(p, dtype, &whole, &other, variant);
    fill(&other, p, dtype, 4, 0);
    static const int cuts[] = {0, 1, 1, 17, 64, 96, SIZE};
    for (int c = LKI_COUNT(cuts); --c > 0;) {
        other.args.lo = cuts[c - 1];
        other.args.hi = cuts[c];
        fn(&other.args);
    }
    check_same(p, dtype, &whole, &other, variant);
}

TEST(same_bits)
{
    static lki_kernels reference, table;
    lki_cpu_kernels(&reference, LKI_ISA_REFERENCE);
    for (int isa = LKI_ISA_REFERENCE; isa <= (int)lki_cpu_isa_machine(); isa++) {
        lki_cpu_kernels(&table, (lki_isa)isa);
        for (int i = 0; i < LKI_COUNT(PROBLEMS); i++)
            for (lk_dtype dtype = LK_F32; dtype <= LK_F64; dtype++) {
                const lki_slot slot = PROBLEMS[i].slot;
                assert_non_null(reference.fn[slot][dtype]);
                check_problem(&PROBLEMS[i], dtype, reference.fn[slot][dtype], table.fn[slot][dtype], lki_isa_name((lki_isa)isa));
            }
    }
}

/* Only the last of `every` calls updates; the others leave the variable alone. */
TEST(held_back)
{
    static memory before, after;
    for (int i = 0; i < LKI_COUNT(PROBLEMS); i++) {
        const problem *p = &PROBLEMS[i];
        const int      always = p->slot == LKI_K_clip_by_norm || p->slot == LKI_K_update_ema || p->slot == LKI_K_lamb_direction ||
                           p->slot == LKI_K_update_accumulate;
        if (always) continue;
        fill(&before, p, LK_F32, 3, 3);
        fill(&after, p, LK_F32, 3, 3);
        lki_kernels_here()->fn[p->slot][LK_F32](&after.args);
        if (p->slot != LKI_K_update_overwrite) check_same(p, LK_F32, &before, &after, "held back");
        fill(&after, p, LK_F32, 5, 3); /* the second update */
        fill(&before, p, LK_F32, 1, 1);
        lki_kernels_here()->fn[p->slot][LK_F32](&after.args);
        lki_kernels_here()->fn[p->slot][LK_F32](&before.args);
        check_same(p, LK_F32, &before, &after, "last of three");
    }
}

/* With an iteration below 0 every update leaves everything alone. */
TEST(left_out)
{
    static memory before, after;
    for (int i = 0; i < LKI_COUNT(PROBLEMS); i++) {
        const problem *p = &PROBLEMS[i];
        if (p->slot == LKI_K_clip_by_norm || p->slot == LKI_K_lamb_direction) continue;
        for (int every = 1; every <= 3; every += 2) {
            fill(&before, p, LK_F32, -1, every);
            fill(&after, p, LK_F32, -1, every);
            lki_kernels_here()->fn[p->slot][LK_F32](&after.args);
            check_same(p, LK_F32, &before, &after, "left out");
        }
    }
}

static double rate(lki_schedule_form form, int count, const double *p, int64_t t)
{
    lki_attr attr = {0};
    attr.schedule.form = form;
    attr.schedule.count = count;
    memcpy(attr.schedule.p, p, 7 * sizeof *p);
    return lki_schedule_rate(&attr, t);
}

TEST(schedules)
{
    const double steps[7] = {2, 4, 9, 0.1, 0.05, 0.02, 0.01};
    assert_true(rate(LKI_SCHEDULE_PIECEWISE, 3, steps, 2) == 0.1);
    assert_true(rate(LKI_SCHEDULE_PIECEWISE, 3, steps, 3) == 0.05);
    assert_true(rate(LKI_SCHEDULE_PIECEWISE, 3, steps, 100) == 0.01);
    /* A period that grows threefold: each begins with the full rate, though log(243) / log(3) rounds to less than 5. */
    const double restarts[7] = {1, 1, 0, 3, 1};
    for (int64_t begin = 0, length = 1; length < 1000000; begin += length, length *= 3) {
        assert_float_equal(rate(LKI_SCHEDULE_COSINE_RESTARTS, 0, restarts, begin), 1, 1e-9);
        assert_float_equal(rate(LKI_SCHEDULE_COSINE_RESTARTS, 0, restarts, begin + length / 2), 0.5, 0.8 / (double)length);
    }
    const double cycle[7] = {1, 4, 0, 1, 1};
    assert_true(rate(LKI_SCHEDULE_POLYNOMIAL, 0, cycle, 0) == 1);
    assert_true(rate(LKI_SCHEDULE_POLYNOMIAL, 0, cycle, 4) == 0);
    assert_true(rate(LKI_SCHEDULE_POLYNOMIAL, 0, cycle, 5) == 1 - 5.0 / 8);
    const double warm[7] = {0, 10, 0, 1, 2, 4};
    assert_true(rate(LKI_SCHEDULE_COSINE, 0, warm, 1) == 0.5);
    assert_true(rate(LKI_SCHEDULE_COSINE, 0, warm, 4) == 2);
    assert_float_equal(rate(LKI_SCHEDULE_COSINE, 0, warm, 9), 1, 1e-12);
    assert_float_equal(rate(LKI_SCHEDULE_COSINE, 0, warm, 1000), 0, 1e-12);
}

TEST(powers)
{
    assert_true(lki_power(0.9, 0) == 1);
    assert_true(lki_power(0.5, 10) == 0x1p-10);
    assert_float_equal(lki_power(0.999, 100000), exp(100000 * log(0.999)), 1e-55);
}

TESTS(cmocka_unit_test(same_bits), cmocka_unit_test(held_back), cmocka_unit_test(left_out), cmocka_unit_test(schedules),
      cmocka_unit_test(powers))
