"""Disk caches of the libraries behind an engine: new ones for each run, as another run would
otherwise silently read the results of this one's tuning.

``fresh`` (the default): empty folders of the engine's own, for all of its rounds. ``shared``: below
the folder that `--cache-dir` names. ``user``: the library's default.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import UsageError
from bench_run.files import Scratch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench_run.engines.base import EngineOptions

AMD = {
    "HIPDNN_CACHE_DIR": "hipdnn",
    "MIOPEN_USER_DB_PATH": "miopen-db",
    "MIOPEN_CUSTOM_CACHE_DIR": "miopen-kernels",
    "AMD_COMGR_CACHE_DIR": "comgr",
}
NVIDIA = {"CUDA_CACHE_PATH": "cuda"}
COMPILERS = {
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
    "PYTORCH_KERNEL_CACHE_PATH": "pytorch",
}
"""Variables that place a cache, and the folder that each gets."""

USERS = {
    "HIPDNN_CACHE_DIR": "~/.cache/hipdnn",
    "MIOPEN_USER_DB_PATH": "~/.config/miopen",
    "MIOPEN_CUSTOM_CACHE_DIR": "~/.cache/miopen",
}
"""Default places of AMD's libraries."""


def cache_environment(options: EngineOptions, tables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a worker process. Each call of a fresh run makes new folders, which
    go when this process ends, or with the next run if it was killed."""
    if options.vendor_caches == "user":
        return {}
    base = _fresh() if options.cache_dir is None else Path(options.cache_dir)
    found = {}
    for variable, name in tables.items():
        place = base / name
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--cache-dir {base}: {error.strerror}") from None
        found[variable] = str(place.resolve())
    return found


def _holds_files(variable: str, usual: str) -> bool:
    place = Path(os.environ.get(variable) or usual).expanduser()
    return any(files for _, _, files in os.walk(place))


def _fresh() -> Path:
    scratch = Scratch()
    atexit.register(scratch.close)
    return scratch.folder("caches")


def caches_text(options: EngineOptions, users: Mapping[str, str] | None = None) -> str:
    """Return the document's text on an engine's caches; called before the library fills them.
    `users`: the user's cache folders, by the variable that overrides each."""
    if options.vendor_caches == "user":
        warm = [name for name, place in (users or {}).items() if _holds_files(name, place)]
        return f"the user's, warm: {', '.join(warm)}" if warm else "the user's"
    if options.cache_dir is None:
        return "own, empty when the run began"
    files = sum(len(files) for _, _, files in os.walk(options.cache_dir))
    state = f"warm: {files} files when it was opened" if files else "empty when it was opened"
    return f"shared {options.cache_dir}, {state}"
