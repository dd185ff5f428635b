"""Energy of a processor, from a tree of files such as the kernel's. Not yet run on hardware."""

import pytest

from bench_run.machine.rapl import RaplCounter


@pytest.fixture
def root(tmp_path):
    for zone, name in (
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0:0", "core"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:2", "psys"),
    ):
        (tmp_path / zone).mkdir()
        (tmp_path / zone / "name").write_text(f"{name}\n")
        (tmp_path / zone / "max_energy_range_uj").write_text("1000000\n")
        set_uj(tmp_path, zone, 500_000)
    return tmp_path


def set_uj(root, zone, value):
    (root / zone / "energy_uj").write_text(f"{value}\n")


def test_packages_are_added_and_their_parts_are_not(root):
    counter = RaplCounter(root)
    assert counter.energy_mj() == 0
    set_uj(root, "intel-rapl:0", 600_000)
    set_uj(root, "intel-rapl:1", 530_000)
    set_uj(root, "intel-rapl:0:0", 590_000)
    assert counter.energy_mj() == 130


def test_a_counter_that_wraps_goes_on(root):
    counter = RaplCounter(root)
    counter.energy_mj()
    set_uj(root, "intel-rapl:0", 100_000)
    assert counter.energy_mj() == 600


def test_a_counter_that_cannot_be_read_says_which(root):
    (root / "intel-rapl:0" / "energy_uj").unlink()
    counter = RaplCounter(root)
    assert counter.energy_mj() is None
    assert counter.problem() == f"{root}/intel-rapl:0/energy_uj: No such file or directory"


def test_a_host_without_rapl_says_so(tmp_path):
    assert RaplCounter(tmp_path).problem() == f"{tmp_path} has no package of RAPL"
