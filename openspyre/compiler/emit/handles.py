"""Where an op came from, as `debug_handle_` tells it."""

from __future__ import annotations

import hashlib

from openspyre.artifact.superdsc import Provenance, SourcePlace
from openspyre.spec.origin import Change, Origin


def provenance_of(name: str, row: str, origin: Origin) -> Provenance:
    """An op that does several calls has a handle for each among those it was fused from; the first one gives it its headline."""
    call = origin.call
    fused = tuple(_handle(one, one.nodes) for one in (call, *origin.merged)) if origin.merged else ()
    return _handle(call, (*call.nodes, name), row, fused, origin.history)


def _handle(
    call: Origin,
    chain: tuple[str, ...],
    row: str = "",
    fused: tuple[Provenance, ...] = (),
    history: tuple[Change, ...] = (),
) -> Provenance:
    """Its id is a hash of what it is and where: 63 bits, the same in every process."""
    facts = (row, *chain, call.file, str(call.line), call.operator, call.module, *(part.id for part in fused))
    digest = hashlib.sha256("\0".join(facts).encode()).digest()
    source = SourcePlace(call.file, call.line, call.function or None) if call.file else None
    number = str(int.from_bytes(digest[:8], "big") >> 1)
    return Provenance(number, source, call.operator or None, chain, fused, history, call.module or None)
