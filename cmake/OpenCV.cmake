# penstock_opencv: OpenCV's core and imgproc. Debian's OpenCVConfig.cmake is installed only with all of OpenCV (139 libraries).
if(NOT TARGET penstock_opencv)
  find_path(OPENCV_INCLUDE opencv2/imgproc.hpp PATH_SUFFIXES opencv4 REQUIRED)
  find_library(OPENCV_CORE opencv_core REQUIRED)
  find_library(OPENCV_IMGPROC opencv_imgproc REQUIRED)
  add_library(penstock_opencv INTERFACE)
  target_include_directories(penstock_opencv SYSTEM INTERFACE ${OPENCV_INCLUDE})
  target_link_libraries(penstock_opencv INTERFACE ${OPENCV_IMGPROC} ${OPENCV_CORE})
endif()
