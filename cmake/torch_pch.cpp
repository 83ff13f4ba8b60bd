// Nothing but the precompiled header; see LibTorch.cmake.
