"""What latency models are bound to: the code of a kernel, and the version of the features."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from codl.catalog import source
from codl.catalog.epilogue import CODES
from codl.catalog.source import digest_row, read_source
from codl.catalog.spec import Implementation
from codl.catalog.table import IMPLEMENTATIONS, PAIRS
from codl.latency.features import VERSION
from tests.catalog.nodes import device_info
from tests.latency.profiles import make_profile

ROW = IMPLEMENTATIONS[0]


def digest_edited(row: Implementation, edit: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the digest of a kernel whose source is edited."""
    source.digest_sources.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(source, "read_source", lambda *names: edit(read_source(*names)))
        found = digest_row(row)
    source.digest_sources.cache_clear()
    return found


@pytest.mark.parametrize("row", [*IMPLEMENTATIONS, *PAIRS], ids=lambda row: row.name)
@pytest.mark.parametrize(
    "edit",
    [
        lambda text: "// A comment in front.\n" + text,
        lambda text: "/* Over\n   two lines. */\n" + text,
        lambda text: text.replace(";\n", ";  // said\n"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.replace("    ", "  "),
        lambda text: text.replace(";\n", ";   \n"),
    ],
    ids=["line comment", "block comment", "comments behind", "empty lines", "indents", "trailing space"],
)
def test_comments_and_white_space_change_no_digest(
    row: Implementation, edit: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert digest_edited(row, edit, monkeypatch) == digest_row(row)


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace("+=", "-=", 1) if "+=" in text else text.replace("=", "= 0 +", 1),
        lambda text: text + "#define MORE 1\n",
        lambda text: text[text.index("{") :],
    ],
    ids=["operator", "define", "less"],
)
def test_code_changes_the_digest(edit: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert digest_edited(ROW, edit, monkeypatch) != digest_row(ROW)


def test_included_code_changes_the_digest() -> None:
    assert "#include" not in read_source(ROW.source)
    assert len({digest_row(row) for row in IMPLEMENTATIONS}) > len(IMPLEMENTATIONS) // 2


def test_models_are_of_kernels_and_features_as_they_are() -> None:
    row = make_profile(device_info(8)).rows[ROW.name]

    assert row.is_of(ROW.name)
    assert not replace(row, digest="0" * 16).is_of(ROW.name)
    assert not replace(row, version=VERSION + 1).is_of(ROW.name)


def test_stale_kernels_are_those_without_a_model_and_those_of_another_source() -> None:
    fresh = make_profile(device_info(8))
    changed, older, lost, *_ = (row.name for row in IMPLEMENTATIONS if row.suits(fresh.info))
    rows = {name: row for name, row in fresh.rows.items() if name != lost}
    rows[changed] = replace(rows[changed], digest="older")
    rows[older] = replace(rows[older], version=VERSION - 1)

    assert fresh.find_stale() == ()
    assert set(replace(fresh, rows=rows).find_stale()) == {changed, older, lost}


def test_fingerprint_tells_profiles_apart() -> None:
    one = make_profile(device_info(8))
    row = one.rows[ROW.name]

    others = [
        replace(one, wait_us=one.wait_us + 1),
        one.with_rows({ROW.name: replace(row, model=row.model.scaled({}, 2.0))}),
        one.with_rows({ROW.name: replace(row, version=VERSION + 1)}),
        replace(one, neighbours={}),
    ]

    assert len({profile.fingerprint for profile in (one, *others)}) == 5
    assert replace(one, date="another").fingerprint == one.fingerprint


def test_another_activation_changes_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    more = {**source._GENERATED, "common/codes.h": CODES + "#define ACTIVATION_CUBE 99\n"}
    before = {row.name: digest_row(row) for row in IMPLEMENTATIONS}
    source.digest_sources.cache_clear()
    source.read_source.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(source, "_GENERATED", more)
        after = {row.name: digest_row(row) for row in IMPLEMENTATIONS}
        assert "ACTIVATION_CUBE" in read_source(ROW.source)
    source.read_source.cache_clear()
    assert after == before
