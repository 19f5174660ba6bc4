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


def test_waiting_ends_with_its_time_or_a_wrong_version(kube_gc):
    with pytest.raises(CollectorError, match="(?s)not idle: .*configmaps"):
        kube_gc.wait_idle(configmaps=999999999, timeout=0.1)
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


def test_the_collector_ends_with_a_process_that_is_killed(gc_kubeconfig):
    program = textwrap.dedent("""
        import sys, kube_gc
        print(kube_gc.Collector(sys.argv[1]).pid, flush=True)
        sys.stdin.read()
    """)
    arguments = [sys.executable, "-c", program, gc_kubeconfig]
    here = os.path.dirname(__file__)
    parent = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=here)
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


def test_the_binary_is_looked_for_in_the_assets_and_then_in_path(tmp_path, monkeypatch):
    def executable(directory):
        path = tmp_path / directory / "kube-gc"
        path.parent.mkdir()
        path.write_text("#!/bin/sh\n")
        path.chmod(0o700)
        return str(path)

    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(CollectorError, match="make install-envtest"):
        find_binary()
    in_path = executable("bin")
    assert find_binary() == in_path
    in_assets = executable("assets")
    assert find_binary() == in_assets
