"""What is sent: scripted failures in several manners of arrival, side by side in one log; a time away of ingest; a mark at the end."""

import random
from collections.abc import Iterator
from typing import Final

import msgspec

from firstfault_server.core import model
from tests.property.cases import CASES
from tests.property.scripts import Arrival, Script, at
from tests.unit.detect.recordings import Record, recording

NAMES: Final = ("exception", "sigkill", "oom kill", "nan on one rank", "xid", "config error", "same failure again")
MANNERS: Final = ("in order", "shuffled", "late", "twice")
AWAY: Final = (100.0, 60.0)
"""Start and length of the time in which nothing is received; the scripted failures are over before it."""
STEADY: Final = "steady"
MARK: Final = "mark"
END: Final = 225.0


def stream() -> list[Record]:
    """All records, in order of receipt."""
    found = [record for name in NAMES for manner in MANNERS for record in _played(name, manner) if record.key]
    found += [record for record in recording(renamed(_steady(), STEADY), END, outage=AWAY) if record.key]
    found += [record for record in recording(renamed(_mark(), MARK), END) if record.key]
    found += [Record(at(30) // 1_000_000 + i, f"{STEADY}/broken", "logs", b"\xff\xff%d" % i) for i in range(3)]
    found += recording(Script(), END, outage=AWAY)
    return sorted(found, key=lambda record: record.received_ms)


def tenant(name: str, manner: str) -> str:
    """Each failure has a tenant of its own, so that its history does not depend on the others."""
    return f"{name}, {manner}".replace(" ", "-")


def renamed(script: Script, owner: str) -> Script:
    """The script as that of another tenant, on nodes of its own."""
    for i, (when, batch) in enumerate(script.sent):
        who = batch.identity
        who = msgspec.structs.replace(
            who,
            tenant=owner if who.role != "node_agent" else "ops",
            process=f"{owner}-{who.process}",
            run=f"run-of-{owner}" if who.run else "",
            cluster=owner,
        )
        script.sent[i] = (when, msgspec.structs.replace(batch, identity=who))
    return script


def _played(name: str, manner: str) -> list[Record]:
    case = next(case for case in CASES if case.name == name)
    script = renamed(case.build(), tenant(name, manner))
    if manner == "late":
        script.sent = list(_delayed(script))
    arrival = Arrival(jitter_s=2.5 if manner == "shuffled" else 0.0, repeats=0.5 if manner == "twice" else 0.0, seed=len(name))
    return recording(script, case.until, arrival)


def _delayed(script: Script) -> Iterator[tuple[float, model.Batch]]:
    """Some numbers come later than what the service waits for."""
    chance = random.Random(1)
    for when, batch in script.sent:
        yield (when + 33.0 if batch.series and chance.random() < 0.1 else when), batch


def _steady() -> Script:
    """A job that nothing happens to."""
    script = Script(3, nodes=2)
    script.train(0, END)
    return script


def _mark() -> Script:
    """The last failure of all: once its incident has settled, everything before it was worked off."""
    script = Script(1)
    step = script.train(200, 205)
    script.exception(206, 0, "ValueError", "the end", step=step)
    script.exit(206.2, 0, "failed", code=1)
    return script
