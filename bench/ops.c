/* How fast each op's kernel is, one line per line of ops.inc: the reference against what this machine uses, on one core.
 *
 *     ops [--quick] [NAME...]
 *
 * GB/s count every byte read and written once (twice for what an update changes in place), with 64 KiB in all, which stay in the
 * cache, and with 64 MiB, which come from memory. Products are told in GFLOP/s at one size, ops on one number in ns. `--quick`
 * leaves memory out. Where the variant is "ref" there is nothing faster to compare with. An op nobody has written a case for says
 * so. */
#include "core/thread.h"
#include "ops_cases.h"
#include "timing.h"

enum { SMALL = 64 << 10, LARGE = 64 << 20, LINE = 64 };

typedef struct op_line {
    const char *name, *rule;
    lki_slot    slot;
} op_line;

#define LKI_OP(name, nsrc, ndst, shape, lane, grad, slot, text) {#name, #shape, LKI_K_##slot},
static const op_line LINES[] = {
#include "op/ops.inc"
};
#undef LKI_OP

/* ---- operands --------------------------------------------------------------------------------------------------------------- */

/* Memory for all operands of a call, one after another, some lines apart so that they do not share sets of a cache. */
typedef struct arena {
    char  *base;
    size_t used, size;
} arena;

static void *arena_take(arena *a, size_t bytes)
{
    void *p = a->base + a->used;
    a->used += (bytes + LINE - 1) / LINE * LINE + 5 * LINE;
    if (a->used <= a->size) return p;
    fprintf(stderr, "a case wants more than %zu bytes\n", a->size);
    exit(1);
}

static size_t bytes_of(const lk_shape *s, lk_dtype t) { return (size_t)lki_shape_size(s) * lk_dtype_bytes(t); }

static void draw(void *data, lk_dtype type, int64_t n, int64_t below, int positive)
{
    uint32_t state = 12345;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        const uint32_t word = state >> 8;
        const int64_t  id = below ? (int64_t)word % below : 0;
        if (type == LK_F32) ((float *)data)[i] = positive ? (float)word * 0x1p-24f + 0.5f : (float)word * 0x1p-23f - 1;
        if (type == LK_BOOL) ((uint8_t *)data)[i] = word & 1;
        if (type == LK_U8) ((uint8_t *)data)[i] = (uint8_t)id;
        if (type == LK_I32) ((int32_t *)data)[i] = (int32_t)id;
        if (type == LK_I64) ((int64_t *)data)[i] = id;
    }
}

typedef struct ready {
    lki_kernel *fn;
    lki_args    args;
    lki_view    src[MOST_VIEWS], dst[MOST_VIEWS];
    int64_t     bound[LANES + 1];
    lki_lanes   lanes;
    int         fault;
} ready;

static void prepare(ready *r, const job *j, arena *a)
{
    memset(r, 0, sizeof *r);
    for (int i = 0; i < j->ndst; i++) {
        r->dst[i] = (lki_view){arena_take(a, bytes_of(&j->dst[i], j->dst_type[i])), &j->dst[i], j->dst_type[i]};
        draw(r->dst[i].data, j->dst_type[i], lki_shape_size(&j->dst[i]), j->below, 1);
    }
    for (int i = 0; i < j->nsrc; i++) {
        r->src[i] = (lki_view){r->dst[0].data, &j->src[i], j->src_type[i]};
        if (j->aliased && i == 0) continue;
        r->src[i].data = arena_take(a, bytes_of(&j->src[i], j->src_type[i]));
        draw(r->src[i].data, j->src_type[i], lki_shape_size(&j->src[i]), j->below, j->positive);
    }
    for (int s = 0; s <= j->lanes; s++)
        r->bound[s] = j->lanes ? lki_ceil_div(s * j->src[0].dim[0], j->lanes) : 0;
    r->lanes = (lki_lanes){j->lanes, r->bound};
    r->args = (lki_args){.src = r->src, .dst = r->dst, .nsrc = j->nsrc, .ndst = j->ndst, .attr = &j->attr, .fault = &r->fault};
    r->args.lanes = j->lanes ? &r->lanes : NULL;
    r->args.hi = lki_shape_size(&j->dst[0]);
}

/* What one call does: bytes, FLOP, or one call. */
static double work_of(const job *j)
{
    double bytes = 0;
    if (j->unit != BYTES) return j->unit == FLOP ? j->flop : 1;
    if (j->bytes > 0) return j->bytes;
    for (int i = j->aliased || j->unread; i < j->nsrc; i++)
        bytes += (double)bytes_of(&j->src[i], j->src_type[i]);
    for (int i = 0; i < j->ndst; i++)
        bytes += (j->in_place ? 2 : 1) * (double)bytes_of(&j->dst[i], j->dst_type[i]);
    return bytes;
}

/* ---- measuring -------------------------------------------------------------------------------------------------------------- */

static lki_kernels reference;
static double      allowed = 0.04; /* seconds per measurement */

static void call_once(void *arg)
{
    ready *r = arg;
    r->fn(&r->args);
}

static double seconds_with(ready *r, const job *j, const lki_kernels *k, lk_dtype type)
{
    const size_t bytes = k->scratch[j->slot][type] ? k->scratch[j->slot][type](&r->args) : 0;
    r->args.scratch = bytes ? pages(bytes) : NULL;
    r->fn = k->fn[j->slot][type];
    const double t = seconds_of(call_once, r, allowed);
    free(r->args.scratch);
    return t;
}

/* What kernels are chosen by: the type of the first operand; of the result for random numbers and where there is no operand. */
static lk_dtype type_of(const job *j)
{
    const int by_dst = !j->nsrc || j->slot == LKI_K_random_uniform || j->slot == LKI_K_random_normal;
    return by_dst ? j->dst_type[0] : j->src_type[0];
}

/* " reference  here  ratio", in the job's unit. */
static void print_size(const job *j, arena *a, lk_dtype type)
{
    static ready r;
    const int    same = strcmp(lki_kernels_here()->variant[j->slot][type], "ref") == 0;
    a->used = 0;
    prepare(&r, j, a);
    const double work = work_of(j), slow = seconds_with(&r, j, &reference, type);
    const double fast = same ? slow : seconds_with(&r, j, lki_kernels_here(), type);
    const int    digits = j->unit == CALLS ? 0 : work / slow < 1e9 ? 2 : 1;
    if (j->unit == CALLS) printf(" %9.*f", digits, slow * 1e9);
    else printf(" %9.*f", digits, work / slow / 1e9);
    if (same) printf(" %9s %6s", "", "");
    else printf(" %9.1f %6.1f", j->unit == CALLS ? fast * 1e9 : work / fast / 1e9, slow / fast);
    if (r.fault) printf(" (fault)");
}

static void print_case(const op_line *line, const recipe *how, arena *a, int quick)
{
    static const char *const units[] = {"GB/s", "GFLOP/s", "ns"};
    job                      j = {.slot = line->slot};
    char                     name[64];
    snprintf(name, sizeof name, "%s%s", line->name, how ? how->note : "");
    printf("%-31s", name);
    if (line->slot == LKI_K_none) {
        printf(" no kernel: the same memory under another meaning\n");
        return;
    }
    if (how) how->fn(&j, SMALL);
    if (!j.ndst) {
        printf(" no case\n");
        return;
    }
    const lk_dtype type = type_of(&j);
    if (!lki_kernels_here()->fn[j.slot][type]) {
        printf(" no kernel for %s\n", lk_dtype_name(type));
        return;
    }
    printf(" %-8s %-7s", lki_kernels_here()->variant[j.slot][type], units[j.unit]);
    print_size(&j, a, type);
    if (j.unit == BYTES && !quick) {
        job large = {.slot = line->slot};
        how->fn(&large, LARGE);
        print_size(&large, a, type);
    }
    printf("\n");
    fflush(stdout);
}

/* Every recipe under the op's own name; if there is none, that of its rule. */
static void print_op(const op_line *line, arena *a, int quick)
{
    int found = 0;
    for (int by_rule = 0; by_rule < 2; by_rule++)
        for (int i = 0; i < LKI_COUNT(RECIPES) && !(by_rule && found); i++) {
            const char *key = by_rule ? RECIPES[i].rule : RECIPES[i].op;
            if (!key || strcmp(key, by_rule ? line->rule : line->name) != 0) continue;
            print_case(line, &RECIPES[i], a, quick);
            found++;
        }
    if (!found) print_case(line, NULL, a, quick);
}

static int wanted(const char *name, int argc, char **argv)
{
    int names = 0;
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') continue;
        names++;
        if (strcmp(argv[i], name) == 0) return 1;
    }
    return !names;
}

static int options(int argc, char **argv)
{
    int quick = 0;
    for (int i = 1; i < argc; i++) {
        int known = strcmp(argv[i], "--quick") == 0;
        quick += known;
        for (int k = 0; k < LKI_COUNT(LINES) && !known; k++)
            known = strcmp(argv[i], LINES[k].name) == 0;
        if (known) continue;
        fprintf(stderr, "%s: no such op; usage: ops [--quick] [NAME...]\n", argv[i]);
        exit(2);
    }
    return quick;
}

int main(int argc, char **argv)
{
    const int quick = options(argc, argv);
    arena     a = {.size = quick ? 16 << 20 : 2 * LARGE};
    a.base = pages(a.size);
    if (quick) allowed = 0.01;
    lki_cpu_kernels(&reference, LKI_ISA_REFERENCE);
    lki_fp_enter();
    printf("%-31s %-8s %-7s %26s %26s\n", "ops, one core", "variant", "unit", "in cache (64 KiB)",
           quick ? "" : "from memory (64 MiB)");
    printf("%-31s %-8s %-7s %9s %9s %6s", "", "", "", "reference", "here", "ratio");
    printf(quick ? "\n" : " %9s %9s %6s\n", "reference", "here", "ratio");
    for (int i = 0; i < LKI_COUNT(LINES); i++)
        if (wanted(LINES[i].name, argc, argv)) print_op(&LINES[i], &a, quick);
    free(a.base);
    return 0;
}
