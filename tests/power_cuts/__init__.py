"""Power cuts: stores on ext4 and XFS images whose file systems are shut down under load, and what is left judged.

`python -m power_cuts` (with PYTHONPATH=tests); `make power-cuts` runs it. Root and loop devices are needed; what a
machine cannot do is told as not run, never as passed.
"""
