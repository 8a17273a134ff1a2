"""The error of a model that codl cannot prepare, though ONNX Runtime may run it as it is declared."""

from codl.errors import ModelError


class RefusedError(ModelError):
    """A model that codl cannot prepare: by ONNX's rules, or since a library refuses what codl made of it."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason
        """Text for users, without the model's name and without advice."""

    @classmethod
    def by(cls, library: str, error: Exception, *, label: str) -> "RefusedError":
        """Return the error of a model that a library refuses."""
        reason = f"{library} refuses it ({' '.join(str(error).split())})"
        return cls(
            f"{label}: got a model, but {reason}, expected a valid one; correct or export it again",
            reason=reason,
        )
