"""The functions of ``import rlher``: runs, mistakes, Hydra's globals, and a notebook's kernel."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib.figure
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from jupyter_client.manager import start_new_kernel
from stable_baselines3 import DQN

import rlher
from rlher.cli.main import main
from rlher.config.trust import UntrustedCode
from rlher.core.errors import UserError
from tests.conftest import Make
from tests.support.documents import ROOT

TINY: dict[str, Any] = {
    "recipe": None,
    "total_timesteps": 60.0,
    "threads": 1,
    "algo": {"batch_size": 16, "net_arch": [16], "learning_starts": 40},
    "eval": {"episodes": 2, "final_episodes": 4, "freq": 30},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, which ``run`` copies."""
    own: dict[str, Any] = {"tensorboard": False, "logs": str(tmp_path_factory.mktemp("trained"))}
    return rlher.train("dqn", "BitFlipping-v0", her="final", env={"kwargs": {"n_bits": 4}}, **own, **TINY).folder


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rlher.Run:
    monkeypatch.chdir(tmp_path)
    return rlher.load(shutil.copytree(trained, "logs/dqn/BitFlipping-v0_1"))


def test_importing_rlher_imports_nothing_else() -> None:
    code = "import sys, rlher; print([m for m in ('numpy', 'torch', 'hydra', 'gymnasium') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
    assert {*rlher.__all__} <= {*dir(rlher)}
    with pytest.raises(AttributeError):
        rlher.nothing  # noqa: B018


def test_a_run_has_config_result_curves_and_model(run: rlher.Run) -> None:
    assert run.folder == Path("logs/dqn/BitFlipping-v0_1").absolute()
    assert run.result["status"] == "finished"
    assert run.config.her.goal_selection_strategy == "final"
    assert run.config.algo.batch_size == 16
    assert isinstance(run.model, DQN)
    curves = run.curves()
    assert curves["timesteps"].tolist() == [30, 60]
    columns = ["algo", "env", "her", "seed"]
    assert curves[columns].drop_duplicates().to_numpy().tolist() == [["dqn", "BitFlipping-v0", "final", 0]]
    command = Path(run.folder, "command.txt").read_text()
    assert command.startswith("rlher train algo=dqn env=BitFlipping-v0 her=final ")
    assert "env.kwargs={n_bits: 4}" in command


def test_evaluate_is_what_the_command_prints(run: rlher.Run, capsys: pytest.CaptureFixture) -> None:
    capsys.readouterr()
    assert main(["evaluate", str(run.folder), "--episodes", "5", "--json"]) == 0
    assert run.evaluate(5) == json.loads(capsys.readouterr().out)


def test_predict_takes_one_observation_or_a_batch(run: rlher.Run) -> None:
    env = run.env()
    observations = [env.reset(seed=seed)[0] for seed in range(3)]
    single = [run.predict(each) for each in observations]
    batch = run.predict({key: np.stack([each[key] for each in observations]) for key in observations[0]})
    assert env.action_space.contains(single[0])
    np.testing.assert_array_equal(np.array(single), batch)
    other = rlher.make_env("BitFlipping-v0", kwargs={"n_bits": 5}).reset()[0]
    for wrong in (observations[0]["observation"], {"observation": observations[0]["observation"]}, other):
        with pytest.raises(UserError):
            run.predict(wrong)


def test_a_finished_run_is_extended(run: rlher.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    other, before = rlher.load(run.folder), run.model
    assert run.resume(more_timesteps=30) is run
    assert (run.result["timesteps"], run.config.total_timesteps) == (90, 90)
    assert run.model is not before, "the model of before"
    assert other.resume(more_timesteps=30).result["timesteps"] == 120, "resumed by another object"
    for keys in ({"seed": 3}, {"sed": 3}, {}):
        with pytest.raises(UserError) as raised:
            run.resume(**keys)
        assert "--resume" not in str(raised.value), "a command of the shell"

    def fail(*_: object) -> None:
        shutil.move(run.folder, "moved")
        raise rlher.RunError("the disk is full")

    monkeypatch.setattr("rlher.api.resume_run", fail)
    with pytest.raises(rlher.RunError):
        run.resume(more_timesteps=30)


@pytest.mark.parametrize("seed", [0, [0]])
def test_a_failed_run_raises_and_keeps_its_folder(seed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own_failing.py").write_text("def broken(request):\n    raise ValueError('no')\n")
    with pytest.raises(rlher.RunError) as raised:
        rlher.train("dqn", "BitFlipping-v0", her="own_failing:broken", seed=seed, progress=False, **TINY)
    assert raised.value.folder is not None
    assert rlher.load(raised.value.folder).result["status"] == "failed"


def test_seeds_are_trained_side_by_side_and_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keys: dict[str, Any] = {"her": "final", "env": {"kwargs": {"n_bits": 4}}, "workers": 2, **TINY}
    runs = rlher.train("dqn", "BitFlipping-v0", seed=(1, 0), **keys)
    assert [(run.config.seed, run.result["status"]) for run in runs] == [(1, "finished"), (0, "finished")]
    more = rlher.train("dqn", "BitFlipping-v0", seed=np.arange(3), **keys)
    assert [run.config.seed for run in more] == [0, 1, 2]
    assert [run.folder for run in more[:2]] == [run.folder for run in reversed(runs)]
    config = more[0].folder / "config.yaml"  # as if somebody else had trained it
    config.write_text(config.read_text().replace("callbacks: []", "callbacks: [evil:Callback]"))
    for launcher in ("local", "ray"):
        with pytest.raises(rlher.UserError, match="callbacks"):
            rlher.train("dqn", "BitFlipping-v0", seed=range(3), launcher=launcher, **keys)


def test_check_returns_what_the_command_prints(capsys: pytest.CaptureFixture) -> None:
    found = rlher.check("BitFlipping-v0", seed=3, kwargs={"n_bits": 4})
    assert main(["check", "env=BitFlipping-v0", "env.kwargs.n_bits=4", "--seed=3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found))
    assert found["ok"]


def test_report_writes_a_page(make_run: Make, tmp_path: Path) -> None:
    page = rlher.report({"HER": make_run("one")}, output=tmp_path / "pages/a.html", title="A title")
    assert page == tmp_path / "pages/a.html"
    assert "A title" in page.read_text()


@pytest.mark.slow
def test_an_environment_that_an_import_registered_is_found_later(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "import gymnasium\nfrom hostile_envs import LineEnv\n\nclass Line(LineEnv):\n    pass\n\n"
    Path("own_line.py").write_text(f"{code}gymnasium.register('OwnLine-v0', Line, max_episode_steps=9)\n")
    importlib.import_module("own_line")
    run = rlher.train("sac", "OwnLine-v0", progress=False, **TINY)
    assert run.config.env.modules == ["own_line"]
    again = "import sys, rlher; print(rlher.load(sys.argv[1]).evaluate(2)['episodes'])"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", again, str(run.folder)]
    assert subprocess.run(words, capture_output=True, text=True, env=environment).stdout == "2\n"


KEPT_RUNS = {path.parent for path in Path(ROOT, "logs").rglob("config.yaml")}
NAMES_OWN_CODE = Path(ROOT, "logs/benchmark/slide-mix-td3/seed0")
"""A kept run with a strategy of its own, which only trust_code=True loads."""


@pytest.mark.parametrize("folder", sorted(KEPT_RUNS - {NAMES_OWN_CODE})[::7])
def test_kept_runs_can_be_loaded(folder: Path) -> None:
    run = rlher.load(folder)
    assert rlher.load(run).config.env.id
    assert len(run.curves())


@pytest.mark.parametrize("her", [False, "off"])
def test_no_hindsight_by_any_word(run: rlher.Run, her: Any) -> None:
    keys = {"env": {"kwargs": {"n_bits": 4}}, "init_from": run, "progress": False, **TINY}
    plain = rlher.train("dqn", "BitFlipping-v0", her=her, seed=np.int64(3), **keys)
    assert plain.config.her.n_sampled_goal == 0
    assert plain.config.init_from == str(run.folder)


@pytest.mark.slow
def test_an_environment_is_rendered_without_a_window() -> None:
    """In a process of its own, which MuJoCo would end."""
    code = "import rlher; env = rlher.make_env('FetchReach-v4', 'rgb_array'); env.reset(); print(env.render().shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("(") or "renderer" in done.stderr, done.stderr


def test_runs_are_loaded_listed_compared_and_plotted(run: rlher.Run) -> None:
    rlher.train("dqn", "BitFlipping-v0", her="off", env={"kwargs": {"n_bits": 4}}, tensorboard=False, **TINY)
    assert rlher.load("logs/dqn/BitFlipping-v0_1").config == run.config
    runs = rlher.runs()
    assert [each.folder for each in rlher.runs([each.folder for each in runs])] == [each.folder for each in runs]
    assert [each.folder.name for each in runs] == ["BitFlipping-v0_1", "BitFlipping-v0_2"]
    for given in (runs, "logs", [run, Path("logs/dqn/BitFlipping-v0_2")]):
        table = rlher.compare(given)
        assert isinstance(table, pd.DataFrame)
        assert table["group"].tolist() == ["final", "off"]
    figure = rlher.plot(runs, by="her")
    assert figure.numbers.groupby("group")["x"].max().to_dict() == {"final": 60, "off": 60}
    assert isinstance(figure, matplotlib.figure.Figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["final (1 seed)", "off (1 seed)"]
    assert plt.gcf() is figure
    plt.close("all")
    named = rlher.plot({"HER": runs}, title="$2", style="paper", figsize=[3, 2])
    assert named.axes[0].get_title() == "$2"
    assert [text.get_text() for text in named.legends[0].get_texts()] == ["HER"]


def test_the_tables_of_compare_as_numbers_and_text(make_run: Make) -> None:
    runs = {
        name: [make_run(f"{name}/{seed}", seed, 0.05 * (number + 1)) for seed in range(3)]
        for number, name in enumerate(("one", "two"))
    }
    (pair,) = rlher.compare(runs, table="improvement").to_dict("records")
    assert (pair["A"], pair["B"], pair["probability"]) == ("one", "two", 0.0)
    profiles = rlher.compare(runs, table="profiles").set_index("group")
    assert profiles[0.75].to_dict() == {"one": 0.0, "two": 1.0}
    assert "\\begin{tabular}" in rlher.compare(runs, format="latex")
    for selected, lacks in ((runs, "environments"), (runs["one"][:2], "improvement"), (runs["one"][:2], "profiles")):
        assert rlher.compare(selected, table=lacks).empty
    assert rlher.compare(runs, table="improvement", format="markdown").count("| Some-v0 |") == 1
    for mistake in ({"table": "improvements"}, {"format": "html"}):
        with pytest.raises(UserError):
            rlher.compare(runs, **mistake)


def test_curves_are_drawn_on_axes_of_ones_own(make_run: Make) -> None:
    folders = [make_run("a"), make_run("b", env={"id": "Other-v0"})]
    figure = matplotlib.figure.Figure()
    for ax, folder in zip(figure.subplots(1, 2), folders, strict=True):
        assert rlher.plot({"HER": folder}, ax=ax) is ax
    assert [ax.get_title() for ax in figure.axes] == ["Some-v0", "Other-v0"]
    first = rlher.plot({"again": folders[0]}, ax=figure.axes[0])
    again = rlher.plot({"third": folders[0]}, ax=first)
    handles, labels = again.get_legend_handles_labels()
    assert labels == ["HER", "again", "third"]
    assert len({each.get_color() for each in handles}) == 3
    with pytest.raises(UserError):
        rlher.plot(folders, ax=first)


def test_plots_leave_the_settings_of_matplotlib_alone(make_run: Make, tmp_path: Path) -> None:
    folder, before = make_run("a"), dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 31}):
        large = dict(matplotlib.rcParams)
        rlher.plot({"$k=4$": folder}, style="paper").savefig(tmp_path / "a.pdf")
        assert dict(matplotlib.rcParams) == large
        with plt.style.context(["default", "rlher.analysis.paper"]):
            panel = rlher.plot({"$k=4$": folder}, ax=matplotlib.figure.Figure().subplots())
    assert (panel.xaxis.label.get_fontname(), panel.xaxis.label.get_fontsize()) == ("STIXGeneral", 8)
    assert panel.lines[-1].get_linewidth() == 1.2
    assert dict(matplotlib.rcParams) == before
    plt.close("all")


def test_enjoy_and_export_return_what_they_wrote(run: rlher.Run) -> None:
    assert run.enjoy(episodes=1) == run.folder / "enjoy.mp4"
    assert run.export() == run.folder / "export"
    folder = run.export("elsewhere", format="sb3")
    assert folder == Path("elsewhere").absolute()
    assert (folder / "play.py").exists()
    with pytest.raises(UserError):
        run.export(format="tf")


def test_a_list_without_runs_is_not_all_runs(run: rlher.Run) -> None:
    for runs in ([], {"none": [], "one": [run]}):
        with pytest.raises(rlher.UserError):
            rlher.compare(runs)


def test_a_run_may_be_in_two_groups(run: rlher.Run) -> None:
    assert set(rlher.compare({"one": [run], "two": [run]})["group"]) == {"one", "two"}


def test_make_env_composes_the_environment_as_training_does() -> None:
    env = rlher.make_env("BitFlipping-v0", kwargs={"n_bits": 5})
    assert env.observation_space["observation"].shape == (5,)
    assert "is_success" in env.step(env.action_space.sample() if env.reset() else 0)[-1]
    assert rlher.make_env("FetchReach-v4", max_episode_steps=7).spec.max_episode_steps == 7
    for name in ("FetchReach-v4", "BitFlipping-v0", "parking-v0"):
        assert rlher.make_env(name).spec.id == name


def test_importing_the_environments_registers_them() -> None:
    code = "import rlher.envs, gymnasium; print(gymnasium.make('BitFlipping-v0', n_bits=3).action_space)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "Discrete(3)"


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("sax", "BitFlipping-v0"), {}),
        (("dqn", "NoSuchEnv-v0"), {}),
        (("dqn", "BitFlipping-v0"), {"total_timestep": 5}),
        (("dqn", "BitFlipping-v0"), {"algo": {"gama": 0.9}}),
        (("dqn", "BitFlipping-v0"), {"algo.gamma": "'"}),
        (("dqn", "BitFlipping-v0"), {"seed": []}),
        (("dqn", "BitFlipping-v0"), {"resume": "logs/dqn/BitFlipping-v0_1"}),
        (("dqn", "BitFlipping-v0"), {"seed": [0, "one"]}),
        (("dqn", gymnasium.make("CartPole-v1")), {}),
        (("dqn", "BitFlipping-v0"), {"env": {"kwargs": {"n_bits": "many"}}}),
        (("sac", "BitFlipping-v0"), {}),
    ],
)
def test_mistakes_are_user_errors_and_write_nothing(
    words: tuple, keys: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as raised:
        rlher.train(*words, **{"recipe": None} | keys)
    assert not Path("logs").exists()
    assert len(raised.value._render_traceback_()) == 1, "a notebook prints the message alone"


def test_what_is_not_there_is_a_user_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plt.close("all")
    with pytest.raises(UserError, match="'td3-FetchSlid-v4'"):
        rlher.load("td3-FetchSlid-v4")
    mistakes = (lambda: rlher.load("logs/x"), lambda: rlher.plot(x="hours"), lambda: rlher.plot(titel=""))
    for call in (rlher.runs, rlher.compare, rlher.plot, *mistakes):
        with pytest.raises(UserError):
            call()
    assert not plt.get_fignums(), "a notebook would show an empty figure"


def test_a_pretrained_agent_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = rlher.agents()[0]
    agent = rlher.load(name)
    assert rlher.load(agent).evaluate(1)["agent"] == name
    with pytest.raises(UserError, match="weights"):
        agent.export("exported")
    Path(name).mkdir()
    assert name in repr(rlher.load(name)), "a folder of that name does not replace it"
    for mistake in ({"episode": 2}, {"episodes": 0}):
        with pytest.raises(UserError):
            agent.enjoy("film.gif", **mistake)


def test_code_of_a_strangers_run_is_refused(run: rlher.Run) -> None:
    file = run.folder / "config.yaml"
    file.write_text(file.read_text().replace("modules: []", "modules: [evil]"))
    with pytest.raises(UntrustedCode):
        rlher.load(run.folder)
    assert rlher.runs() == []


@pytest.mark.slow
def test_a_script_without_a_main_guard_trains_in_worker_processes(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import rlher\nprint('script')\n"
        "short = {'total_timesteps': 60, 'eval': {'final_episodes': 2, 'freq': 60, 'workers': 1}}\n"
        "run = rlher.train('dqn', 'BitFlipping-v0', recipe=None, vec_env='subproc', algo={'net_arch': [8]}, **short)\n"
        "print(run.result['status'])\n"
    )
    out = subprocess.check_output([sys.executable, "script.py"], cwd=tmp_path, text=True, stderr=subprocess.DEVNULL)
    assert out.split() == ["script", "finished"]


def test_a_run_leaves_torch_as_it_was(run: rlher.Run) -> None:
    import torch as th

    th.set_num_threads(2)
    rlher.train("dqn", "BitFlipping-v0", env={"kwargs": {"n_bits": 4}}, **TINY)
    assert th.get_num_threads() == 2


# ------------------------------------------------------------------------------------------------ a notebook


@pytest.mark.slow
def test_interrupting_a_cell_saves_the_run(tmp_path: Path) -> None:
    manager, client = start_new_kernel(cwd=str(tmp_path))
    try:
        train = "import rlher; run = rlher.train('ddpg', 'FetchReach-v4', total_timesteps=100_000)"
        # stop_on_error=False, or the kernel drops what comes too soon after the interrupt
        request_id = client.execute(train, stop_on_error=False)
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("logs/*/*/evaluations.csv")) and time.monotonic() < deadline:
            time.sleep(0.5)
        manager.interrupt_kernel()
        # A slow kernel answers the client's repeated kernel_info requests first.
        while (reply := client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != request_id:
            assert reply["msg_type"] == "kernel_info_reply"
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        check = "(run,) = rlher.runs(); assert run.result['status'] == 'interrupted' and len(run.curves()), run.result"
        assert client.execute_interactive(check, timeout=60)["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
