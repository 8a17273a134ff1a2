"""Valid, odd, hostile and damaged models in processes of their own: right numbers or a CodlError."""

import pytest

from tests.hostile.campaign import run_campaign
from tests.hostile.case import FAMILIES
from tests.hostile.families import make_case, name_cases

FEW = 60
MANY = 1000


def test_a_case_is_made_again_from_its_name() -> None:
    for name in name_cases(8, seed=3):
        first, second = make_case(name), make_case(name)
        assert first.content == second.content
        assert {key: value.tobytes() for key, value in first.feeds.items()} == {
            key: value.tobytes() for key, value in second.feeds.items()
        }


def test_every_family_is_there() -> None:
    names = name_cases(MANY, seed=1)
    assert len(set(names)) == MANY
    assert all(sum(name.startswith(family) for name in names) >= MANY // 5 for family in FAMILIES)
    assert name_cases(FEW, seed=1) == names[:FEW]


@pytest.mark.timeout(1800)
def test_a_few_models_do_no_harm() -> None:
    names = name_cases(FEW, seed=1)
    assert list(map(str, run_campaign(names).faults)) == []


@pytest.mark.heavy
@pytest.mark.timeout(7200)
def test_many_models_do_no_harm() -> None:
    campaign = run_campaign(name_cases(MANY, seed=1))
    print(f"\n{campaign.count()}")
    assert list(map(str, campaign.faults)) == []
