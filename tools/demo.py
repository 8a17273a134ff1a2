"""Sets up `.venv`, then computes ResNet-50 on two OpenCL devices at once and compares with ONNX Runtime.

Example:
    python3 tools/demo.py
"""

import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036  (the one line that an older Python gets to see)
    FOUND = f"{sys.version_info[0]}.{sys.version_info[1]}"
    sys.stderr.write(f"Python {FOUND} is too old. What to do: start it with Python 3.11 or newer\n")
    sys.exit(2)

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.setup_env import enter_environment  # noqa: E402

if __name__ == "__main__":
    enter_environment(__file__, sys.argv[1:])
    from tools.show_resnet import main

    sys.exit(main(sys.argv[1:]))
