"""A folder with one file of each kind that rlher reads, and the commands that read each of them."""

import contextlib
import io
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from rlher.cli.main import main
from rlher.core.errors import UserError
from tests.support.fuzzing.checks import MARKER, FullStream, Violation, file_states, run_checked
from tests.support.fuzzing.damage import ODD_FILES, damaged

RUN = "logs/dqn/BitFlipping-v0_1"
"""Run folder that :data:`TRAIN` writes."""
TRAIN = (
    *("train", "algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=4", "recipe=null", "algo.net_arch=[8]"),
    *("algo.batch_size=8", "algo.learning_starts=20", "eval.episodes=2", "eval.final_episodes=2"),
    *("total_timesteps=60", "threads=1"),
)

Reader = Callable[[], int | None]
"""Reads a file in the working directory and returns an exit code, like a command."""


@dataclass
class Workspace:
    """A folder with one file of each kind.

    :param readers: readers of each file, by its path within the folder.
    """

    folder: Path
    readers: dict[str, list[Reader]] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path) -> "Workspace":
        """Write all files into an empty folder."""
        with contextlib.chdir(folder):
            run_checked(lambda: main([*TRAIN, "her.priority=td_error", "tensorboard=false"]), "training")
            _write_configs()
            _write_evil()
            _write_study()
        evaluate = command("evaluate", RUN, "--episodes", "1", "--json")
        readers: dict[str, list[Reader]] = {
            f"{RUN}/config.yaml": [evaluate, command("compare"), command("evaluate", "--episodes", "1")],
            f"{RUN}/evaluations.csv": [command("compare"), command("plot", "--output", f"{RUN}/curve.png")],
            f"{RUN}/result.json": [command("compare")],
            f"{RUN}/meta.json": [command("compare")],
            f"{RUN}/command.txt": [command("compare")],
            f"{RUN}/last_model.zip": [evaluate, command(*TRAIN, f"init_from={RUN}")],
            "recipe.yaml": [command("train", "algo=dqn", "env=BitFlipping-v0", "recipe=recipe.yaml", "--cfg", "job")],
            "space.yaml": [_read_space],
            "my_env.yaml": [command("train", "env=my_env.yaml", "--cfg", "job")],
            "study/study.db": [_read_study],
        }
        resume = command("train", "--resume", RUN, "more_timesteps=10")
        for file in sorted((folder / RUN / "checkpoints").rglob("*.*")):
            if file.is_file() and file.name != "best_model.zip":
                readers[str(file.relative_to(folder))] = [resume]
        return cls(folder, readers)

    def damage_and_read(self, rng: Random) -> str:
        """Damage one of the files or give it the content of another, and return what one of its readers prints.

        :raises Violation: as :meth:`read_replaced`.
        """
        files = sorted(self.readers)
        path = rng.choice(files)
        if rng.random() < 0.1:
            return self.read_changed(path, rng.choice(ODD_FILES), rng.choice(self.readers[path]))
        if rng.random() < 0.1:
            return self.read_changed(path, lambda file: None, rng.choice(self.readers[path]), FullStream())
        if rng.random() < 0.1:
            content = (self.folder / rng.choice(files)).read_bytes()
        else:
            content = damaged(rng, Path(path).suffix, (self.folder / path).read_bytes())
        return self.read_replaced(path, content, rng.choice(self.readers[path]))

    def read_replaced(self, path: str, content: bytes, reader: Reader) -> str:
        """Read a file with other content, restore all files, and return what the reader printed.

        :raises Violation: as :meth:`read_changed`.
        """
        return self.read_changed(path, lambda file: file.write_bytes(content), reader)

    def read_changed(
        self, path: str, make: Callable[[Path], object], reader: Reader, out: io.StringIO | None = None
    ) -> str:
        """Read what a function makes in place of a file, restore all files, and return what the reader printed.

        :param out: stdout of the reader.
        :raises Violation: the reader ended badly, ran code from the file, or changed a file of another folder.
        """
        file = self.folder / path
        home = self.folder / RUN if path.startswith(RUN) else file.parent
        backup = self.folder.parent / "backup"
        shutil.rmtree(backup, ignore_errors=True)
        shutil.copytree(home, backup)
        if out is None:
            file.unlink()
        make(file)
        before = file_states(self.folder, exclude=home)
        runs = set((self.folder / "logs/dqn").iterdir())
        try:
            with contextlib.chdir(self.folder):
                printed = run_checked(reader, path, out)
            for new_run in set((self.folder / "logs/dqn").iterdir()) - runs:
                shutil.rmtree(new_run)
            if file_states(self.folder, exclude=home) != before or [*home.rglob(MARKER)]:
                raise Violation(f"{path}: a file outside its folder was changed")
        finally:
            shutil.rmtree(home)
            shutil.copytree(backup, home)
        return printed


def command(*words: str) -> Reader:
    """Return a function that runs a command."""
    return lambda: main(list(words))


def _write_configs() -> None:
    """Write an environment config, a recipe and a search space."""
    Path("my_env.yaml").write_text("id: Mine-v0\nkwargs: {n_bits: 4}\n")
    Path("recipe.yaml").write_text("algo: {gamma: 0.9, net_arch: [8, 8]}\nher: {n_sampled_goal: 2}\n")
    Path("space.yaml").write_text(
        "defaults: [her]\nalgo: {gamma: {low: 0.9, high: 0.99}, learning_rate: {low: 1e-4, high: 1e-2, log: true}}\n"
    )


def _write_evil() -> None:
    """Write modules that must not be imported."""
    Path("evil_package").mkdir()
    for path in (Path("evil.py"), Path("evil_package/__init__.py"), Path("panda_gym.py")):
        path.write_text(f"import pathlib; pathlib.Path({str(Path(MARKER).resolve())!r}).touch()")


def _open_study() -> Any:
    from rlher.tuning.study_storage import open_storage, open_study

    storage = open_storage(None, Path("study"), 30)
    return open_study(storage, "fuzz", {})[0]


def _write_study() -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    _open_study().optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)


def _read_space() -> int:
    from rlher.config.algorithms import DQNConfig
    from rlher.config.training import RunConfig
    from rlher.tuning.search_space import load_space

    with _print_errors(UserError, OSError):
        load_space("space.yaml", RunConfig(algo=DQNConfig(name="dqn")))
    return 0


def _read_study() -> int:
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    with _print_errors(UserError, StorageInternalError, SQLAlchemyError, ValueError):  # `optimize` words them
        _open_study().get_trials()
    return 0


@contextlib.contextmanager
def _print_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Print expected errors instead of raising them, as commands do."""
    try:
        yield
    except kinds as error:
        print(error, file=sys.stderr)
