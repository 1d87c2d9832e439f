"""The error-state Kalman filter."""
