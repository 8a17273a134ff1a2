"""Which translation each ONNX operator has."""

from codl.frontend import activations, linear, normalization, pooling, resizing, shaping, transposed
from codl.frontend.draft import Translations

TRANSLATIONS: Translations = {
    **activations.TRANSLATIONS,
    **linear.TRANSLATIONS,
    **normalization.TRANSLATIONS,
    **pooling.TRANSLATIONS,
    **resizing.TRANSLATIONS,
    **shaping.TRANSLATIONS,
    **transposed.TRANSLATIONS,
}
"""ONNX operator -> its translation."""
