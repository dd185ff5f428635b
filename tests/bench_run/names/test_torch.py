"""Every name of PyTorch's is what PyTorch itself computes, called with the same words."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench_run.names.calls import calls, made

torch = pytest.importorskip("torch")

FLAGS = [
    "ceil_mode",
    "count_include_pad",
    "keepdim",
    "unbiased",
    "return_indices",
    "affine",
    "track_running_stats",
    "bias",
    "elementwise_affine",
    "is_causal",
    "largest",
    "sorted",
    "descending",
    "stable",
    "replacement",
    "full",
    "log_input",
    "log_target",
    "training",
    "batch_first",
    "use_input_stats",
    "bidirectional",
]
LENGTHS_OF = {
    "F.conv": ("in_channels", "out_channels", "kernel_size", "bias"),
    "F.linear": ("in_features", "out_features", "bias"),
}
"""Words that a function reads from its tensors."""
WEIGHTS = {
    "weight": ("w", "scale", "g"),
    "bias": ("bias", "b"),
    "weight_ih": ("u",),
    "weight_hh": ("w",),
    "bias_ih": ("p",),
    "bias_hh": ("q",),
}
"""Parameter of a module → our port."""
BY_WORD = {
    "F.batch_norm": {
        "x": "input",
        "scale": "weight",
        "bias": "bias",
        **dict.fromkeys(("mean", "prev_running_mean"), "running_mean"),
        **dict.fromkeys(("variance", "prev_running_variance"), "running_var"),
    },
    "F.layer_norm": {"x": "input", "scale": "weight", "bias": "bias"},
    "F.rms_norm": {"x": "input", "scale": "weight"},
    "F.instance_norm": {"x": "input", "g": "weight", "b": "bias"},
    "torch.index_select": {"x": "input", "i": "index"},
    "torch.gather": {"x": "input", "i": "index"},
    "F.embedding": {"x": "weight", "i": "input"},
    "torch.addmm": {"bias": "input", "a": "mat1", "b": "mat2"},
}
"""Port → argument, of functions whose arguments do not come in our order."""
UPDATED = ("next_running_mean", "next_running_variance")
"""Our outputs that PyTorch keeps as buffers, in its order."""
DIMS = {"torch.zeros": ((4, 6),), "torch.ones": ((4, 6),), "torch.full": ((4, 6),)}
DIMS |= {"torch.eye": (5,), "torch.rand": (), "torch.randn": ()}


def value_of(key: str, text: str):
    if key in FLAGS:
        return text in ("1", "true")
    if key == "rounding_mode":
        return None
    if "x" in text:
        return tuple(int(part) for part in text.split("x"))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def of_torch(spelled: str, words: str, given: dict):
    """Return PyTorch's results, and those of a module's buffers by our names of outputs."""
    first, *rest = spelled.split(".")
    place = {"nn": torch.nn, "F": torch.nn.functional, "torch": torch}[first]
    for part in rest:
        place = getattr(place, part)
    said = {k: value_of(k, v) for k, _, v in (word.partition("=") for word in words.split())}
    for start, names in LENGTHS_OF.items():
        if spelled.startswith(start):
            said = {key: value for key, value in said.items() if key not in names}
    if spelled in ("F.linear", "nn.Linear") and "a" in given:
        given = {"a": given["a"], "w": given["b"].T}
    tensors = {name: torch.from_numpy(array) for name, array in given.items()}
    tensors = {name: t.bool() if name == "c" else t for name, t in tensors.items()}
    if first == "nn":
        return of_module(place, said, tensors)
    return of_function(spelled, place, said, tensors)


def of_function(spelled: str, place, said: dict, tensors: dict):
    if "normalized_shape" in said:
        said["normalized_shape"] = (said["normalized_shape"],)
    if spelled in ("torch.cat", "torch.concat", "torch.concatenate", "torch.stack"):
        return [place(list(tensors.values()), **said)], {}
    if spelled == "F.one_hot":
        return [place(*tensors.values(), **said)], {}
    if spelled in BY_WORD:
        shaped = {
            name: t if name in ("x", "i") or spelled in ("torch.addmm", "F.embedding") else flat(t)
            for name, t in tensors.items()
        }
        named = {BY_WORD[spelled][name]: t for name, t in shaped.items()}
        found = place(**named, **said)
        if not said.get("training"):
            return [found], {}
        running = (named["running_mean"], named["running_var"])
        return [found], dict(zip(UPDATED, running, strict=True))
    found = place(*DIMS.get(spelled, ()), *map(biased, tensors.items()), **said)
    return list(found) if isinstance(found, tuple) else [found], {}


def flat(tensor):
    return tensor.reshape(-1)


def biased(item):
    name, tensor = item
    return flat(tensor) if name == "bias" else tensor


def of_module(kind, said: dict, tensors: dict):
    module = kind(**said)
    module.double()
    left = dict(tensors)
    for name, parameter in module.named_parameters():
        if isinstance(module, torch.nn.Embedding):
            port = "x"
        else:
            port = next(p for p in WEIGHTS[name.removesuffix("_l0")] if p in left)
        parameter.data = left.pop(port).reshape(parameter.shape)
    for buffer, port in (("running_mean", "mean"), ("running_var", "variance")):
        if f"prev_running_{port}" in left:
            setattr(module, buffer, left.pop(f"prev_running_{port}").reshape(-1).clone())
    data = list(left.values())
    if isinstance(module, (torch.nn.LSTMCell, torch.nn.LSTM)):
        layers = isinstance(module, torch.nn.LSTM)
        data = [data[0], tuple(d[None] if layers else d for d in data[1:])]
    elif isinstance(module, (torch.nn.RNN, torch.nn.GRU)):
        data[1] = data[1][None]
    found = module(*data)
    running = [buffer for name, buffer in module.named_buffers() if name.startswith("running")]
    buffers = dict(zip(UPDATED, running, strict=True)) if running else {}
    return list(found) if isinstance(found, tuple) else [found], buffers


RANDOM = ("torch.rand", "torch.randn", "F.dropout", "nn.Dropout", "torch.multinomial")


@pytest.mark.parametrize(
    ("spelled", "words"), [call for call in calls("torch") if call[0] not in RANDOM]
)
def test_a_name_means_what_pytorch_computes(spelled, words):
    graph, given, ours = made(spelled, words)
    with torch.no_grad():
        found, buffers = of_torch(spelled, words, given)
    for tensor, result, theirs in zip(graph.outputs, ours, found, strict=False):
        wanted = np.asarray(theirs.detach()).astype(float)
        assert squeezed(tensor.dims) == squeezed(wanted.shape)
        np.testing.assert_allclose(
            result.reshape(-1).astype(float), wanted.reshape(-1), rtol=1e-9, atol=1e-11
        )
    by_name = {tensor.name: result for tensor, result in zip(graph.outputs, ours, strict=True)}
    for name, buffer in buffers.items():
        np.testing.assert_allclose(by_name[name].reshape(-1), buffer, rtol=1e-9)


def squeezed(dims) -> tuple[int, ...]:
    return tuple(length for length in dims if length != 1)


@pytest.mark.parametrize(
    ("spelled", "words"), [call for call in calls("torch") if call[0] in RANDOM]
)
def test_a_random_name_draws_as_pytorch_does(spelled, words):
    graph, given, _ = made(spelled, words)
    mean, deviation, *_ = graph.nodes[0].custom.tolerance["drawn"]
    torch.manual_seed(3)
    if spelled == "torch.multinomial":
        given = {"x": np.ones((50, 5))}
        words = "num_samples=40 replacement=1"
    (found,), _ = of_torch(spelled, words, given)
    assert found.numel() >= 2000
    error = 6 * deviation / found.numel() ** 0.5
    assert abs(float(found.double().mean()) - mean) < error
    assert abs(float(found.double().std()) - deviation) < 1.5 * error
