"""Which translation each ONNX operator has."""

from codl.frontend import activations, linear, normalization, pooling, resizing, shaping
from codl.frontend.draft import Translations

TRANSLATIONS: Translations = {
    **activations.TRANSLATIONS,
    **linear.TRANSLATIONS,
    **normalization.TRANSLATIONS,
    **pooling.TRANSLATIONS,
    **resizing.TRANSLATIONS,
    **shaping.TRANSLATIONS,
}
"""ONNX operator -> its translation."""
