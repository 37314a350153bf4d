"""`make models`: measures all models on the card against the CPU in float32 and writes docs/models.md. A line per model as it goes."""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import TypeVar

from . import fidelity, page
from .comparing import BOUND
from .families import FAMILIES
from .measure import Forward, Generation, answer, forward, generation
from .packages import Unavailable
from .real import REAL

Result = TypeVar("Result")


class Progress:
    """What is being measured, on one line that lives where somebody looks; else a line when it is done."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.start = total, 0, time.perf_counter()

    def run(self, what: str, measure: Callable[[], Result], show: Callable[[Result], str]) -> Result:
        self.done += 1
        head = f"[{self.done}/{self.total}] {what}"
        if sys.stderr.isatty():
            print(f"\r\033[K{head} ...", end="", file=sys.stderr, flush=True)
        start = time.perf_counter()
        found = measure()
        line = f"{head}: {show(found)}, {time.perf_counter() - start:.1f} s"
        print(f"\r\033[K{line}" if sys.stderr.isatty() else line, file=sys.stderr, flush=True)
        return found


def _forward(one: Forward) -> str:
    return (
        f"error {one.eager_error:.4f}, compiled {one.compiled_error:.4f}, {one.card_ms:.1f} ms (CPU {one.cpu_ms:.1f})"
    )


def _generation(one: Generation) -> str:
    return "; ".join(v.problem or f"{way} {v.equal}/{v.tokens}" for way, v in one.verdicts)


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--only", nargs="*", help="names of models; then no page is written")
    only = arguments.parse_args().only
    warnings.simplefilter("ignore")
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    families = [family for family in FAMILIES if not only or family.name in only]
    real = [model for model in REAL if not only or model.name in only]
    generating = [family for family in families if family.generates]
    llama = any(model.generates for model in real)
    progress = Progress(len(families) + len(generating) + 2 * len(real) + 2 * llama)
    measured: dict[str, Forward] = {}
    answers: dict[str, tuple[str, bool]] = {}
    for model in real:
        try:
            measured[model.name] = progress.run(model.name, lambda model=model: forward(model), _forward)
            answers[model.name] = progress.run(
                f"{model.name}, asked", lambda model=model: answer(model), lambda a: a[0]
            )
        except Unavailable as reason:
            print(f"{model.name} is left out: {reason}", file=sys.stderr)
    found, text = list[fidelity.Greedy](), None
    if llama and measured:
        found = progress.run(
            "greedy tokens", fidelity.greedy, lambda all: f"{sum(g.equal for g in all)} of {sum(g.tokens for g in all)}"
        )
        text = progress.run("perplexity", fidelity.perplexity, lambda p: f"{p.card:.3f} (CPU {p.cpu:.3f})")
    small = {f.name: progress.run(f.name, lambda f=f: forward(f), _forward) for f in families}
    tokens = {f.name: progress.run(f"{f.name}, generating", lambda f=f: generation(f), _generation) for f in generating}
    if not only:
        parts = {"real": page.forwards(measured), "answers": page.answers(answers)}
        if text is not None:
            parts["fidelity"] = page.fidelity(found, text)
        page.write(parts | {"families": page.forwards(small), "generation": page.generations(tokens)})
    return _verdict(small, tokens, answers)


def _verdict(small: dict[str, Forward], tokens: dict[str, Generation], answers: dict[str, tuple[str, bool]]) -> int:
    wrong = [
        f"{name}: error above {BOUND}"
        for name, one in small.items()
        if max(one.eager_error, one.compiled_error) >= BOUND
    ]
    wrong += [f"{name}, {way}: {v.problem}" for name, one in tokens.items() for way, v in one.verdicts if v.problem]
    wrong += [f"{name} says: {told}" for name, (told, right) in answers.items() if not right]
    for line in wrong:
        print(f"WRONG {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
