"""Appends numbered entries to a file log and prints each number once it is acknowledged; runs until it is killed."""

import asyncio
import sys
from pathlib import Path

from firstfault_server.adapters.filelog import FileLog
from firstfault_server.ports import LogEntry


async def main(folder: Path, first: int) -> None:
    """Several senders at once, as the receivers are."""
    log = FileLog(folder, segment_bytes=200_000)
    numbers = iter(range(first, 1 << 60))

    async def sender() -> None:
        for number in numbers:
            body = number.to_bytes(8, "big") * (1 + number % 200)
            await log.append([LogEntry(tenant="t", process="p", signal="logs", received_ns=number, body=body)])
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()

    await asyncio.gather(*(sender() for _ in range(8)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
