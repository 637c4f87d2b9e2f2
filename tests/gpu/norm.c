/* Batch and layer normalisation on a GPU against the reference: the same bits; sums over many rows against their own
 * definition, and near the reference. */
#include "parts.h"

static const lk_dtype floats[] = {LK_F32, LK_F64};

static void source(slot_case *c, lk_dtype t, lk_shape s, bool wild) { slot_source(c, t, s, slot_numbers(t, &s, wild)); }

/* ---- batch normalisation: few and many channels, short and long chains, channels in fours and not ---- */

static const lk_shape images[] = {{2, {0, 5}},        {2, {5, 0}},         {2, {1, 1}},       {2, {40, 3}},
                                  {2, {1500, 1}},     {2, {600, 20}},      {2, {9, 64}},      {4, {6, 5, 4, 8}},
                                  {4, {7, 9, 11, 3}}, {4, {16, 8, 8, 10}}, {3, {300, 5, 64}}, {2, {70, 300}}};
enum { IMAGES = sizeof images / sizeof *images };

static lk_shape channels(const lk_shape *s) { return (lk_shape){1, {s->dim[s->rank - 1]}}; }
static lk_shape several(int n, const lk_shape *s) { return (lk_shape){2, {n, s->dim[s->rank - 1]}}; }

static int64_t rows_per_entry(const lk_shape *s)
{
    int64_t n = 1;
    for (int i = 1; i < s->rank - 1; i++)
        n *= s->dim[i];
    return n;
}

/* Of sums in `t` over the rows of src[0]. */
static void row_tolerance(slot_case *c, lk_dtype t)
{
    const int64_t each = rows_per_entry(&c->src[0]), entries = c->src[0].rank > 1 ? c->src[0].dim[0] : 1;
    c->tolerance = parts_tolerance(c, t, entries * each, each);
}

static void sums(int t, const lk_shape *s, int lanes, bool wild)
{
    slot_case c = {.slot = LKI_K_batch_sums, .dtype = floats[t]};
    source(&c, floats[t], *s, wild);
    slot_result(&c, LK_F64, several(3, s), NULL);
    if (lanes) slot_lanes(&c, lanes, s->dim[0]);
    row_tolerance(&c, LK_F64);
    slot_check(&c);
}

static void gradient_sums(int t, const lk_shape *s, int lanes, bool relu, bool wild)
{
    slot_case c = {.slot = LKI_K_batch_grad_sums, .dtype = floats[t]};
    c.attr.epilogue.relu = relu;
    source(&c, floats[t], *s, wild);
    source(&c, floats[t], *s, wild);
    source(&c, floats[t], channels(s), false);
    if (relu) source(&c, floats[t], several(2, s), wild);
    slot_result(&c, LK_F64, several(2, s), NULL);
    if (lanes) slot_lanes(&c, lanes, s->dim[0]);
    row_tolerance(&c, LK_F64);
    slot_check(&c);
}

TEST(test_batch_sums)
{
    static const int lanes[] = {0, 1, 2, 4, 8, 16, 32, 64};
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < IMAGES; i++)
            for (int l = 0; l < 8; l++)
                for (int kind = 0; kind < 2; kind++) {
                    sums(t, &images[i], lanes[l], kind);
                    gradient_sums(t, &images[i], lanes[l], false, kind);
                    gradient_sums(t, &images[i], lanes[l], true, kind);
                }
}

TEST(test_batch_apply)
{
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < IMAGES; i++)
            for (int kind = 0; kind < 4; kind++) {
                slot_case c = {.slot = LKI_K_batch_apply, .dtype = floats[t]};
                c.attr.epilogue.relu = kind % 2;
                source(&c, floats[t], images[i], kind / 2);
                source(&c, floats[t], channels(&images[i]), false);
                source(&c, floats[t], several(2, &images[i]), kind / 2);
                slot_result(&c, floats[t], images[i], NULL);
                slot_check(&c);
            }
}

TEST(test_batch_grad_x)
{
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < IMAGES; i++)
            for (int kind = 0; kind < 4; kind++) {
                slot_case c = {.slot = LKI_K_batch_grad_x, .dtype = floats[t]};
                c.attr.epilogue.relu = kind % 2;
                source(&c, floats[t], images[i], kind / 2);
                source(&c, floats[t], channels(&images[i]), false);
                source(&c, floats[t], images[i], kind / 2);
                source(&c, floats[t], channels(&images[i]), false);
                source(&c, floats[t], several(2, &images[i]), false);
                if (kind % 2) source(&c, floats[t], several(2, &images[i]), kind / 2);
                slot_result(&c, floats[t], images[i], NULL);
                slot_check(&c);
            }
}

/* ---- layer normalisation ---- */

static const lk_shape layers[] = {{2, {0, 5}},     {2, {5, 0}},     {2, {1, 1}},       {2, {3, 7}},
                                  {2, {9, 64}},    {3, {4, 5, 33}}, {2, {3, 128}},     {2, {9, 129}},
                                  {2, {7, 256}},   {2, {3, 257}},   {2, {2, 4096}},    {2, {3, 4097}},
                                  {2, {1, 70000}}, {2, {500, 12}},  {3, {30, 20, 10}}, {1, {40}}};
enum { LAYERS = sizeof layers / sizeof *layers };

static lk_shape rows_of(const lk_shape *s)
{
    lk_shape rows = *s;
    rows.rank--;
    return rows;
}

TEST(test_layer_norm)
{
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < LAYERS; i++)
            for (int wild = 0; wild < 2; wild++) {
                slot_case c = {.slot = LKI_K_layer_norm, .dtype = floats[t]};
                c.attr.num.a = 1e-3;
                source(&c, floats[t], layers[i], wild);
                source(&c, floats[t], channels(&layers[i]), wild);
                source(&c, floats[t], channels(&layers[i]), false);
                slot_result(&c, floats[t], layers[i], NULL);
                slot_result(&c, floats[t], rows_of(&layers[i]), NULL);
                slot_result(&c, floats[t], rows_of(&layers[i]), NULL);
                slot_check(&c);
            }
}

TEST(test_layer_norm_grad_x)
{
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < LAYERS; i++)
            for (int wild = 0; wild < 2; wild++) {
                slot_case c = {.slot = LKI_K_layer_norm_grad_x, .dtype = floats[t]};
                source(&c, floats[t], layers[i], wild);
                source(&c, floats[t], layers[i], wild);
                source(&c, floats[t], channels(&layers[i]), false);
                source(&c, floats[t], rows_of(&layers[i]), false);
                source(&c, floats[t], rows_of(&layers[i]), false);
                slot_result(&c, floats[t], layers[i], NULL);
                slot_check(&c);
            }
}

TEST(test_layer_norm_grad_gamma)
{
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < LAYERS; i++)
            for (int lanes = 0; lanes <= 64; lanes = lanes ? 2 * lanes : 1)
                for (int wild = 0; wild < 2; wild++) {
                    if (lanes && (layers[i].rank < 2 || layers[i].dim[1] > 5000)) continue;
                    slot_case c = {.slot = LKI_K_layer_norm_grad_gamma, .dtype = floats[t]};
                    source(&c, floats[t], layers[i], wild);
                    source(&c, floats[t], layers[i], wild);
                    source(&c, floats[t], rows_of(&layers[i]), false);
                    source(&c, floats[t], rows_of(&layers[i]), false);
                    slot_result(&c, floats[t], channels(&layers[i]), NULL);
                    if (lanes) slot_lanes(&c, lanes, layers[i].dim[0]);
                    row_tolerance(&c, floats[t]);
                    slot_check(&c);
                }
}

/* ---- many rows, by the definition: an empty lane, a short one, long ones ---- */

enum {
    LONG_ENTRIES = 500,
    LONG_EACH = 3,
    LONG_ROWS = LONG_ENTRIES * LONG_EACH,
    LONG_COLUMNS = 5,
    LONG_ALL = LONG_ROWS * LONG_COLUMNS
};
static const lk_shape long_shape = {3, {LONG_ENTRIES, LONG_EACH, LONG_COLUMNS}};

static void long_lanes(slot_case *c)
{
    c->lanes = 4;
    memcpy(c->bound, (int64_t[]){0, 40, 40, 300, LONG_ENTRIES}, 5 * sizeof *c->bound);
}

static double of_column(const slot_case *c, const double *a, const double *b, int64_t column)
{
    return parts_column_f64(c, a, b, LONG_ROWS, LONG_EACH, LONG_COLUMNS, column);
}

TEST(test_batch_sums_long)
{
    static double v[LONG_ALL];
    for (int t = 0; t < 2; t++)
        for (int lanes = 0; lanes < 2; lanes++) {
            slot_case c = {.slot = LKI_K_batch_sums, .dtype = floats[t]};
            source(&c, floats[t], long_shape, false);
            slot_result(&c, LK_F64, several(3, &long_shape), NULL);
            if (lanes) long_lanes(&c);
            void *want = slot_start(&c, 0), *gpu = slot_start(&c, 0);
            for (int64_t i = 0; i < LONG_ALL; i++)
                v[i] = lki_element_get(floats[t], c.src_data[0], i);
            for (int64_t k = 0; k < LONG_COLUMNS; k++) {
                ((double *)want)[k] = of_column(&c, v, NULL, k);
                ((double *)want)[LONG_COLUMNS + k] = of_column(&c, v, v, k);
                ((double *)want)[2 * LONG_COLUMNS + k] = LONG_ROWS;
            }
            slot_on_gpu(&c, &gpu);
            slot_compare(&c, 0, want, gpu);
            free(want);
            free(gpu);
            free(c.src_data[0]);
        }
}

TEST(test_batch_grad_sums_long)
{
    static double d[LONG_ALL], x[LONG_ALL];
    for (int lanes = 0; lanes < 2; lanes++) {
        slot_case c = {.slot = LKI_K_batch_grad_sums, .dtype = LK_F32};
        source(&c, LK_F32, long_shape, false);
        source(&c, LK_F32, long_shape, false);
        source(&c, LK_F32, channels(&long_shape), false);
        slot_result(&c, LK_F64, several(2, &long_shape), NULL);
        if (lanes) long_lanes(&c);
        void *want = slot_start(&c, 0), *gpu = slot_start(&c, 0);
        for (int64_t i = 0; i < LONG_ALL; i++) {
            d[i] = ((float *)c.src_data[0])[i];
            x[i] = ((float *)c.src_data[1])[i] - ((float *)c.src_data[2])[i % LONG_COLUMNS];
        }
        for (int64_t k = 0; k < LONG_COLUMNS; k++) {
            ((double *)want)[k] = of_column(&c, d, x, k);
            ((double *)want)[LONG_COLUMNS + k] = of_column(&c, d, NULL, k);
        }
        slot_on_gpu(&c, &gpu);
        slot_compare(&c, 0, want, gpu);
        free(want);
        free(gpu);
        for (int i = 0; i < c.nsrc; i++)
            free(c.src_data[i]);
    }
}

TEST(test_layer_norm_grad_gamma_long)
{
    static float x[LONG_ALL];
    for (int lanes = 0; lanes < 2; lanes++) {
        const lk_shape rows = rows_of(&long_shape);
        slot_case      c = {.slot = LKI_K_layer_norm_grad_gamma, .dtype = LK_F32};
        source(&c, LK_F32, long_shape, false);
        source(&c, LK_F32, long_shape, false);
        source(&c, LK_F32, rows, false);
        source(&c, LK_F32, rows, false);
        slot_result(&c, LK_F32, channels(&long_shape), NULL);
        if (lanes) long_lanes(&c);
        void *want = slot_start(&c, 0), *gpu = slot_start(&c, 0);
        for (int64_t i = 0; i < LONG_ALL; i++)
            x[i] = (((float *)c.src_data[1])[i] - ((float *)c.src_data[2])[i / LONG_COLUMNS]) *
                   ((float *)c.src_data[3])[i / LONG_COLUMNS];
        for (int64_t k = 0; k < LONG_COLUMNS; k++)
            ((float *)want)[k] = parts_column_f32(&c, c.src_data[0], x, LONG_ROWS, LONG_EACH, LONG_COLUMNS, k);
        slot_on_gpu(&c, &gpu);
        slot_compare(&c, 0, want, gpu);
        free(want);
        free(gpu);
        for (int i = 0; i < c.nsrc; i++)
            free(c.src_data[i]);
    }
}

TESTS(cmocka_unit_test(test_batch_sums), cmocka_unit_test(test_batch_apply), cmocka_unit_test(test_batch_grad_x),
      cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_layer_norm_grad_x), cmocka_unit_test(test_layer_norm_grad_gamma),
      cmocka_unit_test(test_batch_sums_long), cmocka_unit_test(test_batch_grad_sums_long),
      cmocka_unit_test(test_layer_norm_grad_gamma_long))
