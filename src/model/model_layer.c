/* A model as a layer of another one: its layers, and so their weights, are part of this one. Its inputs may be followed by their
 * masks, in the same order; as in Keras, an input then has that mask for layers that use it later, too. */
#include "core/memory.h"
#include "model/model.h"

typedef struct model_layer {
    lk_layer            layer;
    lk_plain_layer_args set;
    lk_model           *model; /* a reference */
} model_layer;

static lk_model *model_of(const lk_layer *l) { return ((const model_layer *)l)->model; }

static int outputs(const lk_layer *l) { return model_of(l)->outputs; }

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    lk_model *m = model_of(l);
    lk_shape *shape LKI_RELEASED = lki_alloc_array(m->values, sizeof *shape);
    int       count = 0;
    while (in[count].rank != -1)
        count++;
    LKI_TRY(!shape ? LK_ENOMEM
            : count >= m->inputs && count <= 2 * m->inputs
                ? lki_flow_shapes(m, in, shape, false)
                : lki_fail(LK_EINVAL, "layer \"%s\": %d inputs for model \"%s\", which takes %d", lki_layer_title(l), count,
                           m->name, m->inputs));
    for (int i = 0; i < m->outputs; i++)
        out[i] = shape[m->output[i]];
    return LK_OK;
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    lk_model *m = model_of(l);
    lk_shape *shape LKI_RELEASED = lki_alloc_array(m->values, sizeof *shape);
    LKI_TRY(shape ? lki_flow_shapes(m, in, shape, true) : LK_ENOMEM);
    for (int i = 0; i < m->inputs && m->form == LKI_SEQUENTIAL; i++)
        m->input[i].row = in[i];
    m->shaped = true;
    LKI_TRY(lki_model_count_calls(m));
    __atomic_store_n(&m->built, true, __ATOMIC_RELEASE);
    return LK_OK;
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_model *m = model_of(l);
    lk_tensor      *in[LKI_MOST_INPUTS];
    (void)x;
    for (int i = 0; i < m->inputs; i++) {
        const int at = m->inputs + i;
        in[i] = pass->in.item[i];
        if (at < pass->in.count && pass->in.item[at]) in[i] = lki_masked(in[i], pass->in.item[at], true);
    }
    const lk_tuple out = lki_flow_run(model_of(l), (lk_tuple){m->inputs, in}, pass);
    return out.count == 1 ? out.item[0] : lk_nest(out);
}

static void destroy(lk_layer *l) { lki_drop(model_of(l)); }

static const lki_field FIELDS[] = {LKI_LAYER_FIELDS(lk_plain_layer_args)};

/* keras/ reads and writes it as a model */
const lki_layer_kind lki_model_layer_kind = {.name = "model",
                                             .class = {.module = "keras", LKI_ARGS(lk_plain_layer_args, FIELDS)},
                                             .bytes = sizeof(model_layer),
                                             .set = offsetof(model_layer, set),
                                             .fewest = 1,
                                             .most = -1,
                                             .takes_ids = true,
                                             .output = output,
                                             .outputs = outputs,
                                             .mask = lki_mask_stays,
                                             .build = build,
                                             .call = call,
                                             .destroy = destroy};

lk_model *lki_model_inside(const lk_layer *l) { return l->kind == &lki_model_layer_kind ? model_of(l) : NULL; }

static lk_status take(model_layer *l, lk_model *m)
{
    l->layer.inner = lki_alloc_array(m->count + 1, sizeof *l->layer.inner);
    if (!l->layer.inner) return LK_ENOMEM;
    for (; l->layer.inner_count < m->count; l->layer.inner_count++)
        l->layer.inner[l->layer.inner_count] = lki_retain(m->layer[l->layer.inner_count]);
    l->layer.built = lki_model_built(m);
    l->model = lki_retain(m);
    return LK_OK;
}

lk_layer *lk_model_layer(lk_model *m)
{
    if (!lki_is_model("lk_model_layer", m)) return NULL;
    if (m->form == LKI_OWN_MODEL)
        return lki_fail(LK_EUNSUPPORTED, "lk_model_layer: model \"%s\" is a custom model; make it a layer with lk_layer_of()",
                        m->name),
               NULL;
    model_layer *l = lki_layer_new("lk_model_layer", &lki_model_layer_kind, &(lk_plain_layer_args){.name = m->name});
    if (!l) return NULL;
    if (take(l, m) == LK_OK) return &l->layer;
    lk_free(l);
    return NULL;
}
