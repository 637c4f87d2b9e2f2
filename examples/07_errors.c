/* Errors: nothing exits and nothing prints by itself. A failed op returns a poisoned tensor, and results computed from it are
 * poisoned too. The first error is kept until it is cleared, so a program can check once, after a whole computation. */
#include <lockstep.h>
#include <stdio.h>
#include <string.h>

static int mistakes; /* of this program: expectations that did not hold */

static void expect(int holds, const char *what)
{
    if (holds) return;
    printf("not so: %s\n", what);
    mistakes++;
}

/* The two hooks through which the library speaks: the log (warnings, information) and output (what lk_print() was asked to
 * show). */
static void to_buffer(const char *text, void *buffer) { strncat(buffer, text, 200); }

static lk_tuple peeks_inside(lk_tuple in, void *user)
{
    (void)user;
    lk_item(in.item[0]); /* has no value while the function is traced */
    return in;
}

int main(void)
{
    /* The first cause stays, whatever fails because of it. */
    lk_tensor *a = lk_zeros(LK_SHAPE(7, 9), LK_F32), *b = lk_zeros(LK_SHAPE(8, 6), LK_F32);
    lk_tensor *product = lk_matmul(a, b);
    lk_tensor *loss = lk_reduce_mean(lk_exp(product));
    expect(lk_poisoned(product) && lk_poisoned(loss), "poison spreads");
    expect(lk_failed() && lk_error_code() == LK_ESHAPE, "the code is that of the first cause");
    printf("%s: %s\n", lk_status_name(lk_error_code()), lk_error());
    lk_clear_error();

    /* A constructor gives NULL, and NULL is refused politely. A call with nothing to return gives a status. */
    lk_optimizer *optimizer = lk_sgd(.clipnorm = 1, .clipvalue = 1);
    lk_status     status = lk_optimizer_apply(optimizer, NULL);
    expect(!optimizer && status != LK_OK, "both fail");
    printf("%s: %s\n", lk_status_name(lk_error_code()), lk_error());
    lk_clear_error();

    /* Values are checked too, where a wrong one would read outside of memory. */
    lk_tensor *scores = lk_zeros(LK_SHAPE(2, 3), LK_F32), *labels = lk_cast(lk_tensor_of(LK_SHAPE(2), 0, 5), LK_I32);
    expect(lk_poisoned(lk_nn_sparse_categorical_crossentropy(labels, scores, .from_logits = LK_ON)), "a label out of range");
    printf("%s: %s\n", lk_status_name(lk_error_code()), lk_error());
    lk_clear_error();

    /* A function that cannot be traced gives poisoned results and stays usable. */
    lk_tuple out = lk_call(lk_function_of(peeks_inside, .name = "peeks_inside"), LK_TUPLE(lk_scalar(1)));
    expect(lk_poisoned(out.item[0]) && lk_error_code() == LK_ESTATE, "no value yet");
    printf("%s: %s\n", lk_status_name(lk_error_code()), lk_error());
    lk_clear_error();

    /* The log, caught: variables without a gradient are left out, with one warning. */
    char         log[256] = "", output[256] = "";
    lk_variable *used = lk_variable_of(lk_scalar(1), .name = "used"), *unused = lk_variable_of(lk_scalar(1), .name = "unused");
    lk_set_log(to_buffer, log);
    lk_tape *tape = lk_tape_begin();
    lk_optimizer_apply(lk_sgd(), lk_tape_gradient(tape, lk_square(lk_read(used)), LK_VARIABLES(used, unused)));
    lk_set_log(NULL, NULL);
    expect(strstr(log, "unused") && !lk_failed(), "a warning is not an error");
    printf("caught: %s\n", log);

    /* Output, caught. */
    lk_set_output(to_buffer, output);
    lk_print(lk_tensor_of(LK_SHAPE(2, 2), 1, 2, 3, 4));
    lk_set_output(NULL, NULL);
    expect(strcmp(output, "[[1, 2], [3, 4]]\n") == 0, "output arrives as it would be printed");
    printf("caught: %s", output);
    return mistakes || lk_failed();
}
