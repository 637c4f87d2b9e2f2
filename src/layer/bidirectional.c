/* Bidirectional: a recurrent layer and a second one like it, which runs over the steps in reverse order. The two outputs are
 * merged, or both returned. As in Keras, outputs of masked steps are 0 if all steps are returned. */
#include "core/memory.h"
#include "core/names.h"
#include "layer/recurrent.h"
#include <lockstep/strategy.h>
#include <stdio.h>
#include <string.h>

enum { FORWARD, BACKWARD };

enum { SEQUENCES, MASK, STATE };
static const char *const ARGUMENTS[] = {"sequences", "mask", "initial_state", NULL};

typedef struct arguments {
    lk_bidirectional_args ask;
    lk_layer             *backward_layer; /* a file may have a different one than the one made here */
} arguments;

typedef struct bidirectional {
    lk_layer  layer;
    arguments set;
} bidirectional;

static const lk_recurrent_args *inner_args(const lk_layer *l) { return lki_recurrent_args(l->inner[FORWARD]); }

static bool is_merged(const lk_layer *l) { return ((const bidirectional *)l)->set.ask.merge_mode != LK_MERGE_NONE; }

/* Those of the layer's state. */
static int states(const lk_layer *l) { return lki_layer_outputs(l->inner[FORWARD]) - 1; }

static int outputs(const lk_layer *l) { return (is_merged(l) ? 1 : 2) + 2 * states(l); }

/* The inputs of one of the layers: half of the initial state. */
static void share_shapes(const lk_shape *in, int which, lk_shape *out)
{
    int count = 0, given = 0, used = 0;
    while (in[count].rank != -1)
        count++;
    given = count > STATE ? (count - STATE) / 2 : 0;
    for (int i = 0; i < count && i < STATE; i++)
        out[used++] = in[i];
    for (int i = 0; i < given; i++)
        out[used++] = in[STATE + which * given + i];
    out[used] = (lk_shape){.rank = -1};
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_merge_mode mode = ((const bidirectional *)l)->set.ask.merge_mode;
    lk_shape            share[LKI_MOST_INPUTS + 1], y[2][LKI_MOST_OUTPUTS];
    for (int k = FORWARD; k <= BACKWARD; k++) {
        share_shapes(in, k, share);
        LKI_TRY(lki_layer_output(l->inner[k], share, y[k]));
    }
    int used = 0;
    out[used++] = y[FORWARD][0];
    if (mode == LK_MERGE_CONCAT)
        out[0].dim[out[0].rank - 1] = lki_size_add(out[0].dim[out[0].rank - 1], y[BACKWARD][0].dim[out[0].rank - 1]);
    if (mode == LK_MERGE_NONE) out[used++] = y[BACKWARD][0];
    for (int k = FORWARD; k <= BACKWARD; k++)
        for (int i = 1; i <= states(l); i++)
            out[used++] = y[k][i];
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    lk_shape share[LKI_MOST_INPUTS + 1];
    for (int k = FORWARD; k <= BACKWARD; k++) {
        share_shapes(in, k, share);
        LKI_TRY(lki_layer_build(l->inner[k], share));
    }
    return LK_OK;
}

/* ---- merging ---- */

static lk_tensor *side_by_side(lk_tensor *a, lk_tensor *b) { return lk_concat(LK_TUPLE(a, b), -1); }
static lk_tensor *mean(lk_tensor *a, lk_tensor *b) { return lk_mul(lk_add(a, b), lk_scalar(0.5)); }

static const char *const WORDS[] = {
    [LK_MERGE_CONCAT] = "concat", [LK_MERGE_SUM] = "sum", [LK_MERGE_MUL] = "mul", [LK_MERGE_AVE] = "ave", [LK_MERGE_NONE] = "null"};
static lk_tensor *(*const MERGE[])(lk_tensor *, lk_tensor *) = {
    [LK_MERGE_CONCAT] = side_by_side, [LK_MERGE_SUM] = lk_add, [LK_MERGE_MUL] = lk_mul, [LK_MERGE_AVE] = mean};

/* The mask, and one half of the initial state. */
static lk_tensor *run_one(const lk_layer *l, int which, const lki_pass *pass)
{
    const int  given = pass->in.count > STATE ? (pass->in.count - STATE) / 2 : 0;
    lk_tensor *in[LKI_MOST_INPUTS] = {[SEQUENCES] = pass->in.item[SEQUENCES]};
    in[MASK] = given ? pass->in.item[MASK] : lki_mask_given(pass, MASK);
    for (int i = 0; i < given; i++)
        in[STATE + i] = pass->in.item[STATE + which * given + i];
    return lki_layer_run(l->inner[which], (lk_tuple){STATE + given, in}, pass);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_merge_mode mode = ((const bidirectional *)l)->set.ask.merge_mode;
    lk_tensor          *y = run_one(l, FORWARD, pass), *back = run_one(l, BACKWARD, pass), *all[LKI_MOST_OUTPUTS];
    (void)x;
    if (lki_bad(y) || lki_bad(back)) return &lki_poison;
    const lk_tuple side[2] = {y->nest ? lk_nested(y) : (lk_tuple){1, &y}, back->nest ? lk_nested(back) : (lk_tuple){1, &back}};
    lk_tensor     *turned = side[1].item[0];
    int            used = 0;
    if (inner_args(l)->return_sequences == LK_ON) turned = lk_reverse(turned, LK_AXES(1));
    if (mode != LK_MERGE_NONE) all[used++] = MERGE[mode](side[0].item[0], turned);
    else all[used++] = side[0].item[0], all[used++] = turned;
    for (int k = FORWARD; k <= BACKWARD; k++)
        for (int i = 1; i < side[k].count; i++)
            all[used++] = side[k].item[i];
    return used == 1 ? all[0] : lk_nest((lk_tuple){used, all});
}

/* Of the outputs, not of the states. */
static lk_tensor *mask(const lk_layer *l, lk_tuple in, lk_tensor *y, int i)
{
    (void)y;
    if (i >= (is_merged(l) ? 1 : 2) || inner_args(l)->return_sequences != LK_ON) return NULL;
    return in.count > MASK && in.item[MASK] ? in.item[MASK] : in.item[0]->mask;
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
                                               .fewest = 1,
                                               .most = 6,
                                               .arguments = ARGUMENTS,
                                               .output = output,
                                               .outputs = outputs,
                                               .mask = mask,
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

    const char *what = (a->go_backwards == LK_ON) == (b->go_backwards == LK_ON)                   ? "run the same way"
                       : (a->return_sequences == LK_ON) != (b->return_sequences == LK_ON)         ? "differ in return_sequences"
                       : (a->return_state == LK_ON) != (b->return_state == LK_ON)                 ? "differ in return_state"
                       : mode != LK_MERGE_CONCAT && mode != LK_MERGE_NONE && a->units != b->units ? "differ in units"
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
    lki_recurrent_zero_masked(forward);
    lki_recurrent_zero_masked(backward);
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
