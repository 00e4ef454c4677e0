"""Takes out of a text what changes from one occurrence to the next: colours, numbers, addresses, paths, advice."""

import re
from typing import Final

ANSI: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|\x1b[@-Z\\-_]|\ufffd\[[0-9;]{1,8}m")

_PLACEHOLDERS: Final = (
    # Order matters: the long and special shapes go before bare numbers.
    (re.compile(r"https?://[^\s'\"<>)\]]{1,2048}"), "<url>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w.])"), "<host>"),
    (re.compile(r"\[?(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}\]?(?::\d{1,5})?"), "<host>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "<address>"),
    (re.compile(r"(?<![\w/.])(?:[A-Za-z]:)?(?:[\\/]|\.{1,2}[\\/])(?:[^\s'\":,;()<>\\/]{1,255}[\\/]?){1,64}"), "<path>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<id>"),
    (re.compile(r"(?<![A-Za-z_])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"), "<n>"),
)
_LISTS: Final = re.compile(r"<n>(?:\s{0,2}[,xX*]\s{0,2}<n>)+")
_REPEATED: Final = re.compile(r"\s+")
_QUOTED: Final = re.compile(r"'[^'\n]{40,400}'|\"[^\"\n]{40,400}\"")

LONGEST_MESSAGE: Final = 1000
"""Characters of a message that take part in its identity."""


def without_ansi(text: str) -> str:
    """The text without terminal colours and titles."""
    return ANSI.sub("", text) if "\x1b" in text or "\ufffd[" in text else text


def parameterised(message: str, advice_marks: tuple[str, ...] = ()) -> str:
    """The message with numbers, addresses, paths, ids and sizes replaced and the libraries' advice dropped."""
    text = without_advice(message, advice_marks)[:LONGEST_MESSAGE]
    for expression, placeholder in _PLACEHOLDERS:
        text = expression.sub(placeholder, text)
    text = _LISTS.sub("<n>", text)
    text = _QUOTED.sub("<text>", text)
    return _REPEATED.sub(" ", text).strip()


def without_advice(message: str, advice_marks: tuple[str, ...]) -> str:
    """The message up to the first sentence or line that only advises."""
    cut = len(message)
    for mark in advice_marks:
        at = message.find(mark, 0, cut)
        if at > 0:
            cut = at
    return message[:cut].rstrip()
