# quadsim on ROS 2 Jazzy with Gazebo Harmonic, ros_gz, and the messages of mavros.
#
#   docker build --file docker/gazebo.Dockerfile --tag quadsim-gazebo .
#   docker run --rm --network host --ipc host quadsim-gazebo ros2 launch quadsim gazebo.launch.py
FROM ros:jazzy

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# ROS's packages of a distribution are replaced by newer ones, and the old ones are not kept.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        python3-colcon-common-extensions \
        python3-pip \
        ros-jazzy-actuator-msgs \
        ros-jazzy-mavros-msgs \
        ros-jazzy-ros-gz \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/quadsim
COPY LICENSE constraints.txt package.xml pyproject.toml setup.cfg setup.py src/quadsim/
COPY config src/quadsim/config
COPY examples/parts src/quadsim/examples/parts
COPY launch src/quadsim/launch
COPY resource src/quadsim/resource
COPY worlds src/quadsim/worlds
COPY src src/quadsim/src

# What rosdep knows are Ubuntu's packages; the others are wheels, at the versions of the constraints,
# and so is what they draw in. Ubuntu's stay as they are: numpy above all, as ROS's messages are built
# with 1.26 and do not load with numpy 2. Its numba is too old and gives way.
RUN apt-get update \
    && rosdep update --rosdistro jazzy \
    && PIP_BREAK_SYSTEM_PACKAGES=1 rosdep install --from-paths src --ignore-src --default-yes --dependency-types exec \
    && rm -rf /var/lib/apt/lists/* \
    && grep --extended-regexp --ignore-case \
        '^(allantools|mcap|numba|plotly|pyarrow|pygeomag|zstandard)==' \
        src/quadsim/constraints.txt >/tmp/wheels.txt \
    && pip list --format=freeze \
        | grep --invert-match --regexp='^llvmlite==' --regexp='^numba==' >/tmp/held.txt \
    && sed 's/==.*//; s/[-_.]/[-_.]/g; s/.*/^&==/' /tmp/held.txt >/tmp/names.txt \
    && grep --ignore-case --invert-match --file /tmp/names.txt \
        src/quadsim/constraints.txt >>/tmp/held.txt \
    && pip install --no-cache-dir --no-input --break-system-packages \
        --constraint /tmp/held.txt --requirement /tmp/wheels.txt \
    && rm /tmp/wheels.txt /tmp/held.txt /tmp/names.txt

RUN . /opt/ros/jazzy/setup.bash \
    && colcon build \
    && rm -rf build log \
    && sed --in-place 's|^exec |. /opt/quadsim/install/setup.bash --\nexec |' /ros_entrypoint.sh

# ubuntu, whom ros:jazzy brings
USER 1000:1000
ENV HOME=/home/ubuntu
WORKDIR /home/ubuntu
RUN . /opt/quadsim/install/setup.bash && python3 -m quadsim.precompile

# ROS and Gazebo stay on this machine, whose network the container has
ENV ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST \
    GZ_IP=127.0.0.1

CMD ["ros2", "launch", "quadsim", "gazebo.launch.py"]
