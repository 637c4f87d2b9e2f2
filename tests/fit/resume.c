/* A run that was stopped and goes on in a fresh dataset ends with the weights of one that nobody stopped, on any number of replicas. */
#include "check.h"
#include "folder.h"
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static lk_model *model_on(int replicas)
{
    lk_model    *m = NULL;
    lk_strategy *s = lk_mirrored_strategy(.cpu_devices = replicas);
    LK_SCOPE(s)
        m = lk_sequential(lk_dense(8, .activation = LK_RELU, .input_shape = LK_SHAPE(4)), lk_batch_normalization(),
                          lk_dropout(0.25), lk_dense(3));
    lk_model_compile(m, .loss = lk_sparse_categorical_crossentropy(.from_logits = LK_ON),
                     .optimizer = lk_adam(.learning_rate = 0.01));
    return m;
}

static lk_dataset *shuffled(void)
{
    lk_tensor *x = lk_random_normal(LK_SHAPE(80, 4), .stream = "rows");
    lk_tensor *y = lk_argmax(lk_slice(x, LK_AXES(0, 0), LK_AXES(-1, 3)), .axis = LK_AXIS(1));
    return lk_dataset_batch(lk_dataset_shuffle(lk_dataset_from_tensor_slices(LK_TUPLE(x, y)), 80), 16);
}

/* Three epochs of five steps, stopped after so many; a new model, optimiser and dataset each time, as in a new process. */
static lk_digest part(const char *folder, int replicas, int64_t stop)
{
    lk_digest d = {0};
    LK_POOL
        LK_STEP {
            lk_model *m = model_on(replicas);
            lk_model_fit(m, shuffled(), .epochs = 3, .stop_after_steps = stop,
                         .callbacks = LK_CALLBACKS(lk_backup_and_restore(folder)), .verbose = LK_SILENT);
            assert_string_equal(lk_error(), "");
            d = lk_variables_digest(lk_model_variables(m));
        }
    return d;
}

TEST(stopped_anywhere_it_ends_the_same)
{
    LK_POOL {
        lk_digest straight = part(NULL, 1, 0);
        for (int64_t stop = 1; stop < 15; stop += stop % 5 ? 3 : 1) {
            const char *folder = folder_new();
            part(folder, 2, stop);
            if (stop < 11) part(folder, 1, 3); /* and once more */
            if (!lk_digest_equal(part(folder, 4, 0), straight))
                fail_msg("stopped after %lld steps: other weights", (long long)stop);
        }
    }
}

TESTS(cmocka_unit_test(stopped_anywhere_it_ends_the_same))
