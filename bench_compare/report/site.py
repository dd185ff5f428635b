"""Pages of an archive: an index, one light page a build, and a style that they share.

A light page is the Markdown of a report, as HTML: some kilobytes, no script, no chart.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from string import Template
from typing import TYPE_CHECKING

from bench_schema.names import safe

from bench_compare.report import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_compare.model import View
    from bench_compare.report.model import Report

STYLE = """\
:root { color-scheme: light dark; --line: #8884; --quiet: #6a737d; --link: #0b62c4;
  --bad: #b4410e; --good: #0a62a8; --open: #7a5b00; --fatal: #a61022; }
@media (prefers-color-scheme: dark) { :root { --quiet: #9aa4ae; --link: #6cb0ff;
  --bad: #ff9a6b; --good: #6cb8ff; --open: #e2c04c; --fatal: #ff7a85; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2rem; }
h3 { font-size: 1.2rem; overflow-wrap: anywhere; }
a { color: var(--link); }
nav, .quiet { color: var(--quiet); }
nav a { margin-right: 1rem; }
.bad { color: var(--bad); } .good { color: var(--good); }
.open { color: var(--open); } .fatal { color: var(--fatal); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid var(--line); text-align: left; }
.index td, .index th { padding-left: 0; }
.index code, .state, .day { white-space: nowrap; }
.index .name { overflow-wrap: anywhere; min-width: 6rem; }
svg { display: block; width: 9rem; height: 2rem; overflow: visible; fill: var(--quiet);
  stroke: var(--good); stroke-width: 1.5; }
svg circle { stroke: none; }
code { font-size: .9em; overflow-wrap: anywhere; }
td code { overflow-wrap: normal; white-space: nowrap; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid var(--line); }
details { margin: .75rem 0; }
@media (max-width: 40rem) { .more { display: none; } svg { width: 6rem; }
  .index td, .index th { padding-right: .5rem; } .index { width: 100%; } }
"""
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
<nav>$links</nav>
<main>
$body
</main>
</body>
</html>
""")
TABLES = re.compile(r"<table>.*?</table>", re.DOTALL)


@dataclass(frozen=True)
class BuildEntry:
    """A row of the index."""

    name: str
    started: str
    documents: int
    cases: int
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
    tone: str
    state: str
    link: str
    """Address of its chart."""
    points: tuple[tuple[float, float], ...]
    """Place from 0 to 1 and logarithm of the time."""
    levels: tuple[tuple[float, float, float, float], ...]
    """The same of both ends of each level."""


def light(report: Report, view: View, title: str, links: Sequence[tuple[str, str]]) -> str:
    """Return a report as a page in a folder of the site; `links`: text and address."""
    body = as_html(render("markdown", report, view))
    return _page(title, body, links, root="../")


def as_html(markdown: str) -> str:
    """Return the HTML of a report in Markdown, without a page around it. Names from documents are
    escaped in the Markdown, whose only tags are our own."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    return TABLES.sub(r'<div class="wide">\g<0></div>', parser.render(markdown))


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
    word = answer.partition(":")[0]
    apart = "+engine" if any(one.about for one in cases) else "+"
    rows = [
        f'<tr><td class="name"><a href="{_text(one.link)}">{_text(one.name)}</a></td>'
        f'<td class="state {one.tone}">{_text(one.state)}</td>'
        f'<td>{spark(one)}</td><td class="more quiet">{_text(one.about)}</td></tr>'
        for one in cases[:MOST_CASES]
    ]
    left = len(cases) - MOST_CASES
    if left > 0:
        rows.append(f'<tr><td colspan="4">and {left} more in the history</td></tr>')
    made = [
        f'<tr><td><a href="{_text(one.page)}"><code>{_text(one.name)}</code></a></td>'
        f'<td class="more day quiet">{_text(one.started)}</td><td class="more">{one.documents}</td>'
        f'<td class="more">{one.cases}</td><td>{"<br>".join(map(_event, one.events))}</td>'
        f"<td>{_answer(one.answer)}</td></tr>"
        for one in reversed(builds)
    ]
    parts = [
        f'<h1><span class="{WORDS[word]}">{word}</span>{_text(answer.removeprefix(word))}</h1>',
        f'<p class="quiet">{_text(title)}</p>',
        *(f"<p>{_text(sentence)}</p>" for sentence in sentences),
        _table("Cases", ("case", "newest build", "over all builds", apart), rows),
        _table(
            "Builds",
            ("build", "+started", "+documents", "+cases", "history", "against the build before"),
            made,
        ),
    ]
    return _page(title, "\n".join(parts), links, root="")


MOST_CASES = 200
WORDS = {"PASS": "good", "FAIL": "fatal", "UNDECIDED": "open"}


def _table(title: str, heads: Sequence[str], rows: Sequence[str]) -> str:
    """Return a table; a head with ``+`` is left out where there is little room."""
    told = "".join(
        f'<th class="more">{head[1:]}</th>' if head.startswith("+") else f"<th>{head}</th>"
        for head in heads
    )
    return (
        f'<h2>{title}</h2><div class="wide"><table class="index"><thead><tr>{told}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def spark(one: CaseEntry) -> str:
    """Return a small chart of a case: its documents and its levels."""
    values = [value for _, *ends in one.levels for value in (ends[0], ends[2])]
    if not values:
        return ""
    span = max(1.5 * (max(values) - min(values)), LEAST_SPAN)
    low = (max(values) + min(values) - span) / 2

    def at(place: float, value: float) -> str:
        height = min(max((value - low) / span, 0), 1)  # an odd document stays at the edge
        return f"{100 * place:.1f} {26 - 24 * height:.1f}"

    dots = (at(*point).split() for point in one.points)
    circles = "".join(f'<circle cx="{x}" cy="{y}" r="1"/>' for x, y in dots)
    lines = "".join(f"M{at(a, v)}L{at(b, w)}" for a, v, b, w in one.levels)
    return (
        f'<svg viewBox="0 0 100 28" preserveAspectRatio="none" role="img" '
        f'aria-label="{_text(one.name)}: {_text(one.state)}"><path d="{lines}"/>{circles}</svg>'
    )


LEAST_SPAN = 0.05
"""Smallest range of a small chart, a logarithm: less is noise."""


def _event(event: tuple[str, str]) -> str:
    tone, sentence = event
    return f'<span class="{tone}">{_text(sentence)}</span>'


def _answer(line: str) -> str:
    """Return bad news in full, otherwise the word alone."""
    word, _, _ = line.partition(":")
    told = f"<strong>{_text(line)}</strong>" if word == "FAIL" else _text(word)
    return f'<span class="{WORDS.get(word, "quiet")}">{told}</span>'


def _page(title: str, body: str, links: Sequence[tuple[str, str]], root: str) -> str:
    shown = " ".join(f'<a href="{_text(address)}">{_text(text)}</a>' for text, address in links)
    return PAGE.substitute(title=_text(title), root=root, links=shown, body=body)


def _text(text: str) -> str:
    return html.escape(safe(text))
