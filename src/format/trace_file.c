/* A trace as a file in Chrome's trace format: process 0 of the picture is the program, 1 + r is replica r; threads are threads. */
#include "format/durable.h"
#include "format/json.h"
#include "format/trace.h"
#include <lockstep/step.h>
#include <stdio.h>

static void number(lki_json_out *o, const char *key, int64_t value)
{
    lki_json_key(o, key);
    lki_json_int(o, value);
}

static void text(lki_json_out *o, const char *key, const char *value)
{
    lki_json_key(o, key);
    lki_json_text(o, value);
}

static void micros(lki_json_out *o, const char *key, int64_t nanoseconds)
{
    lki_json_key(o, key);
    lki_json_real(o, (double)nanoseconds * 1e-3);
}

static void write_span(const lki_span *s, int thread, const char *thread_name, void *out)
{
    static const char *const KINDS[LKI_SPAN_KINDS] = {"compute", "communication", "input", "step", "prepare"};
    lki_json_out            *o = out;
    (void)thread_name;
    lki_json_open(o, '{');
    text(o, "name", s->name);
    text(o, "cat", KINDS[s->kind]);
    text(o, "ph", "X");
    micros(o, "ts", s->began - lki_trace_zero());
    micros(o, "dur", s->ended - s->began);
    number(o, "pid", s->replica + 1);
    number(o, "tid", thread);
    if (s->lane >= 0) {
        lki_json_key(o, "args");
        lki_json_open(o, '{');
        number(o, "lane", s->lane);
        lki_json_close(o, '}');
    }
    lki_json_close(o, '}');
}

static void write_name(lki_json_out *o, const char *what, int process, int thread, const char *name)
{
    lki_json_open(o, '{');
    text(o, "name", what);
    text(o, "ph", "M");
    number(o, "pid", process);
    number(o, "tid", thread);
    lki_json_key(o, "args");
    lki_json_open(o, '{');
    text(o, "name", name);
    lki_json_close(o, '}');
    lki_json_close(o, '}');
}

typedef struct namer { /* names each thread once */
    lki_json_out *out;
    int           last;
} namer;

static void name_thread(const lki_span *s, int thread, const char *thread_name, void *user)
{
    namer *n = user;
    (void)s;
    if (thread == n->last) return;
    n->last = thread;
    for (int r = 0; r <= lki_trace_replica_count() && *thread_name; r++)
        write_name(n->out, "thread_name", r, thread, thread_name);
}

lk_status lk_trace_end(const char *path)
{
    lki_json_out o LKI_FREED_BY(lki_json_out_free) = {0};
    char         name[32];
    if (!path) return lki_fail(LK_EINVAL, "lk_trace_end: the path is NULL");
    LKI_TRY(lki_trace_stop());
    lki_json_open(&o, '{');
    text(&o, "displayTimeUnit", "ns");
    lki_json_key(&o, "traceEvents");
    lki_json_open(&o, '[');
    for (int r = 0; r <= lki_trace_replica_count(); r++) {
        if (r) snprintf(name, sizeof name, "replica %d", r - 1);
        write_name(&o, "process_name", r, 0, r ? name : "program");
    }
    lki_trace_each(name_thread, &(namer){&o, -1});
    int64_t dropped = lki_trace_each(write_span, &o);
    lki_json_close(&o, ']');
    number(&o, "dropped", dropped);
    lki_json_close(&o, '}');
    lk_status status = o.failed ? LK_ENOMEM : lki_durable_file(path, o.text, o.size);
    if (status != LK_OK) lki_trace_go_on(); /* the trace is not lost: the caller may try another path */
    return status;
}
