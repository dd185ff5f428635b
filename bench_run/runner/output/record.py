"""Results on disk: a journal beside the output during the run, the document at its end."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from bench_schema.files import read, save
from bench_schema.journal import Journal, journal_path, ordered, read_journal, seal
from bench_schema.merge import find_device, merge_cases, with_rates
from bench_schema.packing import remove_unfinished

from bench_run.errors import OutputError, UsageError
from bench_run.files import writing
from bench_run.options.settings import STDOUT
from bench_run.runner.output.lock import OutputLock
from bench_run.runner.output.resume import refuse_other_work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench_schema.document import Case, Document

    from bench_run.options import Options
    from bench_run.plan.cases import PlannedCase


def now() -> str:
    """This instant, ISO 8601 with time zone."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class Record:
    """Keeps what is measured: in the journal beside the output, or in memory without one."""

    def __init__(
        self,
        header: Document,
        output: Path | None = None,
        journal: Journal | None = None,
        lock: OutputLock | None = None,
    ) -> None:
        self._header = header
        self._output = output
        self._journal = journal
        self._lock = lock
        self._parts: list[Case] = []
        self.done: tuple[Case, ...] = ()
        self.notes: tuple[str, ...] = ()
        """What should be known of the run that this one goes on with."""

    @classmethod
    def begin(cls, options: Options, header: Document, cases: Sequence[PlannedCase]) -> Record:
        """A fresh record, or the one that ``--resume`` goes on with."""
        if options.output in (None, STDOUT):
            return cls(header)
        output = Path(str(options.output))
        if output.is_dir():
            raise OutputError(f"cannot write {output}: it is a directory")
        with contextlib.ExitStack() as undo, writing(output):
            lock = OutputLock(output)
            undo.callback(lock.release)
            for path in (output, journal_path(output)):
                remove_unfinished(path)
            earlier = _earlier(output) if options.resume else None
            if earlier is None:
                record = cls(header, output, _new_journal(output, header), lock)
            else:
                refuse_other_work(earlier, header, cases)
                record = cls(header, output, _old_journal(output, earlier), lock)
                record.done, record.notes = earlier.cases, earlier.run.notes
            undo.pop_all()  # from here on the record holds the lock
            return record

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()
        if self._lock is not None:
            self._lock.release()

    def add(self, case: Case) -> None:
        """Keep one partial case, on disk before anything else is measured."""
        if self._journal is None or self._output is None:
            self._parts.append(case)
            return
        with writing(self._output):
            self._journal.append_case(case)

    def so_far(self, folder: Path) -> Path:
        """The results so far as a file: the journal, or a document in `folder`."""
        if self._output is not None:
            return journal_path(self._output)
        path = folder / "so_far.json"
        with writing(path):
            save(path, assemble(self._header, self._parts, complete=False))
        return path

    def finish(self, order: Sequence[str], *, complete: bool) -> Document:
        """The document, sealed in place of the journal where there is an output.

        `order` lists the ids of the cases as they were planned, not as they were run.
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

    def measured(self, order: Sequence[str]) -> Document:
        """What the journal holds, where the document could not be written."""
        assert self._output is not None
        document = read_journal(journal_path(self._output))
        return replace(document, cases=ordered(document.cases, order))


def assemble(header: Document, parts: Sequence[Case], *, complete: bool) -> Document:
    """The document of a run that has no journal: partial cases merged by id."""
    by_id: dict[str, list[Case]] = {}
    for part in parts:
        by_id.setdefault(part.id, []).append(part)
    devices = {e.key: find_device(header.machine, e.device) for e in header.engines}
    processors = {e.key: header.machine.cpu for e in header.engines if e.device == "cpu"}
    cases = (merge_cases(group) for group in by_id.values())
    return replace(
        header,
        run=replace(header.run, finished=now(), complete=complete),
        cases=tuple(
            with_rates(case, devices.get(case.engine), processors.get(case.engine))
            for case in cases
        ),
    )


def _new_journal(output: Path, header: Document) -> Journal:
    path = journal_path(output)
    if path.exists():
        raise UsageError(f"{path} holds an unfinished run: continue with --resume, or delete it")
    return Journal.create(path, header)


def _old_journal(output: Path, earlier: Document) -> Journal:
    """The journal to go on with; where the earlier run was sealed it is made of its document."""
    path = journal_path(output)
    if path.exists():
        return Journal.reopen(path)
    return Journal.create(path, replace(earlier, cases=()), earlier.cases)


def _earlier(output: Path) -> Document | None:
    """The run to go on with: its journal, or the document of an interrupted run."""
    path = journal_path(output)
    if path.exists():
        return read_journal(path)
    return read(output) if output.exists() else None
