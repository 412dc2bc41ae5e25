// tokenizer.json: a tokenizer that loads encodes any text, gives the same results after writing and reading it, and its
// ids are tokens of its vocabulary. The document ends at the first byte 0; the text to encode follows.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "examine.h"

import lamina;

using namespace lamina;

namespace {

void use(const tokenizer& t, const std::string& s) {
  const encode_options o{.special = s.size() % 2 == 0, .on_invalid = invalid_utf8::replace};
  const auto ids = t.encode(s, o);
  for (const auto id : ids)
    if (!t.token_of(id)) std::abort();
  t.decode(ids, s.size() % 3 == 0);
  const auto again = read_tokenizer(t.to_json());
  if (again.encode(s, o) != ids || again.to_json() != t.to_json()) std::abort();
  std::vector<std::string> texts{s, s.substr(s.size() / 2)};
  token_batch_options b = t.batching();
  if (b.length > 1000 || b.multiple > 1000) return;  // valid, but large
  b.on_invalid = invalid_utf8::replace;
  const auto batch = t.encode_batch(texts, b, texts);
  if (batch.ids.shape() != batch.mask.shape() || batch.lengths.size() != 2) std::abort();
}

}  // namespace

void examine(const unsigned char* data, unsigned long size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t end = all.find('\0');
  try {
    const auto t = read_tokenizer(all.substr(0, end));
    std::string s(end == all.npos ? std::string_view("the text \xC3\x89 1 's\n") : all.substr(end + 1));
    // Steps that double a text are valid, too: they fail only beyond 2^28 bytes, which takes long to reach.
    if (all.find("\"Replace\"") != all.npos || all.find("\"Prepend\"") != all.npos)
      s.resize(std::min<std::size_t>(s.size(), 8));
    use(t, s);
  } catch (const file_error&) {
  } catch (const unsupported_error&) {
  } catch (const value_error&) {}
}
