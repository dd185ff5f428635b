"""``--settle``: a device comes into its window, and a reader hears where it could not."""

from __future__ import annotations

from bench_run.measure.observers.settle import Look, Settler


class Device:
    """Gets warmer by work and colder by rest; its time is its own."""

    def __init__(self, temperature_c, warmer=0.5, colder=0.5, clocks=(1980.0,)):
        self.at_s, self.temperature_c = 0.0, temperature_c
        self.warmer, self.colder, self.clocks, self.runs = warmer, colder, clocks, 0

    def look(self):
        clock = self.clocks[int(self.at_s) % len(self.clocks)]
        return Look(self.at_s, self.temperature_c, clock)

    def run(self):
        self.at_s += 0.1
        self.runs += 1
        self.temperature_c += self.warmer

    def sleep(self, seconds):
        self.at_s += seconds
        if self.temperature_c > 55:
            self.temperature_c -= self.colder

    def settler(self):
        return Settler(50.0, 60.0, self.look, self.sleep)


def test_a_cold_device_works_until_it_is_warm():
    device = Device(30.0)
    assert device.settler().settle(device.run) is None
    assert (device.runs, 50.0 <= device.temperature_c <= 60.0) == (40, True)


def test_a_hot_device_rests_until_it_is_cool():
    device = Device(80.0)
    assert device.settler().settle(device.run) is None
    assert (device.runs, device.temperature_c <= 60.0) == (0, True)


def test_the_clock_is_watched_for_ten_seconds():
    device = Device(55.0)
    device.settler().settle(device.run)
    assert 10.0 <= device.at_s < 10.3


def test_the_next_case_does_not_wait_again():
    device = Device(55.0)
    settler = device.settler()
    settler.settle(device.run)
    before = device.at_s
    assert settler.settle(device.run) is None
    assert device.at_s == before


def test_a_window_that_is_not_reached_is_told():
    device = Device(30.0, warmer=0.0)
    assert device.settler().settle(device.run) == ("--settle: 30 degrees after 120 s, not 50 to 60")


def test_a_clock_that_moves_is_told():
    device = Device(55.0, clocks=(1980.0, 1900.0))
    assert device.settler().settle(device.run) == (
        "--settle: the clock moved from 1900 to 1980 MHz in the last of 120 s"
    )


def test_a_device_without_a_thermometer_is_not_waited_for():
    device = Device(None)
    assert device.settler().settle(device.run) == (
        "--settle: the device does not tell its temperature"
    )
