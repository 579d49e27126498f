// The part of NVIDIA's driver that the library asks when it describes the machine.
#include <cstddef>
#include <cstring>

#define TW_DRIVER extern "C" __attribute__((visibility("default"))) int

TW_DRIVER cuInit(unsigned) { return 0; }

TW_DRIVER cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}

TW_DRIVER cuDeviceGet(int* device, int) {
  *device = 0;
  return 0;
}

TW_DRIVER cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "Imaginary GPU", static_cast<std::size_t>(size));
  return 0;
}

TW_DRIVER cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{8} << 30;
  return 0;
}
