"""What an engine can do beside the common part shows in its type."""

from __future__ import annotations

import pytest

from bench_run.engines import base, engine_module
from bench_run.engines.cudnn.engine import CudnnEngine
from bench_run.profilers.table import PROFILERS, profiler_of
from bench_run.streams import base as streams
from bench_run.streams.cuda import CudaStream
from bench_run.streams.host import HostStream
from tests.conformance.opening import opened

OF_ENGINES = ("SupportsChoices", "SupportsAlternatives", "SupportsDevices", "SupportsTrace")
OF_MODULES = ("SupportsEnvironment", "SupportsIdProbe", "NamesProfiler")
OF_STREAMS = ("SupportsClockProbe", "SupportsKernelRecords", "GateOpensByForce")


def abilities(thing, home, names):
    return {name for name in names if isinstance(thing, getattr(home, name))}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("numpy", set()),
        pytest.param(
            "torch:cpu",
            {"SupportsDevices", "SupportsTrace"},
            marks=pytest.mark.needs("torch:cpu"),
        ),
    ],
)
def test_an_open_engine_has_just_its_abilities(spec, expected):
    with opened(spec) as engine:
        assert expected == abilities(engine, base, OF_ENGINES)


def test_cudnn_names_its_abilities_as_base_classes():
    expected = {base.SupportsChoices, base.SupportsAlternatives, base.SupportsDevices}
    assert expected <= set(CudnnEngine.__mro__)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("numpy", set()),
        ("torch", {"SupportsEnvironment", "SupportsIdProbe"}),
        ("cudnn", {"SupportsEnvironment"}),
        ("hipdnn", {"SupportsEnvironment", "NamesProfiler"}),
    ],
)
def test_an_engines_module_has_just_its_abilities(name, expected):
    assert expected == abilities(engine_module(name), base, OF_MODULES)


def test_the_hosts_stream_has_no_abilities_of_a_devices():
    assert set() == abilities(HostStream(), streams, OF_STREAMS)
    assert {getattr(streams, name) for name in OF_STREAMS} <= set(CudaStream.__mro__)


def test_without_a_word_of_its_module_an_engine_is_profiled_by_nvidias_tool():
    expected = {"numpy": "ncu", "torch": "ncu", "cudnn": "ncu", "hipdnn": "rocprofv3"}
    assert expected == {name: profiler_of(name).TOOL for name in expected}
    assert set(expected.values()) == set(PROFILERS)
