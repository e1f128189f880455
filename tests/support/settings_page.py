"""Makes docs/settings.md out of the classes of the settings' tables and their bullets: ``make docs``."""

from __future__ import annotations

import inspect
from typing import Final

from streamsched.cli.commands.run import run_command
from streamsched.cli.commands.serve import serve_command
from streamsched.cli.service_options import SettingOption
from streamsched.service.run_settings import SETTINGS, TABLES
from tests.support.paths import ROOT

PAGE: Final = ROOT / "docs" / "settings.md"
_OPENING: Final = """\
<!-- Made by `make docs` out of the docstrings of the classes. -->
# Settings of `run` and `serve`

Each setting is a key of a TOML file, a variable of the environment and `--set NAME=VALUE`; some have an option. `none`
is the value None. [run.md](run.md#settings) has an example of a file, and describes the tables `kafka` and `rules`.
"""


def settings_page() -> str:
    """Return the page: a table for each TOML table, with option, default and meaning of its settings."""
    options = {
        one.setting: one.opts[0]
        for one in [*serve_command.params, *run_command.params]
        if isinstance(one, SettingOption)
    }
    lines = [_OPENING]
    for table, target in TABLES.items():
        title = f"`[{table}]`: `{target.__name__}`" if table else "Outside of tables"
        lines += [f"## {title}\n", "| setting | option | default | meaning |", "| --- | --- | --- | --- |"]
        for name, setting in SETTINGS.items():
            if name.rpartition(".")[0] == table:
                option = f"`{options[name]}`" if name in options else ""
                meaning = setting.doc.replace("``", "`").replace("|", "\\|")
                lines.append(f"| `{name}` | {option} | {_default(setting.default)} | {meaning} |")
        lines.append("")
    return "\n".join(lines)


def _default(default: object) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(default, bool | None):
        return str(default).lower()
    return f"`{default}`"


if __name__ == "__main__":
    PAGE.write_text(settings_page())
