"""Ids as people type them: the beginning of an incident's id stands for it while no other begins so."""

from typing import Final

from firstfault_server.cli import terminal
from firstfault_server.cli.client import EVERYTHING, Client, segment

SHORTEST: Final = 6
"""Characters that the beginning of an id must have; fewer are taken for an id."""
WHOLE: Final = 32
"""Characters of a whole id."""


def incident_id(client: Client, text: str) -> str:
    """The id that begins with a text; the text itself when none does. Ends the command when several do."""
    if not SHORTEST <= len(text) < WHOLE:
        return text
    found: list[str] = []
    for item in client.pages("/v1/incidents", EVERYTHING):
        known = str(item["id"])
        if known == text:
            return text
        if known.startswith(text):
            found.append(known)
    if len(found) > 1:
        shown = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        terminal.fail(f"{text} is the beginning of {len(found)} incidents' ids, give more of it: {shown}", terminal.EXIT_USAGE)
    return found[0] if found else text


def incident_path(client: Client, text: str) -> str:
    """Where the API has the incident that a text stands for. Ends the command when several begin so."""
    return f"/v1/incidents/{segment(incident_id(client, text))}"
