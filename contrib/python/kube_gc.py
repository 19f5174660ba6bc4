"""Starts kube-gc, a Kubernetes garbage collector, for tests with pytest.

Copy this file to your tests, and tell pytest of it in conftest.py:

    pytest_plugins = ["kube_gc"]

A test that uses the fixture `kube_gc` runs with a collector on the API server of the fixture
`gc_kubeconfig`. That is the file that the environment variable KUBECONFIG names; override
the fixture to use another one. The collector runs until the end of the session. The ini option
`gc_args` has arguments of `kube-gc run`; an indirect parametrization of the fixture has other
ones:

    @pytest.mark.parametrize("kube_gc", [["--finish-namespaces"]], indirect=True)

Without pytest, `Collector` does the same:

    with Collector("kubeconfig") as collector:
        ...
        collector.wait_idle(configmaps=version)

The file needs Python 3.9 or newer and nothing but the standard library; the fixtures need pytest.
"""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

try:
    import pytest
except ImportError:
    pytest = None

# Seconds between two looks at a file or a page.
_POLL = 0.005
# The part of the log, in bytes, that an error shows.
_TAIL = 4096
# Requests to this machine never go through a proxy.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class CollectorError(Exception):
    """The collector cannot be found, does not start, has ended or is not idle."""


def find_binary():
    """The path of kube-gc: in the directory that KUBEBUILDER_ASSETS names, or in PATH."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    found = (assets and shutil.which(os.path.join(assets, "kube-gc"))) or shutil.which("kube-gc")
    if not found:
        raise CollectorError(
            f"kube-gc is neither in KUBEBUILDER_ASSETS ({assets!r}) nor in PATH; run "
            "`cargo install --locked --path .` in the repository of kube-gc, or name the binary"
        )
    return found


class Collector:
    """A process of kube-gc on the API server of a kubeconfig: of a file, or its content as bytes, which
    is in no file. Relative paths in it start at the directory of the file, or at the working directory.

    It is ready when the constructor returns, and ends with `stop`, at the end of a `with` block,
    or when this process ends, even if it was killed.
    """

    def __init__(self, kubeconfig, *, binary=None, args=(), timeout=60):
        binary = binary or find_binary()
        is_content = isinstance(kubeconfig, bytes)
        if isinstance(args, (str, bytes)):
            raise TypeError(f"the arguments of the collector must be a list, not {args!r}")
        # This file has no name. The collector makes the other one, whose name nobody can guess, and removes
        # it at its end.
        self._log = tempfile.TemporaryFile(prefix="kube-gc-")
        self._ready = os.path.join(tempfile.gettempdir(), f"kube-gc-{secrets.token_hex(16)}.json")
        command = [
            binary, "run", "--kubeconfig", "/dev/stdin" if is_content else os.fspath(kubeconfig),
            "--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0",
            "--ready-file", self._ready, f"--exit-with-parent={os.getpid()}", *(args or ()),
        ]  # fmt: skip
        # Tests have no slow webhooks for whose objects a namespace would have to wait.
        environment = {"KUBE_GC__NAMESPACES__QUIET": "500ms", **os.environ}
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=self._log, env=environment
            )
        except OSError as error:
            self._remove()
            raise CollectorError(f"cannot run {binary}: {error}") from error
        try:
            with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
                pipe.write(kubeconfig if is_content else b"")
            # Its content appears at once and complete.
            self._poll(self._is_ready, timeout, lambda: "it is not ready")
            content = json.loads(Path(self._ready).read_text())
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._remove()
            raise
        #: The process id, the version, and the URLs of the listeners.
        self.pid = content["pid"]
        self.version = content["version"]
        self.health_url = "http://" + content["health"]
        self.debug_url = "http://" + content["debug"]

    def wait_idle(self, seen=None, *, namespace=None, owner=None, timeout=60, **more):
        """Waits until the collector has nothing left to do.

        The collector is told about changes a little later than the client that made them. To
        show that nothing follows from a deletion, create or change another object of the same
        type after it, and pass the resourceVersion of that object: `wait_idle(configmaps=version)`
        or `wait_idle({"deployments.apps": version})`.

        With a namespace, only its objects count, those without a namespace, which may have
        dependents in any, and discovery of types in seen. Tests that share an API server have a
        namespace each. With the uid of an owner, it counts, even if it is gone, and all that it
        owned, directly or not. Objects that wait for something outside of the collector, such as
        the CRD of an owner, do not count.
        """
        versions = {**(seen or {}), **more}
        query = [("parked", "ok")] + [("seen", f"{type_}={version}") for type_, version in versions.items()]
        query += [("namespace", namespace)] if namespace is not None else []
        query += [("owner", owner)] if owner is not None else []
        query = urllib.parse.urlencode(query)
        last = ""

        def idle():
            nonlocal last
            try:
                with _opener.open(f"{self.debug_url}/debug/idle?{query}", timeout=30):
                    return True
            except urllib.error.HTTPError as error:
                last = error.read(1 << 16).decode(errors="replace")
                if error.code != 503:
                    raise CollectorError(f"kube-gc does not say whether it is idle: {error}: {last}") from error
            except OSError as error:
                # Mostly the collector has ended, which is noticed next.
                last = str(error)
            return False

        self._poll(idle, timeout, lambda: f"it is not idle: {last}")

    def stop(self, timeout=15):
        """Ends the collector. Fails if it had ended before, or ends with an error."""
        if self._log.closed:
            return
        self._process.terminate()
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        log = self.log()
        self._remove()
        if code != 0:
            raise CollectorError(f"kube-gc ended with {code}; the end of its log:\n{log}")

    def log(self):
        """The end of the log."""
        log = self._log.fileno()
        # A seek would move the place where the collector writes.
        return os.pread(log, _TAIL, max(0, os.fstat(log).st_size - _TAIL)).decode(errors="replace")

    def _is_ready(self):
        with contextlib.suppress(FileNotFoundError):
            return os.stat(self._ready).st_size > 0

    def _remove(self):
        self._log.close()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._ready)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _poll(self, done, timeout, problem):
        deadline = time.monotonic() + timeout
        while not done():
            if self._process.poll() is not None:
                raise CollectorError(f"kube-gc ended with {self._process.returncode}; its log:\n{self.log()}")
            if time.monotonic() > deadline:
                raise CollectorError(f"{problem()}, after {timeout} s; the end of its log:\n{self.log()}")
            time.sleep(_POLL)


def pytest_addoption(parser):
    parser.addini("gc_args", "arguments of `kube-gc run` for the fixture kube_gc", type="args", default=[])


if pytest:

    @pytest.fixture(scope="session")
    def gc_kubeconfig():
        """The kubeconfig file of the API server: override this fixture to use another one."""
        path = os.environ.get("KUBECONFIG")
        if not path:
            pytest.fail("set KUBECONFIG, or override the fixture gc_kubeconfig")
        return path

    @pytest.fixture(scope="session")
    def kube_gc(request, gc_kubeconfig):
        """A collector that runs until the end of the session, with arguments of its parameter or gc_args."""
        args = getattr(request, "param", request.config.getini("gc_args"))
        with Collector(gc_kubeconfig, args=args) as collector:
            yield collector
