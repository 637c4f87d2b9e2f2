#!/usr/bin/env python3
"""Writes what Keras' layers for sequences and pictures make of small inputs, and the gradients of it.

    python3 sequence_cases.py recurrent > recurrent_cases.inc           with Keras 3.15 on TensorFlow 2.21
    python3 sequence_cases.py attention > attention_cases.inc
    python3 sequence_cases.py wrappers > wrappers_cases.inc
    python3 sequence_cases.py rotation > rotation_cases.inc
    python3 sequence_cases.py configs > sequence_configs.inc        what a file says about such layers

Element i of input k is ((7 i + 5 k) mod 13 - 6) / 4, of weight j ((5 i + j) mod 9 - 4) / 8; what comes out is weighed by
((3 i) mod 7 - 3) / 2 before it is summed. All are exact in f32. A case: name, inputs, shape of the result, its elements, the
gradients of the inputs and then of the weights one behind the other, the layer. Rotations turn by a fixed angle; they come without
gradients, since TensorFlow turns the gradient back instead of adding up where pixels went."""
import json
import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers as L

SEQUENCE = [(2, 4, 3)]
CASES = {
    "recurrent": [
        ("lstm", lambda: L.LSTM(2), "lk_lstm(2)", SEQUENCE),
        ("lstm_sequence", lambda: L.LSTM(3, return_sequences=True, use_bias=False),
         "lk_lstm(3, .return_sequences = LK_ON, .use_bias = LK_OFF)", SEQUENCE),
        ("lstm_back", lambda: L.LSTM(2, go_backwards=True, return_sequences=True, activation="softsign",
                                     recurrent_activation="hard_sigmoid"),
         "lk_lstm(2, .go_backwards = LK_ON, .return_sequences = LK_ON, .activation = LK_SOFTSIGN, "
         ".recurrent_activation = LK_HARD_SIGMOID)", SEQUENCE),
        ("lstm_unrolled", lambda: L.LSTM(1, unroll=True), "lk_lstm(1)", [(3, 2, 2)]),
        ("gru", lambda: L.GRU(2), "lk_gru(2)", SEQUENCE),
        ("gru_sequence", lambda: L.GRU(2, return_sequences=True, use_bias=False, activation="relu"),
         "lk_gru(2, .return_sequences = LK_ON, .use_bias = LK_OFF, .activation = LK_RELU)", SEQUENCE),
        ("gru_before", lambda: L.GRU(3, reset_after=False, return_sequences=True),
         "lk_gru(3, .reset_after = LK_OFF, .return_sequences = LK_ON)", SEQUENCE),
        ("gru_before_plain", lambda: L.GRU(2, reset_after=False, use_bias=False, go_backwards=True),
         "lk_gru(2, .reset_after = LK_OFF, .use_bias = LK_OFF, .go_backwards = LK_ON)", SEQUENCE),
        ("gru_softmax", lambda: L.GRU(3, recurrent_activation="softmax", activation="linear"),
         "lk_gru(3, .recurrent_activation = LK_SOFTMAX, .activation = LK_LINEAR)", SEQUENCE),
        ("simple_rnn", lambda: L.SimpleRNN(2), "lk_simple_rnn(2)", SEQUENCE),
        ("simple_rnn_sequence", lambda: L.SimpleRNN(3, return_sequences=True, activation="gelu", use_bias=False),
         "lk_simple_rnn(3, .return_sequences = LK_ON, .activation = LK_GELU, .use_bias = LK_OFF)", SEQUENCE),
        ("one_step", lambda: L.LSTM(2, return_sequences=True), "lk_lstm(2, .return_sequences = LK_ON)", [(1, 1, 2)]),
    ],
    "attention": [
        ("itself", lambda: L.MultiHeadAttention(2, 3), "lk_multi_head_attention(2, 3)", [(2, 3, 4), (2, 3, 4)]),
        ("other", lambda: L.MultiHeadAttention(1, 2, value_dim=3), "lk_multi_head_attention(1, 2, 3)", [(1, 2, 4), (1, 3, 2)]),
        ("key", lambda: L.MultiHeadAttention(2, 1, value_dim=2, use_bias=False),
         "lk_multi_head_attention(2, 1, 2, .use_bias = LK_OFF)", [(2, 3, 2), (2, 4, 3), (2, 4, 1)]),
        ("causal", lambda: L.MultiHeadAttention(2, 2), "lk_multi_head_attention(2, 2, .use_causal_mask = LK_ON)",
         [(2, 4, 3), (2, 4, 3)], {"use_causal_mask": True}),
        ("causal_longer", lambda: L.MultiHeadAttention(1, 2), "lk_multi_head_attention(1, 2, .use_causal_mask = LK_ON)",
         [(1, 2, 3), (1, 4, 3)], {"use_causal_mask": True}),
    ],
    "wrappers": [
        ("both_ways", lambda: L.Bidirectional(L.LSTM(2)), "lk_bidirectional(lk_lstm(2))", SEQUENCE),
        ("both_ways_sequence", lambda: L.Bidirectional(L.GRU(2, return_sequences=True)),
         "lk_bidirectional(lk_gru(2, .return_sequences = LK_ON))", SEQUENCE),
        ("both_ways_sum", lambda: L.Bidirectional(L.SimpleRNN(3, return_sequences=True), merge_mode="sum"),
         "lk_bidirectional(lk_simple_rnn(3, .return_sequences = LK_ON), LK_MERGE_SUM)", SEQUENCE),
        ("both_ways_mul", lambda: L.Bidirectional(L.SimpleRNN(2), merge_mode="mul"),
         "lk_bidirectional(lk_simple_rnn(2), LK_MERGE_MUL)", SEQUENCE),
        ("both_ways_ave", lambda: L.Bidirectional(L.LSTM(2, use_bias=False, return_sequences=True), merge_mode="ave"),
         "lk_bidirectional(lk_lstm(2, .use_bias = LK_OFF, .return_sequences = LK_ON), LK_MERGE_AVE)", SEQUENCE),
        ("each_step", lambda: L.TimeDistributed(L.Dense(2, activation="tanh")),
         "lk_time_distributed(lk_dense(2, .activation = LK_TANH))", SEQUENCE),
        ("each_picture", lambda: L.TimeDistributed(L.Conv2D(2, 2)), "lk_time_distributed(lk_conv2d(2, 2))", [(2, 2, 3, 2, 1)]),
        ("each_flat", lambda: L.TimeDistributed(L.Flatten()), "lk_time_distributed(lk_flatten())", [(1, 2, 2, 3)]),
        ("each_sequence", lambda: L.TimeDistributed(L.SimpleRNN(2)), "lk_time_distributed(lk_simple_rnn(2))", [(2, 2, 3, 2)]),
    ],
}


def rotation(turns, **options):
    keras = dict(fill_mode=options.get("fill_mode", "reflect"), interpolation=options.get("interpolation", "bilinear"),
                 fill_value=options.get("fill_value", 0.0))
    c = f"lk_random_rotation({turns}, LK_NUMBER({turns}), LK_FILL_{keras['fill_mode'].upper()}, LK_{keras['interpolation'].upper()}"
    return lambda: L.RandomRotation((turns, turns), **keras), c + f", .fill_value = {keras['fill_value']})"


CASES["rotation"] = [
    (name, *rotation(turns, **options), [shape]) for name, turns, options, shape in [
        ("quarter", 0.25, {}, (1, 4, 4, 2)),
        ("back", -0.25, {"interpolation": "nearest"}, (1, 3, 5, 1)),
        ("half", 0.5, {}, (1, 3, 4, 1)),
        ("reflected", 0.07, {}, (2, 5, 4, 1)),
        ("wrapped", 0.11, {"fill_mode": "wrap"}, (1, 5, 6, 1)),
        ("constant", 0.13, {"fill_mode": "constant", "fill_value": 2.5}, (1, 4, 5, 2)),
        ("nearest", -0.09, {"fill_mode": "nearest"}, (1, 5, 5, 1)),
        ("reflected_pixels", 0.15, {"interpolation": "nearest"}, (1, 4, 6, 1)),
        ("constant_pixels", -0.2, {"interpolation": "nearest", "fill_mode": "constant", "fill_value": -1.0}, (1, 6, 4, 1)),
        ("long", 0.21, {}, (1, 2, 9, 1)),
        ("long_wrapped", 0.23, {"fill_mode": "wrap"}, (1, 9, 2, 1)),
        ("thin", 0.17, {}, (1, 1, 6, 1)),
    ]
]


def numbers(shape, values):
    return values(np.arange(int(np.prod(shape)))).reshape(shape).astype(np.float32)


def text(values):
    return ", ".join(f"{v:.9g}" for v in np.concatenate([np.asarray(v).ravel() for v in values]))


def shape_text(shape):
    return "{" + ", ".join([str(len(shape)), "{" + ", ".join(map(str, shape)) + "}"]) + "}"


def write_case(name, make, c, shapes, call={}):
    layer, training = make(), name_of_group == "rotation"
    x = [tf.constant(numbers(s, lambda i, k=k: ((7 * i + 5 * k) % 13 - 6) / 4)) for k, s in enumerate(shapes)]
    if training:
        call = {"training": True}
    layer(*x, **call)
    weights = [numbers(w.shape, lambda i, j=j: ((5 * i + j) % 9 - 4) / 8) for j, w in enumerate(layer.weights)]
    if not training:
        layer.set_weights(weights)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(*x, **call)
        loss = tf.reduce_sum(y * numbers(y.shape, lambda i: (3 * i % 7 - 3) / 2))
    gradients = [[]] if training else tape.gradient(loss, x + [w.value for w in layer.trainable_weights])
    print(f"KERAS({name}, SHAPES({', '.join(shape_text(s) for s in shapes)}), SHAPES({shape_text(y.shape)}),\n"
          f"      NUMBERS({text([y])}),\n      NUMBERS({text(gradients) or 0}),\n      {c})")


CONFIGS = [
    (L.Embedding(10, 4), "lk_embedding(10, 4)"),
    (L.Embedding(3, 2, embeddings_initializer="ones", embeddings_regularizer="l2", embeddings_constraint="non_neg",
                     trainable=False),
     "lk_embedding(3, 2, lk_init_ones(), lk_l2(0.01), .embeddings_constraint = lk_non_neg(), .trainable = LK_OFF)"),
    (L.LSTM(3), "lk_lstm(3)"),
    (L.LSTM(2, return_sequences=True, go_backwards=True, unit_forget_bias=False, dropout=0.25, recurrent_dropout=0.5, seed=7,
            activation="relu", recurrent_activation="hard_sigmoid", use_bias=False),
     "lk_lstm(2, LK_RELU, LK_HARD_SIGMOID, LK_OFF, LK_ON, LK_ON, LK_OFF, .dropout = 0.25, "
     ".recurrent_dropout = 0.5, .seed = LK_NUMBER(7))"),
    (L.GRU(3), "lk_gru(3)"),
    (L.GRU(2, reset_after=False, recurrent_regularizer=keras.regularizers.L1(0.5), bias_constraint="non_neg"),
     "lk_gru(2, .reset_after = LK_OFF, .recurrent_regularizer = lk_l1(0.5), .bias_constraint = lk_non_neg())"),
    (L.SimpleRNN(3), "lk_simple_rnn(3)"),
    (L.Bidirectional(L.LSTM(3, name="m"), name="b"), 'lk_bidirectional(lk_lstm(3, .name = "m"))'),
    (L.Bidirectional(L.GRU(3, name="m"), merge_mode="ave"), 'lk_bidirectional(lk_gru(3, .name = "m"), LK_MERGE_AVE)'),
    (L.TimeDistributed(L.Dense(3, name="m")), 'lk_time_distributed(lk_dense(3, .name = "m"))'),
    (L.MultiHeadAttention(2, 3), "lk_multi_head_attention(2, 3)"),
    (L.MultiHeadAttention(2, 3, value_dim=4, dropout=0.25, use_bias=False, seed=5),
     "lk_multi_head_attention(2, 3, 4, 0.25, LK_NUMBER(5), .use_bias = LK_OFF)"),
    (L.RandomFlip(), "lk_random_flip()"),
    (L.RandomFlip("vertical", seed=3), "lk_random_flip(LK_FLIP_VERTICAL, LK_NUMBER(3))"),
    (L.RandomRotation(0.1), "lk_random_rotation(0.1)"),
    (L.RandomRotation((-0.25, 0.5), fill_mode="constant", fill_value=2.5, interpolation="nearest", seed=1),
     "lk_random_rotation(0.5, LK_NUMBER(-0.25), LK_FILL_CONSTANT, LK_NEAREST, 2.5, LK_NUMBER(1))"),
    (L.RandomCrop(4, 5, seed=9), "lk_random_crop(4, 5, LK_NUMBER(9))"),
]


def write_configs():
    for layer, c in CONFIGS:
        said = json.dumps(json.dumps(keras.saving.serialize_keras_object(layer)))
        print(f"CONFIG({said},\n       {c})")


name_of_group = sys.argv[1]
if name_of_group == "configs":
    write_configs()
for case in CASES.get(name_of_group, []):
    write_case(*case)
