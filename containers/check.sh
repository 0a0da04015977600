#!/usr/bin/env bash
# Builds the images, runs compose.yaml and removes everything again, on a Debian machine without access to an image registry.
# A training requested through the server must leave a branch in git and artifacts in the DVC remote, and the image of the target `serve`
# must answer with its model.
#
#   sudo containers/check.sh        (apt-get install docker.io docker-compose debootstrap git; from Docker 23 on docker-buildx)
#
# A separate Docker daemon runs in a temporary folder. Images that cannot be pulled are built: the
# base image by debootstrap, under the name in the Dockerfile, and PostgreSQL's from Debian's package
# (containers/postgres). Environment:
#   WHEELS   folder of wheels that are not to come from the registry (a build of torch without CUDA, say)
#   CERTS    folder of certificates (*.crt) that the base image trusts besides Debian's
#   BASE     folder that debootstrap filled before; made anew unless given
#   FOLDER   working folder (some 40 GB while it runs, because its storage driver shares no layers); kept where it is given, else temporary
#   DOCKER, COMPOSE   the commands, where they are others
set -euo pipefail
cd "$(dirname "$0")/.."
source=$PWD
docker=${DOCKER:-docker}
read -ra compose <<< "${COMPOSE:-docker-compose}"
folder=${FOLDER:-$(mktemp --directory)}
base_image=$(sed -n 's/^ARG BASE_IMAGE=//p' Dockerfile)
database_image=$(sed -n 's/^ *image: \(postgres:.*\)/\1/p' compose.yaml)
release=${base_image##*-}
export DOCKER_HOST=unix://$folder/docker.sock DOCKER_BUILDKIT=1 COMPOSE_PROJECT_NAME=tuneline-check
export POSTGRES_PASSWORD=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export PREFECT_API_AUTH_STRING=tuneline:$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export COMPOSE_HTTP_TIMEOUT=900 OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export PREFECT_PORT=${PREFECT_PORT:-4299} TUNELINE_ORIGIN_FOLDER=$folder/origin

say() { printf '\n== %s\n' "$*"; }

fail() {
  printf 'check.sh: %s\n' "$*" >&2
  exit 1
}

down() {
  status=$?
  say "Taking it down"
  if [[ -S $folder/docker.sock ]]; then
    ((status)) && "${compose[@]}" logs --tail 40 || true
    "${compose[@]}" down --volumes --timeout 60 > "$folder/down.log" 2>&1 || true
  fi
  if [[ -s $folder/docker.pid ]]; then
    daemon=$(cat "$folder/docker.pid")
    kill "$daemon"
    tail --pid "$daemon" --follow /dev/null
  fi
  [[ -n ${FOLDER:-} ]] || rm -rf "$folder"
  exit "$status"
}

start_docker() {
  say "Docker daemon"
  mkdir -p "$folder"
  dockerd --iptables=false --bridge=none --storage-driver=vfs --host "$DOCKER_HOST" --pidfile "$folder/docker.pid" \
    --data-root "$folder/docker" --exec-root "$folder/exec" > "$folder/dockerd.log" 2>&1 &
  for _ in {1..60}; do
    "$docker" info > /dev/null 2>&1 && return
    sleep 1
  done
  fail "the Docker daemon does not answer; see $folder/dockerd.log"
}

import_base() {
  "$docker" image inspect "$base_image" > /dev/null 2>&1 && return
  say "$base_image, by debootstrap"
  base=${BASE:-$folder/base}
  [[ -d $base/etc ]] || debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$release" "$base" > "$folder/debootstrap.log"
  if [[ -n ${CERTS:-} ]]; then
    cp "$CERTS"/*.crt "$base/usr/local/share/ca-certificates/"
    chroot "$base" update-ca-certificates > /dev/null
  fi
  tar --directory "$base" --create . | "$docker" import - "$base_image"
}

build() {
  say "Building the image"
  context=$folder/context
  rm -rf "$context" && mkdir -p "$context"
  git ls-files --cached --others --exclude-standard | tar --create --files-from - | tar --directory "$context" --extract
  [[ -z ${WHEELS:-} ]] || cp --recursive "$WHEELS" "$context/wheels"
  "$docker" build --network host --tag "$(sed -n 's/^ *image: \(tuneline:.*\)/\1/p' compose.yaml)" "$context" 2>&1 | tee "$folder/build.log" | grep -E '^#[0-9]+ (\[|DONE|ERROR)' || fail "see $folder/build.log"
  "$docker" build --network host --build-arg BASE_IMAGE="$base_image" --tag "$database_image" "$context/containers/postgres" > "$folder/build-postgres.log" 2>&1 || fail "see $folder/build-postgres.log"
  "$docker" image ls
}

make_origin() {
  say "A git repository of this machine, in place of a git host"
  rm -rf "$folder/origin"
  rm -rf "$folder/clone"
  git clone --quiet "$source" "$folder/clone"
  sed -i '/^training:/,/^[a-z]/{s|ref: main|ref: origin/main|;s|push: false|push: true|}' "$folder/clone/conf/flows.yaml"
  git -C "$folder/clone" -c user.name=check -c user.email=check@localhost commit --quiet --all --message "Push results"
  git clone --quiet --bare "$folder/clone" "$folder/origin"
  git -C "$folder/origin" branch --force main "$(git -C "$folder/clone" rev-parse HEAD)"
  git -C "$folder/origin" symbolic-ref HEAD refs/heads/main
  chown --recursive 1000:1000 "$folder/origin"
}

inside() { "${compose[@]}" exec -T worker "$@"; }

health() { "$docker" inspect --format '{{.State.Health.Status}}' "$("${compose[@]}" ps -q "$1")"; }

up() {
  say "Starting it"
  "${compose[@]}" up --detach --no-build
  for _ in {1..90}; do
    [[ $(health worker 2> /dev/null) == healthy ]] && break
    sleep 2
  done
  for service in database server worker; do
    printf '%s: %s\n' "$service" "$(health $service)"
    [[ $(health $service) == healthy ]] || fail "$service is not healthy"
  done
  [[ $(inside id -u) != 0 ]] || fail "the worker is root"
  inside id
  "${compose[@]}" exec -T database sh -c 'PGPASSWORD=$POSTGRES_PASSWORD psql --username prefect --command "select name, created from deployment" prefect'
  "${compose[@]}" exec -T server python -c "import urllib.request as r; print('UI:', r.urlopen('http://127.0.0.1:4200/').read(15).decode())"
  "${compose[@]}" exec -T -e PREFECT_API_AUTH_STRING= worker prefect work-pool ls > "$folder/refused.log" 2>&1 && fail "the server lets everybody in"
  grep -q 401 "$folder/refused.log" || fail "see $folder/refused.log"
}

branch() { # pushes a branch with other parameters: NAME SED
  inside sh -euc "
    rm -rf /tmp/branch && git clone --quiet /origin /tmp/branch && cd /tmp/branch && git switch --quiet -c $1
    sed -i '$2' params.yaml
    git -c user.name=check -c user.email=check@localhost commit --quiet --all --message 'Parameters of a check'
    git push --quiet origin $1"
}

train() {
  say "A training, asked for through the server"
  branch small 's/{rows: [0-9]*/{rows: 1500/; s/^  epochs: .*/  epochs: 8/; s/^  learning_rate: .*/  learning_rate: 2.0e-3/'
  inside prefect deployment run train/train-on-demand --param ref=origin/small --watch
}

look() {
  say "What it left"
  branch=$(inside git -C /origin branch --list 'runs/*' --format='%(refname:short)')
  [[ -n $branch ]] || fail "no branch runs/... was pushed"
  inside git -C /origin log -1 --stat "$branch"
  inside git -C /origin tag --list
  say "A fresh clone fetches the model of $branch from the DVC remote, and predicts with it"
  inside sh -euc "
    rm -rf /tmp/look && mkdir /tmp/look && cd /tmp/look
    git clone --quiet --branch '$branch' /origin line && cd line
    dvc remote add --quiet --local --default artifacts /artifacts
    dvc pull models/onnx
    ls -l models/onnx
    printf 'subject,body\nInvoice,The parcel came but the invoice is wrong\n' > new.csv
    tuneline predict new.csv"
}

serve_model() {
  say "The image of that model, behind a port"
  mkdir -p "$context/models"
  "$docker" cp "$("${compose[@]}" ps -q worker):/tmp/look/line/models/onnx" "$context/models/onnx"
  "$docker" build --network host --target serve --tag tuneline-serve:check "$context" > "$folder/build-serve.log" 2>&1 || fail "see $folder/build-serve.log"
  "$docker" image ls tuneline-serve
  "$docker" run --rm --network none tuneline-serve:check > "$folder/no-token.log" 2>&1 && fail "it starts without a token"
  grep -q TUNELINE_SERVICE_TOKEN "$folder/no-token.log" || fail "see $folder/no-token.log"

  export TUNELINE_SERVICE_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
  model=$("$docker" run --detach --read-only --cap-drop ALL --network "${COMPOSE_PROJECT_NAME}_default" --network-alias model \
    --env TUNELINE_SERVICE_TOKEN tuneline-serve:check)
  for _ in {1..60}; do
    [[ $("$docker" inspect --format '{{.State.Health.Status}}' "$model") == healthy ]] && break
    sleep 1
  done
  [[ $("$docker" inspect --format '{{.State.Health.Status}}' "$model") == healthy ]] || fail "it is not healthy: $("$docker" logs "$model" 2>&1)"
  [[ $("$docker" exec "$model" id -u) != 0 ]] || fail "it is root"
  inside python -c "
import json, sys, urllib.request
body = json.dumps({'inputs': [['Invoice', 'The parcel came but the invoice is wrong']]}).encode()
headers = {'Content-Type': 'application/json', 'Authorization': 'Bearer ' + sys.argv[1]}
print(urllib.request.urlopen(urllib.request.Request('http://model:8000/predict', body, headers), timeout=30).read().decode())
" "$TUNELINE_SERVICE_TOKEN"
  "$docker" stop --time 60 "$model" > "$folder/stop.log"
  [[ $("$docker" inspect --format '{{.State.ExitCode}}' "$model") == 0 ]] || fail "it did not end by itself"
  "$docker" rm "$model" > "$folder/stop.log"
}

stop_and_start() {
  say "Stopped in the middle of a training, a worker saves a checkpoint; started again, it resumes from there"
  branch long 's/{rows: [0-9]*/{rows: 1500/; s/^  epochs: .*/  epochs: 60/; s/^  checkpoint_every_steps: .*/  checkpoint_every_steps: 1000/'
  inside prefect deployment run train/train-on-demand --param ref=origin/long --param promote=false > "$folder/second.log"
  run=$(sed -n 's/.*UUID: //p' "$folder/second.log")
  wait_for "$run" ' of .* loss'
  "${compose[@]}" stop worker
  "${compose[@]}" start worker
  wait_for "$run" '(resumes|goes on) from .*step'
  inside prefect flow-run logs "$run" | grep -E 'interrupted by|(resumes|goes on) from|earlier attempt'
}

wait_for() {
  for _ in {1..150}; do
    inside prefect flow-run logs "$1" 2> /dev/null | grep -qE "$2" && return
    sleep 2
  done
  inside prefect flow-run logs "$1" | tail -40
  fail "'$2' did not appear in the log"
}

trap down EXIT
start_docker
import_base
build
make_origin
up
train
look
serve_model
stop_and_start
say "All of it works"
