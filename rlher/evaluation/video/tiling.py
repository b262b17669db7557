"""Pictures side by side: how many columns and rows, how large each, and the frames that come of it."""

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from rlher.core.errors import UserError

SCREEN = (1920, 1080)
MOST = 9  # episodes at a time, so that there is still something to see
LARGEST_SIDE = 20
BACKGROUND, GAP = 24, 4


@dataclass(frozen=True)
class Grid:
    """Columns and rows of tiles.

    :param columns: at least 1.
    :param rows: at least 1.
    """

    columns: int
    rows: int

    @property
    def cells(self) -> int:
        """How many tiles it holds."""
        return self.columns * self.rows

    def place(self, index: int) -> tuple[int, int]:
        """Return row and column of a tile; they are filled row by row."""
        return divmod(index, self.columns)


def parse(text: str) -> Grid | None:
    """Read ``"3x2"``, columns first; None for ``"auto"``.

    :raises UserError: it is neither.
    """
    if text == "auto":
        return None
    found = re.fullmatch(r"(\d{1,2})\s*[x×]\s*(\d{1,2})", text)
    if not found or not all(1 <= int(side) <= LARGEST_SIDE for side in found.groups()):
        raise UserError(f"grid={text} is neither auto nor columns x rows such as 3x2, each at most {LARGEST_SIDE}.")
    return Grid(int(found[1]), int(found[2]))


def best(episodes: int, width: int, height: int) -> Grid:
    """Return the grid that shows so many tiles, or :data:`MOST` where they are more, as large as a screen allows.

    :param width: of a tile, in pixels.
    :param height: of a tile, in pixels.
    """
    count = min(episodes, MOST)
    grids = [Grid(columns, -(-count // columns)) for columns in range(1, count + 1)]

    def merit(grid: Grid) -> tuple[float, int, float]:
        room = round(_screenful(grid, width, height), 6)
        return min(room, 1.0), -grid.cells, room  # no tile is drawn larger than it comes

    return max(grids, key=merit)


def scale(grid: Grid, width: int, height: int, most: int | None) -> float:
    """Return how much tiles must be shrunk, at most 1.

    :param width: of a tile as drawn, in pixels.
    :param height: of a tile as drawn, in pixels.
    :param most: width of the whole grid, in pixels; None: what a screen holds.
    """
    if most is None:
        return min(1.0, _screenful(grid, width, height))
    return min(1.0, (most - GAP * (grid.columns - 1)) / (grid.columns * width))


def _screenful(grid: Grid, width: int, height: int) -> float:
    return min(SCREEN[0] / (grid.columns * width), SCREEN[1] / (grid.rows * height))


def resized(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return a picture (height, width, 3), uint8, in another size (width, height)."""
    if picture.shape[1::-1] == size:
        return picture
    return np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.LANCZOS))


def widened(picture: np.ndarray, width: int) -> np.ndarray:
    """Return a picture at least so wide, itself in the middle."""
    missing = max(width - picture.shape[1], 0)
    sides = (missing // 2, missing - missing // 2)
    return np.pad(picture, ((0, 0), sides, (0, 0)), constant_values=BACKGROUND)


class Reel:
    """The tiles of one episode, compressed: an hour of misses must not fill the memory."""

    def __init__(self) -> None:
        self._tiles: list[bytes] = []
        self._shape: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._tiles)

    def append(self, tile: np.ndarray) -> None:
        """Add a tile (height, width, 3), uint8; all of a reel have the same shape."""
        self._shape = tile.shape
        self._tiles.append(zlib.compress(tile.tobytes(), 1))

    def __getitem__(self, index: int) -> np.ndarray:
        return np.frombuffer(zlib.decompress(self._tiles[index]), dtype=np.uint8).reshape(self._shape)


def frames(reels: Sequence[Reel], grid: Grid) -> Iterator[np.ndarray]:
    """Yield the frames of several episodes side by side, uint8; a tile keeps its last picture until all have ended."""
    height, width, _ = reels[0][0].shape
    down, right = height + GAP, width + GAP
    frame = np.full((grid.rows * down - GAP, grid.columns * right - GAP, 3), BACKGROUND, dtype=np.uint8)
    for step in range(max(len(reel) for reel in reels)):
        for index, reel in enumerate(reels):
            if step < len(reel):
                row, column = grid.place(index)
                frame[row * down :, column * right :][:height, :width] = reel[step]
        yield frame.copy()
