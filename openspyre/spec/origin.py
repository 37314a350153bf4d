"""Where an op came from: the call in the user's model, and what our passes made of it.

For people and their tools: nothing is decided by it, and what is equal but for its origin is worked out once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """What a pass did to an op: rewrite, fusion, decomposition, clone or remap."""

    kind: str
    pass_name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Origin:
    """A call of the user's; what is not known is empty. `nodes`: its names in torch's graphs, the earliest first.

    `module`: path and class, as in `layers.0.up (Linear)`. `merged`: other calls that the same op does.
    """

    file: str = ""
    line: int = 0
    function: str = ""
    operator: str = ""
    nodes: tuple[str, ...] = ()
    module: str = ""
    merged: tuple[Origin, ...] = ()
    history: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return self != NOWHERE

    def __str__(self) -> str:
        place = f'File "{self.file}", line {self.line}' if self.file else ""
        known = (place, f"in {self.function}" if self.function else "", self.module or self.operator)
        return ", ".join(part for part in known if part)

    def changed(self, kind: str, pass_name: str, reason: str) -> Origin:
        return self._with(self.merged, (*self.history, Change(kind, pass_name, reason)))

    def merged_with(self, other: Origin, pass_name: str, reason: str) -> Origin:
        """Of an op that does what another one did, too."""
        others = [one for one in (other.call, *other.merged) if one not in (self.call, *self.merged)]
        changes = (*self.history, Change("fusion", pass_name, reason))
        return self._with((*self.merged, *others), changes) if others and other else self

    @property
    def call(self) -> Origin:
        """The call alone."""
        return self._with((), ()) if self.merged or self.history else self

    def _with(self, merged: tuple[Origin, ...], history: tuple[Change, ...]) -> Origin:
        return Origin(self.file, self.line, self.function, self.operator, self.nodes, self.module, merged, history)


NOWHERE = Origin()
