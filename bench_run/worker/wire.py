"""Messages as bytes, and the pipe that carries them.

A frame is the length of a message in four bytes, and the message. What a worker sends is
MessagePack of the type that is expected, and nothing else: no byte of it runs code where it
arrives, whatever an engine does to its process. What the run sends is of the run itself.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import numpy as np
from bench_schema.codec import CONVERTING
from bench_schema.codec import encode as encode_json
from bench_schema.document import Case
from bench_schema.errors import SchemaError

from bench_run.errors import error_of, plain_parts
from bench_run.graph.chain import ChainGraph
from bench_run.graph.model import Graph
from bench_run.worker.messages import (
    Answered,
    AnswerT,
    AnyGraph,
    Close,
    Outgoing,
    Refusal,
    Refused,
    Reply,
    Request,
    RunCase,
    Told,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_KINDS: tuple[type, ...] = (*Request.__subclasses__(), Told, Close)
KINDS = {kind.__name__: kind for kind in _KINDS}
"""Messages that the run sends, by name."""
HEADER = struct.Struct(">I")
MOST_BYTES = 256 << 20
"""Size of a message; a case with 100,000 samples takes a few MB."""
CHUNK_BYTES = 1 << 20


class WireError(Exception):
    """Says why what arrived cannot be read."""


class Pipe:
    """One end. For one thread at a time."""

    def __init__(self, end: socket.socket) -> None:
        self._end, self._arrived, self._owner = end, bytearray(), os.getpid()
        self._poll = select.poll()  # a run may have more descriptors than `select.select` takes
        self._poll.register(end, select.POLLIN)

    def send(self, data: bytes, limit_s: float | None = None) -> None:
        """Send data. Raises `OSError`, which is `TimeoutError` after `limit_s`."""
        self._leave_if_forked()
        self._end.settimeout(limit_s)
        self._end.sendall(HEADER.pack(len(data)) + data)

    def receive(self, limit_s: float | None = None) -> bytes | None:
        """Return the next message; None if it is not whole after so many seconds. Raises `EOFError`
        if none will come, `OSError`, and `WireError` for one that is too long."""
        end = None if limit_s is None else time.monotonic() + limit_s
        while (data := self._whole()) is None:
            left_ms = None if end is None else max(0.0, end - time.monotonic()) * 1000
            if not self._poll.poll(left_ms):
                return None
            block = self._end.recv(CHUNK_BYTES)
            if not block:
                raise EOFError
            self._arrived += block
        self._leave_if_forked()
        return data

    def _whole(self) -> bytes | None:
        if len(self._arrived) < HEADER.size:
            return None
        (size,) = HEADER.unpack_from(self._arrived)
        if size > MOST_BYTES:
            raise WireError(f"a message of {size:,} bytes")
        last = HEADER.size + size
        if len(self._arrived) < last:
            return None
        data = bytes(self._arrived[HEADER.size : last])
        del self._arrived[:last]
        return data

    def _leave_if_forked(self) -> None:
        """End a fork of the engine that returns here, which would speak for the worker."""
        if os.getpid() != self._owner:
            os._exit(1)

    def close(self) -> None:
        self._end.close()


def pipe_of(descriptor: int) -> Pipe:
    """Return the end that this process inherited."""
    end = socket.socket(fileno=descriptor)
    end.set_inheritable(False)
    return Pipe(end)


def encode(value: object) -> bytes:
    """Encode structures, dataclasses and arrays of int64; a case becomes its text in a journal."""
    plain = encode_json(value) if isinstance(value, Case) else value
    return msgspec.msgpack.encode(plain, enc_hook=_to_plain)


def decode(data: bytes, kind: Any) -> Any:
    """Return a value of this type. Raises `WireError` for anything else."""
    try:
        if kind is Case:
            from bench_schema.journal import read_value  # here: a worker reads none

            return read_value("case", msgspec.msgpack.decode(data, type=bytes), "the answer")
        with CONVERTING:
            return msgspec.msgpack.decode(data, type=kind, dec_hook=_from_plain)
    except (msgspec.MsgspecError, SchemaError, ValueError) as error:
        raise WireError(str(error)) from None


def encode_request(number: int, message: object) -> bytes:
    """Encode what the run asks, grants or tells. Paths that are no UTF-8 travel byte by byte."""
    name = type(message).__name__
    try:
        return encode((name, number, False, message))
    except UnicodeEncodeError:
        tree = msgspec.to_builtins(message, enc_hook=_to_plain)
        return encode((name, number, True, _with_texts(tree, _as_bytes)))


def decode_request(data: bytes) -> tuple[int, Any]:
    """Return the request's number and the message."""
    name, number, is_by_bytes, body = decode(data, tuple[str, int, bool, msgspec.Raw])
    if is_by_bytes:
        tree = _with_texts(decode(body, Any), _from_bytes)
        return number, msgspec.convert(tree, KINDS[name], dec_hook=_from_plain)
    return number, decode(body, KINDS[name])


def _as_bytes(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _from_bytes(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "surrogateescape")


def _with_texts(tree: Any, change: Callable[[str], str]) -> Any:
    if isinstance(tree, str):
        return change(tree)
    if isinstance(tree, dict):
        return {_with_texts(k, change): _with_texts(v, change) for k, v in tree.items()}
    return [_with_texts(each, change) for each in tree] if isinstance(tree, list | tuple) else tree


def encode_reply(number: int, reply: Answered[Any] | Refusal) -> bytes:
    if isinstance(reply, Answered):
        return encode(Reply(number, msgspec.Raw(encode(reply.value)), reply.worn))
    kind, text, fields = plain_parts(reply.error)
    return encode(Refused(number, kind, text, fields))


def decode_outgoing(data: bytes) -> Outgoing:
    found: Outgoing = decode(data, Outgoing)
    return found


def read_reply(message: Reply | Refused, request: Request[AnswerT]) -> Answered[AnswerT] | Refusal:
    if isinstance(message, Refused):
        return Refusal(error_of(message.kind, message.text, message.fields))
    value = decode(message.value, answer_type(request))
    if isinstance(request, RunCase):  # which case it is the run knows better
        value = replace(value, id=request.case_id, graph=request.graph_id, engine=request.engine)
    return Answered(value, message.worn)


def answer_type(request: Request[Any]) -> Any:
    """Return the type of what the worker has to answer."""
    return get_args(type(request).__orig_bases__[0])[0]  # type: ignore[attr-defined]


def _to_plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value, np.int64).tobytes()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"no message for {type(value).__name__}")


def _from_plain(kind: type, data: Any) -> Any:
    if kind is AnyGraph:
        if "places" not in data:
            return msgspec.convert(data, Graph)
        return _with_shared_graphs(msgspec.convert(data, ChainGraph))
    if not isinstance(data, bytes) or len(data) % 8:
        raise ValueError("no array")
    return np.frombuffer(data, np.int64)


def _with_shared_graphs(chain: ChainGraph) -> ChainGraph:
    """Make equal graphs one object in all their places, so that each is built once."""
    known: list[Graph] = []
    for place in chain.places:
        if all(place.graph != graph for graph in known):
            known.append(place.graph)
    places = (
        replace(place, graph=next(graph for graph in known if graph == place.graph))
        for place in chain.places
    )
    return replace(chain, places=tuple(places))
