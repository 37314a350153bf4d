"""`debug_handle_` of a SuperDSC. It is for people: what is not as documented is left out, never a problem."""

from __future__ import annotations

from openspyre.artifact.json_types import Json
from openspyre.artifact.superdsc import Provenance, SourcePlace
from openspyre.spec.origin import Change

_MAX_TEXT, _MAX_PARTS = 4096, 64


def read_provenance(handle: Json, depth: int = 0) -> Provenance | None:
    if not isinstance(handle, dict) or depth > 4:
        return None
    parts = [read_provenance(part, depth + 1) for part in _list(handle.get("fused_from"))]
    return Provenance(
        id=_text(handle.get("id")) or "",
        source=_source(handle.get("source")),
        aten_op=_text(handle.get("aten_op")),
        ir_chain=tuple(link for part in _list(handle.get("ir_chain")) if (link := _text(part)) is not None),
        fused_from=tuple(part for part in parts if part is not None),
        module=_text(handle.get("module")),
        history=tuple(_change(change) for change in _list(handle.get("transform_history")) if isinstance(change, dict)),
    )


def _list(value: Json) -> list[Json]:
    return value[:_MAX_PARTS] if isinstance(value, list) else []


def _text(value: Json) -> str | None:
    return value[:_MAX_TEXT] if isinstance(value, str) else None


def _source(value: Json) -> SourcePlace | None:
    match value:
        case {"file": str(file), "start_line": int(line), "function": str(function)}:
            return SourcePlace(file[:_MAX_TEXT], line, function[:_MAX_TEXT])
        case {"file": str(file), "start_line": int(line)}:
            return SourcePlace(file[:_MAX_TEXT], line)
    return None


def _change(value: dict[str, Json]) -> Change:
    kind, name, reason = (_text(value.get(field)) or "" for field in ("kind", "pass_name", "reason"))
    return Change(kind, name, reason)
