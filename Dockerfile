# Two images. The default one is of the flows' worker and of Prefect's server; docs/production.md explains how to run
# them. `--target serve` is of a model behind a port, `tuneline serve`, without torch and DVC; docs/service.md explains it.
# Needs BuildKit (any Docker since 18.09; the default since 23).
# The tag moves with Debian's security fixes. To build on one image for ever: --build-arg BASE_IMAGE=python@sha256:...
ARG BASE_IMAGE=python:3.11-slim-bookworm

# Wheels that should not come from the registry, such as a build of torch without CUDA: put them into wheels/ beside this file.
# requirements.txt is copied as well, so that the folder always exists.
FROM scratch AS wheels
COPY requirements.txt wheel[s]/ /wheels/

FROM ${BASE_IMAGE} AS uv
ARG UV_VERSION=0.13.8
# System certificates, because a company may add its own. Bytecode is compiled here, because the worker's user cannot write it.
ENV UV_NO_CACHE=1 \
    UV_SYSTEM_CERTS=1 \
    UV_LINK_MODE=copy \
    UV_COMPILE_BYTECODE=1 \
    UV_PYTHON_DOWNLOADS=never \
    VIRTUAL_ENV=/opt/tuneline
# git for an engine that pyproject.toml names by an address of git.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/uv \
    && /opt/uv/bin/python -m pip install --no-cache-dir --disable-pip-version-check uv==${UV_VERSION} \
    && /opt/uv/bin/uv venv --python "$(command -v python3)" "$VIRTUAL_ENV"
WORKDIR /app

FROM uv AS build
# A folder or a page with wheels, as for pip's --find-links.
ARG FIND_LINKS=/wheels
COPY pyproject.toml requirements.txt ./
# The dependencies of pyproject.toml without the developers' tools, at the versions and with the hashes that requirements.txt pins. In a
# project, the engine is one of them.
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    /opt/uv/bin/uv pip install --find-links "$FIND_LINKS" --constraints requirements.txt --build-constraints requirements.txt \
    --requirements pyproject.toml
COPY README.md prefect.yaml ./
COPY conf/notifications.yaml conf/
COPY flows flows
COPY stages stages
# The repository of the engine has it in a folder.
RUN --mount=type=bind,target=/context \
    if [ -d /context/tuneline ]; then \
      cp -r /context/tuneline /context/setup.py /context/LICENSE . \
      && /opt/uv/bin/uv pip install --no-deps --build-constraints requirements.txt --editable .; \
    fi \
    && "$VIRTUAL_ENV/bin/python" -m compileall -q .

FROM uv AS build-serve
ARG FIND_LINKS=/wheels
COPY pyproject.toml requirements.txt README.md ./
# The group `serve` of pyproject.toml, at the versions and with the hashes that requirements.txt pins, and the engine alone.
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    --mount=type=bind,target=/context \
    /opt/uv/bin/uv pip install --find-links "$FIND_LINKS" --constraints requirements.txt --group serve \
    && if [ -d /context/tuneline ]; then \
      cp -r /context/tuneline /context/setup.py /context/LICENSE . \
      && /opt/uv/bin/uv pip install --no-deps --build-constraints requirements.txt .; \
    else \
      /opt/uv/bin/uv pip install --no-deps --find-links "$FIND_LINKS" --build-constraints requirements.txt --requirements pyproject.toml; \
    fi

FROM ${BASE_IMAGE} AS serve
ARG UID=1000
# A folder of exported models, in the build context. For another than this one, .dockerignore needs a line, too.
ARG MODEL=models/onnx
RUN useradd --uid "$UID" --user-group --no-create-home --shell /usr/sbin/nologin tuneline
COPY --from=build-serve /opt/tuneline /opt/tuneline
COPY ${MODEL} /model
ENV PATH=/opt/tuneline/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DO_NOT_TRACK=1 \
    HF_HUB_OFFLINE=1 \
    ORT_DISABLE_TELEMETRY=1
LABEL org.opencontainers.image.title="Tuneline: a model" \
      org.opencontainers.image.description="A transformer text classifier behind a port" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
USER ${UID}
EXPOSE 8000
# This path needs no token.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
# It demands TUNELINE_SERVICE_TOKEN. It handles SIGTERM and starts no process, so it may be the first one.
ENTRYPOINT ["tuneline", "serve", "--model", "/model", "--host", "0.0.0.0"]

FROM ${BASE_IMAGE} AS run
ARG UID=1000
# Not pinned: Debian keeps one version of each in a release, with its security fixes.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git openssh-client tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
    && useradd --uid "$UID" --user-group --create-home --shell /usr/sbin/nologin tuneline \
    && install --directory --owner tuneline --group tuneline /srv/tuneline /origin /artifacts
COPY containers/gitconfig /etc/gitconfig
COPY containers/git-credential-token /usr/local/bin/
WORKDIR /app
COPY --from=build /opt/tuneline /opt/tuneline
COPY --from=build /app /app
ENV PATH=/opt/tuneline/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TUNELINE_REPOSITORY=/srv/tuneline/line \
    PREFECT_WORKER_WEBSERVER_HOST=127.0.0.1 \
    DO_NOT_TRACK=1 \
    DVC_NO_ANALYTICS=1 \
    GX_ANALYTICS_ENABLED=false \
    HF_HUB_DISABLE_TELEMETRY=1 \
    HF_UPDATE_DOWNLOAD_COUNTS=false \
    ITERATIVE_DO_NOT_TRACK=1 \
    ORT_DISABLE_TELEMETRY=1 \
    PREFECT_SERVER_ANALYTICS_ENABLED=false \
    RAY_USAGE_STATS_ENABLED=0 \
    PREFECT_UI_STATIC_DIRECTORY=/home/tuneline/.prefect/ui
LABEL org.opencontainers.image.title="Tuneline" \
      org.opencontainers.image.description="Worker and Prefect server of a pipeline for fine-tuning transformer text classifiers" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
USER ${UID}
VOLUME /srv/tuneline
# Health of a worker: it answers as long as it polls its work pool for runs.
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=5)"]
# tini forwards SIGTERM to the worker, which ends its runs, and reaps orphaned processes.
ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "tuneline.operations.server.worker", "--with-healthcheck"]
