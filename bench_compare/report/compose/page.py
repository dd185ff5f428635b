"""The page of a composition: one file that opens offline, without a library.

Everything from documents travels as escaped JSON and reaches the page as text; a content security
policy allows exactly our script, by its hash, and no connection to anywhere.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench_compare.report.compose.words import time_text
from bench_compare.report.html import asset, code_of, framed
from bench_compare.report.units import change_text

if TYPE_CHECKING:
    from bench_compare.compose.model import Composition, ModelTerm

ENTRY = "compose_main"
SAME = 5e-4
"""A ratio that is shown as no change."""
INTERVALS = {
    "rounds": "95 % interval of rounds and clock",
    "documents": "95 % interval of documents and clock",
    "bracket": "between hot and colder caches",
    "model": "95 % interval with the model's own error",
    "none": "",
}


def render(composition: Composition, width: int = 80) -> str:  # noqa: ARG001 - a page has no columns
    return framed(
        "compose.html",
        title=headline(composition),
        style=asset("page.css") + asset("compose.css"),
        data=page_data(composition),
        code=code_of(ENTRY),
    )


def page_data(composition: Composition) -> dict[str, Any]:
    """The composition as it is, and a few sentences."""
    data = asdict(composition)
    model = data.pop("model")
    return {
        **data,
        "baselineName": composition.baseline_name,
        "headline": headline(composition),
        "intervalWord": INTERVALS[composition.interval],
        "modelText": "" if model is None else model_text(composition.model),
    }


def headline(composition: Composition) -> str:
    """The pipeline, its predicted time, and what it is against the baseline."""
    chosen, ratios = composition.chosen, composition.ratios
    if chosen is None:
        return f"{composition.pipeline}: no answer"
    text = f"{composition.pipeline}: {time_text(chosen.time.value)}"
    if ratios is None or chosen.name == composition.baseline_name:
        return text
    ratio = ratios.time.value
    if abs(ratio - 1) < SAME:
        return f"{text}, as fast as {composition.baseline_name}"
    word = "faster" if ratio >= 1 else "slower"
    change = change_text(max(ratio, 1 / ratio)).removeprefix("+")
    return f"{text}, {change} {word} than {composition.baseline_name}"


def model_text(model: ModelTerm | None) -> str:
    """How far predictions were off so far, in a sentence."""
    if model is None or model.median_log_error is None:
        return ""
    off = f"{100 * model.median_log_error:.2g} %"
    of = f"{model.pipelines} pipeline" + ("s" if model.pipelines != 1 else "")
    if model.half_width_log is None:
        return f"Off by {off} in the median of {of}; {model.needed} are needed for an interval."
    width = f"{100 * model.half_width_log:.2g} %"
    return f"Off by {off} in the median of {of}; another one lies within {width} (95 %)."
