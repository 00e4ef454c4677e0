"""Errors as RFC 9457 problem documents, each with the id of its request."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.core.query import QueryError
from firstfault_server.core.search_match import SearchError

MEDIA_TYPE = "application/problem+json"


class Problem(Exception):
    """An answer that is an error; `extra` becomes further members of the document."""

    def __init__(self, status: int, detail: str, kind: str = "", headers: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind
        self.headers = dict(headers or {})
        self.extra = extra


def problem_response(
    request_id: str, status: int, detail: str, kind: str = "", headers: Mapping[str, str] | None = None, **extra: Any
) -> Response:
    """The problem as a response; `kind` names one of the documented types, empty means the status says it all."""
    document = {
        "type": f"urn:firstfault:problem:{kind}" if kind else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "request_id": request_id,
        **extra,
    }
    return Response(orjson.dumps(document, default=str), status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Turn every error of the routes into a problem document; what nobody foresaw is answered by the outermost middleware."""

    def request_id(request: Request) -> str:
        return str(request.scope.get("firstfault.request_id", ""))

    @app.exception_handler(Problem)
    async def on_problem(request: Request, error: Problem) -> Response:
        return problem_response(request_id(request), error.status, error.detail, error.kind, error.headers, **error.extra)

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> Response:
        return problem_response(request_id(request), error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> Response:
        errors = [{"in": ".".join(str(part) for part in item["loc"]), "reason": str(item["msg"])} for item in error.errors()]
        return problem_response(request_id(request), 400, "the request is not valid", "invalid", errors=errors)

    @app.exception_handler(QueryError)
    async def on_query(request: Request, error: QueryError) -> Response:
        return problem_response(request_id(request), 400, f"q: {error.reason}", "query", position=error.position)

    @app.exception_handler(SearchError)
    async def on_search(request: Request, error: SearchError) -> Response:
        return problem_response(request_id(request), 400, f"q: {error}", "query")

    @app.exception_handler(ports.NotFound)
    async def on_missing(request: Request, error: ports.NotFound) -> Response:
        return problem_response(request_id(request), 404, "there is no such thing here")

    @app.exception_handler(ports.VersionConflict)
    async def on_conflict(request: Request, error: ports.VersionConflict) -> Response:
        return problem_response(request_id(request), 412, "somebody else changed it first; read it again", "version")

    @app.exception_handler(ports.StoreUnavailable)
    async def on_unavailable(request: Request, error: ports.StoreUnavailable) -> Response:
        return problem_response(request_id(request), 503, str(error), "store", {"retry-after": "5"})
