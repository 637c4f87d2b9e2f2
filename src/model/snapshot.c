/* A checkpoint as it was at one moment (snapshot.h): naming the values, copying them, writing them, verifying what was written.
 *
 * A snapshot keeps its entries in the order of the walk, each in a separate block. The next one visits the same values in the same
 * order, so it reuses blocks of the right size, which are in memory already. */
#include "model/snapshot.h"
#include "core/dtype.h"
#include "core/memory.h"
#include "core/rounding.h"
#include "core/runtime.h"
#include "format/bundle.h"
#include "kernel/kernel.h"
#include "model/trackable.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The destination of values: files, or a snapshot. */
typedef struct receiver {
    lk_status (*value)(void *to, const char *key, lk_dtype dtype, const lk_shape *shape, const void *data);
    lk_status (*text)(void *to, const char *key, const void *text, size_t size);
    void *to;
} receiver;

/* ---- where the bits come from ------------------------------------------------------------------------------------------------ */

lki_provenance lki_provenance_under(const lk_strategy *s)
{
    static const char *const names[] = LKI_PRECISION_NAMES;
    const bool               own = s && s->kind != LKI_STRATEGY_DEFAULT;
    const bool               host = lki_on_host(own ? s->device[0] : lki_device_current());
    const lki_precision      p = own && s->precision != LKI_PRECISIONS ? s->precision : lki_precision_now();
    lki_provenance           o = {.lanes = own ? s->lanes : lk_lanes(), .kernels = LKI_KERNEL_VERSION};
    snprintf(o.device, sizeof o.device, "%s", host ? "CPU" : "GPU");
    snprintf(o.precision, sizeof o.precision, "%s", names[host ? LKI_PRECISION_F32 : p]);
    return o;
}

/* The strategy of the first variable that belongs to one; NULL: none does. */
static const lk_strategy *strategy_of(const lki_trackables *t)
{
    for (int i = 0; i < t->graph.count; i++) {
        const lk_variable *v = t->node[i].variable;
        if (v && v->spread && v->spread->strategy) return v->spread->strategy;
    }
    return NULL;
}

static lk_status add_provenance(const receiver *r, const lki_trackables *t)
{
    const lki_provenance o = lki_provenance_under(strategy_of(t));
    char                 text[96];
    const int            n =
        snprintf(text, sizeof text, "lanes %d\ndevice %s\nprecision %s\nkernels %d\n", o.lanes, o.device, o.precision, o.kernels);
    return r->text(r->to, LKI_PROVENANCE_KEY, text, (size_t)n);
}

/* ---- naming the values ------------------------------------------------------------------------------------------------------- */

static lk_status add_value(const receiver *r, const char *key, lk_variable *v)
{
    lk_status status = LK_OK;
    LK_STEP {
        lk_tensor  *value = lk_read(v);
        const void *data = lki_bad(value) ? NULL : lk_data(value);
        if (data) status = r->value(r->to, key, value->dtype, &value->shape, data);
        else status = lki_poisoned_status("lk_checkpoint_save");
    }
    return status;
}

/* In Keras' form: floats, here the sums over the lanes in their order. */
static lk_status add_sum(const receiver *r, const char *key, const lk_variable *v)
{
    LKI_NEAREST;
    const lk_shape entry = lki_entry_shape(v);
    const int64_t  size = lki_shape_size(&entry);
    const void    *lanes = lki_variable_values(v);
    float         *out LKI_RELEASED = lanes ? lki_alloc_array(lki_max(1, size), sizeof *out) : NULL;
    if (!out) return lk_error_code();
    for (int64_t k = 0; k < size; k++) {
        double sum = 0;
        for (int64_t lane = 0; lane < v->shape.dim[0]; lane++)
            sum += lki_element_get(v->dtype, lanes, lane * size + k);
        out[k] = (float)sum;
    }
    return r->value(r->to, key, LK_F32, &entry, out);
}

static lk_status add_node(const receiver *r, lki_trackables *t, int i)
{
    const lki_tracked *n = &t->node[i];
    char               exact[LKI_EXACT_KEY];
    if (n->exact) {
        const void *values = lki_variable_values(n->exact);
        if (!values) return lk_error_code();
        LKI_TRY(r->value(r->to, lki_exact_key(i, exact), n->exact->dtype, &n->exact->shape, values));
    }
    if (!n->variable) return LK_OK;
    lki_sink key LKI_FREED_BY(lki_sink_free) = {0};
    lki_sink_bytes(&key, n->path, strlen(n->path));
    lki_sink_bytes(&key, LKI_VARIABLE_KEY, sizeof LKI_VARIABLE_KEY);
    LKI_TRY(key.failed ? LK_ENOMEM : lki_object_graph_name(&t->graph, i, (char *)key.data, n->variable->name));
    return n->lanes ? add_sum(r, (char *)key.data, n->variable) : add_value(r, (char *)key.data, n->variable);
}

static lk_status add_graph(const receiver *r, lki_trackables *t)
{
    lki_sink message LKI_FREED_BY(lki_sink_free) = {0};
    lki_object_graph_write(&t->graph, &message);
    return message.failed ? LK_ENOMEM : r->text(r->to, LKI_OBJECT_GRAPH_KEY, message.data, message.size);
}

static lk_status walk(lk_checkpoint *c, const receiver *r)
{
    lki_trackables t LKI_FREED_BY(lki_trackables_free) = {0};
    LKI_TRY(lki_trackables_of(c, &t));
    const lki_outside before = lki_step_outside();
    lk_status         status = LK_OK;
    for (int i = 0; i < t.graph.count && status == LK_OK; i++)
        status = add_node(r, &t, i);
    lki_step_back(&before);
    if (status == LK_OK) status = add_graph(r, &t);
    if (status == LK_OK) status = add_provenance(r, &t);
    return status;
}

/* ---- into files -------------------------------------------------------------------------------------------------------------- */

static lk_status value_to_bundle(void *to, const char *key, lk_dtype dtype, const lk_shape *shape, const void *data)
{
    return lki_bundle_add(to, key, dtype, shape, data);
}

static lk_status text_to_bundle(void *to, const char *key, const void *text, size_t size)
{
    return lki_bundle_add_text(to, key, text, size);
}

lk_status lki_checkpoint_stream(lk_checkpoint *c, const char *prefix)
{
    lki_bundle_writer w;
    LKI_TRY(lki_bundle_begin(prefix, &w));
    lk_status status = walk(c, &(receiver){value_to_bundle, text_to_bundle, &w});
    if (status == LK_OK) status = lki_bundle_commit(&w);
    lki_bundle_end(&w);
    return status;
}

/* ---- into memory ------------------------------------------------------------------------------------------------------------- */

typedef struct kept {
    char    *key;
    bool     text;
    lk_dtype dtype; /* of a value */
    lk_shape shape;
    void    *data;
    size_t   size, room;
} kept;

struct lki_snapshot {
    int   count, made, room; /* entries in use; those that have memory; the size of the array */
    kept *entry;
};

/* Takes over neither key nor data. */
static lk_status fill(kept *k, const char *key, const void *data, size_t size)
{
    if (!k->key || strcmp(k->key, key) != 0) {
        char *copy = lki_strdup(key);
        if (!copy) return LK_ENOMEM;
        lki_release(k->key);
        k->key = copy;
    }
    if (!k->data || k->room < size || k->room / 2 > size) {
        lki_release(k->data);
        k->room = 0;
        if (!(k->data = lki_alloc(size))) return LK_ENOMEM;
        k->room = size;
    }
    if (size) memcpy(k->data, data, size);
    k->size = size;
    return LK_OK;
}

static kept *place_for_one(lki_snapshot *s)
{
    if (s->count == s->made) {
        if (!lki_grow((void **)&s->entry, &s->room, s->made + 1, sizeof *s->entry)) return NULL;
        s->entry[s->made++] = (kept){0};
    }
    return &s->entry[s->count];
}

static lk_status value_to_memory(void *to, const char *key, lk_dtype dtype, const lk_shape *shape, const void *data)
{
    lki_snapshot *s = to;
    kept         *k = place_for_one(s);
    if (!k) return LK_ENOMEM;
    LKI_TRY(fill(k, key, data, lki_bytes_of(lki_shape_size(shape), lk_dtype_bytes(dtype))));
    k->text = false;
    k->dtype = dtype;
    k->shape = *shape;
    s->count++;
    return LK_OK;
}

static lk_status text_to_memory(void *to, const char *key, const void *text, size_t size)
{
    lki_snapshot *s = to;
    kept         *k = place_for_one(s);
    if (!k) return LK_ENOMEM;
    LKI_TRY(fill(k, key, text, size));
    k->text = true;
    s->count++;
    return LK_OK;
}

lk_status lki_snapshot_take(lk_checkpoint *c, lki_snapshot **s)
{
    LKI_NEAREST;
    LKI_TRY(lki_checkpoint_allowed("lk_checkpoint_save", c));
    lki_snapshot *to = *s ? *s : lki_zalloc(sizeof *to);
    if (!to) return LK_ENOMEM;
    to->count = 0;
    const lk_status status = walk(c, &(receiver){value_to_memory, text_to_memory, to});
    if (status == LK_OK) return *s = to, LK_OK;
    to->count = 0;
    if (!*s) lki_snapshot_free(to);
    return status;
}

lk_status lki_snapshot_put(lki_snapshot *s, const char *key, const void *bytes, size_t size)
{
    for (int i = 0; i < s->count; i++)
        if (s->entry[i].text && strcmp(s->entry[i].key, key) == 0) return fill(&s->entry[i], key, bytes, size);
    return text_to_memory(s, key, bytes, size);
}

void lki_snapshot_free(lki_snapshot *s)
{
    if (!s) return;
    for (int i = 0; i < s->made; i++) {
        lki_release(s->entry[i].key);
        lki_release(s->entry[i].data);
    }
    lki_release(s->entry);
    lki_release(s);
}

lk_status lki_snapshot_write(const lki_snapshot *s, const char *prefix)
{
    lki_bundle_writer w;
    LKI_TRY(lki_bundle_begin(prefix, &w));
    lk_status status = LK_OK;
    for (int i = 0; i < s->count && status == LK_OK; i++) {
        const kept *k = &s->entry[i];
        status =
            k->text ? lki_bundle_add_text(&w, k->key, k->data, k->size) : lki_bundle_add(&w, k->key, k->dtype, &k->shape, k->data);
    }
    if (status == LK_OK) status = lki_bundle_commit(&w);
    lki_bundle_end(&w);
    return status;
}

/* ---- what was written -------------------------------------------------------------------------------------------------------- */

static bool is_there(const char *prefix)
{
    char *index LKI_RELEASED = lki_path_join(prefix, strlen(prefix), ".index");
    return index && access(index, F_OK) == 0;
}

static lk_status verify_graph(const lki_bundle *b)
{
    const int        entry = lki_bundle_find(b, LKI_OBJECT_GRAPH_KEY);
    lki_object_graph graph LKI_FREED_BY(lki_object_graph_free) = {0};
    lki_bytes        bytes LKI_FREED_BY(lki_bytes_free) = {0};
    if (entry < 0) return LK_OK; /* written by name */
    LKI_TRY(lki_bundle_read_text(b, entry, &bytes));
    LKI_TRY(lki_object_graph_parse(b->path, bytes.data, bytes.size, &graph));
    for (int i = 0; i < graph.count; i++) {
        const char *key = graph.node[i].key;
        if (key && lki_bundle_find(b, key) < 0)
            return lki_fail(LK_EFORMAT, "%s: its object graph names \"%.200s\", which is not in it", b->path, key);
    }
    return LK_OK;
}

lk_status lki_checkpoint_verify(const char *prefix)
{
    lki_bundle b;
    LKI_TRY(lki_bundle_open(prefix, &b));
    lk_status status = verify_graph(&b);
    for (int i = 0; i < b.count && status == LK_OK; i++)
        status = lki_bundle_check(&b, i);
    lki_bundle_close(&b);
    return status;
}

lk_status lki_checkpoint_extra(const char *prefix, const char *key, lki_bytes *out)
{
    lki_bundle b;
    *out = (lki_bytes){0};
    if (!is_there(prefix)) return LK_ENOTFOUND;
    LKI_TRY(lki_bundle_open(prefix, &b));
    const int       entry = lki_bundle_find(&b, key);
    const lk_status status = entry < 0 ? LK_ENOTFOUND : lki_bundle_read_text(&b, entry, out);
    lki_bundle_close(&b);
    return status;
}

lk_status lki_checkpoint_provenance(const char *prefix, lki_provenance *out)
{
    lki_bytes bytes LKI_FREED_BY(lki_bytes_free) = {0};
    char      text[128];
    *out = (lki_provenance){0};
    LKI_TRY(lki_checkpoint_extra(prefix, LKI_PROVENANCE_KEY, &bytes));
    snprintf(text, sizeof text, "%.*s", (int)(bytes.size < sizeof text ? bytes.size : sizeof text - 1), (const char *)bytes.data);
    if (sscanf(text, "lanes %d device %7s precision %7s kernels %d", &out->lanes, out->device, out->precision, &out->kernels) == 4)
        return LK_OK;
    out->device[0] = out->precision[0] = 0;
    if (sscanf(text, "lanes %d isa %*s kernels %d", &out->lanes, &out->kernels) == 2) return LK_OK;
    return lki_fail(LK_EFORMAT, "%s: its note on lanes, device, precision and kernels cannot be read", prefix);
}
