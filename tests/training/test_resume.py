"""Runs that were killed, stopped or longer than planned: they go on as if nothing had been, to the last bit."""

import contextlib
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

import numpy as np
import pytest
import torch as th
import yaml
from same_run import differences

from rlher.core.errors import UserError
from rlher.envs.bit_flipping import BitFlippingEnv
from rlher.runs import checkpoint_store, run_folder
from rlher.training import best_model, training_state
from rlher.training.callbacks.checkpoint import CheckpointCallback
from rlher.training.trainer import Trainer
from tests.conftest import TINY

RUN = (*TINY, "env=BitFlipping-v0", "env.n_bits=5", "eval.freq=70", "total_timesteps=260", "checkpoint.every=90")
CASES = {
    "dqn": ("algo=dqn",),
    "dqn, td_error, wrapped": ("algo=dqn", "her.priority=td_error", "algo.buffer_size=70"),
    "qrdqn, energy, wrapped": ("algo=qrdqn", "her.priority=energy", "algo.buffer_size=70"),
    "sac, 4 envs": ("algo=sac", "n_envs=4", "vec_env=dummy", "algo.learning_rate_schedule=linear"),
    "tqc, not normalised": ("algo=tqc", "normalize.enabled=false", "her.goal_selection_strategy=final"),
    "td3, every third step": ("algo=td3", "algo.train_freq=3", "her.goal_selection_strategy=random"),
    "ddpg, noise": ("algo=ddpg", "algo.action_noise=0.1", "algo.random_action=0.3"),
    "crossq, n steps": ("algo=crossq", "her.n_steps=3", "her.goal_selection_strategy=episode"),
    "sac, its own update": ("algo=sac", "engine=sb3", "her=mix"),
    "sac, gSDE": ("algo=sac", "algo.kwargs.use_sde=true", "engine=sb3"),
    "dqn, no hindsight": ("algo=dqn", "her.n_sampled_goal=0"),
}
DISCRETE = ("dqn", "qrdqn")


def words(case: str) -> tuple[str, ...]:
    continuous = () if case.split(",")[0] in DISCRETE else ("env.continuous=true",)
    return (*RUN, *CASES[case], *continuous)


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], None]:
    """Do something once in the middle of the first step from a given one on."""

    def plan(steps: int, act: Callable[[], object]) -> None:
        before, done = CheckpointCallback._on_step, []

        def on_step(self: CheckpointCallback) -> bool:
            if self.model.num_timesteps >= steps and not done:
                done.append(True)
                act()
            return before(self)

        monkeypatch.setattr(CheckpointCallback, "_on_step", on_step)

    return plan


def folder_of(case: str) -> Path:
    return Path("logs") / case.split(",")[0] / "BitFlipping-v0_1"


@pytest.mark.parametrize("case", CASES)
def test_a_killed_run_goes_on_bit_for_bit(rlher, at_step, case: str) -> None:
    """What SIGKILL leaves is what is on the disk at that instant: a copy of it is gone on with."""
    folder = folder_of(case)
    instants = {130: "at 9", 200: "at 18"}  # after one checkpoint; after two
    if case == "dqn":
        instants[50] = "no checkpoint yet"
    for steps in sorted(instants):
        at_step(steps, lambda steps=steps: shutil.copytree(folder, f"{steps}/{folder}", copy_function=os.link))
    done = rlher("train", *words(case))
    assert done.code == 0, done.err
    for steps, where in instants.items():
        again = rlher("train", "--resume", f"{steps}/{folder}")
        assert again.code == 0, again.err
        assert where in again.err
        assert differences(folder, Path(f"{steps}/{folder}")) == []


@pytest.mark.parametrize("case", CASES)
def test_a_stopped_run_goes_on_bit_for_bit(rlher, at_step, case: str) -> None:
    """Stopped between two barriers, and once more after going on; nothing that was done is done again."""
    done = rlher("train", *words(case), "logs=peace")
    assert done.code == 0, done.err
    folder = folder_of(case)
    at_step(120, lambda: os.kill(os.getpid(), signal.SIGTERM))
    at_step(150, lambda: os.kill(os.getpid(), signal.SIGINT))
    for words_, line in ((("train", *words(case)), ""), (("train", "--resume"), "resumed at 12")):
        stopped = rlher(*words_)
        assert stopped.code == 130, stopped.err
        assert line in stopped.err
        assert json.loads((folder / "result.json").read_text())["status"] == "interrupted"
    again = rlher("train", "--resume", "latest")
    assert again.code == 0, again.err
    assert "resumed at 15" in again.err
    assert differences(Path("peace") / folder.relative_to("logs"), folder) == []
    assert len(json.loads((folder / "meta.json").read_text())["resumed"]) == 2
    assert (folder / "command.txt").read_text().count("--resume") == 2


@pytest.mark.parametrize("case", ["dqn, td_error, wrapped", "sac, 4 envs"])
def test_writing_in_between_changes_nothing(rlher, case: str) -> None:
    for words_ in ((), ("checkpoint.minutes=0",)):
        assert rlher("train", *words(case), *words_).code == 0
    folder = folder_of(case)
    assert differences(folder, folder.with_name("BitFlipping-v0_2")) == []
    kept = checkpoint_store.newest_first(folder.with_name("BitFlipping-v0_2") / "checkpoints")
    assert len(kept) == checkpoint_store.KEPT
    assert (kept[1] / "episodes.npz").exists()


def in_env(do: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    step = BitFlippingEnv.step
    monkeypatch.setattr(BitFlippingEnv, "step", lambda *arguments: do() or step(*arguments))


def in_checkpoint(do: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    save = training_state.save
    monkeypatch.setattr(training_state, "save", lambda *arguments: do() or save(*arguments))


def in_table(do: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    write = run_folder.Run.write_evaluations
    monkeypatch.setattr(run_folder.Run, "write_evaluations", lambda *arguments: write(*arguments) or do())


@pytest.mark.parametrize("where", [in_env, in_checkpoint, in_table])
def test_a_second_signal_leaves_the_last_checkpoint(rlher, at_step, peace: Path, where: Callable) -> None:
    """It does not wait for the step's end, so what there is then belongs to no step, and is not written."""
    due: list[bool] = []

    def twice() -> None:
        if due:
            due.clear()
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)

    at_step(105, lambda: due.append(True))
    with pytest.MonkeyPatch.context() as patched:
        where(twice, patched)
        stopped = rlher("train", *words("dqn"))
    assert stopped.code == 130, stopped.err
    assert [path.name for path in checkpoint_store.newest_first(folder_of("dqn") / "checkpoints")] == ["000000090"]
    again = rlher("train", "--resume")
    assert again.code == 0, again.err
    assert "resumed at 90 of 260" in again.err
    assert differences(peace, folder_of("dqn")) == []


def test_what_a_run_was_begun_from_may_change_or_go(rlher, at_step, stopped: Path) -> None:
    begin = ("train", *words("dqn"), f"init_from={stopped}", "seed=5", "logs=begun")
    folder = Path("begun/dqn/BitFlipping-v0_1")
    at_step(60, lambda: shutil.copytree("begun", "killed/begun"))
    assert rlher(*begin).code == 0
    shutil.rmtree(stopped)
    again = rlher("train", "--resume", f"killed/{folder}")
    assert again.code == 0, again.err
    assert "resumed at 0 of 260" in again.err
    assert differences(folder, Path("killed") / folder) == []


def test_a_best_model_that_the_disk_did_not_take_is_written_later(rlher, peace: Path, monkeypatch) -> None:
    """All but the first evaluation find no better one here, so forgetting it would show at the end."""
    full, atomic_write = [], best_model.atomic_write

    def refusing(path: Path) -> contextlib.AbstractContextManager:
        if not full:
            full.append(path)
            raise OSError(28, "No space left on device")
        return atomic_write(path)

    monkeypatch.setattr(best_model, "atomic_write", refusing)
    done = rlher("train", *words("dqn"))
    assert done.code == 0, done.err
    assert "the best model cannot be written (No space left on device)" in done.err
    assert differences(peace, folder_of("dqn")) == []


def test_rows_of_a_future_that_does_not_come_are_dropped(rlher, at_step) -> None:
    at_step(200, lambda: shutil.copytree("logs", "killed"))
    assert rlher("train", *words("dqn"), "eval.freq=30").code == 0
    again = rlher("train", "--resume", "logs=killed", "total_timesteps=185")
    assert again.code == 0, again.err
    rows = (Path("killed/dqn/BitFlipping-v0_1") / "evaluations.csv").read_text().splitlines()[1:]
    assert [int(row.split(",")[0]) for row in rows] == [30, 60, 90, 120, 150, 180]


@pytest.mark.parametrize(("case", "total", "where"), [("dqn", 260, "260 of 260"), ("sac, 4 envs", 262, "264 of 262")])
def test_a_run_killed_in_its_last_evaluation_is_not_finished(rlher, monkeypatch, case, total, where) -> None:
    """A checkpoint is written before it, after a last step of four environments that may have gone past the end."""
    final, folder = Trainer._evaluate_final, folder_of(case)

    def copied(*arguments: Any) -> None:
        if not Path("killed").exists():
            shutil.copytree(folder, f"killed/{folder}")
        final(*arguments)

    monkeypatch.setattr(Trainer, "_evaluate_final", copied)
    assert rlher("train", *words(case), f"total_timesteps={total}").code == 0
    again = rlher("train", "--resume", f"killed/{folder}")
    assert again.code == 0, again.err
    assert f"resumed at {where} steps" in again.err
    assert differences(folder, Path("killed") / folder) == []


def test_what_a_run_goes_on_from_outlives_a_power_failure(rlher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file as it is at the end, and every folder, was synced; a rename alone may leave an empty file.

    In a run that was gone on with, too.
    """
    synced, fsync = set(), os.fsync

    def noted(handle: int) -> None:
        synced.add(state_of(os.fstat(handle)))
        fsync(handle)

    def state_of(found: os.stat_result) -> tuple[int, ...]:
        return (found.st_ino,) if stat.S_ISDIR(found.st_mode) else (found.st_ino, found.st_size, found.st_mtime_ns)

    monkeypatch.setattr(os, "fsync", noted)
    assert rlher("train", *words("dqn, td_error, wrapped")).code == 0
    folder = folder_of("dqn")
    assert rlher("train", "--resume", str(folder), "total_timesteps=+100").code == 0
    logs = {file for file in folder.iterdir() if file.name.startswith(("progress", "events"))}
    needed = {folder.parent.parent, folder.parent, folder, *folder.rglob("*")} - logs
    assert len(needed) > 25
    assert [str(path) for path in needed if state_of(path.stat()) not in synced] == []


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where runs that several tests begin with are kept, made by the first that asks."""
    return tmp_path_factory.mktemp("once")


@pytest.fixture
def stopped(rlher, at_step, once: Path) -> Path:
    """A run that was stopped between two barriers."""
    folder = folder_of("dqn")
    if not (once / folder).exists():
        at_step(230, lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert rlher("train", *words("dqn"), f"logs={once}/logs").code == 130
    shutil.copytree(once / folder, folder)
    return folder


@pytest.fixture
def peace(rlher, once: Path) -> Path:
    """The same run, undisturbed; not to be written to."""
    if not (once / "peace").exists():
        assert rlher("train", *words("dqn"), f"logs={once}/peace").code == 0
    return once / "peace/dqn/BitFlipping-v0_1"


def flip(content: bytes) -> bytes:
    half = len(content) // 2
    return content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "a bit": flip,
    "cut": lambda content: content[: len(content) // 3],
    "emptied": lambda content: b"",
    "gone": lambda content: None,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over(rlher, stopped: Path, peace: Path, damage: str) -> None:
    """Whichever file it is; the one before is taken, and the end is the same."""
    names = sorted(file.relative_to(newest(stopped)) for file in newest(stopped).rglob("*") if file.is_file())
    assert {str(name) for name in names} >= {"checkpoint.json", "state.json", "weights.pt", "buffer/buffer.json"}
    for number, name in enumerate(names):
        copy = Path(f"{number}/{folder_of('dqn')}")
        shutil.copytree(stopped, copy)
        file = newest(copy) / name
        content = DAMAGES[damage](file.read_bytes())
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        again = rlher("train", "--resume", str(copy))
        assert again.code == 0, again.err
        assert str(file.parent) in again.err
        assert "The checkpoint before it is taken" in again.err
        assert "resumed at 180" in again.err
        assert "Traceback" not in again.err
        assert differences(peace, copy) == []


def seal(checkpoint: Path) -> None:
    """Make its checksums fit what is there."""
    manifest = json.loads((checkpoint / "checkpoint.json").read_text())
    files = [file for file in checkpoint.rglob("*") if file.is_file() and file.name != "checkpoint.json"]
    manifest["sha256"] = {str(file.relative_to(checkpoint)): checkpoint_store._digest(file) for file in files}
    (checkpoint / "checkpoint.json").write_text(json.dumps(manifest))


def with_json(name: str, change: Callable[[dict], object]) -> Callable[[Path], None]:
    def attack(checkpoint: Path) -> None:
        values = json.loads((checkpoint / name).read_text())
        change(values)
        (checkpoint / name).write_text(json.dumps(values))

    return attack


def squeezed(name: str) -> Callable[[Path], None]:
    """Zeros that fit in a thousandth of their size."""

    def attack(checkpoint: Path) -> None:
        with zipfile.ZipFile(checkpoint / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("_actions.npy", bytes(30_000_000))

    return attack


ATTACKS: dict[str, Callable[[Path], None]] = {
    "weights that swell": squeezed("weights.pt"),
    "episodes that swell": squeezed("episodes.npz"),
    "statistics that swell": squeezed("normalizer.npz"),
    "statistics of words": lambda where: np.savez(
        where / "normalizer.npz",
        **{
            f"{key}/{field}": np.full(() if field == "count" else 5, "1")
            for key in ("observation", "achieved_goal", "desired_goal")
            for field in ("mean", "var", "count")
        },
    ),
    "a clock before time": with_json("state.json", lambda it: it["counters"].update(num_timesteps=-(10**15))),
    "a success beyond all floats": with_json("state.json", lambda it: it["recent"].update(ep_success_buffer=[10**400])),
    "a mark with a path in it": with_json("buffer/buffer.json", lambda it: it.update(mark="/../../z")),
    "a mark that is no text": with_json("buffer/buffer.json", lambda it: it.update(mark="\0")),
    "a list of settled steps in a list": with_json(
        "buffer/buffer.json", lambda it: it["extra"]["hindsight"].update(settled=[[5]])
    ),
    "more settled than stored": with_json(
        "buffer/buffer.json", lambda it: it["extra"]["hindsight"].update(settled=[10**6])
    ),
    "a reward of words": with_json("buffer/buffer.json", lambda it: it["extra"]["hindsight"].update(perfect="much")),
    "a part elsewhere": with_json("buffer/buffer.json", lambda it: it["parts"][0].update(file="../state.json")),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_checkpoint_that_was_made_by_hand_is_refused(rlher, stopped: Path, attack: str) -> None:
    before = {path.name for path in Path().iterdir()}
    ATTACKS[attack](newest(stopped))
    seal(newest(stopped))
    again = rlher("train", "--resume", str(stopped))
    assert again.code == 2, again.err
    assert "cannot be gone on from" in again.err
    assert {path.name for path in Path().iterdir()} == before


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("buffer/buffer.new.json", lambda path: path.symlink_to("../state.json")),
        ("best_model.zip", os.mkfifo),
    ],
)
def test_a_checkpoint_with_a_link_or_a_pipe_in_it_is_damaged(rlher, stopped: Path, name: str, make: Callable) -> None:
    path = newest(stopped) / name
    path.unlink(missing_ok=True)
    make(path)
    again = rlher("train", "--resume", str(stopped))
    assert again.code == 0, again.err
    assert "The checkpoint before it is taken" in again.err


@pytest.mark.parametrize("name", ["checkpoints", "progress.csv", "models", "checkpoints/000000180/buffer/x.json"])
def test_nothing_is_written_through_a_link_that_leads_out(rlher, stopped: Path, name: str) -> None:
    (outside := Path("outside")).mkdir()
    (outside / "2023").mkdir()
    path = stopped / name
    if path.is_dir():
        path.rename(f"{path}.before")
    path.unlink(missing_ok=True)
    path.symlink_to(outside.resolve(), target_is_directory=True)
    again = rlher("train", "--resume", str(stopped))
    assert again.code == 2
    assert "is a link that leads out of the run folder" in again.err
    assert [path.name for path in outside.iterdir()] == ["2023"]


def test_links_in_folders_of_others_are_theirs(rlher, stopped: Path) -> None:
    """Weights & Biases makes one to its own log in the home folder."""
    (stopped / "wandb").mkdir()
    (stopped / "wandb/debug-core.log").symlink_to("/dev/null")
    assert rlher("train", "--resume", str(stopped)).code == 0


@pytest.mark.parametrize(
    ("verb", "key", "value"),
    [
        *((verb, "modules", ["run.evil"]) for verb in ("evaluate", "enjoy", "export", "train --resume")),
        ("evaluate", "modules", ["evil"]),
        ("evaluate", "id", "run.evil:BitFlipping-v0"),
    ],
)
def test_no_code_is_run_that_comes_with_a_run(rlher, stopped: Path, monkeypatch, verb: str, key: str, value) -> None:
    stopped.rename("run")
    values = yaml.safe_load(Path("run/config.yaml").read_text())
    values["env"][key] = value
    Path("run/config.yaml").write_text(yaml.safe_dump(values))
    Path("run/evil.py").write_text(f"import pathlib; pathlib.Path({str(Path('pwned').resolve())!r}).touch()")
    if value == ["evil"]:
        monkeypatch.chdir("run")
    done = rlher(*verb.split(), str(Path("../run" if value == ["evil"] else "run")))
    assert done.code == 2
    assert "no code is run that comes with a run" in done.err
    assert not list(Path().resolve().rglob("pwned"))


def test_a_config_cannot_ask_for_the_environments_variables(rlher, stopped: Path, monkeypatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2")
    config = stopped / "config.yaml"
    config.write_text(config.read_text().replace("BitFlipping-v0", "${oc.env:MY_SECRET}"))
    for verb in (("train", "--resume"), ("evaluate",)):
        done = rlher(*verb, str(stopped))
        assert done.code == 2
        assert "hunter2" not in done.err + config.read_text()


def test_a_checkpoint_that_cannot_be_read_now_is_not_deleted(rlher, stopped: Path, monkeypatch) -> None:
    def failing(path: Path) -> str:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_store, "_digest", failing)
        again = rlher("train", "--resume", str(stopped))
    assert again.code == 2
    assert "cannot be read (Input/output error)" in again.err
    checkpoint_store.verify(newest(stopped))


def test_beside_what_is_odd_a_run_goes_on(rlher, stopped: Path, peace: Path) -> None:
    """What was left by a kill in mid-write, what somebody put there, notes of an earlier version."""
    (stopped / "checkpoints/.000000270.new").mkdir()
    (newest(stopped) / "buffer/.nfs0001").touch()
    (stopped / "checkpoints/\N{SUPERSCRIPT TWO}").mkdir()
    (stopped / "meta.json").write_text('{"resumed": 5}')
    (stopped / "command.txt").write_bytes(b"\xff\n")
    again = rlher("train", "--resume", str(stopped))
    assert again.code == 0, again.err
    assert differences(peace, stopped) == []
    assert not (stopped / "checkpoints/.000000270.new").exists()


def test_checkpoints_are_counted_not_spelt(tmp_path: Path) -> None:
    for name in ("999990000", "1000000000"):
        (tmp_path / name).mkdir()
    assert checkpoint_store.newest_first(tmp_path)[0].name == "1000000000"


def newest(folder: Path) -> Path:
    return checkpoint_store.newest_first(folder / "checkpoints")[0]


def test_where_all_checkpoints_are_damaged_it_begins_again(rlher, stopped: Path, peace: Path) -> None:
    for weights in stopped.rglob("weights.pt"):
        weights.write_bytes(flip(weights.read_bytes()))
    again = rlher("train", "--resume", str(stopped))
    assert again.code == 0, again.err
    assert "it begins again" in again.err
    assert differences(peace, stopped) == []


def test_nothing_in_a_checkpoint_is_unpickled(rlher, stopped: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return Path.touch, (Path("pwned"),)

    where = newest(stopped)
    th.save({"parameters": Evil()}, where / "weights.pt", pickle_module=pickle)
    manifest = json.loads((where / "checkpoint.json").read_text())
    manifest["sha256"]["weights.pt"] = checkpoint_store._digest(where / "weights.pt")
    (where / "checkpoint.json").write_text(json.dumps(manifest))
    again = rlher("train", "--resume", str(stopped))
    assert again.code == 2
    assert "cannot be gone on from" in again.err
    assert not Path("pwned").exists()


def test_a_finished_run_says_so_and_can_be_longer(rlher, stopped: Path) -> None:
    assert rlher("train", "--resume").code == 0
    again = rlher("train", "--resume", str(stopped))
    assert again.code == 2
    assert "is finished" in again.err
    assert "total_timesteps=+260" in again.err
    before = (stopped / "evaluations.csv").read_text()
    longer = rlher("train", "--resume", str(stopped), "total_timesteps=+1_40")
    assert longer.code == 0, longer.err
    result = json.loads((stopped / "result.json").read_text())
    assert result["timesteps"] == 400
    assert run_folder.find(str(stopped), "logs").config.total_timesteps == 400
    assert (stopped / "evaluations.csv").read_text().startswith(before)
    progress = (stopped / "progress.csv").read_text().splitlines()
    column = progress[0].split(",").index("time/total_timesteps")
    steps = [int(row.split(",")[column]) for row in progress[1:] if row.split(",")[column]]
    assert steps == sorted(steps)
    assert steps[-1] > 260


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("algo.gamma=0.5",), "algo.gamma is 0.98 there, not 0.5"),
        (("seed=3", "her.n_sampled_goal=1"), "seed is 0 there, not 3"),
        (("algo=sac",), "algo=sac"),
        (("her=mix",), "her=mix"),
        (("algo.gama=0.5",), "algo.gama"),
        (("-m", "seed=1,2"), "-m"),
        (("total_timesteps=100",), "at 230 steps already"),
        (("total_timesteps=many",), "many"),
    ],
)
def test_another_experiment_is_refused(rlher, stopped: Path, typed: tuple[str, ...], said: str) -> None:
    again = rlher("train", "--resume", str(stopped), *typed)
    assert again.code == 2
    assert said in again.err
    assert "Traceback" not in again.err


def test_what_may_change_may(rlher, stopped: Path) -> None:
    again = rlher("train", "--resume", str(stopped), "algo=dqn", "env=BitFlipping-v0", "checkpoint.every=40", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["timesteps"] == 260


def test_a_run_that_is_being_trained_is_left_alone(rlher, stopped: Path) -> None:
    child = os.fork()
    if not child:
        with contextlib.suppress(UserError), run_folder.locked(stopped):
            signal.pause()
        os._exit(0)
    try:
        for _ in range(200):
            again = rlher("train", "--resume", str(stopped), "total_timesteps=231")
            if "right now" in again.err:
                break
        assert "being trained right now" in again.err
        assert again.code == 2
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_an_environment_that_does_not_repeat_itself_is_told(rlher, stopped: Path, monkeypatch) -> None:
    reset = BitFlippingEnv.reset

    def unseeded(self: BitFlippingEnv, *, seed=None, options=None):
        return reset(self, seed=int.from_bytes(os.urandom(4), sys.byteorder), options=options)

    monkeypatch.setattr(BitFlippingEnv, "reset", unseeded)
    again = rlher("train", "--resume", str(stopped))
    assert again.code == 0, again.err
    assert "does not repeat itself" in again.err


def test_checkpoints_share_what_did_not_change(rlher) -> None:
    assert rlher("train", *words("dqn")).code == 0
    last, before = checkpoint_store.newest_first(folder_of("dqn") / "checkpoints")
    shared = [file for file in (before / "buffer").glob("part-*.npz") if (last / "buffer" / file.name).exists()]
    assert shared
    assert all(file.stat().st_nlink >= 2 for file in shared)
    checkpoint_store.verify(last)


def test_no_checkpoints_where_none_are_wanted(rlher) -> None:
    assert rlher("train", *words("dqn"), "checkpoint.every=null").code == 0
    assert not (folder_of("dqn") / "checkpoints").exists()
    again = rlher("train", "--resume", str(folder_of("dqn")), "total_timesteps=+10")
    assert again.code == 2
    assert "no checkpoint" in again.err


def test_infos_that_may_be_anything_are_told(rlher, at_step) -> None:
    at_step(120, lambda: os.kill(os.getpid(), signal.SIGTERM))
    done = rlher("train", *words("dqn"), "her.copy_info_dict=true")
    assert done.code == 130, done.err
    assert "no checkpoints: her.copy_info_dict" in done.err
    again = rlher("train", "--resume", "checkpoint.every=90")
    assert again.code == 0, again.err
    assert "it begins again" in again.err
    assert "no checkpoints: her.copy_info_dict" in again.err


def test_a_full_disk_costs_a_checkpoint_and_no_more(rlher, monkeypatch, tmp_path: Path) -> None:
    save = np.savez

    def full(file: object, **arrays: object) -> None:
        if "part-" in str(file):
            raise OSError(28, "No space left on device")
        save(file, **arrays)

    monkeypatch.setattr(np, "savez", full)
    done = rlher("train", *words("dqn"))
    assert done.code == 0, done.err
    assert "no checkpoint at 90 steps" in done.err
    assert "No space left on device" in done.err
    assert not list((folder_of("dqn") / "checkpoints").glob("*"))
