"""Layer norm and RMS norm, forward and backward. See graphs/FORMAT.md.

Flops count the steps of the formulas for each element of x; work per row is left out: layer norm 7
(sum, square, sum of squares, subtract, two products, add), RMS norm 4 (square, sum, two products)
and 1 for a bias; backward 14 and 11, of which the sums for dscale and dbias are 3 and 2 + 1.
"""

from __future__ import annotations

from bench_run.graph.operations.base import (
    NodeView,
    Operation,
    Parameter,
    Port,
    expect_dims,
    expect_like,
    expect_scalar,
    expect_together,
    spreads,
)

_PHASES = ("not_set", "inference", "training")
_DIM_COUNT = Parameter("normalized_dim_count", "int", required=True)
_LAYER_PHASE = Parameter(
    "forward_phase", "enum", default="not_set", choices=_PHASES, spelling="number"
)
_RMS_PHASE = Parameter(
    "forward_phase", "enum", default="not_set", absent="omit", choices=_PHASES, spelling="upper"
)


def _check_layer(view: NodeView) -> None:
    for port in ("y", "dy", "dx"):
        if view.get(port) is not None:
            expect_like(view, port, "x")
    x_dims, count = view["x"].dims, view.attribute("normalized_dim_count")
    if not 1 <= count <= len(x_dims):
        what = f"is {count}, expected 1 to {len(x_dims)}, the dims of x"
        raise view.parameter_error("normalized_dim_count", what)
    batch, normalised = x_dims[:-count], x_dims[-count:]
    for port in ("scale", "bias", "dscale", "dbias"):
        tensor = view.get(port)
        if tensor is not None and tensor.dims != (*(1 for _ in batch), *normalised):
            expect_dims(view, port, normalised, "the normalised dims of x, leading 1s allowed")
    for port in ("mean", "inv_variance"):
        expect_dims(view, port, (*batch, *(1 for _ in normalised)), "one value for each row of x")
    expect_together(view, "mean", "inv_variance")
    expect_scalar(view, "epsilon")


def rmsnorm_axes(
    x_dims: tuple[int, ...], scale_dims: tuple[int, ...], inv_rms_dims: tuple[int, ...] | None
) -> tuple[int, ...]:
    """Return axes of x that RMS norm averages over; the format has no attribute for them.

    Where inv_rms is given: the axes it has length 1 on and x has more. Else from scale, as hipDNN's
    references have it: all but the first axis if it has the shape of x; the trailing axes of x that
    it covers; the spatial axes where only its channel dim is longer than 1. Raises `ValueError` if
    it is none of these.
    """
    rank = len(x_dims)
    if inv_rms_dims is not None:
        return tuple(i for i in range(rank) if inv_rms_dims[i] == 1 and x_dims[i] > 1)
    padded = (*(1 for _ in range(rank - len(scale_dims))), *scale_dims)
    if padded == x_dims:
        return tuple(range(min(1, rank - 1), rank))
    first = next((i for i in range(rank) if padded[i] != 1), rank - 1)
    if padded[first:] == x_dims[first:]:
        return tuple(range(first, rank))
    if rank > 2 and padded == (1, x_dims[1], *(1 for _ in x_dims[2:])):
        return tuple(range(2, rank))
    raise ValueError(f"has dims {list(scale_dims)}, which name no axes of x {list(x_dims)}")


def _check_rms(view: NodeView) -> None:
    for port in ("y", "dy", "dx"):
        if view.get(port) is not None:
            expect_like(view, port, "x")
    x_dims, scale_dims = view["x"].dims, view["scale"].dims
    if not spreads(scale_dims, x_dims):
        what = f"has dims {list(scale_dims)}, expected trailing dims of x {list(x_dims)} or 1s"
        raise view.port_error("scale", what)
    for port in ("bias", "dscale", "dbias"):
        expect_dims(view, port, scale_dims, "those of scale")
    expect_scalar(view, "epsilon")
    inv_rms = view.get("inv_rms")
    if inv_rms is not None and not (
        len(inv_rms.dims) == len(x_dims) and spreads(inv_rms.dims, x_dims)
    ):
        what = f"has dims {list(inv_rms.dims)}, expected those of x {list(x_dims)} or 1 in each"
        raise view.port_error("inv_rms", what)
    try:
        rmsnorm_axes(x_dims, scale_dims, None if inv_rms is None else inv_rms.dims)
    except ValueError as error:
        raise view.port_error("scale", str(error)) from None


def rms_flops(view: NodeView) -> int:
    return view["x"].elements * (4 if view.get("bias") is None else 5)


_X = Port("x")
_DY = Port("dy")
_SCALE = Port("scale", "positive")
_GRADIENTS = (Port("dx"), Port("dscale"), Port("dbias"))


ROWS = (
    Operation(
        type="LayernormAttributes",
        name="layernorm",
        family="layernorm",
        inputs=(_X, _SCALE, Port("bias"), Port("epsilon", "epsilon")),
        outputs=(Port("y"), Port("mean", required=False), Port("inv_variance", required=False)),
        parameters=(_DIM_COUNT, _LAYER_PHASE),
        check=_check_layer,
        flops=lambda view: 7 * view["x"].elements,
    ),
    Operation(
        type="LayernormBackwardAttributes",
        name="layernorm_backward",
        family="layernorm",
        inputs=(
            _DY,
            _X,
            _SCALE,
            Port("mean", "batch_mean", required=False),
            Port("inv_variance", "batch_inv_variance", required=False),
            Port("epsilon", "epsilon", required=False),
        ),
        outputs=_GRADIENTS,
        parameters=(_DIM_COUNT,),
        check=_check_layer,
        flops=lambda view: 14 * view["x"].elements,
    ),
    Operation(
        type="RMSNormAttributes",
        name="rmsnorm",
        family="rmsnorm",
        inputs=(
            _X,
            _SCALE,
            Port("epsilon", "epsilon"),
            Port("bias", required=False, absent="omit"),
        ),
        outputs=(Port("y"), Port("inv_rms", required=False, absent="omit")),
        parameters=(_RMS_PHASE,),
        check=_check_rms,
        flops=rms_flops,
    ),
    Operation(
        type="RMSNormBackwardAttributes",
        name="rmsnorm_backward",
        family="rmsnorm",
        inputs=(_DY, _X, _SCALE, Port("inv_rms", "inv_rms")),
        outputs=(Port("dx"), Port("dscale"), Port("dbias", required=False, absent="omit")),
        check=_check_rms,
        flops=lambda view: 11 * view["x"].elements,
    ),
)
