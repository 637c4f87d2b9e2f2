/* Gather, one-hot and their gradients on a GPU against the reference: all types, lanes, ids out of range, many ids of one entry,
 * more ids than one block sorts. */
#include "slots.h"

static const lk_dtype all_types[] = {LK_F32, LK_F64, LK_F16, LK_BF16, LK_I32, LK_I64, LK_U8, LK_BOOL};
static const lk_dtype floats[] = {LK_F32, LK_F64};
static const lk_dtype id_types[] = {LK_I32, LK_I64};

/* The shape of ids in place of axis `axis` of x. */
static lk_shape gathered(lk_shape x, int axis, lk_shape ids)
{
    lk_shape s = {.rank = x.rank - 1 + ids.rank};
    for (int d = 0; d < axis; d++)
        s.dim[d] = x.dim[d];
    for (int d = 0; d < ids.rank; d++)
        s.dim[axis + d] = ids.dim[d];
    for (int d = axis + 1; d < x.rank; d++)
        s.dim[d - 1 + ids.rank] = x.dim[d];
    return s;
}

/* Ids below `entries`; kind 1: some out of range; kind 2: nearly all the same; kind 3: every one out of range. */
static void *some_ids(lk_dtype t, const lk_shape *s, int64_t entries, int kind)
{
    void *p = kind == 3 ? slot_integers(t, s, entries, entries + 9)
                        : slot_integers(t, s, kind == 1 || entries == 0 ? -2 : 0, entries + (kind == 1 ? 3 : 0));
    for (int64_t i = 0; i < lki_shape_size(s) && kind == 2 && entries; i++)
        if (slot_below(10)) lki_element_set(t, p, i, (double)(entries / 2));
    return p;
}

static const struct {
    lk_shape x;
    int      axis;
    lk_shape ids;
} gathers[] = {{{1, {9}}, 0, {1, {20}}},         {{2, {7, 16}}, 0, {1, {11}}},   {{2, {7, 5}}, 0, {2, {3, 4}}},
               {{3, {4, 6, 3}}, 1, {1, {9}}},    {{3, {4, 6, 8}}, 2, {1, {5}}},  {{3, {4, 6, 8}}, 1, {0, {0}}},
               {{2, {7, 5}}, 0, {0, {0}}},       {{2, {7, 5}}, 0, {1, {0}}},     {{2, {0, 5}}, 0, {1, {3}}},
               {{2, {7, 0}}, 0, {1, {3}}},       {{3, {0, 4, 2}}, 1, {1, {3}}},  {{4, {2, 3, 5, 4}}, 1, {2, {2, 2}}},
               {{2, {40, 130}}, 0, {2, {5, 8}}}, {{2, {100, 1}}, 0, {1, {500}}}, {{2, {3, 2}}, 0, {1, {700}}},
               {{2, {1, 3}}, 0, {1, {40}}}};

TEST(test_gather)
{
    for (int t = 0; t < LKI_COUNT(all_types); t++)
        for (int i = 0; i < LKI_COUNT(gathers); i++)
            for (int kind = 0; kind < 4; kind++) {
                slot_case      c = {.slot = LKI_K_gather, .dtype = all_types[t]};
                const lk_dtype id = id_types[(i + kind) % 2];
                c.attr.scan.axis = gathers[i].axis;
                slot_source(&c, c.dtype, gathers[i].x, slot_numbers(c.dtype, &gathers[i].x, true));
                slot_source(&c, id, gathers[i].ids, some_ids(id, &gathers[i].ids, gathers[i].x.dim[gathers[i].axis], kind));
                slot_result(&c, c.dtype, gathered(gathers[i].x, gathers[i].axis, gathers[i].ids), NULL);
                slot_check(&c);
            }
}

static void check_gather_grad(lk_dtype t, lk_shape x, int axis, lk_shape ids, int kind, int lanes)
{
    slot_case      c = {.slot = LKI_K_gather_grad, .dtype = t};
    const lk_dtype id = id_types[slot_below(2)];
    const lk_shape dy = gathered(x, axis, ids);
    c.attr.scan.axis = axis;
    slot_source(&c, t, dy, slot_numbers(t, &dy, kind == 1));
    slot_source(&c, id, ids, some_ids(id, &ids, x.dim[axis], kind));
    slot_result(&c, t, x, NULL);
    if (lanes) slot_lanes(&c, lanes, ids.rank ? ids.dim[0] : 1);
    slot_check(&c);
}

TEST(test_gather_grad)
{
    for (int t = 0; t < LKI_COUNT(floats); t++)
        for (int i = 0; i < LKI_COUNT(gathers); i++)
            for (int kind = 0; kind < 4; kind++) {
                check_gather_grad(floats[t], gathers[i].x, gathers[i].axis, gathers[i].ids, kind, 0);
                for (int lanes = 1; lanes <= 64; lanes *= 2)
                    check_gather_grad(floats[t], gathers[i].x, gathers[i].axis, gathers[i].ids, kind, lanes);
            }
}

/* One thread with many positions; several tiles; entries that need several digits. */
TEST(test_gather_grad_of_many)
{
    for (int kind = 0; kind < 3; kind++) {
        check_gather_grad(LK_F32, (lk_shape){2, {300, 2}}, 0, (lk_shape){1, {3001}}, kind, 0);
        check_gather_grad(LK_F32, (lk_shape){2, {70000, 1}}, 0, (lk_shape){1, {2048}}, kind, 8);
        check_gather_grad(LK_F32, (lk_shape){2, {70000, 1}}, 0, (lk_shape){1, {2049}}, kind, 8);
        check_gather_grad(LK_F64, (lk_shape){2, {500, 3}}, 0, (lk_shape){2, {137, 100}}, kind, 16);
        check_gather_grad(LK_F32, (lk_shape){3, {2, 15, 2}}, 1, (lk_shape){1, {9000}}, kind, 0);
        check_gather_grad(LK_F32, (lk_shape){2, {1 << 20, 1}}, 0, (lk_shape){1, {100}}, kind, 0);
    }
}

/* The positions of the lanes are not all of them: the rest is left out, and so are its faults. */
TEST(test_gather_grad_of_a_part)
{
    for (int i = 0; i < 20; i++) {
        slot_case      c = {.slot = LKI_K_gather_grad, .dtype = LK_F32};
        const lk_shape x = {2, {6, 3}}, ids = {2, {20, 2}}, dy = {3, {20, 2, 3}};
        slot_source(&c, LK_F32, dy, slot_numbers(LK_F32, &dy, false));
        slot_source(&c, LK_I32, ids, some_ids(LK_I32, &ids, 6, 0));
        ((int32_t *)c.src_data[1])[0] = ((int32_t *)c.src_data[1])[39] = 6;
        slot_result(&c, LK_F32, x, NULL);
        slot_lanes(&c, 4, 12);
        for (int s = 0; s <= 4; s++)
            c.bound[s] += 1 + i % 8;
        slot_check(&c);
    }
}

static const struct {
    lk_shape x, ids;
} rows[] = {{{2, {4, 9}}, {2, {4, 3}}},       {{3, {4, 9, 16}}, {2, {4, 12}}},
            {{3, {3, 5, 7}}, {3, {3, 2, 4}}}, {{2, {6, 5}}, {1, {6}}},
            {{3, {6, 5, 3}}, {1, {6}}},       {{3, {0, 5, 3}}, {1, {0}}},
            {{3, {2, 0, 3}}, {2, {2, 2}}},    {{3, {2, 5, 0}}, {2, {2, 2}}},
            {{3, {2, 5, 4}}, {2, {2, 0}}},    {{4, {20, 30, 2, 2}}, {2, {20, 50}}}};

static lk_shape row_gathered(lk_shape x, lk_shape ids)
{
    lk_shape s = ids;
    for (int d = 2; d < x.rank; d++)
        s.dim[s.rank++] = x.dim[d];
    return s;
}

TEST(test_row_gather)
{
    for (int t = 0; t < LKI_COUNT(all_types); t++)
        for (int i = 0; i < LKI_COUNT(rows); i++)
            for (int kind = 0; kind < 4; kind++) {
                slot_case      c = {.slot = LKI_K_row_gather, .dtype = all_types[t]};
                const lk_dtype id = id_types[(i + kind) % 2];
                slot_source(&c, c.dtype, rows[i].x, slot_numbers(c.dtype, &rows[i].x, true));
                slot_source(&c, id, rows[i].ids, some_ids(id, &rows[i].ids, rows[i].x.dim[1], kind));
                slot_result(&c, c.dtype, row_gathered(rows[i].x, rows[i].ids), NULL);
                slot_check(&c);
            }
}

TEST(test_row_gather_grad)
{
    for (int t = 0; t < LKI_COUNT(floats); t++)
        for (int i = 0; i < LKI_COUNT(rows); i++)
            for (int kind = 0; kind < 4; kind++) {
                slot_case      c = {.slot = LKI_K_row_gather_grad, .dtype = floats[t]};
                const lk_dtype id = id_types[(i + kind) % 2];
                const lk_shape dy = row_gathered(rows[i].x, rows[i].ids);
                slot_source(&c, c.dtype, dy, slot_numbers(c.dtype, &dy, kind == 1));
                slot_source(&c, id, rows[i].ids, some_ids(id, &rows[i].ids, rows[i].x.dim[1], kind));
                slot_result(&c, c.dtype, rows[i].x, NULL);
                slot_check(&c);
            }
}

TEST(test_one_hot)
{
    static const lk_dtype types[] = {LK_I32, LK_I64, LK_U8};
    static const int64_t  sizes[][2] = {{0, 4}, {7, 10}, {5, 0}, {100, 3}, {3, 1000}, {1, 1}};
    for (int i = 0; i < LKI_COUNT(types); i++)
        for (int t = 0; t < LKI_COUNT(all_types); t++)
            for (int n = 0; n < LKI_COUNT(sizes); n++)
                for (int kind = 0; kind < 2; kind++) {
                    slot_case      c = {.slot = LKI_K_one_hot, .dtype = types[i]};
                    const lk_shape ids = {1, {sizes[n][0]}}, y = {2, {sizes[n][0], sizes[n][1]}};
                    c.attr.num.a = kind ? 1 : 0.9;
                    c.attr.num.b = kind ? 0 : -0.1;
                    slot_source(&c, types[i], ids, slot_integers(types[i], &ids, types[i] == LK_U8 ? 0 : -1, sizes[n][1] + 2));
                    slot_result(&c, all_types[t], y, NULL);
                    slot_check(&c);
                }
}

TESTS(cmocka_unit_test(test_gather), cmocka_unit_test(test_gather_grad), cmocka_unit_test(test_gather_grad_of_many),
      cmocka_unit_test(test_gather_grad_of_a_part), cmocka_unit_test(test_row_gather), cmocka_unit_test(test_row_gather_grad),
      cmocka_unit_test(test_one_hot))
