/* How values flow through the layers of a model: shapes first, then tensors. */
#include "core/memory.h"
#include "model/model.h"
#include <lockstep/strategy.h>
#include <string.h>

/* ---- shapes ---- */

static lk_status shapes_of_use(const lki_use *u, lk_shape *shape, bool build)
{
    lk_shape in[LKI_MOST_INPUTS + 1];
    for (int i = 0; i < u->count; i++)
        in[i] = u->in[i] == LKI_ABSENT ? (lk_shape){.rank = LKI_ABSENT} : shape[u->in[i]];
    in[u->count] = (lk_shape){.rank = -1};
    LKI_TRY(lki_layer_output(u->layer, in, &shape[u->first]));
    return build ? lki_layer_build(u->layer, in) : LK_OK;
}

lk_status lki_flow_shapes(lk_model *m, const lk_shape *row, lk_shape *shape, bool build)
{
    memcpy(shape, row, (size_t)m->inputs * sizeof *shape);
    for (int i = 0; i < m->uses; i++)
        LKI_TRY(shapes_of_use(&m->use[i], shape, build));
    return LK_OK;
}

/* ---- tensors ---- */

static void keep_results(const lki_use *u, lk_tensor *y, lk_tensor **value)
{
    const lk_tuple all = !lki_bad(y) && y->nest ? lk_nested(y) : (lk_tuple){1, &y};
    for (int i = 0; i < u->results; i++)
        value[u->first + i] = i < all.count ? all.item[i] : &lki_poison;
}

static void run_use(const lki_use *u, lk_tensor **value, const lki_pass *pass)
{
    lk_tensor *in[LKI_MOST_INPUTS];
    bool       good = true;
    for (int i = 0; i < u->count; i++) {
        in[i] = u->in[i] == LKI_ABSENT ? NULL : value[u->in[i]];
        good = good && in[i] != &lki_poison;
    }
    keep_results(u, good ? lki_layer_run(u->layer, (lk_tuple){u->count, in}, pass) : &lki_poison, value);
}

lk_tuple lki_flow_run(lk_model *m, lk_tuple in, const lki_pass *pass)
{
    lk_tensor **value LKI_RELEASED = lki_alloc_array(m->values + m->outputs, sizeof *value);
    if (!value) return LK_TUPLE(&lki_poison);
    memcpy(value, in.item, (size_t)m->inputs * sizeof *value);
    for (int i = 0; i < m->uses; i++)
        run_use(&m->use[i], value, pass);
    lk_tensor **out = value + m->values;
    for (int i = 0; i < m->outputs; i++)
        out[i] = value[m->output[i]];
    return lk_tuple_from(m->outputs, out);
}
