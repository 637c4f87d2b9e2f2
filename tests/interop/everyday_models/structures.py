"""How models are put together: several inputs and outputs, shared and nested models, transfer learning, dicts."""
import keras
from keras import layers, losses, metrics, ops, optimizers

from .common import N, code, ids, model, one_hot, parts, pixels, rows, truths


def tower():
    return keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="relu"), layers.Dense(4)], name="tower")


def siamese(distance):
    a, b, shared = keras.Input((6,), name="left"), keras.Input((6,), name="right"), tower()
    m = keras.Model([a, b], layers.Dense(1, activation="sigmoid")(distance(shared(a), shared(b))))
    m.compile(loss="binary_crossentropy", optimizer="rmsprop", metrics=["accuracy"])
    return m, [rows(6), rows(6)], truths(1)


@model
def siamese_shared_model_dot():
    return siamese(lambda a, b: layers.Dot(axes=1, normalize=True)([a, b]))


@model
def siamese_shared_layer_dense():
    a, b, shared = keras.Input((6,)), keras.Input((6,)), layers.Dense(5, activation="tanh")
    m = keras.Model([a, b], layers.Dense(1)(layers.Subtract()([shared(a), shared(b)])))
    m.compile("adam", "mse")
    return m, [rows(6), rows(6)], rows(1)


@model
def siamese_lambda_distance():
    return siamese(lambda a, b: layers.Lambda(lambda t: ops.abs(t[0] - t[1]), output_shape=(4,))([a, b]))


@model
def siamese_ops_distance():
    return siamese(lambda a, b: ops.sqrt(ops.maximum(ops.sum(ops.square(a - b), axis=1, keepdims=True), keras.backend.epsilon())))


def two_in_two_out(**options):
    title, body = keras.Input((6,), name="title"), keras.Input((8,), name="body")
    x = layers.concatenate([layers.Dense(5, activation="relu")(title), layers.Dense(5, activation="relu")(body)])
    outputs = [layers.Dense(1, name="priority")(x), layers.Dense(4, name="department")(x)]
    m = keras.Model([title, body], outputs)
    m.compile(optimizer=optimizers.RMSprop(1e-3), **options)
    return m, [rows(6), rows(8)], [truths(1), one_hot(4)]


BINARY, CLASSES = (lambda: losses.BinaryCrossentropy(from_logits=True)), (lambda: losses.CategoricalCrossentropy(from_logits=True))


@model
def two_in_two_out_lists():
    return two_in_two_out(loss=[BINARY(), CLASSES()], loss_weights=[1.0, 0.2], metrics=[["accuracy"], ["accuracy", "mae"]])


@model
def two_out_list_dict_losses():
    return two_in_two_out(loss={"priority": BINARY(), "department": CLASSES()}, loss_weights={"priority": 1.0, "department": 0.2},
                          metrics={"department": ["accuracy"]})


@model
def two_out_list_dict_losses_reordered():
    return two_in_two_out(loss={"department": CLASSES(), "priority": BINARY()}, loss_weights={"department": 0.3, "priority": 2.0})


@model
def two_in_two_out_dict_losses():
    title, body = keras.Input((6,), name="title"), keras.Input((8,), name="body")
    x = layers.concatenate([layers.Dense(5, activation="relu")(title), layers.Dense(5, activation="relu")(body)])
    m = keras.Model({"title": title, "body": body},
                    {"priority": layers.Dense(1, name="priority")(x), "department": layers.Dense(4, name="department")(x)})
    m.compile(optimizer="adam", loss={"priority": BINARY(), "department": CLASSES()},
              loss_weights={"priority": 1.0, "department": 0.2}, metrics={"priority": ["mae"], "department": ["accuracy"]})
    return m, {"title": rows(6), "body": rows(8)}, {"priority": truths(1), "department": one_hot(4)}


@model
def dict_inputs():
    user, item = keras.Input((1,), name="user", dtype="int32"), keras.Input((3,), name="item")
    x = layers.Concatenate()([layers.Flatten()(layers.Embedding(9, 4)(user)), layers.Dense(4)(item)])
    m = keras.Model(inputs={"user": user, "item": item}, outputs=layers.Dense(1)(x))
    m.compile("adam", "mse")
    return m, {"user": ids(9, 1), "item": rows(3)}, rows(1)


@model
def one_loss_none():
    i = keras.Input((5,))
    x = layers.Dense(4, activation="relu", name="features")(i)
    m = keras.Model(i, [x, layers.Dense(2, name="answer")(x)])
    m.compile("adam", loss=[None, "mse"])
    return m, rows(5), [rows(4), rows(2)]


@model
def intermediate_outputs_feature_extractor():
    i = keras.Input((10, 10, 3))
    a = layers.Conv2D(4, 3, activation="relu", name="first")(i)
    b = layers.Conv2D(6, 3, activation="relu", name="second")(a)
    whole = keras.Model(i, layers.Dense(3)(layers.GlobalMaxPooling2D()(b)))
    return keras.Model(whole.inputs, [layer.output for layer in whole.layers[1:]]), rows(10, 10, 3)


@model
def collaborative_filtering_functional():
    user, film = keras.Input((1,), dtype="int32"), keras.Input((1,), dtype="int32")

    def embed(x, width):
        return layers.Flatten()(layers.Embedding(20, width, embeddings_initializer="he_normal",
                                                 embeddings_regularizer=keras.regularizers.l2(1e-6))(x))

    x = layers.Dot(axes=1)([embed(user, 6), embed(film, 6)])
    x = layers.Add()([x, embed(user, 1), embed(film, 1)])
    m = keras.Model([user, film], layers.Activation("sigmoid")(x))
    m.compile(loss=losses.BinaryCrossentropy(), optimizer=optimizers.Adam(learning_rate=0.001))
    return m, [ids(20, 1), ids(20, 1)], parts(1)


@model
def word2vec_dot_axes2():
    target, context = keras.Input((1,), dtype="int32"), keras.Input((5,), dtype="int32")
    a, b = layers.Embedding(20, 8, name="w2v_embedding")(target), layers.Embedding(20, 8)(context)
    m = keras.Model([target, context], layers.Flatten()(layers.Dot(axes=2)([b, a])))
    m.compile("adam", losses.CategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return m, [ids(20, 1), ids(20, 5)], one_hot(5)


# ---- transfer learning ----


def base(size=16):
    i = keras.Input((size, size, 3))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(6, 3, strides=2)(i)))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(8, 3)(x)))
    return keras.Model(i, x, name="base")


def transfer(before, inside, training=None, trainable=False, size=16):
    inside.trainable = trainable
    i = keras.Input((size, size, 3))
    x = before(i)
    x = layers.GlobalAveragePooling2D()(inside(x, training=training) if training is not None else inside(x))
    m = keras.Model(i, layers.Dense(1)(layers.Dropout(0.2)(x)))
    m.compile(optimizers.Adam(1e-3), losses.BinaryCrossentropy(from_logits=True), metrics=[metrics.BinaryAccuracy()])
    return m, pixels(size, size, 3), truths(1)


@model
def transfer_frozen_nested():
    return transfer(layers.Rescaling(1 / 127.5, offset=-1), base())


@model
def transfer_finetune_training_false():
    return transfer(layers.Rescaling(1 / 127.5, offset=-1), base(), training=False, trainable=True)


def mobile(size=32):
    return keras.applications.MobileNetV2(weights=None, include_top=False, alpha=0.35, input_shape=(size, size, 3))


@model
def transfer_mobilenetv2_rescaling():
    return transfer(layers.Rescaling(1 / 127.5, offset=-1), mobile(), training=False, size=32)


@model
def transfer_mobilenetv2_functional_nested():
    return transfer(keras.applications.mobilenet_v2.preprocess_input, mobile(), training=False, size=32)


@model
def sequential_with_nested_app():
    inside = mobile()
    inside.trainable = False
    m = keras.Sequential([keras.Input((32, 32, 3)), inside, layers.Flatten(), layers.Dense(4, activation="softmax")])
    m.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return m, rows(32, 32, 3), ids(4)


@model
def model_cut_transfer():
    whole = base()
    cut = keras.Model(whole.inputs, whole.layers[3].output)
    m = keras.Model(cut.inputs, layers.Dense(2)(layers.GlobalMaxPooling2D()(cut.output)))
    m.compile("adam", "mse")
    return m, rows(16, 16, 3), rows(2)


@model
def bn_layer_called_training_false():
    i = keras.Input((5,))
    x = layers.BatchNormalization()(layers.Dense(6)(i), training=False)
    m = keras.Model(i, layers.Dense(1)(x))
    m.compile("adam", "mse")
    return m, rows(5), rows(1)


@model
def bn_frozen_layer():
    frozen = layers.BatchNormalization()
    frozen.trainable = False
    m = keras.Sequential([keras.Input((5,)), layers.Dense(6), frozen, layers.ReLU(), layers.Dense(1)])
    m.compile("adam", "mse")
    return m, rows(5), rows(1)


@model
def mc_dropout_training_true():
    i = keras.Input((5,))
    x = layers.Dropout(0.3)(layers.Dense(8, activation="relu")(i), training=True)
    m = keras.Model(i, layers.Dense(1)(x))
    m.compile("adam", "mse")
    return m, rows(5), rows(1)


def student(width=4):
    return keras.Sequential([
        keras.Input((12, 12, 1)), layers.Conv2D(width, (3, 3), strides=(2, 2), padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.MaxPooling2D(pool_size=(2, 2), strides=(1, 1), padding="same"), layers.Flatten(), layers.Dense(5)], name="student")


@model
def distiller_student():
    m = student()
    m.compile(optimizers.Adam(), losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=[metrics.SparseCategoricalAccuracy()])
    return m, rows(12, 12, 1), ids(5)


@code
class Distiller(keras.Model):
    def __init__(self, student=None, teacher=None, **options):
        super().__init__(**options)
        self.student, self.teacher = student, teacher

    def call(self, x):
        return self.student(x)

    def get_config(self):
        return {"student": keras.saving.serialize_keras_object(self.student),
                "teacher": keras.saving.serialize_keras_object(self.teacher)}


@model
def distiller_model():
    m, x = Distiller(student(), student(6)), rows(12, 12, 1)
    m(x)
    return m, x


@model
def skip_unused_input_batch_shape():
    i = keras.Input(batch_shape=(None, 5))
    unused = keras.Input(shape=(3,), name="unused")
    x = layers.Dense(4, activation="relu")(i)
    layers.Dense(7, name="nowhere")(x)
    m = keras.Model([i, unused], layers.Dense(1)(layers.Add()([x, layers.Dense(4)(i)])))
    m.compile("adam", "mse")
    return m, [rows(5), rows(3)], rows(1)


@model
def add_layer_different_rank():
    a, b = keras.Input((4, 3)), keras.Input((3,))
    m = keras.Model([a, b], layers.Dense(1)(layers.Add()([a, layers.Reshape((1, 3))(b)])))
    m.compile("adam", "mse")
    return m, [rows(4, 3), rows(3)], rows(4, 1)


@model
def weighted_metrics_sample_weight():
    m = keras.Sequential([keras.Input((5,)), layers.Dense(3, activation="softmax")])
    m.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=["accuracy"])
    return m, rows(5), ids(3), parts()


@code
def custom_loss(y_true, y_pred):
    return ops.mean(ops.square(y_true - y_pred) * 2, axis=-1)


@model
def custom_loss_function():
    m = keras.Sequential([keras.Input((5,)), layers.Dense(3)])
    m.compile("adam", custom_loss)
    return m, rows(5), rows(3)


@model
def fixed_batch_size():
    i = keras.Input((4,), batch_size=N)
    m = keras.Model(i, layers.Dense(2)(i))
    m.compile("sgd", "mse")
    return m, rows(4), rows(2)
