/* Optimisers: the state of each and the recipe of a step. All arithmetic is in update ops, which run at once or are recorded while
 * a function is traced; so this file is the same for eager and compiled steps.
 *
 *     gradients -> mean of several calls -> clip -> per variable: decay, update -> moving averages -> constraints -> iteration += 1
 *
 * Invariants
 *  1. State is variables, named and ordered as in Keras: iteration, learning rate (unless there is a schedule), averages,
 *     accumulators, then the groups of slots of the algorithm, variable by variable within a group.
 *  2. The first apply fixes the variables; it makes all state, or none of it if something fails.
 *  3. In a gradient made of rows (of an embedding) each row counts with its own square, as in Keras: rows with the same entry are
 *     added in the gradient, and their squares are added in what replaces its square. Clipping and accumulation turn it into a
 *     plain gradient. */
#include "nn/optimizer.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "dist/strategy.h"
#include "op/gradient.h"
#include "op/op.h"
#include "op/record.h"
#include <lockstep/ops.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

/* ---- making one -------------------------------------------------------------------------------------------------------------- */

static void drop_all(lk_variable ***list, int count)
{
    for (int i = 0; *list && i < count; i++)
        lki_drop((*list)[i]);
    lki_release(*list);
    *list = NULL;
}

static void forget_variables(lk_optimizer *o)
{
    lki_release(o->spared);
    lki_release(o->route);
    o->spared = NULL;
    o->route = NULL;
    drop_all(&o->variable, o->count);
    drop_all(&o->average, o->count);
    drop_all(&o->accumulator, o->count);
    for (int s = 0; s < LKI_OPTIMIZER_SLOTS; s++)
        drop_all(&o->slot[s], o->count);
    lki_drop(o->product);
    o->product = NULL;
    o->states = o->rate ? 2 : 1;
    o->count = 0;
}

static void destroy(void *object)
{
    lk_optimizer *o = object;
    forget_variables(o);
    drop_all(&o->spare, o->spare_count);
    lki_release(o->spare_names);
    for (int i = 0; i < o->inners; i++) {
        lki_drop(o->inner[i]);
        lki_release(o->pattern[i]);
    }
    lki_release(o->inner);
    lki_release(o->pattern);
    lki_drop(o->scale);
    lki_drop(o->streak);
    lki_waiters_free(&o->waiting);
    lki_drop(o->iteration);
    lki_drop(o->rate);
    lki_drop(o->set.schedule);
    lki_release(o->state);
    lki_release(o->name);
    if (o->class) lki_args_drop(o->class, &o->args);
}

lk_variable *lki_optimizer_keep(lk_optimizer *o, lk_variable *v)
{
    if (!v || !lki_grow((void **)&o->state, &o->room, o->states + 1, sizeof *o->state)) return NULL;
    o->state[o->states++] = v;
    return lki_retain(v);
}

lk_variable *lki_optimizer_scalar(lk_optimizer *o, const char *name, lk_dtype dtype, double value)
{
    char           text[512];
    const lk_shape scalar = {0};
    snprintf(text, sizeof text, "%s/%s", o->name, name);
    return lki_variable_new(text, &scalar, dtype, value, false);
}

static lk_variable *scalar_state(lk_optimizer *o, const char *name, lk_dtype dtype, double value)
{
    return lki_optimizer_keep(o, lki_optimizer_scalar(o, name, dtype, value));
}

lk_optimizer *lki_optimizer_new(const lki_algorithm *kind, const lki_optimizer_common *set, unsigned slots)
{
    lk_optimizer *o = lki_object_new(sizeof *o, LKI_KIND_OPTIMIZER, LKI_LIVES_IN_POOL, destroy);
    if (!o) return NULL;
    o->kind = kind;
    o->set = *set;
    o->slots = slots;
    o->nadam = kind->op == LKI_OP_update_nadam;
    o->attr.update.every = (int)lki_integer(set->gradient_accumulation_steps);
    o->attr.update.p[LKI_UPDATE_DECAY] = lki_number(set->weight_decay);
    lki_retain(set->schedule);
    o->name = lki_strdup(set->name ? set->name : kind->name);
    if (!o->name) goto failed;
    o->iteration = scalar_state(o, "iteration", LK_I64, 0);
    if (!o->iteration) goto failed;
    if (!set->schedule) {
        o->rate = scalar_state(o, "learning_rate", LK_F32, lki_number_or(set->learning_rate, kind->rate));
        if (!o->rate) goto failed;
    }
    return o;
failed:
    lk_free(o);
    return NULL;
}

lk_optimizer *lki_optimizer_described(lk_optimizer *o, lki_optimizer_id id, const void *args)
{
    const lki_class *class = &lki_optimizer_classes[id];
    if (!o) return NULL;
    memcpy(&o->args, args, class->bytes);
    if (lki_args_hold(o->name, class, &o->args) == LK_OK) return o->class = class, o;
    lk_free(o);
    return NULL;
}

/* ---- the state of the variables ---------------------------------------------------------------------------------------------- */

/* "adam/dense_kernel_momentum" for the variable "dense/kernel". */
lk_variable *lki_optimizer_slot(lk_optimizer *o, const lk_variable *v, const char *what, double fill)
{
    char *text LKI_RELEASED = lki_text_new("%s/%s_%s", o->name, v->name, what);
    if (!text) return NULL;
    for (char *c = text + strlen(o->name) + 1; *c; c++)
        if (*c == '/') *c = '_';
    return lki_optimizer_keep(o, lki_variable_new(text, &v->shape, v->dtype, fill, false));
}

static bool slots_new(lk_optimizer *o, lk_variable ***list, const char *what)
{
    *list = lki_zalloc_array(o->count, sizeof **list);
    for (int i = 0; *list && i < o->count; i++) {
        (*list)[i] = lki_optimizer_slot(o, o->variable[i], what, 0);
        if (!(*list)[i]) return false;
    }
    return *list != NULL;
}

static bool group_new(lk_optimizer *o, int group)
{
    for (int i = 0; i < o->count; i++)
        for (int s = 0; s < LKI_OPTIMIZER_SLOTS; s++) {
            if (!(o->slots >> s & 1) || o->kind->slot[s].group != group) continue;
            if (!o->slot[s]) o->slot[s] = lki_zalloc_array(o->count, sizeof *o->slot[s]);
            if (!o->slot[s]) return false;
            o->slot[s][i] = lki_optimizer_slot(o, o->variable[i], o->kind->slot[s].name, s == 0 ? o->initial : 0);
            if (!o->slot[s][i]) return false;
        }
    return true;
}

/* The slots of an algorithm that makes them itself. */
static bool own_slots_new(lk_optimizer *o)
{
    for (int s = 0; s < LKI_OPTIMIZER_SLOTS; s++)
        if ((o->slots >> s & 1) && !(o->slot[s] = lki_zalloc_array(o->count, sizeof *o->slot[s]))) return false;
    for (int i = 0; i < o->count; i++)
        if (!o->kind->slots_of(o, i)) return false;
    return true;
}

static bool state_new(lk_optimizer *o)
{
    if (o->set.use_ema == LK_ON && !slots_new(o, &o->average, "average")) return false;
    if (o->attr.update.every > 1 && !slots_new(o, &o->accumulator, "gradient_accumulator")) return false;
    if (o->kind->slots_of && !own_slots_new(o)) return false;
    for (int group = 0; group < LKI_OPTIMIZER_SLOTS && !o->kind->slots_of; group++)
        if (!group_new(o, group)) return false;
    if (o->nadam) {
        const lk_shape scalar = {0};
        o->product = lki_optimizer_keep(o, lki_variable_new("variable", &scalar, o->variable[0]->dtype, 1, false));
        if (!o->product) return false;
    }
    return true;
}

static lk_status make_anew(lk_variable **held)
{
    const lk_variable *v = *held;
    if (!v) return LK_OK;
    const void  *value = lki_variable_values(v);
    lk_variable *made =
        value ? lki_variable_new(v->name, &v->shape, v->dtype, lki_element_get(v->dtype, value, 0), v->trainable) : NULL;
    if (!made) return lk_failed() ? lk_error_code() : LK_ENOMEM;
    lki_drop(*held);
    *held = lki_retain(made);
    return LK_OK;
}

/* Make its existing state again, iteration and rate, where variables are made now. */
static lk_status move_in(lk_optimizer *o)
{
    LKI_TRY(make_anew(&o->iteration));
    LKI_TRY(make_anew(&o->rate));
    LKI_TRY(make_anew(&o->streak));
    LKI_TRY(make_anew(&o->scale));
    o->state[0] = o->iteration;
    if (o->rate) o->state[1] = o->rate;
    return LK_OK;
}

/* ---- weight decay, and who is spared ---- */

lk_status lki_pattern_matches(const char *call, const char *pattern, const char *text, bool whole, bool *matches)
{
    regex_t    compiled;
    regmatch_t part;
    char       why[128];
    const int  wrong = regcomp(&compiled, pattern, REG_EXTENDED);
    if (wrong) {
        regerror(wrong, &compiled, why, sizeof why);
        return lki_fail(LK_EINVAL, "%s: \"%.100s\" is not a regular expression: %s", call, pattern, why);
    }
    *matches = !regexec(&compiled, text, 1, &part, 0);
    if (*matches && whole) *matches = part.rm_so == 0 && !text[part.rm_eo];
    regfree(&compiled);
    return LK_OK;
}

lk_status lk_optimizer_exclude_from_weight_decay(lk_optimizer *o, lk_variables variables, const char *names)
{
    bool ignored;
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER)) return lki_fail(LK_EINVAL, "optimizer_exclude_from_weight_decay: not an optimiser");
    if (o->kind->wraps) return lki_fail(LK_EINVAL, "%s: weight decay is that of the optimisers inside: exclude there", o->name);
    if (o->count) return lki_fail(LK_ESTATE, "%s: exclude variables from weight decay before the first step", o->name);
    if (names) LKI_TRY(lki_pattern_matches(o->name, names, "", false, &ignored));
    char         *text = names ? lki_strdup(names) : NULL;
    lk_variable **list = lki_zalloc_array(variables.count + 1, sizeof *list);
    if (!list || (names && !text)) return lki_release(text), lki_release(list), LK_ENOMEM;
    drop_all(&o->spare, o->spare_count);
    lki_release(o->spare_names);
    o->spare = list;
    o->spare_names = text;
    for (o->spare_count = 0; o->spare_count < variables.count; o->spare_count++)
        list[o->spare_count] = lki_retain(variables.item[o->spare_count]);
    return LK_OK;
}

/* Names are searched in the whole path; Muon searches the last name only. */
static lk_status find_spared(lk_optimizer *o)
{
    o->spared = lki_zalloc_array(o->count, sizeof *o->spared);
    if (!o->spared) return LK_ENOMEM;
    for (int i = 0; i < o->count; i++) {
        const char *name = o->variable[i]->name, *last = strrchr(name, '/');
        if (o->kind->step == lki_muon_step && last) name = last + 1;
        if (o->spare_names) LKI_TRY(lki_pattern_matches(o->name, o->spare_names, name, false, &o->spared[i]));
        for (int k = 0; k < o->spare_count; k++)
            o->spared[i] = o->spared[i] || o->spare[k] == o->variable[i];
    }
    return LK_OK;
}

/* ---- building ---- */

lk_status lk_optimizer_build(lk_optimizer *o, lk_variables variables)
{
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER)) return lki_fail(LK_EINVAL, "optimizer: not an optimiser");
    if (o->count) return LK_OK;
    if (variables.count <= 0) return lki_fail(LK_EINVAL, "%s: no variables to optimise", o->name);
    o->variable = lki_zalloc_array(variables.count, sizeof *o->variable);
    if (!o->variable) return LK_ENOMEM;
    for (int i = 0; i < variables.count; i++) {
        const lk_variable *v = variables.item[i];
        if (!lki_is_kind(v, LKI_KIND_VARIABLE) || (v->dtype != LK_F32 && v->dtype != LK_F64)) {
            forget_variables(o);
            return lki_fail(LK_EDTYPE, "%s: variable %d of %d is not an f32 or f64 variable", o->name, i, variables.count);
        }
        o->variable[i] = lki_retain(variables.item[i]);
        o->count = i + 1;
    }
    lki_context before = lki_context_of_variable(o->variable[0]); /* slots are made where the variables are */
    lk_status   status = !lki_same_memory(o->iteration->buffer->device, o->variable[0]->buffer->device) ? move_in(o) : LK_OK;
    if (status == LK_OK) status = find_spared(o);
    if (status == LK_OK && o->kind->wraps) status = o->kind->wraps->build(o);
    else if (status == LK_OK && !state_new(o)) status = lk_failed() ? lk_error_code() : LK_ENOMEM;
    if (status == LK_OK) status = lki_waiters_tell(&o->waiting, o);
    lki_context_restore(&before);
    if (status != LK_OK) forget_variables(o);
    return status;
}

lk_status lki_optimizer_adopt(lk_optimizer *o, lk_strategy *s)
{
    if (o->count || !s || s->kind == LKI_STRATEGY_DEFAULT || lki_same_memory(o->iteration->buffer->device, s->device[0]))
        return LK_OK;
    lki_context before = lki_context_cross(s);
    lk_status   status = move_in(o);
    lki_context_restore(&before);
    for (int i = 0; i < o->inners && status == LK_OK; i++)
        status = lki_optimizer_adopt(o->inner[i], s);
    return status;
}

lk_status lk_optimizer_finalize(lk_optimizer *o)
{
    if (!lki_is_kind(o, LKI_KIND_OPTIMIZER)) return lki_fail(LK_EINVAL, "optimizer_finalize: not an optimiser");
    for (int i = 0; o->average && i < o->count; i++)
        LKI_TRY(lk_assign(o->variable[i], lk_read(o->average[i])));
    for (int i = 0; i < o->inners; i++)
        LKI_TRY(lk_optimizer_finalize(o->inner[i]));
    return LK_OK;
}
