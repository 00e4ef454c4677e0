"""Query parameters that a route does not have are refused: a misspelt filter must not answer as if it had been applied."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from firstfault_server.api.access import principal_of
from firstfault_server.api.problems import Problem

MAX_NAMED = 10


def refuse_unknown(request: Request) -> None:
    """Dependency of every route of tenants. Raises Problem 401 for callers without a key, then 400 that names what is unknown."""
    principal_of(request)
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = sorted(set(_names(route.dependant)))
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if unknown:
        errors = [{"in": f"query.{name}", "reason": "no such parameter here"} for name in unknown[:MAX_NAMED]]
        there = f"known are {', '.join(known)}" if known else "there are none"
        raise Problem(400, f"the request has query parameters that are not known here; {there}", "invalid", errors=errors)


def _names(dependant: Dependant) -> Iterator[str]:
    yield from (parameter.alias for parameter in dependant.query_params)
    for needed in dependant.dependencies:
        yield from _names(needed)
