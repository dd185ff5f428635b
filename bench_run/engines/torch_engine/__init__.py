"""Engine ``torch``: PyTorch on the CPU and on GPUs (CUDA and ROCm builds alike).

Spec: ``torch`` (the GPU if there is one, otherwise the CPU), ``torch:cpu``, ``torch:cuda``,
``torch:cuda:1``; ``+call`` for its calls as those of a user's file are made; ``+compile`` for
`torch.compile` (Inductor: C++ on the CPU, Triton on a GPU). A graph becomes what a user of PyTorch
would write: convolutions, products, normalisations and attention run in the type of their inputs
where PyTorch has a kernel that accumulates in float32, and in the compute type otherwise.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bench_run.engines.base import FORKED, Availability, ModuleAbilities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Engine, EngineOptions, EngineSpec
    from bench_run.graph.model import Graph

NAME = "torch"
SUMMARY = "PyTorch, eager or +compile; torch:cpu, torch:cuda[:N]"
INSTALL = "pip install 'dnn-bench[torch]', on a GPU with the build that fits its driver"

_DEVICES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/kfd")


def probe() -> Availability:
    """Return the availability of PyTorch without importing it."""
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return Availability(False, f"PyTorch is not installed; {INSTALL}")
    try:
        release = version("torch")
    except PackageNotFoundError:
        release = "of unknown version"
    where = "with a visible GPU" if _gpu_in_sight() else "on the CPU"
    return Availability(True, f"torch {release} {where}")


def probe_id(identifier: str) -> Availability:
    """Return the availability of ``torch:cuda``, from device files and the build's name."""
    answer = probe()
    if not answer.ok or not identifier.startswith("cuda"):
        return answer
    if not _gpu_in_sight():
        return Availability(False, "no GPU is visible on this machine")
    if "+cpu" in answer.reason:
        return Availability(False, f"this PyTorch is built for the CPU only; {INSTALL}")
    return answer


def environment(spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:  # noqa: ARG001
    """Return the cache folders of Inductor, Triton and the vendors' libraries."""
    from bench_run.engines.caches import AMD, COMPILERS, NVIDIA, cache_environment

    return cache_environment(options, {**COMPILERS, **AMD, **NVIDIA})


def preload(spec: EngineSpec) -> bool:
    """Preload on a GPU of a CUDA build, for eager execution; return True if done. Elsewhere workers
    start afresh: the processor's address layout matters, Inductor has processes and threads of its
    own, ROCm was never tried."""
    on_gpu = (spec.id or "").startswith("cuda")
    if "compile" in spec.options or not (on_gpu or FORKED in os.environ):
        return False
    import torch

    from bench_run.engines.torch_engine import engine
    from bench_run.streams import torch as streams

    return bool((torch.version.cuda or not on_gpu) and engine and streams)


def open(spec: EngineSpec, options: EngineOptions) -> Engine:  # noqa: A001 - a name of the protocol
    from bench_run.errors import EngineUnavailableError

    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as error:
        raise EngineUnavailableError(f"torch does not load: {error}") from error
    if spec.name != NAME or "call" in spec.options:
        from bench_run.engines.torch_engine.user_file import open_kernels

        return open_kernels(spec, options)
    from bench_run.engines.torch_engine.engine import open_engine

    return open_engine(spec, options)


def _gpu_in_sight() -> bool:
    from os.path import exists

    return any(exists(path) for path in _DEVICES)


def workspace(graph: Graph, spec: EngineSpec, device: str) -> int:
    """See `workspace.py`."""
    from bench_run.engines.torch_engine.workspace import workspace

    return workspace(graph, spec, device)


ABILITIES = ModuleAbilities(
    environment=environment, preload=preload, probe_id=probe_id, workspace=workspace
)
