"""The text of `bundle.mlir`: parameters, the addresses that derive from them, and executions in their loops."""

from __future__ import annotations

from collections.abc import Iterator

from openspyre.artifact.bundle_function import Execute, Function, Loop, Node, Parameter

_TYPE = "!sdscbundle.input_arg<index>"


def function_text(function: Function) -> str:
    return "\n".join([*_Writer(function).lines(), ""])


def _type(parameter: Parameter) -> str:
    if not parameter.is_size:
        return _TYPE
    return f"!sdscbundle.input_arg<index, granularity={parameter.granularity}, max_value={parameter.max_value}>"


class _Writer:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.maps: dict[tuple[int, ...], int] = {}
        self.applied = 0
        self.loops = 0
        self.counters: list[str] = []  # of the loops around

    def lines(self) -> list[str]:
        function = self.function
        parameters = ", ".join(f"%{parameter.name}: {_type(parameter)}" for parameter in function.parameters)
        head = [f"    {line}" for line in self._values()]
        body = [f"    {line}" for line in self._nodes(function.body, 0)]
        maps = [_map(steps, number) for steps, number in self.maps.items()]
        return [*maps, "module {", f"  func.func @sdsc_bundle({parameters}) {{", *head, *body, "    return", "  }", "}"]

    def _values(self) -> Iterator[str]:
        for parameter in self.function.parameters:
            yield f"%{parameter.short_name} = sdscbundle.input_arg_extract value from %{parameter.name} : {_type(parameter)} -> index"
        bounds = list(_bounds(self.function.body))
        if bounds:
            yield "%c0 = arith.constant 0 : index"
            yield "%c1 = arith.constant 1 : index"
        for number, count in enumerate(bounds):
            yield f"%loop_bound_{number} = arith.constant {count} : index"
        derived = dict.fromkeys(
            (address.parameter, address.byte)
            for execute in _executes(self.function.body)
            for _, address in execute.symbols
            if address.byte
        )
        for base, byte in derived:
            name = self._base(base)
            yield f"%{name}_offset_{byte} = arith.constant {byte} : index"
            yield f"%{name}_addr_{byte} = arith.addi %{name}, %{name}_offset_{byte} : index"

    def _base(self, parameter: int | None) -> str:
        assert parameter is not None, "an execution's symbols are addresses of arguments"
        return self.function.parameters[parameter].short_name

    def _nodes(self, body: tuple[Node, ...], depth: int) -> Iterator[str]:
        for node in body:
            match node:
                case Execute():
                    yield from self._execute(node, depth)
                case Loop(_, inner):
                    number = self.loops
                    self.loops += 1
                    yield f"scf.for %i_{depth}_{number} = %c0 to %loop_bound_{number} step %c1 {{"
                    self.counters.append(f"%i_{depth}_{number}")
                    yield from (f"  {line}" for line in self._nodes(inner, depth + 1))
                    self.counters.pop()
                    yield "}"

    def _execute(self, execute: Execute, depth: int) -> Iterator[str]:
        operands = []
        for _, address in execute.symbols:
            name = self._base(address.parameter)
            value = f"%{name}_addr_{address.byte}" if address.byte else f"%{name}"
            if any(address.advance):
                steps = (*address.advance, *(0,) * (depth - len(address.advance)))
                number = self.maps.setdefault(steps, len(self.maps))
                yield f"%addr_{self.applied} = affine.apply #map_{number}({', '.join(self.counters)})[{value}]"
                value = f"%addr_{self.applied}"
                self.applied += 1
            operands.append(value)
        ids = ", ".join(str(symbol) for symbol, _ in execute.symbols)
        yield f'sdscbundle.sdsc_execute ({", ".join(operands)}) {{sdsc_filename="{execute.file}", "symbol_ids"=[{ids}]}}'


def _map(steps: tuple[int, ...], number: int) -> str:
    dims = ", ".join(f"d{i}" for i in range(len(steps)))
    terms = " + ".join(f"{step}*d{i}" for i, step in enumerate(steps) if step)
    return f"#map_{number} = affine_map<({dims})[s0] -> (s0 + {terms})>"


def _executes(body: tuple[Node, ...]) -> Iterator[Execute]:
    for node in body:
        match node:
            case Execute():
                yield node
            case Loop(_, inner):
                yield from _executes(inner)


def _bounds(body: tuple[Node, ...]) -> Iterator[int]:
    for node in body:
        if isinstance(node, Loop):
            yield node.count
            yield from _bounds(node.body)
