"""From the IR, once its passes have run, to a bundle."""

from openspyre.artifact.emitted import Emitted
from openspyre.compiler.emit.documented import emit_documented, extensions_of

__all__ = ["Emitted", "emit_documented", "extensions_of"]
