/* Nodes of functional models: uses of layers, by the positions of tensors or by the names of arguments. */
#include "model/node.h"
#include "core/list.h"
#include "core/memory.h"
#include "core/names.h"
#include <string.h>

/* ---- life ---- */

static void destroy(void *object)
{
    lk_node *n = object;
    for (int i = 0; i < n->count; i++)
        lki_drop(n->in[i]);
    lki_release(n->in);
    lki_release(n->met);
    lki_release(n->shape);
    lki_drop(n->form);
    lki_drop(n->layer);
    lki_drop(n->use);
}

/* The name of argument i, for the order of those with names: all inputs of a list have the same. */
static const char *argument_name(const lk_layer *l, int i)
{
    const char *const *name = l->kind->arguments;
    for (int k = 0; name && k < i && name[1]; k++)
        name++;
    return name ? *name : "";
}

typedef struct order {
    lk_node *node;
    int      count;
} order;

static lk_status add_met(void *arg, const lki_json *tensor)
{
    order *o = arg;
    o->node->met[o->count++] = lki_call_form_tensor(tensor);
    return LK_OK;
}

/* Keras visits tensors given by position in their order, then those with names in the order of the names. */
static void order_inputs(lk_node *n)
{
    order o = {n, 0};
    if (n->form) lki_call_form_all(n->form, add_met, &o);
    for (int i = 0; !n->form && i < n->count; i++) {
        if (!n->in[i]) continue;
        int at = o.count++;
        for (; i >= n->positional && at > 0 && n->met[at - 1] >= n->positional &&
               strcmp(argument_name(n->layer, n->met[at - 1]), argument_name(n->layer, i)) > 0;
             at--)
            n->met[at] = n->met[at - 1];
        n->met[at] = i;
    }
    n->met[o.count] = -1;
}

static lk_node *node_new(lk_layer *layer, const lk_shape *shape, const lki_application *a)
{
    lk_node *n = lki_object_new(sizeof *n, LKI_KIND_NODE, LKI_LIVES_IN_POOL, destroy);
    if (!n) return NULL;
    n->layer = lki_retain(layer);
    n->results = lki_layer_outputs(layer);
    n->positional = a->positional;
    n->form = lki_retain(a->form);
    n->in = lki_alloc_array(a->count + 1, sizeof(lk_node *));
    n->met = lki_alloc_array(a->count + 1, sizeof *n->met);
    n->shape = lki_alloc_array(n->results, sizeof *n->shape);
    if (!n->in || !n->met || !n->shape) return lk_free(n), NULL;
    memcpy(n->shape, shape, (size_t)n->results * sizeof *shape);
    for (; n->count < a->count; n->count++)
        n->in[n->count] = lki_retain(a->in[n->count]);
    order_inputs(n);
    return n;
}

/* ---- making them ---- */

lk_node *lk_input_kw(lk_input_args a)
{
    if ((unsigned)a.dtype >= LK_DTYPE_COUNT) return lki_fail(LK_EINVAL, "lk_input: there is no type %d", (int)a.dtype), NULL;
    lk_layer *l = lki_layer_new("lk_input", &lki_input_kind, &a);
    return l ? node_new(l, &a.shape, &(lki_application){0}) : NULL;
}

lk_node *lki_node_apply(lk_layer *l, const lki_application *a)
{
    lk_shape in[LKI_MOST_INPUTS + 1], out[LKI_MOST_OUTPUTS];
    if (a->count < 1 || a->count > LKI_MOST_INPUTS)
        return lki_fail(LK_EINVAL, "%s: layer \"%s\" on %d nodes; there must be 1 to %d", a->call, lki_layer_title(l), a->count,
                        LKI_MOST_INPUTS),
               NULL;
    for (int i = 0; i < a->count; i++)
        in[i] = a->in[i] ? lki_use_node(a->in[i])->shape[a->in[i]->result] : (lk_shape){.rank = LKI_ABSENT};
    in[a->count] = (lk_shape){.rank = -1};
    return lki_layer_output(l, in, out) == LK_OK ? node_new(l, out, a) : NULL;
}

static bool is_layer(const char *call, const lk_layer *l)
{
    if (lki_is_kind(l, LKI_KIND_LAYER)) return true;
    if (l || !lk_failed()) lki_fail(LK_EINVAL, "%s: %s", call, l ? "not a layer" : "the layer is NULL");
    return false;
}

/* A NULL after an error was reported already. */
static bool is_node(const lk_node *n) { return lki_is_kind(n, LKI_KIND_NODE); }

lk_node *lk_apply_to(lk_layer *l, int count, lk_node *const *one_based)
{
    if (!is_layer("lk_apply", l) || !lki_list_given("lk_apply", count, one_based)) return NULL;
    for (int i = 0; i < count; i++) {
        const lk_node *n = one_based[i + 1];
        if (is_node(n)) continue;
        if (n || !lk_failed())
            lki_fail(LK_EINVAL, "lk_apply: layer \"%s\": input %d is %s", lki_layer_title(l), i, n ? "not a node" : "NULL");
        return NULL;
    }
    return lki_node_apply(l, &(lki_application){.call = "lk_apply", .count = count, .in = one_based + 1, .positional = count});
}

/* ---- by names ---- */

static lk_node *no_such_argument(const lk_layer *l, const char *name)
{
    char list[256] = "";
    for (const char *const *a = l->kind->arguments; a && *a; a++)
        lki_names_add(list, sizeof list, *a);
    if (*list)
        lki_fail(LK_EINVAL, "lk_apply_with: layer \"%s\" has no argument \"%s\"; there are %s", lki_layer_title(l),
                 name ? name : "NULL", list);
    else lki_fail(LK_EINVAL, "lk_apply_with: layer \"%s\" has no arguments with names; use lk_apply()", lki_layer_title(l));
    return NULL;
}

/* The place of an argument given now: the first free one of the last argument, which may be a list. -1: there is none. */
static int place_of(const lk_layer *l, const char *name, lk_node *const *in)
{
    const char *const *list = l->kind->arguments;
    for (int i = 0; list && name && list[i]; i++) {
        if (strcmp(list[i], name)) continue;
        const bool last = !list[i + 1];
        while (last && i < LKI_MOST_INPUTS - 1 && in[i])
            i++;
        return i;
    }
    return -1;
}

static lk_status set_argument(const lk_layer *l, const lk_argument *a, lk_node **in, int *count)
{
    const int at = place_of(l, a->name, in);
    if (at < 0) return no_such_argument(l, a->name), LK_EINVAL;
    if (!is_node(a->node))
        return !a->node && lk_failed() ? lk_error_code()
                                       : lki_fail(LK_EINVAL, "lk_apply_with: layer \"%s\": argument \"%s\" is %s",
                                                  lki_layer_title(l), a->name, a->node ? "not a node" : "NULL");
    if (in[at])
        return lki_fail(LK_EINVAL, "lk_apply_with: layer \"%s\": argument \"%s\" is given twice; it is one tensor",
                        lki_layer_title(l), a->name);
    in[at] = a->node;
    if (*count < at + 1) *count = at + 1;
    return LK_OK;
}

lk_node *lk_apply_arguments(lk_layer *l, int count, const lk_argument *one_based)
{
    lk_node *in[LKI_MOST_INPUTS] = {0};
    int      inputs = 0;
    if (!is_layer("lk_apply_with", l) || !lki_list_given("lk_apply_with", count, one_based)) return NULL;
    for (int i = 1; i <= count; i++)
        if (set_argument(l, &one_based[i], in, &inputs) != LK_OK) return NULL;
    if (inputs && !in[0])
        return lki_fail(LK_EINVAL, "lk_apply_with: layer \"%s\": argument \"%s\" is missing", lki_layer_title(l),
                        *l->kind->arguments),
               NULL;
    return lki_node_apply(l, &(lki_application){.call = "lk_apply_with", .count = inputs, .in = in, .positional = 1});
}

/* ---- looking at one ---- */

lk_shape lk_node_shape(const lk_node *n)
{
    if (is_node(n)) return lki_use_node(n)->shape[n->result];
    lki_fail(LK_EINVAL, "lk_node_shape: %s", n ? "not a node" : "the node is NULL");
    return (lk_shape){.rank = -1};
}

lk_node *lk_node_result(lk_node *n, int i)
{
    if (!is_node(n))
        return n || !lk_failed() ? (lki_fail(LK_EINVAL, "lk_node_result: %s", n ? "not a node" : "the node is NULL"), NULL) : NULL;
    lk_node *use = lki_use_node(n);
    if (i < 0 || i >= use->results)
        return lki_fail(LK_EINVAL, "lk_node_result: result %d of layer \"%s\"; it has %d", i, lki_layer_title(use->layer),
                        use->results),
               NULL;
    if (i == n->result) return n;
    if (!i) return use;
    lk_node *other = lki_object_new(sizeof *other, LKI_KIND_NODE, LKI_LIVES_IN_POOL, destroy);
    if (!other) return NULL;
    other->use = lki_retain(use);
    other->result = i;
    return other;
}

lk_nodes lk_nodes_of(int count, lk_node *const *one_based)
{
    void *item = lki_list_of("lk_nodes_of", count, one_based);
    return (lk_nodes){item ? count : 0, item};
}
