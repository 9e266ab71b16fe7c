"""A page that stands alone: a summary, each finding with its code, help and fix, and filters. Nothing is fetched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html import escape
from importlib.metadata import version
from urllib.parse import urlencode

from torchlint.engine import registry
from torchlint.files.fingerprint import digest_of
from torchlint.finding import Finding, Severity
from torchlint.outputs import Style, summary
from torchlint.outputs.escaping import html_text, printable
from torchlint.outputs.fix_diff import fix_diff
from torchlint.outputs.listing import listing
from torchlint.outputs.page import DARK, breakable, page
from torchlint.outputs.places import shown_place
from torchlint.outputs.prose import prose
from torchlint.outputs.statistics import rows
from torchlint.results import LintedFile, Outcome

_CSS = """
.error { --colour: var(--red); } .warning { --colour: var(--yellow); }
.information { --colour: var(--blue); } .hint { --colour: var(--green); }
.severity { color: var(--colour); } a { color: inherit; } a:not(:hover) { text-decoration: none; }
article p { margin: .4rem 0; overflow-wrap: anywhere; } h2 { overflow-wrap: anywhere; }
article { scroll-margin-top: 6rem; } article:target { outline: 2px solid var(--blue); }
u { text-decoration-color: var(--dim); text-underline-offset: .25em; }
ins, del { text-decoration: none; } ins { color: var(--green); } del { color: var(--red); }
summary { cursor: pointer; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; }
th { color: var(--dim); font-weight: normal; } td:nth-child(n + 3):nth-child(-n + 5) { text-align: right; }
tr { border-bottom: 1px solid var(--line); } .wide { overflow-x: auto; }
form { align-items: center; background: var(--back); display: flex; flex-wrap: wrap; gap: .6rem 1.2rem;
       padding: .6rem 0; position: sticky; top: 0; }
form[hidden], article[hidden] { display: none; }
select, input { font: inherit; max-width: 16rem; }
@media (max-width: 45rem) {
  form { position: static; } td:last-child, th:last-child, td:nth-child(4), th:nth-child(4) { display: none; }
  td, th { padding-right: .5rem; }
}
"""
_SCRIPT = """
const form = document.forms[0], articles = [...document.querySelectorAll('article')]
const texts = new Map(articles.map(article => [article, article.textContent.toLowerCase()]))
const fields = [...form.elements].filter(({name}) => name && name !== 'count')
function matches(article, {name, value}) {
  if (!value) return true
  if (name === 'text') return texts.get(article).includes(value.toLowerCase())
  return article.dataset[name] === value
}
function show() {
  const chosen = new URLSearchParams(location.hash.slice(1))
  for (const field of fields) {
    if (field === document.activeElement && field.name === 'text') continue
    field.value = chosen.get(field.name) ?? ''
    if (field.selectedIndex < 0) field.value = ''
  }
  for (const article of articles) article.hidden = !fields.every(field => matches(article, field))
  const shown = articles.filter(article => !article.hidden).length
  form.elements.count.value = shown < articles.length ? `${shown} of ${articles.length} shown` : ''
  document.getElementById('finding=' + chosen.get('finding'))?.scrollIntoView()
}
form.oninput = () => {
  const chosen = new URLSearchParams([...new FormData(form)].filter(([, value]) => value))
  history.replaceState(null, '', '#' + chosen)
  show()
}
form.onsubmit = () => false
onhashchange = show
form.hidden = false
show()
"""


def render(outcome: Outcome, style: Style) -> str:
    """The page in ASCII. All findings can be read without its script, which hides what the filters leave out."""
    ids = _Ids()
    parts = outcome.parted()  # deprecated names come last
    articles = [_article(file, finding, ids) for files in parts for file in files for finding in file.findings]
    head = ["<h1>torchlint</h1>", f"<p>{escape(summary(outcome))}</p>", _made(style), _summary(outcome), _form(outcome)]
    body = "\n".join([*filter(None, head), *articles, _foot()])
    return html_text(page("torchlint", f"{body}\n<script>{_SCRIPT}</script>", DARK + _CSS))


class _Ids:
    """Names of findings in addresses, which are the same in the page of another run, as long as the finding is."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def of(self, finding: Finding) -> str:
        key = "\0".join((printable(finding.path), finding.name, finding.fingerprint))
        name = digest_of(key.encode("utf-8", "backslashreplace"))[:12]
        self._seen[name] += 1
        return name if self._seen[name] == 1 else f"{name}-{self._seen[name]}"


def _made(style: Style) -> str:
    return f'<p class="dim">{escape(printable(style.made))}</p>' if style.made else ""


def _summary(outcome: Outcome) -> str:
    """A row for each rule that found something."""
    found = rows(outcome)
    if not found:
        return ""
    severities = {finding.code: finding.severity for finding in reversed(outcome.findings)}
    said = {meta.code: meta.summary for meta in outcome.rules}
    lines = [
        f'<tr class="{severities[row.code].value}"><td class="severity">{severities[row.code].value}</td>'
        f"<td>{_filter(f'{row.code} {row.name}')}</td><td>{row.findings:,}</td><td>{row.files:,}</td>"
        f"<td>{row.fixable:,}</td><td>{prose(said.get(row.code, ''))}</td></tr>\n"
        for row in found
    ]
    head = "<tr><th></th><th>rule</th><th>findings</th><th>files</th><th>fixes</th><th></th></tr>\n"
    return f'<div class="wide"><table>\n{head}{"".join(lines)}</table></div>'


def _filter(rule: str) -> str:
    return f'<a href="#{escape(urlencode({"rule": rule}))}">{escape(rule)}</a>'


def _form(outcome: Outcome) -> str:
    found = outcome.findings
    rules = Counter(f"{finding.code} {finding.name}" for finding in found)
    files = Counter({_path(file): len(file.findings) for file in outcome.files})
    severities = Counter(finding.severity.value for finding in found)
    order = [severity.value for severity in Severity if severities[severity.value]]
    fields = [
        _select("severity", severities, order),
        _select("rule", rules, sorted(rules)),
        _select("file", files, sorted(files)),
        '<label>Search <input type="search" name="text"></label>',
        '<output name="count" class="dim"></output>',
    ]
    return f"<form hidden>{''.join(fields)}</form>"


def _select(name: str, counts: Counter[str], order: list[str]) -> str:
    options = "".join(f'<option value="{escape(key)}">{escape(key)} ({counts[key]})</option>' for key in order)
    return f'<label>{name.title()} <select name="{name}"><option value="">all</option>{options}</select></label>'


def _article(file: LintedFile, finding: Finding, ids: _Ids) -> str:
    return "".join(_parts(file, finding, ids.of(finding)))


def _parts(file: LintedFile, finding: Finding, name: str) -> Iterator[str]:
    rule, severity = f"{finding.code} {finding.name}", finding.severity.value
    data = f'data-rule="{escape(rule)}" data-file="{escape(_path(file))}" data-severity="{severity}"'
    href = registry.address(finding.name)
    shown = f'<a href="{escape(href)}">{escape(rule)}</a>' if href else escape(rule)
    yield f'<article id="finding={name}" class="{severity}" {data}>\n'
    yield f'<h2><span class="severity">{severity}</span> {shown} '
    place = breakable(shown_place(file.source, finding.span.start))
    yield f'<a class="place" href="#finding={name}" title="link to this finding">{place}</a></h2>\n'
    yield f"<p>{prose(finding.message)}</p>\n{listing(file.source, finding)}"
    if finding.help:
        yield f"<p><b>help:</b> {prose(finding.help)}</p>\n"
    if finding.fix is not None:
        yield fix_diff(file.source, finding.fix)
    yield "</article>"


def _path(file: LintedFile) -> str:
    return printable(file.source.path)


def _foot() -> str:
    return f'<p class="dim">torchlint {escape(version("torchlint"))}</p>'
