"""What keeps two builds of one plugin apart: each engine spec with a plugin path of its own gets a
worker process with empty cache folders of its own, so that neither finds what the other tuned."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import EngineSpec

CACHES = {
    "HIPDNN_CACHE_DIR": "hipdnn",
    "MIOPEN_USER_DB_PATH": "miopen-db",
    "MIOPEN_CUSTOM_CACHE_DIR": "miopen-kernels",
}
"""Variables that place a cache, and the folder each gets."""
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
            raise UsageError(f"engine {spec.text!r}: {folder} is no folder")
    return folder


def arm_environment(spec: EngineSpec) -> Mapping[str, str]:
    """Variables for the worker of one engine. Each call makes new cache folders, which go when
    this process ends; where the user placed a cache, its folder is made inside and stays."""
    found: dict[str, str] = {}
    folder = library_folder(spec)
    if folder is not None:
        here = os.environ.get(LIBRARIES)
        found[LIBRARIES] = folder if not here else f"{folder}{os.pathsep}{here}"
    if spec.plugin_path is None:
        return found
    own = Path(tempfile.mkdtemp(prefix="bench-run-caches-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    for variable, name in CACHES.items():
        user = os.environ.get(variable)
        place = own / name if not user else Path(user) / own.name
        place.mkdir(parents=True, exist_ok=True)
        found[variable] = str(place)
    return found
