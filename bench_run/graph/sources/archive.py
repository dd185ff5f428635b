"""Archives of graphs, read in memory. Only golden data are unpacked, into a private folder.

An archive is not trusted: names that leave it, links, devices, names that occur twice, and
contents that are out of proportion are refused, and so is the whole archive with them.
"""

from __future__ import annotations

import contextlib
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

from bench_run.errors import GraphError
from bench_run.graph.sources.files import ARCHIVES, SIDE_FILE, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator


@dataclass(frozen=True)
class Limits:
    """Beyond these an archive is taken for an attack or an accident."""

    members: int = 200_000
    graph_bytes: int = 64 << 20
    """Of one JSON file."""
    total_bytes: int = 64 << 30
    ratio: int = 200
    """Unpacked over packed, once there are more than `free_bytes`."""
    free_bytes: int = 64 << 20


LIMITS = Limits()


@dataclass(frozen=True)
class _Member:
    name: str
    size_bytes: int
    kind: str
    """``file``, ``folder``, or what it is instead."""
    open: Callable[[], IO[bytes] | None]


_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    UnicodeDecodeError,  # names of a zip that are not UTF-8 and say that they are
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,  # zipfile: a password or a method that it does not have
    OSError,
)


def is_archive(path: str) -> bool:
    return path.lower().endswith(ARCHIVES)


def read_archive(path: Path, shown: str, limits: Limits = LIMITS) -> Source:
    """The archive's graphs and their golden data as a source. Raises `GraphError`."""
    try:
        with contextlib.closing(_members(path)) as members:
            trusted = _trusted(members, shown, path.stat().st_size, limits)
            return _collect(trusted, shown, limits)
    except _BROKEN as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(":")
        raise GraphError(shown, f"cannot be read as an archive: {reason}") from error


def _collect(members: Iterator[_Member], shown: str, limits: Limits) -> Source:
    files: dict[str, bytes] = {}
    side: list[str] = []
    with contextlib.ExitStack() as stack:
        keeper: TemporaryDirectory[str] | None = None
        for member in members:
            if SIDE_FILE.fullmatch(member.name):
                if keeper is None:
                    keeper = TemporaryDirectory(prefix="bench-run-")
                    stack.push(keeper)
                _unpack(member, Path(keeper.name))
                side.append(member.name)
            elif member.name.endswith(".json"):
                files[member.name] = _content(member, shown, limits)
        stack.pop_all()  # all went well: the data stay for as long as the source
    root = None if keeper is None else Path(keeper.name)
    names = tuple(sorted((*files, *side)))
    return Source(f"{shown}!", names, files.__getitem__, root, keeper)


def _members(path: Path) -> Generator[_Member, None, None]:
    return _zip_members(path) if path.name.lower().endswith(".zip") else _tar_members(path)


def _tar_members(path: Path) -> Generator[_Member, None, None]:
    with tarfile.open(path, "r:*") as archive:
        for info in archive:
            kind = "file" if info.isreg() else "folder" if info.isdir() else "link or device"
            yield _Member(info.name, info.size, kind, partial(archive.extractfile, info))


def _zip_members(path: Path) -> Generator[_Member, None, None]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            mode = stat.S_IFMT(info.external_attr >> 16)
            plain = mode in (0, stat.S_IFREG)
            folder = info.filename.endswith("/")  # is_dir() fails where there is no name
            kind = "folder" if folder else "file" if plain else "link or device"
            yield _Member(info.filename, info.file_size, kind, partial(archive.open, info))


def _trusted(
    members: Iterator[_Member], shown: str, packed_bytes: int, limits: Limits
) -> Iterator[_Member]:
    """The files among the members, under clean names. Raises where one cannot be trusted."""
    seen: set[str] = set()
    total = 0
    for count, member in enumerate(members, 1):
        name = _inner_name(member.name, shown)
        total += member.size_bytes
        if count > limits.members:
            raise GraphError(shown, f"has more than {limits.members:,} members")
        if total > limits.total_bytes:
            raise GraphError(shown, f"unpacks to more than {limits.total_bytes >> 20:,} MiB")
        if total > limits.free_bytes and total > limits.ratio * packed_bytes:
            what = f"unpacks to more than {limits.ratio} times its size: not an archive of graphs"
            raise GraphError(shown, what)
        if member.kind == "folder":
            continue
        if member.kind != "file":
            what = f"is a {member.kind}: an archive may hold files and folders only"
            raise GraphError(f"{shown}!{name}", what)
        if not name:
            raise GraphError(shown, "contains a file without a name")
        if name in seen:
            raise GraphError(f"{shown}!{name}", "is in the archive twice")
        seen.add(name)
        yield _Member(name, member.size_bytes, member.kind, member.open)


def _inner_name(name: str, shown: str) -> str:
    """The name without ``./``. Raises where it would leave the archive or cannot be shown."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    outside = name.startswith("/") or ".." in parts or "\\" in name or ":" in name[:3]
    if outside or not name.isprintable():
        raise GraphError(shown, f"contains the name {name!r}, which points outside the archive")
    return "/".join(parts)


def _content(member: _Member, shown: str, limits: Limits) -> bytes:
    place = f"{shown}!{member.name}"
    stream = member.open()
    if stream is None:
        raise GraphError(place, "is not a file")
    with stream:
        data = stream.read(limits.graph_bytes + 1)
    if len(data) > limits.graph_bytes:
        raise GraphError(
            place, f"is larger than {limits.graph_bytes >> 20} MiB, the limit for a graph"
        )
    return data


def _unpack(member: _Member, folder: Path) -> None:
    target = folder / member.name
    target.parent.mkdir(parents=True, exist_ok=True)
    stream = member.open()
    if stream is not None:
        with stream, target.open("xb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
