"""Where Stable-Baselines3's logger writes: ``progress.csv`` and TensorBoard files, continued where a run is resumed."""

import csv
import io
from pathlib import Path

from stable_baselines3.common.logger import CSVOutputFormat, KVWriter, Logger, make_output_format

STEP = "time/total_timesteps"


class ContinuedCSV(CSVOutputFormat):
    """Stable-Baselines3's CSV file, gone on with instead of begun anew.

    :param path: of the file.
    :param timesteps: rows of later steps are dropped: they will come again.
    """

    def __init__(self, path: Path, timesteps: int) -> None:
        kept = _rows_until(path, timesteps)
        super().__init__(str(path))
        if kept:
            self.keys = kept[0]
            csv.writer(self.file, lineterminator="\n").writerows(kept)
            self.file.flush()


def _rows_until(path: Path, timesteps: int) -> list[list[str]]:
    """Return the header and the rows of a file up to a step; nothing where it is missing or damaged."""
    try:
        header, *rows = csv.reader(io.StringIO(path.read_text()))
        column = header.index(STEP)
        kept = [row for row in rows if len(row) == len(header) and (not row[column] or float(row[column]) <= timesteps)]
    except (OSError, ValueError, csv.Error):
        return []
    return [header, *kept]


def logger_in(folder: Path, tensorboard: bool, timesteps: int) -> Logger:
    """Return the logger of a run that has done so many steps."""
    formats: list[KVWriter] = [ContinuedCSV(folder / "progress.csv", timesteps)]
    if tensorboard:
        formats.append(make_output_format("tensorboard", str(folder)))
    return Logger(folder=str(folder), output_formats=formats)
