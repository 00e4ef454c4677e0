"""Shapes of the lines that crashes are printed in, as expressions with bounded repeats, and what must come off or apart first."""

import re
from typing import Final

HEADER: Final = "Traceback (most recent call last)"
DUMP: Final = "(most recent call first)"
"""Heads a stack that faulthandler prints, innermost frame first."""
FATAL: Final = "Fatal Python error"
"""Type given to what faulthandler reports; Python has no exception for it."""
FRAME: Final = re.compile(
    r'\s{0,40}File "(?P<file>[^"\n]{1,1000})", ?line {1,20}(?P<line>\d{1,9})(?:,? in(?: (?P<function>.{0,300}))?)?\s*$'
)
SPLIT_FRAME: Final = re.compile(r'\s{0,40}File "(?P<file>[^"\n]{1,1000})",?\s*$')
SPLIT_NAME: Final = re.compile(
    r'\s{0,40}"(?P<file>[^"\n]{1,1000})",?(?: line {1,4}(?P<line>\d{1,9})(?:, in(?: (?P<function>.{0,300}))?)?)?\s*$'
)
SPLIT_REST: Final = re.compile(r"\s{0,40}line {1,20}(?P<line>\d{1,9})(?:,? in(?: (?P<function>.{0,300}))?)?\s*$")
NOTEBOOK_FRAME: Final = re.compile(
    r"(?P<file><ipython-input-[\w-]{1,60}>|<timed \w{1,20}>|[~/][^\s:()]{1,500}\.py|[A-Za-z]:\\[^:()]{1,500}\.py"
    r"|/tmp/ipykernel_[^\s()]{1,200})"
    r" in (?P<function>[\w<>.]{1,200})(?:\(.{0,2000}\))?\s*$"
)
NOTEBOOK_FRAME_NEW: Final = re.compile(
    r"File (?P<file>[^\s\"].{0,500}?):(?P<line>\d{1,9}), in (?P<function>[\w<>.]{1,200})(?:\(.{0,2000}\))?\s*$"
)
CELL: Final = re.compile(r"(?:Cell )?In(?:put In)? ?\[\d{1,6}\](?:, line \d{1,9})?,?(?: in (?P<function>[\w<>.:]{1,200}))?.{0,200}$")
RICH_FRAME: Final = re.compile(
    r"(?P<file>(?:[~/.]|[A-Za-z]:\\)\S{0,500}|\S{1,200}\.py):(?P<line>\d{1,9}) in (?P<function>[\w<>.]{1,200})\s*$"
)
NUMBERED: Final = re.compile(r"\s{0,12}(?:-{2,6}> ?)?\d{1,7}(?:\s|$)|\s{0,8}❱")
MARKERS: Final = re.compile(r"[\s^~]{1,4000}$")
ELISION: Final = re.compile(r"\s{0,40}(?:\[Previous line repeated \d{1,9} more times?\]|\.\.\.<\d{1,9} lines>\.\.\.|\d{1,5} frames)\s*$")

NAME: Final = r"(?:[A-Za-z_]\w{0,120}\.){0,12}[A-Za-z_]\w{0,120}(?:\([\w.]{1,120}\))?"
TERMINAL: Final = re.compile(rf"(?P<type>{NAME})(?::\s?(?P<message>.*)|\s*)$", re.DOTALL)
SUFFIX: Final = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Failure|Fault|Timeout|Expired|Died|Killed|Crashed|Empty|Full|Died|Closed|Mismatch|"
    r"Unsupported|Group|Abort|Aborted|Invalid|Conflict|NotFound|Panic|Traceback|\w\.(?:error|timeout|gaierror|herror))(?:\([\w.]{1,120}\))?$"
)
BARE: Final = re.compile(
    r"(?:E\s{1,8})?(?P<type>(?:[A-Za-z_]\w{0,120}\.){0,12}[A-Za-z_]\w{0,80}(?:Error|Exception|Interrupt|Died|Failure)(?:\([\w.]{1,120}\))?)"
    r"(?::\s?(?P<message>.*)|\s*)$",
    re.DOTALL,
)
RAISE: Final = re.compile(r"\s{0,40}raise ")
CAUSE: Final = "The above exception was the direct cause of the following exception"
CONTEXT: Final = "During handling of the above exception, another exception occurred"
NOISE: Final = re.compile(
    r"(?:\s{0,4}\d{1,3}%\||(?i:global[ _]?step|step|iter(?:ation)?|epoch|batch)s?[ :=\[#]{1,3}\d|"
    r"Process finished|wandb: |terminate called|Exception ignored|"
    r"ERROR[:\s]|WARNING[:\s]|INFO[:\s]|DEBUG[:\s]|"
    r"\[[A-Z]{1,8}\]|\[\d{4}-|\d{4}-\d\d-\d\d|\*{3,}|={5,}|-{5,}|\$ |>>> |srun: |slurmstepd: |mpirun|frame #\d|Sending process|Primary job|"
    r"Killing subprocess|\[rank: \d|[EWIF]\d{4} |\[[EWIF] ?\d{0,4} ?\w)"
)
PROGRESS_BAR: Final = re.compile(r"\s{0,8}\d{1,3}%\|")
GROUP_EDGE: Final = re.compile(r"\s{0,40}(?:\| {0,4}|\+ (?=Exception Group Traceback)|\+-\+-{4,}|\+-{4,})")
BOX: Final = "│╭╰┃┏┗|"


def unboxed(line: str) -> str:
    """The line without the frames that rich and exception groups draw around it."""
    if "│" in line or "╭" in line or "╰" in line or "┃" in line:
        inner = line.strip().strip("│┃ ")
        return inner if HEADER not in line else line
    if line.lstrip()[:1] in ("|", "+"):
        edge = GROUP_EDGE.match(line)
        if edge is not None:
            rest = line[edge.end() :]
            return rest if not rest.startswith("-") else ""
    return line


def terminated(message: str) -> bool:
    """Whether a message announces that an inner traceback follows."""
    end = message.rstrip()[-200:].lower()
    return end.endswith(("following error:", "traceback:", "failed with:", "exception:")) or ("caught " in end and " in " in end) or not end


def once(name: str, message: str) -> tuple[str, str]:
    """Two ranks wrote `Type: text` without a line end between: keep one."""
    head = f"{name}: "
    at = message.find(name + ":")
    if at > 0 and message[:at].rstrip() == message[at + len(head) :].rstrip():
        return name, message[:at].rstrip()
    return name, message
