/* golden DIR [FILTER]: compare with results stored by TensorFlow, in the format DIR/README.md describes.
 *
 *   ops/     each operation forwards and backwards, and again as a compiled function, which must give the same bits
 *   optim/   each optimiser and schedule, likewise
 *   models/optim/  each optimiser again: gradients in rows, accumulation, loss scales, who is spared weight decay
 *   strategy/  what strategies do, table by table, with one to four replicas
 *   train/   whole training runs (with LOCKSTEP_DATA, the folder of the data sets)
 *   files/   arrays in npy files; models and weights of Keras
 *   models/  whole models as Keras saves them, trained
 *
 * FILTER names cases by a part of "ops/matmul_plain". Without DIR, $LOCKSTEP_GOLDEN. Bounds are those of that README. On a GPU
 * (LOCKSTEP_DEVICE=GPU:0) that multiplies in TF32 or BF16 (LOCKSTEP_PRECISION) they are those of golden.h. */
#include "golden.h"
#include "keras.h"
#include "ops.h"
#include "optim.h"
#include "optim_models.h"
#include "strategy_train.h"
#include "train.h"
#include "whole.h"
#include <sys/stat.h>

/* ---- files/npy --------------------------------------------------------------------------------------------------------------- */

/* The next number of nested lists, row by row. */
static void check_values(test_case *c, const lki_array *a, json_t *value, int64_t *index)
{
    json_t *item;
    size_t  i;
    if (json_is_array(value)) {
        json_array_foreach(value, i, item) check_values(c, a, item, index);
        return;
    }
    if (*index >= lki_shape_size(&a->shape)) GIVE_UP(c, "fewer elements than there should be");
    const double ours = lki_element_get(a->dtype, a->data, *index);
    const double right = json_is_string(value)    ? strtod(json_string_value(value), NULL)
                         : json_is_boolean(value) ? json_is_true(value)
                                                  : json_number_value(value);
    if (ours != right && !(isnan(ours) && isnan(right)))
        miss(c, "element %lld is %.17g: should be %.17g", (long long)*index, ours, right);
    ++*index;
}

static void run_files(void)
{
    json_t *list = load_json(path_of("files", "npy", ".json")), *one;
    size_t  i;
    json_array_foreach(list, i, one)
    {
        test_case   c;
        lki_array   a;
        int64_t     count = 0;
        const char *file = json_string_value(json_object_get(one, "file")),
                   *descr = json_string_value(json_object_get(one, "descr"));
        if (!file || !case_begin(&c, "files", file, one)) continue;
        const bool      foreign = descr && strpbrk(descr, "cSUO"); /* complex, bytes, text, objects */
        const lk_status status = lki_npy_read(path_of("files/npy", file, ""), &a);
        if (foreign && status != LK_EUNSUPPORTED) miss(&c, "%s should be refused as not supported", descr);
        lk_status wanted = foreign ? status : LK_OK;
        if (foreign) lk_clear_error();
        if (status != wanted) sound(&c, "reading");
        if (status == LK_OK) check_values(&c, &a, json_object_get(one, "values"), &count);
        if (status == LK_OK && count != lki_shape_size(&a.shape))
            miss(&c, "%lld elements: should be %lld", (long long)lki_shape_size(&a.shape), (long long)count);
        lki_array_free(&a);
        case_end(&c);
    }
    json_decref(list);
}

/* ---- all of it --------------------------------------------------------------------------------------------------------------- */

static bool is_there(const char *part)
{
    struct stat s;
    return stat(path_of(part, "", ""), &s) == 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *part;
        void (*run)(void);
    } parts[] = {{"ops", run_ops},           {"optim", run_optim},  {"files", run_files}, {"files", run_keras},
                 {"strategy", run_strategy}, {"train", run_models}, {"train", run_train}, {"models/optim", run_optim_models},
                 {"models", run_wholes}};
    golden.folder = argc > 1 ? argv[1] : getenv("LOCKSTEP_GOLDEN");
    golden.filter = argc > 2 ? argv[2] : NULL;
    if (!golden.folder || !golden.folder[0]) {
        printf("skipped: no folder is given, and LOCKSTEP_GOLDEN does not name one\n");
        return 77;
    }
    const lki_device *d = lki_device_current();
    if (!lki_on_host(d) && lki_precision_now() != LKI_PRECISION_F32) {
        golden.rounded = true;
        golden.coarser = lki_precision_now() == LKI_PRECISION_TF32 ? 0x1p13 : 0x1p16;
        printf("%s multiplies rounded factors: products and their gradients within %g of their largest entry, and %g times the "
               "noise; losses within "
               "%g\n",
               d->name, ROUNDED, golden.coarser, ROUNDED);
    }
    for (int i = 0; i < LKI_COUNT(parts); i++) {
        golden.products = true;
        if (is_there(parts[i].part)) parts[i].run();
        else printf("%s: not there\n", parts[i].part);
    }
    if (!golden.passed && !golden.failed) {
        printf("no case was found in %s%s%s\n", golden.folder, golden.filter ? " for " : "", golden.filter ? golden.filter : "");
        golden.failed = 1;
    }
    printf("%d passed, %d failed\n", golden.passed, golden.failed);
    return golden.failed != 0;
}
