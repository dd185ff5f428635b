"""Loads a file of a user, and tells which file and line an error comes from."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import BenchRunError, EngineError, UnsupportedGraphError, message_of
from bench_run.user.compiled import SUFFIXES, build, is_compiled, module_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

GIT_S = 5.0
"""Seconds that git may take."""
LOADING: list[str] = []
"""Files that are being imported: a run that begins in one would never end."""
SHORT_HASH = 12
"""Hexadecimal digits of a hash that tables show."""


@dataclass(frozen=True)
class Source:
    """A file that was loaded, and where it comes from."""

    path: Path
    """Absolute."""
    module: ModuleType
    sha256: str
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the other files of its folder that it imports, by path relative to the folder."""
    commit: str | None = None
    """Commit of its folder, followed by ``+ changes`` if one of the files differs."""
    built: Mapping[str, str] = field(default_factory=dict)
    """Compiler, flags and what the assembler reports, by name."""

    def libraries(self) -> dict[str, str]:
        """Return the facts for the document: versions of what can change the kernel."""
        known = {name: digest[:SHORT_HASH] for name, digest in sorted(self.files.items())}
        known |= self.built
        return known if self.commit is None else {**known, "commit": self.commit}


def load_source(text: str) -> Source:
    """Import the file as a module of its stem, with its folder first on the import path, once in a
    process.

    Raises `EngineError` that names file and line.
    """
    path = Path(text).expanduser().resolve()
    if not path.is_file():
        raise EngineError(f"{text}: no such file")
    return _load(path)


@cache
def _load(path: Path) -> Source:
    if is_compiled(path):
        return _load_compiled(path)
    before, keeps_no_bytecode = os.getcwd(), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(path.parent))
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else "user_file"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise EngineError(f"{path.name}: expected one of .py, {', '.join(SUFFIXES)}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    LOADING.append(path.name)
    try:
        data = path.read_bytes()
        # Not from a file of bytecode: that of a save within the same second looks up to date.
        exec(compile(data, str(path), "exec"), vars(module))  # noqa: S102 - the user's own file
    except BaseException as error:
        raise user_error(error, path) from error
    finally:
        LOADING.remove(path.name)
        sys.dont_write_bytecode = keeps_no_bytecode
        os.chdir(before)
    digest = hashlib.sha256(data).hexdigest()
    files = _imported(path)
    return Source(path, module, digest, files, _commit(path.parent, (path.name, *files)))


def _load_compiled(path: Path) -> Source:
    built = build(path)
    module = module_of(path, built, path.stem)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    commit = _commit(path.parent, (path.name, *built.headers))
    return Source(path, module, digest, built.headers, commit, built.facts)


def user_error(error: BaseException, path: Path) -> BenchRunError:
    """Return the error of a user's file in one line: file, line, type, message."""
    if isinstance(error, (EngineError, UnsupportedGraphError)):
        return error
    words = " ".join(message_of(error).split())
    said = f"{type(error).__name__}: {words}" if words else type(error).__name__
    if isinstance(error, SystemExit):
        said = f"it called sys.exit({words})"
    text = f"{_place(error, path)}: {said}"
    if isinstance(error, NotImplementedError):
        return UnsupportedGraphError(f"{_place(error, path)}: {words or 'not implemented'}")
    detail = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return EngineError(text, detail=detail)


def _place(error: BaseException, path: Path) -> str:
    """Return the innermost line of a file in the folder of `path`, as in ``my.py:12``; without one,
    the file's name."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{Path(error.filename).name}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if _is_own(Path(f.filename), path)]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else path.name


def _is_own(file: Path, path: Path) -> bool:
    """Return True for files of the folder of `path` that are not installed there: a home folder
    may hold Python itself, and this package."""
    folder = path.parent
    installed = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1]]
    inside = (each for each in installed if each.is_relative_to(folder))
    return (
        file.is_relative_to(folder)
        and not {"site-packages", "dist-packages"} & {*file.parts}
        and not any(file.is_relative_to(each) for each in inside)
    )


def _imported(path: Path) -> dict[str, str]:
    """Return hashes of the modules that were found through the file's folder."""
    files = {}
    for name, module in list(sys.modules.items()):
        place = getattr(module, "__file__", None)
        if not isinstance(place, str) or Path(place) == path or not _is_own(Path(place), path):
            continue
        inner = Path(place).relative_to(path.parent)
        if inner.parts[0].removesuffix(".py") == name.split(".")[0]:
            with suppress(OSError):
                files[str(inner)] = hashlib.sha256(Path(place).read_bytes()).hexdigest()
    return files


def _commit(folder: Path, files: Iterable[str]) -> str | None:
    """Return short commit of the folder's repository, and whether one of the files differs from it
    or is not in it; None outside of a repository, or without git."""

    def git(*words: str) -> str:
        command = ("git", "-C", str(folder), *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_S, check=True)  # noqa: S603 - no text of a user
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--", *files)  # of all files it may take seconds
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + (" + changes" if changed else "")
