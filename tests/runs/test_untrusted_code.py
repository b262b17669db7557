"""Run folders from elsewhere: the code that their config names is run only if it is installed or trusted."""

import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlher.cli.main import main
from rlher.envs import rendering
from rlher.runs import config_file, lookup, signature
from rlher.runs.untrusted import UntrustedCode, is_installed
from tests.conftest import TINY
from tests.support.fuzzing.checks import working_directory

VERBS = ("evaluate", "enjoy", "export", "train --resume")
TRAIN = ("train", "algo=dqn", "env=BitFlipping-v0", "env.n_bits=4", "recipe=null", *TINY, "total_timesteps=60")
EVIL = "import pathlib; pathlib.Path({!r}).touch()\n"
ENV = """
import gymnasium
from rlher.envs.bit_flipping import BitFlippingEnv
gymnasium.register("Mine-v0", BitFlippingEnv, kwargs={"n_bits": 4}, max_episode_steps=4)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with working_directory(folder):
        assert main([*TRAIN]) == 0
    return folder / "logs/dqn/BitFlipping-v0_1"


@pytest.fixture
def strange(rlher, trained: Path, tmp_path: Path) -> Path:
    """A run that was trained elsewhere, with the current folder in ``sys.path``, as ``python -m`` has it."""
    shutil.copytree(trained, "run")
    sys.path.insert(0, str(tmp_path))
    return Path("run")


def change(run: Path, **values: Any) -> None:
    file = run / "config.yaml"
    config = yaml.safe_load(file.read_text())
    config["env"] |= values.pop("env", {})
    file.write_text(yaml.safe_dump(config | values))


def write_evil(path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(EVIL.format(str(Path("pwned").resolve())))


WAYS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "parent package": ("a1/__init__.py", "env.modules", {"modules": ["a1.nothing"]}),
    "module of the id": ("a1b/__init__.py", "env.id", {"id": "a1b.nothing:X"}),
    "module in the run": ("run/evil.py", "env.modules", {"modules": ["run.evil"]}),
    "module beside the run": ("evil.py", "env.modules", {"modules": ["evil"]}),
    "extension": (f"evil{EXTENSION_SUFFIXES[0]}", "env.modules", {"modules": ["evil"]}),
    "standard library": ("evil.py", "env.modules", {"modules": ["antigravity"]}),
    "other package": ("evil.py", "env.modules", {"modules": ["yaml"]}),
    "program": ("evil.py", "env.modules", {"modules": ["stable_baselines3.__main__"]}),
    "no name": ("evil.py", "env.modules", {"modules": ["os; evil"]}),
    "class": (
        "a3/evil.py",
        "env.kwargs",
        {"id": "parking-v0", "kwargs": {"config": {"other_vehicles_type": "a3.evil.X"}}},
    ),
    "bytes": ("evil.py", "env.kwargs", {"kwargs": {"file": b"mine"}}),
    "file of a wrapper": (
        "evil.py",
        "env.wrappers",
        {"wrappers": [{"stable_baselines3.common.monitor:Monitor": {"filename": "mine"}}]},
    ),
    "files of a wrapper": (
        "evil.py",
        "env.wrappers",
        {"wrappers": [{"rlher.envs.frame_stack:FrameStack": {"n_stack": [2, {"file": 1}]}}]},
    ),
    "expression": ("evil.py", "env.kwargs", {"kwargs": {"reward": ["x", "exec(1)"]}}),
}


@pytest.mark.parametrize("way", WAYS)
def test_code_that_is_not_installed_is_refused(strange: Path, way: str) -> None:
    path, key, env = WAYS[way]
    write_evil(path)
    change(strange, env=env)
    with pytest.raises(UntrustedCode) as caught:
        lookup.find("run", "logs")
    assert caught.value.key == key
    assert not Path("pwned").exists()


def test_callbacks_have_no_texts_as_arguments(strange: Path) -> None:
    name = "stable_baselines3.common.callbacks:CheckpointCallback"
    change(strange, callbacks=[{name: {"save_freq": 10, "save_path": "results"}}])
    with pytest.raises(UntrustedCode) as caught:
        lookup.find("run", "logs")
    assert caught.value.key == "callbacks"
    assert lookup.find("run", "logs", trust_code=True)


def test_wrappers_and_callbacks_have_numbers_as_arguments(strange: Path) -> None:
    stack = {"rlher.envs.frame_stack:FrameStack": {"n_stack": 2}}
    stop = {"stable_baselines3.common.callbacks:StopTrainingOnMaxEpisodes": {"max_episodes": [3, 0.5, None, True]}}
    change(strange, env={"wrappers": [stack], "kwargs": {"mode": "plain word"}}, callbacks=[stop])
    assert lookup.find("run", "logs")


@pytest.mark.parametrize("verb", VERBS)
def test_code_that_is_not_installed_is_not_run(rlher, strange: Path, verb: str) -> None:
    write_evil("evil.py")
    change(strange, env={"modules": ["evil"]}, total_timesteps=120)
    done = rlher(*verb.split(), "run")
    assert done.code == 2
    assert "--trust-code" in done.err
    assert not Path("pwned").exists()
    assert "evil" not in sys.modules


@pytest.mark.parametrize("name", ["PandaReach-v9", "Unknown-v9"])
def test_families_are_not_searched_in_the_current_folder(rlher, strange: Path, monkeypatch, name: str) -> None:
    monkeypatch.delitem(sys.modules, "panda_gym", raising=False)
    write_evil("panda_gym.py")
    change(strange, env={"id": name})
    assert rlher("evaluate", "run").code == 2
    assert not Path("pwned").exists()


def test_an_installed_package_precedes_a_module_of_that_name(strange: Path) -> None:
    write_evil("highway_env.py")
    change(strange, env={"modules": ["highway_env"]})
    assert lookup.find("run", "logs")


@pytest.mark.slow
def test_own_runs_use_modules_of_the_current_folder(rlher, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(ENV)
    assert rlher("train", "env=Mine-v0", "env.modules=[mine]", "algo=dqn", *TINY, "total_timesteps=60").code == 0
    words = {verb: ("total_timesteps=+10",) if verb == "train --resume" else () for verb in VERBS if verb != "enjoy"}
    for verb, more in words.items():
        assert rlher(*verb.split(), "logs/dqn/Mine-v0_1", *more).code == 0
    copy = Path(shutil.copytree("logs", "copied")) / "dqn/Mine-v0_1"
    for verb, more in words.items():
        assert rlher(*verb.split(), str(copy), *more).code == 2
        assert rlher(*verb.split(), str(copy), "--trust-code", *more).code == 0


def test_a_changed_config_is_not_ones_own(trained: Path, tmp_path: Path) -> None:
    assert signature.is_signed(trained, "config.yaml")
    text = (trained / "config.yaml").read_text()
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(text)
    assert not signature.is_signed(run, "config.yaml"), "it is another folder"
    config_file.write_config(run, config_file.read_config(run))
    text = (run / "config.yaml").read_text()
    assert signature.is_signed(run, "config.yaml")
    for changed in (text.replace("modules: []", "modules: [evil]"), f"{text}seed: 3\n", f"x: 1\n{text}", text[:-10]):
        (run / "config.yaml").write_text(changed)
        assert not signature.is_signed(run, "config.yaml")


@pytest.mark.parametrize("key", [b"", b"short", None])
def test_no_run_is_ones_own_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes | None) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "state/rlher").mkdir(parents=True)
    if key is not None:
        (tmp_path / "state/rlher/key").write_bytes(key)
    (tmp_path / "config.yaml").write_text(f"a: 1\n{signature.PREFIX}{'0' * 64}\n")
    assert not signature.is_signed(tmp_path, "config.yaml")
    text = signature.sign("a: 1\n", tmp_path)
    assert (signature.PREFIX in text) == (key is None)
    if key is None:
        assert (tmp_path / "state/rlher/key").stat().st_mode & 0o077 == 0


def test_a_home_that_cannot_be_written_leaves_runs_unsigned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc")
    assert signature.sign("a: 1\n", tmp_path) == "a: 1\n"


def install(folder: Path, name: str, requires: str) -> None:
    """Write a package as pip installs it, and add its folder to ``sys.path``."""
    (folder / name / "sub").mkdir(parents=True)
    files = [f"{name}/__init__.py", f"{name}/sub/__init__.py", f"{name}_namespace/part.py"]
    (folder / f"{name}_namespace").mkdir()
    for file in files:
        (folder / file).touch()
    (folder / name / "unlisted.py").touch()
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\nRequires-Dist: {requires}\n")
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    sys.path.append(str(folder))


@pytest.mark.parametrize(
    ("requires", "installed"),
    [("gymnasium>=1", True), ("Gymnasium", True), ("numpy", False), ("gymnasium-foo ; extra == 'x'", False)],
)
def test_modules_of_installed_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requires: str, installed: bool
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    name = f"pkg{abs(hash(requires)) % 10**6}"
    install(tmp_path, name, requires)
    assert [is_installed(f"{name}{rest}") for rest in ("", ".sub", "_namespace.part")] == [installed] * 3
    for module in (f"{name}.unlisted", f"{name}_namespace", f"{name}.", f".{name}", "", "\0", f"{name}.missing"):
        assert not is_installed(module), module
    assert name not in sys.modules


def test_a_module_that_was_imported_from_elsewhere_is_not_installed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "pretender").mkdir()
    (tmp_path / "pretender/__init__.py").touch()
    import pretender  # type: ignore[import-not-found]  # noqa: F401

    (tmp_path / "site").mkdir()
    install(tmp_path / "site", "pretender", "gymnasium")
    assert not is_installed("pretender")
    assert not is_installed("pretender.sub")


def test_the_current_folder_is_not_searched(tmp_path: Path) -> None:
    """Hydra and Gymnasium import plugins that they find in ``sys.path``."""
    for name in ("hydra_plugins/evil.py", "yaml.py", "gymnasium.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(EVIL.format(str(tmp_path / "pwned")))
    done = subprocess.run([sys.executable, "-m", "rlher", "list", "envs"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "pwned").exists()


def test_mujoco_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """The package glfw and the probe of renderers start Python, which would look there first."""
    for name in ("ctypes.py", "mujoco.py", "glfw.py", "textwrap.py"):
        (tmp_path / name).write_text(EVIL.format(str(tmp_path / "pwned")))
    rlher = Path(sys.executable).with_name("rlher")
    words = ("check", "env=FetchReach-v4")
    done = subprocess.run([rlher, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "pwned").exists()


def test_the_probe_of_renderers_imports_nothing_from_the_current_folder(rlher, tmp_path: Path) -> None:
    write_evil("mujoco.py")
    rendering._failure_of("egl")
    assert not Path("pwned").exists()


def test_the_weights_of_a_run_from_elsewhere_start_another(rlher, strange: Path) -> None:
    """Its config is read, but its environment is not built."""
    change(strange, env={"modules": ["evil"]})
    write_evil("evil.py")
    assert rlher(*TRAIN, "init_from=run", "dry_run=true").code == 0
    assert not Path("pwned").exists()


@pytest.mark.parametrize("words", [("--logs", "ly"), ("--logs=ly",), ("logs=ly",)])
def test_runs_are_found_in_the_folder_of_a_flag(rlher, trained: Path, words: tuple[str, ...]) -> None:
    shutil.copytree(trained, "ly/dqn/BitFlipping-v0_1")
    done = rlher("train", "--resume", *words)
    assert done.code == 2
    assert "ly/dqn/BitFlipping-v0_1 is finished" in done.err
