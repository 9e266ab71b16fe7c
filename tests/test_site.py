"""The documentation site: a strict build with a page for each rule, a useful search, and no requests to other hosts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from torchlint import addresses
from torchlint.engine import registry

ROOT = Path(__file__).parent.parent
PAGES = {path.stem.replace("_", "-") for path in (ROOT / "rules").glob("[!_]*.py")}

SEARCHES = {
    "noqa": "guides/configuration/",
    "disable": "guides/configuration/",
    "out of memory": "recipes/",
    "loss not decreasing": "recipes/",
    "pre-commit": "guides/ci/",
    "nan loss": "recipes/",
    "cuda out of memory": "recipes/",
    "memory leak": "recipes/",
    "ignore a line": "guides/configuration/",
    "baseline": "guides/old-code/",
    "github actions": "guides/ci/",
    "vscode": "guides/editors/",
    "jupyter": "guides/notebooks/",
    "zero_grad": "rules/missing-zero-grad/",
    "retain_graph": "rules/retain-graph-in-loop/",
    "reproducible": "recipes/",
    "speed": "guides/speed/",
    "own rule": "write-a-rule/",
    "false positive": "contributing/",
    "fix automatically": "guides/fixes/",
}
"""Words that people type, and the page that must come first."""
UNSEARCHED = ("decisions/", "changelog/", "precision/", "verify-on-public-scripts/")
DRIVER = Path(__file__).with_name("site_search.js")

pytestmark = [pytest.mark.slow, pytest.mark.needs("mkdocs", "material")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a broken link, a page that no menu has or an anchor that is not there fails the build."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


def text(page: Path) -> str:
    return page.read_text("utf-8")


def test_every_rule_and_check_has_its_page(site: Path) -> None:
    built = {page.parent.name for page in (site / "rules").glob("*/index.html")}
    own = {meta.name: meta for meta in registry.metas() if registry.address(meta.name).startswith(addresses.SITE)}
    assert PAGES < built == own.keys()
    index = text(site / "rules" / "index.html")
    for name, meta in own.items():
        assert registry.address(name) == f"{addresses.SITE}/rules/{name}/"
        page = text(site / "rules" / name / "index.html")
        assert meta.code in page and f'<h1 id="{name}">' in page
        assert f'href="{name}/"' in index


def test_a_page_has_examples_from_the_fixtures(site: Path) -> None:
    page = text(site / "rules" / "missing-zero-grad" / "index.html")
    assert '<span class="hll">' in page
    assert "# expect:" not in page and "# ok:" not in page
    assert "The loss is NaN after a while" in page


def test_symptoms_lead_to_rules(site: Path) -> None:
    assert 'href="../rules/log-of-softmax/"' in text(site / "recipes" / "index.html")


@pytest.mark.skipif(not shutil.which("node"), reason="needs Node.js")
def test_search_ranks_the_right_page_first(site: Path) -> None:
    """With the theme's own search."""
    command = ["node", str(DRIVER), str(site), *SEARCHES]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert not done.returncode, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    first = {query: answer[0].partition("#")[0] for query, answer in zip(SEARCHES, answers, strict=True)}
    assert first == SEARCHES


def test_search_leaves_out_what_users_do_not_need(site: Path) -> None:
    index = json.loads(text(site / "search" / "search_index.json"))
    found = {entry["location"] for entry in index["docs"]}
    assert {"recipes/", "guides/fixes/", "rules/missing-zero-grad/"} <= found
    assert not [location for location in found if location.startswith(UNSEARCHED)]


def test_the_table_of_rules_has_columns_and_a_filter(site: Path) -> None:
    page = text(site / "rules" / "index.html")
    head = re.search(r"<thead>(.*?)</thead>", page, re.S)
    assert head and re.findall(r"<th>(.*?)</th>", head[1]) == [
        "Rule", "Default", "Fix", "Category",
    ]  # fmt: skip
    row = re.search(r"<tr>\s*<td>[^\n]* TL101<br[^\n]*</td>(.*?)</tr>", page, re.S)
    assert row and re.findall(r"<td>([^<]*)</td>", row[1]) == ["on", "fix", "correctness"]
    assert 'id="rule-filter"' in page


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    loaded = (
        r"<(?:script|img|iframe|source)[^>]*\bsrc=\"(https?:[^\"]+)\"|<link[^>]*stylesheet[^>]*href=\"(https?:[^\"]+)\""
    )
    for page in ("index.html", "rules/missing-zero-grad/index.html", "recipes/index.html"):
        assert re.findall(loaded, text(site / page)) == []
        assert 'data-md-component="source"' not in text(site / page), "the theme fetches the stars of the repository"
    start = text(site / "index.html")
    assert f"{addresses.SITE}/rules/" not in re.sub(r'<link rel="canonical"[^>]*>', "", start)
    assert "finding-dark.svg#only-dark" in start
