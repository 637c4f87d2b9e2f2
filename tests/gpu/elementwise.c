/* Element-wise slots on a GPU against the reference: every slot and type, over broadcasts of every kind, at every alignment. */
#include "slots.h"

enum { F = 1 << LK_F32 | 1 << LK_F64, N = F | 1 << LK_I32 | 1 << LK_I64, B = 1 << LK_BOOL, ALL = (1 << LK_DTYPE_COUNT) - 1 };

/* Functions of double that a library decides, whose last bits may differ; single precision has its own, but for those through
 * double. */
enum { EXACT, DOUBLE, BOTH };

typedef struct slot_row {
    lki_slot slot;
    unsigned types;
    int      inexact;
    bool     truth; /* dst is bool */
} slot_row;

static const slot_row one[] = {
    {LKI_K_neg, N, EXACT, false},        {LKI_K_abs, N, EXACT, false},        {LKI_K_sign, N, EXACT, false},
    {LKI_K_exp, F, DOUBLE, false},       {LKI_K_expm1, F, DOUBLE, false},     {LKI_K_log, F, DOUBLE, false},
    {LKI_K_log1p, F, DOUBLE, false},     {LKI_K_sqrt, F, EXACT, false},       {LKI_K_rsqrt, F, EXACT, false},
    {LKI_K_square, N, EXACT, false},     {LKI_K_reciprocal, F, EXACT, false}, {LKI_K_sin, F, BOTH, false},
    {LKI_K_cos, F, BOTH, false},         {LKI_K_tanh, F, DOUBLE, false},      {LKI_K_sigmoid, F, DOUBLE, false},
    {LKI_K_erf, F, DOUBLE, false},       {LKI_K_softplus, F, DOUBLE, false},  {LKI_K_relu, F, EXACT, false},
    {LKI_K_leaky_relu, F, EXACT, false}, {LKI_K_clip, N, EXACT, false},       {LKI_K_floor, F, EXACT, false},
    {LKI_K_ceil, F, EXACT, false},       {LKI_K_round, F, EXACT, false},      {LKI_K_is_finite, F, EXACT, true},
    {LKI_K_logical_not, B, EXACT, true},
};
static const slot_row two[] = {
    {LKI_K_add, N, EXACT, false},
    {LKI_K_sub, N, EXACT, false},
    {LKI_K_mul, N, EXACT, false},
    {LKI_K_div, F, EXACT, false},
    {LKI_K_floordiv, N, EXACT, false},
    {LKI_K_mod, N, EXACT, false},
    {LKI_K_pow, F, BOTH, false},
    {LKI_K_maximum, N, EXACT, false},
    {LKI_K_minimum, N, EXACT, false},
    {LKI_K_relu_grad, F, EXACT, false},
    {LKI_K_leaky_relu_grad, F, EXACT, false},
    {LKI_K_sigmoid_grad, F, EXACT, false},
    {LKI_K_tanh_grad, F, EXACT, false},
    {LKI_K_equal, ALL, EXACT, true},
    {LKI_K_not_equal, ALL, EXACT, true},
    {LKI_K_less, ALL, EXACT, true},
    {LKI_K_less_equal, ALL, EXACT, true},
    {LKI_K_greater, ALL, EXACT, true},
    {LKI_K_greater_equal, ALL, EXACT, true},
    {LKI_K_logical_and, B, EXACT, true},
    {LKI_K_logical_or, B, EXACT, true},
};

static double tolerance_of(const slot_row *r, lk_dtype t)
{
    return t == LK_F64 && r->inexact ? 1e-14 : t == LK_F32 && r->inexact == BOTH ? 1e-6 : 0;
}

static slot_case case_of(const slot_row *r, lk_dtype t)
{
    slot_case c = {.slot = r->slot, .dtype = t, .tolerance = tolerance_of(r, t)};
    c.attr.num.a = r->slot == LKI_K_clip ? -0.4 * (lki_is_float(t) ? 1 : 50) : 0.3;
    c.attr.num.b = r->slot == LKI_K_clip ? 0.7 * (lki_is_float(t) ? 1 : 50) : 0;
    return c;
}

TEST(test_one_operand)
{
    for (int r = 0; r < LKI_COUNT(one); r++)
        for (int t = 0; t < LK_DTYPE_COUNT; t++)
            for (int64_t n = 0; n < 3000 && one[r].types >> t & 1; n += 1 + n * 2 / 3) {
                const lk_shape s = {2, {n % 2 ? 1 : 2, n % 2 ? n : n / 2}};
                slot_case      c = case_of(&one[r], (lk_dtype)t);
                slot_source(&c, (lk_dtype)t, s, slot_numbers((lk_dtype)t, &s, true));
                slot_result(&c, one[r].truth ? LK_BOOL : (lk_dtype)t, s, NULL);
                slot_check(&c);
            }
}

/* The limits of clip, which integers saturate to and NaN turns to 0. */
TEST(test_clip_limits)
{
    static const double limits[][2] = {
        {-INFINITY, INFINITY}, {-1e30, 1e30}, {0, INFINITY}, {NAN, 20}, {-20, NAN}, {5, -5}, {-2.9, 2.9}};
    const lk_shape s = {1, {301}};
    for (int i = 0; i < LKI_COUNT(limits); i++)
        for (int t = 0; t < LK_DTYPE_COUNT; t++) {
            if (!(N >> t & 1)) continue;
            slot_case c = {.slot = LKI_K_clip, .dtype = (lk_dtype)t};
            c.attr.num.a = limits[i][0];
            c.attr.num.b = limits[i][1];
            slot_source(&c, c.dtype, s, slot_numbers(c.dtype, &s, true));
            slot_result(&c, c.dtype, s, NULL);
            slot_check(&c);
        }
}

/* Single-precision functions over the whole range of floats. */
TEST(test_whole_range)
{
    const lk_shape s = {1, {20000}};
    for (int r = 0; r < LKI_COUNT(one); r++) {
        if (!(one[r].types >> LK_F32 & 1)) continue;
        slot_case c = case_of(&one[r], LK_F32);
        float    *x = slot_room(LK_F32, &s);
        for (int64_t i = 0; i < s.dim[0]; i++) {
            const uint32_t bits = (uint32_t)slot_word();
            memcpy(&x[i], &bits, sizeof bits);
            if (fpclassify(x[i]) == FP_SUBNORMAL) x[i] = 0;
        }
        slot_source(&c, LK_F32, s, x);
        slot_result(&c, one[r].truth ? LK_BOOL : LK_F32, s, NULL);
        slot_check(&c);
    }
}

/* dst, first and second operand (and the condition of `where`) */
static const lk_shape broadcasts[][4] = {
    {{1, {37}}, {1, {37}}, {1, {37}}, {1, {37}}},
    {{2, {16, 16}}, {2, {16, 16}}, {2, {16, 16}}, {2, {16, 1}}},
    {{2, {7, 12}}, {2, {7, 12}}, {0, {0}}, {0, {0}}},
    {{2, {7, 12}}, {1, {1}}, {2, {7, 12}}, {1, {12}}},
    {{3, {5, 3, 8}}, {3, {5, 3, 8}}, {1, {8}}, {3, {5, 1, 1}}},
    {{3, {5, 3, 7}}, {1, {7}}, {3, {5, 3, 7}}, {2, {3, 1}}},
    {{2, {9, 20}}, {2, {9, 1}}, {2, {9, 20}}, {2, {9, 20}}},
    {{2, {9, 20}}, {2, {9, 1}}, {1, {20}}, {0, {0}}},
    {{4, {2, 3, 5, 8}}, {4, {2, 1, 1, 8}}, {4, {2, 3, 5, 8}}, {4, {2, 3, 5, 1}}},
    {{4, {2, 3, 5, 4}}, {4, {1, 3, 1, 4}}, {4, {2, 1, 5, 1}}, {4, {2, 3, 5, 4}}},
    {{8, {2, 3, 2, 1, 2, 3, 2, 4}}, {8, {2, 1, 2, 1, 2, 1, 2, 1}}, {8, {1, 3, 1, 1, 1, 3, 1, 4}}, {2, {2, 4}}},
    {{8, {2, 3, 2, 1, 2, 3, 2, 3}}, {8, {1, 3, 1, 1, 2, 1, 2, 1}}, {7, {3, 2, 1, 1, 3, 1, 3}}, {1, {3}}},
    {{2, {0, 4}}, {2, {0, 4}}, {1, {4}}, {0, {0}}},
    {{3, {3, 1, 4}}, {2, {1, 4}}, {3, {3, 1, 1}}, {3, {1, 1, 1}}},
    {{0, {0}}, {0, {0}}, {0, {0}}, {0, {0}}},
    {{2, {1, 1}}, {0, {0}}, {1, {1}}, {2, {1, 1}}},
};

TEST(test_two_operands)
{
    for (int r = 0; r < LKI_COUNT(two); r++)
        for (int t = 0; t < LK_DTYPE_COUNT; t++)
            for (int b = 0; b < LKI_COUNT(broadcasts) && two[r].types >> t & 1; b++) {
                const lk_dtype  type = (lk_dtype)t;
                const lk_shape *s = broadcasts[b];
                slot_case       c = case_of(&two[r], type);
                slot_source(&c, type, s[1], slot_numbers(type, &s[1], true));
                slot_source(&c, type, s[2], slot_numbers(type, &s[2], true));
                slot_result(&c, two[r].truth ? LK_BOOL : type, s[0], NULL);
                slot_check(&c);
            }
}

/* Wrapping, and the division whose quotient no integer holds. */
TEST(test_ends_of_integers)
{
    static const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, INT32_MIN, INT32_MIN + 1, -7, -1, 1, 2, 7, INT32_MAX, INT64_MAX};
    const lk_shape       s = {1, {LKI_COUNT(ends) * LKI_COUNT(ends)}};
    for (int r = 0; r < LKI_COUNT(two); r++)
        for (int t = LK_I32; t <= LK_I64; t++) {
            if (!(two[r].types >> t & 1)) continue;
            slot_case c = case_of(&two[r], (lk_dtype)t);
            void     *x = slot_room(c.dtype, &s), *y = slot_room(c.dtype, &s);
            for (int64_t i = 0; i < s.dim[0]; i++) {
                const int64_t p = ends[i / LKI_COUNT(ends)], q = ends[i % LKI_COUNT(ends)];
                if (t == LK_I64) ((int64_t *)x)[i] = p, ((int64_t *)y)[i] = q;
                else ((int32_t *)x)[i] = (int32_t)p, ((int32_t *)y)[i] = (int32_t)q ? (int32_t)q : 3;
            }
            slot_source(&c, c.dtype, s, x);
            slot_source(&c, c.dtype, s, y);
            slot_result(&c, two[r].truth ? LK_BOOL : c.dtype, s, NULL);
            slot_check(&c);
        }
}

TEST(test_where)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        for (int b = 0; b < LKI_COUNT(broadcasts); b++) {
            const lk_shape *s = broadcasts[b];
            slot_case       c = {.slot = LKI_K_where, .dtype = (lk_dtype)t};
            slot_source(&c, c.dtype, s[1], slot_numbers(c.dtype, &s[1], true));
            slot_source(&c, c.dtype, s[2], slot_numbers(c.dtype, &s[2], true));
            slot_source(&c, LK_BOOL, s[3], slot_numbers(LK_BOOL, &s[3], true));
            slot_result(&c, c.dtype, s[0], NULL);
            slot_check(&c);
        }
}

/* Many elements: several for each thread, and, simulated, cuts along the first axis. */
TEST(test_large)
{
    static const lk_shape shapes[][3] = {
        {{1, {650003}}, {1, {650003}}, {0, {0}}},
        {{2, {5, 40001}}, {2, {5, 40001}}, {1, {40001}}},
        {{3, {3, 1001, 68}}, {3, {3, 1, 68}}, {3, {3, 1001, 68}}},
        {{3, {2, 3, 70000}}, {3, {2, 1, 70000}}, {2, {3, 1}}},
    };
    for (int i = 0; i < LKI_COUNT(shapes); i++)
        for (int t = LK_F32; t <= LK_F64; t++) {
            const lk_shape *s = shapes[i];
            slot_case       c = {.slot = LKI_K_sub, .dtype = (lk_dtype)t};
            slot_source(&c, c.dtype, s[1], slot_numbers(c.dtype, &s[1], true));
            slot_source(&c, c.dtype, s[2], slot_numbers(c.dtype, &s[2], true));
            slot_result(&c, c.dtype, s[0], NULL);
            slot_check(&c);
        }
}

/* x - y where each of the three arrays begins `offset` elements after an aligned address. */
static void check_at(lk_dtype type, const lk_shape *shape, const int offset[3])
{
    lki_device         *d = slot_gpu();
    const lki_gpu_line *l = lki_gpu_line_of(d);
    const size_t        each = lk_dtype_bytes(type);
    const int64_t       n = lki_shape_size(shape), room = n + 8;
    const lk_shape      whole = {1, {room}};
    double              x[64], y[64];
    void               *host[3], *mem[3];
    for (int i = 0; i < 3; i++) {
        host[i] = slot_numbers(type, &whole, false);
        mem[i] = d->ops->alloc(d, (size_t)room * each);
        d->ops->write(d, mem[i], host[i], (size_t)room * each);
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = lki_element_get(type, host[0], i + offset[0]);
        y[i] = lki_element_get(type, host[1], i + offset[1]);
    }
    lki_view   src[2], dst[1] = {{(char *)mem[2] + (size_t)offset[2] * each, shape, type}};
    lki_attr   attr = {0};
    lki_launch call = {.stream = l->stream, .stop = NULL};
    for (int i = 0; i < 2; i++)
        src[i] = (lki_view){(char *)mem[i] + (size_t)offset[i] * each, shape, type};
    l->kernels->fn[LKI_K_sub][type](
        &(lki_args){.src = src, .dst = dst, .nsrc = 2, .ndst = 1, .attr = &attr, .hi = n, .gpu = &call});
    for (int64_t i = 0; i < n; i++)
        lki_element_set(type, host[2], i + offset[2], type == LK_F32 ? (double)((float)x[i] - (float)y[i]) : x[i] - y[i]);
    void *out = malloc((size_t)room * each);
    assert_int_equal(d->ops->read(d, out, mem[2], (size_t)room * each), LK_OK);
    assert_memory_equal(out, host[2], (size_t)room * each);
    free(out);
    for (int i = 0; i < 3; i++) {
        d->ops->release(d, mem[i], (size_t)room * each);
        free(host[i]);
    }
}

/* x + 1 in place on a variable: not after a fault. */
TEST(test_stopped)
{
    lki_device         *d = slot_gpu();
    const lki_gpu_line *l = lki_gpu_line_of(d);
    const lk_shape      s = {1, {100}}, scalar = {0, {0}};
    float               host[100], one_more = 1, *mem = d->ops->alloc(d, sizeof host), *by = d->ops->alloc(d, sizeof one_more);
    int                *stop = d->ops->alloc(d, sizeof *stop);
    lki_attr            attr = {0};
    lki_view            src[2] = {{mem, &s, LK_F32}, {by, &scalar, LK_F32}}, dst[1] = {{mem, &s, LK_F32}};
    lki_launch          call = {.stream = l->stream, .stop = stop};
    d->ops->write(d, by, &one_more, sizeof one_more);
    for (int stopped = 0; stopped < 2; stopped++) {
        memset(host, 0, sizeof host);
        d->ops->write(d, mem, host, sizeof host);
        d->ops->write(d, stop, &stopped, sizeof stopped);
        l->kernels->fn[LKI_K_add][LK_F32](
            &(lki_args){.src = src, .dst = dst, .nsrc = 2, .ndst = 1, .attr = &attr, .hi = 100, .gpu = &call});
        assert_int_equal(d->ops->read(d, host, mem, sizeof host), LK_OK);
        for (int i = 0; i < 100; i++)
            assert_true(host[i] == (stopped ? 0 : 1));
    }
    d->ops->release(d, mem, sizeof host);
    d->ops->release(d, by, sizeof one_more);
    d->ops->release(d, stop, sizeof *stop);
}

TEST(test_alignment)
{
    static const lk_dtype types[] = {LK_F32, LK_F64, LK_I32, LK_I64};
    for (int t = 0; t < LKI_COUNT(types); t++)
        for (int i = 0; i < 125; i++) {
            const lk_shape even = {1, {16}}, odd = {1, {19}};
            const int      offset[3] = {i % 5, i / 5 % 5, i / 25};
            check_at(types[t], &even, offset);
            check_at(types[t], &odd, offset);
        }
}

TESTS(cmocka_unit_test(test_one_operand), cmocka_unit_test(test_clip_limits), cmocka_unit_test(test_whole_range),
      cmocka_unit_test(test_two_operands), cmocka_unit_test(test_ends_of_integers), cmocka_unit_test(test_where),
      cmocka_unit_test(test_large), cmocka_unit_test(test_alignment), cmocka_unit_test(test_stopped))
