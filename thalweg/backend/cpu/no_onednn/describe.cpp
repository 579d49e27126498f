#include "thalweg/backend/cpu/describe.h"

#include "thalweg/version.h"

namespace thalweg::cpu {

config::Library product_library() { return {"built-in products", THALWEG_VERSION, "this build has no oneDNN"}; }

}  // namespace thalweg::cpu
