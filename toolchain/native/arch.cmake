# What depends on the architecture: ARCH_FOLDER has its sources (src/arch/arch.h), and sets what differs in options.cmake:
# ARCH_OPTIONS for the compiler, ARCH_SOURCES beside cpu.cc and rates.cc, ARCH_INT128: whether it has numbers of 128 bits.
# Given: ZIG_TARGET, or nothing for this machine's own; or EDGE_RT_ARCH, the whole path of a folder elsewhere.
include_guard(DIRECTORY)
string(REGEX MATCH "^[^-]+" ARCH "${ZIG_TARGET}")
if(NOT ARCH)
  set(ARCH ${CMAKE_HOST_SYSTEM_PROCESSOR})
endif()
set(ARCH_FOLDER ${CMAKE_CURRENT_LIST_DIR}/src/arch/${ARCH})
if(EDGE_RT_ARCH)
  set(ARCH_FOLDER ${EDGE_RT_ARCH})
endif()
if(NOT EXISTS ${ARCH_FOLDER}/cpu.cc)
  message(FATAL_ERROR "edge-rt does not know the architecture ${ARCH}: add ${ARCH_FOLDER} with cpu.cc and rates.cc (docs/howto/add-an-architecture.md)")
endif()
set(ARCH_OPTIONS)
set(ARCH_SOURCES)
set(ARCH_INT128 ON)
include(${ARCH_FOLDER}/options.cmake OPTIONAL)
