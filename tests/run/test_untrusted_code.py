"""Run folders and recipes from elsewhere: the code that they name is run only with --trust-code."""

import contextlib
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlher.config import trust
from rlher.config.trust import UntrustedCode
from rlher.run import lookup
from rlher.run.run_folder import RunFolder, read_config
from tests.conftest import TINY
from tests.support.fuzzing.workspace import TRAIN

VERBS = ("evaluate", "enjoy", "export", "train --resume")
EVIL = "import pathlib; pathlib.Path({!r}).touch()\n"
ENV = """
import gymnasium
from rlher.envs.bit_flipping import BitFlippingEnv
gymnasium.register("Mine-v0", BitFlippingEnv, kwargs={"n_bits": 4}, max_episode_steps=4)
"""


def change(run: Path, **values: Any) -> None:
    file = run / "config.yaml"
    config = yaml.safe_load(file.read_text())
    for section in ("env", "algo"):
        config[section] |= values.pop(section, {})
    file.write_text(yaml.safe_dump(config | values))


def write_evil(path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(EVIL.format(str(Path("pwned").resolve())))


MONITOR = "stable_baselines3.common.monitor:Monitor"
SAVING = "stable_baselines3.common.callbacks:CheckpointCallback"
WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "parent package": ("a1/__init__.py", "env.modules", {"env": {"modules": ["a1.nothing"]}}),
    "module of the id": ("a1b/__init__.py", "env.id", {"env": {"id": "a1b.nothing:X"}}),
    "module in the run": ("run/evil.py", "env.modules", {"env": {"modules": ["run.evil"]}}),
    "extension": (f"evil{EXTENSION_SUFFIXES[0]}", "env.modules", {"env": {"modules": ["evil"]}}),
    "standard library": ("evil.py", "env.modules", {"env": {"modules": ["antigravity"]}}),
    "installed package": ("evil.py", "env.modules", {"env": {"modules": ["stable_baselines3.__main__"]}}),
    "class": ("a3/evil.py", "env.kwargs", {"env": {"kwargs": {"config": {"other_vehicles_type": "a3.evil.X"}}}}),
    "bytes": ("evil.py", "env.kwargs", {"env": {"kwargs": {"file": b"mine"}}}),
    "expression": ("evil.py", "env.kwargs", {"env": {"kwargs": {"reward": ["x", "exec(1)"]}}}),
    "text for the algorithm": ("evil.py", "algo.kwargs", {"algo": {"kwargs": {"policy_kwargs": {"a": "evil"}}}}),
    "file of a wrapper": ("evil.py", "env.wrappers", {"env": {"wrappers": [{MONITOR: {"filename": "mine"}}]}}),
    "file of a callback": ("evil.py", "callbacks", {"callbacks": [{SAVING: {"save_freq": 1, "save_path": "mine"}}]}),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_may_name_code_is_refused(untrusted: Path, way: str) -> None:
    path, key, values = WAYS[way]
    write_evil(path)
    change(untrusted, **values)
    with pytest.raises(UntrustedCode) as caught:
        lookup.open_run("run", "logs")
    assert caught.value.key == key
    assert not Path("pwned").exists()
    assert lookup.open_run("run", "logs", trust_code=True)


def test_numbers_as_arguments_need_no_trust(untrusted: Path) -> None:
    change(untrusted, env={"kwargs": {"config": {"walls": True, "sizes": [3, 0.5, None]}}})
    assert lookup.open_run("run", "logs")


@pytest.mark.parametrize("verb", VERBS)
def test_code_that_is_not_trusted_is_not_run(rlher, untrusted: Path, verb: str) -> None:
    write_evil("evil.py")
    change(untrusted, env={"modules": ["evil"]}, total_timesteps=120)
    done = rlher(*verb.split(), "run")
    assert done.code == 2
    assert "--trust-code" in done.err
    assert not Path("pwned").exists()
    assert "evil" not in sys.modules


@pytest.mark.slow
def test_families_are_not_searched_in_the_current_folder(untrusted: Path) -> None:
    write_evil("panda_gym.py")
    change(untrusted, env={"id": "PandaReach-v9"})
    done = subprocess.run([sys.executable, "-m", "rlher", "evaluate", "run"], capture_output=True)
    assert done.returncode == 2
    assert not Path("pwned").exists()


@pytest.mark.slow
def test_own_runs_use_modules_of_the_current_folder(rlher, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ENV)
    assert rlher("train", "env=Mine-v0", "env.modules=[mine]", "algo=dqn", *TINY, "total_timesteps=60").code == 0
    words = {verb: ("more_timesteps=10",) if verb == "train --resume" else () for verb in VERBS if verb != "enjoy"}
    for verb, more in words.items():
        assert rlher(*verb.split(), "logs/dqn/Mine-v0_1", *more).code == 0
    copy = Path(shutil.copytree("logs", "copied")) / "dqn/Mine-v0_1"
    for verb, more in words.items():
        assert rlher(*verb.split(), str(copy), *more).code == 2
        assert rlher(*verb.split(), str(copy), "--trust-code", *more).code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "code"),
    [
        (
            "multiprocessing",
            "rlher.train('dqn', 'BitFlipping-v0', env={'kwargs': {'n_bits': 4}}, total_timesteps=9, vec_env='subproc')",
        ),
        ("ctypes", "rlher.make_env('FetchReach-v4')"),
    ],
)
def test_functions_take_no_module_of_the_current_folder(tmp_path: Path, module: str, code: str) -> None:
    """The processes that libraries start must not either; the script itself lies elsewhere."""
    script, here = tmp_path / "user/script.py", tmp_path / "here"
    for folder in (script.parent, here):
        folder.mkdir()
    script.write_text(f"import rlher\nif __name__ == '__main__':\n    {code}\n")
    (here / f"{module}.py").write_text(EVIL.format(str(tmp_path / "pwned")) + "raise ImportError\n")
    subprocess.run([sys.executable, str(script)], cwd=here, check=True)
    assert not (tmp_path / "pwned").exists()


def test_a_changed_config_is_not_ones_own(trained: Path, tmp_path: Path) -> None:
    assert not trust.is_signed(trained / "config.yaml"), "it was trained in another current folder"
    with contextlib.chdir(trained.parents[2]):
        assert trust.is_signed(trained / "config.yaml")
    text = (trained / "config.yaml").read_text()
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(text)
    assert not trust.is_signed(run / "config.yaml"), "it is another folder"
    RunFolder(run, read_config(run)).write_config()
    text = (run / "config.yaml").read_text()
    assert trust.is_signed(run / "config.yaml")
    for changed in (text.replace("modules: []", "modules: [x]"), f"{text}seed: 3\n", f"x: 1\n{text}", text[:-9] + "é"):
        (run / "config.yaml").write_text(changed)
        assert not trust.is_signed(run / "config.yaml")


@pytest.mark.parametrize("key", [b"", b"short", None])
def test_no_run_is_ones_own_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes | None) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "state/rlher").mkdir(parents=True)
    if key is not None:
        (tmp_path / "state/rlher/key").write_bytes(key)
    (tmp_path / "config.yaml").write_text(f"a: 1\n{trust.SIGNATURE_PREFIX}{'0' * 64}\n")
    assert not trust.is_signed(tmp_path / "config.yaml")
    text = trust.sign("a: 1\n", tmp_path)
    assert (trust.SIGNATURE_PREFIX in text) == (key is None)
    if key is None:
        assert (tmp_path / "state/rlher/key").stat().st_mode & 0o077 == 0


def test_a_home_that_cannot_be_written_leaves_runs_unsigned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc")
    assert trust.sign("a: 1\n", tmp_path) == "a: 1\n"


def test_no_key_of_the_current_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    signed = trust.sign("a: 1\n", tmp_path)
    assert not Path("relative").exists()
    assert (tmp_path / "home/.local/state/rlher/key").exists()
    monkeypatch.setattr(Path, "exists", lambda path: False)  # as for a process that starts at the same time
    assert trust.sign("a: 1\n", tmp_path) == signed


def test_the_weights_of_a_run_from_elsewhere_start_another(rlher, untrusted: Path) -> None:
    """Its config is read, but its environment is not built."""
    change(untrusted, env={"modules": ["evil"]})
    write_evil("evil.py")
    assert rlher(*TRAIN, "init_from=run").code == 0
    assert not Path("pwned").exists()


@pytest.mark.parametrize("words", [("--logs", "ly"), ("--logs=ly",), ("logs=ly",)])
def test_runs_are_found_in_the_folder_of_a_flag(rlher, trained: Path, words: tuple[str, ...]) -> None:
    shutil.copytree(trained, "ly/dqn/BitFlipping-v0_1")
    done = rlher("train", "--resume", *words)
    assert done.code == 2
    assert "ly/dqn/BitFlipping-v0_1 is finished" in done.err


def test_a_recipe_file_that_names_code_needs_trust(rlher, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ENV + EVIL.format(str(tmp_path / "ran")))
    recipe = "env: {id: Mine-v0, modules: [mine], max_episode_steps: 4}\n"
    (tmp_path / "mine.yaml").write_text(recipe)
    train = ("train", "algo=dqn", "env=Mine-v0", *TINY, "total_timesteps=60", "recipe=mine.yaml")
    refused = rlher(*train)
    assert refused.code == 2
    assert "--trust-code" in refused.err
    assert not (tmp_path / "ran").exists()
    assert not Path("logs").exists()
    (tmp_path / "mine.yaml").write_text(trust.sign(recipe, tmp_path))
    assert rlher(*train).code == 0, "it was written here"
    (tmp_path / "mine.yaml").write_text("env: {id: '${oc.env:HOME}'}\n")
    assert rlher(*train).code == 2
    for number in ("5", "0", "true"):  # it would be the name of a module
        (tmp_path / "mine.yaml").write_text(f"env: {{modules: [{number}]}}\n")
        assert "--trust-code" in rlher(*train).err
    (tmp_path / "mine.yaml").write_text("trust_code: true\n" + recipe)
    assert rlher(*train).code == 2, "a file must not trust itself"
    (tmp_path / "mine.yaml").write_text(recipe)
    assert rlher(*train, "--trust-code").code == 0


def test_a_file_of_an_environment_that_names_code_needs_trust(rlher) -> None:
    Path("mine.py").write_text(ENV + EVIL.format(str(Path("ran").resolve())))
    check = ("check", "env=mine.yaml")
    for named in ("modules: [mine]", "id: 'mine:Mine-v0'", "kwargs: {reward: mine.X}", "wrappers: ['mine:X']"):
        Path("mine.yaml").write_text(f"{{id: Mine-v0, {named}}}" if "id" not in named else named)
        done = rlher(*check)
        assert (done.code, "--trust-code" in done.err, Path("ran").exists()) == (2, True, False)
    Path("mine.yaml").write_text("{id: Mine-v0, modules: [mine]}")
    assert rlher(*check, "--trust-code").code == 0
    Path("mine.yaml").write_text("{id: Mine-v0, trust_code: true}")
    assert rlher(*check).code == 2, "a file must not trust itself"


RECIPES = (
    "env.modules: [evil]",
    "env.id: 'evil:Foo-v0'",
    "env.wrappers: ['evil.X']",
    "algo.activation: 'evil:X'",
    "her: {goal_selection_strategy: mix, goal_mix: {evil:X: 1}}",
    "algo: {policy_kwargs.optimizer_class: 'evil:X'}",
    "algo: {policy_kwargs: {a: 1}, policy_kwargs.optimizer_class: 'evil:X'}",
)


@pytest.mark.parametrize("recipe", RECIPES)
def test_no_way_to_write_a_recipe_hides_code(rlher, recipe: str) -> None:
    write_evil("evil.py")
    Path("mine.yaml").write_text(recipe)
    done = rlher("train", "algo=dqn", "env=BitFlipping-v0", *TINY, "recipe=mine.yaml")
    assert (done.code, "--trust-code" in done.err, Path("pwned").exists()) == (2, True, False)


@pytest.mark.parametrize(
    "entry",
    [
        "{policy: M, kwargs.policy_kwargs.optimizer_class: 'evil:X', kwargs: {}}",
        "{policy: M, kwargs: {policy_kwargs: {optimizer_class: 'evil:X'}}, kwargs.policy_kwargs: {}}",
        "{gamma: 0.9, gamma.x: 2}",
        "{'replay_buffer_kwargs.priority=evil:X,x:y\\\\': 1}",
        "{'env_kwargs.foo=text\\\\': 1}",
    ],
)
def test_no_way_to_write_a_file_of_rl_zoo_hides_code(rlher, entry: str) -> None:
    write_evil("evil.py")
    Path("zoo.yml").write_text(f"BitFlipping-v0: {entry}")
    for sweep in ((), ("-m", "seed=0,1")):
        done = rlher("train", "--algo", "dqn", "--env", "BitFlipping-v0", *TINY, *sweep, "--conf-file", "zoo.yml")
        assert (done.code, "Traceback" in done.err, Path("pwned").exists()) == (2, False, False)


@pytest.mark.parametrize("name", ["{folder}/evil", "../../../../../../../../{folder}/evil"])
def test_the_name_of_a_recipe_is_no_path(rlher, tmp_path: Path, name: str) -> None:
    write_evil("evil.py")
    Path("evil.yaml").write_text("env: {modules: [evil]}\ntrust_code: true\n")
    done = rlher("train", "algo=dqn", "env=BitFlipping-v0", *TINY, "--recipe", name.format(folder=tmp_path))
    assert (done.code, Path("pwned").exists()) == (2, False)
