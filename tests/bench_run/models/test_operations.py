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


def scaled_norm(module):
    """With values that make its scale and bias count."""
    torch.manual_seed(1)
    nn.init.normal_(module.weight)
    nn.init.normal_(module.bias)
    return module


def rms_norm(x):
    wide = F.relu(x).double()
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return torch.arange(8).double() * normed.to(x.dtype)


def repeated(x):
    """Heads as transformers repeats them: (b, h, s, d) to (b, 2h, s, d)."""
    b, h, s, d = x.shape
    return x[:, :, None].expand(b, h, 2, s, d).reshape(b, 2 * h, s, d)


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
    "curves": (lambda x: torch.cos(x) + torch.atan(x) * torch.sinh(x) + torch.asinh(x), (3, 4)),
    "activations of the table": (lambda x: F.mish(x) + F.hardswish(x) + F.selu(x), (3, 4)),
    "rounding": (lambda x: torch.round(x * 3) + torch.sign(x), (3, 4)),
    "logarithms of probabilities": (lambda x: F.log_softmax(F.relu(x), 1), (3, 4)),
    "lengths that differ": (lambda x: torch.cat([F.relu(x), x[:, :2]], 1), (3, 4)),
    "shifts around axes": (lambda x: torch.roll(F.relu(x), (1, -2), (0, 1)), (3, 4)),
    "a shift of all elements": (lambda x: torch.roll(F.relu(x), 5), (3, 4)),
    "an image enlarged": (lambda x: F.interpolate(F.relu(x), scale_factor=2), (2, 3, 4, 5)),
    "an image of other lengths": (
        lambda x: F.interpolate(F.relu(x), size=(7, 3)) * 2,
        (2, 3, 4, 5),
    ),
    "a row enlarged": (lambda x: F.interpolate(F.relu(x), scale_factor=3) * 2, (2, 3, 5)),
    "an image between its elements": (
        lambda x: F.interpolate(F.relu(x), scale_factor=2, mode="bilinear"),
        (2, 3, 4, 5),
    ),
    "parts joined": (lambda x: torch.stack([F.relu(x), x], 1), (3, 4)),
    "sums of beginnings": (lambda x: F.relu(x).cumsum(1), (3, 4)),
    "a choice": (lambda x: torch.where(x > x.mean(), x, x * 2), (3, 4)),
    "truth values": (lambda x: torch.where((x < 0.5) & ~(x <= x * 2), x, x * 2), (3, 4)),
    "padding around": (lambda x: F.pad(x, (1, 2, 0, 1), value=0.5) * 2, (3, 4)),
    "any power": (lambda x: x.abs().pow(1.5), (3, 4)),
    "slopes": (first, (2, 3, 4, 5), nn.PReLU(3)),
    "logarithm of a sum": (lambda x: torch.logsumexp(x, (0, 1)), (3, 4)),
    "pool that rounds up": (lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), (1, 2, 8, 9)),
    "mean that rounds up": (
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        (1, 2, 8, 10),
    ),
    "pool with gaps": (lambda x: F.max_pool2d(x, 2, 1, 1, dilation=2), (1, 2, 8, 9)),
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
    "whole powers": (lambda x: F.relu(x.pow(3) + x**5 + x**8), (3, 4)),
    "axes added by expand": (lambda x: F.relu(x)[:, :3].expand(4, 3, 3) * 2, (3, 4)),
    "a row repeated": (lambda x: F.relu(x[:1]).expand(3, 4) - x * 2, (3, 4)),
    "every second element": (lambda x: (y := F.relu(x))[:, ::2] * y[:, 1::2], (3, 6)),
    "einsum": (
        lambda x: torch.einsum("bchw,bcij->bhwij", F.relu(x), x).reshape(2, -1),
        (2, 3, 2, 4),
    ),
    "an activation of several steps": (lambda x: F.hardswish(F.hardsigmoid(x) * 4), (3, 4)),
    "group norm": (first, (2, 6, 3, 3), scaled_norm(nn.GroupNorm(3, 6))),
    "group norm without scale": (first, (2, 6, 4), nn.GroupNorm(2, 6, affine=False)),
    "RMS norm spelled out": (rms_norm, (2, 3, 8)),
    "gelu of tanh spelled out": (
        lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x.pow(3)))),
        (3, 4),
    ),
    "gelu of erf spelled out": (lambda x: x * 0.5 * (1.0 + torch.erf(x / 2**0.5)), (3, 4)),
    "numbers that the model computes": (
        lambda x: F.relu(x) + torch.arange(4).double() * (torch.arange(3)[:, None] >= 1),
        (3, 4),
    ),
    "queries in groups": (
        lambda x: F.scaled_dot_product_attention(
            x * 2, F.relu(x[:, :2]), x[:, 2:], enable_gqa=True
        ),
        (2, 4, 3, 5),
    ),
    "heads repeated for groups of queries": (
        lambda x: F.scaled_dot_product_attention(
            x * 2, repeated(F.relu(x[:, :2])), repeated(x[:, 2:])
        ),
        (2, 4, 3, 5),
    ),
    "attention with a mask for each of a batch": (
        lambda x: F.scaled_dot_product_attention(F.relu(x), x, x, F.relu(x[:, :1, :, :3])),
        (3, 2, 3, 4),
    ),
    "attention with a mask for each key": (
        lambda x: F.scaled_dot_product_attention(F.relu(x), x, x, F.relu(x[0, 0, :1, :3])),
        (3, 2, 3, 4),
    ),
    "bounds from one side": (lambda x: x.clamp(max=0.5) + x.clamp_min(-0.5), (3, 4)),
}
LISTED = {
    "integers": (lambda x: F.relu(x) + (x.long() * 2).double(), "its data are int64"),
    "dropout that drops": (lambda x: F.relu(F.dropout(x * 2, 0.5)), "it drops elements"),
    "norm of one element": (lambda x: F.rms_norm(x[:, :1] * 2, (1,)), "an RMS norm of single"),
    "sorting": (lambda x: F.relu(x).sort()[0], "no operation of hipDNN does this"),
    "vector as a weight": (lambda x: F.linear(F.relu(x), x[0]), "a vector as its weight"),
    "complex numbers": (
        lambda x: torch.view_as_real(torch.complex(F.relu(x), x) * 2j),
        "no operation of hipDNN",
    ),
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
    _, made = imported(tmp_path, lambda x: F.relu(torch.erfinv(x)), (2, 3, 3))
    left_out = [row.operation for row in made.pipeline.left_out]
    layers = [layer.id for layer in made.pipeline.layers]
    assert (["aten.erfinv.default"], ["relu"]) == (left_out, layers)


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


def layers_of(tmp_path, function, dims, *modules):
    _, made = imported(tmp_path, function, dims, *modules)
    return [layer.file.stem.split("_")[0] for layer in made.pipeline.layers]


def masked(mask):
    return lambda x: F.scaled_dot_product_attention(x * 2, x, x, mask)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (torch.ones(1, 1, 6, 6, dtype=torch.bool).tril().expand(2, 1, 6, 6), "causal"),
        (torch.full((6, 6), -torch.inf).triu(1).double(), "causal"),
        (torch.ones(6, 6, dtype=torch.bool).tril().triu(-2), "causal_window2"),
        (torch.ones(6, 6, dtype=torch.bool), "bshd"),
        (torch.full((6, 6), torch.finfo(torch.double).min, dtype=torch.double).triu(1), "causal"),
    ],
)
def test_a_mask_that_shows_each_query_a_range_of_keys_is_no_tensor(mask, words, tmp_path):
    _, made = imported(tmp_path, masked(mask), (2, 3, 6, 4))
    assert made.pipeline.layers[-1].file.stem.count(f"_{words}_scale") == 1
    assert [] == [name for name in made.pipeline.layers[-1].weights if name == "attn_mask"]


def test_heads_that_repeat_a_single_one_are_read_once(tmp_path):
    def attention(x):
        one = F.relu(x[:, :1])
        b, _, s, d = one.shape
        keys = one[:, :, None].expand(b, 1, 4, s, d).reshape(b, 4, s, d)
        return F.scaled_dot_product_attention(x * 2, keys, keys)

    module, made = imported(tmp_path, attention, (2, 4, 3, 5))
    assert "_b2h4g1s3d5_" in made.pipeline.layers[-1].file.stem
    assert difference(made.path, module, (2, 4, 3, 5)) < 1e-13


def test_memory_without_values_is_no_constant(tmp_path):
    _, made = imported(tmp_path, lambda x: F.relu(x) + torch.empty(3, 4).double(), (3, 4))
    assert ["aten.empty.memory_format"] == [row.operation for row in made.pipeline.left_out][:1]


def test_a_norm_and_a_gelu_that_are_spelled_out_are_one_layer_each(tmp_path):
    assert ["relu", "rmsnorm"] == layers_of(tmp_path, rms_norm, (2, 3, 8))
    bent, _ = EXPRESSED["gelu of tanh spelled out"]
    assert ["gelu"] == layers_of(tmp_path, bent, (3, 4))


def test_a_norm_whose_parts_are_read_elsewhere_stays_right(tmp_path):
    def norm(x):
        y = x * 2
        square = y.pow(2)
        return torch.arange(8).double() * (y * torch.rsqrt(square.mean(-1, keepdim=True) + 1)) + (
            square
        )

    module, made = imported(tmp_path, norm, (2, 3, 8))
    assert difference(made.path, module, (2, 3, 8)) < 1e-13


def test_a_truth_mask_of_the_input_is_an_input_that_is_added(tmp_path):
    module = Applies(lambda x, m: F.scaled_dot_product_attention(x * 2, x, x, m[:, None, None] > 0))
    inputs = torch.zeros(2, 3, 6, 4).double(), torch.ones(2, 6, dtype=torch.int64)
    made = save(model_of(torch.export.export(module, inputs), "net", "double"), tmp_path)
    assert ["gt.added"] == [e.name for e in made.pipeline.inputs if "added" in e.name]


def test_a_branch_is_an_unknown_share_of_the_work(tmp_path):
    def branch(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (F.relu(x),))

    _, made = imported(tmp_path, branch, (3, 4))
    assert None in [row.share for row in made.pipeline.left_out]


@pytest.mark.slow
def test_a_recurrent_layer_is_what_its_steps_do(tmp_path):
    lstm, linear = (each.double() for each in (nn.LSTM(16, 16), nn.Linear(16, 16)))
    module, made = imported(tmp_path, lambda x, a, b: b(a(x)[0]), (2, 3, 16), lstm, linear)
    assert () == made.pipeline.left_out
    assert difference(made.path, module, (2, 3, 16)) < 1e-13
