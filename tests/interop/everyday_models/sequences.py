"""Text and time series: recurrent, convolutional, attention."""
import keras
from keras import layers, losses, ops, optimizers

from .common import N, code, ids, model, one_hot, padded, rows, truths

VOCABULARY = 30


def bilstm(mask):
    i = keras.Input(shape=(None,), dtype="int32")
    x = layers.Embedding(VOCABULARY, 8, mask_zero=mask)(i)
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(6))(x)
    m = keras.Model(i, layers.Dense(1, activation="sigmoid")(x))
    m.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return m, padded(VOCABULARY, 7), truths(1)


@model
def imdb_bilstm():
    return bilstm(False)


@model
def imdb_bilstm_mask_zero():
    return bilstm(True)


@model
def masking_lstm():
    x = rows(6, 3)
    x[2, 4:] = x[5, 1:] = 0
    m = keras.Sequential([keras.Input((6, 3)), layers.Masking(mask_value=0.0), layers.LSTM(5), layers.Dense(1)])
    m.compile("adam", "mse", metrics=["mae"])
    return m, x, rows(1)


@model
def text_classification_from_scratch():
    i = keras.Input(shape=(None,), dtype="int64")
    x = layers.Dropout(0.5)(layers.Embedding(VOCABULARY, 8)(i))
    x = layers.Conv1D(8, 7, padding="valid", activation="relu", strides=3)(x)
    x = layers.Conv1D(8, 3, padding="valid", activation="relu", strides=1)(x)
    x = layers.Dropout(0.5)(layers.Dense(8, activation="relu")(layers.GlobalMaxPooling1D()(x)))
    m = keras.Model(i, layers.Dense(1, activation="sigmoid", name="predictions")(x))
    m.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
    return m, ids(VOCABULARY, 20), truths(1)


@model
def text_vectorization_end_to_end():
    vectorize = layers.TextVectorization(max_tokens=20, output_sequence_length=5, vocabulary=["good", "bad", "film"])
    m = keras.Sequential([
        keras.Input((1,), dtype="string"), vectorize, layers.Embedding(20, 4), layers.GlobalAveragePooling1D(), layers.Dense(1)])
    return m, keras.ops.convert_to_numpy([["a good film"]] * N)


@model
def tf_tutorial_text_globalavg():
    m = keras.Sequential([
        keras.Input((9,), dtype="int32"), layers.Embedding(VOCABULARY, 16), layers.Dropout(0.2), layers.GlobalAveragePooling1D(),
        layers.Dropout(0.2), layers.Dense(1, activation="sigmoid")])
    m.compile(loss=losses.BinaryCrossentropy(), optimizer="adam", metrics=[keras.metrics.BinaryAccuracy(threshold=0.5)])
    return m, ids(VOCABULARY, 9), truths(1)


def block(x, add, width=8, causal=False, dropout=0.1):
    y = layers.MultiHeadAttention(2, width // 2)(x, x, use_causal_mask=causal)
    x = layers.LayerNormalization(epsilon=1e-6)(add(x, layers.Dropout(dropout)(y)))
    y = keras.Sequential([layers.Dense(16, activation="relu"), layers.Dense(width)])(x)
    return layers.LayerNormalization(epsilon=1e-6)(add(x, layers.Dropout(dropout)(y)))


def layer_add(a, b):
    return layers.Add()([a, b])


def operator_add(a, b):
    return a + b


def transformer(add, mask=False):
    i = keras.Input((10,), dtype="int32")
    x = layers.Embedding(VOCABULARY, 8, mask_zero=mask)(i)
    x = layers.GlobalAveragePooling1D()(block(x, add))
    x = layers.Dropout(0.1)(layers.Dense(10, activation="relu")(layers.Dropout(0.1)(x)))
    m = keras.Model(i, layers.Dense(2, activation="softmax")(x))
    m.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return m, padded(VOCABULARY, 10), ids(2)


@model
def transformer_functional():
    return transformer(layer_add)


@model
def transformer_functional_plus_operator():
    return transformer(operator_add)


@model
def transformer_mask_zero():
    return transformer(layer_add, mask=True)


@code
class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self, steps, most, width, **options):
        super().__init__(**options)
        self.steps, self.most, self.width = steps, most, width
        self.token, self.position = layers.Embedding(most, width), layers.Embedding(steps, width)

    def call(self, x):
        return self.token(x) + self.position(ops.arange(0, ops.shape(x)[-1]))

    def get_config(self):
        return dict(super().get_config(), steps=self.steps, most=self.most, width=self.width)


@model
def transformer_text_custom_layers():
    i = keras.Input((10,))
    x = layers.GlobalAveragePooling1D()(block(TokenAndPositionEmbedding(10, VOCABULARY, 8)(i), operator_add))
    m = keras.Model(i, layers.Dense(2, activation="softmax")(x))
    m.compile("adam", "sparse_categorical_crossentropy")
    return m, ids(VOCABULARY, 10), ids(2)


def gpt(add):
    i = keras.Input((10,), dtype="int32")
    x = block(layers.Embedding(VOCABULARY, 8)(i), add, causal=True)
    m = keras.Model(i, layers.Dense(VOCABULARY)(block(x, add, causal=True)))
    m.compile("adam", loss=losses.SparseCategoricalCrossentropy(from_logits=True))
    return m, ids(VOCABULARY, 10), ids(VOCABULARY, 10)


@model
def gpt_causal_mask():
    return gpt(layer_add)


@model
def gpt_causal_mask_plus_operator():
    return gpt(operator_add)


@model
def cross_attention_named():
    q, v = keras.Input((6, 8), name="query"), keras.Input((9, 8), name="context")
    x = layers.MultiHeadAttention(num_heads=2, key_dim=4)(query=q, value=v, key=v)
    m = keras.Model([q, v], layers.Dense(3)(layers.LayerNormalization()(layers.Add()([q, x]))))
    m.compile("adam", "mse")
    return m, [rows(6, 8), rows(9, 8)], rows(6, 3)


@model
def lstm_text_generation():
    m = keras.Sequential([keras.Input(shape=(10, 12)), layers.LSTM(8), layers.Dense(12, activation="softmax")])
    m.compile(loss="categorical_crossentropy", optimizer=optimizers.RMSprop(learning_rate=0.01))
    return m, one_hot(12, 10), one_hot(12)


@model
def ner_conv1d_causal():
    i = keras.Input((12,), dtype="int32")
    x = layers.Embedding(VOCABULARY, 8)(i)
    for dilation in (1, 2):
        x = layers.Conv1D(8, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
    m = keras.Model(i, layers.TimeDistributed(layers.Dense(4, activation="softmax"))(x))
    m.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return m, ids(VOCABULARY, 12), ids(4, 12)


@model
def timeseries_classification_conv1d():
    x = i = keras.Input((20, 1))
    for _ in range(3):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv1D(filters=8, kernel_size=3, padding="same")(x)))
    m = keras.Model(i, layers.Dense(2, activation="softmax")(layers.GlobalAveragePooling1D()(x)))
    m.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["sparse_categorical_accuracy"])
    return m, rows(20, 1), ids(2)


def series_transformer(**pooling):
    x = i = keras.Input((12, 2))
    for _ in range(2):
        y = layers.Dropout(0.25)(layers.MultiHeadAttention(key_dim=4, num_heads=2, dropout=0.25)(x, x))
        x = r = layers.Add()([layers.LayerNormalization(epsilon=1e-6)(y), x])
        y = layers.Dropout(0.25)(layers.Conv1D(filters=4, kernel_size=1, activation="relu")(x))
        x = layers.Add()([layers.LayerNormalization(epsilon=1e-6)(layers.Conv1D(filters=2, kernel_size=1)(y)), r])
    x = layers.GlobalAveragePooling1D(**pooling)(x)
    x = layers.Dropout(0.4)(layers.Dense(8, activation="relu")(x))
    m = keras.Model(i, layers.Dense(2, activation="softmax")(x))
    m.compile(loss="sparse_categorical_crossentropy", optimizer=optimizers.Adam(learning_rate=1e-4),
              metrics=["sparse_categorical_accuracy"])
    return m, rows(12, 2), ids(2)


@model
def timeseries_transformer():
    return series_transformer()


@model
def timeseries_transformer_channels_first_pool():
    return series_transformer(data_format="channels_first")


@model
def weather_lstm():
    i = keras.Input(shape=(12, 7))
    m = keras.Model(i, layers.Dense(1)(layers.LSTM(8)(i)))
    m.compile(optimizer=optimizers.Adam(learning_rate=0.001), loss="mse")
    return m, rows(12, 7), rows(1)


@model
def gru_stack():
    m = keras.Sequential([
        keras.Input((8, 4)), layers.GRU(6, return_sequences=True, dropout=0.1, recurrent_dropout=0.5),
        layers.GRU(5, activation="relu"), layers.Dense(1)])
    m.compile(optimizer=optimizers.RMSprop(), loss="mae")
    return m, rows(8, 4), rows(1)


@model
def gru_reset_after_false_backwards():
    m = keras.Sequential([
        keras.Input((8, 4)), layers.GRU(6, reset_after=False, go_backwards=True, return_sequences=True), layers.SimpleRNN(4),
        layers.Dense(1)])
    m.compile("nadam", "huber")
    return m, rows(8, 4), rows(1)


@model
def bidirectional_two_layers():
    m = keras.Sequential([
        keras.Input((7, 4)), layers.Bidirectional(layers.LSTM(5, return_sequences=True), merge_mode="sum"),
        layers.Bidirectional(layers.LSTM(4), backward_layer=layers.GRU(4, go_backwards=True)),
        layers.Dense(5, activation="softmax")])
    m.compile(loss="categorical_crossentropy", optimizer="rmsprop")
    return m, rows(7, 4), one_hot(5)


@model
def bidirectional_merge_none():
    i = keras.Input((7, 4))
    forward, backward = layers.Bidirectional(layers.LSTM(5, return_sequences=True), merge_mode=None)(i)
    m = keras.Model(i, layers.Dense(2)(layers.GlobalMaxPooling1D()(layers.Concatenate()([forward, backward]))))
    m.compile("adam", "mse")
    return m, rows(7, 4), rows(2)


@model
def attention_mask_argument():
    i, mask = keras.Input((10, 8)), keras.Input((10, 10), dtype="bool")
    x = layers.MultiHeadAttention(2, 4)(i, i, attention_mask=mask)
    m = keras.Model([i, mask], layers.Dense(2)(x))
    m.compile("adam", "mse")
    return m, [rows(10, 8), truths(10, 10) > 0], rows(10, 2)


@model
def attention_return_scores():
    i = keras.Input((6, 8))
    x, scores = layers.MultiHeadAttention(2, 4)(i, i, return_attention_scores=True)
    m = keras.Model(i, [layers.Dense(2, name="answer")(layers.GlobalAveragePooling1D()(x)), scores])
    m.compile("adam", {"answer": "mse"})
    return keras.Model(i, [m.outputs[0], scores]), rows(6, 8)


@model
def attention_output_shape():
    i = keras.Input((6, 8))
    m = keras.Model(i, layers.MultiHeadAttention(2, 4, output_shape=12)(i, i))
    m.compile("adam", "mse")
    return m, rows(6, 8), rows(6, 12)


@model
def attention_axes_2d():
    i = keras.Input((5, 6, 8))
    m = keras.Model(i, layers.MultiHeadAttention(2, 4, attention_axes=(1, 2))(i, i))
    m.compile("adam", "mse")
    return m, rows(5, 6, 8), rows(5, 6, 8)


@model
def luong_attention_layer():
    a, b = keras.Input((6,), dtype="int32"), keras.Input((5,), dtype="int32")
    embed = layers.Embedding(VOCABULARY, 8)
    convolve = layers.Conv1D(filters=8, kernel_size=3, padding="same")
    q, v = convolve(embed(a)), convolve(embed(b))
    x = layers.Attention()([q, v])
    x = layers.Concatenate()([layers.GlobalAveragePooling1D()(q), layers.GlobalAveragePooling1D()(x)])
    m = keras.Model([a, b], layers.Dense(1, activation="sigmoid")(x))
    m.compile("adam", "binary_crossentropy")
    return m, [ids(VOCABULARY, 6), ids(VOCABULARY, 5)], truths(1)


@model
def seq2seq_lstm():
    encoder_inputs, decoder_inputs = keras.Input(shape=(None, 6)), keras.Input(shape=(None, 5))
    _, h, c = layers.LSTM(8, return_state=True)(encoder_inputs)
    x, _, _ = layers.LSTM(8, return_sequences=True, return_state=True)(decoder_inputs, initial_state=[h, c])
    m = keras.Model([encoder_inputs, decoder_inputs], layers.Dense(5, activation="softmax")(x))
    m.compile(optimizer="rmsprop", loss="categorical_crossentropy", metrics=["accuracy"])
    return m, [one_hot(6, 7), one_hot(5, 4)], one_hot(5, 4)


@model
def gru_initial_state():
    i, state = keras.Input((6, 4)), keras.Input((8,))
    m = keras.Model([i, state], layers.Dense(1)(layers.GRU(8)(i, initial_state=state)))
    m.compile("adam", "mse")
    return m, [rows(6, 4), rows(8)], rows(1)


@model
def gru_initial_state_positional():
    i, state = keras.Input((6, 4)), keras.Input((8,))
    m = keras.Model([i, state], layers.Dense(1)(layers.GRU(8)(i, state)))
    m.compile("adam", "mse")
    return m, [rows(6, 4), rows(8)], rows(1)


@model
def addition_rnn_repeatvector():
    m = keras.Sequential([
        keras.Input((7, 12)), layers.LSTM(16), layers.RepeatVector(4), layers.LSTM(16, return_sequences=True),
        layers.Dense(12, activation="softmax")])
    m.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
    return m, one_hot(12, 7), one_hot(12, 4)


@model
def stateful_lstm():
    i = keras.Input(batch_shape=(N, 5, 3))
    m = keras.Model(i, layers.Dense(1)(layers.LSTM(4, stateful=True)(layers.LSTM(4, stateful=True, return_sequences=True)(i))))
    m.compile("adam", "mse")
    return m, rows(5, 3), rows(1)


@model
def rnn_stackedcells():
    i = keras.Input((6, 4))
    cells = layers.StackedRNNCells([layers.LSTMCell(5), layers.GRUCell(4), layers.SimpleRNNCell(3)])
    m = keras.Model(i, layers.Dense(1)(layers.RNN(cells)(i)))
    m.compile("adam", "mse")
    return m, rows(6, 4), rows(1)


@model
def anomaly_conv1d_transpose():
    m = keras.Sequential([
        keras.Input((16, 1)), layers.Conv1D(filters=8, kernel_size=7, padding="same", strides=2, activation="relu"),
        layers.Dropout(rate=0.2), layers.Conv1D(filters=4, kernel_size=7, padding="same", strides=2, activation="relu"),
        layers.Conv1DTranspose(filters=4, kernel_size=7, padding="same", strides=2, activation="relu"), layers.Dropout(rate=0.2),
        layers.Conv1DTranspose(filters=8, kernel_size=7, padding="same", strides=2, activation="relu"),
        layers.Conv1DTranspose(filters=1, kernel_size=7, padding="same")])
    m.compile(optimizer=optimizers.Adam(learning_rate=0.001), loss="mse")
    x = rows(16, 1)
    return m, x, x


@model
def time_distributed_convnet_lstm():
    frame = keras.Sequential([
        keras.Input((10, 10, 3)), layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(), layers.Dense(6)])
    m = keras.Sequential([
        keras.Input((4, 10, 10, 3)), layers.TimeDistributed(frame), layers.LSTM(5), layers.Dense(3, activation="softmax")])
    m.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    return m, rows(4, 10, 10, 3), one_hot(3)


@model
def time_distributed_batchnorm():
    m = keras.Sequential([
        keras.Input((4, 5)), layers.TimeDistributed(layers.Dense(6, activation="relu")),
        layers.TimeDistributed(layers.BatchNormalization()), layers.LSTM(4), layers.Dense(2)])
    m.compile("sgd", "mse")
    return m, rows(4, 5), rows(2)


@model
def gqa_attention():
    i = keras.Input((6, 8))
    x = layers.GroupQueryAttention(head_dim=4, num_query_heads=4, num_key_value_heads=2)(i, i)
    m = keras.Model(i, layers.Dense(2)(x))
    m.compile("adam", "mse")
    return m, rows(6, 8), rows(6, 2)


@model
def rmsnorm_llama():
    i = keras.Input((6,), dtype="int32")
    x = layers.Embedding(VOCABULARY, 8)(i)
    y = layers.RMSNormalization()(x)
    x = x + layers.MultiHeadAttention(2, 4, use_bias=False)(y, y, use_causal_mask=True)
    y = layers.RMSNormalization()(x)
    gate = layers.Dense(16, activation="silu", use_bias=False)(y)
    x = x + layers.Dense(8, use_bias=False)(gate * layers.Dense(16, use_bias=False)(y))
    m = keras.Model(i, layers.Dense(VOCABULARY, use_bias=False)(layers.RMSNormalization()(x)))
    m.compile("adamw", losses.SparseCategoricalCrossentropy(from_logits=True))
    return m, ids(VOCABULARY, 6), ids(VOCABULARY, 6)
