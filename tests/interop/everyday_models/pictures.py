"""Pictures: classification, segmentation, generation, augmentation, video."""
import keras
from keras import layers, losses, ops, optimizers, regularizers

from .common import code, ids, model, one_hot, parts, pixels, rows, truths


@model
def mnist_convnet():
    m = keras.Sequential([
        keras.Input((28, 28, 1)), layers.Conv2D(8, kernel_size=(3, 3), activation="relu"), layers.MaxPooling2D(pool_size=(2, 2)),
        layers.Conv2D(16, kernel_size=(3, 3), activation="relu"), layers.MaxPooling2D(pool_size=(2, 2)), layers.Flatten(),
        layers.Dropout(0.5), layers.Dense(10, activation="softmax")])
    m.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
    return m, parts(28, 28, 1), one_hot(10)


@model
def mnist_mlp_quickstart():
    m = keras.models.Sequential([
        layers.Flatten(input_shape=(28, 28)), layers.Dense(32, activation="relu"), layers.Dropout(0.2), layers.Dense(10)])
    m.compile(optimizer="adam", loss=losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return m, parts(28, 28), ids(10)


@model
def image_classification_from_scratch():
    inputs = keras.Input(shape=(32, 32, 3))
    x = layers.Rescaling(1.0 / 255)(inputs)
    x = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv2D(8, 3, strides=2, padding="same")(x)))
    before = x
    for size in [12, 16]:
        for _ in range(2):
            x = layers.Activation("relu")(x)
            x = layers.SeparableConv2D(size, 3, padding="same")(x)
            x = layers.BatchNormalization()(x)
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
        x = layers.add([x, layers.Conv2D(size, 1, strides=2, padding="same")(before)])
        before = x
    x = layers.Activation("relu")(layers.BatchNormalization()(layers.SeparableConv2D(20, 3, padding="same")(x)))
    x = layers.Dropout(0.25)(layers.GlobalAveragePooling2D()(x))
    m = keras.Model(inputs, layers.Dense(1, activation=None)(x))
    m.compile(optimizers.Adam(3e-4), losses.BinaryCrossentropy(from_logits=True),
              metrics=[keras.metrics.BinaryAccuracy(name="acc")])
    return m, pixels(32, 32, 3), truths(1)


def augmented(*layers_of_it, size=12):
    m = keras.Sequential([
        keras.Input((size, size, 3)), *layers_of_it, layers.Rescaling(1 / 255), layers.Conv2D(4, 3, activation="relu"),
        layers.GlobalAveragePooling2D(), layers.Dense(3)])
    m.compile("adam", losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return m, pixels(size, size, 3), ids(3)


@model
def augmentation_flip_rotation():
    return augmented(layers.RandomFlip("horizontal"), layers.RandomRotation(0.1))


@model
def augmentation_flip_rotation_zoom():
    return augmented(keras.Sequential([layers.RandomFlip("horizontal"), layers.RandomRotation(0.1), layers.RandomZoom(0.1)]))


@model
def augmentation_contrast():
    return augmented(layers.RandomContrast(0.2))


@model
def augmentation_translation_brightness():
    return augmented(layers.RandomTranslation(0.1, 0.1), layers.RandomBrightness(0.2))


@model
def resizing_centercrop():
    return augmented(layers.Resizing(10, 10), layers.CenterCrop(8, 8), size=14)


@model
def unet_oxford_pets():
    inputs = keras.Input(shape=(16, 16, 3))
    x = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv2D(8, 3, strides=2, padding="same")(inputs)))
    before = x
    for filters in [8, 12]:
        for _ in range(2):
            x = layers.Activation("relu")(x)
            x = layers.BatchNormalization()(layers.SeparableConv2D(filters, 3, padding="same")(x))
        x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
        x = before = layers.add([x, layers.Conv2D(filters, 1, strides=2, padding="same")(before)])
    for filters in [12, 8, 4]:
        for _ in range(2):
            x = layers.Activation("relu")(x)
            x = layers.BatchNormalization()(layers.Conv2DTranspose(filters, 3, padding="same")(x))
        x = layers.UpSampling2D(2)(x)
        x = before = layers.add([x, layers.Conv2D(filters, 1, padding="same")(layers.UpSampling2D(2)(before))])
    m = keras.Model(inputs, layers.Conv2D(3, 3, activation="softmax", padding="same")(x))
    m.compile(optimizer=optimizers.Adam(1e-4), loss="sparse_categorical_crossentropy")
    return m, parts(16, 16, 3), ids(3, 16, 16)


@model
def unet_classic_concat():
    inputs = keras.Input((16, 16, 1))

    def twice(x, n):
        for _ in range(2):
            x = layers.Conv2D(n, 3, activation="relu", padding="same", kernel_initializer="he_normal")(x)
        return x

    a = twice(inputs, 4)
    b = twice(layers.MaxPooling2D()(a), 8)
    c = layers.Dropout(0.5)(twice(layers.MaxPooling2D()(b), 12))
    x = twice(layers.concatenate([b, layers.Conv2D(8, 2, padding="same")(layers.UpSampling2D((2, 2))(c))], axis=3), 8)
    x = twice(layers.concatenate([a, layers.Conv2DTranspose(4, (2, 2), strides=(2, 2), padding="same")(x)], axis=3), 4)
    m = keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x))
    m.compile(optimizer=optimizers.Adam(learning_rate=1e-4), loss="binary_crossentropy", metrics=["accuracy"])
    return m, parts(16, 16, 1), truths(16, 16, 1)


@model
def conv_autoencoder():
    i = keras.Input(shape=(28, 28, 1))
    x = layers.MaxPooling2D((2, 2), padding="same")(layers.Conv2D(8, (3, 3), activation="relu", padding="same")(i))
    x = layers.MaxPooling2D((2, 2), padding="same")(layers.Conv2D(8, (3, 3), activation="relu", padding="same")(x))
    x = layers.Conv2DTranspose(8, (3, 3), strides=2, activation="relu", padding="same")(x)
    x = layers.Conv2DTranspose(8, (3, 3), strides=2, activation="relu", padding="same")(x)
    m = keras.Model(i, layers.Conv2D(1, (3, 3), activation="sigmoid", padding="same")(x))
    m.compile(optimizer="adam", loss="binary_crossentropy")
    x = parts(28, 28, 1)
    return m, x, x


@model
def resnet_cifar_l2():
    def conv(x, n, size=3, stride=1):
        return layers.Conv2D(n, size, strides=stride, padding="same", kernel_initializer="he_normal",
                             kernel_regularizer=regularizers.L2(1e-4))(x)

    inputs = keras.Input((16, 16, 3))
    x = layers.Activation("relu")(layers.BatchNormalization()(conv(inputs, 8)))
    for stack, n in enumerate([8, 12]):
        for block in range(2):
            stride = 2 if stack and not block else 1
            y = layers.Activation("relu")(layers.BatchNormalization()(conv(x, n, stride=stride)))
            y = layers.BatchNormalization()(conv(y, n))
            x = layers.Activation("relu")(layers.add([conv(x, n, 1, stride) if stride > 1 else x, y]))
    x = layers.Flatten()(layers.AveragePooling2D(pool_size=8)(x))
    m = keras.Model(inputs, layers.Dense(10, activation="softmax", kernel_initializer="he_normal")(x))
    m.compile(loss="categorical_crossentropy", optimizer=optimizers.SGD(0.01, momentum=0.9), metrics=["accuracy"])
    return m, parts(16, 16, 3), one_hot(10)


@model
def dcgan_discriminator():
    m = keras.Sequential([
        keras.Input(shape=(16, 16, 3)), layers.Conv2D(8, kernel_size=4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(16, kernel_size=4, strides=2, padding="same"), layers.LeakyReLU(negative_slope=0.2), layers.Flatten(),
        layers.Dropout(0.2), layers.Dense(1, activation="sigmoid")], name="discriminator")
    m.compile(optimizers.Adam(learning_rate=0.0001), losses.BinaryCrossentropy())
    return m, parts(16, 16, 3), truths(1)


@model
def dcgan_generator():
    m = keras.Sequential([
        keras.Input(shape=(16,)), layers.Dense(4 * 4 * 8), layers.Reshape((4, 4, 8)),
        layers.Conv2DTranspose(8, kernel_size=4, strides=2, padding="same"), layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2DTranspose(16, kernel_size=4, strides=2, padding="same"), layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(3, kernel_size=5, padding="same", activation="sigmoid")], name="generator")
    m.compile(optimizers.Adam(1e-4, beta_1=0.5), "mse")
    return m, rows(16), parts(16, 16, 3)


@model
def vae_decoder():
    i = keras.Input(shape=(2,))
    x = layers.Reshape((7, 7, 8))(layers.Dense(7 * 7 * 8, activation="relu")(i))
    x = layers.Conv2DTranspose(8, 3, activation="relu", strides=2, padding="same")(x)
    x = layers.Conv2DTranspose(4, 3, activation="relu", strides=2, padding="same")(x)
    m = keras.Model(i, layers.Conv2DTranspose(1, 3, activation="sigmoid", padding="same")(x), name="decoder")
    m.compile("adam", "binary_crossentropy")
    return m, rows(2), parts(28, 28, 1)


def encoder(sample):
    i = keras.Input(shape=(12, 12, 1))
    x = layers.Conv2D(4, 3, activation="relu", strides=2, padding="same")(i)
    x = layers.Dense(8, activation="relu")(layers.Flatten()(x))
    mean, log_var = layers.Dense(2, name="z_mean")(x), layers.Dense(2, name="z_log_var")(x)
    return keras.Model(i, [mean, log_var, sample([mean, log_var])], name="encoder"), parts(12, 12, 1)


@model
def vae_lambda():
    return encoder(layers.Lambda(lambda z: z[0] + ops.exp(0.5 * z[1]), output_shape=(2,)))


@code
class Sampling(layers.Layer):
    def call(self, inputs):
        mean, log_var = inputs
        return mean + ops.exp(0.5 * log_var)


@model
def vae_encoder_custom_sampling():
    return encoder(Sampling())


@code
class VAE(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.encode, self.decode = layers.Dense(2), layers.Dense(8)

    def call(self, x):
        return self.decode(self.encode(x))


@model
def subclassed_model():
    m, x = VAE(), rows(8)
    m(x)
    m.compile("adam", "mse")
    return m, x, x


@model
def super_resolution_depth_to_space():
    i = keras.Input(shape=(None, None, 1))
    x = layers.Conv2D(8, 5, activation="relu", kernel_initializer="orthogonal", padding="same")(i)
    x = layers.Conv2D(9, 3, activation="relu", kernel_initializer="orthogonal", padding="same")(x)
    return keras.Model(i, layers.Lambda(lambda t: ops.depth_to_space(t, 3), output_shape=(None, None, 1))(x)), parts(6, 6, 1)


@model
def fully_conv_none_size():
    i = keras.Input(shape=(None, None, 3))
    x = layers.Conv2D(4, 3, activation="relu", padding="same")(i)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(6, 3, activation="relu")(x)
    m = keras.Model(i, layers.Dense(2, activation="softmax")(layers.GlobalMaxPooling2D()(x)))
    m.compile("rmsprop", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return m, parts(14, 10, 3), ids(2)


@model
def vit_builtin():
    inputs = keras.Input(shape=(16, 16, 3))
    x = layers.Conv2D(12, 4, strides=4)(layers.Rescaling(1 / 127.5, offset=-1)(inputs))
    x = layers.Reshape((16, 12))(x)
    for _ in range(2):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = layers.Add()([layers.MultiHeadAttention(num_heads=2, key_dim=6, dropout=0.1)(y, y), x])
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        for units in [24, 12]:
            y = layers.Dropout(0.1)(layers.Dense(units, activation=keras.activations.gelu)(y))
        x = layers.Add()([y, x])
    x = layers.Dropout(0.5)(layers.Flatten()(layers.LayerNormalization(epsilon=1e-6)(x)))
    m = keras.Model(inputs, layers.Dense(5)(x))
    m.compile(optimizers.AdamW(learning_rate=0.001, weight_decay=0.0001), losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=[keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
                       keras.metrics.SparseTopKCategoricalAccuracy(3, name="top-3-accuracy")])
    return m, pixels(16, 16, 3), ids(5)


def squeezed(multiply):
    i = keras.Input((8, 8, 3))
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(i)
    s = layers.Reshape((1, 1, 8))(layers.GlobalAveragePooling2D()(x))
    s = layers.Dense(8, activation="sigmoid", use_bias=False)(layers.Dense(2, activation="relu", use_bias=False)(s))
    x = multiply(x, s)
    m = keras.Model(i, layers.Dense(3, activation="softmax")(layers.GlobalAveragePooling2D()(x)))
    m.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
    return m, rows(8, 8, 3), one_hot(3)


@model
def squeeze_excite():
    return squeezed(lambda x, s: layers.Multiply()([x, s]))


@model
def squeeze_excite_op_mul():
    return squeezed(lambda x, s: x * s)


@model
def conv3d_ct():
    i = keras.Input((12, 12, 8, 1))
    x = layers.MaxPool3D(pool_size=2)(layers.Conv3D(filters=4, kernel_size=3, activation="relu")(i))
    x = layers.BatchNormalization()(x)
    x = layers.Conv3D(filters=6, kernel_size=3, padding="same", activation="relu")(x)
    x = layers.Dense(8, activation="relu")(layers.GlobalAveragePooling3D()(x))
    m = keras.Model(i, layers.Dense(1, activation="sigmoid")(layers.Dropout(0.3)(x)), name="3dcnn")
    m.compile(loss="binary_crossentropy", optimizer=optimizers.Adam(
        optimizers.schedules.ExponentialDecay(0.0001, decay_steps=100000, decay_rate=0.96, staircase=True)), metrics=["acc"])
    return m, parts(12, 12, 8, 1), truths(1)


@model
def convlstm2d_frames():
    i = keras.Input(shape=(None, 8, 8, 1))
    x = layers.ConvLSTM2D(filters=4, kernel_size=(5, 5), padding="same", return_sequences=True, activation="relu")(i)
    x = layers.BatchNormalization()(x)
    x = layers.ConvLSTM2D(filters=4, kernel_size=(3, 3), padding="same", return_sequences=True, activation="relu")(x)
    x = layers.Conv3D(filters=1, kernel_size=(3, 3, 3), activation="sigmoid", padding="same")(x)
    m = keras.Model(i, x)
    m.compile(loss=losses.binary_crossentropy, optimizer=optimizers.Adam())
    return m, parts(4, 8, 8, 1), truths(4, 8, 8, 1)


@model
def grouped_conv():
    i = keras.Input((8, 8, 8))
    x = layers.Conv2D(8, 3, groups=4, padding="same", activation="relu")(i)
    x = layers.Conv2D(16, 1, groups=2)(x)
    m = keras.Model(i, layers.Dense(3)(layers.GlobalAveragePooling2D()(x)))
    m.compile("sgd", losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return m, rows(8, 8, 8), ids(3)


@model
def channels_first():
    m = keras.Sequential([
        keras.Input((3, 8, 8)), layers.Conv2D(4, 3, data_format="channels_first", activation="relu"),
        layers.BatchNormalization(axis=1), layers.GlobalAveragePooling2D(data_format="channels_first"), layers.Dense(2)])
    m.compile("sgd", "mse")
    return m, rows(3, 8, 8), rows(2)
