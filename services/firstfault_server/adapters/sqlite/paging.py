"""Pages of rows that are sorted by (time, id), newest first."""

from collections.abc import Sequence
from typing import TypeVar

from firstfault_server.adapters.sqlite.encoding import column
from firstfault_server.core.keyset import start_key
from firstfault_server.ports import ListQuery, Page

T = TypeVar("T")


def period(name: str, query: ListQuery) -> tuple[str, list[str | int]]:
    """Condition of the half-open period on a column, starting with AND, and its values; empty for no period."""
    sql, values = "", list[str | int]()
    for operator, bound in ((">=", query.since_ns), ("<", query.until_ns)):
        if bound is not None:
            sql += f" AND {name} {operator} ?"
            values.append(column(bound))
    return sql, values


def beyond(time: str, item_id: str, query: ListQuery) -> tuple[str, list[str | int]]:
    """Condition of what comes after the page before, starting with AND, and its values. Raises SearchError."""
    key = start_key(query.after)
    return ("", []) if key is None else (f" AND ({time}, {item_id}) < (?, ?)", [*key])


def page(rows: Sequence[tuple[int, str, T]], limit: int) -> Page[T]:
    """The page out of up to one row more than it holds: (time, id, item), sorted."""
    kept = rows[:limit]
    return Page(items=[row[2] for row in kept], next_key=[kept[-1][0], kept[-1][1]] if len(rows) > limit and kept else None)
