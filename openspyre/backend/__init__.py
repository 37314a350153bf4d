"""The back end: a bundle becomes a program of the card. It knows bundle and op table, nothing of the compiler."""

from openspyre.backend.lowering import compile_bundle

__all__ = ["compile_bundle"]
