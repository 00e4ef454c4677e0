"""Code tables (Xid, signal, errno): what a number printed by a driver, a kernel or a library means."""

import msgspec


class Code(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Meaning of one code."""

    symptom: str
    about: str = ""
    action: str = ""
    name: str = ""
    own_fault: bool = True
    """False: follows a process's own crash, so it never outranks what the process said (application Xids)."""


class CodeTables(msgspec.Struct, kw_only=True, frozen=True):
    """All code tables by number."""

    xid: dict[int, Code] = {}
    signal: dict[int, Code] = {}
    errno: dict[int, Code] = {}

    def lookup(self, table: str, number: str) -> Code | None:
        """The code's row; None for an unknown code, table, or text that is no number."""
        rows: dict[int, Code] = {"xid": self.xid, "signal": self.signal, "errno": self.errno}.get(table, {})
        return rows.get(int(number)) if number.isdecimal() and len(number) < 10 else None
