# How files of this folder are compiled; CMakeLists.txt includes it.
if(NOT EDGE_SANITIZE)
  # Where all the time of a simulation goes: 2.5 times as fast.
  set_source_files_properties(${device}/gemm.cc PROPERTIES COMPILE_OPTIONS -O2 SKIP_UNITY_BUILD_INCLUSION ON)
endif()
