"""What passes return can be logged, for those who ask."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from openspyre.compiler import pipeline
from openspyre.compiler.ir import Access, Buffer, Dim, Op, Program, Role
from openspyre.spec import logs
from openspyre.spec.environment import Settings
from openspyre.spec.errors import InvalidArgument


@pytest.fixture(autouse=True)
def _quiet_again() -> Iterator[None]:
    yield
    logs.set_log_passes("")


def logged(caplog: pytest.LogCaptureFixture, names: str) -> list[str]:
    """The first lines of what is logged while a small program is compiled."""
    x, y = (Buffer(name, "float16", (64,), (1,), role) for name, role in (("x", Role.INPUT), ("y", Role.OUTPUT)))
    there = [Access(name, 0, (1,), "float16") for name in "xy"]
    program = Program("p", (x, y), (Op("neg", "neg", (Dim("d", 64),), (there[0],), (there[1],)),))
    logs.configure(Settings.read({"SPYRE_LOG_PASSES": names}))
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "spyre.compiler"):
        pipeline.run(program)
    return [record.getMessage().split("\n")[0] for record in caplog.records]


def test_the_programs_after_some_passes(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, "") == []
    assert logged(caplog, "divide_work, ChooseLayouts") == ["p after ChooseLayouts", "p after DivideWork"]
    assert 'dim "d" 64' in caplog.text
    assert len(logged(caplog, "all")) == len(logged(caplog, "1")) == len(pipeline.passes())


def test_a_pass_that_there_is_not(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidArgument, match="asks for dividework2; the passes are ExpandComposites, "):
        logged(caplog, "DivideWork2")
