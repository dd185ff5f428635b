"""What an engine can do beside the common part stands in its record of abilities."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace

import pytest

from bench_run.engines import ThirdParty, engine_module
from bench_run.engines.base import (
    EngineAbilities,
    EngineOptions,
    EngineSpec,
    ModuleAbilities,
    PlanAbilities,
)
from bench_run.engines.cudnn.engine import CudnnEngine
from bench_run.profilers.table import PROFILERS, profiler_of
from bench_run.streams.base import StreamAbilities
from bench_run.streams.cuda import CudaStream
from bench_run.streams.host import HostStream
from tests.conformance.opening import opened


def named(record):
    """The abilities that are there."""
    return {f.name for f in fields(record) if getattr(record, f.name) not in (None, False)}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("numpy", {"part", "arrange"}),
        pytest.param(
            "torch:cpu",
            {"part", "arrange", "trace"},
            marks=pytest.mark.needs("torch:cpu"),
        ),
    ],
)
def test_an_open_engine_has_just_its_abilities(spec, expected):
    with opened(spec) as engine:
        assert expected == named(engine.abilities)


def test_cudnn_names_its_abilities():
    engine = object.__new__(CudnnEngine)
    engine._devices = 2
    expected = {f.name for f in fields(EngineAbilities)} - {"trace"}
    assert expected == named(engine.abilities)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("numpy", {"workspace"}),
        ("torch", {"environment", "preload", "probe_id", "workspace"}),
        ("cudnn", {"environment", "preload", "knobs"}),
        ("hipdnn", {"environment", "profiler", "knobs", "oracle"}),
    ],
)
def test_an_engines_module_has_just_its_abilities(name, expected):
    assert expected == named(engine_module(name).ABILITIES)


def test_the_hosts_stream_has_no_abilities_of_a_devices():
    expected = {"flushes", "without_flush", "run_before", "runs_before"}
    assert expected == named(HostStream().abilities)


def test_a_stream_on_nvidias_driver_has_all_but_those_of_others():
    stream = object.__new__(CudaStream)
    stream.timer = "auto"
    of_others = {"run_before", "runs_before", "gate_is_gone"}
    assert {f.name for f in fields(StreamAbilities)} - of_others == named(stream.abilities)


class Old:
    """An engine of a stranger who never heard of abilities."""

    def __init__(self):
        self.stream = SimpleNamespace()

    def plan(self, built):
        return SimpleNamespace()


def test_a_third_partys_engine_without_records_has_no_abilities():
    module = ThirdParty("old", "", "", ModuleAbilities(), None, lambda spec, options: Old())
    engine = module.open(EngineSpec("old", "old"), EngineOptions())
    found = [engine.abilities, engine.plan(None).abilities, engine.stream.abilities]
    assert [EngineAbilities(), PlanAbilities(), StreamAbilities()] == found


def test_without_a_word_of_its_module_an_engine_is_profiled_by_nvidias_tool():
    expected = {"numpy": "ncu", "torch": "ncu", "cudnn": "ncu", "hipdnn": "rocprofv3"}
    assert expected == {name: profiler_of(name).tool for name in expected}
    assert {*expected.values(), profiler_of("numpy", "cpu").tool} == set(PROFILERS)
