from functools import partial

from openspyre.spec.sharing import Memo, nothing_shared


def test_an_answer_is_worked_out_once_per_key() -> None:
    memo: Memo[list[int]] = Memo()
    first = memo.get("a", lambda: [1])
    assert memo.get("a", lambda: [2]) is first == [1]
    assert memo.get("b", lambda: [2]) == [2]


def test_no_more_than_the_limit_is_kept() -> None:
    memo: Memo[None] = Memo(limit=2)
    asked: list[int] = []
    for key in (0, 1, 0, 1, 2, 0):
        memo.get(key, partial(asked.append, key))
    assert asked == [0, 1, 2, 0], "the third key had the first two forgotten"


def test_an_answer_may_be_none() -> None:
    memo: Memo[None] = Memo()
    asked: list[str] = []
    for _ in range(2):
        memo.get("key", lambda: asked.append("key"))
    assert asked == ["key"]


def test_where_nothing_is_shared_nothing_is_found_or_kept() -> None:
    memo: Memo[int] = Memo()
    assert memo.get("a", lambda: 1) == 1
    with nothing_shared():
        assert memo.get("a", lambda: 2) == 2
        assert memo.get("b", lambda: 3) == 3
    assert (memo.get("a", lambda: 4), memo.get("b", lambda: 4)) == (1, 4)
