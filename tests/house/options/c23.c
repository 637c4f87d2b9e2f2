/* Options as C23 lets people write them: digit separators do not hide what follows. With gnu11 and up, raw strings do not
 * either. */
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static int has_no_bias(lk_layer *l)
{
    const char *text = lk_model_to_json(lk_sequential(l));
    return text && strstr(text, "\"use_bias\": false") != NULL;
}

int main(void)
{
    const int good = has_no_bias(lk_dense(1'000, .use_bias = false)) && has_no_bias(lk_dense(1'000'000, .use_bias = 0)) &&
                     has_no_bias(lk_dense(0x1'f, .use_bias = 'a' == ',')) &&
                     has_no_bias(lk_dense(8, .name = "it's", .use_bias = false));
    printf("%s\n", good ? "4 forms, 0 wrong" : "a form is wrong");
    return !good;
}
