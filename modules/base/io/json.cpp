#include "json.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace lamina::json {

namespace {

// Forwards nlohmann's events.
class bridge : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit bridge(events& receiver) : to_(receiver) {}
  bool null() override { return to_.other("null"); }
  bool boolean(bool v) override { return to_.other(v ? "true" : "false"); }
  bool number_integer(std::int64_t v) override {
    auto s = std::to_string(v);
    return to_.negative_number(v, s.data(), s.size());
  }
  bool number_unsigned(std::uint64_t v) override { return to_.unsigned_number(v); }
  bool number_float(double v, const std::string& s) override { return to_.real_number(v, s.data(), s.size()); }
  bool string(std::string& v) override { return to_.string(v.data(), v.size()); }
  bool binary(nlohmann::json::binary_t&) override { return false; }  // not part of JSON text
  bool start_object(std::size_t) override { return to_.start_object(); }
  bool key(std::string& v) override { return to_.key(v.data(), v.size()); }
  bool end_object() override { return to_.end_object(); }
  bool start_array(std::size_t) override { return to_.start_array(); }
  bool end_array() override { return to_.end_array(); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception&) override {
    to_.error(at);
    return false;
  }

 private:
  events& to_;
};

}  // namespace

bool parse(const char* text, std::size_t bytes, events& receiver) {
  bridge b(receiver);
  return nlohmann::json::sax_parse(text, text + bytes, &b);
}

bool quote(const char* text, std::size_t bytes, void (*sink)(void*, const char*, std::size_t), void* state) {
  std::string quoted;
  try {
    quoted = nlohmann::json(std::string(text, bytes)).dump();
  } catch (const nlohmann::json::type_error&) { return false; }
  sink(state, quoted.data(), quoted.size());
  return true;
}

void write_number(double v, void (*sink)(void*, const char*, std::size_t), void* state) {
  const auto spelling = nlohmann::json(v).dump();
  sink(state, spelling.data(), spelling.size());
}

}  // namespace lamina::json
