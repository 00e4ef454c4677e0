"""The four keyed stages of detection: worker, node, run, fleet."""

from collections.abc import Sequence
from typing import Any

from firstfault_server.core import model
from firstfault_server.core.cause.advice import AdviceRow
from firstfault_server.core.cause.codes import CodeTables
from firstfault_server.core.grouping.similarity import FrameTable
from firstfault_server.core.stages.fleet import Fleet
from firstfault_server.core.stages.node import Node
from firstfault_server.core.stages.protocol import Stage
from firstfault_server.core.stages.reading import Reader
from firstfault_server.core.stages.run import Run
from firstfault_server.core.stages.worker import Worker
from firstfault_server.core.thresholds import Thresholds


def build_stages(
    thresholds: Thresholds,
    taxonomy: model.Taxonomy,
    text_reader: Reader,
    advice: Sequence[AdviceRow] = (),
    *,
    codes: CodeTables | None = None,
    frames: FrameTable | None = None,
    advice_marks: tuple[str, ...] = (),
) -> dict[str, Stage[Any]]:
    """The stages by name, in the order in which records flow through them. Without `frames` only equal failures are grouped."""
    return {
        "worker": Worker(thresholds, text_reader),
        "node": Node(thresholds),
        "run": Run(thresholds, taxonomy, advice, codes),
        "fleet": Fleet(frames, advice_marks),
    }
