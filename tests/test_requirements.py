"""Which releases of PyTorch a project asks for, as its own files say, whatever they are and whoever wrote them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from torchlint.files.sources import Sources
from torchlint.project.config import Configurations
from torchlint.project.requirements import FILES, Requirements
from torchlint.pytorch.releases import CURRENT, Releases

NEWER = Releases((2, 1), CURRENT)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a repository."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(folder: Path) -> Releases | None:
    return Configurations().of_folder(folder).torch


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("pytorch=1.7.0=py3.6_cuda110_cudnn8_0", Releases((1, 7), (1, 7))),
        ("torch=1.7.0=pypi_0", Releases((1, 7), (1, 7))),
        ("pytorch=1.7.0", Releases((1, 7), (1, 7))),
        ("pytorch==1.7.0", Releases((1, 7), (1, 7))),
        ("pytorch-cuda=11.7", None),
        ("pytorch_lightning=1.7.0", None),
    ],
)
def test_a_list_that_conda_exported(project: Path, line: str, expected: Releases | None) -> None:
    (project / "requirements.txt").write_text(f"# platform: linux-64\nnumpy=1.19.2=py36hadc3359_0\n{line}\n")
    assert asked(project) == expected


@pytest.mark.parametrize(
    "text",
    [
        '[project]\ndependencies = ["numpy", "torch>=2.1"]\n',
        '[project]\ndependencies = ["numpy"]\n[project.optional-dependencies]\ngpu = ["torch >= 2.1"]\n',
        '[dependency-groups]\ndev = ["torch>=2.1", {include-group = "test"}]\n',
        '[tool.poetry.dependencies]\ntorch = ">=2.1"\n',
        '[tool.poetry.group.gpu.dependencies]\ntorch = { version = ">=2.1", source = "gpu" }\n',
        '[tool.poetry.dependencies]\ntorch = [{version = "^2.1", python = "3"}, {version = ">=2.3"}]\n',
        '[tool.poetry.dev-dependencies]\ntorch = ">=2.1"\n',
        '[tool.pdm.dev-dependencies]\ntest = ["torch>=2.1"]\n',
        '[tool.uv]\ndev-dependencies = ["torch>=2.1"]\n',
    ],
)
def test_a_project_says_so(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text)
    assert asked(project) == NEWER


@pytest.mark.parametrize("name", ["requirements_llm.txt", "requirements-gpu.txt", "requirements.in"])
def test_a_list_may_have_another_name(project: Path, name: str) -> None:
    (project / name).write_text("torch==2.3.0\n")
    assert asked(project) == Releases((2, 3), (2, 3))
    (project / "requirements.txt").write_text("torch==2.7.0\n")
    assert asked(project) == Releases((2, 7), (2, 7)), "the usual name comes first"


def test_conda_is_known_by_what_it_says(project: Path) -> None:
    (project / "ci.yml").write_text("jobs:\n  - torch=1.0\n")
    assert asked(project) is None
    (project / "vision.yml").write_text("name: vision\nchannels:\n  - pytorch\ndependencies:\n  - pytorch=1.10.2\n")
    assert asked(project) == Releases((1, 10), (1, 10))


def test_so_may_an_environment(project: Path) -> None:
    (project / "local_env.yml").write_text("dependencies:\n  - pytorch=1.0.0\n")
    assert asked(project) == Releases((1, 0), (1, 0))
    (project / "local_env.yml").write_text("torch: 1.0.0\n")
    assert asked(project) is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("envs/training.yml", "dependencies:\n  - pytorch=1.10.2=cuda112py38\n"),
        ("requirements/base.txt", "torch==1.10.2\n"),
    ],
)
def test_or_stand_in_a_folder_of_such_files(project: Path, path: str, text: str) -> None:
    (project / path).parent.mkdir()
    (project / path).write_text(text)
    assert asked(project) == Releases((1, 10), (1, 10))
    (project / path).rename(project / "notes.txt")
    assert asked(project) is None
    (project / "requirements.txt").write_text("torch==2.7.0\n")
    assert asked(project) == Releases((2, 7), (2, 7))


def test_a_list_that_conda_wrote_names_builds(project: Path) -> None:
    (project / "requirements.txt").write_text("numpy=1.24=py311_0\ntorch=2.0.1=pypi_0\n")
    assert asked(project) == Releases((2, 0), (2, 0))


@pytest.mark.parametrize(
    "text",
    [
        "[options]\ninstall_requires =\n    numpy\n    torch>=2.1; python_version > '3'\n",
        "[options]\ninstall_requires = numpy; torch>=2.1\n",
        "[options]\ninstall_requires = numpy\n[options.extras_require]\ngpu =\n    torch>=2.1\n",
        "[metadata]\nname = 100%\n[options]\r\ninstall_requires =\r\n  # torch==1.0\r\n  torch>=2.1\r\n",
    ],
)
def test_a_setup_cfg_says_so(project: Path, text: str) -> None:
    (project / "setup.cfg").write_bytes(text.encode())
    assert asked(project) == NEWER


@pytest.mark.parametrize(
    "text",
    [
        "from setuptools import setup\nsetup(name='x', install_requires=['numpy', 'torch>=2.1'])\n",
        "import setuptools\nsetuptools.setup(install_requires=('torch>=2.1',))\n",
        "NEEDED = ['numpy', 'torch>=2.1']\nsetup(install_requires=NEEDED)\n",
        "NEEDED: list[str] = ['torch>=2.1']\ndef main():\n    setup(install_requires=['numpy'] + NEEDED)\n",
        "setup(install_requires=['numpy'], extras_require={'gpu': ['torch>=2.1'], **others})\n",
        "setup(install_requires=[version(), *others, 'torch>=2.1'])\n",
    ],
)
def test_a_setup_py_says_so(project: Path, text: str) -> None:
    (project / "setup.py").write_text(text)
    assert asked(project) == NEWER


@pytest.mark.parametrize(
    "text",
    [
        "setup(install_requires=open('torch').read())\n",
        "torch = torch + torch\nsetup(install_requires=torch)\n",
        "setup(description='torch==1.7')\nother(install_requires=['torch==1.7'])\n",
        "raise SystemExit('torch')\nsetup(install_requires=[f'torch=={version}'])\n",
        "setup(install_requires=['torch==1.7'\n",
    ],
)
def test_a_setup_py_that_works_them_out_says_nothing(project: Path, text: str) -> None:
    (project / "setup.py").write_text(text)
    assert asked(project) is None


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("  - pytorch>=2.1", NEWER),
        ("- conda-forge::pytorch >=2.1", NEWER),
        ("  - pytorch=1.13=py3.9_cuda11.6_cudnn8.3.2_0", Releases((1, 13), (1, 13))),
        ("  - pytorch==1.13.1  # old", Releases((1, 13), (1, 13))),
        ("  - pytorch=1.13.*", Releases((1, 13), (1, 13))),
        ("  - pip:\n    - 'torch>=2.1'", NEWER),
        ("  - pip:\n    - torch==1.13.1+cu117", Releases((1, 13), (1, 13))),
        ("  - pytorch-cuda=11.8\n  - torchvision=0.1", None),
        ("  - numpy\nprefix: pytorch\nvariables:\n  - torch=1.7", None),
    ],
)
def test_an_environment_of_conda_says_so(project: Path, entry: str, expected: Releases | None) -> None:
    text = f"name: x\nchannels:\n  - pytorch\n  - nvidia\ndependencies:\n  - python=3.10\n# torch\n{entry}\n"
    (project / "environment.yml").write_text(text)
    assert asked(project) == expected


def test_requirements_say_so(project: Path) -> None:
    text = "# torch==1.0\n-r other.txt\n--index-url https://example.org\r\ntorchvision==0.1\r\ntorch>=2.1  # why\r\n"
    (project / "requirements.txt").write_bytes(text.encode())
    assert asked(project) == NEWER


def test_the_nearest_folder_decides_up_to_the_repository(project: Path) -> None:
    inner, other = project / "a" / "b", project / "c"
    (inner / "deep").mkdir(parents=True)
    other.mkdir()
    (project / "requirements.txt").write_text("torch==1.7.1\n")
    (project / "a" / "pyproject.toml").write_text("[tool.other]\ntorch = 1\n")
    (inner / "pyproject.toml").write_text('[project]\ndependencies = ["torch>=2.1"]\n')
    (other / ".git").mkdir()
    found = Configurations()
    assert found.of_folder(inner / "deep").torch == found.of_folder(inner).torch == NEWER
    assert found.of_folder(project / "a").torch == Releases((1, 7), (1, 7))
    assert found.of_folder(other).torch is None
    assert found.of_folder(inner / ".." / "..").torch == Releases((1, 7), (1, 7))


def test_a_project_goes_before_requirements(project: Path) -> None:
    (project / "requirements.txt").write_text("torch==1.7.1\n")
    (project / "pyproject.toml").write_text('[project]\ndependencies = ["torch>=2.1"]\n')
    assert asked(project) == NEWER


def test_a_project_that_says_no_more_than_torch_leaves_it_to_requirements(project: Path) -> None:
    (project / "setup.py").write_text('from setuptools import setup\nsetup(install_requires=["torch"])\n')
    assert asked(project) == Releases()
    (project / "requirements.txt").write_text("torch==1.5.1\n")
    assert asked(project) == Releases((1, 5), (1, 5))


def test_what_was_exported_without_git_ends_at_its_requirements(tmp_path: Path) -> None:
    """As from an archive of GitHub: the files in its folders are of one project."""
    inner = tmp_path / "src" / "train"
    inner.mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("torch==1.11.0\n")
    assert asked(inner) == Releases((1, 11), (1, 11))
    (tmp_path / "src" / "setup.py").write_text("from setuptools import setup\nsetup()\n")
    assert asked(inner) is None, "a project has its own"


def test_what_says_nothing_leaves_it_to_the_next(project: Path) -> None:
    (project / "pyproject.toml").write_text('[project]\nname = "torch-thing"\ndynamic = ["dependencies"]\n')
    (project / "setup.py").write_text("setup(install_requires=open('requirements.txt').readlines())  # torch\n")
    (project / "requirements.txt").write_text("torch>=2.1\n")
    (project / "environment.yml").write_text("dependencies:\n  - pytorch=1.7\n")
    assert asked(project) == NEWER


def test_isolated_nothing_is_read(project: Path) -> None:
    (project / "requirements.txt").write_text("torch==1.7.1\n")
    assert Configurations(isolated=True).of_folder(project).torch is None


def test_folders_of_one_requirement_share_their_settings(project: Path) -> None:
    (project / "a").mkdir()
    (project / "requirements.txt").write_text("torch==1.7.1\n")
    found = Configurations()
    assert found.of_folder(project / "a") is found.of_folder(project)


def test_the_cache_knows_of_it(project: Path) -> None:
    before = Configurations().of_folder(project)
    (project / "requirements.txt").write_text("torch==1.7.1\n")
    after = Configurations().of_folder(project)
    assert before.choice(project / "a.py") != after.choice(project / "a.py")
    assert after.selection(project / "a.py").torch == Releases((1, 7), (1, 7))


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe torch==1.7",
        b"torch==1.7\n" * 200_000,
        b"torch==" + b"9" * 100_000,
        b"torch[" + b"," * 100_000 + b"]==1.7",
        b"torch" + b" " * 500_000,
        b"torch" + b" " * 500_000 + b".",
        b"torch>=" + b"x." * 400_000,
        b"[project]\ndependencies = torch",
        b"[project]\ndependencies = " + b"[" * 400_000 + b'"torch"',
        b"torch" + b".a" * 400_000 + b" = 1",
        b'[project]\ndependencies = ["torch>=' + b"1" * 5_000 + b'"]',
        b"[project]\ntorch = " + b"1" * 5_000,
        b'project = ["torch"]\n[tool]\npoetry = "torch"\n',
        b'[project]\ndependencies = "torch"\n',
        b"[options]\ninstall_requires = " + b"torch\n" * 20_000,
        b"setup(install_requires=" + b"['torch'] + " * 20_000 + b"[])",
        b"a = " + b"[" * 400_000 + b"'torch'",
        b"a = b + b\nb = c + c\nc = a + ['torch']\nsetup(install_requires=b)",
        b"dependencies:\n" + b"- torch" + b"=2.13" * 200_000,
    ],
    ids=lambda data: f"{data[:12]!r}",
)
@pytest.mark.parametrize("name", [*FILES, "requirements-gpu.txt", "conda_env.yaml"])
def test_hostile_files_say_nothing_that_harms(project: Path, name: str, data: bytes) -> None:
    (project / name).write_bytes(data)
    assert Requirements(Sources()).torch(project) in (None, Releases())


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
def test_a_link_that_leads_out_and_a_pipe_are_not_read(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside") / "requirements.txt"
    outside.write_text("torch==1.7.1\n")
    (project / "requirements.txt").symlink_to(outside)
    os.mkfifo(project / "pyproject.toml")
    assert Requirements(Sources()).torch(project) is None


def test_what_a_shell_of_windows_wrote(project: Path) -> None:
    for encoding in ("utf-16", "utf-8-sig", "utf-8"):
        (project / "requirements.txt").write_bytes("torch==2.5.1+cu118\r\n".encode(encoding))
        assert asked(project) == Releases((2, 5), (2, 5))
