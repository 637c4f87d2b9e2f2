/* Element-wise slots, reductions and rows: every variant gives the bits of the reference, on odd sizes, extreme values, broadcast
 * operands and split ranges; sums have the order that kernel.h defines; elementary functions are as exact as ref/math.h says. */
#include "kernels.h"

static const int64_t  sizes[] = {0, 1, 7, 15, 16, 17, 31, 33, 64, 1000, 4096, 4097, 20000};
static const lk_dtype floats[] = {LK_F32, LK_F64}, numbers[] = {LK_F32, LK_F64, LK_I32, LK_I64};
static const lk_dtype all_types[] = {LK_F32, LK_F64, LK_F16, LK_BF16, LK_I32, LK_I64, LK_U8, LK_BOOL}, truth[] = {LK_BOOL};

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

static bool named(const char *types, lk_dtype t)
{
    switch (types[0]) {
    case 'F': return t == LK_F32 || t == LK_F64;
    case 'N': return t == LK_F32 || t == LK_F64 || t == LK_I32 || t == LK_I64;
    case 'b': return t == LK_BOOL;
    case 'i': return t == LK_I64;
    default: return true;
    }
}

TEST(every_slot_is_filled)
{
#define LKI_SLOT(name, types, order, text) {LKI_K_##name, #types},
    static const struct {
        lki_slot    slot;
        const char *types;
    } slots[] = {
#include "kernel/kernels.inc"
    };
#undef LKI_SLOT
    for (int s = 0; s < LKI_COUNT(slots); s++)
        for (int t = 0; t < LK_DTYPE_COUNT; t++) {
            bool ids = t == LK_I32 || t == LK_I64 || t == LK_U8;
            if (slots[s].slot == LKI_K_one_hot ? !ids : !named(slots[s].types, (lk_dtype)t)) continue;
            if (!tables[0].fn[slots[s].slot][t])
                fail_msg("no kernel for %s of %s", lki_slot_name(slots[s].slot), lk_dtype_name((lk_dtype)t));
            assert_string_equal(tables[0].variant[slots[s].slot][t], "ref");
        }
    assert_string_equal(lki_slot_name(LKI_K_add), "add");
    assert_string_equal(lki_slot_name(LKI_K_none), "none");
    assert_ptr_equal(lki_kernels_here(), lki_kernels_here());
    assert_non_null(lki_kernels_here()->fn[LKI_K_add][LK_F32]);
}

/* ---- element-wise ------------------------------------------------------------------------------------------------------------ */

typedef struct group {
    const lk_dtype *types;
    int             ntypes;
    bool            to_bool;
    lki_slot        slot[16];
} group;

#define TYPES(list) list, LKI_COUNT(list)

TEST(one_operand)
{
    static const group groups[] = {
        {TYPES(numbers), false, {LKI_K_neg, LKI_K_abs, LKI_K_sign, LKI_K_square, LKI_K_clip}},
        {TYPES(floats),
         false,
         {LKI_K_exp, LKI_K_expm1, LKI_K_log, LKI_K_log1p, LKI_K_sqrt, LKI_K_rsqrt, LKI_K_reciprocal, LKI_K_sin, LKI_K_cos}},
        {TYPES(floats),
         false,
         {LKI_K_tanh, LKI_K_sigmoid, LKI_K_erf, LKI_K_softplus, LKI_K_relu, LKI_K_leaky_relu, LKI_K_floor, LKI_K_ceil,
          LKI_K_round}},
        {TYPES(floats), true, {LKI_K_is_finite}},
        {TYPES(truth), true, {LKI_K_logical_not}},
    };
    lki_attr attr = {.num = {.a = -0.75, .b = 1.25}};
    for (int g = 0; g < LKI_COUNT(groups); g++)
        for (int s = 0; groups[g].slot[s]; s++)
            for (int t = 0; t < groups[g].ntypes; t++)
                for (int n = 0; n < LKI_COUNT(sizes); n++) {
                    lki_view src = random_operand(groups[g].types[t], LK_SHAPE(sizes[n]), WILD);
                    lki_view dst = operand(groups[g].to_bool ? LK_BOOL : src.dtype, *src.shape);
                    lki_args a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1, .attr = &attr};
                    check_slot(groups[g].slot[s], &a, 1);
                    forget_all();
                }
}

/* Element i of an operand as broadcasting sees it from place i of dst. */
static int64_t broadcast_index(const lk_shape *to, const lk_shape *from, int64_t i)
{
    int64_t at[LK_MAX_RANK], there[LK_MAX_RANK];
    place_of(to, i, at);
    for (int axis = 0; axis < from->rank; axis++) {
        int64_t c = at[axis + to->rank - from->rank];
        there[axis] = from->dim[axis] == 1 ? 0 : c;
    }
    return index_of(from, there);
}

/* The broadcast op, and the same op on operands this test has expanded itself: same bits. */
static void check_broadcast(lki_slot slot, lk_dtype type, lk_dtype to, int nsrc, const lk_shape *shape, values kind)
{
    lki_attr attr = {.num = {.a = 0.25}};
    int      fault = 0;
    lki_view src[3], wide[3], dst = operand(to, shape[0]), plain = operand(to, shape[0]);
    for (int k = 0; k < nsrc; k++) {
        src[k] = random_operand(k == 2 ? LK_BOOL : type, shape[k + 1], kind);
        wide[k] = operand(src[k].dtype, shape[0]);
        for (int64_t i = 0; i < size_of(&dst); i++)
            move_element(&wide[k], i, &src[k], broadcast_index(&shape[0], src[k].shape, i));
    }
    lki_args a = {.src = wide, .dst = &plain, .nsrc = nsrc, .ndst = 1, .attr = &attr, .fault = &fault};
    run_reference(slot, &a);
    a.src = src;
    a.dst = &dst;
    check_slot(slot, &a, 1);
    check_bits(to, dst.data, plain.data, size_of(&dst), lki_slot_name(slot));
    forget_all();
}

static void check_patterns(lki_slot slot, lk_dtype type, lk_dtype to)
{
    static const int64_t columns[] = {2, 3, 10, 16, 33, 250, 1030};
    for (int n = 0; n < LKI_COUNT(sizes); n++) {
        lk_shape flat = LK_SHAPE(sizes[n]);
        check_broadcast(slot, type, to, 2, (lk_shape[]){flat, flat, flat}, WILD);
        check_broadcast(slot, type, to, 2, (lk_shape[]){flat, flat, LK_SHAPE()}, WILD);
        check_broadcast(slot, type, to, 2, (lk_shape[]){flat, LK_SHAPE(1), flat}, WILD);
    }
    for (int c = 0; c < LKI_COUNT(columns); c++) {
        lk_shape both = LK_SHAPE(9, columns[c]), row = LK_SHAPE(columns[c]), column = LK_SHAPE(9, 1);
        check_broadcast(slot, type, to, 2, (lk_shape[]){both, both, row}, WILD);
        check_broadcast(slot, type, to, 2, (lk_shape[]){both, row, both}, WILD);
        check_broadcast(slot, type, to, 2, (lk_shape[]){both, both, column}, WILD);
        check_broadcast(slot, type, to, 2, (lk_shape[]){both, column, row}, WILD);
    }
    check_broadcast(slot, type, to, 2, (lk_shape[]){LK_SHAPE(2, 3, 4, 5), LK_SHAPE(2, 3, 4, 5), LK_SHAPE(3, 1, 5)}, WILD);
    check_broadcast(slot, type, to, 2, (lk_shape[]){LK_SHAPE(2, 3, 4, 5), LK_SHAPE(4, 1), LK_SHAPE(2, 3, 1, 5)}, WILD);
    check_broadcast(slot, type, to, 2, (lk_shape[]){LK_SHAPE(2, 1, 7), LK_SHAPE(2, 1, 1), LK_SHAPE(2, 1, 1)}, WILD);
    check_broadcast(slot, type, to, 2, (lk_shape[]){LK_SHAPE(3, 0, 2), LK_SHAPE(3, 0, 2), LK_SHAPE(2)}, WILD);
    check_broadcast(slot, type, to, 2, (lk_shape[]){LK_SHAPE(), LK_SHAPE(), LK_SHAPE()}, WILD);
}

TEST(two_operands)
{
    static const group groups[] = {
        {TYPES(numbers), false, {LKI_K_add, LKI_K_sub, LKI_K_mul, LKI_K_floordiv, LKI_K_mod, LKI_K_maximum, LKI_K_minimum}},
        {TYPES(floats), false, {LKI_K_div, LKI_K_pow, LKI_K_relu_grad, LKI_K_leaky_relu_grad, LKI_K_sigmoid_grad, LKI_K_tanh_grad}},
        {TYPES(all_types), true, {LKI_K_equal, LKI_K_not_equal, LKI_K_less, LKI_K_less_equal, LKI_K_greater, LKI_K_greater_equal}},
        {TYPES(truth), true, {LKI_K_logical_and, LKI_K_logical_or}},
    };
    for (int g = 0; g < LKI_COUNT(groups); g++)
        for (int s = 0; groups[g].slot[s]; s++)
            for (int t = 0; t < groups[g].ntypes; t++)
                check_patterns(groups[g].slot[s], groups[g].types[t], groups[g].to_bool ? LK_BOOL : groups[g].types[t]);
}

TEST(where)
{
    for (int t = 0; t < LKI_COUNT(all_types); t++) {
        lk_dtype type = all_types[t];
        for (int n = 0; n < LKI_COUNT(sizes); n++) {
            lk_shape flat = LK_SHAPE(sizes[n]), one = LK_SHAPE();
            check_broadcast(LKI_K_where, type, type, 3, (lk_shape[]){flat, flat, flat, flat}, ANY_BITS);
            check_broadcast(LKI_K_where, type, type, 3, (lk_shape[]){flat, flat, one, flat}, ANY_BITS);
            check_broadcast(LKI_K_where, type, type, 3, (lk_shape[]){flat, one, flat, one}, ANY_BITS);
        }
        lk_shape both = LK_SHAPE(6, 45), row = LK_SHAPE(45), column = LK_SHAPE(6, 1);
        check_broadcast(LKI_K_where, type, type, 3, (lk_shape[]){both, both, row, column}, ANY_BITS);
        check_broadcast(LKI_K_where, type, type, 3, (lk_shape[]){both, both, LK_SHAPE(), row}, ANY_BITS);
        check_broadcast(LKI_K_where, type, type, 3, (lk_shape[]){both, column, row, both}, ANY_BITS);
    }
}

/* What the words of kernels.inc say, at the places where it is easy to get wrong. */
TEST(corners)
{
    static const struct {
        lki_slot slot;
        double   x, y, want;
    } cases[] = {
        {LKI_K_relu, NAN, 0, NAN},       {LKI_K_relu, -1, 0, 0},         {LKI_K_sign, NAN, 0, NAN},
        {LKI_K_clip, NAN, 0, NAN},       {LKI_K_clip, -INFINITY, 0, -1}, {LKI_K_round, 2.5, 0, 2},
        {LKI_K_round, -1.5, 0, -2},      {LKI_K_log, 0, 0, -INFINITY},   {LKI_K_log, -1, 0, NAN},
        {LKI_K_log1p, -1, 0, -INFINITY}, {LKI_K_log1p, -1.5, 0, NAN},    {LKI_K_exp, -INFINITY, 0, 0},
        {LKI_K_exp, 1000, 0, INFINITY},  {LKI_K_expm1, -100, 0, -1},     {LKI_K_tanh, -INFINITY, 0, -1},
        {LKI_K_sigmoid, -1000, 0, 0},    {LKI_K_sigmoid, 200, 0, 1},     {LKI_K_softplus, 200, 0, 200},
        {LKI_K_erf, INFINITY, 0, 1},     {LKI_K_maximum, NAN, 1, NAN},   {LKI_K_maximum, 1, NAN, NAN},
        {LKI_K_minimum, NAN, 1, NAN},    {LKI_K_minimum, 1, NAN, NAN},   {LKI_K_mod, -7, 3, 2},
        {LKI_K_mod, 7, -3, -2},          {LKI_K_floordiv, -7, 2, -4},    {LKI_K_relu_grad, 5, NAN, 0},
        {LKI_K_relu_grad, NAN, -1, 0},   {LKI_K_leaky_relu, -2, 0, 2},   {LKI_K_pow, -2, 3, -8},
    };
    lki_attr attr = {.num = {.a = -1, .b = 1}};
    for (int c = 0; c < LKI_COUNT(cases); c++)
        for (int t = 0; t < 2; t++)
            for (int isa = 0; isa <= (int)lki_cpu_isa_machine(); isa++) {
                lki_view src[2] = {operand(floats[t], LK_SHAPE(1)), operand(floats[t], LK_SHAPE(1))},
                         dst = operand(floats[t], LK_SHAPE(1));
                lki_element_set(floats[t], src[0].data, 0, cases[c].x);
                lki_element_set(floats[t], src[1].data, 0, cases[c].y);
                lki_args a = {.src = src, .dst = &dst, .nsrc = 2, .ndst = 1, .attr = &attr};
                run_range(isa, cases[c].slot, a, 0, 1);
                double got = lki_element_get(floats[t], dst.data, 0);
                if (!(got == cases[c].want || (isnan(got) && isnan(cases[c].want))))
                    fail_msg("%s(%g, %g) = %g", lki_slot_name(cases[c].slot), cases[c].x, cases[c].y, got);
                forget_all();
            }
}

TEST(integers_wrap_and_divide)
{
    int32_t  x[4] = {INT32_MIN, INT32_MIN, 7, -7}, y[4] = {-1, -1, 0, 2}, got[4];
    int      fault = 0;
    lk_shape shape = LK_SHAPE(4);
    lki_view src[2] = {{x, &shape, LK_I32}, {y, &shape, LK_I32}}, dst = {got, &shape, LK_I32};
    lki_args a = {.src = src, .dst = &dst, .nsrc = 2, .ndst = 1, .fault = &fault};
    run_reference(LKI_K_floordiv, &a);
    assert_int_equal(fault, 1);
    assert_memory_equal(got, ((int32_t[]){INT32_MIN, INT32_MIN, 0, -4}), sizeof got);
    run_reference(LKI_K_mod, &a);
    assert_memory_equal(got, ((int32_t[]){0, 0, 0, 1}), sizeof got);
    run_reference(LKI_K_mul, &a);
    assert_memory_equal(got, ((int32_t[]){INT32_MIN, INT32_MIN, 0, -14}), sizeof got);
    run_reference(LKI_K_abs, &a);
    assert_memory_equal(got, ((int32_t[]){INT32_MIN, INT32_MIN, 7, 7}), sizeof got);
}

/* ---- accuracy ---------------------------------------------------------------------------------------------------------------- */

static double sigmoid_in_double(double x) { return x < -700 ? 0 : 1 / (1 + exp(-x)); }
static double softplus_in_double(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

/* In units of the last place of the exact result; results that float flushes to zero may be zero. */
static double error_of(float got, double want)
{
    int exponent;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
    if (fabs(want) < 0x1p-126) return fabsf(got) <= 0x1p-126f ? 0 : INFINITY;
    if (isinf(got) || isinf(want)) return got == (float)want ? 0 : INFINITY;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - 24);
}

TEST(elementary_functions_are_accurate)
{
    static const struct {
        lki_slot slot;
        double (*exact)(double);
        double limit; /* what ref/math.h says */
    } functions[] = {
        {LKI_K_exp, exp, 0.89},   {LKI_K_expm1, expm1, 1.45},
        {LKI_K_log, log, 0.96},   {LKI_K_log1p, log1p, 1.48},
        {LKI_K_tanh, tanh, 1.35}, {LKI_K_sigmoid, sigmoid_in_double, 1.60},
        {LKI_K_erf, erf, 1.02},   {LKI_K_softplus, softplus_in_double, 1.82},
        {LKI_K_sin, sin, 0.5001}, {LKI_K_cos, cos, 0.5001},
        {LKI_K_sqrt, sqrt, 0.5},
    };
    enum { N = 4096, STRIDE = 1999 };
    lki_view src = operand(LK_F32, LK_SHAPE(N)), dst = operand(LK_F32, LK_SHAPE(N));
    lki_args a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1};
    for (int f = 0; f < LKI_COUNT(functions); f++) {
        double worst = 0, at = 0;
        for (uint64_t bits = 0; bits < (uint64_t)1 << 32;) {
            float *x = (float *)src.data, *y = (float *)dst.data;
            for (int i = 0; i < N; i++, bits += STRIDE) {
                uint32_t b = (uint32_t)bits;
                memcpy(&x[i], &b, sizeof b);
                if (fabsf(x[i]) < 0x1p-126f) x[i] = 0;
            }
            run_range((int)lki_cpu_isa_machine(), functions[f].slot, a, 0, N);
            for (int i = 0; i < N; i++) {
                double error = error_of(y[i], functions[f].exact(x[i]));
                if (error > worst) worst = error, at = x[i];
            }
        }
        print_message("%-9s %.3f ulp at %a\n", lki_slot_name(functions[f].slot), worst, at);
        if (worst > functions[f].limit) fail_msg("%s: %g ulp at %a", lki_slot_name(functions[f].slot), worst, at);
    }
    forget_all();
}

/* ---- sums: their order, written down once more ------------------------------------------------------------------------------- */

static double rounded(lk_dtype t, double x) { return t == LK_F32 ? (double)(float)x : x; }

/* In f32 a sum of two floats taken in double and rounded is the rounded sum. */
static double oracle_block(lk_dtype t, const lki_view *v, int64_t from, int64_t n, bool squares)
{
    double acc[16] = {0};
    for (int64_t j = 0; j < n; j++) {
        double x = lki_element_get(t, v->data, from + j);
        acc[j % 16] = squares ? (t == LK_F32 ? (double)fmaf((float)x, (float)x, (float)acc[j % 16]) : fma(x, x, acc[j % 16]))
                              : rounded(t, acc[j % 16] + x);
    }
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            acc[i] = rounded(t, acc[i] + acc[i + half]);
    return acc[0];
}

static double oracle_fold(lk_dtype t, const lki_view *v, int64_t from, int64_t n, bool squares)
{
    if (n <= 4096) return oracle_block(t, v, from, n, squares);
    int64_t left = 4096;
    while (left * 2 < n)
        left *= 2;
    return rounded(t, oracle_fold(t, v, from, left, squares) + oracle_fold(t, v, from + left, n - left, squares));
}

static double oracle_lanes(lk_dtype t, const lki_view *v, int64_t at, int64_t step, const int64_t *bound, int count, int64_t entry)
{
    if (count > 1)
        return rounded(t, oracle_lanes(t, v, at, step, bound, count / 2, entry) +
                              oracle_lanes(t, v, at, step, bound + count / 2, count / 2, entry));
    double acc = 0;
    for (int64_t k = bound[0] * entry; k < bound[1] * entry; k++)
        acc = rounded(t, acc + lki_element_get(t, v->data, at + k * step));
    return acc;
}

static void check_sum(lk_dtype t, lk_shape shape, int first, int last, int lanes)
{
    int64_t  outer = 1, mid = 1, inner = 1, bound[65], whole[2];
    lk_shape to = {0};
    for (int i = 0; i < shape.rank; i++)
        *(i < first ? &outer : i <= last ? &mid : &inner) *= shape.dim[i];
    to = LK_SHAPE(outer, inner);
    for (int s = 0; s <= lanes; s++)
        bound[s] = lanes ? (s * shape.dim[0] + lanes - 1) / lanes : 0;
    whole[0] = 0, whole[1] = mid;
    lki_lanes lane = {lanes, bound};
    lki_attr  attr = {.reduce = {first, last}};
    lki_view  src = random_operand(t, shape, TAME), dst = operand(t, to);
    lki_args  a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1, .attr = &attr, .lanes = lanes ? &lane : NULL};
    check_slot(LKI_K_reduce_sum, &a, 1);
    for (int64_t o = 0; o < outer * inner; o++) {
        int64_t at = o / inner * mid * inner + o % inner;
        double  want = lanes        ? oracle_lanes(t, &src, at, inner, bound, lanes, shape.dim[0] ? mid / shape.dim[0] : 1)
                       : inner == 1 ? oracle_fold(t, &src, at, mid, false)
                                    : oracle_lanes(t, &src, at, inner, whole, 1, 1);
        assert_true(lki_element_get(t, dst.data, o) == want);
    }
    fill_values(&src, WILD);
    check_slot(LKI_K_reduce_sum, &a, 1);
    forget_all();
}

TEST(sums_keep_their_order)
{
    static const int64_t inners[] = {1, 2, 10, 16, 17, 31, 33, 64, 65, 100, 130};
    for (int t = 0; t < 2; t++) {
        for (int n = 0; n < LKI_COUNT(sizes); n++) {
            check_sum(floats[t], LK_SHAPE(sizes[n]), 0, 0, 0);
            check_sum(floats[t], LK_SHAPE(sizes[n]), 0, 0, 8);
            check_sum(floats[t], LK_SHAPE(7, sizes[n]), 1, 1, 0);
        }
        for (int n = 0; n < LKI_COUNT(inners); n++)
            for (int lanes = 0; lanes <= 64; lanes = lanes ? lanes * 4 : 1) {
                check_sum(floats[t], LK_SHAPE(37, inners[n]), 0, 0, lanes);
                check_sum(floats[t], LK_SHAPE(6, 5, 3, inners[n]), 0, 1, lanes);
                check_sum(floats[t], LK_SHAPE(0, inners[n]), 0, 0, lanes);
            }
        check_sum(floats[t], LK_SHAPE(3, 40, 21), 1, 1, 0);
        check_sum(floats[t], LK_SHAPE(9, 4, 5), 0, 2, 8);
        check_sum(floats[t], LK_SHAPE(100000), 0, 0, 0);
    }
}

TEST(sums_of_squares)
{
    for (int t = 0; t < 2; t++)
        for (int n = 0; n < LKI_COUNT(sizes); n++) {
            lki_view src = random_operand(floats[t], LK_SHAPE(sizes[n]), TAME), dst = operand(floats[t], LK_SHAPE());
            lki_args a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1};
            check_slot(LKI_K_sum_squares, &a, 1);
            assert_true(lki_element_get(floats[t], dst.data, 0) == oracle_fold(floats[t], &src, 0, sizes[n], true));
            fill_values(&src, WILD);
            check_slot(LKI_K_sum_squares, &a, 1);
            forget_all();
        }
}

/* ---- other reductions -------------------------------------------------------------------------------------------------------- */

/* Does x come before y: larger (or smaller), NaN before all? */
static bool ahead(double x, double y, bool largest)
{
    if (isnan(x) || isnan(y)) return isnan(x) && !isnan(y);
    return largest ? x > y : x < y;
}

static void check_extreme(lk_dtype t, lk_shape shape, int axis, bool largest)
{
    int64_t  mid = shape.dim[axis], inner = lki_shape_size_from(&shape, axis + 1);
    lk_shape to = shape;
    to.dim[axis] = 1;
    lki_attr attr = {.reduce = {axis, axis}};
    lki_view src = random_operand(t, shape, WILD), best = operand(t, to), place = operand(LK_I64, to);
    lki_args a = {.src = &src, .dst = &best, .nsrc = 1, .ndst = 1, .attr = &attr};
    check_slot(largest ? LKI_K_reduce_max : LKI_K_reduce_min, &a, 1);
    a.dst = &place;
    check_slot(largest ? LKI_K_argmax : LKI_K_argmin, &a, 1);
    for (int64_t o = 0; o < size_of(&best); o++) {
        int64_t at = o / inner * mid * inner + o % inner, want = 0;
        for (int64_t k = 1; k < mid; k++)
            if (ahead(lki_element_get(t, src.data, at + k * inner), lki_element_get(t, src.data, at + want * inner), largest))
                want = k;
        assert_int_equal(((int64_t *)place.data)[o], want);
        if (mid) {
            double x = lki_element_get(t, src.data, at + want * inner), got = lki_element_get(t, best.data, o);
            assert_true(x == got || (isnan(x) && isnan(got)));
        }
    }
    forget_all();
}

TEST(extremes)
{
    for (int t = 0; t < LKI_COUNT(numbers); t++)
        for (int largest = 0; largest < 2; largest++) {
            for (int n = 0; n < LKI_COUNT(sizes); n++)
                check_extreme(numbers[t], LK_SHAPE(5, sizes[n]), 1, largest);
            for (int n = 1; n < 9; n++)
                check_extreme(numbers[t], LK_SHAPE(3, 6, sizes[n]), 1, largest);
            check_extreme(numbers[t], LK_SHAPE(0, 40), 0, largest);
        }
}

TEST(products_and_truth)
{
    for (int t = 0; t < LKI_COUNT(numbers); t++)
        for (int n = 0; n < 10; n++) {
            lki_attr attr = {.reduce = {1, 1}};
            lki_view src = random_operand(numbers[t], LK_SHAPE(4, sizes[n], 3), TAME), dst = operand(numbers[t], LK_SHAPE(4, 3));
            lki_args a = {.src = &src, .dst = &dst, .nsrc = 1, .ndst = 1, .attr = &attr};
            check_slot(LKI_K_reduce_prod, &a, 1);
            lki_view bits = random_operand(LK_BOOL, LK_SHAPE(4, sizes[n] % 5, 3), TAME), any = operand(LK_BOOL, LK_SHAPE(4, 3));
            a = (lki_args){.src = &bits, .dst = &any, .nsrc = 1, .ndst = 1, .attr = &attr};
            for (int all = 0; all < 2; all++) {
                check_slot(all ? LKI_K_reduce_all : LKI_K_reduce_any, &a, 1);
                for (int64_t o = 0; o < 12; o++) {
                    int64_t k = 0, mid = sizes[n] % 5;
                    while (k < mid && ((uint8_t *)bits.data)[(o / 3 * mid + k) * 3 + o % 3] == all)
                        k++;
                    assert_int_equal(((uint8_t *)any.data)[o], all ? k == mid : k < mid);
                }
            }
            forget_all();
        }
    for (int n = 0; n < LKI_COUNT(sizes); n++) /* long rows and wide columns, nearly all of one value */
        for (int form = 0; form < 4; form++) {
            int      wide = form & 1, mostly = form >> 1;
            lki_attr attr = {.reduce = {1, 1}};
            lki_view bits = operand(LK_BOOL, wide ? LK_SHAPE(2, 3, sizes[n]) : LK_SHAPE(5, sizes[n]));
            lki_view dst = operand(LK_BOOL, wide ? LK_SHAPE(2, sizes[n]) : LK_SHAPE(5));
            lki_args a = {.src = &bits, .dst = &dst, .nsrc = 1, .ndst = 1, .attr = &attr};
            memset(bits.data, mostly, (size_t)size_of(&bits));
            for (int odd = 0; odd < 3 && size_of(&bits); odd++)
                ((uint8_t *)bits.data)[random_word() % size_of(&bits)] = (uint8_t)(mostly ? 0 : 1 + odd);
            check_slot(LKI_K_reduce_any, &a, 1);
            check_slot(LKI_K_reduce_all, &a, 1);
            forget_all();
        }
}

/* ---- rows -------------------------------------------------------------------------------------------------------------------- */

static void check_rows(lk_dtype t, int64_t classes, lk_dtype label_type, values kind)
{
    const int64_t ROWS = classes <= 16 ? 9 + 41 * (classes % 2 + 1) : 9; /* short rows go in groups */
    int           fault = 0;
    lki_attr      attr = {.xent = {.ignore = 1, .ignore_class = 0}};
    lki_view      src[3] = {random_operand(t, LK_SHAPE(ROWS, classes), kind), operand(label_type, LK_SHAPE(ROWS)),
                            random_operand(t, LK_SHAPE(ROWS), TAME)};
    lki_view      wide = operand(t, LK_SHAPE(ROWS, classes)), narrow = operand(t, LK_SHAPE(ROWS));
    lki_args      a = {.src = src, .dst = &wide, .nsrc = 3, .ndst = 1, .attr = &attr, .fault = &fault};
    for (int64_t r = 0; r < ROWS; r++)
        lki_element_set(label_type, src[1].data, r, r == 3 ? (double)classes : (double)(random_word() % classes));
    check_slot(LKI_K_softmax, &a, classes);
    lki_view pair[2] = {random_operand(t, LK_SHAPE(ROWS, classes), kind), src[0]};
    lki_args back = {.src = pair, .dst = &wide, .nsrc = 2, .ndst = 1, .attr = &attr, .fault = &fault};
    check_slot(LKI_K_softmax_grad, &back, classes);
    check_slot(LKI_K_log_softmax, &a, classes);
    check_slot(LKI_K_sparse_xent_grad, &a, classes);
    a.dst = &narrow;
    check_slot(LKI_K_sparse_xent, &a, 1);
    assert_int_equal(fault, classes < 256 || label_type != LK_U8);
    for (int64_t r = 0; r < ROWS; r++) {
        int64_t label = (int64_t)lki_element_get(label_type, src[1].data, r);
        double  loss = lki_element_get(t, narrow.data, r), sum = 0, most = -INFINITY, want;
        for (int64_t j = 0; j < classes; j++)
            most = fmax(most, lki_element_get(t, src[0].data, r * classes + j));
        for (int64_t j = 0; j < classes; j++)
            sum += exp(lki_element_get(t, src[0].data, r * classes + j) - most);
        if (label == 0) assert_true(loss == 0);
        if (label >= classes) assert_true(isnan(loss));
        if (label == 0 || label >= classes || kind == WILD) continue;
        want = log(sum) - (lki_element_get(t, src[0].data, r * classes + label) - most);
        assert_true(fabs(loss - want) <= (t == LK_F32 ? 2e-6 : 1e-14) * (1 + fabs(want)));
    }
    forget_all();
}

static void check_layer_norm(lk_dtype t, int64_t n, values kind)
{
    const lk_shape wide = LK_SHAPE(5, 3, n), per_row = LK_SHAPE(5, 3);
    lki_attr       attr = {.num = {.a = 1e-3}};
    int64_t        bound[9] = {0, 1, 1, 2, 4, 4, 5, 5, 5};
    lki_lanes      lanes = {8, bound};
    lki_view x = random_operand(t, wide, kind), dy = random_operand(t, wide, TAME), gamma = random_operand(t, LK_SHAPE(n), TAME),
             beta = random_operand(t, LK_SHAPE(n), TAME), y[3] = {operand(t, wide), operand(t, per_row), operand(t, per_row)};
    lki_view mean = random_operand(t, per_row, TAME), scale = random_operand(t, per_row, TAME), sum = operand(t, LK_SHAPE(n));
    lki_view forward[3] = {x, gamma, beta}, back[5] = {dy, x, gamma, mean, scale}, rows[4] = {dy, x, mean, scale};
    lki_args a = {.src = forward, .dst = y, .nsrc = 3, .ndst = 3, .attr = &attr};
    check_slot(LKI_K_layer_norm, &a, n);
    for (int64_t i = 0; i < size_of(&y[1]) && n == 0; i++) { /* nothing to sum, and still a mean and a deviation per row */
        assert_true(lki_element_get(t, y[1].data, i) == 0);
        assert_true(fabs(lki_element_get(t, y[2].data, i) - 1 / sqrt(1e-3)) < 1e-4);
    }
    a = (lki_args){.src = back, .dst = y, .nsrc = 5, .ndst = 1, .attr = &attr};
    check_slot(LKI_K_layer_norm_grad_x, &a, n);
    a = (lki_args){.src = rows, .dst = &sum, .nsrc = 4, .ndst = 1, .attr = &attr};
    check_slot(LKI_K_layer_norm_grad_gamma, &a, 1);
    a.lanes = &lanes;
    check_slot(LKI_K_layer_norm_grad_gamma, &a, 1);
    forget_all();
}

TEST(layer_norms)
{
    static const int64_t widths[] = {0, 1, 2, 7, 15, 16, 17, 31, 64, 65, 100, 128, 1000, 4096, 4097, 9000};
    for (int i = 0; i < LKI_COUNT(widths); i++)
        for (int kind = 0; kind < 2; kind++) {
            check_layer_norm(LK_F32, widths[i], kind ? WILD : TAME);
            check_layer_norm(LK_F64, widths[i], kind ? WILD : TAME);
        }
}

TEST(rows)
{
    static const int64_t  classes[] = {1, 2, 3, 7, 8, 9, 10, 15, 16, 17, 31, 33, 100, 1000, 4096, 4097, 10000};
    static const lk_dtype labels[] = {LK_I32, LK_I64, LK_U8};
    for (int t = 0; t < 2; t++)
        for (int c = 0; c < LKI_COUNT(classes); c++)
            for (int kind = TAME; kind <= WILD; kind++)
                check_rows(floats[t], classes[c], labels[c % 3], (values)kind);
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slot_is_filled),
        cmocka_unit_test(one_operand),
        cmocka_unit_test(two_operands),
        cmocka_unit_test(where),
        cmocka_unit_test(corners),
        cmocka_unit_test(integers_wrap_and_divide),
        cmocka_unit_test(elementary_functions_are_accurate),
        cmocka_unit_test(sums_keep_their_order),
        cmocka_unit_test(sums_of_squares),
        cmocka_unit_test(extremes),
        cmocka_unit_test(products_and_truth),
        cmocka_unit_test(rows),
        cmocka_unit_test(layer_norms),
    };
    return cmocka_run_group_tests(tests, make_tables, NULL);
}
