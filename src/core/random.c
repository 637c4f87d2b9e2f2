/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011), and normals from its words.
 *
 * The logarithm, sine and cosine below are plain double arithmetic in a fixed order, so that their bits do not depend on the
 * machine's mathematical library. Their error is a few units of 2^-53, far less than the error of the one rounding to float. */
#include "core/random.h"
#include <math.h>

static void philox_round(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    uint64_t p0 = (uint64_t)0xD2511F53 * c[0], p1 = (uint64_t)0xCD9E8D57 * c[2];
    uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c[3] = (uint32_t)p0;
}

lki_philox lki_philox_block(uint64_t key, uint64_t counter_low, uint64_t counter_high)
{
    lki_philox r = {{(uint32_t)counter_low, (uint32_t)(counter_low >> 32), (uint32_t)counter_high, (uint32_t)(counter_high >> 32)}};
    uint32_t   k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int i = 0; i < 10; i++) {
        philox_round(r.word, k0, k1);
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return r;
}

uint64_t lki_stream_key(uint64_t seed, const char *name)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        hash = (hash ^ *c) * 0x100000001b3;
    lki_philox r = lki_philox_block(seed, hash, 0);
    return (uint64_t)r.word[1] << 32 | r.word[0];
}

/* ---- normals --------------------------------------------------------------------------------------------------------------- */

/* c[0] + c[1] x + ... + c[count - 1] x^(count - 1) */
static double polynomial(double x, const double *c, int count)
{
    double sum = c[count - 1];
    for (int i = count - 1; i-- > 0;)
        sum = sum * x + c[i];
    return sum;
}

/* ln x for x in (0, 1): x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m - 1) / (m + 1)). */
static double log_of(double x)
{
    static const double artanh[] = {1,        1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                                    1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
    int                 e = 0;
    double              m = frexp(x, &e);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        e -= 1;
    }
    double s = (m - 1) / (m + 1);
    return e * 0x1.62e42fefa39efp-1 + 2 * s * polynomial(s * s, artanh, LKI_COUNT(artanh));
}

/* Sine and cosine of t in [-pi/4, pi/4], by their series. */
static const double sine[] = {
    1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000};
static const double cosine[] = {
    1, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};

/* The point of the unit circle at the fraction `turn` / 2^32 of a full turn. */
static void circle(uint32_t turn, double *x, double *y)
{
    uint32_t quarter = (turn + 0x20000000) >> 30;
    int32_t  rest = (int32_t)(turn - (quarter << 30)); /* -2^29 to 2^29 - 1 */
    double   t = rest * (0x1.921fb54442d18p+2 * 0x1p-32);
    double   s = t * polynomial(t * t, sine, LKI_COUNT(sine)), c = polynomial(t * t, cosine, LKI_COUNT(cosine));
    double   table[4][2] = {{c, s}, {-s, c}, {-c, -s}, {s, -c}};
    *x = table[quarter][0];
    *y = table[quarter][1];
}

void lki_normal_pair(uint32_t a, uint32_t b, float out[2])
{
    double x, y, radius = sqrt(-2 * log_of((a + 0.5) * 0x1p-32));
    circle(b, &x, &y);
    out[0] = (float)(radius * x);
    out[1] = (float)(radius * y);
}
