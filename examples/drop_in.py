"""A program written for onnxruntime, under codl: only the import differs.

Example:
    python examples/drop_in.py model.onnx
"""

import sys

import numpy as np

import codl as onnxruntime


def main() -> None:
    """Run a model on random inputs and print the shapes of its outputs."""
    session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds = {}
    for declared in session.get_inputs():
        shape = [side if isinstance(side, int) else 1 for side in declared.shape]
        feeds[declared.name] = rng.standard_normal(shape, np.float32)
    for declared, value in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        print(declared.name, value.shape)


if __name__ == "__main__":
    main()
