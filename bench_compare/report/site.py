"""Pages of an archive: an index, one light page a build, and the style that they share.

A light page is the Markdown of a report, as HTML: some kilobytes, no script, no chart.
"""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict, dataclass
from string import Template
from typing import TYPE_CHECKING

from bench_compare.report import render
from bench_compare.report.html.markup import Html, escaped, joined, note, tag
from bench_compare.report.html.tables import badge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench_schema.report.model import Report, Tone

    from bench_compare.model import View

PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self' \
'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${root}style.css">
</head>
<body>
<nav aria-label="Pages">$links</nav>
<main>
$body
</main>
</body>
</html>
""")
TABLES = re.compile(r"<table>.*?</table>", re.DOTALL)
WORDS: dict[str, Tone] = {"PASS": "good", "FAIL": "fatal", "UNDECIDED": "open"}
SIGNS = {"PASS": "✓", "FAIL": "✕", "UNDECIDED": "?"}
MOST_CASES = 200
LEAST_SPAN = 0.05
"""Smallest range of a small chart, a logarithm: less is noise."""


def style_sheet() -> str:
    """Return the style of all pages of a site, which is that of the page."""
    from bench_compare.report.figures.palette import style
    from bench_compare.report.html import asset

    return style() + asset("page.css")


@dataclass(frozen=True)
class BuildEntry:
    """A row of the index."""

    name: str
    label: str
    commit: str
    started: str
    counts: Mapping[str, tuple[Tone, int]]
    """States of its cases, with their colours."""
    answer: str
    """Conclusion of the comparison with the build before, of the first build of its cases."""
    page: str
    """Its address, relative to the index."""
    events: tuple[tuple[str, str], ...] = ()
    """Changes of the history that begin with it, as tone and sentence."""


@dataclass(frozen=True)
class CaseEntry:
    """A case on the index."""

    name: str
    about: str
    tone: Tone
    mark: str
    state: str
    link: str
    """Address of its chart."""
    points: tuple[tuple[float, float], ...]
    """Place from 0 to 1 and logarithm of the time."""
    levels: tuple[tuple[float, float, float, float], ...]
    """The same of both ends of each level."""


FACTS = re.compile(r'<meta name="bench" content="(\w+) ([^"]*)">')
"""Key and row of the index, in the page of a build."""


def light(
    report: Report,
    view: View,
    title: str,
    links: Sequence[tuple[str, str]],
    kept: tuple[str, BuildEntry],
) -> str:
    """Return a report as a page in a folder of the site; `links`: text and address; `kept`: the
    hash of what it was made from, and its row of the index."""
    key, entry = kept
    held = html.escape(json.dumps(asdict(entry)))
    page = _page(title, as_html(render("markdown", report, view)), links, root="../")
    return page.replace("<link", f'<meta name="bench" content="{key} {held}">\n<link', 1)


def kept_entry(path: Path, key: str) -> BuildEntry | None:
    """Return the row of an existing page that was made from the same; None without such a page."""
    try:
        found = FACTS.search(path.read_text("utf-8")[:8000])
        if found is None or found[1] != key:
            return None
        return BuildEntry(**json.loads(html.unescape(found[2])))
    except (OSError, ValueError, TypeError):
        return None


def as_html(markdown: str) -> str:
    """Return the HTML of a report in Markdown, without a page around it. Names from documents are
    escaped in the Markdown, whose only tags are our own."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    text: str = parser.render(markdown)
    text = text.replace("<h3>", "<h1>", 1).replace("</h3>", "</h1>", 1)
    box = r'<div class="scroll" tabindex="0" role="group" aria-label="Table">\g<0></div>'
    return TABLES.sub(box, text)


def index(
    title: str,
    answer: str,
    sentences: Sequence[str],
    cases: Sequence[CaseEntry],
    builds: Sequence[BuildEntry],
    links: Sequence[tuple[str, str]],
) -> str:
    """Return the first page: the newest state, its cases with a small chart each, and all builds,
    newest first."""
    word, _, rest = answer.partition(":")
    rows = [
        _row(
            ("", tag("a", one.name, href=one.link), "cell-name", one.about),
            ("newest build", badge(one.state, one.tone, one.mark), "", ""),
            ("over all builds", spark(one), "", ""),
        )
        for one in cases[:MOST_CASES]
    ]
    left = len(cases) - MOST_CASES
    parts = [
        tag("h1", tag("span", f"{word}:", class_=f"answer {WORDS[word]}"), rest),
        tag("p", title, id="title"),
        *(tag("p", sentence) for sentence in sentences),
        _table("Cases", ("case", "newest build", "over all builds"), rows),
        note(f"and {left} more in the history") if left > 0 else "",
        _table("Builds", *_builds(builds)),
    ]
    return _page(title, joined(parts), links, root="")


def _builds(builds: Sequence[BuildEntry]) -> tuple[list[str], list[Html]]:
    """Return heads and rows of all builds, without columns that no build has."""
    rows = [_build(one) for one in reversed(builds)]
    used = [at for at in range(7) if at < 2 or any(row[at][1] for row in rows)]
    heads = [cell[0] or "against the build before" for cell in rows[0]] if rows else []
    return [heads[at] for at in used if heads], [_row(*(row[at] for at in used)) for row in rows]


def _build(one: BuildEntry) -> list[tuple[str, str, str, str]]:
    word = one.answer.partition(":")[0]
    told = one.answer if word == "FAIL" else word
    mix = joined([_mix(one), note(", ".join(f"{n} {name}" for name, (_, n) in one.counts.items()))])
    events = [tag("span", sentence, class_=tone) for tone, sentence in one.events]
    return [
        ("", badge(told, WORDS.get(word, "plain"), SIGNS.get(word, "")), "", ""),
        ("build", tag("a", one.name, href=one.page), "day", ""),
        ("label", one.label, "", ""),
        ("commit", tag("code", one.commit) if one.commit else "", "", ""),
        ("started", one.started, "day", ""),
        ("cases", mix, "", ""),
        ("history", joined(events), "", ""),
    ]


def _row(*cells: tuple[str, str, str, str]) -> Html:
    """Return a row of cells: head, content, class, and a line below."""
    made = []
    for head, content, kind, below in cells:
        inner = joined([escaped(content), tag("span", below, class_="note")]) if below else content
        label = head if head and content else None
        made.append(tag("td", inner, class_=kind or None, data_label=label))
    return tag("tr", *made)


def _table(title: str, heads: Sequence[str], rows: Sequence[Html]) -> Html:
    head = tag("thead", tag("tr", *(tag("th", one, scope="col") for one in heads)))
    grid = tag("table", head, tag("tbody", *rows), class_="cards")
    return tag("section", tag("h2", title), grid)


def spark(one: CaseEntry) -> Html:
    """Return a small chart of a case: its documents and its levels."""
    values = [value for _, *ends in one.levels for value in (ends[0], ends[2])]
    if not values:
        return Html()
    span = max(1.5 * (max(values) - min(values)), LEAST_SPAN)
    low = (max(values) + min(values) - span) / 2

    def at(place: float, value: float) -> str:
        height = min(max((value - low) / span, 0), 1)  # an odd document stays at the edge
        return f"{100 * place:.1f} {26 - 24 * height:.1f}"

    dots = (at(*point).split() for point in one.points)
    circles = "".join(f'<circle cx="{x}" cy="{y}" r="1"/>' for x, y in dots)
    lines = "".join(f"M{at(a, v)}L{at(b, w)}" for a, v, b, w in one.levels)
    drawn = Html(f'<path class="{one.tone}" d="{lines}"/>{circles}')
    about = f"{one.name}: {one.state}"
    return tag(
        "svg",
        drawn,
        class_="spark",
        viewBox="0 0 100 28",
        preserveAspectRatio="none",
        role="img",
        aria_label=about,
    )


def _mix(one: BuildEntry) -> Html:
    """Return a small chart of the states of a build's cases, each as wide as its share."""
    total = sum(count for _, count in one.counts.values())
    if not total:
        return Html()
    parts, left = [], 0.0
    for tone, count in one.counts.values():
        width = 100 * count / total
        parts.append(f'<rect class="{tone}" x="{left:.1f}" width="{width:.1f}" height="8"/>')
        left += width
    return tag(
        "svg",
        Html("".join(parts)),
        class_="mix",
        viewBox="0 0 100 8",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _page(title: str, body: str, links: Sequence[tuple[str, str]], root: str) -> str:
    shown = " ".join(tag("a", text, href=address) for text, address in links)
    return PAGE.substitute(title=escaped(title), root=root, links=shown, body=body)
