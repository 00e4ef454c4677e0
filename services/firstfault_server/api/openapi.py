"""The OpenAPI document: version 3.1, with the problem document as the body of every error."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from firstfault_server.api.schemas import Problem


def install(app: FastAPI) -> None:
    """OpenAPI 3.1 with the problem document as the body of every error."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            parts = schema.setdefault("components", {}).setdefault("schemas", {})
            parts["Problem"] = Problem.model_json_schema()
            parts.pop("HTTPValidationError", None)
            parts.pop("ValidationError", None)
            for path in schema["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
