/* One step, as it is traced: on each replica forward, loss, gradients, update, metrics; then the loss of all replicas. */
#include "fit/engine.h"
#include "model/loss.h"
#include "model/metric.h"
#include "nn/loss.h"
#include "op/gradient.h"

/* ---- an element, taken apart ---- */

static lk_tensor *input_of(const lki_engine *e, lk_tuple in)
{
    return e->model->inputs == 1 ? in.item[0] : lk_nest((lk_tuple){e->model->inputs, in.item});
}

static lk_tensor *label_of(const lki_engine *e, lk_tuple in, int output) { return in.item[e->model->inputs + output]; }

/* The weight of each row: what the element brings, times that of its class. */
static lk_tensor *weight_of(const lki_engine *e, lk_tuple in, int output)
{
    int        at = e->model->inputs + e->model->outputs + (e->weights > 1 ? output : 0);
    lk_tensor *w = e->weights ? in.item[at] : NULL, *label = label_of(e, in, output);
    if (!e->class_weight) return w;
    if (lki_bad(label)) return &lki_poison;
    if (label->shape.rank == 2 && label->shape.dim[1] == 1) label = lk_squeeze(label, LK_AXES(-1));
    else if (label->shape.rank == 2) label = lk_argmax(label, .axis = LK_AXIS(-1));
    lk_tensor *by_class = lk_gather(lk_read(e->class_weight), lk_cast(label, LK_I64), 0);
    return w ? lk_mul(lk_cast(w, LK_F32), by_class) : by_class;
}

/* ---- the loss ---- */

static lk_tensor *over_rows(lk_tensor *values)
{
    lk_axes behind = {0};
    for (int i = 1; i < values->shape.rank; i++)
        behind.value[behind.count++] = i;
    return behind.count ? lk_reduce_mean(values, .axis = behind) : values;
}

/* Values over the sum of something each of them brings, over the whole batch: all replicas have to know it. */
static lk_tensor *over_sum(lk_denominator over, lk_tensor *values, lk_tensor *each)
{
    lk_tensor *sum = lk_reduce_sum(each);
    if (over == LK_EXACT) sum = lk_all_reduce(lk_get_replica_context(), LK_SUM, sum);
    else sum = lk_mul(sum, lk_scalar(lki_replica_count()));
    return lk_reduce_sum(lki_quotient(values, sum));
}

/* This replica's share of an output's loss; shares add up to the loss of the batch. */
static lk_tensor *share_of_loss(lk_denominator over, const lk_loss *loss, lk_tensor *label, lk_tensor *prediction,
                                lk_tensor *weight)
{
    lk_tensor *values = lki_loss_values(loss, label, prediction);
    if (lki_bad(values)) return values;
    lk_tensor *mask = lki_loss_mask(loss, label, values), *ones = lk_ones(LK_SHAPE(), values->dtype);
    if (mask) mask = lki_weights_for(mask, values);
    if (weight) weight = lki_weights_for(weight, values);
    if (mask) weight = weight ? lk_mul(weight, mask) : mask;
    if (weight) values = lk_mul(values, weight);
    if (lki_bad(values)) return values;
    switch (lki_loss_reduction(loss)) {
    case LK_REDUCTION_NONE:
    case LK_REDUCTION_SUM: return lk_reduce_sum(values);
    case LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT: return over_sum(over, values, lki_weights_spread(weight ? weight : ones, values));
    default: return mask ? over_sum(over, values, mask) : lk_compute_average_loss(over_rows(values), .denominator = over);
    }
}

static lk_tensor *plus(lk_tensor *a, lk_tensor *b) { return a ? lk_add(a, b) : b; }

/* ---- on one replica ---- */

static lk_tensor *output_at(lk_tensor *y, int i) { return y->nest ? y->nest->item[i] : y; }

/* loss[0] is the sum of the others, weighted, and of what the model adds. */
static lk_tensor *all_losses(lki_engine *e, lk_denominator over, lk_tuple in, lk_tensor *y, lk_tensor **loss)
{
    const lki_compiled *c = e->compiled;
    int                 count = 1;
    lk_tensor          *total = NULL;
    for (int i = 0; i < c->outputs; i++) {
        if (!c->loss[i]) continue;
        lk_tensor *term = share_of_loss(over, c->loss[i], label_of(e, in, i), output_at(y, i), weight_of(e, in, i));
        if (lki_bad(term)) return &lki_poison;
        loss[count++] = term;
        total = plus(total, c->loss_weight[i] == 1 ? term : lk_mul(term, lk_scalar(c->loss_weight[i])));
    }
    lk_tensor *more = lki_model_share_of_losses(e->model);
    if (more) total = plus(total, more);
    return loss[0] = total;
}

static lk_status count(lki_engine *e, lk_tuple in, lk_tensor *y)
{
    const lki_compiled *c = e->compiled;
    for (int i = 0; i < c->metrics; i++) {
        int        output = lki_metric_output(c->metric[i]);
        lk_tensor *weight = c->weighted[i] ? weight_of(e, in, output) : NULL;
        LKI_TRY(lk_metric_update(c->metric[i], label_of(e, in, output), output_at(y, output), weight));
    }
    return LK_OK;
}

static lk_tensor *forward(lki_engine *e, lk_tuple in, bool training)
{
    lki_model_exact_rows(e->compiled->denominator == LK_EXACT);
    lk_tensor *y = lk_model_call(e->model, input_of(e, in), .training = training ? LK_ON : LK_OFF);
    lki_model_exact_rows(false);
    return y;
}

/* What is shown is the mean over all rows, whatever the gradient is taken of. */
static lk_tensor *shown_losses(lki_engine *e, lk_tuple in, lk_tensor *y, lk_tensor *total, lk_tensor **loss)
{
    return e->compiled->denominator == LK_EXACT ? total : all_losses(e, LK_EXACT, in, y, loss);
}

static lk_tuple learn(lki_engine *e, lk_tuple in, bool training)
{
    lk_tensor *loss[LKI_MOST_INPUTS + 1];
    lk_tape   *tape = training ? lk_tape_begin() : NULL;
    lk_tensor *y = forward(e, in, training);
    lk_tensor *total = lki_bad(y) ? &lki_poison : all_losses(e, e->compiled->denominator, in, y, loss);
    if (tape && !lki_bad(total)) {
        lk_variables w = lk_model_trainable_variables(e->model);
        lk_grads    *g = lk_tape_gradient(tape, total, w);
        if (!lki_bad(total)) total = shown_losses(e, in, y, total, loss);
        if (w.count) lk_optimizer_apply(e->compiled->optimizer, g);
    } else if (!lki_bad(total)) total = shown_losses(e, in, y, total, loss);
    if (tape) lk_tape_end(tape);
    if (lki_bad(total) || count(e, in, y) != LK_OK) return LK_TUPLE(&lki_poison);
    return lk_tuple_from(e->losses, loss);
}

static lk_tuple train_on_replica(lk_tuple in, void *engine) { return learn(engine, in, true); }
static lk_tuple test_on_replica(lk_tuple in, void *engine) { return learn(engine, in, false); }

static lk_tuple predict_on_replica(lk_tuple in, void *engine)
{
    lki_engine *e = engine;
    lk_tensor  *y = forward(e, in, false);
    return !lki_bad(y) && y->nest ? lk_nested(y) : LK_TUPLE(y);
}

/* ---- on all of them ---- */

static lk_tuple reduced(lki_engine *e, lk_fn fn, lk_tuple in)
{
    lk_tensor *loss[LKI_MOST_INPUTS + 1];
    lk_tuple   each = lk_run(e->strategy, fn, in, e);
    if (each.count != e->losses) return LK_TUPLE(&lki_poison);
    for (int i = 0; i < each.count; i++)
        loss[i] = lk_reduce(e->strategy, LK_SUM, each.item[i]);
    return lk_tuple_from(each.count, loss);
}

static lk_tuple train_step(lk_tuple in, void *engine) { return reduced(engine, train_on_replica, in); }
static lk_tuple test_step(lk_tuple in, void *engine) { return reduced(engine, test_on_replica, in); }
static lk_tuple predict_step(lk_tuple in, void *engine)
{
    return lk_run(((lki_engine *)engine)->strategy, predict_on_replica, in, engine);
}

static const lk_fn STEP[LKI_FIT_STEPS] = {
    [LKI_FIT_TRAIN] = train_step, [LKI_FIT_TEST] = test_step, [LKI_FIT_PREDICT] = predict_step};

static lk_function *function_of(lki_engine *e, lki_fit_step which)
{
    static const char *const NAMES[LKI_FIT_STEPS] = {"the training step", "the test step", "the prediction step"};
    if (e->step[which]) return e->step[which];
    lk_function *f = lk_function_of(STEP[which], .user = e, .name = NAMES[which]);
    return e->step[which] = lki_retain(f);
}

lk_status lki_engine_step(lki_engine *e, lki_fit_step which, lk_tuple batch, double *loss, lk_tuple *out)
{
    lk_tuple result;
    if (e->compiled->run_eagerly) result = STEP[which](batch, e);
    else {
        lk_function *f = function_of(e, which);
        if (!f) return lk_failed() ? lk_error_code() : LK_ENOMEM;
        result = lk_call(f, batch);
    }
    if (lk_failed()) return lk_error_code();
    if (out) *out = result;
    for (int i = 0; loss && i < e->losses; i++)
        loss[i] = lk_item(result.item[i]);
    return lk_failed() ? lk_error_code() : LK_OK;
}
