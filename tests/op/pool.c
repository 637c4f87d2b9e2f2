/* Pooling: every vectorised kernel gives the bits of the reference; which cell wins among equal ones, zeros and NaN; cells refer to
 * the values; both gradients are adjoint to their forward kernels. */
#include "cases.h"

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
    for (int i = 0; i < 2; i++)
        win.pad[i] = random_below(win.size[i]);
    layer l = layer_of(random_below(4), 4 + random_below(9), 4 + random_below(9), PICK(1, 3, 8, 16, 31, 32, 33), 1, win, 0);
    return l;
}

TEST(test_pool)
{
    check_pool(square(2, 26, 32, 1, 2, 2, 1, 0), 0);
    check_pool(square(2, 11, 64, 1, 2, 2, 1, 0), 1);
    check_pool(square(1, 20, 3, 1, 17, 2, 1, 3), 0); /* 289 cells */
    check_pool(square(2, 7, 40, 1, 7, 1, 1, 0), 0);
    for (int wild = 0; wild < 2; wild++) { /* windows that overlap, several vectors of channels side by side */
        check_pool(square(2, 16, 64, 1, 3, 2, 1, 1), wild);
        check_pool(square(1, 12, 200, 1, 3, 2, 1, 0), wild);
        check_pool(square(2, 9, 137, 1, 3, 1, 1, 1), wild);
        check_pool(square(1, 8, 256, 1, 8, 8, 1, 0), wild);
    }
    for (int i = 0; i < 200; i++)
        check_pool(random_pool(), i % 2);
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

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pool), cmocka_unit_test(test_pool_values),
                                       cmocka_unit_test(test_pool_f64)};
    return cmocka_run_group_tests(tests, fill_tables, NULL);
}
