/* Attention and AdditiveAttention on (query, value) or (query, value, key), rows of [steps, width]: every step of the query takes a
 * mean of the values, weighted by how its key fits.
 *
 *     dot        query . key * scale              concat     weight * sum(tanh(scale * (query + key)))
 *     additive   sum(scale * tanh(query + key))
 *
 * As in Keras, steps of the value that are masked get weight 0, unless all are; results of masked steps of the query are 0. */
#include "core/names.h"
#include "layer/layer.h"
#include "nn/initializer.h"
#include "op/gradient.h"
#include <lockstep/strategy.h>
#include <math.h>

enum { QUERY, VALUE, KEY };

typedef struct attention {
    lk_layer                layer;
    lk_attention_layer_args set;
    int                     scale, weight; /* indices of weights; -1: none */
} attention;

static const lk_attention_layer_args *args_of(const lk_layer *l) { return &((const attention *)l)->set; }

static bool is_additive(const lk_layer *l) { return l->kind == &lki_additive_attention_kind; }
static bool is_scaled(const lk_layer *l)
{
    const lk_switch use = args_of(l)->use_scale;
    return is_additive(l) ? use != LK_OFF : use == LK_ON;
}

static int outputs(const lk_layer *l) { return args_of(l)->return_attention_scores == LK_ON ? 2 : 1; }

static const lk_shape *key_of(const lk_shape *in) { return in[KEY].rank >= 0 ? &in[KEY] : &in[VALUE]; }

static bool differ(int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; }

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_shape *key = key_of(in);
    for (int i = QUERY; i <= VALUE; i++)
        if (in[i].rank != 2) return lki_layer_refuse(l, &in[i], "the %s should be [steps, width]", i ? "value" : "query");
    if (key->rank != 2) return lki_layer_refuse(l, key, "the key should be [steps, width]");
    if (differ(in[QUERY].dim[1], key->dim[1]))
        return lki_layer_refuse(l, in, "the key is %lld wide; it should be as wide as the query", (long long)key->dim[1]);
    if (differ(in[VALUE].dim[0], key->dim[0]))
        return lki_layer_refuse(l, key, "the key has %lld steps and the value %lld; there should be as many",
                                (long long)key->dim[0], (long long)in[VALUE].dim[0]);
    out[0] = (lk_shape){.rank = 2, .dim = {in[QUERY].dim[0], in[VALUE].dim[1]}};
    if (outputs(l) > 1) out[1] = (lk_shape){.rank = 2, .dim = {in[QUERY].dim[0], key->dim[0]}};
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    attention *a = (attention *)l;
    a->scale = a->weight = -1;
    if (is_scaled(l)) {
        const int64_t width = in[QUERY].dim[1];
        if (is_additive(l) && width < 0) return lki_layer_refuse(l, in, "the width of the query needs a fixed size");
        lki_weight w = {.name = "scale", .standard = is_additive(l) ? lki_first_glorot_uniform : lki_first_ones};
        a->scale = l->count;
        LKI_TRY(lki_layer_weight(l, w, is_additive(l) ? LK_SHAPE(width) : LK_SHAPE()));
    }
    if (a->set.score_mode != LK_SCORE_CONCAT) return LK_OK;
    a->weight = l->count;
    return lki_layer_weight(l, (lki_weight){.name = "concat_score_weight", .standard = lki_first_ones}, LK_SHAPE());
}

/* ---- calling ---- */

/* [n, query steps, key steps] */
static lk_tensor *scores_of(const lk_layer *l, lk_tensor *query, lk_tensor *key)
{
    const attention *a = (const attention *)l;
    lk_tensor       *scale = a->scale < 0 ? NULL : lki_layer_read(l, a->scale);
    if (!is_additive(l) && a->set.score_mode == LK_SCORE_DOT) {
        lk_tensor *scores = lk_matmul(query, key, .transpose_b = LK_ON);
        return scale ? lk_mul(scores, scale) : scores;
    }
    lk_tensor *sum = lk_add(lk_expand_dims(query, -2), lk_expand_dims(key, -3));
    if (is_additive(l)) return lk_reduce_sum(scale ? lk_mul(scale, lk_tanh(sum)) : lk_tanh(sum), .axis = LK_AXES(-1));
    return lk_mul(lki_layer_read(l, a->weight), lk_reduce_sum(lk_tanh(scale ? lk_mul(scale, sum) : sum), .axis = LK_AXES(-1)));
}

/* [n or 1, query or 1, value]: which values a step may take; NULL: all. */
static lk_tensor *mask_of(const lk_layer *l, const lk_tensor *scores, lk_tensor *value_mask)
{
    lk_tensor *mask = value_mask ? lk_expand_dims(value_mask, -2) : NULL;
    if (args_of(l)->use_causal_mask != LK_ON || lki_bad(scores)) return mask;
    const int64_t query = scores->shape.dim[1], value = scores->shape.dim[2];
    lk_tensor    *before = lk_greater_equal(lk_reshape(lk_range(query, LK_I32), LK_SHAPE(1, query, 1)),
                                            lk_reshape(lk_range(value, LK_I32), LK_SHAPE(1, 1, value)));
    return mask ? lk_logical_and(mask, before) : before;
}

static lk_tensor *call(lk_layer *l, lk_tensor *query, const lki_pass *pass)
{
    const lk_attention_layer_args *a = args_of(l);
    lk_tensor                     *value = pass->in.item[VALUE], *key = pass->in.count > KEY ? pass->in.item[KEY] : value;
    if (lki_bad(query) || lki_bad(value) || lki_bad(key)) return &lki_poison;
    lk_tensor *scores = scores_of(l, query, key), *mask = mask_of(l, scores, value->mask);
    if (lki_bad(scores) || (mask && lki_bad(mask))) return &lki_poison;
    if (mask) scores = lk_where(mask, scores, lk_sub(scores, lki_like(scores, scores->dtype == LK_F16 ? 65504 : 1e9)));
    lk_tensor *weights = lk_softmax(scores);
    if (pass->training && a->dropout > 0)
        weights = lk_nn_dropout(weights, a->dropout, .stream = lki_layer_stream(l), .iteration = pass->iteration);
    lk_tensor *y = lk_matmul(weights, value);
    if (query->mask && !lki_bad(y)) y = lk_where(lki_mask_spread(query->mask, y->shape.rank), y, lki_like(y, 0));
    return outputs(l) > 1 && !lki_bad(y) ? lk_nest(LK_TUPLE(y, weights)) : y;
}

static lk_tensor *mask(const lk_layer *l, lk_tuple in, lk_tensor *y, int i)
{
    (void)l, (void)y;
    return i ? NULL : in.item[QUERY]->mask;
}

/* ---- making one ---- */

static const char *const MODES[] = {[LK_SCORE_DOT] = "dot", [LK_SCORE_CONCAT] = "concat"};

static void *make(const void *args) { return lk_attention_layer_kw(*(const lk_attention_layer_args *)args); }
static void *make_additive(const void *args) { return lk_additive_attention_kw(*(const lk_attention_layer_args *)args); }

#define COMMON                                                                                                                     \
    LKI_FIELD(REAL, lk_attention_layer_args, dropout), LKI_FIELD(NUMBER, lk_attention_layer_args, seed, .none = true),             \
        LKI_FIELD(SWITCH, lk_attention_layer_args, use_causal_mask, .in_call = true),                                              \
        LKI_FIELD(SWITCH, lk_attention_layer_args, return_attention_scores, .in_call = true)
static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_attention_layer_args), LKI_FIELD(SWITCH, lk_attention_layer_args, use_scale),
    LKI_FIELD(WORD, lk_attention_layer_args, score_mode, .words = MODES, .word_count = LKI_COUNT(MODES)), COMMON};
static const lki_field ADDITIVE_FIELDS[] = {LKI_LAYER_FIELDS(lk_attention_layer_args),
                                            LKI_FIELD(SWITCH, lk_attention_layer_args, use_scale, .standard = 1), COMMON};

#define KIND(title, class_, fields, make_)                                                                                         \
    const lki_layer_kind lki_##title##_kind = {                                                                                    \
        .name = #title,                                                                                                            \
        .class = {class_, "keras.layers", LKI_ARGS(lk_attention_layer_args, fields), make_},                                       \
        .bytes = sizeof(attention),                                                                                                \
        .set = offsetof(attention, set),                                                                                           \
        .fewest = 2,                                                                                                               \
        .most = 3,                                                                                                                 \
        .draws = true,                                                                                                             \
        .output = output,                                                                                                          \
        .outputs = outputs,                                                                                                        \
        .mask = mask,                                                                                                              \
        .build = build,                                                                                                            \
        .call = call}
KIND(attention, "Attention", FIELDS, make);
KIND(additive_attention, "AdditiveAttention", ADDITIVE_FIELDS, make_additive);

static lk_layer *layer_of(const char *name, const lki_layer_kind *kind, const lk_attention_layer_args *a)
{
    if ((unsigned)a->score_mode >= LKI_COUNT(MODES))
        return lki_fail(LK_EINVAL, "%s: there is no score_mode %d", name, (int)a->score_mode), NULL;
    if (!(a->dropout >= 0 && a->dropout < 1))
        return lki_fail(LK_EINVAL, "%s: dropout is %g; it must be at least 0 and below 1", name, a->dropout), NULL;
    lk_layer *l = lki_layer_new(name, kind, a);
    if (l) l->draws = a->dropout > 0;
    return l;
}

lk_layer *lk_attention_layer_kw(lk_attention_layer_args a) { return layer_of("lk_attention_layer", &lki_attention_kind, &a); }

lk_layer *lk_additive_attention_kw(lk_attention_layer_args a)
{
    if (a.score_mode) return lki_fail(LK_EINVAL, "lk_additive_attention: score_mode is for lk_attention_layer"), NULL;
    return layer_of("lk_additive_attention", &lki_additive_attention_kind, &a);
}
