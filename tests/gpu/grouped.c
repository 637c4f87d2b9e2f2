/* Grouped convolutions on a GPU against the reference. The weight gradient has another order on GPUs: it is computed here again,
 * bit by bit, and compared with the reference within rounding. */
#include "slots.h"

static const lk_dtype floats[] = {LK_F32, LK_F64};

typedef struct grouped {
    lki_window win;
    lk_shape   x, w, y;
} grouped;

static grouped grouped_of(int64_t images, const int64_t *in, const int64_t *out, int64_t groups, int64_t channels, int64_t results,
                          lki_window win)
{
    const grouped d = {win,
                       {4, {images, in[0], in[1], groups * channels}},
                       {4, {win.size[0], win.size[1], channels, groups * results}},
                       {4, {images, out[0], out[1], groups * results}}};
    return d;
}

static grouped random_grouped(void)
{
    lki_window win;
    int64_t    in[2], out[2];
    for (int d = 0; d < 2; d++) {
        in[d] = 1 + slot_below(9);
        win.size[d] = 1 + slot_below(4);
        win.stride[d] = 1 + slot_below(3);
        win.dilation[d] = 1 + slot_below(3);
        win.pad[d] = slot_below(win.size[d] * win.dilation[d]);
        out[d] = (in[d] + win.pad[d] - 1) / win.stride[d] + slot_below(3);
    }
    return grouped_of(slot_below(5), in, out, 1 + slot_below(4), 1 + slot_below(3), 1 + slot_below(3), win);
}

static slot_case case_of(lki_slot slot, lk_dtype t, const grouped *d)
{
    slot_case c = {.slot = slot, .dtype = t};
    c.attr.window = d->win;
    return c;
}

/* ---- the weight gradient's own order ---- */

static double fused(lk_dtype t, double a, double b, double c)
{
    return t == LK_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
}
static double added(lk_dtype t, double a, double b) { return t == LK_F32 ? (double)((float)a + (float)b) : a + b; }

static double image_chain(const slot_case *c, const grouped *d, int64_t n, const int64_t *at)
{
    const int64_t *x = d->x.dim, *y = d->y.dim, *w = d->w.dim, q = at[3], channel = q / (y[3] / (x[3] / w[2])) * w[2] + at[2];
    double         sum = 0;
    for (int64_t oh = 0; oh < y[1]; oh++)
        for (int64_t ow = 0; ow < y[2]; ow++) {
            const int64_t ih = oh * d->win.stride[0] - d->win.pad[0] + at[0] * d->win.dilation[0],
                          iw = ow * d->win.stride[1] - d->win.pad[1] + at[1] * d->win.dilation[1];
            if (ih < 0 || ih >= x[1] || iw < 0 || iw >= x[2]) continue;
            sum = fused(c->dtype, lki_element_get(c->dtype, c->src_data[0], ((n * x[1] + ih) * x[2] + iw) * x[3] + channel),
                        lki_element_get(c->dtype, c->src_data[1], ((n * y[1] + oh) * y[2] + ow) * y[3] + q), sum);
        }
    return sum;
}

/* at: tap, channel of the group, result channel. */
static double weight(const slot_case *c, const grouped *d, const int64_t *at)
{
    double    sum[SLOT_LANES];
    const int lanes = c->lanes ? c->lanes : 1;
    for (int s = 0; s < lanes; s++) {
        sum[s] = 0;
        for (int64_t n = c->lanes ? c->bound[s] : 0; n < (c->lanes ? c->bound[s + 1] : d->x.dim[0]); n++)
            sum[s] = added(c->dtype, sum[s], image_chain(c, d, n, at));
    }
    for (int count = lanes; count > 1; count /= 2)
        for (int s = 0; s < count / 2; s++)
            sum[s] = added(c->dtype, sum[2 * s], sum[2 * s + 1]);
    return sum[0];
}

static void check_weights(const slot_case *c, const grouped *d)
{
    void          *want = slot_start(c, 0), *found = slot_start(c, 0);
    const int64_t *w = d->w.dim;
    const unsigned before = lki_fp_enter();
    for (int64_t i = 0; i < lki_shape_size(&d->w); i++)
        lki_element_set(c->dtype, want, i,
                        weight(c, d, (int64_t[]){i / (w[1] * w[2] * w[3]), i / (w[2] * w[3]) % w[1], i / w[3] % w[2], i % w[3]}));
    lki_fp_leave(before);
    slot_on_gpu(c, &found);
    slot_compare(c, 0, want, found);
    free(want);
    free(found);
}

static void check_grad_w(const grouped *d, lk_dtype t, int lanes, bool wild)
{
    slot_case c = case_of(LKI_K_grouped_grad_w, t, d);
    slot_source(&c, t, d->x, slot_numbers(t, &d->x, wild));
    slot_source(&c, t, d->y, slot_numbers(t, &d->y, false));
    slot_result(&c, t, d->w, NULL);
    if (lanes) slot_lanes(&c, lanes, d->x.dim[0]);
    check_weights(&c, d);
    c.tolerance = t == LK_F32 ? 1e-5 : 1e-13;
    slot_check(&c);
}

static void check_grouped(const grouped *d, lk_dtype t)
{
    slot_case y = case_of(LKI_K_grouped, t, d);
    slot_source(&y, t, d->x, slot_numbers(t, &d->x, slot_below(2)));
    slot_source(&y, t, d->w, slot_numbers(t, &d->w, slot_below(2)));
    slot_result(&y, t, d->y, NULL);
    slot_check(&y);

    slot_case dx = case_of(LKI_K_grouped_grad_x, t, d);
    slot_source(&dx, t, d->y, slot_numbers(t, &d->y, slot_below(2)));
    slot_source(&dx, t, d->w, slot_numbers(t, &d->w, slot_below(2)));
    slot_result(&dx, t, d->x, NULL);
    slot_check(&dx);

    check_grad_w(d, t, 0, slot_below(2));
    check_grad_w(d, t, 1 << slot_below(7), slot_below(2));
}

TEST(test_usual_windows)
{
    static const lki_window same = {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, halves = {{3, 3}, {2, 2}, {1, 1}, {0, 0}},
                            wide = {{3, 3}, {1, 1}, {2, 2}, {2, 2}}, five = {{5, 5}, {1, 1}, {1, 1}, {2, 2}};
    for (int t = 0; t < LKI_COUNT(floats); t++) {
        const grouped cases[] = {grouped_of(4, (int64_t[]){8, 7}, (int64_t[]){8, 7}, 8, 4, 4, same),
                                 grouped_of(3, (int64_t[]){9, 8}, (int64_t[]){5, 4}, 5, 1, 2, halves),
                                 grouped_of(2, (int64_t[]){9, 8}, (int64_t[]){9, 8}, 2, 3, 1, wide),
                                 grouped_of(2, (int64_t[]){9, 8}, (int64_t[]){9, 8}, 3, 2, 3, five),
                                 grouped_of(0, (int64_t[]){9, 8}, (int64_t[]){9, 8}, 4, 2, 1, same),
                                 grouped_of(2, (int64_t[]){9, 8}, (int64_t[]){0, 8}, 4, 2, 1, same),
                                 grouped_of(70, (int64_t[]){3, 3}, (int64_t[]){3, 3}, 2, 2, 2, same)};
        for (int i = 0; i < LKI_COUNT(cases); i++)
            check_grouped(&cases[i], floats[t]);
    }
}

TEST(test_any_windows)
{
    for (int t = 0; t < LKI_COUNT(floats); t++)
        for (int i = 0; i < 150; i++) {
            const grouped d = random_grouped();
            check_grouped(&d, floats[t]);
        }
}

TEST(test_lanes)
{
    static const lki_window same = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
    for (int t = 0; t < LKI_COUNT(floats); t++)
        for (int lanes = 1; lanes <= 64; lanes *= 2)
            for (int64_t images = 0; images < 100; images += 1 + images * 2) {
                const grouped d = grouped_of(images, (int64_t[]){4, 3}, (int64_t[]){4, 3}, 2, 2, 1, same);
                check_grad_w(&d, floats[t], lanes, false);
            }
}

TESTS(cmocka_unit_test(test_usual_windows), cmocka_unit_test(test_any_windows), cmocka_unit_test(test_lanes))
