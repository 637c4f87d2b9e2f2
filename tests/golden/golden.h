/* What the parts of the golden test share: a case with its arrays and attributes, comparing within bounds, one line per case.
 *
 * Invariants
 *  1. Nothing is skipped silently: an operation, attribute or option that this program does not know makes the case fail, by name.
 *  2. A case fails once, with its first reason; the counters count cases.
 *  3. If factors are rounded to 10 or 7 bits (TF32, BF16), the bounds are those that training needs: results and gradients of
 *     products within 2e-2 of the largest entry (plus the noise that rounding adds to zeros), each loss of a training within 2e-2
 *     of TensorFlow's, or four times its own spread. Weights at the end are not compared then: Adam follows the sign of a gradient
 *     near zero. */
#ifndef LK_TESTS_GOLDEN_H
#define LK_TESTS_GOLDEN_H

#include "core/base.h"
#include "core/dtype.h"
#include "core/runtime.h"
#include "core/shape.h"
#include "device/gpu/gpu.h"
#include "format/npy.h"
#include <jansson.h>
#include <lockstep/error.h>
#include <lockstep/grad.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>
#include <lockstep/optimizer.h>
#include <lockstep/step.h>
#include <lockstep/tensor.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_ARRAYS = 24, MAX_PATH = 1024 };

/* ---- counting ---------------------------------------------------------------------------------------------------------------- */

static struct {
    const char *folder, *filter;
    int         passed, failed;
    bool        rounded;  /* factors are, where this thread computes; */
    double      coarser;  /* by so much than float32: where a result is zero but for rounding, so much more is left of it */
    bool        products; /* what is compared was multiplied: a rounded factor may show in it */
} golden = {.products = true};

static const double ROUNDED = 2e-2;

static const char *path_of(const char *part, const char *name, const char *end)
{
    static _Thread_local char path[MAX_PATH];
    snprintf(path, sizeof path, "%s/%s/%s%s", golden.folder, part, name, end);
    return path;
}

/* ---- a case ------------------------------------------------------------------------------------------------------------------ */

typedef struct test_case {
    const char *part, *name;
    json_t     *json;
    json_t     *attributes; /* those of the op, or the options of the optimiser */
    json_t     *asked;      /* the keys that were used */
    lki_zip     zip;
    char        why[1200]; /* the first reason to fail; "" while there is none */
    double      worst;     /* largest error over its bound */
    char        worst_at[80];
} test_case;

__attribute__((format(printf, 2, 3))) static void miss(test_case *c, const char *format, ...)
{
    va_list list;
    if (c->why[0]) return;
    va_start(list, format);
    vsnprintf(c->why, sizeof c->why, format, list);
    va_end(list);
    lk_clear_error();
}

#define GIVE_UP(...)                                                                                                               \
    do {                                                                                                                           \
        miss(__VA_ARGS__);                                                                                                         \
        return;                                                                                                                    \
    } while (0)

/* The library's error, if there is one, is the reason. */
static bool sound(test_case *c, const char *what)
{
    if (lk_failed()) miss(c, "%s: %s", what, lk_error());
    return !c->why[0];
}

/* The tightest of several bounds counts: the largest error in parts of what is allowed. */
static void measure(test_case *c, const char *what, double error, double bound)
{
    const double part = error == 0 ? 0 : error / bound;
    if (part <= c->worst) return;
    c->worst = part;
    snprintf(c->worst_at, sizeof c->worst_at, "%s", what);
    if (!(part <= 1)) miss(c, "%s: off by %.3g, %.3g is allowed", what, error, bound);
}

/* Where the stored number is not finite, this one must not be either; true: there is nothing to measure yet. */
static bool is_lost(test_case *c, const char *what, double ours, double right)
{
    if (isfinite(right) && isnan(ours)) miss(c, "%s is not a number", what);
    if (!isfinite(right) && isfinite(ours)) miss(c, "%s is %g: should not be finite", what, ours);
    return !isfinite(right) || isnan(ours);
}

static bool case_begin(test_case *c, const char *part, const char *name, json_t *json)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", part, name);
    if (golden.filter && !strstr(full, golden.filter)) return false;
    *c = (test_case){.part = part, .name = name, .json = json, .asked = json_object()};
    return true;
}

static void check_asked(test_case *c, const char *of)
{
    const char *key;
    json_t     *value;
    json_object_foreach(c->attributes, key, value) if (!json_object_get(c->asked, key))
        miss(c, "%s: attribute %s is not known here", of, key);
}

static void case_end(test_case *c)
{
    check_asked(c, "case");
    sound(c, "at the end");
    if (c->why[0]) printf("%-6s %-34s FAILED  %s\n", c->part, c->name, c->why);
    else if (c->worst > 0) printf("%-6s %-34s ok      %.4f of the bound at %s\n", c->part, c->name, c->worst, c->worst_at);
    else printf("%-6s %-34s ok      exact\n", c->part, c->name);
    fflush(stdout);
    golden.passed += !c->why[0];
    golden.failed += c->why[0] != 0;
    json_decref(c->asked);
    if (c->zip.path) lki_zip_close(&c->zip);
    lk_clear_error();
}

static bool case_arrays(test_case *c, const char *path) { return lki_zip_open(path, &c->zip) == LK_OK || sound(c, "arrays"); }

/* ---- attributes: asking for one marks it as known ---------------------------------------------------------------------------- */

static json_t *attribute(test_case *c, const char *key)
{
    json_object_set_new(c->asked, key, json_true());
    json_t *value = json_object_get(c->attributes, key);
    return json_is_null(value) ? NULL : value;
}

static bool   has(test_case *c, const char *key) { return attribute(c, key) != NULL; }
static double real(test_case *c, const char *key) { return json_number_value(attribute(c, key)); }
static int    whole(test_case *c, const char *key) { return (int)json_integer_value(attribute(c, key)); }

static lk_integer integer(test_case *c, const char *key)
{
    json_t *value = attribute(c, key);
    return value ? LK_INTEGER(json_integer_value(value)) : 0;
}

static lk_switch on_off(test_case *c, const char *key)
{
    json_t *value = attribute(c, key);
    return !value ? LK_DEFAULT : json_is_true(value) || json_number_value(value) != 0 ? LK_ON : LK_OFF;
}

static lk_number number(test_case *c, const char *key)
{
    json_t *value = attribute(c, key);
    return value ? LK_NUMBER(json_number_value(value)) : (lk_number){0};
}

/* A list of numbers, or one number as a list of one; empty when the attribute is absent or null. */
static lk_axes axes(test_case *c, const char *key)
{
    json_t *value = attribute(c, key);
    int64_t list[LK_MAX_RANK];
    int     count = 0;
    if (json_is_number(value)) return LK_AXES(json_integer_value(value));
    for (size_t i = 0; i < json_array_size(value) && i < LK_MAX_RANK; i++)
        list[count++] = json_integer_value(json_array_get(value, i));
    return lk_axes_from(count, list);
}

/* A word out of a list; what it is not in the list is a failure. */
static int word(test_case *c, const char *key, const char *const *words, int count)
{
    const char *value = json_string_value(attribute(c, key));
    for (int i = 0; value && i < count; i++)
        if (strcasecmp(value, words[i]) == 0) return i;
    if (value) miss(c, "%s is \"%s\", which is not known here", key, value);
    return 0;
}
#define WORD(c, key, ...) word(c, key, (const char *const[]){__VA_ARGS__}, (int)LKI_N(const char *, __VA_ARGS__))

/* What is asked about attributes from here to scope_end() is about these. */
typedef struct scope {
    json_t *attributes, *asked;
} scope;

static scope scope_begin(test_case *c, json_t *attributes)
{
    const scope outer = {c->attributes, c->asked};
    c->attributes = attributes;
    c->asked = json_object();
    return outer;
}

static void scope_end(test_case *c, scope outer, const char *what)
{
    check_asked(c, what);
    json_decref(c->asked);
    c->attributes = outer.attributes;
    c->asked = outer.asked;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------------------ */

static lk_tensor *tensor_of(test_case *c, const lki_zip *zip, const char *name)
{
    lki_array a;
    if (lki_npz_read(zip, name, &a) != LK_OK) return sound(c, "arrays"), NULL;
    lk_tensor *t = lk_tensor_from(a.shape, a.dtype, a.data);
    lki_array_free(&a);
    return t;
}

static lk_tensor *stored(test_case *c, const char *name) { return tensor_of(c, &c->zip, name); }

static double at(const lk_tensor *t, int64_t i) { return lki_element_get(lk_tensor_dtype(t), lk_data(t), i); }

/* A list whose length is known at run time. */
static lk_tuple tuple_of(int count, lk_tensor *const *item)
{
    lk_tensor *one_based[MAX_ARRAYS * 3 + 1];
    for (int i = 0; i < count; i++)
        one_based[i + 1] = item[i];
    return lk_tuple_of(count, one_based);
}

static double largest(const lk_tensor *t)
{
    double most = 0;
    for (int64_t i = 0; i < lk_size(t); i++)
        most = fabs(at(t, i)) > most ? fabs(at(t, i)) : most;
    return most;
}

/* What is allowed, unless `exact`: 1e-6 + 1e-5 * max|golden| + noise; of products of rounded factors 2e-2 * max|golden|, and as
 * much more noise as they are coarser. Types need not agree, so that a counter of 32 bits may meet one of 64; whole numbers are
 * compared exactly. */
static void compare(test_case *c, const char *what, const lk_tensor *ours, const lk_tensor *theirs, double noise, bool exact)
{
    char           a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
    const lk_shape mine = ours ? lk_tensor_shape(ours) : (lk_shape){0}, right = theirs ? lk_tensor_shape(theirs) : (lk_shape){0};
    if (!ours || !theirs || !sound(c, what)) GIVE_UP(c, "%s: no value", what);
    if (!lki_shape_equal(&mine, &right))
        GIVE_UP(c, "%s: shape %s: should be %s", what, lki_shape_text(&mine, a), lki_shape_text(&right, b));
    if (lki_is_float(lk_tensor_dtype(ours)) != lki_is_float(lk_tensor_dtype(theirs)))
        GIVE_UP(c, "%s: type %s: should be %s", what, lk_dtype_name(lk_tensor_dtype(ours)), lk_dtype_name(lk_tensor_dtype(theirs)));
    exact = exact || !lki_is_float(lk_tensor_dtype(theirs));
    const bool   rounded = golden.rounded && golden.products;
    const double bound = 1e-6 + (rounded ? ROUNDED : 1e-5) * largest(theirs) + noise * (rounded ? golden.coarser : 1);
    for (int64_t i = 0; i < lk_size(theirs); i++) {
        const double x = at(ours, i), y = at(theirs, i), error = x == y || (isnan(x) && isnan(y)) ? 0 : fabs(x - y);
        if (error != 0 && exact) GIVE_UP(c, "%s: element %lld is %.9g: should be exactly %.9g", what, (long long)i, x, y);
        if (isnan(error)) GIVE_UP(c, "%s: element %lld is %g: should be %g", what, (long long)i, x, y);
        measure(c, what, error, bound);
    }
}

static void compare_bits(test_case *c, const char *what, const lk_tensor *a, const lk_tensor *b)
{
    if (!sound(c, what)) return;
    const lk_shape x = lk_tensor_shape(a), y = lk_tensor_shape(b);
    if (!lki_shape_equal(&x, &y) || lk_tensor_dtype(a) != lk_tensor_dtype(b))
        GIVE_UP(c, "%s: the compiled function gives another shape or type", what);
    const size_t size = (size_t)lk_size(a) * lk_dtype_bytes(lk_tensor_dtype(a));
    if (size && memcmp(lk_data(a), lk_data(b), size) != 0) miss(c, "%s: the compiled function gives other bits", what);
}

/* Python writes NaN, Infinity and -Infinity, which are not JSON: each becomes "", which is not a number. */
static void hide_words(char *text)
{
    static const char *const WORDS[] = {"NaN", "-Infinity", "Infinity"};
    bool                     quoted = false;
    for (char *p = text; *p; p++) {
        if (quoted && *p == '\\' && p[1]) p++;
        else if (*p == '"') quoted = !quoted;
        for (int i = 0; i < LKI_COUNT(WORDS) && !quoted; i++)
            if (strncmp(p, WORDS[i], strlen(WORDS[i])) == 0) {
                memset(p, ' ', strlen(WORDS[i]));
                p[0] = p[1] = '"';
                p++;
                break;
            }
    }
}

/* The whole file, the caller's to free; NULL: it cannot be read. */
static char *text_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    long  size = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    char *text = size >= 0 ? calloc((size_t)size + 1, 1) : NULL;
    if (f) rewind(f);
    if (text && fread(text, 1, (size_t)size, f) != (size_t)size) text[0] = 0;
    if (f) fclose(f);
    return text;
}

static json_t *load_json(const char *path)
{
    json_error_t error = {.text = "cannot be read"};
    char        *text = text_of(path);
    if (text) hide_words(text);
    json_t *json = text ? json_loads(text, 0, &error) : NULL;
    free(text);
    if (!json) {
        printf("%s: %s, line %d\n", path, error.text, error.line);
        golden.failed++;
    }
    return json;
}

#endif
