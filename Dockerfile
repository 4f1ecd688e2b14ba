# The runner's image: Python, the pinned dependencies and the program, all byte-compiled; no pip, no compiler.
#
# BASE is Debian or alike with Python 3.11 as `python3`, venv included; it may already hold tini. See image/build.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
# Two environments: /opt/tools has pip and the build backend and stays here, /opt/runner is what is shipped.
RUN python3 -m venv /opt/tools && python3 -m venv --without-pip /opt/runner
# pip.conf and ca.pem are optional build secrets: a private index and its certificate leave no trace in the image.
COPY requirements/ requirements/
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf --mount=type=secret,id=ca.pem,target=/run/secrets/ca.pem \
    /opt/tools/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/build.txt \
    && /opt/tools/bin/python -m pip --python /opt/runner/bin/python install --no-cache-dir --no-compile \
       --only-binary :all: --require-hashes -r requirements/runtime.txt
COPY . .
RUN /opt/tools/bin/python -m pip wheel --no-index --no-deps --no-build-isolation --wheel-dir /tmp/wheel . \
    && /opt/tools/bin/python -m pip --python /opt/runner/bin/python install --no-index --no-deps --no-compile /tmp/wheel/*.whl \
    # Unchecked: nothing changes in an image, and file times may be rewritten on its way.
    && /opt/runner/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/runner/lib

FROM ${BASE}
# Some bases ship the standard library without byte code; nobody could write it later, and every start would pay.
# hadolint ignore=DL3008  # the version of tini is the base's affair
RUN if ! command -v tini >/dev/null; then \
      apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/*; \
    fi \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -x '/(test|tests|lib2to3|idlelib|site-packages|dist-packages)/' \
       "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && mkdir -p /pipeline/workspace && chown -R 10001:10001 /pipeline
COPY --from=build /opt/runner /opt/runner
ENV PATH=/opt/runner/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
# All that is ever written to; the root file system may be mounted read-only.
VOLUME ["/tmp", "/pipeline/workspace"]
WORKDIR /pipeline
# tini reaps what tools leave behind, also where it is not process 1 (-s), and passes SIGTERM to the runner alone (no -g),
# which ends its tools itself.
ENTRYPOINT ["tini", "-s", "--", "runner"]
CMD ["run"]
