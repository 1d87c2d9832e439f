"""The filters of the source systems: EKF with 7 states, GPS/INS, complementary."""
