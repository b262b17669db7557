"""A temporary PostgreSQL server for one test, on a free loopback port."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))


def binaries() -> Path | None:
    """Return the folder of initdb and pg_ctl, None if PostgreSQL is not installed."""
    found = shutil.which("pg_ctl")
    return BINARIES[-1] if BINARIES else Path(found).resolve().parent if found else None


class Postgres:
    """A running server with a database and a user ``rlher``; if the tests run as root it runs as ``postgres``."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self._folder, self._binaries = folder, binaries
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        self._call("initdb", "-D", str(folder / "data"), "-U", "rlher", "--auth=trust", "--no-sync")
        self._options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        self._ctl("start")
        self._call("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "rlher", "rlher")
        self.url = f"postgresql://rlher@127.0.0.1:{port}/rlher"

    def restart(self) -> None:
        """Stop the server without waiting for its clients and start it again."""
        self._ctl("stop", "-m", "immediate")
        self._ctl("start")

    def stop(self) -> None:
        """Stop the server."""
        self._ctl("stop", "-m", "immediate")

    def _ctl(self, *words: str) -> None:
        started = ("-o", self._options, "-l", str(self._folder / "log")) if words[0] == "start" else ()
        self._call("pg_ctl", "-D", str(self._folder / "data"), "-w", *started, *words)

    def _call(self, program: str, *words: str) -> None:
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
        # The server keeps pg_ctl's output open, so a pipe would never end.
        pipe = subprocess.DEVNULL if program == "pg_ctl" else subprocess.PIPE
        words = (*user, str(self._binaries / program), *words)
        done = subprocess.run(words, cwd="/", stdout=pipe, stderr=pipe, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
