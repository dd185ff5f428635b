"""The page: one file that opens offline, with plotly.js, styles, code and data inside.

Everything from documents travels as data: escaped JSON and compressed blocks in script elements
that no browser executes, read by our own code and put on the page as text. A content security
policy allows exactly the scripts of this file, by their hashes, and no connection to anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from functools import cache
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

import orjson
from bench_schema.names import safe

from bench_compare.errors import UsageError
from bench_compare.report.json_text import harmless

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench_compare.model import View
    from bench_compare.report.model import Report

MODULES = (
    *("base", "cases", "charts", "list", "panel", "overview"),
    *("compare", "single", "tables", "main"),
)
"""Files under ``assets``, each after those that it imports."""
IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|(?:async )?function) (\w+))", re.MULTILINE)
PLOTLY_FILE, HEADER = "assets/vendor/plotly-basic.min.js", 100
"""plotly.js as npm publishes it (`make plotly`), and the bytes that begin with its version."""
ESCAPED = "<>&\u2028\u2029"
"""Inside JSON these appear only in strings, where the escaped form means the same."""
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def render(report: Report, view: View) -> str:
    """Return the whole page. Raises `UsageError` for a `View.plotlyjs` that does not exist."""
    if view.plotlyjs not in PLOTLY:
        raise UsageError(f"--plotlyjs: no way {view.plotlyjs!r}; choose from {', '.join(PLOTLY)}")
    page = report.page()
    element, source = PLOTLY[view.plotlyjs]()
    held = [
        f'<script type="text/plain" id="block-{number}">{text}</script>\n'
        for number, text in enumerate(page.blocks)
    ]
    script = code()
    formats = {"CSV": report.records, "JUnit": report.suite}
    more = [name for name, made in formats.items() if made is not None]
    answer = report.conclusion
    data = {
        "kind": page.kind,
        "eyebrow": "bench-compare",
        "conclusion": {"word": answer.word, "sentence": answer.sentence, "hint": answer.hint},
        **page.data,
    }
    return Template(asset("page.html")).substitute(
        title=html.escape(safe(f"{answer.word}: {page.title}")),
        policy=POLICY.format(scripts=f"'sha256-{digest(script)}' {source}".rstrip()),
        style=asset("page.css"),
        formats=f"{', '.join(['Markdown', *more])} and JSON",
        data=embedded(data),
        code=script,
        more="".join([*held, element]),
    )


def embedded(value: Any) -> str:
    """Return JSON that is safe inside a script element, whatever its strings hold."""
    data = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    for sign in ESCAPED:
        data = data.replace(sign.encode(), f"\\u{ord(sign):04x}".encode())
    return harmless(data)


def asset(name: str) -> str:
    return files("bench_compare.report.html").joinpath("assets", name).read_text("utf-8")


@cache
def code() -> str:
    """Return the modules as one script: each becomes a function that returns its exports."""
    parts = []
    for name in MODULES:
        text = asset(f"{name}.js")
        exports = ", ".join(EXPORT.findall(text))
        body = EXPORT.sub("", IMPORT.sub(r"const \1 = modules_\2;", text))
        parts.append(f"const modules_{name} = (() => {{\n{body}return {{ {exports} }};\n}})();\n")
    return f'(() => {{\n"use strict";\n{"".join(parts)}}})();\n'


def digest(text: str | bytes) -> str:
    """Return the hash of a text in the form of a content security policy."""
    data = text.encode("utf-8") if isinstance(text, str) else text
    return base64.b64encode(hashlib.sha256(data).digest()).decode("ascii")


def _plotly_js() -> bytes:
    """Return the basic bundle of plotly.js: scatter, bar and pie."""
    return files("bench_compare.report.html").joinpath(PLOTLY_FILE).read_bytes()


def inline() -> tuple[str, str]:
    """Return the element that holds plotly.js as text, which runs when the first chart is drawn,
    and its source for the policy."""
    return _element(_plotly_js())


def whole_library() -> tuple[str, str]:
    """Return the bundle with every chart type, from the package plotly, as `inline` does."""
    from plotly.offline import get_plotlyjs

    return _element(get_plotlyjs().encode("utf-8"))


def _element(data: bytes) -> tuple[str, str]:
    parts = ('<script type="text/plain" id="plotly">', data.decode("utf-8"), "</script>\n")
    return "".join(parts), f"'sha256-{digest(data)}'"


def from_network() -> tuple[str, str]:
    """Return a script element that loads the same bytes from plotly's own server, which the browser
    checks by their hash, and the address."""
    data = _plotly_js()
    version = data[:HEADER].partition(b") v")[2].split()[0].decode("ascii")
    address = f"https://cdn.plot.ly/plotly-basic-{version}.min.js"
    check = f'integrity="sha256-{digest(data)}" crossorigin="anonymous"'
    return f'<script src="{address}" {check}></script>\n', address


PLOTLY: dict[str, Callable[[], tuple[str, str]]] = {
    "inline": inline,
    "full": whole_library,
    "cdn": from_network,
}
