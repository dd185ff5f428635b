"""Layers of operators beyond hipDNN's nodes: rows of the table of operators, and what several nodes
do together.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.graph.make.operators import OPERATORS
from bench_run.models.lower import UnsupportedCallError, joined
from bench_run.models.model import known, permuted, spread
from bench_run.models.operations import (
    NODE_LOWERINGS,
    at_least_one,
    number,
    pointwise,
    reduced,
    sdpa,
    softmax_axis,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.models.lower import ModelLowering, Row
    from bench_run.models.model import Dims, LinkedView, ModelCall


def emit_own(
    to: ModelLowering,
    call: ModelCall,
    operator: str,
    operands: Mapping[str, LinkedView],
    words: Mapping[str, Any] | None = None,
    fixed: tuple[str, ...] = (),
) -> LinkedView:
    """Add a layer of an operator of the table, whose lengths follow from its operands. `fixed`:
    ports whose lengths follow from `words`."""
    row = OPERATORS[operator]
    shapes = {port: view.dims for port, view in operands.items() if port not in fixed}
    found = row.lengths_of(shapes, words)
    lengths = " ".join(f"{key}={value}" for key, value in found.items())
    said = " ".join(f"{key}={_text(value)}" for key, value in (words or {}).items())
    own = (port for port, rule in row.inputs.items() if "|" not in rule or _is_filling(rule))
    typed = [operands[port] for port in own if port in operands and not operands[port].is_weight]
    kind = to.type_of(typed[0]) if typed else to.data_type(call)
    return to.emit(call, f"{operator}: {lengths} {said}", operands, data_type=kind)


def _is_filling(rule: str) -> bool:
    """Return True if a port's rule gives a filling only: its type is that of the graph."""
    return all(":" in part for part in rule.split("|")[1:])


def _text(value: Any) -> str:
    return joined(value) if isinstance(value, tuple) else str(value)


def own(to: ModelLowering, call: ModelCall) -> None:
    operator, words = call.attributes["operator"], call.attributes["words"]
    views = [at_least_one(to.view(name)) for name in call.inputs]
    operands = dict(zip(OPERATORS[operator].inputs, views, strict=True))
    first = next(iter(operands))
    rules = OPERATORS[operator].inputs
    if any("rhs_dims" in rule for rule in rules.values()):
        wanted = to.model.dims[call.outputs[0]] or (1,)
        operands[first] = spread(operands[first], wanted)
    to.leave(call, emit_own(to, call, operator, operands, words))


def compare(to: ModelLowering, call: ModelCall) -> None:
    """Lower a comparison, or an operation on truth values."""
    views = [at_least_one(to.view(name)) for name in call.inputs if name is not None]
    wanted = to.model.dims[call.outputs[0]] or (1,)
    first, *rest = views
    kind = to.type_of(next((view for view in views if not view.is_weight), first))
    if call.kind == "logical_xor" or (call.kind == "cmp_eq" and kind == "boolean"):
        operands = {"x": spread(first, wanted), "b": spread(rest[0], wanted)}
        differ = emit_own(to, call, "logical_xor", operands)
        to.leave(call, differ if call.kind == "logical_xor" else _not(to, call, differ))
        return
    if call.kind == "logical_not":
        to.leave(call, _not(to, call, first))
        return
    operands = {"x": spread(first, wanted), "b": rest[0].once}
    second = "" if rest[0].once.dims == wanted else f" rhs_dims={joined(rest[0].once.dims)}"
    of_truth = call.kind.startswith("logical")
    to.leave(call, _truth(to, call, f"dims={joined(wanted)}{second}", operands, kind, of_truth))


def _not(to: ModelLowering, call: ModelCall, view: LinkedView) -> LinkedView:
    again = replace(call, kind="logical_not")
    return _truth(to, again, f"dims={joined(view.dims)}", {"x": view}, "boolean", True)


def _truth(
    to: ModelLowering,
    call: ModelCall,
    words: str,
    operands: Mapping[str, LinkedView],
    kind: str,
    of_truth: bool,
) -> LinkedView:
    """Add a node whose result, or of which all tensors, are truth values."""
    graph = to.graph(f"{call.kind}: {words}", "float" if of_truth else kind)
    written = {tensor.uid for tensor in graph.outputs}
    tensors = tuple(
        replace(tensor, data_type="boolean") if of_truth or tensor.uid in written else tensor
        for tensor in graph.tensors
    )
    named = replace(graph, tensors=tensors, name=f"{graph.name}_boolean")
    return to.add(call, named, operands)


def where(to: ModelLowering, call: ModelCall) -> None:
    wanted = to.model.dims[call.outputs[0]] or (1,)
    views = (spread(at_least_one(to.view(name)), wanted) for name in call.inputs)
    to.leave(call, emit_own(to, call, "where", dict(zip("cxb", views, strict=True))))


def celu(to: ModelLowering, call: ModelCall) -> None:
    """Lower ``elu(x/alpha)`` of height alpha."""
    x, alpha = at_least_one(to.view(call.inputs[0])), call.attributes["alpha"]
    if alpha != 1:
        x = pointwise(to, call, "mul", x, number(1 / alpha))
    to.leave(call, to.emit(call, f"elu: dims={joined(x.dims)} alpha=1.0", {"x": x}, like=x))
    if alpha != 1:
        y = to.views[call.outputs[0]]
        to.leave(call, pointwise(to, call, "mul", y, number(alpha)))


def scaled_elu(to: ModelLowering, call: ModelCall) -> None:
    """Lower a SELU with numbers of its own: ``gamma·elu(x)``."""
    x, words = at_least_one(to.view(call.inputs[0])), call.attributes
    y = to.emit(call, f"elu: dims={joined(x.dims)} alpha={words['alpha']!r}", {"x": x}, like=x)
    to.leave(call, pointwise(to, call, "mul", y, number(words["gamma"])))


def thresholded_relu(to: ModelLowering, call: ModelCall) -> None:
    """Lower ``x·(x > alpha)``."""
    x = at_least_one(to.view(call.inputs[0]))
    above = pointwise(to, call, "cmp_gt", x, number(call.attributes["alpha"]))
    to.leave(call, pointwise(to, call, "mul", x, above))


def prelu(to: ModelLowering, call: ModelCall) -> None:
    """Lower a PReLU: as the operator of the table for a slope of each column, otherwise as ``max(x,
    0) + slope·min(x, 0)``."""
    x, slope = (at_least_one(to.view(name)) for name in call.inputs)
    if call.attributes["by_channel"] and len(slope.dims) == 1 and len(x.dims) > 2:
        slope = to.reshape(call, slope, (*slope.dims, *(1,) * (len(x.dims) - 2)))
    if len(x.dims) == 2 and slope.dims == x.dims[1:]:
        to.leave(call, emit_own(to, call, "prelu", {"x": x, "w": slope}))
        return
    below = pointwise(to, call, "min_op", x, number(0.0))
    above = to.emit(call, f"relu: dims={joined(x.dims)}", {"x": x}, like=x)
    to.leave(call, pointwise(to, call, "add", above, pointwise(to, call, "mul", below, slope)))


def swiglu(to: ModelLowering, call: ModelCall) -> None:
    x, gate = (to.view(name) for name in call.inputs)
    beta = call.attributes["beta"]
    y = to.emit(call, f"swish: dims={joined(x.dims)} beta={beta!r}", {"x": x}, like=x)
    to.leave(call, pointwise(to, call, "mul", y, gate))


def _merged(
    to: ModelLowering, call: ModelCall, x: LinkedView, axes: Dims
) -> tuple[LinkedView, Dims]:
    """Return the operand with these axes as one, the last, and the lengths of the others."""
    others = tuple(axis for axis in range(len(x.dims)) if axis not in axes)
    kept = tuple(x.dims[axis] for axis in others)
    turned = permuted(x, (*others, *axes))
    return to.reshape(call, turned, (*kept, math.prod(x.dims[axis] for axis in axes))), kept


def log_reductions(to: ModelLowering, call: ModelCall) -> None:
    """Lower sums of squares, and logarithms of sums."""
    x, axes = at_least_one(to.view(call.inputs[0])), call.attributes["axes"]
    if call.kind == "logsumexp":
        flat, _ = _merged(to, call, x, axes)
        to.leave(call, emit_own(to, call, "logsumexp", {"x": flat}, {"axis": len(flat.dims) - 1}))
        return
    if call.kind == "sum_square":
        x = pointwise(to, call, "mul", x, x)
    y = x if all(x.dims[axis] == 1 for axis in axes) else reduced(to, call, "reduce_add", x, axes)
    if call.kind == "log_sum":
        y = to.emit(call, f"log: dims={joined(y.dims)}", {"x": y})
    to.leave(call, y)


TINY = 1.2e-38
"""Divides zeros by a number, so that their norm of 0 leaves zeros."""


def lp_norm(to: ModelLowering, call: ModelCall) -> None:
    x, axis = to.view(call.inputs[0]), call.attributes["axis"]
    kind = f"reduce_norm{call.attributes['p']}"
    length = reduced(to, call, kind, x, (axis,)) if x.dims[axis] > 1 else None
    if length is None:
        length = to.emit(call, f"abs: dims={joined(x.dims)}", {"x": x}, like=x)
    length = pointwise(to, call, "max_op", length, number(TINY))
    to.leave(call, pointwise(to, call, "div", x, length))


def log_softmax(to: ModelLowering, call: ModelCall) -> None:
    x, axis = softmax_axis(to, call, at_least_one(to.view(call.inputs[0])))
    to.leave(call, emit_own(to, call, "log_softmax", {"x": x}, {"axis": axis}))


MOST_PLACES = 27
"""Places of a window with gaps: each is a layer."""
LOWEST = -3e38
"""Stands around an image whose largest values are taken."""


def dilated_pool(to: ModelLowering, call: ModelCall) -> None:
    """Lower a window with gaps: its places are slices of the image, which are joined two by two."""
    x, a, out = to.view(call.inputs[0]), call.attributes, to.model.dims[call.outputs[0]][2:]
    is_max, before, after = a["mode"] == "maxpool", a["pad"], a["pad_post"]
    places = list(itertools.product(*map(range, a["window"])))
    if len(places) > MOST_PLACES:
        raise UnsupportedCallError(f"a window with gaps (dilation) of {len(places)} places")
    image = x.dims[2:]
    if any((*before, *after)):
        words: dict[str, Any] = {"before": (0, 0, *before), "after": (0, 0, *after)}
        x = emit_own(to, call, "pad", {"x": x}, {**words, "value": LOWEST if is_max else 0.0})
    found: LinkedView | None = None
    counts = np.zeros(out)
    for place in places:
        part, inside = x, np.ones(out, bool)
        for axis, at in enumerate(place):
            start, stride = at * a["dilation"][axis], a["stride"][axis]
            part = to.slice(call, part, axis + 2, start, out[axis], stride)
            first = start - before[axis]
            reached = first + stride * np.arange(out[axis])
            shape = [-1 if n == axis else 1 for n in range(len(out))]
            inside &= ((reached >= 0) & (reached < image[axis])).reshape(shape)
        counts += inside | (a["mode"] == "avgpool_padded")
        kind = "max_op" if is_max else "add"
        found = part if found is None else pointwise(to, call, kind, found, part)
    assert found is not None
    if not is_max:
        shares = known("shares", 1 / np.maximum(counts, 1)[None, None])
        found = pointwise(to, call, "mul", found, shares)
    to.leave(call, found)


def gather(to: ModelLowering, call: ModelCall) -> None:
    """Lower a choice of rows: the axis comes first, all others are one."""
    x, i, axis = to.view(call.inputs[0]), to.view(call.inputs[1]), call.attributes["axis"]
    if not x.dims:
        raise UnsupportedCallError("a number without axes")
    if i.array is not None:  # PyTorch's call takes none that count from the end
        i = known(i.tensor, np.where(i.array < 0, i.array + x.dims[axis], i.array))
    to.leave(call, _chosen(to, call, x, i, axis))


def _chosen(
    to: ModelLowering, call: ModelCall, x: LinkedView, i: LinkedView, axis: int
) -> LinkedView:
    """Return the parts of an axis that an index names."""
    turned = permuted(x, (axis, *(n for n in range(len(x.dims)) if n != axis)))
    rest = turned.dims[1:]
    rows = to.reshape(call, turned, (turned.dims[0], math.prod(rest)))
    flat = to.reshape(call, i, (math.prod(i.dims),))
    y = to.reshape(call, take(to, call, rows, flat), (*i.dims, *rest))
    back = [*range(len(i.dims), len(i.dims) + axis), *range(len(i.dims))]
    return permuted(y, (*back, *range(len(back), len(y.dims))))


def take(to: ModelLowering, call: ModelCall, rows: LinkedView, i: LinkedView) -> LinkedView:
    """Add a layer that takes these rows of a matrix."""
    kind = str(i.array.dtype) if i.array is not None else to.type_of(i)
    return emit_own(to, call, "take", {"x": rows, "i": i}, {"index": kind})


def topk(to: ModelLowering, call: ModelCall) -> None:
    """Lower the largest or smallest values, and their places as those of a sorted tensor."""
    x, words = to.view(call.inputs[0]), call.attributes
    axis, k = words["axis"], words["k"]
    values, places = (*words["places"], "", "")[:2]
    if values:
        if words["largest"]:
            found = emit_own(to, call, "topk", {"x": x}, {"axis": axis, "k": k})
        else:
            ordered = emit_own(to, call, "sort", {"x": x}, {"axis": axis})
            found = to.slice(call, ordered, axis, 0, k)
        to.views[values] = found
    if places:
        if words["largest"]:
            x = to.emit(call, f"neg: dims={joined(x.dims)}", {"x": x}, data_type=to.type_of(x))
        order = emit_own(to, call, "argsort", {"x": x}, {"axis": axis})
        to.views[places] = to.slice(call, order, axis, 0, k)


def concat(to: ModelLowering, call: ModelCall) -> None:
    """Lower pairs, one after another."""
    axis = call.attributes["axis"]
    first, *rest = (to.view(name) for name in call.inputs)
    for each in rest:
        words = {"axis": axis, "more": each.dims[axis]}
        first = emit_own(to, call, "concat", {"x": first, "b": each}, words, fixed=("b",))
    to.leave(call, first)


def roll(to: ModelLowering, call: ModelCall) -> None:
    """Lower shifts around axes: both parts change places."""
    x = to.view(call.inputs[0])
    dims = x.dims
    for axis, shift in call.attributes["shifts"]:
        if axis is None:
            x = to.reshape(call, x, (math.prod(dims),))
        size = x.dims[axis or 0]
        if at := -shift % size:
            parts = [to.slice(call, x, axis or 0, *each) for each in ((at, size - at), (0, at))]
            words = {"axis": axis or 0, "more": at}
            operands = dict(zip("xb", parts, strict=True))
            x = emit_own(to, call, "concat", operands, words, fixed=("b",))
    to.leave(call, to.reshape(call, x, dims))


def resize(to: ModelLowering, call: ModelCall) -> None:
    """Lower an image of other lengths: an operator of the table for a whole factor, otherwise a
    choice of the nearest elements along each axis."""
    x, wanted = to.view(call.inputs[0]), to.model.dims[call.outputs[0]]
    factors = {want / have for have, want in zip(x.dims[2:], wanted[2:], strict=True)}
    (factor, *others) = factors
    if len(x.dims) == 4 and not others and factor % 1 == 0 and wanted[:2] == x.dims[:2]:
        operator = "resample_linear" if call.attributes["mode"] == "linear" else "resample"
        to.leave(call, emit_own(to, call, operator, {"x": x}, {"scale": int(factor)}))
        return
    if call.attributes["mode"] == "linear" or not call.attributes["from_left"]:
        raise UnsupportedCallError("a factor that is not a whole number, or of some axes only")
    for axis, (have, want) in enumerate(zip(x.dims, wanted, strict=True)):
        if have != want:
            index = np.arange(want) * have // want
            x = _chosen(to, call, x, known(f"index of axis {axis}", index), axis)
    to.leave(call, x)


def grouped_product(to: ModelLowering, call: ModelCall) -> None:
    """Lower products of groups of rows. PyTorch says where each group ends, hipDNN where it
    begins."""
    x, w, ends = (to.view(name) for name in call.inputs)
    experts, k, n = w.dims
    tokens = x.dims[0]
    if ends.array is not None:
        starts = known(ends.tensor, np.append([0], ends.array[:-1]).astype(np.int32))
    else:
        spec = f"roll: dims={experts} axis=0"
        last = np.arange(experts, dtype=np.int64) > 0
        turned = to.emit(call, spec, {"x": ends}, data_type="int32")
        starts = pointwise(
            to, call, "mul", turned, known("is not the first", last.astype(np.int32))
        )
    operands = {
        "token": to.reshape(call, x, (1, tokens, k)),
        "weight": w,
        "first_token_offset": to.reshape(call, starts, (experts, 1, 1)),
    }
    spec = f"moe_grouped_matmul: tokens={tokens} n={n} k={k} experts={experts}"
    to.leave(call, to.reshape(call, to.emit(call, spec, operands), (tokens, n)))


def pad(to: ModelLowering, call: ModelCall) -> None:
    x, around = to.view(call.inputs[0]), call.attributes["around"]
    words: dict[str, Any] = {"before": tuple(a for a, _ in around)}
    words |= {"after": tuple(b for _, b in around), "value": call.attributes["value"]}
    to.leave(call, emit_own(to, call, "pad", {"x": x}, words))


def _classes_last(
    to: ModelLowering, call: ModelCall, x: LinkedView
) -> tuple[LinkedView, LinkedView]:
    """Return scores as a matrix of a row for each place, and the classes as a vector."""
    order = (0, *range(2, len(x.dims)), 1)
    rows = math.prod(x.dims) // x.dims[1]
    return to.reshape(call, permuted(x, order), (rows, x.dims[1])), to.reshape(
        call, to.view(call.inputs[1]), (rows,)
    )


def cross_entropy(to: ModelLowering, call: ModelCall) -> None:
    """Lower the loss; a second result, logarithms of the probabilities, is a layer of its own."""
    scores = to.view(call.inputs[0])
    x, t = _classes_last(to, call, scores)
    words = {"reduction": call.attributes["reduction"]}
    to.leave(call, emit_own(to, call, "softmax_cross_entropy_loss", {"x": x, "t": t}, words))
    for name in call.outputs[1:]:
        to.views[name] = emit_own(to, call, "log_softmax", {"x": scores}, {"axis": 1})


def nll(to: ModelLowering, call: ModelCall) -> None:
    """Lower the loss of known logarithms: those of the classes, with the sign turned."""
    x, t = _classes_last(to, call, to.view(call.inputs[0]))
    operands = {"x": x, "i": to.reshape(call, t, (x.dims[0], 1))}
    picked = emit_own(to, call, "pick", operands)
    y = to.emit(call, f"neg: dims={joined(picked.dims)}", {"x": picked})
    how = {"mean": "reduce_avg", "sum": "reduce_add"}.get(call.attributes["reduction"])
    to.leave(call, y if how is None or y.dims[0] == 1 else reduced(to, call, how, y, (0,)))


GATES = {"rnn": (0,), "lstm": (0, 2, 3, 1), "gru": (1, 0, 2)}
"""Places in ONNX of our gates: input, forget, cell, output; reset, update, new."""


def recurrent(to: ModelLowering, call: ModelCall) -> None:
    operator, words = call.attributes["operator"], call.attributes
    whole, last, cell = (*words["places"], "", "", "")[:3]
    if cell and any(cell in each.inputs for each in to.model.calls) | (cell in to.model.outputs):
        raise UnsupportedCallError("the state of its cell after the last step")
    x, w, r, b, state, memory = (None if n is None else to.view(n) for n in call.inputs)
    assert x is not None
    assert w is not None
    assert r is not None
    if words["by_batch"]:
        x = permuted(x, (1, 0, 2))
    steps, batch, _ = x.dims
    hidden, gates = r.dims[2], GATES[operator]
    operands = {"x": x}
    for port, start in {"s": state, "m": memory}.items():
        if port == "s" or operator == "lstm":
            zeros = known("", np.zeros((batch, hidden)))
            operands[port] = zeros if start is None else to.reshape(call, start, (batch, hidden))
    for port, weight in {"u": w, "w": r}.items():
        flat = to.reshape(call, weight, weight.dims[1:])
        operands[port] = _ordered(to, call, flat, gates)
    for place, port in enumerate("pq"):
        bias = known("", np.zeros((len(gates) * hidden,)))
        if b is not None:
            half = to.slice(call, b, 1, place * len(gates) * hidden, len(gates) * hidden)
            half = to.reshape(call, half, (len(gates) * hidden, 1))
            bias = _ordered(to, call, half, gates)
            bias = to.reshape(call, bias, (len(gates) * hidden,))
        operands[port] = bias
    y = emit_own(to, call, operator, operands)
    if whole:
        every = to.reshape(call, y, (steps, 1, batch, hidden))
        to.views[whole] = permuted(every, (2, 0, 1, 3)) if words["by_batch"] else every
    if last:
        final = to.slice(call, y, 0, steps - 1, 1)
        to.views[last] = permuted(final, (1, 0, 2)) if words["by_batch"] else final


def _ordered(
    to: ModelLowering, call: ModelCall, rows: LinkedView, gates: tuple[int, ...]
) -> LinkedView:
    """Return the rows with the gates in this order; a layer moves them if they are not known."""
    if gates == tuple(range(len(gates))):
        return rows
    each = rows.dims[0] // len(gates)
    order = np.concatenate([np.arange(gate * each, (gate + 1) * each) for gate in gates])
    if rows.array is not None:
        return known(rows.tensor, rows.array[order])
    return take(to, call, rows, known("order of gates", order.astype(np.int64)))


def attention(to: ModelLowering, call: ModelCall) -> None:
    """Lower ONNX's attention; heads within the last axis become one of their own."""
    words, query = call.attributes, to.view(call.inputs[0])
    heads = words["heads"]
    names = []
    for place, count in zip(range(3), (heads[0], heads[1], heads[1]), strict=True):
        view = to.view(call.inputs[place])
        if len(view.dims) == 3:
            n, s, width = view.dims
            if not count or width % count:
                raise UnsupportedCallError("three axes, and no number of heads")
            view = permuted(to.reshape(call, view, (n, s, count, width // count)), (0, 2, 1, 3))
        name = f"{call.name}.{'qkv'[place]}"
        to.views[name] = view
        to.model.types[name] = to.type_of(view)
        names.append(name)
    result = call.outputs[0]
    attributes = {"causal": words["causal"], "scale": words["scale"]}
    mask = call.inputs[3:4] if call.inputs[3:4] != (None,) else ()
    sdpa(to, replace(call, inputs=(*names, *mask), attributes=attributes))
    if len(query.dims) == 3:
        to.leave(call, permuted(to.views[result], (0, 2, 1, 3)))


LOWERINGS: dict[str, Row] = {
    **NODE_LOWERINGS,
    "own": own,
    **dict.fromkeys(("cmp_eq", "cmp_gt", "cmp_ge", "cmp_lt", "cmp_le"), compare),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), compare),
    "where": where,
    "celu": celu,
    "scaled_elu": scaled_elu,
    "thresholded_relu": thresholded_relu,
    "prelu": prelu,
    "swiglu": swiglu,
    **dict.fromkeys(("logsumexp", "log_sum", "sum_square"), log_reductions),
    "lp_norm": lp_norm,
    "dilated_pool": dilated_pool,
    "log_softmax": log_softmax,
    "gather": gather,
    "topk": topk,
    "concat": concat,
    "pad": pad,
    "roll": roll,
    "resize": resize,
    "grouped_product": grouped_product,
    "cross_entropy": cross_entropy,
    "nll": nll,
    "recurrent": recurrent,
    "attention": attention,
}
"""Kind of a call to what makes layers of it."""
