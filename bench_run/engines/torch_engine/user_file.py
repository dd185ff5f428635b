"""Functions of a user's file on the buffers and the stream of the engine.

Tensors are PyTorch's with the dims and strides of the graph; other frameworks see the same memory.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from bench_run.engines.spec import refuse_unknown
from bench_run.engines.torch_engine.engine import TorchEngine, open_engine
from bench_run.engines.torch_engine.op import TYPES, UNKNOWN_LAUNCHES, foreign_errors
from bench_run.engines.torch_engine.plan import TorchPlan, TorchProgram
from bench_run.engines.user_file import CALL, KERNEL, BuiltKernel, KernelChoice, LibraryCall
from bench_run.errors import BenchRunError, EngineUnavailableError, UnsupportedGraphError
from bench_run.graph.model import Graph
from bench_run.streams.cuda import clock_of
from bench_run.user.kernels import KernelFile, Problem
from bench_run.user.source import load_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.engines.base import EngineAbilities, EngineOptions, EngineSpec, Plan


TORCH = "torch"


class Framework:
    """PyTorch itself."""

    foreign = False
    """True if arrays differ from PyTorch's tensors."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def give(self, tensor: torch.Tensor) -> Any:
        """Return the tensor's memory in the framework's form."""
        return tensor

    def take(self, value: Any) -> Any:
        """Return a result as a tensor; as it is if it cannot be one."""
        return value

    def stream(self) -> Any:
        """Return the stream of the run in the framework's form."""
        return None if self.device.type == "cpu" else torch.cuda.current_stream(self.device)

    def context(self) -> AbstractContextManager[Any]:
        """Make the stream of the run the current one."""
        return nullcontext()

    def finish(self, found: Any) -> Any:
        """Return the results, complete as far as the stream of the run does not tell."""
        return found


class _Foreign(Framework):
    foreign = True

    def __init__(self, device: torch.device, module: Any) -> None:
        super().__init__(device)
        self.module = module

    def take(self, value: Any) -> Any:
        if type(value) is torch.Tensor or not hasattr(value, "__dlpack__"):
            return value
        return torch.from_dlpack(value)


class _Numpy(_Foreign):
    """NumPy functions, on a processor."""

    def give(self, tensor: torch.Tensor) -> Any:
        return tensor.numpy()

    def take(self, value: Any) -> Any:
        return torch.from_numpy(value) if type(value) is self.module.ndarray else value


class _Cupy(_Foreign):
    def __init__(self, device: torch.device, module: Any) -> None:
        super().__init__(device, module)
        pointer = torch.cuda.current_stream(device).cuda_stream
        self._stream = module.cuda.ExternalStream(pointer)

    def give(self, tensor: torch.Tensor) -> Any:
        return self.module.from_dlpack(tensor)

    def stream(self) -> Any:
        return self._stream

    def context(self) -> AbstractContextManager[Any]:
        stream: AbstractContextManager[Any] = self._stream
        return stream


class _Numba(_Foreign):
    """Kernels are launched with ``[grid, block, stream]``: `stream` is a keyword-only parameter."""

    def give(self, tensor: torch.Tensor) -> Any:
        return self.module.cuda.as_cuda_array(tensor)

    def take(self, value: Any) -> Any:
        is_array = hasattr(value, "__cuda_array_interface__")
        return torch.as_tensor(value, device=self.device) if is_array else value

    def stream(self) -> Any:
        pointer = torch.cuda.current_stream(self.device).cuda_stream
        return self.module.cuda.external_stream(pointer)


class _Jax(_Foreign):
    """JAX has a stream of its own: an execution begins once ours is idle, and ends with JAX's."""

    def give(self, tensor: torch.Tensor) -> Any:
        return self.module.dlpack.from_dlpack(tensor)

    def context(self) -> AbstractContextManager[Any]:
        if self.device.type != "cpu":
            torch.cuda.current_stream(self.device).synchronize()
        return nullcontext()

    def finish(self, found: Any) -> Any:
        return self.module.block_until_ready(found)


_CLASSES: dict[str, Callable[[torch.device, Any], Framework]] = {
    "numpy": _Numpy,
    "cupy": _Cupy,
    "numba": _Numba,
    "jax": _Jax,
}


def framework(name: str, device: torch.device) -> Framework:
    """Return the framework. Raises `EngineUnavailableError` if it is not installed."""
    if name not in _CLASSES:
        return Framework(device)
    from importlib import import_module

    try:
        module = import_module(name)
        if name == "numba":
            import_module("numba.cuda")
    except ImportError as error:
        raise EngineUnavailableError(f"the file uses {name}, which does not load: {error}") from (
            error
        )
    return _CLASSES[name](device, module)


class KernelProgram:
    """A function as a program of the plan (see `TorchProgram`)."""

    launches = UNKNOWN_LAUNCHES

    def __init__(self, built: BuiltKernel, device: torch.device) -> None:
        self.built, kernel = built, built.kernel
        if kernel.framework == "numpy" and device.type != "cpu":
            raise UnsupportedGraphError("functions of NumPy run on a processor: kernel+cpu@FILE")
        self.framework = framework(kernel.framework, device)

        def allocate(nbytes: int) -> Any:
            return self.framework.give(torch.empty(nbytes, dtype=torch.uint8, device=device))

        knobs, stream = kernel.typed(built.graph, built.knobs), self.framework.stream()
        self.problem = Problem(built.graph, knobs, str(device), stream, allocate)
        self.call = kernel.prepare(self.problem)
        self.buffers: Sequence[torch.Tensor] = ()
        self._seen: list[torch.Tensor | None] = []
        self._given: list[Any] = []

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        outputs = self.buffers
        if not self.framework.foreign:
            return self.call(inputs, outputs)
        every = (*inputs, *outputs)
        if len(every) != len(self._seen) or any(map(_differ, every, self._seen)):
            # Once for each set of buffers: the same memory in the framework's own form.
            self._seen = list(every)
            self._given = [self.framework.give(each) for each in every]
        count = len(inputs)
        given = self._given
        with self.framework.context():
            found: list[Any] = self.framework.finish(self.call(given[:count], given[count:]))
        for place in self.call.bound.written:
            found[place] = outputs[place]
        return found

    def blame(self, inputs: Sequence[torch.Tensor]) -> None:
        """Do nothing: errors of the function name their line already."""


def _differ(one: object, other: object) -> bool:
    return one is not other


class TorchKernelPlan(TorchPlan):
    """Results are outputs as they are; in another layout they are copied as part of the run."""

    def __init__(
        self, built: BuiltKernel, program: KernelProgram, device: torch.device, *, replays: bool
    ) -> None:
        super().__init__(built.graph, program, program, device, replays=replays)  # type: ignore[arg-type]
        self._kernel = program
        program.buffers = self._buffers
        problem = program.problem
        chosen = {KERNEL: built.kernel.name, **{k: str(v) for k, v in problem.knobs.items()}}
        self._chosen = replace(
            self.facts, chosen=chosen, workspace_bytes=problem.workspace_bytes or None
        )
        self.facts = self._chosen

    def _layouts(self, found: list[Any]) -> tuple[int, ...]:
        """Check the results of the first run. Those in the outputs' own memory are not copied."""
        call = self._kernel.call
        for index, tensor in enumerate(self._graph.outputs):
            value = found[index] = self._kernel.framework.take(found[index])
            if type(value) is not torch.Tensor:
                raise call.refusal(f"returned a {type(value).__qualname__}")
            want = tensor.dims, TYPES[tensor.data_type]
            call.check(tensor.name, (tuple(value.shape), value.dtype), want)
            if value.device != self._buffers[index].device:
                raise call.refusal(f"returned {tensor.name} on {value.device}")
        own = call.bound.written
        self._copied = tuple(i for i in super()._layouts(found) if i not in own)
        if self._copied:
            names = ", ".join(self._graph.outputs[i].name for i in self._copied)
            chosen = {**self._chosen.chosen, "copied outputs": names}
            self.facts = replace(self._chosen, chosen=chosen)
        return self._copied

    def _current_results(self) -> list[torch.Tensor]:
        if self._results:
            self._results = [self._kernel.framework.take(each) for each in self._results]
        return super()._current_results()


class TorchKernelEngine(TorchEngine):
    def __init__(self, spec: EngineSpec, options: EngineOptions, *device: Any) -> None:
        self._choice = KernelChoice(spec, options)
        super().__init__(spec, options, *device)
        self.facts = self._choice.facts(self.facts)

    @property
    def abilities(self) -> EngineAbilities:
        return self._choice.abilities(super().abilities)

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:
        return self._choice.variants(graph)

    def build(self, graph: Graph, variant: Mapping[str, str]) -> Any:
        for tensor in (*graph.inputs, *graph.outputs):
            if tensor.data_type not in TYPES:
                what = f"{tensor.name} is {tensor.data_type}, a type this PyTorch does not have"
                raise UnsupportedGraphError(what)
        built = self._choice.build(graph, variant)
        self.reset_memory()
        return built

    def plan(self, built: object) -> Plan:
        assert isinstance(built, BuiltKernel)
        return self.arrange(lambda: self.part(built), built.graph)

    def part(self, built: object) -> Plan:
        assert isinstance(built, BuiltKernel)
        with foreign_errors("plan"):
            program = KernelProgram(built, self._device)
            return TorchKernelPlan(built, program, self._device, replays=self._replay)


class TorchCallEngine(TorchEngine):
    """PyTorch's own calls for a graph, through the door of files."""

    def part(self, built: object) -> Plan:
        assert isinstance(built, Graph)
        with foreign_errors("plan"):
            own = LibraryCall("torch", TorchProgram(built, self._device).as_call(), "torch")
            program = KernelProgram(BuiltKernel(built, own, {}), self._device)
            return TorchKernelPlan(program.built, program, self._device, replays=self._replay)


def _uses_jax(spec: EngineSpec) -> bool:
    return any(
        each.framework == "jax" for each in KernelFile(load_source(spec.plugin_path or "")).kernels
    )


def _timer_of_jax(timer: str) -> str:
    """Return the timer for JAX, whose stream is its own, so that marks on ours do not time it:
    kernel records, and without CUPTI the host's clock."""
    if timer not in ("auto", "events"):
        return timer
    try:
        clock_of("cupti")
    except BenchRunError:
        return "host"
    return "cupti"


def open_kernels(spec: EngineSpec, options: EngineOptions) -> TorchEngine:
    """Open PyTorch on the GPU if there is one; ``+cpu`` keeps it on the processor."""
    if spec.name == TORCH:
        refuse_unknown(spec, options=(CALL,))
        return open_engine(replace(spec, options=()), options, TorchCallEngine)
    refuse_unknown(spec, options=("cpu", "cuda"), plugin=True)
    where = next((o for o in spec.options if o in ("cpu", "cuda")), None)
    if where != "cpu" and torch.cuda.is_available() and _uses_jax(spec):
        options = replace(options, timer=_timer_of_jax(options.timer))

    def make(_spec: EngineSpec, *parts: Any) -> TorchEngine:
        return TorchKernelEngine(spec, *parts)

    return open_engine(replace(spec, id=where, options=()), options, make)
