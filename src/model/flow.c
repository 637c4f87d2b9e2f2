/* How values flow through the layers of a model: shapes first, then tensors. */
#include "core/memory.h"
#include "model/model.h"
#include <string.h>

/* ---- shapes ---- */

static lk_status shape_of_use(const lki_use *u, lk_shape *shape, lk_shape *out, bool build)
{
    lk_shape in[LKI_MOST_INPUTS + 1];
    for (int i = 0; i < u->count; i++)
        in[i] = shape[u->in[i]];
    in[u->count] = (lk_shape){.rank = -1};
    LKI_TRY(lki_layer_output(u->layer, in, out));
    return build ? lki_layer_build(u->layer, in) : LK_OK;
}

lk_status lki_flow_shapes(lk_model *m, const lk_shape *row, lk_shape *shape, bool build)
{
    memcpy(shape, row, (size_t)m->inputs * sizeof *shape);
    for (int i = 0; i < m->uses; i++)
        LKI_TRY(shape_of_use(&m->use[i], shape, &shape[m->inputs + i], build));
    return LK_OK;
}

/* ---- tensors ---- */

static lk_tensor *run_use(const lki_use *u, lk_tensor **value, const lki_pass *pass)
{
    lk_tensor *in[LKI_MOST_INPUTS];
    for (int i = 0; i < u->count; i++) {
        in[i] = value[u->in[i]];
        if (lki_bad(in[i])) return &lki_poison;
    }
    return lki_layer_run(u->layer, (lk_tuple){u->count, in}, pass);
}

lk_tuple lki_flow_run(lk_model *m, lk_tuple in, const lki_pass *pass)
{
    lk_tensor **value LKI_RELEASED = lki_alloc_array(m->inputs + m->uses + m->outputs, sizeof *value);
    if (!value) return LK_TUPLE(&lki_poison);
    memcpy(value, in.item, (size_t)m->inputs * sizeof *value);
    for (int i = 0; i < m->uses; i++)
        value[m->inputs + i] = run_use(&m->use[i], value, pass);
    lk_tensor **out = value + m->inputs + m->uses;
    for (int i = 0; i < m->outputs; i++)
        out[i] = value[m->output[i]];
    return lk_tuple_from(m->outputs, out);
}
