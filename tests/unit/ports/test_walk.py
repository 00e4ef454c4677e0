"""Walking a list page by page."""

from typing import Any

import pytest

from firstfault_server.ports import ListQuery, Page, walk


class Numbers:
    """A list of numbers that notes what it was asked."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[tuple[Any, ...] | None] = []

    def ask(self, query: ListQuery) -> Page[int]:
        self.asked.append(query.after)
        first = 0 if query.after is None else query.after[0] + 1
        items = list(range(first, min(first + query.limit, self.count)))
        return Page(items=items, next_key=[items[-1]] if items and items[-1] + 1 < self.count else None)


@pytest.mark.parametrize(("count", "asked"), [(0, [None]), (2, [None]), (5, [None, (1,), (3,)])])
def test_every_item_comes_once(count: int, asked: list[tuple[int, ...] | None]) -> None:
    numbers = Numbers(count)
    assert list(walk(numbers.ask, ListQuery(tenant="acme", limit=2))) == list(range(count))
    assert numbers.asked == asked


def test_no_page_is_asked_for_beyond_the_bound() -> None:
    numbers = Numbers(100)
    assert list(walk(numbers.ask, ListQuery(tenant="acme", limit=2), most=4)) == [0, 1, 2, 3]
    assert len(numbers.asked) == 2


def test_pages_are_asked_for_as_they_are_needed() -> None:
    numbers = Numbers(100)
    walked = walk(numbers.ask, ListQuery(tenant="acme", limit=2))
    assert [next(walked), next(walked), len(numbers.asked)] == [0, 1, 1]
