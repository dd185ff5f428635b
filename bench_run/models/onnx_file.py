"""Models from ONNX files: nodes into calls of ours, dims from ONNX's shape inference."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bench_run.errors import UsageError
from bench_run.models.arguments import Arguments
from bench_run.models.calls import ONNX, made
from bench_run.models.model import Model, ModelCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench_run.models.arguments import Made
    from bench_run.models.model import Array, Dims


DRAWN = ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomUniform")
"""Operations whose results differ from run to run; names of others begin with these."""
MOST_FOLDED_BYTES = 2**28
"""Largest result that is computed when a model is read."""
GROWING = ("ConstantOfShape", "Expand", "Tile", "Range", "Resize", "Upsample", "OneHot", "Pad")
"""Operations that make much of little; they are computed only if the size is known."""
TYPES = {"float": "float", "float16": "half", "double": "double", "bfloat16": "bfloat16"}
"""ONNX's names of data types to those of graphs."""
NUMPY: Mapping[str, type[np.generic]] = {
    "float": np.float32,
    "half": np.float16,
    "double": np.float64,
    "bfloat16": np.float32,
    **{name: np.dtype(name).type for name in ("int8", "int32", "int64", "uint8", "bool")},
}
"""NumPy's types of types of graphs and models."""
CONTROL = ("Loop", "If", "Scan")
"""Operations with graphs of their own, whose work depends on values."""
DOMAINS = ("", "ai.onnx")
"""Domains of ONNX's own operations; others may have the same names."""
INSTALL = 'reading ONNX needs the package onnx: pip install "dnn-bench[onnx]"'
MOST_PASSES = 8
"""Times that shapes are inferred again, with lengths that were computed before."""
MOST_BYTES = 2**30
"""Largest model whose shapes are inferred again: it is written out for that."""
SMALL_BYTES = 4096
"""Size of shapes in files of their own, which shape inference reads."""


def read_onnx(path: str, inputs: Mapping[str, Dims] | None = None) -> Model:
    """Return the model of a file; `inputs` gives dims to inputs that have none or open ones.

    Raises `UsageError` if the file is not a model, or its dims are not fixed.
    """
    try:
        import onnx
        import onnx.inliner
    except ImportError:
        raise UsageError(INSTALL) from None
    if not Path(path).is_file():
        raise UsageError(f"import: {path}: there is no such file")
    try:
        # With dims, and without functions of the model's own. Large data in other files
        # comes last: inference writes the model out, which fails beyond 2 GiB.
        model = onnx.load(path, load_external_data=False)
        folder = str(Path(path).resolve().parent)
        outside = onnx.external_data_helper
        tensors = [t for t in model.graph.initializer if outside.uses_external_data(t)]
        for tensor in tensors:
            length = {e.key: e.value for e in tensor.external_data}.get("length", "")
            if length.isdecimal() and int(length) <= SMALL_BYTES:
                outside.load_external_data_for_tensor(tensor, folder)
                tensor.data_location = onnx.TensorProto.DEFAULT
        _fix(model.graph, inputs or {}, path)
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        outside.load_external_data_for_model(model, folder)
        weights = {t.name: _array(onnx, t) for t in model.graph.initializer}
    except UsageError:
        raise
    except Exception as error:  # foreign: protobuf and onnx raise many kinds
        said = str(error).strip().splitlines() or [type(error).__name__]
        if Path(path).suffix == ".json":
            said = [f"it is JSON; a graph runs as it is: bench-run {path}"]
        raise UsageError(f"import: {path}: no ONNX model: {said[0]}") from error
    return _with_all_lengths(onnx, model, weights, path)


def _with_all_lengths(onnx: Any, model: Any, weights: dict[str, Array], path: str) -> Model:
    """Read the file's graph, and again as long as lengths that were computed tell those of more
    values."""
    reader = _OnnxReader(onnx, model, weights)
    found = reader.model(path)
    for _ in range(MOST_PASSES):
        again = reader.with_lengths(model)
        if again is None:
            break
        model = again
        reader = _OnnxReader(onnx, model, {**weights, **reader.lengths})
        found = reader.model(path)
    return found


def _fix(graph: Any, inputs: Mapping[str, Dims], path: str) -> None:
    """Write the dims of inputs into the graph, from which those of all values follow."""
    by_name = {value.name: value.type.tensor_type for value in graph.input}
    for name, dims in inputs.items():
        if name not in by_name:
            known = ", ".join(by_name)
            raise UsageError(f"--input {name}: {path} has no such input; it has {known}")
        shape = by_name[name].shape
        given = [d.dim_value if d.HasField("dim_value") else None for d in shape.dim]
        if given and (
            len(given) != len(dims)
            or any(a not in (None, b) for a, b in zip(given, dims, strict=True))
        ):
            said = "x".join("?" if d is None else str(d) for d in given)
            raise UsageError(f"--input {name}={'x'.join(map(str, dims))}: {path} says {said}")
        del shape.dim[:]
        for length in dims:
            shape.dim.add().dim_value = length
    if inputs:  # lengths that were worked out for other dims
        del graph.value_info[:]


def _array(onnx: Any, tensor: Any) -> Array:
    """Convert to NumPy, which does not have bfloat16: as float32."""
    return _wide(onnx.numpy_helper.to_array(tensor))


def _wide(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


@dataclass
class _OnnxReader:
    """A file's graph, value by value."""

    onnx: Any
    file: Any
    weights: dict[str, Array]

    def __post_init__(self) -> None:
        graph, self.weights = self.file.graph, dict(self.weights)
        self.dims: dict[str, Dims] = {name: array.shape for name, array in self.weights.items()}
        self.types: dict[str, str] = {}
        held = [(tensor.name, tensor.data_type) for tensor in graph.initializer]
        values = (*graph.input, *graph.value_info, *graph.output)
        for name, number in (*held, *((v.name, v.type.tensor_type.elem_type) for v in values)):
            if number:
                spelled = self.onnx.TensorProto.DataType.Name(number).lower()
                self.types[name] = TYPES.get(spelled, spelled)
        for value in values:
            kind = value.type.tensor_type
            lengths = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
            fixed = tuple(length for length in lengths if length is not None)
            if kind.HasField("shape") and len(fixed) == len(lengths):
                self.dims[value.name] = fixed
        versions = {one.domain: one.version for one in self.file.opset_import}
        self._opset = next((versions[d] for d in DOMAINS if d in versions), 1)
        self.lengths: dict[str, Array] = {}
        """Small whole numbers that nodes compute from known values."""

    def with_lengths(self, model: Any) -> Any:
        """Return the model with lengths in place of the nodes that compute them, and the shapes
        that follow; None if some are known already, or none was found."""
        nodes = [node for node in model.graph.node if set(node.output) & set(self.lengths)]
        unknown = [n for node in model.graph.node for n in node.output if n and n not in self.dims]
        if not nodes or not unknown or model.ByteSize() > MOST_BYTES:
            return None
        again = self.onnx.ModelProto()
        again.CopyFrom(model)
        kept = [node for node in again.graph.node if not set(node.output) & set(self.lengths)]
        del again.graph.node[:]
        again.graph.node.extend(kept)
        for name, array in self.lengths.items():
            again.graph.initializer.append(self.onnx.numpy_helper.from_array(array, name))
        try:
            return self.onnx.shape_inference.infer_shapes(again, data_prop=True)
        except Exception:  # foreign: onnx raises many kinds
            return None

    def model(self, path: str) -> Model:
        graph = self.file.graph
        inputs = tuple(value.name for value in graph.input if value.name not in self.weights)
        for value in graph.input:
            if value.type.WhichOneof("value") not in (None, "tensor_type"):
                kind = value.type.WhichOneof("value").removesuffix("_type")
                raise UsageError(
                    f"import: {path}: the input {value.name} is of the kind {kind}: graphs read "
                    "tensors only"
                )
        for name in inputs:
            if name not in self.dims:
                example = f"--input {name}=1x3x224x224"
                raise UsageError(
                    f"import: {path}: the dims of {name} are not fixed; give them: {example}"
                )
        # A reader of two things of one name would read one of them.
        seen = {*inputs, *self.weights}
        for name in (name for node in graph.node for name in node.output if name):
            if name in seen:
                raise UsageError(f"import: {path}: no ONNX model: two things are called {name!r}")
            seen.add(name)
        calls = []
        read = self.onnx.helper.get_attribute_value
        for number, node in enumerate(graph.node):
            given = {attribute.name: read(attribute) for attribute in node.attribute}
            attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in given.items()}
            values = self._values(node, attributes)
            if values is None:
                calls.append(self._call(node, number, attributes))
            else:
                if all(v.dtype.kind in "iub" and v.nbytes <= SMALL_BYTES for v in values.values()):
                    self.lengths.update(values)
                self.weights.update(values)
                self.dims.update({name: value.shape for name, value in values.items()})
        kinds = [self.types.get(name, "") for name in inputs]
        floats = [kind for kind in kinds if kind in TYPES.values()]
        return Model(
            name=Path(path).stem,
            data_type=floats[0] if floats else "float",
            calls=tuple(calls),
            dims=self.dims,
            inputs=inputs,
            outputs=tuple(value.name for value in graph.output),
            weights=self.weights,
            types=self.types,
        )

    def _values(self, node: Any, attributes: Mapping[str, Any]) -> dict[str, Array] | None:
        """Return the results, by name, of a node that reads only known values, computed by ONNX's
        own reference; None for other nodes."""
        names = [name for name in node.output if name]
        if node.op_type in ("Shape", "Size") and any(n in self.dims for n in node.input):
            whole = self.dims[node.input[0]]
            part = whole[slice(attributes.get("start"), attributes.get("end"))]
            of_size = node.op_type == "Size"
            return {names[0]: np.array(math.prod(whole) if of_size else part, np.int64)}
        if node.op_type == "CastLike" and node.input[0] in self.weights:
            dtype = NUMPY.get(self.types.get(node.input[1], ""))
            like = self.weights.get(node.input[1])
            if dtype is not None or like is not None:
                kind = np.dtype(dtype) if like is None else like.dtype
                return {names[0]: self.weights[node.input[0]].astype(kind)}
        if node.op_type == "Constant" and "value" in attributes:
            return {names[0]: _array(self.onnx, attributes["value"])}
        drawn = node.op_type.startswith(DRAWN) or node.op_type in CONTROL
        read = [name for name in node.input if name]
        if node.domain not in DOMAINS or drawn or not names:
            return None
        if not all(name in self.weights for name in read) or not self._is_small(node, names, read):
            return None
        return self._evaluated(node, names, read)

    def _is_small(self, node: Any, names: Sequence[str], read: Sequence[str]) -> bool:
        """Return True if the results are known to fit, or are computed from little."""
        if not all(name in self.dims for name in names):
            size = sum(self.weights[name].nbytes for name in read)
            return size <= SMALL_BYTES and node.op_type not in GROWING
        return 8 * sum(math.prod(self.dims[name]) for name in names) <= MOST_FOLDED_BYTES

    def _evaluated(
        self, node: Any, names: Sequence[str], read: Sequence[str]
    ) -> dict[str, Array] | None:
        helper, unknown = self.onnx.helper, self.onnx.TypeProto()
        graph = helper.make_graph(
            [node],
            "constant",
            [helper.make_value_info(name, unknown) for name in dict.fromkeys(read)],
            [helper.make_value_info(name, unknown) for name in names],
        )
        from onnx.reference import ReferenceEvaluator

        try:
            made = helper.make_model(graph, opset_imports=self.file.opset_import)
            whole = all(self.weights[name].dtype.kind in "iu" for name in read)
            by_zero: Literal["raise", "ignore"] = "raise" if whole else "ignore"
            with np.errstate(all="ignore", divide=by_zero), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an infinite value is one, as it is in the model
                found = ReferenceEvaluator(made).run(
                    None, {name: self.weights[name] for name in read}
                )
        except Exception:  # foreign: whatever the reference raises for operands that do not fit
            return None
        return {name: _wide(np.asarray(value)) for name, value in zip(names, found, strict=True)}

    def _call(self, node: Any, number: int, attributes: dict[str, Any]) -> ModelCall:
        inputs = tuple(name or None for name in node.input)
        outputs = tuple(name for name in node.output if name)
        name = (node.name or f"{node.op_type}_{number}").strip("/").replace("/", ".")
        found = self._made(node, inputs, outputs, attributes)
        if isinstance(found, str):
            words: dict[str, Any] = {"reason": found}
            if node.op_type in CONTROL or node.domain not in DOMAINS:
                words["flops"] = None
            return ModelCall("unknown", name, inputs, outputs, words, node.op_type)
        kind, operands, given = found
        return ModelCall(kind, name, operands, outputs, given, node.op_type)

    def _made(
        self,
        node: Any,
        inputs: tuple[str | None, ...],
        outputs: tuple[str, ...],
        attributes: Mapping[str, Any],
    ) -> Made | str:
        """Return the call, or the reason why there is none."""
        if node.domain not in DOMAINS:
            return f"an operation of {node.domain}, not of ONNX"
        if node.op_type not in ONNX:
            return "no operation of hipDNN does this"
        if not (inputs and outputs):
            return "it has no operands, or no result"
        if not all(name in self.dims for name in inputs if name is not None):
            return "one of its operands has no known dims"
        if not all(name in self.dims for name in outputs[:1]):
            return "the dims of its result are not known"
        operands = [name for name in inputs if name is not None]
        if any(0 in self.dims[name] for name in (*operands[:1], *outputs[:1])):
            return "an empty tensor has no work"
        values: dict[int | str, Any] = dict(enumerate(inputs))
        values.update(attributes)
        arguments = Arguments(
            values,
            shape=lambda name: self.dims.get(name or "", ()),
            known=lambda name: self.weights.get(name or ""),
            unit=lambda _name: 2.0**-23,
            outputs=outputs,
            places=tuple(node.output),
            opset=self._opset,
        )
        return made(ONNX, node.op_type, arguments)
