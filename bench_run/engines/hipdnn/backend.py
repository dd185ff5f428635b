"""hipDNN's backend library, which has to be in the process before another of the same name.

The first library of a SONAME that a process loads is the one that everything gets, so the one that
belongs to the bindings is loaded before they are imported: that of ``HIPDNN_BACKEND_LIBRARY_PATH``,
of the named prefix, inside the package, of the runtime wheel (``hipdnn-runtime-<arch>``) beside it,
or of the build or installation that the package lies in. A wheel elsewhere belongs to other
bindings and is left alone, unless these are installed and have no backend near.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import EngineUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

SONAME = "libhipdnn_backend.so"
VARIABLE = "HIPDNN_BACKEND_LIBRARY_PATH"
WHEEL = "hipdnn-runtime"
FOLDERS = ("lib", "lib64", "build/lib", ".")
INSTALLED = ("site-packages", "dist-packages")
ABOVE = 4
"""Folders above the package in which its build or installation may have its libraries:
``PREFIX/lib/python3.12/site-packages``."""


def preload(prefix: str | None, package: Path | None = None) -> Path | None:
    """Loads the backend of the bindings; None where none was found and the loader's own search
    decides. `package` is the folder that holds them."""
    path = next(_candidates(prefix, package), None)
    if path is None:
        return None
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise EngineUnavailableError(f"hipdnn: {path} does not load: {error}") from error
    return path


def _candidates(prefix: str | None, package: Path | None) -> Iterator[Path]:
    named = os.environ.get(VARIABLE)
    if named:
        yield from _in(Path(named))
    if prefix is not None:
        yield from _below(Path(prefix))
    if package is not None:
        yield from _of_package(package)


def _of_package(package: Path) -> Iterator[Path]:
    yield from _below(package)
    home = package.parent
    yield from (path for site, path in _of_wheels() if site == home)
    for folder in (home, *home.parents)[: ABOVE + 1]:
        yield from _below(folder)
    if home.name in INSTALLED:
        yield from (path for _, path in _of_wheels())


def _below(place: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        yield from _in(place / folder)


def _in(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob(f"{SONAME}*"))


def _of_wheels() -> Iterator[tuple[Path, Path]]:
    """The folder that each runtime wheel is installed in, and its backend."""
    for info in _infos():
        distribution = metadata.Distribution.at(info)
        for file in distribution.files or ():
            if file.name.startswith(SONAME):
                yield info.parent.resolve(), Path(str(distribution.locate_file(file)))


def _infos() -> Iterator[Path]:
    """Where an installer wrote of each runtime wheel. By the folders' names: what is in those of
    all that is installed takes tens of milliseconds to read."""
    for site in sys.path:
        for info in sorted(Path(site).glob("*.dist-info")):
            if info.name.lower().replace("_", "-").startswith(WHEEL):
                yield info
