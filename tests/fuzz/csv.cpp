// CSV: the first byte selects the options. All numbers are finite, all categories are in their column's list, and every
// row can be read.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "examine.h"

import lamina;
using namespace lamina;

namespace {

csv_options options_of(unsigned char c) {
  csv_options o;
  o.header = (c & 1) == 0;
  o.separator = (c & 2) == 0 ? ',' : (c & 64) == 0 ? '\t' : ' ';
  o.missing = static_cast<missing_rule>(c >> 2 & 3);
  if (c & 16) o.targets = {o.header ? "a" : "0"};
  if (c & 32) o.kinds = {{o.header ? "a" : "0", column_kind::integer}};
  if (c & 128) o.classes = 3;
  if ((c & 144) == 144) o.on_error = sample_failure::skip;
  return o;
}

void check(const csv_table& t) {
  for (const auto& [column, words] : t.words()) {
    if (std::set<std::string>(words.begin(), words.end()).size() != words.size()) std::abort();
  }
  const auto source = source_of(t);
  sample_batch all;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    all.read(source, {i});
    for (std::size_t k = 0; k < all.fields(); ++k) {
      const any_tensor x = all.tensor(k);
      if (x.shape().rank == 2 && x.shape().at(1) != static_cast<std::int64_t>(t.names(k).size())) std::abort();
      if (x.element() == dtype::float32) {
        for (float v : x.elements<float>())
          if (!std::isfinite(v)) std::abort();
      } else if (x.element() != dtype::int64) std::abort();
    }
  }
}

}  // namespace

void examine(const unsigned char* data, unsigned long size) {
  if (size == 0) return;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const csv_options o = options_of(data[0]);
    const csv_table t = datasets::csv_text(text, "fuzz.csv", o);
    check(t);
    // Read again with its own schema, the table is the same.
    const csv_table again = datasets::csv_text(
        text, "fuzz.csv", {.header = o.header, .separator = o.separator, .like = t, .on_error = o.on_error});
    if (again.size() != t.size() || again.skipped() != t.skipped()) std::abort();
    check(again);
  } catch (const file_error&) {
  } catch (const value_error&) {}
}
