"""A process that uses the stand-in until its input ends; says the address first."""

import sys
from pathlib import Path

from deploy.native.servers.shared import shared

with shared("stand-in", Path(sys.argv[1]), keeper="tests.integration.servers.standin") as address:
    print(address, flush=True)
    sys.stdin.read()
