"""Variables `FIRSTFAULT_…` that nothing reads and that are spelt nearly like one that is read."""

import difflib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from firstfault_server.settings import Settings, is_secret

PREFIX: Final = "FIRSTFAULT_"
OTHERS: Final = frozenset({
    # SDK and sidecar
    "API_KEY", "AUTOSTART", "DEBUG_RAISE", "DISABLED", "ENDPOINT", "EXIT_WAIT_S", "FALLBACK_RUN_ID", "LAUNCH_DIR", "OTLP_PROTOCOL", "OWNER",
    "RUN_ID", "RUN_NAME", "SIDECAR", "SIDECAR_LINGER_S", "SIDECAR_LOG", "SPOOL_DIR", "STAGE", "WATCHED",
    # commands and tools
    "CACHE", "SOAK", "STACK_FOLDER", "WEBHOOK_SECRET",
})  # fmt: skip
"""Read by others than the settings, without the prefix."""
_LINK: Final = re.compile(r"_SERVICE_(?:HOST|PORT(?:_\w+)?)$|_PORT(?:_\d+_(?:TCP|UDP)(?:_(?:PROTO|PORT|ADDR))?)?$")
"""Kubernetes tells each pod of the services beside it, and ours may begin with `firstfault-`."""
_ALIKE: Final = 0.8


def known() -> frozenset[str]:
    """Names without the prefix of all that any part reads."""
    # No PyFlink in it, but more than a start needs that has no such variable.
    from firstfault_server.detect.flink.plan import Plan

    fields = Settings.model_fields
    files = {f"{name}_file" for name, field in fields.items() if is_secret(field)}
    job = {field.name for field in msgspec.structs.fields(Plan)}
    return OTHERS | {name.upper() for name in (*fields, *files, *job)}


def warnings(environment: Mapping[str, str]) -> list[str]:
    """A line for each variable that is probably misspelt, with the name that was probably meant."""
    given = sorted(name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX) and not _LINK.search(name))
    if not given:
        return []
    read = known()
    found = []
    for name in given:
        # Tables may be given entry by entry: FIRSTFAULT_THRESHOLDS__SETTLE_S.
        head, entry, rest = name.partition("__")
        near = [] if head in read else difflib.get_close_matches(head, sorted(read), n=1, cutoff=_ALIKE)
        if near:
            found.append(f"{PREFIX}{name} is set, and nothing reads it; was {PREFIX}{near[0]}{entry}{rest} meant?")
    return found
