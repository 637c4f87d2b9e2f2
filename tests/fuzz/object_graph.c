/* The object graph of a checkpoint, and the file "checkpoint" that names the latest one. */
#include "format/object_graph.h"
#include "format/checkpoint_state.h"
#include "fuzz/target.h"

TARGET(4 * MIB, 1024)
{
    lki_object_graph graph;
    char            *path = NULL;
    if (lki_object_graph_parse("graph", data, size, &graph) == LK_OK) lki_object_graph_free(&graph);
    lk_clear_error();
    if (lki_checkpoint_state_parse("checkpoint", (const char *)data, size, &path) == LK_OK) lki_release(path);
}
