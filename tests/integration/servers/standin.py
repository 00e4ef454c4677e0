"""A keeper whose server is a file: started and stopped in no time, it shows what happened to it."""

import os
import sys
import time
from pathlib import Path

from deploy.native.servers import ServerFailed, shared


class StandIn:
    """`server` exists while it runs; `../starts` has a line for each start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.address = f"{folder}/{os.getpid()}"

    def start(self) -> None:
        if (self._folder.parent / "broken").exists():
            raise ServerFailed("it is broken")
        self._folder.mkdir()
        with (self._folder.parent / "starts").open("a") as starts:
            starts.write(f"{time.monotonic()}\n")

    def stop(self) -> None:
        (self._folder.parent / "stopped").touch()


if __name__ == "__main__":
    sys.exit(shared.main(servers={"stand-in": StandIn}))
