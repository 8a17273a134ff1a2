"""What another library said no to: ONNX Runtime, or ONNX's shape inference."""

from codl.errors import ModelError


class RefusedError(ModelError):
    """A library refuses what codl made of a model; ONNX Runtime may run the model as it is declared."""

    def __init__(self, label: str, *, who: str, error: Exception) -> None:
        self.reason = f"{who} refuses it ({' '.join(str(error).split())})"
        """For people, without the model and without advice."""
        super().__init__(
            f"{label}: got a model, but {self.reason}, expected a valid one; correct or export it again"
        )
