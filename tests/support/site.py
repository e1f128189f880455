"""Lays out the documentation for mkdocs, below out/docs, and builds it into out/docs/site: ``make docs``."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Container, Iterator
from importlib import import_module
from inspect import cleandoc
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any, Final

import click
import griffe

from streamsched.cli.program import program
from tests.support.paths import ROOT

FROM_OUTSIDE: Final = {  # by their place in the repository; all of docs/ keeps its names
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "data/README.md": "data.md",
}
PACKAGES: Final = (  # in this order; an object that two of them name is described below the first
    "streamsched",
    "streamsched.formula",
    "streamsched.optimal",
    "streamsched.content",
    "streamsched.client",
    "streamsched.connectors",
    "streamsched.connectors.crawlers",
    "streamsched.connectors.crawlee",
    "streamsched.connectors.scrapy",
    "streamsched.connectors.kafka",
    "streamsched.connectors.signals",
    "streamsched.replay",
    "streamsched.replay.analysis",
    "streamsched.replay.gp4c",
    "streamsched.replay.optimisers",
)
_LINK: Final = re.compile(r"\[([^\[\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_BLOCK_FOLLOWS: Final = re.compile(r"^::$|(:):$", re.MULTILINE)
_DOCTEST: Final = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class ForReaders(griffe.Extension):
    """Makes Markdown of docstrings, and signatures that a reader can use."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Show what a method of the clients returns, not the request that it is written as."""
        if isinstance(func.returns, griffe.ExprSubscript) and str(func.returns.left) == "Call":
            func.returns = func.returns.slice


def as_markdown(docstring: str) -> str:
    """Return a docstring with a colon for each ``::``, and with its examples as blocks of code."""
    return _DOCTEST.sub(r"```pycon\n\g<0>\n```", _BLOCK_FOLLOWS.sub(r"\1", docstring))


def build_site(folder: Path) -> Path:
    """Build the site in `folder`, which is emptied, and return where its pages are. Warnings are errors."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in pages().items():
        path = folder / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(ROOT / "docs" / "site", folder / "pages" / "site")
    shutil.copy(ROOT / "streamsched" / "http" / "console" / "static" / "icon.svg", folder / "pages" / "site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(folder / "mkdocs.yml")]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ValueError(answer.stderr)
    return folder / "site"


def pages() -> dict[str, str]:
    """Return the Markdown of all pages by their names in the site."""
    places = {path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / "docs").rglob("*.md"))}
    names = {**{place: place.removeprefix("docs/") for place in places}, **FROM_OUTSIDE}
    written = {name: _with_links((ROOT / place).read_text(), place, names) for place, name in names.items()}
    described: dict[int, str] = {}
    public = {id(getattr(module, name)) for module in map(import_module, PACKAGES) for name in module.__all__}
    made = {f"api/{package}.md": "".join(_package_page(package, described, public)) for package in PACKAGES}
    return written | made | {"command-line.md": "".join(_command_line())}


def _with_links(text: str, place: str, names: dict[str, str]) -> str:
    """Return a page whose links lead to pages of the site; those to other files of the repository become text.

    A link whose words are the name of a page's file gets the page's title.
    """

    def link(found: re.Match[str]) -> str:
        target = normpath(PurePosixPath(place).parent / found[2])
        if target in names:
            words = _title(target) if found[1].endswith(".md") else found[1]
            return f"[{words}]({relpath(names[target], PurePosixPath(names[place]).parent)}{found[3] or ''})"
        return found[1] if (ROOT / target).exists() else found[0]

    return _LINK.sub(link, text)


def _title(place: str) -> str:
    """Return the first heading of a page, which a comment may precede."""
    return next(line.removeprefix("# ") for line in (ROOT / place).read_text().splitlines() if line.startswith("# "))


def _package_page(package: str, described: dict[int, str], public: Container[int]) -> Iterator[str]:
    """Yield the Markdown for the public names of a package.

    `described` has the packages of those seen before, `public` those of all packages, by their ids.
    """
    module = import_module(package)
    yield f"# `{package}`\n\n{as_markdown(cleandoc(module.__doc__ or ''))}\n\n"
    for name in module.__all__:
        thing = getattr(module, name)
        home = described.setdefault(id(thing), package) if callable(thing) else package
        if home == package:
            yield f"::: {package}.{name}\n    options:\n      inherited_members: {_inherited(thing, public)}\n\n"
        else:
            yield f"## `{name}`\n\nThat of [`{home}`]({home}.md#{home}.{name}).\n\n"


def _inherited(thing: object, public: Container[int]) -> list[str]:
    """Return the public members that a class has from bases of streamsched which no package names."""
    bases = [base for base in getattr(thing, "__mro__", ())[1:] if base.__module__.startswith("streamsched")]
    return [name for base in bases if id(base) not in public for name in vars(base) if not name.startswith("_")]


def _command_line() -> Iterator[str]:
    """Yield the Markdown for all commands."""
    yield f"# Command line\n\n{cleandoc(program.help or '')}\n\n{_example(program.epilog)}"
    yield from _commands(click.Context(program, info_name="streamsched", **program.context_settings))


def _commands(parent: click.Context) -> Iterator[str]:
    group = parent.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent)
        label = context.command_path.partition(" ")[2]
        yield f"## {context.command_path} {{ data-toc-label='{label}' }}\n\n{cleandoc(command.help or '')}\n\n"
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        yield f"```text\n{usage}\n```\n\n"
        records = [one.get_help_record(context) for one in command.get_params(context)]
        rows = [f"| `{option}` | {meaning.replace('|', '&#124;')} |\n" for option, meaning in filter(None, records)]
        yield "| option | meaning |\n| --- | --- |\n" + "".join(rows) + "\n" + _example(command.epilog)
        if isinstance(command, click.Group):
            yield from _commands(context)


def _example(epilog: str | None) -> str:
    blocks = [block.strip() for block in cleandoc(epilog or "").split("\b\n")]
    return "".join(f"```text\n{block}\n```\n\n" for block in blocks if block)


if __name__ == "__main__":
    sys.stdout.write(f"{build_site(ROOT / 'out' / 'docs') / 'index.html'}\n")
