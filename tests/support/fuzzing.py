"""Damaged files and hostile command lines, and the checks that each of them must pass.

No traceback, no hang, an exit code of 0, 1 or 2, and no change outside the folder that the command writes to.
``scripts/fuzz.py`` tries thousands, ``test_fuzz.py`` a few.
"""

import contextlib
import hashlib
import io
import json
import os
import pickle
import shutil
import signal
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import yaml

from rlher.cli.commands import command_names, load_command
from rlher.cli.main import main
from rlher.config.key import dotted_keys
from rlher.core.errors import UserError

SECONDS = 20
"""An input that takes longer hangs."""

HACKED = "hacked"
RUN = "logs/dqn/BitFlipping-v0_1"
TRAIN = (
    *(
        "train",
        "algo=dqn",
        "env=BitFlipping-v0",
        "env.n_bits=4",
        "recipe=null",
        "algo.net_arch=[8]",
        "algo.batch_size=8",
    ),
    *("algo.learning_starts=20", "eval.episodes=2", "eval.final_episodes=2", "total_timesteps=60", "threads=1"),
)


class CheckFailed(Exception):
    """An input ended in a traceback, hung, or changed a file that it must not change."""


class Hang(BaseException):
    """The time limit is over; not an Exception, so that no handler of the program catches it."""


# -------------------------------------------------------------------------------------------------- checks


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Change the working directory within the block; contextlib.chdir needs Python 3.11."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run_checked(act: Callable[[], int | None], what: str) -> str:
    """Call a function and return its output; raise CheckFailed if it ends in another way than a command should."""
    out, err = io.StringIO(), io.StringIO()
    began = time.monotonic()
    try:
        with limited(SECONDS), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = act()
    except SystemExit as stop:
        code = stop.code  # type: ignore[assignment]
    except Hang:
        raise CheckFailed(f"{what}: hangs") from None
    except Exception as error:
        raise CheckFailed(f"{what}: {type(error).__name__}: {error}") from error
    if time.monotonic() - began >= SECONDS:  # another error replaced Hang on its way up
        raise CheckFailed(f"{what}: hangs")
    if code not in (0, 1, 2, None):
        raise CheckFailed(f"{what}: exit code {code}")
    if "Traceback (most recent" in err.getvalue():
        raise CheckFailed(f"{what}: {err.getvalue()}")
    if code in (1, 2) and not err.getvalue().strip():
        raise CheckFailed(f"{what}: exit code {code} without a message")
    return out.getvalue() + err.getvalue()


def snapshot(folder: Path, excluded: Path | None) -> dict[str, tuple[int, int]]:
    """Return size and time of every file, except those in one folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if excluded is None or (path != excluded and excluded not in path.parents):
            status = path.lstat()
            found[str(path)] = (status.st_size, status.st_mtime_ns if path.is_file() else 0)
    return found


# ---------------------------------------------------------------------------------------------- the workspace


@dataclass
class Workspace:
    """A folder with one file of each kind, and the commands that read it.

    :param readers: commands that read a file, by its path.
    """

    folder: Path
    readers: dict[str, list[Callable[[], int | None]]] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path) -> "Workspace":
        made, run = cls(folder), RUN
        with inside(folder):
            run_checked(lambda: main([*TRAIN, "tensorboard=false"]), "training")
            _write_others()
        evaluate = command("evaluate", run, "--episodes", "1", "--json")
        made.readers = {
            f"{run}/config.yaml": [evaluate, command("compare"), command("evaluate", "--episodes", "1")],
            f"{run}/evaluations.csv": [command("compare"), command("plot", "--output", f"{run}/curve.png")],
            f"{run}/result.json": [command("compare")],
            f"{run}/meta.json": [command("compare")],
            f"{run}/command.txt": [command("compare")],
            f"{run}/last_model.zip": [evaluate, evaluate, command(*TRAIN, f"init_from={run}", "dry_run=true")],
            "recipe.yaml": [command("train", "algo=dqn", "env=BitFlipping-v0", "recipe=recipe.yaml", "--cfg", "job")],
            "space.yaml": [_read_space],
            "my_conf/env/mine.yaml": [command("train", "env=mine", "--config-dir", "my_conf", "--cfg", "job")],
            "journal/journal.log": [_read_journal],
            **{f"buffer/{name}": [_read_buffer] for name in os.listdir(folder / "buffer")},
        }
        resume = command("train", "--resume", run, "total_timesteps=+10")
        for file in sorted((folder / run / "checkpoints").rglob("*.*")):
            if file.is_file() and file.name != "best_model.zip":
                made.readers[str(file.relative_to(folder))] = [resume]
        return made

    def file(self, rng: Random) -> str:
        return rng.choice(sorted(self.readers))

    def try_damage(self, path: str, content: bytes, reader: Callable[[], int | None]) -> str:
        """Replace a file's content, run a command that reads it, restore the file, and return the output."""
        file = self.folder / path
        home = self.folder / RUN if path.startswith(RUN) else file.parent
        kept = self.folder.parent / "kept"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(home, kept)
        file.write_bytes(content)
        if "/checkpoints/" in path and file.name != "checkpoint.json":
            _sign(self.folder / RUN / "checkpoints")
        before = snapshot(self.folder, home)
        new_runs = set((self.folder / "logs/dqn").iterdir())
        try:
            with inside(self.folder):
                output = run_checked(reader, path)
            for made in set((self.folder / "logs/dqn").iterdir()) - new_runs:
                shutil.rmtree(made)
            if snapshot(self.folder, home) != before or [*home.rglob(HACKED)]:
                raise CheckFailed(f"{path}: a file outside its folder was changed")
        finally:
            shutil.rmtree(home)
            shutil.copytree(kept, home)
        return output


def _sign(checkpoints: Path) -> None:
    """Recompute the checksums of checkpoints, as an attacker would."""
    for manifest in checkpoints.glob("*/checkpoint.json"):
        folder, content = manifest.parent, json.loads(manifest.read_text())
        sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in content["sha256"]}
        manifest.write_text(json.dumps(content | {"sha256": sums}))


def command(*words: str) -> Callable[[], int]:
    return lambda: main(list(words))


def _write_others() -> None:
    """Write a recipe, a space, a study's journal and a saved buffer."""
    import optuna
    from optuna.study import StudyDirection

    from rlher.tuning.study import open_study
    from rlher.tuning.study_storage import open_storage

    Path("my_conf/env").mkdir(parents=True)
    Path("my_conf/env/mine.yaml").write_text(
        "defaults: [/schema/env/any@_here_, _self_]\nid: Mine-v0\nmodules: [mine]\n"
    )
    Path("recipe.yaml").write_text(
        "# @package _global_\nalgo: {gamma: 0.9, net_arch: [8, 8]}\nher: {n_sampled_goal: 2}\n"
    )
    space = (
        "defaults: [her]\nalgo: {gamma: {low: 0.9, high: 0.99}, learning_rate: {low: 1e-4, high: 1e-2, log: true}}\n"
    )
    Path("space.yaml").write_text(space)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = open_storage(None, Path("journal"), 60, print)
    study, _ = open_study(storage, "fuzz", [StudyDirection.MAXIMIZE], {})
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    buffer = _buffer()
    rng = np.random.default_rng(0)
    for step in range(30):
        one, two = ({key: rng.random((1, 4), np.float32) for key in buffer.observation_space.spaces} for _ in range(2))
        buffer.add(one, two, np.zeros((1, 1)), np.zeros(1), np.array([step % 5 == 4]), [{}])
        if step in (12, 29):
            buffer.save("buffer")


def _buffer() -> Any:
    from gymnasium import spaces

    from rlher.her import HerReplayBuffer

    keys = ("observation", "achieved_goal", "desired_goal")
    space = spaces.Dict({key: spaces.Box(0, 1, (4,), np.float32) for key in keys})
    return HerReplayBuffer(
        100, space, spaces.Discrete(4), seed=0, priority="td_error", compute_reward=lambda a, d, i: a[:, 0]
    )


def _read_buffer() -> int:
    buffer = _buffer()
    with _print_error(ValueError):
        buffer.load("buffer")
        buffer.sample(16)
    return 0


def _read_space() -> int:
    from rlher.config.algorithms import DQNConfig
    from rlher.config.training import TrainConfig
    from rlher.tuning import search_space

    with _print_error(UserError, OSError):
        search_space.load("space.yaml", TrainConfig(algo=DQNConfig(name="dqn")))
    return 0


def _read_journal() -> int:
    from optuna.study import StudyDirection

    from rlher.tuning.study import open_study
    from rlher.tuning.study_storage import open_storage

    with _print_error(UserError):
        storage = open_storage(None, Path("journal"), 60, print)
        study, _ = open_study(storage, "fuzz", [StudyDirection.MAXIMIZE], {})
        study.get_trials()
    return 0


@contextlib.contextmanager
def _print_error(*kinds: type[Exception]) -> Iterator[None]:
    """Print an expected error, as the commands do."""
    try:
        yield
    except kinds as error:
        print(error, file=sys.stderr)


# ------------------------------------------------------------------------------------------------- the damage


def damaged(rng: Random, path: str, workspace: Workspace) -> bytes:
    """Return other content for a file, by a kind of damage that suits its type."""
    content = (workspace.folder / path).read_bytes()
    kinds: list[Callable[[Random, bytes], bytes]] = [*BYTES]
    suffix = Path(path).suffix
    if suffix in (".yaml", ".json", ".log"):
        kinds += [_odd_document, _odd_value, _odd_value, _odd_value]
    if suffix == ".csv":
        kinds += [_odd_cell, _odd_cell]
    if suffix in (".zip", ".npz", ".pt"):
        kinds += [_odd_member, _odd_member, _odd_member]
    if rng.random() < 0.1:
        return (workspace.folder / workspace.file(rng)).read_bytes()
    return rng.choice(kinds)(rng, content)


def _cut(rng: Random, content: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _flip(rng: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 3, 30))):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _noise(rng: Random, content: bytes) -> bytes:
    at, length = rng.randrange(len(content) + 1), rng.choice((1, 4, 100))
    return content[:at] + rng.randbytes(length) + content[at + rng.choice((0, length)) :]


def _garbage(rng: Random, content: bytes) -> bytes:
    return rng.choice((b"", b"\0" * 1000, rng.randbytes(300), content * 2, b"\xef\xbb\xbf" + content, b"PK\x03\x04"))


BYTES = (_cut, _flip, _noise, _garbage)


def _odd_document(rng: Random, content: bytes) -> bytes:
    """Return a document that is hard to parse."""
    deep = rng.choice((100, 1000, 100_000))
    return rng.choice(
        (
            b"[" * deep,
            b"[" * deep + b"]" * deep,
            b"{a: " * deep + b"1" + b"}" * deep,
            b'{"a":' * deep + b"1" + b"}" * deep,
            b"".join(b"%s- \n" % (b"  " * level) for level in range(min(deep, 1000))),
            b"!!python/object/apply:os.system ['touch %s']" % HACKED.encode(),
            b"algo: !!python/object/new:subprocess.Popen [[touch, %s]]" % HACKED.encode(),
            content + b"\nseed: " + b"9" * 5000,
            content + b"\nseed: 0x" + b"f" * 5000,
            content + b"\nwhen: 99999-99-99\nbin: !!binary '%'\nset: !!set {[]}\n",
            b"a: &a [*a]",
            b"? [a, {b: c}]\n: d\n",
            content.replace(b":", b": &x", 1),
            *(_laughs(key) for key in (b"algo", b"env", b"kwargs")),
        )
    )


def _laughs(key: bytes) -> bytes:
    """Return a few lines of YAML aliases that expand to a billion values."""
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [b"a%d: &a%d [%s]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 10)]
    return b"\n".join([*lines, b"algo: {name: dqn}\nenv: {id: BitFlipping-v0}\nher: {}\n" + key + b": {name: *a9}"])


ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**400, -(2**63), 2**64, 1e308, float("nan"), float("inf"), "1e5", "x" * 10_000),
    *("", "\0", "é\u202e", "${oops}", "${oc.env:HOME}", "???", "../../.."),
    *([], {}, [[]], [None], {"": {}}, {"a": {"b": [1, None]}}),
)


def _odd_value(rng: Random, content: bytes) -> bytes:
    """Change, drop or add one value of a document at any depth."""
    try:
        lines = content.decode().splitlines()
        tree = (
            [json.loads(line) for line in lines] if content[:1] == b"{" and len(lines) > 1 else yaml.safe_load(content)
        )
    except ValueError:
        tree = yaml.safe_load(content)
    odd = rng.choice((*ODD, rng.randint(-9, 9), rng.random()))
    places = [*_places(tree)]
    if not places or rng.random() < 0.05:
        tree = odd
    else:
        node, key = rng.choice(places)
        kind = rng.choice(("change", "change", "change", "drop", "add"))
        if kind == "drop":
            node.pop(key)
        elif kind == "add" and isinstance(node, dict):
            node[rng.choice(("", "odd", "__class__", 3, None, "a.b"))] = odd
        else:
            node[key] = odd
    if isinstance(tree, list) and content[:1] == b"{":
        return "\n".join(json.dumps(line) for line in tree).encode() + b"\n"
    dump = json.dumps if content[:1] == b"{" else yaml.safe_dump
    try:
        return dump(tree).encode()
    except (TypeError, ValueError, UnicodeEncodeError):
        return content


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container of a document with every key or index of it."""
    if isinstance(tree, dict | list):
        for key in [*tree] if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _odd_cell(rng: Random, content: bytes) -> bytes:
    rows = [line.split(",") for line in content.decode().splitlines()]
    odd = ("", "nan", "inf", "-1", "9" * 400, "1e400", "x", '"', "\0", "é", "True", "0x10", "1;2", "\n")
    for _ in range(rng.choice((1, 2, 5))):
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice(odd)
    if rng.random() < 0.3:
        rows.insert(rng.randrange(len(rows) + 1), rng.choice((["1"], [], ["1"] * 50, rows[0])))
    return "\n".join(",".join(row) for row in rows).encode()


class Touch:
    """A pickle that creates a file when it is loaded."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {HACKED}",)


def _odd_member(rng: Random, content: bytes) -> bytes:
    """Change, swap, drop or add a member of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, other = rng.choice(sorted(members)), rng.choice(sorted(members))
    kind = rng.choice(("bytes", "drop", "swap", "pickle", "array", "tensors", "claim", "bomb", "name", "inner"))
    if kind == "claim":
        return _claiming_gigabytes(content)
    if kind == "bytes":
        members[name] = rng.choice(BYTES)(rng, members[name])
    elif kind == "drop":
        del members[name]
    elif kind == "swap":
        members[name], members[other] = members[other], members[name]
    elif kind == "pickle":
        members[name] = pickle.dumps(Touch())
    elif kind == "array":
        members[name] = _array(rng)
    elif kind == "tensors":
        members[name] = _tensors(rng)
    elif kind == "bomb":
        members[name] = bytes(5 * 10**7)
    elif kind == "name":
        members[rng.choice(("../../hacked", "/tmp/hacked", " ", "a" * 3000, "policy.pth/x"))] = members.pop(name)
    elif members[name][:2] == b"PK":
        members[name] = _odd_member(rng, members[name])
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED if kind == "bomb" else zipfile.ZIP_STORED) as archive:
        for each, value in members.items():
            archive.writestr(each, value)
    return written.getvalue()


def _claiming_gigabytes(content: bytes) -> bytes:
    """Set the size of an archive's last member to four gigabytes in its directory."""
    at = content.rfind(b"PK\x01\x02")
    return content[: at + 24] + struct.pack("<I", 0xFFFFFFF0) + content[at + 28 :]


def _array(rng: Random) -> bytes:
    """Return a NumPy file with objects, an unusual type or shape, or a wrong size in its header."""
    written = io.BytesIO()
    kind = rng.choice(("objects", "shape", "nan", "huge", "strings"))
    if kind == "huge":
        np.lib.format.write_array_header_1_0(
            written, {"descr": "<f8", "fortran_order": False, "shape": (rng.choice((10**12, 10**20, -1)),)}
        )
        return written.getvalue()
    values: dict[str, Any] = {
        "objects": np.array([Touch()], dtype=object),
        "shape": np.zeros(rng.choice(((), (0,), (3, 5), (4,)))),
        "nan": np.full(4, np.nan),
        "strings": np.array(["a", "b"]),
    }
    np.lib.format.write_array(written, values[kind], allow_pickle=True)
    return written.getvalue()


def _tensors(rng: Random) -> bytes:
    import torch as th

    written = io.BytesIO()
    odd: Any = rng.choice(({}, [], 3, {"a": th.zeros(2)}, {"a": Touch()}, th.zeros(3), {1: 2}, "text", None))
    th.save(odd, written)
    return written.getvalue()


# -------------------------------------------------------------------------------------------- the command line

COMMANDS = {name: load_command(name) for name in command_names()}
SYMBOLS = "= ' \" \\ [ ] { } ( ) ${ ${x} ${oc.env:HOME} ${env.id} ??? ~ + ++ @ : , ; $ %s .. / é 日本 💥 a=b=c \\'"
VALUES = "null true nan inf -inf 1e400 1e-400 -1 0 1_000 0x1f range(1,3) choice(a,b) glob(*) sort(3,1) int(3)"
LONG = ("9" * 500, "[" * 300, "{a:" * 200, "x" * 5000)
TEXTS = (*SYMBOLS.split(), *VALUES.split(), *LONG, "", " ", "\n", "\x1b[31m", "\u202e", "\udcff")


def command_line(rng: Random) -> list[str]:
    """Return a command with random words, most of them invalid."""
    name = rng.choice([*COMMANDS])
    known = [
        *dotted_keys(COMMANDS[name].schema),
        "algo",
        "env",
        "her",
        "recipe",
        "space",
        "preset",
        "algo.tau",
        "env.n_bits",
    ]
    words = []
    for _ in range(rng.randint(1, 4)):
        key = rng.choice(known) if rng.random() < 0.8 else _text(rng)
        value = _text(rng) if rng.random() < 0.8 else rng.choice(("dqn", "sac", "BitFlipping-v0", "her", "sb3"))
        flag = "--" + key.replace("_", "-").replace(".", "-")
        kinds = (f"{key}={value}", f"+{key}={value}", f"++{key}={value}", f"~{key}", f"~{key}={value}", key, value)
        words += rng.choice(([rng.choice(kinds)], [rng.choice(kinds)], [flag, value], [f"{flag}={value}"], [flag]))
    if rng.random() < 0.2:
        words += rng.choice(
            (["--cfg", "job"], ["-m"], ["--cfg", _text(rng)], ["--config-dir", _text(rng)], ["-h"], ["-p", "x"])
        )
    return [name, *words]


def _text(rng: Random) -> str:
    return "".join(rng.choice(TEXTS) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def try_command_line(words: list[str], folder: Path) -> str:
    """Compose the config of a command line without running the command, and return the output."""
    before = snapshot(folder, None)
    with contextlib.ExitStack() as stack:
        stack.enter_context(inside(folder))
        for each in COMMANDS.values():
            stack.enter_context(mock.patch.object(each.module, "run", return_value=0))
        output = run_checked(command(*words), f"rlher {words}")
    if snapshot(folder, None) != before:
        raise CheckFailed(f"rlher {words}: a file was changed")
    return output
