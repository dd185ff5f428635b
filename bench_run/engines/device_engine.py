"""Base of engines whose libraries take addresses: plans, a workspace, replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines.arrange import arrange
from bench_run.engines.base import EngineFacts
from bench_run.engines.chain import ChainPlan
from bench_run.engines.device_plan import DevicePlan, Workspace
from bench_run.errors import UnsupportedGraphError
from bench_run.streams.base import REPLAY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_run.engines.base import Captured, EngineOptions, EngineSpec, Plan
    from bench_run.engines.device_plan import DeviceProblem
    from bench_run.graph.model import Graph
    from bench_run.streams.base import Stream
    from bench_run.streams.cuda import CudaStream


class DeviceEngine:
    """An engine builds graphs; `complete` chooses one of the plans that it built."""

    def __init__(self, name: str, stream: CudaStream, options: EngineOptions) -> None:
        self._name = name
        self.stream: Stream = stream
        self._cuda = stream
        self._replay, self._cache = options.replay, options.cache
        self._parts: dict[int, tuple[object, DeviceProblem]] = {}
        self._launches: int | None = None
        """Launches in one execution of the plan that is being arranged."""
        self._workspace = Workspace(stream)

    def device_facts(
        self,
        spec: EngineSpec,
        libraries: Mapping[str, str],
        knobs: Mapping[str, str] | None = None,
    ) -> EngineFacts:
        device = self._cuda.device
        return EngineFacts(
            spec.id,
            libraries,
            device.uuid,
            device.name,
            knobs=knobs or {},
            device_index=device.index,
        )

    def complete(self, built: object) -> DeviceProblem:
        raise NotImplementedError

    def plan(self, built: object) -> Plan:
        graph = built.graph  # type: ignore[attr-defined]
        return self.arrange(lambda: self.part(built), graph)

    def part(self, built: object) -> Plan:
        """Make a plan that shares the compiled graph, and the working memory, with others of its
        graph."""
        if id(built) not in self._parts:
            self._parts[id(built)] = built, self.complete(built)
        _, complete = self._parts[id(built)]
        self._workspace.grow(complete.workspace_bytes)
        return DevicePlan(complete, self._cuda, self._workspace)

    def arrange(self, make: Callable[[], Plan], graph: Graph) -> Plan:
        """Plans of before may go on: they look the workspace up, or were captured with one of
        their own."""
        self._parts.clear()
        self._launches = None
        if self._replay:
            self._workspace = Workspace(self._cuda)
        return arrange(make, graph, self._cache, self._cuda.device.l2_bytes, self._finish)

    def _finish(self, plan: Plan) -> None:
        if self._replay:
            refuse_frozen(self._name, plan)
        plan.run()  # loads what loading behind a closed gate could hang on
        self.stream.synchronize()
        if self._launches is None:  # those of its copies are as many
            self._launches = self._cuda.launches(plan.run)
        self._cuda.expect(self._launches)
        if self._replay:
            replay = plan.abilities.replay
            assert replay is not None
            captured = self._cuda.capture(plan.run)
            captured.launch()
            replay(captured)
            self._cuda.expect(REPLAY)

    def capture(self, work: Callable[[], None]) -> Captured:
        return self._cuda.capture(work)

    def peak_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        self.stream.synchronize()
        self._workspace.close()


def refuse_frozen(engine: str, plan: Plan) -> None:
    """Refuse to capture a plan with inputs that are read on the host, since the capture would keep
    their values."""
    parts = plan.parts if isinstance(plan, ChainPlan) else (plan,)
    for part in parts:
        assert isinstance(part, DevicePlan)
        for tensor in part.read_on_host:
            raise UnsupportedGraphError(
                f"{engine}: --replay: input {tensor.name or tensor.uid} is read on the host, so a "
                "captured graph would keep one value of it"
            )
