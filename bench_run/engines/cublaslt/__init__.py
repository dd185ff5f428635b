"""Engine ``cublaslt``: NVIDIA's cuBLASLt through the bindings of `nvmath-python`.

Spec: ``cublaslt`` (the heuristic's first algorithm), ``cublaslt:plan=NAME``, ``cublaslt:index=N``
(place in the heuristic's list, as `bench-run engines GRAPH` shows it), ``cublaslt:all`` (every
algorithm, each a case). Graphs are one product, batched or not, with a bias, a relu or a gelu by
tanh behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_run.engines.base import Availability, ModuleAbilities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Engine, EngineOptions, EngineSpec

NAME = "cublaslt"
SUMMARY = "NVIDIA cuBLASLt, products; cublaslt:plan=NAME, cublaslt:index=N, cublaslt:all"
INSTALL = "pip install 'dnn-bench[cublaslt]'"

_DEVICES = "/dev/nvidia[0-9]*"


def probe() -> Availability:
    """Report whether the bindings are installed and a device file exists; load neither."""
    from glob import glob
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    if find_spec("nvmath") is None:
        return Availability(False, f"nvmath-python is not installed; {INSTALL}")
    try:
        release = version("nvmath-python")
    except PackageNotFoundError:
        release = "of unknown version"
    if not glob(_DEVICES):
        why = f"nvmath-python {release} is installed, but no NVIDIA GPU is visible ({_DEVICES})"
        return Availability(False, why)
    return Availability(True, f"nvmath-python {release} and an NVIDIA GPU is visible")


def environment(spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:  # noqa: ARG001
    from bench_run.engines.caches import NVIDIA, cache_environment

    return cache_environment(options, NVIDIA)


def open(spec: EngineSpec, options: EngineOptions) -> Engine:  # noqa: A001 - a name of the protocol
    from bench_run.engines.cublaslt.engine import open_engine

    return open_engine(spec, options)


ABILITIES = ModuleAbilities(environment=environment)
