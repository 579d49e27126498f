"""CPU training workloads in TensorFlow/Keras. README.md says what each one computes."""
import argparse, json, os, statistics, time

parser = argparse.ArgumentParser()
parser.add_argument("workload", nargs="?")
parser.add_argument("--mode", default="compiled", choices=["eager", "compiled", "xla"])
parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--seconds", type=float, default=5)
parser.add_argument("--list", action="store_true")
args = parser.parse_args()
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np
import tensorflow as tf
import keras
from keras import layers as L

tf.config.threading.set_intra_op_parallelism_threads(args.threads)
if args.precision == "bf16":
    keras.config.set_dtype_policy("mixed_bfloat16")
keras.utils.set_random_seed(0)
rng = np.random.default_rng(0)
normal = lambda *shape: tf.constant(rng.standard_normal(shape, dtype=np.float32))
classes = lambda n, *shape: tf.constant(rng.integers(0, n, shape))


def ready(f):
    return f if args.mode == "eager" else tf.function(f, jit_compile=args.mode == "xla")


def cross_entropy(y, logits):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, tf.cast(logits, tf.float32)))


def adam():
    return keras.optimizers.Adam(1e-3, epsilon=1e-8)


def sgd(momentum=0.9):
    return keras.optimizers.SGD(0.01, momentum=momentum)


def training(variables, loss, batches, optimizer, items):
    """A step function over the batches in turn, the items in a step, the parameter count."""
    optimizer.build(variables)

    @ready
    def train(*batch):
        with tf.GradientTape() as tape:
            value = loss(*batch)
        optimizer.apply_gradients(zip(tape.gradient(value, variables), variables))
        return value

    count = sum(int(np.prod(v.shape)) for v in variables)
    return lambda i: float(train(*batches[i % len(batches)])), items, count


def classifier(model, x, labels, optimizer, items):
    model(x)
    return training(model.trainable_variables, lambda x, y: cross_entropy(y, model(x, training=True)),
                    [(x, labels)], optimizer, items)


def dense(*widths, act="relu"):
    hidden = [L.Dense(w, act) for w in widths[1:-1]]
    return keras.Sequential([keras.Input((widths[0],)), *hidden, L.Dense(widths[-1])])


def mlp_tiny():
    m = dense(5, 10, 1)
    return training(m.trainable_variables, lambda x, y: tf.reduce_mean(tf.square(m(x) - y)),
                    [(normal(1000, 5), normal(1000, 1))], adam(), 1000)


def mlp():
    return classifier(dense(784, 1024, 1024, 10), normal(512, 784), classes(10, 512), adam(), 512)


def cnn():
    m = keras.Sequential([L.Conv2D(32, 3, activation="relu"), L.MaxPool2D(), L.Conv2D(64, 3, activation="relu"),
                          L.MaxPool2D(), L.Flatten(), L.Dense(128, "relu"), L.Dense(10)])
    return classifier(m, normal(128, 28, 28, 1), classes(10, 128), adam(), 128)


def cnn_blocks(separable):
    conv = L.SeparableConv2D if separable else L.Conv2D
    parts = [L.Conv2D(32, 3, padding="same", activation="relu")]
    for n in (64, 128, 256):
        parts += [conv(n, 3, padding="same", use_bias=False), L.BatchNormalization(), L.ReLU(), L.MaxPool2D()]
    m = keras.Sequential([*parts, L.GlobalAveragePooling2D(), L.Dense(10)])
    return classifier(m, normal(64, 32, 32, 3), classes(10, 64), sgd(), 64)


class Attention(L.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, L.Dense(3 * width), L.Dense(width)

    def build(self, shape):
        self.qkv.build(shape), self.out.build(shape)

    def call(self, x):
        b, t, w = x.shape
        q, k, v = tf.unstack(tf.reshape(self.qkv(x), (b, t, 3, self.heads, w // self.heads)), axis=2)
        y = keras.ops.dot_product_attention(q, k, v, is_causal=True)
        return self.out(tf.reshape(y, (b, t, w)))


class GPT(keras.Model):
    def __init__(self, layers=6, heads=6, width=384, context=256, vocabulary=65):
        super().__init__()
        start = keras.initializers.RandomNormal(stddev=0.02)
        self.tokens, self.places = L.Embedding(vocabulary, width, start), L.Embedding(context, width, start)
        self.parts = [(L.LayerNormalization(epsilon=1e-5), Attention(width, heads), L.LayerNormalization(epsilon=1e-5),
                       L.Dense(4 * width), L.Dense(width)) for _ in range(layers)]
        self.all_parts = [p for part in self.parts for p in part]  # so that Keras tracks them
        self.norm, self.positions = L.LayerNormalization(epsilon=1e-5), tf.range(context)

    def call(self, ids):
        x = self.tokens(ids) + self.places(self.positions)
        for n1, attention, n2, up, down in self.parts:
            x = x + attention(n1(x))
            x = x + down(tf.nn.gelu(up(n2(x)), approximate=True))
        x = self.norm(x)
        return tf.matmul(x, tf.cast(self.tokens.embeddings, x.dtype), transpose_b=True)


def gpt_nano():
    opt = keras.optimizers.AdamW(3e-4, epsilon=1e-8, weight_decay=0.1, global_clipnorm=1.0)
    return classifier(GPT(), classes(65, 8, 256), classes(65, 8, 256), opt, 8 * 256)


def attention_long():
    m, x = Attention(512, 8), normal(1, 4096, 512)
    m.build(x.shape)
    return training(m.trainable_variables, lambda x: tf.reduce_mean(tf.square(m(x))), [(x,)], sgd(0.0), 4096)


def recsys():
    tables = [tf.Variable(tf.random.normal((100_000, 16), stddev=0.01)) for _ in range(26)]
    tables = [keras.Variable(t, name=f"table{i}") for i, t in enumerate(tables)]
    bottom, top = dense(13, 64, 16), dense(432, 256, 64, 1)
    power = np.arange(1, 100_001) ** -1.05
    power /= power.sum()
    batches = [(tf.constant(rng.choice(100_000, (2048, 26), p=power)), normal(2048, 13),
                tf.cast(classes(2, 2048, 1), tf.float32)) for _ in range(16)]

    def loss(ids, x, y):
        found = [tf.gather(t.value, ids[:, j]) for j, t in enumerate(tables)]  # gradients are IndexedSlices
        logits = top(tf.concat([*found, tf.nn.relu(bottom(x))], 1))
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))

    variables = tables + bottom.trainable_variables + top.trainable_variables
    opt = keras.optimizers.Adagrad(0.01, initial_accumulator_value=0.1, epsilon=1e-7)
    return training(variables, loss, batches, opt, 2048)


def derivative(model, f, x, items):
    f = ready(f)
    return lambda i: float(tf.reduce_mean(tf.square(f(x)))), items, model.count_params()


def input_grad():
    m = dense(100, 256, 256, 1, act="tanh")

    def f(x):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            y = tf.reduce_sum(m(x))
        return tape.gradient(y, x)
    return derivative(m, f, normal(200_000, 100), 200_000)


def batch_jacobian():
    m = dense(64, 256, 64, act="tanh")

    def f(x):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            y = m(x)
        return tape.batch_jacobian(y, x)
    return derivative(m, f, normal(1024, 64), 1024)


def unet():
    conv = lambda w, x: L.Conv2D(w, 3, padding="same", activation="relu")(x)
    x = inputs = keras.Input((128, 128, 3))
    kept = []
    for w in (16, 32, 64):
        kept.append(conv(w, conv(w, x)))
        x = L.MaxPool2D()(kept[-1])
    x = conv(128, conv(128, x))
    for w in (64, 32, 16):
        x = L.Concatenate()([L.Conv2DTranspose(w, 2, 2)(x), kept.pop()])
        x = conv(w, conv(w, x))
    m = keras.Model(inputs, L.Conv2D(2, 1)(x))
    return classifier(m, normal(8, 128, 128, 3), classes(2, 8, 128, 128), adam(), 8)


def lstm():
    m = keras.Sequential([L.LSTM(256), L.Dense(10)])
    return classifier(m, normal(64, 64, 64), classes(10, 64), adam(), 64)


def resnet50():
    def conv(x, n, k, s):
        x = L.ZeroPadding2D(k // 2)(x) if s > 1 and k > 1 else x
        x = L.Conv2D(n, k, s, padding="valid" if s > 1 else "same", use_bias=False)(x)
        return L.BatchNormalization(epsilon=1e-5)(x)

    inputs = keras.Input((224, 224, 3))
    x = L.MaxPool2D(3, 2, "same")(L.ReLU()(conv(inputs, 64, 7, 2)))
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for n in range(count):
            s = stride if n == 0 else 1
            short = x if n else conv(x, 4 * width, 1, s)
            y = L.ReLU()(conv(x, width, 1, 1))
            y = L.ReLU()(conv(y, width, 3, s))
            x = L.ReLU()(L.Add()([conv(y, 4 * width, 1, 1), short]))
    m = keras.Model(inputs, L.Dense(1000)(L.GlobalAveragePooling2D()(x)))
    return classifier(m, normal(8, 224, 224, 3), classes(1000, 8), sgd(), 8)


def pipeline(batched):
    data = (rng.integers(0, 256, (60_000, 28, 28), dtype=np.uint8), rng.integers(0, 10, 60_000))
    scale = lambda x: (tf.cast(x, tf.float32) / 255 - 0.13) / 0.31
    one = lambda x, y: (tf.cond(tf.random.uniform(()) < 0.5, lambda: scale(x)[:, ::-1], lambda: scale(x)), y)
    many = lambda x, y: (tf.where(tf.random.uniform((tf.shape(x)[0], 1, 1)) < 0.5, scale(x)[:, :, ::-1], scale(x)), y)
    set_ = tf.data.Dataset.from_tensor_slices(data).shuffle(10_000)
    if batched:
        set_ = set_.batch(128).map(many, num_parallel_calls=tf.data.AUTOTUNE)
    else:
        set_ = set_.map(one, num_parallel_calls=tf.data.AUTOTUNE).batch(128)
    set_ = set_.prefetch(tf.data.AUTOTUNE)

    def epoch(i):
        for x, y in set_:
            pass
        return float(tf.reduce_mean(x))
    return epoch, 60_000, 0


WORKLOADS = {
    "mlp-tiny": mlp_tiny, "mlp": mlp, "cnn": cnn, "cnn-separable": lambda: cnn_blocks(True),
    "cnn-dense": lambda: cnn_blocks(False), "gpt-nano": gpt_nano, "attention-long": attention_long,
    "recsys": recsys, "input-grad": input_grad, "batch-jacobian": batch_jacobian, "unet": unet, "lstm": lstm,
    "resnet50": resnet50, "pipeline": lambda: pipeline(False), "pipeline-batched": lambda: pipeline(True),
}


def peak_mb():
    line = next(l for l in open("/proc/self/status") if l.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024)


def main():
    if args.list:
        return print("\n".join(WORKLOADS))
    step, items, params = WORKLOADS[args.workload]()
    epochs = args.workload.startswith("pipeline")
    start = time.perf_counter()
    losses, times = [step(0)], []
    first = time.perf_counter() - start
    for i in range(1, 2 if epochs or first > 3 and args.mode == "eager" else 4):
        losses.append(step(i))
    begin = time.perf_counter()
    while len(times) < (2 if epochs else 5) or time.perf_counter() - begin < args.seconds:
        start = time.perf_counter()
        losses.append(step(len(losses)))
        times.append(time.perf_counter() - start)
    parts = 469 if epochs else 1
    median = statistics.median(times)
    print(json.dumps(dict(
        engine="tensorflow", version=tf.__version__, workload=args.workload, mode=args.mode, precision=args.precision,
        threads=args.threads, step_ms_median=round(median * 1e3 / parts, 4), step_ms_min=round(min(times) * 1e3 / parts, 4),
        items_per_s=round(items / median, 1), first_step_s=round(first, 3), peak_rss_mb=peak_mb(), params=params,
        loss_first=round(losses[0], 5), loss_last=round(losses[-1], 5), steps=len(times))))


if __name__ == "__main__":
    main()
