/* The function of one step: forward, loss, gradients, update and metrics on each replica; then the loss of all replicas. */
#include "core/memory.h"
#include "fit/engine.h"
#include "model/loss.h"
#include "model/metric.h"
#include "nn/loss.h"

/* ---- components of an element ---- */

static lk_tensor *input_of(const lki_engine *e, lk_tuple in)
{
    return e->model->inputs == 1 ? in.item[0] : lk_nest((lk_tuple){e->model->inputs, in.item});
}

static lk_tensor *label_of(const lki_engine *e, lk_tuple in, int output) { return in.item[e->model->inputs + output]; }

/* The weight of each row: that of the element; in training, times the weight of its class. */
static lk_tensor *weight_of(const lki_step *s, lk_tuple in, int output)
{
    const lki_engine *e = s->engine;
    int               at = e->model->inputs + e->model->outputs + (s->weights > 1 ? output : 0);
    lk_tensor        *w = s->weights ? in.item[at] : NULL, *label = label_of(e, in, output);
    if (!e->class_weight || s->kind != LKI_FIT_TRAIN) return w;
    if (lki_bad(label)) return &lki_poison;
    if (label->shape.rank == 2 && label->shape.dim[1] == 1) label = lk_squeeze(label, LK_AXES(-1));
    else if (label->shape.rank == 2) label = lk_argmax(label, .axis = LK_AXIS(-1));
    lk_tensor *by_class = lk_gather(lk_read(e->class_weight), lk_cast(label, LK_I64), 0);
    return w ? lk_mul(lk_cast(w, LK_F32), by_class) : by_class;
}

/* ---- the loss ---- */

static lk_tensor *over_rows(lk_tensor *values)
{
    lki_axes behind = {0};
    for (int i = 1; i < values->shape.rank; i++)
        behind.value[behind.count++] = i;
    return behind.count ? lk_reduce_mean(values, .axis = lki_axes_list(&behind)) : values;
}

/* Divide the values by the sum of `each` over the whole batch: every replica needs that sum. */
static lk_tensor *over_sum(lk_denominator over, lk_tensor *values, lk_tensor *each)
{
    lk_tensor *sum = lk_reduce_sum(each);
    if (over == LK_EXACT) sum = lk_all_reduce(lk_get_replica_context(), LK_SUM, sum);
    else sum = lk_mul(sum, lk_scalar(lki_replica_count()));
    return lk_reduce_sum(lki_quotient(values, sum));
}

/* A weight per row, or one per value of a row. */
static bool weights_fit(const lk_tensor *weight, const lk_tensor *values)
{
    char text[2][LKI_SHAPE_TEXT];
    if (lki_bad(weight)) return false;
    bool fits = weight->shape.rank && weight->shape.dim[0] == values->shape.dim[0];
    for (int i = 1; fits && i < weight->shape.rank; i++)
        fits = weight->shape.dim[i] == 1 || (i < values->shape.rank && weight->shape.dim[i] == values->shape.dim[i]);
    if (!fits)
        lki_fail(LK_ESHAPE, "sample weights of %s do not fit losses of %s; there should be one per row",
                 lki_shape_text(&weight->shape, text[0]), lki_shape_text(&values->shape, text[1]));
    return fits;
}

/* This replica's share of an output's loss; shares add up to the loss of the batch. */
static lk_tensor *share_of_loss(lk_denominator over, const lk_loss *loss, lk_tensor *label, lk_tensor *prediction,
                                lk_tensor *weight)
{
    lk_tensor *values = lki_loss_values(loss, label, prediction);
    if (lki_bad(values)) return values;
    lk_tensor *mask = lki_loss_counts(loss, label, values, prediction->mask), *ones = lk_ones(LK_SHAPE(), values->dtype);
    if (mask) mask = lki_weights_for(mask, values);
    if (weight && !weights_fit(weight, values)) return &lki_poison;
    if (weight) weight = lki_weights_for(weight, values);
    if (mask) weight = weight ? lk_mul(weight, mask) : mask;
    if (weight) values = lk_mul(values, weight);
    if (lki_bad(values)) return values;
    switch (lki_loss_reduction(loss, weight != NULL)) {
    case LK_REDUCTION_NONE:
    case LK_REDUCTION_SUM: return lk_reduce_sum(values);
    case LK_REDUCTION_MEAN_WITH_SAMPLE_WEIGHT: return over_sum(over, values, weight ? weight : lki_weights_spread(ones, values));
    default:
        return mask ? over_sum(over, values, lki_weights_spread(mask, values))
                    : lk_compute_average_loss(over_rows(values), .denominator = over);
    }
}

static lk_tensor *plus(lk_tensor *a, lk_tensor *b) { return a ? lk_add(a, b) : b; }

/* ---- on one replica ---- */

static lk_tensor *output_at(lk_tensor *y, int i) { return y->nest ? y->nest->item[i] : y; }

/* loss[0] is the sum of the others, weighted, and of what the model adds. */
static lk_tensor *all_losses(const lki_step *s, lk_denominator over, lk_tuple in, lk_tensor *y, lk_tensor **loss)
{
    const lki_engine   *e = s->engine;
    const lki_compiled *c = e->compiled;
    int                 count = 1;
    lk_tensor          *total = NULL;
    for (int i = 0; i < c->outputs; i++) {
        if (!c->loss[i]) continue;
        lk_tensor *term = share_of_loss(over, c->loss[i], label_of(e, in, i), output_at(y, i), weight_of(s, in, i));
        if (lki_bad(term)) return &lki_poison;
        loss[count++] = term;
        total = plus(total, c->loss_weight[i] == 1 ? term : lk_mul(term, lk_scalar(c->loss_weight[i])));
    }
    lk_tensor *more = lki_model_share_of_losses(e->model);
    if (more) total = plus(total, more);
    return loss[0] = total;
}

static lk_status count(const lki_step *s, lk_tuple in, lk_tensor *y)
{
    const lki_engine   *e = s->engine;
    const lki_compiled *c = e->compiled;
    for (int i = 0; i < c->metrics; i++) {
        int        output = lki_metric_output(c->metric[i]);
        lk_tensor *weight = c->weighted[i] ? weight_of(s, in, output) : NULL;
        LKI_TRY(lk_metric_update(c->metric[i], label_of(e, in, output), output_at(y, output), weight));
    }
    return LK_OK;
}

static lk_tensor *forward(const lki_engine *e, lk_tuple in, bool training)
{
    lki_model_exact_rows(e->compiled->denominator == LK_EXACT);
    lk_tensor *y = lk_model_call(e->model, input_of(e, in), .training = training ? LK_ON : LK_OFF);
    lki_model_exact_rows(false);
    return y;
}

/* The reported loss is the mean over all rows, whatever denominator the gradient uses. */
static lk_tensor *shown_losses(const lki_step *s, lk_tuple in, lk_tensor *y, lk_tensor *total, lk_tensor **loss)
{
    return s->engine->compiled->denominator == LK_EXACT ? total : all_losses(s, LK_EXACT, in, y, loss);
}

static lk_tuple judge_on_replica(lk_tuple in, void *step)
{
    const lki_step *s = step;
    lki_engine     *e = s->engine;
    lk_tensor      *loss[LKI_MOST_INPUTS + 1];
    lk_tape        *tape = s->kind == LKI_FIT_TRAIN ? lk_tape_begin() : NULL;
    lk_tensor      *y = forward(e, in, tape != NULL);
    lk_tensor      *total = lki_bad(y) ? &lki_poison : all_losses(s, e->compiled->denominator, in, y, loss);
    lk_variables    w = tape && !lki_bad(total) ? lk_model_trainable_variables(e->model) : (lk_variables){0};
    lk_grads       *g = w.count ? lk_tape_gradient(tape, lk_optimizer_scale_loss(e->compiled->optimizer, total), w) : NULL;
    if (!lki_bad(total)) total = shown_losses(s, in, y, total, loss);
    if (w.count) lk_optimizer_apply(e->compiled->optimizer, g);
    if (tape) lk_tape_end(tape);
    if (lki_bad(total) || count(s, in, y) != LK_OK) return LK_TUPLE(&lki_poison);
    return lk_tuple_from(e->losses, loss);
}

static lk_tuple predict_on_replica(lk_tuple in, void *step)
{
    lk_tensor *y = forward(((const lki_step *)step)->engine, in, false);
    return !lki_bad(y) && y->nest ? lk_nested(y) : LK_TUPLE(y);
}

/* ---- on all replicas ---- */

static lk_tuple judge_step(lk_tuple in, void *step)
{
    const lki_engine *e = ((const lki_step *)step)->engine;
    lk_tensor        *loss[LKI_MOST_INPUTS + 1];
    lk_tuple          each = lk_run(e->strategy, judge_on_replica, in, step);
    if (each.count != e->losses) return LK_TUPLE(&lki_poison);
    for (int i = 0; i < each.count; i++)
        loss[i] = lk_reduce(e->strategy, LK_SUM, each.item[i]);
    return lk_tuple_from(each.count, loss);
}

static lk_tuple predict_step(lk_tuple in, void *step)
{
    return lk_run(((const lki_step *)step)->engine->strategy, predict_on_replica, in, step);
}

static const struct {
    lk_fn       fn;
    const char *name;
} STEP[LKI_FIT_STEPS] = {[LKI_FIT_TRAIN] = {judge_step, "the training step"},
                         [LKI_FIT_TEST] = {judge_step, "the test step"},
                         [LKI_FIT_PREDICT] = {predict_step, "the prediction step"}};

/* A mark of the weights that are trainable now: a step that was traced for others is traced again. */
static uint64_t trained_now(const lk_model *m)
{
    int          count;
    uint64_t     mark = 1469598103934665603u;
    lki_weight **weight LKI_RELEASED = lki_model_built(m) ? lki_model_weight_list(m, &count) : NULL;
    for (int i = 0; weight && i < count; i++)
        mark = (mark ^ (weight[i]->variable->trainable ? (uint64_t)i + 1 : 0)) * 1099511628211u;
    return weight ? mark : 0;
}

static lk_function *function_of(lki_engine *e, lki_fit_step which)
{
    lki_step *s = &e->step[which];
    uint64_t  trained = which == LKI_FIT_TRAIN ? trained_now(e->model) : 0;
    if (s->function && which == LKI_FIT_TRAIN && e->trained && e->trained != trained) {
        lki_drop(s->function);
        s->function = NULL;
    }
    if (which == LKI_FIT_TRAIN) e->trained = trained;
    if (!s->function) s->function = lki_retain(lk_function_of(STEP[which].fn, .user = s, .name = STEP[which].name));
    return s->function;
}

static lk_status run_step(lki_engine *e, lki_fit_step which, lk_tuple batch, lk_tuple *result)
{
    if (e->compiled->run_eagerly) *result = STEP[which].fn(batch, &e->step[which]);
    else {
        lk_function *f = function_of(e, which);
        if (!f) return lk_failed() ? lk_error_code() : LK_ENOMEM;
        *result = lk_call(f, batch);
    }
    return lk_failed() ? lk_error_code() : LK_OK;
}

lk_status lki_engine_step(lki_engine *e, lki_fit_step which, lk_tuple batch, lk_tuple *out)
{
    LKI_TRY(run_step(e, which, batch, out));
    return lk_failed() ? lk_error_code() : LK_OK;
}

/* ---- which label was wrong ---- */

/* The number of classes of the model's output; 0: not known. */
static int64_t classes_of(lk_model *m)
{
    lk_shape *shape LKI_RELEASED = m->form == LKI_OWN_MODEL ? NULL : lki_alloc_array(m->values, sizeof *shape);
    lk_shape  row[LKI_MOST_INPUTS];
    int64_t   classes = 0;
    for (int i = 0; i < m->inputs; i++)
        row[i] = m->input[i].row;
    if (shape && lki_flow_shapes(m, row, shape, false) == LK_OK && shape[m->output[0]].rank)
        classes = shape[m->output[0]].dim[shape[m->output[0]].rank - 1];
    return classes;
}

static void find_bad_label(lki_engine *e, lk_tensor *label, int64_t row, int64_t classes)
{
    int count = label->replicas ? label->replicas->count : 1;
    for (int r = 0; r < count; r++) {
        lk_tensor *part = label->replicas ? label->replicas->item[r] : label;
        if (lki_loss_labels_check("the labels", e->compiled->loss[0], part, classes, row) != LK_OK) return;
        row += part->shape.rank ? part->shape.dim[0] : 1;
    }
}

lk_status lki_explain_labels(lki_engine *e, lk_tuple batch, lk_tensor *labels)
{
    lki_error_record first, label = {0};
    lk_tensor       *here = batch.count > e->model->inputs ? batch.item[e->model->inputs] : NULL;
    lki_error_take(&first);
    int64_t classes = e->model->outputs == 1 && e->compiled->loss[0] ? classes_of(e->model) : 0;
    if (classes > 0 && labels && !lki_bad(labels) && !labels->nest) find_bad_label(e, labels, 0, classes);
    else if (classes > 0 && here && !lki_bad(here)) find_bad_label(e, here, (int64_t)e->rows, classes);
    lki_error_take(&label);
    lki_error_put(label.code == LK_OK ? &first : &label);
    return lk_error_code();
}

int64_t lki_model_classes(lk_model *m) { return classes_of(m); }
