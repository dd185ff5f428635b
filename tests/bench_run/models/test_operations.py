"""Small models of PyTorch, one operation each: the chain's float64 reference is what PyTorch gives,
or the operation is listed with the reason."""

import pytest

torch = pytest.importorskip("torch", reason="these are models of PyTorch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from bench_run.models.torch_export import model_of  # noqa: E402
from bench_run.plan.load import read_chain  # noqa: E402
from tests.bench_run.models.networks import difference, save  # noqa: E402


class Applies(nn.Module):
    def __init__(self, function, *modules):
        super().__init__()
        self.function, self.parts = function, nn.ModuleList(modules)

    def forward(self, *inputs):
        return self.function(*inputs, *self.parts)


def first(x, module):
    return module(x)


EXPRESSED = {
    "transposed convolution": (first, (2, 3, 5, 5), nn.ConvTranspose2d(3, 4, 3, 2, 1, 1)),
    "grouped transposed convolution": (
        first,
        (2, 4, 5, 5),
        nn.ConvTranspose2d(4, 6, 3, 2, 1, groups=2, bias=False),
    ),
    "transposed convolution of rows": (first, (2, 4, 9), nn.ConvTranspose1d(4, 6, 4, 2, 1)),
    "padding by name": (first, (2, 3, 9, 9), nn.Conv2d(3, 4, 4, padding="same", dilation=2)),
    "depthwise": (first, (2, 4, 9, 9), nn.Conv2d(4, 8, 3, groups=4)),
    "activations with numbers": (lambda x: F.softplus(F.elu(F.leaky_relu(x, 0.3), 0.5)), (3, 4)),
    "clamp": (lambda x: torch.clamp(x, -0.5, 0.5), (3, 4)),
    "hardtanh": (lambda x: F.hardtanh(x, 0, 6), (3, 4)),
    "powers": (lambda x: x.pow(2) + x**-1, (3, 4)),
    "numbers": (lambda x: (x * 2 + 1) / 3 - 0.5, (3, 4)),
    "mean of all": (lambda x: x - x.mean(), (3, 4)),
    "sum": (lambda x: x / x.sum(-1, keepdim=True), (3, 4)),
    "largest": (lambda x: x - x.amax(1, keepdim=True), (3, 4)),
    "larger": (lambda x: torch.maximum(x, x * x), (3, 4)),
    "RMS norm": (first, (2, 3, 8), nn.RMSNorm(8)),
    "softmax over the first axis": (lambda x: F.relu(x) + F.softmax(F.relu(x), 0), (3, 4)),
    "softmax over channels": (lambda x: F.relu(x) + F.softmax(F.relu(x), 1), (2, 3, 4, 5)),
    "other lengths": (lambda x: x.reshape(4, 3) * F.relu(x).T, (3, 4)),
    "one number as result": (lambda x: F.relu(x).sum(), (3, 4)),
    "activation of a batched product": (lambda x: F.relu(F.relu(x) @ x.mT), (2, 3, 4)),
    "bias that is computed": (lambda x: F.linear(x, F.relu(x), F.relu(x)[:, 0]), (3, 4)),
    "filters' bias that is computed": (
        lambda x: F.relu(F.conv2d(x, F.relu(x), F.relu(x)[:, 0, 0, 0])),
        (3, 4, 2, 2),
    ),
    "last axis taken apart": (lambda x: F.relu(x).unbind(-1)[2] * 2, (2, 3, 4)),
    "reductions over one element": (
        lambda x: (F.relu(x).sum(1) + F.relu(x).mean(1) + F.relu(x).amax(1)) * 2,
        (3, 1, 4),
    ),
    "part of an axis": (lambda x: F.relu(x).narrow(1, 1, 2) * 2, (3, 4)),
    "attention with a known mask": (
        lambda x: F.scaled_dot_product_attention(
            F.relu(x), x, x, torch.tensor([[1, 0], [1, 1]], dtype=torch.bool)
        ),
        (3, 2, 2, 4),
    ),
    "attention with a mask that is computed": (
        lambda x: F.scaled_dot_product_attention(F.relu(x), x, x, F.relu(x[:1])),
        (3, 2, 4, 4),
    ),
    "axis moved": (lambda x: F.relu(x).movedim(0, -1) * 2, (2, 3, 4)),
    "axes swapped": (lambda x: F.relu(x).swapaxes(0, -1) * 2, (2, 3, 4)),
    "dropout in inference": (lambda x, drop: F.relu(drop(x * 2)), (2, 3, 4, 4), nn.Dropout2d()),
    "bounds from one side": (lambda x: x.clamp(max=0.5) + x.clamp_min(-0.5), (3, 4)),
}
LISTED = {
    "reversed scale": (lambda x: F.relu(x.pow(3)), "no operation of hipDNN does this with its "),
    "cat": (lambda x: F.relu(torch.cat([x, x])), "no operation of hipDNN does this"),
    "integers": (lambda x: F.relu(x) + (x.long() * 2).double(), "its data are int64"),
    "dropout that drops": (lambda x: F.relu(F.dropout(x * 2, 0.5)), "no operation of hipDNN does"),
    "axis added by expand": (
        lambda x: F.relu(x[:, :3]).expand(3, 3, 3) * 2,
        "no operation of hipDNN does this with",
    ),
    "norm of one element": (lambda x: F.rms_norm(x[:, :1] * 2, (1,)), "an RMS norm of single"),
    "pooling without a batch": (
        lambda x: F.adaptive_avg_pool2d(F.relu(x)[None], 1),
        "no operation of hipDNN does this",
    ),
    "vector as a weight": (lambda x: F.linear(F.relu(x), x[0]), "a vector as its weight"),
    "mask for each of a batch": (
        lambda x: F.scaled_dot_product_attention(
            *(F.relu(x)[..., None, None],) * 3, x[..., None, None]
        ),
        "a mask of 3x4x1x1, expected 1x4x1x1",
    ),
    "complex numbers": (
        lambda x: torch.view_as_real(torch.complex(F.relu(x), x) * 2j),
        "no operation of hipDNN",
    ),
    "truth": (lambda x: torch.where(x > 0, F.relu(x), x), "no operation of hipDNN does this"),
}


def imported(tmp_path, function, dims, *modules, dtype=torch.double):
    module = Applies(function, *modules).eval().to(dtype)
    found = torch.export.export(module, (torch.zeros(dims, dtype=dtype),))
    name = {torch.double: "double", torch.half: "half"}[dtype]
    return module, save(model_of(found, "net", name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPRESSED)
def test_an_operation_becomes_graphs_that_compute_the_same(name, tmp_path):
    torch.manual_seed(0)
    function, dims, *modules = EXPRESSED[name]
    module, made = imported(tmp_path, function, dims, *modules)
    assert (True, ()) == (difference(made.path, module, dims) < 1e-13, made.pipeline.left_out)


@pytest.mark.parametrize("name", LISTED)
def test_an_operation_without_a_graph_is_listed_with_the_reason(name, tmp_path):
    function, reason = LISTED[name]
    _, made = imported(tmp_path, function, (3, 4))
    assert any(row.reason.startswith(reason) for row in made.pipeline.left_out)


def test_an_activation_after_what_no_graph_expresses_is_a_layer(tmp_path):
    _, made = imported(tmp_path, lambda x: F.relu(x @ x[:, None].mT), (2, 3, 3))
    left_out = [row.operation for row in made.pipeline.left_out]
    layers = [layer.id for layer in made.pipeline.layers]
    assert (["aten.matmul.default"], ["relu"]) == (left_out, layers)


def test_backward_graphs_have_the_type_of_what_they_belong_to(tmp_path):
    linear, module = nn.Linear(4, 4), Applies(lambda x, m: m(x).float().relu()).half()
    module.parts.append(linear.half())
    found = torch.export.export(module.eval(), (torch.zeros(3, 4, dtype=torch.half),))
    layers = save(model_of(found, "net", "half"), tmp_path, backward=True).pipeline.layers
    names = [each.file.stem for each in layers if each.id.startswith("backward")]
    types = {"matmul": "half", "relu": "float"}
    found = [
        (kind, f"_{of}" in name) for name in names for kind, of in types.items() if kind in name
    ]
    assert [("matmul", True), ("matmul", True), ("relu", True)] == found


def test_each_graph_has_the_type_of_its_data(tmp_path):
    def norm(x, linear):
        wide = linear(x).float()
        return linear((wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True))).to(x.dtype))

    _, made = imported(tmp_path, norm, (4, 8), nn.Linear(8, 8), dtype=torch.half)
    chain = read_chain(made.path).graph
    written = [place.graph.outputs[0].data_type for place in chain.places]
    assert ((), "half", "half", 5) == (
        made.pipeline.left_out,
        written[0],
        written[-1],
        written.count("float"),
    )


def test_parts_of_an_input_that_nobody_reads_as_a_whole_are_inputs(tmp_path):
    _, made = imported(tmp_path, lambda x: x[:, :2] * x[:, 2:], (3, 4))
    assert ["inputs_0.0", "inputs_0.2"] == [each.name for each in made.pipeline.inputs]
    assert 1 == len(read_chain(made.path).graph.places)


def test_a_recurrent_layer_counts_as_the_work_that_it_is(tmp_path):
    lstm, linear = nn.LSTM(16, 16, batch_first=True), nn.Linear(16, 16)
    _, made = imported(tmp_path, lambda x, a, b: b(a(x)[0]), (2, 3, 16), lstm, linear)
    share = sum(row.share for row in made.pipeline.left_out)
    assert 0.85 < share < 0.95  # eight matrices of nine
