"""From the IR, once its passes have run, to a bundle."""

from openspyre.artifact.emitted import Emitted
from openspyre.compiler.emit.bundle import emit_bundle

__all__ = ["Emitted", "emit_bundle"]
