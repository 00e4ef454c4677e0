"""Arguments and options that several commands have."""

from typing import Annotated

import typer

Identifier = Annotated[str, typer.Argument(metavar="ID")]
PeriodOption = Annotated[str | None, typer.Option("--since", help="How far back: 30m, 24h, 7d …")]
LimitOption = Annotated[int, typer.Option(min=1, help="At most so many.")]
ByOption = Annotated[str | None, typer.Option("--by", help="Who does it, when the key stands for several people.")]
