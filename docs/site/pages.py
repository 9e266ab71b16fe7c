"""A hook of MkDocs: pages made from rules and from files above `docs/`, and the weights of the search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from torchlint.addresses import REPOSITORY, SITE, rule_page
from torchlint.engine import registry
from torchlint.engine.documentation import TOPICS, standing, topic
from torchlint.finding import Meta

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
FROM_ABOVE = {
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "code-of-conduct.md": "CODE_OF_CONDUCT.md",
}
"""Pages that are files at the top of the repository."""
FROM_ABOVE_BY_NAME = {name: page for page, name in FROM_ABOVE.items()}
WITH_LINKED_RULES = {"recipes.md", "compared.md", "changelog.md"}
"""Pages on which each name of a rule links to its page."""
BOOSTS = {"recipes.md": 4, "guides/": 2, "rules/": 2}
"""Pages that the search ranks higher, by the start of their paths."""
UNSEARCHED = (
    "decisions/",
    "changelog.md",
    "precision.md",
    "verify-on-public-scripts.md",
    "contents.md",
    "code-of-conduct.md",
)
"""Pages that the search leaves out."""
SEARCH_WORDS = {
    "recipes.md": [
        "out of memory",
        "oom",
        "cuda",
        "memory leak",
        "loss not decreasing",
        "nan loss",
        "inf",
        "reproducible",
        "slow",
    ],
    "guides/configuration.md": ["noqa", "disable", "ignore", "ignore a line", "suppress", "pyproject.toml", "exclude"],
    "guides/ci.md": ["github actions", "gitlab", "pre-commit", "hook", "sarif"],
    "guides/editors.md": ["vscode", "vs code", "pycharm", "vim", "neovim", "emacs"],
    "guides/notebooks.md": ["jupyter", "ipynb", "colab", "ipython"],
    "guides/old-code.md": ["baseline", "legacy"],
    "guides/speed.md": ["speed", "cache", "performance"],
    "guides/first-steps.md": ["install", "quick start", "exit code"],
    "write-a-rule.md": ["own rule", "custom rule", "plugin"],
    "contributing.md": ["false positive", "false negative", "bug report"],
}
"""Words that people type, by the page that answers them."""
EXAMPLES = {"bad.py": "Reported", "good.py": "Not reported"}
_MARKER = re.compile(r"  # (expect|ok|todo-expect|todo-ok): (?P<rules>[^ @\n]+(?:@\d+)?)(?P<text>.*)$")
_PICTURE = re.compile(
    r'<picture>.*?srcset="(?P<dark>[^"]+)".*?alt="(?P<alt>[^"]+)" src="(?P<light>[^"]+)".*?</picture>', re.S
)
_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)\s]+)\)")
_OUTSIDE = re.compile(r"\]\((\.\./[A-Z_]+\.md|template-plugin)\)")
_SITE_LINK = re.compile(rf"\]\({re.escape(SITE)}/([^)]+)\)")
_NAME = re.compile(r"(?<![\[`])`([a-z]+(?:-[a-z]+)+)`(?!\])")
_OPTION = re.compile(r"<code>(--?[a-z][^<]{0,24})</code>")
_SYMPTOM = re.compile(r"^## (.+)\n((?:(?!## ).*\n)*)", re.M)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Addresses come from the package, and the rules into the navigation."""
    config.site_url, config.repo_url = f"{SITE}/", REPOSITORY
    config.repo_name = REPOSITORY.rpartition("github.com/")[2]
    config.edit_uri = "edit/main/docs/"
    for entry in config.nav or ():
        if "Rules" in entry:
            entry["Rules"] += [{title: pages} for title, pages in _by_topic(lambda meta: f"rules/{meta.name}.md")]
        for part in entry.get("Rules of your own", ()):
            if "Relations" in part:
                part["Relations"] = sorted(f"relations/{page.name}" for page in (DOCS / "relations").glob("*.md"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that no file in `docs/` holds."""
    made = {f"rules/{meta.name}.md": _rule(meta) for meta in _own()}
    made |= {"rules/index.md": _index(), "decisions/index.md": _decisions()}
    made |= {page: _from_above(ROOT / name) for page, name in FROM_ABOVE.items()}
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Set the weight in the search; link to the repository, and to rules on the pages that list them."""
    _weight(page)
    markdown = _OUTSIDE.sub(_in_repository, markdown)
    if page.file.src_uri not in WITH_LINKED_RULES:
        return markdown
    names = {meta.name for meta in _own()}
    return _NAME.sub(lambda match: f"[`{match[1]}`](rules/{match[1]}.md)" if match[1] in names else match[0], markdown)


def _weight(page: Page) -> None:
    source = page.file.src_uri
    page.meta["search"] = {"exclude": True} if source.startswith(UNSEARCHED) else {}
    for start, boost in BOOSTS.items():
        if source.startswith(start):
            page.meta["search"]["boost"] = boost
    page.meta["tags"] = list(SEARCH_WORDS.get(source, ()))
    if source.startswith("rules/"):
        words = Path(source).stem.split("-")
        page.meta["tags"] += [f"{first}_{second}" for first, second in pairwise(words)]


def on_page_context(context: dict[str, Any], page: Page, **_: Any) -> dict[str, Any]:
    """Pages that were made are edited where they come from."""
    source = page.file.src_uri
    if source in FROM_ABOVE:
        page.edit_url = f"{REPOSITORY}/edit/main/{FROM_ABOVE[source]}"
    elif source.startswith("rules/") and source != "rules/index.md":
        page.edit_url = f"{REPOSITORY}/edit/main/rules/{Path(source).stem.replace('-', '_')}.py"
    elif page.file.generated_by is not None:
        page.edit_url = None
    return context


def _in_repository(match: re.Match[str]) -> str:
    if page := FROM_ABOVE_BY_NAME.get(match[1].removeprefix("../")):
        return f"]({page})"
    return f"]({REPOSITORY}/tree/main/docs/{match[1]})"


def _own() -> list[Meta]:
    """The rules and checks of torchlint itself, whatever plugins are installed."""
    return [meta for meta in registry.metas() if registry.address(meta.name) == rule_page(meta.name)]


def on_page_content(html: str, **_: Any) -> str:
    """Options such as `--report` do not break after their hyphens."""
    return _OPTION.sub(r'<code class="option">\1</code>', html)


def _by_topic(entry: Callable[[Meta], str]) -> list[tuple[str, list[str]]]:
    """The rules of each topic, by code, as `entry` gives them."""
    metas = _own()
    return [(title, [entry(meta) for meta in metas if topic(meta) == title]) for title in TOPICS.values()]


def _index() -> str:
    lines = ["# Rules", "", "You know the symptom but not the rule? Start from [the symptoms](../recipes.md).", ""]
    lines += ["*Preview* rules are off by default, because we are still testing them. `--preview` turns them on.", ""]
    lines += [(DOCS / "site" / "filter.html").read_text("utf-8"), ""]
    head = ["| Rule | Default | Fix | Category |", "| --- | --- | --- | --- |"]
    for title, rows in _by_topic(_row):
        lines += [f"## {title}", "", *head, *rows, ""]
    return "\n".join(lines)


def _row(meta: Meta) -> str:
    rule = f"[`{meta.name}`]({meta.name}.md) {meta.code}<br>{meta.summary}"
    cells = [rule, _default(meta), "fix" * _has_fix(meta), meta.category.value]
    return f"| {' | '.join(cells)} |"


def _default(meta: Meta) -> str:
    if meta.preview:
        return "preview"
    return "on" if meta.category.on_by_default else "off"


def _has_fix(meta: Meta) -> bool:
    return "\n## Fix safety" in meta.documentation


def _rule(meta: Meta) -> str:
    """The page of a rule: its documentation, what leads to it, and its fixtures as examples."""
    summary, _, body = meta.documentation.strip().partition("\n")
    sections = [
        f"---\ndescription: {summary!r}\n---\n# {meta.name}",
        f"**{meta.code}** · {standing(meta)}" + " · has a fix" * _has_fix(meta),
        f"**{summary}**",
        body.strip(),
        _symptoms(meta),
        *_examples(meta),
        _switches(meta),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _symptoms(meta: Meta) -> str:
    """The symptoms in a run that this rule explains."""
    sections = _SYMPTOM.findall((DOCS / "recipes.md").read_text("utf-8"))
    found = [f"- {symptom}" for symptom, rules in sections if f"`{meta.name}`" in rules]
    return (
        "\n".join(["## What you may see in a run", "", *found, "", "[All symptoms](../recipes.md)."]) if found else ""
    )


def _examples(meta: Meta) -> Iterator[str]:
    folder = ROOT / "fixtures" / meta.name.replace("-", "_")
    if not folder.is_dir():
        return
    yield (
        "## More examples\n\nFrom the tests of this rule"
        f" ([all of them]({REPOSITORY}/tree/main/fixtures/{folder.name})). Lines with a finding are marked."
    )
    for name, title in EXAMPLES.items():
        code, marked = _example((folder / name).read_text("utf-8"), meta.name)
        highlighted = f' hl_lines="{" ".join(map(str, marked))}"' if marked else ""
        block = f"```{{.python{highlighted}}}\n{code}\n```"
        yield f'??? example "{title}"\n\n' + "".join(f"    {line}\n" if line else "\n" for line in block.splitlines())


def _example(text: str, rule: str) -> tuple[str, list[int]]:
    """A fixture as it is shown, and its lines with a finding: markers for the tests give way to reasons."""
    lines, marked = [], []
    for number, line in enumerate(text.rstrip().splitlines(), 1):
        marker = _MARKER.search(line)
        if marker and marker[1] == "expect" and rule in re.sub(r"@\d+", "", marker["rules"]).split(","):
            marked.append(number)
        reason = marker["text"].strip() if marker and marker[1] == "ok" else ""
        lines.append(_MARKER.sub("", line) + (f"  # fine: {reason}" if reason else ""))
    return "\n".join(lines), marked


def _switches(meta: Meta) -> str:
    """How to turn the rule on or off."""
    if meta.name in registry.ABOUT_FILES:
        return ""
    select = f"```sh\ntorchlint --extend-select {meta.name} .\n```"
    on = f"It is off by default. Turn it on:\n\n{select}\n\n" if meta.preview or "off" in standing(meta) else ""
    return (
        f"## Turn it on or off\n\n{on}Ignore one line: `# torchlint: ignore[{meta.name}]`. Turn the rule off:"
        f' `ignore = ["{meta.name}"]` in the [configuration](../guides/configuration.md).'
    )


def _decisions() -> str:
    lines = ["# Decisions", "", "Choices that are hard to undo, and their reasons.", ""]
    for path in sorted((DOCS / "decisions").glob("[0-9]*.md")):
        title = path.read_text("utf-8").splitlines()[0].lstrip("# ")
        lines.append(f"- [{re.sub(r'^[0-9]+:? ', '', title)}]({path.name}) ({path.name[:4]})")
    return "\n".join([*lines, ""])


def _from_above(path: Path) -> str:
    """A file at the top of the repository, with links that work in `docs/`, and that a strict build checks."""

    def link(match: re.Match[str]) -> str:
        target = match[1]
        if target.startswith("docs/"):
            return f"]({target.removeprefix('docs/')})"
        return f"]({FROM_ABOVE_BY_NAME.get(target) or f'{REPOSITORY}/blob/main/{target}'})"

    def picture(match: re.Match[str]) -> str:
        files = {theme: match[theme].rpartition("/docs/")[2] for theme in ("light", "dark")}
        return "\n".join(f"![{match['alt']}]({file}#only-{theme})" for theme, file in files.items())

    return _SITE_LINK.sub(_page_of, _PICTURE.sub(picture, _LINK.sub(link, path.read_text("utf-8"))))


def _page_of(match: re.Match[str]) -> str:
    """A link to a page of the site as one to the file that makes it."""
    page = match[1].rstrip("/")
    return f"]({page}.md)" if page != "rules" else "](rules/index.md)"
