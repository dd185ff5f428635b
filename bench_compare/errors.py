"""Every error of bench_compare, as one tree. Each is one line for the person at the terminal.

BenchCompareError
├── UsageError     a flag, a pattern or a configuration key (exit 1)
├── InputError     a document that cannot be compared: names the file (exit 1)
└── OutputError    a result that cannot be written (exit 1)

Documents that cannot be read are `bench_schema.errors.DocumentError`.
"""

from __future__ import annotations


class BenchCompareError(Exception):
    """Base of all errors that this package raises on purpose."""


class UsageError(BenchCompareError):
    """A request that makes no sense; the message names the flag and the choices."""


class InputError(BenchCompareError):
    """A document or a set of them that cannot be compared; the message names the file."""


class OutputError(BenchCompareError):
    """A file that cannot be written."""
