/* Small calls run as one launch against the same calls one by one: random programs, which read and overwrite results of earlier
 * calls. */
#include "kernel/update.h"
#include "members.h"

enum { F = 1 << LK_F32 | 1 << LK_F64, N = F | 1 << LK_I32 | 1 << LK_I64, B = 1 << LK_BOOL, ALL = (1 << LK_DTYPE_COUNT) - 1 };
enum { NUMBERS = N | B | 1 << LK_U8 };

/* ---- random small calls ---- */

static lk_shape random_shape(void)
{
    static const lk_shape shapes[] = {{0, {0}},          {1, {1}},         {1, {7}},       {1, {64}},     {2, {3, 5}},
                                      {2, {33, 17}},     {2, {0, 3}},      {3, {2, 3, 4}}, {2, {64, 10}}, {3, {5, 1, 6}},
                                      {4, {2, 3, 2, 5}}, {1, {4096}},      {2, {2, 1500}}, {2, {130, 2}}, {1, {255}},
                                      {4, {1, 4, 1, 9}}, {3, {16, 16, 16}}};
    return shapes[slot_below(LKI_COUNT(shapes))];
}

/* A shape that is broadcast to s. */
static lk_shape part_of(lk_shape s)
{
    const int drop = slot_below(3) ? 0 : (int)slot_below(s.rank + 1);
    lk_shape  out = {s.rank - drop, {0}};
    for (int d = 0; d < out.rank; d++)
        out.dim[d] = slot_below(4) ? s.dim[d + drop] : 1;
    return out;
}

static lk_dtype random_type(unsigned mask)
{
    lk_dtype t = (lk_dtype)slot_below(LK_DTYPE_COUNT);
    while (!(mask >> t & 1))
        t = (lk_dtype)slot_below(LK_DTYPE_COUNT);
    return t;
}

typedef struct maker maker;
struct maker {
    lki_slot slot;
    unsigned types;
    void (*make)(world *w, const maker *m, job *j);
    bool truth;
};

static void make_each(world *w, const maker *m, job *j, int operands)
{
    const lk_shape s = random_shape();
    for (int i = 0; i < operands; i++)
        reads(j, world_find(w, j->type, i || slot_below(2) ? part_of(s) : s));
    if (!m->truth && lki_shape_equal(&w->arrays[j->src[0]].shape, &s) && !slot_below(4)) makes(j, j->src[0]); /* in place */
    else makes_new(w, j, m->truth ? LK_BOOL : j->type, s);
    j->attr.num.a = m->slot == LKI_K_clip ? -0.4 : 0.3;
    j->attr.num.b = m->slot == LKI_K_clip ? 0.7 : 0;
    j->checks = lki_slot_may_fault(m->slot, j->type);
}

static void make_one(world *w, const maker *m, job *j)
{
    const lk_shape s = random_shape();
    reads(j, world_find(w, j->type, s));
    makes_new(w, j, m->truth ? LK_BOOL : j->type, s);
    j->attr.num.a = m->slot == LKI_K_clip ? -0.4 : 0.3;
    j->attr.num.b = m->slot == LKI_K_clip ? 30 : 0;
}

static void make_two(world *w, const maker *m, job *j) { make_each(w, m, j, 2); }

static void make_cast(world *w, const maker *m, job *j)
{
    const lk_shape s = random_shape();
    (void)m;
    reads(j, world_find(w, j->type, s));
    makes_new(w, j, random_type(NUMBERS), s);
}

static void make_where(world *w, const maker *m, job *j)
{
    const lk_shape s = random_shape();
    (void)m;
    reads(j, world_find(w, j->type, part_of(s)));
    reads(j, world_find(w, j->type, part_of(s)));
    reads(j, world_find(w, LK_BOOL, part_of(s)));
    makes_new(w, j, j->type, s);
}

static void make_copy(world *w, const maker *m, job *j)
{
    const lk_shape s = random_shape();
    reads(j, world_find(w, j->type, m->slot == LKI_K_broadcast ? part_of(s) : s));
    makes_new(w, j, j->type, s);
    j->writes = m->slot == LKI_K_copy && !slot_below(2);
}

static void make_fill(world *w, const maker *m, job *j)
{
    (void)m;
    makes_new(w, j, j->type, random_shape());
    j->attr.num.a = (double)slot_below(1000) / 3 - 100;
}

static void make_transpose(world *w, const maker *m, job *j)
{
    const lk_shape s = random_shape();
    lk_shape       out = s;
    const int      by = s.rank ? (int)slot_below(s.rank) : 0;
    (void)m;
    for (int d = 0; d < s.rank; d++) {
        j->attr.perm.axis[d] = (d + by) % s.rank;
        out.dim[d] = s.dim[(d + by) % s.rank];
    }
    reads(j, world_find(w, j->type, s));
    makes_new(w, j, j->type, out);
}

/* Cells of `s`, some of them, some backwards: their shape. */
static lk_shape random_cells(job *j, lk_shape s)
{
    lk_shape part = s;
    for (int d = 0; d < s.rank; d++) {
        const int64_t stride = 1 + slot_below(2), most = s.dim[d] ? (s.dim[d] - 1) / stride + 1 : 0;
        part.dim[d] = most ? 1 + slot_below(most) : 0;
        const int64_t last = part.dim[d] ? (part.dim[d] - 1) * stride : 0, slack = s.dim[d] ? s.dim[d] - 1 - last : 0;
        const bool    back = !slot_below(4);
        j->attr.slice.begin[d] = slot_below(slack + 1) + (back ? last : 0);
        j->attr.slice.stride[d] = back ? -stride : stride;
    }
    return part;
}

static void make_slice(world *w, const maker *m, job *j)
{
    const lk_shape s = random_shape(), part = random_cells(j, s);
    reads(j, world_find(w, j->type, m->slot == LKI_K_slice ? s : part));
    makes_new(w, j, j->type, m->slot == LKI_K_slice ? part : s);
}

static void make_concat(world *w, const maker *m, job *j)
{
    const lk_shape s = {3, {2, 0, 5}};
    const int      axis = (int)slot_below(3);
    lk_shape       whole = s;
    whole.dim[1] = 3;
    j->attr.scan.axis = axis;
    if (m->slot == LKI_K_unstack) {
        lk_shape part = {2, {0}};
        for (int d = 0, k = 0; d < 3; d++)
            if (d != axis) part.dim[k++] = whole.dim[d];
        reads(j, world_find(w, j->type, whole));
        for (int64_t i = 0; i < whole.dim[axis]; i++)
            makes_new(w, j, j->type, part);
        return;
    }
    int64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        lk_shape part = whole;
        part.dim[axis] = slot_below(5);
        sum += part.dim[axis];
        reads(j, world_find(w, j->type, part));
    }
    whole.dim[axis] = sum;
    makes_new(w, j, j->type, whole);
}

static lk_shape rows_shape(void)
{
    static const lk_shape shapes[] = {{2, {64, 10}}, {2, {128, 32}}, {2, {1, 1}}, {3, {2, 3, 7}},
                                      {2, {5, 100}}, {2, {0, 4}},    {1, {9}}};
    return shapes[slot_below(LKI_COUNT(shapes))];
}

static void make_softmax(world *w, const maker *m, job *j)
{
    const lk_shape s = rows_shape();
    reads(j, world_find(w, j->type, s));
    if (m->slot == LKI_K_softmax_grad) reads(j, world_find(w, j->type, s));
    makes_new(w, j, j->type, s);
}

static void make_entropy(world *w, const maker *m, job *j)
{
    static const lk_dtype types[] = {LK_I32, LK_I64, LK_U8};
    const lk_shape        s = rows_shape();
    lk_shape              rows = {s.rank - 1, {0}};
    const int64_t         classes = s.dim[s.rank - 1];
    const bool            odd = !slot_below(3);
    const lk_dtype        t = types[slot_below(3)];
    memcpy(rows.dim, s.dim, sizeof rows.dim);
    reads(j, world_find(w, j->type, s));
    reads(j, world_add(w, t, rows, slot_integers(t, &rows, 0, classes + odd)));
    if (m->slot == LKI_K_sparse_xent_grad) reads(j, world_find(w, j->type, rows));
    makes_new(w, j, j->type, m->slot == LKI_K_sparse_xent_grad ? s : rows);
    j->attr.xent.ignore = !slot_below(3);
    j->attr.xent.ignore_class = 2;
    j->checks = true;
}

static void make_argmax(world *w, const maker *m, job *j)
{
    const lk_shape s = rows_shape();
    lk_shape       rows = {s.rank - 1, {0}};
    (void)m;
    memcpy(rows.dim, s.dim, sizeof rows.dim);
    reads(j, world_find(w, j->type, s));
    makes_new(w, j, LK_I64, rows);
    j->attr.reduce.first = j->attr.reduce.last = s.rank - 1;
}

/* Of `rows` rows; often a device's share of lanes of equal length. */
static void random_lanes(job *j, int64_t rows)
{
    slot_case lanes = {0};
    slot_lanes(&lanes, 1 << slot_below(7), rows);
    if (slot_below(2)) {
        const int64_t each = 1 + slot_below(4), before = slot_below(each * lanes.lanes);
        for (int k = 0; k < lanes.lanes; k++)
            lanes.bound[k] = lki_max(0, lki_min(each * k - before, rows));
    }
    j->lanes = lanes.lanes;
    memcpy(j->bound, lanes.bound, sizeof j->bound);
}

static void make_lane_add(world *w, const maker *m, job *j)
{
    static const lk_shape shapes[] = {{1, {64}},    {2, {30, 20}}, {1, {7}},   {3, {8, 2, 3}},
                                      {2, {20, 0}}, {1, {0}},      {1, {256}}, {1, {33}}};
    const lk_shape        s = shapes[slot_below(LKI_COUNT(shapes))];
    lk_shape              sums = s;
    (void)m;
    reads(j, world_find(w, j->type, s));
    if (slot_below(4)) random_lanes(j, s.dim[0]);
    else j->attr.num.a = (double)slot_below(8);
    sums.dim[0] = j->lanes ? j->lanes : 8;
    makes(j, world_find(w, LK_F64, sums));
    j->writes = true;
}

static void make_sum(world *w, const maker *m, job *j)
{
    static const lk_shape shapes[] = {{2, {64, 10}}, {1, {64}},     {2, {128, 64}}, {3, {6, 4, 5}}, {1, {500}},
                                      {2, {0, 4}},   {2, {30, 20}}, {3, {8, 2, 3}}, {2, {100, 100}}};
    const lk_shape        s = shapes[slot_below(LKI_COUNT(shapes))];
    const int             first = (int)slot_below(s.rank), last = first + (int)slot_below(s.rank - first);
    lk_shape              out = {0, {0}};
    for (int d = 0; d < s.rank; d++)
        if (d < first || d > last) out.dim[out.rank++] = s.dim[d];
    j->attr.reduce.first = first;
    j->attr.reduce.last = last;
    reads(j, world_find(w, j->type, s));
    if (lki_is_float(j->type) && last < s.rank - 1 && !slot_below(3)) {
        j->attr.epilogue.relu = 1;
        reads(j, world_find(w, j->type, s));
    }
    if (first == 0 && slot_below(4)) random_lanes(j, s.dim[0]);
    (void)m;
    makes_new(w, j, j->type, out);
}

static void make_squares(world *w, const maker *m, job *j)
{
    (void)m;
    reads(j, world_find(w, j->type, rows_shape()));
    makes_new(w, j, j->type, SCALAR);
}

static void make_schedule(world *w, const maker *m, job *j)
{
    static const double p[][8] = {
        {0.1, 100, 0.96, 1}, {0.1, 300, 0.01, 0.5, 0}, {0.1, 500, 0.02, 0, 0, 0}, {10, 100, 1000, 0.1, 0.01, 0.001, 0.0001}};
    static const int forms[] = {LKI_SCHEDULE_EXPONENTIAL, LKI_SCHEDULE_POLYNOMIAL, LKI_SCHEDULE_COSINE, LKI_SCHEDULE_PIECEWISE};
    const int64_t    which = slot_below(4);
    (void)m;
    reads(j, slot_below(2) ? counter(w) : world_find(w, LK_I64, SCALAR));
    makes_new(w, j, LK_F32, SCALAR);
    j->attr.schedule.form = forms[which];
    j->attr.schedule.count = which == 3 ? 3 : 0;
    memcpy(j->attr.schedule.p, p[which], sizeof p[which]);
}

static void make_increment(world *w, const maker *m, job *j)
{
    (void)m;
    makes(j, slot_below(2) ? counter(w) : world_find(w, LK_I64, SCALAR));
    j->writes = true;
}

/* clang-format off */
static const maker makers[] = {
    {LKI_K_neg, N, make_one, false}, {LKI_K_abs, N, make_one, false}, {LKI_K_sign, N, make_one, false},
    {LKI_K_exp, F, make_one, false}, {LKI_K_expm1, F, make_one, false}, {LKI_K_log, F, make_one, false},
    {LKI_K_log1p, F, make_one, false}, {LKI_K_sqrt, F, make_one, false}, {LKI_K_rsqrt, F, make_one, false},
    {LKI_K_square, N, make_one, false}, {LKI_K_reciprocal, F, make_one, false}, {LKI_K_sin, F, make_one, false},
    {LKI_K_cos, F, make_one, false}, {LKI_K_tanh, F, make_one, false}, {LKI_K_sigmoid, F, make_one, false},
    {LKI_K_erf, F, make_one, false}, {LKI_K_softplus, F, make_one, false}, {LKI_K_relu, F, make_one, false},
    {LKI_K_leaky_relu, F, make_one, false}, {LKI_K_clip, N, make_one, false}, {LKI_K_floor, F, make_one, false},
    {LKI_K_ceil, F, make_one, false}, {LKI_K_round, F, make_one, false}, {LKI_K_is_finite, F, make_one, true},
    {LKI_K_logical_not, B, make_one, true}, {LKI_K_cast, NUMBERS, make_cast, false}, {LKI_K_add, N, make_two, false},
    {LKI_K_sub, N, make_two, false}, {LKI_K_mul, N, make_two, false}, {LKI_K_div, F, make_two, false},
    {LKI_K_floordiv, N, make_two, false}, {LKI_K_mod, N, make_two, false}, {LKI_K_pow, F, make_two, false},
    {LKI_K_maximum, N, make_two, false}, {LKI_K_minimum, N, make_two, false}, {LKI_K_relu_grad, F, make_two, false},
    {LKI_K_leaky_relu_grad, F, make_two, false}, {LKI_K_sigmoid_grad, F, make_two, false}, {LKI_K_tanh_grad, F, make_two, false},
    {LKI_K_equal, NUMBERS, make_two, true}, {LKI_K_not_equal, NUMBERS, make_two, true}, {LKI_K_less, NUMBERS, make_two, true},
    {LKI_K_less_equal, NUMBERS, make_two, true}, {LKI_K_greater, NUMBERS, make_two, true},
    {LKI_K_greater_equal, NUMBERS, make_two, true}, {LKI_K_logical_and, B, make_two, true}, {LKI_K_logical_or, B, make_two, true},
    {LKI_K_where, ALL, make_where, false}, {LKI_K_copy, ALL, make_copy, false}, {LKI_K_broadcast, ALL, make_copy, false},
    {LKI_K_fill, ALL, make_fill, false}, {LKI_K_range, N, make_fill, false}, {LKI_K_transpose, ALL, make_transpose, false},
    {LKI_K_slice, ALL, make_slice, false}, {LKI_K_unslice, ALL, make_slice, false}, {LKI_K_concat, ALL, make_concat, false},
    {LKI_K_unstack, ALL, make_concat, false}, {LKI_K_softmax, F, make_softmax, false}, {LKI_K_log_softmax, F, make_softmax, false},
    {LKI_K_softmax_grad, F, make_softmax, false}, {LKI_K_sparse_xent, F, make_entropy, false},
    {LKI_K_sparse_xent_grad, F, make_entropy, false}, {LKI_K_reduce_sum, N, make_sum, false},
    {LKI_K_sum_squares, F, make_squares, false}, {LKI_K_argmax, F, make_argmax, false},
    {LKI_K_lane_add, 1 << LK_F32 | B, make_lane_add, false}, {LKI_K_schedule, 1 << LK_I64, make_schedule, false},
    {LKI_K_increment, 1 << LK_I64, make_increment, false}};
/* clang-format on */

static int made[LKI_COUNT(makers)], refused[LKI_COUNT(makers)];

static void add_of(world *w, int which, unsigned types)
{
    const maker *m = &makers[which];
    job         *j = world_job(w, m->slot, random_type(m->types & types));
    m->make(w, m, j);
    if (group_of(w, j) == LKI_GROUP_SMALL) w->jobs++, made[which]++;
    else refused[which]++;
}

static void add_random(world *w, int which) { add_of(w, which, ALL); }

/* Every slot alone, many times. */
TEST(test_single_calls)
{
    for (int i = 0; i < LKI_COUNT(makers); i++)
        for (int k = 0; k < 3; k++) {
            world *w = world_new();
            while (w->count < 60 && w->jobs < 8)
                add_random(w, i);
            check(w, LKI_GROUP_SMALL, 0);
            world_free(w);
        }
    for (int i = 0; i < LKI_COUNT(makers); i++)
        if (made[i] < refused[i] || made[i] < 5)
            fail_msg("%s: small %d times, %d times not", lki_slot_name(makers[i].slot), made[i], refused[i]);
}

TEST(test_programs)
{
    for (int k = 0; k < 60; k++) {
        world *w = world_new();
        while (w->count < ARRAYS - 10 && w->jobs < 10 + k % 3 * 25 && w->used < ROOM * 3 / 4)
            add_random(w, (int)slot_below(LKI_COUNT(makers)));
        check(w, LKI_GROUP_SMALL, k % 10 == 9);
        world_free(w);
    }
}

/* Programs of the slots that have kernels of their own, and of those and another slot; of f32 alone,
 * or of another type, which these kernels do not know. */
TEST(test_sets)
{
    static const lki_slot slots[] = {
        LKI_K_add,       LKI_K_sub,    LKI_K_mul,        LKI_K_div,         LKI_K_square,      LKI_K_relu,
        LKI_K_relu_grad, LKI_K_copy,   LKI_K_fill,       LKI_K_broadcast,   LKI_K_transpose,   LKI_K_slice,
        LKI_K_unslice,   LKI_K_concat, LKI_K_reduce_sum, LKI_K_sum_squares, LKI_K_sparse_xent, LKI_K_sparse_xent_grad,
        LKI_K_argmax,    LKI_K_equal,  LKI_K_less,       LKI_K_lane_add,    LKI_K_maximum};
    /* How many are element-wise or moves; and with sums; and with rows; and with what metrics count with. */
    enum { MOVED = 14, SUMMED = 15, ROWS = 18, COUNTS = 22 };
    static const int sets[] = {MOVED, SUMMED, ROWS, COUNTS, LKI_COUNT(slots)};
    for (int k = 0; k < 150; k++) {
        const bool     other = k % 3 == 2; /* one call, so that nothing else tells which kernel it needs */
        const int      count = sets[k % 5], jobs = other ? 1 : 1 + k / 5 % 12;
        const unsigned types = 1u << (other ? random_type(N) : LK_F32);
        world         *w = world_new();
        while (w->count < ARRAYS - 10 && w->jobs < jobs && w->used < ROOM * 3 / 4) {
            const lki_slot slot = slots[count == SUMMED && slot_below(2) ? MOVED : slot_below(count)];
            for (int i = 0; i < LKI_COUNT(makers); i++)
                if (makers[i].slot == slot && makers[i].types & types) add_of(w, i, types);
        }
        check(w, LKI_GROUP_SMALL, k % 20 == 19);
        world_free(w);
    }
}

/* Sums over rows of each type as programs of one call each: its type alone says which kernel runs, and that of f32 would round what
 * others hold. */
TEST(test_sums_by_themselves)
{
    static const lk_dtype types[] = {LK_F32, LK_F64, LK_I32, LK_I64};
    const lk_shape        s = {2, {24, 10}}, out = {1, {10}};
    for (int k = 0; k < 4 * LKI_COUNT(types); k++) {
        const lk_dtype t = types[k / 4];
        world         *w = world_new();
        job           *j = world_job(w, LKI_K_reduce_sum, t);
        slot_case      lanes = {0};
        slot_lanes(&lanes, 1 << k % 4, s.dim[0]);
        j->lanes = lanes.lanes;
        memcpy(j->bound, lanes.bound, sizeof j->bound);
        reads(j, world_add(w, t, s, slot_numbers(t, &s, false)));
        makes(j, world_add(w, t, out, NULL));
        assert_int_equal(group_of(w, j), LKI_GROUP_SMALL);
        w->jobs++;
        check(w, LKI_GROUP_SMALL, 0);
        world_free(w);
    }
}

/* More instructions than a launch has room for: unstack and concat of many parts, over and over. */
TEST(test_many_parts)
{
    world         *w = world_new();
    const lk_shape s = {2, {5, 12}}, part = {1, {12}};
    const int      x = world_random(w, LK_F32, s);
    for (int k = 0; k < 10; k++) {
        job *j = world_job(w, LKI_K_unstack, LK_F32), *back = j + 1;
        reads(j, x);
        for (int i = 0; i < 5; i++)
            makes(j, world_add(w, LK_F32, part, NULL));
        assert_int_equal(group_of(w, j), LKI_GROUP_SMALL);
        w->jobs++;
        *back = (job){.slot = LKI_K_concat, .type = LK_F32};
        for (int i = 0; i < 5; i++)
            reads(back, j->dst[4 - i]);
        makes(back, world_add(w, LK_F32, (lk_shape){1, {60}}, NULL));
        assert_int_equal(group_of(w, back), LKI_GROUP_SMALL);
        w->jobs++;
    }
    check(w, LKI_GROUP_SMALL, 0);
    world_free(w);
}

/* Different lanes for every sum: the pool of bounds overflows. */
TEST(test_many_lanes)
{
    world         *w = world_new();
    const lk_shape s = {2, {64, 10}};
    const int      x = world_random(w, LK_F32, s);
    for (int k = 0; k < 20; k++) {
        job      *j = world_job(w, LKI_K_reduce_sum, LK_F32);
        slot_case lanes = {0};
        do
            slot_lanes(&lanes, 64, 64);
        while (lanes.bound[64] - lanes.bound[63] > 32);
        j->lanes = 64;
        memcpy(j->bound, lanes.bound, sizeof j->bound);
        reads(j, x);
        makes(j, world_add(w, LK_F32, (lk_shape){1, {10}}, NULL));
        assert_int_equal(group_of(w, j), LKI_GROUP_SMALL);
        w->jobs++;
    }
    check(w, LKI_GROUP_SMALL, 0);
    world_free(w);
}

/* A label out of range, and after it a variable that must not change; then one without a guard. */
TEST(test_fault)
{
    for (int label = 3; label <= 4; label++) {
        world         *w = world_new();
        const lk_shape s = {2, {3, 4}}, rows = {1, {3}};
        job           *j = world_job(w, LKI_K_sparse_xent, LK_F32);
        int32_t       *labels = slot_room(LK_I32, &rows);
        int            stop = 0;
        labels[2] = label;
        reads(j, world_random(w, LK_F32, s));
        reads(j, world_add(w, LK_I32, rows, labels));
        makes(j, world_add(w, LK_F32, rows, NULL));
        j->checks = true;
        w->jobs++;
        for (int guarded = 1; guarded >= 0; guarded--) {
            j = world_job(w, LKI_K_copy, LK_F32);
            reads(j, world_random(w, LK_F32, rows));
            makes(j, world_add(w, LK_F32, rows, NULL));
            j->writes = guarded;
            w->jobs++;
        }
        j = world_job(w, LKI_K_increment, LK_I64);
        makes(j, counter(w));
        j->writes = true;
        w->jobs++;
        j = world_job(w, LKI_K_lane_add, LK_F32);
        reads(j, world_random(w, LK_F32, rows));
        makes(j, world_random(w, LK_F64, (lk_shape){1, {1}}));
        j->writes = true;
        w->jobs++;
        uint8_t *out = outcome(w, LKI_GROUP_SMALL, true, &stop);
        assert_int_equal(stop != 0, label == 4);
        for (int k = 1; k <= 4; k++) {
            const array *a = &w->arrays[w->job[k].dst[0]];
            const bool   same = !memcmp(out + a->at, w->start + a->at, 8);
            assert_int_equal(same, label == 4 && k != 2);
        }
        free(out);
        check(w, LKI_GROUP_SMALL, 0);
        world_free(w);
    }
}

static lki_group group_of_shape(lki_slot slot, lk_dtype t, lk_shape s)
{
    world *w = world_new();
    job   *j = world_job(w, slot, t);
    w->arrays[w->count++] = (array){t, s, 0};
    w->arrays[w->count++] = (array){t, SCALAR, 0};
    reads(j, 0);
    makes(j, slot == LKI_K_sum_squares ? 1 : 0);
    const lki_group g = group_of(w, j);
    world_free(w);
    return g;
}

TEST(test_limits)
{
    const card c = card_of();
    assert_true(c.g->most[LKI_GROUP_SMALL] >= 32 && c.g->most[LKI_GROUP_UPDATES] >= 24);
    assert_int_equal(group_of_shape(LKI_K_exp, LK_F32, (lk_shape){1, {4096}}), LKI_GROUP_SMALL);
    assert_int_equal(group_of_shape(LKI_K_exp, LK_F32, (lk_shape){1, {4097}}), LKI_GROUP_NONE);
    assert_int_equal(group_of_shape(LKI_K_softmax, LK_F32, (lk_shape){2, {128, 32}}), LKI_GROUP_SMALL);
    assert_int_equal(group_of_shape(LKI_K_softmax, LK_F32, (lk_shape){2, {129, 10}}), LKI_GROUP_NONE);
    assert_int_equal(group_of_shape(LKI_K_softmax, LK_F32, (lk_shape){2, {8, 65}}), LKI_GROUP_NONE);
    assert_int_equal(group_of_shape(LKI_K_argmax, LK_F32, (lk_shape){2, {64, 1}}), LKI_GROUP_SMALL);
    assert_int_equal(group_of_shape(LKI_K_argmax, LK_I64, (lk_shape){2, {64, 1}}), LKI_GROUP_NONE);
    assert_int_equal(group_of_shape(LKI_K_lane_add, LK_F32, (lk_shape){1, {32}}), LKI_GROUP_SMALL);
    assert_int_equal(group_of_shape(LKI_K_lane_add, LK_F32, (lk_shape){1, {33}}), LKI_GROUP_NONE);
    assert_int_equal(group_of_shape(LKI_K_lane_add, LK_F64, (lk_shape){1, {32}}), LKI_GROUP_NONE);
    assert_int_equal(group_of_shape(LKI_K_sum_squares, LK_F32, (lk_shape){1, {512}}), LKI_GROUP_SMALL);
    assert_int_equal(group_of_shape(LKI_K_sum_squares, LK_F32, (lk_shape){1, {513}}), LKI_GROUP_NONE);
    assert_int_equal(group_of_shape(LKI_K_cumsum, LK_F32, (lk_shape){1, {5}}), LKI_GROUP_NONE);
    assert_int_equal(group_of_shape(LKI_K_update_decay, LK_F32, (lk_shape){1, {5000000}}), LKI_GROUP_UPDATES);
    assert_int_equal(group_of_shape(LKI_K_clip_by_norm, LK_F32, (lk_shape){1, {5}}), LKI_GROUP_NONE);
}

TESTS(cmocka_unit_test(test_single_calls), cmocka_unit_test(test_programs), cmocka_unit_test(test_sets),
      cmocka_unit_test(test_sums_by_themselves), cmocka_unit_test(test_many_parts), cmocka_unit_test(test_many_lanes),
      cmocka_unit_test(test_fault), cmocka_unit_test(test_limits))
