"""Every name of ONNX's is what its reference implementation computes, with the same attributes."""

from __future__ import annotations

import numpy as np
import pytest

from bench_run.reference import evaluate
from tests.bench_run.names.calls import calls, made

onnx = pytest.importorskip("onnx")

OPSET = 23
INPUTS = {
    **{
        f"Reduce{name}": ("axes",)
        for name in ["Sum", "Mean", "Prod", "Max", "Min", "L2", "LogSumExp", "L1"]
    },
    "CumSum": ("axis",),
    "TopK": ("k",),
    "Squeeze": ("axes",),
    "Unsqueeze": ("axes",),
}
"""Keys that are tensors in the file."""
VECTORS = ("scale", "bias", "mean", "variance", "g", "b")
"""Ports that hold a number for each channel."""
ORDERS = {
    "BatchNormalization": ("x", "scale", "bias", "mean", "variance"),
    "Gemm": ("a", "b", "bias"),
}
WRONG_THERE = ("LRN",)
"""Calls that onnx.reference computes wrongly: LRN loops over the batch in place of the channels,
ConvTranspose takes no groups. They are held against onnxruntime."""
TRUTH = ("And", "Or", "Xor", "Not")
TYPES = {"int64": 7, "int32": 6}


def attributes(schema, words: dict[str, str]) -> dict[str, object]:
    """Return the words as the values of the operator's attributes."""
    made = {}
    for key, text in words.items():
        kind = schema.attributes[key].type.name
        if kind == "INTS":
            numbers = [int(part) for part in text.split("x")]
            made[key] = numbers * 2 if len(numbers) == 1 else numbers
        elif key == "to":
            made[key] = TYPES[text]
        else:
            made[key] = {"INT": int, "FLOAT": float, "STRING": str}[kind](text)
    return made


def of_onnx(spelled: str, words: str, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    name = spelled.removeprefix("onnx.")
    schema = onnx.defs.get_schema(name, OPSET)
    said = dict(word.split("=") for word in words.split())
    said.pop("B", None)
    lengths = {key: said.pop(key) for key in ("c", "k") if key in said and name != "TopK"}
    order = ORDERS.get(name, tuple(given))
    arrays = {port: given[port] for port in order}
    single = name in WRONG_THERE or (name == "ConvTranspose" and "group=" in words)
    if single:
        arrays = {port: array.astype(np.float32) for port, array in arrays.items()}
    if lengths or name in ("BatchNormalization", "InstanceNormalization", "Gemm"):
        flat = {p: a.reshape(-1) for p, a in arrays.items() if p in VECTORS and p != order[1]}
        arrays |= (
            {} if name == "Gemm" else {p: arrays[p].reshape(-1) for p in VECTORS if p in arrays}
        )
        arrays |= flat if name != "Gemm" else {"bias": arrays["bias"].reshape(-1)}
    if name in TRUTH or name == "Where":
        names = ("c",) if name == "Where" else tuple(arrays)
        arrays |= {port: arrays[port].astype(bool) for port in names}
    if name == "Gemm" and said.get("transB") == "1":
        arrays["b"] = np.ascontiguousarray(arrays["b"].T)
    for key in INPUTS.get(name, ()):
        numbers = np.array([int(said.pop(key))], np.int64)
        arrays[key] = numbers[0] if name == "CumSum" else numbers
    outputs = [f"out{i}" for i in range(2 if name in ("Split", "TopK") else 1)]
    node = onnx.helper.make_node(name, list(arrays), outputs, **attributes(schema, said))
    kinds = {p: onnx.helper.np_dtype_to_tensor_dtype(a.dtype) for p, a in arrays.items()}
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node],
        "call",
        [value(p, kinds[p], a.shape) for p, a in arrays.items()],
        [value(out, 1 if single else 0, None) for out in outputs],
    )
    opset = onnx.helper.make_opsetid("", OPSET)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)
    if single:
        runtime = pytest.importorskip("onnxruntime")
        session = runtime.InferenceSession(model.SerializeToString())
        return list(session.run(None, arrays))
    return list(ReferenceEvaluator(model).run(None, arrays))


@pytest.mark.parametrize(("spelled", "words"), calls("onnx"))
def test_a_name_means_what_onnx_computes(spelled, words):
    graph, given, ours = made(spelled, words)
    found = of_onnx(spelled, words, given)
    for tensor, result, wanted in zip(graph.outputs, ours, found, strict=False):
        assert [n for n in tensor.dims if n != 1] == [n for n in wanted.shape if n != 1]
        np.testing.assert_allclose(
            result.reshape(-1).astype(float),
            wanted.reshape(-1).astype(float),
            rtol=2e-6,
            atol=2e-6,
        )


@pytest.mark.parametrize("sign", [1, -1])
def test_mod_of_whole_numbers_has_the_sign_of_the_divisor(sign):
    graph, given, _ = made("onnx.Mod", "dtype=int64")
    given = {"x": given["x"], "b": sign * given["b"]}
    (wanted,) = of_onnx("onnx.Mod", "", given)
    found = evaluate(graph, {tensor.uid: given[tensor.name] for tensor in graph.inputs})
    assert (found[graph.outputs[0].uid] == wanted).all()
