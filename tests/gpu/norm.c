/* Batch and layer normalisation on a GPU against the reference: the same bits. */
#include "slots.h"

static const lk_dtype floats[] = {LK_F32, LK_F64};

static void source(slot_case *c, lk_dtype t, lk_shape s, bool wild) { slot_source(c, t, s, slot_numbers(t, &s, wild)); }

/* ---- batch normalisation: few and many channels, short and long chains, channels in fours and not ---- */

static const lk_shape images[] = {{2, {0, 5}},        {2, {5, 0}},         {2, {1, 1}},       {2, {40, 3}},
                                  {2, {1500, 1}},     {2, {600, 20}},      {2, {9, 64}},      {4, {6, 5, 4, 8}},
                                  {4, {7, 9, 11, 3}}, {4, {16, 8, 8, 10}}, {3, {300, 5, 64}}, {2, {70, 300}}};
enum { IMAGES = sizeof images / sizeof *images };

static lk_shape channels(const lk_shape *s) { return (lk_shape){1, {s->dim[s->rank - 1]}}; }
static lk_shape several(int n, const lk_shape *s) { return (lk_shape){2, {n, s->dim[s->rank - 1]}}; }

static void sums(int t, const lk_shape *s, int lanes, bool wild)
{
    slot_case c = {.slot = LKI_K_batch_sums, .dtype = floats[t]};
    source(&c, floats[t], *s, wild);
    slot_result(&c, LK_F64, several(3, s), NULL);
    if (lanes) slot_lanes(&c, lanes, s->dim[0]);
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
                                  {2, {9, 64}},    {3, {4, 5, 33}}, {2, {2, 4096}},    {2, {3, 4097}},
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
                    slot_check(&c);
                }
}

TESTS(cmocka_unit_test(test_batch_sums), cmocka_unit_test(test_batch_apply), cmocka_unit_test(test_batch_grad_x),
      cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_layer_norm_grad_x), cmocka_unit_test(test_layer_norm_grad_gamma))
