"""What is measured, kept: in a journal beside the output while the run goes on, then sealed."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.files import read
from bench_schema.journal import Journal, journal_path, ordered, read_journal, seal
from bench_schema.merge import find_device, merge_cases, with_rates

from bench_run.errors import OutputError, UsageError
from bench_run.files import writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Case, Document

    from bench_run.options import Options


def now() -> str:
    """This instant, ISO 8601 with time zone."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class Record:
    """Keeps what is measured: in the journal beside the output, or in memory without one."""

    def __init__(self, header: Document, output: Path | None, journal: Journal | None) -> None:
        self._header = header
        self._output = output
        self._journal = journal
        self._parts: list[Case] = []
        self.done: tuple[Case, ...] = ()

    @classmethod
    def begin(cls, options: Options, header: Document) -> Record:
        """A fresh record, or the one that ``--resume`` goes on with."""
        if options.output is None:
            return cls(header, None, None)
        output = Path(options.output)
        path = journal_path(output)
        with writing(output):
            if options.resume:
                earlier = _earlier(output, path)
                if earlier is not None:
                    return cls._go_on(header, output, path, earlier)
            elif path.exists():
                raise UsageError(
                    f"{path} holds an unfinished run: go on with --resume, or delete it"
                )
            if output.is_dir():
                raise OutputError(f"cannot write {output}: it is a folder")
            return cls(header, output, Journal.create(path, header))

    @classmethod
    def _go_on(cls, header: Document, output: Path, path: Path, earlier: Document) -> Record:
        _refuse_other_settings(earlier, header)
        if path.exists():
            journal = Journal.reopen(path)
            known = {engine.key for engine in earlier.engines}
            for engine in header.engines:
                if engine.key not in known:
                    journal.append_engine(engine)
        else:
            engines = {e.key: e for e in (*header.engines, *earlier.engines)}
            start = replace(earlier, cases=(), engines=tuple(engines.values()))
            journal = Journal.create(path, start)
            for case in earlier.cases:
                journal.append_case(case)
        record = cls(header, output, journal)
        record.done = earlier.cases
        return record

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()

    def add(self, case: Case) -> None:
        """Keep one partial case, on disk before anything else is measured."""
        if self._journal is None or self._output is None:
            self._parts.append(case)
            return
        with writing(self._output):
            self._journal.append_case(case)

    def finish(self, order: Sequence[str], *, complete: bool) -> Document:
        """The document, sealed in place of the journal where there is an output.

        `order` lists the ids of the cases as they were planned, not as they were visited.
        """
        if self._output is None:
            document = assemble(self._header, self._parts, complete=complete)
            return replace(document, cases=ordered(document.cases, order))
        with writing(self._output):
            return seal(
                journal_path(self._output),
                self._output,
                finished=now(),
                complete=complete,
                order=order,
            )


def assemble(header: Document, parts: Sequence[Case], *, complete: bool) -> Document:
    """The document of a run that has no journal: partial cases merged by id."""
    by_id: dict[str, list[Case]] = {}
    for part in parts:
        by_id.setdefault(part.id, []).append(part)
    devices = {e.key: find_device(header.machine, e.device) for e in header.engines}
    cases = (merge_cases(group) for group in by_id.values())
    return replace(
        header,
        run=replace(header.run, finished=now(), complete=complete),
        cases=tuple(with_rates(case, devices.get(case.engine)) for case in cases),
    )


def _earlier(output: Path, path: Path) -> Document | None:
    """The run to go on with: its journal, or the document of an interrupted run."""
    if path.exists():
        return read_journal(path)
    if output.exists():
        return read(output)
    return None


def _refuse_other_settings(earlier: Document, header: Document) -> None:
    """A resumed run must go on as it began, or its numbers would not belong together."""
    before, now = asdict(earlier.run.settings), asdict(header.run.settings)
    for name, value in now.items():
        if before[name] != value:
            raise UsageError(
                f"--resume: the unfinished run has {name} {json.dumps(before[name])}, "
                f"this one {json.dumps(value)}"
            )
