/* TensorFlow's checkpoints: an index and a data file. The first byte of the input says how the index is given: odd, as it is; even,
 * it is built from the keys and values in the input, so that its checksums are right. Then follow the index (or the keys and
 * values) and the data file. */
#include "format/bundle.h"
#include "format/crc32c.h"
#include "format/object_graph.h"
#include "fuzz/target.h"

enum { MOST_KEYS = 32 };

static int by_key(const void *a, const void *b) { return lki_table_compare(a, b); }

/* Parts of the input, a key and a value in turn. */
static lki_sink table_of(const uint8_t *data, size_t size)
{
    lki_table_entry entry[MOST_KEYS];
    lki_sink        out = {0};
    int             count = 0, kept = 0;
    while (size && count < MOST_KEYS) {
        lki_table_entry *e = &entry[count++];
        e->key = (const char *)fuzz_part(&data, &size, &e->key_size);
        e->value = fuzz_part(&data, &size, &e->size);
    }
    qsort(entry, (size_t)count, sizeof *entry, by_key);
    for (int i = 0; i < count; i++)
        if (!i || lki_table_compare(&entry[kept - 1], &entry[i]) != 0) entry[kept++] = entry[i];
    lki_table_write(kept, entry, 64, &out);
    return out;
}

static void read_bundle(const lki_bundle *b)
{
    for (int i = 0; i < b->count; i++) {
        lki_array        array;
        lki_bytes        text;
        lki_object_graph graph;
        if (lki_bundle_read(b, i, &array) == LK_OK) lki_array_free(&array);
        if (lki_bundle_read_text(b, i, &text) != LK_OK) continue;
        if (lki_object_graph_parse("graph", text.data, text.size, &graph) == LK_OK) lki_object_graph_free(&graph);
        lki_bytes_free(&text);
    }
}

/* As a user restores one. */
static void restore(const char *prefix)
{
    lk_variable   *v = lk_variable_of(lk_zeros(LK_SHAPE(2, 2), LK_F32), .name = "v");
    lk_checkpoint *c = lk_checkpoint_of({"v", v});
    if (c) lk_checkpoint_read(c, prefix);
}

TARGET(4 * MIB, 256)
{
    const bool     made = !(fuzz_number(&data, &size, 1) & 1);
    size_t         index_size;
    const uint8_t *index = fuzz_part(&data, &size, &index_size);
    lki_sink       table = {0};
    if (made) table = table_of(index, index_size);
    char        prefix[512];
    const char *path = fuzz_file("a.index", made ? table.data : index, made ? table.size : index_size);
    fuzz_file("a.data-00000-of-00001", data, size);
    snprintf(prefix, sizeof prefix, "%.*s", (int)(strlen(path) - 6), path);
    lki_sink_free(&table);
    lki_bundle b;
    if (lki_bundle_open(prefix, &b) == LK_OK) {
        read_bundle(&b);
        lki_bundle_close(&b);
    }
    lk_clear_error();
    restore(prefix);
}
