# Compiles the files of a folder eight at a time. Most of the time of a file of train/ is the same in every file: 3 s for templates that
# LibTorch's precompiled header names and that GCC instantiates anew in each, 1 s for JSON, 8 s for CLI11. Names in anonymous
# namespaces must therefore be unique in a folder.
option(PENSTOCK_UNITY "Compile several files at a time: less time for all of them, more after a change of one" ON)

# penstock_unity(TARGET SOURCE...)
function(penstock_unity target)
  if(NOT PENSTOCK_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source ${ARGN})
    get_filename_component(folder ${source} DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    list(APPEND files_${folder} ${source})
    list(LENGTH files_${folder} count)
    math(EXPR group "(${count} - 1) / 8")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
endfunction()
