#!/usr/bin/env python3
"""Exit status 0 when a health address answers 200: the first argument, else HEALTH_URL. For images without curl."""

import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence

TIMEOUT_S = 4.0


def main(arguments: Sequence[str]) -> int:
    """Exit status."""
    address = arguments[0] if arguments else os.environ.get("HEALTH_URL", "")
    if not address.startswith("http://"):
        print("healthy: needs an http:// address", file=sys.stderr)
        return 2
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_S):
            return 0
    except (OSError, urllib.error.URLError) as error:
        print(f"healthy: {address}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
