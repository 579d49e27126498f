# The package: library, public headers, command line, CMake and pkg-config files, licences. oneDNN goes beside
# libthalweg, which finds it there by a relative path, so the whole can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Thalweg)

install(TARGETS thalweg EXPORT ThalwegTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ThalwegTargets NAMESPACE thalweg:: DESTINATION ${package_dir})
configure_package_config_file(cmake/ThalwegConfig.cmake.in ThalwegConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(ThalwegConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ThalwegConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/ThalwegConfigVersion.cmake
        DESTINATION ${package_dir})

file(RELATIVE_PATH prefix_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/thalweg.pc.in thalweg.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/thalweg.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Which headers are public is found when installing: those that thalweg.h reaches.
install(CODE "set(source_dir \"${CMAKE_SOURCE_DIR}\")\nset(include_dir \"${CMAKE_INSTALL_INCLUDEDIR}\")")
install(SCRIPT cmake/install_headers.cmake)

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(THALWEG_ONEDNN)
  set(onednn ${THALWEG_DEPS}/onednn)
  install(PROGRAMS ${onednn}/lib/libdnnl.so.3.2 DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libdnnl.so.3)
  file(GLOB_RECURSE onednn_licences ${onednn}/share/doc/LICENSE* ${onednn}/share/doc/THIRD-PARTY-PROGRAMS*)
  install(FILES ${onednn_licences} DESTINATION ${CMAKE_INSTALL_DOCDIR}/onednn)
endif()
