// The JSON of programs: what is read can be listed, drawn, written and read again as the same program.
#include <cstdlib>
#include <string_view>

#include "examine.h"

import lamina;

void examine(const unsigned char* data, unsigned long size) {
  try {
    const auto p = lamina::read_program({reinterpret_cast<const char*>(data), size}, {}, "fuzz");
    if (lamina::read_program(p->to_json(), {}, "again")->id() != p->id()) std::abort();
    if (p->dump().empty() && !p->outputs().empty()) std::abort();
    if (p->to_dot().empty()) std::abort();
  } catch (const lamina::file_error&) {
  } catch (const lamina::unsupported_error&) {
  }
}
