"""The configuration as JSON Schema, which editors complete and check it with."""

from __future__ import annotations

from torchlint.addresses import SITE
from torchlint.project.keys import KEYS
from torchlint.project.kinds import Schema, closed
from torchlint.project.settings import Settings

_DRAFT = "http://json-schema.org/draft-07/schema#"
"""The one that editors of TOML know."""


ADDRESS = f"{SITE}/torchlint.schema.json"
"""Where editors find it, as `docs/` is published."""


def schema() -> Schema:
    """The schema of a torchlint.toml, and of `[tool.torchlint]`, with the rules that are installed."""
    defaults = {name: field.default for name, field in Settings.__dataclass_fields__.items()}
    properties = {}
    for name, key in KEYS.items():
        default = defaults.get(name.replace("-", "_"))
        shown = {"default": default} if isinstance(default, bool | str) else {}
        properties[name] = {"description": key.meaning, **key.kind.schema(), **shown}
    return {"$schema": _DRAFT, "$id": ADDRESS, "title": "Configuration of torchlint", **closed(properties)}
