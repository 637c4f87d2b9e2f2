/* TensorBoard: the tags and steps of a fit are those Keras 3.15 writes (compared with its files), and kernels as pictures. */
#include "fit/hooks.h"
#include "fit/kernel_image.h"
#include "folder.h"
#include "format/events.h"
#include <signal.h>
#include <sys/resource.h>

/* ---- reading back ------------------------------------------------------------------------------------------------------------ */

static char   seen[1 << 14], text_seen[1 << 14];
static double last_scalar;

static lk_status note(const lki_event *e, void *user)
{
    static const char *const KIND[] = {"other", "scalar", "histogram", "image", "text"};
    char                     line[256];
    (void)user;
    if (!*e->tag) return LK_OK;
    snprintf(line, sizeof line, "%lld %s %s\n", (long long)e->step, e->tag, KIND[e->kind]);
    strncat(seen, line, sizeof seen - strlen(seen) - 1);
    if (e->kind == LKI_EVENT_SCALAR) last_scalar = e->scalar;
    if (e->kind == LKI_EVENT_TEXT) strncat(text_seen, e->text, sizeof text_seen - strlen(text_seen) - 1);
    return LK_OK;
}

/* All events of the one file in FOLDER/SIDE; 0 when there is no such folder. */
static int read_side(const char *folder, const char *side)
{
    char           path[1024];
    int            files = 0;
    DIR           *d = opendir(folder_file(folder, side));
    struct dirent *e;
    seen[0] = text_seen[0] = 0;
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.') continue;
        assert_ptr_equal(strstr(e->d_name, "events.out.tfevents."), e->d_name);
        snprintf(path, sizeof path, "%s/%s/%s", folder, side, e->d_name);
        assert_int_equal(lki_events_read(path, note, NULL), LK_OK);
        files++;
    }
    if (d) closedir(d);
    return files;
}

/* ---- through fit ------------------------------------------------------------------------------------------------------------- */

static lk_model *pictures_model(void)
{
    lk_model *m =
        lk_sequential(lk_conv2d(2, 3, .input_shape = LK_SHAPE(4, 4, 1)), lk_flatten(), lk_dense(3, .activation = LK_SOFTMAX));
    lk_model_compile(m, .optimizer = lk_adam(), .loss = lk_sparse_categorical_crossentropy(), .metrics = LK_METRICS(lk_accuracy()));
    return m;
}

#define FIT(m, ...)                                                                                                                \
    lk_model_fit(m, .x = lk_random_normal(LK_SHAPE(16, 4, 4, 1), .stream = "x"), .y = labels(), .batch_size = 4,                   \
                 .verbose = LK_SILENT, __VA_ARGS__)

static lk_tensor *labels(void)
{
    int32_t label[16];
    for (int i = 0; i < 16; i++)
        label[i] = i % 3;
    return lk_tensor_from(LK_SHAPE(16), LK_I32, label);
}

TEST(tags_and_steps_are_those_of_keras)
{
    const char *folder = folder_new();
    LK_POOL {
        FIT(pictures_model(), .epochs = 2, .validation_x = lk_random_normal(LK_SHAPE(16, 4, 4, 1), .stream = "v"),
            .validation_y = labels(),
            .callbacks = LK_CALLBACKS(lk_tensorboard(folder, .histogram_freq = 1, .write_images = LK_ON)));
        assert_string_equal(lk_error(), "");
    }
    assert_int_equal(read_side(folder, "train"), 1);
    assert_string_equal(seen, "0 model text\n0 keras text\n"
                              "0 epoch_loss scalar\n0 epoch_accuracy scalar\n0 epoch_learning_rate scalar\n"
                              "0 sequential/conv2d/kernel/histogram histogram\n0 sequential/conv2d/kernel/image image\n"
                              "0 sequential/conv2d/bias/histogram histogram\n"
                              "0 sequential/dense/kernel/histogram histogram\n0 sequential/dense/kernel/image image\n"
                              "0 sequential/dense/bias/histogram histogram\n"
                              "1 epoch_loss scalar\n1 epoch_accuracy scalar\n1 epoch_learning_rate scalar\n"
                              "1 sequential/conv2d/kernel/histogram histogram\n1 sequential/conv2d/kernel/image image\n"
                              "1 sequential/conv2d/bias/histogram histogram\n"
                              "1 sequential/dense/kernel/histogram histogram\n1 sequential/dense/kernel/image image\n"
                              "1 sequential/dense/bias/histogram histogram\n");
    assert_non_null(strstr(text_seen, "| conv2d | Conv2D | kernel [3, 3, 1, 2], bias [2] | 20 |\n"));
    assert_non_null(strstr(text_seen, "| flatten | Flatten |  | 0 |\n"));
    assert_non_null(strstr(text_seen, "| | | **total** | **47** |\n"));
    assert_non_null(strstr(text_seen, "```json\n{"));
    assert_non_null(strstr(text_seen, "\"class_name\": \"Conv2D\""));
    assert_int_equal(read_side(folder, "validation"), 1);
    assert_string_equal(seen, "4 evaluation_loss_vs_iterations scalar\n4 evaluation_accuracy_vs_iterations scalar\n"
                              "0 epoch_loss scalar\n0 epoch_accuracy scalar\n"
                              "8 evaluation_loss_vs_iterations scalar\n8 evaluation_accuracy_vs_iterations scalar\n"
                              "1 epoch_loss scalar\n1 epoch_accuracy scalar\n");
    folder_remove(folder);
}

TEST(steps_between_epochs_on_request)
{
    const char *folder = folder_new();
    double      loss = 0;
    LK_POOL {
        lk_history *h = FIT(pictures_model(), .epochs = 2,
                            .callbacks = LK_CALLBACKS(lk_tensorboard(folder, .update_freq = 2, .write_graph = LK_OFF)));
        assert_string_equal(lk_error(), "");
        loss = lk_history_value(h, "loss", 1);
    }
    assert_int_equal(read_side(folder, "train"), 1);
    assert_string_equal(seen, "2 batch_loss scalar\n2 batch_accuracy scalar\n4 batch_loss scalar\n4 batch_accuracy scalar\n"
                              "0 epoch_loss scalar\n0 epoch_accuracy scalar\n0 epoch_learning_rate scalar\n"
                              "6 batch_loss scalar\n6 batch_accuracy scalar\n8 batch_loss scalar\n8 batch_accuracy scalar\n"
                              "1 epoch_loss scalar\n1 epoch_accuracy scalar\n1 epoch_learning_rate scalar\n");
    assert_float_equal(last_scalar, 0.001, 1e-9);
    assert_true(loss > 0);
    assert_int_equal(read_side(folder, "validation"), 0); /* nothing for it: no folder */
    folder_remove(folder);
}

static double rate(int epoch, double before, void *user)
{
    (void)epoch, (void)before, (void)user;
    return 0.125;
}

TEST(a_rate_in_the_logs_is_written_once)
{
    const char *folder = folder_new();
    LK_POOL {
        FIT(pictures_model(),
            .callbacks = LK_CALLBACKS(lk_learning_rate_scheduler(rate), lk_tensorboard(folder, .write_graph = LK_OFF)));
    }
    assert_int_equal(read_side(folder, "train"), 1);
    assert_string_equal(seen, "0 epoch_loss scalar\n0 epoch_accuracy scalar\n0 epoch_learning_rate scalar\n");
    assert_float_equal(last_scalar, 0.125, 0);
    folder_remove(folder);
}

TEST(images_alone_come_every_epoch)
{
    const char *folder = folder_new();
    LK_POOL {
        FIT(pictures_model(), .callbacks = LK_CALLBACKS(lk_tensorboard(folder, .write_graph = LK_OFF, .write_images = LK_ON)));
    }
    read_side(folder, "train");
    assert_non_null(strstr(seen, "0 sequential/conv2d/kernel/image image\n0 sequential/dense/kernel/image image\n"));
    assert_null(strstr(seen, "histogram"));
    folder_remove(folder);
}

TEST(an_evaluation_by_itself)
{
    const char *folder = folder_new();
    LK_POOL {
        lk_model *m = small_model(NULL);
        lk_model_evaluate(m, .x = rows_x(), .y = rows_y(), .verbose = LK_SILENT, .callbacks = LK_CALLBACKS(lk_tensorboard(folder)));
        assert_string_equal(lk_error(), "");
        assert_int_equal(read_side(folder, "validation"), 1); /* closed already */
        assert_string_equal(seen, "0 evaluation_loss_vs_iterations scalar\n");
        assert_float_equal(last_scalar, 20, 0);
        assert_int_equal(read_side(folder, "train"), 0);
    }
    folder_remove(folder);
}

static lk_tuple twice(lk_model *m, lk_tuple in, int training, void *layer)
{
    (void)m, (void)training;
    return LK_TUPLE(lk_layer_call(layer, in.item[0]));
}

TEST(a_model_of_ones_own_has_no_json)
{
    const char *folder = folder_new();
    LK_POOL {
        lk_layer *l = lk_dense(1, .input_shape = LK_SHAPE(1));
        lk_model *m = lk_model_of(twice, .layers = LK_LAYERS(l), .user = l);
        lk_model_compile(m, .optimizer = lk_sgd(), .loss = lk_mean_squared_error());
        lk_model_fit(m, .x = rows_x(), .y = rows_y(), .verbose = LK_SILENT, .callbacks = LK_CALLBACKS(lk_tensorboard(folder)));
        assert_string_equal(lk_error(), "");
    }
    assert_non_null(strstr(logged, "TensorBoard: the model is not written as JSON: "));
    read_side(folder, "train");
    assert_ptr_equal(strstr(seen, "0 model text\n0 epoch_loss scalar\n"), seen);
    folder_remove(folder);
}

/* Files may not grow in the second and third epoch of four. */
static void fill_disk(const lk_event *event, void *user)
{
    struct rlimit r;
    (void)user;
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = event->epoch == 1 || event->epoch == 2 ? 100 : RLIM_INFINITY;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

TEST(a_disk_that_is_full_for_a_while_is_one_warning_and_nothing_is_lost)
{
    const char *folder = folder_new();
    signal(SIGXFSZ, SIG_IGN);
    LK_POOL {
        lk_history *h =
            lk_model_fit(small_model(NULL), .x = rows_x(), .y = rows_y(), .verbose = LK_SILENT, .epochs = 4,
                         .callbacks = LK_CALLBACKS(lk_callback_of(.on_epoch_begin = fill_disk), lk_tensorboard(folder)));
        assert_string_equal(lk_error(), "");
        assert_int_equal(lk_history_epochs(h), 4);
    }
    const char *words = "TensorBoard: this log is incomplete: ", *first = strstr(logged, words);
    assert_non_null(first);
    assert_non_null(strstr(first, ": cannot write it: File too large; training continues"));
    assert_null(strstr(first + 1, words));
    read_side(folder, "train");
    for (int epoch = 0; epoch < 4; epoch++) {
        char line[64];
        snprintf(line, sizeof line, "%d epoch_loss scalar\n", epoch);
        assert_non_null(strstr(seen, line));
    }
    folder_remove(folder);
}

TEST(folders_that_cannot_be_written)
{
    LK_POOL {
        lk_model_fit(small_model(NULL), .x = rows_x(), .y = rows_y(), .verbose = LK_SILENT,
                     .callbacks = LK_CALLBACKS(lk_tensorboard("/proc/none")));
        refused(LK_EIO, "/proc/none");
    }
    assert_null(lk_tensorboard(""));
    refused(LK_EINVAL, "lk_tensorboard: log_dir is \"\"");
    assert_null(lk_tensorboard(.histogram_freq = -1));
    refused(LK_EINVAL, "lk_tensorboard: histogram_freq is below 0; it should be a number of epochs");
    assert_null(lk_tensorboard(.update_freq = -1));
    refused(LK_EINVAL, "update_freq is below 0; it should be a number of steps");
}

/* ---- kernels as pictures ----------------------------------------------------------------------------------------------------- */

static lki_image picture(lk_shape shape, const float *value)
{
    lki_image i;
    bool      made;
    assert_int_equal(lki_kernel_image(&shape, value, &i, &made), LK_OK);
    assert_true(made);
    return i;
}

static int grey(const lki_image *i, int64_t y, int64_t x) { return i->pixels[y * i->width + x]; }

TEST(a_matrix_lies)
{
    float v[6] = {0, 1, 2, 3, 4, 5};
    for (int tall = 0; tall < 2; tall++) { /* [2, 3] and [3, 2]: both are pictures of 3 by 2, eight pixels a weight */
        lki_image i = picture(tall ? LK_SHAPE(3, 2) : LK_SHAPE(2, 3), v);
        assert_true(i.height == 16 && i.width == 24 && i.channels == 1);
        assert_int_equal(grey(&i, 0, 0), 0);
        assert_int_equal(grey(&i, 15, 23), 255);
        assert_int_equal(grey(&i, 0, 8), tall ? 102 : 51);
        lki_image_free(&i);
    }
}

TEST(filters_are_tiles)
{
    float v[3 * 3 * 1 * 5], rgb[1 * 1 * 3 * 1] = {0, 0.5f, 1}, many[2 * 2 * 2 * 3];
    for (int i = 0; i < 45; i++)
        v[i] = (float)(i % 5 == 2 ? 1 : -1); /* the third filter is white */
    lki_image i = picture(LK_SHAPE(3, 3, 1, 5), v);
    assert_true(i.width == 3 * 25 - 1 && i.height == 2 * 25 - 1);
    assert_true(grey(&i, 0, 0) == 0 && grey(&i, 0, 25) == 0 && grey(&i, 0, 50) == 255 && grey(&i, 23, 73) == 255);
    assert_true(grey(&i, 0, 24) == 255 && grey(&i, 24, 0) == 255); /* between tiles */
    assert_true(grey(&i, 25, 0) == 0 && grey(&i, 25, 60) == 255);  /* after the last */
    lki_image_free(&i);

    i = picture(LK_SHAPE(1, 1, 3, 1), rgb);
    assert_true(i.channels == 3 && i.width == 8 && i.pixels[0] == 0 && i.pixels[1] == 128 && i.pixels[2] == 255);
    lki_image_free(&i);

    for (int k = 0; k < 24; k++)
        many[k] = (float)(k / 3 % 2); /* channels down, filters across */
    i = picture(LK_SHAPE(2, 2, 2, 3), many);
    assert_true(i.width == 3 * 17 - 1 && i.height == 2 * 17 - 1);
    assert_true(grey(&i, 0, 0) == 0 && grey(&i, 17, 0) == 255);
    lki_image_free(&i);

    i = picture(LK_SHAPE(2, 3, 4), many); /* of a sequence: steps down, channels across, four tiles */
    assert_true(i.width == 2 * 25 - 1 && i.height == 2 * 17 - 1);
    lki_image_free(&i);
}

TEST(weights_that_have_no_picture)
{
    const lk_shape none[] = {LK_SHAPE(4), LK_SHAPE(), LK_SHAPE(1, 1, 1, 1, 1), LK_SHAPE(2000, 2000), LK_SHAPE(0, 3)};
    float         *v = calloc(2000 * 2000, sizeof *v);
    for (int i = 0; i < LKI_COUNT(none); i++) {
        lki_image image;
        bool      made = true;
        assert_int_equal(lki_kernel_image(&none[i], v, &image, &made), LK_OK);
        assert_false(made);
    }
    float     odd[4] = {NAN, 1, INFINITY, 1};
    lki_image i = picture(LK_SHAPE(2, 2), odd);
    assert_true(grey(&i, 0, 0) == 0 && grey(&i, 0, 8) == 128);
    lki_image_free(&i);
    free(v);
}

TESTS(HOOK_TEST(tags_and_steps_are_those_of_keras), HOOK_TEST(steps_between_epochs_on_request),
      HOOK_TEST(a_rate_in_the_logs_is_written_once), HOOK_TEST(images_alone_come_every_epoch), HOOK_TEST(an_evaluation_by_itself),
      HOOK_TEST(a_model_of_ones_own_has_no_json), HOOK_TEST(a_disk_that_is_full_for_a_while_is_one_warning_and_nothing_is_lost),
      HOOK_TEST(folders_that_cannot_be_written), HOOK_TEST(a_matrix_lies), HOOK_TEST(filters_are_tiles),
      HOOK_TEST(weights_that_have_no_picture))
