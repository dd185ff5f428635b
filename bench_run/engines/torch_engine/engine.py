"""The engine: a device, its stream, and how graphs become plans."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from bench_run.engines.arrange import arrange
from bench_run.engines.base import (
    EngineAbilities,
    EngineFacts,
)
from bench_run.engines.chain import ChainPlan
from bench_run.engines.spec import refuse_unknown
from bench_run.engines.torch_engine.op import foreign_errors
from bench_run.engines.torch_engine.plan import DeviceGraph, TorchPlan, TorchProgram, check
from bench_run.errors import EngineUnavailableError, UnsupportedGraphError, UsageError
from bench_run.graph.model import Graph
from bench_run.machine.host import processor_name
from bench_run.streams.base import REPLAY
from bench_run.streams.host import HostStream, last_level_cache_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_run.engines.base import Captured, EngineOptions, EngineSpec, Plan, TraceEvent
    from bench_run.engines.torch_engine.plan import Function
    from bench_run.streams.base import Stream


def torch_events(plan: Plan, stream: Stream, iterations: int, *, on_gpu: bool) -> list[TraceEvent]:
    """Return complete events of a few iterations, each under a range of its own."""
    from torch.profiler import ProfilerActivity, profile, record_function

    kinds = [ProfilerActivity.CPU]
    if on_gpu:
        kinds.append(ProfilerActivity.CUDA)
    with profile(activities=kinds) as profiler:
        for index in range(iterations):
            with record_function(f"run {index}"):
                plan.run()
            stream.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events: list[TraceEvent] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


class TorchEngine:
    def __init__(
        self, spec: EngineSpec, options: EngineOptions, device: torch.device, resources: ExitStack
    ) -> None:
        self.stream: Stream
        self._device, self.resources = device, resources
        self._compile = "compile" in spec.options
        self._cache, self._replay = options.cache, options.replay
        self._programs: dict[int, tuple[Graph, TorchProgram, Function]] = {}
        self._pool: object = None
        """Memory of what is captured, for the copies of a graph, which take turns."""
        self.stream, self._expect_launches = _stream(device, options)
        self.facts = _facts(spec, device, self._compile)
        self._devices = _devices(spec, device)

    @property
    def abilities(self) -> EngineAbilities:
        return EngineAbilities(
            devices=self._devices,
            part=self.part,
            arrange=self.arrange,
            trace=self.trace,
            capture=self._capture if self._device.type == "cuda" else None,
        )

    def _capture(self, work: Callable[[], None]) -> Captured:
        with foreign_errors("capture"):
            return DeviceGraph(work)

    def variants(self, graph: Graph) -> tuple[Mapping[str, str], ...]:  # noqa: ARG002
        return ({},)

    def build(self, graph: Graph, variant: Mapping[str, str]) -> Graph:  # noqa: ARG002
        check(graph)
        self.reset_memory()
        return graph

    def reset_memory(self) -> None:
        """Begin to count the peak of the device's memory."""
        if self._device.type == "cuda":
            # cuBLAS' workspaces (32 MiB on an H200) stay with a process from its first product on:
            # they would be in the peaks of all cases that follow one. A captured product keeps the
            # address of its workspace.
            clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
            if clear is not None and not self._replay:
                clear()
            torch.cuda.reset_peak_memory_stats(self._device)

    def plan(self, built: object) -> Plan:
        assert isinstance(built, Graph)
        return self.arrange(lambda: self.part(built), built)

    def part(self, built: object) -> Plan:
        """Make a plan that shares the compiled graph with others of its graph."""
        assert isinstance(built, Graph)
        with foreign_errors("plan"):
            if id(built) not in self._programs:
                program = TorchProgram(built, self._device)
                if self._compile and not program.compiles:
                    raise UnsupportedGraphError("torch: +compile: it cannot follow this operator")
                function = _compiled(program) if self._compile else program
                self._programs[id(built)] = built, program, function
            _, program, function = self._programs[id(built)]
            return TorchPlan(built, program, function, self._device, replays=self._replay)

    def arrange(self, make: Callable[[], Plan], graph: Graph) -> Plan:
        self._programs.clear()
        self._pool = None
        with foreign_errors("plan"):
            return arrange(make, graph, self._cache, _cache_bytes(self._device), self._finish)

    def _finish(self, plan: Plan) -> None:
        """Compile and capture by runs on buffers of zeros."""
        parts = plan.parts if isinstance(plan, ChainPlan) else (plan,)
        launches = sum(part.launches for part in parts if isinstance(part, TorchPlan))
        self._expect_launches(REPLAY if self._replay else launches)
        if self._compile or self._replay:
            plan.run()
        if self._replay:
            replay = plan.abilities.replay
            assert replay is not None
            captured = DeviceGraph(plan.run, self._pool)
            replay(captured)
            self._pool = captured.pool
            plan.run()

    def trace(self, plan: Plan, iterations: int) -> list[TraceEvent]:
        on_gpu = self._device.type == "cuda"
        return torch_events(plan, self.stream, iterations, on_gpu=on_gpu)

    def peak_bytes(self) -> int | None:
        if self._device.type != "cuda":
            return None
        return int(torch.cuda.max_memory_allocated(self._device))

    def close(self) -> None:
        self.resources.close()


def _compiled(program: TorchProgram) -> Function:
    """Compile with `torch.compile`, each program under its own code object: the cache of compiled
    versions is kept, and limited, by code object."""

    def run(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return program(inputs)

    own = FunctionType(run.__code__.replace(), run.__globals__, run.__name__, None, run.__closure__)
    compiled: Function = torch.compile(own, fullgraph=True, dynamic=False)
    return compiled


def _stream(device: torch.device, options: EngineOptions) -> tuple[Stream, Callable[[int], None]]:
    """Return the device's stream, and its setter of launches in an iteration."""
    if device.type == "cpu":
        return HostStream(options.cache, pass_bytes=options.pass_bytes), lambda _launches: None
    from bench_run.streams.torch import open_stream

    stream = open_stream(device, options.cache, options.timer, options.pass_bytes)
    return stream, stream.expect


def _cache_bytes(device: torch.device) -> int:
    if device.type == "cpu":
        return last_level_cache_bytes()
    from bench_run.streams.torch import l2_bytes

    return l2_bytes(device)


def _facts(spec: EngineSpec, device: torch.device, compiled: bool) -> EngineFacts:
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip}
    if device.type == "cuda":
        cudnn: Any = torch.backends.cudnn
        versions["cudnn"] = cudnn.version()
    libraries = {name: str(version) for name, version in versions.items() if version is not None}
    knobs = {"mode": "compile" if compiled else "eager"}
    if device.type == "cpu":
        knobs["threads"] = str(torch.get_num_threads())
        return EngineFacts(spec.id, libraries, "cpu", processor_name(), knobs=knobs)
    properties = torch.cuda.get_device_properties(device)
    uuid = getattr(properties, "uuid", None)
    name = str(device.index) if uuid is None else f"GPU-{uuid}"
    return EngineFacts(
        spec.id, libraries, name, properties.name, knobs=knobs, device_index=device.index
    )


def _devices(spec: EngineSpec, device: torch.device) -> int | None:
    """Return the number of GPUs that the run can choose from; None if the spec's id chooses."""
    chosen = device.type == "cpu" or (spec.id or "").count(":") > 0
    return None if chosen else torch.cuda.device_count()


# Keeps the C library from giving freed memory back between runs.
#
# On the CPU PyTorch has no cache of its own: a result of 32 MiB or more is a new mapping in every
# run, and its first use is a page fault every 4 KiB. For a ReLU of 100 MB that is 40 of 46 ms.

M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Keep freed memory in this process. Returns False if the C library is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, LARGEST))


COMPILE = "compile"
TIMERS = ("auto", "events", "cupti", "host")


class _Inference:
    """Inference mode of this thread for as long as any engine is open, in whatever order they
    are closed."""

    def __init__(self) -> None:
        self._engines, self._guard = 0, ExitStack()

    def __enter__(self) -> None:
        if self._engines == 0:
            self._guard.enter_context(torch.inference_mode())
        self._engines += 1

    def __exit__(self, *error: object) -> None:
        self._engines -= 1
        if self._engines == 0:
            self._guard.close()


_INFERENCE = _Inference()


def open_engine(
    spec: EngineSpec, options: EngineOptions, make: Callable[..., TorchEngine] = TorchEngine
) -> TorchEngine:
    """Return the engine of a specification, of the class `make`."""
    if make is TorchEngine:
        refuse_unknown(spec, options=(COMPILE,))
    if options.timer not in TIMERS:
        raise UsageError(f"--timer {options.timer}: engine torch knows {', '.join(TIMERS)}")
    device = _device(spec, options.device)
    if options.replay and device.type == "cpu":
        raise UsageError(f"--replay: {spec.text} runs on the CPU, which has no graphs to replay")
    if COMPILE in spec.options:
        # Inductor compiles C++ on the CPU, and the launchers of Triton's kernels on a GPU.
        variable, default = ("CXX", "g++") if device.type == "cpu" else ("CC", "gcc")
        compiler = os.environ.get(variable, default)
        if shutil.which(compiler) is None:
            what = f"torch+compile needs a compiler, and there is no {compiler!r}"
            raise EngineUnavailableError(f"{what}; install one or set {variable}")
    if device.type == "cpu":
        keep_freed_memory()
    with ExitStack() as opening:
        opening.enter_context(_INFERENCE)
        opening.enter_context(_arithmetic(options.math))
        with foreign_errors("open"):
            engine = make(spec, options, device, opening)
        engine.resources = opening.pop_all()  # an engine that is not opened leaves none
    if device.type == "cuda" and torch.version.cuda is not None:
        with suppress(RuntimeError):  # a device that is full or broken shows in the cases
            # The first product of a process loads cuBLAS, its first convolution cuDNN: 0.09 and
            # 0.08 s on an H200, which would be in the first run of whatever case comes first.
            small = torch.zeros(8, 8, 1, 1, dtype=torch.half, device=device)
            torch.matmul(small[:, :, 0, 0], small[:, :, 0, 0])
            torch.nn.functional.conv2d(small, small)
            torch.cuda.synchronize(device)
    return engine


def _device(spec: EngineSpec, default: int) -> torch.device:
    """Parse ``cpu``, ``cuda`` (the run's device), ``cuda:N``; without an id the GPU if there is
    one."""
    kind, _, number = ("cuda:" if spec.id is None else spec.id).partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise UsageError(f"engine {spec.text!r}: no device {spec.id!r}; cpu, cuda or cuda:N")
    if kind == "cpu" or (spec.id is None and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = "has no GPU support" if torch.version.cuda is None else "sees no GPU"
        raise EngineUnavailableError(f"{spec.text}: torch {torch.__version__} {built} here")
    index, count = int(number) if number else default, torch.cuda.device_count()
    if index >= count:
        raise EngineUnavailableError(f"{spec.text}: there is no GPU {index}, only {count}")
    return torch.device("cuda", index)


@contextmanager
def _arithmetic(math: str) -> Iterator[None]:
    """Use TF32 only on request; float32 sums of 16-bit products unless ``fast``."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    wanted = (
        (cudnn, "allow_tf32", math != "fp32"),
        (matmul, "allow_fp16_reduced_precision_reduction", math == "fast"),
        (matmul, "allow_bf16_reduced_precision_reduction", math == "fast"),
    )
    before = [(place, name, getattr(place, name)) for place, name, _ in wanted]
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if math == "fp32" else "high")
    for place, name, value in wanted:
        setattr(place, name, value)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        for place, name, value in before:
            setattr(place, name, value)
