// JSON by events, without a standard header: units that import modules can include this one, and nlohmann's headers
// stay out of them (beside `import lamina.std` libstdc++'s own headers do not compile as text).
#pragma once
#include <cstddef>
#include <cstdint>

namespace lamina::json {

/// Receives a document in its order; returning false stops the parser.
struct events {
  virtual bool start_object() = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;
  virtual bool key(const char* chars, std::size_t count) = 0;
  virtual bool string(const char* chars, std::size_t count) = 0;
  virtual bool unsigned_number(std::uint64_t value) = 0;
  virtual bool other_number(const char* spelling, std::size_t count) = 0;  // negative, fractional or too large
  virtual bool negative_number(std::int64_t, const char* spelling, std::size_t count) {
    return other_number(spelling, count);
  }
  virtual bool real_number(double, const char* spelling, std::size_t count) { return other_number(spelling, count); }
  virtual bool other(const char* name) = 0;  // null, true, false
  virtual void error(std::size_t byte) = 0;  // no JSON, or no UTF-8, at this byte

 protected:
  ~events() = default;
};

/// Parses UTF-8 text in constant stack space; false where a receiver stopped it or the text is not JSON.
bool parse(const char* text, std::size_t bytes, events& receiver);

/// Hands the text to `sink` in quotes and escaped; false, with nothing handed over, where it is not UTF-8.
bool quote(const char* text, std::size_t bytes, void (*sink)(void* state, const char* chars, std::size_t count),
           void* state);

/// Hands the shortest spelling of a finite number over that is read as the same bits.
void spell(double v, void (*sink)(void* state, const char* chars, std::size_t count), void* state);

}  // namespace lamina::json
