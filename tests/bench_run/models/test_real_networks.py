"""Networks of torchvision, timm and transformers: what is imported, and what it computes.

The packages are no part of ``[test]``: ``pip install torchvision timm transformers``.
"""

from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch", reason="these are models of PyTorch")

from bench_run.graph.work import flops  # noqa: E402
from bench_run.models.lower import ModelLowering, fuse  # noqa: E402
from bench_run.models.own import LOWERINGS  # noqa: E402
from bench_run.models.torch_export import model_of  # noqa: E402
from tests.bench_run.models import zoo  # noqa: E402
from tests.bench_run.models.test_random_networks import values_apart  # noqa: E402

pytestmark = pytest.mark.slow
MODELS = {**zoo.CONVOLUTIONS, **zoo.TRANSFORMERS_OF_IMAGES, **zoo.LANGUAGE}
MATRIX_WORK = ("conv", "conv_transpose", "linear", "matmul", "sdpa")


def exported(name, dtype):
    for package in zoo.PACKAGES:
        if find_spec(package) is None:
            pytest.skip(f"no package {package}")
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model = model.eval().to(dtype)
    inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
    with torch.no_grad():
        return torch.export.export(model, inputs, strict=False), inputs


def lost_share(program):
    """Share of the floating-point operations, as PyTorch counts them, that is left out."""
    lowering = ModelLowering(fuse(model_of(program, "net", "float")), LOWERINGS)
    lowering.run()
    lost = sum(each.call.attributes.get("flops") or 0 for each in lowering.refused)
    kept = (flops(each.graph) or 0 for each in lowering.layers if each.kind in MATRIX_WORK)
    return lost / (lost + sum(kept))


@pytest.mark.parametrize("name", [*zoo.CONVOLUTIONS, *zoo.TRANSFORMERS_OF_IMAGES])
def test_two_percent_of_the_work_on_images_is_lost_at_most(name):
    assert lost_share(exported(name, torch.float32)[0]) <= 0.02


@pytest.mark.parametrize("name", zoo.LANGUAGE)
def test_five_percent_of_the_work_on_text_is_lost_at_most(name):
    assert lost_share(exported(name, torch.float32)[0]) <= 0.05


@pytest.mark.parametrize("name", MODELS)
def test_each_value_of_the_layers_is_pytorchs(name, tmp_path):
    """In float64; some networks compute parts in float32, as their code says."""
    program, inputs = exported(name, torch.float64)
    narrow = any(
        getattr(node.meta.get("val"), "dtype", None) is torch.float32
        for node in program.graph.nodes
    )
    found = values_apart(program, inputs, tmp_path, fused=True)
    wrong = {value: gap for value, gap in found.items() if not gap < (1e-5 if narrow else 1e-9)}
    assert found
    assert wrong == {}
