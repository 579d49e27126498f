#include "thalweg/version.h"

namespace thalweg {

const char* version() { return THALWEG_VERSION; }

}  // namespace thalweg
