/* Running launches: one by one, or captured; and calls on the host. */
#include "op/run.h"
#include "core/lock.h"
#include "core/thread.h"
#include "format/trace.h"
#include "plan/card/inside.h"
#include <stdio.h>
#include <string.h>

static lk_status launch(lki_card *c, const lki_card_launch *l, void *stream)
{
    const lki_node *n = c->calls[l->from].node;
    for (int i = l->from; i < l->end; i++) {
        c->calls[i].gpu.stream = stream;
        c->calls[i].parts = (lki_row_parts){0};
    }
    if (l->end - l->from > 1) c->grouping->run[l->kind](l->end - l->from, &c->members[l->from]);
    else c->line->kernels->fn[n->slot][n->type](&c->calls[l->from].args);
    return lki_gpu_check(c->device, lki_op_name(n->op), c->line->backend->failure(c->line->card));
}

/* Reports the failure code of a call that concerns the whole step. */
static lk_status check_step(const lki_card *c, const char *what, int code)
{
    char text[96];
    if (!code) return LK_OK;
    snprintf(text, sizeof text, "a step of %.40s %s", c->graph->name ? c->graph->name : "a function", what);
    return lki_gpu_check(c->device, text, code);
}

static lk_status launch_all(lki_card *c, const lki_card_part *p)
{
    LKI_TRY(check_step(c, "cannot be launched", c->line->backend->flush(c->line->card)));
    for (int i = p->from; i < p->end; i++)
        LKI_TRY(launch(c, &c->launches[i], c->line->stream));
    return LK_OK;
}

/* ---- captured ---- */

static lk_status capture_launches(lki_card *c, const lki_card_part *p, void *capture)
{
    for (int i = p->from; i < p->end; i++) {
        const lki_card_launch *l = &c->launches[i];
        void                  *stream = NULL;
        LKI_TRY(check_step(c, "cannot be captured",
                           c->line->backend->capture_call(c->line->card, capture, l->after_count, c->after + l->after, &stream)));
        if (!l->once) LKI_TRY(launch(c, l, stream)); /* the first replay computed its results */
    }
    return LK_OK;
}

/* After the launches. */
static lk_status capture_outputs(lki_card *c, void *capture)
{
    const lki_gpu_line *l = c->line;
    void               *stream = NULL;
    LKI_TRY(check_step(c, "cannot be captured",
                       l->backend->capture_call(l->card, capture, c->given_count, c->after + c->given, &stream)));
    return check_step(c, "cannot be captured", l->backend->copies(l->card, stream, c->result_count, c->results));
}

static lk_status capture(lki_card *c, lki_card_part *p)
{
    const lki_gpu_backend *b = c->line->backend;
    void                  *noted = NULL;
    LKI_TRY(check_step(c, "cannot be captured", b->capture_begin(c->line->card, &noted)));
    lk_status status = capture_launches(c, p, noted);
    if (status == LK_OK && c->gives) status = capture_outputs(c, noted);
    const int code = b->capture_end(c->line->card, noted, &p->graph);
    if (code) p->graph = NULL;
    if (status != LK_OK && p->graph) { /* only a part of it */
        b->release_graph(p->graph);
        p->graph = NULL;
    }
    return status == LK_OK ? check_step(c, "could not be captured", code) : status;
}

static bool arrives(const lki_card *c, const lki_card_launch *l)
{
    for (int i = l->from; i < l->end; i++)
        if (c->calls[i].arrives) return true;
    return false;
}

static lk_status note_arrivals(lki_card *c, const lki_card_part *p, void *variant)
{
    const lki_gpu_backend *b = c->line->backend;
    void                  *stream = NULL;
    for (int i = p->from; i < p->end; i++) {
        if (c->launches[i].once || !arrives(c, &c->launches[i])) continue;
        LKI_TRY(check_step(c, "cannot be varied", b->variant_call(c->line->card, variant, i - p->from, &stream)));
        LKI_TRY(launch(c, &c->launches[i], stream));
    }
    return LK_OK;
}

lk_status lki_card_capture_variant(lki_card *c, void **variant)
{
    const lki_gpu_backend *b = c->line->backend;
    LKI_TRY(check_step(c, "cannot be varied", b->variant_begin(c->line->card, c->parts[0].graph, variant)));
    lk_status status = note_arrivals(c, &c->parts[0], *variant);
    const int code = b->variant_end(c->line->card, *variant);
    if (status == LK_OK) status = check_step(c, "cannot be varied", code);
    if (status == LK_OK) return LK_OK;
    b->release_variant(*variant);
    *variant = NULL;
    return status;
}

static lk_status run_captured(const lki_card *c, const lki_card_part *p, void *variant)
{
    const lki_gpu_line    *l = c->line;
    const lki_gpu_backend *b = l->backend;
    int                    code = b->vary(l->card, p->graph, variant);
    if (!code && c->gives) code = b->recopy(l->card, p->graph, p->end - p->from, c->result_count, c->results);
    return check_step(c, "cannot be launched", code ? code : b->launch(l->card, l->stream, p->graph));
}

/* ---- traced ---- */

LKI_MUTEX(names_lock);

/* "update_adam x 6". Names of spans live as long as the process, so there are at most NAMES of them. */
static const char *name_of(const lki_card *c, const lki_card_launch *l)
{
    enum { NAMES = 256 };
    static char names[NAMES][48];
    const int   count = l->end - l->from;
    const char *op = lki_op_name(c->calls[l->from].node->op), *what = l->kind == LKI_GROUP_SMALL ? "small" : op, *found = what;
    char        text[48];
    if (count == 1) return op;
    snprintf(text, sizeof text, "%.32s x %d", what, count);
    lki_mutex_take(&names_lock);
    for (int i = 0; i < NAMES; i++) {
        if (!names[i][0]) memcpy(names[i], text, sizeof text);
        if (strcmp(names[i], text)) continue;
        found = names[i];
        break;
    }
    lki_mutex_give(&names_lock);
    return found;
}

/* One launch after the other: each is waited for, and its time is recorded, with the time for launching and waiting. */
static lk_status run_traced(lki_card *c, const lki_card_part *p)
{
    LKI_TRY(lki_gpu_wait(c->device));
    for (int i = p->from; i < p->end; i++) {
        const lki_card_launch *l = &c->launches[i];
        const int64_t          began = lki_span_begin();
        LKI_TRY(launch(c, l, c->line->stream));
        LKI_TRY(lki_gpu_wait(c->device));
        lki_span_end(began, c->calls[l->from].node->writes ? LKI_SPAN_COMMUNICATION : LKI_SPAN_COMPUTE, name_of(c, l), -1);
    }
    return LK_OK;
}

/* Copies the outputs that the captured graph would have copied, after a replay that did not use it. */
static lk_status copy_outputs(const lki_card *c)
{
    const lki_gpu_line *l = c->line;
    return c->gives ? lki_gpu_check(c->device, "a copy failed", l->backend->copies(l->card, l->stream, c->result_count, c->results))
                    : LK_OK;
}

bool lki_card_is_captured(const lki_card *c)
{
    return c->part_count == 1 && c->parts[0].graph && !__atomic_load_n(&lki_tracing, __ATOMIC_RELAXED);
}

lk_status lki_card_run_part(lki_card *c, lki_card_part *p, void *variant)
{
    const bool traced = !variant && __atomic_load_n(&lki_tracing, __ATOMIC_RELAXED); /* inputs of a variant are not in the block */
    if (traced || c->replays == 0) {
        LKI_TRY(traced ? run_traced(c, p) : launch_all(c, p));
        return copy_outputs(c);
    }
    if (p->from == p->end) return LK_OK;
    if (!p->graph) LKI_TRY(capture(c, p));
    return run_captured(c, p, variant);
}

/* ---- on the host ---- */

/* A call on the host: operands are copied from the card, and results to it. After a fault updates are not run. */
lk_status lki_card_run_on_host(lki_card *c, const lki_card_call *k)
{
    enum { MOST = 256 };
    const lki_node    *n = k->node;
    lki_device        *d = c->device;
    const lki_kernels *host = lki_kernels_here();
    lki_view           view[MOST];
    lki_args           a = k->args;
    int                fault = 0, stopped = 0, operands = n->nsrc + n->ndst;
    lk_status          status = LK_OK;
    if (operands > MOST) status = lki_fail(LK_EUNSUPPORTED, "%s: %d operands are too many", lki_op_name(n->op), operands);
    if (status == LK_OK) status = d->ops->read(d, &stopped, c->stop, sizeof stopped);
    memset(view, 0, sizeof view);
    for (int i = 0; i < n->nsrc + n->ndst && status == LK_OK; i++) {
        const lki_view *v = &k->args.src[i]; /* dst follows src */
        const size_t    bytes = lki_bytes_of(lki_shape_size(v->shape), lk_dtype_bytes(v->dtype));
        view[i] = (lki_view){lki_alloc(bytes), v->shape, v->dtype};
        if (!view[i].data) status = LK_ENOMEM;
        else if (v->data && (i < n->nsrc || n->writes)) status = d->ops->read(d, view[i].data, v->data, bytes);
    }
    a.src = view;
    a.dst = view + n->nsrc;
    a.fault = &fault;
    a.gpu = NULL;
    a.scratch = NULL;
    size_t scratch = status == LK_OK && host->scratch[n->slot][n->type] ? host->scratch[n->slot][n->type](&a) : 0;
    if (scratch && !(a.scratch = lki_alloc(scratch))) status = LK_ENOMEM;
    if (status == LK_OK && !(stopped && n->writes)) {
        unsigned before = lki_fp_enter();
        host->fn[n->slot][n->type](&a);
        lki_fp_leave(before);
        for (int i = 0; i < n->ndst && status == LK_OK; i++)
            status = d->ops->write(d, k->args.dst[i].data, a.dst[i].data,
                                   lki_bytes_of(lki_shape_size(a.dst[i].shape), lk_dtype_bytes(a.dst[i].dtype)));
        if (status == LK_OK && fault) status = lki_fail_fault(n->op);
    }
    for (int i = 0; i < n->nsrc + n->ndst; i++)
        lki_release(view[i].data);
    lki_release(a.scratch);
    return status;
}
