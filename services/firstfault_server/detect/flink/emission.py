"""Outputs of a call as records of topics; one that cannot be written is buried instead of stopping the job."""

import logging
from collections.abc import Sequence

from firstfault_server.core import model
from firstfault_server.detect.rules import dead_letter, tenant_of
from firstfault_server.wire.outputs import Outgoing, OutputRecord, outgoing

_logger = logging.getLogger(__name__)


def written(outputs: Sequence[OutputRecord], reached_ns: int) -> tuple[list[Outgoing], int]:
    """Records of topics, and how many outputs could not be written."""
    try:
        return outgoing(outputs), 0
    except Exception as error:
        if len(outputs) > 1:
            parts = [written([record], reached_ns) for record in outputs]
            return [one for sent, _ in parts for one in sent], sum(count for _, count in parts)
        _logger.error("an output cannot be written", exc_info=error)
        return outgoing([_buried(outputs[0], error, reached_ns)]), 1


def _buried(record: OutputRecord, error: Exception, reached_ns: int) -> model.DeadLetter:
    data = repr(record).encode("utf-8", "backslashreplace")
    tenant = tenant_of(record).encode("utf-8", "replace").decode()
    reason = f"cannot be written: {type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()
    return dead_letter(tenant, reached_ns, reason, "", data, type(record).__name__)
