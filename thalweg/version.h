#pragma once

#include "thalweg/core/export.h"

// Of the headers a program was compiled with; the build takes the project's version from here.
#define THALWEG_VERSION "0.17.0"

namespace thalweg {

// Of the library a program runs with.
TW_API const char* version();

}  // namespace thalweg
