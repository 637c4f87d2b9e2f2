/* models FOLDER FILE STEPS REPLICAS: our half of an exchange of one model with Keras; exchange.py runs it.
 *
 * FOLDER/FILE is a model that Keras wrote (.keras, .h5; .json with the weights of .weights.h5 or .h5 beside it), and x.0.npy, ...,
 * y.0.npy, ..., w.0.npy are its inputs, targets and sample weights. Written are
 *     ours.N.npy, ours.keras            what output N is, and the model as it is
 *     trained.N.npy, trained.keras      the same after STEPS steps of training on all rows, on REPLICAS replicas
 * and, line by line on stdout, where the work is and what it found:
 *     stage NAME                        load, predict, write, train, predict_trained, write_trained
 *     load SECONDS MIB                  time, and most memory so far
 *     step TAB NAME=VALUE ...           loss and metrics of each step, with tabs between them
 *     digest HEX                        of the weights after training
 *     log TEXT                          a warning
 *     failed CODE TEXT                  the error that ended it; the exit status is 0 all the same */
#include "format/npy.h"
#include "model/model.h"
#include <lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, PATH = 1024 };

typedef struct exchange {
    const char *folder, *file;
    int         steps, replicas;
} exchange;

static void stage(const char *name)
{
    printf("stage %s\n", name);
    fflush(stdout); /* before what may crash */
}

static void show_log(const char *text, void *user)
{
    (void)user;
    printf("log %s\n", text);
}

static const char *path_of(const exchange *e, const char *name, const char *ending, char path[PATH])
{
    snprintf(path, PATH, "%s/%s%s", e->folder, name, ending);
    return path;
}

static const char *numbered(const exchange *e, const char *name, int i, char path[PATH])
{
    snprintf(path, PATH, "%s/%s.%d.npy", e->folder, name, i);
    return path;
}

/* Append the arrays NAME.0.npy, NAME.1.npy, ... to a list that begins at 1. */
static int add_arrays(const exchange *e, const char *name, lk_tensor **item, int count)
{
    char path[PATH];
    for (int i = 0; count < MOST && access(numbered(e, name, i, path), F_OK) == 0; i++) {
        lki_array a;
        if (lki_npy_read(path, &a) != LK_OK) return count;
        item[++count] = lk_tensor_from(a.shape, a.dtype, a.data);
        lki_array_free(&a);
    }
    return count;
}

static lk_model *load(const exchange *e)
{
    char        path[PATH], weights[PATH];
    const char *dot = strrchr(e->file, '.');
    path_of(e, e->file, "", path);
    if (!dot || strcmp(dot, ".json")) return lk_model_load(path);
    lk_model *m = lk_model_from_json_file(path);
    snprintf(weights, sizeof weights, "%s/%.*s.weights.h5", e->folder, (int)(dot - e->file), e->file);
    if (access(weights, F_OK) != 0) snprintf(weights, sizeof weights, "%s/%.*s.h5", e->folder, (int)(dot - e->file), e->file);
    if (m) lk_model_load_weights(m, weights);
    return m;
}

static void predict(const exchange *e, lk_model *m, const char *name)
{
    char       path[PATH];
    lk_tensor *x[MOST + 1] = {0};
    int        count = add_arrays(e, "x", x, 0);
    lk_tensor *y = lk_model_predict_on_batch(m, count == 1 ? x[1] : lk_nest(lk_tuple_of(count, x)));
    if (lk_failed()) return;
    lk_tuple out = m->outputs > 1 ? lk_nested(y) : (lk_tuple){1, &y};
    for (int i = 0; i < out.count && !lk_failed(); i++) {
        lki_array a = {lk_tensor_dtype(out.item[i]), lk_tensor_shape(out.item[i]), (void *)lk_data(out.item[i])};
        lki_npy_write(numbered(e, name, i, path), &a);
    }
}

/* The most memory so far, in MiB: of this program, while getrusage() counts what was there before it, too. */
static long most_memory(void)
{
    char  line[256];
    long  kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
    if (f) fclose(f);
    return kib / 1024;
}

static void bring_back(const exchange *e)
{
    char            path[PATH];
    struct timespec begin, end;
    stage("load");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    lk_model *m = load(e);
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (!m || lk_failed()) return;
    printf("load %.3f %ld\n", (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec), most_memory());
    stage("predict");
    predict(e, m, "ours");
    if (lk_failed()) return;
    stage("write");
    lk_model_save(m, path_of(e, "ours", ".keras", path));
}

static void train(const exchange *e)
{
    char       path[PATH], digest[65];
    lk_tensor *item[MOST + 1] = {0};
    lk_model  *m = NULL;
    int        inputs = add_arrays(e, "x", item, 0), count = add_arrays(e, "w", item, add_arrays(e, "y", item, inputs));
    if (count == inputs || !e->steps) return;
    stage("train");
    LK_SCOPE(lk_mirrored_strategy(.cpu_devices = e->replicas)) {
        m = load(e);
    }
    for (int i = 0; i < e->steps && m && !lk_failed(); i++) {
        lk_logs logs = lk_model_train_on_batch(m, lk_tuple_of(count, item));
        if (lk_failed()) return;
        printf("step");
        for (int k = 0; k < logs.count; k++)
            printf("\t%s=%.9g", logs.name[k], logs.value[k]);
        printf("\n");
    }
    if (lk_failed()) return;
    printf("digest %s\n", lk_digest_text(lk_model_digest(m), digest));
    stage("predict_trained");
    predict(e, m, "trained");
    if (lk_failed()) return;
    stage("write_trained");
    lk_model_save(m, path_of(e, "trained", ".keras", path));
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        printf("not run: it is half of an exchange with Keras; make interop does both\n0 passed, 0 failed\n");
        return argc != 1;
    }
    const exchange e = {argv[1], argv[2], atoi(argv[3]), atoi(argv[4])};
    lk_set_log(show_log, NULL);
    LK_POOL
        bring_back(&e);
    if (!lk_failed())
        LK_POOL
            train(&e);
    if (lk_failed()) printf("failed %s %s\n", lk_status_name(lk_error_code()), lk_error());
    else printf("done\n");
    return 0;
}
