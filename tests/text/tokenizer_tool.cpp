// Runs lamina's tokenizers for tests/text/compare_tokenizers.py.
//   tokenizer_tool encode FILE.json STRINGS     ids and decoded text of each string, and the ids of its
//                                               pair with the next one
//   tokenizer_tool train KIND SIZE OUT.json TEXT   trains on the lines of a text
//   tokenizer_tool time FILE.json TEXT          microseconds of the fastest of several runs over a whole text
// STRINGS has 4 bytes of length, little-endian, before each string.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

import lamina;

using namespace lamina;

namespace {

std::string read(const char* path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}
void print(const std::vector<std::int64_t>& ids) {
  for (const auto id : ids) std::printf("%lld ", static_cast<long long>(id));
  std::printf("|");
}
void print_hex(const std::string& s) {
  for (const char c : s) std::printf("%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
}

int encode(const char* json, const char* strings) {
  const auto t = load_tokenizer(json);
  const std::string all = read(strings);
  std::vector<std::string> list;
  for (std::size_t i = 0; i + 4 <= all.size();) {
    std::uint32_t n = 0;
    std::memcpy(&n, all.data() + i, 4);
    list.push_back(all.substr(i + 4, n));
    i += 4 + n;
  }
  const encode_options o{.special = true, .on_invalid = invalid_utf8::replace};
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto ids = t.encode(list[i], o);
    print(ids);
    print(t.encode(list[i], {.special = false, .on_invalid = invalid_utf8::replace}));
    print(t.encode_pair(list[i], list[(i + 1) % list.size()], o));
    print_hex(t.decode(ids));
    std::printf("|");
    print_hex(t.decode(ids, false));
    std::printf("\n");
  }
  return 0;
}
int train(const std::string& kind, long size, const char* out, const char* file) {
  const std::string all = read(file);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < all.size();) {
    const std::size_t end = all.find('\n', i);
    lines.push_back(all.substr(i, end == all.npos ? all.npos : end - i));
    i = end == all.npos ? all.size() : end + 1;
  }
  if (kind == "bytes") bpe::train(lines, {.size = size, .special = {"<s>"}}).save(out);
  else if (kind == "plain")
    bpe::train(lines, {.size = size, .special = {"<unk>"}, .split = word_split::whitespace, .unknown = "<unk>"})
        .save(out);
  else if (kind == "words") word_level::train(lines, {.size = size, .special = {"[UNK]"}}).save(out);
  else if (kind == "wordpiece") wordpiece::train(lines, {.size = size}).save(out);
  else return 1;
  return 0;
}
int time_of(const char* json, const char* file) {
  const auto t = load_tokenizer(json);
  const std::string all = read(file);
  double least = 1e30;
  std::size_t count = 0;
  for (int i = 0; i < 15; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    count = t.encode(all).size();
    least =
        std::min(least, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::printf("%.0f %zu\n", least, count);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    if (what == "encode" && argc == 4) return encode(argv[2], argv[3]);
    if (what == "train" && argc == 6) return train(argv[2], std::stol(argv[3]), argv[4], argv[5]);
    if (what == "time" && argc == 4) return time_of(argv[2], argv[3]);
  } catch (const error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  std::fprintf(
      stderr, "usage: tokenizer_tool encode FILE.json STRINGS | train KIND SIZE OUT.json TEXT | time FILE.json TEXT\n");
  return 2;
}
