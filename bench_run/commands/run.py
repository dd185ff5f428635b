"""The run itself, `bench-run` without a command's name: run graphs, write the results."""

from __future__ import annotations

from bench_schema.units import count_text

from bench_run.commands import CommandOutput, command_line, said_once
from bench_run.commands.usage import FLAGS, all_topics, repeatable
from bench_run.settings import STDOUT
from bench_run.text import one_line

TYPE_CHECKING = False  # importing typing would cost as much as parsing
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from bench_schema.document import Case, Document

    from bench_run.options import Options

USAGE = f"""Usage:
  bench-run [options] {repeatable(FLAGS.values())} [GRAPH]...

{all_topics()}"""


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Run the command. Raises `BenchRunError` if nothing can be run."""
    from bench_run.errors import IncompleteRunError
    from bench_run.options import read_options

    if arguments.get("--rerun-from"):
        from bench_run.commands.again import repeated

        arguments = repeated(arguments, USAGE)
    options = read_options(arguments)
    if options.dry_run:
        return case_list(options)
    missing: list[str] = []
    try:
        document = _run(options, command_line())
    except IncompleteRunError as error:
        document = error.document
        missing += error.problems
    texts = [*_exported(options, document, missing), *_shown(options, document)]
    unchecked = _unchecked(document)
    if options.write_golden is not None and unchecked:  # they are written with the reference
        some = count_text(len(unchecked), "graph")
        missing.append(f"--write-golden: not written for {some}: {unchecked[0]}")
    lines = [text if text.endswith("\n") else f"{text}\n" for text in texts]
    if options.watch:
        from bench_run.commands.watch import say, watch

        say("".join(lines).rstrip())
        return CommandOutput("", exit_code(watch(options, document)), tuple(missing))
    missed = not_validated(document)
    remarks = [] if missed is None else [missed]
    remarks += said_once(document, "CUPTI does not")
    if options.energy:
        remarks += said_once(document, "--energy:")
    if options.observer:
        remarks += said_once(document, "--observer")
    silent = without_times(document, sides=options.a is not None)
    remarks += [*silent, *(unfit := without_record(options, document))]
    code = exit_code(document) or (1 if missing or silent or unfit else 0)
    if options.quiet and code and not (missed or silent or unfit or missing):
        remarks.append(in_a_line(document))
    return CommandOutput("".join(lines), code, (*remarks, *missing))


def _unchecked(document: Document) -> list[str | None]:
    """Return, of each graph none of whose outputs were compared, the reason. Of ``--a`` and ``--b``
    the first is the reference of the second."""
    found: dict[str, str | None] = {}
    checked = set()
    for case in document.cases:
        check = case.validation
        if check is not None and check.status == "not checked":
            found.setdefault(case.graph.path, check.reason)
        elif check is not None:
            checked.add(case.graph.path)
    return [reason for path, reason in found.items() if path not in checked]


def case_list(options: Options) -> CommandOutput:
    """Return the cases of a run, one line each. Engines are opened, so that a dry run refuses what
    the run refuses; one that cannot be opened here is a remark and exit code 1."""
    from dataclasses import replace

    from bench_run.runner.forecast import Forecast
    from bench_run.runner.places import check_run_places
    from bench_run.runner.planning import plan_dry

    check_run_places(replace(options, output=None))
    planned, problem = plan_dry(options)
    notes = [f"note: {note}" for note in planned.gathered.notes]
    lines = [f"{case.id}  ({case.graph.id.path})" for case in planned.cases]
    graphs = {case.graph.id.path: case.graph for case in planned.cases}
    forecast = Forecast(options, graphs.values(), planned.engines)
    text = "\n".join([*notes, *lines, forecast.first_line()])
    remarks = () if problem is None else (f"a run would end here: {problem}",)
    return CommandOutput(text, len(remarks), remarks)


def _run(options: Options, command: Sequence[str]) -> Document:
    if options.ray is not None:
        from bench_run.fleet.cluster import run_on_cluster

        return run_on_cluster(options, command)
    if options.devices is None:
        from bench_run.fleet.shards import run_on_all_devices

        return run_on_all_devices(options, command)
    from bench_run.runner.early import early_launcher

    with early_launcher(options) as launcher:
        from bench_run.runner.benchmark import run_benchmark

        return run_benchmark(options, command, launcher)


def _exported(options: Options, document: Document, missing: list[str]) -> Iterator[str]:
    """Write the text formats; yields those for stdout, and notes files that cannot be written."""
    from bench_schema.codec import encode

    from bench_run.errors import OutputError
    from bench_run.files import write_text_file
    from bench_run.report.formats import FORMATS

    if options.output == STDOUT:
        yield encode(document).decode()
    for name, render in FORMATS.items():
        path = getattr(options, name)
        if path is None:
            continue
        text = render(document)
        if path == STDOUT:
            yield text
            continue
        try:
            write_text_file(path, text)
        except OutputError as error:
            missing.append(str(error))


def _shown(options: Options, document: Document) -> Iterator[str]:
    """Yield the table, unless stdout has another answer."""
    from bench_run.plan.cases import oracle_pairs
    from bench_run.report.console import details, oracle_table, side_by_side, table
    from bench_run.report.formats import FORMATS
    from bench_run.report.one_graph import is_one_graph, one_graph, one_pair

    if options.quiet or STDOUT in (getattr(options, name) for name in ("output", *FORMATS)):
        return
    if options.verbose:
        yield details(document)
    if options.oracle:
        yield table(document)
        yield oracle_table(document, oracle_pairs([engine.key for engine in document.engines]))
        return
    paired = options.a is not None and not any(case.variant for case in document.cases)
    if is_one_graph(document, paired) and not options.verbose:
        yield one_pair(document) if paired else one_graph(document)
        return
    yield side_by_side(document) if paired else table(document)


def exit_code(document: Document) -> int:
    """Return 0 if all is well; 2 if some output is wrong, some time implausible or some engine
    breaks a claim; 1 if some case gave no answer, or none completed, or the named reference could
    not check some case."""
    validations = [case.validation for case in document.cases if case.validation is not None]
    if any(validation.status == "failed" for validation in validations):
        return 2
    if any(case.implausible is not None or breaks_claim(case) for case in document.cases):
        return 2
    statuses = [case.outcome.status for case in document.cases]
    fine = all(status in ("completed", "unsupported") for status in statuses)
    some = "completed" in statuses or document.run.shard is not None  # a shard may be empty
    answered = fine and some and document.run.complete
    return 0 if answered and not_validated(document) is None else 1


def without_record(options: Options, document: Document) -> list[str]:
    """Return a line if the run is by a record of which no case took anything."""
    from bench_run.plan.tuned import NOT_TUNED

    whys = [[note for note in case.notes if note.startswith(NOT_TUNED)] for case in document.cases]
    if options.tuned is None or not whys or not all(whys):
        return []
    cases = f"none of {count_text(len(whys), 'case')} is as the record says"
    return [f"--tuned: {options.tuned}: {cases}: {whys[0][0].removeprefix(NOT_TUNED)}"]


def in_a_line(document: Document) -> str:
    """Return what became of a run in a line: how many cases ended how, and what is wrong first."""
    from bench_run.report.console import totals

    wrong = next(
        (
            f"; {case.id}: {case.validation.reason}"
            for case in document.cases
            if case.validation is not None and case.validation.status == "failed"
        ),
        "",
    )
    ended = next(
        (
            f"; {case.id}: {case.outcome.status}: {case.outcome.reason}"
            for case in document.cases
            if case.outcome.status not in ("completed", "unsupported")
        ),
        "",
    )
    ended = ended or next(
        (f"; {case.id}: {case.implausible}" for case in document.cases if case.implausible), ""
    )
    return f"{totals(document)}{wrong or ended}"


def without_times(document: Document, *, sides: bool) -> list[str]:
    """Return a line for each engine that supports no graph of the run, with the reason. `sides`:
    each engine is one side; otherwise those of one name count together, as ``cudnn:all`` stands for
    many, but for files of kernels. Empty for a shard, which may hold few graphs."""
    from bench_run.engines import KERNEL

    if document.run.shard is not None:
        return []
    names = {
        engine.key: engine.key if sides or engine.name == KERNEL else engine.name
        for engine in document.engines
    }
    found: dict[str, list[Case]] = {}
    for case in document.cases:
        found.setdefault(names[case.engine], []).append(case)
    return [
        f"{one_line(name)} measured nothing: {one_line(cases[0].outcome.reason or '')}"
        for name, cases in found.items()
        if all(case.outcome.status == "unsupported" for case in cases)
    ]


def breaks_claim(case: Case) -> bool:
    """Return True if an engine declines a graph that its support claims include."""
    from bench_run.graph.sources.bundle import CLAIMED

    outcome = case.outcome
    return outcome.status == "failed" and (outcome.reason or "").startswith(CLAIMED)


def not_validated(document: Document) -> str | None:
    """Return a line if cases could not be compared with the named reference, with the first of
    them; ``auto`` names none."""
    named = document.run.settings.reference
    if named in ("auto", "none"):
        return None
    completed = [case for case in document.cases if case.outcome.status == "completed"]
    checks = [(case.id, case.validation) for case in completed if case.validation is not None]
    missed = [(name, check.reason) for name, check in checks if check.status == "not checked"]
    if not missed:
        return None
    name, reason = missed[0]
    count = f"not checked: {len(missed)} of {count_text(len(completed), 'case')}"
    return f"--reference {named}: {count}: {reason} ({name})"
