# quadsim on a plain Debian: its Python, and everything else, ROS 2 included, as wheels.
#
#   docker build --file docker/wheels.Dockerfile --tag quadsim .
#   docker run --rm --network host --ipc host quadsim fly
#
# docker/try_in_chroot.py runs these steps without Docker.
FROM debian:bookworm-slim

# Debian's own packages change within a release only to mend faults: no versions are named.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/quadsim \
    && useradd --create-home --uid 1000 quad

ENV PATH=/opt/quadsim/bin:/usr/local/bin:/usr/bin:/bin \
    RMW_IMPLEMENTATION=rmw_fastrtps_cpp \
    ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST

WORKDIR /usr/src/quadsim
COPY LICENSE constraints.txt package.xml pyproject.toml setup.cfg setup.py ./
COPY config config
COPY launch launch
COPY resource resource
COPY worlds worlds
COPY src src

# setuptools first, at the version that the constraints name: pip would fetch another to build with.
RUN pip install --no-cache-dir --no-input --constraint constraints.txt setuptools wheel \
    && pip install --no-cache-dir --no-input --no-build-isolation --constraint constraints.txt '.[ros,view,lab,terrain]' \
    && rm -rf build src/quadsim.egg-info

USER 1000:1000
ENV HOME=/home/quad
WORKDIR /home/quad

# Kernels are for the processor that this runs on; on another kind they are compiled anew, once.
RUN mkdir runs && python -m quadsim.precompile

ENTRYPOINT ["quadsim"]
CMD ["--help"]
