/* Sums over replicas of values computed in every way: random programs over sums of rows, uniform values, shares, values of single
 * replicas and replicas that do different things, and the gradients of those programs. Whatever is known about a value, the sum is
 * the sum of the replicas' values; a compiled function gives the same bits. */
#include "dist/replicas.h"

enum { MOST = 24, FIRST_VALUES = 9, KEPT = 4 };

typedef enum instruction_kind {
    ADD,
    SUB,
    MUL,
    DIV,
    NEG,
    SQUARE,
    TANH,
    TAKE,
    SUM_UP,
    WIDEN,
    RESHAPE,
    IDENTITY,
    STOP,
    MATMUL,
    SCALE,
    KINDS
} instruction_kind;

typedef struct instruction {
    instruction_kind kind;
    int              a, b;
    bool             a_differs, b_differs; /* replica r takes operand a + r */
    bool             kind_differs;         /* odd replicas subtract where others add, and the other way round */
    double           number;
} instruction;

typedef struct program {
    lk_strategy *strategy;
    lk_variable *w, *on_read;
    int          count;
    instruction  step[MOST];
    double       largest[8]; /* by replica */
} program;

/* ---- random programs ---- */

static uint64_t state;

static int roll(int below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)((state >> 11) % (uint64_t)below);
}

static void write_program(program *p)
{
    p->count = 3 + roll(MOST - FIRST_VALUES - 3);
    for (int i = 0; i < p->count; i++) {
        int known = FIRST_VALUES + i;
        int last = roll(3) ? known - 1 - roll(3) : roll(known);
        p->step[i] =
            (instruction){(instruction_kind)roll(KINDS), last, roll(known), !roll(12), !roll(12), !roll(10), 0.25 * (1 + roll(7))};
        if (roll(4) == 0) p->step[i].kind = roll(2) ? ADD : MUL;
    }
}

/* ---- running one ---- */

static lk_tensor *vector_form(lk_tensor *x) { return lk_rank(x) && lk_dim(x, 0) == 3 ? x : lk_broadcast_to(x, LK_SHAPE(3)); }

static lk_tensor *perform(const instruction *k, lk_tensor *a, lk_tensor *b)
{
    switch (k->kind) {
    case ADD: return lk_add(a, b);
    case SUB: return lk_sub(a, b);
    case MUL: return lk_mul(a, b);
    case DIV: return lk_div(a, lk_add(lk_square(b), lk_scalar(1)));
    case NEG: return lk_neg(a);
    case SQUARE: return lk_square(a);
    case TANH: return lk_tanh(a);
    case TAKE: return lk_slice(vector_form(a), LK_AXES(1), LK_AXES(1));
    case SUM_UP: return lk_reduce_sum(a);
    case WIDEN: return vector_form(a);
    case RESHAPE: return lk_reshape(lk_reshape(vector_form(a), LK_SHAPE(-1, 1)), LK_SHAPE(-1));
    case IDENTITY: return lk_identity(a);
    case STOP: return lk_stop_gradient(a);
    case MATMUL:
        return lk_reshape(lk_matmul(lk_reshape(vector_form(a), LK_SHAPE(1, -1)), lk_reshape(vector_form(a), LK_SHAPE(-1, 1))),
                          LK_SHAPE());
    default: return lk_mul(a, lk_scalar(k->number));
    }
}

/* Whatever the shapes: [], [1] or [3]. */
static lk_tensor *limited(lk_tensor *x) { return lk_mul(lk_tanh(lk_mul(x, lk_scalar(0.125))), lk_scalar(8)); }

static void note_size(program *p, lk_tensor *t)
{
    if (lk_failed()) return;
    for (int64_t i = 0; i < lk_size(t); i++)
        p->largest[my_id()] = fmax(p->largest[my_id()], fabs((double)((const float *)lk_data(t))[i]));
}

static lk_tuple execute(program *p, lk_tuple in, bool sizes)
{
    int        n = FIRST_VALUES;
    lk_tensor *value[FIRST_VALUES + MOST] = {
        lk_reduce_sum(in.item[0]),
        lk_reduce_sum(in.item[0], .axis = LK_AXES(0)),
        lk_reduce_sum(lk_square(in.item[0]), .axis = LK_AXES(0)),
        lk_scalar(0.5),
        mine(0.25),
        lk_read(p->w),
        lk_read(p->on_read),
        lk_scale_regularization_loss(lk_nn_l2(lk_read(p->w), 0.5)),
        lk_fill(LK_SHAPE(), LK_F32, 1.5),
    };
    for (int i = 0; i < p->count; i++) {
        instruction k = p->step[i];
        if (k.a_differs) k.a = (k.a + my_id()) % n;
        if (k.b_differs) k.b = (k.b + my_id()) % n;
        if (k.kind_differs && k.kind <= SUB && my_id() % 2) k.kind = k.kind == ADD ? SUB : ADD;
        lk_tensor *x = perform(&k, value[k.a], value[k.b]);
        if (k.kind == MATMUL || k.kind == SQUARE) x = limited(x);
        if (sizes) note_size(p, x);
        value[n++] = x;
    }
    return LK_TUPLE(vector_form(value[n - 1]), vector_form(value[n - 2]), vector_form(value[n - 3]), vector_form(value[n - 4]));
}

REPLICA_FN(run_program) { return execute(user, in, true); }
REPLICA_FN(trace_program) { return execute(user, in, false); }

/* What one replica's rows add to the gradient. */
REPLICA_FN(differentiate_program)
{
    program   *p = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tuple   out = execute(p, in, false);
    lk_tensor *loss = lk_reduce_sum(lk_add(lk_add(out.item[0], out.item[1]), lk_add(out.item[2], out.item[3])));
    lk_tensor *g = lk_grads_item(lk_tape_gradient(tape, loss, LK_VARIABLES(p->w)), 0);
    if (!g) g = lk_zeros(LK_SHAPE(3), LK_F32);
    note_size(p, lk_mul(g, lk_scalar(10))); /* terms of a gradient cancel */
    return LK_TUPLE(g);
}

REPLICA_FN(reduce_program)
{
    lk_tuple out = execute(user, in, false);
    return lk_all_reduce_all(lk_get_replica_context(), LK_SUM, out, (lk_communication_options){0});
}

static lk_tuple sums_of(lk_strategy *s, lk_tuple out)
{
    return LK_TUPLE(lk_reduce(s, LK_SUM, out.item[0]), lk_reduce(s, LK_SUM, out.item[1]), lk_reduce(s, LK_SUM, out.item[2]),
                    lk_reduce(s, LK_SUM, out.item[3]));
}

static lk_tuple compiled(lk_tuple in, void *user)
{
    program *p = user;
    return sums_of(p->strategy, lk_run(p->strategy, trace_program, in, p));
}

/* ---- checking ---- */

static void check_sum(const program *p, lk_strategy *s, lk_tensor *each, lk_tensor *sum, const char *what, int number)
{
    lk_tuple local = lk_local_results(s, each);
    double   most = 1;
    for (int r = 0; r < local.count; r++)
        most = fmax(most, p->largest[r]);
    for (int i = 0; i < 3; i++) {
        double right = 0, ours = (double)((const float *)lk_data(sum))[i];
        bool   wild = false;
        for (int r = 0; r < local.count; r++) {
            double x = (double)((const float *)lk_data(local.item[r]))[i];
            right += x;
            wild = wild || !isfinite(x);
        }
        if (!wild && !(fabs(ours - right) <= 2e-5 * most * local.count))
            GIVE_UP("%s: program %d on %d replicas, element %d: %.9g, not %.9g", what, number, local.count, i, ours, right);
    }
}

static lk_tensor *rows_of_own(const lk_value_context *c, void *user)
{
    (void)user;
    lk_tensor *t = lk_zeros(LK_SHAPE(c->replica_id_in_sync_group, 3), LK_F32); /* none on the first */
    for (int i = 0; i < lk_size(t); i++)
        ((float *)lk_data(t))[i] = 0.1f * (float)((i * 5 + c->replica_id_in_sync_group) % 7) - 0.2f;
    return t;
}

/* 13 rows in lanes. */
static lk_tensor *rows_in_lanes(lk_strategy *s)
{
    lk_tensor *x = lk_zeros(LK_SHAPE(13, 3), LK_F32), *out = NULL;
    for (int i = 0; i < 39; i++)
        ((float *)lk_data(x))[i] = 0.1f * (float)(i * 7 % 11) - 0.4f;
    LK_FOR_EACH(batch, lk_distribute_dataset(s, lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x)), 16))) {
        out = lk_keep(batch.item[0]);
    }
    return out;
}

static void check_program(program *p, lk_tensor *x, int number)
{
    lk_strategy *s = p->strategy;
    memset(p->largest, 0, sizeof p->largest);
    lk_tuple out = lk_run(s, run_program, LK_TUPLE(x), p), sums = sums_of(s, out), all = lk_run(s, reduce_program, LK_TUPLE(x), p);
    SOUND();
    for (int i = 0; i < KEPT; i++) {
        check_sum(p, s, out.item[i], sums.item[i], "reduce", number);
        check_sum(p, s, out.item[i], lk_local_results(s, all.item[i]).item[0], "all_reduce", number);
        check_sum(p, s, out.item[i], lk_mul(lk_reduce(s, LK_MEAN, out.item[i]), lk_scalar(lk_num_replicas_in_sync(s))), "mean",
                  number);
    }
    lk_tensor *g = lk_run(s, differentiate_program, LK_TUPLE(x), p).item[0];
    SOUND();
    check_sum(p, s, g, lk_reduce(s, LK_SUM, g), "gradient", number);
    lk_tuple again = lk_call(lk_function_of(compiled, p), LK_TUPLE(x));
    SOUND();
    for (int i = 0; i < KEPT; i++) {
        if (memcmp(lk_data(again.item[i]), lk_data(sums.item[i]), 12)) GIVE_UP("compiled: program %d gives other bits", number);
        check_sum(p, s, out.item[i], again.item[i], "compiled", number);
    }
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { PROGRAMS = 60 };
#else
enum { PROGRAMS = 250 };
#endif

REPLICA_FN(set_own)
{
    lk_assign(user, mine(0.5));
    return LK_TUPLE();
}

static void check_programs(int n)
{
    LK_POOL {
        program p = {.strategy = mirrored(n)};
        p.w = MADE(p.strategy, VECTOR(0.5, -1, 0.75), "w");
        p.on_read = ON_READ(p.strategy, SUM, lk_scalar(0), "on_read");
        lk_run(p.strategy, set_own, .user = p.on_read);
        lk_tensor *in_lanes = rows_in_lanes(p.strategy), *own = lk_values_from_function(p.strategy, rows_of_own, NULL);
        SOUND();
        for (int i = 0; i < PROGRAMS; i++)
            LK_POOL {
                LK_STEP {
                    state = 0x9e3779b97f4a7c15u * (uint64_t)(i + 1) + (uint64_t)n;
                    write_program(&p);
                    check_program(&p, i % 3 ? in_lanes : own, i);
                }
            }
    }
}

TEST(two_replicas) { check_programs(2); }
TEST(three_replicas) { check_programs(3); }
TEST(four_replicas) { check_programs(4); }
TEST(eight_replicas) { check_programs(8); }

/* ---- by hand: replicas that do not do the same ---- */

REPLICA_FN(different_things)
{
    lk_tensor *a = lk_reduce_sum(in.item[0]), *b = lk_reduce_sum(lk_square(in.item[0])), *one = lk_fill(LK_SHAPE(), LK_F32, 1);
    bool       first = my_id() == 0;
    return LK_TUPLE(lk_add(a, first ? a : b),                                    /* the same op on other operands */
                    lk_mul(a, mine(1)),                                          /* a factor of its own */
                    lk_add(a, mine(1)),                                          /* a term of its own */
                    first ? lk_neg(a) : a,                                       /* another op */
                    lk_sub(first ? a : one, first ? one : a),                    /* the other way round */
                    lk_mul(lk_scale_regularization_loss(mine(1)), lk_scalar(2)), /* a share of something that is not the same */
                    lk_div(a, mine(1)), first ? lk_add(a, b) : lk_sub(a, b));
}

TEST(replicas_that_differ)
{
    LK_POOL {
        for (int n = 2; n <= 4; n++) {
            lk_strategy *s = mirrored(n);
            lk_tuple     out = lk_run(s, different_things, LK_TUPLE(rows_in_lanes(s)));
            for (int i = 0; i < 8; i++) {
                lk_tuple each = lk_local_results(s, out.item[i]);
                double   sum = 0;
                for (int r = 0; r < n; r++)
                    sum += lk_item(each.item[r]);
                double ours = lk_item(lk_reduce(s, LK_SUM, out.item[i]));
                if (!(fabs(ours - sum) <= 1e-5 * fmax(1, fabs(sum))))
                    GIVE_UP("value %d on %d replicas: %g, not %g", i, n, ours, sum);
            }
            SOUND();
        }
    }
}

TESTS(cmocka_unit_test(replicas_that_differ), cmocka_unit_test(two_replicas), cmocka_unit_test(three_replicas),
      cmocka_unit_test(four_replicas), cmocka_unit_test(eight_replicas))
