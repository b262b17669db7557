"""Writing frames as a video, with the ffmpeg that imageio's wheel carries."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np

from rlher.core.errors import UserError
from rlher.core.files import atomic_write

KINDS: dict[str, dict[str, Any]] = {
    ".mp4": dict(codec="libx264", quality=6),
    # One palette made of all frames, of which only what changes is stored.
    ".gif": dict(
        codec="gif",
        pix_fmt_out="pal8",
        quality=None,
        output_params=[
            "-filter_complex",
            "split[a][b];[a]palettegen[p];[b][p]paletteuse=dither=none:diff_mode=rectangle",
        ],
    ),
}

Write = Callable[[np.ndarray], None]


def require_video_name(path: Path) -> None:
    """Refuse a file name of an unknown kind.

    :raises UserError: it ends neither in .mp4 nor in .gif.
    """
    if path.suffix.lower() not in KINDS:
        raise UserError(f"a video's name must end in {' or '.join(KINDS)}, not {path.suffix or 'nothing'!r}.")


@contextmanager
def video(path: Path, size: tuple[int, int], fps: float) -> Iterator[Write]:
    """Yield a function that adds a frame to an MP4 (H.264) or GIF, by the name's ending; the file is there at the end.

    Frames have shape (height, width, 3), uint8. An odd side gets a line more, as H.264 wants it.

    :param size: width and height of every frame, in pixels.
    :raises UserError: the file cannot be written.
    """
    require_video_name(path)
    width, height = (side + side % 2 for side in size)
    margin = ((0, height - size[1]), (0, width - size[0]), (0, 0))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            options = dict(fps=fps, macro_block_size=1, ffmpeg_log_level="error", **KINDS[path.suffix.lower()])
            with closing(imageio_ffmpeg.write_frames(str(temporary), (width, height), **options)) as ffmpeg:
                ffmpeg.send(None)
                yield lambda frame: ffmpeg.send(np.ascontiguousarray(np.pad(frame, margin, mode="edge")))
    except (OSError, RuntimeError) as error:  # the latter where there is no ffmpeg
        raise UserError(f"cannot write {path}: {str(error).splitlines()[0]}.") from error
