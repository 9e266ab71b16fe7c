"""A page that stands alone: each finding with its code and its help, and filters. Nothing is fetched."""

from __future__ import annotations

import re
from collections import Counter
from html import escape
from importlib.metadata import version

from torchlint.engine import registry
from torchlint.finding import Finding
from torchlint.outputs import Style, summary
from torchlint.outputs.escaping import html_text, printable
from torchlint.outputs.listing import listing
from torchlint.outputs.page import DARK, page
from torchlint.outputs.places import shown_place
from torchlint.results import LintedFile, Outcome

_CODE = re.compile("`([^`]+)`")
_CSS = """
.error { --colour: var(--red); } .warning { --colour: var(--yellow); }
.information { --colour: var(--blue); } .hint { --colour: var(--green); }
.severity { color: var(--colour); } a { color: inherit; } a:not(:hover) { text-decoration: none; }
article p { margin: .4rem 0; overflow-wrap: anywhere; } h2 { overflow-wrap: anywhere; }
u { text-decoration-color: var(--dim); text-underline-offset: .25em; }
form { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; } form[hidden], article[hidden] { display: none; }
select { font: inherit; max-width: 20rem; }
"""
_SCRIPT = """
const form = document.forms[0], articles = [...document.querySelectorAll('article')]
function show() {
  const wanted = new URLSearchParams(location.hash.slice(1))
  for (const select of form.elements) {
    select.value = wanted.get(select.name) ?? ''
    if (select.selectedIndex < 0) select.value = ''
  }
  for (const article of articles)
    article.hidden = [...form.elements].some(({name, value}) => value && article.dataset[name] !== value)
}
form.onchange = () => {
  location.hash = new URLSearchParams([...new FormData(form)].filter(([, value]) => value))
}
onhashchange = show
form.hidden = false
show()
"""


def render(outcome: Outcome, style: Style) -> str:
    """The page in ASCII. All findings can be read without its script, which hides what the filters leave out."""
    articles = [_article(file, finding) for file in outcome.files for finding in file.findings]
    body = "\n".join(["<h1>torchlint</h1>", f"<p>{escape(summary(outcome))}</p>", _form(outcome), *articles, _foot()])
    return html_text(page("torchlint", f"{body}\n<script>{_SCRIPT}</script>", DARK + _CSS))


def _form(outcome: Outcome) -> str:
    rules = Counter(f"{finding.code} {finding.name}" for finding in outcome.findings)
    files = Counter({_path(file): len(file.findings) for file in outcome.files})
    return f"<form hidden>{_select('rule', rules)}{_select('file', files)}</form>"


def _select(name: str, counts: Counter[str]) -> str:
    options = "".join(f'<option value="{escape(key)}">{escape(key)} ({counts[key]})</option>' for key in sorted(counts))
    return f'<label>{name.title()} <select name="{name}"><option value="">all</option>{options}</select></label>'


def _article(file: LintedFile, finding: Finding) -> str:
    rule = f"{finding.code} {finding.name}"
    data = f'data-rule="{escape(rule)}" data-file="{escape(_path(file))}"'
    href = registry.address(finding.name)
    name = f'<a href="{escape(href)}">{escape(rule)}</a>' if href else escape(rule)
    help = f"<p><b>help:</b> {_prose(finding.help)}</p>\n" if finding.help else ""
    return (
        f'<article class="{finding.severity.value}" {data}>\n'
        f'<h2><span class="severity">{finding.severity.value}</span> {name} '
        f'<span class="dim">{escape(shown_place(file.source, finding.span.start))}</span></h2>\n'
        f"<p>{_prose(finding.message)}</p>\n{listing(file.source, finding)}{help}</article>"
    )


def _path(file: LintedFile) -> str:
    return printable(file.source.path)


def _prose(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(printable(text)))


def _foot() -> str:
    return f'<p class="dim">torchlint {escape(version("torchlint"))}</p>'
