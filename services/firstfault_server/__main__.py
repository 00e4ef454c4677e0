"""`python -m firstfault_server COMMAND …`: the server's commands without the console script."""

import sys
from collections.abc import Sequence

from firstfault_server.cli import commands


def main(argv: Sequence[str]) -> int:
    """Run one command; returns the exit status."""
    known = commands()
    if not argv or argv[0] not in known:
        sys.stderr.write(f"firstfault: name a command: {', '.join(sorted(known))}\n")
        return 2
    return known[argv[0]].main(list(argv[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
