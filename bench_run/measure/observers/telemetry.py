"""Clocks, power and temperature of the device before and after the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.machine.telemetry import disturbances, observe
from bench_run.measure.observers.base import Observer, Results, Round

if TYPE_CHECKING:
    from bench_schema.document import Telemetry

    from bench_run.measure.loop import Measured


class Clocks(Observer):
    def __init__(self, this: Round) -> None:
        super().__init__(this)
        self._before: Telemetry | None = None
        self._after: Telemetry | None = None

    def before_round(self) -> None:
        prepared = self.this.prepared
        self._before = observe(prepared.device, prepared.stream, at_once=True)

    def after_sample_block(self, measured: Measured) -> None:  # noqa: ARG002
        self._after = observe(self.this.prepared.device, self.this.prepared.stream)

    def results(self) -> Results:
        fields = {"telemetry_before": self._before, "telemetry_after": self._after}
        return Results(fields, notes=disturbances(self._before, self._after))
