"""Figures of an analysis as PNG files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamsched.errors import SourceError
from streamsched.replay.analysis.reporting.analysis_figures import drawings
from streamsched.replay.analysis.reporting.plot_style import PRINTED

if TYPE_CHECKING:
    from streamsched.replay.analysis.statistics.analysis import Analysis

__all__ = ["draw_pictures", "write_pictures"]

_DOTS_PER_INCH: Final = 200  # sharp in print and on high-density screens


def draw_pictures(result: Analysis) -> dict[str, bytes]:
    """Return each figure that the log can show as a PNG by its name; the same analysis gives the same bytes."""
    pictures = {}
    for name, drawing in drawings(result).items():
        out = io.BytesIO()
        metadata = {"Software": None, "Title": drawing.title, "Description": drawing.description}
        drawing.draw(PRINTED).savefig(out, format="png", dpi=_DOTS_PER_INCH, metadata=metadata)
        pictures[name] = out.getvalue()
    return pictures


def write_pictures(result: Analysis, directory: Path) -> list[Path]:
    """Write each figure to ``directory/NAME.png``, created if missing; return the files.

    Raises SourceError if a file cannot be written.
    """
    written = []
    for name, picture in draw_pictures(result).items():
        path = directory / f"{name}.png"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture)
        except OSError as error:
            raise SourceError(str(path), f"cannot be written: {error.strerror or error}") from error
        written.append(path)
    return written
