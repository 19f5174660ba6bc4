module kube-gc.io/kubegc

go 1.19
