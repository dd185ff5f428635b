"""What a command found, in a format, as the command shows it."""

from __future__ import annotations

from bench_compare import report
from bench_compare.model import Comparison, View
from bench_compare.report import compare, compose, history, single


def render(name, found, view=None):
    view = view or View()
    if isinstance(found, Comparison):
        made = compare.report_of(found, view)
    elif isinstance(found, single.ShownRun):
        made = single.report_of(found, view)
    else:
        module = history if hasattr(found, "series") and hasattr(found, "events") else compose
        made = module.report_of(found, module.conclude(found))
    return report.render(name, made, view)
