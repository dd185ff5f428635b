"""Bytes of files: unpacked on reading, packed and written in one atomic step; and cells of CSV."""

from __future__ import annotations

import codecs
import contextlib
import csv
import errno
import glob
import io
import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from bench_schema.errors import UnreadableError, UnwritableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


GZIP_LEVEL = 1
ZSTD_LEVEL = 3
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks at the beginning of text, and its encoding."""


LIMIT_BYTES = 1 << 28
"""Largest unpacked size: documents of a thousand cases have a few ten million bytes, and a few
hundred bytes of a hostile file may stand for more than a machine's memory."""


PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Names of what is open already, as a shell's ``<(command)``."""


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Return a file to read, or a pipe that is open already. Raises `OSError`, also for devices,
    which may have no end, and for pipes by name, which may never begin."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        is_pipe = stat.S_ISFIFO(mode) and os.fspath(path).startswith(PIPES)
        if not (stat.S_ISREG(mode) or is_pipe):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        os.set_blocking(file, True)
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Read all of `open_regular`."""
    with open_regular(path) as file:
        return file.read()


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the contents of a file, unpacked if it is packed."""
    try:
        data = read_regular(path)
    except OSError as error:
        journal = f"{os.fspath(path)}.journal"  # a run that did not end has no document yet
        left = f"; an unfinished run left {journal}" if Path(journal).is_file() else ""
        if error.errno == errno.ENAMETOOLONG:
            raise UnreadableError(str(path), "the name is too long for a file") from None
        raise UnreadableError(str(path), f"cannot be read: {error.strerror}{left}") from None
    packed = data.startswith((GZIP_MAGIC, ZSTD_MAGIC))
    return without_mark(_unpack(data, str(path)) if packed else data, str(path))


def without_mark(data: bytes, where: str) -> bytes:
    """Return text that begins with a byte order mark, as editors and shells of Windows write it, as
    UTF-8 without one."""
    for mark, coding in MARKS:
        if data.startswith(mark):
            try:
                return data.decode(coding).encode()
            except UnicodeDecodeError as error:
                raise UnreadableError(
                    where, f"not text of {coding.upper()}: {error.reason}"
                ) from None
    return data


def _unpack(data: bytes, where: str) -> bytes:
    """Return the contents of gzip or Zstandard data, of one member or several."""
    import gzip
    import io
    import zlib

    zstd, packed = zstd_module(), io.BytesIO(data)
    is_gzip = data.startswith(GZIP_MAGIC)
    kind = "gzip" if is_gzip else "Zstandard"
    try:
        with gzip.GzipFile(fileobj=packed) if is_gzip else zstd.ZstdFile(packed) as file:
            unpacked: bytes = file.read(LIMIT_BYTES + 1)
    except EOFError:
        ends = f"the {kind} data ends too early: the file is cut off"
        raise UnreadableError(where, ends) from None
    except (OSError, zlib.error, zstd.ZstdError) as error:
        raise UnreadableError(where, f"the {kind} data is damaged: {error}") from None
    if len(unpacked) > LIMIT_BYTES:
        limit = f"{LIMIT_BYTES >> 20} MiB"
        raise UnreadableError(
            where, f"unpacks to more than {limit}: this is not a benchmark result"
        )
    return unpacked


def zstd_module() -> Any:
    """Return Python's own module from 3.14 on, otherwise its copy for older versions."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in one atomic step: a reader sees the old file or the whole new one.

    ``.gz`` and ``.zst`` at the end of the name choose the packing.
    """
    with writing_bytes(path) as write:
        write(data)


@contextlib.contextmanager
def writing_bytes(path: str | os.PathLike[str]) -> Iterator[Callable[[bytes], object]]:
    """Write piece by piece: the file replaces its target when the block has ended well."""
    target = Path(path)
    try:
        with _replacing(target) as file, _packed(file, target.suffix) as stream:
            yield stream.write
    except OSError as error:
        raise UnwritableError(str(path), f"cannot be written: {error.strerror}") from None


@contextlib.contextmanager
def _packed(file: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    if suffix == ".gz":
        import gzip

        with gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0) as stream:
            yield cast("BinaryIO", stream)
    elif suffix == ".zst":
        with zstd_module().ZstdFile(file, "wb", level=ZSTD_LEVEL) as packer:
            yield cast("BinaryIO", packer)
    else:
        yield file


def remove_unfinished(path: str | os.PathLike[str]) -> None:
    """Remove temporary files that killed writers left. No other process may be writing the file."""
    target = Path(path).resolve()
    for left in target.parent.glob(f".{glob.escape(target.name)}.[0-9]*.tmp"):
        left.unlink(missing_ok=True)


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Yield a file to write to, which replaces `target`."""
    if target.exists() and not target.is_file():  # a device or a pipe is written to, not replaced
        with target.open("wb") as file:
            yield file
        return
    target = target.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)  # there only if something went wrong
    # the renaming itself survives a power cut, where the system lets folders be opened
    with contextlib.suppress(OSError):
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Characters at the start of a text that make a spreadsheet read a formula (OWASP, "CSV Injection";
the last four are the wide ones of East Asia)."""
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal or the direction of writing, except the newline."""
LINE_END = "\r\n"
"""The writer quotes a cell that holds a sign of its line end; before Python 3.13 no other."""


def csv_line(cells: Iterable[object], floats: str = "") -> str:
    """Return one row, without an end. A text that would be a formula gets an apostrophe in front,
    control characters are spelled out (``\x1b``), a cell with a line end is quoted; None is empty.
    `floats`: their format."""
    out = io.StringIO()
    plain: list[object] = []
    for cell in cells:
        if isinstance(cell, str):
            plain.append(plain_cell(cell))
        else:
            plain.append(format(cell, floats) if isinstance(cell, float) else cell)
    csv.writer(out, lineterminator=LINE_END).writerow(plain)
    return out.getvalue().removesuffix(LINE_END)


def plain_cell(text: str) -> str:
    if not text.isprintable():
        text = CONTROLS.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
