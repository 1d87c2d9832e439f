"""The driver file of the tutorial on bags is one."""

import re
from pathlib import Path

from quadsim.drivers.driver import load_driver

PAGE = Path(__file__).parents[3] / "docs/tutorials/your-bag.md"


def test_the_driver_file_of_the_tutorial_can_be_read(tmp_path):
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "robot.yaml").write_text(text, encoding="utf-8")
    driver = load_driver(str(tmp_path / "robot.yaml"))
    assert {topic.ours for topic in driver.topics} == {
        "imu/data_raw", "imu/mag", "gps/fix", "ground_truth/odom"
    }  # fmt: skip
