"""Energy of a processor's packages, from RAPL's counters in ``/sys/class/powercap``.

Intel and AMD processors count microjoules of each package, the whole of it: what other programs use
is in it. Most systems let only root read the counters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path("/sys/class/powercap")


@dataclass
class RaplCounter:
    """Energy of all packages since the first reading; a counter that wraps goes on."""

    root: Path = ROOT
    last_uj: dict[str, int] = field(default_factory=dict)
    total_uj: int = 0

    def packages(self) -> list[Path]:
        """Return the zones of whole packages; those below them are parts."""
        zones = sorted(self.root.glob("intel-rapl:*"))
        return [zone for zone in zones if zone.name.count(":") == 1 and _is_package(zone)]

    def energy_mj(self) -> float | None:
        """Return millijoules; None if no package's counter can be read."""
        packages = self.packages()
        try:
            readings = {zone.name: _number(zone / "energy_uj") for zone in packages}
            for zone in packages:
                now, last = readings[zone.name], self.last_uj.get(zone.name)
                if last is not None:
                    wrapped = now < last
                    largest = _number(zone / "max_energy_range_uj") if wrapped else 0
                    self.total_uj += now - last + largest
            self.last_uj.update(readings)
        except (OSError, ValueError):
            return None
        return self.total_uj / 1000 if packages else None

    def problem(self) -> str | None:
        """Return the reason why energy cannot be read; None if it can."""
        packages = self.packages()
        if not packages:
            return f"{self.root} has no package of RAPL"
        try:
            _number(packages[0] / "energy_uj")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            return f"{packages[0] / 'energy_uj'}: {reason}"
        return None


def _is_package(zone: Path) -> bool:
    try:
        return (zone / "name").read_text(encoding="utf-8").startswith("package")
    except OSError:
        return False


def _number(path: Path) -> int:
    return int(path.read_text(encoding="utf-8"))


@cache
def counter() -> RaplCounter:
    """Return the counter of this host, which every reader shares."""
    return RaplCounter()
