/* The executor of CPUs: from a graph to a flat list of kernel calls per thread.
 *
 *   tasks     a live node becomes one task, or several: a sum over rows taken lane by lane is a PARTIAL task (a sum per lane, up
 *             the tree as far as the thread's own lanes go) and a COMBINE task for each of its results (the rest of the tree)
 *   places    LANE    once per lane, lane after lane, by the thread that owns it: activations stay in its cache. Neighbouring
 *                     element-wise tasks are a chain and run piece by piece together, so that what passes between them stays in the
 *                     first-level cache
 *             THREAD  once per thread, over the rows of all its lanes: wide weights are read once
 *             COLUMNS a matrix product of all rows: every thread some columns of the result, so that each reads its own part of
 *                     weights that are far larger than what they are multiplied with
 *             TILES   every thread its share of the result, in pieces; neighbouring tasks over the same share run piece by piece
 *                     together, so a gradient is summed, clipped and applied while it is there. A piece fits the first-level cache,
 *                     or, where one of the tasks is a matrix product, which is slow on few rows, the second-level one; the others
 *                     then walk it in small ones
 *             SOLO    one thread does it all
 *   phases    a barrier lies between two tasks wherever one thread needs what another made; all tasks between two barriers are a
 *             phase
 *   memory    one block for what crosses threads or phases, one per thread for what lives within a lane or a piece
 *
 *   parts     a member of several (member.h) runs in parts, with exchanges between them. An exchange is a task without a call,
 *             which has a phase to itself. All other plans have one part
 *
 * A fault (an index out of range) found in an earlier phase keeps later updates from being made: a step that fails leaves variables
 * alone.
 *
 * Which places are chosen, and how many threads there are, never changes a bit: kernels sum in the order of kernel.h whatever the
 * cut. */
#ifndef LKI_PLAN_CPU_CPU_H
#define LKI_PLAN_CPU_CPU_H

#include "core/crew.h"
#include "core/memory.h"
#include "lane/lanes.h"
#include "plan/plan.h"

typedef enum lki_task_place { LKI_SOLO, LKI_LANE, LKI_THREAD, LKI_COLUMNS, LKI_TILES } lki_task_place;
typedef enum lki_task_kind { LKI_TASK_RUN, LKI_TASK_PARTIAL, LKI_TASK_COMBINE, LKI_TASK_EXCHANGE } lki_task_kind;

typedef struct lki_task {
    lki_task_kind  kind;
    lki_task_place place;
    int            node;
    int            phase, turn; /* turn: LANE and THREAD runs alternate within a phase */
    int            thread;      /* SOLO: its number */
    int            group;       /* TILES: tasks that run piece by piece together */
    int            chain;       /* LANE: the first task of its chain, which are neighbours in the order of tasks; -1: none */
    int64_t        size, unit;  /* TILES: elements of the result, and a multiple pieces must have (1: any) */
    int64_t        piece;       /* TILES: elements of the group's pieces */
    bool           coarse;      /* TILES: runs once for a whole piece, however large */
    int            partial;     /* COMBINE: the PARTIAL task */
    int            result;      /* COMBINE: which one of the node, ... */
    int64_t        before;      /* ... and elements of the results before it, in a buffer of the PARTIAL task */
    int            stack;       /* PARTIAL: buffers per thread; each has all results, one after the other, `size` elements */
    size_t         bytes;       /* PARTIAL: of one buffer */
    size_t         at;          /* PARTIAL: where the buffers begin in the shared block */
} lki_task;

typedef enum lki_home { LKI_HOME_OUTSIDE, LKI_HOME_SHARED, LKI_HOME_LANE, LKI_HOME_PIECE } lki_home;

typedef struct lki_storage { /* of a root value */
    lki_home home;
    size_t   at; /* in the shared block, or in each thread's block */
} lki_storage;

typedef struct lki_call {
    lki_kernel *fn; /* NULL: a barrier */
    lki_args    args;
    const char *name;   /* for pictures: the op, ... */
    int16_t     lane;   /* ... the lane it works on; -1: not on one */
    bool        shared; /* ... and whether it works on what lanes share: sums over them, updates */
} lki_call;

typedef struct lki_patch { /* an operand that lies in an input of the function */
    lki_view *view;
    int       input;
    size_t    offset;
} lki_patch;

typedef struct lki_suspect { /* a node that checks indices, and the phase it runs in */
    int node, phase;
} lki_suspect;

typedef struct lki_cpu_args {
    const lki_graph   *graph;
    lki_device        *device; /* where it runs */
    int                threads, lanes;
    int                from, end; /* lanes that it runs, of all */
    const int         *order; /* nodes as they may run one by one; read until lki_cpu_new() returns. NULL: lki_plan_sequence() */
    int                order_count;
    const lki_subtree *trees;  /* of a member, by node: the lanes that its sum is over; NULL: all */
    char             **placed; /* by root value: where it lies; an entry NULL: the plan places it; the list NULL: it places all */
} lki_cpu_args;

typedef struct lki_cpu_plan {
    lki_cpu_args     is;
    const lki_graph *graph;
    int              threads, lanes;
    lki_task        *tasks;
    int              task_count, task_capacity;
    int              phases, groups;
    int             *maker; /* by root value: the task that makes it, or -1 */
    lki_storage     *storage;
    size_t           shared_bytes, thread_bytes, scratch_bytes;
    char            *shared, *scratch, *thread_block; /* thread t's block begins at thread_block + t * thread_stride */
    size_t           thread_stride;
    lki_arena        arena; /* views, shapes, lanes */
    lki_call       **calls; /* per thread */
    int             *call_count, *call_capacity;
    lki_patch       *patches;
    int              patch_count, patch_capacity;
    int             *faults;   /* by node: its kernel met an index out of range */
    lki_suspect     *suspects; /* the nodes whose kernels may */
    int              suspect_count, suspect_capacity;
    int              parts, running; /* their number; the part that a replay is in */
    int             *part_phase;     /* by part: its first phase */
    int             *part_end;       /* by part and thread: calls up to its end */
    lki_barrier      barrier;
} lki_cpu_plan;

lki_cpu_plan *lki_cpu_new(const lki_cpu_args *args); /* NULL and an error */
void          lki_cpu_free(lki_cpu_plan *p);         /* NULL is ignored */
void          lki_cpu_info(const lki_cpu_plan *p, lk_function_info *info);

/* Before a replay: where its inputs lie. Then its parts, one after the other. An index out of range ends a part at the end of its
 * phase. After that lki_cpu_fault() returns the op that met it, once, and then LKI_OP_COUNT. */
lk_status lki_cpu_bind(lki_cpu_plan *p, const lki_value_list *in);
lk_status lki_cpu_run(lki_cpu_plan *p, int part);
lki_op    lki_cpu_fault(lki_cpu_plan *p);

/* Where a root value lies; NULL and an error: its constant, or input, could not be brought to the host. */
char *lki_cpu_home(const lki_cpu_plan *p, int root, const lki_value_list *in);

/* All rewrites of a plan on CPUs. */
lk_status lki_cpu_rewrite(lki_plan *p);

/* The parts of it, in this order. */
lk_status lki_cpu_schedule(lki_cpu_plan *p);
lk_status lki_cpu_memory(lki_cpu_plan *p);
lk_status lki_cpu_emit(lki_cpu_plan *p);

/* Lanes of thread t, and where a batch's lane s begins among the entries of the leading axis. */
int     lki_cpu_lane_begin(const lki_cpu_plan *p, int thread);
int64_t lki_cpu_bound(const lki_rows *r, int lane);

enum { LKI_PIECE = 4096 }; /* elements that stay in the first-level cache while several tasks process them */

#endif
