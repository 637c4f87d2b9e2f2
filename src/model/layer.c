/* What all layers have in common: being made, making weights, complaining. */
#include "model/layer.h"
#include "core/memory.h"
#include "model/regularizer.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- life ---- */

static void destroy(void *object)
{
    lk_layer *l = object;
    lki_layer_leave(l);
    lki_drop(l->activity);
    for (int i = 0; i < LKI_MOST_WEIGHTS; i++)
        lki_drop(l->regularizer[i]);
    lki_release(l->name);
}

static bool common_fits(const char *call, const lki_layer_common *c)
{
    char text[LKI_SHAPE_TEXT];
    if (!lki_shape_valid(&c->input_shape) || c->input_shape.rank >= LK_MAX_RANK) {
        lki_fail(LK_ESHAPE, "%s: input_shape %s is not the shape of a row: it has at most %d sizes of 0 or more", call,
                 lki_shape_text(&c->input_shape, text), LK_MAX_RANK - 1);
        return false;
    }
    if (c->name && !*c->name) return lki_fail(LK_EINVAL, "%s: the name is empty", call), false;
    return lki_regularizer_fits(call, "activity_regularizer", c->activity) &&
           lki_regularizer_fits(call, "kernel_regularizer", c->kernel) && lki_regularizer_fits(call, "bias_regularizer", c->bias);
}

void *lki_layer_new(const char *call, size_t bytes, const lki_layer_kind *kind, lki_layer_common common)
{
    if (!common_fits(call, &common)) return NULL;
    lk_layer *l = lki_object_new(bytes, LKI_KIND_LAYER, LKI_LIVES_IN_POOL, destroy);
    if (!l) return NULL;
    l->kind = kind;
    l->input_shape = common.input_shape;
    l->activity = lki_retain(common.activity);
    l->regularizer[0] = lki_retain(common.kernel);
    l->regularizer[1] = lki_retain(common.bias);
    l->named = common.name != NULL;
    if (!common.name || (l->name = lki_strdup(common.name))) return l;
    lk_free(l);
    return NULL;
}

/* ---- weights ---- */

lk_tensor *lki_initial_zeros(lk_shape shape, const char *stream)
{
    (void)stream;
    return lk_zeros(shape, LK_F32);
}

lk_tensor *lki_initial_ones(lk_shape shape, const char *stream)
{
    (void)stream;
    return lk_ones(shape, LK_F32);
}

/* "dense/kernel", and for the first values "sequential/dense/kernel". */
static lk_variable *make_variable(const lk_layer *l, const lki_weight *w, lk_shape shape, char *stream, size_t bytes)
{
    snprintf(stream, bytes, "%s/%s", l->path, w->name);
    lk_tensor *initial = w->initializer(shape, stream);
    snprintf(stream, bytes, "%s/%s", l->name, w->name);
    if (lki_bad(initial)) return NULL;
    return lk_variable_of(initial, .name = stream, .trainable = w->trainable, .synchronization = w->synchronization,
                          .aggregation = w->aggregation);
}

lk_status lki_layer_weight(lk_layer *l, lki_weight weight, lk_shape shape)
{
    size_t bytes = strlen(l->path) + strlen(weight.name) + 2;
    char  *stream = lki_alloc(bytes);
    if (!stream) return LK_ENOMEM;
    weight.variable = make_variable(l, &weight, shape, stream, bytes);
    lki_release(stream);
    if (!weight.variable) return lk_failed() ? lk_error_code() : LK_ENOMEM;
    lki_retain(weight.variable);
    l->weight[l->count++] = weight;
    return LK_OK;
}

void lki_layer_forget(lk_layer *l)
{
    while (l->count)
        lki_drop(l->weight[--l->count].variable);
}

void lki_layer_leave(lk_layer *l)
{
    lki_layer_forget(l);
    lki_release(l->path);
    l->path = NULL;
    l->placed = false;
    if (l->named) return;
    lki_release(l->name);
    l->name = NULL;
}

lk_tensor *lki_layer_read(const lk_layer *l, int i) { return lk_read(l->weight[i].variable); }

/* ---- mistakes ---- */

lk_status lki_layer_refuse(const lk_layer *l, const lk_shape *in, const char *format, ...)
{
    char    why[256], text[LKI_SHAPE_TEXT];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    return lki_fail(LK_ESHAPE, "layer \"%s\": rows of %s: %s", l->name, lki_shape_text(in, text), why);
}

bool lki_activation_fits(const char *call, lk_activation activation)
{
    if ((unsigned)activation < LK_ACTIVATION_COUNT) return true;
    lki_fail(LK_EINVAL, "%s: there is no activation %d", call, (int)activation);
    return false;
}
