#pragma once

// Marks what the shared library offers; everything else stays hidden.
#define TW_API __attribute__((visibility("default")))
