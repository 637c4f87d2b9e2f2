/* Products: matmul, convolutions, pooling.
 *
 * 1. Every vectorised kernel gives the bits of the reference, on odd, empty and large shapes, with any lanes, epilogue and transposition,
 *    also where numbers are subnormal (flushed or not), infinite or NaN (all NaN count as equal); any split of the range gives the bits of the whole,
 *    nothing outside the range or the scratch is written.
 * 2. The reference, in f64, agrees with plain formulas written the other way round (from the source to the result).
 * 3. Gradients agree with the forward kernels: <f(x), dy> = <x, grad(dy)>, and central differences.
 * 4. LANES is what kernel.h says: one call with lanes equals calls per lane, added up the tree. */
#include "check.h"
#include "core/thread.h"
#include "kernel/register.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LANES = 16, GUARD = 64 };

/* ---- cases ----------------------------------------------------------------------------------------------------------------------- */

typedef struct cas {
    lki_slot slot;
    lk_dtype dtype;
    int      nsrc, ndst, lanes; /* lanes 0: none */
    lk_shape src[3], dst[2];
    lk_dtype second;  /* of cells */
    int64_t  unit;    /* lo and hi are multiples of this */
    int64_t  bound[MAX_LANES + 1];
    lki_attr attr;
    void    *data[3]; /* of src */
} cas;

static lki_kernels table[LKI_ISA_COUNT];
static uint64_t    seed = 88172645463325252u;

static uint64_t random_word(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static int64_t random_below(int64_t n) { return (int64_t)(random_word() >> 11) % n; }
static int64_t pick(const int64_t *from, int64_t n) { return from[random_below(n)]; }
#define PICK(...) pick((const int64_t[]){__VA_ARGS__}, (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

static double random_number(int wild)
{
    const double x = (double)(int64_t)(random_word() >> 11) / 0x1p52 - 1;
    if (!wild) return x;
    const int64_t kind = random_below(200);
    return kind < 40 ? 0 : kind < 60 ? -0.0 : kind < 80 ? x * 1e-30 : kind < 82 ? INFINITY : kind < 84 ? -INFINITY : kind < 85 ? NAN : x;
}

static int64_t size_of(const lk_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i];
    return n;
}

static size_t bytes_of(lk_dtype t) { return t == LK_F64 ? 8 : t == LK_U8 ? 1 : 4; }

static double get(lk_dtype t, const void *p, int64_t i)
{
    return t == LK_F64 ? ((const double *)p)[i] : t == LK_F32 ? (double)((const float *)p)[i] : t == LK_U8 ? ((const uint8_t *)p)[i] : ((const int32_t *)p)[i];
}

static void *numbers(lk_dtype t, const lk_shape *s, int wild)
{
    const int64_t n = size_of(s);
    void         *p = malloc((size_t)n * bytes_of(t) + 1);
    for (int64_t i = 0; i < n; i++) {
        if (t == LK_F64)
            ((double *)p)[i] = random_number(wild);
        else
            ((float *)p)[i] = (float)random_number(wild);
    }
    return p;
}

static void fill_sources(cas *c, int wild)
{
    for (int i = 0; i < c->nsrc; i++) c->data[i] = numbers(c->dtype, &c->src[i], wild);
}

static void free_sources(cas *c)
{
    for (int i = 0; i < c->nsrc; i++) free(c->data[i]);
}

static void random_lanes(cas *c, int count, int64_t rows)
{
    c->lanes = count;
    c->bound[0] = 0;
    for (int s = 1; s <= count; s++) c->bound[s] = s == count ? rows : lki_min(rows, c->bound[s - 1] + random_below(2 * rows / count + 2));
}

/* ---- running a kernel ---------------------------------------------------------------------------------------------------------------- */

typedef struct result {
    void *dst[2];
} result;

static lk_dtype dtype_of(const cas *c, int i) { return i ? c->second : c->dtype; }

/* Runs [lo, hi) with guarded outputs and scratch. */
static void run_range(const lki_kernels *k, const cas *c, result *r, int64_t lo, int64_t hi)
{
    lki_view        src[3], dst[2];
    const lki_lanes lanes = {c->lanes, c->bound};
    for (int i = 0; i < c->nsrc; i++) src[i] = (lki_view){c->data[i], &c->src[i], i && c->slot == LKI_K_max_pool_grad ? c->second : c->dtype};
    if (c->slot == LKI_K_max_pool_pick || c->slot == LKI_K_max_pool_grad) src[1].dtype = c->second;
    for (int i = 0; i < c->ndst; i++) dst[i] = (lki_view){r->dst[i], &c->dst[i], dtype_of(c, i)};
    lki_args     a = {.src = src, .dst = dst, .nsrc = c->nsrc, .ndst = c->ndst, .attr = &c->attr, .lanes = c->lanes ? &lanes : NULL, .lo = lo, .hi = hi};
    const size_t bytes = k->scratch[c->slot][c->dtype] ? k->scratch[c->slot][c->dtype](&a) : 0;
    uint8_t     *scratch = aligned_alloc(64, (bytes + GUARD + 63) / 64 * 64);
    memset(scratch, 0xff, bytes + GUARD); /* NaN, should anyone read it */
    a.scratch = bytes ? scratch : NULL;
    k->fn[c->slot][c->dtype](&a);
    for (int i = 0; i < GUARD; i++) assert_int_equal(scratch[bytes + (size_t)i], 0xff);
    free(scratch);
}

static result results_for(const cas *c)
{
    result r = {{0}};
    for (int i = 0; i < c->ndst; i++) {
        const size_t bytes = (size_t)size_of(&c->dst[i]) * bytes_of(dtype_of(c, i)) + GUARD;
        r.dst[i] = malloc(bytes);
        memset(r.dst[i], 0xa5, bytes);
    }
    return r;
}

static void free_result(result r)
{
    free(r.dst[0]);
    free(r.dst[1]);
}

static result run_all(const lki_kernels *k, const cas *c)
{
    result r = results_for(c);
    run_range(k, c, &r, 0, size_of(&c->dst[0]));
    return r;
}

static void describe(const cas *c, const char *what, int64_t at)
{
    fprintf(stderr, "%s, element %lld, lanes %d, epilogue %d%d%d\n", what, (long long)at, c->lanes, c->attr.epilogue.bias, c->attr.epilogue.relu, c->attr.epilogue.pool);
    for (int i = 0; i < c->nsrc + c->ndst; i++) {
        const lk_shape *s = i < c->nsrc ? &c->src[i] : &c->dst[i - c->nsrc];
        fprintf(stderr, i < c->nsrc ? "  src" : "  dst");
        for (int d = 0; d < s->rank; d++) fprintf(stderr, " %lld", (long long)s->dim[d]);
    }
    const lki_window *w = &c->attr.window;
    fprintf(stderr, "\n  slot %d, stride %lld %lld, dilation %lld %lld, pad %lld %lld (or ta, tb)\n", (int)c->slot, (long long)w->stride[0], (long long)w->stride[1],
            (long long)w->dilation[0], (long long)w->dilation[1], (long long)w->pad[0], (long long)w->pad[1]);
}

static void same_bits(const cas *c, const char *what, result a, result b)
{
    for (int d = 0; d < c->ndst; d++) {
        const size_t  each = bytes_of(dtype_of(c, d));
        const int64_t n = size_of(&c->dst[d]);
        for (int64_t i = 0; i < n; i++) {
            if (!memcmp((char *)a.dst[d] + (size_t)i * each, (char *)b.dst[d] + (size_t)i * each, each)) continue;
            if (d == 0 && isnan(get(c->dtype, a.dst[d], i)) && isnan(get(c->dtype, b.dst[d], i))) continue;
            describe(c, what, i);
            fprintf(stderr, "  %.9g and %.9g\n", get(dtype_of(c, d), a.dst[d], i), get(dtype_of(c, d), b.dst[d], i));
            fail();
        }
        assert_memory_equal((char *)a.dst[d] + (size_t)n * each, (char *)b.dst[d] + (size_t)n * each, GUARD); /* untouched */
    }
}

/* The middle of three parts alone, then the outer two: what is outside the range stays as it was. */
static result run_parts(const lki_kernels *k, const cas *c)
{
    const int64_t n = size_of(&c->dst[0]), units = c->unit ? n / c->unit : 0;
    int64_t       p = random_below(units + 1) * c->unit, q = random_below(units + 1) * c->unit;
    if (p > q) {
        const int64_t swap = p;
        p = q;
        q = swap;
    }
    result r = results_for(c);
    run_range(k, c, &r, p, q);
    const size_t each = bytes_of(c->dtype);
    for (int64_t i = 0; i < n * (int64_t)each; i++)
        if (i < p * (int64_t)each || i >= q * (int64_t)each) assert_int_equal(((uint8_t *)r.dst[0])[i], 0xa5);
    run_range(k, c, &r, 0, p);
    run_range(k, c, &r, q, n);
    return r;
}

static void check(cas *c)
{
    const lki_isa  isa = lki_cpu_isa_machine();
    const int      flush = random_below(2) > 0; /* subnormals, as the library's threads do */
    const unsigned before = flush ? lki_fp_enter() : 0;
    const result   truth = run_all(&table[0], c);
    for (lki_isa i = LKI_ISA_REFERENCE; i <= isa; i++) {
        const result whole = run_all(&table[i], c), parts = run_parts(&table[i], c);
        same_bits(c, lki_isa_name(i), truth, whole);
        same_bits(c, "split range", truth, parts);
        free_result(whole);
        free_result(parts);
    }
    if (flush) lki_fp_leave(before);
    free_result(truth);
}

/* ---- matmul ---------------------------------------------------------------------------------------------------------------------------- */

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
    static const int64_t sizes[][3] = {{0, 3, 2}, {3, 0, 2}, {3, 2, 0}, {1, 1, 1}, {8, 32, 5}, {9, 33, 4}, {7, 31, 300}, {64, 10, 64}, {40, 200, 70},
                                       {24, 70, 513}, {8, 100, 64}, {8, 64, 64}, {5, 129, 3}, {17, 1030, 20}, {137, 40, 11}, {130, 140, 257}, {64, 96, 40}};
    for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]); i++)
        for (int t = 0; t < 4; t++) {
            cas c = matmul_case(sizes[i][0], sizes[i][1], sizes[i][2], t & 1, t >> 1);
            check_matmul(c, i % 2);
            with_epilogue(&c, (lki_epilogue){1, t % 2, 0});
            check_matmul(c, (i + 1) % 2);
        }
}

TEST(test_matmul_random)
{
    for (int t = 0; t < 4; t++) { /* many steps per lane */
        cas c = matmul_case(20, 40, 2100, t & 1, t >> 1);
        with_epilogue(&c, (lki_epilogue){1, 1, 0});
        random_lanes(&c, 8, 2100);
        check_matmul(c, t == 2);
    }
    for (int i = 0; i < 300; i++) {
        cas c = matmul_case(random_below(70), random_below(100), random_below(90), random_below(2) > 0, random_below(2) > 0);
        if (random_below(2)) with_epilogue(&c, (lki_epilogue){random_below(2) > 0, random_below(2) > 0, 0});
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

TEST(test_matmul_batches)
{
    static const int64_t batches[][6] = {{3, 2, 3, 2, 3, 2}, {1, 2, 3, 1, 3, 2}, {3, 1, 1, 2, 3, 2}, {0, 2, 1, 2, 0, 2}, {3, 2, 1, 1, 3, 2}};
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
                for (int64_t n = 0; n < N; n++) sum[m * N + n] += (t & 1 ? a[k * M + m] : a[m * K + k]) * (t >> 1 ? b[n * K + k] : b[k * N + n]);
        for (int i = 0; i < 30; i++) assert_true(fabs(sum[i] - ((double *)r.dst[0])[i]) < 1e-13);
        free_result(r);
        free_sources(&c);
    }
}

/* ---- convolutions ---------------------------------------------------------------------------------------------------------------------- */

typedef struct layer {
    int64_t    batch, H, W, C, O, OH, OW;
    lki_window win;
    int        deep; /* depthwise: O is the multiplier */
} layer;

static int64_t outputs(int64_t in, int64_t k, int64_t stride, int64_t dilation, int64_t before, int64_t after)
{
    return lki_max(0, (in + before + after - (k - 1) * dilation - 1 + stride) / stride);
}

static layer layer_of(int64_t batch, int64_t H, int64_t W, int64_t C, int64_t O, lki_window win, int64_t after)
{
    layer l = {batch, H, W, C, O, 0, 0, win, 0};
    l.OH = outputs(H, win.size[0], win.stride[0], win.dilation[0], win.pad[0], after);
    l.OW = outputs(W, win.size[1], win.stride[1], win.dilation[1], win.pad[1], after);
    return l;
}

static layer square(int64_t batch, int64_t size, int64_t C, int64_t O, int64_t k, int64_t stride, int64_t dilation, int64_t pad)
{
    return layer_of(batch, size, size, C, O, (lki_window){{k, k}, {stride, stride}, {dilation, dilation}, {pad, pad}}, pad);
}

static cas conv_case(layer l, lki_slot slot)
{
    const lk_shape x = {4, {l.batch, l.H, l.W, l.C}}, w = {4, {l.win.size[0], l.win.size[1], l.C, l.O}}, y = {4, {l.batch, l.OH, l.OW, l.deep ? l.C * l.O : l.O}};
    cas            c = {.slot = slot, .dtype = LK_F32, .nsrc = 2, .ndst = 1};
    c.attr.window = l.win;
    switch (slot) {
    case LKI_K_conv2d:
    case LKI_K_depthwise: c.src[0] = x, c.src[1] = w, c.dst[0] = y; break;
    case LKI_K_conv2d_grad_x:
    case LKI_K_depthwise_grad_x: c.src[0] = y, c.src[1] = w, c.dst[0] = x; break;
    default: c.src[0] = x, c.src[1] = y, c.dst[0] = w; break;
    }
    c.unit = c.dst[0].dim[1] * c.dst[0].dim[2] * c.dst[0].dim[3];
    if (slot == LKI_K_conv2d_grad_w) c.unit = l.O;
    if (slot == LKI_K_depthwise_grad_w) c.unit = size_of(&w);
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
    check_slot(l, LKI_K_conv2d, (lki_epilogue){1, 1, 0}, 0, wild);
    check_slot(l, LKI_K_conv2d, (lki_epilogue){random_below(2) > 0, random_below(2) > 0, 1}, 0, wild);
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

TEST(test_conv_models)
{
    check_layer(square(2, 28, 1, 32, 3, 1, 1, 0), 0); /* the convolutions of the two models */
    check_layer(square(2, 13, 32, 64, 3, 1, 1, 0), 0);
    check_layer(square(2, 12, 1, 32, 3, 1, 1, 1), 1);
    check_layer(square(2, 9, 1, 20, 3, 2, 1, 1), 0);
    check_layer(square(0, 6, 3, 4, 3, 1, 1, 0), 0);
    check_layer(square(3, 2, 3, 4, 3, 1, 1, 0), 0); /* no output */
    check_layer(square(2, 6, 8, 100, 1, 1, 1, 0), 0);
    check_layer(square(2, 9, 6, 10, 5, 1, 1, 2), 1);
    check_layer(square(2, 11, 1, 6, 5, 1, 1, 0), 0);
    check_layer(square(2, 12, 16, 33, 3, 2, 1, 1), 0);
    check_layer(square(2, 11, 3, 7, 3, 3, 2, 2), 1);
    check_layer(square(1, 9, 4, 5, 3, 2, 2, 2), 0);
    check_layer(square(1, 7, 70, 9, 2, 2, 1, 0), 0);
}

TEST(test_conv_channels)
{
    static const int64_t channels[] = {1, 3, 7, 8, 16, 31, 32, 33, 64};
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++) check_layer(square(2, 5, channels[i], channels[j], 3, 1, 1, (i + j) % 2), (i + j) % 4 == 1);
    for (int i = 0; i < 9; i++)
        for (int64_t m = 1; m <= 3; m++) check_deep(square(2, 6, channels[i], m, 3, 1, 1, 1), m == 2);
}

static layer random_layer(void)
{
    lki_window win = {{PICK(1, 2, 3, 3, 4, 5), PICK(1, 2, 3, 3, 4, 5)}, {PICK(1, 1, 2, 3), PICK(1, 1, 2, 3)}, {PICK(1, 1, 2, 3), PICK(1, 1, 2, 3)}, {0, 0}};
    for (int i = 0; i < 2; i++) win.pad[i] = random_below(win.size[i] * win.dilation[i]);
    return layer_of(random_below(6), 1 + random_below(11), 1 + random_below(11), PICK(1, 1, 2, 3, 5, 8, 9, 17), PICK(1, 2, 6, 8, 16, 19, 40), win, random_below(3));
}

TEST(test_conv_random)
{
    for (int i = 0; i < 250; i++) {
        layer l = random_layer();
        check_layer(l, i % 3 == 0);
        l.O = 1 + random_below(3);
        check_deep(l, i % 3 == 1);
    }
}

/* y from x, cell by cell and tap by tap: each goes to the output it reaches, if it reaches one. */
static void conv_formula(const layer *l, const double *x, const double *w, double *y)
{
    const int64_t Q = l->deep ? l->C * l->O : l->O;
    memset(y, 0, (size_t)(l->batch * l->OH * l->OW * Q) * sizeof *y);
    for (int64_t i = 0; i < l->batch * l->H * l->W * l->C; i++)
        for (int64_t t = 0; t < l->win.size[0] * l->win.size[1]; t++) {
            const int64_t c = i % l->C, at[2] = {i / (l->W * l->C) % l->H, i / l->C % l->W}, k[2] = {t / l->win.size[1], t % l->win.size[1]};
            const int64_t d[2] = {at[0] + l->win.pad[0] - k[0] * l->win.dilation[0], at[1] + l->win.pad[1] - k[1] * l->win.dilation[1]};
            if (d[0] < 0 || d[1] < 0 || d[0] % l->win.stride[0] || d[1] % l->win.stride[1]) continue;
            const int64_t oh = d[0] / l->win.stride[0], ow = d[1] / l->win.stride[1];
            if (oh >= l->OH || ow >= l->OW) continue;
            double *to = y + ((i / (l->H * l->W * l->C) * l->OH + oh) * l->OW + ow) * Q;
            for (int64_t o = 0; o < l->O; o++) to[l->deep ? c * l->O + o : o] += x[i] * w[(t * l->C + c) * l->O + o];
        }
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static result run_f64(cas c, void *first, void *second)
{
    c.dtype = LK_F64;
    c.data[0] = first;
    c.data[1] = second;
    return run_all(&table[0], &c);
}

/* The formula, <conv(x, w), dy> = <x, grad_x> = <w, grad_w>, and central differences of that inner product in some weights and cells. */
static void check_f64(layer l)
{
    const cas      f = conv_case(l, l.deep ? LKI_K_depthwise : LKI_K_conv2d);
    const cas      gx = conv_case(l, l.deep ? LKI_K_depthwise_grad_x : LKI_K_conv2d_grad_x);
    cas            gw = conv_case(l, l.deep ? LKI_K_depthwise_grad_w : LKI_K_conv2d_grad_w);
    const int64_t  nx = size_of(&f.src[0]), nw = size_of(&f.src[1]), ny = size_of(&f.dst[0]);
    double        *x = numbers(LK_F64, &f.src[0], 0), *w = numbers(LK_F64, &f.src[1], 0), *dy = numbers(LK_F64, &f.dst[0], 0);
    double        *plain = malloc((size_t)ny * sizeof *plain + 1);
    random_lanes(&gw, 4, l.batch);
    const result y = run_f64(f, x, w), dx = run_f64(gx, dy, w), dw = run_f64(gw, x, dy);

    conv_formula(&l, x, w, plain);
    for (int64_t i = 0; i < ny; i++) assert_true(fabs(plain[i] - ((double *)y.dst[0])[i]) < 1e-12);
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
        l.deep = i % 2;
        if (l.deep) l.O = 1 + random_below(3);
        check_f64(l);
    }
}

/* One call with lanes is calls per lane, added up the tree. */
TEST(test_lane_tree)
{
    const layer l = square(11, 6, 3, 5, 3, 1, 1, 1);
    for (int count = 1; count <= 16; count *= 2) {
        cas c = conv_case(l, LKI_K_conv2d_grad_w);
        fill_sources(&c, 0);
        random_lanes(&c, count, l.batch);
        const result  truth = run_all(&table[0], &c);
        const int64_t n = size_of(&c.dst[0]), x = l.H * l.W * l.C, y = l.OH * l.OW * l.O;
        result        lane[MAX_LANES];
        for (int s = 0; s < count; s++) {
            cas one = c;
            one.lanes = 0;
            one.src[0].dim[0] = one.src[1].dim[0] = c.bound[s + 1] - c.bound[s];
            one.data[0] = (float *)c.data[0] + c.bound[s] * x;
            one.data[1] = (float *)c.data[1] + c.bound[s] * y;
            lane[s] = run_all(&table[0], &one);
        }
        for (int step = 1; step < count; step *= 2)
            for (int s = 0; s < count; s += 2 * step)
                for (int64_t i = 0; i < n; i++) ((float *)lane[s].dst[0])[i] += ((float *)lane[s + step].dst[0])[i];
        same_bits(&c, "tree of lanes", truth, lane[0]);
        for (int s = 0; s < count; s++) free_result(lane[s]);
        free_result(truth);
        free_sources(&c);
    }
}

/* ---- pooling ----------------------------------------------------------------------------------------------------------------------------- */

static cas pool_case(layer l, lki_slot slot)
{
    const lk_shape x = {4, {l.batch, l.H, l.W, l.C}}, y = {4, {l.batch, l.OH, l.OW, l.C}};
    const int      back = slot == LKI_K_max_pool_grad || slot == LKI_K_avg_pool_grad;
    cas            c = {.slot = slot, .dtype = LK_F32, .nsrc = 1, .ndst = 1};
    c.attr.window = l.win;
    c.second = l.win.size[0] * l.win.size[1] > 256 ? LK_I32 : LK_U8;
    c.src[0] = back ? y : x;
    c.dst[0] = back ? x : y;
    c.dst[1] = c.src[1] = y;
    c.unit = c.dst[0].dim[1] * c.dst[0].dim[2] * c.dst[0].dim[3];
    if (slot == LKI_K_max_pool) c.ndst = 2;
    return c;
}

static void check_pool(layer l, int wild)
{
    cas m = pool_case(l, LKI_K_max_pool), avg = pool_case(l, LKI_K_avg_pool), back = pool_case(l, LKI_K_avg_pool_grad);
    cas chosen = pool_case(l, LKI_K_max_pool_pick), grad = pool_case(l, LKI_K_max_pool_grad);
    fill_sources(&m, wild);
    check(&m);
    avg.data[0] = chosen.data[0] = m.data[0];
    check(&avg);
    const result cells = run_all(&table[0], &m);
    chosen.data[1] = grad.data[1] = cells.dst[1];
    chosen.nsrc = 2;
    check(&chosen);
    const result again = run_all(&table[0], &chosen); /* the cells name the values */
    m.ndst = 1;
    same_bits(&m, "pick of the cells", cells, again);
    fill_sources(&back, wild);
    check(&back);
    grad.data[0] = back.data[0];
    grad.nsrc = 2;
    check(&grad);
    free_result(cells);
    free_result(again);
    free_sources(&m);
    free_sources(&back);
}

static layer random_pool(void)
{
    lki_window win = {{1 + random_below(4), 1 + random_below(4)}, {1 + random_below(3), 1 + random_below(3)}, {1, 1}, {0, 0}};
    for (int i = 0; i < 2; i++) win.pad[i] = random_below(win.size[i]);
    layer l = layer_of(random_below(4), 4 + random_below(9), 4 + random_below(9), PICK(1, 3, 8, 16, 31, 32, 33), 1, win, 0);
    return l;
}

TEST(test_pool)
{
    check_pool(square(2, 26, 32, 1, 2, 2, 1, 0), 0);
    check_pool(square(2, 11, 64, 1, 2, 2, 1, 0), 1);
    check_pool(square(1, 20, 3, 1, 17, 2, 1, 3), 0); /* 289 cells */
    check_pool(square(2, 7, 40, 1, 7, 1, 1, 0), 0);
    for (int i = 0; i < 200; i++) check_pool(random_pool(), i % 2);
}

TEST(test_pool_values)
{
    const float x[] = {1, NAN, 2, 2, 3, NAN, 2, -1, -0.0f, 0, -1, -2, 0, -0.0f, -INFINITY, -3}; /* 4 x 4 */
    cas         c = pool_case(square(1, 4, 1, 1, 2, 2, 1, 0), LKI_K_max_pool);
    c.data[0] = (void *)(uintptr_t)x;
    for (lki_isa i = LKI_ISA_REFERENCE; i <= lki_cpu_isa_machine(); i++) {
        const result   r = run_all(&table[i], &c);
        const float   *y = r.dst[0];
        const uint8_t *cell = r.dst[1];
        assert_true(isnan(y[0]) && cell[0] == 1 && y[1] == 2 && cell[1] == 0); /* NaN largest, the first of equal ones */
        assert_true(y[2] == 0 && signbit(y[2]) && cell[2] == 0 && y[3] == -1 && cell[3] == 0);
        free_result(r);
    }
}

/* <pool(x), dy> = <x, grad(dy)>: both gradients are adjoint to a linear map, max for given cells. */
TEST(test_pool_f64)
{
    for (int i = 0; i < 40; i++) {
        const layer   l = random_pool();
        cas           m = pool_case(l, LKI_K_max_pool);
        const int64_t nx = size_of(&m.src[0]), ny = size_of(&m.dst[0]);
        double       *x = numbers(LK_F64, &m.src[0], 0), *dy = numbers(LK_F64, &m.dst[0], 0);
        m.dtype = LK_F64;
        m.data[0] = x;
        const result y = run_all(&table[0], &m), mean = run_f64(pool_case(l, LKI_K_avg_pool), x, NULL);
        cas          grad = pool_case(l, LKI_K_max_pool_grad);
        grad.nsrc = 2;
        const result dx = run_f64(grad, dy, y.dst[1]), dmean = run_f64(pool_case(l, LKI_K_avg_pool_grad), dy, NULL);
        assert_true(fabs(dot(y.dst[0], dy, ny) - dot(x, dx.dst[0], nx)) < 1e-11);
        assert_true(fabs(dot(mean.dst[0], dy, ny) - dot(x, dmean.dst[0], nx)) < 1e-11);
        free_result(y);
        free_result(mean);
        free_result(dx);
        free_result(dmean);
        free(x);
        free(dy);
    }
}

/* conv2d with a pool is conv2d, then max_pool. */
TEST(test_fused_pool)
{
    for (int i = 0; i < 40; i++) {
        const layer l = i ? random_layer() : square(2, 28, 1, 32, 3, 1, 1, 0);
        cas         plain = conv_case(l, LKI_K_conv2d), fused = plain, pool = pool_case(layer_of(l.batch, l.OH, l.OW, l.O, 1, (lki_window){{2, 2}, {2, 2}, {1, 1}, {0, 0}}, 0), LKI_K_max_pool);
        with_epilogue(&plain, (lki_epilogue){1, i % 2, 0});
        with_epilogue(&fused, (lki_epilogue){1, i % 2, 1});
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul_sizes),  cmocka_unit_test(test_matmul_random), cmocka_unit_test(test_matmul_batches),
        cmocka_unit_test(test_matmul_formula), cmocka_unit_test(test_conv_models),   cmocka_unit_test(test_conv_channels),
        cmocka_unit_test(test_conv_random),   cmocka_unit_test(test_conv_f64),      cmocka_unit_test(test_lane_tree),
        cmocka_unit_test(test_pool),          cmocka_unit_test(test_pool_values),   cmocka_unit_test(test_pool_f64),
        cmocka_unit_test(test_fused_pool),
    };
    for (int i = 0; i < LKI_ISA_COUNT; i++) lki_register_products_ref(&table[i]);
#if defined(__x86_64__)
    lki_register_products_avx2(&table[LKI_ISA_AVX2]);
    lki_register_products_avx512(&table[LKI_ISA_AVX512]);
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
