"""Ground effect: a rotor near the ground lifts more for the same speed.

Potential flow with images below the ground: the air that a rotor of radius R at height z moves is
slowed by the share s, and at constant *power* its thrust grows by 1/(1 - s):

- Cheeseman and Bennett, *The effect of the ground on a helicopter rotor in forward flight*, ARC R&M
  3021, 1955: its own image, s = (R/4z)^2, and in forward flight s / (1 + (V/v_i)^2) with the
  induced velocity v_i at hover.
- Sanchez-Cuevas, Heredia, Ollero, *Characterization of the aerodynamic ground effect and its
  influence in multirotor control*, Int. J. Aerospace Eng. 2017: also the images of the other
  rotors, R^2/2 z (d^2 + 4 z^2)^(-3/2) each at its distance d, and the air that rises under the
  body, 2 R^2 K_b z (b^2 + 4 z^2)^(-3/2) with b the distance of opposite rotors and K_b = 2. For a
  square quadrotor this is their closed form; here it holds for any number of rotors.

At constant power ``T v_i`` is constant, so that the induced velocity over that of the same thrust
far from the ground is (1 - s)^(3/2) (Leishman, *Principles of helicopter aerodynamics*, ch. 5: the
ratio of thrusts is k_G^(-2/3)). What that does to the thrust at constant *speed*, which a motor
holds, follows from the rotor's own inflow coefficient (:mod:`quadsim.vehicle.propulsion.inflow`).

Below half a radius, where nothing was measured, z counts as R/2; between 8 and 10 radii s goes to
zero, so that the thrust does not jump where the model ends (both ours).
"""

from __future__ import annotations

import math

from quadsim.base.compiled import kernel
from quadsim.geometry.rotation import Mat3
from quadsim.vehicle.parameters import VehicleParams
from quadsim.vehicle.propulsion.inflow import blade_response, momentum_disc, thrust_by_induced_share
from quadsim.vehicle.propulsion.parameters import NO_GROUND_EFFECT, SANCHEZ_CUEVAS
from quadsim.vehicle.state import ROTOR, V, Vehicle

#: In rotor radii: the lowest height, and where the effect fades and ends.
LOWEST, FADES, ENDS = 0.5, 8.0, 10.0


@kernel
def image_share(i: int, height_m: float, params: VehicleParams) -> float:
    """Share s by which the ground slows the air of rotor ``i`` in hover."""
    rotor = params.rotor
    radius, z = rotor.radius_m, max(height_m, LOWEST * rotor.radius_m)
    share = (radius / (4.0 * z)) ** 2
    if rotor.ground_effect != SANCHEZ_CUEVAS:
        return float(share)
    hub, farthest2 = params.rotor_positions_B_m[i], 0.0
    for k in range(params.rotor_directions_count):
        if k == i:
            continue
        other = params.rotor_positions_B_m[k]
        distance2 = (hub[0] - other[0]) ** 2 + (hub[1] - other[1]) ** 2
        farthest2 = max(farthest2, distance2)
        away2 = distance2 + 4.0 * z * z
        share += 0.5 * radius * radius * z / (away2 * math.sqrt(away2))
    away2 = farthest2 + 4.0 * z * z
    return float(share + 2.0 * radius * radius * rotor.fountain * z / (away2 * math.sqrt(away2)))


@kernel
def thrust_gain(i: int, R_WB: Mat3, vehicle: Vehicle, params: VehicleParams) -> float:
    """Thrust of rotor ``i`` over its thrust far from the ground, at the same speed.

    Args:
        i: rotor.
        R_WB: attitude of the body.
        vehicle: VEHICLE record, for ``held.height_m`` of the centre of mass above the ground, its
            velocity and the rotor's speed.
        params: packed VehicleParams.
    """
    rotor = params.rotor
    if rotor.ground_effect == NO_GROUND_EFFECT:
        return 1.0
    hub, up = params.rotor_positions_B_m[i], R_WB[2]
    height_m = vehicle.held.height_m + up[0] * hub[0] + up[1] * hub[1] + up[2] * hub[2]
    share = image_share(i, height_m, params)
    share *= min(max((ENDS - height_m / rotor.radius_m) / (ENDS - FADES), 0.0), 1.0)
    disc = momentum_disc(params)
    speed = vehicle.x[ROTOR + i]
    induced2 = params.thrust_coefficient_N_s2 * speed * speed / disc
    east = vehicle.x[V] - vehicle.held.wind_W_mps[0]
    north = vehicle.x[V + 1] - vehicle.held.wind_W_mps[1]
    share *= induced2 / (induced2 + east * east + north * north + 1e-12)
    left = 1.0 - min(share, 0.5)
    return float(thrust_by_induced_share(left * math.sqrt(left), blade_response(params)))
