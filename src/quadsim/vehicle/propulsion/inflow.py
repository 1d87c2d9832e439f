"""Induced velocity of a rotor at constant speed: what the ground and a descent change of it.

Blade elements give ``T = S - b (w + v_i - v_h)``: S is the thrust of hover at this speed, w the air
speed along the shaft (positive in climb), v_i the induced velocity, ``v_h = sqrt(S / (2 rho A))``
that of hover. With momentum theory, ``T = 2 rho A v_i (v_i + w)``, the slope at hover is
``dT/dw = -(b/2) / (1 + b v_h / (2 S))`` (Leishman, *Principles of helicopter aerodynamics*, ch. 3):
half of a climb is taken back by the induced velocity. The file's ``inflow_N_s2`` is that slope over
the speed, as it is measured in flight, so that with ``kappa = k_z W v_h / S``

    beta = b v_h / S = 2 kappa / (1 - kappa).

Descent: the induced velocity in the vortex ring and turbulent wake states has no theory. Leishman's
fit to measurements (ch. 2) is ``v_i / v_h = 1 - 1.125 x - 1.372 x^2 - 1.718 x^3 - 0.655 x^4`` with
``x = w / v_h``, down to where the windmill brake state of momentum theory meets it. It is the
mean: the fluctuation of thrust in the vortex ring state is not modelled.

With ``inflow_model: momentum`` the induced velocity is solved for, in any direction of the air:
blade elements, ``T = L - b W (w + v_i)`` with L the thrust without flow through the disc, and
Glauert's momentum theory, ``T = 2 rho A v_i sqrt(V^2 + (w + v_i)^2)``, V the air speed in the disc
(Leishman, ch. 2.14). In descent it has two solutions; from 1.5 v_h on the one of the climbing
branch, near Leishman's fit, goes over into that of the windmill brake state (the blend is ours).
"""

from __future__ import annotations

import math

from quadsim.base.compiled import inline, kernel
from quadsim.vehicle.aerodynamics import reference_density
from quadsim.vehicle.parameters import VehicleParams

#: Largest kappa; it tends to 1 as the blades' area grows.
LARGEST_KAPPA = 0.9
#: beta where a file has no inflow coefficient: about that of two-bladed propellers of this size.
USUAL_BETA = 1.0
#: Descent over v_h at which the line through hover begins to fade, and where the fit has replaced
#: it: slower than that momentum theory holds (both ours).
LINE_ENDS, FIT_BEGINS = 0.25, 0.75
#: Where the fit meets the windmill brake state.
WINDMILL_BEGINS = -2.0423273
#: Bound on the thrust in descent over that of hover at this speed: the blades stall (ours).
STALL_GAIN = 2.0
#: Descent over v_h at which momentum theory's climbing branch begins to be left.
BRANCH_ENDS = -1.5
#: Fastest descent over v_h that is told apart.
FASTEST = 50.0
_ITERATIONS = 4
#: Change of the induced velocity after which Newton's method has come to its end, m/s.
_NEAR_MPS = 1e-2


@inline
def momentum_disc(params: VehicleParams) -> float:
    """Thrust over squared induced velocity in hover, 2 rho A, of a vehicle's rotors in kg/m."""
    radius_m = params.rotor.radius_m
    return 2.0 * reference_density(params) * math.pi * radius_m * radius_m


@kernel
def blade_response(params: VehicleParams) -> float:
    """Response beta of a vehicle's rotors; by a rule where the file has no inflow coefficient."""
    rotor = params.rotor
    if rotor.inflow_N_s2 <= 0.0:
        return USUAL_BETA
    disc = momentum_disc(params)
    kappa = rotor.inflow_N_s2 / math.sqrt(params.thrust_coefficient_N_s2 * disc)
    kappa = min(kappa, LARGEST_KAPPA)
    return float(2.0 * kappa / (1.0 - kappa))


@kernel
def thrust_by_induced_share(share: float, beta: float) -> float:
    """Thrust in hover over that far from the ground, at the same speed.

    Solves ``t = 1 + beta (1 - share sqrt(t))``.

    Args:
        share: induced velocity over that of the same thrust far from the ground.
        beta: response of the blades.
    """
    slope = beta * share
    root = 0.5 * (math.sqrt(slope * slope + 4.0 * (1.0 + beta)) - slope)
    return float(root * root)


@kernel
def through_flow(x: float) -> tuple[float, float]:
    """Air through the disc, ``(w + v_i) / v_h``, in descent at ``x = w / v_h``; its derivative."""
    if x < WINDMILL_BEGINS:
        root = math.sqrt(0.25 * x * x - 1.0)
        return 0.5 * x - root, 0.5 - 0.25 * x / root
    value = 1.0 + x * (-0.125 + x * (-1.372 + x * (-1.718 - 0.655 * x)))
    return value, -0.125 + x * (-2.744 + x * (-5.154 - 2.62 * x))


@kernel
def descent_thrust(x: float, beta: float) -> float:
    """Thrust in descent over that of hover at the same speed, by the fit alone.

    Solves ``t = 1 + beta (1 - sqrt(t) f(x / sqrt(t)))`` by Newton's method; the left side minus the
    right one rises with t. v_h belongs to the thrust itself.

    Args:
        x: air speed along the shaft over v_h of hover at this speed, below zero.
        beta: response of the blades.
    """
    thrust = 1.0
    for _ in range(_ITERATIONS):
        root = math.sqrt(thrust)
        flow, slope = through_flow(x / root)
        excess = thrust - 1.0 - beta * (1.0 - root * flow)
        thrust -= excess / (1.0 + 0.5 * beta * (flow - x / root * slope) / root)
        thrust = min(max(thrust, 0.5), STALL_GAIN)
    return thrust


@kernel
def descent_loss(static_N: float, speed_radps: float, w_mps: float, params: VehicleParams) -> float:
    """Thrust lost in descent in N (below zero: won): the line through hover, then the fit.

    Args:
        static_N: thrust of hover at this speed.
        speed_radps: of the rotor.
        w_mps: air speed along the shaft, below zero.
        params: packed VehicleParams.
    """
    if static_N <= 0.0:
        return 0.0
    rotor = params.rotor
    disc = momentum_disc(params)
    # a rotor that hardly turns falls without bound over its v_h; the blades stall long before
    x = max(w_mps / math.sqrt(static_N / disc), -FASTEST)
    part = min(max((-x - LINE_ENDS) / (FIT_BEGINS - LINE_ENDS), 0.0), 1.0)
    part *= part * (3.0 - 2.0 * part)
    line = rotor.inflow_N_s2 * speed_radps * w_mps
    fitted = static_N * (1.0 - descent_thrust(x, blade_response(params)))
    return float((1.0 - part) * line + part * fitted)


@inline
def _solved(
    guess: float, most: float, lift_N: float, slope: float, w_mps: float, V2: float, disc: float
) -> float:
    """Induced velocity in m/s up to ``most``, by Newton's method; see induced_velocity."""
    induced = guess
    for _ in range(_ITERATIONS):
        flow = w_mps + induced
        past = math.sqrt(V2 + flow * flow) + 1e-9
        excess = lift_N - slope * flow - disc * induced * past
        steepness = slope + disc * (past + induced * flow / past)
        change = excess / max(steepness, slope + 0.3 * disc * past)
        induced = min(max(induced + change, 0.0), most)
        if abs(change) < _NEAR_MPS:  # the next change would be its square
            break
    return induced


@inline
def induced_velocity(lift_N: float, slope: float, w_mps: float, V2: float, disc: float) -> float:
    """Induced velocity in m/s of a rotor in air from any direction.

    Args:
        lift_N: thrust without flow through the disc.
        slope: thrust lost over the flow through it in N s/m.
        w_mps: air speed along the shaft, positive in climb.
        V2: squared air speed in the disc.
        disc: 2 rho A in kg/m.
    """
    if lift_N <= 0.0:
        return 0.0
    hover = 0.5 * (math.sqrt(slope * slope + 4.0 * disc * lift_N) - slope) / disc
    guess = hover * hover / math.sqrt(hover * hover + V2 + max(w_mps, 0.0) ** 2)
    if w_mps * w_mps > V2:  # from above the climbing branch Newton's method does not leave it
        guess += max(-w_mps, 0.0)
    climbing = _solved(guess, math.inf, lift_N, slope, w_mps, V2, disc)
    x = w_mps / hover
    if x > BRANCH_ENDS:
        return climbing
    braking = _solved(0.0, -0.5 * w_mps, lift_N, slope, w_mps, V2, disc)
    part = min((BRANCH_ENDS - x) / (BRANCH_ENDS - WINDMILL_BEGINS), 1.0)
    part *= part * (3.0 - 2.0 * part)
    return (1.0 - part) * climbing + part * braking
