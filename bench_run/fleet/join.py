"""`bench-run merge`: documents of shards, or of other runs that belong together, into one.

The documents are read twice, one at a time: first what they are and which cases they hold, then the
cases themselves, which wait in a temporary file. Memory is that of the largest part.
"""

from __future__ import annotations

import heapq
import json
import tempfile
import uuid
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from bench_schema.codec import encode
from bench_schema.document import SCHEMA_VERSION, Document, Part, Settings
from bench_schema.files import read
from bench_schema.identity import variant_key
from bench_schema.merge import find_device, summaries, with_rates
from bench_schema.packing import writing_bytes
from bench_schema.provenance import DEVICE_LIMITS
from bench_schema.settings import rows_of

from bench_run.errors import UsageError
from bench_run.files import writing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench_schema.identity import Variant


UNIT = ("device", "device_index", "key")
"""Facts that may differ between engines of one key."""
ESSENTIAL = tuple(
    f"setting {name}" for name, row in rows_of(Settings).items() if row.merge == "one value"
)
"""Facts of which a document has one value: parts that differ in them stay apart."""
LISTED = ("package ", "variable ")
"""Facts that are there or not."""
CHOICE_OF_DEVICES = "_VISIBLE_DEVICES"
"""Ends the names of variables that say which units a run gets: these differ in a fleet."""
SHOWN = 40
"""Characters of a value that a message repeats."""


@dataclass(frozen=True)
class Difference:
    what: str
    first: str
    """Its value, and the file that has it."""
    second: str
    essential: bool = False

    def __str__(self) -> str:
        return f"{self.what}: {self.first}, {self.second}"


def differences(headers: Sequence[tuple[str, Document]]) -> list[Difference]:
    """Return each fact that differs once, with the first two files that differ in it. A missing
    package or variable differs; a missing engine does not."""
    facts = [(path, facts_of(header)) for path, header in headers]
    found = []
    for name in dict.fromkeys(name for _, known in facts for name in known):
        listed = name.startswith(LISTED)
        having = [(path, known.get(name)) for path, known in facts if listed or name in known]
        where, first = having[0]
        for path, value in having[1:]:
            if value != first:
                texts = f"{_text(first)} in {where}", f"{_text(value)} in {path}"
                found.append(Difference(name, *texts, essential=name in ESSENTIAL))
                break
    return found


def facts_of(header: Document) -> dict[str, Any]:
    """Return facts that should agree, by name in words."""
    run, machine, revision = header.run, header.machine, header.machine.graphs_revision
    rows = rows_of(Settings)
    facts = {
        "label": run.label,
        "number of shards": None if run.shard is None else int(run.shard.partition("/")[2]),
        "graphs and engines of all shards": None if run.whole is None else run.whole.sha256[:12],
        "version of the tool": run.tool.version,
        **{
            f"setting {name}": _plain(rows[name].absent if value is None else value)
            for name, value in asdict(run.settings).items()
        },
    }
    surroundings = {
        "system": machine.os,
        "kernel": machine.kernel,
        "processor": machine.cpu.model,
        "Python": machine.python,
        "revision of the graphs": None if revision is None else _plain(asdict(revision)),
        **{f"package {name}": version for name, version in machine.packages.items()},
        **{
            f"variable {name}": value
            for name, value in machine.environment.items()
            if not name.endswith(CHOICE_OF_DEVICES)
        },
    }
    for engine in header.engines:
        for name, value in asdict(engine).items():
            if name not in UNIT:
                surroundings[f"{name} of engine {engine.key}"] = _plain(value)
        device = find_device(machine, engine.device)
        if device is not None:
            known = asdict(device)
            names = ("driver", *DEVICE_LIMITS)
            surroundings |= {f"{name} of {device.name}": known[name] for name in names}
    return facts | {name: value for name, value in surroundings.items() if value is not None}


def _plain(value: object) -> object:
    return json.loads(json.dumps(value))


def _text(value: object) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


T = TypeVar("T")
NAMED = 5
"""Cases, files or differences that a message lists."""
NAMED_HOSTS = 3


@dataclass(frozen=True)
class CaseFacts:
    """Facts of a case that are kept while all parts are read."""

    id: str
    graph: tuple[str, str]
    """Fingerprint and name."""
    engine: str
    variant: Variant
    status: str
    validation: str | None
    implausible: str | None
    rounds: int
    path: str
    """Path of the graph."""

    @property
    def is_unread(self) -> bool:
        """True if its graph could not be read; a run has such cases last."""
        return self.graph[0].startswith("unread:")

    @property
    def identity(self) -> tuple[object, ...]:
        return self.graph, self.engine, self.variant


@dataclass(frozen=True)
class PartFile:
    """A document to merge: everything but its samples."""

    path: str
    header: Document
    cases: tuple[CaseFacts, ...]

    @classmethod
    def read(cls, path: str) -> PartFile:
        document = read(path)
        cases = (
            CaseFacts(
                case.id,
                (case.graph.fingerprint, case.graph.name),
                case.engine,
                variant_key(case.variant),
                case.outcome.status,
                None if case.validation is None else case.validation.status,
                case.implausible,
                len(case.rounds),
                case.graph.path,
            )
            for case in document.cases
        )
        return cls(path, replace(document, cases=()), tuple(cases))

    @property
    def place(self) -> tuple[int, str, str]:
        """Sort key among the others, independent of file names."""
        run = self.parts[0].run
        return (0 if run.shard is None else int(run.shard.partition("/")[0])), run.started, run.id

    @property
    def parts(self) -> tuple[Part, ...]:
        """The runs in it: itself, unless it was merged before. The hosts of a fleet are parts of
        one run, which is known better by now."""
        run = self.header.run
        if not self.header.parts:
            return (Part(run, self.header.machine),)
        return tuple(
            replace(part, run=run) if part.run.id == run.id else part for part in self.header.parts
        )


@dataclass(frozen=True)
class Joined:
    """A merged document and its defects."""

    header: Document
    cases: tuple[CaseFacts, ...]
    missing: tuple[str, ...] = ()
    """Sentences on shards, graphs and rounds that no part holds."""
    unlike: tuple[Difference, ...] = field(default=())


def join_documents(paths: Sequence[str], output: str, *, allow_unlike: bool) -> Joined:
    """Write one document of all. Raises `UsageError` for cases that are there twice and for
    unlike parts, `DocumentError` for what cannot be read, `OutputError`."""
    counts = Counter(Path(path).resolve() for path in paths)
    for path in paths:
        if counts[Path(path).resolve()] > 1:
            raise UsageError(f"{path}: named twice")
    files = sorted(map(PartFile.read, paths), key=lambda file: file.place)
    _refuse_twice(files)
    unlike = _unlike(files, allow_unlike)
    missing = tuple(_missing(files))
    header = _header(files, complete=not missing, notes=[f"parts differ in {d}" for d in unlike])
    # New ids of cases, by file and id, if runs that are not shards use one for two cases.
    taken: set[str] = set()
    names = {}
    for file in files:
        for known in file.cases:
            name, number = known.id, 1
            while name in taken:
                number += 1
                name = f"{known.id} #{number}"
            taken.add(name)
            if name != known.id:
                names[file.path, known.id] = name
    with writing(output), writing_bytes(output) as write:
        # The document as `codec.encode` writes it, its cases one by one.
        begin, end = encode(header).split(b'"cases":[]', 1)
        with tempfile.TemporaryFile() as kept:  # cases wait there until those before them are read
            spans = [_encode_cases(file, names, kept) for file in files]
            order = run_order(files)
            write(begin + b'"cases":[')
            for number, (index, position) in enumerate(order):
                start, stop = spans[index][position : position + 2]
                kept.seek(start)
                write(b"," * (number > 0) + kept.read(stop - start))
            write(b"]" + end)
    cases = tuple(files[index].cases[position] for index, position in order)
    return Joined(header, cases, missing, unlike)


def _encode_cases(
    file: PartFile, names: Mapping[tuple[str, str], str], kept: BinaryIO
) -> list[int]:
    """Append the cases of a part to `kept`, summaries computed from their samples; where each
    begins, and where the last ends."""
    document = read(file.path)  # again, one part at a time
    if document.run.id != file.header.run.id or len(document.cases) != len(file.cases):
        raise UsageError(f"{file.path}: it has changed while it was being merged")
    engines = {engine.key: engine for engine in document.engines}
    machine, places = document.machine, [kept.tell()]
    for case in document.cases:
        device = engines[case.engine].device
        summed = replace(
            case,
            id=names.get((file.path, case.id), case.id),
            summary=summaries(case.rounds) if case.rounds else case.summary,
        )
        cpu = machine.cpu if device == "cpu" else None
        kept.write(encode(with_rates(summed, find_device(machine, device), cpu)))
        places.append(kept.tell())
    return places


def run_order(files: Sequence[PartFile]) -> list[tuple[int, int]]:
    """Return the file and position of each case, as one run would have them: graph by graph in the
    order of the words of the command line, those of a folder by name. Each part keeps its own
    order."""
    words = files[0].parts[0].run.command
    ranks: dict[str, int] = {}

    def rank(case: CaseFacts) -> tuple[bool, int, str]:
        if case.path not in ranks:
            begins = (n for n, word in enumerate(words) if _is_below(case.path, word))
            ranks[case.path] = next(begins, len(words))
        return case.is_unread, ranks[case.path], case.path

    ranked: list[list[tuple[tuple[bool, int, str], int, int]]] = []
    for index, file in enumerate(files):
        # No case goes before one that its part has before it.
        latest = accumulate(map(rank, file.cases), max)
        ranked.append([(key, index, position) for position, key in enumerate(latest)])
    return [(index, position) for _, index, position in heapq.merge(*ranked)]


def _is_below(path: str, word: str) -> bool:
    """Return True if a word of the command names the graph, its folder or its archive."""
    plain = word.rstrip("/")
    return path == word or (bool(plain) and path.startswith((f"{plain}/", f"{plain}!")))


def _refuse_twice(files: Sequence[PartFile]) -> None:
    """Raise `UsageError` with the names of runs and cases that are in two files."""
    runs: dict[str, str] = {}
    for file in files:
        for part in file.parts:
            other = runs.setdefault(part.run.id, file.path)
            if other != file.path:
                raise UsageError(f"{file.path}: the same run as in {other}: name it once")
    homes: dict[object, list[tuple[str, CaseFacts]]] = {}
    for file in files:
        for case in file.cases:
            homes.setdefault((case.id, case.identity), []).append((file.path, case))
    twice = [(held[0][1].id, [path for path, _ in held]) for held in homes.values() if held[1:]]
    if twice:
        listed = "; ".join(f"{name} in {' and '.join(where)}" for name, where in twice[:NAMED])
        more = f"; and {len(twice) - NAMED} more" if len(twice) > NAMED else ""
        counted = "1 case is" if len(twice) == 1 else f"{len(twice)} cases are"
        raise UsageError(f"{counted} there twice: {listed}{more}: leave one file out")


def _unlike(files: Sequence[PartFile], allowed: bool) -> tuple[Difference, ...]:
    runs = [
        (file.path, replace(file.header, run=part.run, machine=part.machine))
        for file in files
        for part in file.parts
    ]
    found = differences(runs)
    essential = [difference for difference in found if difference.essential]
    if essential:
        raise UsageError(f"{_listed(essential)}: a document has one value of it")
    if found and not allowed:
        raise UsageError(
            f"the parts differ in {_listed(found)}: merge them all the same with --allow-unlike"
        )
    return tuple(found)


def _listed(found: Sequence[Difference]) -> str:
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return "; ".join(map(str, found[:NAMED])) + more


def _missing(files: Sequence[PartFile]) -> Iterator[str]:
    """Yield sentences on parts of a whole run that these documents lack."""
    runs = [part.run for file in files for part in file.parts]
    for file in files:
        if not file.header.run.complete and not file.header.parts:
            yield f"{file.path}: the run did not end; continue it with --resume"
    sharded = {run.shard for run in runs if run.shard is not None}
    for count in sorted({int(shard.partition("/")[2]) for shard in sharded}):
        absent = [f"{i}/{count}" for i in range(1, count + 1) if f"{i}/{count}" not in sharded]
        if absent:
            yield f"no document of shard {_some(absent)}"
    planned = max((run.whole.graphs for run in runs if run.whole is not None), default=0)
    found = len({case.graph for file in files for case in file.cases})
    if found < planned:
        yield f"{planned - found} of {planned} graphs are in no document"
    rounds = runs[0].settings.rounds
    short = [c for f in files for c in f.cases if c.status == "completed" and c.rounds < rounds]
    if short:
        yield f"fewer than {rounds} rounds: {_some([f'{c.id} ({c.rounds})' for c in short])}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _header(files: Sequence[PartFile], *, complete: bool, notes: Sequence[str]) -> Document:
    parts = tuple(part for file in files for part in file.parts)
    runs = [part.run for part in parts]
    ends = [run.finished for run in runs if run.finished is not None]
    told = (f"shard {r.shard}: {note}" if r.shard else note for r in runs for note in r.notes)
    # What the machines share; of what they differ in, the first says it and `parts` the rest.
    machines = [part.machine for part in parts]
    hosts = list(dict.fromkeys(machine.host for machine in machines))
    return Document(
        SCHEMA_VERSION,
        replace(
            runs[0],
            id=str(uuid.uuid5(uuid.NAMESPACE_OID, " ".join(sorted(run.id for run in runs)))),
            label=_common([run.label for run in runs]),
            tags=dict(set.intersection(*(set(run.tags.items()) for run in runs))),
            started=min((run.started for run in runs), key=_seconds),
            finished=max(ends, key=_seconds, default=None),
            complete=complete and all(run.complete for run in runs),
            shard=None,
            whole=None,
            notes=tuple(dict.fromkeys([*told, *notes])),
        ),
        replace(
            files[0].header.machine,
            host=", ".join(hosts) if len(hosts) <= NAMED_HOSTS else f"{len(hosts)} hosts",
            memory_bytes=_common([machine.memory_bytes for machine in machines]),
            packages=_shared(machine.packages.items() for machine in machines),
            environment=_shared(machine.environment.items() for machine in machines),
            devices=_first_of_each(
                (unit.uuid or (machine.host, unit.index), unit)
                for machine in machines
                for unit in machine.devices
            ),
            graphs_revision=_common([m.graphs_revision for m in machines if m.graphs_revision]),
        ),
        # Which unit a round ran on stands in the round.
        _first_of_each((engine.key, engine) for file in files for engine in file.header.engines),
        (),
        parts,
    )


def _seconds(instant: str) -> float:
    """Return the seconds since 1970 of a document's instant; 0 for a date that does not exist."""
    zone = "+00:00" if instant.endswith("Z") else instant[-6:]
    fraction = instant[19:].partition(".")[2].removesuffix("Z").removesuffix(zone)
    try:
        return datetime.fromisoformat(instant[:19] + zone).timestamp() + float(f"0.{fraction}0")
    except ValueError:
        return 0.0


def _first_of_each(found: Iterable[tuple[object, T]]) -> tuple[T, ...]:
    """Return the first value of each key."""
    first: dict[object, T] = {}
    for key, value in found:
        first.setdefault(key, value)
    return tuple(first.values())


def _common(values: Sequence[T | None]) -> T | None:
    """Return the value if all are equal."""
    return values[0] if values and all(value == values[0] for value in values) else None


def _shared(items: Iterable[Iterable[tuple[str, str]]]) -> dict[str, str]:
    listed = [list(each) for each in items]
    counts = Counter(pair for each in listed for pair in each)
    return {name: value for name, value in listed[0] if counts[name, value] == len(listed)}
