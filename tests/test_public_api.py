"""The exported names exist, are documented, and are all there is."""

import inspect
from types import ModuleType
from typing import Any

import pytest

import codl


@pytest.mark.parametrize("name", codl.__all__)
def test_exported_name_exists_and_is_documented(name: str) -> None:
    exported = getattr(codl, name)

    assert inspect.getdoc(exported), name


@pytest.mark.parametrize("name", codl.__all__)
def test_public_members_are_documented(name: str) -> None:
    exported = getattr(codl, name)
    if not inspect.isclass(exported) or issubclass(exported, Exception):
        pytest.skip("not a class with members of its own")
    own = {key: value for key, value in vars(exported).items() if not key.startswith("_")}

    undocumented = [key for key, value in own.items() if callable(value) and not inspect.getdoc(value)]

    assert not undocumented


def test_nothing_else_is_public() -> None:
    assert all(hasattr(codl, name) for name in codl.__all__)  # which imports them
    public = {
        name
        for name, value in vars(codl).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and value is not Any
    }

    assert public | {"capi"} == set(codl.__all__)


def test_exports_are_sorted_and_unique() -> None:
    assert list(codl.__all__) == sorted(set(codl.__all__))


def test_every_error_derives_from_one_base() -> None:
    errors = [getattr(codl, name) for name in codl.__all__ if name.endswith("Error")]

    assert errors
    assert all(issubclass(error, codl.CodlError) for error in errors)
