/* Gradients of a convolution through a 2x2 max pool: every vectorised kernel gives the bits of the reference, on odd shapes, with
 * taps outside the image, strides, dilation, lanes, dead and NaN entries; the reference agrees with unpooling and the dense
 * gradients. A bias's gradient computed together with that of the weights equals reduce_sum's. */
#include "cases.h"

typedef struct entries {
    int wild; /* infinite, NaN, tiny and zero values of both signs among all operands */
    int live; /* how many of 100 entries of d are not zero */
} entries;

/* PH, PW: as many windows as fit. */
static cas live_case(layer l, lki_slot slot)
{
    const lk_shape x = {4, {l.batch, l.H, l.W, l.C}}, w = {4, {l.win.size[0], l.win.size[1], l.C, l.O}},
                   d = {4, {l.batch, l.OH / 2, l.OW / 2, l.O}};
    const int to_x = slot == LKI_K_conv2d_pool_grad_x;
    cas       c = {.slot = slot, .dtype = LK_F32, .nsrc = 3, .ndst = 1, .second = LK_U8};
    c.attr.window = l.win;
    c.src[0] = to_x ? d : x;
    c.src[1] = d;
    c.src[2] = to_x ? w : d;
    c.dst[0] = to_x ? x : w;
    c.unit = to_x ? l.H * l.W * l.C : size_of(&w);
    return c;
}

/* And d summed over all but its channels. */
static void add_bias(cas *c)
{
    c->attr.epilogue.bias = 1;
    c->ndst = 2;
    c->dst[1] = (lk_shape){1, {c->src[1].dim[3]}};
}

static uint8_t *random_cells(const lk_shape *s)
{
    uint8_t *p = malloc((size_t)size_of(s) + 1);
    for (int64_t i = 0; i < size_of(s); i++)
        p[i] = (uint8_t)random_below(4);
    return p;
}

static void kill_some(float *d, int64_t n, int live)
{
    for (int64_t i = 0; i < n; i++)
        if (random_below(100) >= live) d[i] = i % 3 ? 0.0f : -0.0f;
}

/* With `relu` the operand y is there too; its numbers are of both signs, so half of the entries go. */
static void check_direction(layer l, lki_slot slot, entries e, int lanes, int relu)
{
    const int to_x = slot == LKI_K_conv2d_pool_grad_x;
    cas       c = live_case(l, slot);
    if (lanes) random_lanes(&c, lanes, l.batch);
    if (!to_x && random_below(2)) add_bias(&c);
    if (relu) {
        c.attr.epilogue.relu = 1;
        c.src[c.nsrc++] = c.src[1];
    }
    fill_sources(&c, e.wild);
    free(c.data[cells_at(slot)]);
    c.data[cells_at(slot)] = random_cells(&c.src[1]);
    kill_some(c.data[!to_x], size_of(&c.src[1]), e.live);
    check(&c);
    free_sources(&c);
}

static void check_live(layer l, entries e)
{
    if (l.OH < 2 || l.OW < 2) return;
    for (int relu = 0; relu < 2; relu++) {
        check_direction(l, LKI_K_conv2d_pool_grad_x, e, 0, relu);
        check_direction(l, LKI_K_conv2d_pool_grad_w, e, 0, relu);
        check_direction(l, LKI_K_conv2d_pool_grad_w, e, 1 << random_below(5), relu);
    }
}

TEST(test_models)
{
    for (int live = 0; live <= 100; live += 25) { /* the convolutions of the two models */
        check_live(square(3, 13, 32, 64, 3, 1, 1, 0), (entries){0, live});
        check_live(square(3, 28, 1, 32, 3, 1, 1, 0), (entries){0, live});
        check_live(square(2, 10, 3, 16, 3, 1, 1, 0), (entries){live == 50, live});
    }
}

/* Windows under which nothing is are left out; tiny products underflow to -0, which must not show. */
TEST(test_blank)
{
    for (int i = 0; i < 60; i++) {
        cas c = live_case(square(1 + i % 4, PICK(6, 9, 28, 63, 66), PICK(1, 1, 2, 3), PICK(8, 20, 32, 40), 3, 1, 1, i % 5 == 0),
                          LKI_K_conv2d_pool_grad_w);
        if (i % 2) random_lanes(&c, 2, c.src[0].dim[0]);
        if (i % 4 > 1) add_bias(&c);
        fill_sources(&c, i % 6 == 5);
        free(c.data[2]);
        c.data[2] = random_cells(&c.src[1]);
        blank_ground(&c.src[0], c.data[0]);
        kill_some(c.data[1], size_of(&c.src[1]), 60);
        float *x = c.data[0], *d = c.data[1];
        for (int64_t j = 0; i % 3 == 0 && j < size_of(&c.src[0]); j++)
            x[j] *= 1e-25f;
        for (int64_t j = 0; i % 3 == 0 && j < size_of(&c.src[1]); j++)
            d[j] *= 1e-20f;
        if (i % 7 == 6) d[random_below(size_of(&c.src[1]))] = i % 2 ? INFINITY : NAN;
        check(&c);
        free_sources(&c);
    }
}

TEST(test_channels)
{
    static const int64_t channels[] = {1, 2, 3, 5, 8, 16, 32, 33, 64, 70};
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++)
            for (int pad = 0; pad < 2; pad++)
                check_live(square(2, 5 + (i + j) % 3, channels[i], channels[j], 3, 1, 1, pad),
                           (entries){(i + j) % 4 == 1, 20 + 10 * (int)random_below(9)});
    check_live(square(1, 6, 130, 140, 3, 1, 1, 1), (entries){0, 50});
    check_live(square(1, 70, 2, 5, 3, 1, 1, 1), (entries){0, 50}); /* more than 1024 windows */
    check_live(square(1, 70, 9, 5, 3, 1, 1, 0), (entries){0, 50});
}

TEST(test_windows)
{
    static const int64_t sizes[][2] = {{1, 1}, {2, 3}, {3, 3}, {5, 5}, {3, 1}, {1, 7}};
    for (int i = 0; i < 400; i++) {
        const int64_t *k = sizes[i % 6];
        lki_window     win = {{k[0], k[1]}, {PICK(1, 1, 2, 3), PICK(1, 1, 2, 3)}, {PICK(1, 1, 2, 3), PICK(1, 1, 2, 3)}, {0, 0}};
        for (int a = 0; a < 2; a++)
            win.pad[a] = random_below(2) ? random_below(win.size[a] * win.dilation[a]) : (win.size[a] - 1) * win.dilation[a] / 2;
        check_live(layer_of(random_below(5), 2 + random_below(14), 2 + random_below(14), PICK(1, 2, 3, 5, 8, 16, 20, 32, 33),
                            PICK(1, 3, 5, 8, 16, 32, 33, 64, 70), win, random_below(3)),
                   (entries){i % 3 == 0, 10 * (int)random_below(11)});
    }
}

/* Unpooled, then the dense gradients; in f64, where the order shows in the last digits only. */
TEST(test_dense)
{
    for (int i = 0; i < 60; i++) {
        const lki_window two = {{2, 2}, {2, 2}, {1, 1}, {0, 0}};
        layer            l = square(1 + random_below(3), 5 + random_below(6), 1 + random_below(4), 1 + random_below(5), 1 + i % 3,
                                    1 + random_below(2), 1 + random_below(2), random_below(2));
        if (l.OH < 2 || l.OW < 2) continue;
        cas           gx = live_case(l, LKI_K_conv2d_pool_grad_x), gw = live_case(l, LKI_K_conv2d_pool_grad_w);
        cas           unpool = pool_case(layer_of(l.batch, l.OH, l.OW, l.O, 1, two, 0), LKI_K_max_pool_grad);
        const int64_t nx = size_of(&gx.dst[0]), nw = size_of(&gw.dst[0]);
        double       *x = numbers(LK_F64, &gx.dst[0], 0), *w = numbers(LK_F64, &gw.dst[0], 0), *d = numbers(LK_F64, &gx.src[0], 0);
        uint8_t      *cell = random_cells(&gx.src[1]);
        gx.data[2] = w;
        gw.data[2] = cell;
        unpool.nsrc = 2;
        if (i % 2) random_lanes(&gw, 4, l.batch);
        const result dx = run_f64(gx, d, cell), dw = run_f64(gw, x, d), dy = run_f64(unpool, d, cell);
        cas          dense = {.dtype = LK_F64, .nsrc = 2, .ndst = 1};
        dense.attr.window = l.win;
        dense.src[0] = unpool.dst[0], dense.src[1] = gw.dst[0], dense.dst[0] = gx.dst[0], dense.slot = LKI_K_conv2d_grad_x;
        const result all_x = run_f64(dense, dy.dst[0], w);
        dense.src[0] = gx.dst[0], dense.src[1] = unpool.dst[0], dense.dst[0] = gw.dst[0], dense.slot = LKI_K_conv2d_grad_w;
        const result all_w = run_f64(dense, x, dy.dst[0]);
        for (int64_t k = 0; k < nx; k++)
            assert_true(fabs(((double *)dx.dst[0])[k] - ((double *)all_x.dst[0])[k]) < 1e-12);
        for (int64_t k = 0; k < nw; k++)
            assert_true(fabs(((double *)dw.dst[0])[k] - ((double *)all_w.dst[0])[k]) < 1e-12);
        free_result(dx), free_result(dw), free_result(dy), free_result(all_x), free_result(all_w);
        free(x), free(w), free(d), free(cell);
    }
}

/* The kernel with relu against relu_grad and the kernel without it: d is operand `at`, y the last one. */
static void check_relu(cas c, int at)
{
    cas           plain = c;
    const int64_t n = size_of(&c.src[at]);
    float        *d = malloc((size_t)n * sizeof *d + 1);
    for (int64_t i = 0; i < n; i++)
        d[i] = ((float *)c.data[c.nsrc - 1])[i] > 0 ? ((float *)c.data[at])[i] : 0;
    plain.attr.epilogue.relu = 0;
    plain.data[at] = d;
    plain.nsrc--;
    const result fused = run_all(&table[0], &c), apart = run_all(&table[0], &plain);
    same_bits(&c, "relu", apart, fused);
    free_result(fused), free_result(apart);
    free(d);
    check(&c);
    free_sources(&c);
}

TEST(test_relu)
{
    for (int i = 0; i < LKI_ISA_COUNT; i++) /* sums are not among the products */
        lki_cpu_kernels(&table[i], (lki_isa)i);
    for (int i = 0; i < 60; i++) {
        const layer l =
            square(1 + random_below(4), 5 + random_below(8), PICK(1, 3, 16, 20), PICK(2, 8, 17, 32, 64, 70), 3, 1, 1, i % 2);
        for (int to_x = 0; to_x < 2; to_x++) {
            cas c = live_case(l, to_x ? LKI_K_conv2d_pool_grad_x : LKI_K_conv2d_pool_grad_w);
            c.attr.epilogue.relu = 1;
            c.src[c.nsrc++] = c.src[1];
            if (!to_x && i % 3) random_lanes(&c, 4, l.batch);
            fill_sources(&c, i % 4 == 0);
            free(c.data[2 - to_x]);
            c.data[2 - to_x] = random_cells(&c.src[1]);
            check_relu(c, !to_x);
        }
        const lk_shape d = {4, {l.batch, l.OH / 2, l.OW / 2, l.O}};
        cas            sum = {.slot = LKI_K_reduce_sum, .dtype = LK_F32, .nsrc = 2, .ndst = 1, .unit = 1, .src = {d, d}};
        sum.dst[0] = (lk_shape){1, {l.O}};
        sum.attr.epilogue.relu = 1;
        sum.attr.reduce.first = 0;
        sum.attr.reduce.last = 2;
        if (i % 3) random_lanes(&sum, 4, l.batch);
        fill_sources(&sum, i % 4 == 0);
        check_relu(sum, 0);
    }
}

/* Beside the weights' gradient, which stays as it is, or by reduce_sum. */
static void check_bias(cas c)
{
    cas sum = {
        .slot = LKI_K_reduce_sum, .dtype = LK_F32, .nsrc = c.nsrc - 2, .ndst = 1, .src = {c.src[1], c.src[1]}, .lanes = c.lanes};
    cas plain = c;
    memcpy(sum.bound, c.bound, sizeof sum.bound);
    add_bias(&c);
    sum.dst[0] = c.dst[1];
    sum.attr.reduce.last = 2;
    sum.attr.epilogue.relu = c.attr.epilogue.relu;
    sum.data[0] = c.data[1];
    sum.data[1] = c.data[3];
    const result both = run_all(&table[0], &c), weights = run_all(&table[0], &plain), bias = run_all(&table[0], &sum);
    same_bits(&plain, "weights", weights, both);
    same_bits(&sum, "bias", bias, (result){{both.dst[1]}});
    free_result(both), free_result(weights), free_result(bias);
    check(&c);
}

TEST(test_bias)
{
    for (int i = 0; i < LKI_ISA_COUNT; i++)
        lki_cpu_kernels(&table[i], (lki_isa)i);
    for (int i = 0; i < 200; i++) {
        const layer l = square(random_below(6), 5 + random_below(24), PICK(1, 1, 3, 4, 16, 20),
                               PICK(2, 7, 8, 9, 16, 17, 32, 33, 50, 64), 3, 1 + (i % 9 == 8), 1 + (i % 7 == 6), i % 4 == 3);
        cas         c = live_case(l, LKI_K_conv2d_pool_grad_w);
        if (l.OH < 2 || l.OW < 2) continue;
        if (i % 2) {
            c.attr.epilogue.relu = 1;
            c.src[c.nsrc++] = c.src[1];
        }
        if (i % 3) random_lanes(&c, 1 << random_below(5), l.batch);
        fill_sources(&c, i % 5 == 4);
        free(c.data[2]);
        c.data[2] = random_cells(&c.src[1]);
        if (i % 3 != 2) blank_ground(&c.src[0], c.data[0]);
        kill_some(c.data[1], size_of(&c.src[1]), i % 100);
        if (i % 8 == 7 && l.batch) ((float *)c.data[1])[random_below(size_of(&c.src[1]))] = i % 16 == 15 ? INFINITY : NAN;
        check_bias(c);
        free_sources(&c);
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models),   cmocka_unit_test(test_blank),
                                       cmocka_unit_test(test_channels), cmocka_unit_test(test_windows),
                                       cmocka_unit_test(test_dense),    cmocka_unit_test(test_relu),
                                       cmocka_unit_test(test_bias)};
    return cmocka_run_group_tests(tests, fill_tables, NULL);
}
