"""`python -m codl` is the command `codl`."""

import sys

from codl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
