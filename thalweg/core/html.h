#pragma once

#include <string>

namespace thalweg {

// A text as it stands inside of HTML and SVG.
inline std::string escape_html(const std::string& text) {
  std::string safe;
  for (const char c : text) switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += c;
    }
  return safe;
}

}  // namespace thalweg
