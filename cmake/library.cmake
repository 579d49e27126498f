# libthalweg: every source under thalweg/ but the command line and the op samples, which belong to the tests.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json 3 REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
foreach(library ZLIB PNG JPEG)  # packed files and images
  find_package(${library} QUIET)
  if(NOT ${library}_FOUND)
    message(FATAL_ERROR "${library} is missing: run scripts/setup.sh, or install zlib1g-dev libpng-dev libjpeg62-turbo-dev")
  endif()
endforeach()
set(file_libraries ZLIB::ZLIB PNG::PNG JPEG::JPEG)

file(GLOB_RECURSE THALWEG_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/thalweg/*.cpp)
list(FILTER THALWEG_SOURCES EXCLUDE REGEX "/thalweg/cli/|/samples\\.cpp$")
if(THALWEG_ONEDNN)
  list(FILTER THALWEG_SOURCES EXCLUDE REGEX "/backend/cpu/no_onednn/")
  find_package(dnnl 3 CONFIG REQUIRED PATHS ${THALWEG_DEPS}/onednn NO_DEFAULT_PATH)
else()
  list(FILTER THALWEG_SOURCES EXCLUDE REGEX "/backend/cpu/onednn/")
endif()
if(THALWEG_JIT AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(FILTER THALWEG_SOURCES EXCLUDE REGEX "/backend/cpu/no_jit/")
  find_package(xbyak REQUIRED)
else()
  list(FILTER THALWEG_SOURCES EXCLUDE REGEX "/backend/cpu/jit/")
endif()

# What runs seldom is compiled to be small.
set(seldom_sources ${THALWEG_SOURCES})
list(FILTER seldom_sources INCLUDE REGEX "/thalweg/(checkpoint|metrics|summary|train)/|/thalweg/graph/passes/|/thalweg/plan/file/")
set_source_files_properties(${seldom_sources} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:Release>:-Os>")

# Compiled once; the shared library is for users, the static one lets tests and benchmarks reach the inside.
add_library(thalweg_objects OBJECT ${THALWEG_SOURCES})
target_include_directories(thalweg_objects PUBLIC ${CMAKE_SOURCE_DIR})
target_link_libraries(thalweg_objects PRIVATE thalweg_options nlohmann_json::nlohmann_json
                                      PUBLIC PkgConfig::HWY Threads::Threads ${CMAKE_DL_LIBS} ${file_libraries})
if(TARGET xbyak::xbyak)
  target_link_libraries(thalweg_objects PRIVATE xbyak::xbyak)
endif()
if(THALWEG_ONEDNN)
  target_compile_definitions(thalweg_objects PUBLIC THALWEG_ONEDNN=1)
  target_link_libraries(thalweg_objects PUBLIC DNNL::dnnl gomp)  # gomp: to hold oneDNN to one OpenMP thread
endif()

add_library(thalweg_internal STATIC $<TARGET_OBJECTS:thalweg_objects>)
target_link_libraries(thalweg_internal PUBLIC thalweg_objects)

# The libraries below are a matter of the build alone: users of the package need to find none of them.
add_library(thalweg SHARED $<TARGET_OBJECTS:thalweg_objects>)
add_library(thalweg::thalweg ALIAS thalweg)
target_include_directories(thalweg PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
target_compile_features(thalweg PUBLIC cxx_std_20)
target_link_libraries(thalweg PRIVATE $<BUILD_INTERFACE:thalweg_options> $<BUILD_INTERFACE:PkgConfig::HWY>
                                      $<BUILD_INTERFACE:Threads::Threads> $<BUILD_INTERFACE:${CMAKE_DL_LIBS}>
                                      "$<BUILD_INTERFACE:${file_libraries}>")
if(THALWEG_ONEDNN)
  target_link_libraries(thalweg PRIVATE $<BUILD_INTERFACE:DNNL::dnnl> $<BUILD_INTERFACE:gomp>)
endif()
# The compiler hides what is not marked TW_API; the script also hides what other libraries' headers mark.
set(exports ${CMAKE_SOURCE_DIR}/cmake/exports.map)
target_link_options(thalweg PRIVATE -Wl,--version-script=${exports})
if(NOT THALWEG_SANITIZE)  # whose functions come with the program
  target_link_options(thalweg PRIVATE -Wl,--no-undefined)
endif()
set_target_properties(thalweg PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 LINK_DEPENDS ${exports}
                                         BUILD_RPATH ${THALWEG_DEPS}/onednn/lib INSTALL_RPATH "$ORIGIN")
