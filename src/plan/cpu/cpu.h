/* The executor of CPUs: from a graph to a flat list of kernel calls per thread.
 *
 *   tasks     A live node becomes one task or several. A sum over rows that runs lane by lane becomes a PARTIAL task (it sums each
 *             lane, and adds up the subtrees of the lane tree within the thread's lanes) and a COMBINE task for each of its results
 *             (it adds up the rest of the tree)
 *   places    LANE    The task runs once per lane, on the thread that owns the lane, so activations stay in that thread's cache.
 *                     Neighbouring element-wise tasks are a chain. They run together, piece by piece, so that the values that they
 *                     pass on stay in the first-level cache
 *             THREAD  The task runs once per thread, over the rows of all lanes of the thread, so wide weights are read once
 *             COLUMNS For a matrix product of all rows whose weights are far larger than its other operand. Every thread computes
 *                     some columns of the result, so each reads a different part of the weights
 *             TILES   Every thread computes a share of the result, in pieces. Neighbouring tasks over the same share run together,
 *                     piece by piece, so a gradient is summed, clipped and applied while it is in the cache. A piece fits the
 *                     first-level cache. But a matrix product is slow on few rows; if it is one of the tasks, a piece fits the
 *                     second-level cache, and the other tasks divide it into small pieces
 *             SOLO    One thread runs the whole task
 *   phases    If a thread needs a result of another thread, a barrier lies between the two tasks. The tasks between two barriers
 *             are a phase
 *   memory    One shared block has the values that several threads or phases use. A block per thread has the values that are used
 *             only within a lane or a piece
 *   parts     One of several members (member.h) runs in parts, with exchanges between them. An exchange is a task without a call,
 *             in a phase that has no other task. All other plans have one part
 *
 * If a phase finds a fault (an index out of range), the updates of later phases are not made: a step that fails does not change the
 * variables.
 *
 * The places and the number of threads never change a bit of the results, because kernels sum in the order of kernel.h however the
 * work is divided. */
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
    int            phase, turn; /* a phase runs turn by turn: first the LANE tasks of a turn, then its THREAD tasks */
    int            thread;      /* SOLO: the thread that runs the task */
    int            group;       /* TILES: tasks that run piece by piece together */
    int            chain;       /* LANE: the first task of its chain; -1: it is in no chain. Tasks of a chain are neighbours */
    int64_t        size, unit;  /* TILES: elements of the result; the size of a piece is a multiple of `unit` */
    int64_t        piece;       /* TILES: elements of each piece of the group */
    bool           coarse;      /* TILES: it runs once for a whole piece, however large the piece is */
    int            partial;     /* COMBINE: the PARTIAL task */
    int            result;      /* COMBINE: the index of the result among those of the node */
    int64_t        before;      /* COMBINE: elements of the earlier results, in a buffer of the PARTIAL task */
    int            stack;       /* PARTIAL: buffers per thread; each has all results, one after the other */
    size_t         bytes;       /* PARTIAL: bytes of one buffer */
    size_t         at;          /* PARTIAL: where the buffers begin in the shared block */
} lki_task;

typedef enum lki_home { LKI_HOME_OUTSIDE, LKI_HOME_SHARED, LKI_HOME_LANE, LKI_HOME_PIECE } lki_home;

typedef struct lki_storage { /* where a root value lies */
    lki_home home;
    size_t   at; /* its offset in the shared block, or in each thread's block */
} lki_storage;

typedef struct lki_call {
    lki_kernel *fn; /* NULL: a barrier */
    lki_args    args;
    const char *name;   /* for pictures: the op */
    int16_t     lane;   /* for pictures: the lane it works on; -1: no single lane */
    bool        shared; /* for pictures: it works for all lanes: a sum over them, or an update */
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
    const lki_graph *graph;
    lki_device      *device; /* where it runs */
    int              threads, lanes;
    int              from, end; /* it runs the lanes from .. end - 1 of `lanes` */
    const int *order; /* nodes in an order in which they may run; read until lki_cpu_new() returns. NULL: lki_plan_sequence() */
    int        order_count;
    const lki_subtree *trees; /* for a member, by node: the lanes it sums over; NULL: every node sums over all */
    char **placed; /* by root value: its address, or NULL: the plan chooses one. The list is NULL: the plan chooses all */
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
    int             *faults;   /* by node: not 0 if its kernel met an index out of range */
    lki_suspect     *suspects; /* the nodes whose kernels may meet an index out of range */
    int              suspect_count, suspect_capacity;
    int              parts, running; /* the number of parts; the part that runs now */
    int             *part_phase;     /* by part: its first phase */
    int             *part_end;       /* by part and thread: the number of the thread's calls up to the end of the part */
    lki_barrier      barrier;
} lki_cpu_plan;

lki_cpu_plan *lki_cpu_new(const lki_cpu_args *args); /* NULL and an error */
void          lki_cpu_free(lki_cpu_plan *p);         /* NULL is ignored */
void          lki_cpu_info(const lki_cpu_plan *p, lk_function_info *info);

/* A replay: lki_cpu_bind() sets the addresses of the inputs; then lki_cpu_run() runs the parts, one after the other. If a kernel
 * meets an index out of range, the part ends at the end of the phase. lki_cpu_fault() then returns the op that met it, and when it
 * is called again LKI_OP_COUNT. */
lk_status lki_cpu_bind(lki_cpu_plan *p, const lki_value_list *in);
lk_status lki_cpu_run(lki_cpu_plan *p, int part);
lki_op    lki_cpu_fault(lki_cpu_plan *p);

/* Returns the address of a root value. NULL and an error: a constant, or an input, could not be copied to the host. */
char *lki_cpu_home(const lki_cpu_plan *p, int root, const lki_value_list *in);

/* Makes all rewrites for CPUs. */
lk_status lki_cpu_rewrite(lki_plan *p);

/* The steps of lki_cpu_new(), in this order. */
lk_status lki_cpu_schedule(lki_cpu_plan *p);
lk_status lki_cpu_memory(lki_cpu_plan *p);
lk_status lki_cpu_emit(lki_cpu_plan *p);

/* Returns the first lane of a thread. */
int lki_cpu_lane_begin(const lki_cpu_plan *p, int thread);

/* Returns the entry of the leading axis at which a lane begins. */
int64_t lki_cpu_bound(const lki_rows *r, int lane);

enum { LKI_PIECE = 4096 }; /* the number of elements that stay in the first-level cache while several tasks process them */

#endif
