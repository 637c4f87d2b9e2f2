/* conv2d_pool_grad_x, and what it shares with conv2d_pool_grad_w (live_grad_w.inc): gradients of a convolution through a 2x2 max
 * pool, over the entries of d that are not zero.
 *
 * In each window one output in four has an entry, and often the relu before the pool has removed that too. So the kernel works
 * entry by entry, and a vector is what an entry is multiplied with: KW*in adjacent floats of the image and of transposed weights.
 * Bits say which entries are live; walking the set bits of a word costs no more than walking a list.
 *
 * Data gradient: with the kernel's rows in descending order outside and outputs in the order of the image inside, entries are added
 * to every element of dx in the order of the definition. The weights of one row of the kernel stay in L1 meanwhile. */
#include "kernel/cpu/live.h"
#include "kernel/cpu/finite.h"
#include "kernel/cpu/products.h"
#include "kernel/cpu/transpose.h"
#include "kernel/cpu/window.h"
#include <assert.h>

#define ALWAYS static inline __attribute__((always_inline))

enum { MOST = 12, WORD = 64 }; /* vectors of one walk; bits of a word */

typedef struct live {
    lki_axis       axis[2];         /* of the convolution, up to the last output that is in a window */
    int64_t        images, H, W, C; /* x */
    int64_t        PH, PW, O;       /* d */
    int64_t        run, row;        /* floats of a kernel's row for one out channel, and the same in whole vectors */
    const float   *d;
    const float   *y; /* with relu: entries count where it is > 0; else NULL */
    const uint8_t *cell;
} live;

static live live_of(const lki_args *g, const lk_shape *x, const lk_shape *w, int d)
{
    const lk_shape *p = g->src[d].shape;
    const int64_t  *i = &x->dim[x->rank - 3], *o = &p->dim[p->rank - 3];
    live            v = {.images = 1, .H = i[0], .W = i[1], .C = i[2], .PH = o[0], .PW = o[1], .O = o[2]};
    for (int a = 0; a < x->rank - 3; a++)
        v.images *= x->dim[a];
    v.axis[0] = lki_axis_of(&g->attr->window, 0, v.H, 2 * v.PH);
    v.axis[1] = lki_axis_of(&g->attr->window, 1, v.W, 2 * v.PW);
    v.run = w->dim[1] * v.C;
    v.row = lki_round_up(v.run, WIDTH);
    v.d = g->src[d].data;
    v.y = g->attr->epilogue.relu ? g->src[3].data : NULL;
    v.cell = g->src[d + 1].data;
    return v;
}

/* The cell of the image under the first tap of an output. */
static inline int64_t first_cell(const lki_axis *x, int64_t o) { return o * x->stride - x->pad; }

/* ---- the data gradient ------------------------------------------------------------------------------------------------------- */

static int64_t words_of(const live *v) { return lki_ceil_div(v->O, WORD); }

static int64_t turned_floats(const live *v) { return v->axis[0].size * v->O * v->row + WIDTH; }

/* [kh, kw, in, out] to [kh, out, kw, in]. */
static void turn_weights(const live *v, const float *w, float *turned)
{
    for (int64_t kh = 0; kh < v->axis[0].size; kh++)
        lki_transpose(w + kh * v->run * v->O, v->O, v->run, v->O, turned + kh * v->O * v->row, v->row);
}

/* The live channels of each output of one image, in the order of the outputs. */
static void find_live(const live *v, int64_t image, uint64_t *bits)
{
    const int64_t words = words_of(v), below = 2 * v->PW * words;
    int64_t       at = image * v->PH * v->PW * v->O;
    for (int64_t y = 0; y < v->PH; y++, bits += below) /* two rows of outputs for one of windows */
        for (int64_t x = 0; x < v->PW; x++, bits += 2 * words, at += v->O)
            for (int64_t word = 0; word < words; word++) {
                const int64_t  from = at + word * WORD, n = lki_min(WORD, v->O - word * WORD);
                const uint64_t alive = live_word(v->d + from, n) & (v->y ? positive_word(v->y + from, n) : ~0ull);
                uint64_t       is[4];
                cell_words(v->cell + from, n, is);
                bits[word] = alive & is[0];
                bits[words + word] = alive & is[1];
                bits[below + word] = alive & is[2];
                bits[below + words + word] = alive & is[3];
            }
}

typedef struct output { /* the entries of one output */
    const uint64_t *bits;
    int64_t         words;
    const float    *d; /* by channel */
} output;

/* clang-format off */
#define EACH_COUNT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define UNROLL _Pragma("GCC unroll 12")
/* clang-format on */

/* sum += the entries times their rows of weights, N vectors. */
ALWAYS void add_entries(const int N, vf *sum, const output *p, const float *w, int64_t row)
{
    const float *d = p->d;
    for (int64_t word = 0; word < p->words; word++, d += WORD, w += WORD * row)
        for (uint64_t left = p->bits[word]; left; left &= left - 1) {
            const int64_t o = __builtin_ctzll(left);
            const float  *b = w + o * row;
            const vf      factor = factor_of(d + o);
            UNROLL
            for (int i = 0; i < N; i++)
                sum[i] = vf_fma(factor, vf_load(b + i * WIDTH), sum[i]);
        }
}

/* dx += sums; of the last vector only `floats` elements. */
ALWAYS void add_to(const int N, const output *p, const float *w, int64_t row, float *dx, int64_t floats)
{
    const vm last = vm_first(floats);
    vf       sum[MOST];
    UNROLL
    for (int i = 0; i < N - 1; i++)
        sum[i] = vf_load(dx + i * WIDTH);
    sum[N - 1] = vf_load_some(dx + (N - 1) * WIDTH, last);
    add_entries(N, sum, p, w, row);
    UNROLL
    for (int i = 0; i < N - 1; i++)
        vf_store(dx + i * WIDTH, sum[i]);
    if (floats >= WIDTH) vf_store(dx + (N - 1) * WIDTH, sum[N - 1]);
    else vf_store_some(dx + (N - 1) * WIDTH, last, sum[N - 1]);
}

typedef void add_fn(const output *p, const float *w, int64_t row, float *dx, int64_t floats);
#define ADD_FUNCTION(n)                                                                                                            \
    static void add_##n(const output *p, const float *w, int64_t row, float *dx, int64_t floats)                                   \
    {                                                                                                                              \
        add_to(n, p, w, row, dx, floats);                                                                                          \
    }
EACH_COUNT(ADD_FUNCTION)

#define ADD_ENTRY(n) add_##n,
static add_fn *const adds[MOST] = {EACH_COUNT(ADD_ENTRY)};

/* `floats` adjacent elements of the image and of each row of weights. */
static void add_run(const output *p, const float *w, int64_t row, float *dx, int64_t floats)
{
    for (; floats > MOST * WIDTH; floats -= MOST * WIDTH, w += MOST * WIDTH, dx += MOST * WIDTH)
        adds[MOST - 1](p, w, row, dx, WIDTH);
    const int64_t vectors = (floats + WIDTH - 1) / WIDTH;
    adds[vectors - 1](p, w, row, dx, floats - (vectors - 1) * WIDTH);
}

/* One row of outputs and one row of the kernel. */
typedef struct line {
    const live     *v;
    const uint64_t *bits; /* of the outputs of the row */
    const float    *d;    /* of the windows of the row */
    const float    *w;    /* turned, of the kernel's row */
    float          *dx;   /* the row of the image that is changed */
    int64_t         words;
} line;

static inline output output_of(const line *l, int64_t ox)
{
    return (output){l->bits + ox * l->words, l->words, l->d + (ox >> 1) * l->v->O};
}

/* The outputs from..to - 1: their taps inside the image, in one run if they are adjacent. */
static void add_outputs(const line *l, int64_t from, int64_t to)
{
    const live     *v = l->v;
    const lki_axis *x = &v->axis[1];
    for (int64_t ox = from; ox < to; ox++) {
        const output  p = output_of(l, ox);
        const int64_t first = lki_first_tap(x, ox), last = lki_last_tap(x, ox);
        const int64_t step = x->dilation == 1 ? lki_max(1, last - first) : 1;
        for (int64_t kw = first; kw < last; kw += step)
            add_run(&p, l->w + kw * v->C, v->row, l->dx + (first_cell(x, ox) + kw * x->dilation) * v->C, step * v->C);
    }
}

/* The same for outputs with all taps inside, stride 1 and S vectors of channels: neighbouring outputs share all but one of their K
 * pixels, so sums stay in registers, and with each output one pixel is stored and one is loaded. */
ALWAYS void slide_outputs(const int K, const int S, const line *l, int64_t from, int64_t to)
{
    float *dx = l->dx + (from - l->v->axis[1].pad) * l->v->C;
    vf     sum[MOST];
    if (from >= to) return;
    UNROLL
    for (int i = 0; i < (K - 1) * S; i++)
        sum[i] = vf_load(dx + i * WIDTH);
    for (int64_t ox = from; ox < to; ox++, dx += S * WIDTH) {
        const output p = output_of(l, ox);
        UNROLL
        for (int i = (K - 1) * S; i < K * S; i++)
            sum[i] = vf_load(dx + i * WIDTH);
        add_entries(K * S, sum, &p, l->w, K * S * WIDTH);
        UNROLL
        for (int i = 0; i < S; i++)
            vf_store(dx + i * WIDTH, sum[i]);
        UNROLL
        for (int i = 0; i < (K - 1) * S; i++)
            sum[i] = sum[i + S];
    }
    UNROLL
    for (int i = 0; i < (K - 1) * S; i++)
        vf_store(dx + i * WIDTH, sum[i]);
}

typedef void outputs_fn(const line *l, int64_t from, int64_t to);
#define SLIDE_FUNCTION(k, s)                                                                                                       \
    static void slide_##k##_##s(const line *l, int64_t from, int64_t to) { slide_outputs(k, s, l, from, to); }
SLIDE_FUNCTION(3, 1)
SLIDE_FUNCTION(3, 2)
SLIDE_FUNCTION(3, 4)
SLIDE_FUNCTION(5, 1)
SLIDE_FUNCTION(5, 2)

static outputs_fn *slide_for(const live *v)
{
    static const struct {
        int64_t     k, s;
        outputs_fn *fn;
    } slides[] = {{3, 1, slide_3_1}, {3, 2, slide_3_2}, {3, 4, slide_3_4}, {5, 1, slide_5_1}, {5, 2, slide_5_2}};
    const lki_axis *x = &v->axis[1];
    for (size_t i = 0; i < sizeof slides / sizeof slides[0]; i++)
        if (x->size == slides[i].k && v->C == slides[i].s * WIDTH && x->stride == 1 && x->dilation == 1) return slides[i].fn;
    return add_outputs;
}

static void image_gradient(const live *v, int64_t image, const float *turned, const uint64_t *bits, float *dx)
{
    const lki_axis *x = &v->axis[1];
    outputs_fn     *slide = slide_for(v);
    const int64_t   words = words_of(v), inside = lki_first_out(x, 0), border = lki_max(inside, lki_last_out(x, x->size - 1));
    memset(dx, 0, (size_t)(v->H * v->W * v->C) * sizeof *dx);
    for (int64_t kh = v->axis[0].size - 1; kh >= 0; kh--)
        for (int64_t oy = lki_first_out(&v->axis[0], kh); oy < lki_last_out(&v->axis[0], kh); oy++) {
            const int64_t ih = first_cell(&v->axis[0], oy) + kh * v->axis[0].dilation;
            const line    l = {v,
                               bits + oy * 2 * v->PW * words,
                               v->d + (image * v->PH + oy / 2) * v->PW * v->O,
                               turned + kh * v->O * v->row,
                               dx + ih * v->W * v->C,
                               words};
            add_outputs(&l, 0, inside);
            slide(&l, inside, border);
            add_outputs(&l, border, 2 * v->PW);
        }
}

static live data_gradient_of(const lki_args *g) { return live_of(g, g->dst[0].shape, g->src[2].shape, 0); }

static size_t data_scratch(const lki_args *g)
{
    const live v = data_gradient_of(g);
    return (size_t)(4 * v.PH * v.PW * words_of(&v)) * sizeof(uint64_t) + (size_t)turned_floats(&v) * sizeof(float);
}

void ISA(lki_f32_conv2d_pool_grad_x)(const lki_args *g)
{
    const live    v = data_gradient_of(g);
    const int64_t size = v.H * v.W * v.C;
    float        *turned = g->scratch;
    uint64_t     *bits = (uint64_t *)(turned + turned_floats(&v));
    if (g->lo >= g->hi) return;
    turn_weights(&v, g->src[2].data, turned);
    for (int64_t n = g->lo / size; n < g->hi / size; n++) {
        find_live(&v, n, bits);
        image_gradient(&v, n, turned, bits, (float *)g->dst[0].data + n * size);
    }
}

#include "kernel/cpu/live_grad_w.inc"

void ISA(lki_register_live)(lki_kernels *k)
{
    lki_kernel_set(k, LKI_K_conv2d_pool_grad_x, LK_F32, ISA(lki_f32_conv2d_pool_grad_x), data_scratch, VARIANT);
    lki_kernel_set(k, LKI_K_conv2d_pool_grad_w, LK_F32, ISA(lki_f32_conv2d_pool_grad_w), weight_scratch, VARIANT);
}
