#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg {

// CRC-32C (Castagnoli, as in iSCSI and TFRecord) of the bytes; `before` is that of the bytes in front of them.
std::uint32_t crc32c(const void* bytes, std::size_t count, std::uint32_t before = 0);

}  // namespace thalweg
