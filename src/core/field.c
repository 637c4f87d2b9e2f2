/* Holding structs of arguments (field.h). */
#include "core/field.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/option.h"
#include "core/shape.h"
#include <string.h>

static const char *kind_name(lki_kind kind)
{
    static const char *const NAMES[] = {[LKI_KIND_INITIALIZER] = "an initialiser",
                                        [LKI_KIND_REGULARIZER] = "a regulariser",
                                        [LKI_KIND_CONSTRAINT] = "a constraint",
                                        [LKI_KIND_LAYER] = "a layer",
                                        [LKI_KIND_SCHEDULE] = "a schedule"};
    return (int)kind < LKI_COUNT(NAMES) && NAMES[kind] ? NAMES[kind] : "such an object";
}

static void **pointer_of(const lki_field *f, void *args) { return (void **)((char *)args + f->offset); }

static bool is_object(const lki_field *f) { return f->type == LKI_FIELD_OBJECT || f->type == LKI_FIELD_ARRAY; }

static bool is_list(const lki_field *f) { return f->type == LKI_FIELD_AXES || f->type == LKI_FIELD_PAIRS; }

/* The list's own copy, which refers to the objects. */
static lk_status hold_objects(lki_objects *list)
{
    void **item = lki_alloc_array(list->count + 1, sizeof *item);
    if (!item) return *list = (lki_objects){0}, LK_ENOMEM;
    for (int i = 0; i < list->count; i++)
        item[i] = lki_retain(list->item[i]);
    list->item = item;
    return LK_OK;
}

static void drop_objects(lki_objects *list)
{
    for (int i = 0; i < list->count; i++)
        lki_drop(list->item[i]);
    lki_release(list->item);
    *list = (lki_objects){0};
}

static lk_status hold_all(const lki_class *c, void *args)
{
    for (int i = 0; i < c->fields; i++) {
        void **p = pointer_of(&c->field[i], args);
        if (is_object(&c->field[i])) lki_retain(*p);
        if (is_list(&c->field[i])) LKI_TRY(lki_axes_hold((lk_axes *)p));
        if (c->field[i].type == LKI_FIELD_OBJECTS) LKI_TRY(hold_objects((lki_objects *)p));
        if (c->field[i].type != LKI_FIELD_NAME || !*p) continue;
        *p = lki_strdup(*p);
        if (*p) continue;
        while (++i < c->fields) /* later fields were not held: clear them, so that they are not dropped */
            if (is_object(&c->field[i]) || c->field[i].type == LKI_FIELD_NAME) *pointer_of(&c->field[i], args) = NULL;
        lki_args_drop(c, args);
        return LK_ENOMEM;
    }
    return LK_OK;
}

/* The size in the field that is farthest from zero; 0 if it has no size, or allows any. */
static int64_t largest_size(const lki_field *f, const void *args)
{
    const void    *p = (const char *)args + f->offset;
    const lki_axes axes = is_list(f) ? lki_axes_of(*(const lk_axes *)p) : (lki_axes){0};
    int64_t        most = f->type == LKI_FIELD_INT       ? *(const int64_t *)p
                          : f->type == LKI_FIELD_INTEGER ? lki_integer(*(const lk_integer *)p)
                                                         : 0;
    for (int i = 0; i < axes.count; i++)
        if (axes.value[i] > most || axes.value[i] < -most) most = axes.value[i];
    return most;
}

static lk_status shape_fits(const char *call, const lki_field *f, const void *args)
{
    char            text[LKI_SHAPE_TEXT];
    const lk_shape *s = (const lk_shape *)((const char *)args + f->offset);
    if (f->type != LKI_FIELD_SHAPE || lki_row_valid(s)) return LK_OK;
    return lki_fail(LK_ESHAPE, "%s: %s is %s, which is not the shape of a row or has more than 2^48 elements", call, f->name,
                    lki_shape_text(s, text));
}

static lk_status sizes_fit(const char *call, const lki_class *c, const void *args)
{
    for (int i = 0; i < c->fields; i++) {
        const int64_t size = largest_size(&c->field[i], args);
        if (size > LKI_MOST_OPTION || size < -LKI_MOST_OPTION)
            return lki_fail(LK_EINVAL, "%s: %s is %lld; it must be at most %lld", call, c->field[i].name, (long long)size,
                            (long long)LKI_MOST_OPTION);
        LKI_TRY(shape_fits(call, &c->field[i], args));
    }
    return LK_OK;
}

lk_status lki_args_hold(const char *call, const lki_class *c, void *args)
{
    LKI_TRY(sizes_fit(call, c, args));
    for (int i = 0; i < c->fields; i++) {
        const lki_field *f = &c->field[i];
        const void      *p = is_object(f) ? *pointer_of(f, args) : NULL;
        if (p && !lki_is_kind(p, f->type == LKI_FIELD_ARRAY ? LKI_KIND_TENSOR : f->kind))
            return lki_fail(LK_EINVAL, "%s: %s is not %s", call, f->name,
                            f->type == LKI_FIELD_ARRAY ? "a tensor" : kind_name(f->kind));
    }
    return hold_all(c, args);
}

void lki_args_drop(const lki_class *c, void *args)
{
    for (int i = 0; i < c->fields; i++) {
        void **p = pointer_of(&c->field[i], args);
        if (is_object(&c->field[i])) lki_drop(*p);
        else if (c->field[i].type == LKI_FIELD_NAME) lki_release(*p);
        else if (c->field[i].type == LKI_FIELD_OBJECTS) {
            drop_objects((lki_objects *)p);
            continue;
        } else continue;
        *p = NULL;
    }
}

const lki_field *lki_field_find(const lki_class *c, const char *name)
{
    for (int i = 0; i < c->fields; i++)
        if (!strcmp(c->field[i].name, name)) return &c->field[i];
    return NULL;
}
