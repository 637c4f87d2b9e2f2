/* Pooling on a GPU against the reference: windows that overlap, leave gaps, extend beyond the image or are outside; NaN, infinities
 * and ties. */
#include "slots.h"

static const lk_dtype floats[] = {LK_F32, LK_F64};

typedef struct pooling {
    lki_window win;
    lk_shape   x, y;
    lk_dtype   cell;
} pooling;

static pooling pooling_of(int64_t images, int64_t h, int64_t w, int64_t channels, lki_window win, int64_t oh, int64_t ow)
{
    pooling p = {
        win, {4, {images, h, w, channels}}, {4, {images, oh, ow, channels}}, win.size[0] * win.size[1] > 256 ? LK_I32 : LK_U8};
    return p;
}

/* Any window; the outputs reach up to the last that touches the image, or one further. */
static pooling random_pooling(void)
{
    lki_window    win = {.dilation = {1, 1}};
    int64_t       in[2], out[2];
    const int64_t large = slot_below(12) == 0, tiles = slot_below(3) == 0;
    for (int d = 0; d < 2; d++) {
        in[d] = 1 + slot_below(9);
        win.size[d] = large ? 17 : 1 + slot_below(4);
        win.stride[d] = tiles ? win.size[d] : 1 + slot_below(4);
        win.pad[d] = slot_below(win.size[d] + 1);
        out[d] = (in[d] + win.pad[d] - 1) / win.stride[d] + 1 + slot_below(2);
    }
    const int64_t channels = slot_below(2) ? 4 * (1 + slot_below(2)) : 1 + slot_below(5);
    if (slot_below(4) == 0) out[slot_below(2)] = 1; /* most of the image is in no window */
    return pooling_of(slot_below(4), in[0], in[1], channels, win, out[0], out[1]);
}

static slot_case case_of(lki_slot slot, lk_dtype t, const pooling *p)
{
    slot_case c = {.slot = slot, .dtype = t};
    c.attr.window = p->win;
    return c;
}

/* Numbers of which many are equal. */
static void *few_numbers(lk_dtype t, const lk_shape *s)
{
    void *x = slot_room(t, s);
    for (int64_t i = 0; i < lki_shape_size(s); i++)
        lki_element_set(t, x, i,
                        slot_below(20)  ? (double)(slot_below(4) - 2) / 2
                        : slot_below(3) ? -0.0
                        : slot_below(2) ? (double)NAN
                                        : -(double)INFINITY);
    return x;
}

/* Cells as max_pool names them: it is asked. */
static void *cells_for(const pooling *p, lk_dtype t)
{
    slot_case c = case_of(LKI_K_max_pool, t, p);
    void     *out[2] = {slot_room(t, &p->y), slot_room(p->cell, &p->y)};
    slot_source(&c, t, p->x, few_numbers(t, &p->x));
    slot_result(&c, t, p->y, NULL);
    slot_result(&c, p->cell, p->y, NULL);
    slot_on_cpu(&c, out);
    free(c.src_data[0]);
    free(out[0]);
    return out[1];
}

static void check_pooling(const pooling *p, lk_dtype t)
{
    for (int results = 1; results <= 2; results++) {
        slot_case c = case_of(LKI_K_max_pool, t, p);
        slot_source(&c, t, p->x, results == 1 ? slot_numbers(t, &p->x, true) : few_numbers(t, &p->x));
        slot_result(&c, t, p->y, NULL);
        if (results == 2) slot_result(&c, p->cell, p->y, NULL);
        slot_check(&c);
    }
    slot_case pick = case_of(LKI_K_max_pool_pick, t, p);
    slot_source(&pick, t, p->x, slot_numbers(t, &p->x, true));
    slot_source(&pick, p->cell, p->y, cells_for(p, t));
    slot_result(&pick, t, p->y, NULL);
    slot_check(&pick);

    slot_case max_grad = case_of(LKI_K_max_pool_grad, t, p);
    slot_source(&max_grad, t, p->y, slot_numbers(t, &p->y, slot_below(2)));
    slot_source(&max_grad, p->cell, p->y, cells_for(p, t));
    slot_result(&max_grad, t, p->x, NULL);
    slot_check(&max_grad);

    slot_case average = case_of(LKI_K_avg_pool, t, p);
    slot_source(&average, t, p->x, slot_numbers(t, &p->x, slot_below(2)));
    slot_result(&average, t, p->y, NULL);
    slot_check(&average);

    slot_case average_grad = case_of(LKI_K_avg_pool_grad, t, p);
    slot_source(&average_grad, t, p->y, slot_numbers(t, &p->y, slot_below(2)));
    slot_result(&average_grad, t, p->x, NULL);
    slot_check(&average_grad);
}

TEST(test_usual_windows)
{
    static const lki_window halves = {{2, 2}, {2, 2}, {1, 1}, {0, 0}}, three = {{3, 3}, {2, 2}, {1, 1}, {1, 1}},
                            one = {{1, 1}, {1, 1}, {1, 1}, {0, 0}};
    for (int t = 0; t < LKI_COUNT(floats); t++) {
        const pooling cases[] = {pooling_of(3, 8, 10, 6, halves, 4, 5),  pooling_of(2, 9, 7, 3, halves, 4, 3),
                                 pooling_of(2, 9, 7, 4, halves, 5, 4),   pooling_of(2, 12, 9, 8, three, 6, 5),
                                 pooling_of(2, 13, 13, 8, halves, 6, 6), pooling_of(2, 6, 6, 4, halves, 3, 3),
                                 pooling_of(1, 5, 5, 2, one, 5, 5),      pooling_of(0, 8, 10, 6, halves, 4, 5),
                                 pooling_of(2, 8, 10, 0, halves, 4, 5),  pooling_of(2, 8, 10, 3, halves, 0, 5)};
        for (int i = 0; i < LKI_COUNT(cases); i++)
            check_pooling(&cases[i], floats[t]);
    }
}

TEST(test_any_windows)
{
    for (int t = 0; t < LKI_COUNT(floats); t++)
        for (int i = 0; i < 150; i++) {
            const pooling p = random_pooling();
            check_pooling(&p, floats[t]);
        }
}

TESTS(cmocka_unit_test(test_usual_windows), cmocka_unit_test(test_any_windows))
