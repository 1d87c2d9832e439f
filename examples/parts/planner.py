"""A planner of one's own: to a goal, pushed away by a pillar (potential field, Khatib 1986)."""

import numpy as np


class Potential:
    def __init__(self, goal_W_m=(8.0, 0.0, 2.0), pillar_W_m=(4.0, 0.3), radius_m=1.0):
        self.goal, self.pillar, self.radius_m = np.array(goal_W_m), np.array(pillar_W_m), radius_m

    def plan(self, now):
        here = now.odometry.p_W
        if np.linalg.norm(self.goal - here) < 0.3:
            return None  # arrived: the mission goes on
        pull = self.goal - here
        away = here[:2] - self.pillar
        gap_m = max(np.linalg.norm(away) - self.radius_m, 0.05)
        push = away / np.linalg.norm(away) * (1.0 / gap_m - 1.0) * (gap_m < 1.0)
        side = np.array([-away[1], away[0]]) / np.linalg.norm(away) * (gap_m < 1.0)
        return 1.5 * pull / max(np.linalg.norm(pull), 1.5) + np.append(push + side, 0.0)
