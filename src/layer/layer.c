/* What all layers share: making, placing and building them, calls, error messages. */
#include "layer/layer.h"
#include "core/list.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/number.h"
#include "core/rounding.h"
#include "layer/initializer.h"
#include "layer/regularizer.h"
#include "op/replica.h"
#include <lockstep/strategy.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const lki_activation_words[LK_ACTIVATION_COUNT] = {
    [LK_LINEAR] = "linear",
    [LK_RELU] = "relu",
    [LK_RELU6] = "relu6",
    [LK_GELU] = "gelu",
    [LK_GELU_TANH] = "gelu_tanh",
    [LK_SIGMOID] = "sigmoid",
    [LK_TANH] = "tanh",
    [LK_SOFTPLUS] = "softplus",
    [LK_SOFTSIGN] = "softsign",
    [LK_ELU] = "elu",
    [LK_SELU] = "selu",
    [LK_LEAKY_RELU] = "leaky_relu",
    [LK_SWISH] = "silu",
    [LK_HARD_SIGMOID] = "hard_sigmoid",
    [LK_MISH] = "mish",
    [LK_EXPONENTIAL] = "exponential",
    [LK_SOFTMAX] = "softmax",
    [LK_LOG_SOFTMAX] = "log_softmax",
    [LK_CELU] = "celu",
    [LK_GLU] = "glu",
    [LK_HARD_SHRINK] = "hard_shrink",
    [LK_HARD_SILU] = "hard_silu",
    [LK_HARD_TANH] = "hard_tanh",
    [LK_LOG_SIGMOID] = "log_sigmoid",
    [LK_SOFT_SHRINK] = "soft_shrink",
    [LK_SPARSE_PLUS] = "sparse_plus",
    [LK_SPARSE_SIGMOID] = "sparse_sigmoid",
    [LK_SPARSEMAX] = "sparsemax",
    [LK_SQUAREPLUS] = "squareplus",
    [LK_TANH_SHRINK] = "tanh_shrink",
};
const char *const lki_padding_words[3] = {[LK_VALID] = "valid", [LK_SAME] = "same", [LK_CAUSAL] = "causal"};

/* ---- life ---- */

static void *args_of(lk_layer *l) { return (char *)l + l->kind->set; }

static void destroy(void *object)
{
    lk_layer *l = object;
    if (l->kind->destroy) l->kind->destroy(l);
    lki_layer_leave(l);
    for (int i = 0; i < l->inner_count; i++) {
        l->inner[i]->placed = false;
        lki_drop(l->inner[i]);
    }
    lki_release(l->inner);
    if (l->kind->class.field) lki_args_drop(&l->kind->class, args_of(l));
    lki_release(l->name);
    lki_release(l->entry);
    lki_release(l->entry_class);
}

/* A member of the arguments that every layer has. */
static const void *member(const lki_layer_kind *kind, const void *args, int which)
{
    return (const char *)args + kind->class.field[which].offset;
}

static bool common_fits(const char *call, const char *name, const lk_shape *row)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_row_valid(row))
        return lki_fail(LK_ESHAPE,
                        "%s: input_shape %s is not the shape of a row: it has at most %d sizes of 0 or more, or -1 for any, and "
                        "2^48 elements",
                        call, lki_shape_text(row, text), LK_MAX_RANK - 1),
               false;
    if (name && !*name) return lki_fail(LK_EINVAL, "%s: the name is empty", call), false;
    if (name && strchr(name, '/')) return lki_fail(LK_EINVAL, "%s: the name \"%s\" has a slash in it", call, name), false;
    return true;
}

/* Options that layers of several kinds have. */
static void note_options(lk_layer *l)
{
    const lki_field *activity = lki_field_find(&l->kind->class, "activity_regularizer"),
                    *seed = lki_field_find(&l->kind->class, "seed");
    if (activity) l->activity = *(lk_regularizer **)((char *)args_of(l) + activity->offset);
    const lk_number n = seed ? *(const lk_number *)((const char *)args_of(l) + seed->offset) : 0;
    if (lki_number_given(n)) lki_format(l->seed, sizeof l->seed, "seed/%.17g", lki_number(n));
}

void *lki_layer_new(const char *call, const lki_layer_kind *kind, const void *args)
{
    const char     *name = *(const char *const *)member(kind, args, LKI_LAYER_NAME);
    const lk_shape *row = member(kind, args, LKI_LAYER_INPUT_SHAPE);
    if (!common_fits(call, name, row)) return NULL;
    lk_layer *l = lki_object_new(kind->bytes, LKI_KIND_LAYER, LKI_LIVES_IN_POOL, destroy);
    if (!l) return NULL;
    l->kind = kind;
    l->input_shape = *row;
    l->trainable = *(const lk_switch *)member(kind, args, LKI_LAYER_TRAINABLE) != LK_OFF;
    l->named = name != NULL;
    l->draws = kind->draws;
    memcpy(args_of(l), args, kind->class.bytes);
    if (lki_args_hold(call, &kind->class, args_of(l)) != LK_OK) {
        memset(args_of(l), 0, kind->class.bytes);
        goto failed;
    }
    note_options(l);
    if (!name || (l->name = lki_strdup(name))) return l;
failed:
    lk_free(l);
    return NULL;
}

lk_status lki_layer_take(const char *call, lk_layer *outer, lk_layer *inner)
{
    if (!lki_is_kind(inner, LKI_KIND_LAYER))
        return lki_fail(LK_EINVAL, "%s: %s", call, inner ? "not a layer" : "the layer is NULL");
    if (inner->placed)
        return lki_fail(LK_EINVAL, "%s: layer \"%s\" is in a model or another layer already", call, lki_layer_title(inner));
    lk_layer **list = lki_alloc_array(outer->inner_count + 1, sizeof *list);
    if (!list) return LK_ENOMEM;
    if (outer->inner_count) memcpy(list, outer->inner, (size_t)outer->inner_count * sizeof *list);
    lki_release(outer->inner);
    outer->inner = list;
    inner->placed = true;
    outer->inner[outer->inner_count++] = lki_retain(inner);
    return LK_OK;
}

/* ---- names ---- */

const char *lki_layer_title(const lk_layer *l) { return l->name ? l->name : l->kind->name; }

static char *joined(const char *a, const char *b) { return lki_text_new("%s/%s", a, b); }

/* How many inner layers before the i-th have its title. */
static int alike_before(const lk_layer *l, int i)
{
    int count = 0;
    for (int k = 0; k < i; k++)
        count += !strcmp(l->inner[k]->kind->name, l->inner[i]->kind->name) && l->inner[k]->named == l->inner[i]->named;
    return l->inner[i]->named ? 0 : count;
}

/* Inner layers are named by their kind, with a number from the second one on, or as the wrapping kind says, "forward_lstm". */
static lk_status place_inner(lk_layer *l)
{
    for (int i = 0; i < l->inner_count; i++) {
        const int before = alike_before(l, i);
        char     *name LKI_RELEASED =
            before ? lki_text_new("%s_%d", l->inner[i]->kind->name, before) : lki_strdup(lki_layer_title(l->inner[i]));
        char *path LKI_RELEASED = name ? joined(l->path, name) : NULL;
        if (!path) return LK_ENOMEM;
        LKI_TRY(lki_layer_place(l->inner[i], name, path));
    }
    return LK_OK;
}

char *lki_layer_inner_place(const lk_layer *l, int i)
{
    const lki_layer_kind *k = l->kind;
    char                  name[128];
    int                   before = 0;
    if (k->inner_place) return lki_strdup(k->inner_place[i]);
    for (int n = 0; n < i; n++)
        before += l->inner[n]->kind == l->inner[i]->kind;
    lki_snake_case(l->inner[i]->kind->name, name, sizeof name);
    return before ? lki_text_new("%s/%s_%d", k->inner_list, name, before) : lki_text_new("%s/%s", k->inner_list, name);
}

lk_layers lk_layers_of(int count, lk_layer *const *one_based)
{
    void *item = lki_list_of("lk_layers_of", count, one_based);
    return (lk_layers){item ? count : 0, item};
}

lk_status lki_layer_place(lk_layer *l, const char *name, const char *path)
{
    char *own_name = lki_strdup(name), *own_path = lki_strdup(path);
    if (!own_name || !own_path) {
        lki_release(own_name);
        lki_release(own_path);
        return LK_ENOMEM;
    }
    lki_release(l->name);
    lki_release(l->path);
    l->name = own_name;
    l->path = own_path;
    l->placed = true;
    return place_inner(l);
}

void lki_layer_leave(lk_layer *l)
{
    lki_layer_forget(l);
    for (int i = 0; i < l->inner_count; i++) {
        lki_layer_leave(l->inner[i]);
        l->inner[i]->placed = true; /* still in this layer */
    }
    lki_release(l->path);
    l->path = NULL;
    l->placed = false;
    if (l->named) return;
    lki_release(l->name);
    l->name = NULL;
}

/* ---- weights ---- */

static const char TOO_LARGE[] = "too large: at most 2^48 elements are possible";

#define FIRST(name) lki_filling lki_first_##name(lk_shape shape, const char *stream)
FIRST(zeros) { return lki_filling_of(LKI_FILL_CONSTANT, shape, stream, 0, 0); }
FIRST(ones) { return lki_filling_of(LKI_FILL_CONSTANT, shape, stream, 1, 0); }
FIRST(glorot_uniform) { return lki_variance_scaling(shape, stream, 1, LK_FAN_AVG, LK_UNIFORM); }
FIRST(orthogonal) { return lki_filling_of(LKI_FILL_ORTHOGONAL, shape, stream, 1, 0); }
#undef FIRST

/* The weight's initial value as one that is computed later; false, perhaps with an error: not possible, because a custom function
 * makes it, or it does not fit. */
static bool find_filling(const lki_weight *w, const lk_shape *shape, const char *stream, lki_filling *out)
{
    char           text[LKI_SHAPE_TEXT];
    const lk_shape as = w->drawn_as.rank ? w->drawn_as : *shape;
    if (!lki_shape_valid(shape))
        return lki_fail(LK_ESHAPE, "\"%s\": %s is not the shape of a weight", stream, lki_shape_text(shape, text)), false;
    if (w->initializer) return lki_initializer_filling(w->initializer, as, stream, out);
    *out = w->standard(as, stream);
    return true;
}

/* A variable of a strategy that is separate on each replica, or that replicas make together, gets its value at once. */
static lk_variable *variable_of(const lki_weight *w, const lk_shape *shape, const lki_filling *f, const lk_variable_args *args)
{
    lk_variable_args all = *args;
    if (args->synchronization != LK_SYNC_ON_READ && !lki_replica_current())
        return lki_variable_later(args, shape, f->dtype, &f->later);
    lk_tensor *first = lki_filling_tensor(f);
    all.initial = !lki_bad(first) && w->drawn_as.rank ? lk_reshape(first, *shape) : first;
    return lki_bad(all.initial) ? NULL : lk_variable_kw(all);
}

static lk_variable *variable_by_code(const lki_weight *w, lk_shape shape, const char *stream, const lk_variable_args *args)
{
    lk_variable_args all = *args;
    all.initial = lk_initializer_call(w->initializer, shape, stream);
    return lki_bad(all.initial) ? NULL : lk_variable_kw(all);
}

/* "dense/kernel", and for the first values "sequential/dense/kernel". */
static lk_variable *make_variable(const lk_layer *l, const lki_weight *w, lk_shape shape)
{
    char        *name LKI_RELEASED = joined(l->name, w->name), *stream LKI_RELEASED = joined(l->path, w->name);
    lk_variable *v = NULL;
    lki_filling  f;
    if (name && stream) {
        const lk_variable_args args = {.name = name,
                                       .trainable = w->trainable == LK_OFF || !l->trainable ? LK_OFF : (lk_switch)0,
                                       .synchronization = w->synchronization,
                                       .aggregation = w->aggregation};
        if (w->initializer && w->initializer->fn) v = variable_by_code(w, shape, stream, &args);
        else if (find_filling(w, &shape, stream, &f)) v = variable_of(w, &shape, &f, &args);
    }
    return v;
}

static lk_tensor *constrain(const void *constraint, lk_tensor *value) { return lk_constraint_call(constraint, value); }

lk_status lki_layer_weight(lk_layer *l, lki_weight weight, lk_shape shape)
{
    char text[LKI_SHAPE_TEXT];
    if (l->count == LKI_MOST_WEIGHTS)
        return lki_fail(LK_EUNSUPPORTED, "layer \"%s\": more than %d weights", l->name, LKI_MOST_WEIGHTS);
    if (!lki_row_valid(&shape))
        return lki_fail(LK_ESHAPE, "layer \"%s\": its %s, %s, is %s", l->name, weight.name, lki_shape_text(&shape, text),
                        TOO_LARGE);
    weight.variable = make_variable(l, &weight, shape);
    if (!weight.variable) return lk_failed() ? lk_error_code() : LK_ENOMEM;
    weight.variable->constraint = lki_retain(weight.constraint);
    weight.variable->constrain = constrain;
    if (!weight.place && l->kind->place) weight.place = l->kind->place[l->count];
    lki_retain(weight.variable);
    l->weight[l->count++] = weight;
    return LK_OK;
}

lk_status lki_layer_weight_by(lk_layer *l, lki_weight weight, lk_shape shape, lk_initializer_fn fn, void *user)
{
    const lk_initializer *asked_for = weight.initializer;
    lk_initializer       *i = lk_initializer_of(fn, user);
    if (!i) return lk_failed() ? lk_error_code() : LK_ENOMEM;
    weight.initializer = i;
    lk_status status = lki_layer_weight(l, weight, shape);
    if (status == LK_OK) l->weight[l->count - 1].initializer = asked_for;
    lk_free(i);
    return status;
}

lk_tensor *lki_layer_read(const lk_layer *l, int i) { return lk_read(l->weight[i].variable); }

int lki_layer_weights(const lk_layer *l)
{
    int count = l->count;
    for (int i = 0; i < l->inner_count; i++)
        count += lki_layer_weights(l->inner[i]);
    return count;
}

lki_weight *lki_layer_weight_at(lk_layer *l, int i)
{
    if (i < l->count) return &l->weight[i];
    i -= l->count;
    for (int k = 0; k < l->inner_count; k++) {
        if (i < lki_layer_weights(l->inner[k])) return lki_layer_weight_at(l->inner[k], i);
        i -= lki_layer_weights(l->inner[k]);
    }
    return NULL;
}

/* ---- building ---- */

lk_status lki_layer_output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lki_layer_kind *k = l->kind;
    char                  text[LKI_SHAPE_TEXT];
    int                   count = 0, fewest = k->fewest ? k->fewest : 1, most = k->most ? k->most : 1;
    for (; in[count].rank != -1; count++)
        if (in[count].rank != LKI_ABSENT && !lki_row_valid(&in[count]))
            return lki_layer_refuse(l, &in[count], "that is %s", TOO_LARGE);
    if (count < fewest || (most > 0 && count > most))
        return lki_fail(LK_EINVAL, "layer \"%s\": %d input%s; it takes %s%d", lki_layer_title(l), count, count == 1 ? "" : "s",
                        most == fewest   ? ""
                        : count < fewest ? "at least "
                                         : "at most ",
                        count < fewest ? fewest : most);
    bool asks = !l->built && l->input_shape.rank; /* once its weights exist, rows of another size may be allowed */
    bool fits = !asks || l->input_shape.rank == in->rank;
    for (int i = 0; asks && fits && i < l->input_shape.rank; i++)
        fits = l->input_shape.dim[i] < 0 || in->dim[i] < 0 || l->input_shape.dim[i] == in->dim[i];
    if (!fits) return lki_layer_refuse(l, in, "its input_shape says %s", lki_shape_text(&l->input_shape, text));
    *out = *in;
    if (k->output) LKI_TRY(k->output(l, in, out));
    for (int i = 0; i < lki_layer_outputs(l); i++)
        if (!lki_row_valid(&out[i]))
            return lki_layer_refuse(l, in, "what comes out, %s, is %s", lki_shape_text(&out[i], text), TOO_LARGE);
    return LK_OK;
}

int lki_layer_outputs(const lk_layer *l) { return l->kind->outputs ? l->kind->outputs(l) : 1; }

lk_status lki_layer_build(lk_layer *l, const lk_shape *in)
{
    if (l->built) return LK_OK;
    lk_status status = l->kind->build ? l->kind->build(l, in) : LK_OK;
    if (status != LK_OK) lki_layer_forget(l);
    else l->built = true;
    return status;
}

void lki_layer_forget(lk_layer *l)
{
    while (l->count)
        lki_drop(l->weight[--l->count].variable);
    for (int i = 0; i < l->inner_count; i++)
        lki_layer_forget(l->inner[i]);
    lki_drop(l->calls);
    l->calls = NULL;
    l->built = false;
}

/* ---- calling ---- */

bool lki_layer_draws(const lk_layer *l)
{
    bool draws = l->draws;
    for (int i = 0; i < l->inner_count; i++)
        draws = draws || lki_layer_draws(l->inner[i]);
    return draws;
}

bool lki_layer_mixes_rows(const lk_layer *l)
{
    bool mixes = l->kind->mixes_rows && l->trainable;
    for (int i = 0; i < l->inner_count; i++)
        mixes = mixes || lki_layer_mixes_rows(l->inner[i]);
    return mixes;
}

static lk_tensor *as_floats(const lk_layer *l, lk_tuple in, int i)
{
    lk_tensor *t = in.item[i];
    const bool stays = lki_bad(t) || l->kind->takes_ids || t->dtype == LK_F32 || (i && l->kind->arguments && t->dtype == LK_BOOL);
    return stays ? t : lki_masked(lk_cast(t, LK_F32), t->mask, true);
}

lk_tensor *lki_layer_compute(lk_layer *l, lk_tuple in, const lki_pass *pass)
{
    LKI_NEAREST;
    lki_pass   own = *pass;
    lk_tensor *cast[LKI_MOST_INPUTS];
    cast[0] = NULL;
    for (int i = 0; i < in.count; i++)
        cast[i] = as_floats(l, in, i);
    own.in = (lk_tuple){in.count, cast};
    return l->kind->call(l, cast[0], &own);
}

/* ---- masks and activity of the results ---- */

static bool is_among(lk_tuple in, const lk_tensor *t)
{
    for (int i = 0; i < in.count; i++)
        if (in.item[i] == t) return true;
    return false;
}

/* One result. A layer may return an input as it is, which keeps its own mask. */
static lk_tensor *finish(const lk_layer *l, lk_tuple in, lk_tensor *y, int i, const lki_pass *pass)
{
    if (lki_bad(y)) return &lki_poison;
    lk_tensor *mask = l->kind->mask ? l->kind->mask(l, in, y, i) : NULL;
    y = lki_masked(y, mask, !is_among(in, y));
    if (lki_bad(y) || !l->activity || !pass->add) return y;
    return pass->add(pass->to, lki_regularizer_rows(l->activity, y)) == LK_OK ? y : &lki_poison;
}

lk_tensor *lki_layer_run(lk_layer *l, lk_tuple in, const lki_pass *pass)
{
    lk_tensor *y = lki_layer_compute(l, in, pass), *result[LKI_MOST_OUTPUTS];
    if (lki_bad(y) || !y->nest) return finish(l, in, y, 0, pass);
    const lk_tuple all = lk_nested(y);
    for (int i = 0; i < all.count; i++)
        if (lki_bad(result[i] = finish(l, in, all.item[i], i, pass))) return &lki_poison;
    return lk_nest((lk_tuple){all.count, result});
}

/* ---- the model that is being called ---- */

static _Thread_local const lki_pass *current_pass;

const lki_pass *lki_pass_current(void) { return current_pass; }

const lki_pass *lki_pass_set(const lki_pass *pass)
{
    const lki_pass *before = current_pass;
    current_pass = pass;
    return before;
}

const char *lki_layer_stream(const lk_layer *l) { return *l->seed ? l->seed : l->path; }

/* ---- mistakes ---- */

lk_status lki_layer_refuse(const lk_layer *l, const lk_shape *in, const char *format, ...)
{
    char    why[256], text[LKI_SHAPE_TEXT];
    va_list list;
    va_start(list, format);
    lki_text_vprint(why, sizeof why, 0, format, list);
    va_end(list);
    return lki_fail(LK_ESHAPE, "layer \"%s\": rows of %s: %s", lki_layer_title(l), lki_shape_text(in, text), why);
}

bool lki_activation_fits(const char *call, lk_activation activation)
{
    if (activation == LK_GLU)
        return lki_fail(LK_EINVAL, "%s: the activation glu halves the last axis; put lk_activation_layer(LK_GLU) after the layer",
                        call),
               false;
    if ((unsigned)activation < LK_ACTIVATION_COUNT) return true;
    return lki_fail(LK_EINVAL, "%s: there is no activation %d", call, (int)activation), false;
}

/* ---- looking at one ---- */

static bool is_layer(const char *call, const lk_layer *l)
{
    if (lki_is_kind(l, LKI_KIND_LAYER)) return true;
    return lki_fail(LK_EINVAL, "%s: %s", call, l ? "not a layer" : "the layer is NULL"), false;
}

const char *lk_layer_name(const lk_layer *l) { return is_layer("lk_layer_name", l) ? lki_layer_title(l) : ""; }
int         lk_layer_trainable(const lk_layer *l) { return is_layer("lk_layer_trainable", l) && l->trainable; }

lk_variables lk_layer_variables(lk_layer *l)
{
    if (!is_layer("lk_layer_variables", l)) return (lk_variables){0};
    int           count = lki_layer_weights(l);
    lk_variable **item LKI_RELEASED = lki_alloc_array(count + 1, sizeof *item);
    if (!item) return (lk_variables){0};
    for (int i = 0; i < count; i++)
        item[i] = lki_layer_weight_at(l, i)->variable;
    return lk_variables_from(count, item);
}

static void set_trainable(lk_layer *l, bool trainable)
{
    l->trainable = trainable;
    for (int i = 0; i < l->count; i++)
        l->weight[i].variable->trainable =
            trainable && l->weight[i].trainable != LK_OFF && l->weight[i].synchronization != LK_SYNC_ON_READ;
    for (int i = 0; i < l->inner_count; i++)
        set_trainable(l->inner[i], trainable);
}

lk_status lk_layer_set_trainable(lk_layer *l, int trainable)
{
    if (!is_layer("lk_layer_set_trainable", l)) return LK_EINVAL;
    set_trainable(l, trainable != 0);
    return LK_OK;
}
