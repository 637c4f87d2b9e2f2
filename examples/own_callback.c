/* A custom callback that finds a learning rate for a model.
 *
 * The first one raises the rate with every step and watches the loss: it falls, falls faster, and then explodes. A good rate is a
 * tenth of the rate with the lowest loss. It ends training itself and puts the weights back. The second one draws a bar per epoch.
 * Callbacks are called once per event, also when several replicas train. */
#include <lockstep.h>
#include <math.h>
#include <stdio.h>

enum { ROWS = 2048, FEATURES = 8, BATCH = 64, EPOCHS = 10 };

/* ---- a search ---- */

typedef struct search {
    lk_tuple weights; /* as they were */
    double   rate, best_rate;
    double   smooth, lowest; /* losses; of single steps they jump */
    double   total;          /* of the epoch so far */
} search;

static void search_begin(const lk_event *e, void *user)
{
    search      *s = user;
    lk_variables v = lk_model_weights(e->model);
    lk_tensor   *value[8];
    for (int i = 0; i < v.count; i++)
        value[i] = lk_read(v.item[i]); /* keeps its value, whatever becomes of the variable */
    *s = (search){.weights = lk_tuple_from(v.count, value), .rate = 1e-6, .lowest = INFINITY};
}

static void search_step_begin(const lk_event *e, void *user)
{
    search *s = user;
    lk_optimizer_set_learning_rate(lk_model_optimizer(e->model), s->rate *= 1.1);
}

/* Logs are means over the epoch so far; a single step is what it added to the total. */
static void search_step_end(const lk_event *e, void *user)
{
    search *s = user;
    double  total = lk_logs_get(&e->logs, "loss") * (double)(e->batch + 1), loss = total - (e->batch ? s->total : 0);
    s->total = total;
    s->smooth = e->step > 1 ? 0.8 * s->smooth + 0.2 * loss : loss;
    if (s->smooth < s->lowest) {
        s->lowest = s->smooth;
        s->best_rate = s->rate;
    }
    if (!(s->smooth < 4 * s->lowest)) lk_model_stop_training(e->model);
}

static void search_end(const lk_event *e, void *user)
{
    search *s = user;
    lk_model_set_weights(e->model, s->weights);
}

/* ---- a picture ---- */

static void draw_bar(const lk_event *e, void *user)
{
    static const char bar[] = "########################################";
    double            loss = lk_logs_get(&e->logs, "loss"), *first = user;
    if (e->epoch == 0) *first = loss;
    int length = (int)fmin(40, 40 * loss / *first);
    printf("epoch %2d  %.4f  %.*s\n", e->epoch + 1, loss, length, bar);
}

int main(void)
{
    lk_tensor *x = lk_random_normal(LK_SHAPE(ROWS, FEATURES));
    lk_tensor *y = lk_reduce_sum(lk_sin(x), .axis = LK_AXES(1), .keepdims = LK_ON);
    lk_model  *model = NULL;
    LK_SCOPE(lk_mirrored_strategy(.cpu_devices = 2))
        model = lk_sequential(lk_dense(64, .activation = LK_RELU), lk_dense(1));
    lk_model_compile(model, .loss = lk_mean_squared_error(), .optimizer = lk_adam());

    search       s;
    lk_callback *searching = lk_callback_of(&s, .on_train_begin = search_begin, .on_train_batch_begin = search_step_begin,
                                            .on_train_batch_end = search_step_end, .on_train_end = search_end);
    lk_model_build(model, LK_SHAPE(FEATURES));
    lk_digest before = lk_model_digest(model);
    lk_model_fit(model, .x = x, .y = y, .batch_size = BATCH, .epochs = 100, .verbose = LK_SILENT,
                 .callbacks = LK_CALLBACKS(searching));
    int restored = lk_digest_equal(before, lk_model_digest(model));
    printf("the loss explodes beyond a rate of %.2g: training with %.2g\n", s.rate, s.best_rate / 10);

    double first = 0;
    lk_model_compile(model, .loss = lk_mean_squared_error(), .optimizer = lk_adam(.learning_rate = s.best_rate / 10));
    lk_history *h = lk_model_fit(model, .x = x, .y = y, .batch_size = BATCH, .epochs = EPOCHS, .verbose = LK_SILENT,
                                 .callbacks = LK_CALLBACKS(lk_callback_of(&first, .on_epoch_end = draw_bar)));
    double      last = h ? lk_history_value(h, "loss", EPOCHS - 1) : INFINITY;

    if (lk_failed()) fprintf(stderr, "%s\n", lk_error());
    return lk_failed() || !restored || !(s.best_rate > 1e-3) || !(last < first / 10);
}
