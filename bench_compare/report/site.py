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
:root { color-scheme: light dark; --line: #8884; --quiet: #6a737d; --link: #0b62c4; }
@media (prefers-color-scheme: dark) { :root { --quiet: #9aa4ae; --link: #6cb0ff; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h3 { font-size: 1.2rem; overflow-wrap: anywhere; }
a { color: var(--link); }
nav, .quiet { color: var(--quiet); }
nav a { margin-right: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid var(--line); text-align: left; }
code { font-size: .9em; overflow-wrap: anywhere; }
td code { overflow-wrap: normal; white-space: nowrap; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid var(--line); }
details { margin: .75rem 0; }
"""
PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self' \
'unsafe-inline'; base-uri 'none'; form-action 'none'">
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
    events: tuple[str, ...] = ()
    """Steps of the history that begin with it."""


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
    builds: Sequence[BuildEntry],
    links: Sequence[tuple[str, str]],
) -> str:
    """Return the first page: the newest state, and all builds, newest first."""
    head = ("build", "started", "documents", "cases", "history", "against the build before")
    rows = [
        f'<tr><td><a href="{_text(one.page)}"><code>{_text(one.name)}</code></a></td>'
        f'<td class="quiet">{_text(one.started)}</td><td>{one.documents}</td><td>{one.cases}</td>'
        f"<td>{'<br>'.join(map(_text, one.events))}</td><td>{_answer(one.answer)}</td></tr>"
        for one in reversed(builds)
    ]
    parts = [
        f"<h1>{_text(answer)}</h1>",
        f'<p class="quiet">{_text(title)}</p>',
        "".join(f"<p>{_text(sentence)}</p>" for sentence in sentences),
        '<div class="wide"><table><thead><tr>',
        "".join(f"<th>{column}</th>" for column in head),
        "</tr></thead><tbody>",
        *rows,
        "</tbody></table></div>",
    ]
    return _page(title, "\n".join(parts), links, root="")


def _answer(line: str) -> str:
    """Return bad news in full, otherwise the word alone."""
    word, _, _ = line.partition(":")
    return f"<strong>{_text(line)}</strong>" if word == "FAIL" else _text(word)


def _page(title: str, body: str, links: Sequence[tuple[str, str]], root: str) -> str:
    shown = " ".join(f'<a href="{_text(address)}">{_text(text)}</a>' for text, address in links)
    return PAGE.substitute(title=_text(title), root=root, links=shown, body=body)


def _text(text: str) -> str:
    return html.escape(safe(text))
