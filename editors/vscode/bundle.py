"""Put the server into the extension: `python bundle.py [TARGET]`, for the platform of a target of vsce.

`bundled/libs` gets torchlint from this repository and what its server needs. All of it is Python, but for LibCST's
parser, of which there is a build for each platform and version of Python: those of one platform lie side by side, and
each Python loads its own.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIBS = HERE / "bundled" / "libs"
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PURE = ("pygls>=2.0", "click>=8.1", "tomli>=2.0", "exceptiongroup>=1.1")
"""The last two are for Python 3.10 only; pip would ask the Python that it runs in."""
NATIVE = "libcst>=1.8"
TARGETS = {
    "linux-x64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "linux-arm64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "alpine-x64": ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64"),
    "alpine-arm64": ("musllinux_1_2_aarch64", "musllinux_1_1_aarch64"),
    "darwin-x64": ("macosx_11_0_x86_64", "macosx_10_12_x86_64", "macosx_10_9_x86_64"),
    "darwin-arm64": ("macosx_11_0_arm64",),
    "win32-x64": ("win_amd64",),
    "win32-arm64": ("win_arm64",),
}
"""The platforms of wheels, the newest first, for each target of vsce."""


def main() -> None:
    """Make the bundle anew, and try it where that can be done."""
    here = target_of_this_machine()
    target = sys.argv[1] if len(sys.argv) > 1 else here
    if target not in TARGETS:
        sys.exit(f"error: there is no target {target!r}; the targets are {', '.join(TARGETS)}")
    shutil.rmtree(LIBS, ignore_errors=True)
    install_pure()
    pythons = [python for python in PYTHONS if install_native(target, python)]
    if not pythons:
        sys.exit(f"error: there is no build of LibCST for {target}")
    clean()
    made = {"target": target, "pythons": pythons}
    (HERE / "bundled" / "bundle.json").write_text(json.dumps(made) + "\n", "utf-8")
    if target == here:
        attempt(sys.executable, "-IB", str(HERE / "bundled" / "start.py"))
    print(f"bundled for {target}, Python {', '.join(pythons)}: {size() / 1e6:.1f} MB")


def target_of_this_machine() -> str:
    """The target that can be tried here."""
    system = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}.get(platform.system(), platform.system())
    if system == "linux" and platform.libc_ver()[0] != "glibc":
        system = "alpine"
    machine = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "ARM64": "arm64"}.get(platform.machine(), "?")
    return f"{system}-{machine}"


def install_pure() -> None:
    """Torchlint, and the packages that are all Python."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("torchlint", "rules"):
            shutil.copytree(ROOT / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)
        pip("install", "--target", str(LIBS), "--no-deps", "--no-compile", folder)
    only = ("--only-binary", ":all:", "--platform", "any", "--implementation", "py", "--abi", "none")
    pip("install", "--target", str(LIBS), "--no-compile", *only, "--python-version", PYTHONS[0], *PURE)


def install_native(target: str, python: str) -> bool:
    """Add LibCST for a Python; False if there is no build of it. What LibCST needs for codemods only is left out."""
    platforms = [word for name in TARGETS[target] for word in ("--platform", name)]
    with tempfile.TemporaryDirectory() as folder:
        only = ("--only-binary", ":all:", "--implementation", "cp", "--python-version", python, *platforms)
        found = pip("install", "--target", folder, "--no-deps", "--no-compile", *only, NATIVE, check=False)
        if found:
            shutil.copytree(folder, LIBS, dirs_exist_ok=True)
    return found


def pip(*arguments: str, check: bool = True) -> bool:
    """Run pip quietly; whether it went well."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=check, stderr=None if check else subprocess.DEVNULL).returncode == 0


def clean() -> None:
    """Delete what no server needs: tests of packages, and their programs."""
    for folder in [*unneeded()]:
        shutil.rmtree(folder)


def unneeded() -> Iterator[Path]:
    yield from (LIBS / name for name in ("bin", "Scripts") if (LIBS / name).is_dir())
    yield from (folder for folder in LIBS.glob("libcst/**/tests") if folder.is_dir())


def attempt(*torchlint: str) -> None:
    """Let a torchlint show the fixes of a file, which takes its parsers, and start its server, which takes pygls."""
    bad = ROOT / "fixtures" / "missing_zero_grad" / "bad.py"
    options = ("--isolated", "--no-cache", "--diff", "--unsafe-fixes")
    shown = subprocess.run([*torchlint, "check", *options, str(bad)], capture_output=True)
    if not any(line.startswith(b"+") and b"zero_grad" in line for line in shown.stdout.splitlines()):
        sys.exit(f"error: the bundle does not repair a file with defects\n{shown.stderr.decode(errors='replace')}")
    subprocess.run([*torchlint, "server"], stdin=subprocess.DEVNULL, check=True)


def size() -> int:
    """The bytes of the bundle."""
    return sum(file.stat().st_size for file in LIBS.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
