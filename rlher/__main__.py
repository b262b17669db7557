"""`python -m rlher`."""

import os
import sys

if sys.path[:1] == [os.getcwd()]:  # `python -m` puts the current folder first, where any module could lie
    del sys.path[0]

from rlher.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
