"""Every error of bench_run, as one tree.

BenchRunError one line for the user ├── UsageError a flag, a configuration key or an engine's name
(exit 1) ├── GraphError a file or graph that cannot be used; names file and field (exit 1) ├──
OutputError a result that cannot be written (exit 1) ├── IncompleteRunError a run that could not
write or check all that it was asked to (exit 1) ├── DeviceBusyError a device that others use, if it
has to be free (exit 1) ├── EngineUnavailableError an engine that cannot run on this machine, and
how to get it ├── UnsupportedGraphError a graph that an engine does not support → outcome
*unsupported* ├── EngineError an engine that failed during execution → outcome *failed* └──
WorkerError a worker process that has ended ├── WorkerCrashedError → outcome *crashed*, with the end
of its output └── WorkerTimeoutError → outcome *timed out*
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bench_run.text import plain_text

if TYPE_CHECKING:
    from bench_schema.document import Document


class StoppedError(Exception):
    """Raised in threads that wait for the device when the run is being stopped. Never shown."""


class BenchRunError(Exception):
    """Base of all errors that this package raises on purpose.

    Errors travel between processes as the nearest class of this module with its message and the
    fields of that class (`plain_parts`). A subclass that some engine made need not be known where
    it arrives.
    """

    FIELDS: ClassVar[tuple[str, ...]] = ()
    """Attributes that belong to the error beside its message."""
    detail: str | None = None
    """The full text behind the message, if there is one."""

    def __reduce__(self) -> tuple[object, ...]:
        return error_of, plain_parts(self)


TEXTS = ("where", "what", "detail")
"""Fields that must be converted to text, as foreign code may raise these errors."""
MOST_CHARACTERS = 100_000
MOST_IN_MESSAGE = 10_000


def plain_parts(error: BenchRunError) -> tuple[str, str, dict[str, str | None]]:
    """Return the name of the class, message and fields that are texts, whatever class or words an
    engine gave it."""
    kind = next(c for c in type(error).__mro__ if globals().get(c.__name__) is c)
    given = vars(error)
    fields = {name: optional_text(given.get(name)) for name in TEXTS if name in kind.FIELDS}
    return kind.__name__, message_of(error), fields


def error_of(kind: str, message: str, fields: dict[str, str | None]) -> BenchRunError:
    """Return the error of these parts, without its constructor, which wants other arguments."""
    found = globals().get(kind)
    if not (isinstance(found, type) and issubclass(found, BenchRunError)):
        found = BenchRunError
    error = found.__new__(found, message)
    vars(error).update({name: fields.get(name) for name in TEXTS if name in found.FIELDS})
    return error


def message_of(error: BaseException) -> str:
    """Return the words of an error that may be foreign, as plain text; empty if it does not have
    any."""
    try:
        words = str(error)
    except Exception:  # foreign: its own method may raise anything
        return ""
    return optional_text(words, MOST_IN_MESSAGE) or ""


def optional_text(value: object, most: int = MOST_CHARACTERS) -> str | None:
    """Return text from foreign code as plain text of at most `most` characters; None if it is not
    text."""
    if not issubclass(type(value), str):
        return None
    exact = str.__str__(value)  # of a subclass, its own may raise
    if len(exact) > most:
        exact = f"{exact[:most]} … and {len(exact) - most:,} more characters"
    return plain_text(exact)


class UsageError(BenchRunError):
    """The request is not valid; the message names the flag and the choices."""


class GraphError(BenchRunError):
    """A graph that cannot be read or is not valid.

    ``where`` is the place as the user knows it: ``file: tensors[2].dims``.
    """

    FIELDS = ("where", "what")

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what


class OutputError(BenchRunError):
    """A file that cannot be written."""


class ChangedFileError(BenchRunError):
    """A file of this run is not what it was when it was written."""


class IncompleteRunError(BenchRunError):
    """The run is over, and something that was asked for is missing; `document` is what it
    measured."""

    FIELDS = ("problems", "document")

    def __init__(self, *problems: str, document: Any = None) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems
        self.document: Document = document


class DeviceBusyError(BenchRunError):
    """Others use a device that was to be idle."""


class EngineUnavailableError(BenchRunError):
    """The engine cannot run here; the message says why and how to get it."""


class UnsupportedGraphError(BenchRunError):
    """The engine does not support this graph; the message names the node and the reason."""


class EngineError(BenchRunError):
    """The engine accepted the graph and failed; the message is the library's own first line.

    ``detail`` keeps the library's full text.
    """

    FIELDS = ("detail",)

    def __init__(self, message: str, *, detail: str | None = None) -> None:
        super().__init__(message)
        self.detail = detail


class WorkerError(BenchRunError):
    """A worker process has ended; ``detail`` holds the end of its output."""

    FIELDS = ("detail",)
    status: Literal["crashed", "timed out"] = "crashed"
    """The outcome of the case it was at."""

    def __init__(self, message: str, *, detail: str | None = None) -> None:
        super().__init__(message)
        self.detail = detail


class WorkerCrashedError(WorkerError):
    """It ended: by a signal, an exit or a broken pipe."""


class TemplateLostError(WorkerCrashedError):
    """It ended with the template that it was forked from, whatever it was doing."""


class WorkerTimeoutError(WorkerError):
    """It did not answer in time and was killed."""

    status = "timed out"
