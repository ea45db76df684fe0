# find_package(freeboard) defines freeboard::static and freeboard::shared.
get_filename_component(_freeboard "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET freeboard::static)
  add_library(freeboard::static STATIC IMPORTED)
  set_target_properties(freeboard::static PROPERTIES
    IMPORTED_LOCATION "${_freeboard}/lib/libfreeboard_c.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_freeboard}/include")

  add_library(freeboard::shared SHARED IMPORTED)
  set_target_properties(freeboard::shared PROPERTIES
    IMPORTED_LOCATION "${_freeboard}/lib/libfreeboard_c.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${_freeboard}/include")
endif()

unset(_freeboard)
