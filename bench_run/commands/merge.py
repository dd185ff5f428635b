"""`bench-run merge`: documents of shards into one."""

from __future__ import annotations

from bench_run.commands import CommandOutput

TYPE_CHECKING = False  # keeps --help fast
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from bench_run.fleet.join import Joined

USAGE = """Merge the documents of a run that was split with --shard, or of several runs
that belong together, into one. Each part's run and machine stay in it.

Usage:
  bench-run merge [options] DOC...

Options:
  -o, --output FILE     the document to write (.json, .json.gz, .json.zst)
  --force               replace the document that the output file holds
  --allow-unlike        merge parts whose machines, libraries, versions or
                        graphs differ; the document lists how
  -q, --quiet           no summary
  -h, --help            show help

Examples:
  bench-run graphs/ --shard 1/2 -o part1.json
  bench-run graphs/ --shard 2/2 -o part2.json
  bench-run merge part1.json part2.json -o all.json

A case that two documents hold is an error. Where a shard, a graph or a round
is missing, the document is written and marked as not complete (exit code 1).

Exit codes: those of the run as a whole: 0 success; 1 something is missing, a
case failed, or parts are unlike; 2 outputs differ from the reference.
"""


def answer(arguments: Mapping[str, Any]) -> CommandOutput:
    """Run the command. Raises `BenchRunError` and `DocumentError` if nothing is written."""
    from collections import Counter

    from bench_schema.places import Place, check_places, refuse_replacing
    from bench_schema.units import count_text

    from bench_run.errors import UsageError
    from bench_run.files import writing
    from bench_run.fleet.join import join_documents

    output = arguments["--output"]
    if output is None:
        raise UsageError("merge: name the document to write: -o FILE")
    if output == "-":
        raise UsageError("merge: -o - is not possible: cases are written as they are read")
    with writing(output):
        check_places([Place("DOC", path) for path in arguments["DOC"]], [Place("-o", output)])
        refuse_replacing(output, force=arguments["--force"])
    joined = join_documents(arguments["DOC"], output, allow_unlike=arguments["--allow-unlike"])
    remarks = [f"missing: {sentence}" for sentence in joined.missing]
    if joined.unlike:
        remarks.append(
            f"the parts differ in {len(joined.unlike)} things: run.notes in the document"
        )
    counts = Counter(case.status for case in joined.cases)
    states = ", ".join(f"{count} {status}" for status, count in counts.items()) or "none"
    hosts = {part.machine.host for part in joined.header.parts}
    runs = len(joined.header.parts)
    where = f"{runs} run{'s' * (runs != 1)} on {len(hosts)} host{'s' * (len(hosts) != 1)}"
    text = f"{output}: {count_text(len(joined.cases), 'case')} of {where}: {states}"
    code = exit_code(joined)
    wrong = [case.id for case in joined.cases if case.validation == "failed"]
    if wrong:
        remarks.append(f"outputs of {count_text(len(wrong), 'case')} are wrong: {wrong[0]}")
    if not arguments["--quiet"]:
        return CommandOutput(text, code, tuple(remarks))
    return CommandOutput("", code, tuple(remarks or ([text] if code else [])))


def exit_code(joined: Joined) -> int:
    """Return the exit code of a run that measured all the cases."""
    if any(case.validation == "failed" or case.implausible is not None for case in joined.cases):
        return 2
    statuses = {case.status for case in joined.cases}
    fine = statuses <= {"completed", "unsupported"} and "completed" in statuses
    return 0 if fine and joined.header.run.complete else 1
