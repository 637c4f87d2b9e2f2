/* Products: matmul and convolutions.
 *
 * 1. Every vectorised kernel gives the bits of the reference, on odd, empty and large shapes, with any lanes, epilogue and
 *    transposition, also where numbers are subnormal (flushed or not), infinite or NaN (all NaN count as equal); any split of the
 *    range gives the bits of the whole, nothing outside the range or the scratch is written.
 * 2. The reference, in f64, agrees with plain formulas written the other way round (from the source to the result).
 * 3. Gradients agree with the forward kernels: <f(x), dy> = <x, grad(dy)>, and central differences.
 * 4. LANES is what kernel.h says: one call with lanes equals calls per lane, added up the tree. */
#include "cases.h"

/* ---- matmul ------------------------------------------------------------------------------------------------------------------ */

static cas matmul_case(int64_t M, int64_t N, int64_t K, int ta, int tb)
{
    cas c = {.slot = LKI_K_matmul, .dtype = LK_F32, .nsrc = 2, .ndst = 1, .unit = N};
    c.src[0] = (lk_shape){2, {ta ? K : M, ta ? M : K}};
    c.src[1] = (lk_shape){2, {tb ? N : K, tb ? K : N}};
    c.dst[0] = (lk_shape){2, {M, N}};
    c.attr.matmul.ta = ta;
    c.attr.matmul.tb = tb;
    return c;
}

static void with_epilogue(cas *c, lki_epilogue e)
{
    c->attr.epilogue = e;
    c->nsrc = e.bias ? 3 : 2;
    c->src[2] = (lk_shape){1, {c->dst[0].dim[c->dst[0].rank - 1]}};
    if (!e.pool) return;
    c->ndst = 2;
    c->second = LK_U8;
    c->dst[0].dim[1] /= 2;
    c->dst[0].dim[2] /= 2;
    c->dst[1] = c->dst[0];
    c->unit = c->dst[0].dim[1] * c->dst[0].dim[2] * c->dst[0].dim[3];
}

static void check_matmul(cas c, int wild)
{
    fill_sources(&c, wild);
    check(&c);
    free_sources(&c);
}

TEST(test_matmul_sizes)
{
    static const int64_t sizes[][3] = {{0, 3, 2},    {3, 0, 2},      {3, 2, 0},     {1, 1, 1},       {8, 32, 5},   {9, 33, 4},
                                       {7, 31, 300}, {64, 10, 64},   {40, 200, 70}, {24, 70, 513},   {8, 100, 64}, {8, 64, 64},
                                       {5, 129, 3},  {17, 1030, 20}, {137, 40, 11}, {130, 140, 257}, {64, 96, 40}};
    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]); i++)
        for (int t = 0; t < 4; t++) {
            cas c = matmul_case(sizes[i][0], sizes[i][1], sizes[i][2], t & 1, t >> 1);
            check_matmul(c, i % 2);
            with_epilogue(&c, (lki_epilogue){1, t % 2, 0, 0});
            check_matmul(c, (i + 1) % 2);
        }
}

TEST(test_matmul_random)
{
    for (int t = 0; t < 4; t++) { /* many steps per lane */
        cas c = matmul_case(20, 40, 2100, t & 1, t >> 1);
        with_epilogue(&c, (lki_epilogue){1, 1, 0, 0});
        random_lanes(&c, 8, 2100);
        check_matmul(c, t == 2);
    }
    for (int i = 0; i < 300; i++) {
        cas c = matmul_case(random_below(70), random_below(100), random_below(90), random_below(2) > 0, random_below(2) > 0);
        if (random_below(2)) with_epilogue(&c, (lki_epilogue){random_below(2) > 0, random_below(2) > 0, 0, 0});
        if (random_below(2)) random_lanes(&c, 1 << random_below(5), c.attr.matmul.ta ? c.src[0].dim[0] : c.src[0].dim[1]);
        check_matmul(c, i % 3 == 0);
    }
    for (int lanes = 1; lanes <= 16; lanes *= 2) { /* the weight gradient of a dense layer, and a wide one */
        cas c = matmul_case(200, 64, 64, 1, 0), wide = matmul_case(20, 150, 64, 1, 0);
        random_lanes(&c, lanes, 64);
        random_lanes(&wide, lanes, 64);
        check_matmul(c, 0);
        check_matmul(wide, 0);
    }
}

/* Mostly zeros in the first factor, which kernels leave out: of both signs, beside infinities and NaN of the second, with tiny
 * numbers whose products underflow to -0, in blocks of which some are dense. */
TEST(test_matmul_zeros)
{
    static const int64_t sizes[][3] = {{32, 64, 700}, {9, 64, 64},   {33, 200, 130}, {300, 64, 70},  {8, 70, 300}, {64, 600, 65},
                                       {20, 128, 8},  {200, 64, 64}, {12, 64, 1},    {130, 200, 32}, {64, 64, 24}};
    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]); i++)
        for (int t = 0; t < 36; t++) {
            const int live = (int)PICK(0, 5, 30, 60), wild = t % 3;
            cas       c = matmul_case(sizes[i][0], sizes[i][1], sizes[i][2], t & 1, t >> 1 & 1);
            if (t % 5 > 2) with_epilogue(&c, (lki_epilogue){1, t % 2, 0, 0});
            if (t % 4 == 1 && sizes[i][2] % 8 == 0) { /* all of one length, as in a step */
                c.lanes = 8;
                for (int s = 0; s <= 8; s++)
                    c.bound[s] = s * sizes[i][2] / 8;
            } else if (t % 6 == 5) random_lanes(&c, 4, sizes[i][2]);
            fill_sources(&c, wild == 1);
            float      *a = c.data[0], *b = c.data[1];
            const float tiny = random_below(2) ? 1e-20f : 1e-25f; /* some products are subnormal, or none is anything */
            for (int64_t j = 0, n = size_of(&c.src[0]); j < n; j++)
                if (random_below(100) >= (j < n / 3 ? 100 - live : live)) a[j] = j % 3 ? 0.0f : -0.0f;
                else if (wild == 2) a[j] *= 1e-25f;
            for (int64_t j = 0, n = size_of(&c.src[1]); wild == 2 && j < n; j++)
                b[j] *= tiny;
            if (wild == 0 && t % 4 == 2) b[random_below(size_of(&c.src[1]))] = t % 8 == 2 ? INFINITY : NAN;
            check(&c);
            free_sources(&c);
        }
}

/* Columns in three parts, each row range of them on its own: the same bits as all at once, and nothing else is touched. */
TEST(test_matmul_columns)
{
    for (int i = 0; i < 120; i++) {
        const int64_t N = 1 + random_below(200), p = random_below(N + 1), q = p + random_below(N + 1 - p), from[4] = {0, p, q, N};
        cas           c = matmul_case(1 + random_below(70), N, random_below(300), i & 1, i >> 1 & 1);
        if (i % 3) with_epilogue(&c, (lki_epilogue){1, i % 2, 0, 0});
        if (i % 5 == 0) random_lanes(&c, 8, c.attr.matmul.ta ? c.src[0].dim[0] : c.src[0].dim[1]);
        fill_sources(&c, i % 4 == 0);
        for (int isa = 0; isa <= (int)lki_cpu_isa_machine(); isa++) {
            c.columns[0] = c.columns[1] = 0;
            result whole = run_all(&table[isa], &c), parts = results_for(&c);
            for (int part = 0; part < 3; part++) {
                c.columns[0] = from[part];
                c.columns[1] = from[part + 1];
                if (from[part] < from[part + 1]) run_range(&table[isa], &c, &parts, 0, size_of(&c.dst[0]));
                if (part == 0 && p < N) assert_int_equal(((uint8_t *)parts.dst[0])[(size_t)p * sizeof(float)], 0xa5);
            }
            same_bits(&c, "columns", whole, parts);
            free_result(whole);
            free_result(parts);
        }
        free_sources(&c);
    }
}

TEST(test_matmul_batches)
{
    static const int64_t batches[][6] = {
        {3, 2, 3, 2, 3, 2}, {1, 2, 3, 1, 3, 2}, {3, 1, 1, 2, 3, 2}, {0, 2, 1, 2, 0, 2}, {3, 2, 1, 1, 3, 2}};
    for (int i = 0; i < (int)(sizeof batches / sizeof batches[0]); i++)
        for (int t = 0; t < 4; t++) {
            cas            c = matmul_case(5, 9, 7, t & 1, t >> 1);
            const int64_t *b = batches[i];
            c.src[0] = (lk_shape){4, {b[0], b[1], c.src[0].dim[0], c.src[0].dim[1]}};
            c.src[1] = (lk_shape){4, {b[2], b[3], c.src[1].dim[0], c.src[1].dim[1]}};
            c.dst[0] = (lk_shape){4, {b[4], b[5], 5, 9}};
            check_matmul(c, t == 1);
            if (b[3] != b[5] || b[2] != 1) continue; /* fewer axes broadcast too */
            c.src[1] = (lk_shape){3, {b[3], c.src[1].dim[2], c.src[1].dim[3]}};
            check_matmul(c, 0);
        }
}

/* Operands and results by heads: the bits of the product of their transposes, for every choice. */
static cas by_heads(int64_t n, int64_t heads, int64_t M, int64_t N, int64_t K, int t, int bits)
{
    cas       c = matmul_case(M, N, K, t & 1, t >> 1);
    lk_shape *s[3] = {&c.src[0], &c.src[1], &c.dst[0]};
    for (int i = 0; i < 3; i++) {
        const lk_shape m = *s[i];
        *s[i] = bits >> i & 1 ? (lk_shape){4, {n, m.dim[0], heads, m.dim[1]}} : (lk_shape){4, {n, heads, m.dim[0], m.dim[1]}};
    }
    c.attr.matmul.heads = bits;
    return c;
}

static int64_t place_by_heads(const lk_shape *s, int heads, int64_t n, int64_t h, int64_t r, int64_t c)
{
    return heads ? ((n * s->dim[1] + r) * s->dim[2] + h) * s->dim[3] + c : ((n * s->dim[1] + h) * s->dim[2] + r) * s->dim[3] + c;
}

TEST(test_matmul_heads)
{
    static const int64_t sizes[][5] = {{2, 3, 5, 9, 7}, {1, 4, 16, 33, 40}, {3, 1, 64, 64, 32}, {2, 2, 70, 8, 3}, {0, 2, 3, 4, 5}};
    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]); i++)
        for (int k = 0; k < 32; k++) {
            const int64_t *z = sizes[i];
            cas            c = by_heads(z[0], z[1], z[2], z[3], z[4], k & 3, k >> 2);
            check_matmul(c, k % 3 == 0);
        }
    for (int k = 0; k < 32; k++) { /* against the formula */
        const int64_t n = 2, H = 3, M = 4, N = 5, K = 6;
        const int     ta = k & 1, tb = k >> 1 & 1, bits = k >> 2;
        cas           c = by_heads(n, H, M, N, K, k & 3, bits);
        c.dtype = LK_F64;
        fill_sources(&c, 0);
        const result  r = run_all(&table[0], &c);
        const double *a = c.data[0], *b = c.data[1], *y = (double *)r.dst[0];
        for (int64_t at = 0; at < n * H * M * N; at++) {
            const int64_t i = at / (H * M * N), h = at / (M * N) % H, m = at / N % M, j = at % N;
            double        sum = 0;
            for (int64_t s = 0; s < K; s++)
                sum += a[place_by_heads(&c.src[0], bits & 1, i, h, ta ? s : m, ta ? m : s)] *
                       b[place_by_heads(&c.src[1], bits & 2, i, h, tb ? j : s, tb ? s : j)];
            assert_true(fabs(sum - y[place_by_heads(&c.dst[0], bits & 4, i, h, m, j)]) < 1e-13);
        }
        free_result(r);
        free_sources(&c);
    }
}

TEST(test_matmul_formula)
{
    for (int t = 0; t < 4; t++) {
        const int64_t M = 5, N = 6, K = 7;
        cas           c = matmul_case(M, N, K, t & 1, t >> 1);
        c.dtype = LK_F64;
        if (t % 2) random_lanes(&c, 4, K);
        fill_sources(&c, 0);
        const result  r = run_all(&table[0], &c);
        const double *a = c.data[0], *b = c.data[1];
        double        sum[5 * 6] = {0};
        for (int64_t k = 0; k < K; k++)
            for (int64_t m = 0; m < M; m++)
                for (int64_t n = 0; n < N; n++)
                    sum[m * N + n] += (t & 1 ? a[k * M + m] : a[m * K + k]) * (t >> 1 ? b[n * K + k] : b[k * N + n]);
        for (int i = 0; i < 30; i++)
            assert_true(fabs(sum[i] - ((double *)r.dst[0])[i]) < 1e-13);
        free_result(r);
        free_sources(&c);
    }
}

/* ---- convolutions ------------------------------------------------------------------------------------------------------------ */

static cas conv_case(layer l, lki_slot slot)
{
    const int64_t  out = result_channels(&l);
    const lk_shape x = {4, {l.batch, l.H, l.W, image_channels(&l)}},
                   w = {4, {l.win.size[0], l.win.size[1], l.C, l.groups ? out : l.O}}, y = {4, {l.batch, l.OH, l.OW, out}};
    cas c = {.slot = slot, .dtype = LK_F32, .nsrc = 2, .ndst = 1};
    c.attr.window = l.win;
    switch (slot) {
    case LKI_K_conv2d:
    case LKI_K_grouped:
    case LKI_K_depthwise: c.src[0] = x, c.src[1] = w, c.dst[0] = y; break;
    case LKI_K_conv2d_grad_x:
    case LKI_K_grouped_grad_x:
    case LKI_K_depthwise_grad_x: c.src[0] = y, c.src[1] = w, c.dst[0] = x; break;
    default: c.src[0] = x, c.src[1] = y, c.dst[0] = w; break;
    }
    c.unit = c.dst[0].dim[1] * c.dst[0].dim[2] * c.dst[0].dim[3];
    if (slot == LKI_K_conv2d_grad_w) c.unit = l.O;
    if (slot == LKI_K_depthwise_grad_w || slot == LKI_K_grouped_grad_w) c.unit = size_of(&w);
    return c;
}

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
    l.deep = 0;
    check_slot(l, LKI_K_conv2d, none, 0, wild);
    check_slot(l, LKI_K_conv2d, (lki_epilogue){1, 1, 0, 0}, 0, wild);
    check_slot(l, LKI_K_conv2d, (lki_epilogue){random_below(2) > 0, random_below(2) > 0, 1, 0}, 0, wild);
    check_slot(l, LKI_K_conv2d_grad_x, none, 0, wild);
    check_slot(l, LKI_K_conv2d_grad_w, none, 0, wild);
    check_slot(l, LKI_K_conv2d_grad_w, none, 1 << random_below(5), wild);
}

static void check_deep(layer l, int wild)
{
    const lki_epilogue none = {0};
    l.deep = 1;
    check_slot(l, LKI_K_depthwise, none, 0, wild);
    check_slot(l, LKI_K_depthwise_grad_x, none, 0, wild);
    check_slot(l, LKI_K_depthwise_grad_w, none, 0, wild);
    check_slot(l, LKI_K_depthwise_grad_w, none, 1 << random_below(5), wild);
}

static void check_groups(layer l, int64_t groups, int wild)
{
    const lki_epilogue none = {0};
    l.groups = groups;
    check_slot(l, LKI_K_grouped, none, 0, wild);
    check_slot(l, LKI_K_grouped_grad_x, none, 0, wild);
    check_slot(l, LKI_K_grouped_grad_w, none, 0, wild);
    check_slot(l, LKI_K_grouped_grad_w, none, 1 << random_below(5), wild);
}

TEST(test_conv_models)
{
    check_layer(square(2, 28, 1, 32, 3, 1, 1, 0), 0); /* the convolutions of the two models */
    check_layer(square(2, 13, 32, 64, 3, 1, 1, 0), 0);
    check_layer(square(2, 12, 1, 32, 3, 1, 1, 1), 1);
    check_layer(square(2, 9, 1, 20, 3, 2, 1, 1), 0);
    check_layer(square(0, 6, 3, 4, 3, 1, 1, 0), 0);
    check_layer(square(3, 2, 3, 4, 3, 1, 1, 0), 0); /* no output */
    check_layer(square(2, 6, 8, 100, 1, 1, 1, 0), 0);
    check_layer(square(3, 7, 130, 129, 1, 1, 1, 0), 0); /* a matrix product */
    check_layer(square(2, 20, 128, 128, 1, 1, 1, 0), 1);
    check_layer(square(2, 9, 6, 10, 5, 1, 1, 2), 1);
    check_layer(square(2, 11, 1, 6, 5, 1, 1, 0), 0);
    check_layer(square(2, 12, 16, 33, 3, 2, 1, 1), 0);
    check_layer(square(2, 11, 3, 7, 3, 3, 2, 2), 1);
    check_layer(square(1, 9, 4, 5, 3, 2, 2, 2), 0);
    check_layer(square(1, 7, 70, 9, 2, 2, 1, 0), 0);
}

TEST(test_conv_blank)
{
    for (int i = 0; i < 60; i++) {
        const layer l =
            square(1 + i % 3, PICK(6, 9, 28, 63, 64, 66, 68), PICK(1, 1, 1, 2), PICK(8, 20, 32, 40), 3, PICK(1, 1, 1, 2), 1, i % 2);
        cas c = conv_case(l, LKI_K_conv2d);
        with_epilogue(&c, (lki_epilogue){i % 4 > 0, i % 3 > 0, 1, 0});
        fill_sources(&c, i % 5 == 4);
        blank_ground(&c.src[0], c.data[0]);
        if (i % 7 == 6) ((float *)c.data[1])[random_below(size_of(&c.src[1]))] = i % 2 ? INFINITY : NAN;
        check(&c);
        free_sources(&c);
    }
}

static void scale(cas *c, int operand, float by)
{
    for (int64_t i = 0; i < size_of(&c->src[operand]); i++)
        ((float *)c->data[operand])[i] *= by;
}

/* Sums of large numbers overflow; a chain of fused products that is infinite stays so, and is not NaN. */
TEST(test_conv_large)
{
    static const float sizes[] = {0x1p60f, 0x1p61f, 0x1p62f, 0x1p63f, 0x1p64f, 0x1p66f, 0x1p127f};
    for (int i = 0; i < 98; i++) {
        cas c = conv_case(square(1 + i % 3, 6 + i % 9, 1, PICK(2, 8, 16, 20, 32, 40), 3, PICK(1, 1, 2), 1, 0), LKI_K_conv2d);
        with_epilogue(&c, (lki_epilogue){i % 4 > 0, i % 3 > 0, 1, 0});
        fill_sources(&c, 0);
        if (i % 2) blank_ground(&c.src[0], c.data[0]);
        scale(&c, 0, sizes[i % 7]);
        scale(&c, 1, sizes[i / 7 % 7]);
        if (c.nsrc > 2) scale(&c, 2, i % 5 ? 1 : 0x1p127f);
        check(&c);
        free_sources(&c);
    }
}

TEST(test_conv_channels)
{
    static const int64_t channels[] = {1, 3, 7, 8, 16, 31, 32, 33, 64};
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++)
            check_layer(square(2, 5, channels[i], channels[j], 3, 1, 1, (i + j) % 2), (i + j) % 4 == 1);
    for (int i = 0; i < 9; i++)
        for (int64_t m = 1; m <= 3; m++)
            check_deep(square(2, 6, channels[i], m, 3, 1, 1, 1), m == 2);
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++)
            check_groups(square(2, 5, channels[i], channels[j], 3, 1 + i % 2, 1, 1), PICK(1, 2, 4, 7), (i + j) % 4 == 1);
    for (int64_t width = 4; width <= 32; width *= 2) /* those of ResNeXt */
        check_groups(square(3, 14, width, width, 3, 1 + (width == 8), 1, 1), 128 / width, width == 16);
    for (int wild = 0; wild < 2; wild++) { /* whole rows, with borders of every width; more channels than are summed together */
        check_deep(square(3, 16, 32, 1, 3, 1, 1, 1), wild);
        check_deep(square(2, 17, 144, 1, 3, 1, 1, 2), wild);
        check_deep(square(2, 16, 48, 1, 3, 2, 1, 1), wild);
        check_deep(square(2, 13, 16, 1, 5, 1, 1, 2), wild);
        check_deep(square(2, 12, 16, 1, 5, 1, 1, 4), wild);
        check_deep(square(2, 19, 48, 1, 5, 2, 1, 2), wild);
        check_deep(square(2, 10, 160, 1, 3, 1, 1, 0), wild);
        check_deep(square(2, 14, 16, 1, 3, 1, 3, 2), wild); /* taps that are not adjacent */
        for (int64_t size = 4; size <= 12; size += 2) {     /* windows that are wide, and wider than the image */
            check_deep(square(3, size, 33, 1, 7, 1, 1, 3), wild);
            check_deep(square(2, size + 1, 80, 1, 7, 2, 1, 2), wild);
            check_deep(square(3, size, 24, 1, 5, 1 + size / 8, 1, 2), wild);
        }
        check_deep(layer_of(5, 3, 9, 40, 1, (lki_window){{3, 7}, {1, 1}, {2, 1}, {2, 5}}, 1), wild);
        check_deep(layer_of(5, 9, 3, 19, 1, (lki_window){{7, 5}, {1, 2}, {1, 1}, {3, 4}}, 3), wild);
    }
}

static layer random_layer(void)
{
    lki_window win = {{PICK(1, 2, 3, 3, 4, 5), PICK(1, 2, 3, 3, 4, 5)},
                      {PICK(1, 1, 2, 3), PICK(1, 1, 2, 3)},
                      {PICK(1, 1, 2, 3), PICK(1, 1, 2, 3)},
                      {0, 0}};
    for (int i = 0; i < 2; i++)
        win.pad[i] = random_below(win.size[i] * win.dilation[i]);
    return layer_of(random_below(6), 1 + random_below(11), 1 + random_below(11), PICK(1, 1, 2, 3, 5, 8, 9, 17),
                    PICK(1, 2, 6, 8, 16, 19, 40), win, random_below(3));
}

TEST(test_conv_random)
{
    for (int i = 0; i < 250; i++) {
        layer l = random_layer();
        check_layer(l, i % 3 == 0);
        check_groups(l, PICK(1, 2, 3, 5), i % 3 == 2);
        l.O = 1 + random_below(3);
        check_deep(l, i % 3 == 1);
    }
}

/* y from x, cell by cell and tap by tap: each goes to the output it reaches, if it reaches one. */
static void conv_formula(const layer *l, const double *x, const double *w, double *y)
{
    const int64_t Q = result_channels(l), C = image_channels(l);
    memset(y, 0, (size_t)(l->batch * l->OH * l->OW * Q) * sizeof *y);
    for (int64_t i = 0; i < l->batch * l->H * l->W * C; i++)
        for (int64_t t = 0; t < l->win.size[0] * l->win.size[1]; t++) {
            const int64_t c = i % C, at[2] = {i / (l->W * C) % l->H, i / C % l->W}, k[2] = {t / l->win.size[1], t % l->win.size[1]};
            const int64_t d[2] = {at[0] + l->win.pad[0] - k[0] * l->win.dilation[0],
                                  at[1] + l->win.pad[1] - k[1] * l->win.dilation[1]};
            if (d[0] < 0 || d[1] < 0 || d[0] % l->win.stride[0] || d[1] % l->win.stride[1]) continue;
            const int64_t oh = d[0] / l->win.stride[0], ow = d[1] / l->win.stride[1];
            if (oh >= l->OH || ow >= l->OW) continue;
            double *to = y + ((i / (l->H * l->W * C) * l->OH + oh) * l->OW + ow) * Q;
            for (int64_t o = 0; o < l->O; o++) {
                const int64_t q = l->groups ? c / l->C * l->O + o : l->deep ? c * l->O + o : o;
                to[q] += x[i] * (l->groups ? w[(t * l->C + c % l->C) * Q + q] : w[(t * l->C + c) * l->O + o]);
            }
        }
}

/* The formula, <conv(x, w), dy> = <x, grad_x> = <w, grad_w>, and central differences of that inner product in some weights and
 * cells. */
static void check_f64(layer l)
{
    static const lki_slot SLOTS[3][3] = {{LKI_K_conv2d, LKI_K_conv2d_grad_x, LKI_K_conv2d_grad_w},
                                         {LKI_K_depthwise, LKI_K_depthwise_grad_x, LKI_K_depthwise_grad_w},
                                         {LKI_K_grouped, LKI_K_grouped_grad_x, LKI_K_grouped_grad_w}};
    const lki_slot       *slot = SLOTS[l.groups ? 2 : l.deep];
    const cas             f = conv_case(l, slot[0]), gx = conv_case(l, slot[1]);
    cas                   gw = conv_case(l, slot[2]);
    const int64_t         nx = size_of(&f.src[0]), nw = size_of(&f.src[1]), ny = size_of(&f.dst[0]);
    double *x = numbers(LK_F64, &f.src[0], 0), *w = numbers(LK_F64, &f.src[1], 0), *dy = numbers(LK_F64, &f.dst[0], 0);
    double *plain = malloc((size_t)ny * sizeof *plain + 1);
    random_lanes(&gw, 4, l.batch);
    const result y = run_f64(f, x, w), dx = run_f64(gx, dy, w), dw = run_f64(gw, x, dy);

    conv_formula(&l, x, w, plain);
    for (int64_t i = 0; i < ny; i++)
        assert_true(fabs(plain[i] - ((double *)y.dst[0])[i]) < 1e-12);
    const double value = dot(y.dst[0], dy, ny), by_x = dot(x, dx.dst[0], nx), by_w = dot(w, dw.dst[0], nw);
    assert_true(fabs(value - by_x) < 1e-10 && fabs(value - by_w) < 1e-10);
    for (int part = 0; part < 2; part++) {
        double       *v = part ? w : x;
        const double *slope = part ? dw.dst[0] : dx.dst[0];
        for (int64_t i = 0, n = part ? nw : nx; i < n; i += 1 + n / 7) {
            const double kept = v[i], step = 1e-3;
            double       side[2];
            for (int s = 0; s < 2; s++) {
                v[i] = kept + (s ? step : -step);
                const result moved = run_f64(f, x, w);
                side[s] = dot(moved.dst[0], dy, ny);
                free_result(moved);
            }
            v[i] = kept;
            assert_true(fabs((side[1] - side[0]) / (2 * step) - slope[i]) < 1e-9);
        }
    }
    free_result(y);
    free_result(dx);
    free_result(dw);
    free(x);
    free(w);
    free(dy);
    free(plain);
}

TEST(test_conv_f64)
{
    for (int i = 0; i < 60; i++) {
        layer l = random_layer();
        l.deep = i % 3 == 1;
        l.groups = i % 3 == 2 ? 1 + random_below(3) : 0;
        if (l.deep) l.O = 1 + random_below(3);
        check_f64(l);
    }
}

TEST(test_lane_tree)
{
    const layer l = square(11, 6, 3, 5, 3, 1, 1, 1);
    check_lane_tree(conv_case(l, LKI_K_conv2d_grad_w), l);
}

/* conv2d with a pool is conv2d, then max_pool. */
TEST(test_fused_pool)
{
    for (int i = 0; i < 40; i++) {
        const layer l = i ? random_layer() : square(2, 28, 1, 32, 3, 1, 1, 0);
        cas         plain = conv_case(l, LKI_K_conv2d), fused = plain,
            pool =
                pool_case(layer_of(l.batch, l.OH, l.OW, l.O, 1, (lki_window){{2, 2}, {2, 2}, {1, 1}, {0, 0}}, 0), LKI_K_max_pool);
        with_epilogue(&plain, (lki_epilogue){1, i % 2, 0, 0});
        with_epilogue(&fused, (lki_epilogue){1, i % 2, 1, 0});
        fill_sources(&plain, i % 3 == 0);
        memcpy(fused.data, plain.data, sizeof fused.data);
        const result y = run_all(&table[0], &plain);
        pool.data[0] = y.dst[0];
        const result two = run_all(&table[0], &pool), one = run_all(&table[0], &fused);
        same_bits(&fused, "fused pool", two, one);
        free_result(y);
        free_result(one);
        free_result(two);
        free_sources(&plain);
    }
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul_columns), cmocka_unit_test(test_matmul_zeros),   cmocka_unit_test(test_matmul_sizes),
        cmocka_unit_test(test_matmul_random),  cmocka_unit_test(test_matmul_batches), cmocka_unit_test(test_matmul_formula),
        cmocka_unit_test(test_matmul_heads),   cmocka_unit_test(test_conv_models),    cmocka_unit_test(test_conv_blank),
        cmocka_unit_test(test_conv_large),     cmocka_unit_test(test_conv_channels),  cmocka_unit_test(test_conv_random),
        cmocka_unit_test(test_conv_f64),       cmocka_unit_test(test_lane_tree),      cmocka_unit_test(test_fused_pool),
    };
    return cmocka_run_group_tests(tests, fill_tables, NULL);
}
