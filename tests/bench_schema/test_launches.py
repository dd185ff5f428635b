"""Launches of kernels in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench_schema.document import Kernel, Launch
from bench_schema.launches import launch_changes, launch_text, library_of, library_shares

PLAIN = Launch((128, 1, 1), (256, 1, 1), (0, 0, 0), 168, 0, 0, 0, 0.25)


def test_what_there_is_none_of_is_left_out():
    assert launch_text(PLAIN) == "grid 128, block 256, registers 168, occupancy 25%"


def test_everything_is_told_of_a_kernel_that_has_everything():
    launch = Launch((4, 2, 3), (32, 4, 1), (2, 1, 1), 255, 1024, 2048, 96, 0.125)
    expected = (
        "grid 4x2x3, block 32x4, cluster 2, registers 255, shared memory 3072 B, spills 96 B, "
        "occupancy 12%"
    )
    assert expected == launch_text(launch)


def test_what_moved_is_named_with_both_values():
    other = replace(PLAIN, registers=255, local_bytes=96)
    expected = [("registers", "168", "255"), ("spills", "0", "96 B")]
    assert expected == launch_changes(PLAIN, other)


def test_equal_launches_have_nothing_to_tell():
    assert [] == launch_changes(PLAIN, replace(PLAIN))


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopA_NNN", "cuBLAS"),
        ("sm90_xmma_fprop_implicit_gemm_f16f16_f16f32", "cuDNN"),
        ("cudnn_generated_fort_native_sdpa_sm90_knob_31", "cuDNN"),
        ("void at::native::vectorized_elementwise_kernel<4>", "ATen"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm>", "CUTLASS"),
        ("Cijk_Ailk_Bljk_HHS_BH", "Tensile"),
        ("triton_poi_fused_gelu_0", "Triton"),
        ("my_kernel", None),
    ],
)
def test_the_library_is_read_from_the_name_of_a_kernel(name, library):
    assert library == library_of(name)


def test_shares_are_of_the_time_of_an_iteration():
    kernels = (Kernel("mine", 1, 100.0), Kernel("void at::native::copy", 3, 100.0))
    assert {"ATen": 0.75} == library_shares(kernels)
