"""Resuming: killed, interrupted and extended runs end as an uninterrupted run does, bit for bit."""

import io
import json
import os
import pickle
import shutil
import signal
import stat
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch as th
import yaml
from gymnasium import spaces
from same_run import differences
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlher.core.errors import UserError
from rlher.core.reading import read_json_or_empty
from rlher.core.writing import write_bytes
from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.run import lookup, run_folder
from rlher.training import checkpoint_folder
from rlher.training.checkpointer import NOT_REPEATABLE, Checkpointer
from rlher.training.evaluator import Evaluator
from rlher.training.loggers import make_logger
from rlher.training.resume import resume_config, resume_run
from tests.conftest import TINY
from tests.support.bit_demonstrations import write_bit_demonstrations
from tests.support.fuzzing.checks import time_limit
from tests.support.tiers import slow_except

RUN = (*TINY, "env=BitFlipping-v0", "env.kwargs.n_bits=5", "eval.freq=70", "total_timesteps=260", "checkpoint.freq=90")
DEMOS = "demos/bits-v0"
CASES = {
    "dqn": "algo=dqn",
    "dqn, td_error, wrapped": "algo=dqn her.priority=td_error algo.buffer_size=70",
    "dqn, energy, wrapped": "algo=dqn her.priority=energy algo.buffer_size=70",
    "sac, 4 envs": "algo=sac n_envs=4 vec_env=dummy algo.learning_rate_schedule=linear algo.action_noise=0.1",
    "tqc, n steps": "algo=tqc normalize.enabled=false her.n_steps=3 her.goal_selection_strategy=final",
    "ddpg, noise": "algo=ddpg algo.action_noise=0.1 algo.random_action=0.3 algo.random_action_hold=3",
    "td3, rounds": "algo=td3 algo.train_freq=10 algo.gradient_steps=4 algo.target_policy_noise_schedule=linear"
    " her.goal_selection_strategy=random",
    "sac, no overlap": "algo=sac her=mix engine.overlap=false",
    "sac, environment in a process": "algo=sac vec_env=subproc",
    "ddpg, demonstrations": f"algo=ddpg n_envs=2 vec_env=dummy demos={DEMOS} demos.bc_weight=1",
    "dqn, demonstrations, wrapped": f"algo=dqn demos={DEMOS} her.priority=td_error algo.buffer_size=70"
    " her.goal_selection_strategy=random",
}


def words(case: str) -> tuple[str, ...]:
    if "demonstrations" in case and not Path(DEMOS).exists():
        write_bit_demonstrations(Path(DEMOS), continuous=not case.startswith("dqn"))
    continuous = () if case.startswith("dqn") else ("env.kwargs.continuous=true",)
    return (*RUN, *CASES[case].split(), *continuous)


def resumed_at(folder: Path | str) -> list[int]:
    """Return the steps at which a run was resumed, 0 where it had no valid checkpoint."""
    return [entry["timesteps"] for entry in json.loads((Path(folder) / "meta.json").read_text())["resumed"]]


def folder_of(case: str) -> Path:
    return Path("logs") / case.split(",")[0] / "BitFlipping-v0_1"


@pytest.mark.parametrize("case", slow_except(["dqn, td_error, wrapped"], CASES))
def test_a_killed_run_resumes_bit_for_bit(rlher, at_step, case: str) -> None:
    """SIGKILL leaves the files as they are at that instant, so a copy of them is resumed."""
    folder = folder_of(case)
    checkpoints = {200: 180}  # newest checkpoint at each instant
    if case == "dqn, td_error, wrapped":
        checkpoints[130] = 90
    for steps in checkpoints:
        at_step(steps, lambda steps=steps: shutil.copytree(folder, f"{steps}/{folder}", copy_function=os.link))
    assert rlher("train", *words(case)).code == 0
    shutil.rmtree(DEMOS, ignore_errors=True)  # a checkpoint holds them
    for steps, checkpoint in checkpoints.items():
        assert rlher("train", "--resume", f"{steps}/{folder}").code == 0
        assert 0 <= resumed_at(f"{steps}/{folder}")[0] - checkpoint < 10, "four environments, or ten steps"
        assert differences(folder, Path(f"{steps}/{folder}")) == []


INTERRUPTED = ["sac, 4 envs", "sac, no overlap", "dqn, demonstrations, wrapped"]


@pytest.mark.parametrize("case", slow_except(["sac, 4 envs"], INTERRUPTED))
def test_an_interrupted_run_resumes_bit_for_bit(rlher, at_step, case: str) -> None:
    """Interrupted between two environment rebuilds, and again after resuming; no step is done twice.

    A closed terminal sends SIGHUP to the runs of a sweep and their command, whose end sends them SIGTERM.
    """
    run = ("train", *words(case), "total_timesteps=200")
    assert rlher(*run, "logs=reference").code == 0
    folder = folder_of(case)
    closed_terminal = (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP)
    at_step(120, lambda: [os.kill(os.getpid(), number) for number in closed_terminal])
    at_step(150, lambda: os.kill(os.getpid(), signal.SIGINT))
    for words_ in (run, ("train", "--resume")):
        assert (stopped := rlher(*words_)).code == 130, stopped.err
        assert json.loads((folder / "result.json").read_text())["status"] == "interrupted"
    assert rlher("train", "--resume").code == 0
    assert [steps // 10 for steps in resumed_at(folder)] == [12, 15]
    assert differences(Path("reference") / folder.relative_to("logs"), folder) == []
    assert (folder / "command.txt").read_text().count("rlher resume") == 2


class WithPicture(gym.ObservationWrapper):
    """Adds a channel-last image of the bits, `file`, an argument of `np.savez`; it shows which axis is which."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        picture = spaces.Box(0, 255, (36, 40, 3), np.uint8)
        self.observation_space = spaces.Dict({**env.observation_space.spaces, "file": picture})

    def observation(self, observation: dict[str, Any]) -> dict[str, Any]:
        bits = (100 * observation["observation"]).astype(np.uint8)
        rows, channels = np.resize(bits, (36, 1, 1)), np.arange(3, dtype=np.uint8)
        return {**observation, "file": np.broadcast_to(rows + channels, (36, 40, 3)).copy()}


@pytest.mark.slow
def test_a_run_with_channel_last_images_resumes_bit_for_bit(rlher, at_step) -> None:
    """Those of rebuilt environments are transposed too, and held actions are restored."""
    wrapper = f"env.wrappers=[{__name__}:WithPicture]"
    held = ("algo.random_action=0.9", "algo.random_action_hold=4", "algo.learning_starts=20", "algo.batch_size=8")
    folder = folder_of("ddpg")
    at_step(30, lambda: shutil.copytree(folder, f"killed/{folder}"))
    shorter = ("total_timesteps=45", "eval.freq=45", "checkpoint.freq=20", "checkpoint.minutes=0", "eval.workers=1")
    assert rlher("train", *words("ddpg, noise"), *shorter, wrapper, *held).code == 0
    again = rlher("train", "--resume", f"killed/{folder}", "--trust-code")
    assert (again.code, NOT_REPEATABLE not in again.err) == (0, True), again.err
    assert differences(folder, Path("killed") / folder) == []


def test_checkpoints_between_rebuilds_change_nothing(rlher) -> None:
    for words_ in ((), ("checkpoint.minutes=0",)):
        assert rlher("train", *words("dqn, td_error, wrapped"), "total_timesteps=100", *words_).code == 0
    folder = folder_of("dqn")
    assert differences(folder, folder.with_name("BitFlipping-v0_2")) == []
    kept = checkpoint_folder.newest_first(folder.with_name("BitFlipping-v0_2") / "checkpoints")
    assert len(kept) == checkpoint_folder.KEPT_CHECKPOINTS
    assert (kept[1] / "env_actions.npz").exists()


@pytest.mark.parametrize("last", slow_except([127], [127, 260]))
def test_a_run_that_a_callback_ended_resumes_from_there(rlher, last: int) -> None:
    """The step in which it ended is stored and replayed, also if it is the last."""
    source = "from stable_baselines3.common.callbacks import BaseCallback\n"
    source += f"class Stop(BaseCallback):\n    def _on_step(self):\n        return self.num_timesteps != {last}\n"
    Path(f"ending{last}.py").write_text(source)
    assert rlher("train", *words("dqn"), f"callbacks=[ending{last}:Stop]").code == 0
    folder = folder_of("dqn")
    assert json.loads((folder / "result.json").read_text())["timesteps"] == last
    again = rlher("train", "--resume", str(folder), "more_timesteps=30")
    assert (again.code, NOT_REPEATABLE not in again.err) == (0, True)
    assert resumed_at(folder) == [last]
    assert json.loads((folder / "result.json").read_text())["timesteps"] == 290
    assert rlher("train", "--resume", str(folder)).code == 2


def test_a_resumed_run_may_have_other_callbacks(rlher) -> None:
    after = "{stable_baselines3.common.callbacks:StopTrainingOnMaxEpisodes: {max_episodes: %d}}"
    assert rlher("train", *words("dqn"), f"callbacks=[{after % 3}]").code == 0
    folder = folder_of("dqn")
    ended = [json.loads((folder / "result.json").read_text())["timesteps"]]
    for callbacks in (f"[{after % 2}]", "[]"):
        assert rlher("train", "--resume", f"callbacks={callbacks}", str(folder)).code == 0
        ended.append(json.loads((folder / "result.json").read_text())["timesteps"])
    assert ended[0] < ended[1] < ended[2] == yaml.safe_load((folder / "config.yaml").read_text())["total_timesteps"]


@pytest.mark.slow
def test_a_longer_run_keeps_its_first_learning_starts(rlher, at_step) -> None:
    """The run is shorter than an episode, so half of it is left for updates; a longer run would have a later start."""
    run = ("algo=dqn", *RUN, "env.kwargs.n_bits=50", "total_timesteps=20", "eval.freq=50", "checkpoint.minutes=0")
    assert rlher("train", *run).code == 0
    folder = folder_of("dqn")
    at_step(22, lambda: shutil.copytree(folder, f"killed/{folder}"))
    for resumed in (folder, Path("killed") / folder):
        assert rlher("train", "--resume", str(resumed), "total_timesteps=60").code == 0
        assert yaml.safe_load((resumed / "config.yaml").read_text())["algo"]["learning_starts"] == 10
    assert differences(folder, Path("killed") / folder) == []


@pytest.mark.parametrize(("owner", "name"), [(BitFlippingEnv, "step"), (Checkpointer, "save")])
def test_a_second_ctrl_c_leaves_the_last_checkpoint(rlher, at_step, uninterrupted: Path, owner, name: str) -> None:
    """It interrupts a step, so no checkpoint is written then."""
    due: list[bool] = []
    before = getattr(owner, name)

    def twice(*arguments: Any) -> Any:
        if due:
            due.clear()
            for number in (signal.SIGTERM, signal.SIGINT):
                os.kill(os.getpid(), number)
        return before(*arguments)

    at_step(105, lambda: due.append(True))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(owner, name, twice)
        stopped = rlher("train", *words("dqn"))
    assert stopped.code == 130, stopped.err
    assert [path.name for path in checkpoint_folder.newest_first(folder_of("dqn") / "checkpoints")] == ["000000090"]
    assert rlher("train", "--resume").code == 0
    assert resumed_at(folder_of("dqn")) == [90]
    assert differences(uninterrupted, folder_of("dqn")) == []


def test_a_run_with_init_from_resumes_without_that_run(rlher, at_step, stopped: Path) -> None:
    (stopped / "last_model.zip").unlink()  # as if it was killed
    start = ("train", *words("dqn"), f"init_from={stopped}", "seed=5", "logs=started")
    folder = Path("started/dqn/BitFlipping-v0_1")
    at_step(60, lambda: shutil.copytree("started", "killed/started"))
    assert rlher(*start).code == 0
    shutil.rmtree(stopped)
    again = rlher("train", "--resume", f"killed/{folder}")
    assert again.code == 0, again.err
    assert resumed_at(f"killed/{folder}") == [0]
    assert "no checkpoint" not in again.err
    assert differences(folder, Path("killed") / folder) == []


def test_the_log_has_one_row_for_each_log_of_an_uninterrupted_run(rlher, at_step) -> None:
    run = ("train", *words("dqn"), "eval.workers=0")  # so that rows are always in the same order
    folder = folder_of("dqn")
    at_step(200, lambda: shutil.copytree(folder, f"killed/{folder}"))
    assert rlher(*run).code == 0
    assert rlher("train", "--resume", f"killed/{folder}").code == 0
    one, two = (pd.read_csv(parent / folder / "progress.csv") for parent in (Path("."), Path("killed")))
    for column in ("time/total_timesteps", "eval/success_rate", "train/n_updates"):
        pd.testing.assert_series_equal(one[column], two[column], check_exact=True)


def test_reopening_the_log_keeps_its_rows_on_the_disk(tmp_path: Path) -> None:
    """A kill before the next row must not lose the others."""
    (tmp_path / "progress.csv").write_text("a,b\n1,2\n3,4\n5,6\n")
    logger = make_logger(tmp_path, tensorboard=False, rows=2)
    assert (tmp_path / "progress.csv").read_text() == "a,b\n1,2\n3,4\n"
    logger.record("c", 9)
    logger.dump(0)
    assert (tmp_path / "progress.csv").read_text() == "a,b,c\n1,2,\n3,4,\n,,9\n"
    logger.close()


def test_tensorboard_shows_each_step_once(tmp_path: Path) -> None:
    for start, end in ((0, 5), (2, 4)):
        logger = make_logger(tmp_path, tensorboard=True, timesteps=start)
        for step in range(start, end):
            logger.record("a", 10 * start)
            logger.dump(step + 1)
        logger.close()
        (file,) = (file for file in tmp_path.glob("events*") if file.suffix != ".part")
        file.rename(tmp_path / f"events.out.tfevents.{start}.part")  # they are read by name, and one process wrote both
    points = EventAccumulator(str(tmp_path)).Reload().Scalars("a")
    assert [(point.step, point.value) for point in points] == [(1, 0), (2, 0), (3, 20), (4, 20)]


def test_a_damaged_log_does_not_prevent_resuming(rlher, stopped: Path) -> None:
    (stopped / "progress.csv").write_bytes(bytes(100))
    assert rlher("train", "--resume", str(stopped)).code == 0


def test_a_run_killed_in_its_final_evaluation_is_not_finished(rlher, monkeypatch) -> None:
    """A checkpoint is written before it, after a last step that may pass total_timesteps with four environments."""
    final, folder = Evaluator.evaluate_final, folder_of("sac")

    def copied(*arguments: Any) -> Any:
        if not Path("killed").exists():
            shutil.copytree(folder, f"killed/{folder}")
        return final(*arguments)

    monkeypatch.setattr(Evaluator, "evaluate_final", copied)
    assert rlher("train", *words("sac, 4 envs"), "total_timesteps=122").code == 0
    assert rlher("train", "--resume", f"killed/{folder}").code == 0
    assert resumed_at(f"killed/{folder}") == [124]
    assert differences(folder, Path("killed") / folder) == []
    monkeypatch.setattr(Evaluator, "evaluate_final", lambda evaluations: os.kill(os.getpid(), signal.SIGINT))
    assert rlher("train", *words("dqn"), "total_timesteps=60").code == 130


def test_every_file_is_synced(rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power failure a file that was only renamed may be empty. Resumed runs are synced, too."""
    synced, fsync = set(), os.fsync

    def recording(handle: int) -> None:
        synced.add(state_of(os.fstat(handle)))
        fsync(handle)

    def state_of(file: os.stat_result) -> tuple[int, ...]:
        return (file.st_ino,) if stat.S_ISDIR(file.st_mode) else (file.st_ino, file.st_size, file.st_mtime_ns)

    monkeypatch.setattr(os, "fsync", recording)
    assert rlher("train", *words("dqn, td_error, wrapped")).code == 0
    folder = folder_of("dqn")
    assert rlher("train", "--resume", str(folder), "more_timesteps=100").code == 0
    logs = {file for file in folder.iterdir() if file.name.startswith(("progress", "events"))}
    needed = {folder, *folder.rglob("*")} - logs
    assert len(needed) > 20
    assert [str(path) for path in needed if state_of(path.stat()) not in synced] == []


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for runs that several tests start from, trained by the first that needs them."""
    return tmp_path_factory.mktemp("once")


@pytest.fixture
def stopped(rlher, at_step, once: Path) -> Path:
    """A run that was interrupted between two environment rebuilds."""
    folder = folder_of("dqn")
    if not (once / folder).exists():
        at_step(230, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert rlher("train", *words("dqn"), f"logs={once}/logs").code == 130
    shutil.copytree(once / folder, folder)
    return folder


@pytest.fixture
def uninterrupted(rlher, once: Path) -> Path:
    """The same run, uninterrupted; read-only."""
    if not (once / "uninterrupted").exists():
        assert rlher("train", *words("dqn"), f"logs={once}/uninterrupted").code == 0
    return once / "uninterrupted/dqn/BitFlipping-v0_1"


def flip(file: Path) -> None:
    """Flip a bit of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    write_bytes(file, bytes(content))


@pytest.mark.parametrize("name", ["model.zip", "replay_buffer.npz", "env_actions.npz", "state.json"])
def test_a_damaged_checkpoint_is_refused(rlher, stopped: Path, uninterrupted: Path, name: str) -> None:
    """Nothing is written. As the message says, the user may rename it; then the previous one is used."""
    damaged = newest(stopped)
    cut = name == "state.json"
    write_bytes(damaged / name, (damaged / name).read_bytes()[:-9]) if cut else flip(damaged / name)
    before = {path: path.stat().st_mtime_ns for path in stopped.rglob("*")}
    again = rlher("train", "--resume", str(stopped))
    assert (again.code, str(damaged) in again.err) == (2, True)
    assert {path: path.stat().st_mtime_ns for path in stopped.rglob("*")} == before
    if cut:
        damaged.rename(damaged.with_name("damaged"))
        assert rlher("train", "--resume", str(stopped)).code == 0
        assert resumed_at(stopped)[-1] == 180
        assert differences(uninterrupted, stopped) == []


def test_a_pipe_in_a_checkpoint_is_refused(rlher, stopped: Path) -> None:
    damaged = newest(stopped)
    for file in damaged.iterdir():
        content = file.read_bytes()
        file.unlink()
        os.mkfifo(file)
        with time_limit(30):
            again = rlher("train", "--resume", str(stopped))
        assert (again.code, str(damaged) in again.err) == (2, True), file
        file.unlink()
        write_bytes(file, content)


def edit_json(name: str, change: Callable[[dict], object]) -> Callable[[Path], None]:
    def attack(checkpoint: Path) -> None:
        values = json.loads((checkpoint / name).read_text())
        change(values)
        (checkpoint / name).write_text(json.dumps(values))

    return attack


def zip_bomb(checkpoint: Path) -> None:
    """Replace a file by zeros that are compressed to a thousandth of their size."""
    with zipfile.ZipFile(checkpoint / "env_actions.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_actions.npy", bytes(30_000_000))


class Evil:
    def __reduce__(self) -> tuple:
        return Path.touch, (Path("pwned"),)


def pickled_weights(checkpoint: Path) -> None:
    content = io.BytesIO()
    th.save({"actor": Evil()}, content, pickle_module=pickle)
    with zipfile.ZipFile(checkpoint / "model.zip", "w") as archive:
        archive.writestr("policy.pth", content.getvalue())


ATTACKS: dict[str, Callable[[Path], None]] = {
    "a pickle": pickled_weights,
    "compressed zeros": zip_bomb,
    "negative timesteps": edit_json("state.json", lambda it: it["loop"]["counters"].update(num_timesteps=-(10**15))),
    "a config that is a list": edit_json("state.json", lambda it: it.update(config=[5], log_rows=[5])),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_forged_checkpoint_is_refused(rlher, stopped: Path, attack: str) -> None:
    before = {path.name for path in Path().iterdir()}
    kept = {name: (stopped / name).read_text() for name in ("result.json", "config.yaml", "meta.json")}
    ATTACKS[attack](newest(stopped))
    again = rlher("train", "--resume", str(stopped), "more_timesteps=20")
    assert (again.code, str(newest(stopped)) in again.err) == (2, True)
    assert {path.name for path in Path().iterdir()} == before
    assert {name: (stopped / name).read_text() for name in kept} == kept


def test_a_pipe_in_the_run_folder_is_refused(rlher, stopped: Path) -> None:
    (stopped / "progress.csv").unlink()
    os.mkfifo(stopped / "progress.csv")
    with time_limit(30):
        again = rlher("train", "--resume", str(stopped))
    assert again.code == 2
    assert str(stopped / "progress.csv") in again.err


def test_a_config_cannot_read_environment_variables(rlher, stopped: Path, monkeypatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2")
    config = stopped / "config.yaml"
    config.write_text(config.read_text().replace("BitFlipping-v0", "${oc.env:MY_SECRET}"))
    for verb in (("train", "--resume"), ("evaluate",)):
        done = rlher(*verb, str(stopped))
        assert done.code == 2
        assert "hunter2" not in done.err + config.read_text()


def newest(folder: Path) -> Path:
    return checkpoint_folder.newest_first(folder / "checkpoints")[0]


def test_a_run_without_checkpoints_starts_from_step_0(rlher, at_step, stopped: Path, uninterrupted) -> None:
    shutil.rmtree(stopped / "checkpoints")
    results = [stopped / name for name in ("best_model.zip", "last_model.zip", "evaluations.csv")]
    assert all(path.exists() for path in results)
    (stopped / "models").mkdir()
    (stopped / "models/5.zip").touch()
    results.append(stopped / "models/5.zip")
    at_step(1, lambda: results.__setitem__(slice(None), filter(Path.exists, results)))
    assert rlher("train", "--resume", str(stopped)).code == 0
    assert (resumed_at(stopped), results) == ([0], [])
    assert differences(uninterrupted, stopped) == []


def test_a_finished_run_is_refused_but_can_be_extended(rlher) -> None:
    """An extended run equals a longer one."""
    shorter = (*RUN, "algo=td3", "algo.train_freq=3", "env.kwargs.continuous=true", "total_timesteps=100")
    folder = folder_of("td3")
    assert rlher("train", *shorter).code == 0
    assert rlher("train", "--resume", str(folder)).code == 2
    assert rlher("train", "--resume", "more_timesteps=1", "logger=fractions:Fraction").code == 2
    assert lookup.is_finished(folder), "nothing is written if the tracker cannot be built"
    assert rlher("train", "--resume", "more_timesteps=4_0", "logger=none").code == 0
    assert lookup.open_run(str(folder), "logs").config.total_timesteps == 140
    assert read_json_or_empty(folder / "meta.json")["experiment"]["total_timesteps"] == 140, "as a sweep finds it"
    assert rlher("train", *shorter, "total_timesteps=140", "logs=longer").code == 0
    assert differences(Path("longer") / folder.relative_to("logs"), folder) == []


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (("algo.gamma=0.5",), "algo.gamma"),
        (("seed=3", "her=mix"), "seed"),
        (("algo=sac",), "algo=sac"),
        (("algo.gama=0.5",), "algo.gama"),
        (("total_timesteps=100",), "total_timesteps=100"),
        (("total_timesteps=many",), "many"),
        (("more_timesteps=" + "9" * 23,), "total_timesteps"),
    ],
)
def test_keys_of_another_experiment_are_refused(rlher, stopped: Path, typed: tuple[str, ...], named: str) -> None:
    again = rlher("train", "--resume", str(stopped), *typed)
    assert (again.code, named in again.err) == (2, True)


EDITS: dict[str, tuple[Callable[[str], str], set[str]]] = {
    "a number": (lambda text: text.replace("  gamma: 0.98", "  gamma: 0.5"), {"algo.gamma"}),
    "truncated": (lambda text: text.partition("\ntotal_timesteps")[0] + "\n", {"eval.freq", "checkpoint.freq"}),
    "a key less": (lambda text: text.replace("    n_bits: 5\n", "    n_bits: 4\n"), {"env.kwargs"}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_config_is_refused_before_anything_is_written(stopped: Path, edit: str) -> None:
    change, keys = EDITS[edit]
    config = stopped / "config.yaml"
    config.write_text(change(config.read_text()))
    before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}
    with pytest.raises(UserError) as caught:
        resume_run(resume_config({"run": str(stopped)}), "rlher resume")
    assert all(key in str(caught.value) for key in keys)
    assert {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()} == before


def test_keys_that_do_not_affect_learning_may_change(rlher, stopped: Path) -> None:
    config = stopped / "config.yaml"
    edited = yaml.safe_load(config.read_text()) | {"vec_env": "dummy", "total_timesteps": 250, "progress": False}
    config.write_text(yaml.safe_dump(edited, sort_keys=False))
    same = ("algo=dqn", "env=BitFlipping-v0", "env.kwargs.n_bits=5")
    again = rlher("train", "--resume", str(stopped), *same, "checkpoint.minutes=1", "--threads", "2", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["timesteps"] == 250


def test_a_run_that_is_being_trained_is_refused(rlher, stopped: Path) -> None:
    with run_folder.locked(stopped):
        again = rlher("train", "--resume", str(stopped))
    assert (again.code, str(stopped) in again.err) == (2, True)
    assert rlher("train", "--resume", str(stopped)).code == 0


def test_an_environment_that_ignores_its_seed_warns(rlher, stopped: Path, monkeypatch) -> None:
    reset = BitFlippingEnv.reset

    def unseeded(self: BitFlippingEnv, *, seed=None, options=None):
        return reset(self, seed=int.from_bytes(os.urandom(4), sys.byteorder), options=options)

    monkeypatch.setattr(BitFlippingEnv, "reset", unseeded)
    again = rlher("train", "--resume", str(stopped))
    assert (again.code, NOT_REPEATABLE in again.err) == (0, True)


def test_checkpoint_every_null_writes_no_checkpoints(rlher) -> None:
    assert rlher("train", *words("dqn"), "checkpoint.freq=null", "total_timesteps=60").code == 0
    assert not (folder_of("dqn") / "checkpoints").exists()
    assert rlher("train", "--resume", str(folder_of("dqn")), "more_timesteps=10").code == 2


def test_ctrl_c_waits_for_the_evaluation_in_progress_without_checkpoints_too(rlher, at_step, monkeypatch) -> None:
    monkeypatch.setattr(Evaluator, "record_finished", lambda self: None)
    at_step(75, lambda: os.kill(os.getpid(), signal.SIGINT))
    assert rlher("train", *words("dqn"), "checkpoint.freq=null").code == 130
    assert pd.read_csv(folder_of("dqn") / "evaluations.csv")["timesteps"].tolist() == [70]
