"""Chains on any engine: a plan made of plans, which pass memory to each other where they can.

If a plan cannot read what another one wrote (`share`), it reads a copy that is made once, before
anything is timed: the plans then run back to back, and the plan's facts say so. The results are the
same either way. `build` and `plan` take plain graphs as well.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.engines.base import (
    Home,
    PlanAbilities,
    PlanFacts,
)
from bench_run.engines.reported import Reports
from bench_run.errors import EngineError, UnsupportedGraphError
from bench_run.graph.chain import ChainGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench_run.engines.base import Captured, Engine, Plan
    from bench_run.graph.chain import Alias, Place
    from bench_run.graph.model import Graph
    from bench_run.tensors.layout import Storage, Storages


@dataclass(frozen=True)
class BuiltChain:
    graph: ChainGraph
    parts: tuple[object, ...]
    """Objects that the engine built for each place; places of one file share one."""


def build(engine: Engine, graph: Graph, variant: Mapping[str, str]) -> object:
    """Return the graph in the engine's own form; of a chain every place's."""
    if not isinstance(graph, ChainGraph):
        return engine.build(graph, variant)
    return _build(engine, graph, graph.places, variant)


def _build(
    engine: Engine, graph: ChainGraph, places: Sequence[Place], variant: Mapping[str, str]
) -> BuiltChain:
    made: dict[object, object] = {}
    parts: list[object] = []
    refused: dict[str, str] = {}
    for place in places:
        key = (id(place.graph), tuple(sorted(place.variant.items())))
        if key not in made:
            try:
                made[key] = _built(engine, place, {**variant, **place.variant})
            except UnsupportedGraphError as error:
                made[key] = error
        if isinstance(made[key], UnsupportedGraphError):
            refused[place.id] = str(made[key])
        parts.append(made[key])
    if refused:
        raise UnsupportedGraphError(_refusal(refused, len(parts)))
    return BuiltChain(graph, tuple(parts))


def _refusal(refused: Mapping[str, str], layers: int) -> str:
    """Return a text that names every layer that the engine does not take, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in refused.items():
        by_reason.setdefault(reason, []).append(name)
    rows = (f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    what = f"layer {next(rows)}" if len(refused) == 1 else f"layers {'; '.join(rows)}"
    return what if layers == 1 else f"{len(refused)} of {layers} layers are not taken: {what}"


def plan(engine: Engine, built: object) -> Plan:
    """Compile what `build` made."""
    if not isinstance(built, BuiltChain):
        return engine.plan(built)

    def make() -> ChainPlan:
        return ChainPlan(built.graph, _plans(built.graph.places, built.parts, engine))

    arrange = engine.abilities.arrange
    return make() if arrange is None else arrange(make, built.graph)


def plan_around(engine: Engine, graph: ChainGraph, given: Mapping[int, Plan]) -> ChainPlan:
    """Make a chain, not yet linked, with the existing plans of `given` at their places and new
    plans at all others. The owner of the given plans closes them."""
    places = [place for index, place in enumerate(graph.places) if index not in given]
    made = iter(_plans(places, _build(engine, graph, places, {}).parts, engine))
    every = [given[i] if i in given else next(made) for i in range(len(graph.places))]
    return ChainPlan(graph, every, frozenset(given))


def _built(engine: Engine, place: Place, variant: Mapping[str, str]) -> object:
    try:
        return engine.build(place.graph, variant)
    except EngineError as error:
        raise EngineError(f"layer {place.id}: {error}", detail=error.detail) from error


def _plans(places: Sequence[Place], parts: Sequence[object], engine: Engine) -> list[Plan]:
    part = engine.abilities.part
    make = engine.plan if part is None else part
    plans: list[Plan] = []
    for place, built in zip(places, parts, strict=True):
        try:
            plans.append(make(built))
        except (UnsupportedGraphError, EngineError) as error:
            for each in plans:
                each.close()
            if isinstance(error, UnsupportedGraphError):
                raise UnsupportedGraphError(f"layer {place.id}: {error}") from error
            raise EngineError(f"layer {place.id}: {error}", detail=error.detail) from error
    return plans


def share_memory(plan: Plan, homes: Mapping[int, Home]) -> frozenset[int]:
    """Return uids of the tensors that the plan now has in the memory of other plans."""
    share = plan.abilities.share
    return share(homes) if homes and share is not None else frozenset()


class ChainPlan:
    """Runs the plans of a chain in order. Uids are the chain's."""

    def __init__(
        self, graph: ChainGraph, plans: Sequence[Plan], foreign: frozenset[int] = frozenset()
    ) -> None:
        """`foreign`: places of the plans that others close."""
        self._graph, self.parts = graph, tuple(plans)
        self._foreign = foreign
        self._rows = tuple(zip(graph.places, plans, strict=True))
        self._given = frozenset(tensor.uid for tensor in graph.inputs)
        self.captured: Captured | None = None
        self._linked: frozenset[int] | None = None
        """None until it is tried."""

    @property
    def abilities(self) -> PlanAbilities:
        return PlanAbilities(
            locate_outputs=self.locate_outputs,
            locate_inputs=self.locate_inputs,
            changed_inputs=self.changed_inputs,
            share=self.share,
            runs_of_parts=self.runs_of_parts,
            keep=self.keep,
            replay=self.replay,
            captured=lambda: self.captured,
            uncaptured=self.uncaptured,
        )

    @property
    def facts(self) -> PlanFacts:
        reports = Reports("one of its layers")
        facts = [(p, reports.plan_facts(plan)) for p, plan in self._rows]
        chosen = dict(frozenset.intersection(*(frozenset(f.chosen.items()) for _, f in facts)))
        chosen |= {"layers": str(len(facts)), "activations": self._activations()}
        math = sorted({f.chosen["math"] for _, f in facts if "math" in f.chosen})
        if math:
            chosen["math"] = ", ".join(math)
        for place, fact in facts:
            if "plan" in fact.chosen:
                chosen[f"{place.id}: plan"] = fact.chosen["plan"]
        if reports.notes:
            chosen["left out"] = "; ".join(reports.notes)
        scratch = [f.workspace_bytes for _, f in facts if f.workspace_bytes is not None]
        return PlanFacts(chosen, sum(scratch) if scratch else None, self._buffer_bytes())

    def _activations(self) -> str:
        """Return a phrase on the links that are shared memory."""
        links = set(self._graph.aliases)
        copied = [self._graph.by_uid[uid].name for uid in sorted(links - self.linked)]
        if not links:
            return "no links: the layers run back to back"
        if not copied:
            return f"shared: {len(links)} of {len(links)} links"
        named = ", ".join(copied[:5]) + (" …" if len(copied) > 5 else "")
        return (
            f"shared: {len(links) - len(copied)} of {len(links)} links; "
            f"copied once, before the samples: {named}"
        )

    def _buffer_bytes(self) -> int:
        copied = set(self._graph.aliases) - self.linked
        held = (*self._graph.inputs, *self._graph.outputs)
        return sum(t.bytes for t in held) + sum(self._graph.by_uid[u].bytes for u in copied)

    def share(self, homes: Mapping[int, Home]) -> frozenset[int]:
        """Share memory between whole chains: each plan of this one with its twin in the other."""
        done: set[int] = set()
        for index, (place, plan) in enumerate(self._rows):
            wanted = {uid: homes[new] for uid, new in place.uids.items() if new in homes}
            own = {uid: _twin(home, index, uid) for uid, home in wanted.items()}
            shared = self._share(place, plan, own, homes)
            done |= {place.uids[uid] for uid in shared}
        self._linked = frozenset(done & set(self._graph.aliases))
        return frozenset(done - set(self._graph.aliases))

    def link(self) -> None:
        """Share memory along the links, once, before anything runs or is captured."""
        _ = self.linked

    @property
    def linked(self) -> frozenset[int]:
        """Uids of the readers that read where the writer wrote; links them first."""
        if self._linked is None:
            self.share({})
            assert self._linked is not None
        return self._linked

    def _share(
        self, place: Place, plan: Plan, homes: dict[int, Home], outer: Mapping[int, Home]
    ) -> frozenset[int]:
        """Share one plan's tensors with the given ones, and its links with those of other plans."""
        for uid, new in place.uids.items():
            alias = self._graph.aliases.get(new)
            if alias is not None:
                homes[uid] = self._home(alias, outer)
        return share_memory(plan, homes)

    def _home(self, alias: Alias, outer: Mapping[int, Home]) -> Home:
        """Return the home of an input. One in another chain is read there: the plan that has it
        here may come later, and would return its own memory."""
        index, own = self._graph.where[alias.uid]
        borrowed = alias.uid in outer and alias.uid in self._given
        holder = _twin(outer[alias.uid], index, own).plan if borrowed else self.parts[index]
        return Home(holder, own, alias.offset)

    def upload(self, inputs: Storages) -> None:
        """Upload the inputs of the chain; if links are copies, also their sources."""
        linked = self.linked
        copied = {a.uid for uid, a in self._graph.aliases.items() if uid not in linked}
        left: dict[int, Storage] = dict(inputs) if copied else {}
        for place, plan in self._rows:
            plan.upload(dict(self._inputs_of(place, inputs, left)))
            if copied:
                plan.run()
                left.update(self._outputs_of(place, plan))

    def _inputs_of(
        self, place: Place, inputs: Storages, left: Storages
    ) -> Iterator[tuple[int, Storage]]:
        for tensor in place.graph.inputs:
            new = place.uids[tensor.uid]
            alias = self._graph.aliases.get(new)
            if alias is None:
                yield tensor.uid, inputs[new]
            elif new not in self.linked:
                yield tensor.uid, left[alias.uid][alias.offset : alias.offset + tensor.span]

    def poison(self) -> None:
        for plan in self.parts:
            plan.poison()

    def run(self) -> None:
        for plan in self.parts:
            plan.run()

    def runs_of_parts(self) -> tuple[Callable[[], None], ...]:
        """Return the whole if it was captured, otherwise the parts."""
        return (self.run,) if self.captured is not None else tuple(p.run for p in self.parts)

    def download(self) -> dict[int, Storage]:
        return {uid: s for row in self._rows for uid, s in self._outputs_of(*row).items()}

    def _outputs_of(self, place: Place, plan: Plan) -> dict[int, Storage]:
        return {place.uids[uid]: storage for uid, storage in plan.download().items()}

    def locate_outputs(self, *, upcoming: bool) -> Mapping[int, Storage | int]:
        """Return the outputs of all plans, or of none: they belong to one engine."""
        found: dict[int, Storage | int] = {}
        for place, plan in self._rows:
            locate = plan.abilities.locate_outputs
            if locate is None:
                return {}
            places = locate(upcoming=upcoming)
            found.update({place.uids[uid]: where for uid, where in places.items()})
        return found if len(found) == len(self._graph.outputs) else {}

    def locate_inputs(self) -> Mapping[int, Storage | int]:
        """Return the places of the inputs by uid; empty if a layer reads a copy of another's
        output, which would not follow its input."""
        if set(self._graph.aliases) - self.linked:
            return {}
        found: dict[int, Storage | int] = {}
        for place, plan in self._rows:
            locate = plan.abilities.locate_inputs
            places = {} if locate is None else locate()
            found.update({place.uids[uid]: where for uid, where in places.items()})
        return {uid: where for uid, where in found.items() if uid in self._given}

    def changed_inputs(self, inputs: Storages) -> tuple[int, ...]:
        """Return changed inputs of the chain; a layer that writes into its inputs shows in its
        outputs."""
        changed: list[int] = []
        for place, plan in self._rows:
            mine = {u: inputs[new] for u, new in place.uids.items() if new in inputs}
            changed_inputs = plan.abilities.changed_inputs
            if mine and changed_inputs is not None:
                changed += (place.uids[uid] for uid in changed_inputs(mine))
        return tuple(changed)

    def keep(self) -> None:
        for plan in self.parts:
            keep = plan.abilities.keep
            if keep is not None:
                keep()

    def replay(self, captured: Captured) -> None:
        self.keep()
        self.captured = captured
        self.run = captured.launch  # type: ignore[method-assign]

    @contextmanager
    def uncaptured(self) -> Iterator[Callable[[], None]]:
        with ExitStack() as stack:
            runs = []
            for part in self.parts:
                uncaptured = part.abilities.uncaptured
                runs.append(part.run if uncaptured is None else stack.enter_context(uncaptured()))
            yield lambda: _each(runs)

    def close(self) -> None:
        if self.captured is not None:
            self.captured.close()
            self.captured = None
        for index, plan in reversed(tuple(enumerate(self.parts))):
            if index not in self._foreign:
                plan.close()


def _each(runs: Sequence[Callable[[], None]]) -> None:
    for run in runs:
        run()


def _twin(home: Home, index: int, uid: int) -> Home:
    """Return the same tensor of the plan at the same place in another chain."""
    assert isinstance(home.plan, ChainPlan)
    return Home(home.plan.parts[index], uid, home.offset)
