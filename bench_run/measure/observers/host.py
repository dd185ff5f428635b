"""Other activity of the host and other processes on the device, during the samples."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bench_run.machine.surroundings import HostWatch, others_on
from bench_run.measure.observers.base import Observer, Results, Round

if TYPE_CHECKING:
    from bench_run.measure.loop import Measured


class Host(Observer):
    def __init__(self, this: Round) -> None:
        super().__init__(this)
        self._watch = HostWatch()

    def before_round(self) -> None:
        self._watch.begin()

    def after_sample_block(self, measured: Measured) -> None:  # noqa: ARG002
        self._watch.end()

    def results(self) -> Results:
        there = others_on(self.this.prepared.device)
        found = replace(self._watch.surroundings(), device_processes=there)
        return Results({"surroundings": found})
