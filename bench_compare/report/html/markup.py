"""Markup: elements from texts, which are escaped, and from markup, which is not."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from bench_schema.names import safe

if TYPE_CHECKING:
    from collections.abc import Sequence


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escaped(text: str) -> str:
    """Escape a text; control characters are spelled out. Markup stays."""
    if type(text) is Html or text.isalnum():
        return text
    return html.escape(safe(text), quote=False)


def tag(name: str, *children: str, **attributes: str | bool | int | None) -> Html:
    """Return an element. Names of attributes: ``class_``, ``data_id`` for ``data-id``; True stands
    bare, False and None are left out."""
    head = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        head += f" {word}" if value is True else f' {word}="{html.escape(safe(str(value)))}"'
    if name in VOID:
        return Html(f"<{head}>")
    return Html(f"<{head}>{''.join([escaped(one) for one in children])}</{name}>")


VOID = frozenset({"br", "input"})


def joined(parts: Sequence[str]) -> Html:
    return Html("".join(parts))


def note(text: str, **attributes: str) -> Html:
    return tag("p", text, class_="note", **attributes)
