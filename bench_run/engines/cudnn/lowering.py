"""Nodes into calls of cuDNN's `pygraph`: one row of `NODES` for each node type.

A row's function makes the call and returns the results by port. Everything it needs of the graph
comes through `Call` (`operands.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench_run.engines.cudnn import attention
from bench_run.engines.cudnn.operands import Call, Operands
from bench_run.engines.cudnn.rewrite import refuse
from bench_run.engines.cudnn.tables import ACTIVATION, FIXED, POINTWISE, REDUCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Results = dict[str, Any]


class Lowering(Operands):
    """Builds one `pygraph`."""

    def lower(self) -> None:
        for node in self.graph.nodes:
            if node.type not in NODES:
                raise refuse(node, "cuDNN has no node for it")
            call = Call(self, node)
            results = NODES[node.type](call)
            for port, uid in node.outputs.items():
                if results.get(port) is None:
                    raise refuse(node, f"cuDNN gives no output {port}")
                self.give(node, uid, results[port])


def _convolution(method: str, first: str, second: str, result: str, arguments: str) -> Any:
    names = arguments.split()

    def lower(call: Call) -> Results:
        modes = call.cudnn._compiled_module.convolution_mode
        made = call.make(
            method,
            **{names[0]: call.operand(first), names[1]: call.operand(second)},
            **{
                key: list(call.attribute(key))
                for key in ("pre_padding", "post_padding", "stride", "dilation")
            },
            convolution_mode=getattr(modes, call.attribute("conv_mode").upper()),
        )
        return {result: made}

    return lower


def _matmul(call: Call) -> Results:
    batches = zip(call.tensor_of("a").dims[:-2], call.tensor_of("b").dims[:-2], strict=True)
    for a, b in batches:
        if a != b and 1 not in (a, b):
            raise refuse(call.node, f"batches of {a} and {b}: cuDNN spreads only single ones")
    return {"c": call.make("matmul", A=call.operand("a"), B=call.operand("b"))}


def _pointwise(call: Call) -> Results:
    mode = call.attribute("operation")
    if mode not in POINTWISE:
        raise refuse(call.node, f"cuDNN has no operation {mode}")
    method, names = POINTWISE[mode]
    arguments = {name: call.operand(f"in_{i}") for i, name in enumerate(names)}
    for attribute, value in call.node.attributes.items():
        if attribute in FIXED and value != FIXED[attribute]:
            why = f"{attribute} is {value}; cuDNN's frontend fixes it at {FIXED[attribute]:g}"
            raise refuse(call.node, why)
        if attribute in ACTIVATION and value is not None:
            arguments[ACTIVATION[attribute]] = value
    return {"out_0": call.make(method, **arguments)}


def _reduction(call: Call) -> Results:
    mode = call.attribute("mode")
    if mode not in REDUCTIONS:
        raise refuse(call.node, f"cuDNN has no reduction {mode}")
    chosen = getattr(call.cudnn.reduction_mode, REDUCTIONS[mode])
    return {"out": call.make("reduction", input=call.operand("in"), mode=chosen)}


def _no_peers(call: Call) -> None:
    if call.node.input_lists.get("peer_stats"):
        raise refuse(call.node, "peer_stats need several devices")


def _batchnorm(call: Call) -> Results:
    _no_peers(call)
    names = ("y", "mean", "inv_variance", "next_running_mean", "next_running_variance")
    made = call.make(
        "batchnorm",
        input=call.operand("x"),
        scale=call.operand("scale"),
        bias=call.operand("bias"),
        in_running_mean=call.operand("prev_running_mean"),
        in_running_var=call.operand("prev_running_variance"),
        epsilon=call.operand("epsilon"),
        momentum=call.operand("momentum"),
    )
    return dict(zip(names, made, strict=True))


def _batchnorm_backward(call: Call) -> Results:
    _no_peers(call)
    call.need("mean", "inv_variance")
    made = call.make(
        "batchnorm_backward",
        grad=call.operand("dy"),
        input=call.operand("x"),
        scale=call.operand("scale"),
        mean=call.operand("mean"),
        inv_variance=call.operand("inv_variance"),
    )
    return dict(zip(("dx", "dscale", "dbias"), made, strict=True))


def _phase(call: Call, *saved: str) -> Any:
    phases = call.cudnn.norm_forward_phase
    return phases.TRAINING if any(call.has(port) for port in saved) else phases.INFERENCE


def _layernorm(call: Call) -> Results:
    made = call.make(
        "layernorm",
        norm_forward_phase=_phase(call, "mean", "inv_variance"),
        input=call.operand("x"),
        scale=call.operand("scale"),
        bias=call.operand("bias"),
        epsilon=call.operand("epsilon"),
    )
    return dict(zip(("y", "mean", "inv_variance"), made, strict=True))


def _layernorm_backward(call: Call) -> Results:
    call.need("mean", "inv_variance")
    made = call.make(
        "layernorm_backward",
        grad=call.operand("dy"),
        input=call.operand("x"),
        scale=call.operand("scale"),
        mean=call.operand("mean"),
        inv_variance=call.operand("inv_variance"),
    )
    return dict(zip(("dx", "dscale", "dbias"), made, strict=True))


def _rmsnorm(call: Call) -> Results:
    made = call.make(
        "rmsnorm",
        norm_forward_phase=_phase(call, "inv_rms"),
        input=call.operand("x"),
        scale=call.operand("scale"),
        bias=call.operand("bias"),
        epsilon=call.operand("epsilon"),
    )
    return dict(zip(("y", "inv_rms"), made, strict=True))


def _rmsnorm_backward(call: Call) -> Results:
    made = call.make(
        "rmsnorm_backward",
        grad=call.operand("dy"),
        input=call.operand("x"),
        scale=call.operand("scale"),
        inv_variance=call.operand("inv_rms"),
        has_dbias=call.has("dbias"),
    )
    return dict(zip(("dx", "dscale", "dbias"), made, strict=False))


NODES: Mapping[str, Callable[[Call], Results]] = {
    "BatchnormAttributes": _batchnorm,
    "BatchnormBackwardAttributes": _batchnorm_backward,
    "ConvolutionBwdAttributes": _convolution("conv_dgrad", "dy", "w", "dx", "loss filter"),
    "ConvolutionFwdAttributes": _convolution("conv_fprop", "x", "w", "y", "image weight"),
    "ConvolutionWrwAttributes": _convolution("conv_wgrad", "x", "dy", "dw", "image loss"),
    "LayernormAttributes": _layernorm,
    "LayernormBackwardAttributes": _layernorm_backward,
    "MatmulAttributes": _matmul,
    "PointwiseAttributes": _pointwise,
    "RMSNormAttributes": _rmsnorm,
    "RMSNormBackwardAttributes": _rmsnorm_backward,
    "ReductionAttributes": _reduction,
    "SdpaAttributes": attention.forward,
    "SdpaBackwardAttributes": attention.backward,
}
