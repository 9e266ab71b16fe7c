"""Documents say how to install torchlint before and after the first release, by one switch: `addresses.IS_RELEASED`.

`python tests/test_releasing.py` has the documents follow; docs/releasing.md lists the other steps of a release.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchlint import addresses

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "editors" / "vscode" / "README.md",
    *sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "releasing.md"}),
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
]
INSTALL = re.compile(r"(?<=<!-- install -->\n).*?(?=<!-- /install -->)", re.S)
NOTE = re.compile(r"<!-- unreleased -->\n.*?<!-- /unreleased -->\n\n", re.S)
RELEASE = re.compile(r"pip install [\"']?torchlint\b|rev: v\d|torchlint@v\d|^cp -r docs/template-plugin", re.M)
"""A package on the index, or one that depends on it, or a tag."""

AFTER = """\
```console
$ pip install torchlint
$ torchlint .
```
"""
BEFORE = f"""\
torchlint is not released yet. With Git and Python 3.10 to 3.13, install it from a clone into a virtual environment:

```console
$ git clone {addresses.REPOSITORY}
$ python3 -m venv .venv && . .venv/bin/activate
$ pip install ./torchlint
$ torchlint PATH/TO/YOUR/CODE
```
"""
UNRELEASED = f"""\
<!-- unreleased -->
> **Not released yet.** torchlint is not on PyPI, and the repository has no tags. For now, change
> the examples as follows:
>
> - Instead of `pip install torchlint`, write `pip install git+{addresses.REPOSITORY}`.
> - Instead of `pip install "torchlint[EXTRA]"`, write
>   `pip install "torchlint[EXTRA] @ git+{addresses.REPOSITORY}"`.
> - Instead of a tag such as `v0.2.0`, write a commit or `main`.
<!-- /unreleased -->

"""


def switched(page: str, is_released: bool) -> str:
    """A page as it must be before or after the first release."""
    page = NOTE.sub("", page)
    page = INSTALL.sub(lambda _: AFTER if is_released else BEFORE, page)
    if is_released or INSTALL.search(page) or not RELEASE.search(page):
        return page
    title, paragraphs = page.split("\n\n", 1)
    extra = re.search(r"torchlint\[(\w+)\]", paragraphs)
    return f"{title}\n\n{UNRELEASED.replace('EXTRA', extra[1] if extra else 'verify')}{paragraphs}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documents_follow_the_switch(path: Path) -> None:
    page = path.read_text("utf-8")
    assert page == switched(page, addresses.IS_RELEASED), "run `python tests/test_releasing.py`"


def test_before_the_first_release_a_clone_is_what_works() -> None:
    pages = {path.relative_to(ROOT).as_posix(): switched(path.read_text("utf-8"), False) for path in PAGES}
    starts = {name for name, page in pages.items() if INSTALL.search(page)}
    assert starts == {"README.md", "docs/guides/first-steps.md"}
    assert not [name for name in starts if RELEASE.search(pages[name])]
    assert {"editors/vscode/README.md", "docs/guides/ci.md"} <= {name for name in pages if NOTE.search(pages[name])}


def test_the_release_leaves_no_trace_of_the_time_before_it() -> None:
    for path in PAGES:
        before = path.read_text("utf-8")
        after = switched(before, True)
        assert "not released" not in after.lower() and "unreleased -->" not in after
        assert switched(after, False) == switched(before, False)


if __name__ == "__main__":
    for path in PAGES:
        page = path.read_text("utf-8")
        if page != (new := switched(page, addresses.IS_RELEASED)):
            path.write_text(new, "utf-8")
            print(path.relative_to(ROOT))
