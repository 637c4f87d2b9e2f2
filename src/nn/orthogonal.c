/* Matrices with perpendicular rows of length 1 (initializer.h), from normal numbers. Two definitions, chosen by the shape alone:
 *
 *     small   Gram and Schmidt, in double: the Q of the QR decomposition of the drawn matrix
 *     large   reflections, in float: as many vectors as there are rows, vector i of normal numbers from its element i on, reflect
 *             the axes one after the other (Stewart: The efficient generation of random orthogonal matrices, 1980). That is the Q
 *             of a matrix of normal numbers too, and it is computed by matrix products: the reflections of BLOCK rows together are
 *             I - V T V', V their vectors and T a triangle (Schreiber and Van Loan: A storage-efficient WY representation, 1989).
 *
 * Products run on the kernels of the CPU, which have one order of summation, so the bits do not depend on the machine. */
#include "core/crew.h"
#include "core/memory.h"
#include "nn/initializer.h"
#include "op/op.h"
#include <math.h>
#include <string.h>

/* ---- small ---- */

/* In four sums, elements i, i + 4, ...; then (0 + 1) + (2 + 3). */
static double dot(int64_t n, const double *a, const double *b)
{
    double  s[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            s[k] += a[i + k] * b[i + k];
    for (int k = 0; i < n; i++, k++)
        s[k] += a[i] * b[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

static void add_scaled(int64_t n, double *y, double c, const double *x)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += c * x[i];
}

/* Gram and Schmidt, modified, twice: perpendicular up to the last bits. The result is the Q of the QR decomposition with a positive
 * diagonal in R; Keras gets the same by multiplying by the signs of that diagonal. */
static void orthonormalize(int64_t count, int64_t length, double *v)
{
    for (int64_t i = 0; i < count; i++) {
        double *x = v + i * length;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t j = 0; j < i; j++)
                add_scaled(length, x, -dot(length, x, v + j * length), v + j * length);
        double norm = sqrt(dot(length, x, x));
        for (int64_t k = 0; norm > 0 && k < length; k++)
            x[k] /= norm;
    }
}

/* As doubles, and back into the matrix. */
static lk_status make_small(int64_t rows, int64_t columns, double gain, float *values)
{
    const int64_t count = lki_min(rows, columns), length = lki_max(rows, columns);
    double       *v LKI_RELEASED = lki_alloc_array(lki_max(1, lki_size_mul(count, length)), sizeof *v);
    if (!v) return LK_ENOMEM;
    for (int64_t i = 0; i < count * length; i++)
        v[i] = values[i];
    orthonormalize(count, length, v);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            values[i * columns + j] = (float)(gain * (rows < columns ? v[i * length + j] : v[j * length + i]));
    return LK_OK;
}

/* ---- large: one product ---- */

enum { BLOCK = 128, PANEL = 128, MOST_THREADS = 16 }; /* reflections, and rows they are applied to, at a time */

/* c = a b or a b'; a is [m, k] and c [m, n]. */
typedef struct product {
    int64_t      m, k, n;
    bool         transposed;
    const float *a, *b;
    float       *c;
} product;

/* Calls its kernel or, without scratch and results, returns how much scratch it needs. */
static size_t run_product(const product *p, void *scratch)
{
    const lk_shape left = {2, {p->m, p->k}}, right = {2, {p->transposed ? p->n : p->k, p->transposed ? p->k : p->n}},
                   out = {2, {p->m, p->n}};
    const lki_attr attr = {.matmul = {.tb = p->transposed}};
    const lki_view src[2] = {{(void *)(uintptr_t)p->a, &left, LK_F32}, {(void *)(uintptr_t)p->b, &right, LK_F32}},
                   dst = {p->c, &out, LK_F32};
    const lki_kernels *kernels = lki_kernels_here();
    const lki_args     args = {.src = src, .dst = &dst, .nsrc = 2, .ndst = 1, .attr = &attr, .hi = p->m * p->n, .scratch = scratch};
    if (p->c) return kernels->fn[LKI_K_matmul][LK_F32](&args), 0;
    return kernels->scratch[LKI_K_matmul][LK_F32] ? kernels->scratch[LKI_K_matmul][LK_F32](&args) : 0;
}

/* ---- large: reflections ---- */

typedef struct reflecting {
    int64_t count, length;
    float  *drawn;    /* [count, length]: row i is the vector of reflection i, from its element i on; zeros before it */
    float  *rows;     /* [count, length]: the resulting matrix */
    double *sign;     /* [count] */
    float  *triangle; /* [BLOCK, BLOCK] */
    int64_t first;    /* first reflection of the current block, and */
    int64_t many;     /* their number */
    int     threads;
    float  *room[MOST_THREADS]; /* per thread: [PANEL, length], [PANEL, BLOCK], [PANEL, BLOCK] */
    void   *scratch[MOST_THREADS];
} reflecting;

/* Row i of the drawn numbers becomes the vector of length 1 that reflects it to axis i; the sign is that of its R. */
static void make_vector(const reflecting *r, int64_t i)
{
    float *x = r->drawn + i * r->length, *end = x + r->length;
    double square = 0;
    memset(x, 0, (size_t)i * sizeof *x);
    x += i;
    for (const float *p = x; p < end; p++)
        square += (double)*p * *p;
    const double norm = sqrt(square), first = *x < 0 ? *x - norm : *x + norm,
                 length = sqrt(square - (double)*x * *x + first * first);
    r->sign[i] = *x < 0 ? 1 : -1;
    for (float *p = x + 1; p < end && length > 0; p++)
        *p = (float)(*p / length);
    *x = length > 0 ? (float)(first / length) : 1;
}

static double square_of(const float *x, int64_t from, int64_t end)
{
    double sum = 0;
    for (int64_t k = from; k < end; k++)
        sum += (double)x[k] * x[k];
    return sum;
}

/* T of a block, from the products of its vectors with each other. The diagonal is 2 over the square of a length, which is 1 up to
 * the rounding of elements. The rest of column j is -T[j][j] times the T of earlier columns times their products with j. */
static void make_triangle(const reflecting *r)
{
    const int64_t n = r->many;
    const float  *v = r->drawn + r->first * r->length;
    double        t[BLOCK][BLOCK] = {{0}};
    float        *gram = r->room[0];
    run_product(&(product){n, r->length, n, true, v, v, gram}, r->scratch[0]);
    for (int64_t j = 0; j < n; j++) {
        t[j][j] = 2 / square_of(v + j * r->length, r->first + j, r->length);
        for (int64_t i = 0; i < j; i++) {
            double sum = 0;
            for (int64_t k = i; k < j; k++)
                sum += t[i][k] * gram[k * n + j];
            t[i][j] = -t[j][j] * sum;
        }
    }
    for (int64_t i = 0; i < n * n; i++)
        r->triangle[i] = (float)t[i / n][i % n];
}

/* Some rows of the matrix, reflected: minus their products with V, times T, times V'. */
static void reflect_panel(const reflecting *r, float *rows, int64_t count, int thread)
{
    const float *v = r->drawn + r->first * r->length;
    float       *less = r->room[thread], *with = less + PANEL * r->length, *by = with + PANEL * BLOCK;
    run_product(&(product){count, r->length, r->many, true, rows, v, with}, r->scratch[thread]);
    run_product(&(product){count, r->many, r->many, true, with, r->triangle, by}, r->scratch[thread]);
    run_product(&(product){count, r->many, r->length, false, by, v, less}, r->scratch[thread]);
    for (int64_t i = 0; i < count * r->length; i++)
        rows[i] -= less[i];
}

/* Rows before those of the block do not change. */
static void reflect_some(void *arg, int thread)
{
    const reflecting *r = arg;
    for (int64_t i = r->first + thread * PANEL; i < r->count; i += r->threads * PANEL)
        reflect_panel(r, r->rows + i * r->length, lki_min(PANEL, r->count - i), thread);
}

/* From the last block to the first. */
static void reflect(reflecting *r)
{
    memset(r->rows, 0, (size_t)(r->count * r->length) * sizeof *r->rows);
    for (int64_t i = 0; i < r->count; i++) {
        r->rows[i * r->length + i] = 1;
        make_vector(r, i);
    }
    for (r->first = (r->count - 1) / BLOCK * BLOCK; r->first >= 0; r->first -= BLOCK) {
        r->many = lki_min(BLOCK, r->count - r->first);
        make_triangle(r);
        if (r->threads > 1 && lki_team_run(r->threads, reflect_some, r) == LK_OK) continue;
        r->threads = 1;
        reflect_some(r, 0);
    }
}

/* ---- large: memory ---- */

/* The largest scratch of the products of full and of last blocks and panels. */
static size_t most_scratch(const reflecting *r)
{
    const int64_t blocks[2] = {lki_min(BLOCK, r->count), lki_max(1, r->count % BLOCK)};
    size_t        most = 0;
    for (int b = 0; b < 2; b++)
        for (int64_t rows = 1; rows <= PANEL; rows++) {
            const int64_t n = blocks[b];
            const product all[] = {{rows, r->length, n, true, NULL, NULL, NULL},
                                   {rows, n, n, true, NULL, NULL, NULL},
                                   {rows, n, r->length, false, NULL, NULL, NULL}};
            for (int i = 0; i < LKI_COUNT(all); i++) {
                const size_t one = run_product(&all[i], NULL);
                most = one > most ? one : most;
            }
        }
    return most;
}

static lk_status have_room(reflecting *r)
{
    const size_t scratch = most_scratch(r), room = (size_t)(PANEL * r->length + 2 * PANEL * BLOCK) * sizeof(float);
    r->rows = lki_alloc_array(lki_size_add(lki_size_mul(r->count, r->length), BLOCK * BLOCK), sizeof(float));
    r->sign = lki_alloc_array(r->count, sizeof *r->sign);
    r->triangle = r->rows ? r->rows + r->count * r->length : NULL;
    bool good = r->rows && r->sign;
    for (int t = 0; t < r->threads && good; t++) {
        r->room[t] = lki_alloc(room);
        r->scratch[t] = r->room[t] ? lki_alloc(scratch) : NULL;
        good = r->scratch[t] != NULL;
    }
    return good ? LK_OK : LK_ENOMEM;
}

static void give_back(const reflecting *r)
{
    for (int t = 0; t < MOST_THREADS; t++) {
        lki_release(r->room[t]);
        lki_release(r->scratch[t]);
    }
    lki_release(r->sign);
    lki_release(r->rows);
}

static lk_status make_large(int64_t rows, int64_t columns, double gain, float *values)
{
    reflecting r = {.count = lki_min(rows, columns), .length = lki_max(rows, columns), .drawn = values};
    r.threads = lki_team_runs_this() ? 1 : (int)lki_min(lk_threads(), MOST_THREADS);
    const lk_status status = have_room(&r);
    if (status == LK_OK) reflect(&r);
    for (int64_t i = 0; i < rows && status == LK_OK; i++)
        for (int64_t j = 0; j < columns; j++) {
            const int64_t row = rows < columns ? i : j, at = rows < columns ? j : i;
            values[i * columns + j] = (float)(gain * r.sign[row] * r.rows[row * r.length + at]);
        }
    give_back(&r);
    return status;
}

/* ---- either ---- */

/* With more steps than this, Gram and Schmidt takes more than a second. */
static bool is_large(int64_t count, int64_t length) { return count && length > ((int64_t)1 << 30) / count / count; }

lk_status lki_orthogonal(int64_t rows, int64_t columns, double gain, float *values)
{
    if (!is_large(lki_min(rows, columns), lki_max(rows, columns))) return make_small(rows, columns, gain, values);
    const unsigned  before = lki_fp_enter();
    const lk_status status = make_large(rows, columns, gain, values);
    lki_fp_leave(before);
    return status;
}
