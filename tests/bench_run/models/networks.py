"""Small networks of our own, and what a chain says they compute."""

import numpy as np
import torch
from torch import nn

from bench_run.graph.sources.suites import read_suite
from bench_run.models.lower import ModelLowering, fuse, take_apart
from bench_run.models.own import LOWERINGS
from bench_run.models.save import save_model
from bench_run.plan.load import read_chain
from bench_run.tensors.computed import compute_expected
from bench_run.tensors.seeded.inputs import make_chain_inputs


class Block(nn.Module):
    """A residual block, its second convolution with a bias."""

    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(width)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + x)


class Attention(nn.Module):
    """Attention spelt out, as exporters without an operation for it do."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, s, e = x.shape
        parts = self.qkv(self.norm(x)).reshape(b, s, 3, self.heads, e // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.softmax(q @ k.transpose(-2, -1) / (e // self.heads) ** 0.5, -1)
        return x + self.out((scores @ v).transpose(1, 2).reshape(b, s, e))


class Strange(nn.Module):
    """Two layers with an operation between them that no graph expresses."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.two(torch.erfinv(self.one(x)))


class WritesIntoView(nn.Module):
    """What is written through one name is read through another."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        y = self.one(x)
        y[:, :2].mul_(2)
        return self.two(y)


class Overwrites(nn.Module):
    """A batch norm and an activation that overwrite what they read, read again afterwards."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.norm(self.conv(x))
        z = y.relu_()
        return z + y


class DependsOnValues(nn.Module):
    def forward(self, x):
        return x[x > 0]


def with_statistics(module):
    """As after training: batch norms that do something."""
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            nn.init.normal_(norm.weight)
            nn.init.normal_(norm.bias)
    return module


def make_cnn():
    torch.manual_seed(0)
    head = (nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    tail = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    return with_statistics(nn.Sequential(*head, Block(8), Block(8), *tail))


def make_encoder():
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")


def make_encoder_seq_first():
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(32, 4, 64)


def make_attention():
    torch.manual_seed(0)
    return Attention()


def make_strange():
    torch.manual_seed(0)
    return Strange()


def make_writes_into_view():
    return WritesIntoView()


def make_depends_on_values():
    return DependsOnValues()


def make_overwrites():
    torch.manual_seed(0)
    return with_statistics(Overwrites())


NETWORKS = {
    "overwrites": (make_overwrites, (2, 3, 6, 6)),
    "cnn": (make_cnn, (2, 3, 16, 16)),
    "encoder": (make_encoder, (2, 5, 32)),
    "encoder_seq_first": (make_encoder_seq_first, (5, 2, 32)),
    "attention": (make_attention, (2, 5, 32)),
}


def save(model, folder, *, fused=True, layout="nchw", weights=True, backward=False):
    """The model's pipeline in a folder."""
    lowering = ModelLowering(fuse(model) if fused else take_apart(model), LOWERINGS, layout)
    lowering.run()
    return save_model(lowering, folder, weights=weights, backward=backward)


def difference(path, module, dims):
    """Largest error of the chain's float64 reference against PyTorch in float64."""
    pipeline = read_suite(path)
    chain = read_chain(path).graph
    inputs = make_chain_inputs(chain, 0, ())
    (given,) = (t for t in chain.inputs if t.uid not in chain.weights)
    x = torch.randn(*dims, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    order = list(range(len(dims)))
    if len(given.dims) == len(dims):
        order.sort(key=lambda axis: -given.strides[axis])
    inputs[given.uid][...] = x.permute(order).contiguous().numpy().reshape(-1)
    outputs = compute_expected(chain, inputs)
    (link,) = pipeline.outputs
    (last,) = (t for t in chain.outputs if t.name == f"{link.layer}:{link.tensor}")
    wanted = module.eval().double()(x).detach().numpy()
    found = np.asarray(outputs[last.uid]).reshape(wanted.shape)
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())
