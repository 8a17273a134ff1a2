"""Names that are imported when they are first used."""

import subprocess
import sys

import pytest

import codl
import codl.session


@pytest.mark.parametrize("package", [codl, codl.session])
def test_every_name_has_a_home(package: object) -> None:
    assert [name for name in package.__all__ if not hasattr(package, name)] == []  # type: ignore[attr-defined]


def test_functions_named_like_packages_stay_functions() -> None:
    script = "import codl, codl.devices.opencl, codl.plan.steps; codl.plan.__call__; codl.devices.__call__"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="'codl' has no attribute 'nothing'"):
        _ = codl.nothing
    with pytest.raises(AttributeError, match=r"'codl\.session' has no attribute 'nothing'"):
        _ = codl.session.nothing
