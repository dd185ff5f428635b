"""Choice of cuDNN's execution plan: the choice as a value, and the search for it.

A plan is an engine with its knobs; its name says both (``eng62_k2=0_k13=1``). Ids and knobs mean
something only together with the backend's version.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bench_run.engines.cudnn.library import (
    KNOBS,
    UNNUMBERED_KNOBS,
    executor,
    failures,
    foreign,
    reason,
    refusals,
)
from bench_run.errors import UnsupportedGraphError, UsageError
from bench_run.graph.dtypes import DTYPES
from bench_run.tensors.layout import logical_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bench_run.engines.cudnn.views import TensorView
    from bench_run.engines.device_plan import Workspace
    from bench_run.graph.model import Graph, Tensor
    from bench_run.tensors.layout import Storage


_NAMELESS = re.compile(r"k\d{1,2}")


def knob_name(key: str) -> str:
    """Return the name of a knob: ``TILE_SIZE`` for ``k2`` or ``TILE_SIZE``; ``k5``, which has no
    name, stays."""
    name = named(key) if key[:1] == "k" else key.upper()
    if name not in (*KNOBS.values(), *UNNUMBERED_KNOBS) and not is_nameless(name):
        known = ", ".join(f"k{number} ({name})" for number, name in KNOBS.items())
        raise UsageError(f"--knob {key}: cuDNN has no such knob; it has {known}")
    return name


def is_nameless(name: str) -> bool:
    """Return True for a number of the backend without a member in the frontend, which cannot set
    this knob; it then only chooses among the plans of the heuristics."""
    return _NAMELESS.fullmatch(name) is not None


def named(key: str) -> str:
    """Return the name of a knob that a plan's name calls ``k2``; as it is if there is none."""
    number = key.removeprefix("k")
    return KNOBS.get(int(number), key) if number.isdecimal() else key


def knobs_of(plan: str) -> dict[str, int]:
    """Return ``{"TILE_SIZE": 2, "k5": 3}`` for a plan's name ``eng62_k2=2_k5=3``, ``{"TILE_M":
    128}`` for ``sdpa_fwd_prefill_sm90[TILE_M=128]``, an engine written in Python."""
    _, is_python, inside = plan.removesuffix("]").partition("[")
    parts = inside.split(", ") if is_python else plan.split("_")[1:]
    pairs = (part.partition("=") for part in parts)
    return {named(key): int(value) for key, equals, value in pairs if equals}


def knob_text(plan: str) -> str:
    """Return ``TILE_SIZE=2 k5=3`` for a plan's name ``eng62_k2=2_k5=3``."""
    return " ".join(f"{name}={value}" for name, value in knobs_of(plan).items()) or "none"


def offered_text(offered: Iterable[Any]) -> str:
    """Return the knobs that an engine takes: ``TILE_SIZE 0 to 8, STAGES 1 to 7 by 2``."""
    return ", ".join(_range(knob) for knob in _with_names(offered).values()) or "no knob"


def checked(wanted: Mapping[str, int], offered: Iterable[Any], asked: str) -> None:
    """Raise `UnsupportedGraphError` for a knob or a value that the engine does not take for the
    graph; the library would only report that the whole is not supported."""
    known = _with_names(offered)
    for name, value in wanted.items():
        if is_nameless(name):
            raise UnsupportedGraphError(
                f"cudnn: {asked}: {name} cannot be set, only found, and no listed plan has just "
                "the knobs that were given"
            )
        if name not in known:
            raise UnsupportedGraphError(
                f"cudnn: {asked}: it takes no {name}; it takes {offered_text(known.values())}"
            )
        knob = known[name]
        step = max(1, int(knob.stride))
        if not knob.min_value <= value <= knob.max_value or (value - knob.min_value) % step:
            raise UnsupportedGraphError(f"cudnn: {asked}: {name}={value}: it takes {_range(knob)}")


def settings(cudnn: Any, wanted: Mapping[str, int]) -> dict[Any, int]:
    """Return the knobs for `create_execution_plan`; `checked` made sure that each has a member."""
    return {cudnn.knob_type.__members__[name]: value for name, value in wanted.items()}


def _with_names(offered: Iterable[Any]) -> dict[str, Any]:
    """Return knobs by name; those that the frontend has no member for cannot be set."""
    return {knob.type.name: knob for knob in offered if knob.type.name != "NOT_SET"}


def _range(knob: Any) -> str:
    step = f" by {knob.stride}" if knob.stride > 1 else ""
    return f"{knob.type.name} {knob.min_value} to {knob.max_value}{step}"


MOST_TRIED = 12
"""Plans of the heuristic's list that are tried until one builds."""
DESELECTED = "Deselecting execution plan"
"""Message of the frontend about a plan that the requested arithmetic excludes."""
LESS_EXACT = "all requested plans round more than --math allows; tf32 and fast allow more"
_ENGINE = re.compile(r"(?:eng)?(\d+)")


@dataclass(frozen=True)
class Choice:
    """Choice in the spec; all None: the heuristic's first plan that builds."""

    engine: int | None = None
    name: str | None = None
    index: int | None = None
    every: bool = False
    knobs: Mapping[str, int] = field(default_factory=dict)
    """Knob (`knob_name`) → value; the others of the engine stay at its defaults."""


@dataclass(frozen=True)
class Chosen:
    index: int
    name: str
    workspace_bytes: int
    notes: tuple[str, ...]


def read_choice(identifier: str | None, knobs: Mapping[str, str]) -> Choice:
    """Read a choice. Raises `UsageError` for an id or a knob without a meaning."""
    values = read_knobs(knobs)
    matched = None if identifier is None else _ENGINE.fullmatch(identifier)
    if values and matched is None:
        raise UsageError("--knob goes with an engine's id: --engine cudnn:ENGINE_ID")
    if identifier is None or identifier == "all":
        return Choice(every=identifier == "all")
    key, equals, value = identifier.partition("=")
    if equals and key == "plan" and value:
        return Choice(name=value)
    if equals and key == "index":
        return Choice(index=_whole("cudnn:index", value))
    if matched is None:
        forms = "a number, plan=NAME, index=N or all"
        raise UsageError(f"engine 'cudnn:{identifier}': expected {forms} after the colon")
    return Choice(engine=int(matched[1]), knobs=values)


def read_knobs(knobs: Mapping[str, str]) -> dict[str, int]:
    """Parse knobs. Raises `UsageError` for an unknown knob, and for a value that is not a
    number."""
    return {knob_name(key): _whole(f"--knob {key}", value) for key, value in knobs.items()}


def _whole(what: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(f"{what}: expected a whole number, got {text!r}")
    return int(text)


def engine_of(name: str) -> int | None:
    """Return the engine's id in a plan's name."""
    matched = re.match(r"eng(\d+)", name)
    return None if matched is None else int(matched[1])


def described_by(name: str) -> Choice | None:
    """Return the choice of engine and knobs in a plan's name; None if the frontend cannot set one
    of the knobs."""
    engine, knobs = engine_of(name), knobs_of(name)
    if engine is None or any(map(is_nameless, knobs)):
        return None
    return Choice(engine=engine, knobs=knobs)


def prepare(cudnn: Any, pygraph: Any, choice: Choice, what: str, *, explicit: bool) -> None:
    """Let the frontend list plans, or make the one that an engine's id and knobs describe."""
    modes = [cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK]
    if choice != Choice():
        modes.insert(1, cudnn.heur_mode.B)
    with refusals(what):
        pygraph.validate()
        pygraph.build_operation_graph()
        if not explicit:
            pygraph.create_execution_plans(modes)
    if explicit:
        asked = f"{what}: engine {choice.engine}"
        with refusals(asked):
            if hasattr(pygraph, "plans"):
                pygraph.key()  # hands a graph of the frontend's Python down to the library
            offered = pygraph.get_knobs_for_engine(choice.engine)
        checked(choice.knobs, offered, asked)
        text = " ".join(f"{name}={value}" for name, value in choice.knobs.items())
        with refusals(f"{asked} with {text or 'its defaults'}"):
            pygraph.create_execution_plan(choice.engine, settings(cudnn, choice.knobs))


def names(pygraph: Any) -> list[str]:
    count = pygraph.get_execution_plan_count()
    return [str(pygraph.get_plan_name_at_index(i)) for i in range(count)]


def candidates(found: list[str], choice: Choice) -> list[int]:
    """Return places in the list that fit the choice, in its order. Raises
    `UnsupportedGraphError`."""
    places = matching(found, choice)
    if not places:
        listed = ", ".join(found[:8]) + (" …" if len(found) > 8 else "")
        raise UnsupportedGraphError(f"cudnn: no such plan for this graph; it lists {listed}")
    return places


def matching(found: list[str], choice: Choice) -> list[int]:
    return [
        place
        for place, name in enumerate(found)
        if choice.name in (None, name)
        and choice.index in (None, place)
        and choice.engine in (None, engine_of(name))
        and (not choice.knobs or choice.knobs == knobs_of(name))
    ]


def build(pygraph: Any, places: list[int], found: list[str], what: str) -> Chosen:
    """Build the first of `places` that builds. Raises `UnsupportedGraphError` with the reason of
    the first that did not."""
    refused: str | None = None
    tried = 0
    for place in places:
        try:
            pygraph.build_plan_at_index(place)
        except foreign() as error:
            text = str(error)
            tried += DESELECTED not in text
            refused = text if refused is None or DESELECTED in refused else refused
            if tried > MOST_TRIED:
                break
            continue
        size = int(pygraph.get_workspace_size_plan_at_index(place))
        notes = pygraph.get_behavior_notes_for_plan_at_index(place)
        return Chosen(place, found[place], size, tuple(str(n).rpartition(".")[2] for n in notes))
    why = "no plan was listed" if refused is None else reason(refused)
    why = LESS_EXACT if refused is not None and DESELECTED in refused else why
    raise UnsupportedGraphError(f"cudnn: {what}: no plan builds: {why}")


@dataclass(frozen=True)
class Built:
    """A graph in cuDNN's form. `pygraph` lists plans; `chosen` is the one that was built."""

    graph: Graph
    """The original graph: its inputs and outputs are those of the plan."""
    scalars: tuple[Tensor, ...]
    views: Mapping[int, TensorView]
    numbers: Mapping[int, int]
    pygraph: Any
    listed: list[str]
    places: list[int]
    chosen: Chosen
    math: str
    backend: str
    handle: Any

    @property
    def workspace_bytes(self) -> int:
        return self.chosen.workspace_bytes

    def call(self, pack: dict[int, int], workspace: Workspace) -> Callable[[], None]:
        execute = executor(self.pygraph, self.chosen.index, self.handle)
        errors = foreign()

        def run() -> None:
            try:
                execute(pack, workspace.address)
            except errors:
                with failures("run"):
                    raise

        return run

    def is_spread(self, uid: int) -> bool:
        return self.views[uid].spread is not None

    def elements(self, tensor: Tensor) -> int:
        """Return the number of elements in the tensor's buffer: its span, or the number after
        broadcasting."""
        spread = self.views[tensor.uid].spread
        return tensor.span if spread is None else int(np.prod(spread.dims))

    def spread_out(self, tensor: Tensor, storage: Storage) -> Any:
        """Return a graph input as the plan's buffer holds it, a copy if the layouts differ."""
        spread = self.views[tensor.uid].spread
        if spread is None:
            return np.ascontiguousarray(storage)
        return spread_out(tensor, storage, spread.dims, spread.order)

    def size(self, tensor: Tensor) -> int:
        """Return bytes of the tensor's buffer."""
        return self.elements(tensor) * DTYPES[tensor.data_type].bits // 8

    def facts(self) -> dict[str, str]:
        spread = [t.name or str(t.uid) for t in self.graph.inputs if self.views[t.uid].spread]
        facts = {
            "plan": self.chosen.name,
            "index": str(self.chosen.index),
            "backend": self.backend,
            "math": self.math,
            "knobs": knob_text(self.chosen.name),
        }
        if self.chosen.notes:
            facts["notes"] = ", ".join(self.chosen.notes)
        if spread:
            facts["spread_inputs"] = ", ".join(spread)
        return facts


NOT_CHOSEN = Chosen(-1, "", 0, ())


def spread_out(
    tensor: Tensor, storage: Storage, dims: tuple[int, ...], order: tuple[int, ...]
) -> Any:
    """Return the input broadcast to `dims`, its axes laid out in `order`."""
    logical = logical_view(storage, tensor)
    missing = len(dims) - logical.ndim
    widened = logical.reshape((1,) * missing + logical.shape)
    return np.ascontiguousarray(np.broadcast_to(widened, dims).transpose(order)).reshape(-1)


BUILD_LIMIT_S = 30.0
"""Plans are built, to know their workspace, until this is over; a single one can take ten."""


def choices(pygraph: Any, listed: Sequence[str], places: Sequence[int]) -> Iterator[dict[str, str]]:
    """Yield one row for each of these places in the list, in the heuristic's order."""
    begun = time.monotonic()
    for place in places:
        name = listed[place]
        engine = engine_of(name)
        own = name.partition("[")[0] if engine is None else str(engine)
        row = {"index": str(place), "plan": name, "engine": own}
        row["knobs"] = knob_text(name)
        notes = pygraph.get_behavior_notes_for_plan_at_index(place)
        row["notes"] = " ".join(str(note).rpartition(".")[2] for note in notes) or "none"
        in_time = time.monotonic() - begun < BUILD_LIMIT_S
        yield {**row, "workspace": _workspace(pygraph, place) if in_time else "not asked for"}


def knobs_taken(pygraph: Any, engine: int) -> dict[str, str]:
    """Return a row with the knobs that an engine takes for the graph."""
    try:
        offered = pygraph.get_knobs_for_engine(engine)
    except foreign() as error:
        return {"engine": str(engine), "does not fit:": reason(str(error))}
    return {"engine": str(engine), "takes": offered_text(offered)}


def knob_values(pygraph: Any, engine: int) -> dict[str, tuple[str, ...]]:
    """Return every value of every knob that can be set, by the knob's name."""
    with refusals(f"engine {engine}"):
        offered = list(pygraph.get_knobs_for_engine(engine))
    return {
        knob.type.name: tuple(
            str(value)
            for value in range(knob.min_value, knob.max_value + 1, max(1, int(knob.stride)))
        )
        for knob in offered
        if knob.type.name != "NOT_SET"
    }


def _workspace(pygraph: Any, place: int) -> str:
    try:
        pygraph.build_plan_at_index(place)
        return f"{pygraph.get_workspace_size_plan_at_index(place)} bytes"
    except foreign() as error:
        return f"does not build ({reason(str(error))[:60]})"
