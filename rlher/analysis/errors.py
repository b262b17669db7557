"""User errors of `rlher plot`, `rlher compare` and `rlher report`."""

from collections.abc import Iterable, Sequence

from rlher.core.errors import UserError, did_you_mean


class FolderNotFound(UserError):
    """A folder of runs that does not exist.

    :param path: as given.
    :param hint: a sentence that follows.
    """

    def __init__(self, path: str, hint: str = "") -> None:
        super().__init__(f"the folder {path} does not exist.{hint}")
        self.path = path


class NoRunsFound(UserError):
    """No run with an evaluation in any of the folders.

    :param paths: the folders.
    :param notes: messages about skipped folders.
    """

    def __init__(self, paths: Sequence[str], notes: Sequence[str]) -> None:
        reason = f" ({'; '.join(notes)})" if notes else ""
        super().__init__(f"no run with an evaluation under {', '.join(paths)}{reason}.")
        self.paths = list(paths)


class UnknownKey(UserError):
    """A config key of ``--by`` that no run has.

    :param key: the key.
    :param known: keys to suggest from.
    """

    def __init__(self, key: str, known: Iterable[str]) -> None:
        super().__init__(f"no run has a key {key!r}{did_you_mean(key, known)}.")
        self.key = key


class MissingColumn(UserError):
    """A column of ``evaluations.csv`` that no run has, or that is empty in every run.

    :param columns: one unknown column, or all that no run has numbers in at once.
    :param known: columns to suggest from.
    """

    def __init__(self, columns: Sequence[str], known: Iterable[str]) -> None:
        known = sorted(known)
        if len(columns) == 1:
            near = did_you_mean(columns[0], known)
            message = f"no run has a column {columns[0]!r}{near}; available: {', '.join(known)}."
        else:
            message = f"no run has numbers in both {' and '.join(columns)}; choose another column."
        super().__init__(message)
        self.columns = list(columns)
