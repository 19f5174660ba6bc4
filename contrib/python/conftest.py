pytest_plugins = ["kube_gc", "pytester"]
