"""A composition by hand, for the reports: two layers, a seam and a conversion, with energy."""

from __future__ import annotations

from bench_compare.compose.model import (
    Check,
    Composition,
    Configuration,
    ErrorBound,
    Estimate,
    LayerChoice,
    Missing,
    Option,
    Part,
    Ratios,
    Surroundings,
)

FAST, PLAIN = "cudnn plan=eng6_k2=1 layout=nhwc", "cudnn"


def part(kind, layer, writer, name, configuration, time_ns, energy_j, error=None):
    return Part(
        kind,
        layer,
        writer,
        name,
        configuration,
        1,
        time_ns,
        time_ns / 30_000,
        energy_j,
        error,
        4096 if kind == "layer" else None,
        "parts.json",
        f"{name} on cudnn",
    )


def configuration(name, choices, parts, once=()):
    total = sum(one.time_ns for one in parts)
    joules = sum(one.energy_j for one in parts)
    return Configuration(
        name=name,
        engines=("cudnn",),
        choices=choices,
        time=Estimate(total, 0.98 * total, 1.02 * total),
        energy=Estimate(joules, 0.97 * joules, 1.03 * joules),
        error=ErrorBound(4e-4, 2.9e-4),
        workspace_bytes=4096,
        parts=tuple(parts),
        once=tuple(once),
    )


def option(name, time_ns, chosen=False, baseline=False, excluded=None):
    return Option(
        name,
        Estimate(time_ns, 0.99 * time_ns, 1.01 * time_ns),
        0.002,
        2e-4,
        4096,
        "parts.json",
        f"conv on {name}",
        chosen,
        baseline,
        excluded,
    )


def parts_of_it():
    chosen = configuration(
        "chosen",
        {"conv1": FAST, "relu": PLAIN},
        [
            part("layer", "conv1", None, "conv_fwd_n1", FAST, 20_000.0, 0.004, 2e-4),
            part(
                "conversion", "relu", "conv1", "convert_n1_half_nhwc_tonchw", PLAIN, 3_000.0, 4e-4
            ),
            part("layer", "relu", None, "relu_n1", PLAIN, 5_000.0, 0.001, 2e-4),
            part("seam", "relu", "conv1", "conv1 → relu", PLAIN, -600.0, -5e-5),
        ],
        [part("conversion", "conv1", None, "convert_w", PLAIN, 900.0, 1e-4)],
    )
    baseline = configuration(
        "cudnn",
        {"conv1": PLAIN, "relu": PLAIN},
        [
            part("layer", "conv1", None, "conv_fwd_n1", PLAIN, 30_000.0, 0.006, 2e-4),
            part("layer", "relu", None, "relu_n1", PLAIN, 5_000.0, 0.001, 2e-4),
            part("seam", "relu", "conv1", "conv1 → relu", PLAIN, -600.0, -5e-5),
        ],
    )
    check = Check(
        "cudnn",
        "hot",
        "chain.json",
        "net on cudnn",
        Estimate(34_000.0, 33_500.0, 34_500.0),
        Estimate(34_400.0, 33_700.0, 35_100.0),
        -0.0117,
        True,
        0.0069,
        0.00695,
    )
    return chosen, baseline, check


def choices():
    return (
        LayerChoice(
            "conv1",
            "conv_fwd_n1",
            "conv_fwd",
            1,
            FAST,
            PLAIN,
            "fastest here",
            (
                option(FAST, 20_000.0, chosen=True),
                option(PLAIN, 30_000.0, baseline=True),
                option("cudnn plan=bad", 1_000.0, excluded="its outputs are wrong"),
            ),
        ),
        LayerChoice(
            "relu",
            "relu_n1",
            "relu",
            1,
            PLAIN,
            PLAIN,
            "the only one",
            (option(PLAIN, 5_000.0, chosen=True, baseline=True),),
        ),
    )


def composition():
    chosen, baseline, check = parts_of_it()
    return Composition(
        pipeline="net",
        path="net/net.toml",
        about="a small net",
        series="device_ns",
        documents=("parts.json",),
        surroundings=Surroundings(
            "NVIDIA H200",
            "GPU-1",
            "vm",
            "570.1",
            "hot",
            {"timer": "events", "duty": "cool"},
            {"cudnn": "cudnn 9.1"},
        ),
        baseline_name="cudnn",
        choose="time",
        limits={"error": 1e-3},
        fixed={},
        optimal=True,
        interval="bracket",
        known_error_ratio=0.0116,
        baseline=baseline,
        chosen=chosen,
        ratios=Ratios(Estimate(1.25, 1.22, 1.29), Estimate(1.3, 1.2, 1.4)),
        layers=choices(),
        missing=(
            Missing(
                "seam",
                "what lies between",
                "bench-run net/net.toml --seams -e cudnn --cache rotate -o rotate.json",
                blocks=False,
            ),
        ),
        checks=(check,),
        remarks=("one conversion was not measured",),
        problems=(),
    )
