/* Random numbers on a GPU against the reference: the same bits, whatever part of the draw dst is. */
#include "slots.h"

static void check(lki_slot slot, lk_dtype type, lk_shape shape, int64_t first, int64_t iteration, double low, double high)
{
    const lk_shape scalar = {0, {0}};
    slot_case      c = {.slot = slot, .dtype = type, .first = first};
    int64_t       *t = slot_room(LK_I64, &scalar);
    *t = iteration;
    slot_source(&c, LK_I64, scalar, t);
    slot_result(&c, type, shape, NULL);
    c.attr.random.key = slot_word();
    c.attr.random.call = (uint64_t)slot_below(60000);
    c.attr.random.low = low;
    c.attr.random.high = high;
    slot_check(&c);
}

/* Rows of 1 to 8 begin at every place of a block of four. */
TEST(test_places)
{
    static const lki_slot slots[] = {LKI_K_random_uniform, LKI_K_random_normal};
    for (int s = 0; s < 2; s++)
        for (int t = LK_F32; t <= LK_F64; t++) {
            check(slots[s], (lk_dtype)t, (lk_shape){0, {0}}, 0, 5, 0, 1);
            check(slots[s], (lk_dtype)t, (lk_shape){1, {0}}, 3, 5, 0, 1);
            for (int64_t row = 1; row < 9; row++)
                for (int64_t first = 0; first < 6; first++)
                    check(slots[s], (lk_dtype)t, (lk_shape){2, {first + row, row}}, first, row * 1000 + first, 0, 1);
        }
}

TEST(test_intervals)
{
    static const double intervals[][2] = {{-1, 1},    {-0.05, 0.05}, {3, 3}, {2, 1}, {0.1, 0x1.99999cp-4}, {1, 0x1.0000000000001p0},
                                          {100, 1e9}, {0, 0x1p24}};
    for (int i = 0; i < LKI_COUNT(intervals); i++)
        for (int t = LK_F32; t <= LK_F64; t++) {
            check(LKI_K_random_uniform, (lk_dtype)t, (lk_shape){1, {3001}}, 0, i, intervals[i][0], intervals[i][1]);
            check(LKI_K_random_normal, (lk_dtype)t, (lk_shape){1, {3001}}, 0, i, intervals[i][0], intervals[i][1]);
        }
}

/* Far places and far iterations, whose counters need their high words. */
TEST(test_far)
{
    for (int t = LK_F32; t <= LK_F64; t++) {
        check(LKI_K_random_uniform, (lk_dtype)t, (lk_shape){2, {5, 7}}, (int64_t)1 << 40, 0, 0, 1);
        check(LKI_K_random_normal, (lk_dtype)t, (lk_shape){2, {5, 7}}, ((int64_t)1 << 33) + 3, (int64_t)1 << 46, 0, 1);
        check(LKI_K_random_normal, (lk_dtype)t, (lk_shape){2, {5, 8}}, ((int64_t)1 << 33) + 3, -1, 0, 1);
    }
}

/* A part of a larger array: dst begins anywhere, and what lies around it stays. */
TEST(test_around)
{
    enum { ROOM = 32 };
    lki_device         *d = slot_gpu();
    const lki_gpu_line *l = lki_gpu_line_of(d);
    const int64_t       t = 3;
    const lk_shape      scalar = {0, {0}};
    float               whole[ROOM], host[ROOM], *mem = d->ops->alloc(d, sizeof host);
    int64_t            *iteration = d->ops->alloc(d, sizeof t);
    lki_attr            attr = {.random = {.key = 77, .call = 5, .low = 0, .high = 1}};
    lki_launch          call = {.stream = l->stream, .stop = NULL};
    d->ops->write(d, iteration, &t, sizeof t);
    for (int from = -1; from < 9; from++)
        for (int64_t n = 1; n < 12; n++) { /* first all of the draw, then numbers from ... from + n - 1 where they belong */
            const lk_shape s = {1, {from < 0 ? ROOM : n}};
            lki_view       src = {iteration, &scalar, LK_I64}, dst = {mem + lki_max(from, 0), &s, LK_F32};
            lki_args       a = {.src = &src,
                                .dst = &dst,
                                .nsrc = 1,
                                .ndst = 1,
                                .attr = &attr,
                                .hi = s.dim[0],
                                .first = lki_max(from, 0),
                                .gpu = &call};
            memset(host, 0xff, sizeof host);
            d->ops->write(d, mem, host, sizeof host);
            l->kernels->fn[LKI_K_random_uniform][LK_F32](&a);
            assert_int_equal(d->ops->read(d, host, mem, sizeof host), LK_OK);
            if (from < 0) memcpy(whole, host, sizeof host);
            for (int i = 0; i < ROOM && from >= 0; i++) {
                if (i < from || i >= from + n) assert_true(isnan(host[i]));
                else assert_true(host[i] == whole[i]);
            }
        }
    d->ops->release(d, mem, sizeof host);
    d->ops->release(d, iteration, sizeof t);
}

TEST(test_large)
{
    check(LKI_K_random_uniform, LK_F32, (lk_shape){1, {132 * 16 * 256 * 4 + 77}}, 1, 9, 0, 1);
    check(LKI_K_random_normal, LK_F32, (lk_shape){1, {300001}}, 4, 9, 0.5, 2);
}

TESTS(cmocka_unit_test(test_places), cmocka_unit_test(test_intervals), cmocka_unit_test(test_far), cmocka_unit_test(test_around),
      cmocka_unit_test(test_large))
