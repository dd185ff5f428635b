"""A plan that ran once: the only way from a graph to something that is measured, checked or traced.

The steps are those of every user of an engine: build, draw the inputs, plan, upload, poison, run.
A caller that times them, or shares the device, passes `Steps` of its own.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench_run.engines import chain
from bench_run.errors import EngineError
from bench_run.tensors.data import Data, inputs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from bench_run.engines.base import Engine, Plan
    from bench_run.graph.model import Graph
    from bench_run.streams.base import DeviceUse, Stream
    from bench_run.tensors.layout import Storages


class Steps:
    """Hooks around the steps of a preparation; by default they do nothing."""

    no_gate: str | None = None
    """Why the device's times are to be taken without a gate; None: with one if there is one."""

    def time(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context for a step whose time counts."""
        return nullcontext()

    def enter(self, name: str) -> None:
        """Begin a step whose time does not count."""

    def before_plan(self) -> None:
        """Hear that the inputs are there."""

    def claim(self, use: DeviceUse) -> None:
        """Wait until the device may be used so."""


@dataclass
class Prepared:
    """A plan that ran once on its inputs."""

    engine: Engine
    graph: Graph
    plan: Plan
    inputs: Storages

    @property
    def stream(self) -> Stream:
        return self.engine.stream

    @property
    def device(self) -> str:
        return self.engine.facts.device

    def run(self) -> None:
        """Run once, to the end."""
        self.plan.run()
        self.stream.synchronize()

    def outputs_on(self, inputs: Storages) -> Storages:
        """Return the outputs of one run on other inputs; nothing of an earlier run is in them."""
        self.plan.upload(inputs)
        self.plan.poison()
        self.run()
        return self.plan.download()


@contextmanager
def prepare_plan(
    engine: Engine,
    graph: Graph,
    data: Data | Storages,
    variant: Mapping[str, str] | None = None,
    steps: Steps | None = None,
) -> Iterator[Prepared]:
    """Yield the graph as a plan that ran once, on poisoned outputs; it is closed with the context.
    `data`: the inputs, or their source. Raises what the engine raises: `EngineError` and
    `UnsupportedGraphError`."""
    steps = Steps() if steps is None else steps
    with steps.time("build"):
        built = chain.build(engine, graph, variant or {})
    steps.enter("inputs")
    inputs = inputs_of(graph, data) if isinstance(data, Data) else data
    steps.before_plan()
    with steps.time("plan"):
        plan = chain.plan(engine, built)
    try:
        prepared = Prepared(engine, graph, plan, inputs)
        del data, inputs, built  # large inputs would stay in memory as long as the plan
        _first_run(prepared, steps)
        yield prepared
    finally:
        with suppress(EngineError):  # what went wrong with it is known already
            plan.close()


def _first_run(prepared: Prepared, steps: Steps) -> None:
    plan, stream = prepared.plan, prepared.stream
    steps.claim("shared")
    with steps.time("plan"):
        plan.upload(prepared.inputs)
    leave_gate_open = stream.abilities.leave_gate_open
    if steps.no_gate is not None and leave_gate_open is not None:
        leave_gate_open(steps.no_gate)
    plan.poison()
    stream.synchronize()
    if plan.abilities.searches:
        with steps.time("search"):
            prepared.run()
    with steps.time("first_run"):
        prepared.run()
