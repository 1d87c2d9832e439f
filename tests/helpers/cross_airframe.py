"""An airframe of round figures: rotors in a cross of 0.2 m, the first two turn to the left."""

from quadsim.control.airframe import AirframeParams

ARM = 0.2
CROSS = AirframeParams(
    mass_kg=1.0,
    inertia_kg_m2=(0.01, 0.012, 0.02),
    rotor_positions_B_m=((ARM, -ARM, 0.0), (-ARM, ARM, 0.0), (ARM, ARM, 0.0), (-ARM, -ARM, 0.0)),
    rotor_directions=(1.0, 1.0, -1.0, -1.0),
    thrust_coefficient_N_s2=1e-5,
    torque_ratio_m=0.02,
    rotor_speed_min_radps=100.0,
    rotor_speed_max_radps=1000.0,
)
