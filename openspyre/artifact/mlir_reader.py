"""Reads `bundle.mlir`, of whichever front end: a recursive descent over the documented operations.

Ours and not a library's, because the dialect is nobody's but Spyre's: xdsl would need the same grammar written in its own terms, and
takes a third of a second to import, several times what a whole bundle of ten ops may take to run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from openspyre.artifact.bundle_function import Address, Execute, Function, Loop, Node, Parameter
from openspyre.artifact.fields import MAX_INT, Problems
from openspyre.artifact.mlir_tokens import MlirError, Token, tokens
from openspyre.spec.machine import SPYRE


@dataclass(frozen=True, slots=True)
class AffineMap:
    """`affine_map<(d0, ..)[s0] -> (s0 + 64*d0 + 7)>`: a factor per dim, one per symbol, and a constant."""

    dims: tuple[int, ...]
    symbols: tuple[int, ...]
    constant: int


@dataclass(frozen=True, slots=True)
class _Index:
    """The counter of an enclosing loop, by the loop's depth."""

    depth: int


@dataclass(slots=True)
class _Size:
    """What a size parameter gives: no address, and never one's operand."""

    parameter: int


_Value = Address | _Index | _Size


def read_function(text: str, problems: Problems) -> Function | None:
    """The function a text states; None, with a problem that names the line, if it states none."""
    try:
        return _Reader(tokens(text)).module()
    except MlirError as error:
        problems.say(f"line {error.line}", error.found, error.expected)
        return None


@dataclass(slots=True)
class _Reader:
    found: list[Token]
    place: int = 0
    maps: dict[str, AffineMap] = field(default_factory=dict)
    values: dict[str, _Value] = field(default_factory=dict)
    parameters: list[Parameter] = field(default_factory=list)
    by_name: dict[str, int] = field(default_factory=dict)

    # --- tokens
    def next(self) -> Token:
        return self.found[self.place]

    def take(self, kind: str, expected: str) -> Token:
        token = self.next()
        if token.kind != kind:
            raise MlirError(token.line, str(token), expected)
        self.place += 1
        return token

    def expect(self, *texts: str) -> Token:
        for text in texts:
            token = self.next()
            if token.text != text or token.kind == "string":
                raise MlirError(token.line, str(token), f"'{text}'")
            self.place += 1
        return token

    def accept(self, text: str) -> bool:
        if self.next().text == text and self.next().kind != "string":
            self.place += 1
            return True
        return False

    def wrong(self, expected: str, token: Token | None = None) -> MlirError:
        token = self.next() if token is None else token
        return MlirError(token.line, str(token), expected)

    def integer(self, expected: str = "an integer") -> int:
        token = self.take("number", expected)
        if len(token.text) > 20 or abs(int(token.text)) > MAX_INT:
            raise self.wrong(f"an integer of at most {MAX_INT}", token)
        return int(token.text)

    # --- module, function
    def module(self) -> Function:
        while self.next().kind == "alias":
            name = self.take("alias", "a name").text
            self.expect("=")
            self.maps[name] = self.affine_map()
        self.expect("module", "{", "func.func")
        function = self.take("symbol", "@sdsc_bundle")
        if function.text != "@sdsc_bundle":
            raise self.wrong("@sdsc_bundle", function)
        self.expect("(")
        while not self.accept(")"):
            self.parameter()
            if self.next().text != ")":
                self.expect(",")
        self.expect("{")
        body = self.block(0)
        self.expect("return", "}", "}")
        self.take("end", "the end of the file")
        return Function(tuple(self.parameters), body)

    def parameter(self) -> None:
        token = self.take("value", "a parameter")
        if token.text in self.by_name:
            raise self.wrong(f"each parameter once: {token.text} was declared before (invalid MLIR)", token)
        self.expect(":")
        granularity, most = self.argument_type()
        self.by_name[token.text] = len(self.parameters)
        self.parameters.append(Parameter(token.text.removeprefix("%"), granularity, most))

    def argument_type(self) -> tuple[int | None, int | None]:
        token = self.take("type", "!sdscbundle.input_arg<index>")
        if token.text != "!sdscbundle.input_arg":
            raise self.wrong("!sdscbundle.input_arg<index>", token)
        self.expect("<", "index")
        bounds: dict[str, int] = {}
        while self.accept(","):
            name = self.take("word", "granularity or max_value")
            if name.text not in ("granularity", "max_value") or name.text in bounds:
                raise self.wrong("granularity or max_value, each once", name)
            self.expect("=")
            bounds[name.text] = self.integer()
        self.expect(">")
        return bounds.get("granularity"), bounds.get("max_value")

    # --- operations
    def block(self, depth: int) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while True:
            token = self.next()
            if token.kind == "value":
                self.definition()
            elif token.text == "scf.for":
                nodes.append(self.loop(depth))
            elif token.text == "sdscbundle.sdsc_execute":
                nodes.append(self.execute())
            elif token.text in ("return", "}"):
                return tuple(nodes)
            else:
                raise self.wrong("an operation: sdscbundle.sdsc_execute, scf.for, arith, affine.apply or return")

    def definition(self) -> None:
        target = self.take("value", "a value")
        if target.text in self.values or target.text in self.by_name:
            raise self.wrong("each value defined once", target)
        self.expect("=")
        operation = self.take("word", "an operation")
        match operation.text:
            case "arith.constant":
                value: _Value = Address(None, self.integer())
                self.expect(":", "index")
            case "arith.addi":
                value = self.sum()
                self.expect(":", "index")
            case "affine.apply":
                value = self.apply()
            case "sdscbundle.input_arg_extract":
                value = self.extract()
            case _:
                raise self.wrong("arith.constant, arith.addi, affine.apply or input_arg_extract", operation)
        self.values[target.text] = value

    def value(self) -> tuple[Token, _Value]:
        token = self.take("value", "a value")
        if token.text not in self.values:
            raise self.wrong("a value that was defined before", token)
        return token, self.values[token.text]

    def address(self) -> Address:
        token, value = self.value()
        if not isinstance(value, Address):
            raise self.wrong("an address or a constant", token)
        return value

    def sum(self) -> Address:
        first = self.address()
        self.expect(",")
        token = self.next()
        return self.added(first, self.address(), token)

    def added(self, a: Address, b: Address, token: Token) -> Address:
        if a.parameter is not None and b.parameter is not None:
            raise self.wrong("at most one address in a sum", token)
        longest = max(len(a.advance), len(b.advance))
        advance = tuple(
            (a.advance[i] if i < len(a.advance) else 0) + (b.advance[i] if i < len(b.advance) else 0)
            for i in range(longest)
        )
        total = Address(a.parameter if b.parameter is None else b.parameter, a.byte + b.byte, advance)
        if abs(total.byte) > MAX_INT:
            raise self.wrong(f"a sum of at most {MAX_INT}", token)
        return total

    def extract(self) -> _Value:
        self.expect("value", "from")
        token = self.take("value", "a parameter")
        if token.text not in self.by_name:
            raise self.wrong("a parameter of the function", token)
        self.expect(":")
        self.argument_type()
        self.expect("->", "index")
        number = self.by_name[token.text]
        return _Size(number) if self.parameters[number].is_size else Address(number)

    def apply(self) -> Address:
        token = self.next()
        if token.kind == "alias":
            self.place += 1
            if token.text not in self.maps:
                raise self.wrong("an affine map that was defined before", token)
            mapped = self.maps[token.text]
        else:
            mapped = self.affine_map()
        self.expect("(")
        indices: list[tuple[Token, _Value]] = []
        while not self.accept(")"):
            indices.append(self.value())
            if self.next().text != ")":
                self.expect(",")
        symbols: list[Address] = []
        if self.accept("["):
            while not self.accept("]"):
                symbols.append(self.address())
                if self.next().text != "]":
                    self.expect(",")
        if len(indices) != len(mapped.dims) or len(symbols) != len(mapped.symbols):
            raise self.wrong(f"{len(mapped.dims)} dims and {len(mapped.symbols)} symbols for the map", token)
        return self.mapped(mapped, indices, symbols, token)

    def mapped(
        self, mapped: AffineMap, indices: list[tuple[Token, _Value]], symbols: list[Address], token: Token
    ) -> Address:
        total = Address(None, mapped.constant)
        for factor, symbol in zip(mapped.symbols, symbols, strict=True):
            total = self.added(total, self.scaled(symbol, factor, token), token)
        for factor, (at, value) in zip(mapped.dims, indices, strict=True):
            match value:
                case _Index(depth):
                    term = Address(None, 0, (0,) * depth + (factor,))
                case Address():
                    term = self.scaled(value, factor, at)
                case _:
                    raise self.wrong("a loop's counter or a constant", at)
            total = self.added(total, term, token)
        return total

    def scaled(self, value: Address, factor: int, token: Token) -> Address:
        if factor == 1:
            return value
        if value.parameter is not None:
            raise self.wrong("a factor of 1 for an address", token)
        return Address(None, value.byte * factor, tuple(step * factor for step in value.advance))

    def loop(self, depth: int) -> Loop:
        start = self.expect("scf.for")
        if depth >= SPYRE.max_loop_depth:
            raise self.wrong(f"at most {SPYRE.max_loop_depth} loops in each other", start)
        counter = self.take("value", "the loop's counter")
        if counter.text in self.values or counter.text in self.by_name:
            raise self.wrong("each value defined once", counter)
        self.expect("=")
        low = self.constant()
        self.expect("to")
        high = self.constant()
        self.expect("step")
        step = self.constant()
        if low != 0 or step != 1 or high < 0:
            raise self.wrong(f"a loop from 0 in steps of 1 (found {low} to {high} step {step})", start)
        outer = dict(self.values)
        self.values[counter.text] = _Index(depth)
        self.expect("{")
        body = self.block(depth + 1)
        self.expect("}")
        self.values = outer
        return Loop(high, body)

    def constant(self) -> int:
        token = self.next()
        value = self.address()
        if value.parameter is not None or any(value.advance):
            raise self.wrong("a constant", token)
        return value.byte

    def execute(self) -> Execute:
        start = self.expect("sdscbundle.sdsc_execute")
        self.expect("(")
        operands: list[_Value] = []
        while not self.accept(")"):
            operands.append(self.value()[1])
            if self.next().text != ")":
                self.expect(",")
        attributes = self.attributes()
        file, ids = attributes.get("sdsc_filename"), attributes.get("symbol_ids", [])
        if not isinstance(file, str):
            raise self.wrong("sdsc_filename", start)
        if not isinstance(ids, list) or len(ids) != len(operands) or not all(isinstance(i, int) for i in ids):
            raise MlirError(start.line, f"{len(operands)} operands", "as many symbol_ids, all of them integers")
        pairs = [(i, v) for i, v in zip(ids, operands, strict=True) if not isinstance(v, _Size)]
        if any(isinstance(v, _Index) for _, v in pairs):
            raise self.wrong("addresses as operands", start)
        return Execute(file, tuple((i, v) for i, v in pairs if isinstance(v, Address)), start.line)

    def attributes(self) -> dict[str, object]:
        self.expect("{")
        found: dict[str, object] = {}
        while not self.accept("}"):
            token = self.next()
            name = token.text[1:-1] if token.kind == "string" else token.text
            if token.kind not in ("string", "word"):
                raise self.wrong("the name of an attribute")
            self.place += 1
            self.expect("=")
            found[name] = self.attribute()
            if self.next().text != "}":
                self.expect(",")
        return found

    def attribute(self) -> object:
        token = self.next()
        if token.kind == "string":
            self.place += 1
            return token.text[1:-1]
        if token.kind == "number":
            return self.integer()
        if self.accept("["):
            values: list[object] = []
            while not self.accept("]"):
                values.append(self.attribute())
                if self.next().text != "]":
                    self.expect(",")
            return values
        raise self.wrong("a string, a number or a list")

    # --- affine maps
    def affine_map(self) -> AffineMap:
        self.expect("affine_map", "<", "(")
        dims = self.names(")")
        symbols = self.names("]") if self.accept("[") else []
        self.expect("->", "(")
        factors = dict.fromkeys((*dims, *symbols), 0)
        constant = 0
        while True:
            factor, name = self.term(factors)
            if name is None:
                constant += factor
            else:
                factors[name] += factor
            if not self.accept("+"):
                break
        self.expect(")", ">")
        return AffineMap(tuple(factors[d] for d in dims), tuple(factors[s] for s in symbols), constant)

    def names(self, end: str) -> list[str]:
        found: list[str] = []
        while not self.accept(end):
            found.append(self.take("word", "a name").text)
            if self.next().text != end:
                self.expect(",")
        return found

    def term(self, factors: dict[str, int]) -> tuple[int, str | None]:
        """A name, a number, or the two multiplied."""
        factor, name = 1, None
        while True:
            token = self.next()
            if token.kind == "number":
                factor *= self.integer()
            elif token.kind == "word" and token.text in factors and name is None:
                name = token.text
                self.place += 1
            else:
                raise self.wrong("a dim or symbol of the map, or a number")
            if not self.accept("*"):
                return factor, name
