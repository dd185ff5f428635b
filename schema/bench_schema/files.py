"""Files to documents and back: plain, packed, or the journal of an unfinished run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench_schema.codec import decode, encode
from bench_schema.journal import document_of, is_journal
from bench_schema.packing import read_bytes, write_bytes

if TYPE_CHECKING:
    import os

    from bench_schema.document import Document


def read(path: str | os.PathLike[str]) -> Document:
    """Return the document in a file: plain, gzip, Zstandard or an unfinished journal, by
    content."""
    return document_in(read_bytes(path), str(path))


def document_in(data: bytes, where: str) -> Document:
    """Return the document in the content of a file, or in a journal; ``where`` names it in
    errors."""
    return document_of(data, where) if is_journal(data) else decode(data, where)


def save(path: str | os.PathLike[str], document: Document) -> None:
    """Write the document in one atomic step: a reader sees the old file or the whole new one.

    ``.gz`` and ``.zst`` at the end of the name choose the packing.
    """
    write_bytes(path, encode(document))
