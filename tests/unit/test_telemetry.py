"""Log lines cost their caller nothing, whatever became of the stream they go to."""

import io
import logging

import pytest

from firstfault_server import telemetry


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def closed() -> io.StringIO:
    """A stream that somebody closed."""
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stream", [Full(), closed()], ids=["full", "closed"])
@pytest.mark.parametrize("form", ["console", "json"])
def test_a_stream_that_is_gone_costs_the_line_only(stream: io.StringIO, form: telemetry.LogFormat) -> None:
    lines = telemetry.Lines(stream)
    log = telemetry.logger("info", form, lines)
    for level in ("info", "warning", "error", "critical"):
        getattr(log, level)("told")
    log.debug("not asked for")
    assert lines.lost == 4
    assert telemetry.registry(lines).get_sample_value("firstfault_log_lines_lost") == 4


def test_the_bridge_is_there_only_within_its_block() -> None:
    stream = io.StringIO()
    name = logging.getLogger("firstfault_server")
    before = (list(name.handlers), name.propagate)
    with telemetry.bridged(telemetry.logger("info", "json", telemetry.Lines(stream))):
        logging.getLogger("firstfault_server.detect").error("it stands still: %s", "no room")
    assert "it stands still: no room" in stream.getvalue()
    assert (list(name.handlers), name.propagate) == before


def test_secrets_and_control_characters_stay_out_of_lines() -> None:
    stream = io.StringIO()
    telemetry.logger("info", "json", telemetry.Lines(stream)).info("made", api_key="ffk_abc", name="a\x1b[2Jb")
    assert "ffk_abc" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
