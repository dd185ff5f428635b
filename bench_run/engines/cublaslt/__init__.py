"""Engine ``cublaslt``: NVIDIA's cuBLASLt through the bindings of `nvmath-python`.

Spec: ``cublaslt`` (the heuristic's first algorithm), ``cublaslt:plan=NAME``, ``cublaslt:index=N``
(place in the heuristic's list, as `bench-run engines GRAPH` shows it), ``cublaslt:all`` (every
algorithm, each a case). Graphs are one product, batched or not, with a bias, a relu or a gelu by
tanh behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines.base import ModuleAbilities, probe_nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Availability, Engine, EngineOptions, EngineSpec

NAME = "cublaslt"
SUMMARY = "NVIDIA cuBLASLt, products; cublaslt:plan=NAME, cublaslt:index=N, cublaslt:all"
INSTALL = "pip install 'dnn-bench[cublaslt]'"


def probe() -> Availability:
    return probe_nvidia("nvmath", "nvmath-python", "nvmath-python", INSTALL)


def environment(spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:  # noqa: ARG001
    from bench_run.engines.caches import NVIDIA, cache_environment

    return cache_environment(options, NVIDIA)


def open(spec: EngineSpec, options: EngineOptions) -> Engine:  # noqa: A001 - a name of the protocol
    from bench_run.engines.cublaslt.engine import open_engine

    return open_engine(spec, options)


ABILITIES = ModuleAbilities(environment=environment)
