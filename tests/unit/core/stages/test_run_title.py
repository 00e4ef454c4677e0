"""The line an incident is known by."""

import pytest

from firstfault_server.core.stages.run_title import with_step


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("killed by SIGKILL", "killed by SIGKILL at step 4"),
        ("killed by SIGKILL, sender unknown", "killed by SIGKILL at step 4, sender unknown"),
        ("exit status 1: no data: none", "exit status 1 at step 4: no data: none"),
        ("failed (see above)", "failed at step 4 (see above)"),
        ("", " at step 4"),
    ],
)
def test_the_step_stands_behind_the_fact(text: str, title: str) -> None:
    assert with_step(text, " at step 4") == title
    assert with_step(text, "") == text
