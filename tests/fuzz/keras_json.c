/* Models as Keras' JSON, read and then used. What a text describes may need any amount of memory: more than the limit is reported
 * as LK_ENOMEM. */
#include "fuzz/model_use.h"

TARGET(64 * MIB, 0)
{
    char *text = malloc(size + 1);
    if (!text) return;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    fuzz_memory_may_end();
    use_model(text);
    free(text);
}
