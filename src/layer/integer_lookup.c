/* IntegerLookup: integers become their place in a vocabulary, perhaps encoded; or the other way round.
 *
 * The vocabulary is kept sorted and searched by halving, all ids at once, so that the search is made of ops. The number of entries
 * of its table is a power of two: the lowest integer comes first, then the tokens, then the highest integer as often as needed. */
#include "core/memory.h"
#include "core/rounding.h"
#include "layer/encoding.h"
#include "op/gradient.h"
#include <lockstep/model.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct integer_lookup {
    lk_layer               layer;
    lk_integer_lookup_args set;  /* output_mode is given; the vocabulary, without special tokens, is NULL until it is learnt */
    int64_t                size; /* of the vocabulary with special tokens */
    lk_tensor             *table, *place; /* references, i64: what is searched, and the index of each entry, -1: not a token */
    lk_tensor             *tokens;        /* reference, i64: the token of each index */
    bool                   given;         /* its vocabulary was not learnt */
    lk_tensor             *idf;           /* reference, f32 [depth]; tf_idf only */
} integer_lookup;

static void forget(integer_lookup *n)
{
    lk_tensor **all[] = {&n->table, &n->place, &n->tokens, &n->idf};
    for (int i = 0; i < LKI_COUNT(all); i++) {
        lki_drop(*all[i]);
        *all[i] = NULL;
    }
}

static void destroy(lk_layer *l) { forget((integer_lookup *)l); }

static bool    has_mask(const lk_integer_lookup_args *a) { return lki_integer_given(a->mask_token); }
static int64_t oov_count(const lk_integer_lookup_args *a) { return lki_integer_or(a->num_oov_indices, 1); }
static int64_t oov_start(const lk_integer_lookup_args *a) { return has_mask(a) && a->output_mode == LK_OUTPUT_INT; }
static int64_t oov_token(const lk_integer_lookup_args *a) { return lki_integer_or(a->oov_token, -1); }

static int64_t depth_of(const integer_lookup *n)
{
    return n->set.pad_to_max_tokens == LK_ON ? lki_integer(n->set.max_tokens) : n->size;
}

/* ---- calling ---- */

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const integer_lookup *n = (const integer_lookup *)l;
    if (!n->table) return lki_layer_refuse(l, in, "it has no vocabulary: give it one, or call lk_integer_lookup_adapt() first");
    return lki_encoded_row(l, in, n->set.output_mode, depth_of(n), out);
}

static lk_tensor *first_idf(lk_shape shape, const char *stream, void *tensor)
{
    (void)shape, (void)stream;
    return tensor;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    integer_lookup  *n = (integer_lookup *)l;
    const lki_weight w = {.name = "idf_weights", .place = "vars/idf_weights", .trainable = LK_OFF};
    (void)in;
    return n->idf ? lki_layer_weight_by(l, w, n->idf->shape, first_idf, n->idf) : LK_OK;
}

static lk_tensor *integer(int64_t i) { return lk_tensor_from((lk_shape){0}, LK_I64, &i); }

/* The index of each token, or -1. */
static lk_tensor *found(const integer_lookup *n, lk_tensor *x)
{
    lk_tensor *at = lk_mul(x, integer(0));
    for (int64_t step = lk_size(n->table) / 2; step > 0; step /= 2) {
        lk_tensor *probe = lk_add(at, integer(step));
        at = lk_where(lk_less_equal(lk_gather(n->table, probe, 0), x), probe, at);
    }
    return lk_where(lk_equal(lk_gather(n->table, at, 0), x), lk_gather(n->place, at, 0), integer(-1));
}

/* Tokens that are not in the vocabulary get one of the indices for them; without such indices they are an error of the step, as ids
 * out of range are. */
static lk_tensor *index_of(const integer_lookup *n, lk_tensor *x)
{
    const lk_integer_lookup_args *a = &n->set;
    lk_tensor                    *index = found(n, x), *other = integer(oov_start(a));
    if (has_mask(a)) index = lk_where(lk_equal(x, integer(lki_integer(a->mask_token))), integer(0), index);
    lk_tensor *unknown = lk_less(index, integer(0));
    if (oov_count(a) > 1) other = lk_add(lk_mod(x, integer(oov_count(a))), other);
    if (oov_count(a) == 0) index = lk_gather(lk_range(n->size, LK_I64), lk_where(unknown, integer(n->size), index), 0);
    else index = lk_where(unknown, other, index);
    if (!has_mask(a) || a->output_mode == LK_OUTPUT_INT) return index;
    return lk_where(lk_equal(x, integer(lki_integer(a->mask_token))), integer(-1), index);
}

static lk_tensor *token_of(const integer_lookup *n, lk_tensor *x)
{
    lk_tensor *known = lk_logical_and(lk_greater_equal(x, integer(0)), lk_less(x, integer(n->size)));
    return lk_where(known, lk_gather(n->tokens, lk_where(known, x, integer(0)), 0), integer(oov_token(&n->set)));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const integer_lookup *n = (const integer_lookup *)l;
    (void)pass;
    if (lki_bad(x)) return x;
    x = lk_cast(x, LK_I64);
    if (n->set.invert == LK_ON) return token_of(n, x);
    const bool tf_idf = n->set.output_mode == LK_OUTPUT_TF_IDF;
    lk_tensor *y = lki_encoded(index_of(n, x), tf_idf ? LK_OUTPUT_COUNT : n->set.output_mode, depth_of(n), NULL);
    return tf_idf ? lk_mul(y, lki_layer_read(l, 0)) : y;
}

static void *make(const void *args) { return lk_integer_lookup_kw(*(const lk_integer_lookup_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_integer_lookup_args),
    LKI_FIELD(SWITCH, lk_integer_lookup_args, invert),
    LKI_FIELD(INTEGER, lk_integer_lookup_args, max_tokens, .none = true),
    LKI_FIELD(INTEGER, lk_integer_lookup_args, num_oov_indices, .standard = 1),
    LKI_FIELD(INTEGER, lk_integer_lookup_args, oov_token, .standard = -1),
    LKI_FIELD(INTEGER, lk_integer_lookup_args, mask_token, .none = true),
    LKI_OUTPUT_FIELD(lk_integer_lookup_args, LK_OUTPUT_TF_IDF + 1, LK_OUTPUT_INT),
    LKI_FIXED("sparse", "false"),
    LKI_FIELD(SWITCH, lk_integer_lookup_args, pad_to_max_tokens),
    LKI_FIXED("vocabulary_dtype", "\"int64\""),
    LKI_FIELD(ARRAY, lk_integer_lookup_args, idf_weights, .dtype = LK_F64),
    LKI_FIELD(ARRAY, lk_integer_lookup_args, vocabulary, .dtype = LK_I64),
    {.name = "vocabulary_size", .type = LKI_FIELD_FIXED, .literal = "null", .none = true},
    LKI_FIXED("oov_method", "\"floormod\""),
    LKI_FIXED("salt", "null"),
};

const lki_layer_kind lki_integer_lookup_kind = {.name = "integer_lookup",
                                                LKI_LAYER_OF(integer_lookup, lk_integer_lookup_args, "IntegerLookup", FIELDS),
                                                .takes_ids = true,
                                                .output = output,
                                                .build = build,
                                                .call = call,
                                                .destroy = destroy};

/* ---- the vocabulary ---- */

static const char *const NAME = "lk_integer_lookup";

typedef struct entry {
    int64_t token, index;
} entry;

static int by_token(const void *a, const void *b)
{
    const int64_t x = ((const entry *)a)->token, y = ((const entry *)b)->token;
    return (x > y) - (x < y);
}

/* How many special tokens the list begins with: all of them, or none. */
static int64_t special_tokens(const lk_integer_lookup_args *a, int64_t count, const int64_t *token)
{
    const int64_t start = oov_start(a), all = start + oov_count(a);
    bool          has = count >= all;
    for (int64_t i = 0; has && i < all; i++)
        has = token[i] == (i < start ? lki_integer(a->mask_token) : oov_token(a));
    return has ? all : 0;
}

static bool no_repeats(int64_t count, const entry *sorted)
{
    for (int64_t i = 1; i < count; i++)
        if (sorted[i].token == sorted[i - 1].token)
            return lki_fail(LK_EINVAL, "%s: the vocabulary has %lld twice", NAME, (long long)sorted[i].token), false;
    return true;
}

/* The tables from tokens, without special ones. */
static lk_status learn_tokens(integer_lookup *n, int64_t count, const int64_t *token)
{
    const int64_t first = oov_start(&n->set) + oov_count(&n->set);
    int64_t       room = 2;
    while (room < count + 1)
        room = lki_size_mul(room, 2);
    entry   *sorted LKI_RELEASED = lki_alloc_array(count + 1, sizeof *sorted);
    int64_t *list LKI_RELEASED = lki_alloc_array(lki_size_add(lki_size_mul(room, 2), count + first), sizeof *list);
    if (!sorted || !list) return LK_ENOMEM;
    int64_t *table = list, *place = table + room, *tokens = place + room;
    for (int64_t i = 0; i < count; i++)
        sorted[i] = (entry){token[i], i + first};
    if (count) qsort(sorted, (size_t)count, sizeof *sorted, by_token);
    if (!no_repeats(count, sorted)) return LK_EINVAL;
    for (int64_t i = 0; i < room; i++) {
        table[i] = i == 0 ? INT64_MIN : i <= count ? sorted[i - 1].token : INT64_MAX;
        place[i] = i == 0 || i > count ? -1 : sorted[i - 1].index;
    }
    for (int64_t i = 0; i < count + first; i++)
        tokens[i] = i >= first ? token[i - first] : i < oov_start(&n->set) ? lki_integer(n->set.mask_token) : oov_token(&n->set);
    lk_tensor *made[] = {lk_tensor_from(LK_SHAPE(room), LK_I64, table), lk_tensor_from(LK_SHAPE(room), LK_I64, place),
                         lk_tensor_from(LK_SHAPE(count + first), LK_I64, tokens), lk_tensor_from(LK_SHAPE(count), LK_I64, token)};
    for (int i = 0; i < LKI_COUNT(made); i++)
        if (lki_bad(made[i])) return LK_ENOMEM;
    forget(n);
    n->table = lki_retain(made[0]), n->place = lki_retain(made[1]), n->tokens = lki_retain(made[2]);
    lki_retain(made[3]);
    lki_drop(n->set.vocabulary);
    n->set.vocabulary = made[3];
    n->size = count + first;
    return LK_OK;
}

/* Weights of the tokens and, before them, of special ones: their mean unless they are given. The rest is 0. */
static lk_status learn_idf(integer_lookup *n, int64_t count, const double *weight, bool special)
{
    const int64_t first = special ? 0 : n->size - count, depth = depth_of(n);
    float        *idf LKI_RELEASED = lki_zalloc_array(lki_size_add(depth, 1), sizeof *idf);
    double        mean = 0;
    if (!idf) return LK_ENOMEM;
    for (int64_t i = 0; i < count; i++)
        mean += weight[i] / (double)count;
    for (int64_t i = 0; i < first + count && i < depth; i++)
        idf[i] = (float)(i < first ? mean : weight[i - first]);
    lk_tensor *made = lk_tensor_from(LK_SHAPE(depth), LK_F32, idf), *given = lk_tensor_from(LK_SHAPE(count), LK_F64, weight);
    if (lki_bad(made) || lki_bad(given)) return LK_ENOMEM;
    n->idf = lki_retain(made);
    lki_retain(given);
    lki_drop(n->set.idf_weights);
    n->set.idf_weights = given;
    return LK_OK;
}

static lk_status set_vocabulary(integer_lookup *n, lk_tensor *vocabulary, lk_tensor *idf_weights)
{
    const int64_t *token = lk_data(vocabulary), count = lk_size(vocabulary), special = special_tokens(&n->set, count, token);
    const int64_t  max = lki_integer(n->set.max_tokens);
    if (!count) return lki_fail(LK_EINVAL, "%s: the vocabulary is empty", NAME);
    if (idf_weights && lk_size(idf_weights) != count)
        return lki_fail(LK_ESHAPE, "%s: %lld idf_weights for a vocabulary of %lld", NAME, (long long)lk_size(idf_weights),
                        (long long)count);
    LKI_TRY(learn_tokens(n, count - special, token + special));
    if (max && n->size > max)
        return lki_fail(LK_EINVAL, "%s: the vocabulary has %lld entries with special ones; max_tokens is %lld", NAME,
                        (long long)n->size, (long long)max);
    return idf_weights ? learn_idf(n, count, lk_data(idf_weights), special > 0) : LK_OK;
}

/* ---- making one ---- */

static bool options_fit(const lk_integer_lookup_args *a)
{
    const char *why = a->output_mode != LK_OUTPUT_INT && a->invert == LK_ON  ? "invert is for the output_mode int"
                      : a->idf_weights && a->output_mode != LK_OUTPUT_TF_IDF ? "idf_weights are for the output_mode tf_idf"
                      : a->idf_weights && !a->vocabulary                     ? "idf_weights need a vocabulary"
                      : a->vocabulary && !a->idf_weights && a->output_mode == LK_OUTPUT_TF_IDF
                          ? "the output_mode tf_idf needs idf_weights beside the vocabulary"
                      : oov_count(a) < 0                                                    ? "num_oov_indices must be at least 0"
                      : lki_integer_given(a->max_tokens) && lki_integer(a->max_tokens) <= 1 ? "max_tokens must be above 1"
                      : a->pad_to_max_tokens == LK_ON && !lki_integer_given(a->max_tokens)  ? "pad_to_max_tokens needs max_tokens"
                                                                                            : NULL;
    if (why) return lki_fail(LK_EINVAL, "%s: %s", NAME, why), false;
    return lki_output_mode_fits(NAME, a->output_mode, LK_OUTPUT_TF_IDF);
}

/* A list as this type; NULL and an error. */
static lk_tensor *list_of(const char *name, lk_tensor *t, lk_dtype dtype)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_is_kind(t, LKI_KIND_TENSOR)) return lki_fail(LK_EINVAL, "%s: %s is not a tensor", NAME, name), NULL;
    t = lk_cast(t, dtype);
    if (lki_bad(t) || !lk_data(t)) return NULL;
    if (t->shape.rank == 1) return t;
    return lki_fail(LK_ESHAPE, "%s: %s is %s; it should be a list", NAME, name, lki_shape_text(&t->shape, text)), NULL;
}

lk_layer *lk_integer_lookup_kw(lk_integer_lookup_args a)
{
    if (!a.output_mode) a.output_mode = LK_OUTPUT_INT;
    if (!options_fit(&a)) return NULL;
    lk_tensor *vocabulary = a.vocabulary ? list_of("vocabulary", a.vocabulary, LK_I64) : NULL;
    lk_tensor *idf = a.idf_weights ? list_of("idf_weights", a.idf_weights, LK_F64) : NULL;
    if ((a.vocabulary && !vocabulary) || (a.idf_weights && !idf)) return NULL;
    a.vocabulary = a.idf_weights = NULL;
    integer_lookup *n = lki_layer_new(NAME, &lki_integer_lookup_kind, &a);
    if (n) n->given = vocabulary != NULL;
    if (!n || !vocabulary || set_vocabulary(n, vocabulary, idf) == LK_OK) return n ? &n->layer : NULL;
    lk_free(&n->layer);
    return NULL;
}

/* ---- learning ---- */

static const char *const ADAPT = "lk_integer_lookup_adapt";

typedef struct tokens {
    int      count, room;
    int64_t *item;
} tokens;

typedef struct seen {
    tokens  all, once; /* every token; and each once for each row that has it */
    int64_t rows;
    bool    documents; /* `once` is wanted */
} seen;

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static lk_status add(tokens *t, int64_t token)
{
    if (t->count == INT32_MAX || !lki_grow((void **)&t->item, &t->room, t->count + 1, sizeof *t->item)) return LK_ENOMEM;
    t->item[t->count++] = token;
    return LK_OK;
}

static lk_status learn_row(seen *s, int64_t width, int64_t *row)
{
    qsort(row, (size_t)width, sizeof *row, ascending);
    for (int64_t i = 0; i < width; i++) {
        LKI_TRY(add(&s->all, row[i]));
        if (s->documents && (!i || row[i] != row[i - 1])) LKI_TRY(add(&s->once, row[i]));
    }
    s->rows++;
    return LK_OK;
}

/* An element is a batch of rows, or one row. */
static lk_status learn_from(seen *s, lk_tensor *x)
{
    if (lki_bad(x)) return lki_poisoned_status(ADAPT);
    if (lki_stands_for(x)) return lki_fail(LK_EINVAL, "%s: an element is %s", ADAPT, lki_why_not_plain(x));
    lk_tensor     *ids = lk_cast(x, LK_I64);
    const int64_t *data = lki_bad(ids) ? NULL : lk_data(ids);
    if (!data) return lki_poisoned_status(ADAPT);
    const int64_t rows = x->shape.rank > 1 ? x->shape.dim[0] : 1, width = rows ? lk_size(x) / rows : 0;
    int64_t      *row LKI_RELEASED = lki_alloc_array(lki_size_add(width, 1), sizeof *row);
    if (!row) return LK_ENOMEM;
    for (int64_t i = 0; i < rows && width; i++) {
        for (int64_t k = 0; k < width; k++)
            row[k] = *data++;
        LKI_TRY(learn_row(s, width, row));
    }
    return LK_OK;
}

/* The most frequent first, the highest first among equals. */
static int by_count(const void *a, const void *b)
{
    const entry *x = a, *y = b; /* the index is the count here */
    return x->index != y->index ? (x->index < y->index) - (x->index > y->index) : (x->token < y->token) - (x->token > y->token);
}

/* Sorts the list and counts its tokens, without special ones. */
static lk_status count_tokens(const integer_lookup *n, tokens *t, entry **out, int *count)
{
    entry *list = lki_alloc_array((int64_t)t->count + 1, sizeof *list);
    *count = 0;
    *out = list;
    if (!list) return LK_ENOMEM;
    if (t->count) qsort(t->item, (size_t)t->count, sizeof *t->item, ascending);
    for (int i = 0; i < t->count; i++) {
        const int64_t token = t->item[i];
        if (token == oov_token(&n->set) || (has_mask(&n->set) && token == lki_integer(n->set.mask_token))) continue;
        if (*count && list[*count - 1].token == token) list[*count - 1].index++;
        else list[(*count)++] = (entry){token, 1};
    }
    return LK_OK;
}

/* log(1 + rows / (1 + rows with the token)), for each token. */
static lk_status learn_documents(integer_lookup *n, seen *s, int count, const int64_t *token)
{
    entry    *list = NULL;
    int       entries;
    double   *weight LKI_RELEASED = lki_alloc_array((int64_t)count + 1, sizeof *weight);
    lk_status status = weight ? count_tokens(n, &s->once, &list, &entries) : LK_ENOMEM;
    for (int i = 0; i < count && status == LK_OK; i++) {
        const entry  key = {token[i], 0};
        const entry *with = bsearch(&key, list, (size_t)entries, sizeof *list, by_token);
        weight[i] = log(1 + (double)s->rows / (1 + (double)(with ? with->index : 0)));
    }
    lki_release(list);
    return status == LK_OK ? learn_idf(n, count, weight, false) : status;
}

static lk_status keep(integer_lookup *n, seen *s)
{
    entry        *list = NULL;
    int           count;
    lk_status     status = count_tokens(n, &s->all, &list, &count);
    const int64_t most = lki_integer(n->set.max_tokens) - oov_start(&n->set) - oov_count(&n->set);
    int64_t      *token LKI_RELEASED = status == LK_OK ? lki_alloc_array((int64_t)count + 1, sizeof *token) : NULL;
    if (token) {
        if (count) qsort(list, (size_t)count, sizeof *list, by_count);
        if (lki_integer_given(n->set.max_tokens) && most < count) count = most > 0 ? (int)most : 0;
        for (int i = 0; i < count; i++)
            token[i] = list[i].token;
    }
    lki_release(list);
    if (!token) return LK_ENOMEM;
    if (!count) return lki_fail(LK_EINVAL, "%s: the dataset has no tokens", ADAPT);
    LKI_TRY(learn_tokens(n, count, token));
    if (n->set.output_mode == LK_OUTPUT_TF_IDF) LKI_TRY(learn_documents(n, s, count, token));
    return n->idf && n->layer.count ? lk_assign(n->layer.weight[0].variable, n->idf) : LK_OK;
}

lk_status lk_integer_lookup_adapt(lk_layer *l, lk_dataset *d)
{
    LKI_NEAREST;
    if (!lki_is_kind(l, LKI_KIND_LAYER)) return lki_fail(LK_EINVAL, "%s: %s", ADAPT, l ? "not a layer" : "the layer is NULL");
    if (l->kind != &lki_integer_lookup_kind)
        return lki_fail(LK_EINVAL, "%s: layer \"%s\" is not an IntegerLookup layer", ADAPT, lki_layer_title(l));
    integer_lookup *n = (integer_lookup *)l;
    seen            s = {.documents = n->set.output_mode == LK_OUTPUT_TF_IDF};
    lk_status       status = LK_OK;
    if (n->given) return lki_fail(LK_EINVAL, "%s: layer \"%s\" was given its vocabulary", ADAPT, lki_layer_title(l));
    LK_FOR_EACH(element, d) {
        status = learn_from(&s, element.item[0]);
        if (status != LK_OK) break;
    }
    if (status == LK_OK && lk_failed()) status = lk_error_code();
    if (status == LK_OK) status = keep(n, &s);
    lki_release(s.all.item);
    lki_release(s.once.item);
    return status;
}
