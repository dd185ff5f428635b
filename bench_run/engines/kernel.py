"""Engine ``kernel``: functions of a file, ``kernel@FILE`` or ``kernel:NAME@FILE``: Python, or
C, C++, CUDA, HIP and libraries of them (`bench_run.user.compiled`).

The functions run on the buffers and the stream of the engine ``torch``, or of ``numpy`` if the file
uses nothing else. ``+cpu`` keeps PyTorch's functions on the processor.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from bench_run.engines import availability, engine_module
from bench_run.engines.base import FORKED, Availability, ModuleAbilities
from bench_run.errors import EngineError, EngineUnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import Engine, EngineOptions, EngineSpec

NAME = "kernel"
SUMMARY = "a function of yours: kernel@FILE.py, kernel@FILE.cu, kernel:NAME@FILE.so"
INSTALL = "bench-run init kernel writes a file to start from"
CPU = "cpu"


def probe() -> Availability:
    return Availability(True, "functions of a file of yours; bench-run help kernels")


def environment(spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:
    own = engine_module("torch").ABILITIES.environment
    return {} if own is None else own(spec, options)


def preload(spec: EngineSpec) -> bool:
    """Import the framework, not the file."""
    on_gpu = CPU not in spec.options and availability("torch:cuda").ok
    if not on_gpu and FORKED not in os.environ:
        return False
    from bench_run.user.kernels import imported_frameworks

    frameworks = imported_frameworks(spec.plugin_path or "")
    torch = engine_module("torch")
    if frameworks == {"numpy"} or not torch.probe().ok or torch.ABILITIES.preload is None:
        return bool(import_module("numpy"))
    of_torch = replace(spec, name="torch", id="cuda" if on_gpu else "cpu", options=())
    return torch.ABILITIES.preload(of_torch)


def open(spec: EngineSpec, options: EngineOptions) -> Engine:  # noqa: A001 - a name of the protocol
    from bench_run.user.kernels import base_of
    from bench_run.user.source import load_source

    if spec.plugin_path is None:
        raise UsageError(f"--engine {spec.text!r}: expected a file: kernel@FILE.py")
    try:
        base = base_of(load_source(spec.plugin_path), has_torch=engine_module("torch").probe().ok)
    except EngineError as error:
        raise EngineUnavailableError(f"{spec.text}: {error}") from error
    return engine_module(base).open(spec, options)


ABILITIES = ModuleAbilities(
    environment=environment,
    preload=preload,
    lists_variants=True,
    knobs="keyword-only parameters, and knobs of the decorator",
)
