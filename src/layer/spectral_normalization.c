/* SpectralNormalization: before each training call, the kernel of the layer inside is divided by its largest singular value, which
 * is approximated by power iteration from the vector of the last call.
 *
 * The kernel itself is assigned, as in Keras, so the optimiser updates the normalised one. Every replica computes and assigns the
 * same values. */
#include "layer/layer.h"
#include "op/gradient.h"
#include <lockstep/grad.h>
#include <string.h>

typedef struct spectral_normalization {
    lk_layer                       layer;
    lk_spectral_normalization_args set;
    int                            kernel; /* which weight of the inner layer */
} spectral_normalization;

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_shape list[2] = {*in, {.rank = -1}};
    return lki_layer_output(l->inner[0], list, out);
}

/* The index of the kernel, or of the embeddings; -1: there is neither. */
static int kernel_of(const lk_layer *inner)
{
    for (int i = 0; i < inner->count; i++)
        if (!strcmp(inner->weight[i].name, "kernel") || !strcmp(inner->weight[i].name, "embeddings")) return i;
    return -1;
}

static lki_filling first_vector(lk_shape shape, const char *stream)
{
    return lki_filling_of(LKI_FILL_TRUNCATED, shape, stream, 0, 0.02);
}

static lk_status build(lk_layer *l, const lk_shape *in)
{
    spectral_normalization *n = (spectral_normalization *)l;
    const lk_shape          list[2] = {*in, {.rank = -1}};
    LKI_TRY(lki_layer_build(l->inner[0], list));
    n->kernel = kernel_of(l->inner[0]);
    if (n->kernel < 0)
        return lki_fail(LK_EINVAL, "layer \"%s\": layer \"%s\" inside has neither a kernel nor embeddings", lki_layer_title(l),
                        lki_layer_title(l->inner[0]));
    const lk_shape kernel = l->inner[0]->weight[n->kernel].variable->shape;
    lki_weight     u = {.name = "vector_u",
                        .standard = first_vector,
                        .trainable = LK_OFF,
                        .synchronization = LK_SYNC_ON_WRITE,
                        .aggregation = LK_AGGREGATION_ONLY_FIRST_REPLICA};
    return lki_layer_weight(l, u, LK_SHAPE(1, kernel.dim[kernel.rank - 1]));
}

static lk_tensor *unit(lk_tensor *v) { return lk_mul(v, lk_minimum(lk_rsqrt(lk_reduce_sum(lk_square(v))), lki_like(v, 1e7))); }

/* A kernel of zeros stays as it is. */
static lk_status normalize(spectral_normalization *n)
{
    lk_variable *variable = n->layer.inner[0]->weight[n->kernel].variable;
    lk_tensor   *kernel = lk_stop_gradient(lk_read(variable)), *before = lki_layer_read(&n->layer, 0), *u = before, *v = NULL;
    if (lki_bad(kernel) || lki_bad(u)) return lki_poisoned_status("lk_spectral_normalization");
    lk_tensor *w = lk_reshape(kernel, LK_SHAPE(-1, kernel->shape.dim[kernel->shape.rank - 1]));
    for (int64_t i = 0; i < lki_integer_or(n->set.power_iterations, 1); i++) {
        v = unit(lk_matmul(u, w, .transpose_b = LK_ON));
        u = unit(lk_matmul(v, w));
    }
    lk_tensor *sigma = lk_reshape(lk_matmul(lk_matmul(v, w), u, .transpose_b = LK_ON), (lk_shape){0});
    lk_tensor *idle = lk_reduce_all(lk_equal(kernel, lki_like(kernel, 0)));
    LKI_TRY(lk_assign(n->layer.weight[0].variable, lk_where(idle, before, u)));
    return lk_assign(variable, lk_where(idle, kernel, lk_div(kernel, sigma)));
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    if (lki_bad(x)) return x;
    if (pass->training && normalize((spectral_normalization *)l) != LK_OK) return &lki_poison;
    return lki_layer_run(l->inner[0], (lk_tuple){1, &x}, pass);
}

static void *make(const void *args) { return lk_spectral_normalization_kw(*(const lk_spectral_normalization_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_spectral_normalization_args),
    LKI_FIELD(OBJECT, lk_spectral_normalization_args, layer, .kind = LKI_KIND_LAYER, .required = true),
    LKI_FIELD(INTEGER, lk_spectral_normalization_args, power_iterations, .standard = 1),
};

/* Keras stores the kernel with both layers. */
static lki_weight *borrowed(const lk_layer *l)
{
    return l->count ? &l->inner[0]->weight[((const spectral_normalization *)l)->kernel] : NULL;
}

static const char *const PLACES[] = {"vars/1"}, *const INNER_PLACES[] = {"layer"};

const lki_layer_kind lki_spectral_normalization_kind = {
    .name = "spectral_normalization",
    LKI_LAYER_OF(spectral_normalization, lk_spectral_normalization_args, "SpectralNormalization", FIELDS),
    .takes_ids = true, /* the inner layer may */
    .output = output,
    .build = build,
    .mask = lki_mask_stays,
    .call = call,
    .place = PLACES,
    .borrowed = borrowed,
    .inner_place = INNER_PLACES};

lk_layer *lk_spectral_normalization_kw(lk_spectral_normalization_args a)
{
    if (!lki_is_kind(a.layer, LKI_KIND_LAYER))
        return lki_fail(LK_EINVAL, "lk_spectral_normalization: the layer is %s", a.layer ? "not a layer" : "NULL"), NULL;
    if (lki_integer_or(a.power_iterations, 1) < 1)
        return lki_fail(LK_EINVAL, "lk_spectral_normalization: power_iterations is %lld; it must be at least 1",
                        (long long)lki_integer(a.power_iterations)),
               NULL;
    lk_layer *l = lki_layer_new("lk_spectral_normalization", &lki_spectral_normalization_kind, &a);
    if (!l) return NULL;
    if (lki_layer_take("lk_spectral_normalization", l, a.layer) == LK_OK && (l->trainable || lk_layer_set_trainable(l, 0) == LK_OK))
        return l;
    lk_free(l);
    return NULL;
}
