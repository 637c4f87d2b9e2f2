/* Bidirectional: a recurrent layer and a second one like it, which runs over the steps in reverse order; the two results are
 * merged. */
#include "core/memory.h"
#include "core/names.h"
#include "layer/recurrent.h"
#include <stdio.h>
#include <string.h>

enum { FORWARD, BACKWARD };

typedef struct arguments {
    lk_bidirectional_args ask;
    lk_layer             *backward_layer; /* a file may have a different one than the one made here */
} arguments;

typedef struct bidirectional {
    lk_layer  layer;
    arguments set;
} bidirectional;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_merge_mode mode = ((const bidirectional *)l)->set.ask.merge_mode;
    lk_shape            back;
    LKI_TRY(lki_layer_output(l->inner[FORWARD], in, out));
    LKI_TRY(lki_layer_output(l->inner[BACKWARD], in, &back));
    if (mode == LK_MERGE_CONCAT) out->dim[out->rank - 1] = lki_size_add(out->dim[out->rank - 1], back.dim[back.rank - 1]);
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    LKI_TRY(lki_layer_build(l->inner[FORWARD], in));
    return lki_layer_build(l->inner[BACKWARD], in);
}

/* ---- merging ---- */

static lk_tensor *side_by_side(lk_tensor *a, lk_tensor *b) { return lk_concat(LK_TUPLE(a, b), -1); }
static lk_tensor *mean(lk_tensor *a, lk_tensor *b) { return lk_mul(lk_add(a, b), lk_scalar(0.5)); }

static const char *const WORDS[] = {
    [LK_MERGE_CONCAT] = "concat", [LK_MERGE_SUM] = "sum", [LK_MERGE_MUL] = "mul", [LK_MERGE_AVE] = "ave"};
static lk_tensor *(*const MERGE[])(lk_tensor *, lk_tensor *) = {
    [LK_MERGE_CONCAT] = side_by_side, [LK_MERGE_SUM] = lk_add, [LK_MERGE_MUL] = lk_mul, [LK_MERGE_AVE] = mean};

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const arguments *a = &((const bidirectional *)l)->set;
    lk_tensor       *y = lki_layer_run(l->inner[FORWARD], (lk_tuple){1, &x}, pass);
    lk_tensor       *back = lki_layer_run(l->inner[BACKWARD], (lk_tuple){1, &x}, pass);
    if (lki_bad(y) || lki_bad(back)) return &lki_poison;
    if (lki_recurrent_args(l->inner[BACKWARD])->return_sequences == LK_ON) back = lk_reverse(back, LK_AXES(1));
    return MERGE[a->ask.merge_mode](y, back);
}

/* ---- making one ---- */

static void *make(const void *args);

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_bidirectional_args), /* the arguments begin with these */
    LKI_FIELD(WORD, lk_bidirectional_args, merge_mode, .words = WORDS, .word_count = LKI_COUNT(WORDS)),
    LKI_FIELD(OBJECT, lk_bidirectional_args, layer, .kind = LKI_KIND_LAYER, .required = true),
    LKI_FIELD(OBJECT, arguments, backward_layer, .kind = LKI_KIND_LAYER),
};

static const char *const INNER_PLACES[] = {"forward_layer", "backward_layer"};

const lki_layer_kind lki_bidirectional_kind = {.name = "bidirectional",
                                               LKI_LAYER_OF(bidirectional, arguments, "Bidirectional", FIELDS),
                                               .output = output,
                                               .build = build,
                                               .call = call,
                                               .inner_place = INNER_PLACES};

static bool is_recurrent(const char *name, const lk_layer *l)
{
    if (!lki_is_kind(l, LKI_KIND_LAYER))
        return lki_fail(LK_EINVAL, "lk_bidirectional: %s is %s", name, l ? "not a layer" : "NULL"), false;
    if (lki_recurrent_args(l)) return true;
    lki_fail(LK_EINVAL, "lk_bidirectional: %s is %s \"%s\"; it must be lk_lstm, lk_gru or lk_simple_rnn", name, l->kind->name,
             lki_layer_title(l));
    return false;
}

static bool match(const lk_layer *forward, const lk_layer *backward, lk_merge_mode mode)
{
    const lk_recurrent_args *a = lki_recurrent_args(forward), *b = lki_recurrent_args(backward);

    const char *what = (a->go_backwards == LK_ON) == (b->go_backwards == LK_ON)           ? "run the same way"
                       : (a->return_sequences == LK_ON) != (b->return_sequences == LK_ON) ? "differ in return_sequences"
                       : mode != LK_MERGE_CONCAT && a->units != b->units                  ? "differ in units"
                                                                                          : NULL;
    if (what) lki_fail(LK_EINVAL, "lk_bidirectional: the layer and backward_layer %s", what);
    return !what;
}

/* "forward_lstm" of "lstm"; from lki_alloc. */
static char *name_with(const char *prefix, const char *name)
{
    size_t length = strlen(prefix);
    if (!strncmp(name, prefix, length)) name += length;
    return lki_text_new("%s%s", prefix, name);
}

static lk_layer *reversed(const lk_layer *forward)
{
    char *name LKI_RELEASED = name_with("backward_", lki_layer_title(forward));
    return name ? lki_recurrent_reversed(forward, name) : NULL;
}

static lk_status rename_forward(lk_layer *l)
{
    char *name = name_with("forward_", lki_layer_title(l));
    if (!name) return LK_ENOMEM;
    lki_release(l->name);
    l->name = name;
    l->named = true;
    return LK_OK;
}

static lk_status take_both(lk_layer *l, lk_layer *forward, lk_layer *backward)
{
    LKI_TRY(lki_layer_take("lk_bidirectional", l, forward));
    LKI_TRY(lki_layer_take("lk_bidirectional", l, backward));
    if (!l->trainable) LKI_TRY(lk_layer_set_trainable(l, 0));
    if (!l->input_shape.rank) l->input_shape = forward->input_shape;
    return rename_forward(forward);
}

static lk_layer *wrap(arguments a)
{
    if ((unsigned)a.ask.merge_mode >= LKI_COUNT(WORDS))
        return lki_fail(LK_EINVAL, "lk_bidirectional: there is no merge_mode %d", (int)a.ask.merge_mode), NULL;
    if (!is_recurrent("the layer", a.ask.layer) || (a.backward_layer && !is_recurrent("backward_layer", a.backward_layer)))
        return NULL;
    lk_layer *made = a.backward_layer ? NULL : reversed(a.ask.layer);
    if (made) a.backward_layer = made;
    lk_layer *l = a.backward_layer && match(a.ask.layer, a.backward_layer, a.ask.merge_mode)
                      ? lki_layer_new("lk_bidirectional", &lki_bidirectional_kind, &a)
                      : NULL;
    if (l && take_both(l, a.ask.layer, a.backward_layer) == LK_OK) return l;
    lk_free(l);
    lk_free(made);
    return NULL;
}

static void *make(const void *args) { return wrap(*(const arguments *)args); }

lk_layer *lk_bidirectional_kw(lk_bidirectional_args a) { return wrap((arguments){.ask = a}); }
