"""The rounds of the finalists: what is compared of them, and for which there are not enough yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from bench_schema.estimate import looks, round_log

from bench_run.tune.choosing import Finalist, open_finalists

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from bench_run.options import Options
    from bench_run.runner.stopping import CaseState
    from bench_run.tune.choosing import Raced
    from bench_run.tune.settings import Tuning

    Logs = npt.NDArray[np.float64]


def objective_logs(times: Logs, joules: Sequence[float | None], objective: str) -> Logs | None:
    """Of each round what is to be made small; None where it was not measured. `times` are
    logarithms."""
    if objective == "time":
        return times
    known = [each for each in joules if each is not None and each > 0]
    if len(known) < len(joules) or not known:
        return None
    energy = np.log(np.array(known, np.float64))
    return energy if objective == "energy" else energy + times


class Confirmation:
    """Which finalists need more rounds; for `until_settled`."""

    def __init__(
        self, raced: Sequence[Raced], tuning: Tuning, options: Options, is_over: Callable[[], bool]
    ) -> None:
        """`is_over`: whether there is no time for more."""
        self._raced, self._tuning, self._is_over = raced, tuning, is_over
        self._most = options.max_rounds
        self._looks = len(looks(options.rounds, options.max_rounds))

    def find_open(self, states: Mapping[str, CaseState]) -> frozenset[str]:
        """Ids of the cases of the graphs that are not settled. One combination for all graphs is
        chosen from equally many rounds of all."""
        if self._tuning.scope == "global" or self._is_over():
            return frozenset()
        return frozenset(id_ for each in self._raced for id_ in self._open(each, states))

    def _open(self, each: Raced, states: Mapping[str, CaseState]) -> Sequence[str]:
        known = {index: states.get(each.options[index].case.id) for index in each.finalists}
        right = {i: s for i, s in known.items() if s is not None and not (s.is_wrong or s.ended)}
        finalists = []
        for index, state in right.items():
            rounds = state.in_order()
            times = np.array([round_log(r.counting) for r in rounds])
            joules = [r.energy_j for r in rounds]
            logs = objective_logs(times, joules, self._tuning.objective)
            if logs is not None:
                finalists.append(Finalist(index, each.ranks[index], logs))
        rivals = each.rivals(finalists)
        margin_ratio = self._tuning.margin_ratio
        due = open_finalists(rivals, 0, margin_ratio, self._looks, self._most)
        if due:  # a default that may not win has its time told too
            due |= {f.index for f in finalists} - {f.index for f in rivals}
        return [each.options[index].case.id for index in sorted(due)]
