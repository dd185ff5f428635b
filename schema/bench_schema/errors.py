"""Every error of bench_schema, as one tree.

DocumentError                 one line for the user; names the file
├── UnreadableError           it cannot be opened, unpacked, or ends too early
├── NotJsonError              its text is not JSON
├── SchemaError               JSON, but not what its version of the schema asks for; names the path
├── FutureVersionError        written by a newer version of the tool
├── UnwritableError           it cannot be saved: the disk, or a value that JSON cannot hold
└── PipelineError             a suite or pipeline (TOML) that says something wrong; names the entry
"""

from __future__ import annotations


class DocumentError(Exception):
    """Base of all errors that this package raises on purpose.

    ``where`` is the place as the user knows it, ``what`` the rest of the sentence.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(where, what)
        self.where = where
        self.what = what

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class UnreadableError(DocumentError):
    """The file cannot be opened or unpacked, or its end is missing."""


class NotJsonError(DocumentError):
    """The text is not JSON; the message says where it stops being so."""


class SchemaError(DocumentError):
    """A field is missing, unknown or of the wrong kind; ``where`` ends with its path."""


class FutureVersionError(DocumentError):
    """The document follows a schema that this version of the tool does not know yet."""


class UnwritableError(DocumentError):
    """The document cannot be saved."""


class PipelineError(DocumentError):
    """A suite or pipeline cannot be read; ``where`` names the file and the entry."""
