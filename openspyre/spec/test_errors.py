import pickle

import pytest

from openspyre.spec import errors


def catalogue() -> list[type[errors.SpyreError]]:
    return [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.SpyreError)]


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.InvalidArgument, ValueError),
        (errors.InvalidDevice, ValueError),
        (errors.InvalidLayout, ValueError),
        (errors.ValueOutOfRange, OverflowError),
        (errors.OutOfMemory, MemoryError),
        (errors.EnvironmentVariableError, ValueError),
    ],
)
def test_a_mistake_is_also_of_the_builtin_kind(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, builtin)
    assert issubclass(error, RuntimeError)


def test_every_class_says_what_it_means() -> None:
    assert all(c.__doc__ for c in catalogue())


@pytest.mark.parametrize(
    "error",
    [
        errors.UnsupportedRank(8, 6),
        errors.EnvironmentVariableError("SENCORES", "33", "a number from 1 to 32"),
        errors.InternalError("the free list lost a block"),
    ],
)
def test_errors_survive_pickling_between_processes(error: errors.SpyreError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)


def test_our_own_bug_asks_to_be_reported() -> None:
    assert "openspyre doctor" in str(errors.InternalError("lost a block"))
