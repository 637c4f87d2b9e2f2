/* GPUs as devices: how they are listed, named and divided, what runs on them under a strategy, and how tensors, variables,
 * datasets, functions of the user and errors work with memory that is not the host's. */
#include "small.h"

/* ---- which there are ---- */

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

static void listed(const void *arg, outcome *out)
{
    const int cards = *(const int *)arg;
    lk_names  names = lk_list_devices();
    (void)out;
    NEED(names.count == 1 + cards);
    NEED(ends_with(names.item[0], "/device:CPU:0"));
    for (int i = 0; i < cards; i++) {
        char name[32];
        snprintf(name, sizeof name, "/device:GPU:%d", i);
        NEED(ends_with(names.item[1 + i], name));
        NEED(strstr(lk_gpu_words(name), " MiB, ") && strstr(lk_gpu_words(names.item[1 + i]), "compute capability"));
    }
    NEED(strstr(lk_gpu_note(), cards == 1 ? "1 card (" : "2 cards (") && strstr(lk_gpu_note(), " MiB"));
    NEED(!strcmp(lk_gpu_words("CPU:0"), "") && !strcmp(lk_gpu_words("GPU:99"), "") && !strcmp(lk_gpu_words("what"), "") &&
         !strcmp(lk_gpu_words(NULL), ""));
    SOUND();
    lk_strategy *s = lk_mirrored_strategy();
    NEED(lk_num_replicas_in_sync(s) == cards);
    NEED(ends_with(lk_extended_worker_devices(s).item[cards - 1], cards == 1 ? "GPU:0" : "GPU:1"));
    NEED(!lk_one_device_strategy("GPU:9"));
    TOLD(LK_EINVAL, "lk_one_device_strategy", "there is no device", "GPU:9", "card");
    NEED(!lk_mirrored_strategy(.devices = LK_DEVICES("GPU:0", "GPU:77")));
    TOLD(LK_EINVAL, "lk_mirrored_strategy", "there is no device", "GPU:77");
    NEED(!lk_mirrored_strategy(.devices = LK_DEVICES("GPU:0", "/gpu:0")));
    TOLD(LK_EINVAL, "duplicates");
}

TEST(devices_are_listed)
{
    CHILD(listed, &(int){1}, NULL, .cards = 1);
    CHILD(listed, &(int){2}, NULL, .cards = 2);
}

static void none_found(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    NEED(lk_list_devices().count == 1);
    NEED(strstr(lk_gpu_note(), "no GPUs"));
    NEED(lk_num_replicas_in_sync(lk_mirrored_strategy()) == 1);
    NEED(!lk_one_device_strategy("GPU:0"));
    TOLD(LK_EINVAL, "GPU:0", "there are CPU:0", "no GPUs");
}

/* In a process of its own as well: the environment is that of a machine without a card. */
static int alone(void)
{
    child_signals();
    setenv("LOCKSTEP_GPU_BACKEND", "/nowhere/lockstep-none.so", 1);
    lk_set_log(child_silent, NULL);
    LK_POOL
        none_found(NULL, NULL);
    return lk_failed() ? 1 : 0;
}

TEST(without_a_backend_there_are_none)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) exit(alone());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void cut(const void *arg, outcome *out)
{
    const int cards = *(const int *)arg;
    (void)out;
    NEED(!lk_mirrored_strategy(.logical_gpus = -1));
    TOLD(LK_EINVAL, ".logical_gpus = -1");
    NEED(!lk_mirrored_strategy(.precision = (lk_precision)9));
    TOLD(LK_EINVAL, ".precision = 9");
    NEED(!lk_mirrored_strategy(.logical_gpus = 100000));
    TOLD(LK_EINVAL, "100000 logical GPUs");
    lk_strategy *s = lk_mirrored_strategy(.logical_gpus = 4);
    NEED(lk_num_replicas_in_sync(s) == 4 * cards);
    NEED(lk_list_devices().count == 1 + 4 * cards);
    NEED(lki_same_memory(lki_device_gpu_at(0), lki_device_gpu_at(3)));
    if (cards > 1) NEED(!lki_same_memory(lki_device_gpu_at(3), lki_device_gpu_at(4)));
    LK_SCOPE(s)
        NEED(lk_item(lk_add(lk_scalar(1), lk_scalar(2))) == 3);
    NEED(!lk_mirrored_strategy(.logical_gpus = 2)); /* it is in use */
    TOLD(LK_ESTATE, "logical", "in use");
    NEED(lk_num_replicas_in_sync(lk_mirrored_strategy()) == 4 * cards);
}

TEST(cards_are_cut)
{
    CHILD(cut, &(int){1}, NULL, .cards = 1);
    CHILD(cut, &(int){2}, NULL, .cards = 2);
}

static void limited(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_strategy *s = lk_mirrored_strategy(.devices = LK_DEVICES("GPU:0", "GPU:1"), .logical_gpus = 2, .gpu_memory_limit = 1 << 20);
    LK_SCOPE(s) {
        NEED(!lk_poisoned(lk_square(lk_zeros(LK_SHAPE(1 << 16), LK_F32))));
        NEED(lk_poisoned(lk_square(lk_zeros(LK_SHAPE(1 << 20), LK_F32))));
    }
    TOLD(LK_ENOMEM, "GPU:0", "its limit is 1048576", ".gpu_memory_limit");
    LK_SCOPE(s)
        for (int i = 0; i < 64; i++) /* what was given back counts no longer */
            LK_STEP
                NEED(lk_item(lk_reduce_sum(lk_ones(LK_SHAPE(1 << 16), LK_F32))) == 65536);
    SOUND();
}

TEST(memory_is_limited) { CHILD(limited, NULL, NULL, .cards = 1); }

/* ---- tensors and variables ---- */

static bool on_gpu(const lk_tensor *t) { return t->buffer && !lki_on_host(t->buffer->device); }

static char   printed[1024];
static size_t printed_bytes;

static void print_here(const char *text, void *user)
{
    (void)user;
    printed_bytes += (size_t)snprintf(printed + printed_bytes, sizeof printed - printed_bytes, "%s", text);
}

static void looked_at(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_tensor *t = NULL, *u = NULL, *view = NULL;
    LK_SCOPE(lk_one_device_strategy("GPU:0")) {
        t = lk_add(lk_tensor_of(LK_SHAPE(2, 2), 1, 2, 3, 4), lk_scalar(0.5));
        u = lk_mul(t, lk_scalar(2));
        view = lk_slice(lk_reshape(u, LK_SHAPE(4)), LK_AXES(2), LK_AXES(2));
    }
    NEED(on_gpu(t) && on_gpu(u));
    lk_set_output(print_here, NULL);
    lk_print(t);
    lk_set_output(NULL, NULL);
    NEED(!strcmp(printed, "[[1.5, 2.5], [3.5, 4.5]]\n"));
    const float *x = lk_data(t);
    NEED(x && x[0] == 1.5f && x[3] == 4.5f && x == lk_data(t));
    NEED(((const float *)lk_data(view))[0] == 7 && ((const float *)lk_data(view))[1] == 9);
    /* outside the scope ops run on the CPU, whatever their operands are */
    lk_tensor *sum = lk_reduce_sum(u);
    NEED(!on_gpu(sum) && lk_item(sum) == 24);
    /* and back */
    LK_SCOPE(lk_one_device_strategy("GPU:0")) {
        lk_tensor *again = lk_add(sum, t);
        NEED(on_gpu(again) && ((const float *)lk_data(again))[3] == 28.5f);
        NEED(isnan(lk_item(again)));
        TOLD(LK_ESHAPE, "lk_item", "4 elements");
        lk_tensor *empty = lk_square(lk_zeros(LK_SHAPE(0, 3), LK_F32));
        NEED(!lk_poisoned(empty) && lk_size(empty) == 0);
        NEED(lk_item(lk_reduce_sum(empty)) == 0);
    }
    SOUND();
}

TEST(tensors_of_a_gpu_are_looked_at) { CHILD(looked_at, NULL, NULL, .cards = 1); }

/* A tensor that was read, and the pointer it gave, keep their values whatever becomes of the variable. */
static void kept_value(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_variable *v = NULL;
    LK_SCOPE(lk_one_device_strategy("GPU:0")) {
        v = lk_variable_of(lk_fill(LK_SHAPE(1000), LK_F32, 1));
        lk_tensor   *first = lk_read(v), *shaped = lk_reshape(lk_read(v), LK_SHAPE(10, 100));
        const float *x = lk_data(first), *y = lk_data(shaped);
        NEED(x && y && x[999] == 1);
        lk_tensor *late = lk_read(v); /* not looked at before the variable changes */
        NEED(lk_assign_add(v, lk_ones(LK_SHAPE(1000), LK_F32)) == LK_OK);
        lk_tensor   *second = lk_read(v);
        const float *z = lk_data(second);
        NEED(z && z[0] == 2);
        for (int i = 0; i < 5; i++)
            NEED(lk_assign_sub(v, lk_fill(LK_SHAPE(1000), LK_F32, 7)) == LK_OK);
        NEED(lk_assign(v, lk_zeros(LK_SHAPE(1000), LK_F32)) == LK_OK);
        for (int i = 0; i < 1000; i++)
            NEED(x[i] == 1 && y[i] == 1 && z[i] == 2);
        NEED(x == lk_data(first) && y == lk_data(shaped) && z == lk_data(second));
        NEED(((const float *)lk_data(late))[500] == 1);
        NEED(lk_item(lk_reduce_sum(first)) == 1000 && lk_item(lk_reduce_sum(second)) == 2000 &&
             lk_item(lk_reduce_sum(lk_read(v))) == 0);
        NEED(((const float *)lk_variable_data(v))[0] == 0);
    }
    SOUND();
}

TEST(what_was_read_keeps_its_value) { CHILD(kept_value, NULL, NULL, .cards = 1); }

static lk_tuple plus_captured(lk_tuple in, void *user) { return LK_TUPLE(lk_add(in.item[0], user)); }

/* The same where a function has the tensor as a constant. */
static void kept_as_constant(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    LK_SCOPE(lk_one_device_strategy("GPU:0")) {
        lk_variable *v = lk_variable_of(lk_fill(LK_SHAPE(1000), LK_F32, 1));
        lk_tensor   *captured = lk_read(v), *other = lk_read(v);
        const float *y = lk_data(other);
        lk_function *f = lk_function_of(plus_captured, captured);
        NEED(((const float *)lk_data(lk_call(f, LK_TUPLE(lk_ones(LK_SHAPE(1000), LK_F32))).item[0]))[999] == 2);
        for (int i = 0; i < 3; i++)
            NEED(lk_assign_add(v, lk_ones(LK_SHAPE(1000), LK_F32)) == LK_OK);
        for (int i = 0; i < 1000; i++)
            NEED(y[i] == 1);
        NEED(y == lk_data(other) && ((const float *)lk_data(captured))[7] == 1);
        NEED(((const float *)lk_data(lk_call(f, LK_TUPLE(lk_ones(LK_SHAPE(1000), LK_F32))).item[0]))[0] == 2);
        NEED(((const float *)lk_data(lk_read(v)))[0] == 4);
    }
    SOUND();
}

TEST(what_was_read_stays_a_constant) { CHILD(kept_as_constant, NULL, NULL, .cards = 1); }

static lk_tuple add_one(lk_tuple in, void *user)
{
    lk_variable *v = user;
    lk_assign_add(v, in.item[0]);
    return LK_TUPLE(lk_add(lk_read(v), lk_zeros(LK_SHAPE(8), LK_F32)), lk_read(v));
}

/* The same for what compiled steps return, and for a variable that a compiled step changes. */
static void kept_by_steps(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_variable *v = NULL;
    LK_SCOPE(lk_one_device_strategy("GPU:0")) {
        v = lk_variable_of(lk_zeros(LK_SHAPE(8), LK_F32));
        lk_function *f = lk_function_of(add_one, v);
        lk_tensor   *before = lk_read(v);
        const float *x = lk_data(before);
        lk_tuple     results[6];
        for (int i = 0; i < 6; i++)
            results[i] = lk_call(f, LK_TUPLE(lk_ones(LK_SHAPE(8), LK_F32)));
        SOUND();
        for (int i = 0; i < 6; i++)
            NEED(((const float *)lk_data(results[i].item[0]))[7] == (float)(i + 1) &&
                 ((const float *)lk_data(results[i].item[1]))[0] == (float)(i + 1));
        NEED(x[3] == 0 && ((const float *)lk_data(before))[3] == 0);
        NEED(((const float *)lk_data(lk_read(v)))[0] == 6);
    }
    SOUND();
}

TEST(what_steps_return_keeps_its_value) { CHILD(kept_by_steps, NULL, NULL, .cards = 1); }

static lk_tuple mixed(lk_tuple in, void *user)
{
    lk_tensor *x = in.item[0], *y = in.item[1], *sum = lk_add(lk_mul(x, lk_scalar(2)), y);
    if (user) return LK_TUPLE(sum, x); /* an input is returned as it is */
    return LK_TUPLE(sum, lk_mul(sum, y), lk_reshape(sum, LK_SHAPE(4, 1 << 16)),
                    lk_mul(lk_unstack(lk_reshape(x, LK_SHAPE(4, 1 << 16)), 0).item[2], lk_scalar(3)));
}

static float at(lk_tensor *t, int i) { return ((const float *)lk_data(t))[i]; }

/* Steps over tensors that are reused in any order, more of them than there are ways, beside tensors made each time, some of whose
 * results are kept for a while. */
static void read_in_place(const void *arg, outcome *out)
{
    enum { TENSORS = 24, KEPT = 3, SIZE = 1 << 18, SEEN = 200000 }; /* floats: a MiB, less is copied */
    (void)arg, (void)out;
    float *numbers = malloc(SIZE * sizeof *numbers);
    for (int i = 0; i < SIZE; i++)
        numbers[i] = (float)(i % 97);
    LK_SCOPE(lk_one_device_strategy("GPU:0")) {
        lk_function *of_all = lk_function_of(mixed, NULL), *of_input = lk_function_of(mixed, &of_all);
        lk_tensor   *t[TENSORS], *kept[KEPT] = {0};
        float        value[KEPT] = {0};
        unsigned     random = 1;
        for (int i = 0; i < TENSORS; i++)
            t[i] = lk_add(lk_tensor_from(LK_SHAPE(SIZE), LK_F32, numbers), lk_scalar(i));
        for (int step = 0; step < 90; step++) {
            random = random * 1664525u + 1013904223u;
            const int   i = (int)(random >> 16) % (step < 30 ? 2 : step < 60 ? 8 : TENSORS), j = step % 2 ? i : (i + 1) % TENSORS;
            const bool  anew = step % 7 == 3;
            const float a = (float)(i + SEEN % 97 + (anew ? 100 : 0)), b = (float)(j + SEEN % 97),
                        c = (float)(i + (2 * SIZE / 4 + 5) % 97 + (anew ? 100 : 0));
            LK_STEP {
                lk_tensor *x = anew ? lk_add(t[i], lk_scalar(100)) : t[i];
                lk_tuple   all = lk_call(of_all, LK_TUPLE(x, t[j])), input = lk_call(of_input, LK_TUPLE(x, t[j]));
                NEED(at(all.item[0], SEEN) == 2 * a + b && at(all.item[1], SEEN) == (2 * a + b) * b &&
                     at(all.item[2], SEEN) == 2 * a + b);
                NEED(at(all.item[3], 5) == 3 * c && at(input.item[0], SEEN) == 2 * a + b && at(input.item[1], SEEN) == a);
                if (step % 5 == 0) { /* results, and so the memory of later ones, lie elsewhere */
                    lk_free(kept[step / 5 % KEPT]);
                    kept[step / 5 % KEPT] = lk_keep(all.item[1]);
                    value[step / 5 % KEPT] = (2 * a + b) * b;
                }
            }
            for (int k = 0; k < KEPT; k++)
                NEED(!kept[k] || at(kept[k], SEEN) == value[k]);
            SOUND();
        }
    }
    free(numbers);
    SOUND();
}

TEST(steps_read_in_place) { CHILD(read_in_place, NULL, NULL, .cards = 1); }

/* A variable of the CPU in a step of the GPU, and one of the GPU in a step of the CPU. */
static lk_tuple both_change(lk_tuple in, void *user)
{
    lk_variable *const *v = user;
    lk_assign_add(v[0], lk_mul(lk_read(v[1]), in.item[0]));
    lk_assign_add(v[1], lk_read(v[0]));
    return LK_TUPLE(lk_add(lk_read(v[0]), lk_read(v[1])));
}

static void from_elsewhere(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_strategy *gpu = lk_one_device_strategy("GPU:0");
    float        seen[3][3];
    for (int way = 0; way < 3; way++) {
        lk_variable *v[2] = {lk_variable_of(lk_ones(LK_SHAPE(3), LK_F32)), NULL};
        LK_SCOPE(gpu)
            v[1] = lk_variable_of(lk_fill(LK_SHAPE(3), LK_F32, 2));
        lk_function *f = lk_function_of(both_change, v);
        lk_tensor   *x = lk_tensor_of(LK_SHAPE(3), 1, 2, 3), *y = NULL;
        for (int i = 0; i < 4; i++)
            if (way == 0) y = both_change(LK_TUPLE(x), v).item[0];
            else if (way == 1) y = lk_call(f, LK_TUPLE(x)).item[0];
            else
                LK_SCOPE(gpu)
                    y = lk_call(f, LK_TUPLE(x)).item[0];
        SOUND();
        memcpy(seen[way], lk_data(y), sizeof seen[way]);
        NEED(!memcmp(seen[0], seen[way], sizeof seen[way]));
    }
    NEED(seen[0][0] > 0);
}

TEST(variables_of_other_memories) { CHILD(from_elsewhere, NULL, NULL, .cards = 1); }

/* ---- datasets ---- */

static lk_tuple twice(lk_tuple e, void *user)
{
    (void)user;
    return LK_TUPLE(lk_mul(e.item[0], lk_scalar(2)), e.item[1]);
}

static double sum_over(lk_dataset *d, int64_t *rows)
{
    double sum = 0;
    *rows = 0;
    LK_FOR_EACH(batch, d) {
        sum += lk_item(lk_reduce_sum(batch.item[0]));
        *rows += lk_dim(batch.item[0], 0);
    }
    return sum;
}

static void datasets(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_strategy *s = lk_mirrored_strategy();
    int64_t      rows;
    LK_SCOPE(s) {
        lk_tensor *x = lk_add(lk_reshape(lk_range(40, LK_F32), LK_SHAPE(20, 2)), lk_scalar(1)),
                  *y = lk_cast(lk_range(20, LK_F32), LK_I64); /* on the GPU */
        NEED(on_gpu(x));
        lk_dataset *all = lk_dataset_from_tensor_slices(LK_TUPLE(x, y)), *one = lk_dataset_from_tensors(LK_TUPLE(x, y));
        NEED(sum_over(one, &rows) == 820 && rows == 20);
        NEED(sum_over(lk_dataset_map(one, twice), &rows) == 1640);
        NEED(sum_over(lk_dataset_batch(lk_dataset_map(all, twice), 6), &rows) == 1640 && rows == 20);
        NEED(
            sum_over(lk_dataset_prefetch(lk_dataset_batch(lk_dataset_map(lk_dataset_shuffle(all, 20), twice, .parallel = 2), 6), 2),
                     &rows) == 1640 &&
            rows == 20);
        NEED(sum_over(lk_dataset_map(lk_dataset_batch(all, 6), twice), &rows) == 1640 && rows == 20);
        NEED(sum_over(lk_dataset_batch(lk_dataset_cache(lk_dataset_map(all, twice)), 6), &rows) == 1640);
        SOUND();
        double sum = 0;
        LK_FOR_EACH(batch, lk_distribute_dataset(s, lk_dataset_map(lk_dataset_batch(all, 8), twice))) {
            lk_tuple each = lk_local_results(s, batch.item[0]);
            for (int r = 0; r < each.count; r++)
                sum += lk_item(lk_reduce_sum(each.item[r]));
        }
        NEED(sum == 1640);
    }
    SOUND();
}

TEST(datasets_of_and_under_gpus)
{
    CHILD(datasets, NULL, NULL, .cards = 1);
    CHILD(datasets, NULL, NULL, .logical = 2);
    CHILD(datasets, NULL, NULL, .cards = 2);
}

/* Data that was mapped on a GPU trains as data that was mapped on the CPU. */
static void mapped_in_fit(const void *arg, outcome *out)
{
    const bool   inside = *(const int *)arg;
    lk_strategy *s = lk_mirrored_strategy();
    lk_dataset  *d = lk_dataset_batch(lk_dataset_map(small_elements(), twice), BATCH);
    lk_model    *m = small_compiled(s, LK_OFF);
    if (inside)
        LK_SCOPE(s)
            lk_model_fit(m, lk_dataset_batch(lk_dataset_map(small_elements(), twice), BATCH), .epochs = 1, .verbose = LK_SILENT);
    else lk_model_fit(m, d, .epochs = 1, .verbose = LK_SILENT);
    SOUND();
    out->digest = small_state(m);
}

TEST(mapped_data_trains_alike)
{
    outcome outside, inside;
    CHILD(mapped_in_fit, &(int){0}, &outside, .logical = 2);
    CHILD(mapped_in_fit, &(int){1}, &inside, .logical = 2);
    same_outcome(&outside, &inside, "mapped inside and outside the scope");
}

/* ---- functions of the user, and what a GPU has no kernel for ---- */

static void cube(const lk_op_view *view, void *user)
{
    const float *x = view->in[0];
    float       *y = view->out;
    int64_t      n = 1;
    __atomic_fetch_add((int *)user, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < view->out_shape.rank; i++)
        n *= view->out_shape.dim[i];
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * x[i] * x[i];
}

static lk_tuple cube_gradient(lk_tuple in, lk_tensor *out, lk_tensor *dy, void *user)
{
    (void)out, (void)user;
    return LK_TUPLE(lk_mul(dy, lk_mul(lk_scalar(3), lk_mul(in.item[0], in.item[0]))));
}

typedef struct own {
    lk_strategy *strategy;
    lk_op       *op;
    lk_variable *w;
} own;

static lk_tuple own_step(lk_tuple in, void *user)
{
    own       *o = user;
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_op_call(o->op, lk_mul(in.item[0], lk_read(o->w)));
    lk_tensor *loss = lk_div(lk_reduce_sum(lk_square(lk_sub(y, lk_scalar(1)))), lk_scalar(16));
    lk_grads  *g = lk_tape_gradient(tape, loss, LK_VARIABLES(o->w));
    lk_tensor *all = lk_all_reduce(lk_get_replica_context(), LK_SUM, lk_grads_item(g, 0));
    lk_assign_sub(o->w, lk_mul(lk_scalar(0.05), all));
    return LK_TUPLE(loss);
}

static lk_tuple own_all(lk_tuple in, void *user)
{
    own *o = user;
    return LK_TUPLE(lk_reduce(o->strategy, LK_SUM, lk_run(o->strategy, own_step, in, o).item[0]));
}

static void own_ops(const void *arg, outcome *out)
{
    static lk_op *op[4]; /* they live as long as the process */
    const char   *device = arg;
    int           calls = 0;
    for (int way = 0; way < 4; way++) { /* by rows or not, compiled or op by op */
        op[way] = lk_op_of("cube", cube, .gradient = cube_gradient, .user = &calls, .by_rows = way & 1 ? LK_ON : LK_OFF);
        own o = {device ? lk_one_device_strategy(device) : lk_mirrored_strategy(), op[way], NULL};
        LK_SCOPE(o.strategy)
            o.w = lk_variable_of(lk_tensor_of(LK_SHAPE(3), 0.5, -0.25, 1), .aggregation = LK_AGGREGATION_ONLY_FIRST_REPLICA);
        lk_function *f = lk_function_of(own_all, &o);
        lk_tensor   *x = lk_random_normal(LK_SHAPE(16, 3), .stream = "x");
        lk_dataset  *d = lk_distribute_dataset(o.strategy, lk_dataset_batch(lk_dataset_from_tensor_slices(LK_TUPLE(x)), 16));
        for (int i = 0; i < 4; i++)
            LK_FOR_EACH(batch, d)
                child_put(out, lk_item((way & 2 ? own_all(batch, &o) : lk_call(f, batch)).item[0]));
        SOUND();
        NEED(calls > 0);
        calls = 0;
    }
    const int each = out->count / 4;
    for (int i = 0; i < 2 * each; i++)
        NEED(out->value[i] == out->value[2 * each + i]);
    if (!device) return;
    for (int i = 0; i < each; i++) /* what is not by rows has no lanes, and then another order of sums */
        NEED(fabs(out->value[i] - out->value[each + i]) < 1e-5);
}

TEST(functions_of_the_user_run_on_the_host)
{
    outcome cpu, gpu;
    CHILD(own_ops, "CPU:0", &cpu, .cards = 1);
    CHILD(own_ops, "GPU:0", &gpu, .cards = 1);
    close_outcome(&cpu, &gpu, 1e-6, "CPU and GPU");
    outcome four;
    CHILD(own_ops, NULL, &four, .logical = 4);
    for (int i = 0; i < gpu.count; i++) {
        const bool by_rows = i / (gpu.count / 4) & 1;
        if (by_rows ? gpu.value[i] != four.value[i] : fabs(gpu.value[i] - four.value[i]) > 1e-5)
            fail_msg("value %d is %.9g on 1 and %.9g on 4", i, gpu.value[i], four.value[i]);
    }
}

static lk_tuple sums(lk_tuple in, void *user)
{
    (void)user;
    return LK_TUPLE(lk_reduce_sum(in.item[0], .axis = LK_AXES(0)), lk_matmul(in.item[0], in.item[0], .transpose_a = LK_ON));
}

/* More lanes than the kernels of a GPU have: the CPU does it, with its own bits. */
static void many_lanes(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_set_lanes(128);
    lk_tensor   *x = lk_rows(lk_random_normal(LK_SHAPE(300, 5), .stream = "x"), 0);
    lk_tuple     wanted = sums(LK_TUPLE(x), NULL);
    lk_function *f = lk_function_of(sums);
    SOUND();
    LK_SCOPE(lk_one_device_strategy("GPU:0"))
        for (int way = 0; way < 4; way++) {
            lk_tuple got = way ? lk_call(f, LK_TUPLE(x)) : sums(LK_TUPLE(x), NULL);
            SOUND();
            for (int i = 0; i < 2; i++)
                NEED(!memcmp(lk_data(wanted.item[i]), lk_data(got.item[i]), (size_t)lk_size(got.item[i]) * sizeof(float)));
        }
    SOUND();
}

TEST(what_a_gpu_cannot_do_the_cpu_does) { CHILD(many_lanes, NULL, NULL, .cards = 1); }

/* ---- errors ---- */

static lk_tuple pick_and_add(lk_tuple in, void *user)
{
    lk_variable *v = user;
    lk_tensor   *picked = lk_gather(lk_read(v), in.item[0], 0);
    lk_assign_add(v, lk_ones(LK_SHAPE(4), LK_F32));
    return LK_TUPLE(lk_reduce_sum(picked));
}

static lk_tensor *ids(int64_t a, int64_t b) { return lk_tensor_from(LK_SHAPE(2), LK_I64, ((int64_t[]){a, b})); }

static void faults(const void *arg, outcome *out)
{
    char call[40];
    (void)arg, (void)out;
    lk_strategy *s = lk_one_device_strategy("GPU:0");
    LK_SCOPE(s) {
        lk_variable *v = lk_variable_of(lk_tensor_of(LK_SHAPE(4), 1, 2, 3, 4));
        lk_tensor   *bad = lk_gather(lk_read(v), ids(0, 4), 0);
        NEED(lk_poisoned(bad));
        TOLD(LK_EINVAL, "gather", "id is outside");
        NEED(lk_scatter_add(v, ids(1, -1), lk_ones(LK_SHAPE(2), LK_F32)) == LK_EINVAL);
        TOLD(LK_EINVAL, "scatter");
        NEED(lk_poisoned(lk_floordiv(lk_fill(LK_SHAPE(3), LK_I32, 1), lk_fill(LK_SHAPE(3), LK_I32, 0))));
        TOLD(LK_EINVAL, "divided by zero");
        NEED(lk_item(lk_reduce_sum(lk_gather(lk_read(v), ids(2, 3), 0))) == 7);
        lk_function *f = lk_function_of(pick_and_add, v);
        double       sum = lk_item(lk_reduce_sum(lk_read(v)));
        for (int turn = 0; turn < 4; turn++) {
            NEED(isfinite(lk_item(lk_call(f, LK_TUPLE(ids(0, 3))).item[0])));
            sum += 4;
            lk_tensor *wrong = lk_call(f, LK_TUPLE(ids(0, 7))).item[0], *twice = lk_mul(wrong, lk_scalar(2));
            NEED(lki_is_pending(wrong) && lki_is_pending(twice));
            SOUND(); /* until it is read */
            NEED(isnan(lk_item(turn % 2 ? twice : wrong)));
            snprintf(call, sizeof call, "(call %d of pick_and_add)", 2 * turn + 2);
            TOLD(LK_EINVAL, "gather", "id is outside", call);
            NEED(lk_item(lk_reduce_sum(lk_read(v))) == sum); /* the step wrote nothing */
        }
        SOUND();
    }
}

TEST(faults_are_told_to_who_looks) { CHILD(faults, NULL, NULL, .cards = 1); }

/* Of calls whose results are looked at in another order, and some never: each result has the error of its own call or of an earlier
 * one, which made no more updates; and there may be more of them than a card has slots. */
static void looks_later(const void *arg, outcome *out)
{
    enum { CALLS = 2500, BAD = 1030 };
    lk_tensor *kept[CALLS];
    (void)arg, (void)out;
    LK_SCOPE(lk_one_device_strategy("GPU:0")) {
        lk_variable *v = lk_variable_of(lk_tensor_of(LK_SHAPE(4), 1, 2, 3, 4));
        lk_function *f = lk_function_of(pick_and_add, v);
        for (int i = 0; i < CALLS; i++)
            kept[i] = lk_call(f, LK_TUPLE(ids(0, i == BAD ? -1 : 3))).item[0];
        SOUND();
        NEED(lk_item(kept[BAD - 1]) == 5 + 2 * (BAD - 1)); /* its own work was fine */
        SOUND();
        NEED(isnan(lk_item(kept[CALLS - 1])));
        TOLD(LK_EINVAL, "gather", "(call 1031 of pick_and_add)");
        NEED(lk_item(lk_reduce_sum(lk_read(v))) == 10 + 4 * BAD);
        NEED(lk_item(lk_call(f, LK_TUPLE(ids(0, 3))).item[0]) == 5 + 2 * BAD);
        NEED(lki_settle(kept[BAD - 2]) == LK_OK);
        SOUND();
    }
}

TEST(results_of_many_calls_are_looked_at_later) { CHILD(looks_later, NULL, NULL, .cards = 1); }

/* A variable that was not updated says why. */
static void variable_tells(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    LK_SCOPE(lk_one_device_strategy("GPU:0")) {
        lk_variable *v = lk_variable_of(lk_tensor_of(LK_SHAPE(4), 1, 2, 3, 4));
        lk_call(lk_function_of(pick_and_add, v), LK_TUPLE(ids(0, 4)));
        SOUND();
        NEED(!lk_data(lk_read(v)));
        TOLD(LK_EINVAL, "gather", "(call 1 of pick_and_add)");
        NEED(((const float *)lk_data(lk_read(v)))[3] == 4);
        SOUND();
    }
}

TEST(a_variable_tells_why_it_was_not_updated) { CHILD(variable_tells, NULL, NULL, .cards = 1); }

/* Very many functions that check indices, one after the other: the words that report faults are released. */
static void many_functions(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    LK_SCOPE(lk_one_device_strategy("GPU:0")) {
        lk_variable *v = lk_variable_of(lk_tensor_of(LK_SHAPE(4), 1, 2, 3, 4));
        for (int i = 0; i < 5000; i++)
            LK_POOL
                LK_STEP {
                    if (i % 10 == 0) lk_call(lk_function_of(pick_and_add, v), LK_TUPLE(ids(0, 3)));
                    else lk_gather(lk_read(v), ids(0, 1), 0);
                }
    }
    SOUND();
}

TEST(many_functions_that_check_indices) { CHILD(many_functions, NULL, NULL, .cards = 1); }

/* ---- the device of a thread ---- */

static void chosen(const void *arg, outcome *out)
{
    (void)arg, (void)out;
    lk_strategy *s = lk_one_device_strategy("GPU:0");
    NEED(!on_gpu(lk_add(lk_scalar(1), lk_scalar(2))));
    NEED(lk_set_strategy(s) == LK_OK);
    NEED(on_gpu(lk_add(lk_scalar(1), lk_scalar(2))));
    NEED(lk_set_strategy(NULL) == LK_OK);
    NEED(!on_gpu(lk_add(lk_scalar(1), lk_scalar(2))));
    LK_SCOPE(s)
        NEED(on_gpu(lk_add(lk_scalar(1), lk_scalar(2))));
    NEED(!on_gpu(lk_add(lk_scalar(1), lk_scalar(2))));
    SOUND();
}

TEST(ops_run_where_the_strategy_is) { CHILD(chosen, NULL, NULL, .cards = 1); }

TESTS(cmocka_unit_test(devices_are_listed), cmocka_unit_test(without_a_backend_there_are_none), cmocka_unit_test(cards_are_cut),
      cmocka_unit_test(memory_is_limited), cmocka_unit_test(tensors_of_a_gpu_are_looked_at),
      cmocka_unit_test(what_was_read_keeps_its_value), cmocka_unit_test(what_was_read_stays_a_constant),
      cmocka_unit_test(what_steps_return_keeps_its_value), cmocka_unit_test(steps_read_in_place),
      cmocka_unit_test(variables_of_other_memories), cmocka_unit_test(datasets_of_and_under_gpus),
      cmocka_unit_test(mapped_data_trains_alike), cmocka_unit_test(functions_of_the_user_run_on_the_host),
      cmocka_unit_test(what_a_gpu_cannot_do_the_cpu_does), cmocka_unit_test(faults_are_told_to_who_looks),
      cmocka_unit_test(results_of_many_calls_are_looked_at_later), cmocka_unit_test(a_variable_tells_why_it_was_not_updated),
      cmocka_unit_test(many_functions_that_check_indices), cmocka_unit_test(ops_run_where_the_strategy_is))
