"""The crash parser over the shapes that tracebacks have in practice; every text is our own."""

import pytest

from firstfault_server.core.grouping.crash import Crash
from firstfault_server.core.grouping.open_traceback import MOST_FRAMES
from firstfault_server.core.grouping.parse import CrashParser, parse_text


def _plain(crash: Crash) -> tuple[str, str, list[str]]:
    return crash.type, crash.message, [frame.function for frame in crash.frames]


def test_a_plain_traceback() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/w/train.py", line 3, in <module>\n'
        "    main()\n"
        '  File "/w/train.py", line 2, in main\n'
        "    x()\n"
        "KeyError: 'a'\n"
    )
    (crash,) = parse_text(text)
    assert _plain(crash) == ("KeyError", "'a'", ["<module>", "main"])
    assert (crash.first_line, crash.last_line) == (1, 6)


def test_markers_elisions_and_notes_of_newer_pythons() -> None:
    text = """Traceback (most recent call last):
  File "/w/a.py", line 9, in <module>
    go(1,
    ~~^^^
  File "/w/a.py", line 5, in go
    return go(
           ...<2 lines>...
    )
    ^
  [Previous line repeated 993 more times]
RecursionError: maximum recursion depth exceeded
while walking the tree
"""
    (crash,) = parse_text(text)
    assert _plain(crash) == ("RecursionError", "maximum recursion depth exceeded\nwhile walking the tree", ["<module>", "go"])


@pytest.mark.parametrize(
    ("between", "relation"),
    [
        ("The above exception was the direct cause of the following exception:", "cause"),
        ("During handling of the above exception, another exception occurred:", "context"),
    ],
)
def test_chains_keep_every_member_nearest_first(between: str, relation: str) -> None:
    one = 'Traceback (most recent call last):\n  File "/w/a.py", line 1, in {0}\n    x\n{1}: m{0}\n'
    text = f"\n{between}\n\n".join(one.format(name, kind) for name, kind in (("a", "OSError"), ("b", "ValueError"), ("c", "RuntimeError")))
    (crash,) = parse_text(text)
    assert crash.type == "RuntimeError"
    assert [(link.type, link.relation) for link in crash.chain] == [("ValueError", relation), ("OSError", relation)]
    assert crash.chain[1].frames[0].function == "a"


def test_syntax_error_without_function() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/w/run.py", line 1, in <module>\n'
        "    import b\n"
        '  File "/w/b.py", line 4\n'
        "    x = = 1\n"
        "        ^\n"
        "SyntaxError: invalid syntax\n"
    )
    (crash,) = parse_text(text)
    assert (crash.type, len(crash.frames)) == ("SyntaxError", 2)


def test_worker_errors_printed_inside_the_message_become_the_cause() -> None:
    text = """Traceback (most recent call last):
  File "/w/train.py", line 7, in <module>
    next(it)
ValueError: Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/w/data.py", line 12, in __getitem__
    raise ValueError("odd sample")
ValueError: odd sample
"""
    (crash,) = parse_text(text)
    assert (crash.type, crash.chain[0].type, crash.chain[0].message) == ("ValueError", "ValueError", "odd sample")
    assert crash.chain[0].frames[0].function == "__getitem__"


def test_remote_traceback_of_a_pool() -> None:
    text = '''multiprocessing.pool.RemoteTraceback:
"""
Traceback (most recent call last):
  File "/w/work.py", line 3, in job
    1 / 0
ZeroDivisionError: division by zero
"""

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/w/main.py", line 9, in <module>
    pool.map(job, x)
ZeroDivisionError: division by zero
'''
    (crash,) = parse_text(text)
    assert [link.type for link in crash.chain] == ["ZeroDivisionError"]
    assert [frame.function for frame in crash.frames] == ["<module>"]


def test_spawned_process_with_an_empty_own_message() -> None:
    text = """Traceback (most recent call last):
  File "/w/main.py", line 9, in <module>
    spawn(f)
torch.multiprocessing.spawn.ProcessRaisedException:

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/w/main.py", line 4, in f
    g()
TypeError: bad operand
"""
    (crash,) = parse_text(text)
    assert (crash.type.rsplit(".", 1)[-1], crash.chain[0].type) == ("ProcessRaisedException", "TypeError")


def test_exception_group_members_are_read() -> None:
    text = """  + Exception Group Traceback (most recent call last):
  |   File "/w/g.py", line 3, in <module>
  |     run()
  | ExceptionGroup: several failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/w/g.py", line 8, in one
    |     raise ValueError("one")
    | ValueError: one
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/w/g.py", line 9, in two
    |     raise KeyError("two")
    | KeyError: 'two'
    +------------------------------------
"""
    assert [crash.type for crash in parse_text(text)] == ["ExceptionGroup", "ValueError", "KeyError"]


def test_notebook_styles_old_and_new() -> None:
    old = """---------------------------------------------------------------------------
ValueError                                Traceback (most recent call last)
<ipython-input-3-abc> in <module>
      1 x = 1
----> 2 fit(x)

/opt/lib/python3.8/site-packages/pkg/core.py in fit(x, y)
     10     pass
---> 11     raise ValueError("no")

ValueError: no
"""
    new = """---------------------------------------------------------------------------
ValueError                                Traceback (most recent call last)
Cell In[3], line 2
      1 x = 1
----> 2 fit(x)

File /opt/lib/python3.11/site-packages/pkg/core.py:11, in fit(x, y)
      9 def fit(x, y):
---> 11     raise ValueError("no")

ValueError: no
"""
    for text in (old, new):
        (crash,) = parse_text(text)
        assert (crash.type, [frame.module for frame in crash.frames]) == ("ValueError", ["<notebook>", "pkg.core"])


def test_rich_boxes() -> None:
    text = """╭──────────── Traceback (most recent call last) ─────────────╮
│ /w/train.py:33 in <module>                                 │
│                                                            │
│   31                                                       │
│ ❱ 33 main()                                                │
╰────────────────────────────────────────────────────────────╯
AssertionError: sizes differ
"""
    (crash,) = parse_text(text)
    assert _plain(crash) == ("AssertionError", "sizes differ", ["<module>"])


def test_truncated_head_and_tail_keep_what_is_there() -> None:
    head = '  File "/w/a.py", line 8, in inner\n    y()\nValueError: lost its head\n'
    tail = 'Traceback (most recent call last):\n  File "/w/a.py", line 8, in outer\n    y()\n'
    assert _plain(parse_text(head)[0]) == ("ValueError", "lost its head", ["inner"])
    assert _plain(parse_text(tail)[0]) == ("", "", ["outer"])


def test_lost_indentation_as_in_pasted_text() -> None:
    text = (
        "Traceback (most recent call last):\n"
        'File "train.py", line 9, in\n'
        "main(opt)\n"
        'File "train.py", line 4, in main\n'
        "model.names\n"
        "AttributeError: no names\n"
    )
    assert _plain(parse_text(text)[0]) == ("AttributeError", "no names", ["<module>", "main"])


def test_lines_wrapped_by_a_mail_program() -> None:
    text = (
        "Traceback (most recent call last):\n"
        "File\n"
        '"/w/session.py",\n'
        "line 97, in call\n"
        "return fn()\n"
        'File "/w/other.py",\n'
        "line 4, in raise_it\n"
        "TimeoutError: late\n"
    )
    assert _plain(parse_text(text)[0]) == ("TimeoutError", "late", ["call", "raise_it"])


def test_two_ranks_that_print_into_each_other() -> None:
    text = (
        "Traceback (most recent call last):\n"
        "Traceback (most recent call last):\n"
        '  File "/w/a.py", line 1, in <module>\n'
        '  File "/w/a.py", line 1, in <module>\n'
        "    main()    main()\n"
        "\n"
        "Exception: stopped hereException: stopped here\n"
        "\n"
    )
    crashes = parse_text(text)
    assert crashes[0].type == "Exception"
    assert crashes[0].message == "stopped here"


def test_ignored_exceptions_are_marked() -> None:
    text = (
        "Exception ignored in: <function A.__del__ at 0x7f>\n"
        "Traceback (most recent call last):\n"
        '  File "/w/a.py", line 8, in __del__\n'
        "    y()\n"
        "TypeError: late\n"
    )
    assert parse_text(text)[0].ignored


def test_what_follows_a_message_is_not_part_of_it() -> None:
    noise = ("  3%|#  | 3/99 [00:01<00:09]", "2024-01-02 03:04:05,678 INFO next", "[INFO] next", "Process finished with exit code 1")
    for line in noise:
        (crash,) = parse_text(f'Traceback (most recent call last):\n  File "/w/a.py", line 8, in a\nValueError: short\n{line}\n')
        assert crash.message == "short", line


def test_own_exception_classes_with_any_name() -> None:
    text = 'Traceback (most recent call last):\n  File "/w/a.py", line 8, in a\n    raise Stop("x")\nmy.pkg.Stop: over\n'
    assert parse_text(text)[0].type == "my.pkg.Stop"


def test_stacks_of_faulthandler_are_innermost_first_and_only_the_crashed_thread_counts() -> None:
    text = """Fatal Python error: Segmentation fault

Current thread 0x00007f12 (most recent call first):
  File "/w/a.py", line 5 in inner
  File "/w/a.py", line 9 in outer

Thread 0x00007f13 (most recent call first):
  File "/w/b.py", line 5 in wait
"""
    assert [_plain(crash) for crash in parse_text(text)] == [("Fatal Python error", "Segmentation fault", ["outer", "inner"])]
    assert parse_text(text.replace("Fatal Python error: Segmentation fault", "Timeout (0:05:00)!")) == []


def test_frames_stay_bounded() -> None:
    text = (
        "Traceback (most recent call last):\n"
        + "".join(f'  File "/w/a.py", line {i}, in f{i}\n    x\n' for i in range(5000))
        + "ValueError: deep\n"
    )
    (crash,) = parse_text(text)
    assert len(crash.frames) == MOST_FRAMES
    assert (crash.frames[0].function, crash.frames[-1].function) == ("f0", "f4999")


def test_prose_is_no_crash() -> None:
    parser = CrashParser()
    for number, line in enumerate(("An Error happens", "we saw an error: none", "", "note: File a.py", "the end"), 1):
        assert parser.feed(line, number) == []
    assert parser.close() == []
