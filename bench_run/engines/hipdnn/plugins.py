"""Plugins: which are to be loaded, which were, and the proof of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_run.engines.hipdnn.errors import opening_errors
from bench_run.errors import EngineUnavailableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench_run.engines.base import EngineOptions, EngineSpec
    from bench_run.engines.hipdnn.loading import Library

MODES = ("absolute", "additive")
PROVIDERS = (
    "libMIOpen",
    "libhipblaslt",
    "librocblas",
    "libhipdnn",
    "libamdhip64",
    "libhsa-runtime",
)
"""Libraries behind the plugins whose very file decides what runs."""
LARGEST_HASHED_BYTES = 256 << 20
LOG_HINT = "run once with HIPDNN_LOG_LEVEL=info to see why"


def wanted_paths(spec: EngineSpec, options: EngineOptions) -> tuple[str, ...]:
    """What the user named, the spec's own first; nothing else is ever loaded at our request."""
    own = () if spec.plugin_path is None else (spec.plugin_path,)
    paths = tuple(dict.fromkeys((*own, *options.plugin_paths)))
    for path in paths:
        if not Path(path).exists():
            raise UsageError(f"engine {spec.text!r}: there is no plugin path {path}")
        if not plugin_files(path):
            raise UsageError(f"engine {spec.text!r}: no plugin (.so, .dll) in {path}")
    return tuple(str(Path(path).resolve()) for path in paths)


def plugin_files(path: str) -> tuple[Path, ...]:
    """The shared objects that a plugin path names: itself, or those in the folder."""
    place = Path(path)
    if place.is_file():
        return (place,)
    return tuple(sorted(p for p in place.iterdir() if p.suffix in (".so", ".dll") and p.is_file()))


def set_paths(library: Library, paths: Sequence[str], mode: str) -> None:
    """Must precede the first handle of the process."""
    if not paths:
        return
    if mode not in MODES:
        raise UsageError(f"--plugin-mode {mode}: choose from {', '.join(MODES)}")
    modes = library.need("PluginLoadingMode", "a plugin path")
    function = library.need("set_engine_plugin_paths", "a plugin path")
    with opening_errors("set_engine_plugin_paths", library.version):
        function(list(paths), getattr(modes, mode.upper()))


def loaded_paths(library: Library, handle: Any) -> tuple[str, ...] | None:
    """Shared objects that hipDNN says it loaded; None where this release does not tell."""
    name, can = "get_loaded_engine_plugin_paths", library.can
    with opening_errors(name, library.version):
        if can.has(name):
            return tuple(
                str(path) for path in library.module.get_loaded_engine_plugin_paths(handle)
            )
        if can.has(f"Handle.{name}"):
            return tuple(str(path) for path in handle.get_loaded_engine_plugin_paths())
    return None


def chosen_files(
    spec: EngineSpec, wanted: Sequence[str], loaded: Sequence[str] | None
) -> list[Path]:
    """The files of the named paths that were loaded. Refuses where none was: its engines would
    be missing, or worse, another build's."""
    named = [file.resolve() for path in wanted for file in plugin_files(path)]
    if loaded is None or not named:
        return named if named else [Path(path) for path in loaded or ()]
    present = {Path(path).resolve() for path in loaded}
    found = [file for file in named if file in present]
    if not found:
        raise EngineUnavailableError(
            f"engine {spec.text!r}: hipDNN loaded no plugin of {', '.join(wanted)}; {LOG_HINT}"
        )
    return found


def fingerprint(files: Sequence[Path]) -> tuple[str | None, str | None]:
    """Path and SHA-256 of the plugin; of several, their folder and the hash of their hashes."""
    if not files:
        return None, None
    if len(files) == 1:
        return str(files[0]), sha256(files[0])
    lines = "".join(f"{sha256(file)}  {file.name}\n" for file in sorted(files))
    return str(files[0].parent), hashlib.sha256(lines.encode()).hexdigest()


@lru_cache(maxsize=64)
def sha256(path: Path) -> str | None:
    """None where the file cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()


def file_facts(path: Path) -> str:
    """Place, size, time of last change and, where it is not huge, the beginning of the hash."""
    try:
        state = path.stat()
    except OSError:
        return str(path)
    changed = datetime.fromtimestamp(state.st_mtime, timezone.utc).isoformat(timespec="seconds")
    text = f"{path}, {state.st_size} bytes, changed {changed}"
    if state.st_size > LARGEST_HASHED_BYTES:
        return text
    return f"{text}, sha256 {(sha256(path) or 'unreadable')[:16]}"


def mapped_libraries(
    names: Iterable[str] = PROVIDERS, maps: str = "/proc/self/maps"
) -> dict[str, str]:
    """The provider libraries that this process really has in memory, with their facts. Of two with
    one name each is named with its folder: something loaded the wrong one."""
    wanted = tuple(names)
    try:
        lines = Path(maps).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    paths = {line.split(None, 5)[5] for line in lines if len(line.split(None, 5)) == 6}
    found = sorted(path for path in paths if Path(path).name.startswith(wanted))
    names = Counter(Path(path).name for path in found)
    return {
        Path(path).name if names[Path(path).name] == 1 else path: file_facts(Path(path))
        for path in found
    }
