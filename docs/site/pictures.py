"""Makes the pictures of the README and of the guides from the program itself.

`python docs/site/pictures.py` makes those of findings (extra `docs`); with `--verify` also those of a page of
`torchlint verify`, and the report in docs/guides/verify.md (torch, and Chromium).
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parent.parent.parent
PICTURES = ROOT / "docs" / "assets"
EXAMPLE = ROOT / "docs" / "examples" / "train.py"
GUIDE = ROOT / "docs" / "guides" / "verify.md"
REPORT = re.compile(r"(?<=<!-- report -->\n).*?(?=<!-- /report -->)", re.S)
VERIFY = ["verify", "--yes", "--fixed", "--report", "page.html", "--", "python", "train.py"]
WIDTH = 100
HEIGHTS = {"verify": 855, "verify-page": 2540}
"""Pictures of the top of the page, and of the whole page, with their heights in pixels."""


def _theme(
    background: tuple[int, int, int], text: tuple[int, int, int], *colours: tuple[int, int, int]
) -> TerminalTheme:
    return TerminalTheme(background, text, list(colours), list(colours))


THEMES = {
    "light": _theme(
        (255, 255, 255), (31, 35, 40), (31, 35, 40), (179, 38, 30), (26, 127, 55), (154, 103, 0), (9, 105, 218),
        (130, 80, 223), (27, 124, 131), (110, 119, 129),
    ),
    "dark": _theme(
        (13, 17, 23), (230, 237, 243), (72, 79, 88), (255, 123, 114), (86, 211, 100), (227, 179, 65), (121, 192, 255),
        (210, 168, 255), (86, 212, 221), (177, 186, 196),
    ),
}  # fmt: skip
FORM = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""That of rich, without fonts that it would fetch."""


def torchlint(folder: Path, *arguments: str) -> str:
    """What torchlint prints in a folder."""
    command = [sys.executable, "-m", "torchlint", *arguments]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=600)
    assert done.returncode == 1, done.stderr
    return done.stdout


def finding(output: str, theme: str) -> str:
    """A picture of a terminal with coloured output."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text("$ torchlint train.py", "bold"))
    console.print(Text.from_ansi(output))
    svg = console.export_svg(title="torchlint", theme=THEMES[theme], code_format=FORM, unique_id=f"finding-{theme}")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def findings() -> dict[str, str]:
    """The pictures of findings by file name."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(EXAMPLE, folder)
        options = ("--isolated", "--no-cache", "--color", "always", "--select", "missing-zero-grad")
        output = torchlint(Path(folder), *options, "train.py")
    return {f"finding-{theme}.svg": finding(output, theme) for theme in THEMES}


def verification() -> None:
    """The report of the example, as text into the guide, and as pictures of its page."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(EXAMPLE, folder)
        text = torchlint(Path(folder), *VERIFY)
        GUIDE.write_text(REPORT.sub(lambda _: f"```text\n{text}```\n", GUIDE.read_text("utf-8")), "utf-8")
        for theme in THEMES:
            for name, height in HEIGHTS.items():
                photograph(Path(folder, "page.html"), PICTURES / f"{name}-{theme}.png", height, theme == "dark")


def photograph(page: Path, picture: Path, height: int, dark: bool) -> None:
    """What Chromium shows of a page."""
    from PIL import Image

    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser, "Chromium is needed"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size=900,{height}"]
    options += ["--blink-settings=preferredColorScheme=0"] * dark
    options += [f"--user-data-dir={page.parent / 'profile'}", f"--screenshot={picture}"]
    subprocess.run([browser, *options, page.as_uri()], check=True, capture_output=True, timeout=120)
    Image.open(picture).convert("P", palette=Image.Palette.ADAPTIVE, colors=64).save(picture, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verify", action="store_true", help="also those of a page of `torchlint verify`")
    with_verify = parser.parse_args().verify
    for name, svg in findings().items():
        (PICTURES / name).write_text(svg, "utf-8")
    if with_verify:
        verification()
