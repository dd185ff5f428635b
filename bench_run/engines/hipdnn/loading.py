"""Finds and imports `hipdnn_frontend`, and lists what this release of it can do."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.abilities import Abilities, missing_required, probe
from bench_run.engines.hipdnn.backend import preload
from bench_run.engines.hipdnn.errors import check, foreign_errors
from bench_run.errors import EngineUnavailableError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import ModuleType

MODULE = "hipdnn_frontend"
HOW = (
    "hipDNN's bindings come as a wheel, or in <build>/wheel_package of a build: install the wheel, "
    "or name the build by --hipdnn-prefix DIR"
)
PLACES = (
    ".",
    "python",
    "lib/python*/site-packages",
    "lib/python*/dist-packages",
    "lib64/python*/site-packages",
    "local/lib/python*/dist-packages",
    "lib/python",
    "build/python",
    "wheel_package",
    "build/wheel_package",
    "python/wheel_package",
)
"""Where the package may lie below an installation prefix; the first that has it is taken."""


@dataclass(frozen=True)
class Library:
    """The imported module, its version and what it has. Foreign calls go through here: whatever
    they raise becomes ours, with function and version."""

    module: Any
    version: str
    backend: Path | None = None
    """The backend library that was loaded before the module; None: the loader found its own."""

    @cached_property
    def can(self) -> Abilities:
        return probe(self.module)

    def calling(self, step: str) -> AbstractContextManager[None]:
        return foreign_errors(step, self.version)

    def step(self, native: Any, name: str, *arguments: Any) -> None:
        """A step of the graph; a bad `Error` value becomes ours too."""
        step = f"Graph.{name}"
        with self.calling(step):
            check(step, getattr(native, name)(*arguments))

    def lacks(self, *names: str) -> str | None:
        """The first of the names that this release has not."""
        return next((name for name in names if not self.can.has(name)), None)

    @property
    def cannot_rank(self) -> str | None:
        """What is missing to ask which engines accept a graph; None where that can be asked."""
        return self.lacks("Graph.get_ranked_engine_ids", "HeuristicMode", "HeuristicMode.FALLBACK")

    def need(self, name: str, what_for: str) -> Any:
        """A function or class of the module, or a refusal that names it and the version."""
        if not self.can.has(name):
            raise EngineUnavailableError(
                f"hipdnn: {MODULE} {self.version} has no {name}, which {what_for} needs"
            )
        return getattr(self.module, name)

    def modes(self) -> tuple[Any, ...]:
        """Arguments that say how plans are made; none where the release has no such mode: its
        functions have a default."""
        if not self.can.has("HeuristicMode.FALLBACK"):
            return ()
        return ([self.module.HeuristicMode.FALLBACK],)


def load(prefix: str | None) -> Library:
    """Raises `EngineUnavailableError` with what was looked for where, or what is missing."""
    if prefix is not None:
        folder = str(find_below(prefix))
        if folder not in sys.path:
            sys.path.insert(0, folder)
    backend = preload(prefix, package_folder())
    try:
        module = importlib.import_module(MODULE)
    except ModuleNotFoundError as error:
        if error.name != MODULE:
            raise EngineUnavailableError(f"hipdnn: {MODULE} does not load: {error}") from error
        raise EngineUnavailableError(f"hipdnn: no module {MODULE}: {HOW}") from error
    except Exception as error:  # foreign: its import runs arbitrary code
        raise EngineUnavailableError(
            f"hipdnn: {MODULE} does not load: {error}; it needs hipDNN's backend library and the "
            "HIP runtime on the library path"
        ) from error
    library = Library(module, version_of(module), backend)
    _expect_required(library)
    return library


def package_folder() -> Path | None:
    """The folder of the package that an import would take; nothing of it is run."""
    try:
        found = importlib.util.find_spec(MODULE)
    except (ImportError, ValueError):  # a stand-in without a spec
        return None
    if found is None or found.origin is None:
        return None
    return Path(found.origin).resolve().parent


def find_below(prefix: str) -> Path:
    """The folder below an installation prefix that holds the package."""
    base = Path(prefix)
    for place in PLACES:
        for folder in [base] if place == "." else sorted(base.glob(place), reverse=True):
            if (folder / MODULE).is_dir() or any(folder.glob(f"{MODULE}*.so")):
                return folder.resolve()
    looked = ", ".join(PLACES)
    raise EngineUnavailableError(f"hipdnn: no {MODULE} below {prefix}; looked in {looked}")


def version_of(module: ModuleType) -> str:
    found = getattr(module, "__version__", None)
    if found is not None:
        return str(found)
    try:
        return metadata.version(MODULE)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _expect_required(library: Library) -> None:
    missing = missing_required(library.module)
    if missing is not None:
        raise EngineUnavailableError(
            f"hipdnn: {MODULE} {library.version} has no {missing}: "
            "a release that this engine cannot drive"
        )
