#!/usr/bin/env bash
# Build, test and package the extension as its README says. Without Node 20 nothing is checked, which is no failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if ! command -v npm >/dev/null || ! node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; then
    echo "the extension for Visual Studio Code is not checked: there is no Node 20 or later"
    exit 0
fi

python=${PYTHON:-python3}
npm ci --no-audit --no-fund
npm test
"$python" bundle.py
rm -f ./*.vsix
npm run package -- --target "$(node -p 'require("./bundled/bundle.json").target')"
"$python" - ./*.vsix <<'END'
import sys, zipfile

package = set(zipfile.ZipFile(sys.argv[1]).namelist())
needed = "dist/extension.js icon.png changelog.md readme.md LICENSE.txt bundled/start.py bundled/libs/torchlint/cli/check.py"
missing = [name for name in needed.split() if f"extension/{name}" not in package]
useless = [name for name in package if "/node_modules/" in name or name.endswith((".ts", ".map", ".pyc", ".sh"))]
if missing or useless:
    sys.exit(f"error: {sys.argv[1]} lacks {missing}, and needs no {useless}")
print(f"{sys.argv[1]}: {len(package)} files")
END
