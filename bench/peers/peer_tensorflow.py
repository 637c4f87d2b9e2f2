"""TensorFlow: Keras' fit under MirroredStrategy on logical CPUs, a loop of one's own under it, the same without a strategy, and
with XLA. Loops run inside tf.function, batches come from tf.data. common.py says how it is called."""

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import common  # noqa: E402

VARIANTS = ("fit", "loop", "plain", "jit", "plain_fit")
args = common.arguments(VARIANTS)

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402

MIRRORED = args.variant in ("fit", "loop")
BUFFER = 10000  # of the documents' shuffle


def set_up():
    """The strategy, or None."""
    tf.config.threading.set_intra_op_parallelism_threads(common.cores())
    tf.config.threading.set_inter_op_parallelism_threads(common.cores())
    if not MIRRORED:
        return None
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * args.replicas)
    return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(args.replicas)])


def read_model():
    with open(args.model) as file:
        return keras.models.model_from_json(file.read())


class FitTimes(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self.began)


class Fit:
    """Epochs are the windows; the first one, in which the input fills up, is left out."""

    def __init__(self, model, data):
        self.model, self.data, self.each = model, data, None

    def epochs(self, steps, count):
        watch = FitTimes()
        self.model.fit(self.data, steps_per_epoch=steps, epochs=count, verbose=0, callbacks=[watch])
        return watch.seconds

    def __call__(self, steps):
        self.each = self.epochs(max(steps, 4), 2)[-1] / max(steps, 4)

    def times(self, seconds):
        steps = max(1, int(seconds / common.WINDOWS / self.each))
        taken = self.epochs(steps, common.WINDOWS + 1)[1:]
        self.each = min(taken) / steps
        return [(steps, t) for t in taken]


def fit_maker(strategy):
    def build():
        model = read_model()
        model.compile(optimizer=keras.optimizers.Adam(), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=["accuracy"])
        return model

    if strategy:
        with strategy.scope():
            model = build()
    else:
        model = build()

    def make(batch):
        shape = model.input_shape[1:]
        x, y = common.rows(shape, max(8 * batch, 20000 if len(shape) < 3 or shape[2] == 1 else 2000), args.data)
        data = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(BUFFER).batch(batch, drop_remainder=True)
        return Fit(model, data.repeat().prefetch(tf.data.AUTOTUNE))

    return make


def loop_maker(strategy):
    def build():
        model, optimizer = read_model(), keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
        return model, optimizer

    if strategy:
        with strategy.scope():
            model, optimizer = build()
    else:
        model, optimizer = build()
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def make(batch):
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(loss_fn(y, model(x, training=True)), global_batch_size=batch)
                if model.losses:
                    loss += tf.nn.scale_regularization_loss(tf.add_n(model.losses)) if strategy else tf.add_n(model.losses)
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            return loss

        if args.variant == "jit":
            step = tf.function(step, jit_compile=True)

        @tf.function
        def steps_of(iterator, count):
            for _ in tf.range(count):
                x, y = next(iterator)
                if strategy:
                    strategy.run(step, args=(x, y))
                else:
                    step(x, y)

        held = common.batches(model.input_shape[1:], batch, args.data)
        data = tf.data.Dataset.from_tensor_slices((tf.concat([x for x, _ in held], 0), tf.concat([y for _, y in held], 0)))
        data = data.batch(batch, drop_remainder=True).cache().repeat().prefetch(tf.data.AUTOTUNE)
        iterator = iter(strategy.experimental_distribute_dataset(data) if strategy else data)
        return lambda steps: steps_of(iterator, tf.constant(steps))

    return make


def main():
    strategy = set_up()
    common.serve(args, (fit_maker if args.variant.endswith("fit") else loop_maker)(strategy))


if __name__ == "__main__":
    sys.exit(main())
