"""docs/models.md: the tables that `make models` measures. The words around them stand in the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from .comparing import BOUND
from .fidelity import Greedy, Perplexity
from .measure import Forward, Generation
from .real import REAL

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
_HEAD = (
    "Model", "Parameters", "Error eager", "Error compiled", "(CPU float16)", "Fallbacks", "Launches", "Ops", "Relayouts",
    "Extension ops", "Host ms, CPU float32 ms", "Predicted card ms",
)  # fmt: skip


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(row) + " |\n" for row in lines)


def _count(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 1e5 else f"{parameters / 1e3:.0f} k"


def forwards(measured: Mapping[str, Forward]) -> str:
    return _table(
        _HEAD,
        (
            (
                name,
                _count(one.parameters),
                f"{one.eager_error:.4f}",
                f"{one.compiled_error:.4f}",
                f"{one.float16_error:.4f}",
                ", ".join(one.fallbacks) or "none",
                str(one.bundles),
                str(one.ops),
                str(one.relayouts),
                ", ".join(one.extensions) or "none",
                f"{one.card_ms:.1f}, {one.cpu_ms:.1f}",
                f"{one.predicted_ms:.2f}" + (f" + {one.round_trips_ms:.2f}" if one.round_trips_ms else ""),
            )
            for name, one in measured.items()
        ),
    )


def generations(measured: Mapping[str, Generation]) -> str:
    ways = [way for one in measured.values() for way, _ in one.verdicts]
    head = ("Model", *dict.fromkeys(ways), "Fallbacks", "Compiled again")
    rows = []
    for name, one in measured.items():
        told = [
            verdict.problem or f"{verdict.equal}/{verdict.tokens}" + (f" ({verdict.gap:.3f})" if verdict.gap else "")
            for _, verdict in one.verdicts
        ]
        again = ", ".join(f"{way} {count}" for way, count in one.again if count)
        rows.append((name, *told, ", ".join(one.fallbacks) or "none", again or "none"))
    return _table(head, rows)


def answers(measured: Mapping[str, tuple[str, bool]]) -> str:
    sources = {model.name: model.package for model in REAL}
    rows = ((name, sources[name].title, sources[name].licence, told) for name, (told, _) in measured.items())
    return _table(("Model", "Package", "Licence", "Says on the card"), rows)


def fidelity(measured: Iterable[Greedy], text: Perplexity) -> str:
    rows = [(one.prompt, f"{one.equal}/{one.tokens}", "" if one.gap is None else f"{one.gap:.3f}") for one in measured]
    told = f"\nPerplexity of {text.tokens} tokens of the Apache licence: {text.card:.3f} on the card, {text.cpu:.3f} in float32 ({100 * text.off:.2f} % apart).\n"
    return _table(("Asked", "Tokens equal", "Gap"), rows) + told


def write(parts: Mapping[str, str]) -> None:
    """Each part in its place: `<!-- measured: NAME -->` ... `<!-- end -->`."""
    text = PAGE.read_text()
    for name, part in parts.items():
        found = re.compile(rf"(<!-- measured: {name} -->\n).*?(<!-- end -->\n)", re.DOTALL)
        text, count = found.subn(lambda match, part=part: match[1] + part + match[2], text)
        assert count == 1, f"{PAGE.name} has no place for {name}"
    PAGE.write_text(text)


def models_on_the_page() -> set[str]:
    return set(re.findall(r"^\| ([^|]+?) \| [\d.]+ [kM] \|", PAGE.read_text(), re.MULTILINE))


__all__ = ["BOUND", "PAGE", "answers", "fidelity", "forwards", "generations", "models_on_the_page", "write"]
