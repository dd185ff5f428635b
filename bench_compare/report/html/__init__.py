"""The page: one file that opens offline, with plotly.js, styles, code and data inside.

Everything from documents travels as data: escaped JSON and compressed blocks in script elements
that no browser executes, read by our own code and put on the page as text. A content security
policy allows exactly the scripts of this file, by their hashes, and no connection to anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import html
from importlib.resources import files
from itertools import chain
from string import Template
from typing import TYPE_CHECKING, Any

import orjson

from bench_compare.errors import UsageError
from bench_compare.report import words
from bench_compare.report.html.bundle import bundled
from bench_compare.report.html.details import CHUNK, blocks_beside
from bench_compare.report.html.front import coded, front_data

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench_compare.model import Comparison, View

PLOTLY_FILE, HEADER = "assets/vendor/plotly-basic.min.js", 100
"""plotly.js as npm publishes it (`make plotly`), and the bytes that begin with its version."""
ENTRY = "main"
"""The module of ours that starts the page; each is a file under ``assets``."""
ESCAPED = "<>&\u2028\u2029"
"""Inside JSON these appear only in strings, where the escaped form means the same."""
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
PLAIN = {"formats": "Markdown and JSON", "blocks": "", "plotly": ""}


def render(comparison: Comparison, view: View) -> str:
    """The whole page. Raises `UsageError` for a `View.plotlyjs` that does not exist."""
    if view.plotlyjs not in PLOTLY:
        raise UsageError(f"--plotlyjs: no way {view.plotlyjs!r}; choose from {', '.join(PLOTLY)}")
    made, (data, code, element, source) = blocks_beside(
        comparison,
        lambda: (front_data(comparison, view, CHUNK), code_of(ENTRY), *PLOTLY[view.plotlyjs]()),
    )
    held = "".join(
        f'<script type="text/plain" id="block-{number}">{text}</script>\n'
        for number, (text, _) in enumerate(made)
    )
    differing = chain.from_iterable(block.differing for block in made)
    data["cases"]["why"] = coded(map(", ".join, differing))
    return framed(
        "page.html",
        title=words.title(comparison),
        style=asset("page.css"),
        data=data,
        code=code,
        source=source,
        more={"formats": "Markdown, CSV and JSON", "blocks": held, "plotly": element},
    )


def framed(
    body: str,
    *,
    title: str,
    style: str,
    data: Any,
    code: str,
    source: str = "",
    more: Mapping[str, str] = PLAIN,
) -> str:
    """A page around the asset `body`. `source`: what else its scripts may come from. `more`: what
    only some pages have, see `PLAIN`."""
    return Template(asset("frame.html")).substitute(
        title=html.escape(title),
        policy=POLICY.format(scripts=f"'sha256-{digest(code)}' {source}".rstrip()),
        style=style,
        body=asset(body).rstrip("\n"),
        data=embedded(data),
        code=code,
        **more,
    )


def embedded(value: Any) -> str:
    """JSON that is safe inside a script element, whatever its strings hold."""
    data = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    for sign in ESCAPED:
        data = data.replace(sign.encode(), f"\\u{ord(sign):04x}".encode())
    return data.decode()


def asset(name: str) -> str:
    return files("bench_compare.report.html").joinpath("assets", name).read_text("utf-8")


def code_of(entry: str) -> str:
    """A module of ours with all that it needs, as one script."""
    return bundled(entry, lambda name: asset(f"{name}.js"))


def digest(text: str | bytes) -> str:
    """As a content security policy wants it."""
    data = text.encode("utf-8") if isinstance(text, str) else text
    return base64.b64encode(hashlib.sha256(data).digest()).decode("ascii")


def _plotly_js() -> bytes:
    """The basic bundle of plotly.js: scatter, bar and pie."""
    return files("bench_compare.report.html").joinpath(PLOTLY_FILE).read_bytes()


def _inline() -> tuple[str, str]:
    """The element that holds plotly.js as text, which runs when the first chart is drawn, and its
    source for the policy."""
    data = _plotly_js()
    parts = ('<script type="text/plain" id="plotly">', data.decode("utf-8"), "</script>\n")
    return "".join(parts), f"'sha256-{digest(data)}'"


def _from_network() -> tuple[str, str]:
    """The same bytes from plotly's own server, which the browser checks by their hash."""
    data = _plotly_js()
    version = data[:HEADER].partition(b") v")[2].split()[0].decode("ascii")
    address = f"https://cdn.plot.ly/plotly-basic-{version}.min.js"
    check = f'integrity="sha256-{digest(data)}" crossorigin="anonymous"'
    return f'<script src="{address}" {check}></script>\n', address


PLOTLY: dict[str, Callable[[], tuple[str, str]]] = {"inline": _inline, "cdn": _from_network}
