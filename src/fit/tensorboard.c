/* TensorBoard: events of training under DIR/train and of validation under DIR/validation, with the tags and steps Keras writes.
 *
 *   train        epoch_loss, epoch_accuracy, ..., epoch_learning_rate     step: the epoch, from 0
 *                batch_loss, ...                                          with update_freq; step: training steps, from 1
 *                sequential/dense/kernel/histogram, .../image             every histogram_freq epochs; images alone: every epoch
 *                model, keras                                             text: a table of the layers, and the JSON
 *   validation   epoch_loss, ...                                          step: the epoch
 *                evaluation_loss_vs_iterations, ...                       step: the optimiser's iterations
 *
 * A file is made when its first event is written, flushed after each epoch and closed when training (or an evaluation outside of
 * it) ends. The first file is made before training begins; a failure there is an error. Later failures are one warning, and
 * training continues. */
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/shape.h"
#include "fit/callback.h"
#include "fit/kernel_image.h"
#include "fit/text.h"
#include "format/events.h"
#include "layer/layer.h"
#include <lockstep/keras.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef enum side { TRAIN, VALIDATION, SIDES } side;

typedef struct tensorboard {
    lk_callback         base;
    lk_tensorboard_args args;
    char               *folder[SIDES];
    lki_events         *file[SIDES]; /* NULL: nothing yet */
    bool                in_fit, described, warned;
    lki_every           every;
    int64_t             steps; /* of training */
    int64_t             last;  /* batch */
} tensorboard;

static double wall_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

static lk_status get_file(tensorboard *t, side s)
{
    return t->file[s] ? LK_OK : lki_events_open(t->folder[s], wall_time(), &t->file[s]);
}

static lk_status close_file(tensorboard *t, side s)
{
    lki_events *e = t->file[s];
    t->file[s] = NULL;
    return lki_events_close(e);
}

/* Flush both, even if the first fails. */
static lk_status flush_files(tensorboard *t)
{
    lk_status status = LK_OK;
    for (int s = 0; s < SIDES; s++)
        if (t->file[s] && lki_events_flush(t->file[s]) != LK_OK) status = LK_EIO;
    return status;
}

/* ---- scalars ----------------------------------------------------------------------------------------------------------------- */

static lk_status put_scalar(tensorboard *t, side s, int64_t step, const char *before, const char *name, const char *behind,
                            double value)
{
    char tag[512];
    snprintf(tag, sizeof tag, "%s%s%s", before, name, behind);
    LKI_TRY(get_file(t, s));
    return lki_events_scalar(t->file[s], wall_time(), step, tag, (float)value);
}

static lk_status put_epoch(tensorboard *t, const lki_happening *h)
{
    const lk_logs       logs = lki_logs_of(h);
    const lk_optimizer *o = lk_model_optimizer(h->event.model);
    bool                rate = false;
    for (int i = 0; i < logs.count; i++) {
        const bool validation = strncmp(logs.name[i], "val_", 4) == 0;
        LKI_TRY(put_scalar(t, validation ? VALIDATION : TRAIN, h->event.epoch, "epoch_", logs.name[i] + (validation ? 4 : 0), "",
                           logs.value[i]));
        rate = rate || strcmp(logs.name[i], "learning_rate") == 0;
    }
    if (!o || rate) return LK_OK;
    return put_scalar(t, TRAIN, h->event.epoch, "epoch_", "learning_rate", "", lk_optimizer_learning_rate(o));
}

/* ---- weights ----------------------------------------------------------------------------------------------------------------- */

static lk_status put_image(lki_events *e, int64_t epoch, const char *tag, const lk_shape *shape, const float *value)
{
    lki_image image LKI_FREED_BY(lki_image_free) = {0};
    bool      made;
    LKI_TRY(lki_kernel_image(shape, value, &image, &made));
    if (!made) return LK_OK;
    return lki_events_image(e, wall_time(), epoch, tag, image.width, image.height, image.channels, image.pixels);
}

static lk_status put_weight(tensorboard *t, const lk_event *event, lk_variable *v, bool histogram, bool image)
{
    char           tag[512];
    lk_tensor     *value = lk_cast(lk_read(v), LK_F32);
    const float   *element = lk_data(value);
    const lk_shape shape = lk_variable_shape(v);
    if (!element) return lk_error_code();
    LKI_TRY(get_file(t, TRAIN));
    const int size = snprintf(tag, sizeof tag - 16, "%s/%s", lk_model_name(event->model), lk_variable_name(v));
    char     *behind = tag + lki_min(size, (int)sizeof tag - 17);
    strcpy(behind, "/histogram");
    if (histogram) LKI_TRY(lki_events_histogram(t->file[TRAIN], wall_time(), event->epoch, tag, element, lk_size(value)));
    strcpy(behind, "/image");
    return image ? put_image(t->file[TRAIN], event->epoch, tag, &shape, element) : LK_OK;
}

static lk_status put_weights(tensorboard *t, const lki_happening *h)
{
    const int  every = t->args.histogram_freq;
    const bool histogram = every && h->event.epoch % every == 0, image = t->args.write_images == LK_ON && (histogram || !every);
    lk_status  status = LK_OK;
    if (!histogram && !image) return LK_OK;
    LK_POOL {
        const lk_variables v = lk_model_weights(h->event.model);
        for (int i = 0; i < v.count && status == LK_OK; i++)
            LK_STEP {
                status = put_weight(t, &h->event, v.item[i], histogram, image);
            }
    }
    return status;
}

/* ---- the model as text ------------------------------------------------------------------------------------------------------- */

/* A row of a table in Markdown: name, Keras' class, its weights and their number of elements. */
static int64_t put_layer(lki_text *t, lk_layer *l)
{
    const lk_variables v = lk_layer_variables(l);
    char               shape[LKI_SHAPE_TEXT];
    int64_t            total = 0;
    lki_text_put(t, "| %s | %s | ", l->name, l->kind->class.name ? l->kind->class.name : l->kind->name);
    for (int i = 0; i < v.count; i++) {
        const char    *name = lk_variable_name(v.item[i]), *last = strrchr(name, '/');
        const lk_shape s = lk_variable_shape(v.item[i]);
        lki_text_put(t, "%s%s %s", i ? ", " : "", last ? last + 1 : name, lki_shape_text(&s, shape));
        total += lki_shape_size(&s);
    }
    lki_text_put(t, " | %lld |\n", (long long)total);
    return total;
}

static void put_layers(lki_text *t, lk_model *m)
{
    const lk_layers layers = lk_model_layers(m);
    int64_t         total = 0;
    lki_text_put(t, "**%s**\n\n| layer | type | weights | parameters |\n|---|---|---|--:|\n", lk_model_name(m));
    for (int i = 0; i < layers.count; i++)
        total += put_layer(t, layers.item[i]);
    lki_text_put(t, "| | | **total** | **%lld** |\n", (long long)total);
}

/* A model with custom code has no JSON: a warning, not an error. */
static void put_json(lki_text *t, lk_model *m)
{
    LKI_SCOPE_ERRORS;
    lki_error_record mine;
    const char      *json = lk_model_to_json(m);
    if (json) lki_text_put(t, "```json\n%s\n```\n", json);
    lki_error_take(&mine);
    if (!json) lki_warn("TensorBoard: the model is not written as JSON: %s", mine.text);
}

static lk_status put_text(tensorboard *t, const char *tag, lki_text *made)
{
    lk_status status = made->failed ? LK_ENOMEM : get_file(t, TRAIN);
    if (status == LK_OK && made->size) status = lki_events_text(t->file[TRAIN], wall_time(), 0, tag, made->data);
    lki_text_free(made);
    return status;
}

static lk_status describe(tensorboard *t, lk_model *m)
{
    lki_text layers = {0}, json = {0};
    LK_POOL {
        put_layers(&layers, m);
        put_json(&json, m);
    }
    const lk_status status = put_text(t, "model", &layers), other = put_text(t, "keras", &json);
    return status != LK_OK ? status : other;
}

/* ---- hooks ------------------------------------------------------------------------------------------------------------------- */

/* A failing log never ends training: errors of the system become a warning. */
static lk_status go_on(tensorboard *t, lk_status status)
{
    lki_error_record why;
    if (status != LK_EIO) return status;
    lki_error_take(&why);
    if (!t->warned) lki_warn("TensorBoard: this log is incomplete: %s; training continues", why.text);
    t->warned = true;
    return LK_OK;
}

static lk_status train_begin(lk_callback *c, const lki_happening *h)
{
    (void)h;
    tensorboard *t = (tensorboard *)c;
    t->in_fit = true;
    t->warned = false;
    t->described = t->args.write_graph == LK_OFF;
    t->steps = 0;
    t->last = -1;
    lki_every_begin(&t->every);
    return get_file(t, TRAIN);
}

/* After the first step the model has all its weights. */
static lk_status put_batch(tensorboard *t, const lki_happening *h)
{
    if (!t->described) {
        t->described = true;
        LKI_TRY(describe(t, h->event.model));
    }
    if (!lki_every_due(&t->every, h->event.batch)) return LK_OK;
    for (int i = 0; i < h->event.logs.count; i++)
        LKI_TRY(put_scalar(t, TRAIN, t->steps, "batch_", h->event.logs.name[i], "", h->event.logs.value[i]));
    return LK_OK;
}

static lk_status train_batch_end(lk_callback *c, const lki_happening *h)
{
    tensorboard  *t = (tensorboard *)c;
    const int64_t batch = h->event.batch;
    t->steps += batch > t->last ? batch - t->last : batch + 1;
    t->last = batch;
    return go_on(t, put_batch(t, h));
}

static lk_status epoch_end(lk_callback *c, const lki_happening *h)
{
    tensorboard *t = (tensorboard *)c;
    LKI_TRY(go_on(t, put_epoch(t, h)));
    LKI_TRY(go_on(t, put_weights(t, h)));
    return go_on(t, flush_files(t));
}

static lk_status put_evaluation(tensorboard *t, const lki_happening *h)
{
    const lk_optimizer *o = lk_model_optimizer(h->event.model);
    for (int i = 0; o && !h->failed && i < h->event.logs.count; i++)
        LKI_TRY(put_scalar(t, VALIDATION, lk_optimizer_iterations(o), "evaluation_", h->event.logs.name[i], "_vs_iterations",
                           h->event.logs.value[i]));
    return LK_OK;
}

static lk_status test_end(lk_callback *c, const lki_happening *h)
{
    tensorboard *t = (tensorboard *)c;
    LKI_TRY(go_on(t, put_evaluation(t, h)));
    return t->in_fit ? LK_OK : go_on(t, close_file(t, VALIDATION));
}

static lk_status train_end(lk_callback *c, const lki_happening *h)
{
    (void)h;
    tensorboard    *t = (tensorboard *)c;
    const lk_status status = go_on(t, close_file(t, TRAIN)), other = go_on(t, close_file(t, VALIDATION));
    t->in_fit = false;
    return status != LK_OK ? status : other;
}

static void save(const lk_callback *c, lki_sink *s)
{
    const tensorboard *t = (const tensorboard *)c;
    lki_state_put(s, t->steps);
    lki_state_put(s, t->last);
    lki_state_put(s, t->described);
    lki_every_save(&t->every, s);
}

static lk_status load(lk_callback *c, lki_wire *w)
{
    tensorboard *t = (tensorboard *)c;
    t->steps = lki_state_get_within(w, 0, INT64_MAX / 2);
    t->last = lki_state_get_within(w, -1, INT64_MAX / 2);
    t->described = lki_state_get(w) != 0;
    lki_every_load(&t->every, w);
    return LK_OK;
}

static void destroy(lk_callback *c)
{
    tensorboard *t = (tensorboard *)c;
    for (int s = 0; s < SIDES; s++) {
        close_file(t, (side)s);
        lki_release(t->folder[s]);
    }
}

static bool looks(const lk_callback *c, lki_hook hook)
{
    return hook != LKI_HOOK_train_batch_end || ((const tensorboard *)c)->every.steps > 0;
}

static const lki_callback_kind TENSORBOARD = {
    .name = "TensorBoard",
    .bytes = sizeof(tensorboard),
    .looks = looks,
    .on = {[LKI_HOOK_train_begin] = train_begin,
           [LKI_HOOK_train_batch_end] = train_batch_end,
           [LKI_HOOK_epoch_end] = epoch_end,
           [LKI_HOOK_test_end] = test_end,
           [LKI_HOOK_train_end] = train_end},
    .destroy = destroy,
    .save = save,
    .load = load,
};

static char *folder_of(const char *log_dir, const char *name) { return lki_text_new("%s/%s", log_dir, name); }

lk_callback *lk_tensorboard_kw(lk_tensorboard_args args)
{
    const char *log_dir = args.log_dir ? args.log_dir : "logs";
    if (!*log_dir) {
        lki_fail(LK_EINVAL, "lk_tensorboard: log_dir is \"\"; it should name a folder");
        return NULL;
    }
    if (args.histogram_freq < 0 || args.update_freq < 0) {
        lki_fail(LK_EINVAL, "lk_tensorboard: %s is below 0; it should be a number of %s",
                 args.histogram_freq < 0 ? "histogram_freq" : "update_freq",
                 args.histogram_freq < 0 ? "epochs, or 0 for never" : "steps, or 0 for every epoch");
        return NULL;
    }
    tensorboard *t = lki_callback_new(&TENSORBOARD);
    if (!t) return NULL;
    t->args = args;
    t->every.steps = args.update_freq;
    t->folder[TRAIN] = folder_of(log_dir, "train");
    t->folder[VALIDATION] = folder_of(log_dir, "validation");
    if (t->folder[TRAIN] && t->folder[VALIDATION]) return &t->base;
    lk_free(t);
    return NULL;
}
