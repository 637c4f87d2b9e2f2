/* Custom layers: the caller's functions compute them, create their weights and determine the shape of a result row.
 *
 * Invariants
 *  1. Each has a separate kind, because the caller determines its name, its inputs and whether it draws.
 *  2. It holds the objects that its weights were made with, as other layers do through their arguments.
 *  3. A function that fails without a message becomes an error that names the layer. A result whose shape differs from that of the
 *     output function is an error. */
#include "core/dtype.h"
#include "core/memory.h"
#include "core/names.h"
#include "layer/layer.h"
#include <stdio.h>
#include <string.h>

enum { HELD_PER_WEIGHT = 3 };

typedef struct own {
    lk_layer          layer;
    lk_own_layer_args set;
    lki_layer_kind    kind;
    bool              building; /* inside its build function */
    int               weights;  /* added since building began */
    char             *weight_name[LKI_MOST_WEIGHTS];
    void             *held[LKI_MOST_WEIGHTS][HELD_PER_WEIGHT]; /* references */
} own;

static int count_of(const lk_shape *in)
{
    int count = 0;
    while (in[count].rank >= 0)
        count++;
    return count;
}

/* The status of a function; a failure without a message is reported here. */
static lk_status checked(const lk_layer *l, const char *function, lk_status status)
{
    if (status == LK_OK || lk_failed()) return status;
    return lki_fail(status, "layer \"%s\": its %s function failed with status %d", lki_layer_title(l), function, (int)status);
}

/* ---- shapes and results ---- */

static bool is_row(const lk_shape *s)
{
    bool good = s->rank >= 0 && s->rank < LK_MAX_RANK;
    for (int i = 0; good && i < s->rank; i++)
        good = s->dim[i] >= -1;
    return good;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_own_layer_args *a = &((const own *)l)->set;
    char                     text[LKI_SHAPE_TEXT];
    *out = in[0];
    if (!a->output) return LK_OK;
    LKI_TRY(checked(l, "output", a->output(l, count_of(in), in, out, a->user)));
    if (is_row(out)) return LK_OK;
    return lki_layer_refuse(l, in, "its output function says %s, which is not the shape of a row", lki_shape_text(out, text));
}

/* ---- weights ---- */

static void let_go(own *o)
{
    for (int i = 0; i < LKI_MOST_WEIGHTS; i++) {
        lki_release(o->weight_name[i]);
        o->weight_name[i] = NULL;
        for (int k = 0; k < HELD_PER_WEIGHT; k++) {
            lki_drop(o->held[i][k]);
            o->held[i][k] = NULL;
        }
    }
    o->weights = 0;
}

static void destroy(lk_layer *l)
{
    lki_layer_forget(l); /* weights point to their names */
    let_go((own *)l);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    own *o = (own *)l;
    if (!o->set.build) return LK_OK;
    let_go(o);
    o->building = true;
    lk_status status = checked(l, "build", o->set.build(l, count_of(in), in, o->set.user));
    o->building = false;
    return status;
}

static lk_status weight_fits(const own *o, const lk_weight_args *a)
{
    const lk_layer *l = &o->layer;
    char            text[LKI_SHAPE_TEXT];
    if (!o->building)
        return lki_fail(LK_ESTATE, "lk_layer_add_weight: layer \"%s\" is not being built; weights are added in its build function",
                        lki_layer_title(l));
    if (!a->name || !*a->name || strchr(a->name, '/'))
        return lki_fail(LK_EINVAL, "lk_layer_add_weight: layer \"%s\": a weight needs a name without a slash, not \"%s\"",
                        lki_layer_title(l), a->name ? a->name : "");
    for (int i = 0; i < l->count; i++)
        if (!strcmp(l->weight[i].name, a->name))
            return lki_fail(LK_EINVAL, "lk_layer_add_weight: layer \"%s\" has a weight \"%s\" already", lki_layer_title(l),
                            a->name);
    if (!lki_shape_valid(&a->shape))
        return lki_fail(LK_ESHAPE, "lk_layer_add_weight: layer \"%s\": weight \"%s\" of %s; it needs a shape of fixed sizes",
                        lki_layer_title(l), a->name, lki_shape_text(&a->shape, text));
    return LK_OK;
}

static lk_status is_held(const char *name, const void *object, lki_kind kind, const char *what)
{
    if (!object || lki_is_kind(object, kind)) return LK_OK;
    return lki_fail(LK_EINVAL, "lk_layer_add_weight: the %s of \"%s\" is not one", what, name);
}

static lk_status hold(own *o, const lk_weight_args *a)
{
    void *const object[HELD_PER_WEIGHT] = {a->initializer, a->regularizer, a->constraint};
    LKI_TRY(is_held(a->name, a->initializer, LKI_KIND_INITIALIZER, "initialiser"));
    LKI_TRY(is_held(a->name, a->regularizer, LKI_KIND_REGULARIZER, "regulariser"));
    LKI_TRY(is_held(a->name, a->constraint, LKI_KIND_CONSTRAINT, "constraint"));
    if (!(o->weight_name[o->weights] = lki_strdup(a->name))) return LK_ENOMEM;
    for (int k = 0; k < HELD_PER_WEIGHT; k++)
        o->held[o->weights][k] = lki_retain(object[k]);
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass);

static bool is_own(const lk_layer *l) { return l->kind->call == call; }

static bool is_layer(const char *name, const lk_layer *l)
{
    if (lki_is_kind(l, LKI_KIND_LAYER)) return true;
    return lki_fail(LK_EINVAL, "%s: %s", name, l ? "not a layer" : "the layer is NULL"), false;
}

lk_status lk_layer_add_weight_kw(lk_weight_args a)
{
    if (!is_layer("lk_layer_add_weight", a.layer)) return LK_EINVAL;
    if (!is_own(a.layer))
        return lki_fail(LK_EINVAL, "lk_layer_add_weight: layer \"%s\" is not of lk_layer_of(); it makes its weights itself",
                        lki_layer_title(a.layer));
    own *o = (own *)a.layer;
    LKI_TRY(weight_fits(o, &a));
    if (o->weights == LKI_MOST_WEIGHTS)
        return lki_fail(LK_EUNSUPPORTED, "lk_layer_add_weight: layer \"%s\": more than %d weights", lki_layer_title(a.layer),
                        LKI_MOST_WEIGHTS);
    LKI_TRY(hold(o, &a));
    lki_weight w = {.name = o->weight_name[o->weights++],
                    .initializer = a.initializer,
                    .standard = lki_first_glorot_uniform,
                    .regularizer = a.regularizer,
                    .constraint = a.constraint,
                    .trainable = a.trainable};
    return lki_layer_weight(a.layer, w, a.shape);
}

lk_tensor *lk_layer_weight(lk_layer *l, const char *name)
{
    char has[256] = "";
    if (!is_layer("lk_layer_weight", l)) return &lki_poison;
    for (int i = 0; i < l->count; i++) {
        if (name && !strcmp(l->weight[i].name, name)) return lki_layer_read(l, i);
        lki_names_add(has, sizeof has, l->weight[i].name);
    }
    return lki_refuse(LK_EINVAL, "lk_layer_weight: layer \"%s\" has no weight \"%s\"; %s%s", lki_layer_title(l),
                      name ? name : "NULL", l->count ? "it has " : "it has none", has);
}

/* ---- calling ---- */

/* Checks the result against the shape from its output function, for these rows. */
static lk_tensor *promised(const lk_layer *l, lk_tuple in, lk_tensor *y)
{
    lk_shape row[LKI_MOST_INPUTS + 1], out, made = {.rank = lk_rank(y) - 1};
    char     gave[LKI_SHAPE_TEXT], says[LKI_SHAPE_TEXT];
    lki_input_rows(in, row);
    if (output(l, row, &out) != LK_OK) return &lki_poison;
    bool fits = made.rank == out.rank && y->shape.dim[0] == in.item[0]->shape.dim[0];
    for (int i = 0; i < made.rank; i++) {
        made.dim[i] = y->shape.dim[i + 1];
        fits = fits && (out.dim[i] < 0 || made.dim[i] == out.dim[i]);
    }
    if (fits) return y;
    return lki_refuse(LK_ESHAPE, "layer \"%s\": its call function returned %s for %lld rows; %s %s each", lki_layer_title(l),
                      lki_shape_text(&y->shape, gave), (long long)in.item[0]->shape.dim[0],
                      ((const own *)l)->set.output ? "its output function says" : "without an output function it should be",
                      lki_shape_text(&out, says));
}

static lk_tensor *as_weights(lk_tensor *t)
{
    return !lki_bad(t) && lki_is_float(t->dtype) && t->dtype != LK_F32 ? lk_cast(t, LK_F32) : t;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const own    *o = (const own *)l;
    lk_layer_pass told = {pass->training, l->draws ? pass->iteration : NULL, lki_layer_stream(l)};
    lk_tensor    *in[LKI_MOST_INPUTS];
    (void)x;
    for (int i = 0; i < pass->in.count; i++)
        if (lki_bad(in[i] = as_weights(pass->in.item[i]))) return &lki_poison;
    const lki_pass *before = lki_pass_set(pass);
    lk_tensor      *y = o->set.call(l, lk_tuple_from(pass->in.count, in), &told, o->set.user);
    lki_pass_set(before);
    if (!y && !lk_failed()) return lki_refuse(LK_EINVAL, "layer \"%s\": its call function returned NULL", lki_layer_title(l));
    if (lki_bad(y)) return &lki_poison;
    if (lki_stands_for(y))
        return lki_refuse(LK_EINVAL, "layer \"%s\": its call function returned %s", lki_layer_title(l), lki_why_not_plain(y));
    return promised(l, pass->in, y);
}

/* ---- making one ---- */

static const lki_field FIELDS[] = {LKI_LAYER_FIELDS(lk_own_layer_args), LKI_FIELD_AS("", NAME, lk_own_layer_args, kind)};

static const lki_layer_kind OWN = {.name = "own_layer",
                                   .class = {LKI_ARGS(lk_own_layer_args, FIELDS)},
                                   .bytes = sizeof(own),
                                   .set = offsetof(own, set),
                                   .takes_ids = true,
                                   .output = output,
                                   .build = build,
                                   .call = call,
                                   .destroy = destroy};

lk_layer *lk_layer_of_kw(lk_own_layer_args a)
{
    if (!a.call) return lki_fail(LK_EINVAL, "lk_layer_of: call is NULL; it computes the layer"), NULL;
    if (a.kind && (!*a.kind || strchr(a.kind, '/')))
        return lki_fail(LK_EINVAL, "lk_layer_of: the kind \"%s\" is empty or has a slash in it", a.kind), NULL;
    const int64_t inputs = lki_integer_or(a.inputs, 1);
    if (inputs < -1 || inputs == 0 || inputs > LKI_MOST_INPUTS)
        return lki_fail(LK_EINVAL, "lk_layer_of: %lld inputs; there may be 1 to %d, or -1 for any number", (long long)inputs,
                        LKI_MOST_INPUTS),
               NULL;
    own *o = lki_layer_new("lk_layer_of", &OWN, &a);
    if (!o) return NULL;
    o->kind = OWN;
    if (a.kind) o->kind.name = o->set.kind;
    o->kind.fewest = inputs > 0 ? (int)inputs : 1;
    o->kind.most = (int)inputs;
    o->kind.draws = a.draws == LK_ON;
    o->layer.kind = &o->kind;
    o->layer.draws = a.draws == LK_ON;
    return &o->layer;
}
