find_package(Python3 COMPONENTS Interpreter REQUIRED)

# A long run: `make soak` runs it (SOAK=name picks one), plain ctest and `make test` do not.
#   thalweg_soak(name command arguments…)
function(thalweg_soak name)
  add_test(NAME soak.${name} COMMAND ${ARGN} CONFIGURATIONS soak)
  set_tests_properties(soak.${name} PROPERTIES LABELS soak TIMEOUT 7200)
endfunction()
