// Thousands of damaged files, the same in every run: each is read or refused with a file_error, and results are
// accessible to their last byte.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "files.h"

import lamina;

using namespace lamina;

namespace {

std::string mutated(std::string s, std::mt19937& random) {
  auto below = [&](std::size_t n) { return n ? random() % n : 0; };
  auto changes = 1 + below(4);
  for (std::size_t i = 0; i < changes && !s.empty(); ++i) {
    auto at = below(s.size());
    switch (below(8)) {
      case 0: s[at] = static_cast<char>(random()); break;
      case 1: s[at] = static_cast<char>(s[at] ^ (1 << below(8))); break;
      case 2: s[below(std::min<std::size_t>(s.size(), 16))] ^= static_cast<char>(1 << below(8)); break;
      case 3: s.resize(at); break;
      case 4: s.erase(at, 1 + below(8)); break;
      case 5: s.insert(at, 1 + below(3), "0123456789[]{}\",:-e.\\"[below(22)]); break;
      case 6: s.insert(at, s.substr(below(s.size()), below(40))); break;
      default:  // another digit: shapes and offsets that almost fit
        if (auto digit = s.find_first_of("0123456789", at); digit != s.npos)
          s[digit] = static_cast<char>('0' + below(10));
    }
  }
  return s;
}

struct outcome {
  int read = 0, refused = 0;
};

// Reads mutations of `bytes`; `use` accesses everything that was read.
template <class Read> outcome fuzz(const std::string& bytes, int count, unsigned seed, Read read) {
  test_files::folder dir;
  auto path = dir / "file";
  std::mt19937 random(seed);
  outcome result;
  for (int i = 0; i < count; ++i) {
    test_files::write_raw(path, mutated(bytes, random));
    try {
      read(path);
      ++result.read;
    } catch (const file_error& e) {
      BOOST_REQUIRE_NE(std::string(e.what()).find(path), std::string::npos);
      ++result.refused;
    }
  }
  return result;
}

std::size_t touch(const any_tensor& t) {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < t.bytes(); ++i) sum += static_cast<std::size_t>(t.data()[i]);
  return sum + t.print().size();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(io_fuzz)

BOOST_AUTO_TEST_CASE(safetensors) {
  test_files::folder dir;
  std::vector<named_tensor> tensors{{"conv.weight", any_tensor({dtype::float32, {2, 3}})},
                                    {"flag", any_tensor({dtype::boolean, {3}})},
                                    {"step", any_tensor({dtype::int64, {}})},
                                    {"empty", any_tensor({dtype::float16, {0, 4}})}};
  write_safetensors(dir / "a", tensors, {{"format", "pt"}});
  auto before = memory::counters().current;
  auto seen = fuzz(test_files::read_raw(dir / "a"), 4000, 1, [](const std::string& path) {
    for (auto& t : read_safetensors(path).tensors) touch(t.value);
  });
  // A reader cannot detect changes to names and numbers; it detects most others.
  BOOST_CHECK_GT(seen.read, 30);
  BOOST_CHECK_GT(seen.refused, 2000);
  BOOST_CHECK_EQUAL(memory::counters().current, before);
}

BOOST_AUTO_TEST_CASE(idx) {
  auto bytes = test_files::idx(8, {3, 4, 5}, std::string(60, '7'));
  auto read = [](const std::string& path) { touch(read_idx(path)); };
  auto before = memory::counters().current;
  auto plain = fuzz(bytes, 2000, 2, read);
  BOOST_CHECK_GT(plain.read, 100);
  BOOST_CHECK_GT(plain.refused, 500);

  test_files::folder dir;
  test_files::write_gzip(dir / "a", bytes);
  auto packed = fuzz(test_files::read_raw(dir / "a"), 2000, 3, read);
  BOOST_CHECK_GT(packed.read, 10);
  BOOST_CHECK_GT(packed.refused, 500);
  BOOST_CHECK_EQUAL(memory::counters().current, before);
}

BOOST_AUTO_TEST_CASE(npy_and_npz) {
  test_files::folder dir;
  const std::vector<named_tensor> arrays{{"a", any_tensor({dtype::float32, {2, 3}})},
                                         {"b", any_tensor({dtype::boolean, {3}})}};
  auto before = memory::counters().current;
  write_npy(dir / "a", arrays[0].value);
  auto known = [](auto read) {
    return [read](const std::string& path) {
      try {
        read(path);
      } catch (const unsupported_error& e) { throw file_error(e.what()); }
    };
  };
  auto one =
      fuzz(test_files::read_raw(dir / "a"), 3000, 4, known([](const std::string& path) { touch(read_npy(path)); }));
  BOOST_CHECK_GT(one.read, 100);
  BOOST_CHECK_GT(one.refused, 500);
  for (bool compressed : {false, true}) {
    write_npz(dir / "a", arrays, compressed);
    auto all = fuzz(test_files::read_raw(dir / "a"), 3000, 5, known([](const std::string& path) {
                      for (auto& t : read_npz(path)) touch(t.value);
                    }));
    BOOST_CHECK_GT(all.read, 20);
    BOOST_CHECK_GT(all.refused, 500);
  }
  BOOST_CHECK_EQUAL(memory::counters().current, before);
}

BOOST_AUTO_TEST_SUITE_END()
