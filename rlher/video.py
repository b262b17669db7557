"""Writing frames as a video, through imageio and the ffmpeg that its wheel carries."""

from pathlib import Path

import imageio.v2 as imageio
import numpy as np

from rlher.errors import UserError
from rlher.files import replacing

KINDS = (".mp4", ".gif")


def require_video_name(path: Path) -> None:
    """Refuse a file name of an unknown kind.

    :raises UserError: it ends neither in .mp4 nor in .gif.
    """
    if path.suffix.lower() not in KINDS:
        raise UserError(f"a video's name must end in {' or '.join(KINDS)}, not {path.suffix or 'nothing'!r}.")


def write_video(path: Path, frames: list[np.ndarray], fps: int) -> None:
    """Write frames of shape (height, width, 3), uint8, as MP4 (H.264) or GIF, by the name's ending.

    :raises UserError: the file cannot be written.
    """
    require_video_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            if path.suffix.lower() == ".gif":
                imageio.mimwrite(temporary, frames, format="GIF", duration=1000 / fps, loop=0)  # type: ignore[arg-type]
            else:
                # H.264 wants even sides; macro_block_size=2 pads by a line instead of to multiples of 16.
                imageio.mimwrite(temporary, frames, format="FFMPEG", fps=fps, codec="libx264", macro_block_size=2)  # type: ignore[arg-type]
    except OSError as error:
        raise UserError(f"cannot write {path}: {error}.") from error
