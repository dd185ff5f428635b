"""A question to the judge. Nothing that takes long is imported here: the libraries of the engines
are imported at the same time as the rest of this program."""

from __future__ import annotations

from dataclasses import dataclass

from bench_run.engines.base import FORKED
from bench_run.options import Options, checked
from bench_run.worker.life import Launcher

FRAMEWORKS = ("numpy", "torch")
"""Bases that have calls of their own."""
ROUND_S = 0.5
"""Time of the samples of a round, of both sides together."""
FEWEST = 4
"""Rounds before the first comparison."""


@dataclass(frozen=True)
class Question:
    """Kernel, base and operations of a judgement, and its limits."""

    kernel: str
    """Engine spec."""
    base: str
    """Engine spec as the user wrote it."""
    graphs: tuple[str, ...] = ()
    op: tuple[str, ...] = ()
    threshold_ratio: float = 0.01
    max_rounds: int = Options.max_rounds
    budget_s: float = 15.0
    output: str | None = None
    force: bool = False
    quiet: bool = True

    @property
    def base_spec(self) -> str:
        """Return the spec of the base, with its calls made as those of kernels are."""
        name = self.base.partition("@")[0].partition(":")[0]
        return f"{self.base}+call" if name in FRAMEWORKS and "+" not in self.base else self.base

    def options(self) -> Options:
        """Return the options of its run. Raises `UsageError`."""
        rounds = max(1, min(FEWEST, self.max_rounds))
        return checked(
            Options(
                graphs=self.graphs,
                op=self.op,
                a=self.base_spec,
                b=self.kernel,
                until="decided",
                threshold_ratio=self.threshold_ratio,
                rounds=rounds,
                max_rounds=max(rounds, self.max_rounds),
                reference="auto",
                strict=True,
                max_time_s=ROUND_S * rounds,
                quiet=self.quiet,
                output=self.output,
                force=self.force,
            )
        )

    def launcher(self) -> Launcher:
        """Return what forks the workers of both sides, a kernel of the base's framework from the
        same template: its libraries are imported once, and lie in memory alike."""
        from bench_run.user.kernels import imported_frameworks

        options, base = self.options(), self.base_spec
        name = base.partition("+")[0].partition(":")[0]
        used = imported_frameworks(self.kernel.partition("@")[2])
        is_alike = f"{self.base}+call" == base and used == {name}
        environments = {key: {FORKED: "1"} for key in (base, self.kernel)}
        shared = {self.kernel: base} if is_alike else {}
        return Launcher("fork", options.timeout_s, environments, shared)
