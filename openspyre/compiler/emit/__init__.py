"""From the IR, once its passes have run, to a bundle."""

from openspyre.artifact.emitted import Emitted
from openspyre.compiler.emit.bundle import emit_bundle, extensions_of

__all__ = ["Emitted", "emit_bundle", "extensions_of"]
