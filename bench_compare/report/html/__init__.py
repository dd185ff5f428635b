"""The page: one file that opens offline, with plotly.js, styles, code and data inside.

Python makes the markup and the figures; texts of documents are escaped in it. The script sorts,
searches, opens panels and draws. A content security policy allows exactly the scripts of this file,
by their hashes, and no connection to anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from functools import cache
from importlib.resources import files
from itertools import islice
from string import Template
from typing import TYPE_CHECKING, Any

import orjson
from bench_schema.report.model import Command

from bench_compare.errors import UsageError
from bench_compare.report.figures.base import TEMPLATE
from bench_compare.report.figures.palette import DARK, style
from bench_compare.report.html import tables
from bench_compare.report.html.markup import Html, escaped, joined, note, tag
from bench_compare.report.json_text import harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench_schema.report.model import Body, Chart, Page, Report

    from bench_compare.model import Conclusion, View

MODULES = ("base", "charts", "list", "panel", "main")
"""Files under ``assets``, each after those that it imports."""
IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:const|(?:async )?function) (\w+))", re.MULTILINE)
PLOTLY_FILE, HEADER = "assets/vendor/plotly-basic.min.js", 100
"""plotly.js as npm publishes it (`make plotly`), and the bytes that begin with its version."""
CHUNK = 32
"""Panels in a block, which are unpacked together."""
ESCAPED = "<>&\u2028\u2029"
"""Inside JSON these appear only in strings, where the escaped form means the same."""
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
TONES = {"PASS": "good", "FAIL": "fatal", "UNDECIDED": "odd"}
USUAL = ("documents", "started", "tags")
"""Facts that differ between any two runs."""


def render(report: Report, view: View) -> str:
    """Return the whole page. Raises `UsageError` for a `View.plotlyjs` that does not exist."""
    if view.plotlyjs not in PLOTLY:
        raise UsageError(f"--plotlyjs: no way {view.plotlyjs!r}; choose from {', '.join(PLOTLY)}")
    page, body, script = report.page(), report.body(), code()
    element, source = PLOTLY[view.plotlyjs]()
    charts: list[Chart] = []
    rows: list[Any] = []
    main = joined([*_sections(page, body, charts, rows)])
    blocks, ids = _blocks(page)
    data = {
        "kind": page.kind,
        "template": TEMPLATE,
        "dark": DARK,
        "filter": page.filter,
        "chunk": CHUNK,
        "panels": ids,
    }
    held = [
        f'<script type="text/plain" id="{name}">{text}</script>\n'
        for name, text in (
            ("charts", packed([one.figure for one in charts])),
            ("rows", packed(rows)),
            *blocks,
        )
    ]
    return Template(asset("page.html")).substitute(
        title=escaped(f"{report.conclusion.word}: {page.title}"),
        policy=POLICY.format(scripts=f"'sha256-{digest(script)}' {source}".rstrip()),
        style=style() + asset("page.css"),
        heading=_heading(report.conclusion),
        subtitle=escaped(page.title),
        main=main,
        dialog=DIALOG if ids else "",
        data=embedded(data),
        code=script,
        more="".join([*held, element]),
    )


DIALOG = '<dialog id="panel" aria-labelledby="panel-title" tabindex="-1"></dialog>'


def _heading(answer: Conclusion) -> Html:
    word = tag("span", f"{answer.word}:", class_=f"answer {TONES[answer.word]}")
    hint = "" if answer.hint is None else tables.command(Command("To decide:", answer.hint))
    return joined([tag("h1", word, f" {answer.sentence}"), hint])


def _sections(page: Page, body: Body, charts: list[Chart], rows: list[Any]) -> Iterator[Html]:
    """Yield the parts of the page; figures and rows, which the script needs, are added to the
    lists."""
    yield from _answer(body)
    yield from (_chart(one, charts) for one in page.charts)
    for table in page.tables:
        if table.entries:
            yield tables.entries(table) if table.rows else Html()
        elif table.rows or table.ranked:
            section, made = tables.table_section(table, len(rows))
            rows.append(made)
            yield section
    if body.commands:
        commands = map(tables.command, body.commands)
        yield tag("section", tag("h2", body.commands_title), *commands)
    yield from _more(page, charts)
    yield from _ground(page, body)


def _answer(body: Body) -> Iterator[Html]:
    """Yield what went wrong, the sentences of the answer, and what differs."""
    alarms = [("alarm fatal", "Error: ", text) for text in body.problems]
    alarms += [("alarm", "Note: ", text) for text in body.warnings]
    for kind, title, text in alarms:
        yield tag("p", tag("strong", title), text, class_=kind)
    told = [tag("p", text) for text in body.statements]
    told += [tag("p", tag("strong", "Also: "), text) for text in body.also]
    if told:
        yield tag("section", tag("h2", "Result", class_="hidden"), *told, class_="result")
    if body.differences:
        yield _differences(body)


def _ground(page: Page, body: Body) -> Iterator[Html]:
    """Yield the facts that the answer rests on."""
    if body.sides:
        yield _compared(body)
    if body.facts:
        yield tag("section", tag("h2", "What it rests on"), tables.facts(body.facts))
    if body.notes:
        items = (tag("li", text) for text in body.notes)
        yield tag("section", tag("h2", "Notes"), tag("ul", *items, class_="note"))
    for title, pairs in page.facts:
        yield tag("details", tag("summary", title), tables.facts(pairs)) if pairs else Html()


def _more(page: Page, charts: list[Chart]) -> Iterator[Html]:
    shown = [_chart(one, charts) for one in page.more if one.open]
    rest = [_chart(one, charts) for one in page.more if not one.open]
    if shown:
        yield tag("section", tag("h2", "Charts"), tag("div", *shown, class_="charts"))
    if rest:
        title = tag("summary", f"{len(rest)} more charts")
        yield tag("details", title, tag("div", *rest, class_="charts"), id="more-charts")


def _chart(one: Chart, charts: list[Chart]) -> Html:
    charts.append(one)
    return figure_element(len(charts) - 1, one)


def figure_element(number: int, one: Chart) -> Html:
    """Return the place of a figure, with its caption."""
    height = one.figure["layout"]["height"]
    holder = tag(
        "div",
        class_="chart",
        role="img",
        aria_label=one.label or one.title or "Chart",
        data_figure=number,
        style=f"min-height:{height}px",
    )
    told = tag("span", f" {one.note}", class_="note") if one.note else Html()
    caption = tag("figcaption", tag("strong", one.title), told) if one.title else Html()
    return tag("figure", caption, holder, id=one.id or None)


def _differences(body: Body) -> Html:
    many = len(body.sides) > 2
    rows = []
    for d in body.differences:
        must = " (must agree)" if d.must_agree else ""
        rows.append([f"{d.name}{must}", d.base, d.other, *([d.of] if many else [])])
    heads = ["", "base", "other", *(["of"] if many else [])]
    return tag("section", tag("h2", "What differs"), tables.facts(rows, heads), id="differs")


def _compared(body: Body) -> Html:
    names = dict.fromkeys(name for side in body.sides for name in side.facts)
    rows = []
    for name in names:
        values = [side.facts.get(name, "–") for side in body.sides]
        rows.append([name, *(values[:1] if len(set(values)) == 1 else values)])
    heads = ["", *(f"{side.role}: {side.label}" for side in body.sides)]
    same = "No setting, device or library that is checked differs."
    none = Html() if body.differences else note(same)
    return tag("section", tag("h2", "What was compared"), none, tables.facts(rows, heads))


def _blocks(page: Page) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the packed panels, each block with the id of its element, and the ids of the rows."""
    made: list[tuple[str, str]] = []
    ids: list[str] = []
    panels = iter(page.panels)
    while group := list(islice(panels, CHUNK)):
        ids += [one.id for one in group]
        made.append((f"block-{len(made)}", packed([[one.html, one.figures] for one in group])))
    return made, ids


def packed(value: Any) -> str:
    """Return JSON, compressed, in base64."""
    data = zlib.compress(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))
    return base64.b64encode(data).decode("ascii")


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
