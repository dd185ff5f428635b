"""Layers of calls that compute: a row for each kind."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bench_run.graph.check import check
from bench_run.graph.make import make_graphs
from bench_run.graph.make.build import Builder
from bench_run.models.lower import TAPS, TYPES, VIEWS, UnsupportedCallError, joined
from bench_run.models.model import (
    LinkedView,
    contiguous,
    known,
    permuted,
    placed,
    reshaped,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.graph.model import Graph
    from bench_run.models.lower import ModelLowering, Row
    from bench_run.models.model import Array, Axis, Dims, ModelCall


def softmax_graph(dims: Dims, data_type: str) -> Graph:
    """Return the graph of a softmax, five nodes: two reductions and three pointwise."""
    builder = Builder(data_type)
    x = builder.tensor("x", dims)
    row = (*dims[:-1], 1)

    def between(name: str, shape: Dims) -> int:
        return builder.tensor(name, shape, None, builder.compute, virtual=True)

    def reduce(mode: str, source: int) -> int:
        out = between(f"reduce_{mode}", row)
        attributes = {"mode": mode, "is_deterministic": False}
        builder.node(
            "ReductionAttributes", f"reduce_{mode}", {"in": source}, {"out": out}, attributes
        )
        return out

    def pointwise(operation: str, out: int, *operands: int) -> int:
        inputs = {f"in_{i}": uid for i, uid in enumerate(operands)}
        builder.node(
            "PointwiseAttributes", operation, inputs, {"out_0": out}, {"operation": operation}
        )
        return out

    shifted = pointwise("sub", between("shifted", dims), x, reduce("max", x))
    powers = pointwise("exp", between("powers", dims), shifted)
    pointwise("div", builder.tensor("y", dims), powers, reduce("add", powers))
    shape = "x".join(map(str, dims))
    return check(builder.graph(f"softmax_{shape}_{data_type}"), "softmax")


def _act(call: ModelCall) -> str:
    return f"+{call.attributes['act']}" if "act" in call.attributes else ""


def conv(to: ModelLowering, call: ModelCall) -> None:
    x, w, a = to.view(call.inputs[0]), to.view(call.inputs[1]), call.attributes
    shape, layout = to.image(x)
    taps = " ".join(f"{k}={v}" for k, v in zip(TAPS[len(x.dims) - 2], w.dims[2:], strict=True))
    keys = ("pad", "pad_post", "stride", "dilation")
    items = " ".join(f"{key}={joined(a[key])}" for key in keys)
    rest = f"{shape} k={w.dims[0]} {taps} {items} groups={a['groups']} {layout}"
    operands = {"x": x, "w": w}
    bias = ""
    if call.inputs[2] is not None:
        channels = (1, w.dims[0], *(1,) * (len(x.dims) - 2))
        operands["bias"], bias = to.reshape(call, to.view(call.inputs[2]), channels), "+bias"
    gradients = (f"conv_dgrad: {rest}", f"conv_wgrad: {rest}", *_act_gradient(to, call))
    y = to.emit(call, f"conv_fwd{bias}{_act(call)}: {rest}", operands, gradients=gradients)
    to.views[call.outputs[0]] = y


def conv_transpose(to: ModelLowering, call: ModelCall) -> None:
    """Lower as the data gradient of the opposite convolution; a bias is added to it."""
    x, w, a = to.view(call.inputs[0]), to.view(call.inputs[1]), call.attributes
    dims = to.model.dims[call.outputs[0]]
    shape, layout = to.image(placed("", None, dims, contiguous(dims)))
    taps = " ".join(f"{k}={v}" for k, v in zip(TAPS[len(x.dims) - 2], w.dims[2:], strict=True))
    keys = ("pad", "pad_post", "stride", "dilation")
    items = " ".join(f"{key}={joined(a[key])}" for key in keys)
    rest = f"{shape} k={w.dims[0]} {taps} {items} groups={a['groups']} {layout}"
    gradients = (f"conv_fwd: {rest}", f"conv_wgrad: {rest}")
    y = to.emit(call, f"conv_dgrad: {rest}", {"dy": x, "w": w}, gradients=gradients)
    to.views[call.outputs[0]] = y
    if call.inputs[2] is not None:
        added = replace(call, inputs=(call.outputs[0], call.inputs[2]), name=f"{call.name}.bias")
        _channel_bias(to, added)


def _act_gradient(to: ModelLowering, call: ModelCall) -> tuple[str, ...]:
    if "act" not in call.attributes:
        return ()
    return (f"{call.attributes['act']}_bwd: dims={joined(to.model.dims[call.outputs[0]])}",)


def batchnorm(to: ModelLowering, call: ModelCall) -> None:
    x = to.view(call.inputs[0])
    if len(x.dims) == 2:
        x = to.reshape(call, x, (*x.dims, 1))
    shape, layout = to.image(x)
    channels = x.dims[1]
    defaults = (np.ones(channels), np.zeros(channels))
    scale, bias = (
        known("", default) if name is None else to.view(name)
        for name, default in zip(call.inputs[1:3], defaults, strict=True)
    )
    operands = {"x": x, "scale": scale, "bias": bias}
    operands |= {"mean": to.view(call.inputs[3]), "variance": to.view(call.inputs[4])}
    spec = f"batchnorm_inference_variance: {shape} eps={call.attributes['eps']!r} {layout}"
    gradients = (f"batchnorm_bwd: {shape} {layout}",)
    to.leave(call, to.emit(call, spec, operands, like=x, gradients=gradients))


def unary(to: ModelLowering, call: ModelCall) -> None:
    """Lower a unary operation; attributes are words of the spec, as in ``slope=0.2``."""
    x, kind = at_least_one(to.view(call.inputs[0])), RENAMED.get(call.kind, call.kind)
    words = "".join(f" {key}={value!r}" for key, value in call.attributes.items())
    text = f"dims={joined(x.dims)}{words}"
    gradients = (f"{kind}_bwd: {text}",) if call.kind in WITH_GRADIENT else ()
    y = to.emit(call, f"{kind}: {text}", {"x": x}, like=x, gradients=gradients)
    to.views[call.outputs[0]] = y


def cast(to: ModelLowering, call: ModelCall) -> None:
    x, kind = at_least_one(to.view(call.inputs[0])), to.data_type(call)
    name = call.inputs[0]
    source = to.type_of(x) if isinstance(name, str) and not x.is_weight else kind
    if source == kind:
        to.views[call.outputs[0]] = to.view(name)
        return
    spec = f"convert: dims={joined(x.dims)} to={kind}"
    to.views[call.outputs[0]] = to.emit(call, spec, {"x": x}, like=x, data_type=source)


def binary(to: ModelLowering, call: ModelCall) -> None:
    a, b = (to.view(name) for name in call.inputs)
    y = pointwise(to, call, call.kind, a, b, _act(call), _act_gradient(to, call))
    to.leave(call, y)


def pointwise(
    to: ModelLowering,
    call: ModelCall,
    kind: str,
    a: LinkedView,
    b: LinkedView,
    act: str = "",
    gradients: tuple[str, ...] = (),
) -> LinkedView:
    """Add a layer of two operands, which are broadcast to each other, and return its result."""
    a, b = at_least_one(a), at_least_one(b).once
    wanted = broadcast(a.dims, b.dims)
    if (a.dims != wanted or a.is_weight) and kind in COMMUTES and b.dims == wanted:
        a, b = b, a
    a = spread(a, wanted)
    second = "" if b.dims == a.dims else f" rhs_dims={joined(b.dims)}"
    spec = f"{kind}{act}: dims={joined(a.dims)}{second}"
    data_type = to.type_of(a if not a.is_weight else b)
    if data_type not in TYPES and kind not in OF_WHOLE:
        raise UnsupportedCallError(f"its data are {data_type}")
    operands = {"x": a, "b": b}
    return to.emit(call, spec, operands, like=a, gradients=gradients, data_type=data_type)


def by_channel(
    to: ModelLowering, call: ModelCall, kind: str, x: LinkedView, each: LinkedView
) -> LinkedView:
    """Add a layer of an image and a number for each of its channels."""
    dims = (1, x.dims[1], *(1,) * (len(x.dims) - 2))
    return pointwise(to, call, kind, x, to.reshape(call, each, dims))


def number(value: float) -> LinkedView:
    return known(repr(value), np.full((1,), value))


def broadcast(one: Dims, other: Dims) -> Dims:
    """Return the lengths of both operands broadcast to each other."""
    try:
        return tuple(map(int, np.broadcast_shapes(one, other)))
    except ValueError:
        raise UnsupportedCallError(
            f"{joined(one)} and {joined(other)} are not broadcast to each other"
        ) from None


def many(to: ModelLowering, call: ModelCall) -> None:
    """Lower operands of any number one after another; a mean is divided at the end."""
    kind = call.attributes["kind"]
    first, *rest = (to.view(name) for name in call.inputs)
    for each in rest:
        first = pointwise(to, call, "add" if kind == "mean" else kind, first, each)
    if kind == "mean":
        first = pointwise(to, call, "mul", first, number(1 / len(call.inputs)))
    to.leave(call, first)


def clip_between(to: ModelLowering, call: ModelCall) -> None:
    """Lower bounds that are computed: the larger of x and one, the smaller of that and the
    other."""
    x = to.view(call.inputs[0])
    for kind, name in zip(("max_op", "min_op"), call.inputs[1:], strict=True):
        if name is not None:
            x = pointwise(to, call, kind, x, to.view(name))
    to.leave(call, x)


def power(to: ModelLowering, call: ModelCall) -> None:
    """Lower a whole power as products, by squaring."""
    (x,), y = call.inputs, call.outputs[0]
    bits = f"{call.attributes['exponent']:b}"[1:]
    steps = [each for bit in bits for each in ("square", *(["times"] if bit == "1" else []))]
    found = x
    for number, step in enumerate(steps):
        name = y if number == len(steps) - 1 else f"{y}.{number}"
        to.model.dims.setdefault(name, to.model.dims[y])
        to.model.types.setdefault(name, to.model.types.get(y, to.model.data_type))
        read = (found, found if step == "square" else x)
        binary(to, replace(call, kind="mul", inputs=read, outputs=(name,), attributes={}))
        found = name


def at_least_one(view: LinkedView) -> LinkedView:
    """Give a number without axes one axis."""
    return view if view.dims else reshaped(view, (1,)) or view


def _channel_bias(to: ModelLowering, call: ModelCall) -> None:
    x, bias = (to.view(name) for name in call.inputs)
    to.views[call.outputs[0]] = by_channel(to, call, "add", x, bias)


def linear(to: ModelLowering, call: ModelCall) -> None:
    if len(to.view(call.inputs[1]).dims) != 2:
        raise UnsupportedCallError("a vector as its weight")
    turned = permuted(to.view(call.inputs[1]), (1, 0))
    if to.view(call.inputs[0]).is_weight:
        _general(to, call, to.view(call.inputs[0]), turned)
        return
    _product(to, call, turned, "nt")


def matmul(to: ModelLowering, call: ModelCall) -> None:
    a, b = to.view(call.inputs[0]), to.view(call.inputs[1])
    if len(b.dims) == 2 and len(a.dims) > 1 and not a.is_weight:
        _product(to, call, b, "nn")
        return
    if not a.dims or not b.dims:
        raise UnsupportedCallError("a number without axes")
    _general(to, call, a, b)


def _general(to: ModelLowering, call: ModelCall, a: LinkedView, b: LinkedView) -> None:
    """Lower a product of batches, which are broadcast; a bias is added to it."""
    # A vector is a matrix of one row, or of one column.
    a = to.reshape(call, a, (1, *a.dims)) if len(a.dims) == 1 else a
    b = to.reshape(call, b, (*b.dims, 1)) if len(b.dims) == 1 else b
    batch = broadcast(a.dims[:-2], b.dims[:-2])
    (m, k), n = a.dims[-2:], b.dims[-1]
    rows = f"batch={joined(batch)} " if batch else ""
    bias = call.inputs[2]
    spec = f"matmul{_act(call) if bias is None else ''}: {rows}m={m} n={n} k={k}"
    first = f"matmul: {rows}m={m} n={k} k={n} layout=nt"
    second = f"matmul: {rows}m={k} n={n} k={m} layout=tn"
    gradients = first, second, *_act_gradient(to, call)
    operands = {"a": spread(a, (*batch, m, k)), "b": spread(b, (*batch, k, n))}
    y = to.emit(call, spec, operands, gradients=gradients)
    if bias is not None:
        y = pointwise(to, call, "add", y, to.view(bias), _act(call))
    to.leave(call, y)


def gemm(to: ModelLowering, call: ModelCall) -> None:
    """Lower ``alpha·A·B + beta·C``: a product, and what it needs of scales and a sum."""
    words = call.attributes
    a, b = (
        permuted(to.view(name), (1, 0)) if words[turned] else to.view(name)
        for name, turned in zip(call.inputs[:2], ("turn_a", "turn_b"), strict=True)
    )
    (m, k), n = a.dims, b.dims[1]
    y = to.emit(call, f"matmul: m={m} n={n} k={k}", {"a": a, "b": b})
    if words["alpha"] != 1:
        y = pointwise(to, call, "mul", y, number(words["alpha"]))
    if call.inputs[2] is not None and words["beta"] != 0:
        c = to.view(call.inputs[2])
        if words["beta"] != 1:
            c = pointwise(to, call, "mul", c, number(words["beta"]))
        y = pointwise(to, call, "add", y, c)
    to.leave(call, y)


def _product(to: ModelLowering, call: ModelCall, b: LinkedView, layout: str) -> None:
    """Lower a product; all leading axes of the first operand are rows of one matrix, in the order
    of memory."""
    a = to.view(call.inputs[0])
    k, n = b.dims
    rows, leading = _rows(to, call, a)
    m = rows.dims[0]
    operands, bias = {"a": rows, "b": b}, ""
    if call.inputs[2] is not None:
        operands["bias"], bias = to.reshape(call, to.view(call.inputs[2]), (1, n)), "+bias"
    gradients = (
        f"matmul: m={m} n={k} k={n}",
        f"matmul: m={k} n={n} k={m} layout=tn",
        *_act_gradient(to, call),
    )
    spec = f"matmul{bias}{_act(call)}: m={m} n={n} k={k} layout={layout}"
    y = to.emit(call, spec, operands, gradients=gradients)
    axes = tuple(tuple((d, step * n) for d, step in axis) for axis in leading)
    to.views[call.outputs[0]] = LinkedView(y.tensor, y.layer, (*axes, ((n, 1),)))


def _rows(to: ModelLowering, call: ModelCall, a: LinkedView) -> tuple[LinkedView, tuple[Axis, ...]]:
    """Return the operand as a matrix, and each leading axis with its steps counted in rows of
    it."""
    *leading, last = a.axes
    atoms = sorted(((s, d) for axis in leading for d, s in axis if d > 1), reverse=True)
    inner = LinkedView(a.tensor, a.layer, (tuple((d, s) for s, d in atoms), last), a.offset)
    flat = to.plain(call, inner)
    steps: dict[int, int] = {}
    step = 1
    for stride, length in reversed(atoms):
        steps[stride] = step
        step *= length
    counted = (tuple((d, steps.get(s, 1)) for d, s in axis) for axis in leading)
    return flat, tuple(counted)


def pool(to: ModelLowering, call: ModelCall) -> None:
    x, a = to.view(call.inputs[0]), call.attributes
    shape, layout = to.image(x)
    keys = ("window", "pad", "pad_post", "stride")
    items = " ".join(f"{key}={joined(a[key])}" for key in keys)
    rest = f"{shape} {items} {layout}"
    gradients = (f"{call.kind}_bwd: {rest}",)
    to.leave(call, to.emit(call, f"{call.kind}: {rest}", {"x": x}, gradients=gradients))


def _reduce(to: ModelLowering, call: ModelCall) -> None:
    x, axes = to.view(call.inputs[0]), call.attributes["axes"]
    if not x.dims:
        raise UnsupportedCallError("a number without axes")
    if call.kind in KEEPS_ONE and all(x.dims[axis] == 1 for axis in axes):
        to.leave(call, x)
        return
    to.leave(call, reduced(to, call, call.kind, x, axes))


def reduced(to: ModelLowering, call: ModelCall, kind: str, x: LinkedView, axes: Dims) -> LinkedView:
    """Add a reduction of hipDNN, and return its result with lengths of 1."""
    return to.emit(call, f"{kind}: dims={joined(x.dims)} axes={joined(axes)}", {"x": x})


def mean(to: ModelLowering, call: ModelCall) -> None:
    x, axes = to.view(call.inputs[0]), call.attributes["axes"]
    if len(x.dims) == 4 and axes == (2, 3):
        shape, layout = to.image(x)
        spec = f"avgpool: {shape} window={joined(x.dims[2:])} {layout}"
    else:
        _reduce(to, replace(call, kind="reduce_avg"))
        return
    to.leave(call, to.emit(call, spec, {"x": x}))


def rmsnorm(to: ModelLowering, call: ModelCall) -> None:
    x, a = to.view(call.inputs[0]), call.attributes
    name = call.inputs[1]
    normalised = x.dims[len(x.dims) - a["last"] :]
    if set(normalised) == {1}:
        raise UnsupportedCallError("an RMS norm of single elements")
    scale = known("", np.ones(normalised)) if name is None else to.view(name)
    _norm(to, call, "rmsnorm", {"scale": scale})


def _norm(to: ModelLowering, call: ModelCall, kind: str, affine: Mapping[str, LinkedView]) -> None:
    """Lower a norm over the last axes; its statistics are further results."""
    x, a = to.view(call.inputs[0]), call.attributes
    if a["last"] == len(x.dims):  # hipDNN's norms have an axis before those
        x = to.reshape(call, x, (1, *x.dims))
    shape = f"dims={joined(x.dims)} last={a['last']}"
    phase = " phase=training" if len(call.outputs) > 1 else ""
    spec, gradients = f"{kind}: {shape} eps={a['eps']!r}{phase}", (f"{kind}_bwd: {shape}",)
    to.emit(call, spec, {"x": x, **affine}, like=x, gradients=gradients)
    for output, result in zip(call.outputs, to.results, strict=False):
        to.views[output] = to.reshape(call, result, to.model.dims[output])


def layernorm(to: ModelLowering, call: ModelCall) -> None:
    x, a = to.view(call.inputs[0]), call.attributes
    normalised = x.dims[len(x.dims) - a["last"] :]
    defaults = (np.ones(normalised), np.zeros(normalised))
    scale, bias = (
        known("", default) if name is None else to.view(name)
        for name, default in zip(call.inputs[1:3], defaults, strict=True)
    )
    _norm(to, call, "layernorm", {"scale": scale, "bias": bias})


def group_norm(to: ModelLowering, call: ModelCall) -> None:
    """Lower a layer norm of each group without scale and bias, which differ by channel and
    follow."""
    x, a = to.view(call.inputs[0]), call.attributes
    n, c, *lengths = x.dims
    groups = (n * a["groups"], c // a["groups"] * math.prod(lengths))
    operands = {"x": to.reshape(call, x, groups)}
    operands |= {"scale": known("", np.ones(groups[1:])), "bias": known("", np.zeros(groups[1:]))}
    spec = f"layernorm: dims={joined(groups)} last=1 eps={a['eps']!r}"
    y = to.emit(call, spec, operands, gradients=(f"layernorm_bwd: dims={joined(groups)} last=1",))
    y = to.reshape(call, y, x.dims)
    for kind, name in zip(("mul", "add"), call.inputs[1:], strict=True):
        if name is not None:
            y = by_channel(to, call, kind, y, to.view(name))
    to.views[call.outputs[0]] = y


def sdpa(to: ModelLowering, call: ModelCall) -> None:
    q, k, v, *masks = (to.view(name) for name in call.inputs)
    if len(q.dims) != 4:
        raise UnsupportedCallError(f"attention of {len(q.dims)} axes")
    k, v = (_heads_once(each) for each in (k, v))
    b, h, s, d = q.dims
    shape = f"b={b} h={h} hk={k.dims[1]} s={s} skv={k.dims[2]} d={d} dv={v.dims[3]}"
    scale = call.attributes["scale"]
    factor = d**-0.5 if scale is None else scale
    added = _added(to, call.inputs[3], (b, h, s, k.dims[2])) if masks else None
    words = "mask=causal" if call.attributes["causal"] else ""
    if added is not None and added.array is not None:
        band = _band(added.array)
        added, words = (added, words) if band is None else (None, band)
    bias = "" if added is None else " bias=1"
    rest = f"{shape} {words} scale={factor!r}{bias} layout=bshd"
    (graph,) = make_graphs(f"sdpa: {rest} dtype={to.data_type(call)}")
    operands = {"q": q, "k": k, "v": v}
    if added is not None:
        operands["attn_mask"] = added
        graph = _with_mask(graph, added.dims)
    y = to.add(call, graph, operands, gradients=(f"sdpa_bwd: {rest}",))
    to.views[call.outputs[0]] = y


def _heads_once(view: LinkedView) -> LinkedView:
    """Return keys or values without the repetition of heads for groups of queries."""
    if not view.axes[1]:
        return view
    *heads, last = view.axes[1]
    if last[1] == 0 and len(heads) < 2 and view.array is None:
        return replace(view, axes=(view.axes[0], tuple(heads) or ((1, 1),), *view.axes[2:]))
    return view


def _added(to: ModelLowering, name: str | float | None, dims: Dims) -> LinkedView:
    """Return the numbers that are added to the scores; a length is 1 if they are equal along an
    axis. Truth values hide the keys for which they are false; unknown ones become an input of the
    pipeline."""
    mask = to.view(name)
    if mask.array is not None:
        added = mask.array
        if added.dtype == bool:
            added = np.where(_folded(added), 0.0, -np.inf)
        added = _folded(added)
        found = known(mask.tensor, added.reshape((1,) * (4 - added.ndim) + added.shape))
    else:
        assert isinstance(name, str)
        once = mask.once
        if to.model.types.get(name) not in (None, *TYPES):
            once = to.add_input(f"{name}.added", once.dims, to.model.data_type)
        found = spread(once, (1,) * (4 - len(once.dims)) + once.dims)
    if np.broadcast_shapes(found.dims, dims) != dims:
        raise UnsupportedCallError(f"a mask of {joined(mask.dims)}, expected {joined(dims)}")
    if found.array is not None and found.dims[2:] != dims[2:]:
        wanted = (*found.dims[:2], *dims[2:])
        found = known(found.tensor, np.broadcast_to(found.array, wanted))
    return found


def _folded(array: Array) -> Array:
    """Return the array with length 1 for axes along which it is constant."""
    for axis, length in enumerate(array.shape):
        first = array.take([0], axis)
        if length > 1 and (array.strides[axis] == 0 or np.all(first == array)):
            array = first
    return array


def _band(added: Array) -> str | None:
    """Return the words of a spec for a mask that shows each query a range of keys."""
    least = np.finfo(added.dtype).min
    visible = added == 0
    if added.shape[:2] != (1, 1) or not np.all(visible | (added <= least)):
        return None
    if np.all(visible):
        return ""
    visible = visible[0, 0]
    queries, keys = visible.shape
    i, j = np.ogrid[:queries, :keys]
    for word, offset in (("causal", 0), ("causal_bottom_right", keys - queries)):
        first = int(visible[-1].argmax())
        window = queries - 1 + offset - first
        if np.array_equal(visible, (j <= i + offset) & (j >= i + offset - window)):
            return f"mask={word}" + (f" window={window}" if first else "")
    return None


def _with_mask(graph: Graph, dims: Dims) -> Graph:
    """Return the graph of an attention whose mask has these lengths."""
    tensors = tuple(
        replace(each, dims=dims, strides=contiguous(dims)) if each.name == "attn_mask" else each
        for each in graph.tensors
    )
    same = tensors == graph.tensors
    return graph if same else replace(graph, tensors=tensors, name=f"{graph.name}_{joined(dims)}")


def softmax_axis(to: ModelLowering, call: ModelCall, x: LinkedView) -> tuple[LinkedView, int]:
    """Return the operand and the axis that sums to 1. Before version 13 of ONNX it is over all axes
    from one on: these become one."""
    axis = call.attributes["axis"] % len(x.dims)
    if not call.attributes.get("all"):
        return x, axis
    return to.reshape(call, x, (math.prod(x.dims[:axis]), math.prod(x.dims[axis:]))), 1


def softmax_rows(to: ModelLowering, call: ModelCall) -> None:
    """Lower a softmax over the last axis, which any axis is if the tensor is read in another
    order."""
    x = to.view(call.inputs[0])
    if not x.dims:
        raise UnsupportedCallError("a number without axes")
    x, axis = softmax_axis(to, call, x)
    if x.dims[axis] == 1:
        raise UnsupportedCallError("a softmax of single elements")
    order = (*(n for n in range(len(x.dims)) if n != axis), axis)
    back = tuple(order.index(n) for n in range(len(order)))
    turned = permuted(x, order)
    graph = softmax_graph(turned.dims, to.data_type(call))
    to.leave(call, permuted(to.add(call, graph, {"x": turned}, like=turned), back))


KEEPS_ONE = ("reduce_add", "reduce_avg", "reduce_max", "reduce_min", "reduce_mul")
"""Reductions that give a single element as it is."""
RENAMED = {"clip": "relu"}
"""Calls by the operation that does them, with their attributes as its parameters."""
OF_WHOLE = ("add", "sub", "mul", "max_op", "min_op")
"""Operations that whole numbers have too."""
COMMUTES = ("add", "mul", "max_op", "min_op")
WITH_GRADIENT = (
    "relu",
    "relu6",
    "gelu",
    "gelu_tanh",
    "sigmoid",
    "tanh",
    "swish",
    "leaky_relu",
    "elu",
    "softplus",
    "clip",
)
_UNARY = (
    *WITH_GRADIENT,
    "exp",
    "sqrt",
    "rsqrt",
    "abs",
    "neg",
    "log",
    "erf",
    "reciprocal",
    "floor",
    "ceil",
    "sin",
    "tan",
)

NODE_LOWERINGS: dict[str, Row] = {
    **VIEWS,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "cast": cast,
    "batchnorm": batchnorm,
    **dict.fromkeys(_UNARY, unary),
    **dict.fromkeys((*COMMUTES, "sub", "div"), binary),
    "channel_bias": _channel_bias,
    "linear": linear,
    "matmul": matmul,
    **dict.fromkeys(("maxpool", "avgpool", "avgpool_padded"), pool),
    "mean": mean,
    **{f"reduce_{mode}": _reduce for mode in ("add", "max", "min", "mul", "norm1", "norm2")},
    "rmsnorm": rmsnorm,
    "layernorm": layernorm,
    "group_norm": group_norm,
    "gemm": gemm,
    "many": many,
    "clip_between": clip_between,
    "sdpa": sdpa,
    "softmax": softmax_rows,
    "power": power,
}
"""Kind of a call to what makes layers of it."""
