"""Joins the page's ES modules into one script, so that the page opens from a file, offline.

A module becomes a function that returns its exports; an import reads them. Names keep the scope
of their module. Written for the way these modules are written: ``import { a } from "./b.js"`` and
``export`` before ``const``, ``function`` or ``async function``; anything else is an error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|(?:async )?function) (\w+))", re.MULTILINE)
LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


def bundled(entry: str, read: Callable[[str], str]) -> str:
    """`entry` and every module it needs, in an order in which each finds what it imports.

    `read` gives the text of a module by its name. Raises `ValueError` for a circle, a name that
    its module does not export, and a statement that is not understood.
    """
    exports: dict[str, tuple[str, ...]] = {}
    parts: list[str] = []
    _add(entry, read, exports, parts, ())
    return f'(() => {{\n"use strict";\n{"".join(parts)}}})();\n'


def _add(
    name: str,
    read: Callable[[str], str],
    exports: dict[str, tuple[str, ...]],
    parts: list[str],
    path: tuple[str, ...],
) -> None:
    if name in path:
        raise ValueError(f"modules import in a circle: {' -> '.join((*path, name))}")
    if name in exports:
        return
    text = read(name)
    for names, source in IMPORT.findall(text):
        _add(source, read, exports, parts, (*path, name))
        _check(name, _listed(names), source, exports)
    exports[name] = tuple(EXPORT.findall(text))
    parts.append(_wrapped(name, text, exports[name]))


def _listed(names: str) -> list[str]:
    return [one.strip() for one in names.split(",") if one.strip()]


def _check(
    name: str, wanted: list[str], source: str, exports: Mapping[str, tuple[str, ...]]
) -> None:
    for one in wanted:
        if one not in exports[source]:
            raise ValueError(f"{name}.js imports {one}, which {source}.js does not export")


def _wrapped(name: str, text: str, exported: tuple[str, ...]) -> str:
    body = IMPORT.sub(
        lambda found: f"const {{ {', '.join(_listed(found[1]))} }} = modules_{found[2]};\n", text
    )
    body = EXPORT.sub("", body)
    left = LEFT_OVER.search(body)
    if left is not None:
        raise ValueError(f"{name}.js: not understood: {left[0]}")
    return f"const modules_{name} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();\n"
