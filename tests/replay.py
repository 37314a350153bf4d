"""`python tests/replay.py`: which bundles of the compile corpus a change altered, against another commit.

Each tree writes what its graphs launch into build/replay/<commit>; the other commit is checked out beside it and runs with
this environment's C++ modules. `--diff GRAPH` shows one graph's files.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build/replay"
PROVENANCE = re.compile(r'"(file|start_line|end_line|id)": [^\n]*')
FINISHED = ".finished"


def main() -> int:
    options = parsed()
    if options.record:
        return record(Path(options.tree), Path(options.record), options.only)
    other, here = bundles_of(options.against, options.only), bundles_here(options.only)
    if options.diff:
        return show(other / options.diff, here / options.diff)
    return compare(other, here)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default="origin/main", help="the commit to compare with (default origin/main)")
    parser.add_argument("--only", default="", help="graphs whose name has this in it")
    parser.add_argument("--diff", metavar="GRAPH", help="show what changed in the files of one graph")
    parser.add_argument("--record", help=argparse.SUPPRESS)
    parser.add_argument("--tree", help=argparse.SUPPRESS)
    return parser.parse_args()


def git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def bundles_of(commit: str, only: str) -> Path:
    """What a commit's graphs launch: kept from last time, or from a checkout of it."""
    name = git("rev-parse", commit)
    kept = KEPT / name
    if (kept / (FINISHED + only)).exists() or (kept / FINISHED).exists():
        return kept
    tree = KEPT / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    git("worktree", "prune")
    git("worktree", "add", "--detach", str(tree), name)
    try:
        for module in compiled_modules():
            shutil.copy(module, tree / module.relative_to(site_packages()))
        recorded(tree, kept, only)
    finally:
        git("worktree", "remove", "--force", str(tree))
    return kept


def bundles_here(only: str) -> Path:
    """The working tree's, always anew."""
    kept = KEPT / "here"
    shutil.rmtree(kept, ignore_errors=True)
    recorded(ROOT, kept, only)
    return kept


def site_packages() -> Path:
    return Path(sys.prefix) / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def compiled_modules() -> list[Path]:
    return [so for package in ("openspyre", "torch_spyre") for so in (site_packages() / package).rglob("*.so")]


def recorded(tree: Path, kept: Path, only: str) -> None:
    """In a process of its own: a process imports one tree."""
    print(f"compiling the corpus of {tree.relative_to(ROOT) if tree != ROOT else 'this tree'}", flush=True)
    command = [sys.executable, __file__, "--record", str(kept), "--tree", str(tree), "--only", only]
    environment = os.environ | {"OPENSPYRE_CACHE_DIR": str(KEPT / "cache"), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    subprocess.run(command, check=True, env=environment)
    shutil.rmtree(KEPT / "cache", ignore_errors=True)
    (kept / (FINISHED + only)).touch()


def record(tree: Path, kept: Path, only: str) -> int:
    """Writes the launches of every graph; one that fails leaves its error as text."""
    if tree != ROOT:  # the editable install would find this tree
        sys.meta_path[:] = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
    sys.path[:0] = [str(tree), str(tree / "tests/compile"), str(tree / "tests")]
    warnings.simplefilter("ignore")
    import torch

    import torch_spyre

    assert Path(torch_spyre.__file__).is_relative_to(tree), torch_spyre.__file__
    from corpus import GRAPHS
    from test_corpus import function_of, operands

    torch.spyre.set_fallback_mode("silent")
    for row in GRAPHS:
        if only in row.name:
            target = kept / row.name
            shutil.rmtree(target, ignore_errors=True)
            torch.manual_seed(0)
            function = function_of(row, row.module() if row.module else None, "spyre")
            try:
                torch_spyre.export_bundle(function, *operands(row, "spyre"), directory=target, with_inputs=False)
            except Exception as error:  # a graph without a launch is one, too
                target.mkdir(parents=True, exist_ok=True)
                (target / "error").write_text(f"{type(error).__name__}: {str(error).splitlines()[0]}\n")
    return 0


def files_of(graph: Path) -> dict[str, str]:
    """Constants, which are no text, by their hash; without the tree and the lines that the corpus stands in."""
    found = sorted(path for path in graph.rglob("*") if path.is_file())
    return {
        path.relative_to(graph).as_posix(): PROVENANCE.sub("", path.read_text())
        if path.suffix != ".npy"
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in found
    }


def compare(other: Path, here: Path) -> int:
    """0 if all graphs that both trees have are the same."""
    graphs = {path.name for path in here.iterdir() if path.is_dir()}
    known = {path.name for path in other.iterdir() if path.is_dir()}
    changed = sorted(name for name in graphs & known if files_of(other / name) != files_of(here / name))
    for name in changed:
        before, after = files_of(other / name), files_of(here / name)
        files = [file for file in before.keys() | after.keys() if before.get(file) != after.get(file)]
        print(f"changed: {name}, {len(files)} of {len(before)} files, now {len(after)}")
    for name in sorted(graphs - known):
        print(f"new: {name}")
    print(f"{len(changed)} of {len(graphs & known)} graphs changed")
    return 1 if changed else 0


def show(other: Path, here: Path) -> int:
    before, after = files_of(other), files_of(here)
    for file in sorted(before.keys() | after.keys()):
        old, new = (files.get(file, "").splitlines(keepends=True) for files in (before, after))
        sys.stdout.writelines(difflib.unified_diff(old, new, f"before/{file}", f"after/{file}"))
    return 1 if before != after else 0


if __name__ == "__main__":
    sys.exit(main())
