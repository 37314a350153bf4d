"""The rooms of the house: who may import whom, what no module is called, how long a file gets.

Reads sources only; imports inside functions count like all others.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A room may import itself and these; torch_spyre and tools may import all of openspyre.
OPENSPYRE_ROOMS = {
    "spec": set(),
    "artifact": {"spec"},
    "program": {"spec"},
    "compiler": {"artifact", "clock", "spec"},
    "backend": {"artifact", "program", "spec"},
    "card": {"program", "spec"},
    "clock": {"artifact", "program", "spec"},
}
ALL_ROOMS = {*OPENSPYRE_ROOMS, "tools"}
ALLOWED = OPENSPYRE_ROOMS | {"tools": ALL_ROOMS, "torch_spyre": ALL_ROOMS}
# The same within torch_spyre, by the longest prefix of a module's name. All may import what is in TORCH_FLOOR.
TORCH_FLOOR = {
    "torch_spyre",
    "torch_spyre._torch",
    "torch_spyre.constants",
    "torch_spyre.library_seams",
    "torch_spyre.torch_seams",
}
_INDUCTOR = "torch_spyre.inductor"
TORCH_ROOMS: dict[str, set[str]] = {
    "torch_spyre.device.layouts": set(),
    "torch_spyre.device.predicted": set(),
    "torch_spyre.comparing": {"torch_spyre.ops"},
    "torch_spyre.profiler": set(),
    "torch_spyre._inductor": set(),
    "torch_spyre.ops": {"torch_spyre.device.layouts", "torch_spyre._inductor"},
    _INDUCTOR: set(),  # the imported graph, and what we use of Inductor
    f"{_INDUCTOR}.reporting": {_INDUCTOR},
    f"{_INDUCTOR}.lowering": {_INDUCTOR, "torch_spyre.ops", "torch_spyre._inductor"},
    f"{_INDUCTOR}.launching": {
        _INDUCTOR,
        f"{_INDUCTOR}.reporting",
        f"{_INDUCTOR}.lowering",
        "torch_spyre.ops",
        "torch_spyre.device.layouts",
        "torch_spyre.device.predicted",
    },
    f"{_INDUCTOR}.importing": {
        _INDUCTOR,
        f"{_INDUCTOR}.reporting",
        f"{_INDUCTOR}.lowering",
        f"{_INDUCTOR}.launching",
        "torch_spyre.ops",
        "torch_spyre._inductor",
    },
}
# Doors of the device and of the compiler, and documented names: they register what the rooms have, so they see all of them.
TORCH_DOORS = {
    "torch_spyre.device",
    f"{_INDUCTOR}.backend",
    f"{_INDUCTOR}.entry",
    "torch_spyre._C",
    "torch_spyre.model_utils",
    "torch_spyre.operator_places",
    "torch_spyre.streams",
}
OUTSIDE_OF_OPENSPYRE = {"numpy", "rich"}  # rich: an extra, for one view of `openspyre smi`
OUTSIDE_OF_TESTS = {"pytest", "hypothesis", "fuzz"}  # fuzz/samples.py: bundles to start from

FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "temp"}
MAX_LINES = 500
LONG_FILES: dict[str, str] = {}  # path -> why it may be longer
PRIVATE_TORCH: dict[tuple[str, str], str] = {}  # (path, symbol) -> why it does not stand in torch_seams.py


def files(*roots: str, suffixes: tuple[str, ...] = (".py",)) -> list[Path]:
    found = [path for root in roots for path in (ROOT / root).rglob("*") if path.suffix in suffixes]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_of(tree: ast.AST, package: str) -> Iterator[str]:
    """Full names of everything imported; `from a import b` gives a.b, since b may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _called_name(node) in ("import_module", "__import__", "importorskip"):
            yield from (a.value for a in node.args[:1] if isinstance(a, ast.Constant) and isinstance(a.value, str))


def _called_name(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def room_of(module: str) -> str | None:
    """The room a dotted name lies in; None for what is not ours."""
    parts = module.split(".")
    if parts[0] == "torch_spyre":
        return "torch_spyre"
    return parts[1] if parts[0] == "openspyre" and len(parts) > 1 else None


def package_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).parent.parts)


def wrong_imports(source: str, package: str, *, is_test: bool = False) -> list[str]:
    """What a file of this package imports against the table."""
    home = room_of(package)
    wrong = []
    for module in imports_of(ast.parse(source), package):
        top, target = module.split(".")[0], room_of(module)
        if top in ("openspyre", "torch_spyre"):
            in_reach = {home} | ALLOWED.get(home or "", set())
            if target is not None and target not in in_reach:
                wrong.append(module)
        elif package.startswith("openspyre") and top not in sys.stdlib_module_names:
            outside = OUTSIDE_OF_OPENSPYRE | (OUTSIDE_OF_TESTS if is_test else set())
            if top not in outside:
                wrong.append(module)
    return wrong


def torch_room_of(module: str) -> str:
    """The room, the door or the piece of floor that a module of torch_spyre belongs to."""
    known = [room for room in {*TORCH_ROOMS, *TORCH_DOORS, *TORCH_FLOOR} if f"{module}.".startswith(f"{room}.")]
    return max(known, key=len)


def wrong_torch_imports(source: str, module: str) -> list[str]:
    """What a module of torch_spyre imports against the table of its rooms."""
    home = torch_room_of(module)
    if home in TORCH_DOORS or home == "torch_spyre":
        return []
    allowed = {home, *TORCH_FLOOR, *TORCH_ROOMS.get(home, set())}
    found = imports_of(ast.parse(source), module.rpartition(".")[0])
    return [name for name in found if name.startswith("torch_spyre") and torch_room_of(name) not in allowed]


def private_torch_symbols(source: str) -> set[str]:
    """Chains from torch through a name with a leading underscore, and imports of such names."""
    found = set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            chain = _chain(node)
            if chain[:1] == ["torch"] and any(map(_is_private, chain)):
                found.add(".".join(chain))
    found.update(m for m in imports_of(tree, "") if m.split(".")[0] == "torch" and any(map(_is_private, m.split("."))))
    # a.b.c contains a.b: report the shortest chain that shows the private name
    return {symbol for symbol in found if not any(symbol.startswith(other + ".") for other in found)}


def _chain(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        inner = _chain(node.value)
        return [*inner, node.attr] if inner else []
    return []


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_every_folder_of_openspyre_is_a_room() -> None:
    folders = {path.relative_to(ROOT / "openspyre").parts[0] for path in files("openspyre") if len(path.parts) > 0}
    assert {name for name in folders if not name.endswith(".py")} <= ALL_ROOMS


@pytest.mark.parametrize("path", files("openspyre", "torch_spyre"), ids=shown)
def test_imports_follow_the_table(path: Path) -> None:
    is_test = path.name.startswith("test_") or path.name == "conftest.py"
    assert wrong_imports(path.read_text(), package_of(path), is_test=is_test) == []


@pytest.mark.parametrize("path", files("torch_spyre"), ids=shown)
def test_imports_within_torch_spyre_follow_its_table(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    assert wrong_torch_imports(path.read_text(), module) == []


def test_the_rooms_of_torch_spyre_are_no_knot() -> None:
    order: list[str] = []
    while len(order) < len(TORCH_ROOMS):
        free = [room for room, below in TORCH_ROOMS.items() if room not in order and below <= set(order)]
        assert free, f"rooms that need each other: {sorted(TORCH_ROOMS.keys() - set(order))}"
        order += free


@pytest.mark.parametrize("path", files("torch_spyre"), ids=shown)
def test_private_torch_symbols_stand_in_torch_seams_alone(path: Path) -> None:
    if shown(path) == "torch_spyre/torch_seams.py":
        return
    symbols = {s for s in private_torch_symbols(path.read_text()) if (shown(path), s) not in PRIVATE_TORCH}
    assert symbols == set(), "move each to torch_spyre/torch_seams.py, with its reason"


def test_names_say_what_a_module_is() -> None:
    sources = files(
        "openspyre", "torch_spyre", "csrc", "tests", "bench", "examples", suffixes=(".py", ".pyi", ".cpp", ".h", ".inl")
    )
    parts = {(shown(path), part) for path in sources for part in (*path.relative_to(ROOT).parent.parts, path.stem)}
    assert sorted(name for name, part in parts if part in FORBIDDEN_NAMES or part.endswith("_v2")) == []


def test_no_file_outgrows_its_reader() -> None:
    sources = files(
        "openspyre", "torch_spyre", "csrc", "tests", "bench", "examples", suffixes=(".py", ".cpp", ".h", ".inl")
    )
    lengths = {shown(path): len(path.read_text().splitlines()) for path in sources}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES and name not in LONG_FILES} == {}
    assert [name for name in LONG_FILES if lengths.get(name, 0) <= MAX_LINES] == [], "no longer needs its exception"


@pytest.mark.parametrize("path", files("tests/independent"), ids=shown)
def test_the_independent_interpreter_shares_no_code(path: Path) -> None:
    """It judges our bundles, so it may know nothing but the documents."""
    allowed = {*sys.stdlib_module_names, "numpy", "pytest", "tests.independent"}
    imported = imports_of(ast.parse(path.read_text()), package_of(path))
    tops = {".".join(m.split(".")[:2]) if m.startswith("tests.") else m.split(".")[0] for m in imported}
    assert tops - allowed == set()


def test_the_card_includes_neither_torch_nor_python() -> None:
    foreign = ("torch/", "c10/", "ATen/", "pybind11/", "Python.h")
    wrong = [
        f"{shown(path)}: {line}"
        for path in files("csrc/card", suffixes=(".cpp", ".h", ".inl"))
        for line in path.read_text().splitlines()
        if line.startswith("#include") and any(name in line for name in foreign)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("package", "source", "wrong"),
    [
        ("openspyre.spec", "import torch", ["torch"]),
        ("openspyre.spec", "def f():\n    from openspyre.card import get", ["openspyre.card.get"]),
        ("openspyre.spec", "from openspyre import card", ["openspyre.card"]),
        ("openspyre.spec", "from ..card import get", ["openspyre.card.get"]),
        ("openspyre.spec", "import importlib\nimportlib.import_module('openspyre.card')", ["openspyre.card"]),
        ("openspyre.compiler.passes", "import openspyre.backend", ["openspyre.backend"]),
        ("openspyre.backend", "import openspyre.artifact, openspyre.program.text", []),
        ("openspyre.card", "from openspyre.compiler import ir", ["openspyre.compiler.ir"]),
        ("openspyre.card", "import torch_spyre", ["torch_spyre"]),
        ("openspyre.card", "import scipy, numpy, json", ["scipy"]),
        ("openspyre.card", "import pytest", ["pytest"]),
        ("openspyre.tools", "from openspyre.backend import x\nfrom openspyre.card import y", []),
        ("torch_spyre.device", "import torch, safetensors\nfrom openspyre.card import y", []),
    ],
)
def test_the_import_check_itself_finds_what_it_should(package: str, source: str, wrong: list[str]) -> None:
    assert wrong_imports(source, package) == wrong


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("torch_spyre.ops.eager", "def f():\n    from torch_spyre.device import api", ["torch_spyre.device.api"]),
        ("torch_spyre.ops.eager", "from torch_spyre import _torch", []),
        ("torch_spyre.inductor.graph", "from torch_spyre.ops import calls", ["torch_spyre.ops.calls"]),
        ("torch_spyre.inductor.backend", "from torch_spyre.inductor.importing import x", []),
        (f"{_INDUCTOR}.lowering.x", f"from {_INDUCTOR}.launching import y", [f"{_INDUCTOR}.launching.y"]),
    ],
)
def test_the_check_of_torch_spyres_rooms_finds_what_it_should(module: str, source: str, wrong: list[str]) -> None:
    assert wrong_torch_imports(source, module) == wrong


@pytest.mark.parametrize(
    ("source", "symbols"),
    [
        ("import torch\ntorch._C._foo()", {"torch._C"}),
        ("from torch._inductor import config", {"torch._inductor.config"}),
        ("from torch.utils import _pytree", {"torch.utils._pytree"}),
        ("import torch._dynamo as d", {"torch._dynamo"}),
        ("import torch\ntorch.utils._pytree.tree_map", {"torch.utils._pytree"}),
        ("import torch\ntorch.__version__; torch.nn.Module", set()),
        ("x._C.y", set()),
    ],
)
def test_the_private_symbol_check_itself_finds_what_it_should(source: str, symbols: set[str]) -> None:
    assert private_torch_symbols(source) == symbols
