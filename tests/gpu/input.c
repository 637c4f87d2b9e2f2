/* Batches made on a card: the same values, and saved iterators the same bytes, as those that the host makes, for every pipeline;
 * made on the card if possible, else by the host. */
#include "small.h"
#include <pthread.h>

enum { MANY = 1300, SIDE = 5 }; /* rows: more than travel with a launch, and two blocks of what is made */

/* ---- rows ---- */

static lk_tensor *numbers(lk_dtype dtype, lk_shape row, int64_t rows, int kind)
{
    lk_shape shape = {row.rank + 1, {rows}};
    int64_t  size = rows;
    for (int i = 0; i < row.rank; i++) {
        shape.dim[i + 1] = row.dim[i];
        size *= row.dim[i];
    }
    uint8_t *bytes = malloc((size_t)size * 8 + 8);
    for (int64_t i = 0; i < size; i++) {
        const int64_t x = (i * 131 + kind * 17 + i / 7) % 256;
        if (dtype == LK_U8) bytes[i] = (uint8_t)x;
        else if (dtype == LK_BOOL) bytes[i] = x & 1;
        else if (dtype == LK_I32) ((int32_t *)bytes)[i] = (int32_t)(x - 100);
        else if (dtype == LK_I64) ((int64_t *)bytes)[i] = x % 10;
        else if (dtype == LK_F64) ((double *)bytes)[i] = (double)x / 3;
        else ((float *)bytes)[i] = (float)x / 7 - 3;
    }
    lk_tensor *t = lk_tensor_from(shape, dtype, bytes);
    free(bytes);
    return t;
}

static lk_dataset *pictures(int64_t rows, int64_t side)
{
    return lk_dataset_from_tensor_slices(
        LK_TUPLE(numbers(LK_U8, LK_SHAPE(side, side, 1), rows, 0), numbers(LK_I64, LK_SHAPE(), rows, 1)));
}

/* ---- functions of rows ---- */

static lk_tuple scaled(lk_tuple row, void *user)
{
    (void)user;
    return LK_TUPLE(lk_div(lk_cast(row.item[0], LK_F32), lk_scalar(255)), row.item[1]);
}

static lk_tuple shifted(lk_tuple row, void *user)
{
    (void)user;
    return LK_TUPLE(lk_sub(lk_mul(lk_cast(row.item[0], LK_F32), lk_scalar(0.0078125)), lk_scalar(1)), row.item[1]);
}

/* By no form: the table. */
static lk_tuple rooted(lk_tuple row, void *user)
{
    (void)user;
    return LK_TUPLE(lk_sqrt(lk_cast(row.item[0], LK_F32)), row.item[1]);
}

static lk_tuple flattened(lk_tuple row, void *user)
{
    (void)user;
    return LK_TUPLE(row.item[1], lk_reshape(row.item[0], LK_SHAPE(lk_size(row.item[0]))), row.item[1]);
}

/* Over many rows at once, but more than a copy. */
static lk_tuple marked(lk_tuple row, void *user)
{
    (void)user;
    return LK_TUPLE(lk_cast(row.item[0], LK_F32), lk_one_hot(row.item[1], 10));
}

/* ---- pipelines ---- */

static lk_dataset *mixed_types(void)
{
    return lk_dataset_from_tensor_slices(LK_TUPLE(
        numbers(LK_U8, LK_SHAPE(13), MANY, 2), numbers(LK_BOOL, LK_SHAPE(3), MANY, 3), numbers(LK_I32, LK_SHAPE(2, 3), MANY, 4),
        numbers(LK_F64, LK_SHAPE(), MANY, 5), numbers(LK_F32, LK_SHAPE(12), MANY, 6), numbers(LK_F32, LK_SHAPE(0, 4), MANY, 7),
        numbers(LK_I64, LK_SHAPE(2), MANY, 8), numbers(LK_U8, LK_SHAPE(16), MANY, 9), numbers(LK_F32, LK_SHAPE(3), MANY, 10)));
}

static lk_dataset *shuffled(lk_dataset *d) { return lk_dataset_shuffle(d, 700); }

static lk_dataset *in_order(void) { return lk_dataset_batch(pictures(MANY, SIDE), 100); }
static lk_dataset *as_bytes(void) { return lk_dataset_batch(shuffled(pictures(MANY, SIDE)), 100); }
static lk_dataset *divided(void) { return lk_dataset_batch(shuffled(lk_dataset_map(pictures(MANY, 28), scaled)), 64); }
static lk_dataset *odd_rows(void) { return lk_dataset_batch(lk_dataset_map(shuffled(pictures(MANY, SIDE)), scaled), 37); }
static lk_dataset *minus_one(void) { return lk_dataset_batch(shuffled(lk_dataset_map(pictures(MANY, 4), shifted)), 256); }
static lk_dataset *by_table(void) { return lk_dataset_batch(shuffled(lk_dataset_map(pictures(MANY, SIDE), rooted)), 257); }
static lk_dataset *map_of_map(void)
{
    return lk_dataset_batch(lk_dataset_map(lk_dataset_map(shuffled(pictures(MANY, SIDE)), shifted), flattened), 500);
}
static lk_dataset *full_ones(void) { return lk_dataset_batch(shuffled(pictures(MANY, SIDE)), 64, .drop_remainder = LK_ON); }
static lk_dataset *of_all_types(void) { return lk_dataset_batch(shuffled(mixed_types()), 90); }
static lk_dataset *one_large(void) { return lk_dataset_batch(shuffled(mixed_types()), MANY); }
static lk_dataset *repeated(void) { return lk_dataset_repeat(as_bytes(), 2); }
static lk_dataset *across_turns(void) { return lk_dataset_batch(lk_dataset_repeat(shuffled(pictures(150, SIDE)), 3), 64); }
static lk_dataset *some_of_them(void) { return lk_dataset_take(lk_dataset_skip(divided(), 2), 5); }
static lk_dataset *zipped(void)
{
    lk_dataset *labels = lk_dataset_from_tensor_slices(LK_TUPLE(numbers(LK_I32, LK_SHAPE(2), MANY, 8)));
    return lk_dataset_batch(shuffled(lk_dataset_zip(lk_dataset_map(pictures(MANY, SIDE), scaled), labels)), 64);
}
static lk_dataset *cached(void)
{
    return lk_dataset_batch(shuffled(lk_dataset_cache(lk_dataset_map(pictures(300, SIDE), scaled))), 64);
}
static lk_dataset *cached_results(void)
{
    return lk_dataset_repeat(lk_dataset_batch(shuffled(lk_dataset_cache(lk_dataset_map(pictures(300, SIDE), marked))), 64), 2);
}
static lk_dataset *drawn(void) { return lk_dataset_batch(shuffled(lk_digits(.rows = MANY)), 64); }
static lk_dataset *drawn_and_divided(void)
{
    return lk_dataset_batch(lk_dataset_take(lk_digits(.rows = 3000, .scaled = LK_ON), 100), 30);
}
static lk_dataset *two_sets(void)
{
    return lk_dataset_batch(shuffled(lk_dataset_concatenate(pictures(300, SIDE), pictures(200, SIDE))), 64);
}
static lk_dataset *ahead(void) { return lk_dataset_prefetch(divided(), 2); }

/* These the host makes. */
static lk_dataset *computed(void) { return lk_dataset_batch(shuffled(lk_dataset_map(pictures(300, SIDE), marked)), 64); }
static lk_dataset *counted(void) { return lk_dataset_batch(lk_dataset_range(300), 64); }
static lk_dataset *mapped_batches(void) { return lk_dataset_map(lk_dataset_batch(shuffled(pictures(300, SIDE)), 64), scaled); }
static lk_dataset *cached_batches(void) { return lk_dataset_cache(lk_dataset_batch(shuffled(pictures(300, SIDE)), 64)); }
static lk_dataset *two_kinds(void)
{
    lk_dataset *floats = lk_dataset_from_tensor_slices(
        LK_TUPLE(numbers(LK_F32, LK_SHAPE(SIDE, SIDE, 1), 200, 0), numbers(LK_I64, LK_SHAPE(), 200, 1)));
    return lk_dataset_batch(shuffled(lk_dataset_concatenate(lk_dataset_map(pictures(300, SIDE), scaled), floats)), 64);
}

typedef struct pipeline {
    const char *name;
    lk_dataset *(*make)(void);
    bool on_card;
} pipeline;

static const pipeline PIPELINES[] = {
#define LINE(name, on_card)                                                                                                        \
    {                                                                                                                              \
#name, name, on_card                                                                                                       \
    }
    LINE(in_order, true),          LINE(as_bytes, true),        LINE(divided, true),
    LINE(odd_rows, true),          LINE(minus_one, true),       LINE(by_table, true),
    LINE(map_of_map, true),        LINE(full_ones, true),       LINE(repeated, true),
    LINE(across_turns, true),      LINE(some_of_them, true),    LINE(of_all_types, true),
    LINE(one_large, true),         LINE(zipped, true),          LINE(cached, true),
    LINE(cached_results, true),    LINE(drawn, true),           LINE(two_sets, true),
    LINE(drawn_and_divided, true), LINE(ahead, true),           LINE(computed, false),
    LINE(counted, false),          LINE(mapped_batches, false), LINE(cached_batches, false),
    LINE(two_kinds, false)};

/* ---- what an iteration gives ---- */

static uint64_t mixed_in(uint64_t mark, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        mark = (mark ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
    return mark;
}

static const uint64_t START = 1469598103934665603u;

static void put_mark(outcome *out, uint64_t mark)
{
    child_put(out, (double)(mark >> 32));
    child_put(out, (double)(uint32_t)mark);
}

typedef struct look {
    uint64_t mark;
    int      batches, on_card, elsewhere; /* tensors */
} look;

static void look_at_part(look *l, const lk_tensor *t)
{
    const void *data = lk_data(t);
    NEED(data || !lk_size(t));
    *(lki_on_host(t->buffer->device) ? &l->elsewhere : &l->on_card) += 1;
    const int64_t about[] = {t->dtype,        t->shape.rank,  t->rows.kind,  t->rows.own,  t->rows.lanes,
                             t->rows.per_row, t->rows.global, t->rows.first, t->rows.rows, t->rows.total};
    l->mark = mixed_in(l->mark, about, sizeof about);
    for (int i = 0; i < t->shape.rank; i++)
        l->mark = mixed_in(l->mark, &t->shape.dim[i], sizeof t->shape.dim[i]);
    if (lk_size(t)) l->mark = mixed_in(l->mark, data, (size_t)lk_size(t) * lk_dtype_bytes(t->dtype));
}

static void look_at(look *l, lk_tuple batch)
{
    l->batches++;
    for (int i = 0; i < batch.count; i++) {
        const lk_tensor *t = batch.item[i];
        for (int r = 0; r < (t->replicas ? t->replicas->count : 1); r++)
            look_at_part(l, t->replicas ? t->replicas->item[r] : t);
    }
}

static look look_at_rest(lk_iterator *it)
{
    look     l = {.mark = START};
    lk_tuple batch;
    while (lk_next(it, &batch))
        look_at(&l, batch);
    SOUND();
    return l;
}

typedef struct wish {
    const pipeline *pipeline;
    int             replicas;
    bool            gpu;
} wish;

static lk_strategy *strategy_of(int replicas, bool gpu)
{
    lk_strategy *s = gpu ? lk_mirrored_strategy() : lk_mirrored_strategy(.cpu_devices = replicas);
    NEED(s && lk_num_replicas_in_sync(s) == replicas);
    return s;
}

/* Two epochs as they come; then a third, saved in the middle, and what follows there. */
static void walk(const void *arg, outcome *out)
{
    const wish  *w = arg;
    lk_strategy *s = strategy_of(w->replicas, w->gpu);
    lk_dataset  *d = w->pipeline->make();
    SOUND();
    lk_dataset *over = lk_distribute_dataset(s, d, .prefetch = LK_NUMBER(0)), *ahead_of = lk_distribute_dataset(s, d);
    for (int i = 0; i < 2; i++) {
        const look l = look_at_rest(lk_iterator_of(i ? ahead_of : over));
        put_mark(out, l.mark);
        child_put(out, l.batches);
        if (w->gpu) NEED(w->pipeline->on_card ? !l.elsewhere && l.on_card : !l.on_card);
    }
    lk_iterator *it = lk_iterator_of(over);
    look         l = {.mark = START};
    void        *bytes;
    size_t       size;
    lk_tuple     batch;
    NEED(lk_next(it, &batch));
    look_at(&l, batch);
    NEED(lk_iterator_save(it, &bytes, &size) == LK_OK);
    put_mark(out, l.mark);
    if (w->pipeline->make != ahead) put_mark(out, mixed_in(START, bytes, size)); /* how far a thread came differs */
    lk_iterator *again = lk_iterator_of(lk_distribute_dataset(strategy_of(w->replicas, false), d, .prefetch = LK_NUMBER(0)));
    NEED(lk_iterator_restore(again, bytes, size) == LK_OK);
    const look here = look_at_rest(it), there = look_at_rest(again);
    NEED(here.mark == there.mark && here.batches == there.batches);
    put_mark(out, here.mark);
    lk_free_bytes(bytes);
}

TEST(batches_made_on_a_card_are_the_same)
{
    for (int i = 0; i < LKI_COUNT(PIPELINES); i++)
        for (int replicas = 1; replicas <= 2; replicas++) {
            outcome host, card;
            char    what[64];
            snprintf(what, sizeof what, "%s, %d replicas", PIPELINES[i].name, replicas);
            print_message("%s\n", what);
            CHILD(walk, (&(wish){&PIPELINES[i], replicas, false}), &host, .logical = replicas);
            CHILD(walk, (&(wish){&PIPELINES[i], replicas, true}), &card, .logical = replicas);
            same_outcome(&host, &card, what);
        }
}

/* ---- rows stay for the next reader ---- */

/* A gather may wait for what follows it (backend.h): an op, a step launched call by call, a captured one, one that reads another
 * batch, a read. */
static lk_tuple twice(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_add(in.item[0], in.item[0]));
}
static lk_tuple twice_on_replicas(lk_tuple in, void *strategy) { return lk_run(strategy, twice, in); }

static void is_twice(const lk_tensor *y, const lk_tensor *x)
{
    const float *a = lk_data(x), *b = lk_data(y);
    NEED(a && b && lk_size(x) == lk_size(y) && !lki_on_host(x->buffer->device));
    for (int64_t i = 0; i < lk_size(x); i++)
        NEED(b[i] == a[i] + a[i]);
}

static void used_at_once(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_strategy *s = lk_one_device_strategy("GPU:0");
    for (int compiled = 0; compiled < 2; compiled++)
        for (int prefetch = 0; prefetch < 3; prefetch++)
            LK_POOL {
                lk_function *step = compiled ? lk_function_of(twice_on_replicas, s) : NULL;
                lk_dataset  *d = lk_distribute_dataset(s, divided(), .prefetch = LK_NUMBER(prefetch));
                LK_FOR_EACH(batch, d) {
                    lk_tuple y = step ? lk_call(step, LK_TUPLE(batch.item[0])) : lk_run(s, twice, LK_TUPLE(batch.item[0]));
                    is_twice(y.item[0], batch.item[0]);
                }
            }
    SOUND();
}

TEST(rows_are_there_at_once) { CHILD(used_at_once, NULL, NULL, .cards = 1); }

static void *used_by_one(void *arg)
{
    used_at_once(arg, NULL);
    return NULL;
}

/* A gather of one thread may go with a step of another. */
static void used_by_several(const void *arg, outcome *out)
{
    pthread_t thread[3];
    (void)arg, (void)out;
    for (int i = 0; i < 3; i++)
        NEED(pthread_create(&thread[i], NULL, used_by_one, NULL) == 0);
    for (int i = 0; i < 3; i++)
        NEED(pthread_join(thread[i], NULL) == 0);
}

TEST(rows_are_there_for_several_threads) { CHILD(used_by_several, NULL, NULL, .cards = 1); }

/* Of three batches at a time the last is read first. */
static void used_later(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_strategy *s = lk_one_device_strategy("GPU:0");
    lk_function *step = lk_function_of(twice_on_replicas, s);
    LK_POOL {
        lk_iterator *it[3];
        for (int i = 0; i < 3; i++)
            it[i] = lk_iterator_of(lk_distribute_dataset(s, divided(), .prefetch = LK_NUMBER(0)));
        for (int turn = 0; turn < 4; turn++) {
            lk_tuple batch[3], y[3];
            for (int i = 0; i < 3; i++)
                NEED(lk_next(it[i], &batch[i]));
            for (int i = 2; i >= 0; i--)
                y[i] = lk_call(step, LK_TUPLE(batch[i].item[0]));
            for (int i = 0; i < 3; i++)
                is_twice(y[i].item[0], batch[i].item[0]);
        }
    }
    SOUND();
}

TEST(rows_are_there_later) { CHILD(used_later, NULL, NULL, .cards = 1); }

/* ---- what does not fit ---- */

static lk_model *picture_model(lk_strategy *s)
{
    lk_model *m = NULL;
    LK_SCOPE(s) {
        m = lk_sequential(lk_flatten(.input_shape = LK_SHAPE(16, 16, 1)), lk_dense(10));
        lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = lk_adam(),
                         .metrics = LK_METRICS(lk_accuracy()));
    }
    return m;
}

static void fit_pictures(const void *arg, outcome *out)
{
    const bool   fits = *(const bool *)arg;
    lk_strategy *s = lk_mirrored_strategy();
    lk_model    *m = picture_model(s);
    lk_dataset  *d = lk_dataset_batch(lk_dataset_shuffle(lk_dataset_map(pictures(2000, 16), scaled), 2000), 100);
    lk_history  *h = lk_model_fit(m, d, .epochs = 2, .validation_data = d, .verbose = LK_SILENT);
    SOUND();
    small_history(h, out);
    out->digest = small_state(m);
    lk_tuple batch;
    NEED(lk_next(lk_iterator_of(lk_distribute_dataset(s, d)), &batch));
    const lk_tensor *x = batch.item[0]->replicas ? batch.item[0]->replicas->item[0] : batch.item[0];
    if (simulated()) NEED(lki_on_host(x->buffer->device) == !fits);
}

TEST(rows_that_do_not_fit_stay_with_the_host)
{
    outcome there, here;
    CHILD(fit_pictures, &(bool){true}, &there, .logical = 1);
    CHILD(fit_pictures, &(bool){false}, &here, .logical = 1, .memory = 2000 * 256 * 4);
    same_outcome(&there, &here, "rows on the card and with the host");
    CHILD(fit_pictures, &(bool){true}, &here, .logical = 4);
    same_outcome(&there, &here, "four replicas");
}

/* ---- memory ---- */

/* The copy of a set goes with it, and batches with who holds them. */
static void given_back(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_strategy *s = lk_mirrored_strategy();
    lki_device  *d = lki_device_gpu_at(0);
    const size_t before = lki_gpu_memory_of(d).used;
    LK_POOL
        LK_STEP {
            lk_dataset *rows = lk_distribute_dataset(s, divided(), .prefetch = LK_NUMBER(0));
            look_at_rest(lk_iterator_of(rows));
            const size_t once = lki_gpu_memory_of(d).used;
            NEED(once > before && once < before + MANY * (28 * 28 + 8) * 3);
            look_at_rest(lk_iterator_of(rows));
            NEED(lki_gpu_memory_of(d).used == once);
        }
    NEED(lki_gpu_memory_of(d).used == before);
}

TEST(memory_is_given_back) { CHILD(given_back, NULL, NULL, .cards = 1); }

/* ---- an optimiser made outside of the scope ---- */

static void made_outside(const void *arg, outcome *out)
{
    lk_strategy  *s = lk_mirrored_strategy();
    lk_model     *m = small_model(s);
    lk_optimizer *o = NULL;
    if (*(const bool *)arg)
        LK_SCOPE(s)
            o = lk_adam(.learning_rate = 0.01);
    else o = lk_adam(.learning_rate = 0.02);
    NEED(lk_optimizer_set_learning_rate(o, 0.01) == LK_OK);
    lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON), .optimizer = o);
    NEED(lk_optimizer_learning_rate(o) == (double)0.01f);
    lk_model_fit(m, small_data(), .epochs = 2, .verbose = LK_SILENT);
    SOUND();
    const lk_variables v = lk_optimizer_variables(o);
    for (int i = 0; i < v.count; i++)
        NEED(!lki_on_host(v.item[i]->buffer->device));
    NEED(lk_optimizer_iterations(o) == 6);
    out->digest = small_state(m);
}

TEST(an_optimiser_made_outside_moves_in)
{
    outcome inside, outside;
    for (int replicas = 1; replicas <= 2; replicas++) {
        CHILD(made_outside, &(bool){true}, &inside, .logical = replicas);
        CHILD(made_outside, &(bool){false}, &outside, .logical = replicas);
        same_outcome(&inside, &outside, "an optimiser made inside and outside");
    }
}

/* ---- losses that are read together ---- */

static uint64_t joined_on(lki_device *d, int count, lk_dtype dtype, bool scalars)
{
    lk_tensor  *item[200];
    lki_device *before = lki_device_current();
    for (int i = 0; i < count; i++)
        item[i] = numbers(dtype, scalars ? LK_SHAPE() : LK_SHAPE(i % 3, 5), 2, i);
    for (int i = 0; i < count && scalars; i++)
        item[i] = lk_slice(item[i], LK_AXES(1), LK_AXES(1));
    lki_device_set_current(d);
    lk_tensor  *all = scalars ? lk_stack(lk_tuple_from(count, item), 0) : lk_concat(lk_tuple_from(count, item), 1);
    const void *data = lk_data(all);
    lki_device_set_current(before);
    SOUND();
    return mixed_in(START, data, (size_t)lk_size(all) * lk_dtype_bytes(dtype));
}

static void joined(const void *arg, outcome *out)
{
    static const int counts[] = {1, 2, 3, 12, 64, 128, 129, 200};
    (void)arg, (void)out;
    for (int i = 0; i < LKI_COUNT(counts); i++)
        for (lk_dtype t = 0; t < LK_DTYPE_COUNT; t++)
            for (int scalars = 0; scalars < 2; scalars++)
                if (t == LK_U8 || t == LK_BOOL || t == LK_I32 || t == LK_I64 || t == LK_F64 || t == LK_F32)
                    NEED(joined_on(lki_device_gpu_at(0), counts[i], t, scalars) ==
                         joined_on(lki_device_cpu(), counts[i], t, scalars));
}

TEST(many_small_tensors_are_joined) { CHILD(joined, NULL, NULL, .cards = 1); }

TESTS(cmocka_unit_test(batches_made_on_a_card_are_the_same), cmocka_unit_test(rows_are_there_at_once),
      cmocka_unit_test(rows_are_there_for_several_threads), cmocka_unit_test(rows_are_there_later),
      cmocka_unit_test(rows_that_do_not_fit_stay_with_the_host), cmocka_unit_test(memory_is_given_back),
      cmocka_unit_test(many_small_tensors_are_joined), cmocka_unit_test(an_optimiser_made_outside_moves_in))
