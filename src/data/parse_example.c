/* Records of tf.train.Example as tensors of fixed types and shapes: a map over numbered records.
 *
 *     records --enumerate--> (number, bytes) --parse, on .parallel threads--> a tensor per feature */
#include "core/memory.h"
#include "data/data.h"
#include "data/example.h"
#include "format/image.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PARALLEL = 256 };
static const char *const CALL = "lk_dataset_parse_example";

typedef struct features { /* what the map's function gets */
    lki_object object;
    int        count;
    lk_feature item[]; /* names are copies */
} features;

/* Of the types a feature can have: the list it is in, in words. */
static const struct {
    lk_dtype      dtype;
    lki_list_kind kind;
} TYPES[] = {{LK_F32, LKI_LIST_FLOATS}, {LK_I64, LKI_LIST_INT64S}, {LK_U8, LKI_LIST_BYTES}};

static const char *const VALUES[] = {
    [LKI_LIST_NONE] = "no values", [LKI_LIST_BYTES] = "byte strings", [LKI_LIST_FLOATS] = "floats", [LKI_LIST_INT64S] = "int64s"};

static lki_list_kind kind_of(lk_dtype dtype)
{
    for (int i = 0; i < LKI_COUNT(TYPES); i++)
        if (TYPES[i].dtype == dtype) return TYPES[i].kind;
    return LKI_LIST_NONE;
}

/* ---- one feature of one record ---- */

typedef struct place { /* for messages */
    int64_t           record;
    const lk_feature *feature;
} place;

/* "record 3, feature "label": HAS; i64 [2] is wanted" */
static lk_tensor *refuse(const place *at, lk_status code, const char *has)
{
    char text[LKI_SHAPE_TEXT];
    return lki_refuse(code, "%s: record %lld, feature \"%s\": %s; %s%s %s is wanted", CALL, (long long)at->record,
                      at->feature->name, has, at->feature->picture ? "a picture of " : "", lk_dtype_name(at->feature->dtype),
                      lki_shape_text(&at->feature->shape, text));
}

static lk_tensor *parse_missing(const place *at, bool named)
{
    const lk_feature *f = at->feature;
    if (!lki_number_given(f->missing)) return refuse(at, LK_ENOTFOUND, named ? "it is empty" : "the record does not have it");
    return lk_fill(f->shape, f->dtype, lki_number(f->missing));
}

static lk_tensor *parse_numbers(const place *at, const lki_example_list *l)
{
    char has[64];
    if (l->count != lki_shape_size(&at->feature->shape)) {
        snprintf(has, sizeof has, "it has %lld %s", (long long)l->count, VALUES[l->kind]);
        return refuse(at, LK_ESHAPE, has);
    }
    lk_tensor *t = lki_tensor_new(at->feature->dtype, &at->feature->shape);
    if (!lki_bad(t)) lki_example_numbers(l, t->data);
    return t;
}

static lk_tensor *parse_bytes(const place *at, const lki_wire *bytes)
{
    char         has[64];
    const size_t size = lki_wire_left(bytes);
    if ((int64_t)size != lki_shape_size(&at->feature->shape)) {
        snprintf(has, sizeof has, "it has %zu bytes", size);
        return refuse(at, LK_ESHAPE, has);
    }
    lk_tensor *t = lki_tensor_new(LK_U8, &at->feature->shape);
    if (!lki_bad(t) && size) memcpy(t->data, bytes->p, size);
    return t;
}

static int channels_of(const lk_shape *s) { return s->rank == 3 ? (int)s->dim[2] : 1; }

static lk_tensor *parse_picture(const place *at, const lki_wire *bytes)
{
    char            name[160], has[96];
    const lk_shape *s = &at->feature->shape;
    lki_image       image LKI_FREED_BY(lki_image_free) = {0};
    lk_tensor      *t = &lki_poison;
    snprintf(name, sizeof name, "%s: record %lld, feature \"%.64s\"", CALL, (long long)at->record, at->feature->name);
    if (lki_image_decode(name, bytes->p, lki_wire_left(bytes), channels_of(s), &image) != LK_OK) return t;
    if (image.height == s->dim[0] && image.width == s->dim[1]) t = lk_tensor_from(*s, LK_U8, image.pixels);
    else {
        snprintf(has, sizeof has, "its picture is %lld x %lld", (long long)image.height, (long long)image.width);
        refuse(at, LK_ESHAPE, has);
    }
    return t;
}

static lk_tensor *parse_feature(const place *at, lki_wire record)
{
    char              has[64];
    lki_example_list  l;
    const lk_feature *f = at->feature;
    if (!lki_example_find(record, f->name, &l)) return refuse(at, LK_EFORMAT, "the record is not a tf.train.Example, or damaged");
    if (!l.kind || (!l.count && lki_shape_size(&f->shape))) return parse_missing(at, l.named);
    if (l.kind != kind_of(f->dtype) || (l.kind == LKI_LIST_BYTES && l.count != 1)) {
        snprintf(has, sizeof has, "it has %lld %s", (long long)l.count, VALUES[l.kind]);
        return refuse(at, l.kind == kind_of(f->dtype) ? LK_ESHAPE : LK_EDTYPE, has);
    }
    if (l.kind != LKI_LIST_BYTES) return parse_numbers(at, &l);
    return f->picture ? parse_picture(at, &l.bytes) : parse_bytes(at, &l.bytes);
}

/* ---- one record ---- */

static lk_tuple parse(lk_tuple numbered, void *user)
{
    const features *fs = user;
    lk_tensor      *item[LKI_MOST_COLUMNS], *record = numbered.item[1];
    const int64_t  *number = lk_data(numbered.item[0]);
    const void     *bytes = number ? lk_data(record) : NULL; /* neither has data while traced: not vectorised */
    if (!bytes) return (lk_tuple){0};
    if (numbered.count != 2 || record->dtype != LK_U8) {
        lki_fail(LK_EDTYPE, "%s: an element is %d tensors, the first %s; records are one tensor each, u8", CALL, numbered.count - 1,
                 lk_dtype_name(record->dtype));
        return (lk_tuple){0};
    }
    const lki_wire wire = lki_wire_of(bytes, (size_t)lki_shape_size(&record->shape));
    for (int i = 0; i < fs->count; i++) {
        item[i] = parse_feature(&(place){*number, &fs->item[i]}, wire);
        if (lki_bad(item[i])) return (lk_tuple){0};
    }
    return lki_tuple_new(fs->count, item);
}

/* ---- making ---- */

static lk_status check_picture(const lk_feature *f)
{
    char            text[LKI_SHAPE_TEXT];
    const lk_shape *s = &f->shape;
    const int       channels = channels_of(s);
    if (f->dtype == LK_U8 && (s->rank == 2 || s->rank == 3) && (channels == 1 || channels == 3 || channels == 4)) return LK_OK;
    return lki_fail(LK_EINVAL,
                    "%s: feature \"%s\" is a picture, but %s %s; it must be LK_U8, [height, width] or [height, width, 1, 3 or 4]",
                    CALL, f->name, lk_dtype_name(f->dtype), lki_shape_text(s, text));
}

/* As the user wrote it: a zero that was given has its mark. */
static lk_feature as_written(const lk_feature *f)
{
    lk_feature copy = *f;
    lki_kw(&copy, "lk_feature");
    return copy;
}

static lk_status check_feature(lk_feature written, int i)
{
    const lk_feature *f = &written;
    const double      most = f->dtype == LK_U8 ? 255 : 0x1p53, least = f->dtype == LK_U8 ? 0 : -0x1p53, x = lki_number(f->missing);
    if (!f->name || !*f->name) return lki_fail(LK_EINVAL, "%s: feature %d has no name", CALL, i);
    if (!kind_of(f->dtype))
        return lki_fail(LK_EDTYPE, "%s: feature \"%s\" is %s; it must be LK_F32, LK_I64 or LK_U8", CALL, f->name,
                        lk_dtype_name(f->dtype));
    if (!lki_shape_valid(&f->shape)) return lki_fail(LK_ESHAPE, "%s: feature \"%s\" has no valid shape", CALL, f->name);
    if (lki_number_given(f->missing) && f->dtype != LK_F32 && !(x >= least && x <= most && x == floor(x)))
        return lki_fail(LK_EINVAL, "%s: feature \"%s\": .missing = %g is not a value of %s", CALL, f->name, x,
                        lk_dtype_name(f->dtype));
    return f->picture ? check_picture(f) : LK_OK;
}

static lk_status check(lk_dataset *records, int parallel, int count, const lk_feature *one_based)
{
    if (!lki_dataset_usable(CALL, records)) return LK_EINVAL;
    if (parallel < 0 || parallel > MOST_PARALLEL)
        return lki_fail(LK_EINVAL, "%s: on %d threads; it must be 1 to %d", CALL, parallel, MOST_PARALLEL);
    if (count < 1 || count > LKI_MOST_COLUMNS || !one_based)
        return lki_fail(LK_EINVAL, "%s: %d features; give 1 to %d with LK_FEATURES(...)", CALL, count, LKI_MOST_COLUMNS);
    for (int i = 0; i < count; i++)
        LKI_TRY(check_feature(as_written(&one_based[1 + i]), i));
    return LK_OK;
}

static void features_destroy(void *object)
{
    features *fs = object;
    for (int i = 0; i < fs->count; i++)
        lki_release((char *)fs->item[i].name);
}

static features *features_new(int count, const lk_feature *one_based)
{
    features *fs =
        lki_object_new(sizeof *fs + (size_t)count * sizeof fs->item[0], LKI_KIND_OTHER, LKI_LIVES_BY_REFERENCE, features_destroy);
    for (bool good = fs; good && fs->count < count; fs->count += good) {
        fs->item[fs->count] = as_written(&one_based[1 + fs->count]);
        good = (fs->item[fs->count].name = lki_strdup(one_based[1 + fs->count].name)) != NULL;
        if (!good) return lki_drop(fs), NULL;
    }
    return fs;
}

static uint64_t print_of(const features *fs)
{
    uint64_t print = (uint64_t)fs->count;
    for (int i = 0; i < fs->count; i++) {
        print = lki_mix(lki_mix(print, (uint64_t)fs->item[i].dtype), (uint64_t)fs->item[i].shape.rank);
        for (int k = 0; k < fs->item[i].shape.rank; k++)
            print = lki_mix(print, (uint64_t)fs->item[i].shape.dim[k]);
        for (const char *c = fs->item[i].name; *c; c++)
            print = lki_mix(print, (unsigned char)*c);
    }
    return print;
}

lk_dataset *lk_dataset_parse_example(lk_dataset *records, int parallel, int count, const lk_feature *one_based)
{
    LKI_SCOPE_ERRORS;
    if (check(records, parallel, count, one_based) != LK_OK) return NULL;
    features   *fs = features_new(count, one_based);
    lk_dataset *numbered = fs ? lk_dataset_enumerate(records, 0) : NULL;
    lk_dataset *d = numbered ? lki_map_with(numbered, parse, fs, parallel) : NULL;
    if (d) d->print = print_of(fs);
    lk_free(numbered); /* the map, if there is one, holds it */
    lki_drop(fs);
    return d;
}
