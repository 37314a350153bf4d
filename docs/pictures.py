"""Writes the pictures of explain.md: drawings of the page that explains the transformer block of examples/, out of a headless Chromium.

`python docs/pictures.py`, after `make browser`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from chromium import Chromium, find  # noqa: E402

DRAWINGS = ("graph", "timeline", "scratchpads", "roofline")
# A drawing alone has no style sheet: its own goes into it. Titles name files of this machine. Of the graph, which is long, only the beginning.
ALONE = """(id => {
  const drawing = byId(id).cloneNode(true);
  drawing.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  drawing.removeAttribute("style");
  drawing.querySelectorAll("title").forEach(title => title.remove());
  if (id === "graph") drawing.setAttribute("viewBox", drawing.getAttribute("viewBox").replace(/\\d+ (\\d+)$/, "1430 $1"));
  const style = document.createElementNS("http://www.w3.org/2000/svg", "style");
  style.textContent = "text { font: 11px system-ui, sans-serif; fill: #525252; } svg { background: #fafafa; }";
  drawing.prepend(style);
  return new XMLSerializer().serializeToString(drawing);
})"""


def main() -> None:
    browser = find()
    if browser is None:
        sys.exit("there is no Chromium: make browser")
    with tempfile.TemporaryDirectory() as place:
        page = Path(place) / "page.html"
        subprocess.run(
            [sys.executable, ROOT / "examples/explain_transformer_block.py", page],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with Chromium(browser, Path(place)) as chromium:
            chromium.open(f"file://{page}")
            for name in DRAWINGS:
                (ROOT / "docs" / f"explain_{name}.svg").write_text(chromium.evaluate(f"{ALONE}('{name}')") + "\n")


if __name__ == "__main__":
    main()
