"""`python -m rlher`."""

import sys

from rlher.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
