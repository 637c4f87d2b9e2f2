/* The rows for Keras' numbers, as tensors. WITH_LOSSES or WITH_METRICS select the numbers. */
#ifndef LK_TESTS_MODEL_KERAS_DATA_H
#define LK_TESTS_MODEL_KERAS_DATA_H

#include "core/field.h"
#include "model/keras_values.h"

static inline lk_tensor *rows_from(const float *x, int64_t width, int64_t from, int64_t to)
{
    lk_shape shape = width ? LK_SHAPE(to - from, width) : LK_SHAPE(to - from);
    return lk_tensor_from(shape, LK_F32, x + from * lki_max(1, width));
}

static inline lk_tensor *labels_from(int data, int64_t from, int64_t to)
{
    switch (data) {
    case CLASSES:
    case IDS:
    case VECTORS:
    case CLASS_LOGITS: return lk_cast(rows_from(keras_classes, 0, from, to), LK_I32);
    case ONE_HOT:
    case ONE_HOT_LOGITS: return rows_from(keras_one_hot, CLASS_COUNT, from, to);
    case MANY_HOT: return rows_from(keras_many_hot, CLASS_COUNT, from, to);
    case NUMBERS: return rows_from(keras_targets, 3, from, to);
    case STEPS: return lk_cast(rows_from(keras_words, 2, from, to), LK_I32);
    case MAPS: return lk_reshape(rows_from(keras_spots, 3 * CLASS_COUNT, from, to), LK_SHAPE(to - from, CLASS_COUNT, 3));
    default: return rows_from(keras_binary, 1, from, to);
    }
}

static inline lk_tensor *predictions_from(int data, int64_t from, int64_t to)
{
    switch (data) {
    case BINARY: return rows_from(keras_scores, 1, from, to);
    case NUMBERS: return rows_from(keras_guesses, 3, from, to);
    case VECTORS: return rows_from(keras_vectors, 3, from, to);
    case IDS: return lk_cast(rows_from(keras_ids, 0, from, to), LK_I32);
    case STEPS: return lk_reshape(rows_from(keras_steps, 5 * CLASS_COUNT, from, to), LK_SHAPE(to - from, 5, CLASS_COUNT));
    case MAPS: return lk_reshape(rows_from(keras_maps, 3 * CLASS_COUNT, from, to), LK_SHAPE(to - from, CLASS_COUNT, 3));
    case BINARY_LOGITS: return lk_slice(rows_from(keras_logits, CLASS_COUNT, from, to), LK_AXES(0, 0), LK_AXES(-1, 1));
    case CLASS_LOGITS:
    case ONE_HOT_LOGITS: return rows_from(keras_logits, CLASS_COUNT, from, to);
    default: return rows_from(keras_probabilities, CLASS_COUNT, from, to);
    }
}

/* Does the class describe all Keras writes, and nothing it does not take? `more` is what Keras takes but does not write. */
static inline void check_keys(const lki_class *c, const char *keys, const char *more)
{
    char text[256];
    snprintf(text, sizeof text, "%s", keys);
    for (char *next = text, *key; (key = strtok_r(next, " ", &next));)
        if (!lki_field_find(c, key)) fail_msg("%s has no field \"%s\"", c->name, key);
    for (int i = 0; i < c->fields; i++)
        if (!strstr(keys, c->field[i].name) && !strstr(more, c->field[i].name))
            fail_msg("Keras' %s has no \"%s\"", c->name, c->field[i].name);
}

#endif
