/* A choice between datasets, by numbers or at random; random numbers; and rejection of elements at random.
 *
 * What is drawn is a pure function of the seed, the place in the pipeline, the iteration if that counts, and how much was drawn
 * before. */
#include "core/list.h"
#include "core/memory.h"
#include "core/random.h"
#include "data/data.h"
#include "data/save.h"
#include <math.h>
#include <string.h>

/* ---- drawing ---- */

static uint64_t word_of(uint64_t key, uint64_t counter, uint64_t number)
{
    const lki_philox block = lki_philox_block(key, number / 2, counter);
    const int        pair = 2 * (int)(number & 1);
    return (uint64_t)block.word[pair + 1] << 32 | block.word[pair];
}

double lki_chance(uint64_t key, uint64_t counter, uint64_t number)
{
    return (double)(word_of(key, counter, number) >> 11) * 0x1p-53;
}

bool lki_seed_fits(const char *call, lk_number seed)
{
    const double x = lki_number(seed);
    if (x >= 0 && x <= 0x1p53 && x == floor(x)) return true;
    return lki_fail(LK_EINVAL, "%s: .seed = %g; it must be an integer from 0 to 2^53", call, x), false;
}

uint64_t lki_seed_of(const lki_cursor *c, lk_number given, const char *stream)
{
    return lki_stream_key(lki_number_given(given) ? (uint64_t)lki_number(given) : c->pipeline->seed, stream);
}

static uint64_t print_of_seed(lk_number seed) { return lki_number_given(seed) ? (uint64_t)lki_number(seed) + 1 : 0; }

/* ---- choices ---- */

typedef struct choice_node {
    lk_dataset base;
    int        count; /* datasets; `choices` comes after them, if there are any */
    bool       stops, rerandomizes;
    lk_number  seed;
    double    *weight; /* sample_from */
} choice_node;

typedef struct choice_state {
    uint64_t draws;
} choice_state;

static void choice_destroy(lk_dataset *d) { lki_release(((choice_node *)d)->weight); }

static lk_status number_of(lk_tuple t, void *context)
{
    if (t.count != 1 || lk_size(t.item[0]) != 1) return lki_fail(LK_ESHAPE, "lk_dataset_choose_from: a choice must be one integer");
    *(double *)context = lk_item(t.item[0]);
    return LK_OK;
}

/* The number of the dataset that is chosen next; -1: there are no more choices. */
static lk_status next_choice(lki_cursor *c, int *which)
{
    const choice_node *n = (const choice_node *)c->dataset;
    lki_element        e;
    int64_t            got;
    double             number = -1;
    *which = -1;
    LKI_TRY(lki_cursor_next(c->input[n->count], 1, &e, &got));
    if (!got) return LK_OK;
    lk_status status = lki_element_call(&e, number_of, &number);
    lki_elements_drop(1, &e);
    LKI_TRY(status);
    if (!(number >= 0 && number < n->count))
        return lki_fail(LK_EINVAL, "%s: the choice is %g; there are datasets 0 to %d", c->dataset->ops->name, number, n->count - 1);
    *which = (int)number;
    return LK_OK;
}

static uint64_t counter_of(const lki_cursor *c)
{
    const choice_node *n = (const choice_node *)c->dataset;
    return n->rerandomizes ? lki_mix(lki_mix(c->place, c->iteration), c->turn) : c->place;
}

/* One of the datasets that have not ended. */
static int draw_one(lki_cursor *c)
{
    const choice_node *n = (const choice_node *)c->dataset;
    choice_state      *st = c->state;
    double             all = 0;
    int                last = -1;
    for (int i = 0; i < n->count; i++)
        if (n->stops || !c->input[i]->ended) all += n->weight[i], last = n->weight[i] > 0 ? i : last;
    double at = lki_chance(lki_seed_of(c, n->seed, n->base.ops->name), counter_of(c), st->draws++) * all;
    for (int i = 0; i < n->count && last >= 0; i++) {
        if (!n->stops && c->input[i]->ended) continue;
        if (n->weight[i] > 0 && at < n->weight[i]) return i;
        at -= n->weight[i];
    }
    return last;
}

static lk_status choice_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    const choice_node *n = (const choice_node *)c->dataset;
    while (*got < want) {
        int     which;
        int64_t one;
        if (n->weight) which = draw_one(c);
        else LKI_TRY(next_choice(c, &which));
        if (which < 0) break;
        LKI_TRY(lki_cursor_next(c->input[which], 1, &out[*got], &one));
        *got += one;
        if (!one && n->stops) break;
    }
    return LK_OK;
}

static void      choice_save(lki_cursor *c, lki_saver *s) { lki_save_number(s, ((const choice_state *)c->state)->draws); }
static lk_status choice_restore(lki_cursor *c, lki_loader *l) { return lki_load_number(l, &((choice_state *)c->state)->draws); }

static int64_t choice_cardinality(const lk_dataset *d)
{
    const choice_node *n = (const choice_node *)d;
    int64_t            all = 0;
    for (int i = 0; i < n->count; i++) {
        const int64_t one = lk_dataset_cardinality(d->input[i]);
        if (one < 0 && !n->stops && n->weight) return one;
        all += one;
    }
    return n->weight && !n->stops ? all : LK_UNKNOWN;
}

static lk_status choice_spec(lk_dataset *d, lk_element_spec *out)
{
    *out = lk_dataset_element_spec(d->input[0]);
    return lk_failed() ? lk_error_code() : LK_OK;
}

static const lki_dataset_ops choose_ops = {.name = "lk_dataset_choose_from",
                                           .state_bytes = sizeof(choice_state),
                                           .next = choice_next,
                                           .save = choice_save,
                                           .restore = choice_restore,
                                           .cardinality = choice_cardinality,
                                           .spec = choice_spec,
                                           .destroy = choice_destroy};
static const lki_dataset_ops sample_ops = {.name = "lk_dataset_sample_from",
                                           .state_bytes = sizeof(choice_state),
                                           .counts = true,
                                           .next = choice_next,
                                           .save = choice_save,
                                           .restore = choice_restore,
                                           .cardinality = choice_cardinality,
                                           .spec = choice_spec,
                                           .destroy = choice_destroy};

static choice_node *choice_new(const lki_dataset_ops *ops, int count, lk_dataset *const *datasets, lk_dataset *choices)
{
    lk_dataset *input[LKI_MOST_COLUMNS + 1];
    if (count < 1 || count > LKI_MOST_COLUMNS)
        return lki_fail(LK_EINVAL, "%s: %d datasets; it must be 1 to %d", ops->name, count, LKI_MOST_COLUMNS), NULL;
    for (int i = 0; i < count; i++) {
        if (!lki_dataset_usable(ops->name, datasets[i])) return NULL;
        input[i] = datasets[i];
    }
    input[count] = choices;
    choice_node *n = lki_dataset_new(ops, sizeof *n, count + (choices != NULL), input);
    if (!n) return NULL;
    n->count = count;
    lki_agree_on_batches(&n->base, count);
    return n;
}

lk_dataset *lk_dataset_choose_from(lk_dataset *choices, lk_switch stop_on_empty, int count, lk_dataset *const *one_based)
{
    LKI_SCOPE_ERRORS;
    if (!lki_list_given(choose_ops.name, count, one_based) || !lki_dataset_usable(choose_ops.name, choices)) return NULL;
    choice_node *n = choice_new(&choose_ops, count, one_based + 1, choices);
    if (!n) return NULL;
    n->stops = stop_on_empty != LK_OFF;
    n->base.print = n->stops;
    return &n->base;
}

static bool weights_fit(const lk_sample_args *a)
{
    double all = 0;
    for (int i = 0; a->weights && i < a->count; i++) {
        if (!(a->weights[i] >= 0) || isinf(a->weights[i]))
            return lki_fail(LK_EINVAL, "%s: weight %d is %g; it must be 0 or more", sample_ops.name, i, a->weights[i]), false;
        all += a->weights[i];
    }
    return !a->weights || all > 0 || (lki_fail(LK_EINVAL, "%s: all weights are 0", sample_ops.name), false);
}

lk_dataset *lk_dataset_sample_from_kw(lk_sample_args a)
{
    LKI_SCOPE_ERRORS;
    if (!a.datasets) return lki_fail(LK_EINVAL, "%s: the datasets are missing", sample_ops.name), NULL;
    if (!lki_seed_fits(sample_ops.name, a.seed)) return NULL;
    choice_node *n = choice_new(&sample_ops, a.count, a.datasets, NULL);
    if (!n || !weights_fit(&a)) return n ? lk_free(n) : (void)0, NULL;
    n->weight = lki_alloc_array(a.count, sizeof *n->weight);
    if (!n->weight) return lk_free(n), NULL;
    n->stops = a.stop_on_empty_dataset == LK_ON;
    n->rerandomizes = a.rerandomize_each_iteration == LK_ON;
    n->seed = a.seed;
    n->base.print = lki_mix(print_of_seed(a.seed), (uint64_t)n->stops * 2 + n->rerandomizes);
    for (int i = 0; i < a.count; i++) {
        uint64_t bits;
        n->weight[i] = a.weights ? a.weights[i] : 1;
        memcpy(&bits, &n->weight[i], sizeof bits);
        n->base.print = lki_mix(n->base.print, bits);
    }
    return &n->base;
}

/* ---- random numbers ---- */

typedef struct random_node {
    lk_dataset base;
    lk_number  seed;
    bool       rerandomizes;
} random_node;

static lk_status random_block(lki_cursor *c, int64_t first, int64_t count, lki_rowset **out)
{
    const random_node *n = (const random_node *)c->dataset;
    const uint64_t     key = lki_seed_of(c, n->seed, "lk_dataset_random");
    const uint64_t     counter = n->rerandomizes ? lki_mix(lki_mix(c->place, c->iteration), c->turn) : c->place;
    lk_shape           shape = {1, {count}};
    lki_block          step LKI_FREED_BY(lki_step_leave) = lki_step_enter();
    lk_tensor         *t = step.owner ? lki_tensor_new(LK_I64, &shape) : &lki_poison;
    *out = lki_bad(t) ? NULL : lki_rowset_plain(count, 1, &t);
    if (!*out) return LK_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        ((int64_t *)t->data)[i] = (int64_t)(word_of(key, counter, (uint64_t)(first + i)) >> 32);
    (*out)->home = c->dataset;
    (*out)->first = first;
    return LK_OK;
}

static lk_status random_next(lki_cursor *c, int64_t want, lki_element *out, int64_t *got)
{
    enum { MOST = 1 << 12 };
    lki_source_state *st = c->state;
    while (*got < want) {
        const int64_t count = lki_min(want - *got, MOST);
        lki_rowset   *set;
        LKI_TRY(random_block(c, st->next, count, &set));
        for (int64_t i = 0; i < count; i++)
            out[(*got)++] = (lki_element){set, i};
        lki_rowset_retain(set, count - 1);
        st->next += count;
    }
    return LK_OK;
}

static lk_status random_again(lki_cursor *c, int64_t number, lki_element *out)
{
    out->row = 0;
    return random_block(c, number, 1, &out->set);
}

static int64_t random_cardinality(const lk_dataset *d) { return (void)d, LK_INFINITE; }

static lk_status random_spec(lk_dataset *d, lk_element_spec *out)
{
    (void)d;
    *out = (lk_element_spec){.count = 1, .dtype = {LK_I64}};
    return LK_OK;
}

static const lki_dataset_ops random_ops = {.name = "lk_dataset_random",
                                           .state_bytes = sizeof(lki_source_state),
                                           .counts = true,
                                           .next = random_next,
                                           .save = lki_source_save,
                                           .restore = lki_source_restore,
                                           .again = random_again,
                                           .cardinality = random_cardinality,
                                           .spec = random_spec};

lk_dataset *lk_dataset_random_kw(lk_random_dataset_args a)
{
    LKI_SCOPE_ERRORS;
    if (!lki_seed_fits(random_ops.name, a.seed)) return NULL;
    random_node *n = lki_dataset_new(&random_ops, sizeof *n, 0, NULL);
    if (!n) return NULL;
    n->seed = a.seed;
    n->rerandomizes = a.rerandomize_each_iteration == LK_ON;
    n->base.print = lki_mix(print_of_seed(a.seed), n->rerandomizes);
    return &n->base;
}
