"""The one step of the build that pyproject.toml cannot say: the package gets a table of its rules."""

from __future__ import annotations

import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

WRITE = """
import sys
sys.path.insert(0, sys.argv[1])
from torchlint.engine import rule_table
rule_table.write_built(*sys.argv[1:])
"""


class BuildWithTable(build_py):
    """Copies the modules, and writes what the rules among them say of themselves."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # a source tree keeps a table of its own
            version = self.distribution.get_version()
            subprocess.run([sys.executable, "-I", "-B", "-c", WRITE, self.build_lib, version], check=True)


setup(cmdclass={"build_py": BuildWithTable})
