"""cuDNN's frontend: loaded without PyTorch, versions checked, exceptions turned into ours."""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
import sysconfig
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Iterator

LOWEST, BELOW = (1, 23), (1, 27)
"""Versions of the frontend whose `pygraph` is the one used here; later ones have another."""
FAULTS = ("ALLOC_FAILED", "INTERNAL_ERROR", "EXECUTION_FAILED", "cudaError", "CUDA_ERROR")
"""Words of a message that tell a failure from a refusal."""
MOST_REASON = 300
OTHER_CHIPS = ("ARCH_MISMATCH", "Blackwell", "deviceVer")
"""Words of reasons that are about engines for another chip."""


def load() -> Any:
    """The module `cudnn`. Raises `EngineUnavailableError`."""
    if "cudnn" not in sys.modules:
        _load_runtime()
    try:
        with _without_torch():
            module = import_module("cudnn")
    except (ImportError, OSError, RuntimeError) as error:
        raise EngineUnavailableError(f"cuDNN's frontend does not load: {error}") from error
    check_version(str(module.__version__))
    return module


def check_version(text: str) -> None:
    found = tuple(int(part) for part in re.findall(r"\d+", text)[:2])
    if not LOWEST <= found < BELOW:
        wanted = f">={LOWEST[0]}.{LOWEST[1]},<{BELOW[0]}.{BELOW[1]}"
        raise EngineUnavailableError(
            f"cuDNN frontend {text} has another interface; install nvidia-cudnn-frontend{wanted}"
        )


@contextmanager
def _without_torch() -> Iterator[None]:
    """The frontend imports PyTorch where it is installed, for seconds and without need."""
    if "torch" in sys.modules or "cudnn" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
        with contextlib.suppress(ImportError, AttributeError):
            import_module("cudnn.datatypes").is_torch_available()  # remembers "no"
    finally:
        del sys.modules["torch"]


def _load_runtime() -> None:
    """The CUDA runtime of the installed wheels, so that the frontend finds it by its name."""
    root = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    found = sorted(root.glob("*/lib/libcudart.so.*[0-9]"))
    if found:
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(found[-1]), mode=ctypes.RTLD_GLOBAL)


def versions(cudnn: Any) -> dict[str, str]:
    found = {"cudnn": backend_text(int(cudnn.backend_version())), "frontend": cudnn.__version__}
    for name in ("nvidia-cublas", "nvidia-cuda-nvrtc"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def backend_text(number: int) -> str:
    """``9.19.0`` for 91900."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def foreign() -> tuple[type[Exception], ...]:
    """What the frontend raises: its own class is no `RuntimeError`."""
    own = getattr(sys.modules.get("cudnn"), "cudnnGraphNotSupportedError", None)
    compiled = getattr(sys.modules.get("cudnn"), "_compiled_module", None)
    own = getattr(compiled, "cudnnGraphNotSupportedError", own)
    common = (RuntimeError, ValueError, TypeError)
    return common if own is None else (*common, own)


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Around building: what cuDNN does not take is *unsupported*, what breaks is a failure."""
    try:
        yield
    except foreign() as error:
        text = str(error)
        if isinstance(error, TypeError) or any(word in text for word in FAULTS):
            raise EngineError(f"cudnn: {what}: {reason(text)}", detail=text) from error
        raise UnsupportedGraphError(f"cudnn: {what}: {reason(text)}") from error


@contextmanager
def failures(what: str) -> Iterator[None]:
    """Around running: every exception of the library is a failure."""
    try:
        yield
    except foreign() as error:
        text = str(error)
        raise EngineError(f"cudnn: {what}: {reason(text)}", detail=text) from error


def reason(text: str) -> str:
    """cuDNN's own words, in one line: the first reason that is not about another architecture."""
    found = [part.strip() for part in re.findall(r"Reason:?\s*([^\n]+)", text)]
    chosen = next((part for part in found if not any(w in part for w in OTHER_CHIPS)), None)
    line = chosen or next((part for part in text.splitlines() if part.strip()), "no reason given")
    return " ".join(line.split())[:MOST_REASON]
