"""Write frames to an MP4 (H.264) or GIF file with imageio-ffmpeg."""

import errno
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np

from rlher.core.errors import UserError, first_line
from rlher.core.files import output_file

FORMATS: dict[str, dict[str, Any]] = {
    ".mp4": dict(codec="libx264", quality=6),
    ".gif": dict(
        codec="gif",
        pix_fmt_out="pal8",
        quality=None,
        output_params=[  # one palette for all frames; only the part of a frame that changes is stored
            "-filter_complex",
            "split[a][b];[a]palettegen[p];[b][p]paletteuse=dither=none:diff_mode=rectangle",
        ],
    ),
}

AppendFrame = Callable[[np.ndarray], None]


def require_video_suffix(path: Path) -> None:
    """Raise UserError if a file name ends neither in .mp4 nor in .gif."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"video={path} is neither an MP4 nor a GIF file; use a name that ends in .mp4 or .gif.")


@contextmanager
def open_video(path: Path, size: tuple[int, int], fps: float) -> Iterator[AppendFrame]:
    """Yield a function that appends a frame (height, width, 3), uint8; the file appears at the end of the block.

    :param size: width and height of every frame in pixels; even numbers for MP4.
    :param fps: frames per second.
    :raises UserError: the file cannot be written.
    """
    require_video_suffix(path)
    options = dict(fps=fps, macro_block_size=1, ffmpeg_log_level="fatal", **FORMATS[path.suffix.lower()])
    count = 0

    def append(frame: np.ndarray) -> None:
        nonlocal count
        ffmpeg.send(np.ascontiguousarray(frame))
        count += 1

    try:
        with output_file(path) as temporary:
            with closing(imageio_ffmpeg.write_frames(str(temporary), size, **options)) as ffmpeg:
                ffmpeg.send(None)
                yield append
            _require_frames(temporary, count)
    except RuntimeError as error:  # there is no ffmpeg
        raise UserError(f"cannot write {path}: {first_line(error)}.") from error


def _require_frames(path: Path, count: int) -> None:
    """Raise OSError if a video is incomplete: imageio-ffmpeg ignores that ffmpeg failed, as it does on a full disk."""
    try:
        written = imageio_ffmpeg.count_frames_and_secs(str(path))[0] if count else 0
    except RuntimeError:  # it is no video
        written = 0
    if written < count:
        raise OSError(errno.EIO, f"ffmpeg wrote {written} of {count} frames, perhaps because the disk is full")
