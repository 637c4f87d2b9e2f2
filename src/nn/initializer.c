/* First values of weights: Keras' initialisers on counter-based random numbers, a pure function of the seed, the stream's name and the
 * shape. */
#include "core/shape.h"
#include "op/tensor.h"
#include <lockstep/nn.h>
#include <math.h>

/* How many inputs reach one output and how many outputs one input reaches. */
static void fans(const lk_shape *s, double *in, double *out)
{
    double field = 1;
    for (int i = 0; i < s->rank - 2; i++)
        field *= (double)s->dim[i];
    *in = s->rank > 0 ? field * (double)s->dim[s->rank > 1 ? s->rank - 2 : 0] : 1;
    *out = s->rank > 0 ? field * (double)s->dim[s->rank - 1] : 1;
}

static lk_tensor *uniform(const lk_shape *shape, const char *stream, double variance)
{
    double limit = sqrt(3 * variance);
    return lk_random_uniform(*shape, .stream = stream, .low = -limit, .high = LK_NUMBER(limit));
}

/* Cut at two deviations, as Keras does: a normal number outside is drawn again from the next call. */
static lk_tensor *normal(const lk_shape *shape, const char *stream, double variance)
{
    double     deviation = sqrt(variance) / 0.87962566103423978;
    lk_tensor *t = lk_random_normal(*shape, .stream = stream);
    for (int call = 1; call <= 8; call++) {
        lk_tensor *again = lk_random_normal(*shape, .stream = stream, .call = call);
        t = lk_where(lk_less_equal(lk_abs(t), lk_scalar(2)), t, again);
    }
    return lk_mul(lk_clip(t, -2, 2), lk_scalar(deviation));
}

#define INITIALIZER(name, draw, expression)                                                                                        \
    lk_tensor *lk_##name(lk_shape shape, const char *stream)                                                                       \
    {                                                                                                                              \
        double in, out;                                                                                                            \
        fans(&shape, &in, &out);                                                                                                   \
        (void)out;                                                                                                                 \
        return draw(&shape, stream, 1 / fmax(1, expression));                                                                      \
    }
INITIALIZER(glorot_uniform, uniform, (in + out) / 2)
INITIALIZER(glorot_normal, normal, (in + out) / 2)
INITIALIZER(he_uniform, uniform, in / 2)
INITIALIZER(he_normal, normal, in / 2)
