"""Sessions of ONNX Runtime on buffers of the processor or of a GPU."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from bench_run.engines.base import EngineAbilities, EngineFacts
from bench_run.engines.device_engine import DeviceEngine
from bench_run.engines.device_plan import PlainProblem
from bench_run.engines.host_plan import HostEngine, HostPlan, memory_errors
from bench_run.engines.spec import refuse_unknown
from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError, UsageError
from bench_run.graph.to_onnx import TYPES, to_onnx
from bench_run.machine.host import processor_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench_run.engines.base import EngineOptions, EngineSpec
    from bench_run.engines.device_plan import Workspace
    from bench_run.graph.model import Graph
    from bench_run.graph.to_onnx import OnnxModel
    from bench_run.streams.cuda import CudaStream

NAME = "onnxruntime"
CPU, CUDA = "cpu", "cuda"
CUDA_PROVIDER = "CUDAExecutionProvider"
WITHOUT_CUDA = "this ONNX Runtime has no CUDA provider; pip install onnxruntime-gpu"
WITHOUT = ("NOT_IMPLEMENTED", "not implemented", "Could not find an impl", "fallback")
"""Words of a message that reports a missing kernel."""
ERRORS_ONLY = 3
"""Severity of the log."""


INEXACT_DOUBLE = ("ConvolutionBwdAttributes", "SdpaAttributes")
INEXACT_DOUBLE_MODES = ("tan",)
"""Nodes whose double results on a GPU are wrong from the ninth digit on (1.31.1, H200)."""


def refuse_inexact(graph: Graph) -> None:
    """Raise `UnsupportedGraphError` for double nodes that the CUDA provider rounds to less."""
    for node in graph.nodes:
        kinds = {graph.by_uid[uid].data_type for uid in node.outputs.values()}
        mode = node.attributes.get("operation")
        if "double" in kinds and (node.type in INEXACT_DOUBLE or mode in INEXACT_DOUBLE_MODES):
            what = "its double results on a GPU are not double"
            raise UnsupportedGraphError(f"onnxruntime: {node.label}: {what}")


@contextmanager
def errors(own: tuple[type[Exception], ...], what: str) -> Iterator[None]:
    """Turn a missing kernel into *unsupported*, every other error into a failure. `own`: the
    runtime's exceptions."""
    try:
        yield
    except own as error:
        text = " ".join(str(error).split())
        kind = UnsupportedGraphError if any(word in text for word in WITHOUT) else EngineError
        raise kind(f"onnxruntime: {what}: {text[:300]}") from error


def load() -> Any:
    """Load the library. Raises `EngineUnavailableError`."""
    try:
        return import_module("onnxruntime")
    except (ImportError, OSError, RuntimeError) as error:
        what = f"ONNX Runtime does not load: {error}"
        raise EngineUnavailableError(f"{what}; pip install 'dnn-bench[onnxruntime]'") from error


def exceptions() -> tuple[type[Exception], ...]:
    """Return the classes of the runtime's exceptions, which have no common base."""
    found = vars(import_module("onnxruntime.capi.onnxruntime_pybind11_state")).values()
    own = (each for each in found if isinstance(each, type) and issubclass(each, Exception))
    return (RuntimeError, *own)


def versions() -> dict[str, str]:
    found = {}
    for name in ("onnxruntime", "onnxruntime-gpu", "onnx"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class Built(PlainProblem):
    """A graph with its model and session (a `DeviceProblem` on a GPU)."""

    graph: Graph
    model: OnnxModel
    session: Any
    place: tuple[str, int]
    run_options: Any = None
    workspace_bytes: int = 0

    def facts(self) -> dict[str, str]:
        return {"provider": str(self.session.get_providers()[0])}

    def call(self, pack: dict[int, int], workspace: Workspace | None = None) -> Callable[[], None]:  # noqa: ARG002
        """Return a function that does one execution, on the addresses that `pack` then holds."""
        bound: dict[int, int] = {}
        binding: Any = None
        execute, options = self.session.run_with_iobinding, self.run_options
        own = exceptions()

        def run() -> None:
            nonlocal bound, binding
            if pack != bound:
                bound = dict(pack)
                binding = self._bind(bound)
            try:
                execute(binding, options)
            except own:
                with errors(own, "run"):
                    raise

        return run

    def _bind(self, addresses: Mapping[int, int]) -> Any:
        binding, by_uid = self.session.io_binding(), self.graph.by_uid
        ends = (binding.bind_input, self.model.inputs), (binding.bind_output, self.model.outputs)
        for bind, found in ends:
            for end in found:
                kind = TYPES[by_uid[end.uid].data_type]
                bind(end.name, *self.place, kind, list(end.dims), addresses[end.uid])
        return binding


def make_session(
    runtime: Any, model: OnnxModel, threads: int | None, providers: list[Any], entries: list[str]
) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    options.intra_op_num_threads = threads or 0
    for entry in entries:
        options.add_session_config_entry(entry, "1")
    with errors(exceptions(), "build a session"):
        return runtime.InferenceSession(model.data, options, providers=providers)


class HostSessionPlan(HostPlan):
    def __init__(self, built: Built) -> None:
        self._pack: dict[int, int] = {}
        super().__init__(built.graph)
        self.run = built.call(self._pack)  # type: ignore[method-assign]

    def _view(self) -> None:
        super()._view()
        ends = (*self._graph.inputs, *self._graph.outputs)
        self._pack.update({t.uid: int(self.homes[t.uid].ctypes.data) for t in ends})


class HostSessionEngine(HostEngine):
    def __init__(self, runtime: Any, spec: EngineSpec, options: EngineOptions) -> None:
        super().__init__(options)
        self._runtime, self._threads, self._math = runtime, options.threads, options.math
        self.facts = EngineFacts(spec.id, versions(), CPU, processor_name())

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:  # noqa: ARG002
        return ({},)

    def build(self, graph: Graph, variant: Mapping[str, str]) -> Built:  # noqa: ARG002
        model = to_onnx(graph, fast=self._math == "fast")
        providers = ["CPUExecutionProvider"]
        session = make_session(self._runtime, model, self._threads, providers, [])
        return Built(graph, model, session, (CPU, 0))

    @memory_errors()
    def part(self, built: object) -> HostSessionPlan:
        assert isinstance(built, Built)
        return HostSessionPlan(built)


class CudaSessionEngine(DeviceEngine):
    """Engine for sessions on our CUDA stream; a node without a GPU kernel makes a graph
    unsupported, instead of running on the processor."""

    def __init__(
        self, runtime: Any, stream: CudaStream, spec: EngineSpec, options: EngineOptions
    ) -> None:
        super().__init__(NAME, stream, options)
        self._runtime, self._threads, self._math = runtime, options.threads, options.math
        self.facts = self.device_facts(spec, versions())

    @property
    def abilities(self) -> EngineAbilities:
        return EngineAbilities(part=self.part, arrange=self.arrange)

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:  # noqa: ARG002
        return ({},)

    def build(self, graph: Graph, variant: Mapping[str, str]) -> Built:  # noqa: ARG002
        refuse_inexact(graph)
        model, index = to_onnx(graph, fast=self._math == "fast"), self._cuda.device.index
        settings = {
            "device_id": str(index),
            "user_compute_stream": str(self._cuda.handle.value),
            "use_tf32": "0" if self._math == "fp32" else "1",
        }
        entries = ["session.disable_cpu_ep_fallback"]
        providers = [(CUDA_PROVIDER, settings)]
        session = make_session(self._runtime, model, self._threads, providers, entries)
        if session.get_providers()[0] != CUDA_PROVIDER:
            raise EngineError("onnxruntime: its CUDA provider does not load; the log says why")
        options = self._runtime.RunOptions()
        options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        return Built(graph, model, session, (CUDA, index), options)

    def complete(self, built: object) -> Built:
        assert isinstance(built, Built)
        return built


def open_engine(spec: EngineSpec, options: EngineOptions) -> HostSessionEngine | CudaSessionEngine:
    refuse_unknown(spec, options=())
    if spec.id not in (None, CPU, CUDA):
        raise UsageError(f"engine {spec.text!r}: expected cpu or cuda after the colon")
    runtime = load()
    has_cuda = CUDA_PROVIDER in runtime.get_available_providers()
    if spec.id == CUDA and not has_cuda:
        raise EngineUnavailableError(WITHOUT_CUDA)
    if spec.id == CUDA or (spec.id is None and has_cuda):
        from bench_run.streams.cuda import open_stream

        if hasattr(runtime, "preload_dlls"):
            runtime.preload_dlls(directory="")  # CUDA and cuDNN of the installed wheels
        stream = open_stream(options.device, options.cache, options.timer, options.pass_bytes)
        return CudaSessionEngine(runtime, stream, spec, options)
    if options.replay:
        raise UsageError("--replay: onnxruntime runs on the CPU, which has no graphs to replay")
    return HostSessionEngine(runtime, spec, options)
