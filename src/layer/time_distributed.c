/* TimeDistributed: a layer applied to each step of rows of [steps, ...], with the same weights.
 *
 * Steps become rows for the inner layer and steps again afterwards. In the batch they stay entries of their row (lki_rows.per_row),
 * so sums over rows and random numbers do not depend on how the batch is divided. If the result for a row depends on the others, as
 * in batch normalisation while training, this would change the result: then the layer is called step by step, in their order.
 *
 * As in Keras, the inner layer's own activity regulariser is ignored here; those of layers inside it are not. A mask of more axes
 * than [rows, steps] goes to the inner layer, step by step. */
#include "core/memory.h"
#include "layer/layer.h"
#include "op/gradient.h"

typedef struct time_distributed {
    lk_layer                 layer;
    lk_time_distributed_args set;
} time_distributed;

/* One step of a row, as a list of one shape. */
static lk_status step_of(const lk_layer *l, const lk_shape *in, lk_shape step[2])
{
    if (in->rank < 2) return lki_layer_refuse(l, in, "a row should be [steps, ...], with at least one axis for each step");
    step[0] = (lk_shape){.rank = in->rank - 1};
    step[1] = (lk_shape){.rank = -1};
    for (int i = 1; i < in->rank; i++)
        step[0].dim[i - 1] = in->dim[i];
    return LK_OK;
}

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    lk_shape step[2], one;
    LKI_TRY(step_of(l, in, step));
    LKI_TRY(lki_layer_output(l->inner[0], step, &one));
    if (one.rank + 2 > LK_MAX_RANK) return lki_layer_refuse(l, in, "the result has more than %d axes", LK_MAX_RANK - 1);
    *out = (lk_shape){.rank = one.rank + 1, .dim = {in->dim[0]}};
    for (int i = 0; i < one.rank; i++)
        out->dim[i + 1] = one.dim[i];
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    lk_shape step[2];
    LKI_TRY(step_of(l, in, step));
    return lki_layer_build(l->inner[0], step);
}

static lk_tensor *folded(lk_tensor *x)
{
    lk_shape s = {.rank = x->shape.rank - 1, .dim = {lki_size_mul(x->shape.dim[0], x->shape.dim[1])}};
    for (int i = 1; i < s.rank; i++)
        s.dim[i] = x->shape.dim[i + 1];
    return lk_reshape(x, s);
}

static lk_tensor *unfolded(lk_tensor *y, int64_t n, int64_t steps)
{
    lk_shape s = {.rank = y->shape.rank + 1, .dim = {n, steps}};
    for (int i = 2; i < s.rank; i++)
        s.dim[i] = y->shape.dim[i - 1];
    return lk_reshape(y, s);
}

typedef struct fold {
    const lki_pass *around;
    int64_t         n, steps;
} fold;

/* The terms that the steps of a row add to the loss belong to the row. */
static lk_status add_steps(void *to, lk_tensor *rows)
{
    const fold *f = to;
    return f->around->add(f->around->to, lki_bad(rows) ? rows : unfolded(rows, f->n, f->steps));
}

static bool mask_inside(const lk_tensor *x) { return x->mask && !lki_bad(x->mask) && x->mask->shape.rank > 2; }

static lk_tensor *all_steps(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    fold     f = {pass, x->shape.dim[0], x->shape.dim[1]};
    lki_pass inside = *pass;
    if (pass->add) inside.add = add_steps, inside.to = &f;
    lk_tensor *steps = lki_masked(folded(x), mask_inside(x) ? folded(x->mask) : NULL, true);
    lk_tensor *y = lki_layer_compute(l->inner[0], (lk_tuple){1, &steps}, &inside);
    return lki_bad(y) ? y : unfolded(y, f.n, f.steps);
}

static lk_tensor *plain_step_at(lk_tensor *x, int64_t t)
{
    lki_axes begin = {x->shape.rank, {0, t}}, size = {x->shape.rank, {-1, 1}};
    for (int i = 2; i < x->shape.rank; i++)
        size.value[i] = -1;
    lk_tensor *step = lki_slice(x, &begin, &size);
    return lki_bad(step) ? step : folded(step);
}

static lk_tensor *step_at(lk_tensor *x, int64_t t)
{
    lk_tensor *step = plain_step_at(x, t);
    return mask_inside(x) ? lki_masked(step, plain_step_at(x->mask, t), true) : step;
}

/* Every step draws different numbers. */
static lk_tensor *iteration_of(const lki_pass *pass, int64_t t, int64_t steps)
{
    if (!pass->iteration || lki_bad(pass->iteration)) return pass->iteration;
    lk_tensor *times = lk_fill((lk_shape){0}, LK_I64, (double)steps), *step = lk_fill((lk_shape){0}, LK_I64, (double)t);
    return lk_add(lk_mul(pass->iteration, times), step);
}

static lk_tensor *step_by_step(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const int64_t steps = x->shape.dim[1];
    lk_tensor   **y LKI_RELEASED = lki_alloc_array(steps, sizeof *y);
    int64_t       t = 0;
    if (!y) return &lki_poison;
    for (; t < steps; t++) {
        lki_pass   inside = *pass;
        lk_tensor *step = step_at(x, t);
        inside.iteration = iteration_of(pass, t, steps);
        y[t] = lki_bad(step) ? step : lki_layer_compute(l->inner[0], (lk_tuple){1, &step}, &inside);
        if (lki_bad(y[t])) break;
    }
    return t == steps ? lk_stack((lk_tuple){(int)steps, y}, 1) : &lki_poison;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    if (lki_bad(x)) return x;
    lk_tensor *mask = lki_mask_given(pass, 1);
    if (mask != x->mask) x = lki_masked(x, mask, false);
    if (lki_bad(x)) return x;
    const bool mixes = pass->training && x->shape.dim[1] > 0 && lki_layer_mixes_rows(l->inner[0]);
    return mixes ? step_by_step(l, x, pass) : all_steps(l, x, pass);
}

static const char *const ARGUMENTS[] = {"inputs", "mask", NULL};

/* A mask that is given by name is that of the result too. */
static lk_tensor *mask(const lk_layer *l, lk_tuple in, lk_tensor *y, int i)
{
    (void)l, (void)y, (void)i;
    return lki_mask_given(&(lki_pass){.in = in}, 1);
}

static void *make(const void *args) { return lk_time_distributed_kw(*(const lk_time_distributed_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_time_distributed_args),
    LKI_FIELD(OBJECT, lk_time_distributed_args, layer, .kind = LKI_KIND_LAYER, .required = true),
};

static const char *const INNER_PLACES[] = {"layer"};

const lki_layer_kind lki_time_distributed_kind = {
    .name = "time_distributed",
    LKI_LAYER_OF(time_distributed, lk_time_distributed_args, "TimeDistributed", FIELDS),
    .fewest = 1,
    .most = 2,
    .takes_ids = true, /* the inner layer may */
    .arguments = ARGUMENTS,
    .output = output,
    .mask = mask,
    .build = build,
    .call = call,
    .inner_place = INNER_PLACES};

lk_layer *lk_time_distributed_kw(lk_time_distributed_args a)
{
    if (!lki_is_kind(a.layer, LKI_KIND_LAYER))
        return lki_fail(LK_EINVAL, "lk_time_distributed: the layer is %s", a.layer ? "not a layer" : "NULL"), NULL;
    lk_layer *l = lki_layer_new("lk_time_distributed", &lki_time_distributed_kind, &a);
    if (!l) return NULL;
    if (lki_layer_take("lk_time_distributed", l, a.layer) == LK_OK && (l->trainable || lk_layer_set_trainable(l, 0) == LK_OK))
        return l;
    lk_free(l);
    return NULL;
}
