/* Initialisers: their values, that these depend on seed, name and shape alone, their options, and that layers use them. */
#include "core/sha256.h"
#include "layer/fields.h"
#include "layer/initializer.h"
#include "layer/layers.h"
#include <time.h>

static bool is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

static lk_tensor *fill(lk_initializer *i, lk_shape shape) { return lk_initializer_call(i, shape, "dense/kernel"); }

/* Mean and deviation of the elements, and the largest in size. */
typedef struct summary {
    double mean, deviation, most;
} summary;

static summary summary_of(const lk_tensor *t)
{
    summary      s = {0};
    const float *x = lk_data(t);
    int64_t      n = lk_size(t);
    for (int64_t i = 0; i < n; i++)
        s.mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        s.deviation += (x[i] - s.mean) * (x[i] - s.mean) / (double)n;
        s.most = fmax(s.most, fabs((double)x[i]));
    }
    s.deviation = sqrt(s.deviation);
    return s;
}

/* ---- fixed values ---- */

TEST(fixed_values)
{
    LK_POOL {
        CLOSE(fill(lk_init_zeros(), LK_SHAPE(2)), 0, 0);
        CLOSE(fill(lk_init_ones(), LK_SHAPE(2)), 1, 1);
        CLOSE(fill(lk_init_constant(0.25), LK_SHAPE(3)), 0.25, 0.25, 0.25);
        CLOSE(fill(lk_init_constant(), LK_SHAPE(1)), 0);
        CLOSE(fill(lk_init_identity(), LK_SHAPE(2, 3)), 1, 0, 0, 0, 1, 0);
        CLOSE(fill(lk_init_identity(.gain = LK_NUMBER(-2)), LK_SHAPE(3, 2)), -2, 0, 0, -2, 0, 0);
        assert_int_equal(lk_tensor_dtype(fill(lk_init_identity(), LK_SHAPE(1, 1))), LK_F32);
        FINE();
    }
}

/* ---- drawn values ---- */

typedef struct drawn {
    const char     *name;
    lk_initializer *i;
    double          mean, deviation, most; /* most: no element is further from the mean */
} drawn;

/* Of 60 x 40: 60 inputs reach an output, 40 outputs an input. */
TEST(drawn_values)
{
    LK_POOL {
        const double cut = 0.87962566103423978, wide = 1e9;
        const drawn  all[] = {
             {"random_normal", lk_init_random_normal(), 0, 0.05, wide},
             {"random_normal of 3, 2", lk_init_random_normal(.mean = 3, .stddev = LK_NUMBER(2)), 3, 2, wide},
             {"random_uniform", lk_init_random_uniform(), 0, 0.05 / sqrt(3), 0.05},
             {"random_uniform of 1, 2", lk_init_random_uniform(.minval = LK_NUMBER(1), .maxval = LK_NUMBER(2)), 1.5, 0.5 / sqrt(3),
              0.5},
             {"truncated_normal", lk_init_truncated_normal(), 0, 0.05 * cut, 0.1},
             {"truncated_normal of 3, 2", lk_init_truncated_normal(.mean = 3, .stddev = LK_NUMBER(2)), 3, 2 * cut, 4},
             {"variance_scaling", lk_init_variance_scaling(), 0, sqrt(1.0 / 60), 2 * sqrt(1.0 / 60) / cut},
             {"variance_scaling, out",
              lk_init_variance_scaling(.scale = LK_NUMBER(3), .mode = LK_FAN_OUT, .distribution = LK_UNIFORM), 0, sqrt(3.0 / 40),
              sqrt(9.0 / 40)},
             {"variance_scaling, avg", lk_init_variance_scaling(.mode = LK_FAN_AVG, .distribution = LK_UNTRUNCATED_NORMAL), 0,
              sqrt(1.0 / 50), wide},
             {"glorot_uniform", lk_init_glorot_uniform(), 0, sqrt(1.0 / 50), sqrt(3.0 / 50)},
             {"glorot_normal", lk_init_glorot_normal(), 0, sqrt(1.0 / 50), 2 * sqrt(1.0 / 50) / cut},
             {"he_uniform", lk_init_he_uniform(), 0, sqrt(2.0 / 60), sqrt(6.0 / 60)},
             {"he_normal", lk_init_he_normal(), 0, sqrt(2.0 / 60), 2 * sqrt(2.0 / 60) / cut},
             {"lecun_uniform", lk_init_lecun_uniform(), 0, sqrt(1.0 / 60), sqrt(3.0 / 60)},
             {"lecun_normal", lk_init_lecun_normal(), 0, sqrt(1.0 / 60), 2 * sqrt(1.0 / 60) / cut},
        };
        for (int k = 0; k < LKI_COUNT(all); k++) {
            const drawn *d = &all[k];
            lk_tensor   *t = fill(d->i, LK_SHAPE(60, 40));
            summary      s = summary_of(lk_sub(t, lk_scalar(d->mean)));
            if (fabs(s.mean) > 0.06 * d->deviation || fabs(s.deviation / d->deviation - 1) > 0.05 ||
                s.most > d->most * (1 + 1e-6) || (d->most < wide && s.most < 0.97 * d->most))
                fail_msg("%s: mean %g, deviation %g of %g, most %g of %g", d->name, s.mean, s.deviation, d->deviation, s.most,
                         d->most);
        }
        FINE();
    }
}

/* One input: the variance is 2, not 1. */
TEST(he_of_one_input)
{
    LK_POOL {
        summary s = summary_of(lk_he_uniform(LK_SHAPE(1, 4000), "w"));
        assert_true(fabs(s.deviation - sqrt(2)) < 0.05 && s.most <= sqrt(6));
    }
}

TEST(the_functions_of_nn)
{
    LK_POOL {
        const lk_shape shape = LK_SHAPE(3, 3, 8, 16);
        assert_true(same_bits(fill(lk_init_glorot_uniform(), shape), lk_glorot_uniform(shape, "dense/kernel")));
        assert_true(same_bits(fill(lk_init_glorot_normal(), shape), lk_glorot_normal(shape, "dense/kernel")));
        assert_true(same_bits(fill(lk_init_he_uniform(), shape), lk_he_uniform(shape, "dense/kernel")));
        assert_true(same_bits(fill(lk_init_he_normal(), shape), lk_he_normal(shape, "dense/kernel")));
        FINE();
    }
}

TEST(names_and_seeds)
{
    LK_POOL {
        const lk_shape  shape = LK_SHAPE(4, 4);
        lk_initializer *plain = lk_init_he_normal(), *seven = lk_init_he_normal(.seed = LK_NUMBER(7)),
                       *eight = lk_init_he_normal(.seed = LK_NUMBER(8)), *zero = lk_init_he_normal(.seed = LK_NUMBER(0));
        lk_tensor *a = lk_initializer_call(plain, shape, "a"), *b = lk_initializer_call(plain, shape, "b");
        assert_true(same_bits(a, lk_initializer_call(plain, shape, "a")));
        assert_false(same_bits(a, b));
        assert_true(same_bits(lk_initializer_call(seven, shape, "a"), lk_initializer_call(seven, shape, "b")));
        assert_true(same_bits(lk_initializer_call(seven, shape, "a"), lk_initializer_call(plain, shape, "seed/7")));
        assert_false(same_bits(lk_initializer_call(seven, shape, "a"), lk_initializer_call(eight, shape, "a")));
        assert_true(same_bits(lk_initializer_call(zero, shape, "a"), lk_initializer_call(plain, shape, "seed/0")));
        lk_set_random_seed(1);
        assert_false(same_bits(a, lk_initializer_call(plain, shape, "a")));
        lk_set_random_seed(20240229);
        FINE();
    }
}

/* ---- bits ---- */

/* Digests of all shapes under three seeds, as they were when every value was made by ops over whole tensors. */
TEST(bits_of_every_initializer)
{
    static const lk_shape all[] = {{0},           {1, {1}},         {1, {7}},      {2, {5, 3}},       {2, {3, 5}},
                                   {2, {1, 129}}, {2, {0, 3}},      {2, {64, 33}}, {4, {3, 3, 2, 7}}, {2, {130, 67}},
                                   {2, {33, 70}}, {3, {2, 41, 97}}, {1, {100003}}};
    static const struct {
        const char *name, *digest;
    } known[] = {
        {"zeros", "fcc7440cce466caf94613e84185777d82de27e9221e61f71bd847c68ec5c96e2"},
        {"ones", "aae6e636f4bc7e61636018e92b373aae481d781232491ab9ea02f3a1b7e1faf1"},
        {"constant", "fcc7440cce466caf94613e84185777d82de27e9221e61f71bd847c68ec5c96e2"},
        {"identity", "b17794e098d851d0c3e74a06ff9faba50a57edbbd645abc673ade0bc8aaf9067"},
        {"random_normal", "f2d5ffa747a5992abd02e97a1736febeb9162d10edd41eb46e5f199fe63e5b63"},
        {"random_uniform", "18fc00f70a784fa2e086e56ce0feaa3080f6f3d6c36d8c365a98db364de29528"},
        {"truncated_normal", "11228371074ddb27ed2c64952e82a07bce65f31f04bb55dee73c27e9655dd4cc"},
        {"variance_scaling", "11671eb3495149bdd833e4b1e7ca09d3bca177d9ba8f3d839f4c878b18c8c67c"},
        {"glorot_uniform", "0616c48a90c1aea0cd6baa1b2d28ddf9a7167f398fd85e28a5b0365ee35fac93"},
        {"glorot_normal", "44741794f3c2a00b1bc457a202606bbde51913c0cf6a8d14b824538ddd1ba96c"},
        {"he_uniform", "ea6e2d6634da6f3cb6820629052661c2c72ba4394fddc74ab70b9f3828e73095"},
        {"he_normal", "a82ce9a58f3338848561bfb958594128f07b6876c5b9628daeedd4e57eb52b23"},
        {"lecun_uniform", "161ffb2ab9d9ce7e86a7eb6ce22d81d6618216f810a20c5f0b22b3c97cde3b65"},
        {"lecun_normal", "11671eb3495149bdd833e4b1e7ca09d3bca177d9ba8f3d839f4c878b18c8c67c"},
        {"orthogonal", "d13b18d4468a4dd5296e577af23967796ca6f46ba176d01a5d3387e756e906c1"},
    };
    for (int k = 0; k < LKI_COUNT(known); k++)
        LK_POOL {
            char            text[65];
            lki_sha256      sha;
            lk_digest       d;
            lk_initializer *i = lk_initializer_named(known[k].name);
            lki_sha256_begin(&sha);
            for (uint64_t seed = 0; seed < 3; seed++)
                for (int s = 0; s < LKI_COUNT(all); s++) {
                    if (strcmp(known[k].name, "identity") == 0 && all[s].rank != 2) continue;
                    if (strcmp(known[k].name, "orthogonal") == 0 && all[s].rank < 2) continue;
                    lk_set_random_seed(seed * 0x123456789abcdef);
                    lk_tensor *t = lk_initializer_call(i, all[s], "dense/kernel");
                    if (lk_size(t)) lki_sha256_add(&sha, lk_data(t), (size_t)lk_size(t) * sizeof(float));
                }
            lki_sha256_end(&sha, d.byte);
            lk_set_random_seed(20240229);
            FINE();
            if (strcmp(lk_digest_text(d, text), known[k].digest)) fail_msg("%s: %s", known[k].name, text);
        }
}

/* ---- orthogonal ---- */

/* Its rows, or columns if there are fewer, times each other: gain^2 on the diagonal, 0 beside it. */
static void check_orthogonal(lk_shape shape, double gain)
{
    lk_tensor    *t = fill(gain == 1 ? lk_init_orthogonal() : lk_init_orthogonal(.gain = LK_NUMBER(gain)), shape);
    lk_tensor    *m = lk_cast(lk_reshape(t, LK_SHAPE(-1, shape.dim[shape.rank - 1])), LK_F64);
    bool          tall = lk_dim(m, 0) >= lk_dim(m, 1);
    lk_tensor    *square = tall ? lk_matmul(m, m, .transpose_a = LK_ON) : lk_matmul(m, m, .transpose_b = LK_ON);
    const double *x = lk_data(square);
    int64_t       n = lk_dim(square, 0);
    for (int64_t i = 0; i < n * n; i++)
        if (fabs(x[i] - (i % (n + 1) ? 0 : gain * gain)) > 1e-6 * gain * gain) fail_msg("element %lld is %g", (long long)i, x[i]);
}

TEST(orthogonal_matrices)
{
    LK_POOL {
        check_orthogonal(LK_SHAPE(5, 5), 1);
        check_orthogonal(LK_SHAPE(7, 3), 1);
        check_orthogonal(LK_SHAPE(3, 10), 2.5);
        check_orthogonal(LK_SHAPE(3, 2, 4, 6), 1);
        check_orthogonal(LK_SHAPE(1, 4), 1);
        check_orthogonal(LK_SHAPE(64, 256), 1);
        FINE();
    }
}

/* ---- large ones, which reflections make ---- */

/* Some vectors with all others: 1 with themselves, else 0. */
static double furthest_from_perpendicular(const float *x, int64_t count, int64_t length, int64_t stride, int64_t step)
{
    double most = 0;
    for (int64_t i = 0; i < count; i += 41)
        for (int64_t j = 0; j < count; j++) {
            double sum = 0;
            for (int64_t k = 0; k < length; k++)
                sum += (double)x[i * stride + k * step] * x[j * stride + k * step];
            most = fmax(most, fabs(sum - (i == j)));
        }
    return most;
}

/* The bits of large matrices are a definition of their own, the same on any number of threads. */
TEST(large_orthogonal_matrices)
{
    LK_POOL {
        char           text[65];
        const int      before = lk_threads();
        const lk_shape wide = LK_SHAPE(1030, 1101), tall = LK_SHAPE(2201, 700);
        lk_set_threads(1);
        lk_tensor *w = fill(lk_init_orthogonal(), wide), *t = fill(lk_init_orthogonal(), tall);
        lk_set_threads(3);
        assert_true(same_bits(w, fill(lk_init_orthogonal(), wide)));
        lk_set_threads(before);
        assert_true(furthest_from_perpendicular(lk_data(w), 1030, 1101, 1101, 1) < 1e-6);
        assert_true(furthest_from_perpendicular(lk_data(t), 700, 2201, 1, 700) < 1e-6);
        lk_variable *v[] = {lk_variable_of(w), lk_variable_of(t)};
        assert_string_equal(lk_digest_text(lk_variables_digest(lk_variables_from(2, v)), text),
                            "333ab1c9e89c5bfc1fcb4be0a0fbab839d243f247d5b497b158d8fa730130744");
        summary s = summary_of(w);
        assert_true(fabs(s.mean) < 1e-4 && fabs(s.deviation * sqrt(1101) - 1) < 1e-3 && s.most * sqrt(1101) < 7);
        FINE();
    }
}

/* Seconds of CPU time, of which 2048 x 4096 took 10 when every column was made perpendicular to those before it by itself. */
TEST(large_orthogonal_matrices_take_no_time)
{
    LK_POOL {
        const clock_t begun = clock();
        fill(lk_init_orthogonal(), LK_SHAPE(2048, 4096));
        const double seconds = (double)(clock() - begun) / CLOCKS_PER_SEC;
        FINE();
        if (seconds > 6 && !is_sanitized()) fail_msg("%.1f s", seconds);
    }
}

/* What comes out is the Q of QR with a positive diagonal in R: Q^T A is upper triangular, its diagonal above 0. A was drawn column
 * by column. */
TEST(orthogonal_is_qr_of_what_was_drawn)
{
    LK_POOL {
        enum { ROWS = 6, COLUMNS = 4 };
        lk_tensor    *q = lk_cast(fill(lk_init_orthogonal(), LK_SHAPE(ROWS, COLUMNS)), LK_F64);
        lk_tensor    *a = lk_cast(lk_random_normal(LK_SHAPE(COLUMNS, ROWS), .stream = "dense/kernel"), LK_F64);
        const double *r = lk_data(lk_matmul(q, a, .transpose_a = LK_ON, .transpose_b = LK_ON));
        for (int i = 0; i < COLUMNS; i++)
            for (int j = 0; j <= i; j++)
                assert_true(i == j ? r[i * COLUMNS + j] > 0.1 : fabs(r[i * COLUMNS + j]) < 1e-6);
        FINE();
    }
}

TEST(shapes_that_do_not_fit)
{
    LK_POOL {
        REFUSED_TENSOR(LK_ESHAPE, fill(lk_init_orthogonal(), LK_SHAPE(4)), "lk_init_orthogonal", "[4]", "two axes");
        REFUSED_TENSOR(LK_ESHAPE, fill(lk_init_identity(), LK_SHAPE(2, 2, 2)), "lk_init_identity", "[2, 2, 2]", "matrix");
        REFUSED_TENSOR(LK_ESHAPE, fill(lk_init_zeros(), LK_SHAPE(-1)), "lk_initializer_call", "[-1]");
        assert_int_equal(lk_size(fill(lk_init_orthogonal(), LK_SHAPE(0, 3))), 0);
        FINE();
    }
}

/* ---- options ---- */

TEST(names_of_keras)
{
    static const struct {
        const char *name, *class, *says;
    } all[] = {
        {"zeros", "Zeros", ""},
        {"ones", "Ones", ""},
        {"constant", "Constant", "value=0"},
        {"identity", "Identity", "gain=1"},
        {"random_normal", "RandomNormal", "seed=null mean=0 stddev=0.05"},
        {"random_uniform", "RandomUniform", "seed=null minval=-0.05 maxval=0.05"},
        {"truncated_normal", "TruncatedNormal", "seed=null mean=0 stddev=0.05"},
        {"variance_scaling", "VarianceScaling",
         "seed=null scale=1 mode=fan_in distribution=truncated_normal input_axes=null output_axes=null"},
        {"glorot_uniform", "GlorotUniform", "seed=null input_axes=null output_axes=null"},
        {"glorot_normal", "GlorotNormal", "seed=null input_axes=null output_axes=null"},
        {"he_uniform", "HeUniform", "seed=null input_axes=null output_axes=null"},
        {"he_normal", "HeNormal", "seed=null input_axes=null output_axes=null"},
        {"lecun_uniform", "LecunUniform", "seed=null input_axes=null output_axes=null"},
        {"lecun_normal", "LecunNormal", "seed=null input_axes=null output_axes=null"},
        {"orthogonal", "Orthogonal", "seed=null gain=1"},
    };
    LK_POOL {
        for (int k = 0; k < LKI_COUNT(all); k++) {
            lk_initializer *i = lk_initializer_named(all[k].name);
            assert_non_null(i);
            assert_string_equal(i->class->name, all[k].class);
            assert_true(says(i->class, &i->set, all[k].says));
            lk_initializer *again = i->class->make(&i->set);
            assert_ptr_equal(again->class, i->class);
        }
        REFUSED(LK_EINVAL, !lk_initializer_named("henormal"), "\"henormal\"", "did you mean he_normal");
        REFUSED(LK_EINVAL, !lk_initializer_named(NULL), "lk_initializer_named");
        FINE();
    }
}

TEST(options_a_class_does_not_have)
{
    LK_POOL {
        REFUSED(LK_EINVAL, !lk_init_zeros_kw((lk_initializer_args){.value = 1}), "lk_init_zeros", "value", "Zeros");
        REFUSED(LK_EINVAL, !lk_init_constant(1, .stddev = LK_NUMBER(0)), "lk_init_constant", "stddev", "Constant");
        REFUSED(LK_EINVAL, !lk_init_identity(.seed = LK_NUMBER(1)), "seed", "Identity");
        REFUSED(LK_EINVAL, !lk_init_random_normal(.minval = LK_NUMBER(1)), "minval", "RandomNormal");
        REFUSED(LK_EINVAL, !lk_init_random_uniform(.mean = 1), "mean", "RandomUniform");
        REFUSED(LK_EINVAL, !lk_init_truncated_normal(.maxval = LK_NUMBER(1)), "maxval", "TruncatedNormal");
        REFUSED(LK_EINVAL, !lk_init_variance_scaling(.gain = LK_NUMBER(1)), "gain", "VarianceScaling");
        REFUSED(LK_EINVAL, !lk_init_glorot_uniform(.scale = LK_NUMBER(2)), "scale", "GlorotUniform");
        REFUSED(LK_EINVAL, !lk_init_he_normal(.mode = LK_FAN_OUT), "mode", "HeNormal");
        REFUSED(LK_EINVAL, !lk_init_lecun_normal(.distribution = LK_UNIFORM), "distribution", "LecunNormal");
        FINE();
    }
}

TEST(numbers_out_of_range)
{
    LK_POOL {
        REFUSED(LK_EINVAL, !lk_init_random_normal(.stddev = LK_NUMBER(-1)), "stddev is -1", "at least 0");
        REFUSED(LK_EINVAL, !lk_init_random_normal(.mean = NAN), "mean is nan");
        REFUSED(LK_EINVAL, !lk_init_random_uniform(.minval = LK_NUMBER(1)), "minval 1", "maxval 0.05");
        REFUSED(LK_EINVAL, !lk_init_variance_scaling(.scale = LK_NUMBER(0)), "scale is 0", "above 0");
        REFUSED(LK_EINVAL, !lk_init_variance_scaling(.mode = (lk_fan_mode)3), "no mode 3");
        REFUSED(LK_EINVAL, !lk_init_variance_scaling(.distribution = (lk_distribution)9), "no distribution 9");
        REFUSED(LK_EINVAL, !lk_init_orthogonal(.gain = LK_NUMBER(INFINITY)), "gain is inf");
        REFUSED(LK_EINVAL, !lk_init_orthogonal(.seed = LK_NUMBER(NAN)), "seed is nan");
        REFUSED_TENSOR(LK_EINVAL, lk_initializer_call(NULL, LK_SHAPE(1), "w"), "the initialiser is NULL");
        REFUSED_TENSOR(LK_EINVAL, lk_initializer_call((lk_initializer *)lk_scalar(1), LK_SHAPE(1), "w"), "not an initialiser");
        lk_shape nine = {.rank = LK_MAX_RANK + 1}; /* there is no ninth size to read */
        REFUSED_TENSOR(LK_ESHAPE, lk_glorot_uniform(nine, "w"), "lk_glorot_uniform", "more than 8 sizes");
        REFUSED_TENSOR(LK_ESHAPE, lk_initializer_call(lk_init_orthogonal(), nine, "w"), "more than 8 sizes");
        FINE();
    }
}

/* ---- custom initialisers ---- */

static lk_tensor *own(lk_shape shape, const char *stream, void *user)
{
    const int *mode = user;
    if (*mode == 1) return lk_zeros(LK_SHAPE(7), LK_F32);
    if (*mode == 2) return NULL;
    return lk_fill(shape, LK_F32, (double)strlen(stream));
}

TEST(code_of_ones_own)
{
    LK_POOL {
        int             mode = 0;
        lk_initializer *i = lk_initializer_of(own, &mode);
        lk_model       *m = lk_sequential(lk_dense(2, .kernel_initializer = i, .use_bias = LK_OFF, .name = "d"));
        lk_model_build(m, LK_SHAPE(2));
        CLOSE(lk_read(lk_model_weights(m).item[0]), 19, 19, 19, 19); /* "sequential/d/kernel" */
        mode = 1;
        REFUSED_TENSOR(LK_ESHAPE, lk_initializer_call(i, LK_SHAPE(2), "w"), "\"w\"", "[7]", "[2]");
        mode = 2;
        REFUSED_TENSOR(LK_EINVAL, lk_initializer_call(i, LK_SHAPE(2), "w"), "\"w\"", "NULL");
        REFUSED(LK_EINVAL, !lk_initializer_of(NULL, NULL), "lk_initializer_of", "NULL");
        FINE();
    }
}

/* ---- in layers ---- */

TEST(layers_use_them)
{
    LK_POOL {
        lk_model *m = lk_sequential(
            lk_conv1d(4, 3, .kernel_initializer = lk_init_orthogonal(), .bias_initializer = lk_init_ones(), .name = "c"));
        lk_model_build(m, LK_SHAPE(8, 2));
        lk_variables w = lk_model_weights(m);
        assert_true(
            same_bits(lk_read(w.item[0]), lk_initializer_call(lk_init_orthogonal(), LK_SHAPE(3, 2, 4), "sequential/c/kernel")));
        CLOSE(lk_read(w.item[1]), 1, 1, 1, 1);
        lk_model *plain = lk_sequential(lk_conv1d(4, 3, .name = "c"));
        lk_model_build(plain, LK_SHAPE(8, 2));
        assert_true(
            same_bits(lk_read(lk_model_weights(plain).item[0]), lk_glorot_uniform(LK_SHAPE(3, 2, 4), "sequential/c/kernel")));
        CLOSE(lk_read(lk_model_weights(plain).item[1]), 0, 0, 0, 0);
        REFUSED(LK_EINVAL, !lk_conv1d(4, 3, .kernel_initializer = (lk_initializer *)lk_l2(1)), "kernel_initializer",
                "not an initialiser");
        FINE();
    }
}

static int attempt(void)
{
    int good = 0;
    LK_POOL {
        lk_initializer *i = lk_init_orthogonal(.seed = LK_NUMBER(1));
        LK_STEP {
            good = i && !lk_poisoned(lk_initializer_call(i, LK_SHAPE(5, 4), "w")) &&
                   !lk_poisoned(lk_initializer_call(lk_init_identity(), LK_SHAPE(2, 2), "w"));
        }
    }
    return good;
}

TEST(every_allocation_fails_once)
{
    attempt(); /* what is made once */
    assert_true(check_every_allocation(attempt) > 4);
}

TESTS(cmocka_unit_test(fixed_values), cmocka_unit_test(drawn_values), cmocka_unit_test(he_of_one_input),
      cmocka_unit_test(the_functions_of_nn), cmocka_unit_test(names_and_seeds), cmocka_unit_test(bits_of_every_initializer),
      cmocka_unit_test(orthogonal_matrices), cmocka_unit_test(large_orthogonal_matrices),
      cmocka_unit_test(large_orthogonal_matrices_take_no_time), cmocka_unit_test(orthogonal_is_qr_of_what_was_drawn),
      cmocka_unit_test(shapes_that_do_not_fit), cmocka_unit_test(names_of_keras), cmocka_unit_test(options_a_class_does_not_have),
      cmocka_unit_test(numbers_out_of_range), cmocka_unit_test(code_of_ones_own), cmocka_unit_test(layers_use_them),
      cmocka_unit_test(every_allocation_fails_once))
