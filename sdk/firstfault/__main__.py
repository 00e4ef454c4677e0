"""`python -m firstfault`: the console script, for environments where it is not on the path."""

import sys

from firstfault.cli import main

if __name__ == "__main__":
    sys.exit(main())
