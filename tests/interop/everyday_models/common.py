"""Models as they are written in Keras' examples and guides, small: what the files of this folder share.

A function marked with @model returns (model, inputs, targets[, sample weights]); without targets the model is only to predict."""
import keras
import numpy as np

MODELS = {}
N = 8  # rows
state = {"random": np.random.default_rng(0)}


def model(make):
    MODELS[make.__name__] = make
    return make


def seed(number):
    state["random"] = np.random.default_rng(number)


def rows(*shape):
    return state["random"].normal(size=(N,) + shape).astype("float32")


def pixels(*shape):
    return state["random"].uniform(0, 255, size=(N,) + shape).astype("float32")


def parts(*shape):
    return state["random"].uniform(0, 1, size=(N,) + shape).astype("float32")


def ids(most, *shape):
    return state["random"].integers(0, most, size=(N,) + shape).astype("int32")


def padded(most, steps):
    """Ids that are 0 from some place on, in the first row nowhere."""
    x = state["random"].integers(1, most, size=(N, steps)).astype("int32")
    for i in range(1, N):
        x[i, int(state["random"].integers(1, steps)):] = 0
    return x


def one_hot(most, *shape):
    return np.eye(most, dtype="float32")[ids(most, *shape)]


def truths(*shape):
    return (parts(*shape) < 0.5).astype("float32")


def code(cls):
    """A custom class, as people register it."""
    return keras.saving.register_keras_serializable(package="My")(cls)
