"""Whether the ops of a `spyre_hint` scope are what the scope speaks of: names that none of them has, and names that were expected."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from openspyre.compiler.ir import Hint, Op
from openspyre.spec.errors import HintWarning, InvalidArgument


def check_hints(ops: Iterable[Op]) -> None:
    """Of ops whose dims have their names."""
    scopes: dict[int, _Scope] = {}
    for op in ops:
        for hint in op.hints:
            scopes.setdefault(hint.number, _Scope(hint)).ops.append(op)
    for scope in scopes.values():
        scope.check()


@dataclass(frozen=True, slots=True)
class _Scope:
    hint: Hint
    ops: list[Op] = field(default_factory=list)

    def check(self) -> None:
        known = dict.fromkeys(name for op in self.ops for dim in op.dims for name in dim.named)
        reduced = dict.fromkeys(name for op in self.ops for dim in op.dims if dim.reduced for name in dim.named)
        for name, cores in self.hint.work_div:
            if name not in known:
                self._unknown(f"work_div names dim {name!r}", f"{cores} cores are for none of them", known)
        if self.hint.tiles is not None and self.hint.tiles[0] not in known:
            name, count = self.hint.tiles
            self._ignored(f"num_tiles_per_dim names dim {name!r}", f"there are no {count} tiles", known)
        self._compare("expected_named_dims", self.hint.expected_named_dims, known)
        self._compare("expected_reduction_dims", self.hint.expected_reduction_dims, reduced)

    def _unknown(self, what: str, so: str, known: Iterable[str]) -> None:
        """An op that has the name may be in another program."""
        if not self.hint.whole:
            return self._ignored(what, so, known)
        raise InvalidArgument(
            f"{self._where}: {what}, {self._names(known)}: name_tensor_dims gives tensors their names"
        )

    def _ignored(self, what: str, so: str, known: Iterable[str]) -> None:
        warnings.warn(f"{self._where}: {what}, {self._names(known)}; {so}", HintWarning, stacklevel=2)

    def _compare(self, what: str, expected: Sequence[str] | None, found: Iterable[str]) -> None:
        if expected is None:
            return
        surplus, missing = set(found) - set(expected), set(expected) - set(found)
        if surplus or (missing and self.hint.whole):
            rows = "; ".join(f"{op.name}: {_described(op)}" for op in self.ops)
            raise InvalidArgument(
                f"{self._where}: {what} is {list(expected)}, but the ops there have {list(found)} ({rows})"
            )

    def _names(self, known: Iterable[str]) -> str:
        return f"which no op in its scope has; they have {', '.join(known) or 'no names'}"

    @property
    def _where(self) -> str:
        return f"spyre_hint around {self.ops[0].name}" + (f" ({self.ops[0].origin})" if self.ops[0].origin else "")


def _described(op: Op) -> str:
    return ", ".join((" x ".join(dim.named) or str(dim.size)) + " reduced" * dim.reduced for dim in op.dims)
