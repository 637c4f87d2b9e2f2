/* Which nodes must wait for which. Nodes of a graph, or calls or tasks made of them, are visited in an order in which they may run.
 * For each the earlier ones that it waits for are reported, because
 *
 *     it reads what another makes, it writes what another wrote, or it writes a variable that another reads before
 *
 * Only those that imply the rest are reported: if several write a variable one after the other, the last. */
#ifndef LKI_PLAN_NEEDS_H
#define LKI_PLAN_NEEDS_H

#include "graph/graph.h"

typedef struct lki_needs_reader {
    int who, before; /* the one before it of the same value, or -1 */
} lki_needs_reader;

typedef struct lki_needs {
    const lki_graph  *graph;
    int              *writer; /* by key (lki_graph_key): the last that wrote it, or -1 */
    int              *reader; /* by key: of the list of readers, the last that read it since, or -1 */
    lki_needs_reader *readers;
    int               count, capacity;
} lki_needs;

bool lki_needs_init(lki_needs *n, const lki_graph *g); /* false without memory; to be cleared then as well */
void lki_needs_clear(lki_needs *n);

/* `later` waits for `earlier`; false without memory. */
typedef bool lki_needs_fn(void *user, int later, int earlier);

/* Number `who` reads the operands of a node, or writes its results from..end-1. A caller may omit either, or call them at different
 * times. False without memory. */
bool lki_needs_reads(lki_needs *n, const lki_node *node, int who, lki_needs_fn *each, void *user);
bool lki_needs_writes(lki_needs *n, const lki_node *node, int from, int end, int who, lki_needs_fn *each, void *user);

#endif
