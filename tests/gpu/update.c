/* Optimiser updates, clipping, schedules and the counter on a GPU against the reference. */
#include "kernel/update.h"
#include "slots.h"

typedef struct form {
    lki_slot slot;
    int      states, flags;
    int      squares; /* which src may hold them; 0: none */
    int      t;       /* which src holds the iteration; 0: none */
    int      scalars; /* src after t that are one positive number */
    double   p[5];
    bool     first;     /* src[1] is v, not the rate (lamb_direction) */
    bool     apart;     /* not in place */
    double   tolerance; /* of f32; f64: 1e-14 where this is not 0 */
} form;

static const form forms[] = {
    {LKI_K_update_sgd, 1, 0, 0, 2, 0, {0}, 0, 0, 0},
    {LKI_K_update_sgd, 2, 0, 0, 2, 0, {0.9}, 0, 0, 0},
    {LKI_K_update_sgd, 2, LKI_SGD_NESTEROV, 0, 2, 0, {0.9}, 0, 0, 0},
    {LKI_K_update_adam, 3, 0, 3, 2, 0, {0.9, 0.999, 1e-7}, 0, 0, 0},
    {LKI_K_update_adam, 4, LKI_ADAM_AMSGRAD, 3, 2, 0, {0.9, 0.99, 1e-3}, 0, 0, 0},
    {LKI_K_update_rmsprop, 2, 0, 3, 2, 0, {0.9, 0.5, 1e-2}, 0, 0, 0},
    {LKI_K_update_rmsprop, 3, LKI_RMSPROP_CENTERED, 3, 2, 0, {0.9, 0.5, 1e-2}, 0, 0, 0},
    {LKI_K_update_rmsprop, 3, LKI_RMSPROP_MOMENTUM, 3, 2, 0, {0.9, 0.5, 1e-2}, 0, 0, 0},
    {LKI_K_update_rmsprop, 4, LKI_RMSPROP_CENTERED | LKI_RMSPROP_MOMENTUM, 3, 2, 0, {0.9, 0.5, 1e-2}, 0, 0, 0},
    {LKI_K_update_adagrad, 2, 0, 3, 2, 0, {1e-7}, 0, 0, 0},
    {LKI_K_update_adadelta, 3, 0, 3, 2, 0, {0.95, 1e-7}, 0, 0, 0},
    {LKI_K_update_adamax, 3, 0, 3, 2, 0, {0.9, 0.999, 1e-7}, 0, 0, 0},
    {LKI_K_update_nadam, 3, 0, 4, 2, 1, {0.9, 0.999, 1e-7}, 0, 0, 0},
    {LKI_K_update_ftrl, 3, 0, 3, 2, 0, {-0.5, 0.01, 0.02, 0.03, 0.5}, 0, 0, 0},
    {LKI_K_update_ftrl, 3, 0, 3, 2, 0, {-0.3, 0, 0, 0, 0}, 0, 0, 1e-6},
    {LKI_K_update_lion, 2, 0, 0, 2, 0, {0.9, 0.99}, 0, 0, 0},
    {LKI_K_update_decay, 1, 0, 0, 2, 0, {0}, 0, 0, 0},
    {LKI_K_update_moments, 2, 0, 3, 2, 0, {0.9, 0.999}, 0, 0, 0},
    {LKI_K_lamb_direction, 1, 0, 0, 2, 0, {0.9, 0.999, 1e-6}, 1, 1, 0},
    {LKI_K_update_lamb, 1, 0, 0, 2, 2, {0}, 0, 0, 0},
    {LKI_K_update_ema, 1, 0, 0, 1, 0, {0.99}, 0, 0, 0},
    {LKI_K_update_overwrite, 1, 0, 0, 1, 0, {3}, 0, 0, 0},
    {LKI_K_update_accumulate, 1, 0, 0, 2, 0, {0}, 0, 0, 0},
    {LKI_K_clip_by_norm, 1, 0, 0, 0, 1, {0.7}, 0, 1, 0},
    {LKI_K_clip_by_norm, 1, LKI_CLIP_GLOBAL, 0, 0, 1, {0.7}, 0, 1, 0},
};

static const lk_shape SCALAR = {0, {0}};

static void *one_number(lk_dtype t, double x)
{
    void *p = slot_room(t, &SCALAR);
    if (t == LK_I64) *(int64_t *)p = (int64_t)x;
    else lki_element_set(t, p, 0, x);
    return p;
}

/* Positive numbers: averages of squares. */
static void *sizes(lk_dtype t, const lk_shape *s)
{
    void *p = slot_numbers(t, s, false);
    for (int64_t i = 0; i < lki_shape_size(s); i++)
        lki_element_set(t, p, i, fabs(lki_element_get(t, p, i)));
    return p;
}

static slot_case case_of(const form *f, lk_dtype t, int64_t n, int64_t iteration, int every, bool squares, bool wild, double scalar)
{
    const lk_shape s = {1, {n}};
    const lk_dtype rate = n % 2 ? LK_F32 : t;
    slot_case      c = {.slot = f->slot, .dtype = t, .tolerance = f->tolerance != 0 && t == LK_F64 ? 1e-13 : f->tolerance};
    slot_source(&c, t, s, slot_numbers(t, &s, wild));
    if (f->first) slot_source(&c, t, s, sizes(t, &s));
    else if (f->t == 2) slot_source(&c, rate, SCALAR, one_number(rate, 0.01));
    if (f->t) slot_source(&c, LK_I64, SCALAR, one_number(LK_I64, (double)iteration));
    for (int i = 0; i < f->scalars; i++)
        slot_source(&c, t, SCALAR, one_number(t, scalar * (i + 1)));
    if (squares && f->squares) slot_source(&c, t, s, sizes(t, &s));
    for (int i = 0; i < f->states; i++)
        slot_result(&c, t, s, f->apart ? NULL : i ? sizes(t, &s) : slot_numbers(t, &s, wild));
    c.attr.update.flags = f->flags;
    c.attr.update.every = every;
    memcpy(c.attr.update.p, f->p, sizeof f->p);
    c.attr.update.p[LKI_UPDATE_DECAY] = iteration % 2 ? 0.004 : 0;
    return c;
}

TEST(test_rules)
{
    static const struct {
        int64_t n, iteration;
        int     every;
        bool    squares, wild;
        double  scalar;
    } calls[] = {{0, 0, 0, 0, 0, 1},          {1, 0, 1, 0, 0, 0.3},       {3, 1, 0, 1, 0, 0.5},  {4, 2, 3, 0, 0, 0},
                 {5, 3, 3, 0, 0, 0.1},        {8, 9, 0, 0, 1, 0.49},      {64, 8, 3, 1, 1, 0.2}, {1027, 1000, 0, 0, 0, 2},
                 {1030, 99999, 1, 1, 1, NAN}, {513, 5, 3, 1, 0, INFINITY}};
    for (int f = 0; f < LKI_COUNT(forms); f++)
        for (int i = 0; i < LKI_COUNT(calls); i++)
            for (int t = LK_F32; t <= LK_F64; t++) {
                slot_case c = case_of(&forms[f], (lk_dtype)t, calls[i].n, calls[i].iteration, calls[i].every, calls[i].squares,
                                      calls[i].wild, calls[i].scalar);
                slot_check(&c);
            }
}

/* More elements than threads. */
TEST(test_large)
{
    for (int f = 3; f < LKI_COUNT(forms); f += 8) {
        slot_case c = case_of(&forms[f], LK_F32, 132 * 8 * 256 * 4 + 1001, 7, 1, false, false, 0.5);
        slot_check(&c);
    }
}

TEST(test_nadam_product)
{
    for (int64_t t = 0; t < 8; t++)
        for (int type = LK_F32; type <= LK_F64; type++) {
            slot_case c = {.slot = LKI_K_nadam_product, .dtype = (lk_dtype)type};
            slot_source(&c, c.dtype, SCALAR, one_number(c.dtype, 0.5));
            slot_source(&c, LK_F32, SCALAR, one_number(LK_F32, 0.01));
            slot_source(&c, LK_I64, SCALAR, one_number(LK_I64, (double)t));
            slot_result(&c, c.dtype, SCALAR, one_number(c.dtype, 0.7));
            c.attr.update.p[0] = 0.9;
            c.attr.update.every = t > 4 ? 2 : 1;
            slot_check(&c);
        }
}

TEST(test_increment)
{
    slot_case c = {.slot = LKI_K_increment, .dtype = LK_I64};
    slot_result(&c, LK_I64, SCALAR, one_number(LK_I64, 41));
    slot_check(&c);
}

TEST(test_schedules)
{
    static const struct {
        int    form, count;
        double p[8];
    } schedules[] = {
        {LKI_SCHEDULE_EXPONENTIAL, 0, {0.1, 100, 0.96, 0}},
        {LKI_SCHEDULE_EXPONENTIAL, 0, {0.1, 100, 0.96, 1}},
        {LKI_SCHEDULE_INVERSE_TIME, 0, {0.1, 10, 0.5, 0}},
        {LKI_SCHEDULE_INVERSE_TIME, 0, {0.1, 10, 0.5, 1}},
        {LKI_SCHEDULE_POLYNOMIAL, 0, {0.1, 300, 0.01, 0.5, 0}},
        {LKI_SCHEDULE_POLYNOMIAL, 0, {0.1, 300, 0.01, 2, 1}},
        {LKI_SCHEDULE_COSINE, 0, {0.1, 500, 0.02, 0, 0, 0}},
        {LKI_SCHEDULE_COSINE, 0, {0, 500, 0.02, 1, 0.1, 20}},
        {LKI_SCHEDULE_COSINE_RESTARTS, 0, {0.1, 10, 0.01, 2, 0.9}},
        {LKI_SCHEDULE_COSINE_RESTARTS, 0, {0.1, 10, 0, 1, 1}},
        {LKI_SCHEDULE_COSINE_RESTARTS, 0, {0.1, 10, 0, 3, 1}}, /* at 1210 the logarithm falls short of 5 */
        {LKI_SCHEDULE_COSINE_RESTARTS, 0, {0.1, 4, 0.1, 1.5, 0.8}},
        {LKI_SCHEDULE_PIECEWISE, 3, {10, 100, 1000, 0.1, 0.01, 0.001, 0.0001}},
        {LKI_SCHEDULE_PIECEWISE, 0, {0.3}},
    };
    for (int i = 0; i < LKI_COUNT(schedules); i++)
        for (int64_t t = 0; t < 1220; t += t < 160 ? 1 : 10) {
            slot_case c = {.slot = LKI_K_schedule, .dtype = LK_I64, .tolerance = 1e-6};
            slot_source(&c, LK_I64, SCALAR, one_number(LK_I64, (double)t));
            slot_result(&c, LK_F32, SCALAR, NULL);
            c.attr.schedule.form = schedules[i].form;
            c.attr.schedule.count = schedules[i].count;
            memcpy(c.attr.schedule.p, schedules[i].p, sizeof schedules[i].p);
            slot_check(&c);
        }
}

/* ---- memory at any address, and steps that met a fault ---- */

/* Adam on f32 arrays that begin `offset` elements after an aligned address; the resulting w. */
static void run_adam(int64_t n, int offset, int stop, float *w)
{
    lki_device         *d = slot_gpu();
    const lki_gpu_line *l = lki_gpu_line_of(d);
    const lk_shape      s = {1, {n}};
    const float         rate = 0.01f;
    const int64_t       t = 4;
    const size_t        bytes = (size_t)(n + 8) * sizeof(float);
    float              *host = malloc(bytes), *mem[4];
    void               *scalars = d->ops->alloc(d, 64);
    lki_attr            attr = {.update = {.p = {0.9, 0.999, 1e-7}}};
    for (int a = 0; a < 4; a++) {
        for (int64_t i = 0; i < n + 8; i++)
            host[i] = (float)(a + 1) / (float)(i - offset + 9);
        mem[a] = d->ops->alloc(d, bytes);
        d->ops->write(d, mem[a], host, bytes);
    }
    d->ops->write(d, scalars, &t, sizeof t);
    d->ops->write(d, (char *)scalars + 8, &rate, sizeof rate);
    d->ops->write(d, (char *)scalars + 16, &stop, sizeof stop);
    lki_view   src[3] = {{mem[3] + offset, &s, LK_F32}, {(char *)scalars + 8, &SCALAR, LK_F32}, {scalars, &SCALAR, LK_I64}};
    lki_view   dst[3] = {{mem[0] + offset, &s, LK_F32}, {mem[1] + offset, &s, LK_F32}, {mem[2] + offset, &s, LK_F32}};
    lki_launch call = {.stream = l->stream, .stop = (int *)((char *)scalars + 16)};
    l->kernels->fn[LKI_K_update_adam][LK_F32](
        &(lki_args){.src = src, .dst = dst, .nsrc = 3, .ndst = 3, .attr = &attr, .hi = n, .gpu = &call});
    assert_int_equal(d->ops->read(d, host, mem[0], bytes), LK_OK);
    memcpy(w, host + offset, (size_t)n * sizeof *w);
    for (int64_t i = 0; i < n + 8; i++) /* what lies around it is as it was */
        if (i < offset || i >= n + offset) assert_true(host[i] == 1 / (float)(i - offset + 9));
    for (int a = 0; a < 4; a++)
        d->ops->release(d, mem[a], bytes);
    d->ops->release(d, scalars, 64);
    free(host);
}

TEST(test_alignment)
{
    float aligned[1027], shifted[1027];
    for (int64_t n = 1; n <= 1027; n = 3 * n + 1)
        for (int offset = 1; offset < 5; offset++) {
            run_adam(n, 0, 0, aligned);
            run_adam(n, offset, 0, shifted);
            assert_memory_equal(aligned, shifted, (size_t)n * sizeof *aligned);
        }
}

TEST(test_stopped)
{
    float w[100], updated[100];
    run_adam(100, 0, 1, w);
    run_adam(100, 0, 0, updated);
    for (int i = 0; i < 100; i++) {
        assert_true(w[i] == 1 / (float)(i + 9));
        assert_true(updated[i] != w[i]);
    }
}

TESTS(cmocka_unit_test(test_rules), cmocka_unit_test(test_large), cmocka_unit_test(test_nadam_product),
      cmocka_unit_test(test_increment), cmocka_unit_test(test_schedules), cmocka_unit_test(test_alignment),
      cmocka_unit_test(test_stopped))
