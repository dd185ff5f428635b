"""Random small networks: each value that a chain computes is PyTorch's, in float64."""

from math import prod
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="these are models of PyTorch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from bench_run.models.lower import ModelLowering, fuse, take_apart  # noqa: E402
from bench_run.models.own import LOWERINGS  # noqa: E402
from bench_run.models.save import save_model  # noqa: E402
from bench_run.models.torch_export import model_of  # noqa: E402
from bench_run.plan.load import read_chain  # noqa: E402
from bench_run.tensors.computed import compute_expected  # noqa: E402
from bench_run.tensors.seeded.inputs import make_chain_inputs  # noqa: E402
from tests.bench_run.models.networks import with_statistics  # noqa: E402

LEAST = 1e-4
"""Values that are smaller in all places are what is left of differences."""


def axis(draw, x):
    return draw.randrange(x.ndim)


def permuted(draw, x):
    order = draw.sample(range(x.ndim), x.ndim)
    return lambda v: v.permute(order)


def reshaped(draw, x):
    one = draw.choice([n for n in range(1, x.numel() + 1) if x.numel() % n == 0])
    return lambda v: v.reshape(one, -1)


def sliced(draw, x):
    along = axis(draw, x)
    start = draw.randrange(x.shape[along])
    return lambda v: v.narrow(along, start, v.shape[along] - start)


def over(call):
    """Along an axis that is drawn."""

    def make(draw, x):
        along = axis(draw, x)
        return lambda v: call(v, along)

    return make


def convolved(draw, x):
    conv = (nn.Conv1d, nn.Conv2d)[x.ndim - 3](
        x.shape[1],
        draw.choice((1, 4)),
        draw.choice((1, 3)),
        draw.choice((1, 2)),
        draw.choice((1, 2)),
    )
    norm = [nn.BatchNorm2d(conv.out_channels)] if x.ndim == 4 and draw.random() < 0.5 else []
    return with_statistics(nn.Sequential(conv, *norm, nn.ReLU(inplace=draw.random() < 0.3)))


def always(call):
    return lambda _draw, _x: call


STEPS = (
    *map(always, (F.relu, F.gelu, torch.sigmoid, torch.neg, lambda v: v * 1.5, lambda v: 0.25 + v)),
    *map(always, (lambda v: v - v.mean(), lambda v: F.relu(v @ v.mT), lambda v: v.clone().mul_(2))),
    always(lambda v: F.scaled_dot_product_attention(v, v * 0.5, v, is_causal=True)),
    always(lambda v: F.max_pool2d(v, 2, 1, 1)),
    always(lambda v: F.avg_pool2d(v, 3, 2, 1)),
    *map(over, (torch.softmax, torch.sum, torch.amax, torch.unsqueeze)),
    over(lambda v, along: v.mean(along, keepdim=True)),
    over(lambda v, along: v.select(along, -1)),
    over(lambda v, along: v.unbind(along)[0] * v.unbind(along)[-1]),
    over(lambda v, along: v.chunk(2, along)[0]),
    permuted,
    reshaped,
    sliced,
    convolved,
    permuted,
    reshaped,
    sliced,
    convolved,
    lambda draw, x: nn.Linear(x.shape[-1], draw.choice((1, 3, 4))),
    lambda draw, x: nn.Sequential(nn.Linear(x.shape[-1], 3), nn.GELU()),
    lambda _draw, x: nn.LayerNorm(x.shape[-1]),
    lambda draw, x: nn.ConvTranspose2d(x.shape[1], 2, draw.choice((1, 2)), draw.choice((1, 2))),
)
"""A draw and what is read → what is done with it; some of them to some ranks only."""


class Net(nn.Module):
    """Steps, each on one of the three last values and perhaps added to another one."""

    def __init__(self, draw):
        super().__init__()
        self.steps, self.parts = [], nn.ModuleList()
        self.x = torch.randn([draw.choice((1, 2, 3, 4, 6)) for _ in range(draw.choice((2, 3, 4)))])
        for _ in range(draw.randint(2, 8)):
            self._grow(draw)

    def _grow(self, draw):
        values = self._values(self.x)
        place = max(0, len(values) - draw.randint(1, 3))
        alike = [n for n, one in enumerate(values) if draw.random() < 0.3 and n != place]
        try:
            call = draw.choice(STEPS)(draw, values[place])
            done = call(values[place])
            other = next((n for n in alike if values[n].shape == done.shape), None)
        except (RuntimeError, ValueError, IndexError):
            return  # it does not go with this rank
        if 0 < done.numel() < 3000:
            self.steps.append((call, place, other))
            self.parts.extend([call] if isinstance(call, nn.Module) else [])

    @torch.no_grad()
    def _values(self, x):
        self.eval()
        return self._run(x)

    def _run(self, x):
        values = [x]
        for call, place, other in self.steps:
            done = call(values[place])
            values.append(done if other is None else done + values[other])
        return values

    def forward(self, x):
        return tuple(self._run(x)[1:])


def memory(tensor, array):
    flat = np.full(tensor.span, np.nan)
    steps = [flat.itemsize * step for step in tensor.strides]
    np.lib.stride_tricks.as_strided(flat, tensor.dims, steps)[...] = array.reshape(tensor.dims)
    return flat


def seen(view, flat):
    atoms = [part for one in view.axes for part in one]
    dims, steps = [d for d, _ in atoms], [flat.itemsize * s for _, s in atoms]
    return np.lib.stride_tricks.as_strided(flat[view.offset :], dims, steps).reshape(view.dims)


def fill(lowering, chain, inputs, values):
    """What the chain reads from outside, with the values that PyTorch has there."""
    by_name = {tensor.name: tensor for tensor in chain.inputs}
    for layer in lowering.layers:
        for name, view in layer.links.items():
            tensor = by_name.get(f"{layer.id}:{name}")
            if view.layer is None and tensor is not None:
                flat = added(values, view.tensor).reshape(-1)
                inputs[tensor.uid][...] = flat[view.offset : view.offset + tensor.span]


def added(values, name):
    """A value, or the numbers that a truth mask stands for."""
    if name in values:
        return values[name]
    mask = values[name.removesuffix(".added")]
    return np.where(mask, 0.0, -np.inf)


class Recorded(torch.fx.Interpreter):
    """Runs an exported graph and keeps what each of its nodes gives."""

    def call_function(self, target, args, kwargs):
        """Memory may lie otherwise than where the network was traced."""
        view = target is torch.ops.aten.view.default
        return super().call_function(torch.reshape if view else target, args, kwargs)

    def run_node(self, n):
        found = super().run_node(n)
        parts = enumerate(found) if isinstance(found, (list, tuple)) else ()
        named = {n.name: found, **{f"{n.name}.{i}": part for i, part in parts}}
        self.values.update(
            {
                k: v.detach().clone().contiguous().numpy()
                for k, v in named.items()
                if isinstance(v, torch.Tensor)
            }
        )
        return found


def recorded(exported, inputs):
    from bench_run.models.torch_export import _without_writes

    whole = _without_writes(exported)
    signature, held = whole.graph_signature, {**whole.state_dict, **whole.constants}
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    names = [node.name for node in whole.graph.nodes if node.op == "placeholder"]
    found = Recorded(whole.graph_module)
    found.values = {}
    given = iter(inputs)
    found.run(*(held[targets[name]] if name in targets else next(given) for name in names))
    return found.values


def errors(net, folder, fused):
    """By value, of all that the chain computes."""
    return values_apart(torch.export.export(net, (net.x,)), (net.x,), folder, fused)


def values_apart(exported, inputs, folder, fused):
    """Largest difference of each value from PyTorch's, by its name."""
    model = model_of(exported, "net", "double")
    lowering = ModelLowering(fuse(model) if fused else take_apart(model), LOWERINGS)
    lowering.run()
    if not lowering.layers:
        return {}
    values = recorded(exported, inputs)
    chain = read_chain(save_model(lowering, folder, weights=True, backward=False).path).graph
    filled = make_chain_inputs(chain, 0, ())
    fill(lowering, chain, filled, values)
    outputs, written = compute_expected(chain, filled), {t.name: t for t in chain.outputs}
    found = {}
    for name, view in lowering.views.items():
        tensor = written.get(f"{view.layer}:{view.tensor}")
        if tensor is not None and name in values:
            mine = seen(view, memory(tensor, np.asarray(outputs[tensor.uid])))
            found[name] = apart(mine, values[name])
    return found


def apart(found, wanted):
    if prod(found.shape) != wanted.size or (wanted.ndim and found.shape != wanted.shape):
        return np.inf
    gap = np.abs(found.reshape(wanted.shape) - wanted).max()
    return float(gap / max(np.abs(wanted).max(), LEAST))


def network(seed):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.double)
    try:
        torch.manual_seed(seed)
        return Net(Random(seed))
    finally:
        torch.set_default_dtype(before)


def worst(seed, folder, fused):
    net = network(seed)
    return max(errors(net, folder, fused).values(), default=0.0) if net.steps else 0.0


@pytest.mark.slow
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
def test_each_value_of_a_random_network_is_pytorchs(fused, tmp_path):
    found = {seed: worst(seed, tmp_path / str(seed), fused) for seed in range(12)}
    assert {} == {seed: error for seed, error in found.items() if not error < 1e-9}


@pytest.mark.slow
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "apart"])
def test_each_value_of_many_random_networks_is_pytorchs(fused, tmp_path):
    found = {seed: worst(seed, tmp_path / str(seed), fused) for seed in range(100, 500)}
    assert {} == {seed: error for seed, error in found.items() if not error < 1e-9}
