"""A device that replays graphs: a gap between kernels of one, another between two graphs."""

from __future__ import annotations

from contextlib import contextmanager

from bench_run.engines.base import PlanAbilities
from bench_run.errors import EngineError
from bench_run.streams.base import StreamAbilities


class Device:
    """Its stream as well. Marks cost something, as events do."""

    clock = "events"
    abilities = StreamAbilities(kernel_timer="auto", flushes=lambda: False)

    def __init__(self, inner, between, mark=1300, depth=100, refuses=False):
        self.inner, self.between, self.mark_ns = inner, between, mark
        self.gate_depth, self.refuses = depth, refuses
        self.now, self.captures, self.closed = 0, 0, 0
        self.enqueued = None
        """Kernels of what is being captured."""

    def mark(self):
        self.now += self.mark_ns
        return self.now

    def elapsed_ns(self, begin, end):
        return round(end - begin)

    @contextmanager
    def gate(self):
        yield

    def synchronize(self):
        return None

    def flush(self):
        return None

    def correction_ns(self):
        return float(self.mark_ns)

    def capture(self, work):
        self.enqueued = []
        work()
        kernels, self.enqueued = self.enqueued, None
        return Graph(self, kernels)

    def launch(self, kernels):
        self.now += self.between + sum(kernels) + self.inner * (len(kernels) - 1)


class Graph:
    def __init__(self, device, kernels):
        self.device, self.kernels = device, kernels

    def launch(self):
        self.device.launch(self.kernels)

    def again(self, work):
        if self.device.refuses:
            raise EngineError("no more")
        self.device.captures += 1
        return self.device.capture(work)

    def close(self):
        self.device.closed += 1


class DevicePlan:
    def __init__(self, device, kernels):
        self.device, self.kernels, self.results = device, list(kernels), "captured"
        self.captured = device.capture(self._enqueue)
        self.run = self.captured.launch

    @property
    def abilities(self):
        return PlanAbilities(captured=lambda: self.captured, uncaptured=self.uncaptured)

    def _enqueue(self):
        self.device.enqueued += self.kernels

    @contextmanager
    def uncaptured(self):
        self.results = "elsewhere"
        yield self._enqueue
        self.results = "captured"
