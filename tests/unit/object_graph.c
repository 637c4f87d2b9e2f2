/* The graph of objects: written and read, TensorFlow's own, paths, and malformed messages. */
#include "format/object_graph.h"
#include "check.h"
#include "core/random.h"
#include "format/bundle.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* root - a - v, root - b - v, root - empty */
static bool make(lki_object_graph *g)
{
    *g = (lki_object_graph){0};
    for (int i = 0; i < 5; i++)
        if (lki_object_graph_add(g) != i) return false;
    return lki_object_graph_link(g, 0, "a", 1, 1) == LK_OK && lki_object_graph_link(g, 0, "b", 1, 2) == LK_OK &&
           lki_object_graph_link(g, 0, "empty", 5, 4) == LK_OK && lki_object_graph_link(g, 1, "v", 1, 3) == LK_OK &&
           lki_object_graph_link(g, 2, "w", 1, 3) == LK_OK && lki_object_graph_link(g, 3, "back", 4, 0) == LK_OK &&
           lki_object_graph_name(g, 3, "a/v/.ATTRIBUTES/VARIABLE_VALUE", "dense/kernel") == LK_OK;
}

TEST(there_and_back)
{
    lki_object_graph g, back;
    lki_sink         out = {0};
    assert_true(make(&g));
    lki_object_graph_write(&g, &out);
    assert_int_equal(lki_object_graph_parse("test", out.data, out.size, &back), LK_OK);
    assert_int_equal(back.count, 5);
    const int a = lki_object_graph_child(&back, 0, "a"), b = lki_object_graph_child(&back, 0, "b"),
              empty = lki_object_graph_child(&back, 0, "empty");
    assert_true(a == 1 && b == 2 && empty == 4);
    assert_int_equal(lki_object_graph_child(&back, a, "v"), lki_object_graph_child(&back, b, "w"));
    assert_int_equal(lki_object_graph_child(&back, a, "w"), -1);
    assert_int_equal(lki_object_graph_child(&back, 3, "back"), 0);
    assert_string_equal(back.node[3].key, "a/v/.ATTRIBUTES/VARIABLE_VALUE");
    assert_string_equal(back.node[3].full_name, "dense/kernel");
    assert_null(back.node[0].key);
    assert_true(g.node[0].valued && g.node[1].valued && g.node[2].valued && g.node[3].valued && !g.node[4].valued);
    lki_object_graph_free(&g);
    lki_object_graph_free(&back);
    lki_sink_free(&out);
}

TEST(paths)
{
    lki_sink path = {0};
    lki_object_graph_path_add(&path, "model");
    lki_object_graph_path_add(&path, "a/b.c");
    lki_object_graph_path_add(&path, ".x");
    lki_sink_bytes(&path, "", 1);
    assert_string_equal(path.data, "model/a.Sb..c/..x");
    lki_sink_free(&path);
}

/* One node that is a child of node n of the list, told by a message. */
static void must_fail(const void *bytes, size_t size, const char *words)
{
    lki_object_graph g;
    const int64_t    before = lki_memory_in_use();
    assert_int_equal(lki_object_graph_parse("test", bytes, size, &g), LK_EFORMAT);
    if (!strstr(lk_error(), words)) fail_msg("%s: should say: %s", lk_error(), words);
    assert_int_equal(lki_memory_in_use(), before);
    lk_clear_error();
}

TEST(lies)
{
    must_fail("", 0, "without a root");
    must_fail("\x0a", 1, "malformed");
    must_fail("\x0a\x04\x0a\x02\x08\x01", 6, "beyond the last node");
    must_fail("\x0a\x09\x0a\x07\x08\xff\xff\xff\xff\xff\x01", 11, "beyond the last node");
    must_fail("\x0a\x05\x0a\x03\x12\x05\x61", 7, "a child is malformed");
    must_fail("\x0a\x07\x0a\x05\x12\x03\x61\0\x62", 9, "a child is malformed");
    must_fail("\x0a\x05\x12\x03\x1a\x01\0", 7, "an attribute is malformed");
    must_fail("\x0a\x02\x0b\x01", 4, "malformed");
}

/* Slot variables of old optimisers and savers of their own are counted, not understood. */
TEST(what_only_tensorflow_understands)
{
    lki_object_graph g;
    assert_int_equal(lki_object_graph_parse("test", "\x0a\x0c\x1a\x02\x08\x00\x22\x00\x12\x04\x0a\x02PY", 14, &g), LK_OK);
    assert_int_equal(g.node[0].others, 3);
    lki_object_graph_free(&g);
}

/* TensorFlow's own, or ours without it. */
static lki_bytes some_graph(void)
{
    const char *golden = getenv("LOCKSTEP_GOLDEN");
    lki_bytes   out = {0};
    char        path[512];
    lki_bundle  b;
    if (golden) {
        snprintf(path, sizeof path, "%s/files/checkpoint/ckpt-1", golden);
        assert_int_equal(lki_bundle_open(path, &b), LK_OK);
        assert_int_equal(lki_bundle_read_text(&b, lki_bundle_find(&b, LKI_OBJECT_GRAPH_KEY), &out), LK_OK);
        lki_bundle_close(&b);
        return out;
    }
    lki_object_graph g;
    lki_sink         s = {0};
    assert_true(make(&g));
    lki_object_graph_write(&g, &s);
    lki_object_graph_free(&g);
    return (lki_bytes){s.data, s.size};
}

TEST(thousands_of_changes)
{
    lki_bytes        good = some_graph();
    lki_object_graph g;
    uint8_t         *bad = malloc(good.size);
    int              parsed = 0;
    const int64_t    before = lki_memory_in_use();
    for (uint64_t n = 0; n < 4000; n++) {
        memcpy(bad, good.data, good.size);
        for (uint64_t k = 0; k <= n % 4; k++) {
            const uint32_t r = lki_philox_block(3, n, k).word[0];
            bad[(r >> 8) % good.size] = (uint8_t)r;
        }
        if (lki_object_graph_parse("test", bad, good.size, &g) == LK_OK) {
            parsed++;
            lki_object_graph_free(&g);
        } else {
            assert_int_equal(lk_error_code(), LK_EFORMAT);
            lk_clear_error();
        }
    }
    assert_true(parsed > 10 && parsed < 4000);
    assert_int_equal(lki_memory_in_use(), before);
    free(bad);
    lki_bytes_free(&good);
}

static int make_write_parse(void)
{
    lki_object_graph g, back = {0};
    lki_sink         out = {0};
    int              good = make(&g);
    if (good) lki_object_graph_write(&g, &out);
    good = good && !out.failed && lki_object_graph_parse("test", out.data, out.size, &back) == LK_OK;
    lki_object_graph_free(&g);
    lki_object_graph_free(&back);
    lki_sink_free(&out);
    return good;
}

TEST(without_memory) { assert_true(check_every_allocation(make_write_parse) > 10); }

TESTS(cmocka_unit_test(there_and_back), cmocka_unit_test(paths), cmocka_unit_test(lies),
      cmocka_unit_test(what_only_tensorflow_understands), cmocka_unit_test(thousands_of_changes), cmocka_unit_test(without_memory))
