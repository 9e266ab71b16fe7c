"""The frame of all HTML pages: one file that fetches nothing, in one style."""

from __future__ import annotations

from html import escape

_STYLE = """
:root { color-scheme: light; --text: #1f2328; --dim: #59636e; --line: #d8dee4; --code: #f6f8fa;
        --mark: #ffebe9; --back: #fff; --red: #b3261e; --green: #1a7f37; --yellow: #9a6700; --blue: #0969da; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
       color: var(--text); }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin: 0; }
h2 .place { color: var(--dim); font-size: .95rem; font-weight: normal; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--code); border-radius: 6px; overflow-x: auto; padding: .6rem; margin: .6rem 0; }
mark { background: var(--mark); color: inherit; }
article { border: 1px solid var(--line); border-left: 5px solid var(--colour); border-radius: 6px; margin: 1rem 0;
          padding: .8rem 1rem; }
.dim { color: var(--dim); }
"""
DARK = """
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --text: #e6edf3; --dim: #9198a1; --line: #3d444d; --code: #161b22;
          --mark: #521a16; --back: #0d1117; --red: #ff7b72; --green: #56d364; --yellow: #e3b341; --blue: #79c0ff; }
  body { background: var(--back); }
}
"""
"""Colours for those who prefer a dark screen, for a page whose pictures can be seen on one."""


def breakable(path: str) -> str:
    """A path as HTML that may continue on the next line after each slash and underscore."""
    return escape(path).replace("/", "/<wbr>").replace("_", "_<wbr>")


def page(title: str, body: str, style: str) -> str:
    """A page; `style` is what it adds to the style of all."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        # an icon of nothing: browsers would ask the server for one
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}{style}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )
