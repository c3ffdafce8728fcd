"""PyTorch's side of the GPU benchmark: reads orders from standard input, answers each with a line starting with "@ ".

  hello                  answers versions and card
  prepare CASE...        prepares a case; the words are those of Workload.java
  time REPEATS           runs the case REPEATS times, answers seconds
  release                releases all memory

Settings are PyTorch's fastest: channels last, cudnn.benchmark, fused optimisers, no wait between steps. f32 is
multiplied in full precision unless the first argument after the device is "tf32".
"""
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda:0"
ON_GPU = DEVICE.startswith("cuda")
TF32 = "tf32" in sys.argv[2:]
TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}


def noise(kind, *shape):
    return torch.rand(*shape, device=DEVICE).mul_(2).sub_(1).to(TYPES[kind])


def wait():
    if ON_GPU:
        torch.cuda.synchronize()


# ---- operations ----

def copy(kind, n):
    a = noise(kind, n)
    return a.clone


def add(kind, n):
    a, b = noise(kind, n), noise(kind, n)
    return lambda: a + b


def gelu(kind, n):
    a = noise(kind, n)
    return lambda: F.gelu(a)


def chain(kind, n):
    a, b, c = noise(kind, n), noise(kind, n), noise(kind, n)
    run = torch.compile(lambda: F.gelu(a * b + c))
    return run


def bias(kind, rows, columns):
    a, b = noise(kind, rows, columns), noise(kind, columns)
    return lambda: a + b


def transpose(kind, rows, columns):
    a = noise(kind, rows, columns)
    return lambda: a.t().contiguous()


def cast(kind, n):
    a = noise(kind, n)
    return lambda: a.to(torch.float64)


def softmax(kind, rows, columns):
    a = noise(kind, rows, columns)
    return lambda: torch.softmax(a, 1)


def layernorm(kind, rows, columns):
    a, w, b = noise(kind, rows, columns), noise(kind, columns), noise(kind, columns)
    return lambda: F.layer_norm(a, (columns,), w, b)


def total(kind, rows, columns):
    a = noise(kind, rows, columns)
    return lambda: a.sum(1)


def matmul(kind, n):
    a, b = noise(kind, n, n), noise(kind, n, n)
    return lambda: a @ b


def conv(kind, batch, inputs, outputs, side):
    x = noise(kind, batch, inputs, side, side).to(memory_format=torch.channels_last).requires_grad_()
    w = noise(kind, outputs, inputs, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
    up = noise(kind, batch, outputs, side, side).to(memory_format=torch.channels_last)
    return lambda: torch.autograd.grad(F.conv2d(x, w, padding=1), (x, w), up)


def batchnorm(kind, batch, channels, side):
    x = noise(kind, batch, channels, side, side).to(memory_format=torch.channels_last).requires_grad_()
    w, b = noise("f32", channels).requires_grad_(), noise("f32", channels).requires_grad_()
    up = noise(kind, batch, channels, side, side).to(memory_format=torch.channels_last)
    return lambda: torch.autograd.grad(F.relu(F.batch_norm(x, None, None, w, b, True)), (x, w, b), up)


def attention(kind, batch, heads, length, width):
    q, k, v = (noise(kind, batch, heads, length, width).requires_grad_() for _ in range(3))
    up = noise(kind, batch, heads, length, width)
    return lambda: torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), up)


def padded(kind, batch, heads, length, width):
    q, k, v = (noise(kind, batch, heads, length, width).requires_grad_() for _ in range(3))
    up = noise(kind, batch, heads, length, width)
    ends = torch.tensor([-(-(n + 1) * length // batch) for n in range(batch)], device=DEVICE)
    mask = (torch.arange(length, device=DEVICE) < ends[:, None])[:, None, None]
    return lambda: torch.autograd.grad(F.scaled_dot_product_attention(q, k, v, attn_mask=mask), (q, k, v), up)


def lstm(kind, length, batch, inputs, units):
    layer = torch.nn.LSTM(inputs, units, device=DEVICE, dtype=TYPES[kind])
    x, up = noise(kind, length, batch, inputs).requires_grad_(), noise(kind, length, batch, units)
    return lambda: torch.autograd.grad(layer(x)[0], (x, *layer.parameters()), up)


# ---- networks ----

class Block(nn.Module):
    """A basic block of ResNet."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = None
        if inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def normalised(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]


class Plain(nn.Module):
    """A residual block of two normalised convolutions."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(*normalised(width, width), *normalised(width, width))

    def forward(self, x):
        return x + self.body(x)


def small_resnet(width):
    return nn.Sequential(*normalised(3, width), *normalised(width, 2 * width), nn.MaxPool2d(2), Plain(2 * width),
                         *normalised(2 * width, 4 * width), nn.MaxPool2d(2),
                         *normalised(4 * width, 8 * width), nn.MaxPool2d(2), Plain(8 * width),
                         nn.MaxPool2d(4), nn.Flatten(), nn.Linear(8 * width, 10))


def resnet(width):
    layers = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inputs = width
    for outputs in (width, 2 * width, 4 * width, 8 * width):
        layers += [Block(inputs, outputs, 1 if inputs == outputs else 2), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10))


class Layer(nn.Module):
    """A block of GPT-2."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (p.view(n, length, self.heads, width // self.heads).transpose(1, 2)
                   for p in self.project(self.norm1(x)).split(width, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, length, width))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, context, width, depth, heads):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Layer(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.tokens.weight, 0, 0.02)
        self.head.weight = self.tokens.weight

    def forward(self, text):
        x = self.tokens(text) + self.places(torch.arange(text.shape[1], device=text.device))
        return self.head(self.norm(self.blocks(x)))


def steps(kind, mode, model, optimizer, loss, inputs, targets):
    """One training step, with f32 weights and autocast for other types."""
    model = model.to(DEVICE).train()
    optimizer = optimizer(model.parameters())
    run = torch.compile(model) if mode == "captured" else model
    scaler = torch.amp.GradScaler(DEVICE.split(":")[0]) if kind == "f16" else None

    def step():
        optimizer.zero_grad(set_to_none=True)
        if kind == "f32":
            value = loss(run(inputs), targets)
        else:
            with torch.autocast(DEVICE.split(":")[0], TYPES[kind]):
                value = loss(run(inputs), targets)
        if scaler is None:
            value.backward()
            optimizer.step()
        else:
            scaler.scale(value).backward()
            scaler.step(optimizer)
            scaler.update()
    return step


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, fused=True)


def mlp(kind, batch, width, mode):
    model = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    return steps(kind, mode, model, sgd, F.cross_entropy, torch.rand(batch, 784, device=DEVICE),
                 torch.randint(10, (batch,), device=DEVICE))


def resnet9(kind, batch, width, mode):
    images = torch.rand(batch, 3, 32, 32, device=DEVICE).to(memory_format=torch.channels_last)
    return steps(kind, mode, small_resnet(width).to(memory_format=torch.channels_last),
                 lambda p: torch.optim.AdamW(p, lr=6e-3, weight_decay=0.01, fused=True), F.cross_entropy, images,
                 torch.randint(10, (batch,), device=DEVICE))


def resnet18(kind, batch, width, side, mode):
    images = torch.rand(batch, 3, side, side, device=DEVICE).to(memory_format=torch.channels_last)
    return steps(kind, mode, resnet(width).to(memory_format=torch.channels_last), sgd, F.cross_entropy, images,
                 torch.randint(10, (batch,), device=DEVICE))


def gpt2(kind, batch, length, width, depth, heads, vocabulary, mode):
    text = torch.randint(vocabulary, (batch, length + 1), device=DEVICE)
    return steps(kind, mode, Gpt2(vocabulary, length, width, depth, heads),
                 lambda p: torch.optim.AdamW(p, lr=3e-4, weight_decay=0.01, fused=True),
                 lambda logits, next: F.cross_entropy(logits.flatten(0, 1), next.flatten()),
                 text[:, :-1].contiguous(), text[:, 1:].contiguous())


CASES = {f.__name__: f for f in (copy, add, gelu, bias, transpose, cast, softmax, layernorm, batchnorm, matmul, conv,
                                 attention, padded, lstm, chain, mlp, resnet9, resnet18, gpt2)} | {"sum": total}


def main():
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = TF32
    torch.backends.cudnn.allow_tf32 = TF32
    torch.manual_seed(7)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of libraries goes to standard error
    work = None
    for line in sys.stdin:
        order, *words = line.split()
        try:
            if order == "hello":
                if ON_GPU:
                    torch.cuda.set_device(DEVICE)
                card = torch.cuda.get_device_name() if ON_GPU else "CPU"
                answer = f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN " \
                         f"{torch.backends.cudnn.version()}, {card}"
            elif order == "prepare":
                values = [int(w) if w.isdigit() else w for w in words[1:]]
                work = CASES[words[0]](*values)
                answer = "ready"
            elif order == "time":
                wait()
                start = time.perf_counter()
                for _ in range(int(words[0])):
                    work()
                wait()
                answer = repr(time.perf_counter() - start)
            else:
                work = None
                if ON_GPU:
                    torch.cuda.empty_cache()
                torch._dynamo.reset()
                answer = "released"
        except Exception as e:
            answer = "failed " + " ".join(f"{type(e).__name__}: {e}".split())[:300]
        print("@", answer, file=answers)


main()
