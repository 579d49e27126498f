"""CPU training workloads in JAX. README.md says what each one computes."""
import argparse, json, os, statistics, time

parser = argparse.ArgumentParser()
parser.add_argument("workload", nargs="?")
parser.add_argument("--mode", default="compiled", choices=["compiled"])
parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--seconds", type=float, default=5)
parser.add_argument("--list", action="store_true")
args = parser.parse_args()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:args.threads])  # XLA makes one thread per allowed core
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.tree_util import tree_leaves, tree_map

rng = np.random.default_rng(0)
normal = lambda *shape: jnp.asarray(rng.standard_normal(shape, dtype=np.float32))
classes = lambda n, *shape: jnp.asarray(rng.integers(0, n, shape, dtype=np.int32))
compute = jnp.bfloat16 if args.precision == "bf16" else jnp.float32


def weight(*shape):
    return normal(*shape) * np.float32(np.sqrt(2 / np.prod(shape[:-1])))


def affine(a, b):
    return dict(w=weight(a, b), b=jnp.zeros(b))


def apply(p, x):
    return x @ p["w"] + p["b"]


def dense(*widths):
    return [affine(a, b) for a, b in zip(widths, widths[1:])]


def run(layers, x, act=jax.nn.relu):
    for p in layers[:-1]:
        x = act(apply(p, x))
    return apply(layers[-1], x)


def cross_entropy(logits, y):
    logs = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(logs, y[..., None], -1).mean()


# Optimizers: (state at the start, update(gradients, state, params) -> new state, new params).

def adam(params, lr=1e-3, decay=0.0, clip=None, eps=1e-8):
    start = (jnp.zeros(()), tree_map(jnp.zeros_like, params), tree_map(jnp.zeros_like, params))

    def update(g, state, params):
        t, m, v = state
        t = t + 1
        if clip:
            norm = jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_leaves(g)))
            g = tree_map(lambda x: x * jnp.minimum(1, clip / norm), g)
        m = tree_map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        a, b = 1 / (1 - 0.9 ** t), 1 / (1 - 0.999 ** t)
        params = tree_map(lambda p, m, v: p - lr * (a * m / (jnp.sqrt(b * v) + eps) + decay * p), params, m, v)
        return (t, m, v), params
    return start, update


def sgd(params, momentum=0.9):
    def update(g, state, params):
        if momentum:
            g = state = tree_map(lambda v, g: momentum * v + g, state, g)
        return state, tree_map(lambda p, g: p - 0.01 * g, params, g)
    return (tree_map(jnp.zeros_like, params) if momentum else ()), update


def adagrad(params):
    def update(g, state, params):
        state = tree_map(lambda s, g: s + g * g, state, g)
        return state, tree_map(lambda p, g, s: p - 0.01 * g / (jnp.sqrt(s) + 1e-7), params, g, state)
    return tree_map(lambda p: jnp.full_like(p, 0.1), params), update


def training(params, loss, batches, optimizer, items, stats=None):
    """A step function over the batches in turn, the items in a step, the parameter count.
    loss(params, *batch) gives a value, or with `stats` (value, new running statistics)."""
    state, update = optimizer
    narrow = lambda t: tree_map(lambda v: v.astype(compute) if v.dtype == jnp.float32 else v, t)
    count = sum(p.size for p in tree_leaves(params))

    def lossy(params, stats, *batch):
        out = loss(narrow(params), *narrow(batch))
        if stats is None:
            return out, None
        return out[0], tree_map(lambda a, b: 0.9 * a + 0.1 * b, stats, out[1])

    def train(params, state, stats, *batch):
        (value, stats), g = jax.value_and_grad(lossy, has_aux=True)(params, stats, *batch)
        state, params = update(g, state, params)
        return value, params, state, stats

    train = jax.jit(train, donate_argnums=(0, 1, 2))
    held = [params, state, stats]

    def step(i):
        value, *held[:] = jax.block_until_ready(train(*held, *batches[i % len(batches)]))
        return float(value)
    return step, items, count


def mlp_tiny():
    p = dense(5, 10, 1)
    loss = lambda p, x, y: jnp.mean((run(p, x) - y) ** 2)
    return training(p, loss, [(normal(1000, 5), normal(1000, 1))], adam(p), 1000)


def mlp():
    p = dense(784, 1024, 1024, 10)
    return training(p, lambda p, x, y: cross_entropy(run(p, x), y), [(normal(512, 784), classes(10, 512))], adam(p), 512)


def conv(x, w, stride=1, padding="SAME", groups=1):
    return lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                    feature_group_count=groups)


def maxpool(x, size=2, stride=2, padding="VALID"):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), padding)


def batch_norm(p, x, stats):
    mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
    stats.append((lax.stop_gradient(mean.astype(jnp.float32)), lax.stop_gradient(var.astype(jnp.float32))))
    return (x - mean) * lax.rsqrt(var + 1e-5) * p[0] + p[1]


def norm_params(n):
    return jnp.ones(n), jnp.zeros(n)


def cnn():
    p = dict(c1=(weight(3, 3, 1, 32), jnp.zeros(32)), c2=(weight(3, 3, 32, 64), jnp.zeros(64)), top=dense(1600, 128, 10))

    def loss(p, x, y):
        for c in (p["c1"], p["c2"]):
            x = maxpool(jax.nn.relu(conv(x, c[0], padding="VALID") + c[1]))
        return cross_entropy(run(p["top"], x.reshape(len(x), -1)), y)
    return training(p, loss, [(normal(128, 28, 28, 1), classes(10, 128))], adam(p), 128)


def cnn_blocks(separable):
    p, stats = dict(stem=(weight(3, 3, 3, 32), jnp.zeros(32)), blocks=[], top=affine(256, 10)), []
    for a, b in ((32, 64), (64, 128), (128, 256)):
        w = (weight(3, 3, 1, a), weight(1, 1, a, b)) if separable else (weight(3, 3, a, b),)
        p["blocks"].append((w, norm_params(b)))
        stats.append((jnp.zeros(b), jnp.ones(b)))

    def loss(p, x, y):
        new = []
        x = jax.nn.relu(conv(x, p["stem"][0]) + p["stem"][1])
        for w, n in p["blocks"]:
            x = conv(conv(x, w[0], groups=x.shape[-1]), w[1]) if separable else conv(x, w[0])
            x = maxpool(jax.nn.relu(batch_norm(n, x, new)))
        return cross_entropy(apply(p["top"], x.mean((1, 2))), y), new
    return training(p, loss, [(normal(64, 32, 32, 3), classes(10, 64))], sgd(p), 64, stats)


def attention(p, x, heads):
    b, t, w = x.shape
    q, k, v = jnp.moveaxis(apply(p["qkv"], x).reshape(b, t, 3, heads, -1), 2, 0)
    return apply(p["out"], jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(b, t, w))


def layer_norm(p, x):
    y = x.astype(jnp.float32)
    y = (y - y.mean(-1, keepdims=True)) * lax.rsqrt(y.var(-1, keepdims=True) + 1e-5)
    return y.astype(x.dtype) * p[0] + p[1]


def gpt_nano(layers=6, heads=6, width=384, context=256, vocabulary=65):
    block = lambda: dict(n1=norm_params(width), n2=norm_params(width), qkv=affine(width, 3 * width),
                         out=affine(width, width), up=affine(width, 4 * width), down=affine(4 * width, width))
    p = dict(tokens=normal(vocabulary, width) * 0.02, places=normal(context, width) * 0.02,
             blocks=[block() for _ in range(layers)], norm=norm_params(width))

    def loss(p, ids, y):
        x = p["tokens"][ids] + p["places"]
        for b in p["blocks"]:
            x = x + attention(b, layer_norm(b["n1"], x), heads)
            x = x + apply(b["down"], jax.nn.gelu(apply(b["up"], layer_norm(b["n2"], x))))
        return cross_entropy(layer_norm(p["norm"], x) @ p["tokens"].T, y)
    opt = adam(p, 3e-4, decay=0.1, clip=1.0)
    return training(p, loss, [(classes(65, 8, 256), classes(65, 8, 256))], opt, 8 * 256)


def attention_long():
    p = dict(qkv=affine(512, 1536), out=affine(512, 512))
    return training(p, lambda p, x: jnp.mean(attention(p, x, 8) ** 2), [(normal(1, 4096, 512),)], sgd(p, 0), 4096)


def recsys():
    p = dict(tables=[normal(100_000, 16) * 0.01 for _ in range(26)], bottom=dense(13, 64, 16), top=dense(432, 256, 64, 1))
    power = np.arange(1, 100_001) ** -1.05
    power /= power.sum()
    batches = [(jnp.asarray(rng.choice(100_000, (2048, 26), p=power).astype(np.int32)), normal(2048, 13),
                classes(2, 2048, 1).astype(jnp.float32)) for _ in range(16)]

    def loss(p, ids, x, y):
        found = [t[ids[:, j]] for j, t in enumerate(p["tables"])]  # the tables' gradients are dense
        z = run(p["top"], jnp.concatenate([*found, jax.nn.relu(run(p["bottom"], x))], 1))
        return jnp.mean(jnp.maximum(z, 0) - z * y + jnp.log1p(jnp.exp(-jnp.abs(z))))
    return training(p, loss, batches, adagrad(p), 2048)


def derivative(p, f, x, items):
    f = jax.jit(f)
    check = jax.jit(lambda g: jnp.mean(g * g))
    return lambda i: float(check(f(p, x))), items, sum(v.size for v in tree_leaves(p))


def input_grad():
    f = jax.grad(lambda p, x: run(p, x, jnp.tanh).sum(), 1)
    return derivative(dense(100, 256, 256, 1), f, normal(200_000, 100), 200_000)


def batch_jacobian():
    f = jax.vmap(jax.jacrev(lambda p, x: run(p, x, jnp.tanh), 1), (None, 0))
    return derivative(dense(64, 256, 64), f, normal(1024, 64), 1024)


def unet(widths=(16, 32, 64), bottom=128):
    c = lambda a, b, k=3: (weight(k, k, a, b), jnp.zeros(b))
    pair = lambda a, b: (c(a, b), c(b, b))
    p = dict(down=[pair(a, b) for a, b in zip((3, *widths), widths)], bottom=pair(widths[-1], bottom),
             up=[(c(2 * w, w, 2), pair(2 * w, w)) for w in reversed(widths)], head=c(widths[0], 2, 1))

    def both(q, x):
        for w, b in q:
            x = jax.nn.relu(conv(x, w) + b)
        return x

    def loss(p, x, y):
        kept = []
        for q in p["down"]:
            kept.append(both(q, x))
            x = maxpool(kept[-1])
        x = both(p["bottom"], x)
        for (w, b), q in p["up"]:
            x = lax.conv_transpose(x, w, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + b
            x = both(q, jnp.concatenate([x, kept.pop()], -1))
        return cross_entropy(conv(x, p["head"][0]) + p["head"][1], y)
    return training(p, loss, [(normal(8, 128, 128, 3), classes(2, 8, 128, 128))], adam(p), 8)


def lstm():
    p = dict(x=affine(64, 1024), h=weight(256, 1024), top=affine(256, 10))

    def loss(p, x, y):
        def cell(carry, z):
            h, c = carry
            i, f, g, o = jnp.split(z + h @ p["h"], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None
        zero = jnp.zeros((len(x), 256), x.dtype)
        (h, _), _ = lax.scan(cell, (zero, zero), jnp.moveaxis(apply(p["x"], x), 1, 0))
        return cross_entropy(apply(p["top"], h), y)
    return training(p, loss, [(normal(64, 64, 64), classes(10, 64))], adam(p), 64)


def resnet50():
    p, stats, strides, c = dict(stem=(weight(7, 7, 3, 64), norm_params(64)), blocks=[], top=affine(2048, 1000)), [64], [], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for n in range(count):
            shapes = [(1, c, width), (3, width, width), (1, width, 4 * width)] + ([(1, c, 4 * width)] if n == 0 else [])
            p["blocks"].append([(weight(k, k, a, b), norm_params(b)) for k, a, b in shapes])
            stats += [b for _, _, b in shapes]
            strides.append(stride if n == 0 else 1)
            c = 4 * width

    def loss(p, x, y):
        new = []
        unit = lambda q, x, s=1: batch_norm(q[1], conv(x, q[0], s, [(q[0].shape[0] // 2,) * 2] * 2), new)
        x = maxpool(jax.nn.relu(unit(p["stem"], x, 2)), 3, 2, ((0, 0), (1, 1), (1, 1), (0, 0)))
        for q, s in zip(p["blocks"], strides):
            z = unit(q[2], jax.nn.relu(unit(q[1], jax.nn.relu(unit(q[0], x)), s)))
            x = jax.nn.relu(z + (unit(q[3], x, s) if len(q) > 3 else x))
        return cross_entropy(apply(p["top"], x.mean((1, 2))), y), new
    stats = [(jnp.zeros(n), jnp.ones(n)) for n in stats]
    return training(p, loss, [(normal(8, 224, 224, 3), classes(1000, 8))], sgd(p), 8, stats)


WORKLOADS = {
    "mlp-tiny": mlp_tiny, "mlp": mlp, "cnn": cnn, "cnn-separable": lambda: cnn_blocks(True),
    "cnn-dense": lambda: cnn_blocks(False), "gpt-nano": gpt_nano, "attention-long": attention_long,
    "recsys": recsys, "input-grad": input_grad, "batch-jacobian": batch_jacobian, "unet": unet, "lstm": lstm,
    "resnet50": resnet50,
}


def peak_mb():
    line = next(l for l in open("/proc/self/status") if l.startswith("VmHWM"))
    return round(int(line.split()[1]) / 1024)


def main():
    if args.list:
        return print("\n".join(WORKLOADS))
    step, items, params = WORKLOADS[args.workload]()
    start = time.perf_counter()
    losses, times = [step(0)], []
    first = time.perf_counter() - start
    for i in range(1, 4):
        losses.append(step(i))
    begin = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < args.seconds:
        start = time.perf_counter()
        losses.append(step(len(losses)))
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    print(json.dumps(dict(
        engine="jax", version=jax.__version__, workload=args.workload, mode=args.mode, precision=args.precision,
        threads=args.threads, step_ms_median=round(median * 1e3, 4), step_ms_min=round(min(times) * 1e3, 4),
        items_per_s=round(items / median, 1), first_step_s=round(first, 3), peak_rss_mb=peak_mb(), params=params,
        loss_first=round(losses[0], 5), loss_last=round(losses[-1], 5), steps=len(times))))


if __name__ == "__main__":
    main()
