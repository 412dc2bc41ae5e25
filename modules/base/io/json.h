// Event-based JSON, without standard headers: units that import modules can include this header, whereas nlohmann's
// headers include libstdc++'s, which do not compile as text next to `import lamina.std`.
#pragma once
#include <cstddef>
#include <cstdint>

namespace lamina::json {

/// Receives the events of a document in order; returning false stops the parser.
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
  virtual void error(std::size_t byte) = 0;  // invalid JSON or UTF-8 at this byte

 protected:
  ~events() = default;
};

/// Parses UTF-8 text in constant stack space; false if the receiver stopped it or the text is not JSON.
bool parse(const char* text, std::size_t bytes, events& receiver);

/// Passes the text to `sink`, quoted and escaped; false, with nothing passed, if it is not UTF-8.
bool quote(const char* text, std::size_t bytes, void (*sink)(void* state, const char* chars, std::size_t count),
           void* state);

/// Passes `sink` the shortest spelling of a finite number that reads back to the same bits.
void write_number(double v, void (*sink)(void* state, const char* chars, std::size_t count), void* state);

}  // namespace lamina::json
