"""Convolutions with few output channels: the lanes of a vector are neighbouring columns, not channels.

With one channel in each lane, as in `direct`, most lanes would be padding.
"""
