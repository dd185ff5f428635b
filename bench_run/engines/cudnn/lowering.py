"""Nodes into calls of cuDNN's `pygraph`: one row of `NODES` for each node type.

A row's function makes the call and returns the results by port. Everything it needs of the graph
comes through `Call`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench_run.engines.cudnn.library import ACTIVATION, DATA_TYPES, FIXED, POINTWISE, REDUCTIONS
from bench_run.engines.cudnn.rewrite import FACTORS, refuse
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.operations.sdpa import band

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.engines.cudnn.views import TensorView
    from bench_run.graph.model import Graph, Node


HOST_PORTS = frozenset(("epsilon", "momentum"))
"""Ports whose scalar cuDNN reads on the host."""
EXPLICIT = frozenset(
    (
        "ConvolutionBwdAttributes",
        "ConvolutionWrwAttributes",
        "ReductionAttributes",
        "SdpaAttributes",
        "SdpaBackwardAttributes",
    )
)
"""Nodes whose results cuDNN cannot deduce the dims of."""


def host_scalars(graph: Graph) -> frozenset[int]:
    """Return the uids of tensors that are passed by value, from host memory."""
    by_port = {
        uid for node in graph.nodes for port, uid in node.inputs.items() if port in HOST_PORTS
    }
    scales = {
        node.inputs["scale"]
        for node in graph.nodes
        if node.type.startswith("Sdpa") and "scale" in node.inputs
    }
    marked = {t.uid for t in graph.tensors if t.runtime_scalar or t.value is not None}
    return frozenset(by_port | scales | marked)


class Operands:
    """The tensors of one `pygraph`. Uids in it are the graph's, numbered from 1: `numbers`."""

    def __init__(self, cudnn: Any, pygraph: Any, graph: Graph, views: Mapping[int, TensorView]):
        self.cudnn, self.pygraph, self.graph, self.views = cudnn, pygraph, graph, views
        self.numbers = {tensor.uid: i for i, tensor in enumerate(graph.tensors, start=1)}
        self._host = host_scalars(graph)
        self._made: dict[int, Any] = {}

    def data_type(self, name: str) -> Any:
        if name not in DATA_TYPES:
            raise UnsupportedGraphError(f"cudnn: there is no data type {name} in cuDNN")
        return getattr(self.cudnn.data_type, DATA_TYPES[name])

    def tensor(self, uid: int) -> Any:
        """Return the tensor as an operand, described to cuDNN when it is first met."""
        if uid not in self._made:
            tensor, view = self.graph.by_uid[uid], self.views[uid]
            self._made[uid] = self.pygraph.tensor(
                uid=self.numbers[uid],
                name=f"t{uid}",
                dim=list(view.dims),
                stride=list(view.strides),
                data_type=self.data_type(tensor.data_type),
                is_pass_by_value=uid in self._host,
            )
        return self._made[uid]

    def give(self, node: Node, uid: int, result: Any) -> None:
        tensor, view = self.graph.by_uid[uid], self.views[uid]
        result.set_uid(self.numbers[uid]).set_name(f"t{uid}")
        result.set_data_type(self.data_type(tensor.data_type))
        if not tensor.virtual or node.type in EXPLICIT:
            result.set_dim(list(view.dims)).set_stride(list(view.strides))
        result.set_output(not tensor.virtual)
        self._made[uid] = result


class Call:
    """One node, as a row's function sees it."""

    def __init__(self, operands: Operands, node: Node) -> None:
        self.node, self._operands = node, operands
        self.cudnn, self.graph = operands.cudnn, operands.graph
        compute = operands.data_type(node.compute_data_type)
        self._common = {"name": node.name or node.type, "compute_data_type": compute}

    def has(self, port: str) -> bool:
        return port in self.node.inputs or port in self.node.outputs

    def operand(self, port: str) -> Any:
        """Return the tensor at `port`; None for an unused one."""
        uid = self.node.inputs.get(port)
        return None if uid is None else self._operands.tensor(uid)

    def tensor_of(self, port: str) -> Any:
        """Return the graph's tensor at `port`, input or output."""
        return self.graph.by_uid[{**self.node.inputs, **self.node.outputs}[port]]

    def attribute(self, name: str) -> Any:
        return self.node.attributes.get(name)

    def need(self, *ports: str) -> None:
        for port in ports:
            if not self.has(port):
                raise refuse(self.node, f"cuDNN needs {port}, which this node leaves out")

    def make(self, method: str, **arguments: Any) -> Any:
        return getattr(self._operands.pygraph, method)(**arguments, **self._common)


REFUSED = (
    "seed",
    "offset",
    "dropout_mask",
    "dropout_scale",
    "dropout_scale_inv",
    "block_mask",
    "rng_dump",
    "max",
    "sum_exp",
    "dbias",
)
"""Ports that are not lowered: dropout, sparse blocks and what goes with them."""
OF_FP8 = {"diagonal_band_left_bound": "left_bound", "diagonal_band_right_bound": "right_bound"}
"""Arguments of `sdpa` → the same of `sdpa_fp8`."""


def forward(call: Call) -> dict[str, Any]:
    arguments = _shared(call)
    if call.has("sink_token"):
        arguments["sink_token"] = call.operand("sink_token")
    for port, name in (("page_table_k", "k"), ("page_table_v", "v")):
        if call.has(port):
            arguments[f"paged_attention_{name}_table"] = call.operand(port)
            # Keys that the page tables can hold: cuDNN wants just that, the sequences' lengths
            # mask.
            pages, page = call.tensor_of("page_table_k").dims[1], call.tensor_of("k").dims[2]
            stated = call.attribute("max_seq_len_kv")
            sequences = call.tensor_of("page_table_k").dims[0]
            if sequences != call.tensor_of("q").dims[0]:
                why = f"{sequences} sequences packed into a batch of {call.tensor_of('q').dims[0]}"
                raise refuse(call.node, f"{why}: cuDNN wants a batch for each")
            if stated is not None and -(-stated // page) != pages:
                why = f"{pages} pages of {page} keys contradict a max_seq_len_kv of {stated}"
                raise refuse(call.node, why)
            arguments["paged_attention_max_seq_len_kv"] = int(pages * page)
    arguments["generate_stats"] = call.has("stats")
    if not call.has(FACTORS[0]):
        made = call.make("sdpa", **arguments)
        return dict(zip(("o", "stats"), made, strict=True))
    arguments = {OF_FP8.get(name, name): value for name, value in arguments.items()}
    made = call.make("sdpa_fp8", **{port: call.operand(port) for port in FACTORS}, **arguments)
    for largest in made[2:]:
        largest.set_dim([1, 1, 1, 1]).set_stride([1, 1, 1, 1])
        largest.set_data_type(call.cudnn.data_type.FLOAT)
    return dict(zip(("o", "stats", "amax_s", "amax_o"), made, strict=True))


def backward(call: Call) -> dict[str, Any]:
    used = [port for port in (*FACTORS, "sink_token") if call.has(port)]
    if used:
        raise refuse(call.node, f"{', '.join(used)}: not lowered to cuDNN here")
    made = call.make(
        "sdpa_backward",
        o=call.operand("o"),
        dO=call.operand("do"),
        stats=call.operand("stats"),
        **_shared(call),
    )
    return dict(zip(("dq", "dk", "dv"), made, strict=True))


def _shared(call: Call) -> dict[str, Any]:
    used = [port for port in REFUSED if call.has(port)]
    if used:
        raise refuse(call.node, f"{', '.join(used)}: not lowered to cuDNN here")
    if call.attribute("dropout_probability"):
        raise refuse(call.node, "dropout draws other numbers than the reference")
    arguments: dict[str, Any] = {port: call.operand(port) for port in ("q", "k", "v")}
    if call.has("attn_mask"):
        arguments["bias"] = call.operand("attn_mask")
    if call.attribute("alibi_mask"):
        arguments["use_alibi_mask"] = True
    if call.has("seq_len_q") or call.has("seq_len_kv"):
        call.need("seq_len_q", "seq_len_kv")
        arguments["use_padding_mask"] = True
        arguments["seq_len_q"] = call.operand("seq_len_q")
        arguments["seq_len_kv"] = call.operand("seq_len_kv")
    return {**arguments, **_scale(call), **_mask(call)}


def _scale(call: Call) -> dict[str, Any]:
    """Return the attention scale; without one the frontend does not scale, while the graph means
    1/√D."""
    if call.has("scale"):
        return {"attn_scale": call.operand("scale")}
    value = call.attribute("attn_scale_value")
    head_size = call.tensor_of("q").dims[3]
    return {"attn_scale": 1 / math.sqrt(head_size) if value is None else value}


def _mask(call: Call) -> dict[str, Any]:
    """Return cuDNN's arguments for the mask: row i sees the keys j with i + shift - left <= j <= i
    + shift + right. cuDNN's left bound leaves its own key out, ours does not."""
    seen = band(call.node.attributes)
    arguments: dict[str, Any] = {}
    if seen.left is not None:
        arguments["diagonal_band_left_bound"] = seen.left + 1
    if seen.right is not None:
        arguments["diagonal_band_right_bound"] = seen.right
    if arguments:
        corners = call.cudnn.diagonal_alignment
        corner = corners.BOTTOM_RIGHT if seen.bottom_right else corners.TOP_LEFT
        arguments["diagonal_alignment"] = corner
    return arguments


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


def matmul(call: Call) -> Results:
    batches = zip(call.tensor_of("a").dims[:-2], call.tensor_of("b").dims[:-2], strict=True)
    for a, b in batches:
        if a != b and 1 not in (a, b):
            raise refuse(call.node, f"batches of {a} and {b}: cuDNN spreads only single ones")
    return {"c": call.make("matmul", A=call.operand("a"), B=call.operand("b"))}


def pointwise(call: Call) -> Results:
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


def reduction(call: Call) -> Results:
    mode = call.attribute("mode")
    if mode not in REDUCTIONS:
        raise refuse(call.node, f"cuDNN has no reduction {mode}")
    chosen = getattr(call.cudnn.reduction_mode, REDUCTIONS[mode])
    return {"out": call.make("reduction", input=call.operand("in"), mode=chosen)}


def _normalisation(
    method: str, operands: str, results: str, need: str = "", saved: str = ""
) -> Callable[[Call], Results]:
    """`operands`: arguments, each with the port's name where that is another one. If a node keeps
    none of the statistics in `saved`, cuDNN runs it for inference."""
    ports = {name: port or name for name, _, port in (o.partition("=") for o in operands.split())}
    statistics = saved.split()

    def lower(call: Call) -> Results:
        if call.node.input_lists.get("peer_stats"):
            raise refuse(call.node, "peer_stats need several devices")
        call.need(*need.split())
        arguments = {name: call.operand(port) for name, port in ports.items()}
        if statistics:
            phases, trains = call.cudnn.norm_forward_phase, any(map(call.has, statistics))
            arguments["norm_forward_phase"] = phases.TRAINING if trains else phases.INFERENCE
        return dict(zip(results.split(), call.make(method, **arguments), strict=True))

    return lower


def rmsnorm_backward(call: Call) -> Results:
    made = call.make(
        "rmsnorm_backward",
        grad=call.operand("dy"),
        input=call.operand("x"),
        scale=call.operand("scale"),
        inv_variance=call.operand("inv_rms"),
        has_dbias=call.has("dbias"),
    )
    return dict(zip(("dx", "dscale", "dbias"), made, strict=False))


_GRADIENTS = ("grad=dy input=x scale mean inv_variance", "dx dscale dbias", "mean inv_variance")

NODES: Mapping[str, Callable[[Call], Results]] = {
    "BatchnormAttributes": _normalisation(
        "batchnorm",
        "input=x scale bias epsilon momentum"
        " in_running_mean=prev_running_mean in_running_var=prev_running_variance",
        "y mean inv_variance next_running_mean next_running_variance",
    ),
    "BatchnormBackwardAttributes": _normalisation("batchnorm_backward", *_GRADIENTS),
    "ConvolutionBwdAttributes": _convolution("conv_dgrad", "dy", "w", "dx", "loss filter"),
    "ConvolutionFwdAttributes": _convolution("conv_fprop", "x", "w", "y", "image weight"),
    "ConvolutionWrwAttributes": _convolution("conv_wgrad", "x", "dy", "dw", "image loss"),
    "LayernormAttributes": _normalisation(
        "layernorm",
        "input=x scale bias epsilon",
        "y mean inv_variance",
        saved="mean inv_variance",
    ),
    "LayernormBackwardAttributes": _normalisation("layernorm_backward", *_GRADIENTS),
    "MatmulAttributes": matmul,
    "PointwiseAttributes": pointwise,
    "RMSNormAttributes": _normalisation(
        "rmsnorm", "input=x scale bias epsilon", "y inv_rms", saved="inv_rms"
    ),
    "RMSNormBackwardAttributes": rmsnorm_backward,
    "ReductionAttributes": reduction,
    "SdpaAttributes": forward,
    "SdpaBackwardAttributes": backward,
}
