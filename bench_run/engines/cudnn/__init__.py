"""Engine ``cudnn``: NVIDIA's cuDNN through its Python frontend, without PyTorch.

Spec: ``cudnn`` (the heuristic's first plan that builds), ``cudnn:ENGINE_ID`` (that engine's first
plan, or its defaults), ``cudnn:plan=NAME``, ``cudnn:index=N`` (place in the heuristic's list, as
`bench-run engines GRAPH` shows it), ``cudnn:all`` (every plan, each a case). Knobs need an engine's
id, by the backend's number or name: ``--knob k2=0``; the listed plan with just these knobs is
taken, otherwise one is made with the engine's other knobs at their defaults. A plan is identified
by the backend's version and its name; both are in the document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines.base import ModuleAbilities, probe_nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Availability, Engine, EngineOptions, EngineSpec

NAME = "cudnn"
SUMMARY = "NVIDIA cuDNN; cudnn:ENGINE_ID, cudnn:plan=NAME, cudnn:index=N, cudnn:all"
INSTALL = "pip install 'dnn-bench[cudnn]'"


def probe() -> Availability:
    return probe_nvidia("cudnn", "nvidia-cudnn-frontend", "cuDNN's frontend", INSTALL)


def environment(spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:  # noqa: ARG001
    """Return variables of the worker's process: its caches. cuDNN's float32 matrix products use
    TF32 whatever plan is chosen, unless that is forbidden before the library is loaded."""
    from bench_run.engines.caches import NVIDIA, cache_environment

    strict = {"NVIDIA_TF32_OVERRIDE": "0"} if options.math == "fp32" else {}
    return {**cache_environment(options, NVIDIA), **strict}


def preload(spec: EngineSpec) -> bool:  # noqa: ARG001
    """Load the frontend, which loads cuDNN; return True. Neither makes a context before a handle is
    requested."""
    from bench_run.engines.cudnn import engine, library

    return bool(engine and library.load())


def open(spec: EngineSpec, options: EngineOptions) -> Engine:  # noqa: A001 - a name of the protocol
    from bench_run.engines.cudnn.engine import open_engine

    return open_engine(spec, options)


ABILITIES = ModuleAbilities(
    environment=environment,
    preload=preload,
    knobs="the backend's knobs; bench-run --list-engines GRAPH shows them",
)
