"""`python -m firstfault_server.offline explain|group …`: the offline commands without the rest of the command line."""

import sys

from firstfault_server.offline.commands import explain_main, group_main

COMMANDS = {"explain": explain_main, "group": group_main}

if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in COMMANDS:
        print(f"usage: python -m firstfault_server.offline {'|'.join(COMMANDS)} FILE…", file=sys.stderr)
        raise SystemExit(2)
    raise SystemExit(COMMANDS[name](sys.argv[2:]))
