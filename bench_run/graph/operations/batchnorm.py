"""Batch normalisation in its four forms. See graphs/FORMAT.md.

x is [N, C, spatial…], what belongs to a channel [1, C, 1…].
Flops count the steps of the formulas for each element of x; work per channel is left out:
inference 4 (subtract, two products, add), training 7 (sum, square, sum of squares, and the 4),
backward 10 (x̂ 2, Σdy 1, Σdy·x̂ 2, dx 5); 3 more where the statistics are computed again.
"""

from __future__ import annotations

from bench_run.graph.operations.base import (
    NodeView,
    Operation,
    Port,
    expect_dims,
    expect_like,
    expect_rank,
    expect_scalar,
    expect_together,
)

_PER_CHANNEL = (
    "mean",
    "variance",
    "inv_variance",
    "scale",
    "bias",
    "dscale",
    "dbias",
    "prev_running_mean",
    "prev_running_variance",
    "next_running_mean",
    "next_running_variance",
)
_RUNNING = ("prev_running_mean", "prev_running_variance", "momentum")


def _check(view: NodeView) -> None:
    expect_rank(view, "x", 2, 5)
    x_dims = view["x"].dims
    for port in ("y", "dy", "dx"):
        expect_dims(view, port, x_dims, "those of x")
    channel = (1, x_dims[1], *(1 for _ in x_dims[2:]))
    for port in _PER_CHANNEL:
        expect_dims(view, port, channel, "one value for each channel of x")
    expect_scalar(view, "epsilon", "momentum")


def check_training(view: NodeView) -> None:
    _check(view)
    expect_together(view, *_RUNNING)
    for port in ("next_running_mean", "next_running_variance"):
        if view.get(port) is not None and view.get("momentum") is None:
            raise view.port_error(port, f"needs the inputs {', '.join(_RUNNING)}")


def check_backward(view: NodeView) -> None:
    _check(view)
    expect_like(view, "dy", "x")
    expect_together(view, "mean", "inv_variance")


def flops_backward(view: NodeView) -> int:
    return view["x"].elements * (10 if view.get("mean") is not None else 13)


_X = Port("x")
_SCALE = Port("scale", "positive")
_BIAS = Port("bias")
_EPSILON = Port("epsilon", "epsilon")
_PEERS = Port("peer_stats", required=False, many=True)


ROWS = (
    Operation(
        type="BatchnormInferenceAttributes",
        name="batchnorm_inference",
        family="batchnorm",
        inputs=(_X, Port("mean"), Port("inv_variance", "positive"), _SCALE, _BIAS),
        outputs=(Port("y"),),
        check=_check,
        flops=lambda view: 4 * view["x"].elements,
    ),
    Operation(
        type="BatchnormInferenceAttributesVarianceExt",
        name="batchnorm_inference_variance",
        family="batchnorm",
        inputs=(_X, Port("mean"), Port("variance", "positive"), _SCALE, _BIAS, _EPSILON),
        outputs=(Port("y"),),
        check=_check,
        flops=lambda view: 4 * view["x"].elements,
    ),
    Operation(
        type="BatchnormAttributes",
        name="batchnorm_training",
        family="batchnorm",
        inputs=(
            _X,
            _SCALE,
            _BIAS,
            _EPSILON,
            _PEERS,
            Port("prev_running_mean", required=False),
            Port("prev_running_variance", "positive", required=False),
            Port("momentum", "momentum", required=False),
        ),
        outputs=(
            Port("y"),
            Port("mean", required=False),
            Port("inv_variance", required=False),
            Port("next_running_mean", required=False),
            Port("next_running_variance", required=False),
        ),
        check=check_training,
        flops=lambda view: 7 * view["x"].elements,
    ),
    Operation(
        type="BatchnormBackwardAttributes",
        name="batchnorm_backward",
        family="batchnorm",
        inputs=(
            Port("dy"),
            _X,
            _SCALE,
            Port("mean", "batch_mean", required=False),
            Port("inv_variance", "batch_inv_variance", required=False),
            _PEERS,
        ),
        outputs=(Port("dx"), Port("dscale"), Port("dbias")),
        check=check_backward,
        flops=flops_backward,
    ),
)
