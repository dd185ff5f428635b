"""The engines: one row each. A row's module is imported only when its engine is named or listed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from bench_run.engines.base import (
    Availability,
    EngineAbilities,
    EngineModule,
    ModuleAbilities,
    PlanAbilities,
)
from bench_run.errors import EngineUnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

    from bench_run.engines.base import Engine, EngineOptions, EngineSpec

KERNEL = "kernel"
"""The engine that runs functions of a file."""
ENGINES = {
    "numpy": "bench_run.engines.numpy_engine",
    "torch": "bench_run.engines.torch_engine",
    "hipdnn": "bench_run.engines.hipdnn",
    "cudnn": "bench_run.engines.cudnn",
    "cublaslt": "bench_run.engines.cublaslt",
    "onnxruntime": "bench_run.engines.onnx_runtime",
    KERNEL: "bench_run.engines.kernel",
}

PROCESSOR_ENGINES = ("numpy", "torch")
"""Engines that need no accelerator; the first runs wherever this package does."""

ENTRY_POINTS = "bench_run.engines"
"""Group of third parties' engines: the entry's name is the engine's, its object an
`EngineModule`."""

AUTO = ("hipdnn", "cudnn", "torch:cuda", "numpy")
"""Specs ``name[:id]``, best first: `--engine auto` takes the first that can run."""

_MEMBERS = ("NAME", "SUMMARY", "INSTALL", "probe", "open")
# What the import of a third party's module is known to raise; anything else passes, as a bug.
_IMPORT_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class EngineRow:
    """Row of an engine in `bench-run engines`."""

    name: str
    summary: str
    availability: Availability
    install: str


def known_names() -> tuple[str, ...]:
    return (*ENGINES, *sorted(_third_parties()))


def is_known(name: str) -> bool:
    """Return True if an engine has this name. Installed packages are searched only if it is not
    built in."""
    return name in ENGINES or name in _third_parties()


def engine_module(name: str) -> EngineModule:
    """Return the row's module. Raises `UsageError` for an unknown name, `EngineUnavailableError`
    where a third party's entry does not load."""
    if name in ENGINES:
        return cast("EngineModule", import_module(ENGINES[name]))
    entries = _third_parties()
    if name not in entries:
        raise UsageError(f"no engine {name!r}; choose from {', '.join(known_names())}")
    return _load(entries[name])


def list_engines() -> tuple[EngineRow, ...]:
    """Return every engine, available or not, ours first."""
    rows: list[EngineRow] = []
    for name in known_names():
        try:
            module = engine_module(name)
        except EngineUnavailableError as error:
            unavailable = Availability(False, str(error))
            rows.append(EngineRow(name, "third-party engine", unavailable, ""))
        else:
            rows.append(EngineRow(name, module.SUMMARY, module.probe(), module.INSTALL))
    return tuple(rows)


def choose_auto() -> tuple[str, str]:
    """Return the spec that `auto` stands for here, and a sentence that says why."""
    passed: list[str] = []
    for text in AUTO:
        answer = availability(text)
        if answer.ok:
            why_not = f"; not here: {', '.join(passed)} (bench-run doctor)" if passed else ""
            return text, f"{text}: {answer.reason}{why_not}"
        passed.append(text)
    raise EngineUnavailableError("no engine can run here; `bench-run doctor` says why")


def availability(text: str) -> Availability:
    """Return the availability of the engine of a spec ``name[:id]``, as far as it is known
    unopened."""
    name, _, identifier = text.partition(":")
    module = engine_module(name)
    probe_id = module.ABILITIES.probe_id
    if identifier and probe_id is not None:
        return probe_id(identifier)
    return module.probe()


def _third_parties() -> dict[str, EntryPoint]:
    """Return entries by name; a name of our own table cannot be taken."""
    from importlib.metadata import entry_points

    return {e.name: e for e in entry_points(group=ENTRY_POINTS) if e.name not in ENGINES}


def _load(entry: EntryPoint) -> EngineModule:
    try:
        module = entry.load()
    except _IMPORT_ERRORS as error:
        kind = type(error).__name__
        raise EngineUnavailableError(f"{entry.value} does not load: {kind}: {error}") from error
    missing = [member for member in _MEMBERS if not hasattr(module, member)]
    if missing:
        raise EngineUnavailableError(
            f"{entry.value} is not an engine: it lacks {', '.join(missing)}"
        )
    return ThirdParty(
        module.NAME,
        module.SUMMARY,
        module.INSTALL,
        getattr(module, "ABILITIES", ModuleAbilities()),
        module.probe,
        module.open,
    )


@dataclass
class ThirdParty:
    """The `EngineModule` of an entry."""

    NAME: str
    SUMMARY: str
    INSTALL: str
    ABILITIES: ModuleAbilities
    probe: Callable[[], Availability]
    open_engine: Callable[[EngineSpec, EngineOptions], Any]

    def open(self, spec: EngineSpec, options: EngineOptions) -> Engine:
        from bench_run.streams.base import StreamAbilities

        engine = self.open_engine(spec, options)
        plan = engine.plan
        engine.plan = lambda built: _with_abilities(plan(built), PlanAbilities())
        _with_abilities(engine.stream, StreamAbilities())
        return cast("Engine", _with_abilities(engine, EngineAbilities()))


def _with_abilities(thing: Any, none: object) -> Any:
    if not hasattr(thing, "abilities"):
        thing.abilities = none
    return thing
