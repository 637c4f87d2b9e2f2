/* Functions of bytes: gathering and computing in one pass gives the bits of op after op, in every form, on every instruction set,
 * alone and in a team; a cache keeps the bytes. */
#include "core/cpu.h"
#include "core/memory.h"
#include "core/thread.h"
#include "data/gather.h"
#include "pipes.h"
#include <sys/resource.h>

/* ---- functions ---- */

#define FUNCTION(name, expression)                                                                                                 \
    static lk_tensor *name(lk_tensor *b) { return expression; }
#define F32 lk_cast(b, LK_F32)
FUNCTION(as_float, F32)
FUNCTION(over_255, lk_div(F32, lk_scalar(255)))
FUNCTION(times_255th, lk_mul(F32, lk_scalar(1.0 / 255)))
FUNCTION(centred, lk_sub(lk_div(F32, lk_scalar(127.5)), lk_scalar(1)))
FUNCTION(standard, lk_div(lk_sub(lk_div(F32, lk_scalar(255)), lk_scalar(0.1307)), lk_scalar(0.3081)))
FUNCTION(over_3, lk_div(F32, lk_scalar(3)))
FUNCTION(over_minus_7, lk_div(F32, lk_scalar(-7)))
FUNCTION(bent, lk_tanh(lk_mul(F32, lk_scalar(0.01))))
FUNCTION(tiny, lk_mul(F32, lk_scalar(1e-40)))
FUNCTION(small, lk_div(F32, lk_scalar(1e38)))
FUNCTION(huge, lk_mul(F32, lk_scalar(1e37)))
FUNCTION(flat, lk_mul(F32, lk_scalar(0)))
FUNCTION(inverse, lk_div(lk_scalar(1), F32))
FUNCTION(logs, lk_log(lk_sub(F32, lk_scalar(100))))

typedef lk_tensor    *byte_fn(lk_tensor *b);
static byte_fn *const FN[] = {as_float, over_255, times_255th, centred, standard, over_3,  over_minus_7,
                              bent,     tiny,     small,       huge,    flat,     inverse, logs};

static lk_tuple on_row(lk_tuple e, void *user) { return LK_TUPLE(FN[*(const int *)user](e.item[0]), e.item[1]); }

static lk_tuple on_row_reshaped(lk_tuple e, void *user)
{
    lk_tensor *x = FN[*(const int *)user](e.item[0]);
    return LK_TUPLE(lk_reshape(e.item[1], LK_SHAPE(1)), lk_reshape(x, LK_SHAPE(1, lk_size(x))));
}

static lk_tensor *some_bytes(int64_t rows, int64_t size)
{
    uint8_t *x = malloc((size_t)(rows * size) + 1);
    for (int64_t i = 0; i < rows * size; i++)
        x[i] = (uint8_t)(i * 37 + i / 256);
    lk_tensor *t = lk_tensor_from(LK_SHAPE(rows, size), LK_U8, x);
    free(x);
    return t;
}

static lk_dataset *numbered(lk_tensor *x, int64_t first)
{
    const int64_t rows = lk_dim(x, 0);
    lk_tensor    *y = lk_add(lk_range(rows, LK_I64), lk_fill(LK_SHAPE(), LK_I64, (double)first));
    return lk_dataset_from_tensor_slices(LK_TUPLE(x, y));
}

static bool same_floats(const void *a, const void *b, int64_t n) { return !n || !memcmp(a, b, (size_t)n * sizeof(float)); }

/* ---- batches ---- */

/* Rows of two sets, shuffled; each has the bits its bytes get from the ops. */
static void check_batches(lk_dataset *d, lk_tensor *whole, int64_t size, int x, int64_t *seen)
{
    const float *all = lk_data(whole);
    *seen = 0;
    LK_FOR_EACH(b, d) {
        const float   *got = lk_data(b.item[x]);
        const int64_t *row = lk_data(b.item[1 - x]);
        for (int64_t i = 0; i < lk_dim(b.item[x], 0); i++, ++*seen)
            assert_true(same_floats(got + i * size, all + row[i] * size, size));
    }
    good();
}

TEST(batches_have_the_bits_of_ops)
{
    static const int64_t sizes[] = {1, 3, 15, 16, 17, 100, 784};
    enum { ROWS = 90, REST = 37 };
    for (int f = 0; f < LKI_COUNT(FN); f++)
        for (int k = 0; k < LKI_COUNT(sizes); k++)
            LK_POOL {
                const int64_t size = sizes[k];
                int64_t       seen;
                lk_tensor    *x = some_bytes(ROWS + REST, size), *whole = FN[f](x);
                lk_tensor  *a = lk_slice(x, LK_AXES(0, 0), LK_AXES(ROWS, -1)), *b = lk_slice(x, LK_AXES(ROWS, 0), LK_AXES(-1, -1));
                lk_dataset *rows = lk_dataset_concatenate(numbered(a, 0), numbered(b, ROWS));
                lk_dataset *d = lk_dataset_batch(lk_dataset_shuffle(lk_dataset_map(rows, on_row, &f), 50), 16);
                check_batches(d, whole, size, 0, &seen);
                assert_int_equal(seen, ROWS + REST);
                d = lk_dataset_batch(lk_dataset_shuffle(lk_dataset_map(rows, on_row_reshaped, &f), 50), 16);
                check_batches(d, whole, size, 1, &seen);
                assert_int_equal(seen, ROWS + REST);
            }
}

/* Rows that are made when they are needed, and rows that a map computes: what is below is settled first. */
TEST(digits_through_a_function)
{
    LK_POOL {
        int          f = 1;
        lk_dataset  *d = lk_dataset_take(lk_digits(), 40);
        lk_tuple     bytes, floats;
        lk_iterator *raw = lk_iterator_of(lk_dataset_batch(d, 40));
        lk_iterator *made = lk_iterator_of(lk_dataset_batch(lk_dataset_map(d, on_row, &f), 40));
        assert_true(lk_next(raw, &bytes) && lk_next(made, &floats));
        lk_tensor *want = over_255(bytes.item[0]);
        assert_true(same_floats(lk_data(floats.item[0]), lk_data(want), lk_size(want)));
        good();
    }
}

/* ---- forms ---- */

static lki_byte_map function_of(byte_fn *fn)
{
    lki_byte_map f;
    uint8_t      all[LKI_BYTE_VALUES];
    for (int i = 0; i < LKI_BYTE_VALUES; i++)
        all[i] = (uint8_t)i;
    memcpy(f.table, lk_data(fn(lk_tensor_from(LK_SHAPE(LKI_BYTE_VALUES), LK_U8, all))), sizeof f.table);
    lki_bytes_choose(&f);
    return f;
}

static void check_function(const lki_byte_map *f, lki_bytes_fn *apply)
{
    enum { MOST_BYTES = 300 };
    uint8_t src[MOST_BYTES];
    float   dst[MOST_BYTES + 1], want[MOST_BYTES];
    for (int i = 0; i < MOST_BYTES; i++) {
        src[i] = (uint8_t)(i * 7);
        want[i] = f->table[src[i]];
    }
    for (int n = 0; n <= MOST_BYTES; n++) {
        dst[n] = 77;
        apply(f, n, src, dst);
        assert_true(same_floats(dst, want, n));
        assert_true(dst[n] == 77);
    }
}

TEST(every_instruction_set_gives_the_table)
{
    const unsigned before = lki_fp_enter();
    for (int i = 0; i < LKI_COUNT(FN); i++)
        LK_POOL {
            lki_byte_map f = function_of(FN[i]);
            check_function(&f, f.apply);
#if defined(__x86_64__)
            if (lki_cpu_isa() >= LKI_ISA_AVX2) check_function(&f, lki_bytes_avx2);
            if (lki_cpu_isa() >= LKI_ISA_AVX512) check_function(&f, lki_bytes_avx512);
#endif
        }
    lki_fp_leave(before);
}

TEST(pictures_are_computed_not_looked_up)
{
    if (lki_cpu_isa() < LKI_ISA_AVX2) return;
    LK_POOL {
        assert_int_equal(function_of(as_float).form, LKI_BYTES_PRODUCT);
        assert_int_equal(function_of(times_255th).form, LKI_BYTES_PRODUCT);
        assert_int_equal(function_of(over_255).form, LKI_BYTES_QUOTIENT);
        assert_int_equal(function_of(centred).form, LKI_BYTES_QUOTIENT);
        assert_int_equal(function_of(bent).form, LKI_BYTES_LOOKUP);
    }
}

/* ---- in a team ---- */

TEST(a_team_gathers_the_same)
{
    enum { ROWS = 500, SIZE = 784 };
    LK_POOL {
        lk_tensor   *x = some_bytes(ROWS, SIZE);
        lki_rowset  *set = lki_rowset_plain(ROWS, 1, &x);
        lki_byte_map f = function_of(over_255);
        lki_element *e = malloc(ROWS * sizeof *e);
        float       *alone = malloc(ROWS * SIZE * sizeof *alone), *shared = malloc(ROWS * SIZE * sizeof *shared);
        for (int i = 0; i < ROWS; i++)
            e[i] = (lki_element){set, (i * 131) % ROWS};
        for (int through = 0; through < 2; through++)
            for (int n = 1; n <= ROWS; n += 83)
                for (int team = 1; team <= 5; team++) {
                    const size_t  bytes = (size_t)n * SIZE * (through ? sizeof(float) : 1);
                    lki_gathering g = {n, e, 0, SIZE, through ? &f : NULL, alone};
                    lki_gather(&g);
                    memset(shared, 0xee, bytes);
                    g.dst = shared;
                    lki_gather_together(team);
                    lki_gather(&g);
                    lki_gather_together(1);
                    assert_memory_equal(alone, shared, bytes);
                }
        good();
        free(e);
        free(alone);
        free(shared);
        lki_rowset_drop(set, 1);
    }
}

/* What a function makes of bytes is found with 256 of them, however long a row is. */
TEST(a_long_row_is_not_run_to_find_its_function)
{
    enum { SIZE = 16 << 20 };
    LK_POOL {
        int           f = 1;
        lk_tensor    *row = lk_zeros(LK_SHAPE(SIZE / 4, 4), LK_U8), *number = lk_zeros(LK_SHAPE(), LK_I64);
        struct rusage before, after;
        lki_memory_trim();
        getrusage(RUSAGE_SELF, &before);
        lki_vector *v = lki_vector_of(on_row, &f, 2, (lk_tensor *const[]){row, number});
        getrusage(RUSAGE_SELF, &after);
        assert_true(v && lki_vector_is_direct(v));
        assert_true(after.ru_maxrss - before.ru_maxrss < SIZE / 1024); /* KiB */
        lki_vector_drop(v);
    }
    good();
}

/* A consumer that takes its time ends up making batches itself. */
TEST(who_makes_a_batch_does_not_show)
{
    enum { ROWS = 4000, SIZE = 784 };
    LK_POOL {
        int          f = 1, batches = 0;
        lk_dataset  *rows = lk_dataset_map(numbered(some_bytes(ROWS, SIZE), 0), on_row, &f);
        lk_dataset  *d = lk_dataset_batch(lk_dataset_shuffle(rows, ROWS, .reshuffle_each_iteration = LK_OFF), 64);
        lk_iterator *it = lk_iterator_of(d), *ahead = lk_iterator_of(lk_dataset_prefetch(d, 2));
        lk_tuple     a, b;
        for (; lk_next(it, &a); batches++) {
            assert_true(lk_next(ahead, &b));
            assert_true(same_floats(lk_data(a.item[0]), lk_data(b.item[0]), lk_size(a.item[0])));
            assert_memory_equal(lk_data(a.item[1]), lk_data(b.item[1]), (size_t)lk_size(a.item[1]) * sizeof(int64_t));
            usleep(1000);
        }
        assert_false(lk_next(ahead, &b));
        assert_int_equal(batches, (ROWS + 63) / 64);
        good();
    }
}

/* ---- cached ---- */

TEST(a_cache_keeps_bytes)
{
    enum { ROWS = 2000, SIZE = 784 };
    LK_POOL {
        int           f = 1;
        lk_tensor    *x = some_bytes(ROWS, SIZE), *whole = over_255(x);
        lk_dataset   *cached = lk_dataset_cache(lk_dataset_map(numbered(x, 0), on_row, &f));
        lk_dataset   *d = lk_dataset_batch(lk_dataset_shuffle(cached, ROWS), 64);
        const int64_t before = lki_memory_in_use();
        int64_t       seen;
        for (int epoch = 0; epoch < 3; epoch++) {
            check_batches(d, whole, SIZE, 0, &seen);
            assert_int_equal(seen, ROWS);
        }
        assert_true(lki_memory_in_use() - before < (int64_t)ROWS * SIZE / 2); /* four bytes for each would be eight times as much */
    }
}

/* ---- shuffles draw ahead ---- */

/* One element at a time there is nothing to draw ahead. */
TEST(orders_do_not_depend_on_how_many_are_asked_for)
{
    static const int sizes[] = {2, 63, 64, 65, 200, 1000};
    static const int buffers[] = {1, 10, 64, 100, 999, 1000, 5000};
    for (int b = 0; b < LKI_COUNT(buffers); b++)
        LK_POOL {
            lk_dataset *d = lk_dataset_shuffle(lk_dataset_range(1000), buffers[b], .reshuffle_each_iteration = LK_OFF);
            trail      *one = walk(d);
            for (int k = 0; k < LKI_COUNT(sizes); k++) {
                int n = 0;
                LK_FOR_EACH(batch, lk_dataset_batch(d, sizes[k]))
                    for (int64_t i = 0; i < lk_size(batch.item[0]); i++, n++)
                        assert_true(lki_element_get(lk_tensor_dtype(batch.item[0]), lk_data(batch.item[0]), i) ==
                                    one->value[2 * n + 1]);
                assert_int_equal(n, 1000);
            }
            free(one);
        }
}

TESTS(cmocka_unit_test(batches_have_the_bits_of_ops), cmocka_unit_test(digits_through_a_function),
      cmocka_unit_test(every_instruction_set_gives_the_table), cmocka_unit_test(pictures_are_computed_not_looked_up),
      cmocka_unit_test(a_team_gathers_the_same), cmocka_unit_test(a_long_row_is_not_run_to_find_its_function),
      cmocka_unit_test(who_makes_a_batch_does_not_show), cmocka_unit_test(a_cache_keeps_bytes),
      cmocka_unit_test(orders_do_not_depend_on_how_many_are_asked_for))
