/* Models as Keras' JSON. What a text describes may need any amount of memory: more than the limit is told as LK_ENOMEM. */
#include "fuzz/target.h"

TARGET(64 * MIB, 0)
{
    char *text = malloc(size + 1);
    if (!text) return;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    fuzz_memory_may_end();
    lk_model *m = lk_model_from_json(text);
    if (m) lk_model_to_json(m);
    free(text);
}
