"""The numbers of a run: where its ranks stand, and what its metrics were."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import schemas
from firstfault_server.api.access import Reader
from firstfault_server.api.lists import json_response, time_range
from firstfault_server.api.services import Services, WithServices
from firstfault_server.core.documents import Document, number, optional_time, rank_document, rfc3339

router = APIRouter(prefix="/v1/runs/{run_id}", tags=["runs"])

PREFIX = "train."
Metric = Annotated[str, Query(min_length=1, max_length=300, description="Name of a metric; `loss` finds `train.loss`.")]


@router.get("/ranks", response_model=schemas.RankPage)
def ranks(
    services: WithServices, caller: Reader, run_id: str,
    metric: Annotated[str | None, Query(min_length=1, max_length=300, description="Adds this metric's figures to each rank.")] = None,
) -> Response:  # fmt: skip
    """Where each rank stands."""
    run = services.incidents.run(caller.tenant, run_id)
    items = [rank_document(rank) for rank in run.ranks]
    if metric is not None:
        name = _known_name(services, caller.tenant, run_id, metric)
        figures = {row["process"]: _figures(row) for row in services.aggregates.ranks(caller.tenant, run_id, name)}
        items = [{**item, "figures": figures.get(item["process"])} for item in items]
    return json_response({"items": items, "next_cursor": None})


def _figures(row: Document) -> Document:
    return {
        "count": row["count"],
        "mean": number(row["mean"]),
        "last": number(row["last"]),
        "nonfinite": row["nonfinite"],
        "last_time": optional_time(row["last_ns"]),
    }


@router.get("/metrics", response_model=schemas.MetricNames)
def metrics(services: WithServices, caller: Reader, run_id: str) -> Response:
    """Names of the metrics that the run has sent."""
    services.incidents.run(caller.tenant, run_id)
    return json_response({"items": services.aggregates.metrics(caller.tenant, run_id), "next_cursor": None})


@router.get("/series", response_model=schemas.SeriesPage)
def series(
    services: WithServices, caller: Reader, run_id: str, metric: Metric,
    rank: Annotated[int | None, Query(ge=0, le=2**31, description="Only this rank.")] = None,
    since: Annotated[str | None, Query(max_length=64)] = None,
    until: Annotated[str | None, Query(max_length=64)] = None,
    period: Annotated[str | None, Query(max_length=8)] = None,
    points: Annotated[int, Query(ge=1, le=5000, description="At most so many buckets a series.")] = 500,
) -> Response:  # fmt: skip
    """Buckets of one metric by rank and process; times without data have none."""
    services.incidents.run(caller.tenant, run_id)
    since_ns, until_ns = time_range(since, until, period, services.clock.now_ns())
    name = _known_name(services, caller.tenant, run_id, metric)
    query = ports.SeriesQuery(
        tenant=caller.tenant, run=run_id, metric=name, rank=rank, since_ns=since_ns, until_ns=until_ns, points=points
    )  # fmt: skip
    found = services.aggregates.series(query)
    ordered = sorted(found.items(), key=lambda item: (item[0][0] is None, item[0][0] or 0, item[0][1]))
    items = [{"rank": of, "process": process, "points": [_point(point) for point in held]} for (of, process), held in ordered]
    return json_response({"run": run_id, "metric": name, "items": items, "next_cursor": None})


def _known_name(services: Services, tenant: str, run_id: str, metric: str) -> str:
    """The name as sent; the short form stands for `train.…` when only that one was sent."""
    if "." in metric:
        return metric
    known = services.aggregates.metrics(tenant, run_id)
    return PREFIX + metric if metric not in known and PREFIX + metric in known else metric


def _point(point: ports.SeriesPoint) -> Document:
    return {
        "time": rfc3339(point.time_ns),
        "count": point.count,
        "mean": number(point.mean),
        "min": number(point.min),
        "max": number(point.max),
        "last": number(point.last),
        "nonfinite": point.nonfinite,
        "step_min": point.step_min,
        "step_max": point.step_max,
    }
