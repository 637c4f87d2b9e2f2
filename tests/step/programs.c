/* Every public op and layer, with its gradient, recorded by several replicas: compiled and op by op give the same, whether the
 * replicas run as one device or one beside the other; for full and short batches, and replicas without rows. */
#include "op/programs.h"
#include "check.h"
#include "step/replicas.h"
#include <math.h>
#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { EVERY = 3 };
#else
enum { EVERY = 1 }; /* one program in this many */
#endif
enum { GLOBAL = 16 };

typedef enum form { ALL, SUMS_REDUCED } form; /* what comes out: each replica's own of everything, or of sums the sum of all */

typedef struct setting {
    const program *program;
    lk_strategy   *strategy;
    form           form;
} setting;

static bool is_sum(const lk_tensor *t)
{
    const lk_tensor *first = t->replicas ? t->replicas->item[0] : t;
    return t->replicas && lki_is_float(first->dtype) && (first->rows.kind == LKI_ROW_SUM || first->rows.kind == LKI_MIXED);
}

static bool is_lost(const lk_tensor *t) { return (t->replicas ? t->replicas->item[0] : t)->rows.kind == LKI_LOCAL; }

static lk_tuple by_replicas(lk_tuple in, void *user)
{
    const setting *s = user;
    lk_tensor     *item[32];
    int            count = 0;
    lk_tuple       out = lk_run(s->strategy, program_with_gradient, in, (void *)s->program);
    if (s->form == ALL) return out;
    for (int i = 0; i < out.count; i++)
        if (!is_lost(out.item[i])) item[count++] = is_sum(out.item[i]) ? lk_reduce(s->strategy, LK_SUM, out.item[i]) : out.item[i];
    return lk_tuple_from(count, item);
}

/* ---- comparing ---- */

static bool near(double a, double b, double scale) { return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-5 * scale; }

static double largest(const lk_tensor *t)
{
    double most = 1;
    for (int64_t i = 0; i < lk_size(t); i++) {
        double x = fabs(lki_element_get(t->dtype, t->data, i));
        if (isfinite(x) && x > most) most = x;
    }
    return most;
}

static bool equal(const lk_tensor *a, const lk_tensor *b, bool exactly)
{
    if (a->dtype != b->dtype || !lki_shape_equal(&a->shape, &b->shape)) return false;
    double scale = exactly ? 0 : largest(a);
    for (int64_t i = 0; i < lk_size(a); i++) {
        double x = lki_element_get(a->dtype, a->data, i), y = lki_element_get(b->dtype, b->data, i);
        if (!near(x, y, scale) || (exactly && x == y && signbit(x) != signbit(y))) return false;
    }
    return true;
}

static bool equal_results(const lk_tensor *a, const lk_tensor *b, int replicas, bool exactly)
{
    if (!a->replicas != !b->replicas) return false;
    if (!a->replicas) return equal(a, b, exactly);
    if (a->replicas->count != replicas || b->replicas->count != replicas || a->replicas->strategy != b->replicas->strategy)
        return false;
    for (int r = 0; r < replicas; r++)
        if (!equal(a->replicas->item[r], b->replicas->item[r], exactly)) return false;
    return true;
}

/* ---- all of them ---- */

static int refusals;

static void count_refusals(const char *text, void *user)
{
    (void)user;
    if (strstr(text, "planned one beside the other")) refusals++; /* said by the caller's thread only */
}

static lk_tuple inputs(const setting *s, int64_t rows, int salt)
{
    lk_tensor *item[8];
    lk_tuple   all = program_inputs(s->program, LK_F32, rows, true, GLOBAL, salt);
    for (int i = 0; i < all.count; i++)
        item[i] = all.item[i]->rows.kind == LKI_ROWS ? hand_out(s->strategy, all.item[i], GLOBAL) : all.item[i];
    return lk_tuple_from(all.count, item);
}

static int tell(const setting *s, int replicas, int64_t rows, int item)
{
    print_error("%s, %d replicas, %d rows: %s, result %d\n", s->program->name, replicas, (int)rows,
                lk_failed() ? lk_error() : "differs", item);
    lk_clear_error();
    return 1;
}

/* What each replica sees of a sum over lanes that are not a single subtree has another order when compiled. */
static bool is_exact(const setting *s, const lk_tensor *t, int replicas)
{
    return (lk_lanes() % replicas == 0 && t->replicas) || s->form == ALL;
}

static int compare(const setting *s, int replicas, int64_t rows)
{
    int bad = 0;
    LK_POOL {
        lk_function *f = lk_function_of(by_replicas, (void *)s, .name = s->program->name);
        for (int salt = 0; salt < 20 && !bad; salt += 10)
            LK_STEP {
                lk_tuple in = inputs(s, rows, salt), eager = by_replicas(in, (void *)s), compiled = lk_call(f, in);
                if (lk_failed() || eager.count != compiled.count) bad = tell(s, replicas, rows, -1);
                for (int i = 0; i < eager.count && !bad; i++)
                    if (!equal_results(eager.item[i], compiled.item[i], replicas, is_exact(s, eager.item[i], replicas)))
                        bad = tell(s, replicas, rows, i);
            }
    }
    return bad;
}

static void all_programs(form what)
{
    static const int counts[] = {2, 3, 4, 8}, rows[] = {16, 13, 5};
    int              bad = 0, runs = 0;
    refusals = 0;
    for (int n = 0; n < LKI_COUNT(counts); n++)
        LK_POOL {
            setting s = {.strategy = lk_mirrored_strategy(.cpu_devices = counts[n]), .form = what};
            lk_set_log(count_refusals, NULL);
            lk_set_verbose("lanes");
            lk_set_threads(1 + n % 3);
            for (int i = n % EVERY; i < LKI_COUNT(programs); i += EVERY)
                for (int k = 0; k < LKI_COUNT(rows); k++) {
                    s.program = &programs[i];
                    if (k && programs[i].flags & R) continue;
                    runs++;
                    bad += compare(&s, counts[n], rows[k]);
                }
            lk_set_verbose("");
            lk_set_log(NULL, NULL);
        }
    lk_set_threads(0);
    print_message("%d of %d ran one beside the other\n", refusals, runs);
    assert_int_equal(bad, 0);
}

TEST(each_replicas_results) { all_programs(ALL); }

TEST(sums_over_replicas) { all_programs(SUMS_REDUCED); }

/* ---- as on one device ---- */

/* What they compute depends on how many rows a replica has, or where they end: another program for another number of replicas. */
static bool minds_the_split(const program *p)
{
    static const char *const names[] = {"reduce_mean", "reduce_variance", "reduce_loss", "average_loss",
                                        "cumsum",      "slice_rows",      "tile"};
    for (int i = 0; i < LKI_COUNT(names); i++)
        if (!strcmp(p->name, names[i])) return true;
    return false;
}

/* The rows of all replicas are stored one after the other; uniform values are the same on all. */
static bool equals_one(const lk_tensor *many, const lk_tensor *one)
{
    if (!many->replicas) return equal(many, one, true);
    if (many->replicas->whole) return equal(many->replicas->whole, one, true);
    return equal(many->replicas->item[0], one, true);
}

static int compare_with_one(const program *p, lk_strategy *many, lk_strategy *one)
{
    int bad = 0;
    LK_POOL {
        setting      s = {p, many, SUMS_REDUCED}, t = {p, one, SUMS_REDUCED};
        int          before = refusals, n = lk_num_replicas_in_sync(many);
        lk_function *f = lk_function_of(by_replicas, &s, .name = p->name), *g = lk_function_of(by_replicas, &t, .name = p->name);
        lk_tuple     a = lk_call(f, inputs(&s, GLOBAL, 7)), b = lk_call(g, inputs(&t, GLOBAL, 7));
        if (refusals == before && a.count == b.count) {
            if (lk_function_inspect(f).calls != lk_function_inspect(g).calls)
                bad = tell(&s, n, lk_function_inspect(g).calls, lk_function_inspect(f).calls);
            for (int i = 0; i < a.count && !bad; i++)
                if (!equals_one(a.item[i], b.item[i])) bad = tell(&s, n, GLOBAL, i);
        } else refusals = before + 1;
        if (lk_failed()) bad = tell(&s, n, GLOBAL, -1);
    }
    return bad;
}

TEST(replicas_are_one_device)
{
    int bad = 0, runs = 0;
    refusals = 0;
    for (int n = 2; n <= 8; n *= 2)
        LK_POOL {
            lk_strategy *many = lk_mirrored_strategy(.cpu_devices = n), *one = lk_mirrored_strategy(.cpu_devices = 1);
            lk_set_log(count_refusals, NULL);
            lk_set_verbose("lanes");
            for (int i = 0; i < LKI_COUNT(programs); i++)
                if (!minds_the_split(&programs[i])) runs++, bad += compare_with_one(&programs[i], many, one);
            lk_set_verbose("");
            lk_set_log(NULL, NULL);
        }
    print_message("%d of %d could not be compared\n", refusals, runs);
    assert_int_equal(bad, 0);
    assert_true(refusals < runs / 5);
}

/* ---- a custom op ---- */

enum { ASKING = 16 };

static pthread_barrier_t all_are_here;

static void *ask(void *op)
{
    pthread_barrier_wait(&all_are_here);
    *(lk_op **)op = own_op();
    return NULL;
}

/* Before any other test asks for it. A second one is memory that is lost: it lives as long as the process. */
TEST(replicas_make_one_op)
{
    pthread_t thread[ASKING];
    lk_op    *op[ASKING];
    assert_int_equal(pthread_barrier_init(&all_are_here, NULL, ASKING), 0);
    for (int i = 0; i < ASKING; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask, &op[i]), 0);
    for (int i = 0; i < ASKING; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    pthread_barrier_destroy(&all_are_here);
    for (int i = 0; i < ASKING; i++)
        assert_true(op[i] && op[i] == op[0]);
}

TESTS(cmocka_unit_test(replicas_make_one_op), cmocka_unit_test(each_replicas_results), cmocka_unit_test(sums_over_replicas),
      cmocka_unit_test(replicas_are_one_device))
