"""What ships of devices outlives edits of kernels, if their launches count as before."""

import json
import shutil
from pathlib import Path

import pytest

from codl.latency.files import PREDICTORS_FILE, load_profile, save_profile
from tests.catalog.nodes import device_info
from tests.latency.profiles import make_profile
from tools.renew_profiles import Counted, carry_choices, preprocess, renew

ROW = "conv2d_gemm__buffer"
FEATURES = "of features"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_profile(make_profile(device_info(8)), tmp_path)
    return tmp_path


def _count(digest: str, source: str, features: str = FEATURES) -> Counted:
    return {ROW: [digest, source, features]}


@pytest.mark.parametrize(
    ("now", "carry", "is_renewed", "is_carried"),
    [
        (("new", "source", FEATURES), False, True, False),
        (("new", "source", FEATURES), True, True, False),
        (("new", "edited", FEATURES), False, False, False),
        (("new", "edited", FEATURES), True, True, True),
        (("new", "source", "others"), True, False, False),
    ],
    ids=["same", "same-carry", "edited", "edited-carry", "counted-otherwise"],
)
def test_row_is_renewed_or_carried_where_it_counts_as_before(
    folder: Path, now: tuple[str, str, str], carry: bool, is_renewed: bool, is_carried: bool
) -> None:
    before = load_profile(folder)
    digest = before.rows[ROW].digest

    renew(folder / PREDICTORS_FILE, (ROW,), _count(digest, "source"), _count(*now), carry=carry)

    after = load_profile(folder)
    assert after.rows[ROW].digest == ("new" if is_renewed else digest)
    assert after.find_carried() == ((ROW,) if is_carried else ())
    assert after.rows[ROW].model == before.rows[ROW].model
    assert {name for name in after.rows if after.rows[name] != before.rows[name]} <= {ROW}


def test_what_was_carried_stays_so(folder: Path) -> None:
    digest = load_profile(folder).rows[ROW].digest
    path = folder / PREDICTORS_FILE

    renew(path, (ROW,), _count(digest, "source"), _count("one", "edited"), carry=True)
    renew(path, (ROW,), _count("one", "edited"), _count("two", "again"), carry=True)

    row = load_profile(folder).rows[ROW]
    assert (row.digest, row.is_carried) == ("two", True)


@pytest.mark.skipif(shutil.which("cpp") is None, reason="no C preprocessor")
def test_kernels_are_compared_as_they_are_compiled() -> None:
    narrow, wide, fetching = (
        preprocess("conv2d/conv2d_gemm__buffer.cl", {"NR": nr, "VECTOR": 8, "FETCH": fetch})
        for nr, fetch in ((8, 0), (16, 0), (16, 1))
    )
    assert len({narrow, wide, fetching}) == 3
    assert "//" not in narrow
    assert "prefetch" in fetching
    assert "prefetch" not in wide
    assert "ALIGNED_LOOP for" in narrow


def test_choices_of_edited_kernels_stay(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    path.write_text('{\n  "implementations": {\n    "a": "1",\n    "b": "2"\n  }\n}')

    carry_choices(path, {"a": "1", "b": "older"}, {"a": "new", "b": "newer"})

    assert json.loads(path.read_text())["implementations"] == {"a": "new", "b": "2"}
