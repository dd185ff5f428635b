"""Engine specs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench_run.engines.base import EngineSpec
from bench_run.engines.spec import parse_spec, refuse_unknown
from bench_run.errors import UsageError

GOOD = {
    "numpy": EngineSpec("numpy", "numpy"),
    "torch:cpu": EngineSpec("torch:cpu", "torch", "cpu"),
    "torch:cuda:1": EngineSpec("torch:cuda:1", "torch", "cuda:1"),
    "torch:cuda+compile": EngineSpec("torch:cuda+compile", "torch", "cuda", ("compile",)),
    "torch+a+b": EngineSpec("torch+a+b", "torch", None, ("a", "b")),
    "numpy:MIOPEN_ENGINE@/a path/with@sign/x.so": EngineSpec(
        "numpy:MIOPEN_ENGINE@/a path/with@sign/x.so",
        "numpy",
        "MIOPEN_ENGINE",
        (),
        "/a path/with@sign/x.so",
    ),
    "numpy:plan=eng5_k2=1": EngineSpec("numpy:plan=eng5_k2=1", "numpy", "plan=eng5_k2=1"),
    "numpy@lib+x.so": EngineSpec("numpy@lib+x.so", "numpy", None, (), "lib+x.so"),
}


@pytest.mark.parametrize("text", GOOD)
def test_a_spec_is_read_into_its_parts(text):
    assert GOOD[text] == parse_spec(text)


@pytest.mark.parametrize("text", ["", ":cpu", "numpy:", "numpy+", "numpy@", "+x", "a b"])
def test_what_is_no_spec_is_refused_with_its_text(text):
    with pytest.raises(UsageError, match="--engine") as caught:
        parse_spec(text)
    assert repr(text) in str(caught.value)


def test_an_unknown_engine_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="no engine 'nupmy'; did you mean numpy"):
        parse_spec("nupmy:0")


def test_an_option_the_engine_does_not_have_is_refused_with_its_options():
    with pytest.raises(UsageError, match=r"'turbo'; choose from compile"):
        refuse_unknown(parse_spec("torch+turbo"), options=("compile",))


def test_a_plugin_path_is_refused_where_there_are_no_plugins():
    with pytest.raises(UsageError, match="has no plugin path"):
        refuse_unknown(parse_spec("numpy@/x.so"), options=())


def test_parsing_a_spec_loads_neither_numpy_nor_torch():
    program = (
        "import sys; from bench_run.engines.spec import parse_spec; parse_spec('torch:cuda');"
        "print(sorted({'numpy', 'torch'} & set(sys.modules)))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "[]" == found.stdout.strip()


@pytest.mark.parametrize("text", ["cudnn:62+knob:x", "cudnn:62+knob:=1", "cudnn:62+knob:x="])
def test_half_a_knob_is_refused(text):
    with pytest.raises(UsageError, match=r"expected KEY=VALUE after \+knob:"):
        parse_spec(text)


def test_knobs_of_a_spec_are_values_for_cudnn_too():
    spec = parse_spec("cudnn:62+knob:TILE_SIZE=2+knob:k2=0+device=1")
    assert ({"TILE_SIZE": "2", "k2": "0"}, 1, ()) == (spec.knobs, spec.device, spec.options)


def test_an_engines_name_may_hold_a_colon():
    assert (
        "hipkernel:Gfx950AttentionDense"
        == parse_spec("hipdnn:hipkernel:Gfx950AttentionDense+knob:a=1").id
    )
