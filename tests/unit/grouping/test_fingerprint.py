"""Identity of failures: what may differ between two occurrences and what may not."""

from firstfault.stack import frame
from firstfault_server.core.grouping.fingerprint import fingerprint, joining_hashes
from firstfault_server.core.grouping.normalise import parameterised

OWN = frame("/home/a/job/train.py", "step", 10)
LIBRARY = frame("/opt/lib/python3.11/site-packages/torch/nn/modules/linear.py", "forward", 99)
OTHER = frame("/opt/lib/python3.11/site-packages/torch/nn/modules/conv.py", "forward", 12)


def test_lines_paths_and_messages_do_not_change_a_stack_fingerprint() -> None:
    elsewhere = frame("/mnt/b/train.py", "step", 77)
    assert fingerprint("ValueError", "a 1", [OWN, LIBRARY]) == fingerprint("ValueError", "b 2", [elsewhere, LIBRARY])


def test_type_and_own_frames_change_it() -> None:
    other = frame("/home/a/job/data.py", "step", 10)
    ids = {fingerprint(kind, "m", [own, LIBRARY]).id for kind in ("ValueError", "KeyError") for own in (OWN, other)}
    assert len(ids) == 4


def test_fallbacks_whole_stack_then_message() -> None:
    assert fingerprint("E", "m", [LIBRARY]).id != fingerprint("E", "m", [OTHER]).id
    plain = fingerprint("E", "lost 3 of 7 files in /data/a", [])
    assert plain.stack_hash == ""
    assert plain.id == fingerprint("E", "lost 9 of 12 files in /scratch/b/c", []).id
    assert plain.id != fingerprint("E", "found 3 of 7 files in /data/a", []).id


def test_two_hashes_can_join_and_without_frames_none_does() -> None:
    assert len(joining_hashes("E", [OWN, LIBRARY])) == 2
    assert joining_hashes("E", []) == ()
    assert set(joining_hashes("E", [OWN, LIBRARY])) & set(joining_hashes("E", [OWN, OTHER])) == {joining_hashes("E", [OWN, OTHER])[0]}


def test_placeholders() -> None:
    text = "worker 12 at 10.0.0.7:29500 (id 3f2c9a4e-0000-4111-8222-123456789abc) read 1.5e6 bytes from C:\\data\\a.bin; 0x7ffe"
    assert parameterised(text) == "worker <n> at <host> (id <id>) read <n> bytes from <path>; <address>"
