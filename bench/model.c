/* The bare training step of a model file: forward, loss, gradients and Adam, compiled, on batches that lie in memory.
 *
 *     model --model FILE [--batch G] [--replicas N] [--threads T] [--precision tf32] [--order free] [--seconds S]    a line of JSON
 *     model --model FILE --device GPU:0 ...       on a card, with --replicas N cut into N logical GPUs; --wait: for each step
 *     model --model FILE ... --serve              "run G S" per line of standard input, a line of JSON for each
 *     model --model FILE ... --count STEPS        only so many steps, for counting instructions
 *
 * FILE is Keras' JSON, the one the programs in peers/ build the same model from, and the lines are those of peers/common.py: the
 * best and the median rate of windows within S seconds, in rows per second. Replicas 0: no strategy at all. Tracing, planning and
 * the first steps are not in the rates; first_step_s says how long after main() the first step was through.
 *
 * On a card the batches lie in its memory, and a window ends when the loss of its last step has been read: the losses of steps
 * before it stay pending, as in fit(). --wait settles each. */
#include "op/tensor.h"
#include "timing.h"
#include <lockstep.h>
#include <sys/resource.h>

enum { BATCHES = 8, MOST_JOBS = 8, WINDOWS = 5, MOST_REPLICAS = 64 };

static double began;

static struct {
    const char *model, *device;
    int64_t     batch, steps;
    int         replicas, threads, serve, free_order, wait;
    double      seconds;
} set = {.batch = 64, .threads = 0, .seconds = 2};

static bool          on_card;
static lk_strategy  *strategy;
static lk_model     *model;
static lk_optimizer *optimizer;

/* What is made for one size of batch. */
typedef struct job {
    int64_t      batch;
    lk_function *step;
    lk_tuple     data[BATCHES];
    int          at;
} job;

/* ---- the step --------------------------------------------------------------------------------------------------------------- */

static lk_tuple on_replica(lk_tuple in, void *user)
{
    const job *j = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *logits = lk_model_call(model, in.item[0], .training = LK_ON);
    lk_tensor *each = lk_nn_sparse_categorical_crossentropy(in.item[1], logits, .from_logits = LK_ON);
    lk_tensor *loss = lk_compute_average_loss(each, .global_batch_size = j->batch);
    lk_tuple   more = lk_model_losses(model);
    if (more.count) loss = lk_add(loss, lk_scale_regularization_loss(lk_add_n(more)));
    lk_optimizer_apply(optimizer, lk_tape_gradient(tape, loss, lk_model_trainable_variables(model)));
    lk_tape_end(tape);
    return LK_TUPLE(loss);
}

static lk_tuple on_all(lk_tuple in, void *user)
{
    lk_tuple each = lk_run(strategy, on_replica, in, user);
    return LK_TUPLE(lk_reduce(strategy, LK_SUM, each.item[0]));
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------- */

/* The shape of a row is what the file says of its input. */
static lk_shape row_of(const char *path)
{
    lk_shape row = {0};
    char     text[8192];
    FILE    *file = fopen(path, "r");
    size_t   n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[n] = 0;
    const char *at = strstr(text, "\"batch_shape\"");
    at = at ? strchr(at, ',') : NULL; /* after the batch */
    while (at && *at == ',') {
        char *end;
        row.dim[row.rank++] = strtoll(at + 1, &end, 10);
        at = end;
    }
    if (row.rank) return row;
    fprintf(stderr, "%s: no batch_shape in it\n", path);
    exit(2);
}

static lk_tuple rows_of(lk_shape row, int64_t rows, int number)
{
    lk_shape shape = {.rank = row.rank + 1, .dim = {rows}};
    int64_t *label = malloc((size_t)rows * sizeof *label);
    for (int i = 0; i < row.rank; i++)
        shape.dim[i + 1] = row.dim[i];
    for (int64_t i = 0; i < rows; i++)
        label[i] = (i * 7 + number * 3) % 10;
    lk_tensor *y = lk_tensor_from(LK_SHAPE(rows), LK_I64, label);
    free(label);
    return LK_TUPLE(lk_random_uniform(shape, .stream = "rows", .call = number), y);
}

static lk_tuple kept(lk_tensor *x, lk_tensor *y)
{
    lk_tensor *item[2] = {lk_keep(x), lk_keep(y)};
    return lk_tuple_from(2, item);
}

static void check(void)
{
    if (!lk_failed()) return;
    fprintf(stderr, "%s\n", lk_error());
    exit(1);
}

/* What an op makes lies on the replica's device. */
static lk_tuple made_here(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_mul(in.item[0], lk_scalar(1)), lk_mul(in.item[1], lk_scalar(1)));
}

static lk_tuple on_the_card(lk_tuple batch)
{
    lk_tuple there = lk_run(strategy, made_here, batch);
    check();
    for (int i = 0; i < 2; i++) {
        const lk_tensor *t = there.item[i], *one = t->replicas ? t->replicas->item[0] : t;
        if (lki_on_host(one->buffer->device)) fprintf(stderr, "%s stay with the host\n", i ? "labels" : "rows");
    }
    return there;
}

/* A batch as the step takes it: split over the replicas, where there are several. */
static lk_tuple placed(lk_tuple whole, int64_t batch)
{
    lk_tuple part = LK_TUPLE(lk_rows(whole.item[0], batch), lk_rows(whole.item[1], batch));
    if (set.replicas >= 2) {
        lk_dataset *d = lk_distribute_dataset(strategy, lk_dataset_batch(lk_dataset_from_tensor_slices(whole), batch),
                                              .prefetch = LK_NUMBER(0));
        if (!lk_next(lk_iterator_of(d), &part)) check(), exit(1);
    }
    if (on_card) part = on_the_card(part);
    return kept(part.item[0], part.item[1]);
}

/* ---- running ---------------------------------------------------------------------------------------------------------------- */

static void run(job *j, int64_t steps)
{
    for (int64_t i = 0; i < steps; i++)
        LK_STEP {
            lk_tuple out = lk_call(j->step, j->data[j->at++ % BATCHES]);
            if (on_card && (set.wait || i + 1 == steps)) lk_item(out.item[0]);
        }
    check();
}

static job *job_for(int64_t batch)
{
    static job jobs[MOST_JOBS];
    static int count;
    for (int i = 0; i < count; i++)
        if (jobs[i].batch == batch) return &jobs[i];
    if (count == MOST_JOBS) exit(2);
    job           *j = &jobs[count++];
    const lk_shape row = row_of(set.model);
    *j = (job){.batch = batch};
    for (int i = 0; i < BATCHES; i++)
        j->data[i] = placed(rows_of(row, batch, i), batch);
    j->step = lk_function_of(strategy ? on_all : on_replica, j);
    return j;
}

static void warm_up(job *j)
{
    const double start = now();
    do
        run(j, 1);
    while (now() - start < 0.2);
}

static series rates_of(job *j, double seconds)
{
    series       rates = {0};
    double       start = now();
    const double end = start + seconds, slice = seconds / WINDOWS;
    run(j, 1);
    for (double each = now() - start, left = seconds; left >= 0.5 * slice && left >= 0.5 * each; left = end - now()) {
        const int64_t steps = each < slice ? (int64_t)(slice / each) : 1;
        start = now();
        run(j, steps);
        each = (now() - start) / (double)steps;
        series_add(&rates, (double)j->batch / each);
    }
    return rates;
}

static void reply(int64_t batch, double seconds)
{
    static double first;
    struct rusage usage;
    job          *j = job_for(batch);
    if (!j->at) {
        run(j, 1);
        if (first == 0) first = now() - began;
        warm_up(j);
    } else if (on_card) warm_up(j); /* its clock has fallen since */
    const series rates = seconds > 0 ? rates_of(j, seconds) : (series){0};
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"best\": %.1f, \"median\": %.1f, \"windows\": [", series_largest(&rates), series_median(rates));
    for (int i = 0; i < rates.count; i++)
        printf("%s%.1f", i ? ", " : "", rates.value[i]);
    printf("], \"batch\": %lld, \"first_step_s\": %.4f, \"peak_rss_mib\": %.1f", (long long)batch, first,
           (double)usage.ru_maxrss / 1024);
    if (on_card) printf(", \"device\": \"%s\", \"card\": \"%s\"", set.device, lk_gpu_words(set.device));
    puts("}");
    fflush(stdout);
}

/* ---- the command line ------------------------------------------------------------------------------------------------------- */

static void quiet(const char *text, void *user) { (void)text, (void)user; }

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        i += strcmp(name, "--serve") != 0 && strcmp(name, "--wait") != 0;
        if (!strcmp(name, "--serve")) set.serve = 1;
        else if (!strcmp(name, "--wait")) set.wait = 1;
        else if (!strcmp(name, "--device")) set.device = value;
        else if (!strcmp(name, "--model")) set.model = value;
        else if (!strcmp(name, "--batch")) set.batch = atoll(value);
        else if (!strcmp(name, "--replicas")) set.replicas = atoi(value);
        else if (!strcmp(name, "--threads")) set.threads = atoi(value);
        else if (!strcmp(name, "--seconds")) set.seconds = atof(value);
        else if (!strcmp(name, "--count")) set.steps = atoll(value);
        else if (!strcmp(name, "--precision")) setenv("LOCKSTEP_PRECISION", value, 1);
        else if (!strcmp(name, "--order")) set.free_order = !strcmp(value, "free");
        else set.model = NULL, i = argc;
    }
    if (set.model && set.replicas <= MOST_REPLICAS) return;
    fprintf(stderr, "usage: model --model FILE [--batch G] [--device GPU:0] [--replicas N] [--threads T] [--order free] [--wait] "
                    "[--seconds S] [--serve | --count STEPS]\n");
    exit(2);
}

/* NULL: none at all. */
static lk_strategy *make_strategy(void)
{
    static char    names[MOST_REPLICAS][16];
    const char    *item[MOST_REPLICAS + 1] = {0};
    const lk_order order = set.free_order ? LK_FREE : LK_ORDERED;
    if (set.device && set.replicas < 2) return lk_one_device_strategy(set.device);
    if (!on_card) return set.replicas ? lk_mirrored_strategy(.cpu_devices = set.replicas, .order = order) : NULL;
    for (int i = 0; i < set.replicas; i++) {
        snprintf(names[i], sizeof names[i], "GPU:%d", i);
        item[i + 1] = names[i];
    }
    return lk_mirrored_strategy(.devices = lk_names_of(set.replicas, item), .logical_gpus = set.replicas, .order = order);
}

int main(int argc, char **argv)
{
    char line[128];
    began = now();
    read_arguments(argc, argv);
    lk_set_log(quiet, NULL);
    if (set.threads) lk_set_threads(set.threads);
    on_card = set.device && strstr(set.device, "GPU:");
    strategy = make_strategy();
    check();
    LK_SCOPE(strategy ? strategy : lk_default_strategy()) {
        model = lk_model_from_json_file(set.model);
        /* weights stay nearly what they were: a model that knows its few batches by heart has gradients of zero, which some kernels
         * skip */
        optimizer = lk_adam(.learning_rate = 1e-6);
    }
    if (!model) {
        fprintf(stderr, "%s\n", lk_error());
        return 1;
    }
    if (set.steps) run(job_for(set.batch), set.steps);
    else if (!set.serve) reply(set.batch, set.seconds);
    while (set.serve && fgets(line, sizeof line, stdin)) {
        long long batch;
        double    seconds;
        if (sscanf(line, "run %lld %lf", &batch, &seconds) != 2) break;
        reply(batch, seconds);
    }
    return 0;
}
