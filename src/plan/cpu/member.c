/* Threads of this process as a member of several (plan/member.h). Its word `stop` is 0, or 1 more than the op that met an index out
 * of range, here or on another member; while it is set no call runs. */
#include "plan/member.h"
#include "core/memory.h"
#include "op/run.h"
#include "plan/cpu/cpu.h"
#include <string.h>

typedef struct cpu_member {
    lki_plan_member       is;
    lki_cpu_plan         *plan;
    const lki_value_list *in;
    int                   stop;
} cpu_member;

static cpu_member *of(lki_plan_member *m) { return (cpu_member *)m; }

static bool suits(const lki_device *d, char why[LKI_WHY])
{
    (void)why;
    return lki_on_host(d);
}

/* ---- its life ---- */

static void free_member(lki_plan_member *m)
{
    if (!m) return;
    lki_cpu_free(of(m)->plan);
    lki_release(m);
}

static lki_plan_member *make(const lki_member_args *a)
{
    cpu_member *m = lki_zalloc(sizeof *m);
    if (!m) return NULL;
    m->plan = lki_cpu_new(&(lki_cpu_args){.graph = a->graph,
                                          .device = a->device,
                                          .threads = a->threads,
                                          .lanes = a->lanes,
                                          .from = a->from,
                                          .end = a->end,
                                          .order = a->order,
                                          .order_count = a->order_count,
                                          .trees = a->trees,
                                          .placed = a->placed});
    if (!m->plan) {
        free_member(&m->is);
        return NULL;
    }
    m->is = (lki_plan_member){&lki_cpu_members, a->device, m->plan->parts, &m->stop, m->plan->suspect_count > 0};
    return &m->is;
}

static char *home(lki_plan_member *m, int value) { return lki_cpu_home(of(m)->plan, value, of(m)->in); }

static void info_of(const lki_plan_member *m, lk_function_info *info) { lki_cpu_info(((const cpu_member *)m)->plan, info); }

/* ---- a replay ---- */

static lk_status begin(lki_plan_member *const *m, int count, int64_t call, const lki_value_list *in, int64_t *work)
{
    (void)call;
    *work = 0;
    for (int i = 0; i < count; i++) {
        of(m[i])->in = in;
        of(m[i])->stop = 0;
        LKI_TRY(lki_cpu_bind(of(m[i])->plan, in));
    }
    return LK_OK;
}

static lk_status run(lki_plan_member *member, int part)
{
    cpu_member *m = of(member);
    if (m->stop) return LK_OK;
    LKI_TRY(lki_cpu_run(m->plan, part));
    const lki_op fault = lki_cpu_fault(m->plan);
    if (fault != LKI_OP_COUNT) m->stop = 1 + (int)fault;
    return LK_OK;
}

static lk_status copy(lki_plan_member *m, int count, const lki_member_piece *pieces)
{
    (void)m;
    for (int i = 0; i < count; i++)
        memcpy(pieces[i].dst, pieces[i].src, pieces[i].bytes);
    return LK_OK;
}

static lk_status agree(lki_plan_member *m, int count, const int *words)
{
    for (int i = 0; i < count; i++)
        if (words[i] > *m->stop) *m->stop = words[i];
    return LK_OK;
}

static lk_status report(lki_plan_member *const *m, int count, int64_t work)
{
    int stop = 0;
    (void)work;
    for (int i = 0; i < count; i++)
        stop = of(m[i])->stop > stop ? of(m[i])->stop : stop;
    return stop ? lki_fail_fault((lki_op)(stop - 1)) : LK_OK;
}

const lki_member_kind lki_cpu_members = {.suits = suits,
                                         .rewrite = lki_cpu_rewrite,
                                         .make = make,
                                         .free = free_member,
                                         .home = home,
                                         .info = info_of,
                                         .begin = begin,
                                         .run = run,
                                         .copy = copy,
                                         .agree = agree,
                                         .report = report};
