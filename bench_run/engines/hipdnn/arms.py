"""Cache isolation of two builds of one plugin: a worker process for each engine spec, with
caches of its own and, where it is named, the library behind the plugin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.engines.caches import AMD, cache_environment
from bench_run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import EngineOptions, EngineSpec

LIBRARIES = "LD_LIBRARY_PATH"
OPTION = "lib="


def library_folder(spec: EngineSpec) -> str | None:
    """Folder of the library behind the plugin, from ``+lib=DIR``: often it is what differs."""
    folder = None
    for option in spec.options:
        if not option.startswith(OPTION):
            raise UsageError(f"engine {spec.text!r}: no option {option!r}; choose from {OPTION}DIR")
        folder = option.removeprefix(OPTION)
        if not Path(folder).is_dir():
            raise UsageError(f"engine {spec.text!r}: {folder} is not a directory")
    return folder


def arm_environment(spec: EngineSpec, options: EngineOptions) -> Mapping[str, str]:
    """Variables for the worker of one engine."""
    found = cache_environment(options, AMD)
    folder = library_folder(spec)
    if folder is not None:
        here = os.environ.get(LIBRARIES)
        found[LIBRARIES] = folder if not here else f"{folder}{os.pathsep}{here}"
    return found
