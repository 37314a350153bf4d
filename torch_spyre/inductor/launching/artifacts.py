"""Specialised graphs travel with torch.compiler.save_cache_artifacts: what is loaded elsewhere, there compiles nothing.

Registered with the device, because a process may load artifacts before it compiles anything.
"""

from __future__ import annotations

from torch_spyre.torch_seams import resolve

CacheArtifact = resolve("torch.compiler._cache.CacheArtifact")
_manager = resolve("torch.compiler._cache.CacheArtifactManager")
_KIND = "spyre_graph"


class GraphArtifact(CacheArtifact):  # type: ignore[misc, valid-type]
    """One entry of the cache on disk."""

    def populate_cache(self) -> None:
        from openspyre.backend.text_cache import TextCache
        from openspyre.card.cards import settings_in_force

        TextCache.of(settings_in_force(), "graph").keep(self.key, self.content.decode())

    @staticmethod
    def type() -> str:
        return _KIND


def register() -> None:
    resolve("torch.compiler._cache.CacheArtifactFactory").register(GraphArtifact)


def record(request: str, text: str) -> None:
    """A graph that this process compiled or found is one to save."""
    _manager.record_artifact(_KIND, request, text.encode())
