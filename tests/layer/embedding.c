/* Embedding: rows of its table by id, the gradient of the table, first values, and errors. */
#include "layer/split.h"

static lk_tensor *ids_of(lk_shape shape, const int32_t *id) { return lk_tensor_from(shape, LK_I32, id); }
#define IDS(shape, ...) ids_of(shape, (const int32_t[]){__VA_ARGS__})

static lk_layer *table(void) /* 0: [1, 2], 1: [3, 4], 2: [5, 6] */
{
    lk_layer *l = lk_embedding(3, 2);
    lk_layer_call(l, IDS(LK_SHAPE(1), 0));
    lk_assign(lk_layer_variables(l).item[0], lk_tensor_of(LK_SHAPE(3, 2), 1, 2, 3, 4, 5, 6));
    return l;
}

TEST(rows_of_the_table)
{
    lk_layer *l = table();
    CLOSE(lk_layer_call(l, IDS(LK_SHAPE(3), 2, 0, 2)), 5, 6, 1, 2, 5, 6);                 /* one id per row */
    CLOSE(lk_layer_call(l, IDS(LK_SHAPE(1, 3), 0, 1, 2)), 1, 2, 3, 4, 5, 6);              /* steps */
    CLOSE(lk_layer_call(l, IDS(LK_SHAPE(1, 2, 2), 1, 1, 0, 2)), 3, 4, 3, 4, 1, 2, 5, 6);  /* and more */
    CLOSE(lk_layer_call(l, lk_tensor_of(LK_SHAPE(2), 1, 2)), 3, 4, 5, 6);                 /* ids that came as floats */
    CLOSE(lk_layer_call(l, lk_cast(lk_tensor_of(LK_SHAPE(2), 1, 2), LK_U8)), 3, 4, 5, 6); /* or as bytes */
    CLOSE(lk_layer_call(l, lk_cast(lk_tensor_of(LK_SHAPE(1, 1), 2), LK_I64)), 5, 6);
    lk_shape out;
    assert_int_equal(row_after(l, (lk_shape){1, {-1}}, &out), LK_OK);
    assert_true(out.rank == 2 && out.dim[0] == -1 && out.dim[1] == 2);
    BECOMES(l, LK_SHAPE(), 2);
    FINE();
}

TEST(gradient_of_the_table)
{
    lk_layer  *l = table();
    lk_tape   *tape = lk_tape_begin();
    lk_tensor *y = lk_layer_call(l, IDS(LK_SHAPE(2, 2), 2, 0, 2, 2));
    lk_tensor *loss = lk_reduce_sum(lk_mul(y, lk_tensor_of(LK_SHAPE(2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8)));
    CLOSE(lk_grads_item(lk_tape_gradient(tape, loss, lk_layer_variables(l)), 0), 3, 4, 0, 0, 13, 16);
    FINE();
}

TEST(first_values_and_options)
{
    lk_layer *l = lk_embedding(40, 5, .name = "words", .embeddings_regularizer = lk_l2(1), .embeddings_constraint = lk_non_neg());
    lk_layer_call(l, IDS(LK_SHAPE(1), 0));
    const float *w = lk_data(lk_layer_weight(l, "embeddings"));
    float        low = 0, high = 0;
    for (int i = 0; i < 200; i++) {
        low = fminf(low, w[i]);
        high = fmaxf(high, w[i]);
    }
    assert_true(low >= -0.05f && low < -0.04f && high < 0.05f && high > 0.04f);
    assert_string_equal(lk_variable_name(lk_layer_variables(l).item[0]), "words/embeddings");
    assert_true(l->weight[0].regularizer && l->weight[0].constraint);
    lk_layer *ones = lk_embedding(2, 2, .embeddings_initializer = lk_init_ones());
    CLOSE(lk_layer_call(ones, IDS(LK_SHAPE(1), 1)), 1, 1);
    FINE();
}

TEST(in_a_model)
{
    LK_POOL {
        lk_model *m = lk_sequential(lk_embedding(3, 2, .input_shape = LK_SHAPE(4)), lk_flatten(), lk_dense(1));
        assert_int_equal(lk_model_weights(m).count, 3); /* built by the shape of a row */
        assert_true(is_shape(lk_tensor_shape(lk_model_call(m, IDS(LK_SHAPE(1, 4), 0, 1, 2, 0))), LK_SHAPE(1, 1)));
        assert_true(is_shape(lk_tensor_shape(lk_model_call(m, lk_zeros(LK_SHAPE(2, 4), LK_F32))), LK_SHAPE(2, 1)));
        FINE();
    }
}

static lk_model *small_model(void) { return lk_sequential(lk_embedding(7, 3), lk_flatten(), lk_dense(2)); }

TEST(same_bits_on_any_split)
{
    LK_POOL {
        int32_t id[13 * 4];
        for (int i = 0; i < LKI_COUNT(id); i++)
            id[i] = i * 5 % 7;
        same_on_any_split(small_model, ids_of(LK_SHAPE(13, 4), id));
    }
}

TEST(refusals)
{
    lk_shape out;
    REFUSED(LK_EINVAL, !lk_embedding(0, 4), "lk_embedding", "input_dim is 0", "at least 1");
    REFUSED(LK_EINVAL, !lk_embedding(4), "output_dim 0");
    REFUSED_TENSOR(LK_EINVAL, lk_layer_call(table(), IDS(LK_SHAPE(2), 0, 3)), "gather", "id is outside");
    REFUSED_TENSOR(LK_EINVAL, lk_layer_call(table(), IDS(LK_SHAPE(2), 0, -1)), "gather", "id is outside");
    REFUSED(LK_ESHAPE, row_after(lk_embedding(2, 2), LK_SHAPE(1, 1, 1, 1, 1, 1, 1), &out) != LK_OK, "layer \"embedding\"",
            "at most 6 axes");
    REFUSED(LK_EINVAL, !lk_embedding(2, 2, .embeddings_initializer = (lk_initializer *)lk_l1(1)),
            "embeddings_initializer is not an initialiser");
}

TESTS(cmocka_unit_test(rows_of_the_table), cmocka_unit_test(gradient_of_the_table), cmocka_unit_test(first_values_and_options),
      cmocka_unit_test(in_a_model), cmocka_unit_test(same_bits_on_any_split), cmocka_unit_test(refusals))
