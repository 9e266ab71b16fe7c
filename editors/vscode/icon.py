"""Draw the icon of the extension: `python icon.py` writes icon.png (128 by 128 pixels) with matplotlib.

A torch with the wavy line of a finding under it.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path as Outline

PIXELS = 128
BACKGROUND, FLAME, CORE, HANDLE, FINDING = "#20262f", "#ff6a3d", "#ffd166", "#c9d1d9", "#f85149"


def main() -> None:
    """Write the picture beside this script."""
    figure = pyplot.figure(figsize=(1, 1), dpi=PIXELS)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, PIXELS), ylim=(0, PIXELS))
    axes.set_axis_off()
    box = FancyBboxPatch((8, 8), 112, 112, boxstyle="round,pad=8,rounding_size=24", color=BACKGROUND, linewidth=0)
    axes.add_patch(box)
    draw_flame(axes, 1.0, FLAME)
    draw_flame(axes, 0.52, CORE)
    axes.add_patch(Polygon([(49, 52), (79, 52), (75, 44), (53, 44)], color=HANDLE, linewidth=0))
    axes.add_patch(Polygon([(57, 42), (71, 42), (68, 27), (60, 27)], color=HANDLE, linewidth=0))
    places = np.linspace(24, 104, 400)
    axes.plot(places, 17 + 4 * np.sin((places - 24) / 80 * 10 * np.pi), color=FINDING, linewidth=2.6)
    figure.savefig(Path(__file__).with_name("icon.png"), transparent=True, metadata={"Software": None})


def draw_flame(axes: Axes, size: float, color: str) -> None:
    """A flame on the bowl of the torch, with its tip to the upper right."""
    points = [
        (64, 55), (38, 55), (34, 78), (46, 90),  # the left side
        (55, 99), (60, 104), (62, 119),
        (74, 110), (78, 100), (77, 92),  # down from the tip
        (81, 94), (83, 97), (84, 101),
        (96, 88), (96, 55), (64, 55),
    ]  # fmt: skip
    scaled = [(64 + (x - 64) * size, 55 + (y - 55) * size) for x, y in points]
    codes = [Outline.MOVETO, *[Outline.CURVE4] * (len(points) - 1)]
    axes.add_patch(PathPatch(Outline(scaled, codes), color=color, linewidth=0))


if __name__ == "__main__":
    main()
