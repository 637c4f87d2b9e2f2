/* Uses a model that a text describes in the typical ways: reads it, prints it, queries it, trains it for two steps on two replicas.
 * A refusal must come with an error; nothing may crash. */
#ifndef LK_TESTS_FUZZ_MODEL_USE_H
#define LK_TESTS_FUZZ_MODEL_USE_H

#include "fuzz/target.h"
#include "model/model.h"

/* Elements of all values of a model for one row. Up to SLOW they are computed; from FULL on there is no memory for them, which must
 * be reported at once. A valid model between the two would only take long. */
enum { USE_ROWS = 4, USE_SLOW = 1 << 16, USE_FULL = 1 << 25 };

static struct {
    int read, asked, trained; /* without an error */
} used;

static void use_no_output(const char *text, void *user) { (void)text, (void)user; }

/* Rows of 0 and 1, or of 0 alone, which is an id of anything; sizes that are not known are 3. */
static lk_tensor *use_rows(const lki_model_input *in, lk_shape *row, bool zeros)
{
    lk_shape s = {.rank = in->row.rank + 1, .dim = {USE_ROWS}};
    *row = in->row;
    for (int i = 0; i < row->rank; i++)
        s.dim[i + 1] = row->dim[i] = row->dim[i] < 0 ? 3 : row->dim[i];
    lk_tensor *x = zeros ? lk_zeros(s, LK_F32)
                         : lk_reshape(lk_mod(lk_range(lki_shape_size(&s), LK_I32), lk_fill((lk_shape){0}, LK_I32, 2)), s);
    return lk_cast(x, in->dtype);
}

static int64_t use_elements(lk_model *m, const lk_shape *row)
{
    lk_shape *shape = calloc((size_t)(m->inputs + m->uses + 1), sizeof *shape);
    int64_t   sum = 0;
    if (shape && lki_flow_shapes(m, row, shape, false) == LK_OK)
        for (int i = 0; i < m->inputs + m->uses; i++)
            sum = lki_size_add(sum, lki_shape_size(&shape[i]));
    free(shape);
    return sum;
}

static lk_tensor *use_inputs(lk_model *m, bool zeros, int64_t *elements)
{
    lk_tensor *x[LKI_MOST_INPUTS];
    lk_shape   row[LKI_MOST_INPUTS];
    for (int i = 0; i < m->inputs; i++)
        x[i] = use_rows(&m->input[i], &row[i], zeros);
    *elements = use_elements(m, row);
    return m->inputs == 1 ? x[0] : lk_nest((lk_tuple){m->inputs, x});
}

static lk_tensor *use_zeros(const lk_tensor *like) { return lk_zeros(like->shape, LK_F32); }

static void use_training(lk_model *m, lk_tensor *x, lk_tensor *y)
{
    lk_tensor *item[2 * LKI_MOST_INPUTS];
    int        count = 0;
    for (int i = 0; i < m->inputs; i++)
        item[count++] = m->inputs == 1 ? x : lk_nested(x).item[i];
    for (int i = 0; i < m->outputs; i++)
        item[count++] = use_zeros(m->outputs == 1 ? y : lk_nested(y).item[i]);
    if (lk_model_compile(m, .optimizer = lk_adam(0.01), .loss = lk_loss_named("mean_squared_error")) != LK_OK) return;
    for (int step = 0; step < 2 && !lk_failed(); step++)
        lk_model_train_on_batch(m, (lk_tuple){count, item});
    used.trained += !lk_failed();
}

static void use_model(const char *text)
{
    int64_t elements = 0;
    lk_set_output(use_no_output, NULL);
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = 2);
    lk_model    *m = NULL;
    LK_SCOPE(s)
        m = lk_model_from_json(text);
    if (!m || m->inputs > LKI_MOST_INPUTS || m->outputs > LKI_MOST_INPUTS) return;
    used.read++;
    lk_model_to_json(m);
    lk_clear_error();
    lk_model_summary(m);
    if (lk_failed() || !m->shaped) return;
    lk_tensor *x = use_inputs(m, true, &elements);
    if (lk_failed() || (elements > USE_SLOW && elements < USE_FULL)) return;
    lk_tensor *y = lk_model_predict(m, .x = x, .verbose = LK_SILENT);
    if (lk_failed()) return;
    used.asked++;
    use_training(m, use_inputs(m, false, &elements), y);
    if (lk_error_code() != LK_ENOMEM) lk_clear_error(); /* an id of 1 may be out of range */
}

#endif
