"""Damage to YAML, JSON and CSV files: malicious documents and odd values."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import yaml

from tests.support.fuzzing.checks import MARKER


def malicious_document(rng: Random, content: bytes) -> bytes:
    """Return a document that is nested deeply, runs code, expands without end, or is invalid."""
    depth = rng.choice((100, 1000, 100_000))
    return rng.choice(
        (
            b"[" * depth,
            b"[" * depth + b"]" * depth,
            b"{a: " * depth + b"1" + b"}" * depth,
            b'{"a":' * depth + b"1" + b"}" * depth,
            b"".join(b"%s- \n" % (b"  " * level) for level in range(min(depth, 1000))),
            b"!!python/object/apply:os.system ['touch %s']" % MARKER.encode(),
            b"algo: !!python/object/new:subprocess.Popen [[touch, %s]]" % MARKER.encode(),
            content + b"\nseed: " + b"9" * 5000,
            content + b"\nseed: 0x" + b"f" * 5000,
            content + b"\nwhen: 99999-99-99\nbin: !!binary '%'\nset: !!set {[]}\n",
            b"a: &a [*a]",
            b"? [a, {b: c}]\n: d\n",
            content.replace(b":", b": &x", 1),
            *(_billion_laughs(key) for key in (b"algo", b"env", b"kwargs")),
        )
    )


def _billion_laughs(key: bytes) -> bytes:
    """Return a YAML document of a few lines whose aliases expand to ten billion values below a key."""
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [b"a%d: &a%d [%s]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 10)]
    return b"\n".join([*lines, b"algo: {name: dqn}\nenv: {id: BitFlipping-v0}\nher: {}\n" + key + b": {name: *a9}"])


CODE: tuple[tuple[str, Any], ...] = (
    ("env.modules", ["evil"]),
    ("env.modules", ["evil_package.nothing"]),
    ("env.modules", ["rlher.evil", "evil.evil"]),
    ("env.modules", ["rlher.__main__"]),
    ("env.id", "evil:BitFlipping-v0"),
    ("env.id", "evil_package.nothing:BitFlipping-v0"),
    ("env.wrappers", ["evil:Wrapper"]),
    ("env.wrappers", [{"gymnasium.wrappers:RecordVideo": {"video_folder": "../hacked"}}]),
    ("env.kwargs", {"reward": "evil.Reward"}),
    ("env.kwargs", {"evil:X": 1}),
    ("algo.kwargs", {"policy_kwargs": {"optimizer_class": "evil.Adam"}}),
    ("callbacks", ["evil:Callback"]),
)
"""Keys of a run's config, and values that name code: ``evil`` writes the file :data:`MARKER` when it is imported."""


def name_code(rng: Random, content: bytes) -> bytes:
    """Let a run's config name code that lies in the current folder; other documents are not changed."""
    tree = yaml.safe_load(content)
    key, value = rng.choice(CODE)
    *sections, name = key.split(".")
    node = tree
    for section in sections:
        node = node.get(section) if isinstance(node, dict) else None
    if isinstance(node, dict) and "env" in tree:
        node[name] = value
    return yaml.safe_dump(tree).encode()


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**400, -(2**63), 2**64, 1e308, float("nan"), float("inf"), "1e5", "x" * 10_000),
    *("", "\0", "é\u202e", "${oops}", "${oc.env:HOME}", "???", "../../.."),
    *([], {}, [[]], [None], {"": {}}, {"a": {"b": [1, None]}}),
)


def change_value(rng: Random, content: bytes) -> bytes:
    """Change, remove or add one value of a YAML or JSON document, or of JSON lines, at any depth."""
    tree = _parse(content)
    odd = rng.choice((*ODD_VALUES, rng.randint(-9, 9), rng.random()))
    locations = [*_locations(tree)]
    if not locations or rng.random() < 0.05:
        tree = odd
    else:
        node, key = rng.choice(locations)
        kind = rng.choice(("change", "change", "change", "remove", "add"))
        if kind == "remove":
            node.pop(key)
        elif kind == "add" and isinstance(node, dict):
            node[rng.choice(("", "odd", "__class__", 3, None, "a.b"))] = odd
        else:
            node[key] = odd
    is_json = content[:1] == b"{"
    if isinstance(tree, list) and is_json:
        return "\n".join(map(json.dumps, tree)).encode() + b"\n"
    try:
        return (json.dumps(tree) if is_json else yaml.safe_dump(tree)).encode()
    except (TypeError, ValueError, UnicodeEncodeError):
        return content


def _parse(content: bytes) -> Any:
    """Return the values of a YAML or JSON document, or a list of those of JSON lines."""
    try:
        lines = content.decode().splitlines()
        if content[:1] == b"{" and len(lines) > 1:
            return [json.loads(line) for line in lines]
    except ValueError:  # a JSON document of several lines
        pass
    return yaml.safe_load(content)


def _locations(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container within a document together with each of its keys or indices."""
    if isinstance(tree, dict | list):
        for key in [*tree] if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _locations(tree[key])


def change_cells(rng: Random, content: bytes) -> bytes:
    """Change cells of a CSV file, and sometimes insert a row."""
    rows = [line.split(",") for line in content.decode().splitlines()]
    odd = ("", "nan", "inf", "-1", "9" * 400, "1e400", "x", '"', "\0", "é", "True", "0x10", "1;2", "\n")
    for _ in range(rng.choice((1, 2, 5))):
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice(odd)
    if rng.random() < 0.3:
        rows.insert(rng.randrange(len(rows) + 1), rng.choice((["1"], [], ["1"] * 50, rows[0])))
    return "\n".join(",".join(row) for row in rows).encode()
