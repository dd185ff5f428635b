"""hipDNN's backend library, which has to be in the process before another of the same name.

The released runtime is a wheel (``hipdnn-runtime-<arch>``); a build has it below its prefix. The
first library of a SONAME that a process loads is the one that everything gets, so the one that was
named, else the wheel's, is loaded before the bindings are imported.
"""

from __future__ import annotations

import ctypes
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import EngineUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

SONAME = "libhipdnn_backend.so"
WHEEL = "hipdnn-runtime"
FOLDERS = ("lib", "lib64", "build/lib", ".")


def preload(prefix: str | None) -> Path | None:
    """Loads the backend of the prefix, else of the runtime wheel; None where there is neither, and
    the loader's own search decides."""
    path = next(_below(prefix) if prefix is not None else _of_wheels(), None)
    if path is None:
        return None
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise EngineUnavailableError(f"hipdnn: {path} does not load: {error}") from error
    return path


def _below(prefix: str) -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((Path(prefix) / folder).glob(f"{SONAME}*"))


def _of_wheels() -> Iterator[Path]:
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith(WHEEL):
            for file in distribution.files or ():
                if file.name.startswith(SONAME):
                    yield Path(str(distribution.locate_file(file)))
