"""The numbers of a run: where its ranks stand, and what its metrics were."""

import hashlib
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from firstfault_server import ports
from firstfault_server.api import schemas
from firstfault_server.api.access import Reader
from firstfault_server.api.lists import LONGEST_PERIOD, json_response, time_range
from firstfault_server.api.parts import WithPart, part
from firstfault_server.api.services import Services, WithServices
from firstfault_server.core.documents import Document, number, optional_time, rank_document, rfc3339

router = APIRouter(prefix="/v1/runs/{run_id:path}", tags=["runs"])

PREFIX = "train."
MAX_PLACE = 200
Metric = Annotated[str, Query(min_length=1, max_length=300, description="Name of a metric; `loss` finds `train.loss`.")]


@router.get("/ranks", response_model=schemas.RankPage)
def ranks(
    services: WithServices, caller: Reader, run_id: str, wanted: WithPart,
    metric: Annotated[str | None, Query(min_length=1, max_length=300, description="Adds this metric's figures to each rank.")] = None,
) -> Response:  # fmt: skip
    """Where each rank stands; without figures, and `partial`, while the store of numbers is away."""
    run = services.incidents.run(caller.tenant, run_id)
    asked = part("ranks", wanted, caller, services, [run_id, metric])
    page, following = asked.cut(run.ranks, lambda rank: _order(rank.rank, rank.process))
    items = [rank_document(rank) for rank in page]
    figures: dict[str, Document] | None = {}
    if metric is not None:
        figures = _figures_of(services, caller.tenant, run_id, metric)
        items = [{**item, "figures": (figures or {}).get(item["process"])} for item in items]
    return json_response({"items": items, "next_cursor": following, "partial": figures is None})


def _figures_of(services: Services, tenant: str, run_id: str, metric: str) -> dict[str, Document] | None:
    """Figures by process, None when nobody can tell now: states of ranks, which another store has, help without them."""
    try:
        rows = services.aggregates.ranks(tenant, run_id, _known_name(services, tenant, run_id, metric))
    except ports.StoreUnavailable as error:
        services.log.warning("ranks are shown without figures", run=run_id, reason=str(error))
        return None
    return {row["process"]: _figures(row) for row in rows}


def _order(rank: int | None, process: str) -> tuple[bool, int, str]:
    """Processes without a rank come last."""
    return rank is None, rank or 0, process


def _figures(row: Document) -> Document:
    return {
        "count": row["count"],
        "mean": number(row["mean"]),
        "last": number(row["last"]),
        "nonfinite": row["nonfinite"],
        "last_time": optional_time(row["last_ns"]),
    }


@router.get("/metrics", response_model=schemas.MetricNames)
def metrics(services: WithServices, caller: Reader, run_id: str, wanted: WithPart) -> Response:
    """Names of the metrics that the run has sent, in their order."""
    services.incidents.run(caller.tenant, run_id)
    names = services.aggregates.metrics(caller.tenant, run_id)
    items, following = part("metrics", wanted, caller, services, [run_id]).cut(names, _place)
    return json_response({"items": items, "next_cursor": following})


def _place(name: str) -> tuple[str, str]:
    """A name's place in the list; short for every name, as it must fit into a cursor."""
    return name[:MAX_PLACE], hashlib.sha256(name.encode()).hexdigest() if len(name) > MAX_PLACE else ""


@router.get("/series", response_model=schemas.SeriesPage)
def series(
    services: WithServices, caller: Reader, run_id: str, metric: Metric, wanted: WithPart,
    rank: Annotated[int | None, Query(ge=0, le=2**31, description="Only this rank.")] = None,
    since: Annotated[str | None, Query(max_length=64)] = None,
    until: Annotated[str | None, Query(max_length=64)] = None,
    period: Annotated[str | None, Query(max_length=LONGEST_PERIOD)] = None,
    points: Annotated[int, Query(ge=1, le=5000, description="At most so many buckets a series.")] = 500,
) -> Response:  # fmt: skip
    """Buckets of one metric by rank and process; times without data have none."""
    services.incidents.run(caller.tenant, run_id)
    times = time_range(since, until, period, services.clock.now_ns())
    asked = part("series", wanted, caller, services, [run_id, metric, rank, since, until, period, points], times)
    name = _known_name(services, caller.tenant, run_id, metric)
    query = ports.SeriesQuery(
        tenant=caller.tenant, run=run_id, metric=name, rank=rank, since_ns=asked.since_ns, until_ns=asked.until_ns, points=points
    )  # fmt: skip
    page, following = asked.cut(services.aggregates.series(query).items(), lambda item: _order(*item[0]))
    items = [{"rank": of, "process": process, "points": [_point(point) for point in held]} for (of, process), held in page]
    return json_response({"run": run_id, "metric": name, "items": items, "next_cursor": following})


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
