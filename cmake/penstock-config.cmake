# find_package(penstock): the target penstock::penstock. Its own dependencies are private to the shared library.
include(${CMAKE_CURRENT_LIST_DIR}/penstock-targets.cmake)
