"""An activation has a branch in the kernels and a word in the documents, besides its entry in the table."""

import re

import pytest

from codl.assets import kernels_dir
from codl.ir.ops import FUNCTIONS, ActivationKind
from tests.processes import ROOT

LAST = ActivationKind.ERF
"""What kernels/common/activate.h computes where no branch has returned before."""


@pytest.mark.parametrize("kind", [kind for kind in ActivationKind if kind is not LAST])
def test_activation_has_a_branch_in_kernels(kind: ActivationKind) -> None:
    source = (kernels_dir() / "common" / "activate.h").read_text(encoding="utf-8")

    assert re.search(rf"\bACTIVATION_{kind.name}\b", source), f"common/activate.h lacks {kind}"


def test_plain_activations_come_first_as_kernels_expect() -> None:
    plain = [kind for kind, function in FUNCTIONS.items() if function.is_plain]

    assert plain == list(FUNCTIONS)[: len(plain)]
    source = (kernels_dir() / "common" / "plain.h").read_text(encoding="utf-8")
    assert f"activation <= ACTIVATION_{plain[-1].name}" in source


@pytest.mark.parametrize("kind", ActivationKind)
def test_activation_is_documented(kind: ActivationKind) -> None:
    page = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")

    assert re.search(rf"\b{FUNCTIONS[kind].operator}\b", page), f"docs/operators.md lacks {kind}"
