/* Reductions, running sums and sorting on a GPU against the reference: the same bits; sums over many rows against their own
 * definition, and near the reference. */
#include "parts.h"

static const lk_dtype numbers[] = {LK_F32, LK_F64, LK_I32, LK_I64};
static const lk_dtype floats[] = {LK_F32, LK_F64};

static lk_shape without(const lk_shape *s, int first, int last)
{
    lk_shape out = {0};
    for (int i = 0; i < s->rank; i++)
        if (i < first || i > last) out.dim[out.rank++] = s->dim[i];
    return out;
}

static slot_case reduction(lki_slot slot, lk_dtype t, lk_dtype result, const lk_shape *s, int first, int last, bool wild)
{
    slot_case c = {.slot = slot, .dtype = t};
    c.attr.reduce.first = first;
    c.attr.reduce.last = last;
    slot_source(&c, t, *s, slot_numbers(t, s, wild));
    slot_result(&c, result, without(s, first, last), NULL);
    return c;
}

/* How near a sum must be: rows of lanes, and what FOLD or a chain sums without them. */
static void sum_tolerance(slot_case *c)
{
    const lk_shape *s = &c->src[0];
    int64_t         rows = 1, entry = 1, inner = 1;
    for (int i = 0; i < s->rank; i++) {
        if (i > c->attr.reduce.last) inner *= s->dim[i];
        else if (i >= c->attr.reduce.first) rows *= s->dim[i];
        if (i > 0 && i <= c->attr.reduce.last) entry *= s->dim[i];
    }
    c->tolerance = inner == 1 && !c->lanes ? 0 : parts_tolerance(c, c->dtype, rows, entry);
}

/* Every neighbouring axes of shapes of all kinds: with nothing in them, with ones, over the borders of blocks and pieces. */
static const lk_shape shapes[] = {{0, {0}},          {1, {0}},          {1, {1}},        {1, {17}},          {1, {4096}},
                                  {1, {4097}},       {1, {70001}},      {2, {3, 5}},     {2, {0, 4}},        {2, {4, 0}},
                                  {2, {300, 10}},    {2, {2, 9000}},    {2, {700, 3}},   {2, {2100, 1}},     {3, {7, 33, 10}},
                                  {3, {3, 200, 40}}, {3, {5, 1, 4100}}, {3, {9, 30, 1}}, {4, {3, 2, 65, 9}}, {2, {9, 2000}}};

/* Many short rows take a simulated card long. */
static bool too_many_rows(const lk_shape *s, int first, int last)
{
    const lk_shape rows = without(s, first, last);
    return last >= s->rank - 1 && lki_shape_size(&rows) > 100;
}

static void over_all(lki_slot slot, lk_dtype t, lk_dtype result, bool wild)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int first = 0; first <= shapes[i].rank; first++)
            for (int last = first - (first == shapes[i].rank); last < shapes[i].rank; last++) { /* and no axis at all */
                if (too_many_rows(&shapes[i], first, last)) continue;
                slot_case c = reduction(slot, t, result, &shapes[i], first, last, wild);
                if (slot == LKI_K_reduce_sum) sum_tolerance(&c);
                slot_check(&c);
            }
}

TEST(test_sum)
{
    for (int t = 0; t < 4; t++)
        for (int wild = 0; wild < 2; wild++)
            over_all(LKI_K_reduce_sum, numbers[t], numbers[t], wild);
}

TEST(test_sum_long)
{
    for (int t = 0; t < 4; t++) {
        const lk_shape rows[] = {
            {2, {3, 16 * 4096}}, {2, {2, 16 * 4096 + 1}}, {1, {19 * 4096 + 5}}, {1, {67 * 4096}}, {2, {265, 17 * 4096}}};
        for (size_t i = 0; i < sizeof rows / sizeof *rows - (t > 0); i++) {
            slot_case c = reduction(LKI_K_reduce_sum, numbers[t], numbers[t], &rows[i], rows[i].rank - 1, rows[i].rank - 1, false);
            slot_check(&c);
        }
    }
}

/* LANES, direct and staged, of one column, a few, many; also when nothing is there. */
TEST(test_sum_lanes)
{
    static const lk_shape s[] = {{1, {0}},        {1, {5}},         {1, {9000}},     {2, {64, 4}}, {2, {1500, 1}},
                                 {2, {3000, 10}}, {2, {2500, 8}},   {2, {0, 3}},     {2, {3, 0}},  {2, {70, 40}},
                                 {2, {40, 700}},  {3, {90, 7, 12}}, {3, {5, 300, 3}}};
    for (int t = 0; t < 4; t++)
        for (size_t i = 0; i < sizeof s / sizeof *s; i++)
            for (int lanes = 1; lanes <= 64; lanes *= 2)
                for (int last = 0; last < s[i].rank; last++)
                    for (int relu = 0; relu < (t < 2 ? 2 : 1); relu++) {
                        slot_case c = reduction(LKI_K_reduce_sum, numbers[t], numbers[t], &s[i], 0, last, true);
                        slot_lanes(&c, lanes, s[i].dim[0]);
                        sum_tolerance(&c);
                        if (relu) {
                            c.attr.epilogue.relu = 1;
                            slot_source(&c, numbers[t], s[i], slot_numbers(numbers[t], &s[i], true));
                        }
                        slot_check(&c);
                    }
}

/* Lanes given, but the sum is not over rows: they do not count. */
TEST(test_sum_ignores_lanes)
{
    const lk_shape s = {3, {6, 50, 4}};
    for (int first = 1; first < 3; first++) {
        slot_case c = reduction(LKI_K_reduce_sum, LK_F32, LK_F32, &s, first, first, true);
        slot_lanes(&c, 4, 6);
        slot_check(&c);
    }
}

TEST(test_sum_relu)
{
    static const lk_shape s[] = {{2, {400, 7}}, {3, {4, 100, 9}}, {2, {9, 2000}}};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
            const int axis = s[i].rank - 2;
            slot_case c = reduction(LKI_K_reduce_sum, floats[t], floats[t], &s[i], axis, axis, true);
            c.attr.epilogue.relu = 1;
            sum_tolerance(&c);
            slot_source(&c, floats[t], s[i], slot_numbers(floats[t], &s[i], true));
            slot_check(&c);
        }
}

/* ---- many rows ---- */

/* [outer, n, inner] over n; lanes only where outer is 1. */
static slot_case long_sum(lk_dtype t, int64_t outer, int64_t n, int64_t inner)
{
    const lk_shape flat = {2, {n, inner}}, deep = {3, {outer, n, inner}};
    return outer > 1 ? reduction(LKI_K_reduce_sum, t, t, &deep, 1, 1, false)
                     : reduction(LKI_K_reduce_sum, t, t, &flat, 0, 0, false);
}

static void *on_gpu(const slot_case *c)
{
    void *out = slot_start(c, 0);
    slot_on_gpu(c, &out);
    return out;
}

/* Bit for bit what the definition says. */
static void as_defined(slot_case *c, int64_t outer, int64_t n, int64_t inner)
{
    void *gpu = on_gpu(c), *want = slot_start(c, 0);
    for (int64_t o = 0; o < outer * inner; o++) {
        const int64_t at = o / inner * n * inner;
        if (c->dtype == LK_F32)
            ((float *)want)[o] = parts_column_f32(c, (float *)c->src_data[0] + at, NULL, n, 1, inner, o % inner);
        else ((double *)want)[o] = parts_column_f64(c, (double *)c->src_data[0] + at, NULL, n, 1, inner, o % inner);
    }
    slot_compare(c, 0, want, gpu);
    free(gpu);
    free(want);
}

/* Near the reference, as seen from what n numbers add up to where they do not cancel, and how wrong one chain of them gets; short
 * lanes: the same bits. */
static void near_reference(slot_case *c, int64_t n)
{
    void        *gpu = on_gpu(c), *cpu = slot_start(c, 0);
    const double far = parts_tolerance(c, c->dtype, n, 1) * fmax(sqrt((double)n), (double)n / 64);
    slot_on_cpu(c, &cpu);
    for (int64_t o = 0; o < lki_shape_size(&c->dst[0]); o++)
        if (!(fabs(lki_element_get(c->dtype, cpu, o) - lki_element_get(c->dtype, gpu, o)) <= far))
            fail_msg("%lld rows: CPU %.9g, GPU %.9g", (long long)n, lki_element_get(c->dtype, cpu, o),
                     lki_element_get(c->dtype, gpu, o));
    free(gpu);
    free(cpu);
}

static void release(slot_case *c)
{
    for (int i = 0; i < c->nsrc; i++)
        free(c->src_data[i]);
}

/* Around the borders of parts and of groups of them; with lanes, some short, one empty, one with nearly all. */
TEST(test_sum_parts)
{
    static const int64_t n[] = {255, 256, 257, 511, 512, 513, 8192, 8193, 8449, 65535, 65536, 65537, 65793},
                         inner[] = {1, 2, 3, 4, 33, 40};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof n / sizeof *n; i++)
            for (size_t k = 0; k < sizeof inner / sizeof *inner - 2 * (n[i] > 10000); k++)
                for (int lanes = inner[k] == 1; lanes <= 4; lanes = lanes ? 4 * lanes : 1) {
                    slot_case c = long_sum(floats[t], 1, n[i], inner[k]);
                    if (lanes) slot_lanes(&c, lanes, n[i]);
                    if (lanes == 4) memcpy(c.bound, (int64_t[]){0, 3, n[i] - 250, n[i] - 250, n[i]}, 5 * sizeof *c.bound);
                    as_defined(&c, 1, n[i], inner[k]);
                    near_reference(&c, n[i]);
                    release(&c);
                }
}

TEST(test_sum_parts_outer)
{
    for (int t = 0; t < 2; t++)
        for (int64_t inner = 2; inner < 80; inner += 35) {
            slot_case c = long_sum(floats[t], 3, 777, inner);
            as_defined(&c, 3, 777, inner);
            release(&c);
        }
}

/* As many columns as make blocks own parts, not columns; in bunches and not. */
TEST(test_sum_parts_wide)
{
    for (int t = 0; t < 2; t++)
        for (int64_t inner = 1100; inner < 1102; inner++)
            for (int lanes = 0; lanes <= 2; lanes++) {
                slot_case c = long_sum(floats[t], 1, 300, inner);
                if (lanes) slot_lanes(&c, lanes, 300);
                if (lanes == 2) memcpy(c.bound, (int64_t[]){0, 20, 300}, 3 * sizeof *c.bound); /* one lane is short */
                as_defined(&c, 1, 300, inner);
                release(&c);
            }
}

/* As many rows as make parts longer. */
TEST(test_sum_parts_deep)
{
    static const int64_t n[] = {33 * 65536 + 77, 131072, 131073};
    for (int i = 0; i < 3; i++) {
        slot_case c = long_sum(LK_F32, 1, n[i], 1);
        slot_lanes(&c, 2, n[i]);
        memcpy(c.bound, (int64_t[]){0, i ? 0 : 300, n[i]}, 3 * sizeof *c.bound);
        as_defined(&c, 1, n[i], 1);
        release(&c);
    }
}

/* Replicas with half of the lanes each have the halves of the tree, whichever kernel sums this many rows. */
static void halves(lk_dtype t, int64_t inner, const int64_t bound[9])
{
    slot_case    c = long_sum(t, 1, bound[8], inner);
    const size_t each = lk_dtype_bytes(t);
    void        *half[2];
    c.lanes = 8;
    memcpy(c.bound, bound, 9 * sizeof *bound);
    void *whole = on_gpu(&c), *sum = slot_start(&c, 0);
    for (int h = 0; h < 2; h++) {
        slot_case      part = {.slot = c.slot, .dtype = c.dtype, .lanes = 4, .attr = c.attr};
        const lk_shape s = {2, {bound[4 * h + 4] - bound[4 * h], inner}};
        void          *x = slot_room(t, &s);
        memcpy(x, (char *)c.src_data[0] + (size_t)(bound[4 * h] * inner) * each, (size_t)(s.dim[0] * inner) * each);
        slot_source(&part, t, s, x);
        slot_result(&part, t, c.dst[0], NULL);
        for (int l = 0; l <= 4; l++)
            part.bound[l] = bound[4 * h + l] - bound[4 * h];
        half[h] = on_gpu(&part);
        release(&part);
    }
    for (int64_t o = 0; o < inner; o++)
        if (t == LK_F64) ((double *)sum)[o] = ((double *)half[0])[o] + ((double *)half[1])[o];
        else ((float *)sum)[o] = ((float *)half[0])[o] + ((float *)half[1])[o];
    slot_compare(&c, 0, sum, whole);
    free(whole);
    free(sum);
    free(half[0]);
    free(half[1]);
    release(&c);
}

TEST(test_sum_parts_of_replicas)
{
    static const int64_t bound[][9] = {{0, 300, 301, 301, 900, 1100, 1111, 1700, 2000},
                                       {0, 1000, 2000, 2001, 3900, 4900, 5900, 5950, 7800}, /* the halves of whole columns */
                                       {0, 8, 16, 24, 32, 132, 232, 332, 432}};             /* one half of short lanes */
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 3; i++)
            for (int64_t inner = 5; inner <= 12; inner += 7)
                halves(floats[t], inner, bound[i]);
}

TEST(test_product)
{
    for (int t = 0; t < 4; t++)
        for (int wild = 0; wild < 2; wild++)
            over_all(LKI_K_reduce_prod, numbers[t], numbers[t], wild);
}

TEST(test_extremes)
{
    for (int t = 0; t < 4; t++)
        for (int wild = 0; wild < 2; wild++) {
            over_all(LKI_K_reduce_max, numbers[t], numbers[t], wild);
            over_all(LKI_K_reduce_min, numbers[t], numbers[t], wild);
        }
}

TEST(test_places)
{
    for (int t = 0; t < 4; t++)
        for (int wild = 0; wild < 2; wild++) {
            over_all(LKI_K_argmax, numbers[t], LK_I64, wild);
            over_all(LKI_K_argmin, numbers[t], LK_I64, wild);
        }
}

/* All equal, or one that is different somewhere: the first wins. */
TEST(test_places_of_equals)
{
    const lk_shape s = {2, {4, 5000}};
    for (int at = -1; at < 5000; at += 1250) {
        slot_case c = reduction(LKI_K_argmax, LK_F32, LK_I64, &s, 1, 1, false);
        float    *x = c.src_data[0];
        for (int64_t i = 0; i < 4 * 5000; i++)
            x[i] = i % 5000 == at ? 2 : i % 2 ? -0.0f : 0.0f;
        slot_check(&c);
    }
}

TEST(test_truth)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int first = 0; first < shapes[i].rank; first++)
            for (int kind = 0; kind < 6; kind++) {
                if (too_many_rows(&shapes[i], first, shapes[i].rank - 1)) continue;
                slot_case c = reduction(kind % 2 ? LKI_K_reduce_any : LKI_K_reduce_all, LK_BOOL, LK_BOOL, &shapes[i], first,
                                        shapes[i].rank - 1, false);
                uint8_t  *x = c.src_data[0];
                for (int64_t k = 0; k < lki_shape_size(&shapes[i]); k++) /* mostly alike, but for a few */
                    if (kind < 4) x[k] = kind < 2 ? kind % 2 == 0 : (uint8_t)(slot_below(500) == 0) ^ (uint8_t)(kind % 2 == 0);
                slot_check(&c);
            }
}

TEST(test_sum_squares)
{
    static const int64_t n[] = {0,    1,    5,    16,   17,           256,       257,           1024,         1025,
                                3000, 4095, 4096, 4097, 3 * 4096 + 1, 16 * 4096, 17 * 4096 + 3, 40 * 4096 + 9};
    for (int t = 0; t < 2; t++)
        for (size_t i = 0; i < sizeof n / sizeof *n; i++)
            for (int wild = 0; wild < 2; wild++) {
                const lk_shape s = {1, {n[i]}}, scalar = {0};
                slot_case      c = {.slot = LKI_K_sum_squares, .dtype = floats[t]};
                slot_source(&c, floats[t], s, slot_numbers(floats[t], &s, wild));
                slot_result(&c, floats[t], scalar, NULL);
                slot_check(&c);
            }
}

TEST(test_cumsum)
{
    for (int t = 0; t < 4; t++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int axis = 0; axis < shapes[i].rank; axis++)
                for (int kind = 0; kind < 4; kind++) {
                    slot_case c = {.slot = LKI_K_cumsum, .dtype = numbers[t]};
                    c.attr.scan.axis = axis;
                    c.attr.scan.exclusive = kind % 2;
                    c.attr.scan.reverse = kind / 2;
                    slot_source(&c, numbers[t], shapes[i], slot_numbers(numbers[t], &shapes[i], kind == 3));
                    slot_result(&c, numbers[t], shapes[i], NULL);
                    slot_check(&c);
                }
}

TEST(test_top_k)
{
    static const int64_t cases[][3] = {{1, 1, 1}, {3, 10, 5}, {7, 33, 33}, {5, 1000, 4}, {0, 5, 2}, {4, 100, 0}, {9, 64, 1}};
    for (int t = 0; t < 4; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (int wild = 0; wild < 2; wild++) {
                const int64_t  rows = cases[i][0], n = cases[i][1], k = cases[i][2];
                const lk_shape s = {2, {rows, n}}, out = {2, {rows, k}};
                slot_case      c = {.slot = LKI_K_top_k, .dtype = numbers[t]};
                c.attr.top.k = k;
                slot_source(&c, numbers[t], s, slot_numbers(numbers[t], &s, wild));
                slot_result(&c, numbers[t], out, NULL);
                slot_result(&c, LK_I32, out, NULL);
                slot_check(&c);
            }
}

TESTS(cmocka_unit_test(test_sum), cmocka_unit_test(test_sum_long), cmocka_unit_test(test_sum_lanes),
      cmocka_unit_test(test_sum_ignores_lanes), cmocka_unit_test(test_sum_relu), cmocka_unit_test(test_sum_parts),
      cmocka_unit_test(test_sum_parts_outer), cmocka_unit_test(test_sum_parts_wide), cmocka_unit_test(test_sum_parts_deep),
      cmocka_unit_test(test_sum_parts_of_replicas), cmocka_unit_test(test_product), cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_places), cmocka_unit_test(test_places_of_equals), cmocka_unit_test(test_truth),
      cmocka_unit_test(test_sum_squares), cmocka_unit_test(test_cumsum), cmocka_unit_test(test_top_k))
