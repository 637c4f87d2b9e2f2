/* Making tensors and reading them. */
#include "op/tensor.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/list.h"
#include "core/lock.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "op/op.h"
#include "op/origin.h"
#include "op/pooled.h"
#include <lockstep/ops.h>
#include <lockstep/strategy.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

lk_tensor lki_poison = {.object = {.kind = LKI_KIND_TENSOR, .refs = 1}, .shape = {0}};

static uint64_t next_id(void)
{
    static uint64_t last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

/* ---- readers of variables ---- */

LKI_MUTEX(readers_lock);

void lki_readers_take(void) { lki_mutex_take(&readers_lock); }
void lki_readers_give(void) { lki_mutex_give(&readers_lock); }

static void unlink_reader(lk_tensor *t)
{
    if (t->reader_previous) t->reader_previous->reader_next = t->reader_next;
    else t->variable->readers = t->reader_next;
    if (t->reader_next) t->reader_next->reader_previous = t->reader_previous;
    t->variable = NULL;
    t->reader_previous = t->reader_next = NULL;
}

static void link_reader(lk_tensor *t, lk_variable *v)
{
    t->variable = v;
    t->reader_next = v->readers;
    if (t->reader_next) t->reader_next->reader_previous = t;
    v->readers = t;
}

static void tensor_destroy(void *object)
{
    lk_tensor *t = object;
    if (__atomic_load_n(&t->variable, __ATOMIC_RELAXED)) {
        lki_readers_take();
        if (t->variable) unlink_reader(t);
        lki_readers_give();
    }
    lki_buffer_drop(t->buffer);
    lki_drop(t->slice_rows);
    lki_drop(t->slice_ids);
    lki_drop(t->logits);
    lki_drop(t->mask);
    lki_origin_free(t->origin);
    lki_pooled_free(t->pooled);
    for (int i = 0; t->replicas && i < t->replicas->count; i++)
        lki_drop(t->replicas->item[i]);
    if (t->replicas) lki_drop(t->replicas->whole);
    lki_release(t->replicas);
    for (int i = 0; t->nest && i < t->nest->count; i++)
        if (!lki_bad(t->nest->item[i])) lki_drop(t->nest->item[i]);
    lki_release(t->nest);
}

static lk_tensor *tensor_object(lk_dtype dtype, const lk_shape *shape)
{
    lk_tensor *t = lki_object_new(sizeof *t, LKI_KIND_TENSOR, LKI_LIVES_IN_STEP, tensor_destroy);
    if (!t) return &lki_poison;
    t->dtype = dtype;
    t->shape = *shape;
    t->id = next_id();
    return t;
}

lk_tensor *lki_tensor_new(lk_dtype dtype, const lk_shape *shape)
{
    lki_device *here = lki_device_current();
    return lki_tensor_on(lki_host_of(here), dtype, shape);
}

lk_tensor *lki_tensor_on(lki_device *device, lk_dtype dtype, const lk_shape *shape)
{
    lki_buffer *buffer = lki_buffer_new(device, lki_bytes_of(lki_shape_size(shape), lk_dtype_bytes(dtype)));
    if (!buffer) return &lki_poison;
    lk_tensor *t = tensor_object(dtype, shape);
    if (lki_bad(t)) {
        lki_buffer_drop(buffer);
        return t;
    }
    t->buffer = buffer;
    t->data = buffer->data;
    return t;
}

void *lki_data_on(const lk_tensor *t, lki_device *device)
{
    if (!t->buffer || lki_same_memory(t->buffer->device, device)) return t->data;
    char *at = lki_buffer_at(t->buffer, device);
    return at ? at + ((const char *)t->data - (const char *)t->buffer->data) : NULL;
}

const void *lki_host_data(const lk_tensor *t) { return lki_data_on(t, lki_device_cpu()); }

lk_tensor *lki_masked(lk_tensor *t, lk_tensor *mask, bool fresh)
{
    if (lki_bad(t) || mask == &lki_poison) return &lki_poison;
    if (t->mask == mask) return t;
    if (!fresh) t = lk_identity(t);
    if (lki_bad(t)) return t;
    lki_drop(t->mask);
    t->mask = lki_retain(mask);
    return t;
}

lk_tensor *lki_tensor_view(lk_tensor *from, const lk_shape *shape)
{
    lk_tensor *t = tensor_object(from->dtype, shape);
    if (lki_bad(t)) return t;
    lki_readers_take();
    t->buffer = lki_buffer_retain(from->buffer);
    t->data = from->data;
    if (from->variable) link_reader(t, from->variable);
    lki_readers_give();
    return t;
}

lk_tensor *lki_tensor_traced(lk_dtype dtype, const lk_shape *shape, const lki_rows *rows, void *graph, int value)
{
    lk_tensor *t = tensor_object(dtype, shape);
    if (lki_bad(t)) return t;
    t->rows = *rows;
    t->graph = graph;
    t->value = value;
    return t;
}

lk_tensor *lki_variable_reader(lk_variable *v)
{
    lk_tensor *t = tensor_object(v->dtype, &v->shape);
    if (lki_bad(t)) return t;
    lki_readers_take();
    t->buffer = lki_buffer_retain(v->buffer);
    t->data = v->buffer->data;
    link_reader(t, v);
    lki_readers_give();
    return t;
}

static void move_reader(lk_tensor *t, lki_buffer *to)
{
    unlink_reader(t);
    t->data = (char *)to->data + ((const char *)t->data - (const char *)t->buffer->data);
    __atomic_sub_fetch(&t->buffer->refs, 1, __ATOMIC_ACQ_REL); /* never the last one: the variable holds it too */
    t->buffer = lki_buffer_retain(to);
}

void *lki_variable_storage(lk_variable *v)
{
    if (lki_variable_settle(v) != LK_OK) return NULL;
    lki_readers_take();
    bool read = v->readers != NULL;
    lki_readers_give();
    if (!read) {
        lki_buffer_changed(v->buffer);
        return v->buffer->data;
    }
    lki_buffer *copy = lki_buffer_new(v->buffer->device, v->buffer->bytes);
    if (!copy) return NULL;
    copy->work = v->buffer->work;
    lki_readers_take();
    lk_status status =
        v->readers ? v->buffer->device->ops->copy(v->buffer->device, copy->data, v->buffer->data, v->buffer->bytes) : LK_OK;
    if (status == LK_OK) lki_buffer_hand_over(copy, v->buffer); /* tensors that readers got keep their elements */
    while (v->readers && status == LK_OK)
        move_reader(v->readers, copy);
    lki_readers_give();
    lki_buffer_drop(copy);
    return status == LK_OK ? v->buffer->data : NULL;
}

const void *lki_variable_values(const lk_variable *v)
{
    return lki_variable_settle(v) == LK_OK ? lki_buffer_at(v->buffer, lki_device_cpu()) : NULL;
}

lk_status lki_variable_fill(lk_variable *v, const void *host)
{
    LKI_TRY(lki_variable_room(v));
    if (!lki_variable_storage(v)) return LK_ENOMEM;
    return lki_buffer_write(v->buffer, 0, host, v->buffer->bytes);
}

lk_tensor *lki_tensor_row_range(lk_tensor *from, int64_t first, int64_t rows, const lki_rows *meaning)
{
    lk_shape shape = from->shape;
    shape.dim[0] = rows;
    lk_tensor *t = lki_tensor_view(from, &shape);
    if (lki_bad(t)) return t;
    int64_t entry = lki_shape_size_from(&from->shape, 1);
    if (t->data) t->data = (char *)t->data + lki_bytes_of(lki_size_mul(first, entry), lk_dtype_bytes(from->dtype));
    t->rows = *meaning;
    return t;
}

bool lki_same_bits(const lk_tensor *a, const lk_tensor *b)
{
    size_t bytes = lki_bytes_of(lki_shape_size(&a->shape), lk_dtype_bytes(a->dtype));
    if (lki_same_elements(a, b)) return true;
    if (a->graph || b->graph || a->dtype != b->dtype || !lki_shape_equal(&a->shape, &b->shape)) return false;
    const void *x = bytes ? lki_host_data(a) : NULL, *y = bytes ? lki_host_data(b) : NULL;
    return !bytes || (x && y && !memcmp(x, y, bytes));
}

lk_tensor *lki_per_replica(void *strategy, int count, lk_tensor *const *items, lk_tensor *whole, bool mirrored)
{
    for (int i = 0; i < count; i++)
        if (lki_bad(items[i])) return &lki_poison;
    lk_tensor *t = tensor_object(items[0]->dtype, &items[0]->shape);
    if (lki_bad(t)) return t;
    t->replicas = lki_zalloc(lki_bytes_add(sizeof *t->replicas, lki_bytes_of(count, sizeof *items)));
    if (!t->replicas) return &lki_poison;
    *t->replicas = (lki_replicas){.count = count, .mirrored = mirrored, .strategy = strategy, .whole = lki_retain(whole)};
    for (int i = 0; i < count; i++)
        t->replicas->item[i] = lki_retain(items[i]);
    return t;
}

lk_tensor *lk_nest(lk_tuple items)
{
    lk_tensor *t = tensor_object(LK_F32, &(lk_shape){0});
    if (lki_bad(t)) return t;
    t->nest = lki_zalloc(lki_bytes_add(sizeof *t->nest, lki_bytes_of(items.count + 1, sizeof(lk_tensor *))));
    if (!t->nest) return &lki_poison;
    t->nest->item = (lk_tensor **)(t->nest + 1);
    for (; t->nest->count < items.count; t->nest->count++) {
        lk_tensor *item = items.item[t->nest->count];
        t->nest->item[t->nest->count] = item && !lki_bad(item) ? lki_retain(item) : item;
    }
    return t;
}

lk_tuple lk_nested(const lk_tensor *t)
{
    if (!t || (!lki_bad(t) && !t->nest)) lki_fail(LK_EINVAL, "lk_nested: not a tuple made by lk_nest()");
    return lki_bad(t) || !t->nest ? lki_tuple_new(0, NULL) : lki_tuple_new(t->nest->count, t->nest->item);
}

lk_status lki_tensor_detach(lk_tensor *t)
{
    if (!__atomic_load_n(&t->variable, __ATOMIC_RELAXED)) return LK_OK;
    lki_buffer *copy = lki_buffer_new(t->buffer->device, t->buffer->bytes);
    if (!copy) return LK_ENOMEM;
    copy->work = t->buffer->work;
    lki_readers_take();
    lk_status    status = LK_OK;
    lk_variable *v = t->variable;
    bool         twins = v && v->buffer->twins; /* tensors that readers got keep their elements: then all twins move */
    if (v) status = copy->device->ops->copy(copy->device, copy->data, v->buffer->data, copy->bytes);
    if (v && status == LK_OK && twins) {
        lki_buffer_hand_over(copy, v->buffer);
        while (v->readers)
            move_reader(v->readers, copy);
    } else if (v && status == LK_OK) move_reader(t, copy);
    lki_readers_give();
    lki_buffer_drop(copy);
    return status;
}

lk_tensor *lki_tensor_for_host(lk_tensor *t)
{
    if (!t->buffer || lki_host_of(t->buffer->device) == t->buffer->device) return t;
    const void *data = lki_host_data(t);
    lk_tensor  *host = data ? lk_tensor_from(t->shape, t->dtype, data) : &lki_poison;
    if (lki_bad(host)) return host;
    host->rows = t->rows;
    host->weak = t->weak;
    return host;
}

lk_status lki_settle(const lk_tensor *t)
{
    for (int i = 0; t->replicas && i < t->replicas->count; i++)
        LKI_TRY(lki_settle(t->replicas->item[i]));
    for (int i = 0; t->nest && i < t->nest->count; i++)
        if (t->nest->item[i]) LKI_TRY(lki_settle(t->nest->item[i]));
    return t->buffer ? lki_buffer_settle(t->buffer) : LK_OK;
}

/* ---- public ---- */

static lk_tensor *new_checked(const char *call, const lk_shape *shape, lk_dtype dtype)
{
    char text[LKI_SHAPE_TEXT];
    if ((unsigned)dtype >= LK_DTYPE_COUNT)
        return lki_fail(LK_EDTYPE, "%s: %d is not an element type", call, (int)dtype), &lki_poison;
    if (!lki_shape_valid(shape)) {
        lki_fail(LK_ESHAPE, "%s: %s is not a shape; sizes are 0 or more, at most %d of them, and their product must be countable",
                 call, lki_shape_text(shape, text), LK_MAX_RANK);
        return &lki_poison;
    }
    return lki_tensor_new(dtype, shape);
}

lk_tensor *lk_tensor_of_values(lk_shape shape, int count, const double *one_based)
{
    LKI_NEAREST;
    lk_tensor *t = new_checked("lk_tensor_of", &shape, LK_F32);
    if (lki_bad(t)) return t;
    int64_t size = lki_shape_size(&shape);
    if (!lki_list_given("lk_tensor_of", count, one_based)) return &lki_poison;
    if (count > size || (count == 0 && size > 0))
        return lki_fail(LK_ESHAPE, "lk_tensor_of: %d values for %lld elements", count, (long long)size), &lki_poison;
    for (int64_t i = 0; i < size; i++)
        ((float *)t->data)[i] = (float)one_based[1 + lki_min(i, count - 1)];
    return t;
}

lk_tensor *lk_tensor_from(lk_shape shape, lk_dtype dtype, const void *data)
{
    lk_tensor *t = new_checked("lk_tensor_from", &shape, dtype);
    if (lki_bad(t)) return t;
    size_t bytes = lki_bytes_of(lki_shape_size(&shape), lk_dtype_bytes(dtype));
    if (bytes && !data) return lki_fail(LK_EINVAL, "lk_tensor_from: data is NULL"), &lki_poison;
    if (bytes) memcpy(t->data, data, bytes);
    return t;
}

static void copy_strided(const lk_shape *shape, int axis, size_t bytes, char **dst, const char *src, const int64_t *strides)
{
    if (axis == shape->rank) {
        memcpy(*dst, src, bytes);
        *dst += bytes;
        return;
    }
    for (int64_t i = 0; i < shape->dim[axis]; i++)
        copy_strided(shape, axis + 1, bytes, dst, src + i * strides[axis] * (int64_t)bytes, strides);
}

lk_tensor *lk_tensor_from_strided(lk_shape shape, lk_dtype dtype, const void *data, const int64_t *strides)
{
    lk_tensor *t = new_checked("lk_tensor_from_strided", &shape, dtype);
    if (lki_bad(t)) return t;
    if (lki_shape_size(&shape) && (!data || (shape.rank && !strides)))
        return lki_fail(LK_EINVAL, "lk_tensor_from_strided: %s is NULL", data ? "strides" : "data"), &lki_poison;
    char *dst = t->data;
    if (lki_shape_size(&shape)) copy_strided(&shape, 0, lk_dtype_bytes(dtype), &dst, data, strides);
    return t;
}

void lki_repeat(lk_dtype dtype, void *elements, int64_t size, double value)
{
    LKI_NEAREST;
    const size_t bytes = lk_dtype_bytes(dtype);
    if (size) lki_element_set(dtype, elements, 0, value);
    for (int64_t done = 1; done < size; done *= 2)
        memcpy((char *)elements + (size_t)done * bytes, elements, (size_t)lki_min(done, size - done) * bytes);
}

static lk_tensor *filled(const char *call, lk_shape shape, lk_dtype dtype, double value)
{
    lk_tensor *t = new_checked(call, &shape, dtype);
    if (lki_bad(t)) return t;
    lki_repeat(dtype, t->data, lki_shape_size(&shape), value);
    return t;
}

lk_tensor *lk_fill(lk_shape shape, lk_dtype dtype, double value) { return filled("lk_fill", shape, dtype, value); }
lk_tensor *lk_zeros(lk_shape shape, lk_dtype dtype) { return filled("lk_zeros", shape, dtype, 0); }
lk_tensor *lk_ones(lk_shape shape, lk_dtype dtype) { return filled("lk_ones", shape, dtype, 1); }

lk_tensor *lk_scalar(double value)
{
    lk_tensor *t = filled("lk_scalar", (lk_shape){0}, LK_F32, value);
    if (lki_bad(t)) return t;
    t->weak = true;
    return t;
}

lk_tensor *lk_range(int64_t count, lk_dtype dtype)
{
    LKI_NEAREST;
    lk_shape   shape = {1, {count}};
    lk_tensor *t = new_checked("lk_range", &shape, dtype);
    if (lki_bad(t)) return t;
    for (int64_t i = 0; i < count; i++)
        lki_element_set(dtype, t->data, i, (double)i);
    return t;
}

lk_shape lk_tensor_shape(const lk_tensor *t) { return t ? t->shape : (lk_shape){0}; }

lk_dtype lk_tensor_dtype(const lk_tensor *t) { return t ? t->dtype : LK_F32; }

int lk_rank(const lk_tensor *t) { return t ? t->shape.rank : 0; }

int64_t lk_dim(const lk_tensor *t, int axis)
{
    int i = lki_bad(t) ? -1 : lki_axis_normal(axis, t->shape.rank);
    if (i >= 0) return t->shape.dim[i];
    if (!lki_bad(t)) lki_fail(LK_EINVAL, "lk_dim: axis %d is outside rank %d", axis, t->shape.rank);
    return -1;
}

int64_t lk_size(const lk_tensor *t) { return lki_bad(t) ? 0 : lki_shape_size(&t->shape); }

int lk_poisoned(const lk_tensor *t) { return lki_bad(t); }

const void *lk_data(const lk_tensor *t)
{
    if (!t) lki_fail(LK_EINVAL, "lk_data: the tensor is NULL");
    if (lki_bad(t)) return NULL;
    if (t->replicas && t->replicas->mirrored) return lk_data(t->replicas->item[0]);
    if (lki_stands_for(t)) return lki_fail(LK_EINVAL, "lk_data: %s", lki_why_not_plain(t)), NULL;
    if (t->graph) {
        lki_fail(LK_ESTATE, "lk_data: a tensor of a function being traced has no value yet; return it from the function and read "
                            "the result of lk_call()");
        return NULL;
    }
    return lki_host_data(t);
}

double lk_item(const lk_tensor *t)
{
    const void *data = lk_data(t);
    char        text[LKI_SHAPE_TEXT];
    if (!data) return NAN;
    if (lki_shape_size(&t->shape) == 1) return lki_element_get(t->dtype, data, 0);
    return lki_fail(LK_ESHAPE, "lk_item: %s has %lld elements, not one", lki_shape_text(&t->shape, text),
                    (long long)lki_shape_size(&t->shape)),
           NAN;
}

lk_tensor *lk_keep(lk_tensor *t)
{
    if (!lki_bad(t)) lki_object_keep(t);
    return t;
}

lk_tensor *lk_rows(lk_tensor *t, int64_t global_batch)
{
    if (!lki_usable("lk_rows", "the tensor", t)) return &lki_poison;
    char text[LKI_SHAPE_TEXT];
    if (t->shape.rank < 1) return lki_refuse(LK_ESHAPE, "lk_rows: a scalar has no rows");
    if (global_batch > LKI_MOST_ROWS || t->shape.dim[0] > LKI_MOST_ROWS)
        return lki_refuse(LK_EINVAL, "lk_rows: a global batch has at most %lld rows", (long long)LKI_MOST_ROWS);
    if (global_batch < 0 || (global_batch && global_batch < t->shape.dim[0]))
        return lki_refuse(LK_EINVAL,
                          "lk_rows: %s has %lld rows, more than a global batch of %lld; pass 0 or the size of a full batch",
                          lki_shape_text(&t->shape, text), (long long)t->shape.dim[0], (long long)global_batch);
    lki_attr attr = {.num = {.a = (double)global_batch}};
    return lki_apply1(LKI_OP_rows, &attr, t);
}

/* ---- tuples ---- */

typedef struct tuple_object {
    lki_object object;
    int        count;
    lk_tensor *item[];
} tuple_object;

enum { READABLE_ITEMS = 8 };

static void tuple_destroy(void *object)
{
    tuple_object *t = object;
    for (int i = 0; i < t->count; i++)
        if (!lki_bad(t->item[i])) lki_drop(t->item[i]);
}

static lk_tuple poisoned_tuple(void)
{
    static lk_tensor *items[READABLE_ITEMS] = {&lki_poison, &lki_poison, &lki_poison, &lki_poison,
                                               &lki_poison, &lki_poison, &lki_poison, &lki_poison};
    return (lk_tuple){0, items};
}

lk_tuple lki_tuple_new(int count, lk_tensor *const *items)
{
    int           room = count > READABLE_ITEMS ? count : READABLE_ITEMS;
    tuple_object *t =
        lki_object_new(sizeof *t + (size_t)room * sizeof t->item[0], LKI_KIND_TUPLE, LKI_LIVES_IN_STEP, tuple_destroy);
    if (!t) return poisoned_tuple();
    t->count = count;
    for (int i = 0; i < room; i++)
        t->item[i] = i < count ? items[i] : &lki_poison;
    for (int i = 0; i < count; i++)
        if (!lki_bad(t->item[i])) lki_retain(t->item[i]);
    return (lk_tuple){count, t->item};
}

lk_tuple lk_tuple_from(int count, lk_tensor *const *items)
{
    if (count < 0 || (count && !items)) lki_fail(LK_EINVAL, "lk_tuple_from: %d tensors from %s", count, items ? "a list" : "NULL");
    return count < 0 || (count && !items) ? poisoned_tuple() : lki_tuple_new(count, items);
}

lk_tuple lk_tuple_of(int count, lk_tensor *const *one_based) { return lk_tuple_from(count, one_based ? one_based + 1 : NULL); }

lk_tuple lk_rows_all(lk_tuple batch, int64_t global_batch)
{
    lk_tensor **marked LKI_RELEASED = lki_alloc_array(batch.count + 1, sizeof *marked);
    if (!marked) return poisoned_tuple();
    for (int i = 0; i < batch.count; i++)
        marked[i] = lk_rows(batch.item[i], global_batch);
    return lki_tuple_new(batch.count, marked);
}

/* ---- printing ---- */

enum { EDGE = 3, SHORTEN_ABOVE = 1000 };

static void print_number(lk_dtype dtype, const void *data, int64_t i)
{
    double x = lki_element_get(dtype, data, i);
    if (dtype == LK_BOOL) lki_output("%s", x != 0 ? "true" : "false");
    else if (lki_is_int(dtype)) lki_output("%lld", dtype == LK_I64 ? (long long)((const int64_t *)data)[i] : (long long)x);
    else if (isnan(x)) /* whatever the sign */ lki_output("nan");
    else lki_output("%.*g", dtype == LK_F64 ? 15 : 7, x);
}

static void print_axis(const lk_tensor *t, const void *data, int axis, int64_t offset, bool shorten)
{
    if (axis == t->shape.rank) {
        print_number(t->dtype, data, offset);
        return;
    }
    int64_t n = t->shape.dim[axis], inner = lki_shape_size_from(&t->shape, axis + 1);
    lki_output("[");
    for (int64_t i = 0; i < n; i++) {
        if (i) lki_output(", ");
        if (shorten && n > 2 * EDGE && i == EDGE) {
            lki_output("..., ");
            i = n - EDGE;
        }
        print_axis(t, data, axis + 1, offset + i * inner, shorten);
    }
    lki_output("]");
}

void lki_print_value(const lk_tensor *t)
{
    const void *data = lki_host_data(t);
    if (data) print_axis(t, data, 0, 0, lki_shape_size(&t->shape) > SHORTEN_ABOVE);
}

/* "PerReplica:{", a line per replica, "}". */
static lk_status print_replicas(const lk_tensor *t)
{
    lki_output("%s:{\n", t->replicas->mirrored ? "Mirrored" : "PerReplica");
    for (int i = 0; i < t->replicas->count; i++) {
        lki_output("  %d: ", i);
        lk_print(t->replicas->item[i]);
    }
    lki_output("}\n");
    return LK_OK;
}

static lk_status print_nest(const lk_tensor *t)
{
    lki_output("(\n");
    for (int i = 0; i < t->nest->count; i++)
        if (t->nest->item[i]) lk_print(t->nest->item[i]);
        else lki_output("none\n");
    lki_output(")\n");
    return LK_OK;
}

lk_status lk_print(const lk_tensor *t)
{
    LKI_NEAREST;
    if (!t) return lki_fail(LK_EINVAL, "lk_print: the tensor is NULL");
    if (lki_bad(t)) {
        const lk_status status = lki_poisoned_status("lk_print");
        lki_output("poisoned: %s\n", lk_error());
        return status;
    }
    if (t->replicas) return print_replicas(t);
    if (t->nest) return print_nest(t);
    if (t->graph) {
        char text[LKI_SHAPE_TEXT];
        lki_output("traced %s %s\n", lk_dtype_name(t->dtype), lki_shape_text(&t->shape, text));
        return LK_OK;
    }
    lki_print_value(t);
    lki_output("\n");
    return LK_OK;
}
