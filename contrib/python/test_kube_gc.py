"""Tests of kube_gc.py. They need the binary, kubectl, and in KUBECONFIG an API server without a collector."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kube_gc import Collector, CollectorError, find_binary


def kubectl(*args, object=None):
    command = ["kubectl", "--namespace", "default", *args]
    text = json.dumps(object) if object else None
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


def create(name, owner=None):
    metadata = {"name": name}
    if owner:
        owner = owner["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]}
        metadata["ownerReferences"] = [reference]
    configmap = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    return json.loads(kubectl("create", "--filename", "-", "--output", "json", object=configmap))


def test_a_cascade_is_over_when_the_collector_is_idle(kube_gc):
    owner = create("py-owner")
    for index in range(5):
        create(f"py-dependent-{index}", owner)
    kubectl("delete", "configmap", "py-owner", "--wait=false")
    marker = create("py-marker")
    kube_gc.wait_idle(configmaps=marker["metadata"]["resourceVersion"])
    left = kubectl("get", "configmaps", "--output", "name")
    assert "py-dependent" not in left and "py-marker" in left
    kubectl("delete", "configmap", "py-marker")


def test_what_an_owner_had_is_gone_when_it_is_idle(kube_gc):
    owner = create("py-head")
    middle = create("py-middle", owner)
    create("py-last", middle)
    kubectl("delete", "configmap", "py-head", "--wait=false")
    marker = create("py-later")
    uid = owner["metadata"]["uid"]
    kube_gc.wait_idle(configmaps=marker["metadata"]["resourceVersion"], owner=uid)
    left = kubectl("get", "configmaps", "--output", "name")
    assert "py-middle" not in left and "py-last" not in left
    kubectl("delete", "configmap", "py-later")
    kube_gc.wait_idle(deployments=1, namespace="default")
    with pytest.raises(CollectorError, match="400.*owner= needs a uid"):
        kube_gc.wait_idle(owner="")
    with pytest.raises(CollectorError, match="400.*is no name of a namespace"):
        kube_gc.wait_idle(namespace="")


@pytest.mark.parametrize("kube_gc", [["--log-format", "json"]], indirect=True)
def test_the_fixture_takes_arguments(kube_gc):
    assert '"message":' in kube_gc.log()


def test_arguments_are_a_list_or_none(tmp_path):
    with pytest.raises(TypeError, match="must be a list"):
        Collector(tmp_path / "missing", binary="true", args="--finish-namespaces")
    with pytest.raises(CollectorError, match="ended with 0"):
        Collector(tmp_path / "missing", binary="true", args=None)


def test_it_can_be_imported_without_pytest():
    program = "import sys; sys.modules['pytest'] = None; import kube_gc; kube_gc.Collector"
    subprocess.run([sys.executable, "-c", program], cwd=os.path.dirname(__file__), check=True)


def test_the_ini_option_has_arguments(pytester):
    pytester.makeini("[pytest]\ngc_args = --no-such-flag 'with a space'")
    pytester.makeconftest("pytest_plugins = ['kube_gc']")
    pytester.makepyfile(test_it="def test_it(kube_gc): pass")
    pytester.makepyfile(kube_gc=Path(__file__).with_name("kube_gc.py").read_text())
    pytester.runpytest_subprocess().stdout.fnmatch_lines(["*--no-such-flag*"])


def test_waiting_ends_with_its_time_or_a_wrong_version(kube_gc):
    with pytest.raises(CollectorError, match="(?s)not idle: .*configmaps"):
        kube_gc.wait_idle(configmaps=999999999, timeout=0.1)
    with pytest.raises(CollectorError, match="(?s)404.*no type configmap is watched"):
        kube_gc.wait_idle(configmap=1)
    with pytest.raises(CollectorError, match="400"):
        kube_gc.wait_idle({"": "1"})
    with pytest.raises(CollectorError, match="400.*not a whole number"):
        kube_gc.wait_idle(configmaps="newest")


def test_a_collector_that_has_ended_is_an_error(gc_kubeconfig):
    collector = Collector(gc_kubeconfig)
    os.kill(collector.pid, signal.SIGKILL)
    with pytest.raises(CollectorError, match="ended with -9"):
        collector.wait_idle(configmaps=999999999)
    with pytest.raises(CollectorError, match="ended with -9"):
        collector.stop()
    collector.stop()


def test_a_collector_that_cannot_start_shows_its_log(tmp_path):
    with pytest.raises(CollectorError, match="(?s)ended with .*missing"):
        Collector(tmp_path / "missing")


def test_a_process_that_is_killed_leaves_neither_a_collector_nor_a_file(gc_kubeconfig, tmp_path):
    program = textwrap.dedent("""
        import sys, kube_gc
        from pathlib import Path
        print(kube_gc.Collector(Path(sys.argv[1]).read_bytes()).pid, flush=True)
        sys.stdin.read()
    """)
    arguments = [sys.executable, "-c", program, gc_kubeconfig]
    options = {"cwd": os.path.dirname(__file__), "env": {**os.environ, "TMPDIR": str(tmp_path)}, "text": True}
    parent = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
    collector = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    # It is the child of another process now, which may be slow to collect it.
    deadline = time.monotonic() + 30
    while True:
        assert time.monotonic() < deadline, "the collector is still there"
        try:
            state = Path(f"/proc/{collector}/stat").read_text().rpartition(") ")[2]
        except FileNotFoundError:
            break
        if state.startswith("Z"):
            break
        time.sleep(0.01)
    parent.stdin.close()
    assert list(tmp_path.iterdir()) == []


def test_the_binary_is_looked_for_in_the_assets_and_then_in_path(tmp_path, monkeypatch):
    def executable(directory):
        path = tmp_path / directory / "kube-gc"
        path.parent.mkdir()
        path.write_text("#!/bin/sh\n")
        path.chmod(0o700)
        return str(path)

    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(CollectorError, match="cargo install"):
        find_binary()
    in_path = executable("bin")
    assert find_binary() == in_path
    in_assets = executable("assets")
    assert find_binary() == in_assets
