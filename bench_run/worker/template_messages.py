"""Messages between a template process and the run."""

from __future__ import annotations

import msgspec

MESSAGE_BYTES = 65536
FORK = b"fork"


class Preload(msgspec.Struct, frozen=True, tag=True):
    spec: str
    """Spec as text for `parse_spec`."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Everything is imported, or not: then workers have to be started afresh."""

    fit: bool


class Forked(msgspec.Struct, frozen=True, tag=True):
    pid: int


class Ended(msgspec.Struct, frozen=True, tag=True):
    pid: int
    code: int
    """Exit code as in `subprocess.Popen.returncode`."""


encode = msgspec.msgpack.encode
decode = msgspec.msgpack.Decoder(Preload | Ready | Forked | Ended).decode
