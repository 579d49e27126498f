#include "thalweg/checkpoint/weights.h"

#include "thalweg/checkpoint/state.h"
#include "thalweg/core/atomic_file.h"
#include "thalweg/core/error.h"
#include "thalweg/interop/safetensors_writer.h"

namespace thalweg::checkpoint {

void save_weights(const nn::Module& module, const std::string& path) {
  Values values = values_of(named(module));
  Values waiting = waiting_values(module);
  std::erase_if(waiting,
                [](const auto& value) { return value.second.dtype() == boolean && value.first.ends_with("/mask"); });
  values.merge(waiting);
  AtomicFile file("save_weights", path);
  write_safetensors([&](const void* bytes, std::size_t count) { file.write(bytes, count); }, values,
                    {{"format", "thalweg weights"}, {"version", "1"}});
  file.commit();
}

void load_weights(nn::Module& module, const std::string& path, const LoadOptions& options) {
  try {
    const auto values = read_verified(SafetensorsFile(path));
    check_weights(module, values, options.strict);
    module.set_weights(
        values,
        {.complete = options.strict && module.variables().empty(), .optional = !options.strict, .source = path});
  } catch (const Error& error) {
    throw error.at(path);
  }
}

}  // namespace thalweg::checkpoint
