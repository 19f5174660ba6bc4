#!/usr/bin/env bash
# Runs a control plane, etcd and kube-apiserver, on free loopback ports:
#
#   tests/control-plane/serve.sh [--dir DIR] [-- KUBE_APISERVER_FLAG...]
#
# It runs as long as its standard input is open. At end of file, which follows
# any end of its parent, and on TERM, INT and HUP, it kills both servers and
# removes their directory.
#
# When the API server is ready, one line of JSON goes to standard output:
#
#   {"kubeconfig": PATH, "url": "https://127.0.0.1:PORT",
#    "etcd": "http://127.0.0.1:PORT", "dir": DIR, "bin": DIR,
#    "apiserver_pid": N, "etcd_pid": N, "version": "v1.20.2"}
#
# The user of the kubeconfig is in system:masters. Everything else (data, keys,
# logs of the servers) is also in the directory.
#
# With --dir, the directory is kept. A later run with the same directory uses the
# same data, keys and ports, so that the kubeconfig stays valid.
#
# Lines on standard input are commands; each is answered by the same line of
# JSON, where the pid of a server that is down is null:
#
#   kill etcd | kill kube-apiserver     SIGKILL
#   start etcd | start kube-apiserver   with the same ports and data
#
# If a server ends without a command, everything ends with status 1 and the end
# of the server's log on standard error.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { printf 'control-plane: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 1
}

dir=
keep=
while (($#)); do
  case $1 in
    --dir)
      [[ -n ${2:-} ]] || die "--dir needs a directory"
      dir=$2
      keep=1
      shift 2
      ;;
    --)
      shift
      break
      ;;
    *) die "usage: $0 [--dir DIR] [-- KUBE_APISERVER_FLAG...]" ;;
  esac
done
extra_flags=("$@")

for tool in curl openssl; do
  type -P "$tool" >/dev/null || die "$tool is missing"
done

bin=$("$here/ensure.sh" </dev/null)

# ---------------------------------------------------------------------------
# The directory.

if [[ -n $keep ]]; then
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
else
  # In memory if there is room: etcd is only as fast as its disk.
  base=${TMPDIR:-/tmp}
  if [[ -w /dev/shm ]] && (($(df --output=avail -k /dev/shm | tail -n 1) > 1 << 20)); then
    base=/dev/shm
  fi
  dir=$(mktemp -d "$base/kube-gc-control-plane.XXXXXX")
fi

declare -A pid=()

stop() {
  local name=$1
  [[ -n ${pid[$name]:-} ]] || return 0
  kill -KILL "${pid[$name]}" 2>/dev/null || :
  # Waited for, so that nothing is written to the directory any more; the
  # redirection swallows the shell's "Killed".
  { wait "${pid[$name]}" || :; } 2>/dev/null
  unset "pid[$name]"
}

tear_down() {
  trap '' INT TERM HUP
  stop kube-apiserver
  stop etcd
  [[ -n $keep ]] || rm -rf "$dir"
}
trap tear_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

cd "$dir"

# ---------------------------------------------------------------------------
# Keys.

issue_certificates() {
  local new_key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes) ca
  # Our own configuration, because those of systems differ.
  cat >openssl.cnf <<'CNF'
[req]
distinguished_name = name
prompt = no
[name]
[ca]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, digitalSignature
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, DNS:kubernetes.default.svc, IP:127.0.0.1
[client]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = clientAuth
CNF
  # The front proxy has its own CA. Otherwise any client certificate could
  # impersonate any user.
  for ca in ca front-proxy-ca; do
    openssl req -x509 -config openssl.cnf -extensions ca "${new_key[@]}" -sha256 -days 3650 \
      -subj "/CN=kube-gc-test-$ca" -keyout "$ca.key" -out "$ca.crt" 2>>openssl.log
  done
  issue() {
    local name=$1 ca=$2 section=$3 subject=$4
    openssl req -new -config openssl.cnf "${new_key[@]}" -sha256 -subj "$subject" -keyout "$name.key" 2>>openssl.log |
      openssl x509 -req -sha256 -days 3650 -CA "$ca.crt" -CAkey "$ca.key" -set_serial "0x$(openssl rand -hex 8)" \
        -extfile openssl.cnf -extensions "$section" -out "$name.crt" 2>>openssl.log
  }
  issue apiserver ca server /CN=kube-apiserver
  issue admin ca client /O=system:masters/CN=admin
  issue front-proxy front-proxy-ca client /CN=front-proxy
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out service-account.key 2>>openssl.log
  openssl pkey -in service-account.key -pubout -out service-account.pub
}

if [[ ! -s service-account.pub ]]; then
  issue_certificates || die "openssl failed: $(tail -n 5 openssl.log)"
fi

# The API server verifies a client certificate anew for each request, which is a tenth of its
# work in the tests. It looks a token up.
if [[ ! -s tokens.csv ]]; then
  printf '%s,admin,admin,system:masters\n' "$(openssl rand -hex 32)" >tokens.csv
fi
IFS=, read -r token _ <tokens.csv

# ---------------------------------------------------------------------------
# Servers.

# If this shell is killed, the kernel stops the servers.
with_us=()
if setpriv --pdeathsig KILL true 2>/dev/null; then
  with_us=(setpriv --pdeathsig KILL)
fi

etcd_flags=()
if "$bin/etcd" --unsafe-no-fsync --version >/dev/null 2>&1; then
  etcd_flags+=(--unsafe-no-fsync)
fi

# A free port. It is below the range that the kernel uses for outgoing
# connections, so that none of these can take it.
free_port() {
  local port
  while :; do
    port=$((10000 + SRANDOM % 20000))
    if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
      printf '%s\n' "$port"
      return
    fi
  done
}

get() {
  curl --silent --fail --noproxy '*' --max-time 5 \
    --cacert ca.crt --cert admin.crt --key admin.key "https://127.0.0.1:$apiserver_port$1"
}

# Both conditions hold only for our own server, even if another process has taken
# the port: the name of the member is random, and the CA is our own.
etcd_ready() {
  local members
  members=$(curl --silent --fail --noproxy '*' --max-time 5 --data '{}' "http://127.0.0.1:$etcd_port/v3/cluster/member/list") &&
    [[ $members == *"\"$member\""* ]]
}
# The namespace appears shortly after readiness, and every user of the server needs it.
kube_apiserver_ready() { get /readyz >/dev/null && get /api/v1/namespaces/default >/dev/null; }

alive() { kill -0 "${pid[$1]}" 2>/dev/null; }

run() {
  local name=$1
  shift
  # No other variables, because the servers would read ETCD_* and the like.
  env -i PATH="$PATH" HOME="$dir" TMPDIR="$dir" ${GOGC:+GOGC="$GOGC"} "${with_us[@]}" "$bin/$name" "$@" \
    </dev/null >>"$name.log" 2>&1 &
  pid[$name]=$!
}

run_etcd() {
  run etcd --name "$member" --data-dir "$dir/etcd" "${etcd_flags[@]}" \
    --listen-client-urls "http://127.0.0.1:$etcd_port" --advertise-client-urls "http://127.0.0.1:$etcd_port" \
    --listen-peer-urls http://127.0.0.1:0 --initial-advertise-peer-urls http://127.0.0.1:0 \
    --initial-cluster "$member=http://127.0.0.1:0"
}

run_kube_apiserver() {
  local flags=(
    --etcd-servers="http://127.0.0.1:$etcd_port"
    --bind-address=127.0.0.1
    --advertise-address=127.0.0.1
    --secure-port="$apiserver_port"
    # Endpoints must not have a loopback address.
    --endpoint-reconciler-type=none
    --cert-dir="$dir"
    --tls-cert-file=apiserver.crt
    --tls-private-key-file=apiserver.key
    --client-ca-file=ca.crt
    --token-auth-file=tokens.csv
    --service-account-issuer=https://kubernetes.default.svc
    --service-account-key-file=service-account.pub
    --service-account-signing-key-file=service-account.key
    --service-cluster-ip-range=10.0.0.0/24
    --authorization-mode=RBAC
    --allow-privileged=true
    # Pods would wait for the service account that no controller creates.
    --disable-admission-plugins=ServiceAccount
    # For aggregated APIs. Not --enable-aggregator-routing: without it an
    # APIService can reach a server on this machine by an ExternalName service.
    --requestheader-client-ca-file=front-proxy-ca.crt
    --requestheader-allowed-names=front-proxy
    --requestheader-username-headers=X-Remote-User
    --requestheader-group-headers=X-Remote-Group
    --requestheader-extra-headers-prefix=X-Remote-Extra-
    --proxy-client-cert-file=front-proxy.crt
    --proxy-client-key-file=front-proxy.key
  )
  run kube-apiserver "${flags[@]}" "${extra_flags[@]}"
}

# Starts a server and returns when it is ready. Fails if it ended at once
# because its port is taken; ends the script if it fails otherwise.
start() {
  local name=$1 deadline
  : >"$name.log"
  case $name in
    etcd) run_etcd ;;
    kube-apiserver) run_kube_apiserver ;;
  esac
  deadline=$((SECONDS + 90))
  until "${name//-/_}_ready"; do
    if ! alive "$name"; then
      stop "$name"
      grep -q 'address already in use' "$name.log" && return 1
      show_log "$name"
      die "$name ended before it was ready"
    fi
    if ((SECONDS >= deadline)); then
      show_log "$name"
      die "$name is not ready after 90 s"
    fi
    sleep 0.05
  done
}

show_log() {
  say "the end of $1.log:"
  tail -n 25 "$1.log" >&2 || :
}

report() {
  escaped() {
    local text=${1//\\/\\\\}
    printf '"%s"' "${text//\"/\\\"}"
  }
  printf '{"kubeconfig":%s,"url":"https://127.0.0.1:%s","etcd":"http://127.0.0.1:%s","dir":%s,"bin":%s,"apiserver_pid":%s,"etcd_pid":%s,"version":"%s"}\n' \
    "$(escaped "$dir/kubeconfig")" "$apiserver_port" "$etcd_port" "$(escaped "$dir")" "$(escaped "$bin")" \
    "${pid[kube-apiserver]:-null}" "${pid[etcd]:-null}" "$version"
}

member=kube-gc-$(openssl rand -hex 8)
etcd_port=
apiserver_port=
if [[ -s ports ]]; then
  # An earlier run's directory.
  read -r member etcd_port apiserver_port <ports
  start etcd || die "port $etcd_port is taken"
  start kube-apiserver || die "port $apiserver_port is taken"
else
  # Another process may take the port before the server binds it.
  for server in etcd kube-apiserver; do
    for attempt in 1 2 3 4 5 6; do
      ((attempt < 6)) || die "no free port found for $server"
      case $server in
        etcd) etcd_port=$(free_port) ;;
        *) apiserver_port=$(free_port) ;;
      esac
      start "$server" && break
    done
  done
  printf '%s %s %s\n' "$member" "$etcd_port" "$apiserver_port" >ports
fi

version=$(get /version | sed -n 's/.*"gitVersion": *"\([^"]*\)".*/\1/p')

cat >kubeconfig <<KUBECONFIG
apiVersion: v1
kind: Config
clusters:
  - name: test
    cluster:
      server: https://127.0.0.1:$apiserver_port
      certificate-authority-data: $(base64 -w 0 ca.crt)
users:
  - name: admin
    user:
      token: $token
contexts:
  - name: test
    context: {cluster: test, user: admin}
current-context: test
KUBECONFIG

report

# ---------------------------------------------------------------------------
# Until the end of the input.

# The time may be over in the middle of a command. What has arrived by then is kept.
arrived=
while :; do
  if IFS= read -r -t 1 part; then
    command=$arrived$part
    arrived=
    case $command in
      "kill etcd" | "kill kube-apiserver") stop "${command#kill }" ;;
      "start etcd" | "start kube-apiserver")
        [[ -n ${pid[${command#start }]:-} ]] || start "${command#start }" || die "its port is taken"
        ;;
      *) die "unknown command: $command" ;;
    esac
    report
  elif (($? > 128)); then
    arrived+=$part
  else
    break
  fi
  for server in "${!pid[@]}"; do
    if ! alive "$server"; then
      show_log "$server"
      die "$server ended unexpectedly"
    fi
  done
done
