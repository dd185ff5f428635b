"""Finds and imports `hipdnn_frontend`, and lists what this release of it can do."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, fields
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.errors import EngineUnavailableError

if TYPE_CHECKING:
    from types import ModuleType

MODULE = "hipdnn_frontend"
HOW = "it comes with ROCm's hipDNN; --hipdnn-prefix DIR names an installation to look in"
PLACES = (
    ".",
    "python",
    "lib/python*/site-packages",
    "lib/python*/dist-packages",
    "lib64/python*/site-packages",
    "local/lib/python*/dist-packages",
    "lib/python",
    "build/python",
)
"""Where the package may lie below an installation prefix; the first that has it is taken."""

REQUIRED: dict[str, tuple[str, ...]] = {
    "": ("Graph", "create_handle", "destroy_handle", "DeviceBuffer"),
    "Graph": (
        "from_json", "validate", "build_operation_graph", "create_execution_plans",
        "check_support", "build_plans", "get_workspace_size", "execute",
    ),
    "DeviceBuffer": ("ptr", "copy_from_host", "copy_to_host"),
}  # fmt: skip
"""What no run can do without, by class (``""`` is the module)."""


@dataclass(frozen=True)
class Capabilities:
    """Which functions that came or went between releases are there; probed by name, not version."""

    get_ranked_engine_ids: bool
    get_execution_plan_engine_id: bool
    create_execution_plan_ext: bool
    set_preferred_engine_id_ext: bool
    get_knobs_for_engine: bool
    get_plan_name: bool
    engine_id_to_name: bool
    get_engine_info: bool
    set_engine_plugin_paths: bool
    hip_stream_synchronize: bool
    HipEvent: bool
    HipStallGate: bool

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self) if not getattr(self, field.name))

    @property
    def confirms_engine(self) -> bool:
        return self.get_execution_plan_engine_id


@dataclass(frozen=True)
class Library:
    """The imported module, its version and its capabilities."""

    module: Any
    version: str

    @cached_property
    def can(self) -> Capabilities:
        owners = (self.module, self.module.Graph, getattr(self.module, "Handle", None))
        found = {f.name: any(hasattr(o, f.name) for o in owners) for f in fields(Capabilities)}
        return Capabilities(**found)

    def need(self, name: str, what_for: str) -> Any:
        """A function or class of the module, or a refusal that names it and the version."""
        if not hasattr(self.module, name):
            raise EngineUnavailableError(
                f"hipdnn: {MODULE} {self.version} has no {name}, which {what_for} needs"
            )
        return getattr(self.module, name)

    def modes(self) -> list[Any]:
        """The heuristic modes that plans are made with."""
        return [self.need("HeuristicMode", "planning").FALLBACK]


def load(prefix: str | None) -> Library:
    """Raises `EngineUnavailableError` with what was looked for where, or what is missing."""
    if prefix is not None:
        folder = str(find_below(prefix))
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        module = importlib.import_module(MODULE)
    except ModuleNotFoundError as error:
        if error.name != MODULE:
            raise EngineUnavailableError(f"hipdnn: {MODULE} does not load: {error}") from error
        raise EngineUnavailableError(f"hipdnn: no module {MODULE}: {HOW}") from error
    except (ImportError, OSError, RuntimeError) as error:
        raise EngineUnavailableError(
            f"hipdnn: {MODULE} does not load: {error}; it needs hipDNN's backend library and the "
            "HIP runtime on the library path"
        ) from error
    library = Library(module, version_of(module))
    _expect_required(library)
    return library


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
    for owner, names in REQUIRED.items():
        place = getattr(library.module, owner) if owner else library.module
        for name in names:
            if not hasattr(place, name):
                whole = f"{owner}.{name}" if owner else name
                raise EngineUnavailableError(
                    f"hipdnn: {MODULE} {library.version} has no {whole}: "
                    "a release that this engine cannot drive"
                )
