/* ModelCheckpoint: save the model after each epoch or every n steps: always, or only if it is better than before.
 *
 * The end of the path decides what is written:
 *
 *   .keras         the whole model, lk_model_save()
 *   .weights.h5    its weights, lk_model_save_weights()
 *   any other      a checkpoint of TensorFlow under that prefix, with "model" and (without save_weights_only) "optimizer" in it; it
 *                  becomes the latest of its folder */
#include "core/memory.h"
#include "core/option.h"
#include "fit/callback.h"
#include "format/checkpoint_state.h"
#include "format/durable.h"
#include <lockstep/keras.h>
#include <string.h>

static const char CALL[] = "lk_model_checkpoint";

typedef lk_status (*save_fn)(lk_model *m, const char *path);

typedef struct model_checkpoint {
    lk_callback base;
    lki_monitor monitor;
    char       *path; /* with {} in it */
    save_fn     save;
    lki_every   every; /* without steps: every epoch */
    bool        best_only;
    int         verbose;
} model_checkpoint;

/* ---- what is written --------------------------------------------------------------------------------------------------------- */

static lk_status write_checkpoint(int count, const lk_trackable *one_based, const char *prefix)
{
    lk_status status = LK_OK;
    LK_POOL {
        lk_checkpoint *c = lk_checkpoint_from(count, one_based);
        const char    *path = c ? lk_checkpoint_write(c, prefix) : NULL;
        status = path ? lki_checkpoint_state_write(path) : lk_error_code();
    }
    return status;
}

static lk_status save_model_only(lk_model *m, const char *prefix)
{
    return write_checkpoint(1, (lk_trackable[]){{0}, {"model", m}}, prefix);
}

static lk_status save_model_and_optimizer(lk_model *m, const char *prefix)
{
    lk_optimizer *o = lk_model_optimizer(m);
    return write_checkpoint(o ? 2 : 1, (lk_trackable[]){{0}, {"model", m}, {"optimizer", o}}, prefix);
}

static bool ends_in(const char *path, const char *end)
{
    const size_t size = strlen(path), length = strlen(end);
    return size >= length && strcmp(path + size - length, end) == 0;
}

static save_fn choose(const char *path, bool weights_only)
{
    if (ends_in(path, ".weights.h5")) return lk_model_save_weights;
    if (ends_in(path, ".keras") && !weights_only) return lk_model_save;
    if (!ends_in(path, ".keras") && !ends_in(path, ".h5")) return weights_only ? save_model_only : save_model_and_optimizer;
    lki_fail(LK_EINVAL, "%s: filepath \"%s\": %s", CALL, path,
             weights_only ? "with save_weights_only it should end in .weights.h5, or be the prefix of a checkpoint"
                          : "a whole model is saved as .keras, weights as .weights.h5");
    return NULL;
}

/* ---- when -------------------------------------------------------------------------------------------------------------------- */

/* Without the monitored value every model is saved. */
static bool should_save(model_checkpoint *c, const lki_happening *h, const lk_logs *logs, const char *path)
{
    const int    epoch = h->event.epoch + 1;
    const double best = c->monitor.best;
    double       value;
    if (!c->best_only) {
        if (c->verbose > 0) lki_say("\nEpoch %d: saving model to %s\n", epoch, path);
        return true;
    }
    if (!lki_monitor_value(&c->monitor, "Saving the best model only is", logs, &value)) return true;
    if (!lki_monitor_better(&c->monitor, value, best)) {
        if (c->verbose > 0) lki_say("\nEpoch %d: %s did not improve from %.5f\n", epoch, c->monitor.name, best);
        return false;
    }
    if (c->verbose > 0)
        lki_say("\nEpoch %d: %s improved from %.5f to %.5f, saving model to %s\n", epoch, c->monitor.name, best, value, path);
    c->monitor.best = value;
    return true;
}

static lk_status save(model_checkpoint *c, const lki_happening *h, int64_t batch)
{
    const lk_logs logs = lki_logs_of(h);
    lk_status     status = LK_OK;
    char         *path;
    LKI_TRY(lki_template_fill(CALL, c->path, h->event.epoch, batch, &logs, &path));
    if (should_save(c, h, &logs, path)) {
        status = lki_folder_make(path);
        if (status == LK_OK) status = c->save(h->event.model, path);
        if (status == LK_OK && c->verbose > 0) lki_say("\nEpoch %d: finished saving model to %s\n", h->event.epoch + 1, path);
    }
    lki_release(path);
    return status;
}

/* ---- hooks ------------------------------------------------------------------------------------------------------------------- */

/* The best value is kept between calls of fit, as in Keras. */
static lk_status begin(lk_callback *base, const lki_happening *h)
{
    (void)h;
    lki_every_begin(&((model_checkpoint *)base)->every);
    return LK_OK;
}

static lk_status batch_end(lk_callback *base, const lki_happening *h)
{
    model_checkpoint *c = (model_checkpoint *)base;
    return lki_every_due(&c->every, h->event.batch) ? save(c, h, h->event.batch) : LK_OK;
}

static lk_status epoch_end(lk_callback *base, const lki_happening *h)
{
    model_checkpoint *c = (model_checkpoint *)base;
    return c->every.steps ? LK_OK : save(c, h, -1);
}

static void destroy(lk_callback *base)
{
    model_checkpoint *c = (model_checkpoint *)base;
    lki_monitor_end(&c->monitor);
    lki_release(c->path);
}

static void save_state(const lk_callback *base, lki_sink *s)
{
    const model_checkpoint *c = (const model_checkpoint *)base;
    lki_monitor_save(&c->monitor, s);
    lki_every_save(&c->every, s);
}

static lk_status load_state(lk_callback *base, lki_wire *w)
{
    model_checkpoint *c = (model_checkpoint *)base;
    lki_monitor_load(&c->monitor, w);
    lki_every_load(&c->every, w);
    return LK_OK;
}

static bool looks(const lk_callback *c, lki_hook hook)
{
    return hook != LKI_HOOK_train_batch_end || ((const model_checkpoint *)c)->every.steps > 0;
}

static const lki_callback_kind MODEL_CHECKPOINT = {
    .name = "ModelCheckpoint",
    .bytes = sizeof(model_checkpoint),
    .looks = looks,
    .on = {[LKI_HOOK_train_begin] = begin, [LKI_HOOK_train_batch_end] = batch_end, [LKI_HOOK_epoch_end] = epoch_end},
    .destroy = destroy,
    .save = save_state,
    .load = load_state,
};

lk_callback *lk_model_checkpoint_kw(lk_model_checkpoint_args args)
{
    if (!args.filepath || !*args.filepath) {
        lki_fail(LK_EINVAL, "%s: filepath is missing; say %s(\"{epoch:02d}.keras\")", CALL, CALL);
        return NULL;
    }
    if (args.save_freq < 0) {
        lki_fail(LK_EINVAL, "%s: save_freq %lld; it should be a number of steps, or 0 for every epoch", CALL,
                 (long long)args.save_freq);
        return NULL;
    }
    const save_fn how = choose(args.filepath, args.save_weights_only == LK_ON);
    if (!how || lki_template_check(CALL, args.filepath) != LK_OK) return NULL;
    model_checkpoint *c = lki_callback_new(&MODEL_CHECKPOINT);
    if (!c) return NULL;
    c->save = how;
    c->every.steps = args.save_freq;
    c->best_only = args.save_best_only == LK_ON;
    c->verbose = args.verbose;
    if ((c->path = lki_strdup(args.filepath)) && lki_monitor_begin(CALL, &c->monitor, args.monitor, args.mode, 0) == LK_OK) {
        lki_monitor_reset(&c->monitor, args.initial_value_threshold);
        return &c->base;
    }
    lk_free(c);
    return NULL;
}
