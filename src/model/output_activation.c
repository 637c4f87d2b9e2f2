/* The activation that computes a model's output: whether the output is probabilities or logits.
 *
 * Values are followed from the inputs on, as in flow.c. A layer with an activation decides. A layer that keeps values, or mixes
 * probabilities into probabilities, has the activation of its inputs, if they agree. After any other layer it is LK_LINEAR.
 *
 * Invariants
 *  1. LK_SOFTMAX is returned only for values that sum to one along the last axis, which is the one that losses sum over.
 *  2. Dropout is skipped: it changes values only in training. */
#include "core/memory.h"
#include "layer/operation.h"
#include "model/model.h"

/* ---- layers that pass on ---- */

typedef enum passing { NEVER, ALWAYS, SAME_WIDTH /* if the width of the last axis does not change */ } passing;

/* What such a layer does to values from 0 to 1, each separately (sigmoid), and to those that also sum to one along the last axis
 * (softmax). */
static const struct {
    const lki_layer_kind *kind;
    bool                  identity; /* keeps any other activation too */
    passing               sigmoid, softmax;
} PASSING[] = {
    {&lki_dropout_kind, true, ALWAYS, ALWAYS},
    {&lki_spatial_dropout2d_kind, true, ALWAYS, ALWAYS},
    {&lki_flatten_kind, true, ALWAYS, SAME_WIDTH},
    {&lki_reshape_kind, true, ALWAYS, SAME_WIDTH},
    {&lki_permute_kind, true, ALWAYS, NEVER},
    {&lki_cropping1d_kind, true, ALWAYS, ALWAYS},
    {&lki_cropping2d_kind, true, ALWAYS, ALWAYS},
    {&lki_cropping3d_kind, true, ALWAYS, ALWAYS},
    {&lki_concatenate_kind, true, ALWAYS, NEVER},
    {&lki_up_sampling1d_kind, false, ALWAYS, ALWAYS},
    {&lki_up_sampling2d_kind, false, ALWAYS, ALWAYS},
    {&lki_up_sampling3d_kind, false, ALWAYS, ALWAYS},
    {&lki_max_pooling1d_kind, false, ALWAYS, NEVER},
    {&lki_max_pooling2d_kind, false, ALWAYS, NEVER},
    {&lki_max_pooling3d_kind, false, ALWAYS, NEVER},
    {&lki_global_max_pooling1d_kind, false, ALWAYS, NEVER},
    {&lki_global_max_pooling2d_kind, false, ALWAYS, NEVER},
    {&lki_global_max_pooling3d_kind, false, ALWAYS, NEVER},
    {&lki_average_pooling1d_kind, false, ALWAYS, ALWAYS},
    {&lki_average_pooling2d_kind, false, ALWAYS, ALWAYS},
    {&lki_average_pooling3d_kind, false, ALWAYS, ALWAYS},
    {&lki_global_average_pooling1d_kind, false, ALWAYS, ALWAYS},
    {&lki_global_average_pooling2d_kind, false, ALWAYS, ALWAYS},
    {&lki_global_average_pooling3d_kind, false, ALWAYS, ALWAYS},
    {&lki_adaptive_max_pooling1d_kind, false, ALWAYS, NEVER},
    {&lki_adaptive_max_pooling2d_kind, false, ALWAYS, NEVER},
    {&lki_adaptive_max_pooling3d_kind, false, ALWAYS, NEVER},
    {&lki_adaptive_average_pooling1d_kind, false, ALWAYS, ALWAYS},
    {&lki_adaptive_average_pooling2d_kind, false, ALWAYS, ALWAYS},
    {&lki_adaptive_average_pooling3d_kind, false, ALWAYS, ALWAYS},
    {&lki_average_kind, false, ALWAYS, ALWAYS},
    {&lki_maximum_kind, false, ALWAYS, NEVER},
    {&lki_minimum_kind, false, ALWAYS, NEVER},
    {&lki_multiply_kind, false, ALWAYS, NEVER},
};

static int64_t width(const lk_shape *s) { return s->rank > 0 ? s->dim[s->rank - 1] : 1; }

/* The value of an option that is a word; 0: it has no such option. */
static int word_of(const lk_layer *l, const char *name)
{
    const lki_field *f = lki_field_find(&l->kind->class, name);
    return f && f->type == LKI_FIELD_WORD ? *(const int *)((const char *)l + l->kind->set + f->offset) : 0;
}

static lk_activation passed_on(const lk_layer *l, lk_activation a, const lk_shape *in, const lk_shape *out)
{
    const lki_layer_kind *kind = l->kind;
    if (a == LK_SOFTMAX && word_of(l, "data_format") == LK_CHANNELS_FIRST) return LK_LINEAR;            /* it mixes the last axis */
    if (kind == &lki_up_sampling2d_kind && word_of(l, "interpolation") > LK_BILINEAR) return LK_LINEAR; /* results may exceed 1 */
    for (int i = 0; i < LKI_COUNT(PASSING); i++) {
        if (PASSING[i].kind != kind) continue;
        const passing p = a == LK_SOFTMAX ? PASSING[i].softmax : a == LK_SIGMOID ? PASSING[i].sigmoid : PASSING[i].identity;
        return p == ALWAYS || (p == SAME_WIDTH && width(in) == width(out)) ? a : LK_LINEAR;
    }
    return LK_LINEAR;
}

/* ---- layers that decide ---- */

/* Layers whose last operation is the activation among their arguments. */
static const lki_layer_kind *const DECIDING[] = {&lki_dense_kind,
                                                 &lki_conv1d_kind,
                                                 &lki_conv2d_kind,
                                                 &lki_conv3d_kind,
                                                 &lki_conv1d_transpose_kind,
                                                 &lki_conv2d_transpose_kind,
                                                 &lki_conv3d_transpose_kind,
                                                 &lki_depthwise_conv1d_kind,
                                                 &lki_depthwise_conv2d_kind,
                                                 &lki_separable_conv1d_kind,
                                                 &lki_separable_conv2d_kind,
                                                 &lki_simple_rnn_kind,
                                                 &lki_activation_kind};

/* For rows with this many axes; LK_ACTIVATION_DEFAULT: it has none. */
static lk_activation own_activation(const lk_layer *l, int rank)
{
    if (lki_is_operation_layer(l)) return lki_operation_activation(l, rank);
    if (l->kind == &lki_softmax_kind) return lki_softmax_is_last(l, rank) ? LK_SOFTMAX : LK_LINEAR;
    if (l->kind == &lki_relu_kind) return LK_RELU;
    if (l->kind == &lki_leaky_relu_kind) return LK_LEAKY_RELU;
    for (int i = 0; i < LKI_COUNT(DECIDING); i++) {
        if (l->kind != DECIDING[i]) continue;
        const lki_field *f = lki_field_find(&l->kind->class, "activation");
        const int        set = *(const int *)((const char *)l + l->kind->set + f->offset);
        return set ? (lk_activation)set : (lk_activation)(int)f->standard;
    }
    return LK_ACTIVATION_DEFAULT;
}

/* ---- values ---- */

typedef struct value {
    lk_shape      row;
    lk_activation activation;
} value;

static lk_status follow(lk_model *m, const value *in, value *out);

/* The activation of all of these; LK_LINEAR if they differ. */
static lk_activation common(const lki_use *u, const value *v)
{
    lk_activation a = v[u->in[0]].activation;
    for (int i = 1; i < u->count; i++)
        if (u->in[i] != LKI_ABSENT && v[u->in[i]].activation != a) a = LK_LINEAR;
    return a;
}

/* A model as a layer. If it is applied to each step of its rows (TimeDistributed), it sees them without their first `steps`
 * axes. */
static lk_status follow_inside(lk_model *inside, const lki_use *u, const value *v, int steps, lk_activation *out)
{
    value in[LKI_MOST_INPUTS], result[LKI_MOST_OUTPUTS];
    for (int i = 0; i < u->count; i++) {
        in[i] = v[u->in[i]];
        in[i].row.rank -= steps;
        for (int k = 0; k < in[i].row.rank; k++)
            in[i].row.dim[k] = in[i].row.dim[k + steps];
    }
    LKI_TRY(follow(inside, in, result));
    for (int i = 0; i < u->results; i++)
        out[i] = result[i].activation;
    return LK_OK;
}

/* Of each result; only models say something of theirs if there are several. */
static lk_status follow_use(const lki_use *u, const value *v, const lk_shape *row, lk_activation *out)
{
    const lk_layer *l = u->layer;
    int             steps = 0;
    for (; l->kind == &lki_time_distributed_kind && l->inner_count; steps++)
        l = l->inner[0];
    if (lki_model_inside(l)) return follow_inside(lki_model_inside(l), u, v, steps, out);
    *out = own_activation(l, row->rank - steps);
    const bool nothing = l->kind == &lki_activation_kind && *out == LK_LINEAR;
    if (nothing) *out = common(u, v);
    if (*out == LK_ACTIVATION_DEFAULT) *out = passed_on(l, common(u, v), &v[u->in[0]].row, row);
    return LK_OK;
}

static lk_status follow_all(lk_model *m, lk_shape *shape, value *v, value *out)
{
    lk_activation result[LKI_MOST_OUTPUTS];
    LKI_TRY(lki_flow_shapes(m, shape, shape + m->inputs, false));
    for (int i = 0; i < m->uses; i++) {
        const lki_use  *u = &m->use[i];
        const lk_shape *row = shape + m->inputs + u->first;
        for (int k = 0; k < u->results; k++)
            result[k] = LK_LINEAR;
        LKI_TRY(follow_use(u, v, row, result));
        for (int k = 0; k < u->results; k++)
            v[u->first + k] = (value){row[k], result[k]};
    }
    for (int i = 0; i < m->outputs; i++)
        out[i] = v[m->output[i]];
    return LK_OK;
}

/* Rows and activations of the inputs; returns those of the outputs. */
static lk_status follow(lk_model *m, const value *in, value *out)
{
    const size_t inputs = (size_t)m->inputs, values = (size_t)m->values;
    lk_shape    *shape LKI_RELEASED = lki_alloc_array(inputs + values, sizeof *shape); /* of the inputs, then of all values */
    value       *v LKI_RELEASED = lki_alloc_array(values, sizeof *v);
    if (!shape || !v) return LK_ENOMEM;
    for (size_t i = 0; i < inputs; i++) {
        v[i] = in[i];
        shape[i] = in[i].row;
    }
    return follow_all(m, shape, v, out);
}

/* ---- of a model ---- */

static lk_status follow_outputs(lk_model *m, value *in, value *out, int output, lk_activation *activation)
{
    for (int i = 0; i < m->inputs; i++)
        in[i] = (value){m->input[i].row, LK_LINEAR};
    LKI_TRY(follow(m, in, out));
    *activation = out[output].activation;
    return LK_OK;
}

lk_status lki_model_output_activation(lk_model *m, int output, lk_activation *out)
{
    *out = LK_ACTIVATION_DEFAULT;
    if (m->form == LKI_OWN_MODEL || !m->shaped) return LK_OK;
    value *room LKI_RELEASED = lki_alloc_array(m->inputs + m->outputs, sizeof *room);
    return room ? follow_outputs(m, room, room + m->inputs, output, out) : LK_ENOMEM;
}

lk_activation lk_model_output_activation(lk_model *m, int output)
{
    lk_activation a = LK_ACTIVATION_DEFAULT;
    if (!lki_is_model("lk_model_output_activation", m)) return a;
    if (output < 0 || output >= m->outputs)
        return lki_fail(LK_EINVAL, "lk_model_output_activation: output %d of model \"%s\"; it has %d", output, m->name, m->outputs),
               a;
    return lki_model_output_activation(m, output, &a) == LK_OK ? a : LK_ACTIVATION_DEFAULT;
}
