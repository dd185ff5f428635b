"""Answer to a question: what a pipeline takes as a `Composition`."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from bench_compare.compose import model as m
from bench_compare.compose.against import checks_of
from bench_compare.compose.agreement import surroundings
from bench_compare.compose.choose import solve
from bench_compare.compose.forms import FormConversion, changes_forms, varied
from bench_compare.compose.missing import missing_rows
from bench_compare.compose.setup import Setup
from bench_compare.compose.table import LEAST_J, UNRESOLVED, levels, ratio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench_schema.estimate import Flags

    from bench_compare.compose.bench import Bench, Picks, Piece
    from bench_compare.compose.setup import Question
    from bench_compare.compose.table import Row, Total

REACHABLE = 0.8
"""Share of a ceiling that a very good kernel reaches."""


@dataclass(frozen=True)
class Picked:
    """The row of each layer, or why there is none."""

    picks: Picks | None
    kept: Flags
    """Rounds that predict."""
    optimal: bool | None = None
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def compose(question: Question) -> m.Composition:
    """Return what a pipeline takes. Raises `BenchCompareError` for a question that makes no
    sense."""
    return answer(Setup(question))[0]


def answer(setup: Setup) -> tuple[m.Composition, Picks | None]:
    """Return the composition, and the row of each layer."""
    question, bench = setup.question, setup.bench
    name, base = setup.baseline()
    picked = pick(setup, base)
    every = bench.table.every
    baseline = None if base is None else configuration(setup, name, base, every)
    chosen = ratios = None
    if picked.picks is not None:
        label = name if picked.picks == base else "chosen"
        reference = base if baseline is not None else None
        chosen = configuration(setup, label, picked.picks, picked.kept, reference)
        if reference is not None:
            ratios = ratios_of(bench, reference, picked.picks, picked.kept)
    checks, known_error = checks_of(setup)
    problems = list(picked.problems)
    if picked.picks is not None and chosen is None:
        problems.append(NO_SUM)
    if question.against and not checks:
        problems.append("--against: no chain of this pipeline that can be predicted was found")
    limits = dict(question.limits)
    limits |= {} if question.within is None else {"within": question.within}
    interval = "none" if chosen is None or chosen.time.low is None else _interval(setup, picked)
    made = m.Composition(
        pipeline=setup.network.pipeline.name,
        path=str(question.path),
        about=setup.network.pipeline.about,
        series=setup.series,
        documents=tuple(source.path for source in setup.sources),
        surroundings=surroundings(setup.sources, setup.engines, setup.state),
        baseline_name=name,
        choose=question.choose,
        limits=limits,
        fixed=dict(question.fixes),
        optimal=picked.optimal,
        interval=interval,
        known_error_ratio=known_error,
        baseline=baseline,
        chosen=None if chosen is None else _widened(chosen, known_error),
        ratios=ratios,
        layers=tuple(layer_choices(setup, picked, base)),
        missing=tuple(missing_rows(setup, picked.picks, name, known_error is not None)),
        checks=tuple(checks),
        remarks=tuple(remarks(setup, picked, chosen)),
        problems=tuple(problems),
        types={name: bench.own_type(place) for place, name in enumerate(setup.names)},
    )
    return made, picked.picks


def _widened(chosen: m.Configuration, known_error: float | None) -> m.Configuration:
    """Return the configuration with an interval that covers what chains were off by."""
    time, off = chosen.time, 1 + (known_error or 0.0)
    if time.low is None or time.high is None:
        return chosen
    return replace(chosen, time=m.Estimate(time.value, time.low / off, time.high * off))


def pick(setup: Setup, base: Picks | None) -> Picked:
    """Return the rows that are asked for, or the best ones."""
    question, bench, every = setup.question, setup.bench, setup.bench.table.every
    fixed = setup.fixed()
    layers = range(len(setup.network.layers))
    lacking = [place for place in layers if not bench.usable(place)]
    if lacking:
        told = [
            f"layer {setup.names[place]}: {bench.rows[row].configuration}: "
            f"{bench.excluded(place, row)}"
            for place in lacking
            for row in bench.options[place]
        ]
        return Picked(None, every, problems=("; ".join(("rows are missing: see below", *told)),))
    if question.choose is not None:
        return _best(setup, fixed)
    usual = base or setup.as_named(setup.baseline()[0])
    found = [bench.fastest(fixed[n]) if n in fixed else usual[n] for n in layers]
    picks = tuple(row for row in found if row is not None)
    if len(picks) < len(found):
        absent = [name for name, row in zip(setup.names, found, strict=True) if row is None]
        what = f"{setup.baseline()[0]} does not have a row of {_listed(absent)}"
        hint = "see below; --choose time takes the best row of each layer"
        return Picked(None, every, problems=(f"{what}: {hint}",))
    if bench.pieces(picks)[2]:
        what = "conversions between the layers were not measured: see below"
        return Picked(None, every, problems=(what,))
    return Picked(picks, every)


def _best(setup: Setup, fixed: dict[int, list[int]]) -> Picked:
    question, bench, table = setup.question, setup.bench, setup.bench.table
    goal, every = question.choose or "time", table.every
    options: list[list[int]] = []
    for place, name in enumerate(setup.names):
        rows = fixed.get(place) or list(bench.usable(place))
        if question.limits:
            rows = [row for row in rows if bench.rows[row].error is not None]
        if goal == "energy":
            rows = [row for row in rows if np.isfinite(table.joules[row]).any()]
            if not rows:
                why = f"no row whose energy was measured and is above {LEAST_J:g} J"
                return Picked(None, every, problems=(f"layer {name} has {why}",))
        options.append(rows)
    choosing = table.round % 2 == 1
    values = (table.logs, table.joules) if goal == "energy" else (table.logs,)
    used = sorted({row for rows in options for row in rows} | {*bench.conversions.values()})
    is_split = all(
        np.isfinite(each[used][:, half]).any(axis=1).all()
        for each in values
        for half in (choosing, ~choosing)
    )
    kept, said = (~choosing, ()) if is_split else (every, (SINGLE,))
    is_limited = question.within is not None
    problem = bench.problem(
        options, goal, question.limits, choosing if is_split else every, is_limited
    )
    found = solve(problem, question.within or 0.0)
    if found is None:
        bounds = " and ".join(f"{name} ≤ {bound:g}" for name, bound in question.limits.items())
        what = f"keeps {bounds}" if bounds else "needs no conversion that was not measured"
        return Picked(None, every, problems=(f"no choice of these rows that {what} is there",))
    picks = tuple(rows[n] for rows, n in zip(options, found, strict=True))
    return Picked(picks, kept, optimal=True, remarks=said)


NO_SUM = "pairs of layers took so much less than the layers alone that the sum is not a time"
SINGLE = "there is a single round: the rows that chose predict as well"


def configuration(
    setup: Setup, name: str, picks: Picks, kept: Flags, base: Picks | None = None
) -> m.Configuration | None:
    """Return a way to run the pipeline; None if a conversion of it was not measured, or if seams
    take off more than the layers take. `base`: rows
    whose time in all rounds is the scale of a prediction by some."""
    bench = setup.bench
    pieces, once, missing = bench.pieces(picks)
    if missing or bench.time(pieces, kept).value <= 0:
        return None
    time, energy = bench.time(pieces, kept), bench.energy(pieces, kept)
    scales = [1.0, 1.0]
    if base is not None and not kept.all():
        steps = bench.pieces(base)[0]
        for place, of in enumerate((bench.time, bench.energy)):
            whole, some = of(steps, bench.table.every), of(steps, kept)
            if whole is not None and some is not None:
                scales[place] = whole.value / some.value
    at = [levels(v, bench.table.document, kept) for v in (bench.table.logs, bench.table.joules)]
    total_ns = time.value * scales[0]

    def part(piece: Piece) -> m.Part:
        row = None if piece.row is None else bench.rows[piece.row]
        time_ns = bench.value(piece.terms, at[0]) * scales[0]
        joules = time_ns * bench.idle_w * 1e-9
        if row is not None:
            joules = bench.value(piece.terms, at[1]) * scales[1]
        return m.Part(
            kind=piece.kind,
            layer=setup.names[piece.layer],
            writer=None if piece.writer is None else setup.names[piece.writer],
            name=piece.name,
            configuration=piece.configuration,
            count=piece.count,
            time_ns=time_ns,
            share=time_ns / total_ns,
            energy_j=joules if energy is not None and math.isfinite(joules) else None,
            error=row.error if row is not None and piece.kind == "layer" else None,
            workspace_bytes=None if row is None else row.workspace_bytes,
            source=None if row is None else row.source,
            case=None if row is None else row.case.id,
            note=piece.note,
            ceiling_ratio=None if row is None else _ceiling(row),
        )

    rows = [bench.rows[row] for row in picks]
    spaces = [row.workspace_bytes for row in rows]
    known = [space for space in spaces if space is not None]
    return m.Configuration(
        name=name,
        engines=tuple(dict.fromkeys(row.engine for row in rows)),
        choices=dict(zip(setup.names, (row.configuration for row in rows), strict=True)),
        time=_bracket(setup, picks, _scaled(time, scales[0])),
        energy=None if energy is None else _scaled(energy, scales[1]),
        error=_error(setup, rows),
        workspace_bytes=max(known) if known and len(known) == len(spaces) else None,
        parts=tuple(_with_gains([part(piece) for piece in pieces], total_ns)),
        once=tuple(part(piece) for piece in once),
    )


def _scaled(found: Total, scale: float) -> m.Estimate:
    one = found.estimate
    ends = (None if end is None else end * scale for end in (one.low, one.high))
    return m.Estimate(one.value * scale, *ends)


def _ceiling(row: Row) -> float | None:
    return None if row.case.achieved is None else row.case.achieved.ceiling_share


def _with_gains(parts: list[m.Part], total_ns: float) -> Iterator[m.Part]:
    """Yield the parts, each with the gain of the pass if all that are alike reached `REACHABLE` of
    the ceiling."""
    times: defaultdict[tuple[str, str], float] = defaultdict(float)
    for one in parts:
        times[one.name, one.configuration] += one.time_ns
    for one in parts:
        ceiling = one.ceiling_ratio
        if ceiling is None or one.kind != "layer":
            yield one
            continue
        saved = times[one.name, one.configuration] * max(0.0, 1 - ceiling / REACHABLE)
        yield replace(one, gain_ratio=total_ns / (total_ns - saved) if saved < total_ns else None)


def _error(setup: Setup, rows: list[Row]) -> m.ErrorBound | None:
    repeats = [layer.repeat for layer in setup.network.layers]
    known = [(n, row.error) for n, row in zip(repeats, rows, strict=True) if row.error is not None]
    if len(known) < len(rows):
        return None
    squares = math.fsum(n * error**2 for n, error in known)
    return m.ErrorBound(math.fsum(n * error for n, error in known), math.sqrt(squares))


def _other(setup: Setup) -> Bench | None:
    """Return the other end of the bracket: hot rows, or for these the first other state."""
    others = [state for state in setup.benches if state != setup.state]
    if not others:
        return None
    return setup.benches["hot" if "hot" in others else others[0]]


def _bracket(setup: Setup, picks: Picks, time: m.Estimate) -> m.Estimate:
    """Return the time with the ends of hot rows and of those of another cache state, if there are
    both; without ends, if one of them is not known."""
    other = _end_of(setup, picks)
    if other is None:
        return time
    if None in (time.low, time.high, other.low, other.high):
        return m.Estimate(time.value)
    ends = [end for one in (time, other) for end in (one.low, one.high) if end is not None]
    return m.Estimate(time.value, min(ends), max(ends))


def _end_of(setup: Setup, picks: Picks) -> m.Estimate | None:
    other = _other(setup)
    if other is None:
        return None
    known = {_key(row): place for place, row in enumerate(other.rows) if row.excluded is None}
    found = [known.get(_key(setup.bench.rows[row])) for row in picks]
    same = tuple(row for row in found if row is not None)
    if len(same) < len(picks):
        return None
    pieces, _, missing = other.pieces(same)
    return None if missing else other.time(pieces, other.table.every).estimate


def _key(row: Row) -> tuple[object, ...]:
    return row.graph.fingerprint, row.engine, tuple(sorted(row.variant.items())), row.kind


def _interval(setup: Setup, picked: Picked) -> Literal["bracket", "documents", "rounds"]:
    assert picked.picks is not None
    if _end_of(setup, picked.picks) is not None:
        return "bracket"
    pieces = setup.bench.pieces(picked.picks)[0]
    return "documents" if setup.bench.time(pieces, picked.kept).by_documents else "rounds"


def ratios_of(bench: Bench, base: Picks, picks: Picks, kept: Flags) -> m.Ratios:
    """Return the baseline over a choice, from the same rounds."""
    over, under = (bench.pieces(rows)[0] for rows in (base, picks))
    time = ratio(bench.time(over, kept), bench.time(under, kept))[0]
    joules = [bench.energy(steps, kept) for steps in (over, under)]
    known = [one for one in joules if one is not None]
    return m.Ratios(time, ratio(*known)[0] if len(known) == len(joules) else None)


def layer_choices(setup: Setup, picked: Picked, base: Picks | None) -> Iterator[m.LayerChoice]:
    bench, question = setup.bench, setup.question
    fixed = setup.fixed()
    for place, layer in enumerate(setup.network.layers):
        row = None if picked.picks is None else picked.picks[place]
        usual = None if base is None else base[place]
        rows = sorted(
            bench.options[place], key=lambda r: float(np.nan_to_num(bench.every[r], nan=math.inf))
        )
        usable = bench.usable(place)
        if row is None:
            reason = "no choice" if usable else "not measured"
        elif place in fixed:
            reason = "fixed by --fix or the pipeline"
        elif len(usable) == 1:
            reason = "the only one"
        elif question.choose is None:
            reason = "as the baseline"
        elif question.choose == "energy":
            reason = "least energy"
        else:
            is_first = row == bench.fastest(usable)
            reason = "fastest here" if is_first else "best with its neighbours and limits"
        shown = bench.rows[rows[0]] if rows else None
        yield m.LayerChoice(
            layer=layer.id,
            name=shown.graph.name if shown else layer.op or str(layer.file),
            family=shown.graph.family if shown else "",
            repeat=layer.repeat,
            chosen="" if row is None else bench.rows[row].configuration,
            baseline=None if usual is None else bench.rows[usual].configuration,
            reason=reason,
            options=tuple(_option(bench, place, each, row, usual) for each in rows),
            conversions=tuple(_conversions(bench, place)),
        )


def _option(bench: Bench, place: int, row: int, chosen: int | None, base: int | None) -> m.Option:
    made = bench.rows[row]
    joules = float(bench.every_joules[row])
    return m.Option(
        configuration=made.configuration,
        time=bench.table.alone(row),
        energy_j=math.exp(joules) if math.isfinite(joules) else None,
        error=made.error,
        workspace_bytes=made.workspace_bytes,
        source=made.source,
        case=made.case.id,
        is_chosen=row == chosen,
        is_baseline=row == base,
        excluded=bench.excluded(place, row),
    )


def _conversions(bench: Bench, place: int) -> Iterator[m.Conversion]:
    """Yield the conversions of the activations of a layer into the forms of its variants, and
    back."""
    variants = [bench.rows[row].variant for row in bench.options[place]]
    needs: dict[str, set[FormConversion]] = {}
    for variant in filter(changes_forms, variants):
        for passed in bench.network.passed():
            ends = [(form, varied(form, variant)) for at, form in passed.readers if at == place]
            if passed.writer == place:
                ends.append((varied(passed.form, variant), passed.form))
            for source, target in ends:
                if source != target:
                    need = FormConversion(source, target)
                    needs.setdefault(need.name, set()).add(need)
    for name, found in needs.items():
        rows = [bench.conversions.get(need.alike) for need in found]
        known = [row for row in rows if row is not None]
        is_known = len(known) == len(rows)
        joules = math.fsum(math.exp(bench.every_joules[row]) for row in known)
        time_ns = math.fsum(math.exp(bench.every[row]) for row in known)
        yield m.Conversion(
            name,
            time_ns if is_known else None,
            joules if is_known and math.isfinite(joules) else None,
        )


def remarks(setup: Setup, picked: Picked, chosen: m.Configuration | None) -> Iterator[str]:
    """Yield sentences that a reader of the answer should know."""
    yield from picked.remarks
    yield from _of_pipeline(setup)
    if picked.picks is not None and chosen is not None:
        yield from _of_rows(setup, picked.picks, chosen)
    if chosen is not None and chosen.time.low is None and picked.kept.sum() > 1:
        yield (
            "the rounds are too few or too far apart to say between which times it lies: more of "
            "them would narrow it (bench-run --rounds 10)"
        )


def _of_pipeline(setup: Setup) -> Iterator[str]:
    bench, network = setup.bench, setup.network
    shares = [row.share for row in network.pipeline.left_out]
    if shares:
        known = [share for share in shares if share is not None]
        work = f"{100 * math.fsum(known):.3g} % of the work"
        if len(known) < len(shares):
            work = f"at least {work}" if known else "an unknown share of the work"
        count = sum(row.count for row in network.pipeline.left_out)
        yield f"{count} operations of the model have no graph, {work}: they take no time here"
    formless = [
        name
        for place, name in enumerate(setup.names)
        if network.ports[place] is None and bench.options[place]
    ]
    if formless and any(layer.links for layer in network.layers):
        what = f"the tensors that {_listed(formless)} read and write are not known"
        yield f"{what}: ways to run them that change these are out"
    for place, layer in enumerate(network.layers):
        for row in bench.options[place]:
            inner = set(bench.rows[row].graph.layers)
            if inner and inner <= set(network.prints):
                yield f"the pipeline has the fused graph {layer.id} and all of its parts"
                break


def _of_rows(setup: Setup, picks: Picks, chosen: m.Configuration) -> Iterator[str]:
    bench = setup.bench
    seams = [bench.seam(place) for place in range(len(picks))]
    lacking = sum(
        seam is not None and bench.seam_terms(place, picks, bench.every) is None
        for place, seam in enumerate(seams)
    )
    if lacking:
        verbs = ("seam was not measured and counts", "seams were not measured and count")
        yield f"{_count(lacking, *verbs)} nothing"
    if bench.mixes_clocks(bench.pieces(picks)[0]):
        yield (
            "some device times were taken behind a gate and some without, which adds microseconds "
            "to each: the sum may be off by these"
        )
    rows = [bench.rows[row] for row in picks]
    if chosen.energy is not None:
        vague = sum(
            UNRESOLVED in note
            for row in set(rows)
            for one in row.case.rounds[:1]
            for note in one.notes
        )
        if vague:
            yield f"the energy of {_count(vague, 'row')} is not resolved by the device's counter"
    replayed = all(s.document.run.settings.replay for s in setup.sources)
    bound = 0 if replayed else sum(map(_launch_bound, rows))
    if setup.series == "device_ns" and bound:
        yield (
            f"{bound} of {len(rows)} layers take more time of the host that launches them than of "
            "the device: a chain may wait for launches (bench-run --replay)"
        )


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _launch_bound(row: Row) -> bool:
    found = [row.case.summary.get(name) for name in ("device_ns", "e2e_ns")]
    known = [one.median for one in found if one is not None]
    return len(known) == len(found) and known[1] - known[0] > known[0]
