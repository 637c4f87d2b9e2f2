/* Inspects checkpoints and folders of checkpoints (inspect.h). Reports the contents of a checkpoint, and what lockstep stores in
 * addition: how it was computed, and where training can be resumed. */
#include "core/shape.h"
#include "files/inspect.h"
#include "fit/resume.h"
#include "keras/file.h"
#include "model/snapshot.h"
#include <string.h>

/* ---- a checkpoint ---- */

static void tell_provenance(const char *prefix, lki_report *r)
{
    lki_provenance o;
    if (lki_checkpoint_provenance(prefix, &o) != LK_OK) return;
    lki_report_whole(r, "lanes", o.lanes);
    if (o.device[0]) lki_report_text(r, "device", o.device);
    if (o.precision[0]) lki_report_text(r, "precision", o.precision);
    lki_report_whole(r, "kernel_version", o.kernels);
}

/* If training can be resumed from this checkpoint, reports where training stopped. */
static lk_status tell_resume(const char *prefix, lki_report *r)
{
    lki_bytes       bytes LKI_FREED_BY(lki_bytes_free) = {0};
    lki_resume      resume LKI_FREED_BY(lki_resume_free) = {0};
    const lk_status found = lki_checkpoint_extra(prefix, LKI_RESUME_KEY, &bytes);
    if (found != LK_OK) return found == LK_ENOTFOUND ? LK_OK : found;
    LKI_TRY(lki_resume_open(prefix, &bytes, &resume));
    lki_report_whole(r, "resume_epoch", resume.place.epoch);
    lki_report_whole(r, "resume_batch", resume.place.batch);
    lki_report_whole(r, "resume_steps", resume.steps);
    lki_report_whole(r, "resume_replicas", resume.replicas);
    lki_report_whole(r, "resume_seed", (int64_t)resume.seed);
    lki_report_text(r, "resume_state",
                    resume.over           ? "training had finished"
                    : resume.place.within ? "in the middle of the epoch"
                                          : "before the epoch");
    return LK_OK;
}

static void tell_entry(const lki_bundle_entry *e, lki_report *r)
{
    char     name[24];
    lk_shape shape = {.rank = e->rank};
    for (int i = 0; i < e->rank; i++)
        shape.dim[i] = (int64_t)e->dim[i];
    lki_report_line *l = lki_report_line_add(r, e->key, lki_bundle_type_name(e->type, name), e->sliced ? "stored in slices" : NULL);
    if (lki_shape_valid(&shape)) l->shape = shape;
    l->bytes = e->size <= INT64_MAX ? (int64_t)e->size : -1;
    l->texts = e->type == LKI_BUNDLE_TEXT;
}

static lk_status tell_entries(const char *prefix, lki_report *r)
{
    lki_bundle b;
    LKI_TRY(lki_bundle_open(prefix, &b));
    lki_report_table(r, "entries");
    for (int i = 0; i < b.count; i++)
        tell_entry(&b.entry[i], r);
    lki_bundle_close(&b);
    return LK_OK;
}

static lk_status tell_checkpoint(const char *prefix, lki_report *r)
{
    LKI_TRY(lki_checkpoint_verify(prefix));
    tell_provenance(prefix, r);
    LKI_TRY(tell_resume(prefix, r));
    return tell_entries(prefix, r);
}

lk_status lki_inspect_checkpoint(const char *path, lki_report *r)
{
    char       *prefix LKI_RELEASED = lki_checkpoint_prefix(path);
    const char *data = strstr(path, ".data-");
    if (!prefix) return LK_ENOMEM;
    if (data && !strchr(data, '/')) prefix[data - path] = 0;
    lki_report_kind(r, "TensorFlow checkpoint");
    return tell_checkpoint(prefix, r);
}

/* ---- a folder ---- */

static int64_t size_of(const char *prefix)
{
    lki_bundle b;
    int64_t    bytes = 0;
    if (lki_bundle_open(prefix, &b) != LK_OK) return -1;
    for (int i = 0; i < b.opened; i++)
        bytes += (int64_t)b.shard[i].size;
    lki_bundle_close(&b);
    return bytes;
}

/* Lists all checkpoints. For a damaged one the error is in the list, and the function continues. */
static lk_status tell_folder(const lki_checkpoints *c, lki_report *r)
{
    lki_report_table(r, "checkpoints");
    for (int i = 0; i < c->count; i++) {
        lki_error_record before, mine;
        char            *prefix LKI_RELEASED = lki_path_in(c->folder, c->name[i]);
        if (!prefix) return LK_ENOMEM;
        lki_error_take(&before);
        const bool    good = lki_checkpoint_verify(prefix) == LK_OK;
        const int64_t bytes = good ? size_of(prefix) : -1;
        lki_error_take(&mine);
        lki_error_put(&before);
        const char      *note = !good ? mine.text : strcmp(prefix, c->latest) ? NULL : "the latest";
        lki_report_line *l = lki_report_line_add(r, c->name[i], NULL, note);
        l->bytes = bytes;
    }
    return LK_OK;
}

lk_status lki_inspect_folder(const char *path, lki_report *r)
{
    lki_checkpoints c LKI_FREED_BY(lki_checkpoints_free) = {0};
    LKI_TRY(lki_checkpoints_list(path, &c));
    lki_report_kind(r, "a folder of checkpoints");
    lki_report_text(r, "latest", c.latest);
    LKI_TRY(tell_folder(&c, r));
    return tell_checkpoint(c.latest, r); /* an error if the latest checkpoint is damaged */
}
