"""What all answers share: strict shapes, problems, cursors."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Number = float | Literal["NaN", "Infinity", "-Infinity"] | None


class Shape(BaseModel):
    """Base: exactly these members, unless a shape says otherwise."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """RFC 9457 problem; further members depend on its type."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str


Cursor = Annotated[str | None, Field(description="Pass it as `cursor` for the next page; null: that was all.")]


class Health(Shape):
    """State of the service."""

    status: str
    problems: dict[str, str] = {}
