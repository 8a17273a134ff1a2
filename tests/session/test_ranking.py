"""Which driver of a processor is the default."""

from dataclasses import replace

import pytest

from codl.devices.drivers import devices, rank_without_profile
from codl.latency.profile import DeviceProfile
from codl.machine import DeviceInfo
from codl.session import ranking
from tests.latency.profiles import make_profile

SLOWER = 3.0


def scale(profile: DeviceProfile, factor: float) -> DeviceProfile:
    rows = {name: replace(row, model=row.model.scaled({}, factor)) for name, row in profile.rows.items()}
    return replace(profile, rows=rows)


def test_faster_profile_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = devices()
    slow = {first.name: SLOWER}
    monkeypatch.setattr(
        ranking, "find_profile", lambda info: scale(make_profile(info), slow.get(info.name, 1.0))
    )

    peers = [one for one in others if one.processor == first.processor]
    for peer in peers:
        assert ranking.rank_by_profile(peer) < ranking.rank_by_profile(first)


def test_known_order_holds_as_long_as_one_driver_has_no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    known = devices()[0].name

    def find(info: DeviceInfo) -> DeviceProfile | None:
        return make_profile(info) if info.name == known and len(devices()) > 1 else None

    monkeypatch.setattr(ranking, "find_profile", find)

    for info in devices():
        assert ranking.rank_by_profile(info) == rank_without_profile(info)
