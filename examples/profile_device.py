"""Profiles a device for a minute, and plans a model by what was measured.

Example:
    python examples/profile_device.py intel-cpu model.onnx
"""

import subprocess
import sys


def main() -> None:
    """Run `codl profile` and `codl plan` one after the other."""
    device, model = sys.argv[1:]
    for command in (
        ("profile", "--device", device, "--budget", "60s"),
        ("plan", model, "--devices", device),
    ):
        subprocess.run([sys.executable, "-m", "codl", *command], check=True)


if __name__ == "__main__":
    main()
