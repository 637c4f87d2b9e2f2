/* Every public op and layer, compiled and op by op, with its gradient: the same bits, whatever the number of threads, with and
 * without rows, for batches that are empty, short and full. */
#include "check.h"
#include "op/programs.h"
#include "op/tensor.h"
#include <math.h>
#include <stdio.h>

#if defined(__SANITIZE_THREAD__)
enum { LANE_COUNTS = 1, EVERY = 3, MANY_ROWS = 400 };
#elif defined(__SANITIZE_ADDRESS__)
enum { LANE_COUNTS = 1, EVERY = 1, MANY_ROWS = 400 };
#else
enum { LANE_COUNTS = 3, EVERY = 1, MANY_ROWS = 1500 }; /* one program in this many */
#endif

/* Any NaN equals any other. */
static bool equal_bits(const lk_tensor *a, const lk_tensor *b)
{
    lk_dtype    dtype = lk_tensor_dtype(a);
    size_t      bytes = lk_dtype_bytes(dtype);
    const char *x = lk_data(a), *y = lk_data(b);
    if (dtype != lk_tensor_dtype(b) || lk_size(a) != lk_size(b)) return false;
    if (memcmp(x, y, (size_t)lk_size(a) * bytes) == 0) return true;
    for (int64_t i = 0; i < lk_size(a); i++)
        if (memcmp(x + (size_t)i * bytes, y + (size_t)i * bytes, bytes) != 0 &&
            !(isnan(lki_element_get(dtype, x, i)) && isnan(lki_element_get(dtype, y, i))))
            return false;
    return true;
}

typedef struct setting {
    int64_t  rows, global;
    bool     mark;
    int      lanes, threads;
    lk_dtype dtype;
} setting;

static int tell(const program *p, const setting *s, int salt, const char *what, int item)
{
    print_error("%s: rows %lld%s of %lld, lanes %d, threads %d, values %d: %s %d\n", p->name, (long long)s->rows,
                s->mark ? " (marked)" : "", (long long)s->global, s->lanes, s->threads, salt, lk_failed() ? lk_error() : what,
                item);
    lk_clear_error();
    return 1;
}

static int compare(const program *p, const setting *s)
{
    int bad = 0;
    LK_POOL {
        lk_function *f = lk_function_of(program_with_gradient, (void *)p);
        for (int salt = 0; salt < 20 && !bad; salt += 10)
            LK_STEP {
                lk_tuple in = program_inputs(p, s->dtype, s->rows, s->mark, s->global, salt);
                lk_tuple eager = program_with_gradient(in, (void *)p), compiled = lk_call(f, in);
                if (lk_failed() || eager.count != compiled.count)
                    bad = tell(p, s, salt, "another number of results", compiled.count);
                for (int i = 0; i < eager.count && !bad; i++)
                    if (!equal_bits(eager.item[i], compiled.item[i])) bad = tell(p, s, salt, "differs: item", i);
                for (int i = 0; i < eager.count && !bad; i++)
                    if (eager.item[i]->rows.kind != compiled.item[i]->rows.kind)
                        bad = tell(p, s, salt, "another meaning of rows: item", i);
            }
    }
    return bad;
}

static int sweep(const program *p, int lanes)
{
    static const int64_t rows[] = {0, 1, 3, 8, 17};
    static const int     threads[] = {1, 2, 3, 5};
    int                  bad = 0;
    for (int r = 0; r < LKI_COUNT(rows) && !bad; r++)
        for (int mark = 0; mark < 3 && !bad; mark++)
            for (int t = 0; t < LKI_COUNT(threads) && !bad; t++) {
                if (rows[r] == 0 && p->flags & R) continue;
                lk_set_threads(threads[t]);
                bad = compare(p, &(setting){rows[r], mark == 2 ? 64 : 0, mark > 0, lanes, threads[t], t == 3 ? LK_F64 : LK_F32});
            }
    lk_set_threads(0);
    return bad;
}

TEST(every_program_compiled_equals_op_by_op)
{
    static const int lanes[] = {8, 2, 16};
    int              bad = 0;
    for (int v = 0; v < LANE_COUNTS; v++) {
        lk_set_lanes(lanes[v]);
        for (int i = 0; i < LKI_COUNT(programs); i += EVERY)
            bad += sweep(&programs[i], lanes[v]);
    }
    lk_set_lanes(8);
    assert_int_equal(bad, 0);
}

/* Lanes that are longer than a piece of a chain, values that are shared out in tiles. */
TEST(every_program_on_many_rows)
{
    int bad = 0;
    lk_set_lanes(1);
    lk_set_threads(2);
    for (int i = 0; i < LKI_COUNT(programs); i += EVERY)
        for (int mark = 0; mark < 2; mark++)
            bad += compare(&programs[i], &(setting){MANY_ROWS, 0, mark, 1, 2, LK_F32});
    lk_set_threads(0);
    lk_set_lanes(8);
    assert_int_equal(bad, 0);
}

/* All programs in one function: their plans share memory. */
static lk_tuple all_of_them(lk_tuple in, void *user)
{
    lk_tensor **item = malloc(4096 * sizeof *item);
    int         count = 0, at = 0;
    (void)user;
    for (int i = 0; i < LKI_COUNT(programs); i++) {
        int inputs = 1;
        for (const char *c = programs[i].inputs; *c; c++)
            inputs += *c == ' ';
        lk_tuple out = program_with_gradient(lk_tuple_from(inputs, in.item + at), (void *)&programs[i]);
        for (int k = 0; k < out.count; k++)
            item[count++] = out.item[k];
        at += inputs;
    }
    lk_tuple out = lk_tuple_from(count, item);
    free(item);
    return out;
}

TEST(all_programs_as_one_function)
{
    for (int threads = 1; threads <= 3; threads += 2)
        LK_POOL {
            lk_tensor **item = malloc(4096 * sizeof *item);
            int         count = 0, bad = 0;
            for (int i = 0; i < LKI_COUNT(programs); i++) {
                lk_tuple one = program_inputs(&programs[i], LK_F32, 5, true, i % 3 ? 0 : 40, i);
                for (int k = 0; k < one.count; k++)
                    item[count++] = one.item[k];
            }
            lk_set_threads(threads);
            lk_tuple in = lk_tuple_from(count, item), eager = all_of_them(in, NULL),
                     compiled = lk_call(lk_function_of(all_of_them), in);
            free(item);
            if (lk_failed()) print_error("%s\n", lk_error());
            for (int i = 0; i < eager.count; i++)
                bad += !equal_bits(eager.item[i], compiled.item[i]);
            assert_false(lk_failed());
            assert_int_equal(eager.count, compiled.count);
            assert_int_equal(bad, 0);
        }
    lk_set_threads(0);
}

TESTS(cmocka_unit_test(every_program_compiled_equals_op_by_op), cmocka_unit_test(every_program_on_many_rows),
      cmocka_unit_test(all_programs_as_one_function))
