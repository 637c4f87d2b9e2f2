/* Ids as numbers that a dense layer can use (encoding.h); and CategoryEncoding, which does only this. */
#include "layer/encoding.h"
#include "op/gradient.h"

const char *const lki_output_words[LK_OUTPUT_TF_IDF + 1] = {[LK_OUTPUT_INT] = "int",
                                                            [LK_OUTPUT_ONE_HOT] = "one_hot",
                                                            [LK_OUTPUT_MULTI_HOT] = "multi_hot",
                                                            [LK_OUTPUT_COUNT] = "count",
                                                            [LK_OUTPUT_TF_IDF] = "tf_idf"};

bool lki_output_mode_fits(const char *call, lk_output_mode mode, lk_output_mode last)
{
    if ((unsigned)mode <= (unsigned)last) return true;
    return lki_fail(LK_EINVAL, "%s: there is no output_mode %d", call, (int)mode), false;
}

lk_status lki_encoded_row(const lk_layer *l, const lk_shape *in, lk_output_mode mode, int64_t depth, lk_shape *out)
{
    *out = *in;
    if (mode == LK_OUTPUT_INT) return LK_OK;
    if (mode == LK_OUTPUT_ONE_HOT) {
        if (out->rank && out->dim[out->rank - 1] == 1) out->rank--;
        if (out->rank + 2 > LK_MAX_RANK) return lki_layer_refuse(l, in, "ids of at most %d axes", LK_MAX_RANK - 2);
        out->dim[out->rank++] = depth;
        return LK_OK;
    }
    if (!in->rank) return lki_layer_refuse(l, in, "a row should be a list of ids; a single one is encoded by one_hot");
    for (int i = 1; i < in->rank; i++)
        out->dim[i - 1] = in->dim[i];
    out->dim[in->rank - 1] = depth;
    return LK_OK;
}

lk_tensor *lki_as_ids(lk_tensor *x) { return lki_bad(x) || x->dtype == LK_I32 || x->dtype == LK_I64 ? x : lk_cast(x, LK_I64); }

lk_tensor *lki_encoded(lk_tensor *ids, lk_output_mode mode, int64_t depth, lk_tensor *weights)
{
    if (lki_bad(ids) || mode == LK_OUTPUT_INT) return ids;
    const int last = ids->shape.rank - 1;
    if (mode == LK_OUTPUT_ONE_HOT && last > 0 && ids->shape.dim[last] == 1) ids = lk_squeeze(ids, LK_AXES(last));
    lk_tensor *hot = lk_one_hot(ids, depth);
    if (mode == LK_OUTPUT_ONE_HOT) return hot;
    if (mode == LK_OUTPUT_MULTI_HOT) return lk_reduce_max(hot, .axis = LK_AXES(1));
    return lk_reduce_sum(weights ? lk_mul(hot, lk_expand_dims(weights, -1)) : hot, .axis = LK_AXES(1));
}

/* ---- CategoryEncoding ---- */

typedef struct category_encoding {
    lk_layer                  layer;
    lk_category_encoding_args set; /* output_mode is given */
} category_encoding;

static const char *const ARGUMENTS[] = {"inputs", "count_weights", NULL};

static lk_status output(const lk_layer *l, const lk_shape *in, lk_shape *out)
{
    const lk_category_encoding_args *a = &((const category_encoding *)l)->set;
    if (in[1].rank >= 0 && a->output_mode != LK_OUTPUT_COUNT)
        return lki_layer_refuse(l, in, "count_weights are for the output_mode \"count\"");
    if (in[1].rank >= 0 && !lki_shape_equal(&in[0], &in[1]))
        return lki_layer_refuse(l, in, "count_weights should have a number for each id");
    return lki_encoded_row(l, in, a->output_mode, a->num_tokens, out);
}

static lk_tensor *call(lk_layer *l, lk_tensor *x, const lki_pass *pass)
{
    const lk_category_encoding_args *a = &((const category_encoding *)l)->set;
    lk_tensor                       *weights = pass->in.count > 1 ? pass->in.item[1] : NULL;
    if (weights && !lki_bad(weights) && weights->dtype != LK_F32) weights = lk_cast(weights, LK_F32);
    return lki_encoded(lki_as_ids(x), a->output_mode, a->num_tokens, weights);
}

static void *make(const void *args) { return lk_category_encoding_kw(*(const lk_category_encoding_args *)args); }

static const lki_field FIELDS[] = {
    LKI_LAYER_FIELDS(lk_category_encoding_args),
    LKI_FIELD(INT, lk_category_encoding_args, num_tokens, .required = true),
    LKI_OUTPUT_FIELD(lk_category_encoding_args, LK_OUTPUT_COUNT + 1, LK_OUTPUT_MULTI_HOT),
};

const lki_layer_kind lki_category_encoding_kind = {
    .name = "category_encoding",
    LKI_LAYER_OF(category_encoding, lk_category_encoding_args, "CategoryEncoding", FIELDS),
    .fewest = 1,
    .most = 2,
    .takes_ids = true,
    .arguments = ARGUMENTS,
    .output = output,
    .call = call};

lk_layer *lk_category_encoding_kw(lk_category_encoding_args a)
{
    const char *name = "lk_category_encoding";
    if (!a.output_mode) a.output_mode = LK_OUTPUT_MULTI_HOT;
    if (!lki_output_mode_fits(name, a.output_mode, LK_OUTPUT_COUNT)) return NULL;
    if (a.output_mode == LK_OUTPUT_INT)
        return lki_fail(LK_EINVAL, "%s: output_mode is int; it must be one_hot, multi_hot or count", name), NULL;
    if (a.num_tokens < 1)
        return lki_fail(LK_EINVAL, "%s: num_tokens is %lld; it must be at least 1", name, (long long)a.num_tokens), NULL;
    return lki_layer_new(name, &lki_category_encoding_kind, &a);
}
