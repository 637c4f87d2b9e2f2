/* Cross-device operations: ReductionToOneDevice, HierarchicalCopyAllReduce, NcclAllReduce and the default collective; packing.
 *
 * CPU devices share memory, so nothing is moved: the operations differ in the order of addition and in how a batch is packed.
 * Values that are linear in sums over rows (total.c) are added up the lane tree with all of them, so results do not depend on the
 * choice. */
#include "dist/cross.h"
#include "core/dtype.h"
#include "core/log.h"
#include "core/memory.h"
#include "dist/device.h"
#include "op/gradient.h"
#include "op/origin.h"
#include <lockstep/ops.h>
#include <math.h>

/* ---- orders of addition ---- */

/* Replica 0, 1, 2, ... */
static lk_tensor *in_order(int count, lk_tensor *const *items)
{
    lk_tensor *sum = items[0];
    for (int r = 1; r < count; r++)
        sum = lk_add(sum, items[r]);
    return sum;
}

static lk_tensor *sum_to_one(lk_cross_device_ops *self, int pack, int count, lk_tensor *const *items)
{
    (void)self, (void)pack;
    return in_order(count, items);
}

/* Two groups that cover all devices, floor and ceil of half of them. For pack i the root of group A is its device i, and that of
 * group B the device with the same index in B; each group is added at its root, starting there, and then the two roots. */
static lk_tensor *group_sum(int size, lk_tensor *const *items, int root)
{
    lk_tensor *sum = items[root];
    for (int i = 1; i < size; i++)
        sum = lk_add(sum, items[(root + i) % size]);
    return sum;
}

static lk_tensor *sum_hierarchical(lk_cross_device_ops *self, int pack, int count, lk_tensor *const *items)
{
    (void)self;
    int a = count / 2, b = count - a;
    if (!a) return items[0];
    return lk_add(group_sum(a, items, pack % a), group_sum(b, items + a, pack % b));
}

/* A tree over the replicas: neighbours first. */
static lk_tensor *sum_tree(lk_cross_device_ops *self, int pack, int count, lk_tensor *const *items)
{
    if (count == 1) return items[0];
    int half = 1;
    while (2 * half < count)
        half *= 2;
    return lk_add(sum_tree(self, pack, half, items), sum_tree(self, pack, count - half, items + half));
}

static const lki_cross_kind ONE_DEVICE = {"ReductionToOneDevice", sum_to_one, false, false};
static const lki_cross_kind HIERARCHICAL = {"HierarchicalCopyAllReduce", sum_hierarchical, true, false};
static const lki_cross_kind NCCL = {"NcclAllReduce", sum_to_one, true, false}; /* falls back */
static const lki_cross_kind COLLECTIVE = {"CollectiveAllReduce", sum_tree, false, true};

/* ---- making them ---- */

static void destroy(void *object) { lki_release(((lk_cross_device_ops *)object)->device); }

static lk_cross_device_ops *cross_new(const lki_cross_kind *kind, lki_life life)
{
    lk_cross_device_ops *o = lki_object_new(sizeof *o, LKI_KIND_CROSS_DEVICE_OPS, life, destroy);
    if (!o) return NULL;
    o->kind = kind;
    o->num_packs = 1;
    return o;
}

lk_cross_device_ops *lki_cross_default(void) { return cross_new(&COLLECTIVE, LKI_LIVES_BY_REFERENCE); }

lk_cross_device_ops *lk_reduction_to_one_device_kw(lk_one_device_args a)
{
    lki_device_name d;
    if (a.reduce_to_device && lki_device_find("lk_reduction_to_one_device", a.reduce_to_device, &d) != LK_OK) return NULL;
    lk_cross_device_ops *o = cross_new(&ONE_DEVICE, LKI_LIVES_IN_POOL);
    if (o && a.reduce_to_device && !(o->device = lki_strdup(d.full))) return NULL;
    return o;
}

static lk_cross_device_ops *with_packs(const lki_cross_kind *kind, const char *call, lk_packs_args a)
{
    if (lki_number_given(a.num_packs) && !(lki_number(a.num_packs) >= 0 && lki_number(a.num_packs) < 1 << 20 &&
                                           lki_number(a.num_packs) == floor(lki_number(a.num_packs)))) {
        lki_fail(LK_EINVAL, "%s: num_packs is %g; it must be an integer, 0 (no packing) or more", call, lki_number(a.num_packs));
        return NULL;
    }
    lk_cross_device_ops *o = cross_new(kind, LKI_LIVES_IN_POOL);
    if (o && lki_number_given(a.num_packs)) o->num_packs = (int)lki_number(a.num_packs);
    return o;
}

lk_cross_device_ops *lk_hierarchical_copy_all_reduce_kw(lk_packs_args a)
{
    return with_packs(&HIERARCHICAL, "lk_hierarchical_copy_all_reduce", a);
}

lk_cross_device_ops *lk_nccl_all_reduce_kw(lk_packs_args a) { return with_packs(&NCCL, "lk_nccl_all_reduce", a); }

lk_status lki_check_communication(const char *call, const lk_communication_options *o)
{
    if (o->bytes_per_pack < 0)
        return lki_fail(LK_EINVAL, "%s: bytes_per_pack is %lld; it must be 0 (one pack) or more", call,
                        (long long)o->bytes_per_pack);
    if ((unsigned)o->implementation > LK_COMMUNICATION_NCCL)
        return lki_fail(LK_EINVAL, "%s: implementation %d; it must be LK_COMMUNICATION_AUTO, _RING or _NCCL", call,
                        (int)o->implementation);
    if (!(o->timeout_seconds >= 0))
        return lki_fail(LK_EINVAL, "%s: timeout_seconds is %g; it must be 0 (none) or more", call, o->timeout_seconds);
    return LK_OK;
}

lk_cross_device_ops *lk_collective_all_reduce(lk_communication_options options)
{
    if (lki_check_communication("lk_collective_all_reduce", &options) != LK_OK) return NULL;
    lk_cross_device_ops *o = cross_new(&COLLECTIVE, LKI_LIVES_IN_POOL);
    if (o) o->options = options;
    return o;
}

/* ---- summing ---- */

/* NCCL needs GPUs only; int32 is always reduced to one device. */
static const lki_cross_kind *serving(const lk_cross_device_ops *o, const lk_tensor *t)
{
    static int told; /* atomic */
    if (o->kind == &NCCL && !__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
        lki_info("NcclAllReduce needs GPUs; the devices are CPUs, so ReductionToOneDevice is used");
    return o->kind == &NCCL || t->dtype == LK_I32 ? &ONE_DEVICE : o->kind;
}

static lk_tensor *sum_in_pack(lk_cross_device_ops *o, int pack, int count, lk_tensor *const *items)
{
    return serving(o, items[0])->sum(o, pack, count, items);
}

lk_tensor *lki_cross_sum(lk_strategy *s, lk_cross_device_ops *cross, int count, lk_tensor *const *items)
{
    return sum_in_pack(cross ? cross : s->cross, 0, count, items);
}

/* ---- packing ---- */

static _Thread_local lk_pack_info last;

lk_pack_info lk_last_packs(void) { return last; }

static void note_pack(int64_t bytes)
{
    if (last.packs < LKI_COUNT(last.bytes)) last.bytes[last.packs] = bytes;
    last.packs++;
}

static int64_t bytes_of(const lk_tensor *t) { return lki_size_mul(lki_shape_size(&t->shape), (int64_t)lk_dtype_bytes(t->dtype)); }

/* Values of one type as one long vector per replica, divided into packs of equal length, the last with the remainder; each pack is
 * summed, and the results are split again. */
static lk_status sum_cut(lk_cross_device_ops *o, int n, const int *which, int count, lk_tensor *const *items, lk_tensor **out)
{
    enum { MOST = 64 };
    lk_tensor **flat LKI_RELEASED = lki_alloc_array(n + o->num_packs + count + 1, sizeof *flat);
    lk_tensor **piece = flat + n, **part = piece + o->num_packs, *long_one[MOST], *joined;
    if (!flat) return LK_ENOMEM;
    if (count > MOST) return lki_fail(LK_EUNSUPPORTED, "%s: at most %d devices", o->kind->name, (int)MOST);
    int64_t total = 0;
    for (int r = 0; r < count; r++) {
        for (int i = 0; i < n; i++)
            flat[i] = lk_reshape(items[which[i] * count + r], LK_SHAPE(-1));
        long_one[r] = lk_concat(lki_tuple_new(n, flat), 0);
    }
    total = lk_size(long_one[0]);
    int     packs = (int)lki_max(1, lki_min(o->num_packs, total));
    int64_t each = total / packs;
    for (int p = 0; p < packs; p++) {
        int64_t length = p + 1 < packs ? each : total - each * (packs - 1);
        for (int r = 0; r < count; r++)
            part[r] = lk_slice(long_one[r], LK_AXES(p * each), LK_AXES(length));
        piece[p] = sum_in_pack(o, p, count, part);
        note_pack(lki_bad(piece[p]) ? 0 : bytes_of(piece[p]));
    }
    joined = lk_concat(lki_tuple_new(packs, piece), 0);
    int64_t at = 0;
    for (int i = 0; i < n; i++) {
        const lk_tensor *like = items[which[i] * count];
        int64_t          size = lki_shape_size(&like->shape);
        out[which[i]] = lk_reshape(lk_slice(joined, LK_AXES(at), LK_AXES(size)), like->shape);
        at += size;
    }
    return LK_OK;
}

/* Sums over rows have their own order, and gradients made of rows keep their rows, so they are not packed. */
static bool goes_alone(const lk_tensor *t) { return lki_is_tracked(t) || t->slice_rows; }

static lk_tensor *mean_of(lk_tensor *sum, int count)
{
    if (lki_bad(sum)) return sum;
    if (!lki_is_float(sum->dtype)) sum = lk_cast(sum, LK_F64);
    return lk_div(sum, lki_like(sum, count));
}

/* Packs are per type, because a vector has one type. */
static lk_status sum_packed(lk_cross_device_ops *o, int values, int count, lk_tensor *const *items, lk_tensor **out)
{
    int *which LKI_RELEASED = lki_alloc_array(values, sizeof *which);
    if (!which) return LK_ENOMEM;
    for (int dtype = 0; dtype < LK_DTYPE_COUNT; dtype++) {
        int n = 0;
        for (int i = 0; i < values; i++)
            if ((int)items[i * count]->dtype == dtype && !goes_alone(items[i * count])) which[n++] = i;
        if (n) LKI_TRY(sum_cut(o, n, which, count, items, out));
    }
    return LK_OK;
}

/* Last value first, because backward computes that gradient first; a pack is closed when it exceeds the limit. */
static void note_reversed(int values, int count, lk_tensor *const *items, int64_t limit)
{
    int64_t bytes = 0;
    for (int i = values - 1; i >= 0; i--) {
        bytes += bytes_of(items[i * count]);
        if (limit && bytes > limit) {
            note_pack(bytes);
            bytes = 0;
        }
    }
    if (bytes) note_pack(bytes);
}

lk_status lki_cross_batch(const char *call, lk_strategy *s, lk_cross_device_ops *cross, const lk_communication_options *options,
                          bool mean, int values, int count, lk_tensor *const *items, lk_tensor **out)
{
    lk_cross_device_ops *o = cross ? cross : s->cross;
    last = (lk_pack_info){0};
    for (int i = 0; i < values * count; i++)
        if (lki_bad(items[i])) return lki_poisoned_status(call);
    for (int i = 0; i < values; i++)
        for (int r = 1; r < count; r++)
            if (!lki_shape_equal(&items[i * count + r]->shape, &items[i * count]->shape) ||
                items[i * count + r]->dtype != items[i * count]->dtype) {
                char a[LKI_SHAPE_TEXT], b[LKI_SHAPE_TEXT];
                return lki_fail(LK_ESHAPE, "%s: value %d is %s %s on replica 0 and %s %s on replica %d; they must agree", call, i,
                                lki_shape_text(&items[i * count]->shape, a), lk_dtype_name(items[i * count]->dtype),
                                lki_shape_text(&items[i * count + r]->shape, b), lk_dtype_name(items[i * count + r]->dtype), r);
            }
    bool packs = o->kind->packs && o->num_packs > 0 && o->kind != &NCCL && values && count > 1;
    if (packs) LKI_TRY(sum_packed(o, values, count, items, out));
    int64_t limit = options && options->bytes_per_pack ? options->bytes_per_pack
                    : o->options.bytes_per_pack        ? o->options.bytes_per_pack
                                                       : s->communication.bytes_per_pack;
    if (o->kind->reversed) note_reversed(values, count, items, limit);
    for (int i = values - 1; i >= 0; i--) {
        if (!packs || goes_alone(items[i * count])) out[i] = lki_combine(call, s, o, mean, count, items + i * count);
        else if (mean) out[i] = mean_of(out[i], count);
    }
    for (int i = 0; i < values; i++)
        if (lki_bad(out[i])) return lki_poisoned_status(call);
    return LK_OK;
}

/* ---- as public calls ---- */

static lk_status check_destination(const char *call, const lk_strategy *s, const lk_destination *to)
{
    lki_device_name d;
    int             given = (to->value != NULL) + (to->variable != NULL) + (to->device != NULL);
    if (!given) return lki_fail(LK_EINVAL, "%s: the destination is empty; give LK_TO(.value = ...), .variable or .device", call);
    if (given > 1) return lki_fail(LK_EINVAL, "%s: the destination names %d things; give one", call, given);
    if (to->device) LKI_TRY(lki_device_find(call, to->device, &d));
    if (to->variable && to->variable->spread && to->variable->spread->strategy != s)
        return lki_fail(LK_EINVAL, "%s: the destination \"%s\" belongs to another strategy", call, to->variable->name);
    return LK_OK;
}

/* One plain tensor on a named device, or a mirrored value if the destination is all devices. */
static lk_tensor *deliver(lk_strategy *s, lk_tensor *t, const lk_destination *to)
{
    enum { MOST = 1024 };
    bool everywhere = (to->value && to->value->replicas) || (to->variable && to->variable->spread);
    if (lki_bad(t) || !everywhere || s->replicas == 1) return t;
    lk_tensor *item[MOST];
    for (int r = 0; r < s->replicas && r < MOST; r++)
        item[r] = t;
    return lki_per_replica(s, s->replicas, item, NULL, true);
}

static lk_status check_cross(const char *call, lk_strategy *s, lk_cross_device_ops *o, lk_reduce_op op)
{
    LKI_TRY(lki_need_cross(call, s));
    if (o && !lki_is_kind(o, LKI_KIND_CROSS_DEVICE_OPS)) return lki_fail(LK_EINVAL, "%s: not cross-device operations", call);
    if (op != LK_SUM && op != LK_MEAN)
        return lki_fail(LK_EINVAL, "%s: there is no reduction %d; it must be LK_SUM or LK_MEAN", call, (int)op);
    return LK_OK;
}

static bool is_wrapped(const lk_tensor *t) { return t->replicas != NULL; }

static lk_status check_batch(const char *call, const lk_strategy *s, lk_tuple values, const lk_destination *to)
{
    int plain = 0;
    if (values.count && !to) return lki_fail(LK_EINVAL, "%s: the destinations are missing", call);
    for (int i = 0; i < values.count; i++) {
        if (!lki_usable(call, "a value", values.item[i])) return lki_poisoned_status(call);
        if (values.item[i]->nest) return lki_fail(LK_EINVAL, "%s: value %d is %s", call, i, lki_why_not_plain(values.item[i]));
        LKI_TRY(lki_check_replicas(call, "value", i, s, values.item[i]));
        LKI_TRY(check_destination(call, s, &to[i]));
        plain += !is_wrapped(values.item[i]);
    }
    if (plain && plain < values.count)
        return lki_fail(
            LK_EINVAL,
            "%s: %d of %d values are not per-replica values: values on the host and on the devices cannot be mixed in one batch",
            call, plain, values.count);
    return LK_OK;
}

lk_tuple lki_cross_reduce_to(const char *call, lk_strategy *s, lk_cross_device_ops *o, lk_reduce_op op, lk_tuple values,
                             const lk_destination *to)
{
    lk_tuple none = lki_tuple_new(0, NULL);
    if (check_cross(call, s, o, op) != LK_OK || check_batch(call, s, values, to) != LK_OK) return none;
    int         n = values.count && is_wrapped(values.item[0]) ? s->replicas : 1; /* a plain value is on one device */
    lk_tensor **item LKI_RELEASED = lki_alloc_array(lki_size_mul(values.count, n + 1) + 1, sizeof *item);
    lk_tensor **out = item + values.count * n;
    if (!item) return none;
    for (int i = 0; i < values.count; i++)
        for (int r = 0; r < n; r++)
            item[i * n + r] = lki_select(values.item[i], r);
    lk_status status = lki_cross_batch(call, s, o, NULL, op == LK_MEAN, values.count, n, item, out);
    for (int i = 0; i < values.count && status == LK_OK; i++)
        out[i] = deliver(s, out[i], &to[i]);
    return status == LK_OK ? lki_tuple_new(values.count, out) : none;
}

lk_tuple lk_cross_batch_reduce(lk_strategy *s, lk_cross_device_ops *o, lk_reduce_op op, lk_tuple values, const lk_destination *to)
{
    return lki_cross_reduce_to("lk_cross_batch_reduce", s, o, op, values, to);
}

lk_tensor *lk_cross_reduce(lk_strategy *s, lk_cross_device_ops *o, lk_reduce_op op, lk_tensor *value, lk_destination to)
{
    return lki_cross_reduce_to("lk_cross_reduce", s, o, op, (lk_tuple){1, &value}, &to).item[0];
}

lk_tensor *lki_cross_broadcast_to(const char *call, lk_strategy *s, lk_cross_device_ops *o, lk_tensor *value, lk_destination to)
{
    if (check_cross(call, s, o, LK_SUM) != LK_OK || !lki_usable(call, "the value", value) ||
        check_destination(call, s, &to) != LK_OK)
        return &lki_poison;
    value = lki_plain(value);
    if (lki_stands_for(value)) return lki_refuse(LK_EINVAL, "%s: the value is %s", call, lki_why_not_plain(value));
    return deliver(s, value, &to);
}

lk_tensor *lk_cross_broadcast(lk_strategy *s, lk_cross_device_ops *o, lk_tensor *value, lk_destination to)
{
    return lki_cross_broadcast_to("lk_cross_broadcast", s, o, value, to);
}

lk_tensor *lk_cross_gather(lk_strategy *s, lk_cross_device_ops *o, lk_tensor *value, lk_destination to, int axis)
{
    const char *call = "lk_cross_gather";
    if (check_cross(call, s, o, LK_SUM) != LK_OK || check_destination(call, s, &to) != LK_OK) return &lki_poison;
    return deliver(s, lki_gather_values(call, s, value, axis), &to);
}
