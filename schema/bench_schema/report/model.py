"""A report as a value: what a command has to say, before it is text, a table or a page.

Each command makes one `Report`; each format renders it and knows nothing of the command. Numbers
stay numbers, in the base unit of their kind, until a renderer makes text of them. Parts that cost
something are made when a renderer asks for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from bench_schema.units import TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Word: TypeAlias = Literal["PASS", "FAIL", "UNDECIDED"]
EXIT_CODES: Mapping[Word, int] = {"PASS": 0, "UNDECIDED": 1, "FAIL": 2}


@dataclass(frozen=True)
class Conclusion:
    """The answer of a command, which every report shows, and its exit code."""

    word: Word
    sentence: str
    hint: str | None = None
    """The command line that would decide what is undecided."""
    allowed: bool = False
    """True if a missing answer does not fail (``--allow-no-answer``); the word stays."""

    @property
    def line(self) -> str:
        return f"{self.word}: {self.sentence}"

    @property
    def exit_code(self) -> int:
        return 0 if self.allowed and self.word == "UNDECIDED" else EXIT_CODES[self.word]


@dataclass(frozen=True)
class View:
    """Options of the display. They change what is shown, not the verdicts."""

    width: int = 80
    color: bool = False
    all: bool = False
    """Also unchanged and unclear cases."""
    sort: str = "news"
    """``news`` (worst first), ``ratio``, ``name``, ``family``, ``time``, ``document``."""
    filter: str | None = None
    """Words, each part of a name, family, engine or verdict, or a glob of it."""
    plotlyjs: str = "inline"
    """``inline`` or ``cdn``."""


TestResult: TypeAlias = Literal["passed", "failure", "error", "skipped"]
Tone: TypeAlias = Literal["fatal", "bad", "odd", "good", "open", "plain"]


class Amount(NamedTuple):
    """A quantity: ``ns``, ``bytes``, ``J`` or another unit, as it is."""

    value: float | None
    unit: str


class RatioCell(NamedTuple):
    """Other over base, shown as a change."""

    value: float | None
    words: tuple[str, str] = TIME
    """Words for a ratio above and below 1."""


class RatioInterval(NamedTuple):
    """The 95 % interval of a ratio."""

    ratio: float | None
    low: float | None
    high: float | None
    words: tuple[str, str] = TIME


class Span(NamedTuple):
    """Both ends of an interval of amounts."""

    low: float | None
    high: float | None
    unit: str


class Name(NamedTuple):
    """A name from a document, which no format may interpret."""

    text: str


class State(NamedTuple):
    """State of a row: a word, its prominence, and a sign next to it."""

    word: str
    tone: Tone = "plain"
    mark: str = ""
    news: Literal["bad", "good", "quiet"] = "quiet"
    """Importance: news that must be read, that may be read, or that is shown on request."""
    doubt: str = ""
    """A question mark if it is provisional."""
    link: str = ""
    """Address on the page of the case that it tells of."""


Cell: TypeAlias = str | Amount | RatioCell | RatioInterval | Span | Name | State


@dataclass(frozen=True)
class Column:
    title: str
    align: Literal["left", "right", "center"] = "left"
    head: str | None = None
    """Its title in the terminal, where that is another one."""
    short: str | None = None
    """Its title if there is little room."""
    least: int | None = None
    """It may be cut down to so many characters."""
    share: int | None = None
    """It takes at most this part of the terminal's width."""
    optional: bool = False
    """Left out where no row has anything in it."""
    spare: int = 0
    """Order, from 1, in which columns are dropped if the terminal is too narrow; 0: never."""
    group: bool = False
    """The terminal puts rows that agree in it under a head of their own."""


@dataclass(frozen=True)
class ReportRow:
    cells: tuple[Cell, ...]
    state: State | None = None
    name: str = ""
    """Full name, for a row that is printed alone."""
    reason: str | None = None
    """Sentence after the name in place of columns without numbers."""
    entry: tuple[str, ...] = ()
    """Paragraph in the terminal for a table of entries; its first line is the title."""
    details: tuple[str, ...] = ()
    """Folded away below the table in Markdown and on the page."""
    commands: tuple[Command, ...] = ()
    """Command lines that the page shows with it."""
    id: str = ""
    """Its address on the page."""
    link: str = ""
    """The address on the page that its name links to; in a ranked table that of its panel."""
    about: str = ""
    """A line below its name on the page, which the search finds, too."""

    @property
    def news(self) -> str:
        return "quiet" if self.state is None else self.state.news


@dataclass(frozen=True)
class Table:
    columns: tuple[Column, ...]
    rows: tuple[ReportRow, ...]
    quiet: Callable[[], tuple[ReportRow, ...]] = tuple
    """More rows of a ranked table, which the terminal does not show: nearly all of 10,000."""
    title: str = ""
    lead: str = ""
    """The line above it in the terminal; Markdown has the title."""
    entries: bool = False
    """True if the terminal prints each row as a paragraph."""
    ranked: bool = False
    """Rows come by their state: in the terminal bad news, good news, then the rest; in Markdown
    all but the first bad news is folded away."""
    folded: tuple[str, str, str] = (
        "More bad news",
        "Improvements and additions",
        "Unchanged and unclear cases",
    )
    """Titles of a ranked table's folded parts in Markdown: further bad news, good news, the
    rest."""
    stacked: str = ""
    """Line for a row's numbers if columns do not fit, with columns by title (``{base}``)."""
    most: int | None = None
    """Rows in the terminal, and `more` says where the others are."""
    size: Callable[[ReportRow], float] | None = None
    """Key that selects the rows; without it the first are shown."""
    more: str = ""
    foot: str = ""


class SideFacts(NamedTuple):
    """Facts of one side."""

    role: str
    label: str
    lead: str
    """First words on the side in the terminal, before its facts."""
    facts: Mapping[str, str]


@dataclass(frozen=True)
class FactDifference:
    name: str
    base: str
    other: str
    of: str
    must_agree: bool


class Command(NamedTuple):
    """A line that a reader copies."""

    reason: str
    line: str


@dataclass(frozen=True)
class Body:
    """Content for the terminal and for Markdown."""

    headline: str = ""
    """The answer in a line; if it is empty, `counts` and `statements` are."""
    labels: tuple[str, ...] = ()
    """Names of what was compared, the base first."""
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    sides: tuple[SideFacts, ...] = ()
    brief: tuple[str, ...] = ()
    """Facts of `sides` that the terminal shows."""
    differences: tuple[FactDifference, ...] = ()
    counted: int | None = None
    """Cases, of which `counts` tells the states."""
    counts: tuple[tuple[State, int], ...] = ()
    statements: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    also: tuple[str, ...] = ()
    """Bad news that no row tells."""
    notes: tuple[str, ...] = ()
    """Told as a list."""
    most_notes: int | None = None
    """Largest number of notes in the terminal."""
    closing: tuple[str, ...] = ()
    """The last lines of the terminal."""
    commands_title: str = ""
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Payload:
    """JSON content: a tree with one empty list, and the many items of that list."""

    tree: dict[str, Any]
    key: str = ""
    count: int = 0
    items: Callable[[range], Sequence[Any]] = field(default=lambda _: ())


@dataclass(frozen=True)
class Records:
    """Rows of CSV, in groups that share their first and last cells."""

    head: tuple[str, ...]
    count: int
    groups: Callable[[range], Iterable[tuple[Sequence[Any], Iterable[Sequence[Any]]]]]
    """Function from a range of groups to each group's first cells and the cells of its rows."""
    last: tuple[Any, ...] = ()
    order: Sequence[int] | None = None
    """Places of the groups, where they stand in another order."""


@dataclass(frozen=True)
class Test:
    """One test of a suite, as machines that run tests show it."""

    group: str
    name: str
    result: TestResult = "passed"
    message: str = ""
    kind: str = ""
    text: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    output: tuple[str, ...] = ()


@dataclass(frozen=True)
class TestSuite:
    name: str
    tests: Iterable[Test]
    properties: Mapping[str, str] = field(default_factory=dict)
    output: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """A figure of plotly on the page, drawn when it comes into view."""

    figure: Mapping[str, Any]
    title: str = ""
    note: str = ""
    label: str = ""
    """A description for screen readers."""
    id: str = ""
    open: bool = True
    """False: folded away until a reader opens it."""


@dataclass(frozen=True)
class Page:
    """Parts of the page besides the body of the report."""

    kind: Literal["compare", "single", "tables"]
    title: str
    tables: Sequence[Table]
    """Tables in place of the body's; one that is ranked has a search and a button a state."""
    charts: Sequence[Chart] = ()
    """Above the tables."""
    more: Sequence[Chart] = ()
    """Below the tables."""
    panels: Iterator[Panel] = field(default_factory=lambda: iter(()))
    """Details of the rows of the ranked table, in the order of their numbers."""
    facts: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()
    """Folded lists of names and texts, each with its title."""
    filter: str = ""
    """Words to search for when the page is opened."""


class Panel(NamedTuple):
    """Details of a case, shown when a reader opens it."""

    id: str
    html: str
    figures: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Report:
    conclusion: Conclusion
    body: Callable[[], Body]
    payload: Callable[[], Payload]
    page: Callable[[], Page]
    records: Callable[[], Records] | None = None
    suite: Callable[[], TestSuite] | None = None
