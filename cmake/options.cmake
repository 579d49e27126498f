# Flags for our own code. Rounding is defined by the source: the compiler never contracts a * b + c by itself.
add_library(thalweg_options INTERFACE)
target_compile_options(thalweg_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion
                                                 -ffp-contract=off -fno-math-errno)
if(THALWEG_WERROR)
  target_compile_options(thalweg_options INTERFACE -Werror)
endif()
if(THALWEG_SANITIZE)
  target_compile_options(thalweg_options INTERFACE -fsanitize=${THALWEG_SANITIZE} -fno-sanitize-recover=all
                                                   -fno-omit-frame-pointer -g1)
  target_link_options(thalweg_options INTERFACE -fsanitize=${THALWEG_SANITIZE})
  # Instrumented vector code is slow to compile: sanitizers check one target, AVX2. (The compiler's own baseline would be
  # emulated vectors, ten times slower to compile still.)
  target_compile_options(thalweg_options INTERFACE -march=haswell -maes -mpclmul)
  target_compile_definitions(thalweg_options INTERFACE HWY_COMPILE_ONLY_STATIC)
endif()
