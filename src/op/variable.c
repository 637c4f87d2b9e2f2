/* Variables: values that can be assigned. Storage never moves; tensors read from it move before it is written (tensor.h). */
#include "core/dtype.h"
#include "core/memory.h"
#include "core/sha256.h"
#include "op/op.h"
#include "op/record.h"
#include "op/replica.h"
#include <lockstep/ops.h>
#include <string.h>

lk_tensor *lki_variable_reader(lk_variable *v); /* tensor.c */

static void variable_destroy(void *object)
{
    lk_variable *v = object;
    if (v->buffer && !v->waits) lki_variable_storage(v); /* readers keep their value */
    if (v->spread) v->spread->destroy(v->spread);
    lki_drop(v->constraint);
    lki_buffer_drop(v->buffer);
    lki_release(v->later);
    lki_release(v->name);
}

/* With memory for its elements, or with the function that makes its first value later. */
static lk_variable *variable_object(const char *name, const lk_shape *shape, lk_dtype dtype, bool trainable, const lki_later *later)
{
    const size_t bytes = lki_bytes_of(lki_shape_size(shape), lk_dtype_bytes(dtype));
    lk_variable *v = lki_object_new(sizeof *v, LKI_KIND_VARIABLE, LKI_LIVES_IN_POOL, variable_destroy);
    if (!v) return NULL;
    v->dtype = dtype;
    v->shape = *shape;
    v->trainable = trainable;
    v->name = lki_strdup(name);
    v->waits = later != NULL;
    v->buffer = later ? lki_buffer_empty(lki_device_current(), bytes) : lki_buffer_new(lki_device_current(), bytes);
    if (v->buffer && v->buffer->device->ops->settle) v->buffer->work = LKI_ALL_WORK; /* any work may have written it */
    if (later && (v->later = lki_alloc(later->bytes))) memcpy(v->later, later, later->bytes);
    if (v->name && v->buffer && !later == !v->later) return v;
    lk_free(v);
    return NULL;
}

static bool is_trainable(const lk_variable_args *args, lk_dtype dtype)
{
    return (args->trainable == LK_ON || (!lki_switch_given(args->trainable) && args->synchronization != LK_SYNC_ON_READ)) &&
           lki_is_float(dtype);
}

/* If there is a strategy, it takes the variable over. */
static lk_variable *handed_over(lk_variable *v, const lk_variable_args *args)
{
    lki_variable_hook *hook = lki_variable_hook_current();
    if (!v || !hook || hook(v, args) == LK_OK) return v;
    lk_free(v);
    return NULL;
}

lk_variable *lki_variable_make(const lk_variable_args *args)
{
    const lk_tensor *first = args->initial;
    lk_variable     *v =
        variable_object(args->name ? args->name : "Variable", &first->shape, first->dtype, is_trainable(args, first->dtype), NULL);
    if (!v) return NULL;
    const void *initial = lki_host_data(first);
    if (!initial || lki_buffer_write(v->buffer, 0, initial, v->buffer->bytes) != LK_OK) return lk_free(v), NULL;
    return handed_over(v, args);
}

#define MOST_BYTES ((uint64_t)1 << 47) /* the largest address space of a process */

lk_variable *lki_variable_later(const lk_variable_args *args, const lk_shape *shape, lk_dtype dtype, const lki_later *later)
{
    const uint64_t bytes = lki_bytes_of(lki_shape_size(shape), lk_dtype_bytes(dtype));
    if (bytes > MOST_BYTES) /* one that can never be read is an error now */
        return lki_fail(LK_ENOMEM, "variable \"%s\": out of memory: no machine has %llu bytes", args->name,
                        (unsigned long long)bytes),
               NULL;
    return handed_over(variable_object(args->name, shape, dtype, is_trainable(args, dtype), later), args);
}

/* ---- initial values, computed at the first read ---- */

static lk_status make_first(const lk_variable *v, void *memory)
{
    const lki_buffer *b = v->buffer;
    if (lki_host_of(b->device) == b->device) return v->later->make(v->later, memory);
    void *host LKI_RELEASED = lki_alloc(b->bytes);
    LKI_TRY(host ? v->later->make(v->later, host) : LK_ENOMEM);
    return b->device->ops->write(b->device, memory, host, b->bytes);
}

/* If two threads compute it at the same time, one of them drops its result: both are equal. */
static void give_memory(lk_variable *v, void *memory)
{
    lki_buffer *b = v->buffer;
    lki_readers_take();
    const bool first = v->waits;
    if (first) b->data = memory;
    __atomic_store_n(&v->waits, false, __ATOMIC_RELEASE);
    lki_readers_give();
    if (!first) b->device->ops->release(b->device, memory, b->bytes);
}

static lk_status begin(lk_variable *v, bool with_value)
{
    if (!__atomic_load_n(&v->waits, __ATOMIC_ACQUIRE)) return LK_OK;
    lki_device     *device = v->buffer->device;
    void           *memory = device->ops->alloc(device, v->buffer->bytes);
    const lk_status status = !memory ? LK_ENOMEM : with_value ? make_first(v, memory) : LK_OK;
    if (status == LK_OK) give_memory(v, memory);
    else if (memory) device->ops->release(device, memory, v->buffer->bytes);
    return status;
}

lk_status lki_variable_settle(const lk_variable *v) { return begin((lk_variable *)(uintptr_t)v, true); }

lk_status lki_variable_room(lk_variable *v) { return begin(v, false); }

void lki_variable_renew(lk_variable *v)
{
    if (v->buffer->data) (void)make_first(v, v->buffer->data);
}

bool lki_variable_adopt(lk_variable *v, void *elements)
{
    if (!__atomic_load_n(&v->waits, __ATOMIC_ACQUIRE) || !lki_same_memory(v->buffer->device, lki_device_cpu())) return false;
    give_memory(v, elements);
    return true;
}

/* ---- making one ---- */

static bool creation_fits(const lk_variable_args *a)
{
    const char *name = a->name ? a->name : "Variable";
    if (!a->initial) return lki_fail(LK_EINVAL, "lk_variable_of: the initial value is missing"), false;
    if (!lk_data(a->initial)) return false;
    if ((unsigned)a->synchronization > LK_SYNC_NONE || (unsigned)a->aggregation > LK_AGGREGATION_ONLY_FIRST_REPLICA)
        return lki_fail(LK_EINVAL, "lk_variable_of \"%s\": synchronization %d, aggregation %d: there is no such choice", name,
                        (int)a->synchronization, (int)a->aggregation),
               false;
    if (a->synchronization == LK_SYNC_NONE) {
        lki_fail(LK_EINVAL,
                 "lk_variable_of \"%s\": LK_SYNC_NONE is not possible for a variable of a strategy; use "
                 "LK_SYNC_ON_WRITE or LK_SYNC_ON_READ",
                 name);
        return false;
    }
    if (a->synchronization == LK_SYNC_ON_READ && a->trainable == LK_ON) {
        lki_fail(LK_EINVAL, "lk_variable_of \"%s\": a sync-on-read variable cannot be trainable; its copies would not stay equal",
                 name);
        return false;
    }
    if (a->aggregation == LK_AGGREGATION_MEAN && !lki_is_float(a->initial->dtype))
        return lki_fail(LK_EINVAL, "lk_variable_of \"%s\": LK_AGGREGATION_MEAN of %s: a mean needs a float type", name,
                        lk_dtype_name(a->initial->dtype)),
               false;
    return true;
}

lk_variable *lk_variable_kw(lk_variable_args args)
{
    if (!creation_fits(&args)) return NULL;
    lki_replica *r = lki_replica_current();
    return r && r->create ? r->create(r, &args) : lki_variable_make(&args);
}

typedef struct one_number { /* for every element */
    lki_later later;
    lk_dtype  dtype;
    int64_t   size;
    double    value;
} one_number;

static lk_status repeat_number(const lki_later *later, void *elements)
{
    const one_number *n = (const one_number *)later;
    lki_repeat(n->dtype, elements, n->size, n->value);
    return LK_OK;
}

lk_variable *lki_variable_new(const char *name, const lk_shape *shape, lk_dtype dtype, double fill, bool trainable)
{
    const one_number n = {{repeat_number, sizeof n}, dtype, lki_shape_size(shape), fill};
    lk_variable_args args = {
        .name = name, .trainable = trainable ? LK_ON : LK_OFF, .aggregation = LK_AGGREGATION_ONLY_FIRST_REPLICA};
    if (!lki_replica_current()) return lki_variable_later(&args, shape, dtype, &n.later);
    args.initial = lk_fill(*shape, dtype, fill);
    if (lki_bad(args.initial)) return NULL;
    lk_variable *v = lk_variable_kw(args);
    lk_free(args.initial);
    return v;
}

/* ---- reading ---- */

bool lki_belongs_here(const char *call, const lk_variable *v)
{
    if (!v) return lki_fail(LK_EINVAL, "%s: the variable is NULL", call), false;
    void *here = lki_strategy_current();
    if (!here || !v->spread || v->spread->strategy == here) return true;
    lki_fail(LK_ESTATE,
             "%s: variable \"%s\" belongs to another strategy than the one of this scope: strategies are mixed; use it in the "
             "scope it was "
             "made in, or outside any",
             call, v->name);
    return false;
}

lk_tensor *lki_variable_read(lk_variable *v)
{
    if (lki_variable_settle(v) != LK_OK) return &lki_poison;
    lki_tracer *tracer = lki_tracer_current();
    lk_tensor  *t = tracer ? tracer->read(tracer, v) : lki_variable_reader(v);
    if (!lki_bad(t))
        for (lki_recorder *r = lki_recorders(); r; r = r->outer)
            r->read(r, v, t);
    return t;
}

lk_tensor *lk_read(lk_variable *v)
{
    if (!lki_belongs_here("lk_read", v)) return &lki_poison;
    if (!v->spread) return lki_variable_read(v);
    lki_replica *r = lki_replica_current();
    if (r && r->read) return r->read(r, v);
    return v->spread->read ? v->spread->read(v) : lki_variable_read(v);
}

/* ---- assigning ---- */

lk_tensor *lki_number_for(const lk_variable *v, lk_tensor *x)
{
    return !lki_bad(x) && x->weak && x->dtype != v->dtype ? lk_cast(x, v->dtype) : x;
}

lk_status lki_variable_update(lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_variable *v)
{
    lk_tensor *value = lki_number_for(v, src[0]), *fit[2] = {value, nsrc > 1 ? src[1] : NULL};
    bool       adds = op == LKI_OP_assign_add || op == LKI_OP_assign_sub;
    if (lki_is_half(v->dtype) && adds && !lki_bad(value) &&
        lki_shape_equal(&v->shape, &value->shape)) { /* then no kernel adds in place */
        fit[0] = op == LKI_OP_assign_add ? lk_add(lki_variable_read(v), value) : lk_sub(lki_variable_read(v), value);
        op = LKI_OP_assign;
    }
    return lki_update(op, attr, nsrc, fit, 1, &v);
}

/* In replica context the replicas may have to meet; else the strategy that owns the variable decides. */
static lk_status route(const char *call, lki_op op, const lki_attr *attr, int nsrc, lk_tensor *const *src, lk_variable *v)
{
    if (!lki_belongs_here(call, v)) return LK_ESTATE;
    lki_replica *r = lki_replica_current();
    if (r && r->update) return r->update(r, op, attr, nsrc, src, v);
    if (v->spread && v->spread->update) return v->spread->update(op, attr, nsrc, src, v);
    return lki_variable_update(op, attr, nsrc, src, v);
}

static lk_status assign(const char *call, lki_op op, lk_variable *v, lk_tensor *value)
{
    if (!v || !value) return lki_fail(LK_EINVAL, "%s: the %s is NULL", call, v ? "value" : "variable");
    if (lki_bad(value)) return lki_poisoned_status(call);
    value = lki_plain(value);
    if (lki_stands_for(value)) return lki_fail(LK_EINVAL, "%s to \"%s\": the value is %s", call, v->name, lki_why_not_plain(value));
    return route(call, op, NULL, 1, &value, v);
}

lk_status lk_assign(lk_variable *v, lk_tensor *value) { return assign("lk_assign", LKI_OP_assign, v, value); }

lk_status lk_assign_add(lk_variable *v, lk_tensor *value) { return assign("lk_assign_add", LKI_OP_assign_add, v, value); }

lk_status lk_assign_sub(lk_variable *v, lk_tensor *value) { return assign("lk_assign_sub", LKI_OP_assign_sub, v, value); }

static lk_status scatter(const char *call, int mode, lk_variable *v, lk_tensor *ids, lk_tensor *rows)
{
    lki_attr attr = {.num = {.a = mode}};
    if (!v || !ids || !rows) return lki_fail(LK_EINVAL, "%s: the %s is NULL", call, !v ? "variable" : !ids ? "ids" : "rows");
    if (lki_bad(ids) || lki_bad(rows)) return lki_poisoned_status(call);
    rows = lki_number_for(v, lki_plain(rows));
    ids = lki_plain(ids);
    if (lki_stands_for(ids) || lki_stands_for(rows))
        return lki_fail(LK_EINVAL, "%s to \"%s\": %s %s", call, v->name, lki_stands_for(ids) ? "the ids are" : "the rows are",
                        lki_why_not_plain(lki_stands_for(ids) ? ids : rows));
    if (ids->weak) ids = lk_cast(ids, LK_I64);
    return route(call, LKI_OP_scatter, &attr, 2, (lk_tensor *const[]){rows, ids}, v);
}

#define SCATTER(name, mode)                                                                                                        \
    lk_status lk_scatter_##name(lk_variable *v, lk_tensor *ids, lk_tensor *rows)                                                   \
    {                                                                                                                              \
        return scatter("lk_scatter_" #name, mode, v, ids, rows);                                                                   \
    }
SCATTER(add, 0)
SCATTER(sub, 1)
SCATTER(mul, 2)
SCATTER(div, 3)
SCATTER(min, 4)
SCATTER(max, 5)
SCATTER(update, 6)

/* ---- asking ---- */

lk_synchronization lk_variable_synchronization(const lk_variable *v)
{
    return v && v->spread ? v->spread->synchronization : LK_SYNC_ON_WRITE;
}

lk_aggregation lk_variable_aggregation(const lk_variable *v)
{
    return v && v->spread ? v->spread->aggregation : LK_AGGREGATION_NONE;
}

const char *lk_variable_name(const lk_variable *v) { return v ? v->name : ""; }

lk_shape lk_variable_shape(const lk_variable *v) { return v ? v->shape : (lk_shape){0}; }

lk_dtype lk_variable_dtype(const lk_variable *v) { return v ? v->dtype : LK_F32; }

int lk_variable_trainable(const lk_variable *v) { return v && v->trainable; }

/* ---- lists of variables ---- */

typedef struct list_object {
    lki_object   object;
    int          count;
    lk_variable *item[];
} list_object;

static void list_destroy(void *object)
{
    list_object *l = object;
    for (int i = 0; i < l->count; i++)
        lki_drop(l->item[i]);
}

lk_variables lk_variables_of(int count, lk_variable *const *one_based)
{
    return lk_variables_from(count, one_based ? one_based + 1 : NULL);
}

lk_variables lk_variables_from(int count, lk_variable *const *items)
{
    list_object *l = lki_object_new(sizeof *l + (size_t)(count > 0 ? count : 0) * sizeof l->item[0], LKI_KIND_TUPLE,
                                    LKI_LIVES_IN_STEP, list_destroy);
    if (l && (count < 0 || (count && !items)))
        lki_fail(LK_EINVAL, "lk_variables_from: %d variables from %s", count, items ? "a list" : "NULL");
    if (!l || count < 0 || (count && !items)) return (lk_variables){0};
    l->count = count;
    for (int i = 0; i < count; i++)
        l->item[i] = lki_retain(items[i]);
    return (lk_variables){count, l->item};
}

static void add_values(lki_sha256 *sha, const lk_variable *v)
{
    const void *values = lki_variable_values(v);
    if (values) lki_sha256_add(sha, values, v->buffer->bytes);
}

/* The value that the variable has outside replicas; without an aggregation, the values of its components. */
static void digest_value(lki_sha256 *sha, lk_variable *v)
{
    lki_spread *p = v->spread;
    bool        reads = p && p->read && p->aggregation != LK_AGGREGATION_NONE;
    lk_tensor  *value = reads ? p->read(v) : NULL;
    if (value && lk_data(value)) lki_sha256_add(sha, lk_data(value), v->buffer->bytes);
    for (int r = 0; p && p->component && !reads && r < p->count; r++)
        add_values(sha, p->component[r]);
    if (!p || !p->component) add_values(sha, v);
}

lk_digest lk_variables_digest(lk_variables v)
{
    lk_digest  digest;
    lki_sha256 sha;
    lki_sha256_begin(&sha);
    for (int i = 0; i < v.count; i++) {
        lk_variable *x = v.item[i];
        if (!x) continue;
        int64_t head[2 + LK_MAX_RANK] = {x->dtype, x->shape.rank};
        for (int d = 0; d < x->shape.rank; d++)
            head[2 + d] = x->shape.dim[d];
        lki_sha256_add(&sha, x->name, strlen(x->name) + 1);
        lki_sha256_add(&sha, head, sizeof head);
        digest_value(&sha, x);
    }
    lki_sha256_end(&sha, digest.byte);
    return digest;
}

int lk_digest_equal(lk_digest a, lk_digest b) { return memcmp(a.byte, b.byte, sizeof a.byte) == 0; }

const char *lk_digest_text(lk_digest d, char text[65])
{
    static const char digit[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        text[2 * i] = digit[d.byte[i] >> 4];
        text[2 * i + 1] = digit[d.byte[i] & 15];
    }
    text[64] = 0;
    return text;
}
