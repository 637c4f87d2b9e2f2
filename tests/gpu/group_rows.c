/* Calls along rows run as one launch against the same calls one by one: the ends of networks, of all sizes, whole and in parts. */
#include "members.h"

static lk_shape matrix(int64_t rows, int64_t columns) { return (lk_shape){2, {rows, columns}}; }

static lki_row_member member_of(const world *w, job *j) { return card_of().g->rows(j->slot, j->type, place(w, j, NULL, NULL)); }

/* x times a random right matrix, or one that is there; what becomes of it is `third`. Returns the result. */
static int add_product(world *w, int x, int right, int64_t n, bool transposed, int bias, bool relu, int mask)
{
    const lk_shape s = w->arrays[x].shape;
    job           *j = world_job(w, LKI_K_matmul, LK_F32);
    reads(j, x);
    reads(j, right);
    if (bias >= 0 || mask >= 0) reads(j, bias >= 0 ? bias : mask);
    j->attr.matmul.tb = transposed;
    j->attr.epilogue.bias = bias >= 0;
    j->attr.epilogue.relu = relu;
    j->attr.matmul.mask = mask >= 0;
    makes(j, world_add(w, LK_F32, matrix(s.dim[0], n), NULL));
    w->jobs++;
    return j->dst[0];
}

static int add_entropy(world *w, lki_slot slot, int logits, int labels, int scale, bool ignores)
{
    const lk_shape s = w->arrays[logits].shape, rows = {1, {s.dim[0]}};
    job           *j = world_job(w, slot, LK_F32);
    reads(j, logits);
    reads(j, labels);
    if (scale >= 0) reads(j, scale);
    makes(j, world_add(w, LK_F32, scale >= 0 ? s : rows, NULL));
    j->attr.xent.ignore = ignores;
    j->attr.xent.ignore_class = 1;
    j->checks = true;
    w->jobs++;
    return j->dst[0];
}

typedef struct head {
    int64_t rows, K, hidden, classes;
    bool    odd; /* a label is out of range */
} head;

/* Numbers whose sums with as many others as `terms` are about 1. */
static int world_numbers(world *w, lk_shape s, bool wild, int64_t terms)
{
    float *x = slot_numbers(LK_F32, &s, wild);
    for (int64_t i = 0; !wild && i < lki_shape_size(&s); i++)
        x[i] /= sqrtf((float)terms);
    return world_add(w, LK_F32, s, x);
}

/* Hidden layer, logits, loss, gradients of logits and of the hidden layer. wild: numbers of all sizes, some not finite, so that
 * most of what follows is NaN. */
static world *head_of(head h, lk_dtype labels_type, bool wild)
{
    world         *w = world_new();
    const lk_shape rows = {1, {h.rows}}, hidden = {1, {h.hidden}}, classes = {1, {h.classes}};
    const int      labels = world_add(w, labels_type, rows, slot_integers(labels_type, &rows, 0, h.classes + h.odd));
    const int      weights = world_numbers(w, matrix(h.hidden, h.classes), wild, h.hidden), scale = world_numbers(w, rows, wild, 1);
    const int      x = world_numbers(w, matrix(h.rows, h.K), wild, 1), first = world_numbers(w, matrix(h.K, h.hidden), wild, h.K);
    const int      y = add_product(w, x, first, h.hidden, false, world_numbers(w, hidden, wild, 1), true, -1);
    const int      bias = h.rows % 2 ? -1 : world_numbers(w, classes, wild, 1);
    const int      logits = add_product(w, y, weights, h.classes, false, bias, false, -1);
    add_entropy(w, LKI_K_sparse_xent, logits, labels, -1, h.rows % 3 == 0);
    const int d = add_entropy(w, LKI_K_sparse_xent_grad, logits, labels, scale, h.rows % 3 == 0);
    add_product(w, d, weights, h.hidden, true, -1, false, y);
    return w;
}

TEST(heads_have_the_bits_of_their_calls)
{
    static const head     heads[] = {{64, 1600, 64, 10, true}, {1, 900, 33, 3, false},    {7, 2000, 40, 16, false},
                                     {200, 600, 64, 10, true}, {512, 300, 16, 7, false},  {40, 1100, 50, 2, false},
                                     {6, 1500, 96, 16, true},  {3, 1000, 128, 10, false}, {5, 5000, 32, 5, true},
                                     {2, 700, 256, 1, false},  {9, 600, 64, 12, true}};
    static const lk_dtype types[] = {LK_I64, LK_I32, LK_U8};
    int                   led = 0;
    for (int n = 0; n < 2 * LKI_COUNT(heads); n++) {
        const int i = n / 2;
        world    *w = head_of(heads[i], types[i % 3], n % 2);
        for (int k = 0; k < w->jobs; k++) {
            const lki_row_member m = member_of(w, &w->job[k]);
            if (k) assert_int_equal(m.rows, heads[i].rows);
            if (m.rows) assert_int_equal(m.along, k == 4 ? 5 : 1);
            led += m.leads;
        }
        if (!member_of(w, &w->job[0]).rows) { /* too few blocks would be left idle to cut its sum */
            memmove(&w->job[0], &w->job[1], (size_t)(w->jobs - 1) * sizeof w->job[0]);
            w->jobs--;
        }
        check(w, LKI_GROUP_ROWS, 0);
        world_free(w);
    }
    assert_true(led >= 14);
}

/* Parts of one, in any order their needs allow; results of calls that are left out are there from the beginning. */
TEST(parts_of_heads)
{
    for (int left_out = 0; left_out < 16; left_out++) {
        world *w = head_of((head){9, 30, 20, 6, left_out % 2}, LK_I64, false);
        int    count = 0;
        for (int k = 1; k < 5; k++)
            if (!(left_out >> (k - 1) & 1)) w->job[count++] = w->job[k];
        w->jobs = count;
        if (count) check(w, LKI_GROUP_ROWS, 0);
        world_free(w);
    }
}

TEST(limits)
{
    world   *w = head_of((head){4, 30, 20, 6, false}, LK_I64, false);
    job     *product = &w->job[1], *loss = &w->job[2];
    lk_shape many = matrix(513, 20), as_many = matrix(513, 6);
    assert_int_equal(member_of(w, product).rows, 4);
    product->attr.matmul.ta = 1;
    assert_int_equal(member_of(w, product).rows, 0); /* columns are not rows */
    product->attr.matmul.ta = 0;
    product->lanes = 1;
    assert_int_equal(member_of(w, product).rows, 0); /* a sum over rows */
    product->lanes = 0;
    product->type = LK_F64;
    assert_int_equal(member_of(w, product).rows, 0);
    product->type = LK_F32;
    w->arrays[product->src[0]].shape = many, w->arrays[product->dst[0]].shape = as_many;
    assert_int_equal(member_of(w, product).rows, 0);
    w->arrays[loss->src[0]].shape = matrix(4, 129);
    assert_int_equal(member_of(w, loss).rows, 0);
    world_free(w);
}

TESTS(cmocka_unit_test(heads_have_the_bits_of_their_calls), cmocka_unit_test(parts_of_heads), cmocka_unit_test(limits))
