"""User errors of `rlher optimize`, with the file, study or key concerned as attributes."""

from typing import Any

from rlher.core.errors import UserError


class SearchSpaceError(UserError):
    """A search space that cannot be read, or does not fit the algorithm.

    :param space: name or file of the space.
    :param problem: what is wrong; what to do.
    :param key: the dotted config key concerned, if there is one.
    """

    def __init__(self, space: str, problem: str, key: str | None = None) -> None:
        super().__init__(f"search space {space!r}: {problem}.")
        self.space, self.key = space, key


class StudyMismatch(UserError):
    """A study of this name exists with other settings.

    :param key: the first key that differs; None if the study was not created by `rlher optimize`.
    :param stored: the key's value in the study.
    :param requested: the key's value in this command.
    """

    def __init__(self, study: str, key: str | None, stored: Any = None, requested: Any = None) -> None:
        why = "was not created by rlher optimize" if key is None else f"has {key}={stored}, this command {requested}"
        super().__init__(f"the study {study!r} {why}; choose another --study-name.")
        self.study, self.key, self.stored, self.requested = study, key, stored, requested


class StorageError(UserError):
    """A journal file or database that cannot be opened.

    :param storage: file, or address without its password.
    :param problem: what is wrong; what to do.
    """

    def __init__(self, storage: str, problem: str) -> None:
        super().__init__(f"cannot use the storage {storage}: {problem}.")
        self.storage = storage
