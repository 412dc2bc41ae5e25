// HTTP response.
#pragma once
#include <string>
#include <string_view>

struct reply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::string fields{};  // additional header lines, each with its line end
};

/// An error as JSON, {"error": why}.
reply refusal(int status, std::string_view why, std::string fields = {});
/// Serialized reply: header, and the body unless `head_only`. `last`: the connection closes after it.
std::string bytes_of(const reply& r, bool last, bool head_only);
