"""The documentation site: built strictly, with a page for each rule, and nothing that is fetched from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchlint import addresses
from torchlint.engine import registry

ROOT = Path(__file__).parent.parent
PAGES = {path.stem.replace("_", "-") for path in (ROOT / "rules").glob("[!_]*.py")}

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


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    loaded = (
        r"<(?:script|img|iframe|source)[^>]*\bsrc=\"(https?:[^\"]+)\"|<link[^>]*stylesheet[^>]*href=\"(https?:[^\"]+)\""
    )
    for page in ("index.html", "rules/missing-zero-grad/index.html", "recipes/index.html"):
        assert re.findall(loaded, text(site / page)) == []
    start = text(site / "index.html")
    assert f"{addresses.SITE}/rules/" not in re.sub(r'<link rel="canonical"[^>]*>', "", start)
    assert "finding-dark.svg#only-dark" in start
