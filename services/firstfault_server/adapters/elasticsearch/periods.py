"""Periods of receipt, each of which has an index of its own, so that what is old goes by dropping whole indices."""

import datetime
from typing import Final, Literal, TypeAlias

from firstfault_server.core import model

Unit: TypeAlias = Literal["day", "month", "ever"]
"""How long an index is written to; `ever`: there is one for all times."""
DAY_NS: Final = 86_400 * model.SECOND_NS
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_LAST_DAY: Final = (datetime.datetime(9999, 12, 31) - _EPOCH).days
_FORMS: Final[dict[Unit, str]] = {"day": "%Y.%m.%d", "month": "%Y.%m", "ever": ""}


def period_of(unit: Unit, time_ns: int) -> str:
    """The period a time lies in, as it ends the name of an index; times no calendar has go to the nearest."""
    days = min(max(time_ns // DAY_NS, 0), _LAST_DAY)
    return (_EPOCH + datetime.timedelta(days=days)).strftime(_FORMS[unit])


def bounds_of(unit: Unit, period: str) -> tuple[int, int]:
    """First nanosecond of a period, and of the one after it. Raises ValueError for what is no period."""
    start = datetime.datetime.strptime(period, _FORMS[unit])
    if start.strftime(_FORMS[unit]) != period:
        raise ValueError(f"{period!r} is no {unit}")
    length = datetime.timedelta(days=1)
    if unit == "month":
        length = (start.replace(day=28) + datetime.timedelta(days=4)).replace(day=1) - start
    first = (start - _EPOCH).days * DAY_NS
    return first, first + length.days * DAY_NS
