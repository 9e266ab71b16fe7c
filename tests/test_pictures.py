"""The pictures of findings in the README are what the program prints."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
REPORT = re.compile(r"<!-- report -->\n```text\n(.*?)```\n<!-- /report -->", re.S)

pytestmark = [pytest.mark.slow, pytest.mark.needs("rich")]


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "site" / "pictures.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_they_show_what_the_program_prints(pictures: ModuleType) -> None:
    made = pictures.findings()
    assert made.keys() == {"finding-light.svg", "finding-dark.svg"}
    for name, svg in made.items():
        assert (ROOT / "docs" / "assets" / name).read_text("utf-8") == svg, "run `python docs/site/pictures.py`"
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def test_the_report_in_the_guide_is_about_the_findings_of_the_example(pictures: ModuleType, tmp_path: Path) -> None:
    """Its times cannot be compared; places, rules and code can."""
    (tmp_path / "train.py").write_bytes(pictures.EXAMPLE.read_bytes())
    output = pictures.torchlint(tmp_path, "--isolated", "--no-cache", "--output-format", "concise", "train.py")
    found = re.findall(r"^(train\.py:\d+:\d+: TL\d+ [\w-]+)", output, re.M)
    report = REPORT.search(pictures.GUIDE.read_text("utf-8"))
    assert report
    assert re.findall(r"^confirmed +(\S+ TL\d+ [\w-]+)", report[1], re.M) == found != []
