// Reads event files with a separate reader: records with their checksums, and fields of the messages.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace events {

inline std::uint32_t crc32c(std::string_view bytes) {  // bit by bit
  std::uint32_t c = 0xffffffff;
  for (const char byte : bytes) {
    c ^= static_cast<unsigned char>(byte);
    for (int k = 0; k < 8; ++k) c = (c & 1) ? (c >> 1) ^ 0x82f63b78u : c >> 1;
  }
  return c ^ 0xffffffff;
}
template <class T> T number_at(std::string_view bytes, std::size_t at) {
  if (at + sizeof(T) > bytes.size()) throw std::runtime_error("a number is cut");
  T x;
  std::memcpy(&x, bytes.data() + at, sizeof x);
  return x;
}

// The records of a file; checks their checksums.
inline std::vector<std::string> records(std::string_view file) {
  const auto check = [&](std::size_t at, std::size_t count) {
    const auto mask = number_at<std::uint32_t>(file, at + count) - 0xa282ead8u;
    if ((mask >> 17 | mask << 15) != crc32c(file.substr(at, count))) throw std::runtime_error("a checksum is wrong");
  };
  std::vector<std::string> all;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = static_cast<std::size_t>(number_at<std::uint64_t>(file, at));
    check(at, 8);
    check(at + 12, length);
    all.emplace_back(file.substr(at + 12, length));
    at += 16 + length;
  }
  return all;
}

// Fields of a message by number: varints and fixed-size numbers as values, others as bytes.
struct message {
  std::multimap<int, std::string> bytes;
  std::multimap<int, std::uint64_t> numbers;
  explicit message(std::string_view m) {
    std::size_t at = 0;
    const auto varint = [&] {
      std::uint64_t x = 0;
      for (int shift = 0;; shift += 7) {
        const auto b = number_at<std::uint8_t>(m, at++);
        x |= std::uint64_t(b & 127) << shift;
        if (b < 128) return x;
      }
    };
    while (at < m.size()) {
      const auto key = varint();
      const int field = static_cast<int>(key >> 3);
      if ((key & 7) == 0) numbers.emplace(field, varint());
      else if ((key & 7) == 1) numbers.emplace(field, number_at<std::uint64_t>(m, at)), at += 8;
      else if ((key & 7) == 5) numbers.emplace(field, number_at<std::uint32_t>(m, at)), at += 4;
      else if ((key & 7) == 2) {
        const auto n = static_cast<std::size_t>(varint());
        if (at + n > m.size()) throw std::runtime_error("a field is cut");
        bytes.emplace(field, m.substr(at, n));
        at += n;
      } else throw std::runtime_error("a field of an unknown kind");
    }
  }
  // The single number in a field; 0 if missing.
  std::uint64_t number(int field) const {
    if (numbers.count(field) > 1) throw std::runtime_error("a field is there twice");
    const auto found = numbers.find(field);
    return found == numbers.end() ? 0 : found->second;
  }
  double real(int field) const {
    const std::uint64_t x = number(field);
    double d;
    std::memcpy(&d, &x, sizeof d);
    return d;
  }
  const std::string& at(int field) const {
    if (bytes.count(field) != 1) throw std::runtime_error("a field is not there once");
    return bytes.find(field)->second;
  }
  // Packed doubles.
  std::vector<double> reals(int field) const {
    std::vector<double> all;
    for (std::size_t i = 0; i < at(field).size(); i += 8) all.push_back(number_at<double>(at(field), i));
    return all;
  }
};

struct histogram {
  double min, max, count, sum, squares;
  std::vector<double> limits, counts;
};
// The contents of a file: numbers and histograms by tag and step; the step from which earlier events are purged.
struct contents {
  std::map<std::string, std::map<std::int64_t, float>> scalars;
  std::map<std::string, std::map<std::int64_t, histogram>> histograms;
  std::int64_t starts_at = 0;
  double first_time = 0;
};
inline contents read(std::string_view file) {
  contents c;
  const auto all = records(file);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const message event(all[i]);
    const auto step = static_cast<std::int64_t>(event.number(2));
    if (i == 0) {
      c.first_time = event.real(1);
      if (event.at(3) != "brain.Event:2") throw std::runtime_error("the version is " + event.at(3));
      continue;
    }
    if (event.real(1) < c.first_time) throw std::runtime_error("time goes back");
    if (event.bytes.count(7)) {
      if (message(event.at(7)).number(1) != 1) throw std::runtime_error("a session that does not start");
      c.starts_at = step;
      continue;
    }
    const message summary(event.at(5)), value(summary.at(1));
    const std::string tag = value.at(1);
    if (value.bytes.count(5)) {
      const message h(value.at(5));
      if (!c.histograms[tag]
               .emplace(step, histogram{h.real(1), h.real(2), h.real(3), h.real(4), h.real(5), h.reals(6), h.reals(7)})
               .second)
        throw std::runtime_error("a step of " + tag + " is there twice");
    } else {
      if (value.numbers.count(2) != 1) throw std::runtime_error("no number of " + tag);
      const auto bits = static_cast<std::uint32_t>(value.number(2));
      float x;
      std::memcpy(&x, &bits, sizeof x);
      if (!c.scalars[tag].emplace(step, x).second) throw std::runtime_error("a step of " + tag + " is there twice");
    }
  }
  return c;
}

}  // namespace events
