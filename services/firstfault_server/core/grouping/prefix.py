"""Takes off what launchers, loggers and collectors put in front of a line, and keeps what it says: rank, node, process, time.

Handled: `[rank3]:`, `rank3:`, `[default3]:`, srun `--label`, mpirun `--tag-output`, Ray `(Actor pid=…)`, Kubernetes and Docker
time stamps, syslog and dmesg, glog, Python logging, JSON lines, terminal colours. Linear, with bounded expressions.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from firstfault_server.core.grouping.normalise import without_ansi

_MOST_PREFIXES: Final = 6
_MOST_HOSTS: Final = 4096
_RANK: Final = re.compile(
    r"\[?(?:global_)?(?:rank|Rank|RANK|default|trainer|worker)[ =:_]{0,2}(?P<rank>\d{1,6})"
    r"(?:\]?(?::|\s?\|)\s?|\]\s(?=Traceback \(|  File |    |[\w.]{1,120}(?:Error|Exception)\b))"
)
_BRACKET_RANK: Final = re.compile(r"\[(?P<rank>\d{1,6})\]:\s?(?=\S)")
_MPI: Final = re.compile(r"\[(?:\d{1,6}),(?P<rank>\d{1,6})\]<(?:stdout|stderr|stddiag)>:?\s?")
_LABEL: Final = re.compile(r"\s{0,8}(?P<rank>\d{1,6}): ?(?!\d)")
_ACTOR: Final = re.compile(
    r"\((?P<name>[\w.<> /-]{0,80}?)\s?pid=(?P<pid>[\w.]{1,20})(?:, ip=(?P<ip>[\w.:-]{1,64}))?(?:, rank=(?P<rank>\d{1,6}))?[^)]{0,80}\)\s?"
)
_HOST_PID: Final = re.compile(r"\[(?P<host>[A-Za-z][\w.-]{0,100}):(?P<pid>\d{3,9})\]\s?")
_HOST: Final = re.compile(
    r"(?!\d{1,6}: )(?=[\w.-]{0,60}[\d.-])(?P<host>[A-Za-z0-9][\w.-]{0,100}): "
    r"(?=Traceback \(most|  File \"|\[(?:rank|default)\d|\[\d{4}-\d\d-\d\d )"
)
"""What pdsh, the DeepSpeed launcher of several nodes, puts in front."""
_ISO: Final = re.compile(
    r"[\[(]?(?P<date>\d{4}[-/]\d\d[-/]\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)(?:[.,:](?P<fraction>\d{1,9}))?"
    r"\s?(?P<zone>Z|[+-]\d\d:?\d\d|UTC|GMT)?"
    r"(?:\s(?:stdout|stderr)\s[FP](?=\s))?(?:[ ,](?:TP|PP|DP)\d{1,4})*[\])]?[\s:|,-]{0,4}"
)
_CLOCK: Final = re.compile(r"\[?(?P<clock>[0-2]\d:[0-5]\d:[0-5]\d)(?:[.,]\d{1,9})?\]?[\s:|-]{1,4}")
_US_DATE: Final = re.compile(r"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4}) (?P<clock>\d\d:\d\d:\d\d)\s?[-:|]?\s?")
_SYSLOG: Final = re.compile(
    r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)(?:\.\d{1,6})? "
    r"(?P<host>[\w.-]{1,100}) (?=[\w./-]{1,60}(?:\[\d{1,9}\])?:)"
)
_DMESG: Final = re.compile(r"(?:kernel: ?)?\[ {0,8}(?P<seconds>\d{1,9}\.\d{3,9})\] ?")
_DMESG_DATE: Final = re.compile(
    r"\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) (?P<year>\d{4})\] ?"
)
_GLOG: Final = re.compile(
    r"\[?[EWIF] ?(?:\d{4} )?(?:\d{4}-\d\d-\d\d )?(?P<clock>\d\d:\d\d:\d\d)[.\d]{0,10}\s{1,3}(?:\d{1,9} {1,4}(?=[\w./-]{1,100}:\d))?"
)
_NCCL: Final = re.compile(
    r"(?P<host>[A-Za-z][\w.-]{0,100}):(?P<pid>\d{1,9}):(?P<thread>\d{1,9}) \[(?P<gpu>\d{1,3})\] (?=NCCL |misc|transport)"
)
_LEVEL: Final = re.compile(
    r"(?:\[?(?:ERROR|WARNING|WARN|INFO|DEBUG|CRITICAL|FATAL)\]?)(?:[:\s|-]{1,5}(?=\S))(?:[\w.]{1,80}:(?=Traceback|[A-Z]\w{1,60}(?:Error|Exception)))?"
)
_QUOTE: Final = re.compile(r"(?:> ?){1,3}(?!>)")
_ESCAPED: Final = "Traceback (most recent call last):\\n"
"""A traceback inside of a quoted string, its line ends escaped, as loggers print the representation of an error."""
_MOST_LINES: Final = 2000
"""Lines taken of one record."""
_MONTHS: Final = {name: i for i, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), 1)}

# By their first two letters: asked of every line.
_UPPER: Final = {
    **{month[:2]: (_SYSLOG, _NCCL) for month in _MONTHS},
    **{f"{level}{after}": (_GLOG, _NCCL) for level in "EWIF" for after in " 0123456789"},
    **{level: (_LEVEL, _NCCL) for level in ("ER", "WA", "IN", "DE", "CR", "FA")},
}

_ENTRY: Final = (_ISO, _CLOCK, _US_DATE, _SYSLOG, _DMESG, _DMESG_DATE, _GLOG, _LEVEL)

_JSON_BODY: Final = ("message", "msg", "log", "body", "text", "event")
_JSON_TRACE: Final = ("exc_info", "exception", "stack_trace", "traceback", "stacktrace", "exc_text", "stack_info", "error")
_JSON_TIME: Final = ("timestamp", "time", "ts", "@timestamp", "asctime", "created", "datetime")
_JSON_RANK: Final = ("rank", "global_rank", "RANK", "train.rank", "process_index")
_JSON_NODE: Final = ("host", "hostname", "node", "host.name", "node_name")


class Prefixed(msgspec.Struct, kw_only=True):
    """A line without its prefixes."""

    body: str
    raw: str = ""
    """The line with its prefixes."""
    rank: int | None = None
    node: str = ""
    process: str = ""
    """Process id or actor where a prefix names one: separates streams that have no rank."""
    stamp: dict[str, str | None] = {}
    """Parts of the first time found, unread: most lines are not kept, and reading a time costs more than finding it."""
    exact_ns: int | None = None
    """Time of a JSON line."""
    marked: bool = False
    """A time or a level stood in front: a log entry begins here."""
    more: list[str] = []
    """Further lines that one JSON line held (its traceback)."""

    @property
    def timed(self) -> bool:
        """Whether it says any time."""
        return self.exact_ns is not None or bool(self.stamp)

    @property
    def time_ns(self) -> int | None:
        """Nanoseconds since the epoch; of clock-only prefixes since midnight, of dmesg since boot; None without or with a bad one."""
        if self.exact_ns is not None:
            return self.exact_ns
        return _time(self.stamp) if self.stamp else None


class Prefixes:
    """Prefix handling for one file; `labelled` says that every line begins with a srun label."""

    def __init__(self, labelled: bool = False) -> None:
        self._labelled = labelled
        self._hosts: set[str] = set()

    def _without_host(self, text: str, found: Prefixed) -> str:
        head, colon, _ = text[:103].partition(": ")
        if not colon:
            return text
        if head not in self._hosts:
            if len(self._hosts) >= _MOST_HOSTS or _HOST.match(text) is None:
                return text
            self._hosts.add(head)
        found.node = head
        return text[len(head) + 2 :]

    def split(self, line: str) -> Prefixed:
        """Take the prefixes off one line."""
        text = without_ansi(line)
        if "\r" in text:
            text = text.rstrip("\r")
            text = text[text.rfind("\r") + 1 :]
        found = Prefixed(body=text, raw=line)
        if ": " in text:
            text = self._without_host(text, found)
        if self._labelled and (label := _LABEL.match(text)) is not None:
            found.rank = int(label["rank"])
            text = text[label.end() :]
        for _ in range(_MOST_PREFIXES):
            rest = _step(text, found)
            if rest is None:
                break
            text = rest
        if text[:1] == "{" and text.rstrip()[-1:] == "}":
            text = _json(text, found)
        if _ESCAPED in text:
            text = _unescaped(text, found)
        found.body = text
        return found


def labelled(lines: Iterable[str]) -> bool:
    """Whether lines carry srun labels: nearly all of a sample begin with a number and a colon, under more than one number or with text."""
    seen = hits = 0
    for line in lines:
        if line.strip():
            seen += 1
            hits += _LABEL.match(line) is not None
    return seen >= 3 and hits >= 0.8 * seen


def _step(text: str, found: Prefixed) -> str | None:
    """The text after one prefix; None when none is there."""
    first = text[:1]
    if first == "[":
        for expression in (_RANK, _MPI, _BRACKET_RANK, _ISO, _DMESG_DATE, _DMESG, _GLOG, _CLOCK, _HOST_PID, _LEVEL):
            if (hit := expression.match(text)) is not None:
                return _take(expression, hit, text, found)
        return None
    if first == "(":
        expression = _ACTOR
    elif first.isdigit():
        for expression in (_ISO, _US_DATE, _CLOCK):
            if (hit := expression.match(text)) is not None:
                return _take(expression, hit, text, found)
        return None
    elif first in ("r", "R", "d", "t", "w", "g") and (hit := _RANK.match(text)) is not None:
        return _take(_RANK, hit, text, found)
    elif first == ">":
        expression = _QUOTE
        if text.startswith(">>>"):
            return None
    elif first.isupper():
        for expression in _UPPER.get(text[:2], (_NCCL,)):
            if (hit := expression.match(text)) is not None:
                return _take(expression, hit, text, found)
        return None
    elif text.startswith("kernel:"):
        return text[7:].lstrip() or None
    elif first.islower():
        expression = _NCCL
    else:
        return None
    hit = expression.match(text)
    return _take(expression, hit, text, found) if hit is not None else None


def _take(expression: "re.Pattern[str]", hit: "re.Match[str]", text: str, found: Prefixed) -> str | None:
    rest = text[hit.end() :]
    if expression is _RANK or expression is _BRACKET_RANK:
        found.rank = int(hit["rank"])
        return rest
    if expression is _LEVEL:
        found.marked = True
        return rest
    groups = hit.groupdict()
    if groups.get("rank"):
        found.rank = int(groups["rank"])
    if groups.get("host"):
        found.node = groups["host"]
    if groups.get("ip"):
        found.node = groups["ip"]
    if groups.get("pid"):
        found.process = f"{groups.get('name') or groups.get('host') or ''}:{groups['pid']}"
    if expression is _NCCL:
        return rest
    found.marked = found.marked or expression in _ENTRY
    if not found.stamp and (groups.get("clock") or groups.get("seconds")):
        found.stamp = groups
    return rest if rest != text else None


def _time(groups: Mapping[str, str | None]) -> int | None:
    if groups.get("seconds"):
        return int(float(groups["seconds"] or 0) * 1e9)
    hour, minute, second = (int(part) for part in (groups.get("clock") or "0:0:0").split(":"))
    try:
        if groups.get("date"):
            year, month, day = (int(part) for part in re.split(r"[-/]", groups["date"] or ""))
        elif groups.get("month"):
            named = groups["month"] or "1"
            month = _MONTHS[named] if named in _MONTHS else int(named)
            day, year = int(groups.get("day") or 1), int(groups.get("year") or 1970)
        else:
            return (hour * 3600 + minute * 60 + second) * 1_000_000_000
        stamp = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
    nanos = int(((groups.get("fraction") or "") + "000000000")[:9])
    zone = groups.get("zone") or ""
    shift = 0
    if zone[:1] in ("+", "-"):
        digits = zone[1:].replace(":", "")
        shift = (int(digits[:2]) * 3600 + int(digits[2:4]) * 60) * (1 if zone[0] == "+" else -1)
    return (int(stamp.timestamp()) - shift) * 1_000_000_000 + nanos


def _json(text: str, found: Prefixed) -> str:
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return text
    if not isinstance(raw, dict):
        return text
    body = _first(raw, _JSON_BODY)
    trace = _first(raw, _JSON_TRACE)
    if not isinstance(body, str) and not isinstance(trace, str):
        return text
    rank = _first(raw, _JSON_RANK)
    if isinstance(rank, int | str) and str(rank).isdecimal() and len(str(rank)) < 7:
        found.rank = int(rank)
    node = _first(raw, _JSON_NODE)
    if isinstance(node, str):
        found.node = node[:100]
    stamp = _first(raw, _JSON_TIME)
    if isinstance(stamp, str) and (hit := _ISO.match(stamp)) is not None:
        found.exact_ns = _time(hit.groupdict())
    elif isinstance(stamp, int | float) and 1e8 < stamp < 1e19:
        scale = 1e9 if stamp < 1e11 else 1e6 if stamp < 1e14 else 1e3 if stamp < 1e17 else 1
        found.exact_ns = int(stamp * scale)
    lines = (body if isinstance(body, str) else "").splitlines()
    if isinstance(trace, str):
        lines += trace.splitlines()
    if not lines:
        return ""
    found.more = lines[1:_MOST_LINES]
    return lines[0]


def _unescaped(text: str, found: Prefixed) -> str:
    lines = text.replace("\\n", "\n").replace('\\"', '"').splitlines()
    found.more = lines[1:_MOST_LINES]
    return lines[0]


def _first(raw: Mapping[str, Any], names: Iterable[str]) -> Any:
    for name in names:
        if (value := raw.get(name)) not in (None, ""):
            return value
    return None
