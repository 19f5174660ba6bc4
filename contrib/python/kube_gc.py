"""Starts kube-gc, a Kubernetes garbage collector, for tests with pytest.

Copy this file to your tests, and tell pytest of it in conftest.py:

    pytest_plugins = ["kube_gc"]

A test that uses the fixture `kube_gc` runs with a collector on the API server of the fixture
`gc_kubeconfig`. That is the file that the environment variable KUBECONFIG names; override
the fixture to use another one. The collector runs until the end of the session.

Without pytest, `Collector` does the same:

    with Collector("kubeconfig") as collector:
        ...
        collector.wait_idle(configmaps=version)

The file needs Python 3.9 or newer and nothing but the standard library and pytest.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

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
            f"kube-gc is neither in KUBEBUILDER_ASSETS ({assets!r}) nor in PATH; run `make install-envtest` "
            "in the repository of kube-gc, or name the binary"
        )
    return found


class Collector:
    """A process of kube-gc on the API server of a kubeconfig file.

    It is ready when the constructor returns, and ends with `stop`, at the end of a `with` block,
    or when this process ends, even if it was killed.
    """

    def __init__(self, kubeconfig, *, binary=None, args=(), timeout=60):
        binary = binary or find_binary()
        self._directory = tempfile.TemporaryDirectory(prefix="kube-gc-")
        directory = Path(self._directory.name)
        self._log = directory / "log"
        ready = directory / "ready.json"
        command = [
            binary, "run", "--kubeconfig", os.fspath(kubeconfig),
            "--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0",
            "--ready-file", os.fspath(ready), "--exit-with-parent", *args,
        ]  # fmt: skip
        # Tests have no slow webhooks for whose objects a namespace would have to wait.
        environment = {"KUBE_GC__NAMESPACES__QUIET": "500ms", **os.environ}
        try:
            with open(self._log, "wb") as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stderr=log, env=environment
                )
        except OSError as error:
            self._directory.cleanup()
            raise CollectorError(f"cannot run {binary}: {error}") from error
        try:
            # It appears at once and complete.
            self._poll(ready.exists, timeout, lambda: "it is not ready")
            content = json.loads(ready.read_text())
        except BaseException:
            self._process.kill()
            self._process.wait()
            self._directory.cleanup()
            raise
        #: The process id, the version, and the URLs of the listeners.
        self.pid = content["pid"]
        self.version = content["version"]
        self.health_url = "http://" + content["health"]
        self.debug_url = "http://" + content["debug"]

    def wait_idle(self, seen=None, *, namespace=None, timeout=60, **more):
        """Waits until the collector has nothing left to do.

        The collector is told about changes a little later than the client that made them. To
        show that nothing follows from a deletion, create or change another object of the same
        type after it, and pass the resourceVersion of that object: `wait_idle(configmaps=version)`
        or `wait_idle({"deployments.apps": version})`.

        With a namespace, only its objects count. Tests that share an API server have a namespace
        each. Objects that wait for something outside of the collector, such as the CRD of an
        owner, do not count.
        """
        versions = {**(seen or {}), **more}
        query = [("parked", "ok")] + [("seen", f"{type_}={version}") for type_, version in versions.items()]
        query = urllib.parse.urlencode(query + ([("namespace", namespace)] if namespace else []))
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
        if not self._directory:
            return
        self._process.terminate()
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        log = self.log()
        self._directory.cleanup()
        self._directory = None
        if code != 0:
            raise CollectorError(f"kube-gc ended with {code}; the end of its log:\n{log}")

    def log(self):
        """The end of the log."""
        with open(self._log, "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _TAIL))
            return log.read().decode(errors="replace")

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


@pytest.fixture(scope="session")
def gc_kubeconfig():
    """The kubeconfig file of the API server: override this fixture to use another one."""
    path = os.environ.get("KUBECONFIG")
    if not path:
        pytest.fail("set KUBECONFIG, or override the fixture gc_kubeconfig")
    return path


@pytest.fixture(scope="session")
def kube_gc(gc_kubeconfig):
    """A collector that runs until the end of the session."""
    with Collector(gc_kubeconfig) as collector:
        yield collector
