/* MultiHeadAttention on (query, value) or (query, value, key): every step of the query attends to the steps of the value, in
 * several heads. Rows are [steps, width] each; results are as wide as the query, or as output_shape says.
 *
 * Rows with more axes attend along some of them (attention_axes): these are joined to one, the others become entries of the row.
 *
 * Projections, each a kernel and mostly a bias, in Keras' order: query, key, gate if there is one, value, output. */
#include "core/memory.h"
#include "layer/initializer.h"
#include "layer/layer.h"
#include "layer/regularizer.h"
#include <lockstep/strategy.h>

enum { QUERY, KEY, GATE, VALUE, OUTPUT, PROJECTIONS };

/* The arguments of a call. */
enum { IN_QUERY, IN_VALUE, IN_KEY, IN_QUERY_MASK, IN_VALUE_MASK, IN_KEY_MASK, IN_ATTENTION_MASK, MOST_ARGUMENTS };
static const char *const ARGUMENTS[] = {"query", "value", "key", "query_mask", "value_mask", "key_mask", "attention_mask", NULL};

typedef struct arguments {
    lk_multi_head_attention_layer_args ask;             /* value_dim is filled in */
    int64_t                            key_value_heads; /* GroupQueryAttention; else 0: num_heads */
} arguments;

typedef struct attention {
    lk_layer  layer;
    arguments set;
} attention;

static const lk_multi_head_attention_layer_args *args_of(const lk_layer *l) { return &((const attention *)l)->set.ask; }

static int64_t heads_of(const lk_layer *l, int projection)
{
    const int64_t few = ((const attention *)l)->set.key_value_heads;
    return few && (projection == KEY || projection == VALUE) ? few : args_of(l)->num_heads;
}

static bool has(const lk_layer *l, int projection) { return projection != GATE || args_of(l)->use_gate == LK_ON; }

static int kernel_at(const lk_layer *l, int projection)
{
    int before = 0;
    for (int i = 0; i < projection; i++)
        before += has(l, i);
    return args_of(l)->use_bias == LK_OFF ? before : 2 * before;
}

/* ---- shapes ---- */

static const char *const INPUTS[] = {[QUERY] = "query", [KEY] = "key", [GATE] = "query", [VALUE] = "value"};

/* Without a key the value is used. */
static const lk_shape *input_of(const lk_shape *in, int projection)
{
    return projection == QUERY || projection == GATE   ? &in[IN_QUERY]
           : projection == KEY && in[IN_KEY].rank >= 0 ? &in[IN_KEY]
                                                       : &in[IN_VALUE];
}

/* Which axes of a batch, 1 to rank - 1, are attended along. */
static lk_status axes_of(const lk_layer *l, const lk_shape *in, bool along[LK_MAX_RANK])
{
    const lki_axes given = lki_axes_of(args_of(l)->attention_axes);
    for (int i = 0; i < LK_MAX_RANK; i++)
        along[i] = !given.count && i >= 1 && i < in->rank;
    for (int i = 0; i < given.count; i++) {
        const int64_t at = given.value[i] < 0 ? given.value[i] + in->rank + 1 : given.value[i];
        if (at < 1 || at >= in->rank)
            return lki_layer_refuse(l, in, "attention axis %lld; it should be 1 to %d", (long long)given.value[i], in->rank - 1);
        along[at] = true;
    }
    return LK_OK;
}

static lk_status input_fits(const lk_layer *l, const lk_shape *query, const lk_shape *row, int i)
{
    const int at = kernel_at(l, i);
    if (row->rank < 2 || row->rank != query->rank || row->rank + 2 > LK_MAX_RANK)
        return lki_layer_refuse(l, row,
                                query->rank == 2 || i == QUERY ? "the %s should be [steps, width]"
                                                               : "the %s should have as many axes as the query",
                                INPUTS[i]);
    const int64_t width = row->dim[row->rank - 1], made_for = l->count ? l->weight[at].variable->shape.dim[0] : width;
    if (width < 0) return lki_layer_refuse(l, row, "the width of the %s needs a fixed size", INPUTS[i]);
    if (width == made_for) return LK_OK;
    return lki_layer_refuse(l, row, "the %s should be %lld wide, as when its kernel was made", INPUTS[i], (long long)made_for);
}

static bool differ(int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; }

static lk_status fits(const lk_layer *l, const lk_shape *in)
{
    const lk_shape *query = &in[IN_QUERY], *key = input_of(in, KEY), *value = input_of(in, VALUE);
    bool            along[LK_MAX_RANK];
    LKI_TRY(input_fits(l, query, query, QUERY));
    LKI_TRY(input_fits(l, query, value, VALUE));
    LKI_TRY(input_fits(l, query, key, KEY));
    LKI_TRY(axes_of(l, query, along));
    for (int i = 1; i < query->rank; i++) {
        if (differ(key->dim[i - 1], value->dim[i - 1]))
            return lki_layer_refuse(l, key, "the key has %lld steps and the value %lld; there should be as many",
                                    (long long)key->dim[i - 1], (long long)value->dim[i - 1]);
        if (!along[i] && differ(query->dim[i - 1], value->dim[i - 1]))
            return lki_layer_refuse(l, query, "axis %d of the value has %lld entries; there should be as many", i,
                                    (long long)value->dim[i - 1]);
        if (query->rank > 2 && (query->dim[i - 1] < 0 || value->dim[i - 1] < 0))
            return lki_layer_refuse(l, query, "axes of rows with more than two need fixed sizes");
    }
    if (query->rank > 2 && args_of(l)->return_attention_scores == LK_ON)
        return lki_layer_refuse(l, query, "return_attention_scores is for rows of [steps, width]");
    return LK_OK;
}

static int outputs(const lk_layer *l) { return args_of(l)->return_attention_scores == LK_ON ? 2 : 1; }

/* The last axes of a result. */
static lki_axes out_axes(const lk_layer *l, const lk_shape *query)
{
    const lki_axes given = lki_axes_of(args_of(l)->output_shape);
    return given.count ? given : (lki_axes){1, {query->dim[query->rank - 1]}};
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    LKI_TRY(fits(l, in));
    const lk_shape query = in[IN_QUERY], value = *input_of(in, VALUE);
    const lki_axes last = out_axes(l, &query);
    if (query.rank - 1 + last.count >= LK_MAX_RANK) return lki_layer_refuse(l, in, "the result would have too many axes");
    *out = query;
    out->rank = query.rank - 1 + last.count;
    for (int i = 0; i < last.count; i++)
        out->dim[query.rank - 1 + i] = last.value[i];
    if (outputs(l) > 1) out[1] = (lk_shape){.rank = 3, .dim = {args_of(l)->num_heads, query.dim[0], value.dim[0]}};
    return LK_OK;
}

/* ---- weights ---- */

static const struct {
    const char *kernel, *bias, *kernel_place, *bias_place;
} NAMES[PROJECTIONS] = {
    [QUERY] = {"query/kernel", "query/bias", "_query_dense/vars/0", "_query_dense/vars/1"},
    [KEY] = {"key/kernel", "key/bias", "_key_dense/vars/0", "_key_dense/vars/1"},
    [VALUE] = {"value/kernel", "value/bias", "_value_dense/vars/0", "_value_dense/vars/1"},
    [GATE] = {"gate/kernel", "gate/bias", "_gate_dense/vars/0", "_gate_dense/vars/1"},
    [OUTPUT] = {"attention_output/kernel", "attention_output/bias", "_output_dense/vars/0", "_output_dense/vars/1"},
};

/* Initialisers that depend on the number of inputs and outputs count them in the kernel of three axes seen as a matrix. */
static bool by_fans(const lk_initializer *i) { return !i || (i->class && lki_field_find(i->class, "input_axes")); }

static lk_status add_projection(lk_layer *l, int i, lk_shape kernel, lk_shape flat, lk_shape bias)
{
    if (!has(l, i)) return LK_OK;
    const lk_multi_head_attention_layer_args *a = args_of(l);
    const int  skipped = l->kind == &lki_multi_head_attention_kind; /* the names of GroupQueryAttention begin with _ */
    lki_weight w = LKI_WEIGHT(a, kernel, lki_first_glorot_uniform), b = LKI_WEIGHT(a, bias, lki_first_zeros);
    w.name = NAMES[i].kernel, w.place = NAMES[i].kernel_place + skipped;
    b.name = NAMES[i].bias, b.place = NAMES[i].bias_place + skipped;
    if (by_fans(a->kernel_initializer)) w.drawn_as = flat;
    LKI_TRY(lki_layer_weight(l, w, kernel));
    return a->use_bias == LK_OFF ? LK_OK : lki_layer_weight(l, b, bias);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    const lk_multi_head_attention_layer_args *a = args_of(l);
    const lki_axes                            last = out_axes(l, &in[IN_QUERY]);
    lk_shape kernel = {.rank = 2 + last.count, .dim = {a->num_heads, a->value_dim}}, bias = {.rank = last.count};
    int64_t  out = 1;
    for (int i = QUERY; i <= VALUE; i++) {
        const lk_shape *row = input_of(in, i);
        const int64_t   width = row->dim[row->rank - 1], d = i == VALUE || i == GATE ? a->value_dim : a->key_dim;
        const int64_t   heads = heads_of(l, i);
        LKI_TRY(add_projection(l, i, LK_SHAPE(width, heads, d), LK_SHAPE(width, lki_size_mul(heads, d)), LK_SHAPE(heads, d)));
    }
    for (int i = 0; i < last.count; i++) {
        kernel.dim[2 + i] = bias.dim[i] = last.value[i];
        out = lki_size_mul(out, last.value[i]);
    }
    return add_projection(l, OUTPUT, kernel, LK_SHAPE(lki_size_mul(a->num_heads, a->value_dim), out), bias);
}

/* ---- calling ---- */

typedef struct weights {
    lk_tensor *kernel[PROJECTIONS], *bias[PROJECTIONS]; /* NULL: there is none */
} weights;

static weights read_weights(const lk_layer *l)
{
    weights w = {0};
    for (int i = 0; i < PROJECTIONS; i++) {
        if (!has(l, i)) continue;
        w.kernel[i] = lki_layer_read(l, kernel_at(l, i));
        w.bias[i] = args_of(l)->use_bias == LK_OFF ? NULL : lki_layer_read(l, kernel_at(l, i) + 1);
    }
    return w;
}

/* As in Keras, an activity regulariser is applied to the result of every projection; the last one is the layer's own result. */
static lk_status regularize(const lk_layer *l, const lki_pass *pass, lk_tensor *const x[], const weights *w)
{
    for (int i = QUERY; i <= VALUE; i++) {
        if (!w->kernel[i]) continue;
        const lk_shape *k = &w->kernel[i]->shape;
        const int64_t   out = lki_size_mul(k->dim[1], k->dim[2]);
        lk_tensor      *y = lk_nn_dense(x[i], lk_reshape(w->kernel[i], LK_SHAPE(k->dim[0], out)),
                                   w->bias[i] ? lk_reshape(w->bias[i], LK_SHAPE(out)) : NULL, i == GATE ? LK_SIGMOID : LK_LINEAR);
        if (lki_bad(y)) return lki_poisoned_status("lk_multi_head_attention");
        LKI_TRY(pass->add(pass->to, lki_regularizer_rows(l->activity, y)));
    }
    return LK_OK;
}

static lk_tensor *argument(const lki_pass *pass, int i) { return i < pass->in.count ? pass->in.item[i] : NULL; }

static lk_tensor *as_bool(lk_tensor *mask)
{
    return !mask || lki_bad(mask) || mask->dtype == LK_BOOL ? mask : lk_cast(mask, LK_BOOL);
}

/* `mask`, joined with one of steps: of the query (axis -1) or of the value (axis -2). */
static lk_tensor *joined(lk_tensor *mask, lk_tensor *steps, int axis)
{
    steps = as_bool(steps);
    if (!steps || lki_bad(steps)) return steps ? steps : mask;
    lk_tensor *wide = lk_expand_dims(steps, axis);
    return mask ? lk_logical_and(mask, wide) : wide;
}

static lk_tensor *mask_or(lk_tensor *given, const lk_tensor *x) { return given ? given : x ? x->mask : NULL; }

/* [n, query steps, value steps]; NULL: all attend to all. */
static lk_tensor *mask_of(const lki_pass *pass)
{
    const lk_tensor *query = pass->in.item[IN_QUERY], *value = pass->in.item[IN_VALUE], *key = argument(pass, IN_KEY);
    lk_tensor       *mask = as_bool(argument(pass, IN_ATTENTION_MASK));
    mask = joined(mask, query->mask, -1);
    mask = joined(mask, mask_or(argument(pass, IN_VALUE_MASK), value), -2);
    return joined(mask, mask_or(argument(pass, IN_KEY_MASK), key), -2);
}

static lk_tensor *attend(const lk_layer *l, lk_tensor *const x[], const weights *w, lk_tensor *mask, const lki_pass *pass)
{
    const lk_multi_head_attention_layer_args *a = args_of(l);
    const lk_shape                           *o = &w->kernel[OUTPUT]->shape;
    const int64_t                             out = lki_shape_size_from(o, 2);
    return lk_nn_multi_head_attention(
        x[QUERY], x[VALUE], x[KEY], .query_kernel = w->kernel[QUERY], .key_kernel = w->kernel[KEY],
        .value_kernel = w->kernel[VALUE],
        .output_kernel = o->rank == 3 ? w->kernel[OUTPUT] : lk_reshape(w->kernel[OUTPUT], LK_SHAPE(o->dim[0], o->dim[1], out)),
        .query_bias = w->bias[QUERY], .key_bias = w->bias[KEY], .value_bias = w->bias[VALUE],
        .output_bias = w->bias[OUTPUT] && o->rank != 3 ? lk_reshape(w->bias[OUTPUT], LK_SHAPE(out)) : w->bias[OUTPUT],
        .gate_kernel = w->kernel[GATE], .gate_bias = w->bias[GATE], .mask = mask, .use_causal_mask = a->use_causal_mask,
        .sliding_window = lki_integer_or(a->sliding_window, 0), .return_attention_scores = a->return_attention_scores,
        .zero_masked = a->dropout > 0 || a->return_attention_scores == LK_ON ? LK_ON : LK_OFF,
        .dropout = pass->training ? a->dropout : 0, .stream = lki_layer_stream(l), .iteration = pass->iteration);
}

/* The axes of a batch in another order: the first, those not attended along, those attended along, the last. */
static lki_axes order_of(int rank, const bool along[LK_MAX_RANK])
{
    lki_axes order = {.count = 1};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 1; i < rank - 1; i++)
            if (along[i] == (pass == 1)) order.value[order.count++] = i;
    order.value[order.count++] = rank - 1;
    return order;
}

/* [entries, steps, width] of rows with more axes. */
static lk_tensor *folded(lk_tensor *x, const bool along[LK_MAX_RANK])
{
    const int      rank = x->shape.rank;
    const lki_axes order = order_of(rank, along);
    int64_t        entries = x->shape.dim[0], steps = 1;
    for (int i = 1; i < rank - 1; i++)
        if (along[i]) steps = lki_size_mul(steps, x->shape.dim[i]);
        else entries = lki_size_mul(entries, x->shape.dim[i]);
    return lk_reshape(lk_transpose(x, lki_axes_list(&order)), LK_SHAPE(entries, steps, x->shape.dim[rank - 1]));
}

/* And back, to the axes of the query. */
static lk_tensor *unfolded(lk_tensor *y, const lk_shape *query, const bool along[LK_MAX_RANK])
{
    const lki_axes order = order_of(query->rank, along);
    lki_axes       back = {.count = order.count};
    lk_shape       shape = {.rank = order.count};
    if (lki_bad(y)) return y;
    for (int i = 0; i < order.count; i++) {
        shape.dim[i] = i == order.count - 1 ? y->shape.dim[2] : query->dim[order.value[i]];
        back.value[order.value[i]] = i;
    }
    return lk_transpose(lk_reshape(y, shape), lki_axes_list(&back));
}

/* The last axis as output_shape has it. */
static lk_tensor *shaped(const lk_layer *l, lk_tensor *y)
{
    const lki_axes last = lki_axes_of(args_of(l)->output_shape);
    if (lki_bad(y) || last.count < 2) return y;
    lk_shape shape = y->shape;
    shape.rank += last.count - 1;
    for (int i = 0; i < last.count; i++)
        shape.dim[y->shape.rank - 1 + i] = last.value[i];
    return lk_reshape(y, shape);
}

static lk_tensor *attend_all(lk_layer *l, lk_tensor *query, const lki_pass *pass)
{
    lk_tensor *value = argument(pass, IN_VALUE), *key = argument(pass, IN_KEY) ? argument(pass, IN_KEY) : value;
    if (lki_bad(query) || lki_bad(value) || lki_bad(key)) return &lki_poison;
    const weights    w = read_weights(l);
    lk_tensor *const x[] = {[QUERY] = query, [KEY] = key, [GATE] = query, [VALUE] = value};
    lk_tensor       *mask = mask_of(pass);
    bool             along[LK_MAX_RANK];
    if (l->activity && pass->add && regularize(l, pass, x, &w) != LK_OK) return &lki_poison;
    if (query->shape.rank == 3) {
        lk_tensor *y = attend(l, x, &w, mask, pass);
        if (lki_bad(y) || !y->nest) return shaped(l, y);
        return lk_nest(LK_TUPLE(shaped(l, lk_nested(y).item[0]), lk_nested(y).item[1]));
    }
    if (mask)
        return lki_refuse(LK_EUNSUPPORTED, "layer \"%s\": a mask is for rows of [steps, width]; there are %d axes",
                          lki_layer_title(l), query->shape.rank - 1);
    lk_shape row = {.rank = query->shape.rank - 1};
    if (axes_of(l, &row, along) != LK_OK) return &lki_poison;
    lk_tensor *const flat[] = {[QUERY] = folded(query, along), [KEY] = folded(key, along), [VALUE] = folded(value, along)};
    return shaped(l, unfolded(attend(l, flat, &w, NULL, pass), &query->shape, along));
}

/* As in Keras, MultiHeadAttention takes the masks of its inputs away: layers that use them later find none. */
static void take_masks(const lk_layer *l, const lki_pass *pass)
{
    for (int i = IN_QUERY; i <= IN_KEY && l->kind == &lki_multi_head_attention_kind; i++) {
        lk_tensor *x = argument(pass, i);
        if (!x || lki_bad(x)) continue;
        lki_drop(x->mask);
        x->mask = NULL;
    }
}

/* The output has the mask of the query. */
static lk_tensor *call(lk_layer *l, lk_tensor *query, const lki_pass *pass)
{
    lk_tensor *y = attend_all(l, query, pass);
    if (lki_bad(y)) return y;
    if (!y->nest) y = lki_masked(y, query->mask, true);
    else if (lki_bad(lki_masked(lk_nested(y).item[0], query->mask, true))) return &lki_poison;
    take_masks(l, pass);
    return y;
}

/* ---- making one ---- */

static bool fits_options(const char *call, const lk_multi_head_attention_layer_args *a, int64_t key_value_heads)
{
    if (a->num_heads < 1 || a->key_dim < 1 || a->value_dim < 1 || key_value_heads < 0)
        lki_fail(LK_EINVAL, "%s: num_heads is %lld, key_dim %lld and value_dim %lld; they must be at least 1", call,
                 (long long)a->num_heads, (long long)a->key_dim, (long long)a->value_dim);
    else if (key_value_heads && a->num_heads % key_value_heads)
        lki_fail(LK_EINVAL, "%s: num_query_heads is %lld; it must be a multiple of num_key_value_heads, %lld", call,
                 (long long)a->num_heads, (long long)key_value_heads);
    else if (!(a->dropout >= 0 && a->dropout < 1))
        lki_fail(LK_EINVAL, "%s: dropout is %g; it must be at least 0 and below 1", call, a->dropout);
    else if (lki_integer_or(a->sliding_window, 1) < 1)
        lki_fail(LK_EINVAL, "%s: sliding_window is %lld; it must be at least 1", call, (long long)lki_integer(a->sliding_window));
    else return true;
    return false;
}

static lk_layer *layer_of(const char *call, const lki_layer_kind *kind, arguments a)
{
    a.ask.value_dim = lki_integer_or(a.ask.value_dim, a.ask.key_dim);
    lk_layer *l = fits_options(call, &a.ask, a.key_value_heads) ? lki_layer_new(call, kind, &a) : NULL;
    if (l) l->draws = a.ask.dropout > 0;
    return l;
}

static void *make(const void *args)
{
    return layer_of("lk_multi_head_attention", &lki_multi_head_attention_kind, *(const arguments *)args);
}
static void *make_groups(const void *args)
{
    return layer_of("lk_group_query_attention", &lki_group_query_attention_kind, *(const arguments *)args);
}

#define LAST_FIELDS                                                                                                                \
    LKI_FIELD(REAL, lk_multi_head_attention_layer_args, dropout), LKI_KERNEL_AND_BIAS_FIELDS(lk_multi_head_attention_layer_args),  \
        LKI_FIELD(SWITCH, lk_multi_head_attention_layer_args, use_gate),                                                           \
        LKI_FIELD(INTEGER, lk_multi_head_attention_layer_args, sliding_window, .none = true),                                      \
        LKI_FIELD(NUMBER, lk_multi_head_attention_layer_args, seed, .none = true),                                                 \
        LKI_FIELD(SWITCH, lk_multi_head_attention_layer_args, use_causal_mask, .in_call = true),                                   \
        LKI_FIELD(SWITCH, lk_multi_head_attention_layer_args, return_attention_scores, .in_call = true)

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_multi_head_attention_layer_args), /* the arguments begin with these */
    LKI_FIELD(INT, lk_multi_head_attention_layer_args, num_heads, .required = true),
    LKI_FIELD(INT, lk_multi_head_attention_layer_args, key_dim, .required = true),
    LKI_FIELD(INTEGER, lk_multi_head_attention_layer_args, value_dim),
    LKI_FIELD(AXES, lk_multi_head_attention_layer_args, output_shape),
    LKI_FIELD(AXES, lk_multi_head_attention_layer_args, attention_axes),
    LAST_FIELDS,
};

static const lki_field GROUP_FIELDS[] = {
    LKI_LAYER_FIELDS(lk_multi_head_attention_layer_args),
    LKI_FIELD_AS("head_dim", INT, lk_multi_head_attention_layer_args, key_dim, .required = true),
    LKI_FIELD_AS("num_query_heads", INT, lk_multi_head_attention_layer_args, num_heads, .required = true),
    LKI_FIELD_AS("num_key_value_heads", INT, arguments, key_value_heads, .required = true),
    LAST_FIELDS,
};

#define KIND(title, name_, class_, fields, make_)                                                                                  \
    const lki_layer_kind lki_##title##_kind = {.name = name_,                                                                      \
                                               .class = {class_, "keras.layers", LKI_ARGS(arguments, fields), make_},              \
                                               .bytes = sizeof(attention),                                                         \
                                               .set = offsetof(attention, set),                                                    \
                                               .fewest = 2,                                                                        \
                                               .most = MOST_ARGUMENTS,                                                             \
                                               .draws = true,                                                                      \
                                               .arguments = ARGUMENTS,                                                             \
                                               .output = output,                                                                   \
                                               .outputs = outputs,                                                                 \
                                               .mask = lki_mask_stays,                                                             \
                                               .build = build,                                                                     \
                                               .call = call}
KIND(multi_head_attention, "multi_head_attention", "MultiHeadAttention", FIELDS, make);
KIND(group_query_attention, "grouped_query_attention", "GroupQueryAttention", GROUP_FIELDS, make_groups);

lk_layer *lk_multi_head_attention_kw(lk_multi_head_attention_layer_args a)
{
    return layer_of("lk_multi_head_attention", &lki_multi_head_attention_kind, (arguments){.ask = a});
}

lk_layer *lk_group_query_attention_kw(lk_group_query_attention_args a)
{
    if (a.num_key_value_heads < 1)
        return lki_fail(LK_EINVAL, "lk_group_query_attention: num_key_value_heads is %lld; it must be at least 1",
                        (long long)a.num_key_value_heads),
               NULL;
    const lk_multi_head_attention_layer_args ask = {.num_heads = a.num_query_heads,
                                                    .key_dim = a.head_dim,
                                                    .dropout = a.dropout,
                                                    .seed = a.seed,
                                                    .sliding_window = a.sliding_window,
                                                    .use_gate = a.use_gate,
                                                    .use_causal_mask = a.use_causal_mask,
                                                    .return_attention_scores = a.return_attention_scores,
                                                    .use_bias = a.use_bias,
                                                    .kernel_initializer = a.kernel_initializer,
                                                    .bias_initializer = a.bias_initializer,
                                                    .kernel_regularizer = a.kernel_regularizer,
                                                    .bias_regularizer = a.bias_regularizer,
                                                    .activity_regularizer = a.activity_regularizer,
                                                    .kernel_constraint = a.kernel_constraint,
                                                    .bias_constraint = a.bias_constraint,
                                                    .name = a.name,
                                                    .input_shape = a.input_shape,
                                                    .trainable = a.trainable};
    return layer_of("lk_group_query_attention", &lki_group_query_attention_kind, (arguments){ask, a.num_key_value_heads});
}
