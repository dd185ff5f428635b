"""hipDNN's two kinds of failure become ours here: `Error` values that graph steps return, and
exceptions that getters raise."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bench_run.errors import BenchRunError, EngineError, EngineUnavailableError
from bench_run.errors import UnsupportedGraphError as Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

_BAD_GRAPH = "hipDNN calls the graph invalid"
_DECLINED = "no engine runs it"
_ENVIRONMENT = "a fault of the installation or of the device"
_RUN_TIME = "failed during execution"

MEANINGS: dict[str, tuple[str, type[BenchRunError]]] = {
    "INVALID_VALUE": (_BAD_GRAPH, EngineError),
    "ATTRIBUTE_NOT_SET": (_BAD_GRAPH, EngineError),
    "SHAPE_DEDUCTION_FAILED": (_BAD_GRAPH, EngineError),
    "INVALID_TENSOR_NAME": (_BAD_GRAPH, EngineError),
    "UNSUPPORTED_GRAPH_FORMAT": ("this hipDNN does not read it", Unsupported),
    "GRAPH_NOT_SUPPORTED": (_DECLINED, Unsupported),
    "HEURISTIC_QUERY_FAILED": (_DECLINED, Unsupported),
    "GRAPH_EXECUTION_PLAN_CREATION_FAILED": (_DECLINED, Unsupported),
    "INVALID_VARIANT_PACK": ("bench-run passed the wrong tensors, please report", EngineError),
    "GRAPH_EXECUTION_FAILED": (_RUN_TIME, EngineError),
    "HIPDNN_BACKEND_ERROR": (_RUN_TIME, EngineError),
    "HANDLE_ERROR": (_ENVIRONMENT, EngineError),
    "CUDA_API_FAILED": (_ENVIRONMENT, EngineError),
    "CUDNN_BACKEND_API_FAILED": (_ENVIRONMENT, EngineError),
    "INVALID_CUDA_DEVICE": (_ENVIRONMENT, EngineError),
    "NVRTC_COMPILATION_FAILED": (_ENVIRONMENT, EngineError),
}
"""Meaning of each ``ErrorCode`` for a case, and the error that it becomes."""

BACKEND = "HIPDNN_BACKEND_ERROR"
DECLINES: dict[str, tuple[str, ...] | None] = {
    "Graph.create_execution_plan_ext": None,
    "Graph.create_execution_plans": (BACKEND,),
    "Graph.add_all_engines": (BACKEND,),
}
"""Steps whose bad codes mean that no engine runs the graph (None: every code): engines decline in
them with the code of a failure."""


def check(step: str, error: Any) -> None:
    """Raise our error for hipDNN's `Error` value; `step` is the function that returned it."""
    if not error.is_good():
        raise meaning(step, error)


def meaning(step: str, error: Any) -> BenchRunError:
    """Return the error of ours for a bad `Error` value."""
    code, text = error.get_code().name, error.get_message()
    what, kind = MEANINGS.get(code, ("unknown code", EngineError))
    declines = DECLINES.get(step, ())
    if declines is None or code in declines:
        what, kind = _DECLINED, Unsupported
    message = f"hipdnn: {step}: {what} ({code}): {first_line(text)}"
    return EngineError(message, detail=text) if kind is EngineError else kind(message)


def first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else "no message"


@contextmanager
def foreign_errors(step: str, version: str = "") -> Iterator[None]:
    """Convert exceptions of the bindings to an `EngineError` with function and version."""
    try:
        yield
    except BenchRunError:
        raise
    except MemoryError as error:
        raise EngineError(f"{_who(version)}: {step}: out of memory on the host") from error
    except Exception as error:  # foreign: other releases raise other errors
        raise failure(step, error, version) from error


def failure(step: str, error: BaseException, version: str = "") -> EngineError:
    text = str(error) or type(error).__name__
    return EngineError(f"{_who(version)}: {step}: {first_line(text)}", detail=text)


@contextmanager
def opening_errors(step: str, version: str = "") -> Iterator[None]:
    """Convert errors while the engine opens: it is then not available."""
    try:
        yield
    except BenchRunError:
        raise
    except Exception as error:  # foreign: see above
        text = first_line(str(error) or type(error).__name__)
        raise EngineUnavailableError(f"{_who(version)}: {step}: {text}") from error


def _who(version: str) -> str:
    return f"hipdnn {version}".rstrip()
