"""Options of `bench-run tune` in addition to the settings of a run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench_schema.knobs import KnobError, read_space
from bench_schema.settings import LEAST_ROUNDS, MATHS
from bench_schema.tuning import Limits

from bench_run.engines import KERNEL, PROCESSOR_ENGINES, availability, choose_auto, engine_module
from bench_run.engines.base import KNOB_VARIANT, EngineSpec
from bench_run.engines.spec import parse_spec
from bench_run.errors import UsageError
from bench_run.graph.approximate import parse_approximation
from bench_run.graph.dtypes import ALIASES
from bench_run.graph.variants import BLOCKED, DATA_TYPES, LAYOUTS
from bench_run.options import STDOUT, TuneOptions, read_tune_options
from bench_run.options.read import given_values, read_number, read_size
from bench_run.plan.tuned import INT8

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench_run.options import Options


# The axes of a tuning: which ways to run a graph are tried.
#
# ``engine``, ``dtype``, ``layout``, ``math`` and ``fusion`` list their values; ``plan=all`` and
# ``knob:NAME=all`` take them from the engine's own list for the graph.

ALL = "all"
PICK_GLOBAL = "pick_global"
"""MIGraphX's word: every value, and the same one for all graphs."""
CHOICES: Mapping[str, Sequence[str]] = {
    "dtype": (*DATA_TYPES, INT8),
    "layout": tuple(LAYOUTS),
    "math": MATHS,
    "fusion": ("on", "off"),
}
"""Axes with a fixed set of values."""
APPROXIMATION = "approx"
THREADS = "threads"
FREE = ("engine", "plan")
"""Axes whose values the engines know."""


@dataclass(frozen=True)
class Space:
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """All but ``engine``, in the order given."""
    engines: tuple[str, ...] = ()
    """Specs, the default's first; empty for the automatic choice."""

    def values(self, axis: str) -> tuple[str, ...]:
        """Return the values of an axis; empty if the axis is not varied."""
        return self.axes.get(axis, ())

    @property
    def knobs(self) -> Mapping[str, tuple[str, ...]]:
        """Return knobs by name."""
        return {
            axis.removeprefix(KNOB_VARIANT): values
            for axis, values in self.axes.items()
            if axis.startswith(KNOB_VARIANT)
        }

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the axes as ``--space`` takes them."""
        engines = (f"engine={','.join(self.engines)}",) if len(self.engines) > 1 else ()
        return (*engines, *(f"{axis}={','.join(v)}" for axis, v in self.axes.items()))


def _axes_of(text: str) -> tuple[str, ...]:
    """Return the axes of a file, or the one that the text is."""
    if "=" in text:
        return (text,)
    try:
        return read_space(Path(text).read_text(encoding="utf-8"), text)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        what = f"expected AXIS=VALUE,... or a file; {text}: {reason}"
        raise UsageError(f"--space: {what}") from None
    except KnobError as error:
        raise UsageError(f"--space {text}: {error}") from None


def parse_space(texts: Sequence[str], engines: Sequence[str]) -> Space:
    """Parse the space. Raises `UsageError` that names the axis. `engines` are those of
    ``--engine``."""
    axes: dict[str, tuple[str, ...]] = {}
    for text in (axis for given in texts for axis in _axes_of(given)):
        axis, values = _axis(text)
        if axis in axes:
            raise UsageError(f"--space {axis}: given twice; list its values after one '='")
        axes[axis] = values
    if "plan" in axes and any(axis.startswith(KNOB_VARIANT) for axis in axes):
        raise UsageError("--space: plan and knob: do not go together, a plan has its knobs")
    named = [*(e for e in engines if e != "auto"), *axes.pop("engine", ())]
    specs = [parse_spec(spec) for spec in named]
    if not axes and any(engine_module(spec.name).ABILITIES.lists_variants for spec in specs):
        axes["plan"] = (ALL,)
    return Space(axes, tuple(dict.fromkeys(named)))


def _axis(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the name and the values of an axis."""
    axis, equals, listed = text.partition("=")
    if axis == KNOB_VARIANT.rstrip(":") or (not equals or not listed):
        raise UsageError(f"--space: expected AXIS=VALUE,..., got {text!r}")
    values = tuple(dict.fromkeys(value.strip() for value in listed.split(",")))
    if "" in values:
        raise UsageError(f"--space {axis}: an empty value in {listed!r}")
    if axis in CHOICES:
        if axis == "dtype":
            values = tuple(ALIASES.get(value, value) for value in values)
        known = CHOICES[axis] if values == (ALL,) else values
        return axis, tuple(_known(axis, value) for value in known)
    if axis in PARSED:
        try:
            return axis, tuple(map(PARSED[axis], values))
        except ValueError as error:
            raise UsageError(f"--space {axis}={listed}: {error}") from None
    if axis in FREE or (axis.startswith(KNOB_VARIANT) and axis != KNOB_VARIANT):
        return axis, values
    known_axes = ", ".join((*FREE, *CHOICES, *PARSED, "knob:NAME"))
    raise UsageError(f"--space: no axis {axis!r}; choose from {known_axes}")


def _threads(value: str) -> str:
    if not value.isdecimal() or not int(value):
        raise ValueError(f"expected numbers of threads from 1, got {value!r}")
    return str(int(value))


PARSED: Mapping[str, Callable[[str], str]] = {
    THREADS: _threads,
    APPROXIMATION: parse_approximation,
}


def _known(axis: str, value: str) -> str:
    blocks = value.removeprefix(BLOCKED) if axis == "layout" else value
    if value in CHOICES[axis] or (blocks != value and blocks.isdecimal() and int(blocks)):
        return value
    if axis == "dtype" and value in ("int4", "uint4"):
        raise UsageError(f"--space {axis}: no engine here has {value}")
    choices = ", ".join((*CHOICES[axis], ALL))
    raise UsageError(f"--space {axis}: no value {value!r}; choose from {choices}")


@dataclass(frozen=True)
class Tuning:
    space: Space
    scope: Literal["layer", "global"] = TuneOptions.scope
    limits: Limits = field(default_factory=Limits)
    budget_s: float | None = None
    margin_ratio: float = TuneOptions.margin_ratio
    exhaustive: bool = TuneOptions.exhaustive
    record: str = "tuned.json"
    cache: str = "hot"

    @property
    def short_document(self) -> str:
        """Path of the document of the short rounds, there until the record is written."""
        stem, dot, rest = Path(self.record).name.partition(".json")
        return str(Path(self.record).with_name(f"{stem}.short{dot or '.json'}{rest}"))


def read_tuning(arguments: Mapping[str, Any], options: Options) -> Tuning:
    """Read the tuning's options. Raises `UsageError` that names the flag."""
    others = {
        "--a/--b": options.a,
        "--oracle": options.oracle,
        "--replay": options.replay,
        "--rerun-from": options.rerun_from,
        "--shard": options.shard,
        "--device all": options.devices is None or len(options.devices) > 1,
    }
    for name, is_given in others.items():
        if is_given:
            raise UsageError(f"{name} does not go with tune")
    record = options.output or Tuning.record
    if record == STDOUT:
        raise UsageError("tune: -o - is not possible: the record is read again, name a file")
    given, of_run = read_tune_options(arguments), given_values(arguments)
    given = _with_pick_global(given, arguments)
    space = parse_space(given.space, options.engine)
    if not space.axes and len(space.engines) < 2:
        raise UsageError("nothing to choose from: name an axis, such as --space plan=all")
    limits = read_limits(given.limit)
    space = _within(space, limits, given.space)
    return Tuning(
        space=space,
        scope=given.scope,
        limits=limits,
        budget_s=given.budget_s,
        margin_ratio=given.margin_ratio,
        exhaustive=given.exhaustive,
        record=record,
        cache=options.cache if "cache" in of_run else usual_cache(space.engines),
    )


def _with_pick_global(given: TuneOptions, arguments: Mapping[str, Any]) -> TuneOptions:
    """Return the options with ``AXIS=pick_global`` as ``AXIS=all`` and ``--scope global``."""
    wanted = [text for text in given.space if text.endswith(f"={PICK_GLOBAL}")]
    if not wanted:
        return given
    if arguments.get("--scope") not in (None, "global"):
        raise UsageError(f"--space {wanted[0]} is for all graphs: it goes with --scope global")
    space = tuple(text.replace(f"={PICK_GLOBAL}", f"={ALL}") for text in given.space)
    return replace(given, space=space, scope="global")


def _within(space: Space, limits: Limits, texts: Sequence[str]) -> Space:
    """Return the space; approximations require a limit, since the fastest is taken, whatever its
    error. Of all types int8 is left out without one."""
    if limits.error is not None:
        return space
    dtypes = tuple(value for value in space.values("dtype") if value != INT8)
    asked = "dtype=all" not in texts
    if space.values(APPROXIMATION) or (asked and INT8 in space.values("dtype")):
        axis = APPROXIMATION if space.values(APPROXIMATION) else f"dtype={INT8}"
        raise UsageError(f"--space {axis}: approximations need --limit error=X, as in error=0.05")
    return replace(space, axes={**space.axes, "dtype": dtypes}) if dtypes else space


def usual_cache(engines: Sequence[str]) -> str:
    """Return the usual cache state. The fastest in a hot cache may be slow in a program, so on an
    accelerator buffers rotate. The caches of a processor are so large that this would take most of
    the time."""
    return "rotate" if _use_accelerator(engines) else "hot"


def _use_accelerator(engines: Sequence[str]) -> bool:
    specs = [parse_spec(text) for text in engines] or [parse_spec(choose_auto()[0])]
    return any(map(_is_on_accelerator, specs))


def _is_on_accelerator(spec: EngineSpec) -> bool:
    if spec.name == KERNEL:
        return "cpu" not in spec.options and availability("torch:cuda").ok
    is_other = spec.name not in PROCESSOR_ENGINES or spec.id is not None
    return is_other and spec.text != "torch:cpu"


MORE_ROUNDS = 4
"""Times the rounds asked for that a finalist gets at most."""


def run_options(options: Options, tuning: Tuning) -> Options:
    """Return the settings of the ordinary rounds, whose document becomes the record."""
    adds = options.rounds >= LEAST_ROUNDS
    return replace(
        options,
        engine=tuple(tuning.space.engines) or options.engine,
        output=tuning.record,
        cache=tuning.cache,
        until="settled" if adds else None,
        max_rounds=MORE_ROUNDS * options.rounds if adds else options.max_rounds,
    )


SHORT_ROUNDS = 2
SHORT_S, LONGEST_S = 0.002, 0.5
"""Time that the samples of a short round take at least, and after which none begins."""
SHORT_SAMPLES = 5


def short_options(options: Options, tuning: Tuning) -> Options:
    """Return the settings of the short rounds. Outputs are compared only if a limit asks for their
    error or their bytes; those of finalists always are."""
    limits = tuning.limits
    compares = limits.error is not None or limits.deterministic
    return replace(
        options,
        output=tuning.short_document,
        rounds=SHORT_ROUNDS,
        iterations=SHORT_ROUNDS * SHORT_SAMPLES,
        warmup=min(options.warmup, 2),
        min_time_s=SHORT_ROUNDS * SHORT_S,
        max_time_s=SHORT_ROUNDS * LONGEST_S,
        placements=1,
        until=None,
        precision_ratio=None,
        energy=False,
        strict=False,
        trace=None,
        counters=None,
        adversarial=False,
        check_budget_s=0.0,
        reference=options.reference if compares else "none",
    )


def read_limits(texts: Sequence[str]) -> Limits:
    limits = Limits()
    for text in texts:
        key, _, value = text.partition("=")
        if key == "error" and value:
            limits = replace(limits, error=read_number("--limit error", value))
        elif key == "workspace" and value:
            limits = replace(limits, workspace_bytes=read_size("--limit workspace", value))
        elif text == "deterministic":
            limits = replace(limits, deterministic=True)
        else:
            forms = "error=X, workspace=SIZE or deterministic"
            raise UsageError(f"--limit: expected {forms}, got {text!r}")
    return limits
