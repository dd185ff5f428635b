"""hipDNN's two kinds of failure become ours here: `Error` values that graph steps return, and
exceptions that getters raise."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bench_run.errors import EngineError, EngineUnavailableError, UnsupportedGraphError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_run.errors import BenchRunError

FOREIGN = (RuntimeError, TypeError, ValueError, LookupError, OSError, AttributeError)
"""What the bindings raise, a missing function included."""

_BAD_GRAPH = "hipDNN calls the graph invalid"
_DECLINED = "no engine runs it"
_ENVIRONMENT = "the installation or the device is at fault"
_RUN_TIME = "failed at work"

MEANINGS: dict[str, tuple[str, type[BenchRunError]]] = {
    "INVALID_VALUE": (_BAD_GRAPH, EngineError),
    "ATTRIBUTE_NOT_SET": (_BAD_GRAPH, EngineError),
    "SHAPE_DEDUCTION_FAILED": (_BAD_GRAPH, EngineError),
    "INVALID_TENSOR_NAME": (_BAD_GRAPH, EngineError),
    "UNSUPPORTED_GRAPH_FORMAT": ("this hipDNN does not read it", UnsupportedGraphError),
    "GRAPH_NOT_SUPPORTED": (_DECLINED, UnsupportedGraphError),
    "HEURISTIC_QUERY_FAILED": (_DECLINED, UnsupportedGraphError),
    "GRAPH_EXECUTION_PLAN_CREATION_FAILED": (_DECLINED, UnsupportedGraphError),
    "INVALID_VARIANT_PACK": ("bench-run passed the wrong tensors, please report", EngineError),
    "GRAPH_EXECUTION_FAILED": (_RUN_TIME, EngineError),
    "HIPDNN_BACKEND_ERROR": (_RUN_TIME, EngineError),
    "HANDLE_ERROR": (_ENVIRONMENT, EngineError),
    "CUDA_API_FAILED": (_ENVIRONMENT, EngineError),
    "CUDNN_BACKEND_API_FAILED": (_ENVIRONMENT, EngineError),
    "INVALID_CUDA_DEVICE": (_ENVIRONMENT, EngineError),
    "NVRTC_COMPILATION_FAILED": (_ENVIRONMENT, EngineError),
}
"""What each `ErrorCode` says of a case, and the error it becomes."""


def code_of(error: Any) -> str:
    """Name of the code of hipDNN's `Error` value."""
    code = error.get_code() if hasattr(error, "get_code") else error.code
    return str(getattr(code, "name", code)).rpartition(".")[2]


def message_of(error: Any) -> str:
    return str(error.get_message() if hasattr(error, "get_message") else error.err_msg)


def check(step: str, error: Any) -> None:
    """Raises what hipDNN's `Error` value means; `step` is the function that returned it."""
    if not hasattr(error, "is_good"):
        kind = type(error).__name__
        raise EngineError(f"hipdnn: {step} returned {kind} where an Error was expected")
    if not error.is_good():
        raise meaning(step, error)


def meaning(step: str, error: Any) -> BenchRunError:
    """The error of ours for a bad `Error` value."""
    code, text = code_of(error), message_of(error)
    what, kind = MEANINGS.get(code, ("unknown code", EngineError))
    message = f"hipdnn: {step}: {what} ({code}): {first_line(text)}"
    return EngineError(message, detail=text) if kind is EngineError else kind(message)


def first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else "no message"


@contextmanager
def foreign_errors(step: str) -> Iterator[None]:
    """What the bindings raise inside becomes an `EngineError` that names the step."""
    try:
        yield
    except FOREIGN as error:
        raise failure(step, error) from error
    except MemoryError as error:
        raise EngineError(f"hipdnn: {step}: out of memory on the host") from error


def failure(step: str, error: BaseException) -> EngineError:
    text = str(error) or type(error).__name__
    return EngineError(f"hipdnn: {step}: {first_line(text)}", detail=text)


@contextmanager
def opening_errors(step: str) -> Iterator[None]:
    """The same while the engine opens: then it is not available."""
    try:
        yield
    except FOREIGN as error:
        text = first_line(str(error) or type(error).__name__)
        raise EngineUnavailableError(f"hipdnn: {step}: {text}") from error
