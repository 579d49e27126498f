#include "thalweg/backend/nvidia_probe.h"

#include <dlfcn.h>

#include <filesystem>
#include <fstream>

namespace thalweg {
namespace {

constexpr const char* kDriver = "libcuda.so.1";

bool file_begins_with(const std::filesystem::path& path, const std::string& text) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && line.starts_with(text);
}

bool gpu_on_the_bus() {
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator("/sys/bus/pci/devices", none))
    if (file_begins_with(device.path() / "vendor", "0x10de") && file_begins_with(device.path() / "class", "0x03"))
      return true;
  return false;
}

// The few driver functions needed, by the names and types of the CUDA driver API; 0 is its success.
class Driver {
 public:
  explicit Driver(void* library) : library_(library) {}

  bool start() const { return call<int(unsigned)>("cuInit", 0u) == 0; }

  std::vector<config::Gpu> gpus() const {
    int count = 0;
    std::vector<config::Gpu> found;
    if (call<int(int*)>("cuDeviceGetCount", &count) != 0) return found;
    for (int i = 0; i < count; ++i) {
      int device = 0;
      char name[256] = {};
      std::size_t bytes = 0;
      if (call<int(int*, int)>("cuDeviceGet", &device, i) != 0) continue;
      if (call<int(char*, int, int)>("cuDeviceGetName", name, 255, device) != 0) continue;
      call<int(std::size_t*, int)>("cuDeviceTotalMem_v2", &bytes, device);
      found.push_back({name, static_cast<std::int64_t>(bytes)});
    }
    return found;
  }

 private:
  template <class Function, class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<Function*>(dlsym(library_, name));
    return function ? function(arguments...) : -1;
  }

  void* library_;
};

}  // namespace

NvidiaProbe probe_nvidia() {
  void* library = dlopen(kDriver, RTLD_NOW | RTLD_LOCAL);  // never closed: drivers keep threads of their own
  if (!library) {
    const std::string driver = std::string("no driver: ") + kDriver + " was not found";
    return {{}, gpu_on_the_bus() ? "an NVIDIA GPU is there, but " + driver : "no NVIDIA GPU was found, and " + driver};
  }
  const Driver driver(library);
  if (!driver.start())
    return {{}, "the NVIDIA driver is installed, but it did not start: no GPU, or it is not allowed"};
  auto gpus = driver.gpus();
  if (gpus.empty()) return {{}, "the NVIDIA driver reports no GPU"};
  return {std::move(gpus), "this build has no CUDA part"};
}

}  // namespace thalweg
