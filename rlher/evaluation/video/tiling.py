"""Lay out episodes side by side: columns and rows, size of the tiles, and the frames of the video."""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from rlher.core.errors import UserError

SCREEN = (1920, 1080)
"""Width and height of a screen, in pixels."""
MAX_TILES = 9
"""Maximum number of tiles that :func:`best_grid` puts side by side."""
MAX_SIDE = 20
"""Maximum number of columns, and of rows, that a user may ask for."""
BACKGROUND, GAP = 24, 4


@dataclass(frozen=True)
class Grid:
    """Columns and rows of tiles."""

    columns: int
    rows: int

    @property
    def cells(self) -> int:
        """Number of tiles."""
        return self.columns * self.rows


def parse_grid(text: str) -> Grid | None:
    """Return the grid of ``"3x2"`` (columns first), None for ``"auto"``.

    :raises UserError: it is neither.
    """
    if text == "auto":
        return None
    found = re.fullmatch(r"(\d{1,2})\s*[x×]\s*(\d{1,2})", text)
    if not found or not all(1 <= int(side) <= MAX_SIDE for side in found.groups()):
        raise UserError(f"grid={text} is not a grid; use auto or columns x rows such as 3x2, each at most {MAX_SIDE}.")
    return Grid(int(found[1]), int(found[2]))


def best_grid(episodes: int, width: int, height: int) -> Grid:
    """Return the grid that shows this many tiles, at most :data:`MAX_TILES`, as large as a screen allows.

    :param width: width of a tile, in pixels.
    :param height: height of a tile, in pixels.
    """
    count = min(episodes, MAX_TILES)
    grids = [Grid(columns, -(-count // columns)) for columns in range(1, count + 1)]

    def merit(grid: Grid) -> tuple[float, int, float]:
        scale = round(_scale_to_screen(grid, width, height), 6)
        return min(scale, 1.0), -grid.cells, scale  # tiles are never enlarged

    return max(grids, key=merit)


def scale(grid: Grid, width: int, height: int, video_width: int | None) -> float:
    """Return the factor by which tiles are shrunk, at most 1.

    :param width: width of a tile as rendered, in pixels.
    :param height: height of a tile as rendered, in pixels.
    :param video_width: width of the whole grid, in pixels; None: the size of a screen.
    """
    if video_width is None:
        return min(1.0, _scale_to_screen(grid, width, height))
    return min(1.0, (video_width - GAP * (grid.columns - 1)) / (grid.columns * width))


def _scale_to_screen(grid: Grid, width: int, height: int) -> float:
    return min(SCREEN[0] / (grid.columns * width), SCREEN[1] / (grid.rows * height))


def resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return an image (height, width, 3), uint8, in another size (width, height)."""
    if image.shape[1::-1] == size:
        return image
    return np.asarray(Image.fromarray(image).resize(size, Image.Resampling.LANCZOS))


def pad_width(image: np.ndarray, width: int) -> np.ndarray:
    """Return an image padded left and right to at least this width, in pixels."""
    missing = max(width - image.shape[1], 0)
    sides = (missing // 2, missing - missing // 2)
    return np.pad(image, ((0, 0), sides, (0, 0)), constant_values=BACKGROUND)


class EpisodeFrames:
    """The tiles of one episode, compressed, so that long episodes do not fill the memory."""

    def __init__(self) -> None:
        self._tiles: list[bytes] = []
        self._shape: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._tiles)

    def append(self, tile: np.ndarray) -> None:
        """Add a tile (height, width, 3), uint8; all tiles have the same shape."""
        self._shape = tile.shape
        self._tiles.append(zlib.compress(tile.tobytes(), 1))

    def __getitem__(self, index: int) -> np.ndarray:
        return np.frombuffer(zlib.decompress(self._tiles[index]), dtype=np.uint8).reshape(self._shape)


def tiled(episodes: Sequence[EpisodeFrames], grid: Grid, still: int = 0) -> Iterator[np.ndarray]:
    """Yield the frames of several episodes side by side, uint8; an episode that is over keeps its last tile.

    :param still: how often the last frame is repeated.
    """
    height, width, _ = episodes[0][0].shape
    down, right = height + GAP, width + GAP
    sides = (side + side % 2 for side in (grid.rows * down - GAP, grid.columns * right - GAP))  # H.264: even sides
    frame = np.full((*sides, 3), BACKGROUND, dtype=np.uint8)
    for step in range(max(len(tiles) for tiles in episodes) + still):
        for index, tiles in enumerate(episodes):
            if step < len(tiles):
                row, column = divmod(index, grid.columns)
                frame[row * down :, column * right :][:height, :width] = tiles[step]
        yield frame.copy()
