/* A foreign program: it sees nothing but the installed headers and library. */
#include <lockstep/tensor.h>
#include <stdio.h>

int main(void)
{
    double sum = 0;
    LK_POOL {
        lk_tensor   *x = lk_tensor_of(LK_SHAPE(2, 2), 1, 2, 3, 4);
        const float *data = lk_data(x);
        for (int i = 0; data && i < lk_size(x); i++)
            sum += (double)data[i];
    }
    printf("lockstep %s: %g\n", lk_version(), sum);
    return lk_failed() || sum != 10;
}
