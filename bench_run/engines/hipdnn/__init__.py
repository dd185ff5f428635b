"""Engine ``hipdnn``: AMD's hipDNN through its Python module `hipdnn_frontend`.

Spec: ``hipdnn`` (hipDNN chooses), ``hipdnn:MIOPEN_ENGINE``, ``hipdnn:1``, ``hipdnn:0x15b4…``,
``hipdnn:all`` (each engine that accepts the graph), ``hipdnn:autotune`` (the one that hipDNN's own
tuner finds fastest); ``@DIR`` or ``@FILE.so`` for a build of the
plugin, ``+lib=DIR`` for the library behind it. It drives the newest states of the bindings; older
ones are refused with the first name that they lack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines.base import Availability, ModuleAbilities, Oracle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Engine, EngineOptions, EngineSpec

NAME = "hipdnn"
SUMMARY = (
    "AMD's hipDNN; hipdnn[:ENGINE|:ID|:all|:autotune][@plugin path], A/B of two builds of a plugin"
)
INSTALL = "it comes with ROCm's hipDNN; --hipdnn-prefix DIR finds it"


def probe() -> Availability:
    """Return the availability of the module and of an AMD device, without running either."""
    from importlib.util import find_spec
    from os.path import exists

    if find_spec("hipdnn_frontend") is None:
        return Availability(False, f"hipdnn_frontend is not installed; {INSTALL}")
    if not exists("/dev/kfd"):
        return Availability(
            False,
            "hipdnn_frontend is installed, but /dev/kfd is not there: no "
            "AMD GPU, or its driver is not loaded",
        )
    return Availability(True, "hipdnn_frontend is installed and an AMD GPU is visible")


def open(spec: EngineSpec, options: EngineOptions) -> Engine:  # noqa: A001 - a name of the protocol
    from bench_run.engines.hipdnn.opening import open_engine

    return open_engine(spec, options)


def environment(spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:
    """Return the variables that a worker process of this engine needs in its environment from the
    start."""
    from bench_run.engines.hipdnn.opening import arm_environment

    return arm_environment(spec, options)


ABILITIES = ModuleAbilities(
    environment=environment,
    profiler="rocprofv3",
    knobs="Graph.get_knobs_for_engine; bench-run --list-engines GRAPH shows them",
    oracle=Oracle(knob="global.benchmarking=1", searching_ids=("autotune",)),
)
