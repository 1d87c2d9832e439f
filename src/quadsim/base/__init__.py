"""What every room builds on: parameters, records, compiled kernels, files, errors, noise."""
