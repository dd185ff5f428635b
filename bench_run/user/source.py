"""Loads a Python file of a user, and tells which file and line an error comes from."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import traceback
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench_run.errors import BenchRunError, EngineError, UnsupportedGraphError, message_of

if TYPE_CHECKING:
    from collections.abc import Mapping
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
    """Commit of its folder, followed by ``+ changes`` if tracked files differ from it."""

    def libraries(self) -> dict[str, str]:
        """The facts for the document: versions of what can change the kernel."""
        known = {name: digest[:SHORT_HASH] for name, digest in sorted(self.files.items())}
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
    before, keeps_no_bytecode = os.getcwd(), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(path.parent))
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else "user_file"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise EngineError(f"{path.name}: expected a Python file (.py)")
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
    return Source(path, module, digest, _imported(path), _commit(path.parent))


def user_error(error: BaseException, path: Path) -> BenchRunError:
    """The error of a user's file in one line: file, line, type, message."""
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
    """``my.py:12``: the innermost line of a file in the folder of `path`."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{Path(error.filename).name}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        f for f in frames if Path(f.filename).is_relative_to(path.parent) and _is_own(f.filename)
    ]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else path.name


def _is_own(filename: str) -> bool:
    """Return False for installed packages, whose folder may lie below the user's."""
    parts = Path(filename).parts
    return "site-packages" not in parts and "dist-packages" not in parts and "<" not in filename


def _imported(path: Path) -> dict[str, str]:
    """Hashes of loaded modules that lie below the file's folder."""
    files = {}
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if not isinstance(name, str) or not _is_own(name) or Path(name) == path:
            continue
        own = Path(__file__).parents[1]
        if Path(name).is_relative_to(path.parent) and not Path(name).is_relative_to(own):
            try:
                digest = hashlib.sha256(Path(name).read_bytes()).hexdigest()
            except OSError:
                continue
            files[str(Path(name).relative_to(path.parent))] = digest
    return files


def _commit(folder: Path) -> str | None:
    """Short commit of the folder's repository; None outside of one, or without git."""

    def git(*words: str) -> str:
        command = ("git", "-C", str(folder), *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_S, check=True)  # noqa: S603 - no text of a user
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + (" + changes" if changed else "")
