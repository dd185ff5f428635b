"""From a spec to an engine: device, arithmetic, stream."""

from __future__ import annotations

import ctypes
import os
import shutil
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from bench_run.engines.spec import refuse_unknown
from bench_run.engines.torch_engine.engine import TorchEngine
from bench_run.engines.torch_engine.op import foreign_errors
from bench_run.errors import EngineUnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.engines.base import EngineOptions, EngineSpec


# Keeps the C library from giving freed memory back between runs.
#
# On the CPU PyTorch has no cache of its own: a result of 32 MiB or more is a new mapping in every
# run, and its first use is a page fault every 4 KiB. For a ReLU of 100 MB that is 40 of 46 ms.

M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
LARGEST = 2**31 - 1


def keep_freed_memory() -> bool:
    """For the rest of this process. False where the C library is not glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, LARGEST))


try:
    import torch
except (ImportError, OSError) as error:
    raise EngineUnavailableError(f"torch does not load: {error}") from error


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


def open_engine(spec: EngineSpec, options: EngineOptions) -> TorchEngine:
    refuse_unknown(spec, options=(COMPILE,))
    if options.timer not in TIMERS:
        raise UsageError(f"--timer {options.timer}: engine torch knows {', '.join(TIMERS)}")
    device = _device(spec, options.device)
    if options.replay and device.type == "cpu":
        raise UsageError(f"--replay: {spec.text} runs on the CPU, which has no graphs to replay")
    if COMPILE in spec.options:
        _expect_compiler(device)
    if device.type == "cpu":
        keep_freed_memory()
    resources = ExitStack()
    resources.enter_context(_INFERENCE)
    resources.enter_context(_arithmetic(options.math))
    with foreign_errors("open"):
        engine = TorchEngine(spec, options, device, resources)
    if device.type == "cuda" and torch.version.cuda is not None:
        with suppress(RuntimeError):  # a device that is full or broken shows in the cases
            _load_libraries(device)
    return engine


def _load_libraries(device: torch.device) -> None:
    """The first product of a process loads cuBLAS, its first convolution cuDNN: 0.09 and 0.08 s on
    an H200, which would be in the first run of whatever case comes first."""
    small = torch.zeros(8, 8, 1, 1, dtype=torch.half, device=device)
    torch.matmul(small[:, :, 0, 0], small[:, :, 0, 0])
    torch.nn.functional.conv2d(small, small)
    torch.cuda.synchronize(device)


def _device(spec: EngineSpec, default: int) -> torch.device:
    """``cpu``, ``cuda`` (the run's device), ``cuda:N``; without an id the GPU if there is one."""
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


def _expect_compiler(device: torch.device) -> None:
    """Inductor compiles C++ on the CPU, and the launchers of Triton's kernels on a GPU."""
    variable, default = ("CXX", "g++") if device.type == "cpu" else ("CC", "gcc")
    compiler = os.environ.get(variable, default)
    if shutil.which(compiler) is None:
        what = f"torch+compile needs a compiler, and there is no {compiler!r}"
        raise EngineUnavailableError(f"{what}; install one or set {variable}")


@contextmanager
def _arithmetic(math: str) -> Iterator[None]:
    """TF32 only where it was asked for; float32 sums of 16-bit products unless ``fast``."""
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
