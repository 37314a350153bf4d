"""Fusion: steps that hand a value on through memory become one step. No bit of a result changes (contract N3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from openspyre.artifact.model import Bundle, Execution, Role
from openspyre.backend.fusion.driver import Fusion, settled
from openspyre.backend.fusion.forms import Bound, Forms
from openspyre.backend.fusion.memory import Memory
from openspyre.backend.fusion.places import placed
from openspyre.backend.operands import Symbols
from openspyre.program.model import Step
from openspyre.program.verify import step_problems


@dataclass(frozen=True, slots=True)
class Fused:
    """The steps of a program after fusion. `problems`: what no card would take, or what would never be written."""

    steps: tuple[Step, ...]
    pool_bytes: int
    problems: tuple[str, ...] = ()


def fused(bundle: Bundle, templates: Sequence[Step]) -> Fused | None:
    """Fuses the steps of all executions, each temp being a symbol of its own; `templates` are the descriptions' steps.

    None: there is nothing to gain.
    """
    if len(bundle.executions) < 2 or not _temps_are_apart(bundle):
        return None
    arguments, forms = bundle.arguments, Forms()
    numbers = {buffer.name: number for number, buffer in enumerate((*arguments, *bundle.temps))}
    steps = _bound(bundle, templates, numbers, forms)
    roles = {role: frozenset(n for n, b in enumerate(arguments) if b.role is role) for role in Role}
    kept = Fusion(steps, Memory(len(arguments), roles[Role.UPDATE], roles[Role.OUTPUT]), forms).run()
    if len(kept) == len(steps):
        return None
    sizes = {numbers[buffer.name]: buffer.layout.device_bytes for buffer in bundle.temps}
    return Fused(*placed(kept, len(arguments), sizes), tuple(_problems(steps, kept, bundle)))


def _problems(before: Sequence[Bound], after: Sequence[Bound], bundle: Bundle) -> Iterator[str]:
    """Steps of a form are right together, so each form is looked at once. What was written must be written still."""
    for bound in {bound.form: bound for bound in after}.values():
        for problem in step_problems(bound.form.step, len(bound.symbols), len(bundle.scalars)):
            yield f"step {bound.name!r}: {problem}"
    written = [{span.symbol for step in steps for span in step.writes} for steps in (before, after)]
    for number, buffer in enumerate(bundle.arguments):
        if number in written[0] - written[1]:
            yield f"{buffer.role} {buffer.name!r} is not written any more"


def _bound(bundle: Bundle, templates: Sequence[Step], numbers: dict[str, int], forms: Forms) -> tuple[Bound, ...]:
    """Executions of one description differ in where their operands begin and in which of them are the same buffer."""
    symbols = Symbols(
        {name: (number, 0) for name, number in numbers.items()},
        {scalar.name: number for number, scalar in enumerate(bundle.scalars)},
    )
    found = []
    for execution in bundle.executions:
        own = tuple(dict.fromkeys([numbers[place.buffer] for place in execution.places]))
        begins = tuple([(own.index(numbers[place.buffer]), place.byte) for place in execution.places])

        def bind(execution: Execution = execution) -> Step:
            return settled(symbols.bind(templates[execution.description], execution))

        key = (execution.description, begins, execution.scalars)
        found.append(forms.bound(key, own, execution.name, bind))
    return tuple(found)


def _temps_are_apart(bundle: Bundle) -> bool:
    """Whether temps that live at the same time share no byte; a bundle made otherwise is executed as it stands."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for when, execution in enumerate(bundle.executions):
        for place in execution.places:
            first.setdefault(place.buffer, when)
            last[place.buffer] = when
    alive: list[tuple[int, int, int]] = []  # last use, first byte, end
    for temp in sorted((t for t in bundle.temps if t.name in first), key=lambda t: first[t.name]):
        begin = temp.place or 0
        alive = [other for other in alive if other[0] >= first[temp.name]]
        if any(begin < end and start < begin + temp.layout.device_bytes for _, start, end in alive):
            return False
        alive.append((last[temp.name], begin, begin + temp.layout.device_bytes))
    return True
