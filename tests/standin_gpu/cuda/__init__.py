"""Stands in for the packages of CUDA: whole packages, so that installed ones do not win."""
