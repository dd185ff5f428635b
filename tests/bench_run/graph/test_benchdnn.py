"""Problem lines of benchdnn, and the graphs that a person expects of them."""

from __future__ import annotations

import pytest

from bench_run.cli import main

LINES = {
    # convolution
    "conv: mb32ic64ih56oc64oh56kh3ph1": "conv_fwd+bias_n32c64h56w56k64r3s3p1_float_nchw",
    "conv:mb32ic64ih56oc64oh56kh3ph1": "conv_fwd+bias_n32c64h56w56k64r3s3p1_float_nchw",
    'conv: ic3ih224oc64oh112kh7sh2ph3n"net:conv1"':
        "conv_fwd+bias_n2c3h224w224k64r7s7p3u2_float_nchw",
    "--conv --dir=FWD_D --dt=bf16 --stag=axb --dtag=axb mb2_ic16oc32_ih10oh8kh3ph0":
        "conv_fwd_n2c16h10w10k32r3s3_bfloat16_nhwc",
    'conv: --dir=FWD_D g32mb1ic32ih28oc32oh28kh3ph1n"depthwise"':
        "conv_fwd_n1c32h28w28k32r3s3p1g32_float_nchw",
    "conv: --dir=FWD_D mb1ic3id16ih32iw32oc8od16oh32ow32kd3kh3kw3pd1ph1pw1":
        "conv_fwd_n1c3d16h32w32k8t3r3s3p1_float_ncdhw",
    "conv: --dir=FWD_D mb1ic16iw100oc8ow98kw3": "conv_fwd_n1c16w100k8s3_float_ncw",
    "conv: --dir=FWD_D mb1_ic32oc32_ih41oh16kh10sh2ph0_iw79ow75kw5":
        "conv_fwd_n1c32h41w79k32r10s5u2x1_float_nchw",
    "conv: --dir=FWD_D mb1ic8ih15oc8oh5kh5sh3ph2_iw10ow10kw3":
        "conv_fwd_n1c8h15w10k8r5s3p2x1u3x1_float_nchw",
    "conv: --dir=FWD_D mb1ic8ih12oc8oh8kh3dh1": "conv_fwd_n1c8h12w12k8r3s3l2_float_nchw",
    "conv: --dir=BWD_D mb2ic8ih10oc16oh8kh3": "conv_dgrad_n2c8h10w10k16r3s3_float_nchw",
    "conv: --dir=BWD_WB mb2ic8ih10oc16oh8kh3": "conv_wgrad_n2c8h10w10k16r3s3_float_nchw",
    "conv: --attr-post-ops=sum+relu mb2ic8ih10oc16oh10kh3ph1":
        "conv_fwd+bias+add+relu_n2c8h10w10k16r3s3p1_float_nchw",
    "deconv: mb2ic8ih10oc16oh12kh3": "conv_dgrad_n2c16h12w12k8r3s3_float_nchw",
    "deconv: --dir=FWD_D mb2ic1234567iw4oc8ow4kw1": "conv_dgrad_n2c8w4k1234567s1_float_ncw",
    # matrix product
    'matmul: 64x128:128x256n"fc"': "matmul_m64n256k128_float_nn",
    "matmul: --dt=bf16:bf16:f32 --wtag=ba --bia-dt=f32 64x128:128x256":
        "matmul+bias_m64n256k128_bfloat16_nt",
    "matmul: --attr-post-ops=gelu_erf 12x64x128:12x128x64": "matmul+gelu_b12m64n64k128_float_nn",
    "matmul: --cfg=f16 24x10:10x40:24x40": "matmul_m24n40k10_half_nn",
    "matmul: mb2m10n1k30": "matmul_b2m10n1k30_float_nn",
    # pooling
    "pool: ic64ih112oh56kh3sh2ph0": "maxpool_n2c64h112w112r3q1u2_float_nchw",
    "pool: --alg=avg_p --dir=FWD_I mb2ic8ih14oh7kh2sh2": "avgpool_padded_n2c8h14w14r2_float_nchw",
    "pool: --alg=avg_np --dir=BWD_D mb2ic8ih14oh7kh2sh2": "avgpool_bwd_n2c8h14w14r2_float_nchw",
    "pool: mb16ic64_iw32ow16kw3sw2": "maxpool_n16c64w32r3q1u2_float_ncw",
    # normalisation
    "bnorm: --flags=CH mb2ic8ih14": "batchnorm_training_n2c8h14w14_float_nchw_eps0.0625",
    "bnorm: --flags=S ic16id12eps1e-05": "batchnorm_training_n2c16d12h12w12_float_ncdhw",
    "bnorm: --flags=GCH --dir=FWD_I mb2ic8ih14":
        "batchnorm_inference_variance_n2c8h14w14_float_nchw_eps0.0625",
    "bnorm: --flags=CHR mb2ic8ih14": "batchnorm_training+relu_n2c8h14w14_float_nchw_eps0.0625",
    "bnorm: --flags=CH --dir=BWD_DW mb2ic8ih14": "batchnorm_bwd_n2c8h14w14_float_nchw",
    "bnorm: --flags=CH mb16ic512": "batchnorm_training_n16c512h1w1_float_nchw_eps0.0625",
    "lnorm: --flags=CH 32x128x768": "layernorm_32x128x768_float_eps0.0625",
    "lnorm: --flags=CH --dir=BWD_DW --dt=bf16:bf16 2432x1024": "layernorm_bwd_2432x1024_bfloat16",
    "gnorm: --flags=CH g8mb2ic32ih14": "group_norm_n2c32h14w14_float_groups8_eps0.0625",
    # softmax, pointwise, reductions
    "softmax: --axis=2 --dt=f16 32x12x128": "softmax_32x12x128_half_axis2",
    "softmax: --alg=LOGSOFTMAX 128x1000": "log_softmax_128x1000_float_axis1",
    "softmax: --dir=BWD_D --axis=1 8x16": "softmax_bwd_8x16_float_axis1",
    "eltwise: 16x16x2x1": "relu_16x16x2x1_float",
    "eltwise: --alg=eltwise_relu --alpha=0.02 1x128x5": "leaky_relu_1x128x5_float_slope0.02",
    "eltwise: --alg=gelu_tanh --dir=BWD_D 16x4": "gelu_tanh_bwd_16x4_float",
    "eltwise: --alg=clip --alpha=1 --beta=1.5 3x4": "clip_3x4_float_low1_high1.5",
    "eltwise: --alg=tanh, \\\n  logistic_dst 4x4": "sigmoid_4x4_float",
    "binary: 5x3x2x9:1x3x2x9": "add_5x3x2x9_float_rhs1x3x2x9",
    "binary: 8x7x6:1x7": "add_8x7x6_float_rhs1x7x1",
    "binary: --alg=GE 3x4:3x4": "cmp_ge_3x4_float",
    "binary: --alg=DIV --attr-post-ops=relu 3x4:3x4": "div+relu_3x4_float",
    "reduction: --alg=mean 16x64x14x14:16x64x1x1": "reduce_avg_16x64x14x14_float_axes2x3",
    "reduction: --alg=norm_lp_sum --p=2 4x4:4x1": "reduce_norm2_4x4_float_axes1",
    "prelu: 4x16x3x4:1x16x1x1": "prelu_4x16x3x4_float",
    "resampling: --alg=linear mb2ic9ih4oh8": "resample_linear_n2c9h4w4_float",
    # what a person sees in a file
    "conv: --reset --dir=FWD_D mb1ic8ih4oc8oh4kh1 # a comment":
        "conv_fwd_n1c8h4w4k8r1s1_float_nchw",
}  # fmt: skip


def cases(*lines, capsys):
    words = [word for line in lines for word in ("--benchdnn", line)]
    code = main([*words, "--engine", "numpy", "--dry-run"])
    said = capsys.readouterr()
    return code, [line.split(" on ")[0] for line in said.out.splitlines() if " on " in line], said


@pytest.mark.parametrize("line", LINES)
def test_a_problem_is_the_graph_of_its_meaning(line, capsys):
    code, names, said = cases(line, capsys=capsys)
    assert code == 0, said.err
    assert names[-1] == LINES[line]


def test_lists_of_options_are_run_one_by_one(capsys):
    _, names, _ = cases("eltwise: --alg=relu,tanh --dir=FWD_D,BWD_D 4x4 8x8", capsys=capsys)
    assert len(names) == 8
    assert len(set(names)) == 8


def test_options_hold_until_they_are_reset(tmp_path, capsys):
    (tmp_path / "conv").mkdir()
    shapes = tmp_path / "conv" / "shapes"
    shapes.write_text("mb1ic8ih4oc8oh4kh1\n# nothing\n--reset\nmb1ic4ih4oc4oh4kh1\n")
    batch = tmp_path / "conv" / "test"
    batch.write_text("--dir=FWD_D\n--dt=f16\n--batch=shapes\n")
    _, names, _ = cases(str(batch), capsys=capsys)
    assert names == ["conv_fwd_n1c8h4w4k8r1s1_half_nchw", "conv_fwd+bias_n1c4h4w4k4r1s1_float_nchw"]


@pytest.mark.parametrize(("line", "reason"), [
    ("conv: mb2ih10", "a convolution needs ic, oc"),
    ("conv: mb2ic3ih10oc4zz3", "'zz3' is not a letter of conv"),
    ("conv: --batch=nothing", "no such file"),
    ("mb2 ic3", "no driver before it; choose from conv"),
    ("matmul: 2x3:4x5", "inner lengths differ: 3 and 4"),
    ("eltwise: --alg=rolu 3x4", "--alg=rolu; choose from relu"),
    ("softmax: --axis=4 3x4", "--axis=4 of 2 axes"),
    ("conv: --dir=SIDEWAYS mb2ic3ih10oc4kh3", "--dir=SIDEWAYS; choose from"),
    ("eltwise: --alg=linear 3x4", "linear with alpha and beta is not one operation"),
    ("conv: --attr-scales=src:common:2 mb2ic3ih10oc4kh3", "changes the values"),
    ("conv: --attr-post-ops=prelu:per_oc mb2ic3ih10oc4kh3", "post-op prelu:per_oc"),
    ("reduction: 4x4:4x2", "has the length 1 after the colon"),
    ("nothing_here", "No such file"),
    ("eltwise: --alg=elu --alpha=x 3x4", "could not convert string to float: 'x'"),
    ("softmax: --axis=last 3x4", "invalid literal"),
    ("conv: ic3ih8oc4kh3sh0", "by zero"),
])  # fmt: skip
def test_a_problem_that_is_no_graph_says_why(line, reason, capsys):
    code, names, said = cases(line, capsys=capsys)
    assert reason in said.err
    assert said.err.count("\n") == 1 or names
    assert code == 1 or names


def test_a_problem_runs_and_is_checked(tmp_path, capsys):
    out = tmp_path / "o.json"
    words = ["--benchdnn", "pool: mb1ic2ih6oh3kh2sh2", "--engine", "numpy", "--rounds", "1"]
    assert main([*words, "--iters", "3", "-o", str(out)]) == 0
    assert "PASSED" in capsys.readouterr().out


@pytest.mark.parametrize("op", [
    "group_norm: n=2 c=8 h=5 w=6 groups=4", "resample: n=2 c=3 h=4 w=5 scale=3",
    "resample_linear: n=2 c=3 h=4 w=5 scale=3", "prelu: dims=2x8x5x6", "prelu: dims=4x8",
])  # fmt: skip
def test_the_operators_of_these_problems_agree_with_pytorch(op, capsys):
    pytest.importorskip("torch")
    assert main(["--op", op, "--engine", "torch", "--rounds", "1", "--iters", "3"]) == 0
    assert "PASSED" in capsys.readouterr().out
