"""CPU training workloads in PyTorch. README.md says what each one computes."""
import argparse, json, os, statistics, tempfile, time

parser = argparse.ArgumentParser()
parser.add_argument("workload", nargs="?")
parser.add_argument("--mode", default="eager", choices=["eager", "compiled"])
parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--seconds", type=float, default=5)
parser.add_argument("--list", action="store_true")
args = parser.parse_args()
os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # every run compiles from nothing

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(args.threads)
torch.manual_seed(0)
rng = np.random.default_rng(0)
normal = lambda *shape: torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))
classes = lambda n, *shape: torch.from_numpy(rng.integers(0, n, shape))
image = lambda *shape: normal(*shape).to(memory_format=torch.channels_last)
ready = torch.compile if args.mode == "compiled" else lambda f: f


def adam(m):
    return [torch.optim.Adam(m.parameters(), lr=1e-3, fused=True)]


def sgd(m, momentum=0.9):
    return [torch.optim.SGD(m.parameters(), lr=0.01, momentum=momentum, fused=True)]


def training(model, loss, batches, optimizers, items, clip=None):
    """A step function over the batches in turn, the items in a step, the parameter count."""
    params = list(model.parameters())
    loss = ready(loss)

    def step(i):
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            value = loss(*batches[i % len(batches)])
        value.backward()
        if clip:
            nn.utils.clip_grad_norm_(params, clip)
        for o in optimizers:
            o.step()
            o.zero_grad(set_to_none=True)
        return value.item()

    return step, items, sum(p.numel() for p in params)


def classifier(model, x, labels, optimizers, items):
    return training(model, lambda x, y: F.cross_entropy(model(x), y), [(x, labels)], optimizers(model), items)


def dense(*widths, act=nn.ReLU):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def mlp_tiny():
    m = dense(5, 10, 1)
    return training(m, lambda x, y: F.mse_loss(m(x), y), [(normal(1000, 5), normal(1000, 1))], adam(m), 1000)


def mlp():
    return classifier(dense(784, 1024, 1024, 10), normal(512, 784), classes(10, 512), adam, 512)


def cnn():
    m = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(),
                      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 10))
    m.to(memory_format=torch.channels_last)
    return classifier(m, image(128, 1, 28, 28), classes(10, 128), adam, 128)


def cnn_blocks(separable):
    layers, c = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU()], 32
    for n in (64, 128, 256):
        if separable:
            layers += [nn.Conv2d(c, c, 3, padding=1, groups=c, bias=False), nn.Conv2d(c, n, 1, bias=False)]
        else:
            layers += [nn.Conv2d(c, n, 3, padding=1, bias=False)]
        layers += [nn.BatchNorm2d(n), nn.ReLU(), nn.MaxPool2d(2)]
        c = n
    m = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10))
    m.to(memory_format=torch.channels_last)
    return classifier(m, image(64, 3, 32, 32), classes(10, 64), sgd, 64)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.n1, self.n2, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        return x + self.mlp(self.n2(x))


class GPT(nn.Module):
    def __init__(self, layers=6, heads=6, width=384, context=256, vocabulary=65):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        nn.init.normal_(self.tokens.weight, std=0.02), nn.init.normal_(self.places.weight, std=0.02)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.blocks(self.tokens(ids) + self.places.weight)
        return F.linear(self.norm(x), self.tokens.weight)


def gpt_nano():
    m = GPT()
    opt = [torch.optim.AdamW(m.parameters(), lr=3e-4, weight_decay=0.1, fused=True)]
    loss = lambda x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten())
    return training(m, loss, [(classes(65, 8, 256), classes(65, 8, 256))], opt, 8 * 256, clip=1.0)


def attention_long():
    m = Attention(512, 8)
    return training(m, lambda x: m(x).square().mean(), [(normal(1, 4096, 512),)], sgd(m, momentum=0), 4096)


def recsys():
    tables = nn.ModuleList(nn.Embedding(100_000, 16, sparse=True) for _ in range(26))
    for t in tables:
        nn.init.normal_(t.weight, std=0.01)
    m = nn.ModuleDict(dict(tables=tables, bottom=nn.Sequential(dense(13, 64, 16), nn.ReLU()), top=dense(432, 256, 64, 1)))
    rest = [*m["bottom"].parameters(), *m["top"].parameters()]
    ada = dict(lr=0.01, initial_accumulator_value=0.1, eps=1e-7)
    opts = [torch.optim.Adagrad(tables.parameters(), **ada), torch.optim.Adagrad(rest, fused=True, **ada)]
    power = np.arange(1, 100_001) ** -1.05
    power /= power.sum()
    batches = [(torch.from_numpy(rng.choice(100_000, (2048, 26), p=power)), normal(2048, 13),
                classes(2, 2048, 1).float()) for _ in range(16)]
    mlps = ready(lambda found, x, y: F.binary_cross_entropy_with_logits(
        m["top"](torch.cat([*found, m["bottom"](x)], 1)), y))

    def step(i):
        ids, x, y = batches[i % 16]
        loss = mlps([t(ids[:, j]) for j, t in enumerate(tables)], x, y)  # sparse gradients stay outside the compiler
        loss.backward()
        for o in opts:
            o.step()
            o.zero_grad(set_to_none=True)
        return loss.item()

    return step, 2048, sum(p.numel() for p in m.parameters())


def derivative(model, f, x, items):
    model.requires_grad_(False)
    f = ready(f)
    return lambda i: f(x).square().mean().item(), items, sum(p.numel() for p in model.parameters())


def input_grad():
    m = dense(100, 256, 256, 1, act=nn.Tanh)
    return derivative(m, torch.func.grad(lambda x: m(x).sum()), normal(200_000, 100), 200_000)


def batch_jacobian():
    m = dense(64, 256, 64, act=nn.Tanh)
    return derivative(m, torch.func.vmap(torch.func.jacrev(m)), normal(1024, 64), 1024)


class UNet(nn.Module):
    def __init__(self, widths=(16, 32, 64), bottom=128):
        super().__init__()
        pair = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
        self.down = nn.ModuleList(pair(a, b) for a, b in zip((3, *widths), widths))
        self.bottom = pair(widths[-1], bottom)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths))
        self.join = nn.ModuleList(pair(2 * w, w) for w in reversed(widths))
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for d in self.down:
            kept.append(d(x))
            x = F.max_pool2d(kept[-1], 2)
        x = self.bottom(x)
        for u, j in zip(self.up, self.join):
            x = j(torch.cat([u(x), kept.pop()], 1))
        return self.head(x)


def unet():
    m = UNet().to(memory_format=torch.channels_last)
    return classifier(m, image(8, 3, 128, 128), classes(2, 8, 128, 128), adam, 8)


def lstm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.out = nn.LSTM(64, 256, batch_first=True), nn.Linear(256, 10)

        def forward(self, x):
            return self.out(self.lstm(x)[0][:, -1])
    return classifier(Net(), normal(64, 64, 64), classes(10, 64), adam, 64)


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride):
        super().__init__()
        conv = lambda a, b, k, s: nn.Sequential(nn.Conv2d(a, b, k, s, k // 2, bias=False), nn.BatchNorm2d(b))
        self.a, self.b, self.c = conv(cin, width, 1, 1), conv(width, width, 3, stride), conv(width, 4 * width, 1, 1)
        self.short = conv(cin, 4 * width, 1, stride) if cin != 4 * width else nn.Identity()

    def forward(self, x):
        return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + self.short(x))


def resnet50():
    layers, c = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for n in range(count):
            layers.append(Bottleneck(c, width, stride if n == 0 else 1))
            c = 4 * width
    m = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    m.to(memory_format=torch.channels_last)
    return classifier(m, image(8, 3, 224, 224), classes(1000, 8), sgd, 8)


class Images(torch.utils.data.Dataset):
    """Answers one index with one image, or a list of indices with a whole batch."""
    def __init__(self):
        self.x = torch.from_numpy(rng.integers(0, 256, (60_000, 28, 28), dtype=np.uint8))
        self.y = classes(10, 60_000)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = (self.x[i].float() / 255 - 0.13) / 0.31
        if isinstance(i, list):
            flip = torch.rand(len(i), 1, 1) < 0.5
            return torch.where(flip, x.flip(-1), x), self.y[i]
        return (x.flip(-1) if torch.rand(()) < 0.5 else x), self.y[i]


def pipeline(batched):
    data, torch_data = Images(), torch.utils.data
    if batched:
        order = torch_data.BatchSampler(torch_data.RandomSampler(data), 128, drop_last=False)
        loader = torch_data.DataLoader(data, sampler=order, batch_size=None, num_workers=0)
    else:
        loader = torch_data.DataLoader(data, 128, shuffle=True, num_workers=2, persistent_workers=True)

    def epoch(i):
        for x, y in loader:
            pass
        return x.mean().item()

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
        engine="torch", version=torch.__version__, workload=args.workload, mode=args.mode, precision=args.precision,
        threads=args.threads, step_ms_median=round(median * 1e3 / parts, 4), step_ms_min=round(min(times) * 1e3 / parts, 4),
        items_per_s=round(items / median, 1), first_step_s=round(first, 3), peak_rss_mb=peak_mb(), params=params,
        loss_first=round(losses[0], 5), loss_last=round(losses[-1], 5), steps=len(times))))


if __name__ == "__main__":
    main()
