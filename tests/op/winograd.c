/* Convolutions that are WINOGRAD (kernel.h):
 *
 *  1. The rule is the documented one, at its limits, and depends neither on the number of images nor on the size of the result.
 *  2. Every vectorised kernel gives the bits of the reference, on odd sizes, paddings, channels, lanes and epilogues, plain and
 *     wild.
 *  3. If all sums are exact the results are those of the direct definition, in all three directions; else they are close to it.
 *  4. A fused pool gives the bits of the convolution, then the pool; one call with lanes those of calls per lane, added up the
 *     tree. */
#include "kernel/winograd.h"
#include "cases.h"

static cas conv_case(layer l, lki_slot slot)
{
    const lk_shape x = {4, {l.batch, l.H, l.W, l.C}}, w = {4, {l.win.size[0], l.win.size[1], l.C, l.O}},
                   y = {4, {l.batch, l.OH, l.OW, l.O}};
    cas c = {.slot = slot, .dtype = LK_F32, .nsrc = 2, .ndst = 1};
    c.attr.window = l.win;
    c.src[0] = slot == LKI_K_conv2d_grad_x ? y : x;
    c.src[1] = slot == LKI_K_conv2d_grad_w ? y : w;
    c.dst[0] = slot == LKI_K_conv2d ? y : slot == LKI_K_conv2d_grad_x ? x : w;
    c.unit = slot == LKI_K_conv2d_grad_w ? l.O : c.dst[0].dim[1] * c.dst[0].dim[2] * c.dst[0].dim[3];
    return c;
}

static void with_epilogue(cas *c, lki_epilogue e)
{
    c->attr.epilogue = e;
    c->nsrc = e.bias ? 3 : 2;
    c->src[2] = (lk_shape){1, {c->dst[0].dim[3]}};
    if (!e.pool) return;
    c->ndst = 2;
    c->second = LK_U8;
    c->dst[0].dim[1] /= 2;
    c->dst[0].dim[2] /= 2;
    c->dst[1] = c->dst[0];
    c->unit = c->dst[0].dim[1] * c->dst[0].dim[2] * c->dst[0].dim[3];
}

/* 3x3 windows; `after`: cells after the image, as `pad` are before it. */
static layer layer_3x3(int64_t batch, int64_t H, int64_t W, int64_t C, int64_t O, int64_t pad_h, int64_t pad_w, int64_t after)
{
    return layer_of(batch, H, W, C, O, (lki_window){{3, 3}, {1, 1}, {1, 1}, {pad_h, pad_w}}, after);
}

/* ---- the rule ---------------------------------------------------------------------------------------------------------------- */

static bool rule(const layer *l)
{
    const lk_shape x = {4, {l->batch, l->H, l->W, l->C}}, w = {4, {l->win.size[0], l->win.size[1], l->C, l->O}};
    return lki_is_winograd(&l->win, &x, &w);
}

TEST(test_rule)
{
    const int64_t least = LKI_WINOGRAD_CHANNELS, cells = LKI_WINOGRAD_CELLS;
    const layer   yes = layer_3x3(2, cells, cells, least, least, 1, 1, 1);
    assert_true(rule(&yes));
    for (int axis = 0; axis < 2; axis++) {
        layer no[6] = {yes, yes, yes, yes, yes, yes};
        no[0].win.size[axis] = 5;
        no[1].win.size[axis] = 1;
        no[2].win.stride[axis] = 2;
        no[3].win.dilation[axis] = 2;
        *(axis ? &no[4].H : &no[4].W) = cells - 1;
        *(axis ? &no[5].C : &no[5].O) = least - 1;
        for (int i = 0; i < 6; i++)
            assert_false(rule(&no[i]));
    }
    const lk_shape x = {3, {cells, cells, least}}, w = {4, {3, 3, least, least}}, many = {5, {7, 9, cells, cells, least}};
    assert_true(lki_is_winograd(&yes.win, &x, &w) && lki_is_winograd(&yes.win, &many, &w));
}

/* ---- bits -------------------------------------------------------------------------------------------------------------------- */

static void check_slot(layer l, lki_slot slot, lki_epilogue e, int lanes, int wild)
{
    cas c = conv_case(l, slot);
    if (lanes) random_lanes(&c, lanes, l.batch);
    if (e.bias || e.relu || e.pool) with_epilogue(&c, e);
    fill_sources(&c, wild);
    check(&c);
    free_sources(&c);
}

static void check_layer(layer l, int wild)
{
    const lki_epilogue none = {0};
    check_slot(l, LKI_K_conv2d, none, 0, wild);
    check_slot(l, LKI_K_conv2d, (lki_epilogue){1, 1, 0, 0}, 0, wild);
    check_slot(l, LKI_K_conv2d, (lki_epilogue){random_below(2) > 0, random_below(2) > 0, 1, 0}, 0, wild);
    check_slot(l, LKI_K_conv2d_grad_x, none, 0, wild);
    check_slot(l, LKI_K_conv2d_grad_w, none, 0, wild);
    check_slot(l, LKI_K_conv2d_grad_w, none, 1 << random_below(5), wild);
}

TEST(test_channels)
{
    static const int64_t channels[] = {15, 16, 17, 24, 31, 32, 33, 47, 48, 64, 65, 100};
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 12; j += 2 + i % 2)
            check_layer(layer_3x3(1 + (i + j) % 2, 6, 7, channels[i], channels[j], j % 2, i % 2, 1), (i + j) % 4 == 1);
    check_layer(layer_3x3(2, 6, 6, 130, 40, 1, 1, 1), 0); /* rows with gaps, groups of channels */
    check_layer(layer_3x3(1, 6, 6, 40, 260, 1, 1, 1), 0);
    check_layer(layer_3x3(1, 6, 6, 100, 200, 1, 1, 1), 0);
    check_slot(layer_3x3(1, 6, 6, 300, 260, 1, 1, 1), LKI_K_conv2d, (lki_epilogue){1, 1, 1, 0}, 0, 0); /* groups of columns */
    check_slot(layer_3x3(1, 6, 6, 260, 300, 1, 1, 1), LKI_K_conv2d_grad_x, (lki_epilogue){0}, 0, 0);
}

TEST(test_images)
{
    check_layer(layer_3x3(2, 13, 13, 32, 64, 0, 0, 0), 0); /* the second convolution of the custom training model */
    check_layer(layer_3x3(0, 8, 8, 16, 16, 1, 1, 1), 0);
    check_layer(layer_3x3(11, 6, 6, 16, 16, 1, 1, 1), 0); /* blocks that begin inside an image */
    for (int64_t size = 5; size <= 14; size++)
        for (int64_t pad = 0; pad <= 2; pad++)
            check_layer(layer_3x3(2, size, 19 - size, 16, 20, pad, 2 - pad, size % 3), size % 3 == 0);
    for (int i = 0; i < 40; i++)
        check_layer(layer_3x3(random_below(7), 6 + random_below(9), 6 + random_below(9), 16 + random_below(20),
                              16 + random_below(40), random_below(4), random_below(4), random_below(3)),
                    i % 3 == 0);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------------- */

/* As the case asks, in f32 by Winograd, and in f64 by the direct definition. */
static void compare(cas c, double rounding)
{
    cas twin = c;
    twin.dtype = LK_F64;
    for (int i = 0; i < 2; i++) {
        const int64_t n = size_of(&c.src[i]);
        double       *d = malloc((size_t)n * sizeof *d);
        for (int64_t k = 0; k < n; k++)
            d[k] = (double)((float *)c.data[i])[k];
        twin.data[i] = d;
    }
    const result got = run_all(&table[0], &c), want = run_all(&table[0], &twin);
    for (int64_t k = 0; k < size_of(&c.dst[0]); k++)
        assert_true(fabs((double)((float *)got.dst[0])[k] - ((double *)want.dst[0])[k]) <= rounding);
    free_result(got);
    free_result(want);
    free_sources(&twin);
}

static const lki_slot directions[] = {LKI_K_conv2d, LKI_K_conv2d_grad_x, LKI_K_conv2d_grad_w};

TEST(test_exact)
{
    for (int i = 0; i < 30; i++) {
        const layer l = layer_3x3(1 + random_below(3), 6 + random_below(8), 6 + random_below(8), 16 + random_below(5),
                                  16 + random_below(5), random_below(3), random_below(3), random_below(3));
        cas         c = conv_case(l, directions[i % 3]);
        if (i % 3 == 2 && i % 2) random_lanes(&c, 4, l.batch);
        fill_sources(&c, 0);
        for (int s = 0; s < 2;
             s++) /* small integers; the second are multiples of 4, which the transform of weights may halve twice */
            for (int64_t k = 0; k < size_of(&c.src[s]); k++)
                ((float *)c.data[s])[k] = (float)((random_below(9) - 4) * (s ? 4 : 1));
        compare(c, 0);
        free_sources(&c);
    }
}

TEST(test_close)
{
    for (int i = 0; i < 9; i++) {
        const layer l = layer_3x3(2, 13, 13, 32, 32, i % 2, i % 2, 0);
        cas         c = conv_case(l, directions[i % 3]);
        fill_sources(&c, 0);
        compare(c, 5e-5); /* sums of 288 or so products below 1 */
        free_sources(&c);
    }
}

/* ---- pools and lanes --------------------------------------------------------------------------------------------------------- */

TEST(test_fused_pool)
{
    for (int i = 0; i < 20; i++) {
        const layer l = layer_3x3(2, 6 + random_below(8), 6 + random_below(8), 16, 16 + random_below(20), i % 3, 1, i % 2);
        const layer windows = layer_of(l.batch, l.OH, l.OW, l.O, 1, (lki_window){{2, 2}, {2, 2}, {1, 1}, {0, 0}}, 0);
        cas         plain = conv_case(l, LKI_K_conv2d), fused = plain, pool = pool_case(windows, LKI_K_max_pool);
        with_epilogue(&plain, (lki_epilogue){1, i % 2, 0, 0});
        with_epilogue(&fused, (lki_epilogue){1, i % 2, 1, 0});
        fill_sources(&plain, i % 3 == 0);
        memcpy(fused.data, plain.data, sizeof fused.data);
        const result y = run_all(&table[0], &plain);
        pool.data[0] = y.dst[0];
        const result then = run_all(&table[0], &pool), at_once = run_all(&table[0], &fused);
        same_bits(&fused, "fused pool", then, at_once);
        free_result(y);
        free_result(then);
        free_result(at_once);
        free_sources(&plain);
    }
}

TEST(test_lanes)
{
    const layer l = layer_3x3(11, 6, 7, 16, 18, 1, 1, 1);
    check_lane_tree(conv_case(l, LKI_K_conv2d_grad_w), l);
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),  cmocka_unit_test(test_channels), cmocka_unit_test(test_images),
        cmocka_unit_test(test_exact), cmocka_unit_test(test_close),    cmocka_unit_test(test_fused_pool),
        cmocka_unit_test(test_lanes),
    };
    return cmocka_run_group_tests(tests, fill_tables, NULL);
}
