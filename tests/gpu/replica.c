/* Sums over replicas, agreement, and updates by ids and by lanes on a GPU against the reference. */
#include "slots.h"

/* ---- sums over the replicas ---- */

enum { TABLES = 8 };

/* Subtrees of the replicas' lanes, of many forms: a whole tree, uneven ones, gaps, none that are siblings, lanes that are unknown.
 * */
static void fill_table(int form, int n, int32_t *table)
{
    int32_t lane = 0;
    for (int i = 0; i < n; i++) {
        const int32_t widths[TABLES] = {1, 1 << slot_below(3), i % 3 == 2 ? 2 : 1, 1, 1, i ? 1 : 4, 2, i < n / 2 ? 2 : 1};
        const int32_t width = widths[form];
        if (form == 1) lane = (lane + width - 1) / width * width;
        table[2 * i] = form == 3 ? 2 * i : form == 4 ? -1 : lane;
        table[2 * i + 1] = width;
        lane += width;
    }
}

TEST(test_replica_sum)
{
    static const int64_t  sizes[] = {0, 1, 5, 8, 1001, 1024};
    static const lk_dtype types[] = {LK_F32, LK_F64, LK_I32, LK_I64};
    for (int form = 0; form < TABLES; form++)
        for (int n = 1; n < MOST; n++)
            for (int i = 0; i < LKI_COUNT(sizes); i++)
                for (int t = 0; t < LKI_COUNT(types); t++) {
                    const lk_shape s = {1, {sizes[i]}}, pairs = {2, {n, 2}};
                    slot_case      c = {.slot = LKI_K_replica_sum, .dtype = types[t]};
                    for (int r = 0; r < n; r++)
                        slot_source(&c, types[t], s, slot_numbers(types[t], &s, r % 2));
                    int32_t *table = slot_room(LK_I32, &pairs);
                    fill_table(form, n, table);
                    slot_source(&c, LK_I32, pairs, table);
                    slot_result(&c, types[t], s, NULL);
                    slot_check(&c);
                }
}

/* More sources than a slot_case holds, and more open sums than the reference keeps. */
static void check_many(int form, int n, int64_t size)
{
    static lki_kernels  reference;
    lki_device         *d = slot_gpu();
    const lki_gpu_line *l = lki_gpu_line_of(d);
    const lk_shape      s = {1, {size}}, pairs = {2, {n, 2}};
    const size_t        bytes = (size_t)size * sizeof(float), table_bytes = 2 * (size_t)n * sizeof(int32_t);
    lki_view           *host = calloc((size_t)n + 1, sizeof *host), *card = calloc((size_t)n + 1, sizeof *card);
    float              *cpu = malloc(bytes), *gpu = malloc(bytes);
    int32_t            *table = malloc(table_bytes);
    fill_table(form, n, table);
    for (int r = 0; r <= n; r++) {
        host[r] = r < n ? (lki_view){slot_numbers(LK_F32, &s, false), &s, LK_F32} : (lki_view){table, &pairs, LK_I32};
        card[r] = host[r];
        card[r].data = d->ops->alloc(d, r < n ? bytes : table_bytes);
        d->ops->write(d, card[r].data, host[r].data, r < n ? bytes : table_bytes);
    }
    lki_view   to = {cpu, &s, LK_F32}, card_to = {d->ops->alloc(d, bytes), &s, LK_F32};
    lki_attr   attr = {0};
    lki_launch call = {.stream = l->stream, .stop = NULL};
    lki_args   a = {.src = host, .dst = &to, .nsrc = n + 1, .ndst = 1, .attr = &attr, .hi = size};
    lki_kernels_ref(&reference);
    unsigned before = lki_fp_enter();
    reference.fn[LKI_K_replica_sum][LK_F32](&a);
    lki_fp_leave(before);
    a.src = card;
    a.dst = &card_to;
    a.gpu = &call;
    const size_t scratch = l->kernels->scratch[LKI_K_replica_sum][LK_F32](&a);
    a.scratch = scratch ? d->ops->alloc(d, scratch) : NULL;
    l->kernels->fn[LKI_K_replica_sum][LK_F32](&a);
    assert_int_equal(d->ops->read(d, gpu, card_to.data, bytes), LK_OK);
    assert_memory_equal(cpu, gpu, bytes);
    if (scratch) d->ops->release(d, a.scratch, scratch);
    d->ops->release(d, card_to.data, bytes);
    for (int r = 0; r <= n; r++) {
        d->ops->release(d, card[r].data, r < n ? bytes : table_bytes);
        free(host[r].data);
    }
    free(host);
    free(card);
    free(cpu);
    free(gpu);
}

TEST(test_many_replicas)
{
    static const int counts[] = {16, 24, 25, 26, 32, 49, 64, 100, 257, 300};
    for (int form = 0; form < TABLES; form++)
        for (int i = 0; i < LKI_COUNT(counts); i++) {
            check_many(form, counts[i], 12);
            check_many(form, counts[i], 7);
        }
}

TEST(test_agree)
{
    static const int64_t sizes[] = {0, 1, 4, 1001, 2048};
    for (int n = 1; n < MOST; n++)
        for (int i = 0; i < LKI_COUNT(sizes); i++)
            for (int t = LK_F32; t <= LK_F64; t++) {
                const lk_shape s = {1, {sizes[i]}};
                const size_t   each = lk_dtype_bytes((lk_dtype)t);
                slot_case      c = {.slot = LKI_K_agree, .dtype = (lk_dtype)t};
                c.attr.num.a = 0.3;
                c.attr.num.b = 1.0 / n;
                char *first = slot_numbers(c.dtype, &s, true);
                slot_source(&c, c.dtype, s, first);
                for (int r = 1; r < n; r++) {
                    char *other = slot_numbers(c.dtype, &s, true);
                    for (int64_t k = 0; k < sizes[i]; k++) /* most agree; zeros of two signs do not */
                        if (slot_below(2 * n)) memcpy(other + (size_t)k * each, first + (size_t)k * each, each);
                    slot_source(&c, c.dtype, s, other);
                }
                slot_result(&c, c.dtype, s, NULL);
                slot_check(&c);
            }
}

/* ---- scatter ---- */

enum { DIV = 3, OPERATIONS = 7 };

static slot_case scatter_case(lk_dtype type, lk_dtype ids, lk_shape v, int64_t count, int operation)
{
    lk_shape  rows = v, list = {1, {count}};
    slot_case c = {.slot = LKI_K_scatter, .dtype = type};
    rows.dim[0] = count;
    void *x = slot_numbers(type, &rows, true);
    for (int64_t i = 0; i < lki_shape_size(&rows) && operation == DIV && lki_is_int(type); i++)
        if (lki_element_get(type, x, i) == 0) lki_element_set(type, x, i, -1);
    slot_source(&c, type, rows, x);
    slot_source(&c, ids, list, slot_integers(ids, &list, 0, lki_max(v.dim[0], 1)));
    slot_result(&c, type, v, slot_numbers(type, &v, true));
    c.attr.num.a = operation;
    return c;
}

TEST(test_scatter)
{
    static const lk_dtype types[] = {LK_F32, LK_F64, LK_I32, LK_I64};
    static const lk_shape shapes[] = {{1, {1}},    {1, {50}},      {2, {7, 3}},    {3, {5, 4, 33}},
                                      {2, {3, 0}}, {2, {2000, 1}}, {2, {2, 70000}}};
    static const int64_t  counts[] = {0, 1, 3, 40};
    for (int o = 0; o < OPERATIONS; o++)
        for (int t = 0; t < LKI_COUNT(types); t++)
            for (int s = 0; s < LKI_COUNT(shapes); s++)
                for (int n = 0; n < LKI_COUNT(counts); n++) {
                    if (shapes[s].dim[1] > 1000 && (n > 2 || o)) continue;
                    slot_case c = scatter_case(types[t], n % 2 ? LK_I32 : LK_I64, shapes[s], counts[n], o);
                    slot_check(&c);
                }
}

/* One id outside, or one integer divided by 0, and nothing changes. */
TEST(test_scatter_faults)
{
    static const int64_t wrong[] = {-1, 7, INT32_MIN, INT32_MAX};
    for (int i = 0; i < LKI_COUNT(wrong); i++)
        for (int at = 0; at < 300; at += 299) {
            slot_case c = scatter_case(LK_F32, LK_I64, (lk_shape){2, {7, 3}}, 300, 0);
            ((int64_t *)c.src_data[1])[at] = wrong[i];
            slot_check(&c);
        }
    for (int at = 0; at < 120; at += 119) {
        slot_case c = scatter_case(LK_I32, LK_I32, (lk_shape){2, {7, 3}}, 40, DIV);
        ((int32_t *)c.src_data[0])[at] = 0;
        slot_check(&c);
        slot_case f = scatter_case(LK_F32, LK_I32, (lk_shape){2, {7, 3}}, 40, DIV); /* floats may be */
        ((float *)f.src_data[0])[at] = 0;
        slot_check(&f);
    }
    slot_case none = scatter_case(LK_F32, LK_I32, (lk_shape){2, {0, 3}}, 4, 0);
    slot_check(&none);
}

/* If no kernel reads `stop`, an id outside must still change nothing. After a fault of its step good ids change nothing. */
TEST(test_scatter_stop)
{
    lki_device         *d = slot_gpu();
    const lki_gpu_line *l = lki_gpu_line_of(d);
    const lk_shape      s = {1, {4}}, two = {1, {2}};
    for (int how = 0; how < 4; how++) { /* good ids, a bad one, good ones of a step, good ones of a step that is stopped */
        float      v[4] = {0}, rows[2] = {1, 1}, *mem = d->ops->alloc(d, sizeof v + sizeof rows);
        int32_t    ids[2] = {2, how == 1 ? 4 : 2}, stop = how == 3, *list = d->ops->alloc(d, 64);
        void      *scratch = d->ops->alloc(d, 64);
        lki_attr   attr = {0};
        lki_view   src[2] = {{mem + 4, &two, LK_F32}, {list, &two, LK_I32}}, dst[1] = {{mem, &s, LK_F32}};
        lki_launch call = {.stream = l->stream, .stop = how < 2 ? NULL : list + 2};
        lki_args   a = {.src = src, .dst = dst, .nsrc = 2, .ndst = 1, .attr = &attr, .hi = 4, .scratch = scratch, .gpu = &call};
        d->ops->write(d, mem, v, sizeof v);
        d->ops->write(d, mem + 4, rows, sizeof rows);
        d->ops->write(d, list, ids, sizeof ids);
        d->ops->write(d, list + 2, &stop, sizeof stop);
        assert_true(l->kernels->scratch[LKI_K_scatter][LK_F32](&a) <= 64);
        l->kernels->fn[LKI_K_scatter][LK_F32](&a);
        assert_int_equal(d->ops->read(d, v, mem, sizeof v), LK_OK);
        assert_true(v[2] == (how == 0 || how == 2 ? 2 : 0));
        d->ops->release(d, mem, sizeof v + sizeof rows);
        d->ops->release(d, list, 64);
        d->ops->release(d, scratch, 64);
    }
}

/* ---- lanes ---- */

TEST(test_lane_add)
{
    static const lk_shape entries[] = {{0, {0}}, {1, {1}}, {1, {5}}, {2, {3, 40}}, {1, {0}}};
    static const int64_t  counts[] = {0, 1, 7, 130};
    for (int t = 0; t < LK_DTYPE_COUNT; t++)
        for (int e = 0; e < LKI_COUNT(entries); e++)
            for (int n = 0; n < LKI_COUNT(counts); n++)
                for (int lanes = 0; lanes <= 64; lanes = lanes ? 2 * lanes : 1) {
                    lk_shape v = {entries[e].rank + 1, {lki_max(lanes, 4)}}, x = v;
                    for (int d = 0; d < entries[e].rank; d++)
                        v.dim[d + 1] = x.dim[d + 1] = entries[e].dim[d];
                    x.dim[0] = counts[n];
                    slot_case c = {.slot = LKI_K_lane_add, .dtype = (lk_dtype)t};
                    slot_source(&c, c.dtype, x, slot_numbers(c.dtype, &x, n % 2));
                    slot_result(&c, LK_F64, v, slot_numbers(LK_F64, &v, true)); /* -0 stays where a lane is empty */
                    if (lanes) slot_lanes(&c, lanes, counts[n]);
                    else c.attr.num.a = 2;
                    slot_check(&c);
                }
}

TESTS(cmocka_unit_test(test_replica_sum), cmocka_unit_test(test_many_replicas), cmocka_unit_test(test_agree),
      cmocka_unit_test(test_scatter), cmocka_unit_test(test_scatter_faults), cmocka_unit_test(test_scatter_stop),
      cmocka_unit_test(test_lane_add))
