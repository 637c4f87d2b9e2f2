/* Making strategies. */
#include "dist/strategy.h"
#include "comm/comm.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/names.h"
#include "core/precision.h"
#include "core/thread.h"
#include "dist/cross.h"
#include "dist/device.h"
#include "lane/lanes.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static bool devices_used; /* atomic: a strategy was made, other than the default one */

bool lki_is_strategy(const void *s) { return lki_is_kind(s, LKI_KIND_STRATEGY); }

int lk_num_replicas_in_sync(const lk_strategy *s) { return lki_is_strategy(s) ? s->replicas : 1; }

lk_status lk_set_cpu_devices(int count)
{
    if (count < 1 || count > LKI_MOST_CPU_DEVICES)
        return lki_fail(LK_EINVAL, "lk_set_cpu_devices(%d): 1 to %d are possible", count, LKI_MOST_CPU_DEVICES);
    if (__atomic_load_n(&devices_used, __ATOMIC_RELAXED))
        return lki_fail(LK_ESTATE,
                        "lk_set_cpu_devices(%d): the devices are in use already; call it before the first strategy is made", count);
    if (count < lki_cpu_devices())
        return lki_fail(LK_ESTATE, "lk_set_cpu_devices(%d): there are %d already; logical devices cannot be removed", count,
                        lki_cpu_devices());
    lki_cpu_devices_raise(count);
    lki_cpu_devices_fix();
    return LK_OK;
}

static void destroy(void *object)
{
    lk_strategy *s = object;
    lki_comms_forget(s);
    lki_release(s->context);
    lki_release(s->device);
    lki_names_drop(s->names);
    lki_drop(s->cross);
}

static bool make_contexts(lk_strategy *s)
{
    s->context = lki_zalloc_array(s->replicas, sizeof *s->context);
    for (int r = 0; s->context && r < s->replicas; r++) {
        lk_replica_context *c = &s->context[r];
        *c = (lk_replica_context){
            .ops = {.id = r, .count = s->replicas, .strategy = s}, .strategy = s, .device = s->device[r], .name = s->names.item[r]};
        if (s->replicas > 1) snprintf(c->words, sizeof c->words, "replica %d of %d on %s: ", r, s->replicas, s->device[r]->name);
        if (s->kind != LKI_STRATEGY_MIRRORED) continue;
        c->ops.read = lki_replica_read;
        c->ops.update = lki_replica_update;
        if (s->replicas == 1) continue;
        c->ops.create = lki_replica_create;
        c->ops.all_reduce = lki_replica_all_reduce;
        c->ops.all_gather = lki_replica_all_gather;
    }
    return s->context != NULL;
}

static lk_strategy *strategy_new(lki_strategy_kind kind, const char *call, lk_names asked, lki_life life)
{
    static int               made[3];
    static const char *const kinds[] = {"the default strategy", "OneDeviceStrategy", "MirroredStrategy"};
    lk_names                 names = {0};
    lki_device             **devices = NULL;
    if (lki_devices_resolve(call, asked, &names, &devices) != LK_OK) return NULL;
    lk_strategy *s = lki_object_new(sizeof *s, LKI_KIND_STRATEGY, life, destroy);
    if (!s) {
        lki_names_drop(names);
        lki_release(devices);
        return NULL;
    }
    s->kind = kind;
    s->names = names;
    s->device = devices;
    s->replicas = names.count;
    s->lanes = lk_lanes();
    s->precision = LKI_PRECISIONS;
    int number = __atomic_add_fetch(&made[kind], 1, __ATOMIC_RELAXED);
    snprintf(s->text, sizeof s->text, kind == LKI_STRATEGY_DEFAULT ? "%s" : "%s %d", kinds[kind], number);
    if (make_contexts(s)) return s;
    lk_free(s);
    return NULL;
}

/* ---- the default strategy and OneDeviceStrategy ---- */

static lk_strategy *default_strategy;

static void make_default(void)
{
    const char *name = "CPU:0";
    default_strategy = strategy_new(LKI_STRATEGY_DEFAULT, "lk_default_strategy", (lk_names){1, &name}, LKI_LIVES_BY_REFERENCE);
}

lk_strategy *lk_default_strategy(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_default);
    return default_strategy;
}

lk_strategy *lk_one_device_strategy(const char *device)
{
    lk_strategy *s = strategy_new(LKI_STRATEGY_ONE_DEVICE, "lk_one_device_strategy", (lk_names){1, &device}, LKI_LIVES_IN_POOL);
    if (s) __atomic_store_n(&devices_used, true, __ATOMIC_RELAXED);
    return s;
}

/* ---- MirroredStrategy ---- */

static bool power_of_two(int n) { return n > 0 && (n & (n - 1)) == 0; }

static int power_not_below(int n)
{
    int power = 1;
    while (power < n)
        power *= 2;
    return power;
}

static lk_status choose_lanes(const lk_strategy_args *a, int *lanes)
{
    const char *call = "lk_mirrored_strategy";
    int         replicas = a->cpu_devices ? a->cpu_devices : a->devices.count ? a->devices.count : lki_devices_default();
    if (a->lanes && (!power_of_two(a->lanes) || a->lanes > LKI_MAX_LANES))
        return lki_fail(LK_EINVAL, "%s: .lanes = %d; lanes must be a power of two from 1 to %d", call, a->lanes, LKI_MAX_LANES);
    *lanes = a->lanes ? a->lanes : a->order == LK_FREE ? power_not_below((int)lki_max(replicas, lk_threads())) : lk_lanes();
    if (replicas > *lanes)
        return lki_fail(
            LK_EINVAL,
            "%s: there are %d replicas, but a batch has only %d lanes and each replica needs at least one; pass .lanes = %d or "
            "more (a power of two)",
            call, replicas, *lanes, power_not_below(replicas));
    return LK_OK;
}

static lk_status check_args(const lk_strategy_args *a)
{
    const char *call = "lk_mirrored_strategy";
    if (a->devices.count < 0) return LK_ENOMEM;
    if (a->cpu_devices < 0 || a->cpu_devices > LKI_MOST_CPU_DEVICES)
        return lki_fail(LK_EINVAL, "%s: .cpu_devices = %d; 1 to %d are possible", call, a->cpu_devices, LKI_MOST_CPU_DEVICES);
    if (a->logical_gpus < 0) return lki_fail(LK_EINVAL, "%s: .logical_gpus = %d; it must be 1 or more", call, a->logical_gpus);
    if ((unsigned)a->precision > LK_PRECISION_BF16)
        return lki_fail(LK_EINVAL, "%s: .precision = %d; it must be LK_PRECISION_F32, LK_PRECISION_TF32 or LK_PRECISION_BF16", call,
                        (int)a->precision);
    if (a->cpu_devices && a->devices.count) return lki_fail(LK_EINVAL, "%s: give .devices or .cpu_devices, not both", call);
    if ((unsigned)a->order > LK_FREE)
        return lki_fail(LK_EINVAL, "%s: .order = %d; it must be LK_ORDERED or LK_FREE", call, (int)a->order);
    if (a->cross_device_ops && !lki_is_kind(a->cross_device_ops, LKI_KIND_CROSS_DEVICE_OPS))
        return lki_fail(
            LK_EINVAL,
            "%s: .cross_device_ops is not an lk_cross_device_ops; make it with lk_reduction_to_one_device() or a similar function",
            call);
    return lki_check_communication(call, &a->communication);
}

static bool one_memory(const lk_strategy *s)
{
    for (int i = 1; i < s->replicas; i++)
        if (!lki_same_memory(s->device[i], s->device[0])) return false;
    return true;
}

/* Logs what TensorFlow's MirroredStrategy logs, and then which settings have no effect. */
static void tell(const lk_strategy *s)
{
    char text[1500] = "", quoted[200];
    for (int i = 0; i < s->replicas; i++) {
        lki_text_print(quoted, sizeof quoted, "'%s'", s->names.item[i]);
        lki_names_add(text, sizeof text, quoted);
    }
    static int warned;   /* atomic */
    int        gpus = 0; /* the number of devices that can copy from each other's memory: GPUs */
    for (int i = 0; i < s->replicas; i++)
        gpus += s->device[i]->ops->peer != NULL;
    if (gpus < s->replicas && !__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
        lki_warn("There are non-GPU devices in `tf.distribute.Strategy`, not using nccl allreduce.");
    lki_info("Using MirroredStrategy with devices (%s%s)", text, s->replicas == 1 ? "," : "");
    if (s->communication.implementation == LK_COMMUNICATION_NCCL && (gpus < s->replicas || one_memory(s)))
        lki_info(gpus == s->replicas
                     ? "LK_COMMUNICATION_NCCL has no effect: it is for several cards, and all replicas are on one card"
                     : "LK_COMMUNICATION_NCCL has no effect: it needs GPUs, and not all devices of the strategy are GPUs");
    if (getenv("TF_CONFIG")) lki_info("MirroredStrategy ignores TF_CONFIG; the multi-worker strategy is the one that reads it");
}

lk_strategy *lk_mirrored_strategy_kw(lk_strategy_args args)
{
    int lanes = 0;
    if (check_args(&args) != LK_OK || (args.logical_gpus && lki_devices_split(args.logical_gpus, args.gpu_memory_limit) != LK_OK) ||
        choose_lanes(&args, &lanes) != LK_OK)
        return NULL;
    lk_names asked = args.devices;
    if (args.cpu_devices) {
        const char *name[LKI_MOST_CPU_DEVICES];
        lki_cpu_devices_raise(args.cpu_devices);
        for (int i = 0; i < args.cpu_devices; i++)
            name[i] = lki_device_cpu_at(i)->name;
        asked = lki_names_new(args.cpu_devices, name, LKI_LIVES_BY_REFERENCE);
        if (!asked.item) return NULL;
    }
    lk_strategy *s = strategy_new(LKI_STRATEGY_MIRRORED, "lk_mirrored_strategy", asked, LKI_LIVES_IN_POOL);
    if (args.cpu_devices) lki_names_drop(asked);
    if (!s) return NULL;
    __atomic_store_n(&devices_used, true, __ATOMIC_RELAXED);
    s->lanes = lanes;
    s->order = args.order;
    if (args.precision) s->precision = (lki_precision)((int)args.precision - LK_PRECISION_F32);
    s->communication = args.communication;
    s->cross = args.cross_device_ops ? lki_retain(args.cross_device_ops) : lki_cross_default();
    if (!s->cross) {
        lk_free(s);
        return NULL;
    }
    const int64_t pack = s->cross->options.bytes_per_pack;
    for (int i = 0; i < s->replicas; i++)
        s->context[i].ops.sending = (lki_sending){.free_order = args.order == LK_FREE,
                                                  .no_nccl = args.communication.implementation == LK_COMMUNICATION_RING,
                                                  .seconds = args.communication.timeout_seconds,
                                                  .pack = pack ? pack : args.communication.bytes_per_pack};
    for (int i = 0; i < s->replicas; i++) {
        lki_device *d = s->device[i];
        if (args.gpu_memory_limit && d->ops->limit) d->ops->limit(d, args.gpu_memory_limit);
    }
    tell(s);
    return s;
}
