/* What the tests of datasets share: an iteration as a list of numbers, datasets that fail, a silent log. */
#ifndef LK_TESTS_DATA_PIPES_H
#define LK_TESTS_DATA_PIPES_H

#include "check.h"
#include "core/dtype.h"
#include "op/tensor.h"
#include <lockstep/dataset.h>
#include <lockstep/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 16 };

/* Elements one after the other: for each tensor its size, then its values. */
typedef struct trail {
    int    count, elements;
    double value[MOST];
} trail;

static inline void trail_add(trail *t, double x)
{
    assert_true(t->count < MOST);
    t->value[t->count++] = x;
}

static inline void trail_tensor(trail *t, const lk_tensor *x)
{
    if (x->replicas) {
        for (int r = 0; r < x->replicas->count; r++)
            trail_tensor(t, x->replicas->item[r]);
        return;
    }
    trail_add(t, (double)lk_size(x));
    for (int64_t i = 0; i < lk_size(x); i++)
        trail_add(t, lki_element_get(lk_tensor_dtype(x), lk_data(x), i));
}

static inline void trail_element(trail *t, lk_tuple e)
{
    t->elements++;
    for (int i = 0; i < e.count; i++)
        trail_tensor(t, e.item[i]);
}

/* Everything an iterator still gives. */
static inline void trail_rest(trail *t, lk_iterator *it, int most)
{
    lk_tuple e;
    while (most-- && lk_next(it, &e))
        trail_element(t, e);
}

static inline trail *walk_some(lk_dataset *d, int most)
{
    trail *t = calloc(1, sizeof *t);
    assert_non_null(d);
    lk_iterator *it = lk_iterator_of(d);
    trail_rest(t, it, most);
    lk_free(it);
    return t;
}

static inline trail *walk(lk_dataset *d) { return walk_some(d, -1); }

static inline int same_trail(const trail *a, const trail *b)
{
    return a->count == b->count && a->elements == b->elements &&
           memcmp(a->value, b->value, (size_t)a->count * sizeof a->value[0]) == 0;
}

static inline void good(void)
{
    if (lk_failed()) print_error("%s\n", lk_error());
    assert_false(lk_failed());
}

/* The values of all first tensors, one after the other, are these. */
static inline void gives_list(lk_dataset *d, int count, const double *one_based)
{
    int at = 0;
    assert_non_null(d);
    LK_FOR_EACH(e, d)
        for (int64_t i = 0; i < lk_size(e.item[0]); i++, at++) {
            assert_true(at < count);
            assert_true(lki_element_get(lk_tensor_dtype(e.item[0]), lk_data(e.item[0]), i) == one_based[at + 1]);
        }
    good();
    assert_int_equal(at, count);
}
#define GIVES(d, ...) gives_list(d, LKI_LIST(double, __VA_ARGS__))

#define NOTHING(d) gives_list(d, 0, NULL)

/* The sizes of the leading axes of the first tensors are these. */
static inline void sizes_list(lk_dataset *d, int count, const int64_t *one_based)
{
    int at = 0;
    LK_FOR_EACH(e, d) {
        assert_true(at < count);
        at++;
        assert_int_equal(lk_dim(e.item[0], 0), one_based[at]);
    }
    good();
    assert_int_equal(at, count);
}
#define SIZES(d, ...) sizes_list(d, (int)LKI_N(int64_t, 0, __VA_ARGS__) - 1, (const int64_t[64]){0, __VA_ARGS__})

/* The last call failed with this code, and its message has these words. */
static inline void failed_with(lk_status code, const char *words)
{
    if (lk_error_code() != code || !strstr(lk_error(), words))
        print_error("expected \"%s\", got %s: %s\n", words, lk_status_name(lk_error_code()), lk_error());
    assert_int_equal(lk_error_code(), code);
    assert_non_null(strstr(lk_error(), words));
    lk_clear_error();
}

#define REFUSED(call, code, words)                                                                                                 \
    do {                                                                                                                           \
        assert_null(call);                                                                                                         \
        failed_with(code, words);                                                                                                  \
    } while (0)

static char log_text[4096];

static inline void keep_log(const char *text, void *user)
{
    (void)user;
    snprintf(log_text + strlen(log_text), sizeof log_text - strlen(log_text), "%s\n", text);
}

/* A generator of 0, 1, 2, ... that ends at, or fails at, an element. */
typedef struct counting {
    int64_t end, fail;
    int     calls; /* atomic */
} counting;

static inline int count_up(int64_t index, lk_tuple *element, void *user)
{
    counting *c = user;
    __atomic_fetch_add(&c->calls, 1, __ATOMIC_RELAXED);
    if (c->fail && index == c->fail) {
        lk_reshape(lk_scalar(1), LK_SHAPE(2)); /* any mistake */
        return 1;
    }
    if (index >= c->end) return 0;
    *element = LK_TUPLE(lk_fill(LK_SHAPE(), LK_F32, (double)index));
    return 1;
}

/* n rows of two tensors: [3] f32 with 10 i, 10 i + 1, 10 i + 2, and an i64 label i. */
static inline lk_dataset *rows_of(int64_t n)
{
    lk_tensor *x = lk_zeros(LK_SHAPE(n, 3), LK_F32);
    for (int64_t i = 0; !lk_poisoned(x) && i < 3 * n; i++)
        ((float *)x->data)[i] = (float)(10 * (i / 3) + i % 3);
    return lk_dataset_from_tensor_slices(LK_TUPLE(x, lk_range(n, LK_I64)));
}

static char made_here[64]; /* for files a test makes; goes when the program ends */

static inline void remove_folder(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", made_here);
    if (system(command) != 0) printf("%s is left\n", made_here);
}

static inline const char *temporary(const char *name)
{
    static char path[4][256];
    static int  next;
    if (!made_here[0]) {
        snprintf(made_here, sizeof made_here, "/tmp/lockstep-data-XXXXXX");
        assert_non_null(mkdtemp(made_here));
        atexit(remove_folder);
    }
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", made_here, name);
    return p;
}

static inline void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

#endif
