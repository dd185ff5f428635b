"""What is wrong with a document whose block cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from bench_schema.checks.acceptor import load_schema
from bench_schema.checks.validator import check, check_case
from bench_schema.codec import build, check_rounds, parse, refuse_not_finite, whole_numbers
from bench_schema.document import SCHEMA_VERSION, Case
from bench_schema.errors import DocumentError
from bench_schema.upgrade import version_of

from bench_compare.input.large.parts import as_list

if TYPE_CHECKING:
    from bench_compare.input.large.parts import Fetch, Span


def refuse_frame(frame: bytes, where: str) -> None:
    """Raise what the ordinary reader would say of a document without its cases, unless only it
    knows: what it is, if it is none of ours; whether fields that are missing stand behind the
    cases."""
    try:
        tree = parse(frame, where)
        current = version_of(tree, where) == SCHEMA_VERSION
    except DocumentError:
        return
    if current and tree.keys() >= set(load_schema(SCHEMA_VERSION)["required"]):
        check(tree, SCHEMA_VERSION, where)


def refuse_block(fetch: Fetch, block: Span, where: str, before: int) -> None:
    """The same of the first case that is wrong in a block; so many cases are `before`."""
    text = bytes(as_list(fetch, block))
    try:
        trees = parse(text, where)
    except DocumentError:
        refuse_not_finite(text, where, before)
        return  # of what is no JSON it says where that is in the file
    for number, tree in enumerate(trees, before):
        check_case(tree, SCHEMA_VERSION, where, number)
        try:
            case = build(whole_numbers(tree), Case)
        except (msgspec.MsgspecError, OverflowError):
            return  # a number is too large
        check_rounds(case, f"{where}: cases[{number}]")
