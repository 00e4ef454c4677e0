"""Prefixes of launchers, loggers and collectors."""

import pytest

from firstfault_server.core.grouping.prefix import Prefixes, labelled

BODY = "RuntimeError: it broke"
PLAIN = Prefixes()


@pytest.mark.parametrize(
    ("line", "rank", "node", "process"),
    [
        ("[rank3]: " + BODY, 3, "", ""),
        ("rank3: " + BODY, 3, "", ""),
        ("[default12]:" + BODY, 12, "", ""),
        ("[1,7]<stderr>:" + BODY, 7, "", ""),
        ("\x1b[2m\x1b[36m(Trainer pid=411, ip=10.0.0.7)\x1b[0m " + BODY, None, "10.0.0.7", "Trainer:411"),
        ("(pid=raylet) " + BODY, None, "", ":raylet"),
        ("2024-05-01T10:11:12.5Z stderr F " + BODY, None, "", ""),
        ("2024-05-01 10:11:12,500 ERROR " + BODY, None, "", ""),
        ("May  1 10:11:12 gpu-07 kernel: [  12.345678] " + BODY, None, "gpu-07", ""),
        ("[ 1234.567890] " + BODY, None, "", ""),
        ("E0501 10:11:12.345678 2211 task.cc:88] " + BODY, None, "", ""),
        ("ERROR:root:" + BODY, None, "", ""),
        ("> > " + BODY, None, "", ""),
        ("2024-05-01 10:11:12 [rank5]: " + BODY, 5, "", ""),
        ("  7%|x | 7/99 [00:01<00:09]\r" + BODY, None, "", ""),
    ],
)
def test_prefixes_go_and_what_they_say_stays(line: str, rank: int | None, node: str, process: str) -> None:
    found = PLAIN.split(line)
    assert (found.body.endswith(BODY), found.rank, found.node, found.process) == (True, rank, node, process)
    assert len(found.body) <= len(BODY) + len("task.cc:88] ")


def test_times_are_read_with_their_zone() -> None:
    noon = PLAIN.split("2024-05-01T12:00:00+02:00 x").time_ns
    assert noon == PLAIN.split("2024-05-01 10:00:00 x").time_ns == PLAIN.split("[2024-05-01 10:00:00,000] x").time_ns
    assert PLAIN.split("May  1 10:00:00 n1 sshd[7]: x").time_ns is not None
    assert PLAIN.split("nothing of the kind").time_ns is None
    assert PLAIN.split("2024-13-45 99:99:99 x").time_ns is None


def test_json_lines_become_their_message_and_traceback() -> None:
    line = '{"time": "2024-05-01T10:00:00Z", "level": "error", "rank": 4, "host": "n2", "message": "it failed",'
    line += ' "exc_info": "Traceback\\n  x\\nKeyError: 1"}'
    found = PLAIN.split(line)
    assert (found.body, found.rank, found.node) == ("it failed", 4, "n2")
    assert found.more == ["Traceback", "  x", "KeyError: 1"]
    assert found.time_ns == PLAIN.split("2024-05-01 10:00:00 x").time_ns


@pytest.mark.parametrize("line", ['{"a": 1}', "{not json}", '{"message": 7}', "{" * 2000 + "}" * 2000])
def test_what_is_no_log_record_stays_as_it_is(line: str) -> None:
    assert PLAIN.split(line).body == line


def test_labels_of_srun_only_where_the_file_has_them() -> None:
    lines = ["0: a", " 3: b", "10: Traceback"]
    assert labelled(lines)
    assert not labelled(["step 3: a", "b", "4: c"])
    assert [Prefixes(labelled=True).split(line).rank for line in lines] == [0, 3, 10]
    assert PLAIN.split("12: error in the recipe").rank is None


def test_a_row_of_the_launchers_table_is_no_rank() -> None:
    assert PLAIN.split("[0]:").rank is None


def test_the_host_that_a_launcher_of_several_nodes_puts_in_front_comes_off_all_its_lines() -> None:
    prefixes = Prefixes()
    assert prefixes.split("ValueError: bad").body == "ValueError: bad"
    head = prefixes.split("gpu-07: Traceback (most recent call last):")
    last = prefixes.split("gpu-07: ValueError: bad")
    ranked = prefixes.split("10.0.0.7: [rank3]: ValueError: bad")
    assert (head.body, head.node) == ("Traceback (most recent call last):", "gpu-07")
    assert (last.body, last.node) == ("ValueError: bad", "gpu-07")
    assert (ranked.body, ranked.node, ranked.rank) == ("ValueError: bad", "10.0.0.7", 3)


def test_a_traceback_with_escaped_line_ends_becomes_its_lines() -> None:
    told = (
        r"tracker: run 7: ValueError('Caught in worker 0.\nOriginal Traceback (most recent call last):\n"
        r"  File \"a.py\", line 3, in f\nE: x\n')"
    )
    line = PLAIN.split(told)
    assert line.body.endswith("Caught in worker 0.")
    assert line.more == ["Original Traceback (most recent call last):", '  File "a.py", line 3, in f', "E: x", "')"]
    assert PLAIN.split(r"path C:\new\names").more == []
