"""Finds and imports `hipdnn_frontend`, and lists what this release of it can do."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.errors import check, foreign_errors
from bench_run.errors import EngineUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType


# hipDNN's backend library, which has to be in the process before another of the same name.
#
# The first library of a SONAME that a process loads is the one that everything gets, so the one
# that belongs to the bindings is loaded before they are imported: that of
# ``HIPDNN_BACKEND_LIBRARY_PATH``, of the named prefix, inside the package, of the runtime wheel
# (``hipdnn-runtime-<arch>``) or of the ROCm wheels next to it, or of the build or installation that
# the package lies in. A wheel elsewhere belongs to other bindings and is left alone, unless these
# are installed and have no backend near.

SONAME = "libhipdnn_backend.so"
VARIABLE = "HIPDNN_BACKEND_LIBRARY_PATH"
WHEEL = "hipdnn-runtime"
SDK, SDK_LIBRARIES = "rocm_sdk", "_rocm_sdk_libraries*"
"""ROCm as wheels: its package, and the folders of its libraries beside that."""
RUNTIME = ("amd_comgr", "amdhip64", "hiprtc")
"""Libraries of it that hipDNN needs, by the short names of its package."""
FOLDERS = ("lib", "lib64", "build/lib", ".")
INSTALLED = ("site-packages", "dist-packages")
ABOVE = 4
"""Folders above the package in which its build or installation may have its libraries:
``PREFIX/lib/python3.12/site-packages``."""


def preload(prefix: str | None, package: Path | None = None) -> Path | None:
    """Load the backend of the bindings; return None if none was found and the loader's own search
    decides. `package` is the folder that has them."""
    path = next(_candidates(prefix, package), None)
    if path is None:
        return None
    if importlib.util.find_spec(SDK) is not None:
        with contextlib.suppress(Exception):  # foreign: what is missing the loader says below
            importlib.import_module(SDK).initialize_process(preload_shortnames=list(RUNTIME))
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
    for folder in sorted(home.glob(SDK_LIBRARIES)):
        yield from _below(folder)
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
    """Yield the folder of each installed runtime wheel, and its backend."""
    for info in _infos():
        distribution = metadata.Distribution.at(info)
        for file in distribution.files or ():
            if file.name.startswith(SONAME):
                yield info.parent.resolve(), Path(str(distribution.locate_file(file)))


def _infos() -> Iterator[Path]:
    """Yield the installer's record of each runtime wheel, found by folder names: reading those of
    all installed packages takes tens of milliseconds."""
    for site in sys.path:
        for info in sorted(Path(site).glob("*.dist-info")):
            if info.name.lower().replace("_", "-").startswith(WHEEL):
                yield info


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
"""Places of the package below an installation prefix; the first one that exists is taken."""


_GRAPH = """
set_io_data_type set_intermediate_data_type set_compute_data_type from_json validate
build_operation_graph get_ranked_engine_ids get_behavior_notes_for_engine create_execution_plans
create_execution_plan_ext check_support build_plans get_execution_plan_engine_id get_workspace_size
execute get_plan_name get_knobs_for_engine add_all_engines get_estimated_max_workspace_size autotune
"""
_MODULE = """
create_handle destroy_handle set_engine_plugin_paths hip_get_device_count hip_stream_synchronize
hip_device_synchronize hip_can_use_stream_wait_value KnobSetting
"""
_KNOB = "knob_id value_type default_value constraint description is_deprecated validate"
_RESULT = """
engine_id engine_name rank min_time_ms avg_time_ms succeeded benchmarked excluded_by_caller
"""
REQUIRED = {
    "": _MODULE.split(),
    "Graph": _GRAPH.split(),
    "Handle": ["get_stream", "get_engine_info"],
    "DeviceBuffer": ["ptr", "copy_from_host", "copy_to_host", "zeros"],
    "DataType": [],
    "HeuristicMode": ["FALLBACK"],
    "PluginLoadingMode": ["ABSOLUTE", "ADDITIVE"],
    "Error": ["is_good", "get_code", "get_message"],
    "EngineInfo": ["engine_id", "engine_name", "plugin_name", "version"],
    "HipEvent": ["record", "elapsed_time"],
    "HipStallGate": ["arm", "release", "timed_out"],
    "Knob": _KNOB.split(),
    "AutotuneResult": _RESULT.split(),
}
"""Names that are used of the bindings, by class (``""`` is the module). Every state since the gate
has a watchdog has them all; what came before is refused."""

OPTIONAL = ("HipStallGate.close", "Graph.execute_timed_ext")
"""Names that only some of these states have."""


def lookup(module: Any, name: str) -> bool:
    """Return True if a dotted name exists; it is not run."""
    owner, _, member = name.rpartition(".")
    place = getattr(module, owner, None) if owner else module
    return place is not None and hasattr(place, member)


def first_missing(module: Any) -> str | None:
    """Return the first required name that does not exist."""
    for owner, names in REQUIRED.items():
        wanted = [f"{owner}.{name}" if owner else name for name in names]
        for name in [owner, *wanted] if owner else wanted:
            if not lookup(module, name):
                return name
    return None


@dataclass(frozen=True)
class Library:
    """The imported module, its version and what it has. Foreign calls go through here: whatever
    they raise becomes ours, with function and version."""

    module: Any
    version: str
    backend: Path | None = None
    """The backend library that was loaded before the module; None: the loader found its own."""

    @cached_property
    def abilities(self) -> dict[str, str]:
        """Names that not every state has, as the document and `doctor` show them."""
        return {name: "yes" if lookup(self.module, name) else "no" for name in OPTIONAL}

    def has(self, name: str) -> bool:
        return self.abilities[name] == "yes"

    def calling(self, step: str) -> AbstractContextManager[None]:
        return foreign_errors(step, self.version)

    def step(self, native: Any, name: str, *arguments: Any) -> None:
        """Run a step of the graph; a bad `Error` value becomes ours too."""
        step = f"Graph.{name}"
        with self.calling(step):
            check(step, getattr(native, name)(*arguments))

    @property
    def modes(self) -> list[Any]:
        """Modes in which plans are made."""
        return [self.module.HeuristicMode.FALLBACK]


def load(prefix: str | None) -> Library:
    """Load the library. Raises `EngineUnavailableError` with the places searched, or the missing
    name."""
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
    """Return the folder of the package that an import would take; nothing of it is run."""
    try:
        found = importlib.util.find_spec(MODULE)
    except (ImportError, ValueError):  # a stand-in without a spec
        return None
    if found is None or found.origin is None:
        return None
    return Path(found.origin).resolve().parent


def find_below(prefix: str) -> Path:
    """Return the folder below an installation prefix that holds the package."""
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
    missing = first_missing(library.module)
    if missing is not None:
        raise EngineUnavailableError(
            f"hipdnn: {MODULE} {library.version} has no {missing}: bench-run drives the bindings "
            "since the stall gate has a watchdog; install a newer wheel or build of hipDNN"
        )
