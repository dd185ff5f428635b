"""A plan: buffers, the program over them, and where its results are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from bench_run.engines.base import PlanAbilities, PlanFacts
from bench_run.engines.torch_engine import (
    attention,
    batchnorm,
    block_scale,
    conv,
    custom,
    matmul,
    moe,
    norms,
    pointwise,
    reduction,
    resample,
)
from bench_run.engines.torch_engine.op import (
    TYPES,
    BoundKernel,
    TorchOp,
    foreign_errors,
    poison,
    rounded_to,
    seen_only,
    storage,
    strided,
)
from bench_run.errors import UnsupportedGraphError
from bench_run.graph.dtypes import array_type
from bench_run.graph.meaning import refuse
from bench_run.tensors.host_memory import holds_same_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from bench_run.engines.base import Captured, Home
    from bench_run.graph.model import Graph, Node, Tensor
    from bench_run.tensors.layout import Storage, Storages


T: TypeAlias = torch.Tensor
Function = Callable[[Sequence[T]], list[T]]

_NOTHING = torch.empty(0)
FOREIGN = (RuntimeError, TypeError, ValueError, IndexError, MemoryError)


class TorchPlan:
    """Results that PyTorch allocates in the very layout of their tensor are the outputs; others
    are copied into buffers of that layout, as part of the run. Which is which shows in the first
    run and stays so.
    """

    def __init__(
        self,
        graph: Graph,
        program: TorchProgram,
        function: Function,
        device: torch.device,
        *,
        replays: bool = False,
    ) -> None:
        """`replays`: it will be captured, and so keep memory of its own for its results."""
        self._replays = replays
        self._graph, self._program, self._function = graph, program, function
        self._device, self.launches = device, program.launches
        self._homes = {t.uid: storage(t, device) for t in (*graph.inputs, *graph.outputs)}
        self._inputs: list[T] = [strided(self._homes[t.uid], t) for t in graph.inputs]
        self._buffers = [strided(self._homes[t.uid], t) for t in graph.outputs]
        self._copied: tuple[int, ...] | None = None
        self._results: list[T] = []
        self._sources: tuple[tuple[int, Callable[[], T]], ...] = ()
        """Inputs that lie elsewhere: their index, and what finds them before a run."""
        self._borrowed: set[int] = set()
        self._twins: list[TorchPlan] = []
        """Plans whose results may go once this one runs: their memory is used again."""
        self.captured: Captured | None = None
        self._kept = False
        """True if a captured graph has the results: they stay in their memory."""
        self._gap: T | None = None
        """Memory that is held so that buffers do not take its place."""
        self._leaves = False
        """True if that memory is also for later captures."""
        self.facts = PlanFacts(buffer_bytes=sum(home.nbytes for home in self._homes.values()))

    @property
    def abilities(self) -> PlanAbilities:
        return PlanAbilities(
            locate_outputs=self.locate_outputs,
            locate_inputs=self.locate_inputs,
            changed_inputs=self.changed_inputs,
            share=self.share,
            move=self.move,
            relocate=self.relocate if self._lies_alone else None,
            keep=self.keep,
            replay=self.replay,
            captured=lambda: self.captured,
            uncaptured=self.uncaptured,
        )

    def move(self, offset_bytes: int) -> None:
        for home in list(self._homes):
            tensor = self._graph.by_uid[home]
            item = self._homes[home].element_size()
            wider = torch.zeros(
                tensor.span + offset_bytes // item,
                dtype=self._homes[home].dtype,
                device=self._device,
            )
            self._homes[home] = wider[offset_bytes // item :]
        self._inputs[:] = [strided(self._homes[t.uid], t) for t in self._graph.inputs]
        self._buffers[:] = [strided(self._homes[t.uid], t) for t in self._graph.outputs]
        self.forget()

    @property
    def _lies_alone(self) -> bool:
        """True if it is not captured and shares no memory."""
        return self.captured is None and not (self._borrowed or self._twins or self._kept)

    def relocate(self, gap_bytes: int) -> None:
        self.forget()
        with foreign_errors("relocate"):
            gap = torch.empty(gap_bytes, dtype=torch.uint8, device=self._device)
            # The old ones are there until the last new one is: none takes another one's place.
            homes = {uid: home.clone() for uid, home in self._homes.items()}
        self._inputs[:] = [strided(homes[t.uid], t) for t in self._graph.inputs]
        self._buffers[:] = [strided(homes[t.uid], t) for t in self._graph.outputs]
        self._homes, self._gap = homes, gap

    def share(self, homes: Mapping[int, Home]) -> frozenset[int]:
        """Share memory: inputs are other plans' inputs or results; results replace those of other
        plans."""
        places = {tensor.uid: i for i, tensor in enumerate(self._graph.inputs)}
        for uid, home in homes.items():
            assert isinstance(home.plan, TorchPlan)
            if uid not in places:
                self._share_result(uid, home.plan, home.uid)
                continue
            tensor = self._graph.by_uid[uid]
            others = (source for source in self._sources if source[0] != places[uid])
            self._sources = (*others, (places[uid], home.plan.finder(home, tensor)))
            self._borrowed.add(uid)
            self._homes.pop(uid, None)
            self._inputs[places[uid]] = _NOTHING
        return frozenset(homes)

    def _share_result(self, uid: int, other: TorchPlan, its: int) -> None:
        """Put the results of two plans that never run at the same time into the same memory."""
        if self._replays:
            self._leaves = other._leaves = True
        else:
            self._twins.append(other)
            other._twins.append(self)
        mine, theirs = self._graph.by_uid[uid], other._graph.by_uid[its]
        if (mine.dims, mine.strides, mine.data_type) == (
            theirs.dims,
            theirs.strides,
            theirs.data_type,
        ):
            here, there = self._graph.outputs.index(mine), other._graph.outputs.index(theirs)
            self._homes[uid] = other._homes[its]
            self._buffers[here] = other._buffers[there]

    def finder(self, home: Home, tensor: Tensor) -> Callable[[], T]:
        """Return the function that finds a tensor of another plan in this one's memory, before each
        run."""
        outputs = [t.uid for t in self._graph.outputs]
        if home.uid not in outputs:
            (index,) = (i for i, t in enumerate(self._graph.inputs) if t.uid == home.uid)
            return lambda: _seen_as(self._input(index), tensor, home.offset)
        place = outputs.index(home.uid)
        return lambda: _seen_as(self._current_results()[place], tensor, home.offset)

    def _input(self, index: int) -> T:
        """Return the current place of an input, which may be borrowed too."""
        found = dict(self._sources)
        return found[index]() if index in found else self._inputs[index]

    def upload(self, inputs: Storages) -> None:
        with foreign_errors("upload"):
            for tensor in self._graph.inputs:
                if tensor.uid not in self._borrowed:
                    # As bytes: PyTorch does not know the types of ml_dtypes.
                    given = np.require(inputs[tensor.uid], requirements=["C", "W"]).view(np.uint8)
                    self._homes[tensor.uid].view(torch.uint8).copy_(torch.from_numpy(given))

    def poison(self) -> None:
        """Poison results: captured ones stay where they are, others are freed."""
        self.forget()
        with foreign_errors("poison"):
            for tensor, result in zip(self._graph.outputs, self._current_results(), strict=True):
                poison(result.as_strided((tensor.span,), (1,)), tensor.data_type)

    def _current_results(self) -> list[T]:
        return self._results if self._results else self._buffers

    def run(self) -> None:
        self._results = []  # its memory is reused: one set of outputs, as caches see it
        for twin in self._twins:
            twin.forget()
        for index, find in self._sources:
            self._inputs[index] = find()
        try:
            found = self._function(self._inputs)
            for index in self._layouts(found) if self._copied is None else self._copied:
                found[index] = self._buffers[index].copy_(found[index])
        except FOREIGN as error:
            # Ours in place of PyTorch's, with the node's name where it comes from one.
            if not isinstance(error, torch.OutOfMemoryError):
                self._program.blame(self._inputs)
            with foreign_errors("run"):
                raise error
        self._results = found
        for index, _ in self._sources:
            self._inputs[index] = _NOTHING  # else the memory could not be used again

    def forget(self) -> None:
        if not self._kept:
            self._results = []

    def keep(self) -> None:
        self._kept = True
        if self._leaves:
            self._results = [seen_only(value) for value in self._results]

    def replay(self, captured: Captured) -> None:
        self.keep()
        self.captured = captured
        self.run = captured.launch  # type: ignore[method-assign]

    @contextmanager
    def uncaptured(self) -> Iterator[Callable[[], None]]:
        """Yield a function that runs once without the capture; meanwhile the results are in other
        memory."""
        results = self._results
        try:
            yield partial(TorchPlan.run, self)
        finally:
            self._results = results

    def download(self) -> dict[int, Storage]:
        with foreign_errors("download"):
            outputs = zip(self._graph.outputs, self._current_results(), strict=True)
            return {tensor.uid: _storage(tensor, value) for tensor, value in outputs}

    def locate_outputs(self, *, upcoming: bool) -> dict[int, Storage | int]:  # noqa: ARG002
        """Return the places of outputs; results that are allocated anew take those of the ones
        before, once these are freed."""
        outputs = zip(self._graph.outputs, self._current_results(), strict=True)
        if self._device.type != "cpu":
            return {tensor.uid: value.data_ptr() for tensor, value in outputs}
        return {
            tensor.uid: value.as_strided((tensor.span,), (1,)).view(torch.uint8).numpy()
            for tensor, value in outputs
        }

    def locate_inputs(self) -> dict[int, Storage | int]:
        own = {t.uid: self._homes[t.uid] for t in self._graph.inputs if t.uid in self._homes}
        if self._device.type != "cpu":
            return {uid: home.data_ptr() for uid, home in own.items()}
        return {uid: home.view(torch.uint8).numpy() for uid, home in own.items()}

    def changed_inputs(self, inputs: Storages) -> tuple[int, ...]:
        with foreign_errors("download"):
            return tuple(
                tensor.uid
                for tensor in self._graph.inputs
                if tensor.uid in inputs and tensor.uid not in self._borrowed
                if not holds_same_bytes(inputs[tensor.uid], partial(self._read, tensor.uid))
            )

    def _read(self, uid: int, into: npt.NDArray[np.uint8], begin: int) -> None:
        """Read the bytes of an input from `begin` on."""
        raw = self._homes[uid].view(torch.uint8)
        torch.from_numpy(into).copy_(raw[begin : begin + into.size])

    def close(self) -> None:
        if self.captured is not None:
            self.captured.close()
        self._results, self._inputs, self._buffers = [], [], []
        self._sources, self._twins, self._gap = (), [], None
        self._homes.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _layouts(self, found: list[T]) -> tuple[int, ...]:
        """Return the indices of results that are not directly the output: another layout, or memory
        of an input or another output."""
        held = (*self._homes.values(), *self._inputs)
        taken = {value.untyped_storage().data_ptr() for value in held}
        copied = []
        for index, (tensor, value) in enumerate(zip(self._graph.outputs, found, strict=True)):
            place = value.untyped_storage().data_ptr()
            if not _in_layout(tensor, value) or place in taken:
                copied.append(index)
            taken.add(place)
        self._copied = tuple(copied)
        return self._copied


def _seen_as(value: T, tensor: Tensor, offset: int) -> T:
    """Return another plan's tensor as this one's dims and strides have it."""
    if offset == 0 and value.shape == tensor.dims and value.stride() == tensor.strides:
        return value
    return value.as_strided(tensor.dims, tensor.strides, value.storage_offset() + offset)


def _in_layout(tensor: Tensor, value: T) -> bool:
    axes = zip(value.shape, value.stride(), tensor.strides, strict=True)
    return value.shape == tensor.dims and all(n == 1 or have == want for n, have, want in axes)


def _storage(tensor: Tensor, value: T) -> Storage:
    data = np.empty(tensor.span, array_type(tensor.data_type))
    raw = value.as_strided((tensor.span,), (1,)).view(torch.uint8)
    torch.from_numpy(data.view(np.uint8)).copy_(raw)
    return data


KERNELS: Mapping[str, Callable[[TorchOp], BoundKernel]] = {
    "BatchnormAttributes": batchnorm.training,
    "BatchnormBackwardAttributes": batchnorm.backward,
    "BatchnormInferenceAttributes": batchnorm.inference,
    "BatchnormInferenceAttributesVarianceExt": batchnorm.inference_variance,
    "BlockScaleDequantizeAttributes": block_scale.dequantize,
    "BlockScaleQuantizeAttributes": block_scale.quantize,
    "ConvolutionBwdAttributes": conv.convolution_backward_data,
    "ConvolutionFwdAttributes": conv.convolution_forward,
    "ConvolutionWrwAttributes": conv.convolution_backward_weights,
    "CustomOpAttributes": custom.custom,
    "LayernormAttributes": norms.layernorm,
    "LayernormBackwardAttributes": norms.layernorm_backward,
    "MatmulAttributes": matmul.matmul,
    "MoeGroupedMatmulAttributes": moe.forward,
    "MoeGroupedMatmulBwdAttributes": moe.weight_gradient,
    "PointwiseAttributes": pointwise.pointwise,
    "RMSNormAttributes": norms.rmsnorm,
    "RMSNormBackwardAttributes": norms.rmsnorm_backward,
    "ReductionAttributes": reduction.reduction,
    "ResampleBwdAttributes": resample.resample_backward,
    "ResampleFwdAttributes": resample.resample,
    "SdpaAttributes": attention.attention,
    "SdpaBackwardAttributes": attention.attention_backward,
}


@dataclass(frozen=True)
class Step:
    """A bound node: slots it reads, slots it writes and the type of each."""

    label: str
    call: BoundKernel
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    types: tuple[str, ...]
    wanted: tuple[torch.dtype, ...]

    def run(self, values: list[Any]) -> None:
        found = self.call.function(*[values[slot] for slot in self.reads])
        if isinstance(found, torch.Tensor):
            found = (found,)
        for index, value in enumerate(found):
            is_rounded = value.dtype == self.wanted[index]
            kind = self.types[index]
            values[self.writes[index]] = value if is_rounded else rounded_to(value, kind)


class TorchProgram:
    """Calls the steps in order. Inputs and outputs as in `Graph.inputs` and `Graph.outputs`.

    Slots are places in one list, constants first: a plain loop over plain lists is what
    `torch.compile` can follow.
    """

    def __init__(self, graph: Graph, device: torch.device) -> None:
        self.slots = {tensor.uid: i for i, tensor in enumerate(graph.tensors)}
        self.inputs = tuple(self.slots[t.uid] for t in graph.inputs)
        self.outputs = tuple(self.slots[t.uid] for t in graph.outputs)
        self.initial: list[Any] = [None] * len(graph.tensors)
        for tensor in graph.constants:
            assert tensor.value is not None
            value = torch.full(tensor.dims, tensor.value, dtype=TYPES[tensor.data_type])
            self.initial[self.slots[tensor.uid]] = value.to(device)
        self.steps = tuple(_bind(graph, node, device, self.slots) for node in graph.nodes)

    @property
    def compiles(self) -> bool:
        return all(step.call.compiles for step in self.steps)

    @property
    def launches(self) -> int:
        """Kernels of one run, estimated from above: conversions of types included."""
        return sum(step.call.launches + 2 * len(step.writes) for step in self.steps)

    def __call__(self, inputs: Sequence[T]) -> list[T]:
        values = list(self.initial)
        for index, slot in enumerate(self.inputs):
            values[slot] = inputs[index]
        for step in self.steps:
            step.run(values)
        return [values[slot] for slot in self.outputs]

    def as_call(self) -> Callable[..., Any]:
        """Return a function of the inputs in order that returns the outputs: PyTorch's own if it
        is one call."""
        if len(self.steps) == 1:
            (step,) = self.steps
            function, wanted = step.call.function, step.wanted
            if len(wanted) == 1 and step.reads == self.inputs:
                (kind,), (dtype,) = step.types, wanted

                def call(*inputs: T) -> Any:
                    found: Any = function(*inputs)
                    if type(found) is tuple:
                        (found,) = found
                    return found if found.dtype == dtype else rounded_to(found, kind)

                return call
        return lambda *inputs: self(inputs)

    def blame(self, inputs: Sequence[T]) -> None:
        """Run node by node, so that the error names its node."""
        values = list(self.initial)
        for slot, value in zip(self.inputs, inputs, strict=True):
            values[slot] = value
        for step in self.steps:
            with foreign_errors(step.label):
                step.run(values)


def check(graph: Graph) -> None:
    """Refuse unknown node types and data types, and nodes without a certain meaning."""
    for node in graph.nodes:
        if node.type not in KERNELS:
            raise UnsupportedGraphError(f"torch: {node.label}: no kernel for this node type")
        for uid in (*node.inputs.values(), *node.outputs.values()):
            kind = graph.by_uid[uid].data_type
            if kind not in TYPES:
                what = f"tensor {uid} is {kind}, a type this PyTorch does not have"
                raise UnsupportedGraphError(f"torch: {node.label}: {what}")
    try:
        refuse(graph)
    except UnsupportedGraphError as error:
        raise UnsupportedGraphError(f"torch: {error}") from None


def _bind(graph: Graph, node: Node, device: torch.device, slots: dict[int, int]) -> Step:
    call = KERNELS[node.type](TorchOp(graph, node, device))
    for port in node.outputs:
        if port not in call.outputs:
            what = f"no kernel for its output {port}"
            raise UnsupportedGraphError(f"torch: {node.label}: {what}")
    types = tuple(graph.by_uid[node.outputs[port]].data_type for port in call.outputs)
    return Step(
        label=node.label,
        call=call,
        reads=tuple(slots[node.inputs[port]] for port in call.inputs),
        writes=tuple(slots[node.outputs[port]] for port in call.outputs),
        types=types,
        wanted=tuple(TYPES[kind] for kind in types),
    )


cuda: Any = torch.cuda  # partly without types


class DeviceGraph:
    """Captured work. Its tensors lie in memory of its own, the same in every launch."""

    def __init__(self, run: Callable[[], None], pool: object = None) -> None:
        """`run` must have run before: the first time loads what a capture must not. `pool`: that of
        another one, which is launched before or after this one, never beside it: what neither
        holds as a tensor any more is memory for both."""
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, pool=pool, stream=cuda.current_stream()):
            run()
        self._graph = graph
        self.pool: object = graph.pool()
        self.launch: Callable[[], None] = graph.replay

    def again(self, work: Callable[[], None]) -> DeviceGraph:
        with foreign_errors("capture"):
            return DeviceGraph(work)

    def close(self) -> None:
        self._graph.reset()
