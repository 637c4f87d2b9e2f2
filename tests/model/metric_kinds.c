/* Every kind of metric: Keras' numbers, the same bits for any number of replicas, metrics that are built late, names, files, custom
 * functions. */
#include "dist/replicas.h"
#include "folder.h"
#include "lane/lanes.h"
#include "model/metric.h"
#include "op/record.h"

typedef lk_metric *maker(lk_metric_args args);

typedef struct metric_case {
    maker         *make;
    lk_metric_args args;
    int            data;
    bool           weighted;
    int            count;
    double         want[16];
    struct {
        int    count;
        double number[5];
    } list[3]; /* thresholds, label weights, target classes */
} metric_case;

#define WITH_METRICS
#include "model/keras_data.h"

static lk_status count_part(lk_metric *m, const metric_case *c, int64_t from, int64_t to)
{
    return lk_metric_update(m, labels_from(c->data, from, to), predictions_from(c->data, from, to),
                            .sample_weight = c->weighted ? rows_from(keras_weights, 0, from, to) : NULL);
}

/* ---- Keras' numbers ---- */

static lk_metric *metric_of(const metric_case *c)
{
    lk_metric_args args = c->args;
    lk_tensor    **list[] = {&args.thresholds, &args.label_weights, &args.target_class_ids};
    for (int i = 0; i < LKI_COUNT(list); i++)
        if (c->list[i].count) *list[i] = lk_tensor_from(LK_SHAPE(c->list[i].count), LK_F64, c->list[i].number);
    return c->make(args);
}

static void check_case(const metric_case *c, int line)
{
    lk_metric *m = metric_of(c);
    if (!m) fail_msg("case %d: %s", line, lk_error());
    assert_true(lk_metric_result(m) == 0);
    count_part(m, c, 0, FIRST_BATCH);
    count_part(m, c, FIRST_BATCH, ROWS);
    lk_tensor    *results = lk_metric_results(m);
    const double *x = lk_data(results);
    double        mean = 0;
    if (lk_failed() || lk_size(results) != c->count)
        fail_msg("case %d, \"%s\": %lld results, %s", line, lk_metric_name(m), (long long)lk_size(results), lk_error());
    for (int i = 0; i < c->count; i++) {
        if (!(fabs(x[i] - c->want[i]) <= 2e-6 * fmax(1, fabs(c->want[i]))))
            fail_msg("case %d, \"%s\": result %d is %.9g, not %.9g", line, lk_metric_name(m), i, x[i], c->want[i]);
        mean += x[i] / c->count;
    }
    if (c->make != lk_confusion_matrix_kw) assert_true(fabs(lk_metric_result(m) - mean) < 1e-12);
    lk_metric_reset(m);
    assert_true(lk_metric_result(m) == 0);
    count_part(m, c, 0, ROWS); /* in one go: the same, but for the order of sums */
    if (c->make != lk_confusion_matrix_kw) assert_true(fabs(lk_metric_result(m) - mean) < 1e-9 * fmax(1, fabs(mean)));
    assert_false(lk_failed());
}

TEST(values_of_keras)
{
    bool covered[LKI_METRIC_COUNT] = {[LKI_METRIC_mean] = true, [LKI_METRIC_sum_metric] = true};
    for (int i = 0; i < LKI_COUNT(KERAS_METRICS); i++)
        LK_POOL {
            check_case(&KERAS_METRICS[i], i);
            covered[metric_of(&KERAS_METRICS[i])->kind - lki_metric_kinds] = true;
        }
    for (int k = 0; k < LKI_METRIC_COUNT; k++)
        if (!covered[k]) fail_msg("no case for \"%s\"", lki_metric_kinds[k].name);
}

/* ---- the same bits for any number of replicas, eager and compiled ---- */

enum { GLOBAL = 24, KINDS = LKI_METRIC_COUNT, BATCHES = 4 };

/* Rows of a batch as replicas get them: each the rows of its lanes. */
static lk_tensor *spread_rows(lk_strategy *s, lk_tensor *x)
{
    lk_tensor *item[8];
    int64_t    total = lk_dim(x, 0);
    for (int r = 0; r < s->replicas; r++) {
        int64_t  lo = lki_min(total, lki_lane_begin(GLOBAL, s->lanes, lki_lane_owner_begin(s->lanes, r, s->replicas)));
        int64_t  hi = lki_min(total, lki_lane_begin(GLOBAL, s->lanes, lki_lane_owner_begin(s->lanes, r + 1, s->replicas)));
        lki_rows rows = {
            .kind = LKI_ROWS, .lanes = s->lanes, .per_row = 1, .global = GLOBAL, .first = lo, .rows = hi - lo, .total = total};
        item[r] = lki_tensor_row_range(x, lo, hi - lo, &rows);
    }
    return s->replicas == 1 ? item[0] : lki_per_replica(s, s->replicas, item, lk_rows(x, GLOBAL), false);
}

typedef struct fixture {
    lk_strategy *strategy;
    lk_metric   *metric[KINDS], *own, *late[2];
} fixture;

static lk_tensor *own_numbers(lk_tensor *labels, lk_tensor *predictions, lk_tensor *weight, void *user)
{
    lk_tensor *error = lk_reduce_sum(lk_abs(lk_sub(labels, predictions)), .axis = LK_AXES(-1));
    (void)user;
    return lk_stack(LK_TUPLE(weight ? lk_mul(error, weight) : error, lk_square(error)), 1);
}

static double own_result(int size, const double *sums, void *user) { return (void)user, size == 2 ? sums[1] / sums[0] : NAN; }

/* With what a kind requires. */
static lk_metric_args required_by(int k)
{
    const unsigned takes = lki_metric_kinds[k].takes;
    lk_metric_args a = {0};
    if (takes & LKI_TAKES_NUM_CLASSES) a.num_classes = CLASS_COUNT;
    if (takes & LKI_TAKES_TARGETS) a.target_class_ids = lk_tensor_of(LK_SHAPE(2), 0, 1);
    if (takes & LKI_TAKES_RECALL) a.recall = 0.5;
    if (takes & LKI_TAKES_PRECISION) a.precision = 0.5;
    if (takes & LKI_TAKES_SENSITIVITY) a.sensitivity = 0.5;
    if (takes & LKI_TAKES_SPECIFICITY) a.specificity = 0.5;
    return a;
}

static void make_metrics(fixture *f)
{
#define MAKE(name, class) [LKI_METRIC_##name] = lk_##name##_kw,
    static maker *const makers[] = {LK_METRIC_LIST(MAKE)};
    for (int k = 0; k < KINDS; k++) {
        f->metric[k] = makers[k](required_by(k));
    }
    f->own = lk_metric_of(own_numbers, own_result, 2);
    f->late[0] = lk_f1_score(.average = "macro");
    f->late[1] = lk_confusion_matrix();
}

/* in: classes, one-hot labels, many-hot labels, probabilities, numbers, weights */
static lk_tuple update_all(lk_tuple in, void *user)
{
    fixture   *f = user;
    lk_tensor *ids = in.item[0], *hot = in.item[1], *many = in.item[2], *p = in.item[3], *x = in.item[4], *w = in.item[5];
    for (int k = 0; k < KINDS; k++) {
        const lki_metric_kind *kind = &lki_metric_kinds[k];
        bool       sparse = strstr(kind->name, "sparse") || k == LKI_METRIC_accuracy || k == LKI_METRIC_confusion_matrix;
        lk_tensor *y = sparse ? ids : kind->verdict[0] || kind->entry ? many : hot;
        if (!kind->operand[1]) lk_metric_update(f->metric[k], x, .sample_weight = w);
        else lk_metric_update(f->metric[k], y, k == LKI_METRIC_exact_accuracy ? hot : p, k % 2 ? w : NULL);
    }
    lk_metric_update(f->own, x, p, w);
    lk_metric_update(f->late[0], hot, p, w);
    lk_metric_update(f->late[1], ids, p);
    return LK_TUPLE(lk_reduce_sum(x));
}

static lk_tuple on_replicas(lk_tuple in, void *user) { return lk_run(((fixture *)user)->strategy, update_all, in, user); }

static lk_tuple batch(int number)
{
    int64_t    n = number == 2 ? 5 : GLOBAL; /* one short batch, which leaves replicas without rows */
    lk_shape   shape = LK_SHAPE(n, CLASS_COUNT);
    lk_tensor *ids = lk_cast(lk_mul(lk_random_uniform(LK_SHAPE(n), .call = number), lk_scalar(CLASS_COUNT)), LK_I64);
    lk_tensor *many = lk_cast(lk_less(lk_random_uniform(shape, .stream = "many", .call = number), lk_scalar(0.4)), LK_F32);
    return LK_TUPLE(ids, lk_one_hot(ids, CLASS_COUNT), many, lk_softmax(lk_random_normal(shape, .stream = "p", .call = number)),
                    lk_random_normal(shape, .stream = "x", .call = number),
                    lk_random_uniform(LK_SHAPE(n), .stream = "w", .call = number));
}

static lk_metric *metric_at(fixture *f, int i) { return i < KINDS ? f->metric[i] : i == KINDS ? f->own : f->late[i - KINDS - 1]; }

enum { EVERY = KINDS + 3 };

/* Every sum of every metric, lane by lane. */
static lk_digest sums_of(fixture *f, double *result)
{
    lk_variable *all[EVERY * LKI_MOST_SUMS];
    int          count = 0;
    for (int i = 0; i < EVERY; i++) {
        lk_variables v = lk_metric_variables(metric_at(f, i));
        for (int q = 0; q < v.count; q++)
            all[count++] = v.item[q];
        result[i] = lk_metric_result(metric_at(f, i));
    }
    return lk_variables_digest(lk_variables_from(count, all));
}

static lk_digest count_on(int replicas, bool compiled, double *result)
{
    lk_digest digest = {{0}};
    LK_POOL {
        fixture f = {.strategy = mirrored(replicas)};
        LK_SCOPE(f.strategy)
            make_metrics(&f);
        lk_function *step = lk_function_of(on_replicas, &f);
        for (int i = 0; i < BATCHES; i++) {
            lk_tuple   whole = batch(i), in;
            lk_tensor *item[8];
            for (int k = 0; k < whole.count; k++)
                item[k] = spread_rows(f.strategy, whole.item[k]);
            in = lk_tuple_from(whole.count, item);
            if (compiled) lk_call(step, in);
            else on_replicas(in, &f);
        }
        SOUND();
        digest = sums_of(&f, result);
    }
    return digest;
}

static lk_digest count_without(double *result)
{
    lk_digest digest = {{0}};
    LK_POOL {
        fixture f = {0};
        make_metrics(&f);
        for (int i = 0; i < BATCHES; i++)
            update_all(lk_rows_all(batch(i), GLOBAL), &f);
        SOUND();
        digest = sums_of(&f, result);
    }
    return digest;
}

TEST(same_bits_for_any_number_of_replicas)
{
    double    want[EVERY], have[EVERY];
    lk_digest one = count_without(want);
    for (int i = 0; i < EVERY; i++)
        if (!(fabs(want[i]) > 1e-6)) fail_msg("metric %d counted nothing", i);
    EACH_COUNT(n)
    for (int compiled = 0; compiled < 2; compiled++) {
        lk_digest digest = count_on(n, compiled, have);
        for (int i = 0; i < EVERY; i++)
            if (have[i] != want[i])
                fail_msg("%d replicas, compiled %d: metric %d is %.17g, not %.17g", n, compiled, i, have[i], want[i]);
        assert_true(lk_digest_equal(digest, one));
    }
}

/* ---- ranks, types, corners ---- */

static double of_one(lk_metric *m, lk_tensor *labels, lk_tensor *predictions, lk_tensor *weight)
{
    lk_metric_reset(m);
    assert_int_equal(lk_metric_update(m, labels, predictions, weight), LK_OK);
    return lk_metric_result(m);
}

TEST(every_element_of_higher_ranks_counts)
{
    LK_POOL {
        lk_tensor *p = lk_softmax(lk_random_normal(LK_SHAPE(6, 5, 4))), *flat = lk_reshape(p, LK_SHAPE(30, 4));
        lk_tensor *ids = lk_cast(lk_mul(lk_random_uniform(LK_SHAPE(6, 5)), lk_scalar(4)), LK_I64),
                  *row = lk_random_uniform(LK_SHAPE(6));
        lk_tensor *each = lk_reshape(lk_mul(lk_reshape(row, LK_SHAPE(6, 1)), lk_ones(LK_SHAPE(6, 5), LK_F32)), LK_SHAPE(30));
        lk_metric *sparse[] = {lk_accuracy(), lk_sparse_top_k_categorical_accuracy(.k = 2),
                               lk_sparse_categorical_crossentropy_metric(), lk_confusion_matrix(.num_classes = 4)};
        lk_metric *dense[] = {lk_categorical_accuracy(),           lk_precision(.threshold = LK_NUMBER(0.3)),
                              lk_recall(.class_id = LK_NUMBER(1)), lk_auc(),
                              lk_f1_score(.num_classes = 4),       lk_kl_divergence_metric(),
                              lk_mean_squared_error_metric()};
        for (int i = 0; i < LKI_COUNT(sparse); i++) {
            double a = of_one(sparse[i], ids, p, row), b = of_one(sparse[i], lk_reshape(ids, LK_SHAPE(30, 1)), flat, each);
            assert_true(a > 0 && fabs(a - b) < 1e-6);
        }
        for (int i = 0; i < LKI_COUNT(dense); i++) {
            double a = of_one(dense[i], lk_one_hot(ids, 4), p, row),
                   b = of_one(dense[i], lk_one_hot(lk_reshape(ids, LK_SHAPE(30)), 4), flat, each);
            assert_true(a > 0 && fabs(a - b) < 1e-6);
        }
        assert_false(lk_failed());
    }
}

TEST(accuracy_goes_by_shapes)
{
    LK_POOL {
        lk_metric *m = lk_accuracy();
        lk_tensor *p = lk_tensor_of(LK_SHAPE(2, 3), 0.1, 0.2, 0.7, 0.6, 0.3, 0.1);
        assert_true(of_one(m, lk_tensor_of(LK_SHAPE(2), 2, 1), p, NULL) == 0.5);
        assert_true(of_one(m, lk_tensor_of(LK_SHAPE(2, 1), 2, 0), p, NULL) == 1);
        assert_true(of_one(m, lk_tensor_of(LK_SHAPE(2, 3), 0, 0, 1, 0, 1, 0), p, NULL) == 0.5);
        assert_true(of_one(m, lk_tensor_of(LK_SHAPE(2, 1), 1, 0), lk_tensor_of(LK_SHAPE(2, 1), 0.6, 0.7), NULL) == 0.5);
        assert_true(of_one(m, lk_tensor_of(LK_SHAPE(2), 1, 0), lk_tensor_of(LK_SHAPE(2, 1), 0.6, 0.2), NULL) ==
                    1); /* not the 4 of [2] by [2, 1] */
        assert_true(of_one(m, lk_tensor_of(LK_SHAPE(2), 1, 1), lk_tensor_of(LK_SHAPE(2), 0.6, 0.2), NULL) == 0.5);
        lk_metric *at_zero = lk_accuracy(.threshold = LK_NUMBER(0));
        assert_true(of_one(at_zero, lk_tensor_of(LK_SHAPE(2, 1), 1, 0), lk_tensor_of(LK_SHAPE(2, 1), 0.1, -0.1), NULL) == 1);
        lk_metric_update(m, lk_tensor_of(LK_SHAPE(2), 2, 0), p); /* after a binary batch */
        assert_true(lk_metric_result(m) == 0.75);
        assert_false(lk_failed());
    }
}

TEST(labels_and_predictions_of_any_type)
{
    static const lk_dtype types[] = {LK_F32, LK_F64, LK_F16, LK_BF16, LK_I32, LK_I64, LK_U8, LK_BOOL};
    for (int i = 0; i < LKI_COUNT(types); i++)
        LK_POOL {
            lk_tensor *y = lk_cast(lk_tensor_of(LK_SHAPE(4, 2), 1, 0, 0, 1, 1, 0, 1, 0), types[i]),
                      *p = lk_tensor_of(LK_SHAPE(4, 2), 0.75, 0.25, 0.5, 0.625, 0.25, 0.875, 1, 0);
            assert_true(of_one(lk_binary_accuracy(), y, p, NULL) == 0.75);
            assert_true(of_one(lk_categorical_accuracy(), y, p, NULL) == 0.75);
            assert_true(of_one(lk_precision(), y, p, NULL) == 0.75);
            assert_true(of_one(lk_true_negatives(), y, p, NULL) == 3);
            assert_true(of_one(lk_top_k_categorical_accuracy(.k = 1), y, p, NULL) == 0.75);
            assert_true(fabs(of_one(lk_f1_score(.average = "micro"), y, p, NULL) - 0.75) < 1e-6);
            if (lki_is_float(types[i])) /* predictions */
                assert_true(of_one(lk_recall(), lk_cast(y, LK_I32), lk_cast(p, types[i]), NULL) == 0.75);
            assert_false(lk_failed());
        }
}

TEST(equal_ones_do_not_push_each_other_out_of_the_top)
{
    LK_POOL {
        lk_metric *m = lk_sparse_top_k_categorical_accuracy(.k = 2);
        lk_tensor *ids = lk_tensor_from(LK_SHAPE(6), LK_I32, (int32_t[]){3, 0, 2, 4, -1, 1});
        lk_tensor *p = lk_tensor_of(LK_SHAPE(6, 4), 5, 1, 1, 1 /* one above */, 1, 2, 3, 1 /* two above */, 1, 1, NAN, 1, 1, 1, 1,
                                    1 /* no class 4 */, 1, 1, 1, 1 /* nor -1 */, INFINITY, 1, 0, 0 /* not finite */);
        assert_true(of_one(m, ids, p, NULL) == 1.0 / 6);
        assert_true(of_one(lk_sparse_top_k_categorical_accuracy(), lk_tensor_of(LK_SHAPE(1), 2),
                           lk_tensor_of(LK_SHAPE(1, 3), 3, 2, 1), NULL) == 1);
        assert_false(lk_failed());
    }
}

TEST(nothing_divides_by_zero)
{
    LK_POOL {
        lk_tensor *none = lk_zeros(LK_SHAPE(3, 2), LK_F32), *all = lk_ones(LK_SHAPE(3, 2), LK_F32);
        assert_true(of_one(lk_precision(), all, none, NULL) == 0);
        assert_true(of_one(lk_recall(), none, all, NULL) == 0);
        assert_true(of_one(lk_auc(), none, all, NULL) == 0 && of_one(lk_auc(.curve = "PR"), none, all, NULL) == 0);
        assert_true(of_one(lk_f1_score(), none, none, NULL) == 0);
        assert_true(of_one(lk_cosine_similarity_metric(), none, all, NULL) == 0);
        assert_true(of_one(lk_confusion_matrix(.num_classes = 2), lk_tensor_of(LK_SHAPE(3), -1, 2, 7), none, NULL) == 0);
        assert_true(of_one(lk_mean_squared_error_metric(), all, none, lk_zeros(LK_SHAPE(3), LK_F32)) == 0);
        assert_true(of_one(lk_auc(), lk_zeros(LK_SHAPE(0, 1), LK_F32), lk_zeros(LK_SHAPE(0, 1), LK_F32), NULL) == 0);
        assert_false(lk_failed());
    }
}

TEST(a_matrix_of_two_classes_from_one_number)
{
    LK_POOL {
        lk_metric *m = lk_confusion_matrix(.threshold = LK_NUMBER(0));
        assert_true(of_one(m, lk_tensor_of(LK_SHAPE(4), 1, 1, 0, 0), lk_tensor_of(LK_SHAPE(4, 1), 2, -1, -1, -1), NULL) == 0.75);
        VALUES(lk_metric_results(m), 2, 0, 1, 1);
        lk_metric_update(m, lk_tensor_of(LK_SHAPE(1, 2), 0, 1), lk_tensor_of(LK_SHAPE(1, 2), 9, 1)); /* one-hot */
        VALUES(lk_metric_results(m), 2, 0, 2, 1);
        assert_int_equal(lk_rank(lk_metric_results(m)), 2);
        assert_false(lk_failed());
    }
}

/* ---- sums that are made late ---- */

static lk_tuple update_late(lk_tuple in, void *user)
{
    lk_metric *m = user;
    lk_metric_update(m, in.item[0], in.item[1]);
    return LK_TUPLE(lk_reduce_sum(in.item[1]));
}

TEST(sums_come_with_the_first_predictions)
{
    LK_POOL {
        lk_metric *m = lk_f1_score(), *told = lk_f1_score(.num_classes = 3), *micro = lk_f1_score(.average = "micro");
        lk_tensor *y = lk_one_hot(lk_range(3, LK_I32), 3), *p = lk_tensor_of(LK_SHAPE(3, 3), 1, 0, 0, 1, 0, 0, 0, 0, 1);
        assert_int_equal(lk_metric_variables(m).count, 0);
        assert_int_equal(lk_metric_variables(told).count, 4);
        assert_true(lk_metric_result(m) == 0 && lk_size(lk_metric_results(m)) == 1);
        assert_int_equal(lk_metric_reset(m), LK_OK);
        lk_call(lk_function_of(update_late, m), LK_TUPLE(y, p)); /* also while a function is traced */
        lk_metric_update(told, y, p);
        lk_metric_update(micro, y, p);
        assert_string_equal(lk_variable_name(lk_metric_variables(m).item[3]), "f1_score/intermediate_weights");
        assert_int_equal(lk_variable_shape(lk_metric_variables(m).item[0]).dim[1], 3);
        assert_int_equal(lk_variable_shape(lk_metric_variables(micro).item[0]).rank, 1);
        assert_true(lk_metric_result(m) == lk_metric_result(told));
        VALUES(lk_metric_results(m), 2.0 / 3, 0, 1);
        REFUSED(LK_ESHAPE, lk_metric_update(m, lk_ones(LK_SHAPE(2, 4), LK_F32), lk_ones(LK_SHAPE(2, 4), LK_F32)), "\"f1_score\"",
                "[2, 4]", "3 classes");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_f1_score(), lk_scalar(1), lk_scalar(1)), "f1_score", "classes");
        assert_int_equal(lki_metric_build(micro, NULL), LK_OK); /* it is */
        SOUND();
    }
}

REPLICA_FN(late_inside)
{
    lk_metric *m = lk_confusion_matrix();
    lk_metric_update(m, in.item[0], in.item[1]);
    EXPECT(lk_metric_result(m) == (my_id() ? 0 : 1));         /* of this replica: the last knows nothing */
    lk_all_reduce(lk_get_replica_context(), LK_SUM, mine(0)); /* all have counted */
    const double *cell = lk_variable_data(lk_metric_variables(m).item[0]);
    double        sum = 0;
    for (int i = 0; i < 8 * 4; i++)
        sum += cell[i];
    EXPECT(sum == 4); /* there is one matrix */
    return LK_TUPLE();
}

TEST(replicas_meet_to_make_them)
{
    LK_POOL {
        lk_strategy *s = mirrored(2), *other = mirrored(3);
        lk_metric   *outside = lk_confusion_matrix(), *scoped = NULL;
        LK_SCOPE(s)
            scoped = lk_f1_score();
        lk_tensor *y = SPREAD(s, lk_tensor_of(LK_SHAPE(2), 0, 1), lk_tensor_of(LK_SHAPE(2), 0, 0));
        lk_tensor *p = SPREAD(s, lk_tensor_of(LK_SHAPE(2, 2), 1, 0, 0, 1), lk_tensor_of(LK_SHAPE(2, 2), 0, 1, 0, 1));
        lk_run(s, late_inside, LK_TUPLE(y, p));
        lk_run(s, update_late, LK_TUPLE(y, p), outside);
        VALUES(lk_metric_results(outside), 1, 2, 0, 1);
        SOUND();
        LK_SCOPE(other)
            REFUSED(LK_ESTATE, lk_metric_update(scoped, lk_ones(LK_SHAPE(1, 2), LK_F32), lk_ones(LK_SHAPE(1, 2), LK_F32)),
                    "\"f1_score\"", "mixed");
        lk_metric_update(scoped, lk_ones(LK_SHAPE(1, 2), LK_F32), lk_ones(LK_SHAPE(1, 2), LK_F32)); /* outside, for its strategy */
        assert_ptr_equal(lk_metric_variables(scoped).item[0]->spread->strategy, s);
        SOUND();
    }
}

TEST(a_strategy_adopts_a_metric)
{
    LK_POOL {
        lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2, .lanes = 16), *other = mirrored(2);
        lk_metric   *m = lk_precision(), *late = lk_f1_score();
        lk_metric_update(m, lk_ones(LK_SHAPE(1), LK_F32), lk_ones(LK_SHAPE(1), LK_F32));
        assert_int_equal(lki_metric_adopt(m, NULL), LK_OK);
        assert_true(lk_metric_result(m) == 1);
        assert_int_equal(lki_metric_adopt(m, s), LK_OK);
        assert_int_equal(lki_metric_adopt(m, s), LK_OK);
        assert_int_equal(lki_metric_adopt(late, s), LK_OK);
        assert_int_equal(lk_variable_shape(lk_metric_variables(m).item[0]).dim[0], 16);
        assert_true(lk_metric_result(m) == 0);
        REFUSED(LK_ESTATE, lki_metric_adopt(m, other), "\"precision\"", "mixed");
        SOUND();
    }
}

/* ---- checkpoints ---- */

TEST(checkpoints_hold_all_numbers)
{
    char        name[80];
    const char *folder = folder_new();
    LK_POOL {
        lk_metric *a = lk_auc(), *b = lk_auc(), *late = lk_f1_score();
        lk_metric_update(a, labels_from(BINARY, 0, ROWS), predictions_from(BINARY, 0, ROWS));
        snprintf(name, sizeof name, "%s/metrics", folder);
        assert_non_null(lk_checkpoint_write(lk_checkpoint_of({"a", a}, {"late", late}), name));
        assert_int_equal(lk_restore_assert_consumed(lk_checkpoint_read(lk_checkpoint_of({"a", b}, {"late", lk_f1_score()}), name)),
                         LK_OK);
        assert_true(lk_digest_equal(lk_variables_digest(lk_metric_variables(a)), lk_variables_digest(lk_metric_variables(b))));
        lk_set_lanes(4); /* then the sums over all lanes fit, as they do from TensorFlow */
        b = lk_auc();
        assert_int_equal(lk_restore_assert_consumed(lk_checkpoint_read(lk_checkpoint_of({"a", b}, {"late", lk_f1_score()}), name)),
                         LK_OK);
        assert_true(lk_metric_result(b) == lk_metric_result(a) && lk_metric_result(a) > 0.1);
        lk_set_lanes(8);
        lk_metric *other = lk_auc(.num_thresholds = 7);
        REFUSED(LK_ESHAPE, lk_checkpoint_read(lk_checkpoint_of({"a", other}), name), "[200]", "[7]");
        SOUND();
    }
    folder_remove(folder);
}

/* ---- names and files ---- */

static const lki_metric_kind *kind_named(const char *name)
{
    lk_metric *m = lk_metric_named(name);
    if (!m) fail_msg("%s", lk_error());
    assert_string_equal(lk_metric_name(m), name); /* as Keras calls it then */
    return m->kind;
}

TEST(metrics_by_name)
{
    LK_POOL {
        static const struct {
            const char   *name;
            lki_metric_id metric;
        } names[] = {{"accuracy", LKI_METRIC_accuracy},
                     {"acc", LKI_METRIC_accuracy},
                     {"Accuracy", LKI_METRIC_accuracy},
                     {"mse", LKI_METRIC_mean_squared_error_metric},
                     {"MSE", LKI_METRIC_mean_squared_error_metric},
                     {"mean_squared_error", LKI_METRIC_mean_squared_error_metric},
                     {"MeanSquaredError", LKI_METRIC_mean_squared_error_metric},
                     {"mae", LKI_METRIC_mean_absolute_error_metric},
                     {"MAPE", LKI_METRIC_mean_absolute_percentage_error_metric},
                     {"msle", LKI_METRIC_mean_squared_logarithmic_error_metric},
                     {"bce", LKI_METRIC_binary_crossentropy_metric},
                     {"AUC", LKI_METRIC_auc},
                     {"auc", LKI_METRIC_auc},
                     {"f1_score", LKI_METRIC_f1_score},
                     {"log_cosh_error", LKI_METRIC_log_cosh_error_metric},
                     {"top_k_categorical_accuracy", LKI_METRIC_top_k_categorical_accuracy},
                     {"sum", LKI_METRIC_sum_metric}};
        for (int i = 0; i < LKI_COUNT(names); i++)
            assert_ptr_equal(kind_named(names[i].name), &lki_metric_kinds[names[i].metric]);
        for (int k = 0; k < LKI_METRIC_COUNT; k++) {
            const unsigned takes = lki_metric_kinds[k].takes;
            if (takes & (LKI_TAKES_RECALL | LKI_TAKES_PRECISION | LKI_TAKES_SENSITIVITY | LKI_TAKES_SPECIFICITY)) continue;
            if (k == LKI_METRIC_exact_accuracy || ((takes & LKI_TAKES_NUM_CLASSES) && (takes & LKI_TAKES_IGNORE_CLASS))) continue;
            assert_ptr_equal(kind_named(lki_metric_kinds[k].name), &lki_metric_kinds[k]);
            if (lki_metric_classes[k].name) assert_ptr_equal(kind_named(lki_metric_classes[k].name), &lki_metric_kinds[k]);
        }
        REFUSED(LK_EINVAL, lk_metric_named("acuracy"), "\"acuracy\"", "did you mean accuracy");
        REFUSED(LK_EINVAL, lk_metric_named(NULL), "NULL");
        assert_string_equal(lki_metric_word(lk_metric_named("acc")), "accuracy");
        assert_null(lki_metric_word(lk_auc()));
        assert_int_equal(lki_metric_output(lk_auc(.output = 3)), 3);
    }
}

TEST(keras_files_know_them)
{
    int described = 0;
    for (int i = 0; i < LKI_COUNT(KERAS_METRIC_KEYS); i++)
        for (int k = 0; k < LKI_METRIC_COUNT; k++) {
            const lki_class *c = &lki_metric_classes[k];
            if (!c->name || strcmp(c->name, KERAS_METRIC_KEYS[i][0])) continue;
            described++;
            check_keys(c, KERAS_METRIC_KEYS[i][1], "");
            LK_POOL {
                lk_metric_args a = required_by(k);
                a.name = "made";
                lk_metric *m = c->make(&a);
                assert_ptr_equal(m->class, c);
                assert_string_equal(m->set.name, "made");
                lk_metric *again = c->make(&m->set); /* what it keeps can be given again */
                assert_non_null(again);
                assert_false(lk_failed());
            }
        }
    assert_int_equal(described, LKI_METRIC_COUNT - 2); /* all but accuracy, which is a word, and the matrix */
}

/* ---- custom metrics ---- */

static lk_tensor *gives(lk_tensor *labels, lk_tensor *predictions, lk_tensor *weight, void *user)
{
    (void)labels, (void)predictions, (void)weight;
    return user;
}

static lk_tensor *distance(lk_tensor *labels, lk_tensor *predictions, lk_tensor *weight, void *user)
{
    lk_tensor *d = lk_mul(lk_reduce_sum(lk_abs(lk_sub(labels, predictions)), .axis = LK_AXES(-1)), lk_scalar(*(double *)user));
    return weight ? lk_mul(d, weight) : d;
}

TEST(own_metrics)
{
    LK_POOL {
        double     scale = 2;
        lk_metric *m = lk_metric_of(distance, .user = &scale),
                  *two = lk_metric_of(own_numbers, own_result, 2, .name = "ratio", .output = 1);
        lk_tensor *y = lk_zeros(LK_SHAPE(2, 2), LK_F32), *p = lk_tensor_of(LK_SHAPE(2, 2), 1, 2, 3, 4),
                  *w = lk_tensor_of(LK_SHAPE(2), 1, 0);
        assert_string_equal(lk_metric_name(m), "own_metric");
        assert_string_equal(lk_metric_name(two), "ratio");
        assert_int_equal(lki_metric_output(two), 1);
        assert_null(m->class->name);
        assert_true(of_one(m, y, p, NULL) == 10 && of_one(m, y, p, w) == 3);
        assert_true(of_one(two, y, p, NULL) == 58.0 / 10);
        lk_metric *column = lk_metric_of(gives, .user = lk_ones(LK_SHAPE(2, 1), LK_BOOL)),
                  *flat = lk_metric_of(gives, .user = lk_range(2, LK_I64));
        assert_true(of_one(column, y, p, NULL) == 1 && of_one(flat, y, p, NULL) == 0.5);
        REFUSED(LK_EINVAL, lk_metric_of(.size = 2), "lk_metric_of", "values", "NULL");
        REFUSED(LK_EINVAL, lk_metric_of(distance, .size = -1), "size is -1");
        REFUSED(LK_EINVAL, lk_metric_of(distance, .size = 3), "3 numbers", "result");
        REFUSED(LK_EINVAL, lk_metric_update(lk_metric_of(gives), y, p), "\"own_metric\"", "returned NULL");
        REFUSED(LK_EINVAL, lk_metric_update(m, y), "predictions are NULL");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_metric_of(gives, .user = y), y, p), "returned [2, 2]", "1 number for each row");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_metric_of(gives, .user = lk_scalar(1)), y, p), "returned []");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_metric_of(gives, .user = lk_range(3, LK_F32)), y, p), "returned [3]");
        assert_true(lk_metric_result(m) == 3);
        SOUND();
    }
}

/* ---- misuse ---- */

TEST(options)
{
    LK_POOL {
        REFUSED(LK_EINVAL, lk_mean(.threshold = LK_NUMBER(0.5)), "lk_mean", "does not take threshold");
        REFUSED(LK_EINVAL, lk_auc(.k = 3), "lk_auc", "does not take k");
        REFUSED(LK_EINVAL, lk_true_positives(.class_id = LK_NUMBER(1)), "class_id");
        REFUSED(LK_EINVAL, lk_precision(.num_thresholds = 3), "num_thresholds");
        REFUSED(LK_EINVAL, lk_mean_squared_error_metric(.from_logits = LK_OFF), "from_logits");
        REFUSED(LK_EINVAL, lk_recall(.curve = "PR"), "curve");
        REFUSED(LK_EINVAL, lk_accuracy(.num_classes = 3), "num_classes");
        REFUSED(LK_EINVAL, lk_precision(.average = "micro"), "average");
        REFUSED(LK_EINVAL, lk_auc(.curve = "roc"), "\"roc\"", "\"ROC\", \"PR\" or \"PRGAIN\"");
        REFUSED(LK_EINVAL, lk_f1_score(.average = "mean"), "\"mean\"", "\"macro\"");
        REFUSED(LK_EINVAL, lk_precision(.threshold = LK_NUMBER(1.5)), "threshold is 1.5", "0 to 1");
        REFUSED(LK_EINVAL, lk_f1_score(.threshold = LK_NUMBER(0)), "above 0");
        lk_tensor *list = lk_tensor_of(LK_SHAPE(2), 0.5, 2);
        REFUSED(LK_EINVAL, lk_iou(.num_classes = 3), "target_class_ids are missing");
        REFUSED(LK_EINVAL, lk_mean_iou(), "num_classes is missing");
        REFUSED(LK_EINVAL, lk_iou(.num_classes = 2, .target_class_ids = list), "target_class_ids has 0.5; it must be 0 to 1");
        REFUSED(LK_EINVAL, lk_precision(.thresholds = list), "thresholds has 2; it must be 0 to 1");
        REFUSED(LK_EINVAL, lk_auc(.num_labels = 3), "for multi_label only");
        REFUSED(LK_EINVAL, lk_auc(.num_labels = 3, .multi_label = LK_ON, .label_weights = list), "each of 3 labels");
        REFUSED(LK_EINVAL, lk_precision_at_recall(), "recall is missing");
        REFUSED(LK_EINVAL, lk_precision_at_recall(.recall = LK_NUMBER(1.5)), "recall is 1.5");
        REFUSED(LK_EINVAL, lk_r2_score(.class_aggregation = "sum"), "\"none\"");
        REFUSED(LK_EINVAL, lk_fbeta_score(.beta = -1), "beta is -1");
        REFUSED(LK_EINVAL, lk_binary_accuracy(.threshold = LK_NUMBER(NAN)), "finite");
        REFUSED(LK_EINVAL, lk_sparse_top_k_categorical_accuracy(.k = -1), "k is -1");
        REFUSED(LK_EINVAL, lk_precision(.class_id = LK_NUMBER(1.5)), "class_id is 1.5");
        REFUSED(LK_EINVAL, lk_auc(.num_thresholds = 1), "num_thresholds is 1", "at least 2");
        REFUSED(LK_EINVAL, lk_confusion_matrix(.num_classes = -4), "num_classes is -4");
        REFUSED(LK_EINVAL, lk_auc(.output = -1), "output is -1");
        SOUND();
    }
}

TEST(operands)
{
    LK_POOL {
        lk_tensor *p = lk_ones(LK_SHAPE(4, 3), LK_F32), *y = lk_ones(LK_SHAPE(4), LK_F32), *odd = lk_ones(LK_SHAPE(4, 2), LK_F32);
        REFUSED(LK_ESHAPE, lk_metric_update(lk_precision(), odd, p), "\"precision\"", "labels [4, 2]", "[4, 3]");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_recall(.class_id = LK_NUMBER(3)), p, p), "class_id is 3", "[4, 3]");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_recall(.class_id = LK_NUMBER(0)), y, y), "class_id is 0", "[4]");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_categorical_accuracy(), y, p), "[4]", "[4, 3]", "classes");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_top_k_categorical_accuracy(), odd, p), "[4, 2]");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_sparse_top_k_categorical_accuracy(), odd, p), "labels [4, 2]");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_mean_absolute_error_metric(), odd, p), "mean_absolute_error", "[4, 2]");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_root_mean_squared_error_metric(), odd, p), "root_mean_squared_error");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_confusion_matrix(.num_classes = 5), y, p), "[4, 3]", "5 classes");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_accuracy(), y, lk_scalar(1)), "scalar");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_precision(), y, y, odd), "\"precision\"", "weights [4, 2, 1]", "values [4, 1]");
        REFUSED(LK_ESHAPE, lk_metric_update(lk_auc(), p, p, lk_ones(LK_SHAPE(3), LK_F32)), "\"auc\"", "weights [3, 1, 1]",
                "values [4, 3, 200]");
        REFUSED(LK_EINVAL, lk_metric_update(lk_sparse_categorical_crossentropy_metric(), lk_tensor_of(LK_SHAPE(4), 0, 1, 7, 2), p),
                "label");
        REFUSED(LK_EINVAL, lk_metric_results(NULL), "lk_metric_results", "NULL");
        lk_metric *m = lk_precision();
        lk_metric_update(m, odd, p);
        lk_clear_error();
        assert_true(lk_metric_result(m) == 0); /* nothing was counted */
        SOUND();
    }
}

/* ---- memory ---- */

static int count_and_ask(void)
{
    bool good = true;
    LK_POOL {
        lk_metric *m[] = {lk_auc(.num_thresholds = 3),
                          lk_f1_score(),
                          lk_confusion_matrix(),
                          lk_metric_of(own_numbers, own_result, 2),
                          lk_top_k_categorical_accuracy(.k = 1),
                          lk_metric_named("mse")};
        for (int i = 0; i < LKI_COUNT(m) && good; i++) {
            good = m[i] && lk_metric_update(m[i], labels_from(ONE_HOT, 0, 4), predictions_from(ONE_HOT, 0, 4),
                                            rows_from(keras_weights, 0, 0, 4)) == LK_OK;
            good =
                good && !isnan(lk_metric_result(m[i])) && !lk_poisoned(lk_metric_results(m[i])) && lk_metric_reset(m[i]) == LK_OK;
        }
    }
    return good;
}

TEST(every_allocation_may_fail)
{
    assert_true(count_and_ask());
    assert_true(check_every_allocation(count_and_ask) > 50);
}

TESTS(cmocka_unit_test(values_of_keras), cmocka_unit_test(same_bits_for_any_number_of_replicas),
      cmocka_unit_test(every_element_of_higher_ranks_counts), cmocka_unit_test(accuracy_goes_by_shapes),
      cmocka_unit_test(labels_and_predictions_of_any_type), cmocka_unit_test(equal_ones_do_not_push_each_other_out_of_the_top),
      cmocka_unit_test(nothing_divides_by_zero), cmocka_unit_test(a_matrix_of_two_classes_from_one_number),
      cmocka_unit_test(sums_come_with_the_first_predictions), cmocka_unit_test(replicas_meet_to_make_them),
      cmocka_unit_test(a_strategy_adopts_a_metric), cmocka_unit_test(checkpoints_hold_all_numbers),
      cmocka_unit_test(metrics_by_name), cmocka_unit_test(keras_files_know_them), cmocka_unit_test(own_metrics),
      cmocka_unit_test(options), cmocka_unit_test(operands), cmocka_unit_test(every_allocation_may_fail))
