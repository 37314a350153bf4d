"""Where a node of torch's graph came from: the user's line, the module, the operator, and its names in earlier graphs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import torch

from openspyre.spec.origin import Origin

_FRAME = re.compile(r'\s*File "(.+)", line (\d+), in (.+)')
_ROOT = re.compile(r"[LG]\['(\w+)'\]\.?")  # as dynamo writes where it found a module
_ITEM = re.compile(r"\[['\"]?([^'\"\]]*)['\"]?\]")


def origin_of(node: torch.fx.Node) -> Origin:
    """A gradient's node tells the line and the module of the call that it is the gradient of."""
    meta = node.meta
    file, line, function = _last_frame(meta.get("stack_trace") or "")
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack")
    operator = _operator(meta.get("original_aten") or node.target)
    return Origin(
        file, line, function, operator, _names(node), _module(*next(reversed(stack.values()))) if stack else ""
    )


def lines_of(graphs: Iterable[torch.fx.Graph]) -> str:
    """A name for where all calls of graphs stand: code from a cache would tell the lines of whoever filled it."""
    origins = [origin_of(node) for graph in graphs for node in graph.nodes if node.op.startswith("call_")]
    places = [(origin.file, origin.line, origin.function, origin.module) for origin in origins]
    return hashlib.sha256(repr(places).encode()).hexdigest()


def _names(node: torch.fx.Node) -> tuple[str, ...]:
    before: list[Any] = node.meta.get("from_node") or []
    while before and before[0].from_node:
        before = before[0].from_node
    return (before[0].name, node.name) if before and before[0].name != node.name else (node.name,)


@lru_cache(maxsize=4096)
def _operator(target: Any) -> str:
    return str(target)


@lru_cache(maxsize=4096)
def _last_frame(stack_trace: str) -> tuple[str, int, str]:
    for text in reversed(stack_trace.splitlines()):
        found = _FRAME.fullmatch(text)
        if found is not None:
            return found[1], int(found[2]), found[3].partition(", code: ")[0]
    return "", 0, ""


@lru_cache(maxsize=4096)
def _module(path: str, kind: Any) -> str:
    """Path and class. `self` is the model that was compiled, and so is torch's own `fn` around it."""
    name = kind.__name__ if isinstance(kind, type) else str(kind).rpartition(".")[2]
    root = _ROOT.match(path)
    rest = _ITEM.sub(r".\1", path[root.end() :] if root else path).lstrip(".")
    whole = rest if root is None or root[1] in ("self", "fn") else ".".join(filter(None, (root[1], rest)))
    return f"{whole} ({name})".lstrip()
